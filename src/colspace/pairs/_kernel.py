"""Nadaraya-Watson over pairs with a separable Gaussian kernel: three matrix products, in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist

from ._links import Links

Array = NDArray[np.float64]
Index = NDArray[np.intp]

CHUNK = 2**25  # numbers in one chunk of a kernel (256 MB)
_ROWS = 4096  # left entities in one chunk at most
_SAMPLE = 1000  # entities behind a median distance
_FARTHEST = 1e150  # in widths; products of it are numbers
_NEAR = 1e3  # in widths; single precision holds distances up to this
_TILE = 2**20  # numbers of a kernel that stay in the cache while it is made
LARGE = 4000  # entities of a side from which kernels are in single precision
TOL = 1e-5  # and weights under this share of their row's largest are dropped
_TILED = 256  # left entities in one block where the right kernel is sparse
_FEW = 0.04  # share of weights up to which a sparse kernel is the faster one
_PROBES = 64  # entities that tell the share
UNREACHED = 1e-290  # sums of weights up to this have lost their digits to underflow


def excess_distances(E: Array, F: Array, unit: float = 1.0, precision: Any = np.float64) -> Any:
    """Squared distances, in ``unit``, of the rows of E from those of F beyond the least of each row, in one product.

    ||e||^2 is the same along a row, so it is left out: entities very far away neither overflow nor lose digits.
    """
    E, F = in_units(E, unit), in_units(F, unit)
    if precision != np.float64 and max(np.abs(E).max(initial=0.0), np.abs(F).max(initial=0.0)) < _NEAR:
        E, F = E.astype(precision), F.astype(precision)
    D = E @ F.T
    D *= -2.0
    D += np.sum(F**2, axis=1)
    D -= D.min(axis=1, keepdims=True)
    return D


def in_units(E: Array, unit: float) -> Array:
    """Rows in a unit, those beyond reach brought back along their direction, which is all that counts out there."""
    size = np.abs(E).max(axis=1, initial=0.0, keepdims=True)
    far = size > _FARTHEST * unit
    return E / np.where(far, size, unit) * np.where(far, _FARTHEST, 1.0) if far.any() else E / unit


def kernel_rows(D: Array, width: float = 1.0) -> Array:
    """exp(-D / 2 width^2), in place, for excess distances: row factors cancel, and the nearest never underflows."""
    D *= -0.5 / width**2
    return np.exp(D, out=D)


def pair_weights(K: Array, links: Links) -> Array:
    """K M for the table M of how often pairs count."""
    return K @ links.counted + links.base * K.sum(axis=1, keepdims=True)


def median_distance(E: Array) -> float:
    """Median distance between entities, over at most a thousand of them; never zero."""
    distances = pdist(E[:: max(1, -(-len(E) // _SAMPLE))]) if len(E) > 1 else np.zeros(1)
    median = float(np.median(distances))
    if median > 0:
        return median
    mean = float(distances.mean())
    return mean if mean > 0 else 1.0


@dataclass(frozen=True)
class Smoother:
    """Training entities in their embedded coordinates, their links, and both kernels' widths.

    Where all pairs count once kernels have rows that sum to one, in ``precision``, and weights under ``tol`` of their
    row's largest are dropped where that leaves few: these are scaled to one, and kept sparse.
    """

    left: Array
    right: Array
    links: Links
    widths: tuple[float, float]
    tol: float = 0.0
    precision: Any = np.float64

    @cached_property
    def drops(self) -> tuple[bool, bool]:
        """Whether small weights of the left and the right kernel are dropped: samples say whether that leaves few."""
        if self.tol == 0 or self.links.counted is not None:
            return False, False
        left, right = (
            np.mean(excess_distances(X[:: max(1, -(-len(X) // _PROBES))], X, h, self.precision) <= self._far)
            for X, h in zip((self.left, self.right), self.widths, strict=True)
        )
        return bool(left <= _FEW), bool(right <= _FEW)

    @property
    def _far(self) -> float:
        """Excess distance in widths beyond which weights are dropped."""
        return float(-2 * np.log(self.tol))

    def left_sums(self, E: Array) -> tuple[Any, Any]:
        """Scores smoothed over left entities, K Y, and the weights K M; where all pairs count once rows of K sum to one."""
        if self.links.counted is not None:
            K = kernel_rows(excess_distances(E, self.left, self.widths[0]))
            return K @ self.links.scores, pair_weights(K, self.links)
        scores = self.links.scores.astype(self.precision, copy=False)
        if self.drops[0]:
            return (self._sparse(E, self.left, self.widths[0]) @ scores).toarray(), None
        return self._ones(E, self.left, self.widths[0]) @ scores, None

    def _ones(self, E: Array, F: Array, width: float) -> Any:
        K = kernel_rows(excess_distances(E, F, width, self.precision))
        K /= K.sum(axis=1, keepdims=True)
        return K

    def right_kernel(self, F: Array) -> Any:
        """Kernel of new right entities against the training ones; sparse where weights are dropped."""
        if self.links.counted is not None:
            return kernel_rows(excess_distances(F, self.right, self.widths[1]))
        make = self._sparse if self.drops[1] else self._ones
        return make(F, self.right, self.widths[1])

    def _sparse(self, E: Array, F: Array, width: float) -> Any:
        """Kernel without weights under ``tol`` of their row's largest, CSR, rows summing to one; made tile by tile.

        A row (e, 1) times (-2 f, |f|^2), in units of the width, is a row of distances but for |e|^2.
        """
        E, F = in_units(E, width), in_units(F, width)
        near = max(np.abs(E).max(initial=0.0), np.abs(F).max(initial=0.0)) < _NEAR
        precision = self.precision if near else np.float64
        rows = np.hstack([E, np.ones((len(E), 1))]).astype(precision)
        columns = np.hstack([-2 * F, np.sum(F**2, axis=1)[:, None]]).astype(precision)
        step = max(1, _TILE // len(F))
        tiles = (self._tile(rows[j : j + step] @ columns.T) for j in range(0, len(E), step))
        return sparse.vstack(list(tiles), format="csr").astype(self.precision, copy=False)

    def _tile(self, D: Any) -> Any:
        least = D.min(axis=1, keepdims=True)
        where = np.flatnonzero(least + self._far >= D)
        rows, places = np.divmod(where, D.shape[1])
        values = np.exp((least[rows, 0] - D.ravel()[where]) / 2)
        indptr = np.searchsorted(rows, np.arange(len(D) + 1))
        values /= np.add.reduceat(values, indptr[:-1])[rows]
        return sparse.csr_array((values, places.astype(np.int32), indptr), shape=D.shape)

    def combine(self, sums: tuple[Any, Any], K: Any) -> Any:
        """Predictions; a pair whose kernel reaches no observed pair gets the mean score."""
        if sparse.issparse(K):
            return (K @ np.ascontiguousarray(sums[0].T)).T
        scores = sums[0] @ K.T
        if sums[1] is None:
            return scores
        weights = sums[1] @ K.T
        reached = weights > UNREACHED
        np.divide(scores, weights, out=scores, where=reached)
        scores[~reached] = self.links.mean
        return scores

    def kept_kernel(self, F: Array, chunk: int = CHUNK) -> Any:
        """The right kernel of some entities if it is small enough to be kept, else None."""
        if self.drops[1]:
            return self.right_kernel(F)
        return self.right_kernel(F) if len(F) * self.links.shape[1] <= chunk else None

    def blocks(
        self, E: Array, F: Array, chunk: int = CHUNK, kept: Any = None
    ) -> Iterator[tuple[slice, slice, Any]]:
        """Predictions for all pairs of rows of E and F, block by block: rows, columns, scores; ``kept`` is F's kernel."""
        rows = min(_ROWS, max(1, chunk // max(self.links.shape)))
        kept = self.kept_kernel(F, chunk) if kept is None else kept
        if sparse.issparse(kept):
            rows = min(rows, _TILED)  # blocks of scores are then what takes time: they stay near the cache
        columns = max(1, chunk // max(self.links.shape[1], rows)) if kept is None else max(1, chunk // rows)
        for i in range(0, len(E), rows):
            sums = self.left_sums(E[i : i + rows])
            for j in range(0, len(F), columns):
                K = self.right_kernel(F[j : j + columns]) if kept is None else kept[j : j + columns]
                yield (
                    slice(i, min(i + rows, len(E))),
                    slice(j, min(j + columns, len(F))),
                    self.combine(sums, K),
                )

    def weights(self, e: Array, f: Array) -> Array:
        """Weight of each stored pair in the prediction for one pair, in the order of the (observed) CSR data: its kernel
        times how often it counts, over the sum of these over all pairs.

        All alike where none is reached, as the prediction is the mean then.
        """
        K = kernel_rows(excess_distances(e[None], self.left, self.widths[0]))[0]
        L = kernel_rows(excess_distances(f[None], self.right, self.widths[1]))[0]
        pattern = self.links.Y if self.links.mask is None else self.links.mask
        owner = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        each = K[owner] * L[pattern.indices] * self.links.weights_at(owner, pattern.indices)
        total = each.sum()
        if self.links.mask is None:
            total = K.sum() * L.sum() + (0.0 if self.links.extra is None else K @ (self.links.extra @ L))
        return each / total if total > UNREACHED else np.full_like(each, 1 / len(each))
