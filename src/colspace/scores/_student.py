"""Scores of a multivariate t, and the EM algorithm it shares with other variance mixtures."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import digamma, gammaln
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from .._sklearn_compat import Interval, StrOptions, _fit_context
from ..factor import SingularCovarianceError, full_whitener
from ..moments import weighted_gram
from ._gaussian import EllipticalScore, centre_rows, given_parameters, root_of

Array = NDArray[np.float64]
Objective = Callable[[Array], tuple[float, Array]]

DF_RANGE = (2.05, 200.0)
# the spread of the fitted law may shrink to this part of the sample's standard deviation, not further
_SMALLEST_SPREAD = 1e-10


class Shape(Protocol):
    """The shape of a variance mixture: what it adds to a location and a dispersion matrix."""

    def log_radial(self, Q: Array) -> Array:
        """Log density without the determinant, at squared distances Q."""
        ...

    def weights(self, Q: Array) -> Array:
        """E[1/w | x], the E-step; also the factor of P d in the score."""
        ...

    def update(self, Q: Array) -> Self:
        """The shape of largest likelihood at given distances."""
        ...


S = TypeVar("S", bound=Shape)


@dataclass(frozen=True)
class MixtureFit(Generic[S]):
    """Maximum likelihood of a variance mixture; ``root`` is W with W'W = dispersion^-1."""

    location: Array
    dispersion: Array
    root: Array
    log_det: float
    shape: S
    path: Array  # mean log-likelihood at the start and after each iteration
    converged: bool


def fit_mixture(
    X: Array, shape: S, *, location: Array | None, dispersion: Array | None, tol: float, max_iter: int
) -> MixtureFit[S]:
    """ECME for x = location + sqrt(w) A z: location and dispersion by weighted moments, then the shape.

    The shape step maximises the likelihood itself, and along the scale of the dispersion too where that is
    free, so no step can lose likelihood. Everything happens in coordinates where the covariance is the
    identity, so units do not matter. A location or dispersion that is given stays.
    """
    n, p = X.shape
    mean, centred = centre_rows(X, location)
    whitener = full_whitener(
        weighted_gram(centred) / n if dispersion is None else dispersion,
        n + (location is not None) if dispersion is None else p + 1,
        remedies="fewer columns, more rows, or GaussianScore(ridge=...), which has no shape to estimate",
    )
    root, log_det = root_of(whitener)
    Z = centred @ root.T
    shift, factor = np.zeros(p), np.eye(p)  # location and root of the dispersion, in these coordinates
    Q = np.einsum("ij,ij->i", Z, Z)
    shape = shape.update(Q)
    path = [float(np.mean(shape.log_radial(Q)))]
    converged = False
    for _ in range(max_iter):
        a = shape.weights(Q)
        if location is None:
            step = a @ Z / a.sum()
            shift += factor @ step
            Z -= step
        if dispersion is None:
            # rows are whitened anew each time, so one wild row cannot spoil the digits of the others
            last = _factor(weighted_gram(Z, a) / n, factor)
            Z = solve_triangular(last, Z.T, lower=True, check_finite=False).T
            factor = factor @ last
        Q = np.einsum("ij,ij->i", Z, Z)
        shape = shape.update(Q)
        path.append(float(np.mean(shape.log_radial(Q)) - np.log(np.diag(factor)).sum()))
        converged = path[-1] - path[-2] <= tol
        if converged:
            break
    else:
        warnings.warn(
            f"EM has not converged: the mean log-likelihood still grew by {path[-1] - path[-2]:.3g} in iteration "
            f"{max_iter}, more than tol={tol:g}. Remedies: a larger max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    unwhiten = whitener.scale[:, None] * np.asarray(whitener.cholesky)
    spread = unwhiten @ factor
    return MixtureFit(
        location=mean + unwhiten @ shift,
        dispersion=spread @ spread.T if dispersion is None else dispersion,
        root=solve_triangular(factor, root, lower=True),
        log_det=log_det + 2 * float(np.log(np.diag(factor)).sum()),
        shape=shape,
        path=np.array(path) - 0.5 * log_det,
        converged=bool(converged),
    )


def _factor(inner: Array, before: Array) -> Array:
    """Cholesky factor of the next dispersion; ``before`` is the product of all factors so far."""
    try:
        factor = np.asarray(cholesky(inner, lower=True, check_finite=False))
        smallest = float(np.min(np.diag(factor) * np.diag(before)))
    except LinAlgError:
        factor, smallest = inner, 0.0
    if smallest < _SMALLEST_SPREAD:
        msg = (
            f"the dispersion collapsed (to {smallest:.3g} of the standard deviation): too many rows share the same "
            "values in some column or combination of columns, so the likelihood has no maximum. Remedies: drop "
            "such columns, more rows, a given matrix, or GaussianScore"
        )
        raise SingularCovarianceError(msg)
    return factor


def climb(objective: Objective, start: Array, bounds: list[tuple[float, float]]) -> Array:
    """Maximise a function of a few variables that returns its gradient; never ends below the start."""

    def negative(u: Array) -> tuple[float, Array]:
        value, slope = objective(u)
        return -value, -slope

    found = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 100},
    )
    return found.x if -found.fun >= objective(start)[0] else start


