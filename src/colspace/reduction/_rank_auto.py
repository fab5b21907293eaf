"""The rank test of moments="auto": the ridge's directions and the second moments of its leave-one-out residual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from .._blocks import Blocks
from ..factor import eigh
from ..moments import Additive, TripleMoments, TriplePlan
from ._auto_linear import Ridges, learn_ridges
from ._auto_parts import Residuals
from ._proxies import block_pairs
from ._rank_products import RowsByPasses, second_moments, shuffled, side_by_side
from ._ridge import Axes, least_ridge, ridge_paths
from ._source import Folds, Source

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ALL = frozenset(("linear", "joint", "hessian"))
# residuals with less than this share of the response's deviation are what the least ridge leaves of it
_NO_RESIDUAL = 1e-4


@dataclass(frozen=True)
class Grid:
    """Leave-one-out errors of many responses on the same rows: coordinates, ridges, and what rows lack of a leverage of one."""

    A: Array
    values: Array
    ridges: Array
    left: Array  # ridges x rows
    width: int | None

    @classmethod
    def of(cls, A: Array, axes: Axes, width: int | None) -> Grid:
        """The grid of a table's coordinates; ``width``: see ``least_ridge``."""
        (path,) = ridge_paths([axes], [np.zeros((A.shape[1], 1))], len(A))
        inverse = 1.0 / (axes.values[:, None] + path.ridges)
        left = 1.0 - (1.0 + ((A * A) @ inverse).T) / len(A)
        return cls(A, axes.values, path.ridges, np.maximum(left, 1e-14), width)

    def best(self, V: Array) -> tuple[float, Array, Array]:
        """The chosen ridge, E[a v'], and the leave-one-out residuals."""
        n, q = V.shape
        cross = self.A.T @ V / n
        weights = (cross[:, None, :] / (self.values[:, None] + self.ridges)[:, :, None]).reshape(
            len(cross), -1
        )
        fitted = (self.A @ weights).reshape(n, len(self.ridges), q)
        errors = (V[:, None, :] - fitted) / self.left.T[:, :, None]
        r2 = 1.0 - np.einsum("nlq,nlq->l", errors, errors) / (n * q)
        k = least_ridge(r2, n, self.width)
        return float(self.ridges[k]), cross, errors[:, k]


def unit_residuals(R: Array) -> Array:
    """Residuals centred and in units of their deviation; zero where there is none."""
    R = R - R.mean(axis=0)
    deviation = R.std(axis=0)
    return R * np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > _NO_RESIDUAL)


def weighted_directions(cross: Array, agreement: Array) -> Array:
    """t_k sqrt(max(rho_k, 0)) with t_k = T u_k / |T u_k|: a root of ``linear_part``."""
    rho, U = eigh((agreement + agreement.T) / 2)
    T = cross @ U
    norms = np.linalg.norm(T, axis=0)
    return T / np.where(norms > 0, norms, 1.0) * np.sqrt(np.maximum(rho, 0.0))


