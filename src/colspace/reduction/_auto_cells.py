"""Sums of tiles of whitened rows by cell, a fold or a group of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._rows import workspace
from ..moments import TripleMoments, add_gram
from ._auto_groups import GroupPart, GroupParts

Array = NDArray[np.float64]
Index = NDArray[np.intp]


# numbers that a row of a tile is multiplied by, up to which all sums of a group are one product
_NARROW = 256


class CellTotals:
    """Where sums of p coordinates a, q residuals r and (for groups) v responses grow in every cell, tile by tile.

    ``blocks``: coordinates of blocks, within which |r|^2 |a|^2 a a' is added too. Sums of narrow groups are parts of one,
    of (a, r, 1) w (a, a r_1, ..., a r_q, |r|^2 |a|^2 a, r, v, 1)'.
    """

    def __init__(
        self, cells: int, p: int, q: int, v: int, weighted: bool, blocks: tuple[slice, ...] = ()
    ) -> None:
        self.cells, self.weighted, self.blocks = cells, weighted, blocks
        self.rows = [0] * cells
        self.count, self.x, self.y = np.zeros(cells), np.zeros((cells, p)), np.zeros((cells, q))
        self.yy, self.xy = np.zeros((cells, q, q)), np.zeros((cells, p, q))
        self.xx, self.xyx = np.zeros((cells, p, p)), np.zeros((cells, q, p, p))
        self.cross, self.response = np.zeros((cells, p, v)), np.zeros((cells, v))
        self.noise = [np.zeros((cells, s.stop - s.start, s.stop - s.start)) for s in blocks]
        self.narrow = v > 0 and p * (1 + q) <= _NARROW
        self.start = p * (1 + q + bool(blocks))  # of the columns that are no products of a
        self.whole = np.zeros((cells, p + q + 1, self.start + q + v + 1) if self.narrow else 0)

    def add(self, A: Array, R: Array, V: Array, w: Array, ends: tuple[int, ...]) -> None:
        """Rows of a tile, those of a cell together."""
        if self.narrow:
            self._add_narrow(A, R, V, w, ends)
            return
        W = R * w[:, None]
        dealt = self.cross.shape[2] > 0
        U = (V * w[:, None] if self.weighted else V) if dealt else V
        size = _sizes(A, R) if self.blocks else None
        start = 0
        for k, end in enumerate(ends):
            if start == end:
                continue
            s = slice(start, end)
            start = end
            a, v = A[s], w[s]
            self.rows[k] += int(np.count_nonzero(v))
            self.count[k] += v.sum()
            self.x[k] += v @ a
            if W.shape[1]:
                self.y[k] += W[s].sum(axis=0)
                self.yy[k] += R[s].T @ W[s]
                self.xy[k] += a.T @ W[s]
            add_gram(self.xx[k], a, v if self.weighted else None)
            for j in range(R.shape[1]):
                add_gram(self.xyx[k, j], a, W[s, j])
            if size is not None:
                for total, b in zip(self.noise, self.blocks, strict=True):
                    add_gram(total[k], a[:, b], size[s] * v)
            if dealt:
                self.cross[k] += a.T @ U[s]
                self.response[k] += U[s].sum(axis=0)

    def _add_narrow(self, A: Array, R: Array, V: Array, w: Array, ends: tuple[int, ...]) -> None:
        """The same for narrow groups."""
        (n, p), q = A.shape, R.shape[1]
        left = workspace("auto.left", (n, p + q + 1))
        left[:, :p], left[:, p : p + q], left[:, -1] = A, R, 1.0
        right = workspace("auto.right", (n, self.whole.shape[2]))
        right[:, :p] = A
        for j in range(q):
            np.multiply(A, R[:, j, None], out=right[:, (j + 1) * p : (j + 2) * p])
        start = self.start
        if self.blocks:
            np.multiply(A, _sizes(A, R)[:, None], out=right[:, start - p : start])
        right[:, start : start + q], right[:, start + q : -1], right[:, -1] = R, V, 1.0
        if self.weighted:
            right *= w[:, None]
        start = 0
        for k, end in enumerate(ends):
            if start < end:
                self.rows[k] += int(np.count_nonzero(w[start:end]))
                self.whole[k] += left[start:end].T @ right[start:end]
            start = end

    def _take_apart(self) -> None:
        """The sums of narrow groups from those of all."""
        p, q = self.xy.shape[1:]
        rows, start = self.whole, self.start
        self.xx[:] = rows[:, :p, :p]
        for j in range(q):
            self.xyx[:, j] = rows[:, :p, (j + 1) * p : (j + 2) * p]
        for total, b in zip(self.noise, self.blocks, strict=True):
            total[:] = rows[:, b, start - p + b.start : start - p + b.stop]
        self.xy[:], self.cross[:] = rows[:, :p, start : start + q], rows[:, :p, start + q : -1]
        self.yy[:] = rows[:, p : p + q, start : start + q]
        self.x[:], self.y[:] = rows[:, -1, :p], rows[:, -1, start : start + q]
        self.response[:], self.count[:] = rows[:, -1, start + q : -1], rows[:, -1, -1]

    def add_unsorted(self, A: Array, R: Array, V: Array, w: Array, cell: Index) -> None:
        """Rows of a tile in any order."""
        order = np.argsort(cell, kind="stable")
        ends = tuple(np.cumsum(np.bincount(cell, minlength=self.cells)).tolist())
        self.add(A[order], R[order], V[order], w[order], ends)

    def moments(self) -> tuple[TripleMoments, ...]:
        """What was added."""
        if self.narrow:
            self._take_apart()
        p, q = self.xy.shape[1:]
        for grams in (self.xyx.reshape(-1, p, p), self.xx, *self.noise):
            for i in range(grams.shape[1]):  # from their lower halves
                grams[:, :i, i] = grams[:, i, :i]
        shift_x, shift_y, slices = np.zeros(p), np.zeros(q), (slice(0, p),)
        return tuple(
            TripleMoments(
                shift_x=shift_x,
                shift_y=shift_y,
                scale_y=1.0,
                slices=slices,
                rows=self.rows[k],
                count=float(self.count[k]),
                x=self.x[k],
                y=self.y[k],
                yy=self.yy[k],
                xy=self.xy[k],
                xx={(0, 0): self.xx[k]},
                xyx={(0, 0): self.xyx[k]} if q else {},
            )
            for k in range(self.cells)
        )

    def noise_sums(self) -> Array:
        """The noise of all cells, blocks on the diagonal; after ``moments`` or ``groups``."""
        p = self.blocks[-1].stop if self.blocks else 0
        noise = np.zeros((p, p))
        for b, total in zip(self.blocks, self.noise, strict=True):
            noise[b, b] = total.sum(axis=0)
        return noise

    def groups(self) -> GroupParts:
        """What was added to cells that have rows."""
        found = self.moments()
        return GroupParts(
            {
                k: GroupPart(
                    found[k],
                    self.cross[k],
                    self.response[k],
                    np.zeros(0),
                    {b: total[k] for b, total in enumerate(self.noise)},
                )
                for k in range(self.cells)
                if self.rows[k]
            }
        )


def _sizes(A: Array, R: Array) -> Array:
    """|r|^2 |a|^2 of every row."""
    return np.einsum("ij,ij->i", R, R) * np.einsum("ij,ij->i", A, A)
