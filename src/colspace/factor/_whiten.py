"""Whitening of one block on its small covariance matrix."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ._linalg import matrix_rank

Array = NDArray[np.float64]

# a squared Cholesky pivot of a correlation matrix under this has no correct digit left
_SMALLEST_PIVOT = 1e-13
# per column, the weight of the identity that leaves six digits to moments whitened on both sides
_SMALLEST_RIDGE = 2e-10


@dataclass(frozen=True)
class Whitener:
    """x' = W (x - mean) with W = L^-1 D^-1, D the column scales, L L' the (shrunk) correlation.

    ``cholesky`` is None for feature-wise scaling; scales of one then mean no whitening at all. In force is
    L L' = (1 - ``shrinkage``) R + ``shrinkage`` I, or R + ``ridge`` I.
    """

    scale: Array
    cholesky: Array | None = None
    shrinkage: float = 0.0
    ridge: float = 0.0

    @property
    def mix(self) -> tuple[float, float]:
        """Weights of the correlations and of the identity in L L'."""
        return (1.0, self.ridge) if self.ridge else (1.0 - self.shrinkage, self.shrinkage)

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

    def unloaded(self, L: Array) -> Array:
        """The directions in whitened coordinates whose loadings are L: the inverse of ``loadings``."""
        M = L * self.scale[:, None]
        return M if self.cholesky is None else self.cholesky.T @ M

    def metric(self, L: Array) -> Array:
        """G L with the matrix G = (W'W)^-1 in which loadings of whitened directions are orthonormal: L'G L = U'U."""
        M = L * self.scale[:, None]
        if self.cholesky is not None:
            M = self.cholesky @ (self.cholesky.T @ M)
        return M * self.scale[:, None]

    def again(self, covariance: Array, rows: int, *, unit: bool = False) -> Whitener:
        """The same whitening for another covariance of the same columns, quietly; scales of one stay."""
        if self.cholesky is not None:
            if self.ridge:
                return ridge_whitener(covariance, self.ridge, unit=unit)
            return full_whitener(covariance, rows, self.shrinkage or None, unit=unit, quiet=True)
        return self if (self.scale == 1.0).all() else diagonal_whitener(np.diag(covariance))

    def tie(self, covariance: Array) -> Array:
        """What orders whitened directions where nothing else does: the columns' variance along them.

        With R = L L' the matrix of R in whitened coordinates is L'L; without whitening it is that of the columns.
        """
        if self.cholesky is not None:
            return self.cholesky.T @ self.cholesky
        return covariance / self.scale / self.scale[:, None]

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


class SingularCovarianceWarning(UserWarning):
    """A covariance cannot be inverted; the smallest ridge that the numbers allow was added."""


def smallest_ridge(n: int) -> float:
    """Weight of the identity that makes a singular n x n correlation matrix safe to invert."""
    return min(_SMALLEST_RIDGE * n, 1e-3)


def _regular_factor(correlation: Array) -> Array | None:
    """The Cholesky factor of a correlation matrix, or None where it is singular to working accuracy."""
    if not np.isfinite(correlation).all():
        msg = "a correlation matrix is not finite: the data overflow float64. Remedy: rescale the columns"
        raise SingularCovarianceError(msg)
    try:
        factor = cholesky(correlation, lower=True, check_finite=False)
    except LinAlgError:
        return None
    return None if np.diag(factor).min() ** 2 < _SMALLEST_PIVOT else factor


def full_whitener(
    covariance: Array,
    rows: int,
    shrinkage: float | None = None,
    *,
    what: str = "X",
    columns: Sequence[object] = (),
    remedies: str = "shrinkage='auto' (or a number in (0, 1]), or fewer columns",
    unit: bool = False,
    quiet: bool = False,
) -> Whitener:
    """Whitener from the Cholesky factor of the covariance, shrunk towards its diagonal.

    The correlation matrix R becomes (1 - a) R + a I, so the result does not depend on units. Without
    ``shrinkage`` a is zero, or the smallest that the numbers allow where R is singular, which a warning says
    (``quiet``: not); zero itself refuses a singular R. ``unit``: the columns have the units they should have, and the
    covariance itself is shrunk.
    """
    n = covariance.shape[0]
    variance = np.diag(covariance)
    constant = variance <= 0
    scale = np.ones(n) if unit else np.sqrt(np.where(constant, 1.0, variance))
    correlation = covariance / scale / scale[:, None]
    if shrinkage == 0.0:
        _refuse_singular(correlation, rows, constant, what, columns, remedies)
    correlation[constant, constant] = 1.0  # decoupled from the rest; nothing varies along it
    factor = _regular_factor(shrink_correlation(correlation, shrinkage or 0.0))
    if factor is not None:
        return Whitener(scale, factor, shrinkage or 0.0)
    ridge = max(smallest_ridge(n), shrinkage or 0.0)
    if not quiet:
        warn_singular(correlation, rows, ridge, what=what, remedies=remedies)
    for _ in range(8):
        factor = _regular_factor(shrink_correlation(correlation, ridge))
        if factor is not None:
            return Whitener(scale, factor, ridge)
        ridge *= 10
    msg = (
        f"the covariance of {what} cannot be inverted even with a ridge of {ridge:.0e}. Remedies: {remedies}"
    )
    raise SingularCovarianceError(msg)