@dataclass(frozen=True)
class StudentShape:
    """Density C(df) tau^(-p/2) (1 + Q/tau)^(-(df+p)/2); tau = df - 2 is the covariance form."""

    p: int
    df: float
    tau: float
    free_df: bool
    free_scale: bool

    def log_radial(self, Q: Array) -> Array:
        """Log density without the determinant, at squared distances Q."""
        half = 0.5 * (self.df + self.p)
        constant = gammaln(half) - gammaln(0.5 * self.df) - 0.5 * self.p * np.log(np.pi * self.tau)
        return constant - half * np.log1p(Q / self.tau)

    def weights(self, Q: Array) -> Array:
        """E[1/w | x]."""
        return (self.df + self.p) / (self.tau + Q)

    def slope(self, Q: Array) -> Array:
        """Gradient of the mean log density in log(df - 2) and log(tau / (df - 2))."""
        half = 0.5 * (self.df + self.p)
        in_df = 0.5 * (digamma(half) - digamma(0.5 * self.df) - np.mean(np.log1p(Q / self.tau)))
        in_tau = half * np.mean(Q / (self.tau + Q)) - 0.5 * self.p
        return np.array([(self.df - 2) * in_df + in_tau, in_tau])

    def update(self, Q: Array) -> StudentShape:
        """The shape of largest likelihood at given distances."""
        free = np.array([self.free_df, self.free_scale])
        if not free.any():
            return self
        start = np.log([self.df - 2, self.tau / (self.df - 2)])
        bounds = [(np.log(DF_RANGE[0] - 2), np.log(DF_RANGE[1] - 2)), (start[1] - 20, start[1] + 20)]

        def at(u: Array) -> StudentShape:
            full = start.copy()
            full[free] = u
            spread = float(np.exp(full[0])) if self.free_df else self.df - 2
            return replace(self, df=spread + 2, tau=spread * float(np.exp(full[1])))

        def objective(u: Array) -> tuple[float, Array]:
            shape = at(u)
            return float(np.mean(shape.log_radial(Q))), shape.slope(Q)[free]

        return at(climb(objective, start[free], [b for b, f in zip(bounds, free, strict=True) if f]))


