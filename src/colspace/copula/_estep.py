"""The E-step: expectation-propagation sites, posterior factors and sums over rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.lapack import dpotrf, dpotri

from ..moments import Additive
from ._marginals import Chain
from ._truncated import truncated_moments

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_AT_ONCE = 1 << 15  # entries of matrices that are inverted at once, or of 1,024 matrices
THIN = 0.2  # share of observed cells under which products of tables stay sparse
_SWEPT = 16  # factors up to which matrices of many rows are inverted together
_TILE = 1 << 17  # pairs that are formed at once
_SCATTERED = 0.02  # share under which products of pairs are formed at these alone


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

    @cached_property
    def second(self) -> Array:
        """w w' + C of every column, packed."""
        return pack(self.W[:, :, None] * self.W[:, None, :] + self.C)

    @cached_property
    def outer(self) -> Array:
        """w w' of every column, packed, so that products with packed matrices are traces."""
        return doubled(pack(self.W[:, :, None] * self.W[:, None, :]), self.rank)

    def __getstate__(self) -> dict[str, Array]:
        return {"W": self.W, "C": self.C, "noise": self.noise}


Take = Callable[..., Any]


def fresh(name: str, *shape: int, dtype: Any = np.float64) -> NDArray[Any]:
    """A new array, whatever its name."""
    return np.empty(shape, dtype)


class Work:
    """Arrays by name, taken again from one block of rows to the next: new memory costs more than what is done in it."""

    def __init__(self) -> None:
        self.held: dict[str, NDArray[Any]] = {}

    def __call__(self, name: str, *shape: int, dtype: Any = np.float64) -> NDArray[Any]:
        size = math.prod(shape)
        if name not in self.held or self.held[name].size < size:
            self.held[name] = np.empty(size, dtype)
        return self.held[name][:size].reshape(shape)


