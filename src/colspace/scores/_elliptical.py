"""What every elliptical law shares."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.utils.validation import check_array

from .._overflow import finite_result
from ..factor import eigh
from ..moments import weighted_gram
from ._base import Array, ScoreModel, per_row


class EllipticalScore(ScoreModel):
    r"""A law whose log density depends on a row through one squared distance Q alone.

    With :math:`d = x - \mu`, :math:`Q = d^\top P d` and :math:`\log p = c + g(Q)`,

    .. math:: s = a(Q)\, P d, \qquad T = b(Q)\, P d d^\top P - a(Q)\, P, \qquad a = -2 g', \; b = a^2 - 2 a' .

    Columns are standardised before anything is inverted, so units do not matter: of columns in other units, Dx, the
    score is :math:`D^{-1} s(x)`. Constant columns get a score of zero, and densities are those of the other columns.

    A law gives a and b in ``_factors`` and the log density without its determinant in ``_log_radial``.
    """

    location_: Array
    precision_: Array
    _root: Array  # rank x p, precision = root' root; zero for constant columns
    _log_det: float  # of the matrix that the precision inverts

    @abstractmethod
    def _factors(self, Q: Array) -> tuple[Array, Array]:
        """A(Q) and b(Q)."""

    @abstractmethod
    def _log_radial(self, Q: Array) -> Array:
        """Log density without the determinant, at squared distances Q."""

    def _set_law(self, location: Array, root: Array, log_det: float) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            precision = root.T @ root
        if not np.isfinite(precision).all():
            msg = (
                f"columns are in units so small (1 / sd up to {np.abs(root).max():.3g}) that the inverse of their "
                "covariance overflows. Remedy: rescale them (sklearn.preprocessing.StandardScaler)"
            )
            raise ValueError(msg)
        self.location_ = location
        self.precision_ = precision
        self._root = root
        self._log_det = log_det

    def _whitened(self, X: Any) -> tuple[Array, Array]:
        """Rows in coordinates where the precision is the identity, and their squared lengths Q."""
        Z = (self._checked(X) - self.location_) @ self._root.T
        return Z, np.einsum("ij,ij->i", Z, Z)

    @finite_result
    def score_function(self, X: Any) -> Array:
        """The scores of rows, n x p."""
        Z, Q = self._whitened(X)
        Z *= self._factors(Q)[0][:, None]
        return Z @ self._root

    @finite_result
    def first_moment(self, X: Any, Y: Array) -> Array:
        """Sum over rows of s(x) y', p x q; the scores are not formed."""
        Z, Q = self._whitened(X)
        Y = per_row(Y, len(Z), "Y")
        return self._root.T @ (Z.T @ (Y.T * self._factors(Q)[0]).T)

    @finite_result
    def second_moment(self, X: Any, weights: Array) -> Array:
        """Sum over rows of w T(x): p x p for one weight per row, k x p x p for weights n x k."""
        Z, Q = self._whitened(X)
        weights = per_row(weights, len(Z), "weights")
        a, b = self._factors(Q)
        return self._per_weight(weights, lambda w: (weighted_gram(Z, w * b), float(w @ a)))

    def _per_weight(self, weights: Array, sums: Any) -> Array:
        """W' (G - c I) W for each column of weights, (G, c) = sums(w) in whitened coordinates."""
        columns = np.atleast_2d(weights.T)
        out = np.empty((len(columns), self.n_features_in_, self.n_features_in_))
        for k, w in enumerate(columns):
            gram, total = sums(w)
            gram[np.diag_indices_from(gram)] -= total
            out[k] = self._root.T @ gram @ self._root
        return out[0] if weights.ndim == 1 else out

    def log_density(self, X: Any) -> Array:
        """Log density of rows, n."""
        return self._log_radial(self._whitened(X)[1]) - 0.5 * self._log_det


def root_from(correlation_factor: Array, deviation: Array) -> tuple[Array, float]:
    """W (k x p) with W'W = (D L L' D)^-1 on the k columns that vary and zeros on constant ones, and log det (D L L' D)."""
    varying = deviation > 0
    k = int(varying.sum())
    root = np.zeros((k, len(deviation)))
    inverse = solve_triangular(correlation_factor, np.eye(k), lower=True, check_finite=False)
    root[:, varying] = inverse / deviation[varying]
    log_det = 2 * float(np.log(np.diag(correlation_factor)).sum() + np.log(deviation[varying]).sum())
    return root, log_det


def unit_diagonal(matrix: Array) -> tuple[Array, Array]:
    """Deviations of a covariance (zero for constant columns) and the correlations of the columns that vary."""
    deviation = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    kept = np.flatnonzero(deviation > 0)
    size = deviation[kept]
    correlation = matrix[np.ix_(kept, kept)] / size[:, None] / size
    np.fill_diagonal(correlation, 1.0)
    return deviation, correlation


def given_parameters(
    location: Any, matrix: Any, p: int, what: str = "covariance"
) -> tuple[Array | None, Array | None]:
    """Known parameters as arrays of the right shape, copied; None stays None."""
    if location is not None:
        location = check_array(location, ensure_2d=False, dtype=np.float64, copy=True, input_name="location")
        if location.shape != (p,):
            msg = f"location has shape {location.shape}, but X has {p} columns: shape ({p},) is needed"
            raise ValueError(msg)
    if matrix is None:
        return location, None
    matrix = check_array(matrix, dtype=np.float64, copy=True, input_name=what)
    if matrix.shape != (p, p):
        msg = f"{what} has shape {matrix.shape}, but X has {p} columns: shape ({p}, {p}) is needed"
        raise ValueError(msg)
    _check_covariance(matrix, what)
    return location, (matrix + matrix.T) / 2


def _check_covariance(matrix: Array, what: str) -> None:
    """Refuse what is not symmetric or has a negative eigenvalue, judged on the scale of correlations."""
    variance = np.diag(matrix)
    size = np.sqrt(np.where(variance > 0, variance, 1.0))
    scaled = matrix / size[:, None] / size
    gap = float(np.abs(scaled - scaled.T).max())
    if gap > 1e-8 * max(1.0, float(np.abs(scaled).max())):
        msg = (
            f"{what} is not symmetric: entries differ from their mirror by up to "
            f"{float(np.abs(matrix - matrix.T).max()):.3g}. Use (C + C.T) / 2"
        )
        raise ValueError(msg)
    smallest = float(eigh((scaled + scaled.T) / 2, what=what)[0][0])
    if smallest < -1e-10 * len(matrix):
        msg = (
            f"{what} has a negative eigenvalue ({smallest:.3g} of its correlation matrix): it is not the {what} of any "
            "table. Remedy: estimate it from complete rows, or set negative eigenvalues to zero"
        )
        raise ValueError(msg)
