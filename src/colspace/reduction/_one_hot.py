"""Columns of zeros and ones of which a row has one 1: filled, they still sum to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from .._containers import as_table

Array = NDArray[np.float64]


def one_hot_groups(X: Any) -> list[slice]:
    """Runs of columns that lack their cells together and of which every other row has exactly one 1.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.reduction._one_hot import one_hot_groups
    >>> gap = np.nan
    >>> one_hot_groups(np.array([[5.0, 1, 0, 0], [gap, 0, 0, 1], [7.0, gap, gap, gap], [8.0, 0, 1, 0]]))
    [slice(1, 4, None)]
    """
    values = np.asarray(as_table(X).values)
    if values.dtype.kind != "f":
        return []
    found: list[slice] = []
    start, width = 0, values.shape[1]
    while start < width:
        end = _run(values, start)
        if end:
            found.append(slice(start, end))
        start = end or start + 1
    return found


def _run(values: Array, start: int) -> int:
    """Where the columns from ``start`` on first sum to one in all rows that have them, or zero."""
    gaps = np.isnan(values[:, start])
    total = np.zeros(np.count_nonzero(~gaps))
    if gaps.any() and len(total):
        for j in range(start, values.shape[1]):
            cells = values[~gaps, j]
            total += cells
            plain = (cells == 0) | (cells == 1)
            if not plain.all() or not np.isnan(values[gaps, j]).all() or total.max() > 1:
                break
            if j > start and total.min() == 1:
                return j + 1
    return 0


def summed_to_one(filled: Any, X: Any, groups: Sequence[slice]) -> Any:
    """The filled table, with what stands in the gaps of each group scaled so that its rows sum to one.

    Means of the columns one by one miss it by a little, and a direction along which nothing else varies would
    see the rows with gaps alone.
    """
    if not groups:
        return filled
    before, after = (np.asarray(as_table(table).values) for table in (X, filled))
    for group in groups:
        rows = np.flatnonzero(np.isnan(before[:, group]).any(axis=1))
        if len(rows):
            part = np.asarray(after[rows, group], dtype=np.float64)
            filled = _replaced(filled, rows, group, _scaled(part, np.isnan(before[rows, group])))
    return filled


def _scaled(part: Array, gaps: NDArray[np.bool_]) -> Array:
    """Rows whose cells in the gaps are what the others leave of one, in the proportions that they have."""
    guess = np.where(gaps, np.maximum(part, 0.0), 0.0)
    total = guess.sum(axis=1, keepdims=True)
    guess = np.divide(guess, total, out=gaps / gaps.sum(axis=1, keepdims=True), where=total > 0)
    known = np.where(gaps, 0.0, part)
    return known + guess * np.maximum(1.0 - known.sum(axis=1, keepdims=True), 0.0)


def _replaced(table: Any, rows: NDArray[np.intp], group: slice, cells: Array) -> Any:
    """The table, an array or a frame, with other cells in some rows of some columns."""
    if not hasattr(table, "columns"):
        table[rows, group] = cells
        return table
    frame = nw.from_native(table, eager_only=True)
    made = []
    for name, new in zip(frame.columns[group], cells.T, strict=True):
        column = frame[name].to_numpy().astype(np.float64)
        column[rows] = new
        made.append(nw.new_series(name, column, nw.Float64, backend=frame.implementation))
    return frame.with_columns(*made).to_native()
