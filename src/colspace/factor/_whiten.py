"""Whitening of one block on its small covariance matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

Array = NDArray[np.float64]

# a squared Cholesky pivot of a correlation matrix under this has no correct digit left
_SMALLEST_PIVOT = 1e-13


@dataclass(frozen=True)
class Whitener:
    """x' = W (x - mean) with W = L^-1 D^-1, D the column scales, L L' the (shrunk) correlation.

    ``cholesky`` is None for feature-wise scaling; scales of one then mean no whitening at all.
    """

    scale: Array
    cholesky: Array | None = None

    def apply(self, M: Array) -> Array:
        """W M for a matrix (features x anything)."""
        M = M / self.scale[:, None]
        if self.cholesky is None:
            return M
        return solve_triangular(self.cholesky, M, lower=True, overwrite_b=True, check_finite=False)

    def loadings(self, U: Array) -> Array:
        """W' U: directions for the original columns from directions in whitened coordinates."""
        if self.cholesky is not None:
            U = solve_triangular(self.cholesky, U, lower=True, trans="T", check_finite=False)
        return U / self.scale[:, None]

    def both_sides(self, T: Array, right: Whitener) -> Array:
        """W T_k W_right' for a stack of matrices (k x features x features)."""
        k, n, p = T.shape
        half = self.apply(T.transpose(1, 0, 2).reshape(n, k * p)).reshape(n, k, p)
        whole = right.apply(half.transpose(2, 1, 0).reshape(p, k * n)).reshape(p, k, n)
        return whole.transpose(1, 2, 0)


def shrink_correlation(correlation: Array, shrinkage: float) -> Array:
    """(1 - a) R + a I."""
    shrunk = (1.0 - shrinkage) * correlation
    np.fill_diagonal(shrunk, (1.0 - shrinkage) * np.diag(correlation) + shrinkage)
    return shrunk


class SingularCovarianceError(ValueError):
    """A covariance cannot be inverted."""


def full_whitener(
    covariance: Array,
    count: int,
    shrinkage: float = 0.0,
    *,
    what: str = "X",
    columns: Sequence[object] = (),
    remedies: str = "shrinkage='auto' (or a number in (0, 1]), or fewer columns",
) -> Whitener:
    """Whitener from the Cholesky factor of the covariance, shrunk towards its diagonal.

    The correlation matrix R becomes (1 - a) R + a I, so the result does not depend on units.
    """
    n = covariance.shape[0]
    variance = np.diag(covariance)
    constant = np.flatnonzero(variance <= 0)
    if shrinkage == 0.0 and count <= n:
        fact = f"more rows than columns are needed: {count} rows (n_samples={count}), {what} has {n} columns"
        raise SingularCovarianceError(f"{fact}. Remedies: {remedies}")  # noqa: EM102
    if shrinkage == 0.0 and constant.size:
        names = [columns[i] if len(columns) else int(i) for i in constant[:5]]
        fact = f"{what} has {constant.size} constant column(s), so its covariance is singular: {names}"
        drop = "drop them (sklearn.feature_selection.VarianceThreshold)"
        raise SingularCovarianceError(f"{fact}. Remedies: {drop}, {remedies}")  # noqa: EM102
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    correlation = shrink_correlation(covariance / np.outer(scale, scale), shrinkage)
    try:
        factor = cholesky(correlation, lower=True, check_finite=False)
    except LinAlgError:
        factor = None
    if factor is None or np.diag(factor).min() ** 2 < _SMALLEST_PIVOT:
        rank = int(np.linalg.matrix_rank(correlation, tol=1e-10 * n, hermitian=True))
        fact = f"the covariance of {what} is singular: rank {rank} of {n} columns, some column is a combination of others"
        raise SingularCovarianceError(f"{fact}. Remedies: {remedies}")  # noqa: EM102
    return Whitener(scale, factor)


def diagonal_whitener(variance: Array) -> Whitener:
    """Feature-wise scaling; constant columns keep scale one (their centred values are zero)."""
    return Whitener(np.sqrt(np.where(variance > 0, variance, 1.0)))


def ledoit_wolf_shrinkage(correlation: Array, fourth: float, count: int) -> float:
    """Ledoit-Wolf weight of the identity for standardised columns.

    With R the sample correlation and z_i the standardised rows,
    a = min(b, d) / d,  d = ||R - I||^2,  b = (1/m) ( (1/m) sum ||z_i||^4 - ||R||^2 ).
    """
    n = correlation.shape[0]
    mu = np.trace(correlation) / n
    norm = float(np.sum(correlation**2))
    d = norm - n * mu**2
    b = (fourth / count - norm) / count
    return 1.0 if d <= 0 else float(min(max(b, 0.0), d) / d)
