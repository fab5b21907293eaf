"""Directions for any table: a ridge's, the residual's gradients and second moments, stacked by what each explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._blocks import Blocks
from ..factor import break_ties, eigh
from ..moments import TripleMoments, TriplePlan, centre, weighted_gram
from ._gradient import fit_kernel
from ._joint_fit import Solution
from ._ridge import (
    LooPlan,
    ResponseMap,
    Ridge,
    choose_ridge,
    principal_axes,
    response_map,
    ridge_paths,
)
from ._source import Source

Array = NDArray[np.float64]

KERNEL_ROWS = 1500
_FILL = 1e-5
FOLDS = 5


def all_pairs(n: int) -> tuple[tuple[int, int], ...]:
    """Pairs of blocks (i, j), i <= j."""
    return tuple((i, j) for i in range(n) for j in range(i, n))


def fit_auto(source: Source, blocks: Blocks, r: int, seed: int = 0) -> Solution:
    r"""Directions per block from three or four passes over the rows and a kernel regression on a sample of them.

    With :math:`a = (S + \\lambda)^{-1/2} x` per block, :math:`\\lambda` the ridge of least leave-one-out error, the directions are
    the leading eigenvectors of ``stack``: the ridge's own (``linear_part``), and those in which its leave-one-out
    residual bends, by gradients of a kernel regression (``kernel_part``) and by second moments (``moments_part``).
    """
    total = source.moments(blocks, all_pairs(len(blocks)), ())
    c = centre(total, y_scale=np.ones(len(total.y)) * total.scale_y)  # responses in the plan's units
    n = total.count
    dy = total.y / n
    response = response_map(dy, total.yy / n - np.outer(dy, dy), labels=source.encoder.labels)
    seen = ResponseMap(
        total.shift_y + dy * total.scale_y, response.map / np.broadcast_to(total.scale_y, dy.shape)[:, None]
    )
    cross = c.linear @ response.map
    own = [c.covariance[b, b] for b in range(len(blocks))]
    means = [c.mean[s] for s in blocks.slices]
    axes = [principal_axes(own[b], blocks.columns[b], means[b], unit=source.unit) for b in range(len(blocks))]
    scale = np.sqrt(np.maximum(np.concatenate([np.diag(C) for C in own]), 0.0))
    crosses = [a.map.T @ cross[s] for a, s in zip(axes, blocks.slices, strict=True)]
    if len(blocks) > 1:
        whole = np.block(
            [
                [c.covariance[i, j] if i <= j else c.covariance[j, i].T for j in range(len(blocks))]
                for i in range(len(blocks))
            ]
        )
        columns = np.concatenate(blocks.columns)
        axes.append(principal_axes(whole, columns, c.mean, unit=source.unit))
        crosses.append(axes[-1].map.T @ cross)
    paths = ridge_paths(axes, crosses, n)
    loo = source.reduce(LooPlan(paths, seen))
    widths = source.n_columns or blocks.widths
    parts_of = [choose_ridge(paths[b], loo.paths[b], widths[b]) for b in range(len(blocks))]
    joint = choose_ridge(paths[-1], loo.paths[-1])
    q = response.map.shape[1]
    linear = [linear_part(ridge) for ridge in parts_of]
    spoken = float(np.maximum(eigh(joint.agreement)[0], 0.0).sum()) / q

    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    if source.unit:
        inverse = np.ones_like(scale)
    keys = RowKeys(np.concatenate(blocks.columns), c.mean, inverse, seen, seed)
    sample = source.reduce(SamplePlan(keys))
    gradients, v_kernel = kernel_part(sample, parts_of, joint, seen, widths)
    size = sum(len(a.values) for a in axes[: len(blocks)])
    moments, v_moments = (None, 0.0)
    if size <= n / 4:
        moments, v_moments = moments_part(source, parts_of, joint, seen, keys, r)
    loadings, values = [], []
    for b, ridge in enumerate(parts_of):
        G = stack(
            linear[b],
            None if gradients is None else gradients[b],
            v_kernel,
            None if moments is None else moments[b],
            v_moments,
            ridge.axes.values,
        )
        found, U = eigh(G)
        U = break_ties(found[::-1], U[:, ::-1], r, np.diag(ridge.axes.values))
        loadings.append(ridge.axes.map @ (U / ridge.root[:, None]))
        values.append(np.sqrt(np.maximum(found[::-1][:r], 0.0)))
    shares = {"linear": spoken, "gradients": v_kernel / q, "moments": v_moments / q}
    return Solution(
        mean=c.mean,
        loadings=loadings,
        values=values,
        supports=[np.arange(w) for w in blocks.widths],
        shrinkage=[0.0] * len(blocks),
        scale=scale,
        count=n,
        solver="exact",
        ridges=[ridge.ridge for ridge in parts_of],
        parts=shares,
    )


def linear_part(ridge: Ridge) -> Array:
    r"""G_L = sum of max(rho_k, 0) t_k t_k', with sym(Y'F/n) = sum rho_k u_k u_k' held out and t_k = T u_k / |T u_k|."""
    rho, U = eigh(ridge.agreement)
    T = ridge.whitened_cross @ U
    norms = np.linalg.norm(T, axis=0)
    T = T / np.where(norms > 0, norms, 1.0)
    return (T * np.maximum(rho, 0.0)) @ T.T


