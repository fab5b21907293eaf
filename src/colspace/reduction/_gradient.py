"""Gradients of a kernel ridge regression: where what is left of y bends, for any law of the columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf, dpotri

from ..factor import eigh

Array = NDArray[np.float64]

# bandwidths in units of the median squared distance, ridges in units of the rows
BANDWIDTHS = (1.0, 3.0)
TUNING_ROWS = 500
RIDGES = 10.0 ** np.linspace(-5.0, 1.0, 13)


@dataclass(frozen=True)
class KernelFit:
    r"""A Gaussian kernel ridge regression: rows, coefficients, 1/bandwidth, and its leave-one-out squared error.

    ``inverse`` is the lower triangle of :math:`(W^{1/2} K W^{1/2} + \lambda)^{-1}`.
    """

    rows: Array
    coefficients: Array
    gamma: float
    kernel: Array
    error: float
    ridge: float
    inverse: Array

    def gradient(self, alpha: Array) -> Array:
        """Gradients at every row for these coefficients."""
        K = self.kernel * alpha
        return 2 * self.gamma * (K @ self.rows - K.sum(axis=1)[:, None] * self.rows)

    def gradient_products(self, weights: Array) -> Array:
        r"""E[g g'] summed over responses, with :math:`g = 2\gamma \sum_i \alpha_i k(x, x_i)(x_i - x)` at every row."""
        p = self.rows.shape[1]
        total = np.zeros((p, p))
        share = np.sqrt(weights / weights.sum())
        for alpha in self.coefficients.T:
            G = self.gradient(alpha) * share[:, None]
            total += G.T @ G
        return total


def squared_distances(A: Array) -> Array:
    """Squared distances between all rows."""
    norms = np.einsum("ij,ij->i", A, A)
    D = norms[:, None] + norms - 2 * A @ A.T
    np.maximum(D, 0.0, out=D)
    np.fill_diagonal(D, 0.0)
    return D


def weighted_median(values: Array, weights: Array) -> float:
    """The value that half of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def fit_kernel(A: Array, R: Array, weights: Array) -> KernelFit | None:
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
    K = np.exp(D / (-factor * middle))
    system = K * root * root[:, None]
    ridge = share * n
    system[np.diag_indices_from(system)] += ridge
    factored, info = dpotrf(system, lower=1, overwrite_a=1, clean=0)
    if info:
        return None
    alpha = cho_solve((factored, True), R * root[:, None], check_finite=False) * root[:, None]
    inverse, _ = dpotri(factored, lower=1, overwrite_c=1)
    rest = ridge * alpha / weights[:, None]  # r - f
    keep = 1.0 - (1.0 - ridge * np.diag(inverse)) / weights
    error = float(np.sum(weights[:, None] * (rest / np.maximum(keep, 1e-14)[:, None]) ** 2) / n)
    return KernelFit(A, alpha, 1.0 / (factor * middle), K, error / R.shape[1], ridge, inverse)


def median_distance(D: Array, weights: Array) -> float:
    """Median of the squared distances of all pairs of rows, copies counted."""
    if (weights == weights[0]).all():
        return float(np.median(D))
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
