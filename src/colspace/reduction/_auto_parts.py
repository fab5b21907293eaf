"""What bends: gradients and second moments of the ridge's leave-one-out residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..factor import eigh
from ..moments import TripleMoments, TriplePlan, centre, weighted_gram
from ._auto_rows import RowKeys, RowSample
from ._gradient import fit_kernel
from ._ridge import ResponseMap, Ridge
from ._source import Source

Array = NDArray[np.float64]

FOLDS = 5


def kernel_part(
    sample: RowSample, ridges: Sequence[Ridge], joint: Ridge, response: ResponseMap, widths: Sequence[int]
) -> tuple[list[Array] | None, float]:
    """Gradient products of the residual's kernel regression per block (trace one in all), and what it explains."""
    X, w = sample.X, sample.weights
    R = joint.path.loo(X, response(sample.Y))[0][:, 0]
    R = R - w @ R / w.sum()
    parts = [ridge.axes.coordinates(X) / np.sqrt(width) for ridge, width in zip(ridges, widths, strict=True)]
    fit = fit_kernel(np.hstack(parts), R, w)
    if fit is None:
        return None, 0.0
    q = R.shape[1]
    explained = float(q) * max(float(np.sum(w[:, None] * R**2)) / (w.sum() * q) - fit.error, 0.0)
    if explained == 0.0:
        return None, 0.0
    products = fit.gradient_products(w)
    found, start = [], 0
    for ridge, width, part in zip(ridges, widths, parts, strict=True):
        block = slice(start, start + part.shape[1])
        found.append(products[block, block] / width * ridge.root * ridge.root[:, None])
        start = block.stop
    trace = sum(np.trace(G) for G in found)
    return ([G / trace for G in found], explained) if trace > 0 else (None, 0.0)


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


@dataclass(frozen=True)
class ResidualSums:
    """Moments of residuals with whitened coordinates, by fold, and the sum of |r|^2 |a|^2 a a'."""

    folds: tuple[TripleMoments, ...]
    noise: Array

    def __add__(self, other: ResidualSums) -> ResidualSums:
        folds = tuple(a + b for a, b in zip(self.folds, other.folds, strict=True))
        return ResidualSums(folds, self.noise + other.noise)


@dataclass(frozen=True)
class ResidualPlan:
    """``plan(X, Y, weights)``: moments of residuals of a chunk."""

    rows: Residuals
    keys: RowKeys
    size: int

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> ResidualSums:
        """Statistic of one chunk."""
        A, R = self.rows(X, Y)
        w = np.ones(len(A)) if weights is None else weights
        whole = ((0, 0),)
        plan = TriplePlan(
            (slice(0, self.size),), None, np.zeros(self.size), np.zeros(R.shape[1]), whole, whole
        )
        fold = self.keys(X, Y) % np.uint64(FOLDS)
        parts = tuple(
            plan(A[fold == k], R[fold == k], None if weights is None else w[fold == k]) for k in range(FOLDS)
        )
        noise = w * np.einsum("ij,ij->i", R, R) * np.einsum("ij,ij->i", A, A)
        return ResidualSums(parts, weighted_gram(A, noise))


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
    """Second moments of the residual per block (debiased, trace one in all), and what their forms explain."""
    rows = Residuals(tuple(ridges), joint, response)
    size = sum(len(ridge.axes.values) for ridge in ridges)
    sums = source.reduce(ResidualPlan(rows, keys, size))
    total = sums.folds[0]
    for part in sums.folds[1:]:
        total = total + part
    ones = np.ones(len(total.y))
    c = centre(total, y_scale=ones)
    H = c.triple[0, 0]
    n = total.count
    directions, values, means = [], [], []
    for part in sums.folds:
        if not 0.01 * n < n - part.count:  # copies of a row share a fold: the others may have none
            return None, 0.0
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
