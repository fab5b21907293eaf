"""When a fitted copula is corrected where columns bend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._random import generator
from ._curved import LEARN, learn_curved
from ._estep import Array
from ._fit import CopulaModel
from ._passes import DaskRows, LocalRows
from ._screen import screen_table

LEAST_GAPS = 0.01  # share of a column that is missing, from which on a forest is worth its time


def may_bend(nonlinear: bool | str, method: str, rows: Any, *, plain: bool = False) -> bool:
    """Whether a correction is to be looked for, not by itself if tables are to be ``plain``; refuses to promise one where there is none."""
    promised = nonlinear not in ("auto", "gaps")
    if not nonlinear or (plain and not promised):
        return False
    why = ""
    if method == "paper":
        why = "method='paper' has no correction; use method='ep'"
    elif not isinstance(rows, LocalRows):
        why = "X is a Dask collection, whose rows stay on the workers; fit a sample of its rows in memory"
    elif hasattr(rows.X, "tocoo"):
        why = "X is a sparse matrix, and forests need all columns of a row; give a dense table with NaN for gaps"
    if why and promised:
        msg = f"nonlinear={nonlinear!r}, but {why}, or nonlinear='auto' or False"
        raise ValueError(msg)
    return not why


def spared_columns(rows: LocalRows | DaskRows, nonlinear: bool | str, p: int) -> NDArray[np.bool_]:
    """Columns for which no forest is looked for: none, all, or with "gaps" those of which less than ``LEAST_GAPS`` is missing."""
    if nonlinear != "gaps" or not isinstance(rows, LocalRows) or p == 0:
        return np.full(p, not nonlinear)
    return np.asarray(np.average(np.isnan(rows.X), axis=0, weights=rows.weight) < LEAST_GAPS)


def bent(
    rows: LocalRows | DaskRows,
    model: CopulaModel,
    random_state: Any,
    *,
    screen: bool,
    apart: Any = None,
    levels: Any = None,
) -> tuple[CopulaModel, bool]:
    """The model with corrections, as it is where nothing pays; and whether they were looked for, or ``screen`` has found that nothing bends.

    Columns ``apart`` are not tested, ``levels`` (None: those) not corrected.
    """
    if not isinstance(rows, LocalRows) or len(model.columns) < 2:
        return model, False
    rng = generator(random_state)  # of its own: what the fit has drawn stays as it is
    X, weight = distinct_rows(*sampled(rows.X, rows.weight, rng))
    if screen and not screen_table(X, model, weight, rng, apart).curved:
        return model, False
    left_out = apart if levels is None else levels
    return replace(model, curved=learn_curved(X, model, weight, rng, left_out, wide=apart is not None)), True


def sampled(X: Array, weight: Array | None, rng: np.random.Generator) -> tuple[Array, Array | None]:
    """At most as many rows as forests learn from."""
    n = len(X)
    if n <= LEARN:
        return X, weight
    some = np.sort(rng.choice(n, LEARN, replace=False))
    return X[some], None if weight is None else weight[some]


def distinct_rows(X: Array, weight: Array | None) -> tuple[Array, Array | None]:
    """Rows that differ, and how often each occurs, or its weight (None: all once).

    A row that is there twice would be in the bag and outside of it at once.
    """
    plain = np.ascontiguousarray(np.where(np.isnan(X), np.nan, X + 0.0), dtype=np.float64)
    whole = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    count = np.bincount(which.ravel(), weight, len(first)).astype(np.float64)
    return X[first], None if (count == 1).all() else count
