"""Tiles of rows in whitened coordinates of all blocks, rows of a fold (or of a group within a fold) together."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import workspace
from ._auto_rows import RowKeys, mixed
from ._ridge import ResponseMap, Ridge
from ._tiles import block_slices, rows_along, tiles

Array = NDArray[np.float64]
Index = NDArray[np.intp]

FOLDS = 5


@dataclass(frozen=True)
class RowDeal:
    """Rows dealt to k groups by their keys: whatever their order, chunks and container, the groups are the same.

    Equal rows have equal keys and would stay together, which is wrong for a table of few different rows; there
    (``by_key`` false) each chunk deals its rows at random, from a seed that its own numbers give.
    """

    k: int
    by_key: bool

    @property
    def nested(self) -> bool:
        """Whether groups lie within folds, so that their sums give those of the folds."""
        return self.by_key and self.k % FOLDS == 0

    def of_keys(self, keys: NDArray[np.uint64]) -> Index:
        """Groups of rows that have these keys."""
        if self.nested:
            part = keys // np.uint64(FOLDS) % np.uint64(self.k // FOLDS)
            return (keys % np.uint64(FOLDS) + np.uint64(FOLDS) * part).astype(np.intp)
        return (mixed(keys) % np.uint64(self.k)).astype(np.intp)

    def __call__(self, X: Any, keys: NDArray[np.uint64]) -> Index:
        """Groups of the rows of a chunk."""
        if self.by_key or not len(keys):
            return self.of_keys(keys)
        some = X[:: max(1, X.shape[0] // 8)]
        some = some.toarray() if sparse.issparse(some) else np.asarray(some)
        seed = zlib.crc32(np.ascontiguousarray(some, dtype=np.float64).tobytes())
        return np.random.default_rng([seed, len(keys)]).integers(self.k, size=len(keys))


@dataclass(frozen=True)
class FoldedRows:
    """Centred rows, mapped responses and weights of a tile; those of cell k end at ``ends[k]``. It lasts until the next.

    Cells are the groups where these lie within folds, or else the folds; then ``group`` numbers the rows' groups.
    """

    Z: Any
    V: Array
    w: Array
    ends: tuple[int, ...]
    group: Index | None = None


def folded_tiles(
    X: Any,
    Y: Array,
    weights: Array | None,
    joint: Ridge,
    response: ResponseMap,
    keys: RowKeys | None,
    deal: RowDeal | None = None,
) -> Iterator[FoldedRows]:
    """A chunk in tiles; without keys rows stay where they are, in one cell."""
    nested = deal is not None and deal.nested
    cells = deal.k if deal is not None and nested else FOLDS
    for rows, Z in tiles(X, joint.axes.columns, joint.axes.mean):
        V = response(Y[rows])
        w = np.ones(len(V)) if weights is None else weights[rows]
        if keys is None:
            yield FoldedRows(Z, V, w, (len(V),))
            continue
        found = keys.of_rows(Z, V)
        cell = deal.of_keys(found) if deal is not None and nested else found % np.uint64(FOLDS)
        cell = cell.astype(np.min_scalar_type(cells))  # small integers are sorted by counting
        order = np.argsort(cell, kind="stable")
        ends = tuple(np.cumsum(np.bincount(cell, minlength=cells)).tolist())
        group = None if deal is None or nested else deal(Z, found)[order]
        if sparse.issparse(Z):
            Z = Z[order]
        else:
            Z = np.take(Z, order, axis=0, out=workspace("auto.folded", Z.shape), mode="clip")
        yield FoldedRows(Z, V[order], w if weights is None else w[order], ends, group)


@dataclass(frozen=True)
class Whitener:
    """Whitened coordinates of all blocks side by side, (x - mean)' M of every block."""

    ridges: tuple[Ridge, ...]
    places: tuple[slice, ...]  # columns of the blocks among those of all
    parts: tuple[slice, ...]  # coordinates of the blocks among those of all
    maps: tuple[Array, ...]

    @classmethod
    def of(cls, ridges: tuple[Ridge, ...]) -> Whitener:
        """Of the blocks' ridges."""
        shapes = np.array([ridge.axes.map.shape for ridge in ridges])
        places, parts = (block_slices([*k.tolist(), int(k.sum())])[:-1] for k in shapes.T)
        maps = tuple(ridge.axes.map / ridge.root for ridge in ridges)
        return cls(ridges, tuple(places), tuple(parts), maps)

    def __call__(self, Z: Any) -> Array:
        """Coordinates of a tile, until the next."""
        A = workspace("auto.white", (Z.shape[0], self.parts[-1].stop))
        for ridge, place, part, to_axes in zip(self.ridges, self.places, self.parts, self.maps, strict=True):
            rows_along(Z, place, ridge.axes.mean, to_axes, A[:, part])
        return A