def pick(values: NDArray[Any], where: Any, out: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """values[where], the values themselves where that is all of them."""
    return values if isinstance(where, slice) else np.take(values, where, out=out(len(where)), mode="clip")


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
        """Whether tables of the cells are dense."""
        return len(self.column) >= THIN * self.n * self.p

    @cached_property
    def bounds(self) -> Index:
        """Where the cells of each row begin and end."""
        return np.searchsorted(self.row, np.arange(self.n + 1))

    @cached_property
    def flat(self) -> Index:
        """Positions of the cells in a dense table."""
        return self.row * self.p + self.column

    def table(self, values: Array, take: Take = fresh, name: str = "table") -> Array | sparse.csr_array:
        """n x p with ``values`` at the observed cells and zeros elsewhere."""
        if not self.dense:
            return sparse.csr_array((values, self.column, self.bounds), shape=(self.n, self.p))
        out = take(name, self.n * self.p)
        out.fill(0.0)
        out[self.flat] = values
        return out.reshape(self.n, self.p)

    def pairs(
        self, left: Array, right: Array, take: Take = fresh, name: str = "pairs", *, single: bool = False
    ) -> Array:
        """left[row] . right[column] at the observed cells; ``single``: in half the digits, where few pairs are cells."""
        out = take(name, len(self.column))
        if len(self.column) >= _SCATTERED * self.n * self.p:
            if not self.dense:
                return self._tiled_pairs(left, right, np.float32 if single else np.float64, take, out)
            every = np.matmul(left, right.T, out=take("every pair", self.n, self.p))
            return np.take(every.ravel(), self.flat, out=out, mode="clip")
        step = max(1, (1 << 16) // left.shape[1])
        for a in range(0, len(out), step):
            part = slice(a, a + step)
            out[part] = np.einsum("ij,ij->i", left[self.row[part]], right[self.column[part]])
        return out

    def _tiled_pairs(self, left: Array, right: Array, dtype: Any, take: Take, out: Array) -> Array:
        few = max(1, _TILE // self.p)
        left, right = left.astype(dtype), np.ascontiguousarray(right.T, dtype=dtype)
        for a in range(0, self.n, few):
            b = min(a + few, self.n)
            tile = take(f"{right.dtype} tile", b - a, self.p, dtype=dtype)
            np.matmul(left[a:b], right, out=tile)
            cells = slice(self.bounds[a], self.bounds[b])
            out[cells] = tile.ravel()[self.flat[cells] - a * self.p]
        return out


@dataclass(frozen=True)
class Posterior:
    """Law of the factors of each row: mean t (n x k) and covariance, packed (n x k(k+1)/2)."""

    t: Array
    V: Array


@dataclass(frozen=True)
class FactorSums(Additive):
    """What the M-step needs: per column sum tau E[tt'] (packed) and sum nu t; over rows sum E[tt'] (packed).

    ``count`` rows, or their weights.
    """

    count: float
    A: Array
    b: Array
    tt: Array


def posterior(rows: Rows, tau: Array, nu: Array, f: Factors) -> Posterior:
    """V = (I + sum_j tau (w w' + C))^-1 and t = V W' nu, row by row."""
    return posterior_of(rows.table(tau), rows.table(nu), f)


def posterior_of(tau: Any, nu: Any, f: Factors, take: Take = fresh) -> Posterior:
    """The same from tables of the sites."""
    n, k = tau.shape[0], f.rank
    table = f.second
    if sparse.issparse(tau):
        V, b = np.ascontiguousarray((tau @ table).T), np.ascontiguousarray((nu @ f.W).T)
    else:
        V = np.matmul(table.T, tau.T, out=take("V", table.shape[1], n))
        b = np.matmul(f.W.T, nu.T, out=take("W'nu", k, n))
    return solved(V, b, take)


def solved(V: Array, b: Array, take: Take = fresh) -> Posterior:
    """The law of factors of precision I + V (packed, a row in each column; written over) that b is the precision times the mean of."""
    k, n = b.shape
    t = take("t", k, n)
    (_solved_by_sweeps if k <= _SWEPT else _solved_by_roots)(V, b, t, take)
    return Posterior(t.T, V.T)


def _solved_by_sweeps(V: Array, b: Array, t: Array, take: Take) -> None:
    """(I + V)^-1 in the place of V (packed, one column a row), and its product with b in t: Gauss and Jordan for many rows at once."""
    k, n = b.shape
    i, j = triangle(k)
    step = max(1024, _AT_ONCE // k**2)
    for a in range(0, n, step):
        some = slice(a, min(a + step, n))
        size = some.stop - a
        A, products = take("matrices", k, k, size), take("products", k, k, size)
        for packed, r, c in zip(V, i, j, strict=True):
            A[r, c] = A[c, r] = packed[some]
            if r == c:
                A[r, r] += 1.0
        for c in range(k):
            pivot = np.divide(1.0, A[c, c], out=take("pivot", size))
            row = np.multiply(A[c], pivot, out=take("row", k, size))
            np.negative(pivot, out=row[c])
            np.multiply(A[c, :, None], row, out=products)
            A -= products
            A[c] = row
            A[:, c] = row
        np.negative(A, out=A)
        for packed, r, c in zip(V, i, j, strict=True):
            packed[some] = A[r, c]
        np.einsum("ijn,jn->in", A, b[:, some], out=t[:, some])


def _solved_by_roots(V: Array, b: Array, t: Array, take: Take) -> None:
    """The same by Cholesky roots, row after row: with many factors that is faster."""
    k, n = b.shape
    i, j = triangle(k)
    step = max(1, _AT_ONCE // k**2)
    diagonal = np.arange(k)
    for a in range(0, n, step):
        some = slice(a, min(a + step, n))
        A = take("matrices", some.stop - a, k, k)
        A[:, j, i] = V[:, some].T
        A[:, diagonal, diagonal] += 1.0
        for matrix in A:
            root, failed = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)  # in its place
            if not failed:
                _, failed = dpotri(root, lower=0, overwrite_c=1)
            if failed:
                msg = "the precision of a row's factors is not positive definite"
                raise np.linalg.LinAlgError(msg)
        packed = A[:, j, i]
        V[:, some] = packed.T
        A[:, i, j] = packed
        t[:, some] = np.matmul(A, b[:, some].T[:, :, None])[:, :, 0].T


def factor_sums(
    tau: Any, nu: Any, q: Posterior, weight: Array | None = None, take: Take = fresh
) -> FactorSums:
    """Sums over rows, with their weights, for the M-step, from tables of the sites."""
    n, k = q.t.shape
    i, j = triangle(k)
    t, V = q.t.T, q.V.T
    second = take("second", len(i), n)
    for out, r, c in zip(second, i, j, strict=True):
        np.multiply(t[r], t[c], out=out)
    second += V
    count = float(n)
    if weight is not None:
        second *= weight
        t = np.multiply(t, weight, out=take("weighted t", k, n))
        count = float(weight.sum())
    return FactorSums(count, np.asarray(tau.T @ second.T), np.asarray(nu.T @ t.T), second.sum(axis=1))


def signal(
    rows: Rows, q: Posterior, f: Factors, take: Take = fresh, *, single: bool = False
) -> tuple[Array, Array]:
    """Mean and variance of w_j't_i at the observed cells, the latter with seven digits if ``single``."""
    m, v = rows.pairs(q.t, f.W, take, "mean"), rows.pairs(q.V, f.outer, take, "variance", single=single)
    return m, np.maximum(v, 0.0, out=v)


def cavity(m: Array, v: Array, tau: Array, nu: Array, take: Take = fresh) -> tuple[Array, Array]:
    """The law of w_j't_i without the cell's own site; its variance is at most 1, whatever rounding says."""
    rest = np.multiply(tau, v, out=take("cavity rest", len(m)))
    np.subtract(1.0, rest, out=rest)
    np.maximum(rest, v, out=rest)
    centre = np.multiply(v, nu, out=take("cavity mean", len(m)))
    np.subtract(m, centre, out=centre)
    centre /= rest
    return centre, np.divide(v, rest, out=take("cavity variance", len(m)))


@dataclass(frozen=True)
class CensoredLaw:
    """Standardised ends of each cell's interval, and moments of the standard normal between them."""

    low: Array
    high: Array
    mean: Array
    variance: Array
    at_low: Array
    at_high: Array


def censored_law(
    m: Array, v: Array, noise: Array, bounds: Array, level: Index, chain: Chain, take: Take = fresh
) -> CensoredLaw:
    """The law of z ~ N(m, v + noise) restricted to the interval of its level."""
    sd = np.add(v, noise, out=take("law sd", len(m)))
    np.sqrt(sd, out=sd)
    ends = []
    for name, node in (("law low", chain.level_low), ("law high", chain.level_high)):
        end = np.take(bounds[node], level, out=take(name, len(m)), mode="clip")
        end -= m
        end /= sd
        ends.append(end)
    return CensoredLaw(ends[0], ends[1], *truncated_moments(ends[0], ends[1], take))


def sites_of(m: Array, v: Array, noise: Array, law: CensoredLaw, take: Take = fresh) -> tuple[Array, Array]:
    """Sites that match the moments of w't under its cavity N(m, v) and the cell's interval."""
    size = len(m)
    spread = np.add(v, noise, out=take("site spread", size))
    curvature = np.subtract(1.0, law.variance, out=take("site tau", size))
    np.maximum(curvature, 1e-12, out=curvature)
    curvature /= spread
    rest = np.multiply(v, curvature, out=take("site rest", size))
    np.subtract(1.0, rest, out=rest)
    np.sqrt(spread, out=spread)
    np.divide(law.mean, spread, out=spread)
    shift = np.multiply(curvature, m, out=take("site nu", size))
    shift += spread
    shift /= rest
    curvature /= rest
    return curvature, shift


def distance_left(moved: Array, last: Array) -> Array:
    """What a geometric series of steps still has to go after ``moved``, the step before it being ``last`` (infinite: the first).

    moved r / (1 - r) with r = moved / last, at least a tenth; as far again after a first step.
    """
    ratio = np.where(np.isinf(last), 0.5, np.clip(moved / np.maximum(last, 1e-300), 0.1, 0.99))
    return moved * ratio / (1.0 - ratio)