def ridge_whitener(covariance: Array, ridge: float, *, unit: bool = False) -> Whitener:
    """Whitener from the Cholesky factor of R + ridge I, R the correlations (``unit``: the covariance itself).

    A ridge that leaves R singular to working accuracy is raised tenfold until it does not.
    """
    variance = np.diag(covariance)
    constant = variance <= 0
    scale = np.ones(len(variance)) if unit else np.sqrt(np.where(constant, 1.0, variance))
    correlation = covariance / scale / scale[:, None]
    correlation[constant, constant] = 1.0
    for _ in range(8):
        factor = _regular_factor(correlation + ridge * np.eye(len(variance)))
        if factor is not None:
            return Whitener(scale, factor, ridge=ridge)
        ridge *= 10
    msg = (
        f"a covariance cannot be inverted even with a ridge of {ridge:.0e} on its correlations; drop columns"
    )
    raise SingularCovarianceError(msg)


def warn_singular(correlation: Array, rows: int, ridge: float, *, what: str, remedies: str) -> None:
    """Say that a ridge was needed, and why."""
    n = len(correlation)
    if rows <= n:
        fact = f"{what} has {n} columns and only {rows} rows"
    else:
        rank = matrix_rank(correlation, 1e-10)
        fact = f"the covariance of {what} is singular (rank {rank} of {n}: some column is a combination of others)"
    warnings.warn(
        f"{fact}; a ridge of {ridge:.0e} was added to its correlations, the least that the numbers allow. "
        f"Better: {remedies}",
        SingularCovarianceWarning,
        stacklevel=5,
    )


def _refuse_singular(
    correlation: Array,
    rows: int,
    constant: NDArray[np.bool_],
    what: str,
    columns: Sequence[object],
    remedies: str,
) -> None:
    """An exact inverse was asked for: say why there is none."""
    n = len(correlation)
    if rows <= n:
        fact = f"more rows than columns are needed: {rows} rows (n_samples={rows}), {what} has {n} columns"
    elif constant.any():
        names = [columns[i] if len(columns) else int(i) for i in np.flatnonzero(constant)[:5]]
        fact = f"{what} has {constant.sum()} constant column(s), so its covariance is singular: {names}"
        remedies = f"drop them (sklearn.feature_selection.VarianceThreshold), {remedies}"
    elif _regular_factor(correlation) is None:
        rank = matrix_rank(correlation, 1e-10)
        fact = f"the covariance of {what} is singular: rank {rank} of {n} columns, some column is a combination of others"
    else:
        return
    msg = f"{fact}. Remedies: shrinkage=None (the least ridge that the numbers allow), {remedies}"
    raise SingularCovarianceError(msg)


def diagonal_whitener(variance: Array) -> Whitener:
    """Feature-wise scaling; constant columns keep scale one (their centred values are zero)."""
    return Whitener(np.sqrt(np.where(variance > 0, variance, 1.0)))


def ledoit_wolf_shrinkage(
    correlation: Array, fourth: float, count: float, n_columns: int | None = None
) -> float:
    """Ledoit-Wolf weight of the identity for standardised columns.

    With R the sample correlation and z_i the standardised rows,
    a = min(b, d) / d,  d = ||R - I||^2,  b = (1/m) ( (1/m) sum ||z_i||^4 - ||R||^2 ).
    ``n_columns``: of how many columns, when R is given in coordinates of the rows' span.
    """
    n = correlation.shape[0] if n_columns is None else n_columns
    mu = np.trace(correlation) / n
    norm = float(np.sum(correlation**2))
    d = norm - n * mu**2
    b = (fourth / count - norm) / count
    return 1.0 if d <= 0 else float(min(max(b, 0.0), d) / d)
