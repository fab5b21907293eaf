"""The numbers behind the pictures of gaps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._containers import absent
from ..copula._codecs import column_index
from ..copula._predict import dense
from ..copula._table import encode_table
from ._style import divided, open_axes

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

LEVELS = ("ordinal", "binary", "nominal")  # drawn as bars


@dataclass(frozen=True)
class HeldOut:
    """A table with gaps, the values that were hidden and those that were filled in, as floats."""

    labels: tuple[Hashable, ...]
    kinds: tuple[str, ...]
    observed: Array
    true: Array
    cells: Mask

    def scaled(self, values: Array) -> Array:
        """Standard deviations from the median of the column's observed cells."""
        return (values - np.nanmedian(self.observed, axis=0)) / self.spread

    @property
    def spread(self) -> Array:
        """Standard deviations of the columns' observed cells, 1 where they are all equal."""
        deviation = np.nanstd(self.observed, axis=0)
        return np.where(deviation > 0, deviation, 1.0)


def floats(estimator: Any, X: Any) -> Array:
    """A table as floats with NaN, by what a fitted imputer knows of its columns."""
    check_is_fitted(estimator)
    return dense(encode_table(X, estimator._layout))


def held_out(estimator: Any, X: Any, complete: Any) -> HeldOut:
    """The gaps of X whose values are known in ``complete``, but not those of words."""
    observed, true = floats(estimator, X), floats(estimator, complete)
    if observed.shape != true.shape:
        msg = f"X has shape {observed.shape} and complete {true.shape}; give the same table without the gaps"
        raise ValueError(msg)
    cells = np.isnan(observed) & ~np.isnan(true)
    cells[:, [kind == "nominal" for kind in estimator.kinds_]] = (
        False  # words are not far from each other, or near
    )
    if not cells.any():
        msg = "no cell is missing in X and known in complete; mask some cells of a table to see how they are filled"
        raise ValueError(msg)
    return HeldOut(estimator._layout.labels, estimator.kinds_, observed, true, cells)


def chosen_columns(columns: Any, labels: Sequence[Hashable]) -> list[int]:
    """Positions of columns given by name or position, one or several."""
    single = isinstance(columns, str) or not isinstance(columns, Sequence | np.ndarray)
    return [column_index(key, labels, len(labels)) for key in ([columns] if single else columns)]


def open_panels(ax: Any, count: int, size: tuple[float, float], across: int = 3) -> list[Any]:
    """``count`` axes in a grid: of a new figure, or in the place of ``ax``."""
    if count == 1:
        return [open_axes(ax, size)]
    across = 2 if count == 4 else min(across, count)
    shape = (-(-count // across), across)
    figsize = (size[0] * 0.75 * shape[1], size[1] * 0.75 * shape[0])
    every = list(np.asarray(divided(ax, shape, figsize)).ravel())
    for spare in every[count:]:
        spare.set_axis_off()
    return every[:count]


def gap_shares(X: Any, bins: int) -> tuple[list[str], Array, Array]:
    """Column names, first row of each of some bins of rows, and share of gaps by bin and column.

    Absent cells of a sparse matrix, which is not made dense, and None, NaN and NA are gaps.
    """
    if sparse.issparse(X):
        table = sparse.csr_array(X)
        there = sparse.csr_array((~np.isnan(table.data.astype(float)), table.indices, table.indptr), X.shape)
        names = [str(j) for j in range(X.shape[1])]
    else:
        names, gaps = _gaps(X)
        there = ~gaps
    rows = there.shape[0]
    if not rows or not names:
        msg = f"X has shape {there.shape}; there is nothing to draw"
        raise ValueError(msg)
    edges = np.linspace(0, rows, min(bins, rows) + 1).round().astype(np.intp)
    place = np.searchsorted(edges, np.arange(rows), side="right") - 1
    sums = sparse.csr_array((np.ones(rows), (place, np.arange(rows))), (len(edges) - 1, rows))
    counts = sums @ there.astype(np.float64)
    counts = counts.toarray() if sparse.issparse(counts) else np.asarray(counts)
    return names, edges[:-1].astype(np.float64), 1.0 - counts / np.diff(edges)[:, None]


def _gaps(X: Any) -> tuple[list[str], Mask]:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        array = np.asarray(X)
        if array.ndim != 2:
            msg = f"X must be rows x columns, got {array.ndim} dimension(s)"
            raise ValueError(msg)
        return [str(j) for j in range(array.shape[1])], absent(array)
    columns = []
    for j in range(frame.shape[1]):
        column = frame[:, j]
        gaps = column.is_null()
        if column.dtype.is_float():
            gaps = gaps | column.is_nan()
        columns.append(np.asarray(gaps.to_numpy(), dtype=bool))
    return [str(name) for name in frame.columns], np.column_stack(columns)
