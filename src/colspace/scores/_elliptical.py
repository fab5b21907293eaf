"""What every elliptical law shares."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from ..moments import weighted_gram
from ._base import Array, ScoreModel, per_row


class EllipticalScore(ScoreModel):
    r"""A law whose log density depends on a row through one squared distance Q alone.

    With :math:`d = x - \mu`, :math:`Q = d^\top P d` and :math:`\log p = c + g(Q)`,

    .. math:: s = a(Q)\, P d, \qquad T = b(Q)\, P d d^\top P - a(Q)\, P, \qquad a = -2 g', \; b = a^2 - 2 a' .

    A law gives a and b in ``_factors`` and the log density without its determinant in ``_log_radial``.
    """

    location_: Array
    precision_: Array
    _root: Array  # rank x p, precision = root' root
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

    def score_function(self, X: Any) -> Array:
        """The scores of rows, n x p."""
        Z, Q = self._whitened(X)
        Z *= self._factors(Q)[0][:, None]
        return Z @ self._root

    def first_moment(self, X: Any, Y: Array) -> Array:
        """Sum over rows of s(x) y', p x q; the scores are not formed."""
        Z, Q = self._whitened(X)
        Y = per_row(Y, len(Z), "Y")
        return self._root.T @ (Z.T @ (Y.T * self._factors(Q)[0]).T)

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


def root_of(whitener: Any) -> tuple[Array, float]:
    """W with W'W = C^-1, and log det C, from the whitener of C."""
    root = whitener.apply(np.eye(len(whitener.scale)))
    log_det = 2 * float(np.log(np.diag(whitener.cholesky)).sum() + np.log(whitener.scale).sum())
    return root, log_det


def centre_rows(X: Array, location: Array | None) -> tuple[Array, Array]:
    """The location (default: the mean) and rows about it; constant columns become exact zeros."""
    if location is not None:
        return location, X - location
    centred = X - X[0]
    mean = centred.mean(axis=0)
    centred -= mean
    return X[0] + mean, centred


def sample_covariance(centred: Array) -> Array:
    """Second moments of centred rows, divisor n."""
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = weighted_gram(centred) / len(centred)
    if not np.isfinite(covariance).all():
        msg = (
            f"the covariance overflows: X has values up to {np.abs(centred).max():.3g} away from its mean. "
            "Remedy: rescale the columns (sklearn.preprocessing.StandardScaler)"
        )
        raise ValueError(msg)
    return covariance


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
    scale = float(np.abs(matrix).max())
    gap = float(np.abs(matrix - matrix.T).max())
    if gap > 1e-8 * scale:
        msg = (
            f"{what} is not symmetric: entries differ from their mirror by up to {gap:.3g}. Use (C + C.T) / 2"
        )
        raise ValueError(msg)
    matrix = (matrix + matrix.T) / 2
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-10 * scale * p:
        msg = (
            f"{what} has a negative eigenvalue, {smallest:.3g}: it is not the {what} of any table. Remedy: estimate "
            "it from complete rows, or set negative eigenvalues to zero"
        )
        raise ValueError(msg)
    return location, matrix
