"""Scores of a Gaussian, and what it shares with every elliptical law."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from .._sklearn_compat import Interval, _fit_context
from ..factor import full_whitener
from ..moments import weighted_gram
from ._base import ScoreModel

Array = NDArray[np.float64]

# eigenvalues under this times p times the largest count as zero in a pseudo-inverse
RANK_TOLERANCE = 1e-13


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

    def _factors(self, Q: Array) -> tuple[Array, Array]:
        """A(Q) and b(Q)."""
        raise NotImplementedError

    def _log_radial(self, Q: Array) -> Array:
        raise NotImplementedError

    def _set_law(self, location: Array, root: Array, log_det: float) -> None:
        self.location_ = location
        self.precision_ = root.T @ root
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


class GaussianScore(EllipticalScore):
    r"""Scores of a Gaussian.

    .. math:: s = P (x - \mu), \qquad T = P d d^\top P - P, \qquad
        P = (\Sigma + \mathrm{ridge} \cdot \tfrac{\mathrm{tr} \Sigma}{p} I)^{-1} .

    Parameters
    ----------
    ridge : float, default=0.0
        Added to the diagonal of the covariance, in units of the mean variance.
    pseudo_inverse : bool, default=False
        Moore-Penrose inverse of a singular covariance: eigenvalues at most ``1e-13 * p`` times the largest
        count as zero. Densities are then those of the rows' projection on the covariance's range.
    location : array (n_features,) or None, default=None
        A known mean; None estimates it.
    covariance : array (n_features, n_features) or None, default=None
        A known covariance; None estimates it (divisor n).

    Attributes
    ----------
    location_ : ndarray (n_features,)
    covariance_ : ndarray (n_features, n_features)
        Without the ridge.
    precision_ : ndarray (n_features, n_features)
        P, with the ridge.
    ridge_ : float
        What was added to the diagonal.
    rank_ : int
        Rank of the precision.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.scores import GaussianScore
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> model = GaussianScore().fit(X)
    >>> np.round(model.first_moment(X, X) / 500, 6) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "ridge": [Interval(Real, 0, None, closed="left")],
        "pseudo_inverse": ["boolean"],
        "location": ["array-like", None],
        "covariance": ["array-like", None],
    }

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        pseudo_inverse: bool = False,
        location: Any = None,
        covariance: Any = None,
    ) -> None:
        self.ridge = ridge
        self.pseudo_inverse = pseudo_inverse
        self.location = location
        self.covariance = covariance

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the mean and the covariance; y is ignored."""
        known = self.covariance is not None
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=1 if known else 2)
        location, covariance = given_parameters(self.location, self.covariance, X.shape[1])
        free_rows = len(X) if location is None else len(X) + 1
        if known:
            return self._store(
                X.mean(axis=0) if location is None else location, np.asarray(covariance), X.shape[1] + 1
            )
        location, centred = centre_rows(X, location)
        return self._store(location, weighted_gram(centred) / len(X), free_rows)

    def _store(self, location: Array, covariance: Array, count: int) -> Self:
        """Invert; ``count`` must exceed the columns for the covariance to have full rank."""
        p = len(location)
        trace = float(np.trace(covariance))
        if trace <= 0:
            msg = f"X has no variation: all {p} columns are constant, and a score needs a spread. Drop them"
            raise ValueError(msg)
        self.ridge_ = float(self.ridge) * trace / p
        self.covariance_ = covariance
        if self.pseudo_inverse and self.ridge_ == 0:
            root, log_det = _pseudo_root(covariance)
        else:
            whitener = full_whitener(
                covariance + self.ridge_ * np.eye(p),
                p + 1 if self.ridge_ else count,
                remedies="ridge > 0 (or a larger one), pseudo_inverse=True, or fewer columns",
            )
            root, log_det = root_of(whitener)
        self.rank_ = len(root)
        self._set_law(location, root, log_det)
        return self

    def score_function(self, X: Any) -> Array:
        """The scores of rows, n x p."""
        return (self._checked(X) - self.location_) @ self.precision_

    def first_moment(self, X: Any, Y: Array) -> Array:
        """Sum over rows of s(x) y', p x q; one product with the rows, the scores are not formed."""
        X = self._checked(X)
        return self.precision_ @ ((X - self.location_).T @ per_row(Y, len(X), "Y"))

    def second_moment(self, X: Any, weights: Array) -> Array:
        """Sum over rows of w T(x): p x p for one weight per row, k x p x p for weights n x k."""
        centred = self._checked(X) - self.location_
        weights = per_row(weights, len(centred), "weights")
        W = self._root
        return self._per_weight(weights, lambda w: (W @ weighted_gram(centred, w) @ W.T, float(w.sum())))

    def _factors(self, Q: Array) -> tuple[Array, Array]:
        return np.ones_like(Q), np.ones_like(Q)

    def _log_radial(self, Q: Array) -> Array:
        return -0.5 * (len(self._root) * np.log(2 * np.pi) + Q)


def gaussian_from_moments(
    mean: Array,
    covariance: Array,
    ridge: float = 0.0,
    pseudo_inverse: bool = False,
    count: int | None = None,
) -> GaussianScore:
    """A fitted GaussianScore from moments that a stream has added up.

    ``covariance`` has divisor n; ``count``, the number of rows behind it, is checked against the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.scores import gaussian_from_moments
    >>> gaussian_from_moments(np.zeros(2), 4 * np.eye(2), count=100).precision_
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """
    model = GaussianScore(ridge=ridge, pseudo_inverse=pseudo_inverse)
    model._validate_params()
    mean = np.array(mean, dtype=np.float64)
    if mean.ndim != 1 or not len(mean):
        msg = f"mean must be one number per column, got shape {mean.shape}"
        raise ValueError(msg)
    location, checked = given_parameters(mean, covariance, len(mean))
    if location is None or checked is None:
        msg = f"mean and covariance are both needed, got covariance={covariance!r}"
        raise ValueError(msg)
    model.n_features_in_ = len(location)
    return model._store(location, checked, len(location) + 1 if count is None else count)


def _pseudo_root(covariance: Array) -> tuple[Array, float]:
    values, vectors = np.linalg.eigh(covariance)
    kept = values > RANK_TOLERANCE * len(values) * values[-1]
    return (vectors[:, kept] / np.sqrt(values[kept])).T, float(np.log(values[kept]).sum())


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
        msg = f"{what} has a negative eigenvalue, {smallest:.3g}: it is not the {what} of any table"
        raise ValueError(msg)
    return location, matrix


def per_row(values: Any, n: int, name: str) -> Array:
    """One or several finite numbers per row: n, or n x k."""
    values = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name, ensure_min_samples=0)
    if values.ndim not in (1, 2) or len(values) != n:
        msg = f"{name} has shape {values.shape}, but X has {n} rows: shape ({n},) or ({n}, k) is needed"
        raise ValueError(msg)
    return values
