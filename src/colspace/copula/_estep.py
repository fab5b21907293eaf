"""The E-step: expectation-propagation sites, posterior factors and sums over rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..moments import Additive
from ._marginals import Chain
from ._truncated import truncated_moments

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_SMALL_RANK = 12  # factors up to which matrices are inverted all at once
_SPARSE = 0.02  # share of observed cells under which products stay sparse


@dataclass(frozen=True)
class Factors:
    """z = W t + e: loadings W (p x k), their posterior covariances C (p x k x k) and noise variances (p)."""

    W: Array
    C: Array
    noise: Array

    @property
    def rank(self) -> int:
        """Number of factors."""
        return self.W.shape[1]


def sums_by(index: Index, weights: Array, n: int) -> Array:
    """Sum of the weights at each of n places."""
    return np.bincount(index, weights, n).astype(np.float64, copy=False)


@lru_cache(maxsize=64)
def triangle(k: int) -> tuple[Index, Index]:
    """Rows and columns of an upper triangle."""
    return np.triu_indices(k)


def pack(matrices: Array) -> Array:
    """Upper triangles of symmetric matrices, (..., k, k) -> (..., k(k+1)/2)."""
    i, j = triangle(matrices.shape[-1])
    return matrices[..., i, j]


def unpack(packed: Array, k: int) -> Array:
    """Symmetric matrices from their upper triangles."""
    i, j = triangle(k)
    out = np.empty((*packed.shape[:-1], k, k))
    out[..., i, j] = packed
    out[..., j, i] = packed
    return out


def doubled(packed: Array, k: int) -> Array:
    """Off-diagonal entries twice, so that products of packed matrices are traces."""
    i, j = triangle(k)
    return packed * np.where(i == j, 1.0, 2.0)


@dataclass(frozen=True)
class Rows:
    """Observed cells of some rows, in row order: ``row`` and ``column`` of each, n and p."""

    n: int
    p: int
    row: Index
    column: Index

    @property
    def dense(self) -> bool:
        """Whether products go through a dense block."""
        return len(self.row) >= _SPARSE * self.n * self.p

    @cached_property
    def flat(self) -> Index:
        """Positions of the cells in a dense table."""
        return self.row * self.p + self.column

    def table(self, values: Array) -> Array | sparse.csr_array:
        """n x p with ``values`` at the observed cells and zeros elsewhere."""
        if not self.dense:
            bounds = np.searchsorted(self.row, np.arange(self.n + 1))
            return sparse.csr_array((values, self.column, bounds), shape=(self.n, self.p))
        out = np.zeros(self.n * self.p)
        out[self.flat] = values
        return out.reshape(self.n, self.p)

    def pairs(self, left: Array, right: Array) -> Array:
        """left[row] . right[column] at the observed cells."""
        if self.dense:
            return (left @ right.T).ravel()[self.flat]
        out = np.empty(len(self.row))
        step = max(1, (1 << 19) // left.shape[1])
        for a in range(0, len(out), step):
            part = slice(a, a + step)
            out[part] = np.einsum("ij,ij->i", left[self.row[part]], right[self.column[part]])
        return out


@dataclass(frozen=True)
class Posterior:
    """Law of the factors of each row: mean t (n x k) and covariance, packed (n x k(k+1)/2)."""

    t: Array
    V: Array


@dataclass(frozen=True)
class FactorSums(Additive):
    """What the M-step needs: per column sum tau E[tt'] (packed) and sum nu t; over rows sum E[tt'] (packed)."""

    count: int
    A: Array
    b: Array
    tt: Array


def posterior(rows: Rows, tau: Array, nu: Array, f: Factors) -> Posterior:
    """V = (I + sum_j tau (w w' + C))^-1 and t = V W' nu, row by row."""
    return posterior_of(rows.table(tau), rows.table(nu), f)


def posterior_of(tau: Any, nu: Any, f: Factors) -> Posterior:
    """The same from tables of the sites."""
    k = f.rank
    table = pack(f.W[:, :, None] * f.W[:, None, :] + f.C)
    precision = np.asarray(tau @ table)
    i, j = triangle(k)
    precision[:, i == j] += 1.0
    V = invert(precision, k)
    t = np.einsum("nij,nj->ni", unpack(V, k), np.asarray(nu @ f.W))
    return Posterior(t, V)


def invert(packed: Array, k: int) -> Array:
    """Inverses of packed positive definite matrices: Gauss-Jordan over all at once while they are small."""
    if k > _SMALL_RANK:
        return pack(np.asarray(np.linalg.inv(unpack(packed, k)), dtype=np.float64))
    i, j = triangle(k)
    A = np.empty((k, k, len(packed)))
    A[i, j] = packed.T
    A[j, i] = A[i, j]
    for p in range(k):
        row = A[p] / A[p, p]
        row[p] = -1.0 / A[p, p]
        column = A[p].copy()
        A -= column[:, None] * row[None]
        A[p] = row
        A[:, p] = row
    return np.ascontiguousarray(-A[i, j].T)


def factor_sums(tau: Any, nu: Any, q: Posterior) -> FactorSums:
    """Sums over rows for the M-step, from tables of the sites."""
    n, k = q.t.shape
    i, j = triangle(k)
    second = q.V + q.t[:, i] * q.t[:, j]
    return FactorSums(n, np.asarray(tau.T @ second), np.asarray(nu.T @ q.t), second.sum(axis=0))


def signal(rows: Rows, q: Posterior, f: Factors) -> tuple[Array, Array]:
    """Mean and variance of w_j't_i at the observed cells."""
    k = f.rank
    products = pack(f.W[:, :, None] * f.W[:, None, :])
    return rows.pairs(q.t, f.W), np.maximum(rows.pairs(doubled(q.V, k), products), 0.0)


def cavity(m: Array, v: Array, tau: Array, nu: Array) -> tuple[Array, Array]:
    """The law of w_j't_i without the cell's own site; its variance is at most 1, whatever rounding says."""
    rest = np.maximum(1.0 - tau * v, v)
    return (m - v * nu) / rest, v / rest


@dataclass(frozen=True)
class CensoredLaw:
    """Standardised ends of each cell's interval, and moments of the standard normal between them."""

    low: Array
    high: Array
    mean: Array
    variance: Array
    at_low: Array
    at_high: Array


def censored_law(m: Array, v: Array, noise: Array, bounds: Array, level: Index, chain: Chain) -> CensoredLaw:
    """The law of z ~ N(m, v + noise) restricted to the interval of its level."""
    sd = np.sqrt(v + noise)
    low = (bounds[chain.level_low][level] - m) / sd
    high = (bounds[chain.level_high][level] - m) / sd
    return CensoredLaw(low, high, *truncated_moments(low, high))


def sites_of(m: Array, v: Array, noise: Array, law: CensoredLaw) -> tuple[Array, Array]:
    """Sites that match the moments of w't under its cavity N(m, v) and the cell's interval."""
    spread = v + noise
    curvature = np.maximum(1.0 - law.variance, 1e-12)
    curvature /= spread
    rest = 1.0 - v * curvature
    np.sqrt(spread, out=spread)
    shift = curvature * m
    shift += law.mean / spread
    shift /= rest
    curvature /= rest
    return curvature, shift
