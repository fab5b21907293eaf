"""What bends: gradients and second moments of the ridge's leave-one-out residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._rows import CHUNK_BYTES
from ..factor import eigh
from ..moments import TripleMoments, centre, weighted_gram
from ._auto_groups import FOLDS, GroupParts, RowDeal, group_parts, parts_of, whitened_plan
from ._auto_rows import RowKeys, RowSample
from ._gradient import KernelFit, fit_kernel
from ._ridge import ResponseMap, Ridge
from ._source import Source

Array = NDArray[np.float64]


def kernel_part(
    sample: RowSample, ridges: Sequence[Ridge], joint: Ridge, response: ResponseMap, widths: Sequence[int]
) -> tuple[list[Array] | None, float, KernelFit | None]:
    """Gradient products of the residual's kernel regression per block (trace one in all), what it explains, and it."""
    X, w = sample.X, sample.weights
    R = joint.path.loo(X, response(sample.Y))[0][:, 0]
    R = R - w @ R / w.sum()
    parts = [ridge.axes.coordinates(X) / np.sqrt(width) for ridge, width in zip(ridges, widths, strict=True)]
    fit = fit_kernel(np.hstack(parts), R, w)
    if fit is None:
        return None, 0.0, None
    q = R.shape[1]
    explained = float(q) * max(float(np.sum(w[:, None] * R**2)) / (w.sum() * q) - fit.error, 0.0)
    if explained == 0.0:
        return None, 0.0, None
    products = fit.gradient_products(w)
    found, start = [], 0
    for ridge, width, part in zip(ridges, widths, parts, strict=True):
        block = slice(start, start + part.shape[1])
        found.append(products[block, block] / width * ridge.root * ridge.root[:, None])
        start = block.stop
    trace = sum(np.trace(G) for G in found)
    return ([G / trace for G in found], explained, fit) if trace > 0 else (None, 0.0, None)


@dataclass(frozen=True)
class Residuals:
    """Whitened coordinates of all blocks and centred leave-one-out residuals of rows."""

    ridges: tuple[Ridge, ...]
    joint: Ridge
    response: ResponseMap

    def __call__(self, X: Any, Y: Array) -> tuple[Array, Array]:
        """Coordinates (rows x all) and residuals (rows x responses)."""
        error, A = self.joint.path.loo(X, self.response(Y))
        whitened = [
            (A if len(self.ridges) == 1 else ridge.axes.coordinates(X)) / ridge.root for ridge in self.ridges
        ]
        return np.hstack(whitened), error[:, 0]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(len(ridge.axes.values) for ridge in self.ridges)

    def coordinates(self, X: Any) -> Array:
        """Whitened coordinates alone."""
        return np.hstack([ridge.axes.coordinates(X) / ridge.root for ridge in self.ridges])


@dataclass(frozen=True)
class ResidualSums:
    """Moments of residuals with whitened coordinates, by fold, the sum of |r|^2 |a|^2 a a', and sums of groups of rows.

    Groups that lie within folds stand for these, and ``folds`` is empty.
    """

    folds: tuple[TripleMoments, ...]
    noise: Array
    groups: GroupParts = field(default_factory=lambda: GroupParts({}))

    def __add__(self, other: ResidualSums) -> ResidualSums:
        folds = tuple(a + b for a, b in zip(self.folds, other.folds, strict=True))
        return ResidualSums(folds, self.noise + other.noise, self.groups + other.groups)

    def absorb(self, other: ResidualSums) -> ResidualSums:
        """``self + other`` in the arrays of ``self``, a sum that nobody else holds."""
        folds = tuple(a.absorb(b) for a, b in zip(self.folds, other.folds, strict=True))
        noise = np.add(self.noise, other.noise, out=self.noise)
        return ResidualSums(folds, noise, self.groups.absorb(other.groups))

    def by_fold(self) -> list[TripleMoments]:
        """Moments of the folds."""
        if self.folds:
            return list(self.folds)
        groups = self.groups.parts
        some = next(iter(groups.values())).moments
        inside = [[groups[i].moments for i in sorted(groups) if i % FOLDS == k] for k in range(FOLDS)]
        return [reduce(add, parts) if parts else some - some for parts in inside]


