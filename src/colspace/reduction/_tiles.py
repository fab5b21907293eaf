"""Chunks of rows in tiles that stay in a processor's cache, in memory that a thread keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import is_dask, workspace

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# numbers in a tile, and in the chunk of a Dask collection that is cut into tiles
_TILE = 1 << 18
_CHUNK = 1 << 22
_PASS = 1 << 16  # rows of an array that a thread takes at once


def tile_rows(width: int) -> int:
    """Rows of a tile: few enough for the cache, enough for products of matrices."""
    return min(4096, max(512, _TILE // max(1, width)))


def pass_rows(X: Any, width: int) -> int | None:
    """Rows of the chunks that a pass cuts into tiles, whole ones; None (the usual) for a sparse table."""
    if sparse.issparse(getattr(X, "_meta", X)):
        return None
    if is_dask(X):
        return min(1 << 16, max(2048, _CHUNK // max(1, width)))
    step = tile_rows(width)
    return max(1, _PASS // step) * step


def column_part(X: Any, columns: Index) -> Any:
    """Some columns of a table, a view where they stand together."""
    first, k = int(columns[0]), len(columns)
    if np.array_equal(columns, np.arange(first, first + k)):
        return X if k == X.shape[1] else X[:, first : first + k]
    return X[:, columns]


def tiles(X: Any, columns: Index, mean: Array) -> Iterator[tuple[slice, Any]]:
    """Slices of rows and their columns minus the mean, each until the next; sparse rows are not centred."""
    step = tile_rows(len(columns))
    for i in range(0, max(1, X.shape[0]), step):
        rows = slice(i, min(i + step, X.shape[0]))
        part = column_part(X[rows], columns)
        if not sparse.issparse(part):
            part = np.subtract(part, mean, dtype=np.float64, out=workspace("auto.rows", part.shape))
        yield rows, part


def block_slices(widths: Sequence[int]) -> list[slice]:
    """Where the columns of blocks stand side by side, and of all of them last; of one block, if there is one."""
    ends = np.cumsum([0, *widths[:-1]]).tolist()
    parts = [slice(a, b) for a, b in pairwise(ends)]
    return [*parts, slice(0, widths[-1])]


def rows_along(
    Z: Any, place: slice, mean: Array, to_axes: Array, out: Array, *, flipped: bool = False
) -> Array:
    """(x - mean)' M of columns of a tile, into ``out``; ``flipped``: with rows as its columns.

    ``mean`` is that of the columns, which dense tiles have lost already.
    """
    part = Z if place == slice(0, Z.shape[1]) else Z[:, place]
    if sparse.issparse(Z):
        found = part @ to_axes - mean @ to_axes
        out[...] = found.T if flipped else found
        return out
    return np.matmul(to_axes.T, part.T, out=out) if flipped else np.matmul(part, to_axes, out=out)
