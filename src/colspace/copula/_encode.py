"""From numbers with gaps to observed cells."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..moments import QuantileSummary, column_quantiles, quantile_summary, weighted_unique
from ._estep import THIN, Array, Index, Rows
from ._marginals import STEPPED, Chain, Distinct, place
from ._step import Block
from ._values import Column

_SMALL, _LARGE = 1 << 14, 1 << 17  # entries of the dense table of a block that is well cached, or still is
_ROWS = 1024  # whose matrices of factors are worth being inverted together
_PACKED = 1 << 20  # entries of those matrices


@dataclass(frozen=True)
class KnownRows:
    """Observed cells of new rows and their values: exact ones with their z, the others with their level."""

    rows: Rows
    exact: Index
    z: Array
    censored: Index
    level: Index
    x: Array


def is_thin(X: Any) -> bool:
    """Whether a sparse table has so few cells that its products stay sparse."""
    return sparse.issparse(X) and X.nnz < THIN * X.shape[0] * X.shape[1]


def rows_per_block(p: int, k: int, *, thin: bool = False) -> int:
    """Rows whose dense table takes .125 MB, or about 1,024 if that is under 1 MB, and whose packed factors take 8 MB at most.

    ``thin``: about 1,024, since there is no dense table.
    """
    cells = max(_SMALL // max(p, 1), _ROWS if thin else min(_ROWS, _LARGE // max(p, 1)))
    return max(16, min(cells, _PACKED // (k * (k + 1) // 2)))


def distinct_values(X: Any, weight: Array | None = None) -> list[Distinct]:
    """Sorted distinct observed values of each column, and their counts or sums of weights."""
    return [Distinct(*weighted_unique(x, w)) for x, w in _by_column(X, weight)]


def cell_quantiles(X: Any, weight: Array | None = None) -> QuantileSummary:
    """The same as a summary that merges."""
    if sparse.issparse(X):
        return QuantileSummary(tuple(column_quantiles(x, w) for x, w in _by_column(X, weight)))
    return quantile_summary(X, weight)


def _by_column(X: Any, weight: Array | None) -> Iterator[tuple[Array, Array | None]]:
    """Observed values of each column and the weights of their rows."""
    if sparse.issparse(X):
        table = X.tocsc()
        for a, b in zip(table.indptr[:-1], table.indptr[1:], strict=True):
            yield table.data[a:b], None if weight is None else weight[table.indices[a:b]]
    else:
        for column in X.T:
            seen = ~np.isnan(column)
            yield column[seen], None if weight is None else weight[seen]


def observed_cells(X: Any) -> tuple[Rows, Array]:
    """Observed cells in row order, and their values."""
    n, p = X.shape
    if sparse.issparse(X):
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        return Rows(n, p, row, X.indices.astype(np.intp)), X.data
    row, column = map(
        np.ascontiguousarray, np.nonzero(~np.isnan(X))
    )  # as they come they are every second of an array
    return Rows(n, p, row, column), X[row, column]


def by_column(rows: Rows) -> Iterator[tuple[int, Index]]:
    """Column and positions of its cells, for columns that have any."""
    order = np.argsort(rows.column.astype(np.uint16 if rows.p <= 65_536 else np.int64), kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows.column, minlength=rows.p))])
    for j in range(rows.p):
        if ends[j] < ends[j + 1]:
            yield j, order[ends[j] : ends[j + 1]]


def level_index(chain: Chain, j: int, x: Array) -> tuple[NDArray[np.bool_], Index]:
    """Which values of column j are levels, and which levels of the whole chain."""
    levels = chain.level_value[chain.levels(j)]
    if not len(levels):
        return np.zeros(len(x), dtype=bool), np.zeros(0, dtype=np.intp)
    at = np.minimum(np.searchsorted(levels, x), len(levels) - 1)
    found = levels[at] == x
    return found, chain.level_start[j] + at[found]


@lru_cache(maxsize=1)
def _numbers(bits: int) -> Index:
    found = np.arange(1 << bits)
    found.flags.writeable = False
    return found


def counting(n: int) -> Index:
    """0, 1, ..., n - 1, in memory that all blocks share."""
    return _numbers(max(n, 1).bit_length())[:n]


def training_block(X: Any, chain: Chain, weight: Array | None = None) -> Block:
    """Cells of some rows, with their nodes and levels."""
    rows, x = observed_cells(X)
    cells = len(x)
    is_level = np.zeros(cells, dtype=bool)
    node, part, level = np.zeros(cells, np.intp), np.zeros(cells), np.zeros(cells, np.intp)
    for j, where in by_column(rows):
        rest = where
        if chain.kinds[j] != "continuous":
            found, which = level_index(chain, j, x[where])
            is_level[where] = found
            level[where[found]] = which
            rest = where[~found]
        if len(rest):
            nodes = chain.nodes(j)
            node[rest], part[rest] = place(x[rest], chain.x[nodes])
            node[rest] += nodes.start
    exact, censored = (
        counting(cells) if not is_level.any() else np.flatnonzero(~is_level),
        np.flatnonzero(is_level),
    )
    none = np.zeros(len(censored))
    return Block(rows, exact, node[exact], part[exact], censored, level[censored], none, none, weight)


class UnseenValueError(ValueError):
    """A value that the fitted column cannot have."""


def known_rows(X: Any, chain: Chain, columns: Sequence[Column], labels: Sequence[Hashable]) -> KnownRows:
    """Cells of new rows; values between or beyond those of the fit have their place, unseen levels have none."""
    rows, x = observed_cells(X)
    cells = len(x)
    is_level = np.zeros(cells, dtype=bool)
    z, level = np.zeros(cells), np.zeros(cells, np.intp)
    for j, where in by_column(rows):
        column, rest = columns[j], where
        if column.kind != "continuous":
            found, which = level_index(chain, j, x[where])
            is_level[where] = found
            level[where[found]] = which
            rest = where[~found]
        if not len(rest):
            continue
        if column.kind in STEPPED:
            if column.kind != "count":
                raise UnseenValueError(_unseen(labels[j], x[rest[0]], column))
            near = np.abs(column.levels[:, None] - x[rest]).argmin(axis=0)
            is_level[rest] = True
            level[rest] = chain.level_start[j] + near
            continue
        if column.kind != "continuous":
            _check_limits(labels[j], x[rest], column)
        z[rest] = column.latent(x[rest])
    exact, censored = np.flatnonzero(~is_level), np.flatnonzero(is_level)
    return KnownRows(rows, exact, z[exact], censored, level[censored], x)


def _check_limits(label: Hashable, x: Array, column: Column) -> None:
    low = column.x[0] if column.kind in ("lower", "two-sided") else -np.inf
    high = column.x[-1] if column.kind in ("upper", "two-sided") else np.inf
    outside = (x < low) | (x > high)
    if outside.any():
        msg = (
            f"column {label!r}: value {x[outside][0]:g} is beyond the limit of a {column.kind} truncated column "
            f"({low:g} to {high:g} in fit); fit on rows that have it, or make the column 'continuous'"
        )
        raise UnseenValueError(msg)


def _unseen(label: Hashable, value: float, column: Column) -> str:
    return (
        f"column {label!r}: value {value:g} is not among the levels seen in fit "
        f"({', '.join(f'{v:g}' for v in column.levels[:8])}{', ...' if len(column.levels) > 8 else ''}); "
        "fit on rows that have it, or make the column 'count' or 'continuous'"
    )
