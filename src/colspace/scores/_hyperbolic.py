"""Scores of a symmetric multivariate hyperbolic law."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import kve
from sklearn.utils.validation import validate_data

from .._sklearn_compat import Interval, StrOptions, _fit_context
from ._gaussian import EllipticalScore, given_parameters
from ._student import climb, fit_mixture

Array = NDArray[np.float64]

# range of sqrt(chi psi), in units of lambda = (p + 1) / 2: a cusp at one end, a Gaussian at the other
OMEGA_RANGE = (1e-3, 1e3)


def scaled_bessel(order: float, x: float) -> tuple[float, float]:
    """log(exp(x) K_order(x)) and K_{order+1}(x) / K_order(x), for 2 * order a whole number.

    The forward recurrence of ratios is stable, and its logarithms neither overflow nor underflow.
    """
    at = order % 1.0
    value, above = kve(at, x), kve(at + 1, x)
    log, ratio = np.log(value), above / value
    while at < order - 0.25:
        log += np.log(ratio)
        at += 1.0
        ratio = 2.0 * at / x + 1.0 / ratio
    return float(log), float(ratio)


@dataclass(frozen=True)
class HyperbolicShape:
    """chi and psi; ``directions`` span what is free of (log chi, log psi)."""

    p: int
    chi: float
    psi: float
    directions: tuple[tuple[float, float], ...] = ()

    @property
    def omega(self) -> float:
        """sqrt(chi psi), which does not depend on the scale of the dispersion."""
        return float(np.sqrt(self.chi * self.psi))

    @property
    def mean(self) -> float:
        """E[w] of the mixing variable."""
        return float(np.sqrt(self.chi / self.psi)) * scaled_bessel(0.5 * (self.p + 1), self.omega)[1]

    def log_radial(self, Q: Array) -> Array:
        """Log density without the determinant, at squared distances Q."""
        order = 0.5 * (self.p + 1)
        log_bessel = scaled_bessel(order, self.omega)[0]
        constant = (
            0.5 * order * np.log(self.psi / self.chi)
            - 0.5 * np.log(self.psi)
            - log_bessel
            + 0.5 * np.log(0.5 * np.pi)
            - 0.5 * self.p * np.log(2 * np.pi)
        )
        # sqrt(psi (chi + Q)) - omega, which the scaled Bessel function leaves, without cancellation
        return constant - self.psi * Q / (np.sqrt(self.psi * (self.chi + Q)) + self.omega)

    def weights(self, Q: Array) -> Array:
        """E[1/w | x]: given x, w is generalised inverse Gaussian of order 1/2."""
        return np.sqrt(self.psi / (self.chi + Q))

    def slope(self, Q: Array) -> Array:
        """Gradient of the mean log density in log chi and log psi."""
        order, omega = 0.5 * (self.p + 1), self.omega
        bessel = omega * scaled_bessel(order, omega)[1] - order  # -d log K / d log omega
        root = np.sqrt(self.psi * (self.chi + Q))
        in_chi = -order + bessel - omega**2 * np.mean(1.0 / root)
        in_psi = order - 1.0 + bessel - np.mean(root)
        return 0.5 * np.array([in_chi, in_psi])

    def update(self, Q: Array) -> HyperbolicShape:
        """The shape of largest likelihood at given distances."""
        if not self.directions:
            return self
        D = np.array(self.directions)
        origin = np.log([self.chi, self.psi])
        limits = np.log(np.array(OMEGA_RANGE) * 0.5 * (self.p + 1))
        bounds = []
        for in_chi, in_psi in self.directions:
            speed = 0.5 * (in_chi + in_psi)  # of log omega
            now = 0.5 * origin.sum()
            low, high = (-20.0, 20.0) if speed == 0 else (limits - now) / speed
            bounds.append((min(low, 0.0), max(high, 0.0)))

        def at(u: Array) -> HyperbolicShape:
            chi, psi = np.exp(origin + u @ D)
            return replace(self, chi=float(chi), psi=float(psi))

        def objective(u: Array) -> tuple[float, Array]:
            shape = at(u)
            return float(np.mean(shape.log_radial(Q))), D @ shape.slope(Q)

        return at(climb(objective, np.zeros(len(D)), bounds))


class HyperbolicScore(EllipticalScore):
    r"""Scores of the symmetric hyperbolic law.

    A variance mixture x = location + sqrt(w) A z with w generalised inverse Gaussian of order (p + 1)/2, so
    that with :math:`Q = d^\top \Sigma^{-1} d` the density is proportional to
    :math:`\exp(-\sqrt{\psi (\chi + Q)})` and, with :math:`a = \sqrt{\psi / (\chi + Q)}`,

    .. math:: s = a\, \Sigma^{-1} d, \qquad
        T = \frac{\psi + a}{\chi + Q} \Sigma^{-1} d d^\top \Sigma^{-1} - a\, \Sigma^{-1} .

    Fitted by maximum likelihood (ECME). A dispersion c times as large with chi / c and c psi is the same law.
    Where nothing else settles the scale, E[w] = 1: then the dispersion is the covariance. Scores and densities
    do not depend on this choice.

    Parameters
    ----------
    chi, psi : float > 0 or "auto", default="auto"
        Both as numbers fix the shape of the tails; one alone, with a free dispersion, only fixes the scale.
    location : array (n_features,) or None, default=None
        A known location; None estimates it.
    dispersion : array (n_features, n_features) or None, default=None
        A known dispersion; None estimates it.
    tol : float, default=1e-8
        EM ends when the mean log-likelihood grows by no more than this.
    max_iter : int, default=500

    Attributes
    ----------
    location_ : ndarray (n_features,)
    dispersion_ : ndarray (n_features, n_features)
    covariance_ : ndarray (n_features, n_features)
        ``E[w] * dispersion_``.
    precision_ : ndarray (n_features, n_features)
        Inverse of ``dispersion_``.
    chi_, psi_ : float
    n_iter_ : int
    converged_ : bool
    log_likelihoods_ : ndarray (n_iter_ + 1,)
        Mean log-likelihood at the start and after each iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.scores import HyperbolicScore
    >>> rng = np.random.default_rng(0)
    >>> X = np.sqrt(rng.gamma(2.0, size=(2000, 1))) * rng.standard_normal((2000, 3))
    >>> model = HyperbolicScore().fit(X)
    >>> bool(np.abs(model.covariance_ - np.cov(X.T)).max() < 0.2)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "chi": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "psi": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "location": ["array-like", None],
        "dispersion": ["array-like", None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        chi: float | str = "auto",
        psi: float | str = "auto",
        location: Any = None,
        dispersion: Any = None,
        tol: float = 1e-8,
        max_iter: int = 500,
    ) -> None:
        self.chi = chi
        self.psi = psi
        self.location = location
        self.dispersion = dispersion
        self.tol = tol
        self.max_iter = max_iter

    @property
    def is_given(self) -> bool:
        """Whether every parameter of the law is given."""
        given = self.location is not None and self.dispersion is not None
        return given and "auto" not in (self.chi, self.psi)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the location, the dispersion, chi and psi; y is ignored."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        p = X.shape[1]
        location, dispersion = given_parameters(self.location, self.dispersion, p, "dispersion")
        chi = None if isinstance(self.chi, str) else float(self.chi)
        psi = None if isinstance(self.psi, str) else float(self.psi)
        fit = fit_mixture(
            X,
            _start(p, chi, psi, free_scale=dispersion is None),
            location=location,
            dispersion=dispersion,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        shape = fit.shape
        if chi is None or psi is None:
            _warn_omega(shape)
        if dispersion is not None:
            factor = 1.0
        elif chi is not None:
            factor = shape.chi / chi
        elif psi is not None:
            factor = psi / shape.psi
        else:
            factor = shape.mean
        self.chi_, self.psi_ = shape.chi / factor, shape.psi * factor
        self.dispersion_ = factor * fit.dispersion
        self.covariance_ = shape.mean * fit.dispersion
        self._set_law(fit.location, fit.root / np.sqrt(factor), fit.log_det + p * float(np.log(factor)))
        self.n_iter_ = len(fit.path) - 1
        self.converged_ = fit.converged
        self.log_likelihoods_ = fit.path
        return self

    def _factors(self, Q: Array) -> tuple[Array, Array]:
        a = np.sqrt(self.psi_ / (self.chi_ + Q))
        return a, (self.psi_ + a) / (self.chi_ + Q)

    def _log_radial(self, Q: Array) -> Array:
        return HyperbolicShape(self.n_features_in_, self.chi_, self.psi_).log_radial(Q)


def _start(p: int, chi: float | None, psi: float | None, *, free_scale: bool) -> HyperbolicShape:
    """First values, E[w] near one, and the directions in (log chi, log psi) that are free."""
    omega = 0.5 * (p + 1)
    ratio = scaled_bessel(omega, omega)[1]
    along_omega, along_scale = (1.0, 1.0), (1.0, -1.0)
    if chi is not None and psi is not None:
        return HyperbolicShape(p, chi, psi, (along_scale,) if free_scale else ())
    if free_scale or (chi is None and psi is None):
        return HyperbolicShape(p, omega / ratio, omega * ratio, (along_omega, along_scale))
    if chi is not None:
        return HyperbolicShape(p, chi, omega**2 / chi, ((0.0, 1.0),))
    assert psi is not None
    return HyperbolicShape(p, omega**2 / psi, psi, ((1.0, 0.0),))


def _warn_omega(shape: HyperbolicShape) -> None:
    low, high = (end * 0.5 * (shape.p + 1) for end in OMEGA_RANGE)
    if shape.omega > high * (1 - 1e-6):
        warnings.warn(
            f"sqrt(chi psi)={shape.omega:g} is the upper end of the search: the data look Gaussian (or have lighter "
            "tails). GaussianScore is simpler; numbers for chi and psi silence this",
            UserWarning,
            stacklevel=4,
        )
    if shape.omega < low * (1 + 1e-6):
        warnings.warn(
            f"sqrt(chi psi)={shape.omega:g} is the lower end of the search: tails are as heavy as this law allows, and "
            "its density has a cusp at the location. Remedies: StudentScore, whose tails are heavier, or numbers for "
            "chi and psi",
            UserWarning,
            stacklevel=4,
        )