@dataclass(frozen=True)
class ResidualPlan:
    """``plan(X, Y, weights)``: moments of residuals of a chunk."""

    rows: Residuals
    keys: RowKeys
    size: int
    deal: RowDeal | None = None

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> ResidualSums:
        """Statistic of one chunk."""
        A, R = self.rows(X, Y)
        keys = self.keys(X, Y)
        plan = whitened_plan(self.size, R.shape[1], second=True)
        folds: tuple[TripleMoments, ...] = ()
        if self.deal is None or not self.deal.nested:
            number = (keys % np.uint64(FOLDS)).astype(np.intp)
            folds = tuple(
                plan(A[rows], R[rows], None if weights is None else weights[rows])
                for _, rows in parts_of(number, FOLDS)
            )
        groups = GroupParts({})
        if self.deal is not None:
            V = self.rows.response(Y)
            groups = group_parts(self.deal(X, keys), self.deal, plan, A, R, V, weights)
        noise = np.einsum("ij,ij->i", R, R) * np.einsum("ij,ij->i", A, A)
        return ResidualSums(folds, weighted_gram(A, noise if weights is None else weights * noise), groups)


@dataclass(frozen=True)
class FormPlan:
    """Sums over rows of r f and f^2 for quadratic forms f learned without the row's fold."""

    rows: Residuals
    keys: RowKeys
    directions: tuple[tuple[Array, ...], ...]  # fold -> response -> coordinates x forms
    values: tuple[tuple[Array, ...], ...]
    means: tuple[tuple[Array, ...], ...]
    centre: Array

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        """Statistic of one chunk: two numbers per response."""
        A, R = self.rows(X, Y)
        R = R - self.centre
        w = np.ones(len(A)) if weights is None else weights
        fold = self.keys(X, Y) % np.uint64(FOLDS)
        total = np.zeros((2, R.shape[1]))
        for k, (directions, values, means) in enumerate(
            zip(self.directions, self.values, self.means, strict=True)
        ):
            rows = fold == k
            for j in range(R.shape[1]):
                f = ((A[rows] @ directions[j]) ** 2 - means[j]) @ values[j]
                total[:, j] += np.sum(w[rows] * R[rows, j] * f), np.sum(w[rows] * f * f)
        return total


def moments_part(
    source: Source, ridges: Sequence[Ridge], joint: Ridge, response: ResponseMap, keys: RowKeys, r: int
) -> tuple[list[Array] | None, float]:
    """Second moments of the residual per block (debiased, trace one each), and what their forms explain."""
    rows = Residuals(tuple(ridges), joint, response)
    return moments_of(source, rows, keys, r, residual_sums(source, rows, keys))


def residual_sums(
    source: Source, rows: Residuals, keys: RowKeys, deal: RowDeal | None = None
) -> ResidualSums:
    """One pass; groups have chunks as many times longer as they are more than folds."""
    size = rows.size
    chunk = None if deal is None else -(-deal.k // FOLDS) * max(256, CHUNK_BYTES // (8 * (size + 1)))
    return source.reduce(ResidualPlan(rows, keys, size, deal), chunk=chunk)


def moments_of(
    source: Source, rows: Residuals, keys: RowKeys, r: int, sums: ResidualSums
) -> tuple[list[Array] | None, float]:
    """``moments_part`` from the sums of its first pass."""
    ridges, folds = rows.ridges, sums.by_fold()
    total = reduce(add, folds)
    ones = np.ones(len(total.y))
    c = centre(total, y_scale=ones)
    H = c.triple[0, 0]
    n = total.count
    directions, values, means = [], [], []
    for part in folds:
        train = centre(total - part, y_scale=ones)
        found = [_leading_forms(h, train.covariance[0, 0], 2 * r) for h in train.triple[0, 0]]
        directions.append(tuple(f[0] for f in found))
        values.append(tuple(f[1] for f in found))
        means.append(tuple(f[2] for f in found))
    plan = FormPlan(rows, keys, tuple(directions), tuple(values), tuple(means), total.y / n)
    cross, square = source.reduce(plan) / n
    explained = float(np.sum(np.maximum(cross, 0.0) ** 2 / np.where(square > 0, square, 1.0)))
    if explained == 0.0:
        return None, 0.0
    parts, start = [], 0
    for ridge in ridges:
        s = slice(start, start + len(ridge.axes.values))
        start = s.stop
        G = sum(h[s] @ h[s].T for h in H) - sums.noise[s, s] / n**2
        e, U = eigh((G + G.T) / 2)
        parts.append((U * np.maximum(e, 0.0)) @ U.T)
    trace = [float(np.trace(G)) for G in parts]
    return (
        ([G / t if t > 0 else G for G, t in zip(parts, trace, strict=True)], explained)
        if any(trace)
        else (None, 0.0)
    )


def _leading_forms(H: Array, covariance: Array, k: int) -> tuple[Array, Array, Array]:
    """The k eigenpairs of H of largest modulus, and the mean squares along them."""
    values, U = eigh((H + H.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")[:k]
    U = U[:, order]
    return U, values[order], np.einsum("ij,ik,kj->j", U, covariance, U)
