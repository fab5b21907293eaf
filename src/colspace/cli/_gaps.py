"""Tables with gaps that are reduced: filled first, by a model that stays with the reduction."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._table import Parts

_ERRORS = ("components_error_", "loadings_error_", "expected_error_", "errors_note_")


def holey(estimator: Any, seed: int) -> Any:
    """A model that fills gaps before it reduces."""
    from ..copula import CopulaImputer
    from ..reduction import HoleyReduction

    return HoleyReduction(CopulaImputer(nonlinear="gaps", random_state=seed), estimator, random_state=seed)


def adopted(model: Any, estimator: Any) -> Any:
    """The fitted model with the estimator as its reducer, which knows what that learned, with errors that know of the gaps."""
    vars(estimator).update(vars(model.reducer_))
    vars(estimator).update({name: getattr(model, name) for name in _ERRORS if hasattr(estimator, name)})
    model.reducer_ = estimator
    return model


def fit_filled(estimator: Any, parts: Parts, seed: int) -> tuple[Any, Parts]:
    """Fit a reduction on columns with gaps: what fills and embeds new rows, and the parts with their gaps filled."""
    model = adopted(holey(estimator, seed).fit(parts.X, parts.y), estimator)
    return model, replace(parts, X=filled(model, parts.X))


def gaps_note(X: Any, rows: int) -> str:
    """What is done to the gaps of columns, of which so many rows are learned from; empty where there are none.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.cli._gaps import gaps_note
    >>> gaps_note(pd.DataFrame({"a": [1.0, None], "b": [None, None]}), 2)
    '3 gaps in 2 columns are filled from the other columns, and count in the errors of the directions'
    >>> gaps_note(pd.DataFrame({"a": [1.0, 2.0]}), 2)
    ''
    """
    counts = X.isna().sum()
    return gaps_told(int(counts.sum()), int((counts > 0).sum()), rows)


def gaps_told(total: int, columns: int, rows: int) -> str:
    """``gaps_note`` from counts; of many rows a sample tells how to fill."""
    from ..reduction._gaps_chunks import LEARNED

    if not total:
        return ""
    of = (
        "1 gap in 1 column is"
        if total == 1
        else f"{total:,} gaps in {columns:,} column{'s' * (columns > 1)} are"
    )
    sample = f" as {LEARNED:,} rows drawn at random teach," if rows > LEARNED else ","
    counts = "counts" if total == 1 else "count"
    return f"{of} filled from the other columns{sample} and {counts} in the errors of the directions"


def refuse_empty(X: Any) -> None:
    """Refuse columns without a cell, all of them, with options that can be pasted."""
    if empty := [str(name) for name in X.columns[X.isna().all()]]:
        drop = " ".join(f"--drop {shlex.quote(name)}" for name in empty)
        msg = f"{len(empty)} column(s) have no cell: {', '.join(map(repr, empty))}. Leave them out: {drop}; or carry them along with --id"
        raise ValueError(msg)


def takes_gaps(model: Any) -> bool:
    """Whether a fitted reduction fills gaps."""
    return hasattr(model, "imputer_")


def filled(model: Any, X: Any) -> Any:
    """Columns as the reduction sees them."""
    from ..reduction._gaps_chunks import filled_by

    return filled_by(model.imputer_, X, model.one_hot_)