@dataclass(frozen=True)
class RowKeys:
    """Pseudo-random numbers of rows from what they hold, whatever the order of rows and columns, units and chunks.

    They mix the squared norms of the standardised row and of its responses, so equal rows have equal keys.
    """

    columns: NDArray[np.intp]
    mean: Array
    inverse: Array
    response: ResponseMap
    seed: int = 0

    def __call__(self, X: Any, Y: Array) -> NDArray[np.uint64]:
        """One key per row."""
        V = self.response(Y)
        norms = standard_norms(X[:, self.columns], self.mean, self.inverse)
        parts = (np.floor(norms * 1414.2135623), np.floor(np.einsum("ij,ij->i", V, V) * 1732.0508075))
        with np.errstate(over="ignore"):
            key = np.full(len(V), self.seed + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            for part in parts:
                key = _mixed(key ^ (part.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)))
        return key


def _mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def standard_norms(X: Any, mean: Array, inverse: Array) -> Array:
    """Squared norms of standardised rows."""
    if sparse.issparse(X):
        Z = X.astype(np.float64) @ sparse.diags_array(inverse)
        centre = mean * inverse
        return np.asarray(Z.multiply(Z).sum(axis=1)).ravel() - 2 * (Z @ centre) + centre @ centre
    Z = np.subtract(X, mean, dtype=np.float64) * inverse
    return np.einsum("ij,ij->i", Z, Z)


@dataclass(frozen=True)
class RowSample:
    """Different rows of the smallest keys with the weight of their copies: a sample that merges by ``+``."""

    keys: NDArray[np.uint64]
    X: Array
    Y: Array
    weights: Array

    @classmethod
    def of(cls, keys: NDArray[np.uint64], X: Array, Y: Array, weights: Array) -> RowSample:
        """The sample of some rows; equal ones become one."""
        order = np.argsort(keys, kind="stable")
        keys, X, Y, weights = keys[order], X[order], Y[order], weights[order]
        again = np.zeros(len(keys), dtype=bool)
        near = np.flatnonzero(keys[1:] == keys[:-1]) + 1
        again[near] = (X[near] == X[near - 1]).all(axis=1) & (Y[near] == Y[near - 1]).all(axis=1)
        first = np.flatnonzero(~again)
        weights = np.add.reduceat(weights, first) if len(first) else weights
        kept = first[:KERNEL_ROWS]
        return cls(keys[kept], X[kept], Y[kept], weights[: len(kept)])

    def __add__(self, other: RowSample) -> RowSample:
        return RowSample.of(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.X, other.X]),
            np.concatenate([self.Y, other.Y]),
            np.concatenate([self.weights, other.weights]),
        )


@dataclass(frozen=True)
class SamplePlan:
    """``plan(X, Y, weights)``: the rows of a chunk that may be in the sample."""

    keys: RowKeys

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> RowSample:
        """Statistic of one chunk."""
        keys = self.keys(X, Y)
        w = np.ones(len(Y)) if weights is None else weights
        different = np.unique(keys)  # copies of a row share its key
        kept = np.flatnonzero(keys <= different[min(KERNEL_ROWS, len(different)) - 1])
        rows = X[kept]
        rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        return RowSample.of(keys[kept], rows, Y[kept], w[kept])


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


def stack(
    linear: Array,
    gradients: Array | None,
    v_kernel: float,
    moments: Array | None,
    v_moments: float,
    spread: Array,
) -> Array:
    r"""G_L + 2 (v_K^2 G_K + v_H^2 G_H)/(v_K + v_H) + 1e-5 tr(G) diag(eigenvalues / largest).

    A component of degree k under a Gaussian law has k times its variance as gradient energy: hence the 2. The last
    term fills with the order of PCA where nothing speaks.
    """
    G = linear.copy()
    both = v_kernel + v_moments
    if both > 0:
        if gradients is not None:
            G += 2 * v_kernel**2 / both * gradients
        if moments is not None:
            G += 2 * v_moments**2 / both * moments
    trace = np.trace(G)
    return G + _FILL * (trace if trace > 0 else 1.0) * np.diag(spread / spread.max())
