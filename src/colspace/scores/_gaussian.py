"""Scores of a Gaussian."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from .._sklearn_compat import Interval, _fit_context
from ..factor import full_whitener
from ..moments import weighted_gram
from ._base import Array, per_row
from ._elliptical import EllipticalScore, centre_rows, given_parameters, root_of, sample_covariance

# eigenvalues under this times p times the largest count as zero in a pseudo-inverse
RANK_TOLERANCE = 1e-13


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

    @property
    def is_given(self) -> bool:
        """Whether every parameter of the law is given."""
        return self.location is not None and self.covariance is not None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the mean and the covariance; y is ignored."""
        X = self._rows_to_fit(X, 2 if self.covariance is None else 1)
        n, p = X.shape
        given, covariance = given_parameters(self.location, self.covariance, p)
        location, centred = centre_rows(X, given)
        if covariance is not None:
            return self._store(location, covariance, p + 1)
        return self._store(location, sample_covariance(centred), n + (given is not None))

    def _store(self, location: Array, covariance: Array, count: int) -> Self:
        """Invert; ``count`` must exceed the columns for the covariance to have full rank."""
        p = len(location)
        trace = float(np.trace(covariance))
        if trace <= 0:
            msg = (
                f"X has no variation: all {p} columns are constant (or the given covariance is zero), and a score "
                "needs a spread. Remedy: drop constant columns"
            )
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
