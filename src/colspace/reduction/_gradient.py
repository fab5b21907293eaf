"""Gradients of a kernel ridge regression: where what is left of y bends, for any law of the columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dlauum, dpotrf, dtrtri

from ..factor import eigh
from ..moments import mirrored

Array = NDArray[np.float64]

_last: ContextVar[list[tuple[Any, KernelFit | None]] | None] = ContextVar(
    "last kernel regression", default=None
)

# bandwidths in units of the median squared distance, ridges in units of the rows
BANDWIDTHS = (1.0, 3.0)
TUNING_ROWS = 500
_MANY = 50_000
RIDGES = 10.0 ** np.linspace(-5.0, 1.0, 13)


@dataclass(frozen=True)
class KernelFit:
    r"""A Gaussian kernel ridge regression: rows, coefficients, 1/bandwidth, and its leave-one-out squared error.

    ``inverse``, where it is asked for and the regression says something, is :math:`(K + \lambda W^{-1})^{-1}`. ``products``
    keeps ``gradient_products`` within blocks for later, by their first column and the one after their last.
    """

    rows: Array
    coefficients: Array
    gamma: float
    kernel: Array
    error: float
    ridge: float
    inverse: Array | None = None
    products: dict[tuple[int, int], Array] = field(default_factory=dict)

    def gradient(self, alpha: Array, values: Array | None = None) -> Array:
        """Gradients at every row for these coefficients (``values``: of their function, if known)."""
        values = self.kernel @ alpha if values is None else values
        G = self.kernel @ (alpha[:, None] * self.rows) - values[:, None] * self.rows
        G *= 2 * self.gamma
        return G

    @cached_property
    def gradients(self) -> list[Array]:
        """Those of every response."""
        return list(self.each_gradient())

    def each_gradient(self) -> Iterator[Array]:
        """Gradients of one response after the other."""
        values = self.kernel @ self.coefficients
        for alpha, value in zip(self.coefficients.T, values.T, strict=True):
            yield self.gradient(alpha, value)

    def gradient_products(self, weights: Array, block: slice = slice(None)) -> Array:
        r"""E[g g'] summed over responses, with :math:`g = 2\gamma \sum_i \alpha_i k(x, x_i)(x_i - x)` at every row."""
        p = self.rows[:, block].shape[1]
        total = np.zeros((p, p))
        share = np.sqrt(weights / weights.sum())
        for g in self.each_gradient() if self.inverse is None else self.gradients:
            G = g[:, block] * share[:, None]
            total += G.T @ G
        return total


def squared_distances(A: Array) -> Array:
    """Squared distances between all rows."""
    norms = np.einsum("ij,ij->i", A, A)
    D = A @ A.T
    D *= -2
    for i in range(0, len(D), 64):  # by parts, so that no second square is made
        D[i : i + 64] += norms[i : i + 64, None] + norms
    np.maximum(D, 0.0, out=D)
    np.fill_diagonal(D, 0.0)
    return D


def weighted_median(values: Array, weights: Array) -> float:
    """The value that half of the weight does not exceed; of many values those near it in a part of them are sorted."""
    half, below = float(weights.sum()) / 2, 0.0
    if len(values) > _MANY:
        few = slice(None, None, len(values) // 4096)
        order = np.argsort(values[few], kind="stable")
        share = np.cumsum(weights[few][order])
        low, high = values[few][order][np.searchsorted(share, np.array([0.45, 0.55]) * share[-1])]
        lighter, near = values < low, (values >= low) & (values <= high)
        before = float(weights @ lighter)
        if before < half <= before + float(weights @ near):
            values, weights, below = values[near], weights[near], before
    order = np.argsort(values, kind="stable")
    place = np.searchsorted(np.cumsum(weights[order]), half - below)
    return float(values[order[min(int(place), len(order) - 1)]])


def fit_kernel(A: Array, R: Array, weights: Array, *, keep_inverse: bool = False) -> KernelFit | None:
    r"""Kernel ridge of R (rows x responses) on rows A, bandwidth and ridge by exact leave-one-out error.

    With weights w the coefficients solve :math:`(K + \lambda W^{-1})\alpha = R`, :math:`H = K (K + \lambda W^{-1})^{-1}`, and
    leaving out one of the w copies of a row gives the error :math:`(r - f)/(1 - H_{ii}/w_i)`. Beyond 500 rows
    bandwidth and ridge are those of every k-th row, 500 in all. None where rows coincide.
    """
    D = squared_distances(A)
    middle = median_distance(D, weights)
    if not middle > 0:
        return None
    few = np.arange(0, len(A), max(1, -(-len(A) // TUNING_ROWS)))
    factor, share = tune_kernel(D[np.ix_(few, few)] / middle, R[few], weights[few])
    root, n = np.sqrt(weights), float(weights.sum())
    D /= -factor * middle
    K = np.exp(D, out=D)
    K *= root
    K *= root[:, None]
    ridge = share * n
    np.fill_diagonal(K, weights + ridge)
    # LAPACK's lower half is the upper one here: the factor takes it, the kernel stays in the other
    factored, info = dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if info:
        return None
    alpha = cho_solve((factored, True), R * root[:, None], check_finite=False) * root[:, None]
    rest = ridge * alpha / weights[:, None]  # r - f
    inverted, _ = dtrtri(factored, lower=1, overwrite_c=1)
    keep = 1.0 - (1.0 - ridge * inverse_diagonal(inverted)) / weights
    error = float(np.sum(weights[:, None] * (rest / np.maximum(keep, 1e-14)[:, None]) ** 2) / n)
    useful = error < float(np.sum(weights[:, None] * R**2)) / n
    inverse = whole_inverse(inverted, root) if keep_inverse and useful else None
    mirrored(K)
    K /= root
    K /= root[:, None]
    np.fill_diagonal(K, 1.0)
    return KernelFit(A, alpha, 1.0 / (factor * middle), K, error / R.shape[1], ridge, inverse)


@contextmanager
def one_kernel() -> Iterator[None]:
    """Within it ``same_kernel`` keeps its last regression: fits of other numbers of directions ask for it again."""
    token = _last.set([])
    try:
        yield
    finally:
        _last.reset(token)


def same_kernel(A: Array, R: Array, weights: Array, *, keep_inverse: bool = False) -> KernelFit | None:
    """``fit_kernel``, or within ``one_kernel`` what it last gave for the same rows."""
    held = _last.get()
    if held is None:
        return fit_kernel(A, R, weights, keep_inverse=keep_inverse)
    given = (A, R, weights, np.array(keep_inverse))
    if not held or not all(np.array_equal(a, b) for a, b in zip(held[0][0], given, strict=True)):
        held[:] = [(given, fit_kernel(A, R, weights, keep_inverse=keep_inverse))]
    return held[0][1]


def inverse_diagonal(inverted: Array) -> Array:
    """Diagonal of (L L')^-1, the squared norms of the columns of L^-1, which is the lower half."""
    return np.array([column[i:] @ column[i:] for i, column in enumerate(inverted.T)])


def whole_inverse(inverted: Array, root: Array) -> Array:
    """(L L')^-1 from the lower half L^-1, rows and columns scaled."""
    found, _ = dlauum(inverted, lower=1)
    found = mirrored(found).T  # rows together, of which groups take some
    if (root != 1.0).any():
        found *= root
        found *= root[:, None]
    return found


def median_distance(D: Array, weights: Array) -> float:
    """Median of the squared distances of all pairs of rows, copies counted."""
    if (weights == weights[0]).all():
        n = len(D)  # sorted, all pairs are n zeros and every other distance twice
        below = np.concatenate([row[:i] for i, row in enumerate(D)])
        places = [(k - n) // 2 for k in ((n * n - 1) // 2, n * n // 2)]
        if places[0] < 0:
            return float(np.median(D))
        below.partition(sorted(set(places)))
        return float(below[places].mean())
    return weighted_median(D.ravel(), np.outer(weights, weights).ravel())


def tune_kernel(D: Array, R: Array, weights: Array) -> tuple[float, float]:
    """Bandwidth (in units of D) and ridge (in units of the weight) of least leave-one-out error."""
    root, n = np.sqrt(weights), float(weights.sum())
    best = (np.inf, BANDWIDTHS[0], RIDGES[-1])
    for factor in BANDWIDTHS:
        values, U = eigh(np.exp(D / -factor) * root * root[:, None])
        values = np.maximum(values, 0.0)
        target = U.T @ (R * root[:, None])
        square = U * U
        for share in RIDGES:
            shrink = share * n / (values + share * n)  # 1 - hat values along the axes
            rest = U @ (shrink[:, None] * target) / root[:, None]
            keep = 1.0 - (1.0 - square @ shrink) / weights
            error = float(np.sum(weights[:, None] * (rest / np.maximum(keep, 1e-14)[:, None]) ** 2))
            if error < best[0]:
                best = (error, factor, float(share))
    return best[1], best[2]
