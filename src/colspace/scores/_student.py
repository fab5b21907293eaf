"""Scores of a multivariate t."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import digamma, gammaln

from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from ._base import Array
from ._mixture import COLLAPSED, NARROWEST, MixtureScore, climb

DF_RANGE = (2.05, 200.0)


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
        return constant - half * _log_ratio(Q, self.tau)

    def weights(self, Q: Array) -> Array:
        """E[1/w | x]."""
        return (self.df + self.p) / (self.tau + Q)

    def slope(self, Q: Array, share: Array | None = None) -> Array:
        """Gradient of the mean log density in log(df - 2) and log(tau / (df - 2))."""
        half = 0.5 * (self.df + self.p)
        in_df = 0.5 * (
            digamma(half) - digamma(0.5 * self.df) - np.average(_log_ratio(Q, self.tau), weights=share)
        )
        in_tau = half * np.average(Q / (self.tau + Q), weights=share) - 0.5 * self.p
        return np.array([(self.df - 2) * in_df + in_tau, in_tau])

    def without_scale(self) -> StudentShape:
        """Degrees of freedom alone are free: the dispersion is the covariance."""
        return replace(self, free_scale=False)

    def update(self, Q: Array, share: Array | None = None) -> StudentShape:
        """The shape of largest likelihood at given distances."""
        free = np.array([self.free_df, self.free_scale])
        if not free.any():
            return self
        directions = np.eye(2)[free]
        now = np.log(self.df - 2)
        bounds = [(np.log(DF_RANGE[0] - 2) - now, np.log(DF_RANGE[1] - 2) - now), (-20.0, 20.0)]

        def at(u: Array) -> StudentShape:
            in_df, in_scale = np.exp(u @ directions)
            return replace(self, df=2 + (self.df - 2) * float(in_df), tau=self.tau * float(in_df * in_scale))

        found = climb(at, Q, share, directions, [b for b, f in zip(bounds, free, strict=True) if f])
        if found.tau < NARROWEST:
            raise ValueError(COLLAPSED)
        return found


def _log_ratio(Q: Array, tau: float) -> Array:
    """log(1 + Q / tau), also where the ratio overflows."""
    with np.errstate(over="ignore"):
        ratio = Q / tau
    far = np.isinf(ratio)
    found: Array = np.log1p(np.where(far, 0.0, ratio))
    if far.any():
        found[far] = np.log(Q[far]) - np.log(tau)
    return found


class StudentScore(MixtureScore[StudentShape]):
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
        Mean log-likelihood at the start and after each iteration; where a singular covariance needed a ridge (a warning
        says so), less ``ridge / 2`` times the trace of the inverse dispersion times the variances.

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
        "max_iter": [whole(1)],
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the location, the covariance and the degrees of freedom; y is ignored.

        Parameters
        ----------
        X : array, DataFrame or Dask collection (n_samples, n_features)
        sample_weight : array (n_samples,) or None
            Two is a row twice, zero a row absent; a constant changes nothing.
        """
        auto = isinstance(self.df, str)
        df = 8.0 if isinstance(self.df, str) else float(self.df)
        fit, given = self._maximise(
            X, sample_weight, lambda k, free: StudentShape(k, df, df - 2, free_df=auto, free_scale=free)
        )
        self.df_ = fit.shape.df
        if auto:
            _warn_df(self.df_)
        self.covariance_ = self._set_scaled(fit, given, fit.shape.tau / (self.df_ - 2))
        self.scatter_ = (self.df_ - 2) / self.df_ * self.covariance_
        return self

    def _given_matrix(self) -> tuple[str, Any]:
        return "covariance", self.covariance

    def _factors(self, Q: Array) -> tuple[Array, Array]:
        p, df = len(self._root), self.df_
        a = (p + df) / (df - 2 + Q)
        return a, a * (p + df + 2) / (df - 2 + Q)

    def _log_radial(self, Q: Array) -> Array:
        shape = StudentShape(len(self._root), self.df_, self.df_ - 2, free_df=False, free_scale=False)
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
