"""Scores of a Gaussian."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from .._overflow import finite_result
from .._sklearn_compat import Interval, StrOptions, _fit_context
from .._validation import feature_names
from ..factor import SingularCovarianceError, eigh, matrix_rank
from ..moments import weighted_gram
from ._base import Array, per_row
from ._elliptical import EllipticalScore, given_parameters, root_from, unit_diagonal
from ._standard import (
    SINGULAR_RIDGE,
    lower_factor,
    require_variation,
    ridged,
    singular_ridge,
    standard,
    warn_flat,
    warn_singular,
)

# eigenvalues under this times p times the largest count as zero in a pseudo-inverse
RANK_TOLERANCE = 1e-13
_REMEDIES = "ridge='auto' or > 0 (or a larger one), pseudo_inverse=True, or fewer columns"


class GaussianScore(EllipticalScore):
    r"""Scores of a Gaussian.

    .. math:: s = P (x - \mu), \qquad T = P d d^\top P - P, \qquad
        P = (\Sigma + \mathrm{ridge} \cdot \operatorname{diag} \Sigma)^{-1} .

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        Added to the diagonal of the correlation matrix, so each variance is raised by this part of itself; inf leaves
        the diagonal of the covariance alone. "auto" is 0, and where the covariance is singular the smallest ridge that
        the numbers allow, 1e-8, with a warning. 0 asks for the exact inverse and refuses singular covariances.
    pseudo_inverse : bool, default=False
        With a ridge of 0 (or "auto"), the Moore-Penrose inverse of a singular correlation matrix: eigenvalues at most
        ``1e-13 * p`` times the largest count as zero. Densities are then those of the standardised rows' projection
        on its range.
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
        P, with the ridge; zero for constant columns.
    ridge_ : float
        The ridge in force, in correlation units.
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
        "ridge": [Interval(Real, 0, np.inf, closed="both"), StrOptions({"auto"})],
        "pseudo_inverse": ["boolean"],
        "location": ["array-like", None],
        "covariance": ["array-like", None],
    }

    def __init__(
        self,
        *,
        ridge: float | str = "auto",
        pseudo_inverse: bool = False,
        location: Any = None,
        covariance: Any = None,
    ) -> None:
        self.ridge = ridge
        self.pseudo_inverse = pseudo_inverse
        self.location = location
        self.covariance = covariance

    @property
    def is_given(self) -> bool:
        """Whether every parameter of the law is given."""
        return self.location is not None and self.covariance is not None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the mean and the covariance in two passes over the rows; y is ignored.

        Parameters
        ----------
        X : array, DataFrame or Dask collection (n_samples, n_features)
        sample_weight : array (n_samples,) or None
            Two is a row twice, zero a row absent; a constant changes nothing.
        """
        X, weight = self._rows_to_fit(X, 2 if self.covariance is None else 1, sample_weight, partitions=True)
        p = self.n_features_in_
        given, covariance = given_parameters(self.location, self.covariance, p)
        if given is not None and covariance is not None:
            return self._store(given, covariance, *unit_diagonal(covariance), p + 1)
        table = standard(X, weight, given, feature_names(self))
        if covariance is not None:
            return self._store(table.location, covariance, *unit_diagonal(covariance), p + 1)
        count = table.count + (given is not None)
        return self._store(table.location, table.covariance, table.deviation, table.correlation, count)

    def _store(
        self, location: Array, covariance: Array, deviation: Array, correlation: Array, count: int
    ) -> Self:
        """Invert; ``count`` must exceed the columns for the covariance to have full rank."""
        varying = deviation > 0
        require_variation(varying)
        warn_flat(varying, feature_names(self))
        self.covariance_ = covariance
        pseudo = self.pseudo_inverse and self.ridge in (0, "auto")
        self.ridge_ = 0.0 if pseudo else self._ridge(correlation, count)
        if pseudo:
            root, log_det = _pseudo_root(correlation, deviation)
        else:
            root, log_det = root_from(lower_factor(ridged(correlation, self.ridge_)), deviation)
        self.rank_ = len(root)
        self._set_law(location, root, log_det)
        return self

    def _ridge(self, correlation: Array, count: int) -> float:
        """The ridge in force."""
        k = len(correlation)
        if not isinstance(self.ridge, str):
            ridge = float(self.ridge)
            if ridge == 0.0 and count <= k:
                fact = (
                    f"more rows than columns are needed: {count} rows (n_samples={count}), X has {k} columns"
                )
                raise SingularCovarianceError(f"{fact}. Remedies: {_REMEDIES}")  # noqa: EM102
            if ridge < 1.0 and singular_ridge(ridged(correlation, ridge)):
                rank = matrix_rank(correlation, tol=1e-10 * k)
                fact = f"the covariance of X is singular: rank {rank} of {k} columns, some column is a combination of others"
                raise SingularCovarianceError(f"{fact}. Remedies: {_REMEDIES}")  # noqa: EM102
            return ridge
        ridge = SINGULAR_RIDGE if count <= k else singular_ridge(correlation)
        if ridge:
            warn_singular(
                ridge, count, k, "Remedies: a larger ridge, fewer columns, or ridge=0.0 to refuse this"
            )
        return ridge

    @finite_result
    def score_function(self, X: Any) -> Array:
        """The scores of rows, n x p."""
        return (self._checked(X) - self.location_) @ self.precision_

    @finite_result
    def first_moment(self, X: Any, Y: Array) -> Array:
        """Sum over rows of s(x) y', p x q; one product with the rows, the scores are not formed."""
        X = self._checked(X)
        return self.precision_ @ ((X - self.location_).T @ per_row(Y, len(X), "Y"))

    @finite_result
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
    ridge: float | str = "auto",
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
    p = model.n_features_in_ = len(location)
    return model._store(location, checked, *unit_diagonal(checked), p + 1 if count is None else count)


def _pseudo_root(correlation: Array, deviation: Array) -> tuple[Array, float]:
    """Root of D^-1 R^+ D^-1, and the log determinant of D R D on the range of R."""
    varying = deviation > 0
    values, vectors = eigh(correlation, what="the correlation matrix of X")
    kept = values > RANK_TOLERANCE * len(values) * values[-1]
    root = np.zeros((int(kept.sum()), len(deviation)))
    root[:, varying] = (vectors[:, kept] / np.sqrt(values[kept])).T / deviation[varying]
    return root, float(np.log(values[kept]).sum() + 2 * np.log(deviation[varying]).sum())
