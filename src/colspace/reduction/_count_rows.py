"""Rows on which directions are counted: a sample by what rows hold, copies merged, dealt into folds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import chunk_rows
from ._auto_rows import RowKeys, SamplePlan
from ._count import deal_folds
from ._ridge import ResponseMap
from ._source import Source

Array = NDArray[np.float64]
Index = NDArray[np.intp]

#: Rows of the sample, at most; fewer where they would take more than the bytes.
SAMPLE_ROWS = 20_000
_SAMPLE_BYTES = 256 << 20
_LEAST_ROWS = 500


def fold_rows(source: Source, columns: Index, seed: int = 0) -> tuple[Source, Index]:
    """The source's rows, or a sample of them, each once with the weight of its copies; and their folds."""
    if source.dask:
        sample = source.reduce(SamplePlan(row_keys(source, columns, seed), most_rows(source)))
        drawn = replace(source, X=sample.X, y=sample.Y, weights=sample.weights, start=None)
    else:
        kept, weights = distinct_rows(source, columns, seed)
        drawn = replace(rows_of(source, kept), weights=weights)
    return drawn, deal_folds(classes_of(drawn.y, labels=source.encoder.labels), len(drawn.y))


def distinct_rows(source: Source, columns: Index, seed: int = 0) -> tuple[Index, Array | None]:
    """Rows of a table in memory, or a sample of them, in the order of their keys, and the weights of their copies."""
    keys, most = row_keys(source, columns, seed), most_rows(source)
    step = chunk_rows(source.X)
    starts = range(0, source.X.shape[0], step)
    found = np.concatenate([keys(source.X[i : i + step], source.y[i : i + step]) for i in starts])
    kept = np.arange(len(found)) if len(found) <= most else smallest(found, most)
    w = None if source.weights is None else source.weights[kept]
    ranks = row_ranks(found[kept], source.X[kept], source.y[kept])
    _, first = np.unique(ranks, return_index=True)
    if len(first) == len(ranks):
        return kept[first], None if w is None else w[first]
    return kept[first], np.bincount(ranks, w).astype(np.float64)


def row_keys(source: Source, columns: Index, seed: int = 0) -> RowKeys:
    """Keys of rows in the units of standardised columns and responses."""
    table = source.columns()
    inverse, y_inverse = (_inverse(np.sqrt(v)) for v in (table.x.variance[columns], table.y.variance))
    return RowKeys(
        columns, table.x.mean[columns], inverse, ResponseMap(table.y.mean, np.diag(y_inverse)), seed
    )


def most_rows(source: Source) -> int:
    """Rows that a sample of this table may have."""
    return max(_LEAST_ROWS, min(SAMPLE_ROWS, _SAMPLE_BYTES // (8 * source.X.shape[1])))


def smallest(keys: NDArray[np.uint64], most: int) -> Index:
    """Rows of the ``most`` smallest different keys, unless keys are so few that these are many more rows."""
    different = np.unique(keys)
    kept = np.flatnonzero(keys <= different[min(most, len(different)) - 1])
    return kept if len(kept) <= 2 * most else np.sort(np.argsort(keys, kind="stable")[:most])


def row_ranks(keys: NDArray[np.uint64], X: Any, Y: Array) -> Index:
    """Places of rows in the order of keys, then of what they hold; equal rows share one."""
    _, rank, copies = np.unique(keys, return_inverse=True, return_counts=True)
    tied = np.flatnonzero(copies[rank] > 1)
    if not len(tied):
        return rank
    rows = X[tied]
    if sparse.issparse(rows):
        rows = rows.tocsr()[:, np.unique(rows.tocsr().indices)].toarray()
    held = np.zeros(len(keys), dtype=np.intp)
    held[tied] = np.unique(np.hstack([rows, Y[tied]]), axis=0, return_inverse=True)[1].ravel()
    return np.unique(rank * (len(keys) + 1) + held, return_inverse=True)[1]


def rows_of(source: Source, rows: Index) -> Source:
    """Some rows of a table in memory."""
    w = None if source.weights is None else source.weights[rows]
    return replace(source, X=source.X[rows], y=source.y[rows], weights=w)


def classes_of(Y: Array, *, labels: bool) -> Index | None:
    """Class codes of rows of indicators; None for numbers."""
    if not labels:
        return None
    return (Y[:, 0] > 0).astype(np.intp) if Y.shape[1] == 1 else np.argmax(Y, axis=1)


def _inverse(scale: Array) -> Array:
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