@dataclass(frozen=True)
class RidgedRows:
    r"""Rows along the principal axes of their blocks, with standardised responses.

    Moments of a block are :math:`[\sqrt{\rho_k}\, t_k \mid E\,r a b^\top, \ldots]` of coordinates a, b whitened by the leave-one-out
    ridge of each block: its own directions t weighted by their held-out covariances (``weighted_directions``), and second
    moments of r, the leave-one-out residual of the responses on all blocks in units of its deviation. A permutation of
    the responses has ridges and residuals of its own. ``second``: with the second moments.
    """

    blocks: tuple[Grid, ...]
    joint: Grid
    V: Array
    slices: tuple[slice, ...]
    second: bool

    @cached_property
    def _single(self) -> NDArray[np.float32]:
        return np.hstack([g.A for g in self.blocks]).astype(np.float32)

    def _moments(self, V: Array) -> tuple[list[Array], Array, float]:
        """Matrices of blocks, the roots of what coordinates were whitened by, and the ridge on all blocks."""
        found = [grid.best(V) for grid in self.blocks]
        root = np.concatenate(
            [np.sqrt(g.values + ridge) for g, (ridge, _, _) in zip(self.blocks, found, strict=True)]
        )
        linear = np.vstack(
            [
                weighted_directions(cross / root[s, None], V.T @ (V - errors) / len(V))
                for s, (_, cross, errors) in zip(self.slices, found, strict=True)
            ]
        )
        if not self.second:
            return side_by_side(linear, {}, self.slices, _ALL), root, 0.0
        ridge, _, R = self.joint.best(V) if len(self.blocks) > 1 else self._residuals(V)
        pairs = block_pairs(_ALL, len(self.blocks))[1]
        triple = second_moments(self._single, unit_residuals(R), self.slices, pairs)
        for i, j in pairs:
            triple[i, j] /= root[self.slices[i], None] * root[self.slices[j]]
        return side_by_side(linear, triple, self.slices, _ALL), root, ridge

    def _residuals(self, V: Array) -> tuple[float, Array, Array]:
        """Of one block's ridge of least error, whatever its columns say."""
        return replace(self.blocks[0], width=None).best(V)

    def observed(self) -> list[Array]:
        """Moments as they are, block by block."""
        return self._moments(self.V)[0]

    def without_response(self, rng: np.random.Generator, times: int) -> Iterator[list[Array]]:
        """Moments after the responses were permuted."""
        for _ in range(times):
            yield self._moments(self.V[rng.permutation(len(self.V))])[0]

    def rotate(self, bases: Sequence[Array]) -> RotatedRows:
        """The whitened rows in other orthonormal coordinates, the ridges as they are."""
        _, root, ridge = self._moments(self.V)
        Z = [g.A / root[s] @ U for g, s, U in zip(self.blocks, self.slices, bases, strict=True)]
        penalty = np.zeros((self.slices[-1].stop, self.slices[-1].stop))
        for s, U in zip(self.slices, bases, strict=True):
            penalty[s, s] = (U.T / root[s] ** 2) @ U * ridge
        return RotatedRows(self, np.hstack(Z), penalty)


@dataclass(frozen=True)
class RotatedRows:
    """Whitened rows whose k leading coordinates of each block may be permuted with the responses, against the rest.

    Off the leading coordinates linear moments are E[v z'] at the ridges of the rows as they are. Products are in single
    precision; of those of coordinates only leading ones with the rest change.
    """

    start: RidgedRows
    Z: Array
    penalty: Array

    @cached_property
    def _single(self) -> NDArray[np.float32]:
        return self.Z.astype(np.float32)

    @cached_property
    def _gram(self) -> Array:
        return self.Z.T @ self.Z / len(self.Z)

    def _matrices(self, Z: NDArray[np.float32], gram: Array, V: Array) -> list[Array]:
        """Moments of rows whose products are known."""
        slices, n = self.start.slices, len(Z)
        linear = np.asarray(Z.T @ V.astype(np.float32), dtype=np.float64) / n
        if not self.start.second:
            return side_by_side(linear, {}, slices, _ALL)
        inverse = np.linalg.inv(gram + self.penalty)
        share = np.einsum("ij,ij->i", Z, Z @ inverse.astype(np.float32))
        R = (V - Z @ (inverse @ linear).astype(np.float32)) / np.maximum(1.0 - (1.0 + share) / n, 1e-14)[
            :, None
        ]
        pairs = block_pairs(_ALL, len(slices))[1]
        return side_by_side(linear, second_moments(Z, unit_residuals(R), slices, pairs), slices, _ALL)

    def permuted(self, k: int, rng: np.random.Generator, times: int) -> Iterator[list[Array]]:
        """Moments after y and the k leading coordinates of each block were permuted together against the rest."""
        if k == 0:  # singular values do not depend on coordinates, so that those of the axes will do
            yield from self.start.without_response(rng, times)
            return
        for _ in range(times):
            yield self._off(k, rng.permutation(len(self.Z)))

    def remaining(self, k: int) -> list[Array]:
        """Moments as they are, off the k > 0 leading coordinates."""
        return self._off(k, np.arange(len(self.Z)))

    def _off(self, k: int, order: Index) -> list[Array]:
        Z, n = self._single, len(self.Z)
        leads = np.zeros(Z.shape[1], dtype=bool)
        leads[np.concatenate([np.arange(s.start, s.start + k) for s in self.start.slices])] = True
        first, rest = np.flatnonzero(leads), np.flatnonzero(~leads)
        moved = Z.copy()
        moved[:, first] = Z[np.ix_(order, first)]
        gram = self._gram.copy()
        gram[np.ix_(first, rest)] = moved[:, first].T @ moved[:, rest] / n
        gram[np.ix_(rest, first)] = gram[np.ix_(first, rest)].T
        return [M[k:] for M in self._matrices(moved, gram, self.start.V[order])]


