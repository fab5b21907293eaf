"""Tiles of rows in whitened coordinates of all blocks, rows of a fold together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import workspace
from ._auto_rows import RowKeys
from ._ridge import ResponseMap, Ridge
from ._tiles import block_slices, rows_along, tiles

Array = NDArray[np.float64]

FOLDS = 5


@dataclass(frozen=True)
class FoldedRows:
    """Centred rows, mapped responses and weights of a tile; those of fold k end at ``ends[k]``. It lasts until the next."""

    Z: Any
    V: Array
    w: Array
    ends: tuple[int, ...]


def folded_tiles(
    X: Any, Y: Array, weights: Array | None, joint: Ridge, response: ResponseMap, keys: RowKeys | None
) -> Iterator[FoldedRows]:
    """A chunk in tiles; without keys rows stay where they are, in one fold."""
    for rows, Z in tiles(X, joint.axes.columns, joint.axes.mean):
        V = response(Y[rows])
        w = np.ones(len(V)) if weights is None else weights[rows]
        if keys is None:
            yield FoldedRows(Z, V, w, (len(V),))
            continue
        fold = (keys.of_rows(Z, V) % np.uint64(FOLDS)).astype(np.uint8)
        order = np.argsort(fold, kind="stable")
        ends = tuple(np.cumsum(np.bincount(fold, minlength=FOLDS)).tolist())
        if sparse.issparse(Z):
            Z = Z[order]
        else:
            Z = np.take(Z, order, axis=0, out=workspace("auto.folded", Z.shape), mode="clip")
        yield FoldedRows(Z, V[order], w if weights is None else w[order], ends)


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