class StudentScore(EllipticalScore):
    r"""Scores of a multivariate t in covariance form.

    With :math:`Q = d^\top \Sigma^{-1} d` and :math:`\Sigma` the covariance (:math:`\nu > 2`),

    .. math:: s = \frac{p + \nu}{\nu - 2 + Q} \Sigma^{-1} d, \qquad
        T = \frac{(p + \nu)(p + \nu + 2)}{(\nu - 2 + Q)^2} \Sigma^{-1} d d^\top \Sigma^{-1}
        - \frac{p + \nu}{\nu - 2 + Q} \Sigma^{-1} .

    Fitted by maximum likelihood (ECME).

    Parameters
    ----------
    df : float > 2 or "auto", default="auto"
        Degrees of freedom. "auto" searches 2.05 to 200.
    location : array (n_features,) or None, default=None
        A known location; None estimates it.
    covariance : array (n_features, n_features) or None, default=None
        A known covariance; None estimates it.
    tol : float, default=1e-8
        EM ends when the mean log-likelihood grows by no more than this.
    max_iter : int, default=500

    Attributes
    ----------
    location_ : ndarray (n_features,)
    covariance_ : ndarray (n_features, n_features)
    scatter_ : ndarray (n_features, n_features)
        ``(df_ - 2) / df_ * covariance_``.
    precision_ : ndarray (n_features, n_features)
        Inverse of ``covariance_``.
    df_ : float
        200 where the data look Gaussian (a warning says so).
    n_iter_ : int
    converged_ : bool
    log_likelihoods_ : ndarray (n_iter_ + 1,)
        Mean log-likelihood at the start and after each iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.scores import StudentScore
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((4000, 5)) / np.sqrt(rng.chisquare(6, (4000, 1)) / 6)
    >>> model = StudentScore().fit(X)
    >>> 5 < model.df_ < 7
    True
    >>> model.score_function(X).shape
    (4000, 5)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "df": [Interval(Real, 2, 1e6, closed="neither"), StrOptions({"auto"})],
        "location": ["array-like", None],
        "covariance": ["array-like", None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        df: float | str = "auto",
        location: Any = None,
        covariance: Any = None,
        tol: float = 1e-8,
        max_iter: int = 500,
    ) -> None:
        self.df = df
        self.location = location
        self.covariance = covariance
        self.tol = tol
        self.max_iter = max_iter

    @property
    def is_given(self) -> bool:
        """Whether every parameter of the law is given."""
        return self.df != "auto" and self.location is not None and self.covariance is not None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the location, the covariance and the degrees of freedom; y is ignored."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        p = X.shape[1]
        location, covariance = given_parameters(self.location, self.covariance, p)
        auto = isinstance(self.df, str)
        df = 8.0 if isinstance(self.df, str) else float(self.df)
        fit = fit_mixture(
            X,
            StudentShape(p, df, df - 2, free_df=auto, free_scale=covariance is None),
            location=location,
            dispersion=covariance,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self.df_ = fit.shape.df
        if auto:
            _warn_df(self.df_)
        ratio = fit.shape.tau / (self.df_ - 2)  # the covariance is this times the dispersion
        self.covariance_ = ratio * fit.dispersion
        self.scatter_ = (self.df_ - 2) / self.df_ * self.covariance_
        self._set_law(fit.location, fit.root / np.sqrt(ratio), fit.log_det + p * float(np.log(ratio)))
        self.n_iter_ = len(fit.path) - 1
        self.converged_ = fit.converged
        self.log_likelihoods_ = fit.path
        return self

    def _factors(self, Q: Array) -> tuple[Array, Array]:
        p, df = self.n_features_in_, self.df_
        a = (p + df) / (df - 2 + Q)
        return a, a * (p + df + 2) / (df - 2 + Q)

    def _log_radial(self, Q: Array) -> Array:
        shape = StudentShape(self.n_features_in_, self.df_, self.df_ - 2, free_df=False, free_scale=False)
        return shape.log_radial(Q)


def _warn_df(df: float) -> None:
    low, high = DF_RANGE
    if df > high * (1 - 1e-6):
        warnings.warn(
            f"df_={df:g} is the upper end of the search: the data look Gaussian (or have lighter tails). "
            "GaussianScore is simpler; a number for df silences this",
            UserWarning,
            stacklevel=4,
        )
    if df < low * (1 + 1e-6):
        warnings.warn(
            f"df_={df:g} is the lower end of the search: tails are so heavy that the covariance may not exist (it "
            "needs df > 2), and moments of the scores are unreliable. Remedies: transform or clip heavy columns "
            "(sklearn.preprocessing.QuantileTransformer), drop outliers, or give df",
            UserWarning,
            stacklevel=4,
        )