def ridged_rows(source: Source, blocks: Blocks) -> RidgedRows:
    """The rows of a table in memory for the test; second moments where rows are four times the coordinates, as in the fit."""
    ridges: Ridges = learn_ridges(source, blocks)
    V = ridges.response(source.y)
    grids = [
        Grid.of(ridge.axes.coordinates(source.X), ridge.axes, width)
        for ridge, width in zip(ridges.blocks, ridges.widths, strict=True)
    ]
    joint = grids[0]
    if len(grids) > 1:
        joint = Grid.of(ridges.joint.axes.coordinates(source.X), ridges.joint.axes, None)
    ends = np.cumsum([g.A.shape[1] for g in grids])
    slices = tuple(slice(int(e) - g.A.shape[1], int(e)) for e, g in zip(ends, grids, strict=True))
    return RidgedRows(tuple(grids), joint, V, slices, bool(ends[-1] <= len(V) / 4))


@dataclass(frozen=True)
class ResidualSpread(Additive):
    """Sums of residuals and of their squares."""

    _shared: ClassVar[tuple[str, ...]] = ()

    count: float
    r: Array
    rr: Array


@dataclass(frozen=True)
class SpreadPlan:
    """``plan(X, Y)``: sums of the residuals of a chunk."""

    residuals: Residuals

    def __call__(self, X: Any, Y: Array) -> ResidualSpread:
        """Statistic of one chunk."""
        R = self.residuals(X, Y)[1]
        return ResidualSpread(len(R), R.sum(axis=0), np.sum(R * R, axis=0))


@dataclass(frozen=True)
class ShuffledParts:
    """Statistic of a chunk: the moments of responses and of residuals under permutations of its rows, one for each seed.

    Both, with the k leading coordinates of each block, are permuted against the rest.
    """

    residuals: Residuals
    mean: Array
    inverse: Array
    bases: tuple[Array, ...] | None
    slices: tuple[slice, ...]
    second: bool
    k: int = 0
    seeds: tuple[int | None, ...] = (None,)

    def __call__(self, X: Any, Y: Array) -> Folds:
        """Two sums for every seed: with responses, and with residuals."""
        Z, R = self.residuals(X, Y)
        R = (R - self.mean) * self.inverse
        V = self.residuals.response(Y)
        if self.bases is not None:
            Z = np.hstack([Z[:, s] @ U for s, U in zip(self.slices, self.bases, strict=True)])
        content = crc32(np.ascontiguousarray(Z[: min(len(Z), 8)]).tobytes())
        weighted = block_pairs(_ALL, len(self.slices))[1] if self.second else ()
        zero, none = np.zeros(Z.shape[1]), np.zeros(V.shape[1])
        linear = TriplePlan(self.slices, None, zero, none, (), ())
        second = TriplePlan(self.slices, None, zero, none, (), weighted)
        parts: list[TripleMoments] = []
        for seed in self.seeds:
            Zs, order = Z, np.arange(len(Z))
            if seed is not None:
                order = np.random.default_rng([seed, content]).permutation(len(Z))
                Zs = shuffled(Z, order, self.slices, self.k)
            parts += [linear(Zs, V[order]), second(Zs, R[order])]
        return Folds(tuple(parts))


class RidgedPasses(RowsByPasses):
    """The ridge's parts, by passes; residuals are those of y itself.

    Linear moments are E[v a'] without weights, which would take a pass for each permutation.
    """

    @property
    def n_responses(self) -> int:
        """Responses of a row."""
        return len(self.statistic.mean)

    def _matrices(self, k: int, seeds: tuple[int | None, ...]) -> Iterator[list[Array]]:
        parts = self.source.reduce(replace(self.statistic, k=k, seeds=seeds)).parts
        for linear, second in zip(parts[::2], parts[1::2], strict=True):
            triple = {pair: g / second.count for pair, g in second.xyx.items()}
            yield side_by_side(linear.xy / linear.count, triple, self.statistic.slices, _ALL)


def ridged_passes(source: Source, blocks: Blocks) -> RidgedPasses:
    """The rows of a table that stays where it is, for the test."""
    ridges = learn_ridges(source, blocks)
    residuals = Residuals(ridges.blocks, ridges.joint, ridges.response)
    spread = source.reduce(SpreadPlan(residuals))
    mean = spread.r / spread.count
    deviation = np.sqrt(np.maximum(spread.rr / spread.count - mean**2, 0.0))
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > _NO_RESIDUAL)
    second = sum(blocks.widths) <= ridges.count / 4
    return RidgedPasses(source, ShuffledParts(residuals, mean, inverse, None, blocks.slices, second))
