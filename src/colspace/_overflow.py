"""Sums too large for float64: one error, which names the column and the value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from scipy import sparse

from ._containers import as_table
from ._rows import chunk_rows


class ColumnOverflowError(ValueError):
    """A column holds values whose squares are no longer numbers."""


def overflow_error(
    X: Any, labels: Sequence[object] | None = None, what: str = "X", **beside: Any
) -> ColumnOverflowError:
    """The error to raise when sums over the rows of X are not finite.

    ``beside``: what else is in the sums (y, sample_weight); that with the largest number is named.
    """
    column, value = _largest(X)
    for key, values in beside.items():
        if values is not None and np.asarray(values).dtype.kind in "fiu":
            _, other = _largest(values)
            if abs(other) > abs(value):
                what, value = key, other
    name = labels[column] if labels is not None and column < len(labels) else column
    where = f"column {name!r}" if what == "X" else what
    return ColumnOverflowError(
        f"{where} holds {value:g}, and sums of squares of such values overflow float64 (1.8e308). Remedies: divide "
        "the column by a constant, take its logarithm, or correct the cell"
    )


def finite_result(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a fitted model and rows that refuses rows, by column, so far off that its result overflows."""

    @wraps(method)
    def checked(self: Any, X: Any, *rest: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            out = method(self, X, *rest)
        if not np.isfinite(out).all():
            table = as_table(X)
            raise overflow_error(table.values, table.names)
        return out

    return checked


def _largest(X: Any) -> tuple[int, float]:
    """Column and value of the entry of largest modulus."""
    if not (X.nnz if sparse.issparse(X) else np.size(X)):
        return 0, 0.0
    if sparse.issparse(X):
        coo = X.tocoo()
        at = int(np.argmax(np.abs(coo.data)))
        return int(coo.coords[1][at]), float(coo.data[at])
    X = np.asarray(X).reshape(len(X), -1)
    found = (0, 0.0)
    step = chunk_rows(X)
    for i in range(0, len(X), step):
        part = np.nan_to_num(np.abs(X[i : i + step]), nan=0.0, posinf=np.inf)  # y may have gaps
        row, column = np.unravel_index(int(np.argmax(part)), part.shape)
        if part[row, column] >= abs(found[1]):
            found = int(column), float(X[i + row, column])
    return found
