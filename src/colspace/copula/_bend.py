"""When a fitted copula is corrected where columns bend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._random import generator
from ._curved import learn_curved
from ._fit import CopulaModel
from ._passes import LocalRows
from ._screen import screen_table


def may_bend(nonlinear: bool | str, method: str, rows: Any) -> bool:
    """Whether a correction is to be looked for; refuses to promise one where there is none."""
    if not nonlinear:
        return False
    why = ""
    if method == "paper":
        why = "method='paper' has no correction; use method='ep'"
    elif not isinstance(rows, LocalRows):
        why = "X is a Dask collection, whose rows stay on the workers; fit a sample of its rows in memory"
    elif hasattr(rows.X, "tocoo"):
        why = "X is a sparse matrix, and forests need all columns of a row; give a dense table with NaN for gaps"
    if why and nonlinear != "auto":
        msg = f"nonlinear={nonlinear!r}, but {why}, or nonlinear='auto' or False"
        raise ValueError(msg)
    return not why


def bent(rows: LocalRows, model: CopulaModel, random_state: Any, *, screen: bool) -> CopulaModel:
    """The model with corrections; as it is where ``screen`` finds nothing that bends, or nothing pays."""
    if len(model.columns) < 2:
        return model
    # generators of their own: what the fit has drawn stays as it is
    if screen and not screen_table(rows.X, model, rows.weight, generator(random_state)).curved:
        return model
    return replace(model, curved=learn_curved(rows.X, model, rows.weight, generator(random_state)))
