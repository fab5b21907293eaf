"""Scores of a symmetric multivariate hyperbolic law."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import kve

from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from ._base import Array
from ._mixture import COLLAPSED, NARROWEST, MixtureScore, climb

# range of sqrt(chi psi), in units of lambda = (p + 1) / 2: a cusp at one end, a Gaussian at the other
OMEGA_RANGE = (1e-3, 1e3)
# directions in (log chi, log psi)
_OMEGA, _SCALE = (1.0, 1.0), (1.0, -1.0)
_LARGE = 1e4  # arguments from which three terms of the Bessel functions' expansion are exact


def scaled_bessel(order: float, x: float) -> tuple[float, float]:
    """log(exp(x) K_order(x)) and x (K_{order+1}(x) / K_order(x) - 1), for 2 * order a whole number.

    The forward recurrence of ratios is stable; its logarithms neither overflow nor underflow, and what a ratio
    has over one keeps its digits where x is large.
    """
    at = order % 1.0
    if x < _LARGE:
        value = float(kve(at, x))
        log, excess = np.log(value), x * (float(kve(at + 1, x)) / value - 1.0)
    elif at == 0.5:
        log, excess = 0.5 * np.log(0.5 * np.pi / x), 1.0
    else:
        log = 0.5 * np.log(0.5 * np.pi / x) + np.log1p((-1 + 4.5 / (8 * x)) / (8 * x))
        excess = 0.5 - (1 - 1 / x) / (8 * x)
    while at < order - 0.25:
        log += np.log1p(excess / x)
        at += 1.0
        excess = 2.0 * at - excess / (1.0 + excess / x)
    return float(log), float(excess)


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
        return float(np.sqrt(self.chi) * np.sqrt(self.psi))

    @property
    def mean(self) -> float:
        """E[w] of the mixing variable."""
        excess = scaled_bessel(0.5 * (self.p + 1), self.omega)[1]
        return float(np.sqrt(self.chi / self.psi)) * (1.0 + excess / self.omega)

    def _root(self, Q: Array) -> tuple[Array, Array]:
        """sqrt(psi (chi + Q)), and what it has over omega, without cancellation."""
        root = np.sqrt(self.psi) * np.sqrt(self.chi + Q)
        return root, self.psi * Q / (root + self.omega)

    def log_radial(self, Q: Array) -> Array:
        """Log density without the determinant, at squared distances Q."""
        order = 0.5 * (self.p + 1)
        constant = (
            0.5 * order * (np.log(self.psi) - np.log(self.chi))
            - 0.5 * np.log(self.psi)
            - scaled_bessel(order, self.omega)[0]
            + 0.5 * np.log(0.5 * np.pi)
            - 0.5 * self.p * np.log(2 * np.pi)
        )
        return constant - self._root(Q)[1]

    def weights(self, Q: Array) -> Array:
        """E[1/w | x]: given x, w is generalised inverse Gaussian of order 1/2."""
        return np.sqrt(self.psi / (self.chi + Q))

    def slope(self, Q: Array, share: Array | None = None) -> Array:
        """Gradient of the mean log density in log chi and log psi."""
        excess = scaled_bessel(0.5 * (self.p + 1), self.omega)[1]
        root, over = self._root(Q)
        in_chi = excess - (self.p + 1) + np.average(self.omega * over / root, weights=share)
        in_psi = excess - 1.0 - np.average(over, weights=share)
        return 0.5 * np.array([in_chi, in_psi])

    def without_scale(self) -> HyperbolicShape:
        """What is free of chi and psi but for the scale of the dispersion."""
        return replace(self, directions=tuple(d for d in self.directions if d != _SCALE))

    def update(self, Q: Array, share: Array | None = None) -> HyperbolicShape:
        """The shape of largest likelihood at given distances."""
        if not self.directions:
            return self
        D = np.array(self.directions)
        limits = np.log(np.array(OMEGA_RANGE) * 0.5 * (self.p + 1)) - np.log(self.omega)
        bounds = [tuple(limits) if along == _OMEGA else (-30.0, 30.0) for along in self.directions]

        def at(u: Array) -> HyperbolicShape:
            in_chi, in_psi = np.exp(u @ D)
            return replace(self, chi=self.chi * float(in_chi), psi=self.psi * float(in_psi))

        found = climb(at, Q, share, D, bounds)
        if found.chi < NARROWEST * found.psi or found.chi < NARROWEST:
            raise ValueError(COLLAPSED)
        return found


class HyperbolicScore(MixtureScore[HyperbolicShape]):
    r"""Scores of the symmetric hyperbolic law.

    A variance mixture x = location + sqrt(w) A z with w generalised inverse Gaussian of order (p + 1)/2, so
    that with :math:`Q = d^\top \Sigma^{-1} d` the density is proportional to
    :math:`\exp(-\sqrt{\psi (\chi + Q)})` and, with :math:`a = \sqrt{\psi / (\chi + Q)}`,

    .. math:: s = a\, \Sigma^{-1} d, \qquad
        T = \frac{\psi + a}{\chi + Q} \Sigma^{-1} d d^\top \Sigma^{-1} - a\, \Sigma^{-1} .

    Fitted by maximum likelihood (ECME). A dispersion c times as large with chi / c and c psi is the same law.
    Where nothing else settles the scale, E[w] = 1: then the dispersion is the covariance. Scores and densities
    do not depend on this choice: only :math:`\sqrt{\chi \psi}` and the covariance are features of the law.

    Distances from an estimated location and dispersion spread less than the true ones, by
    :math:`2 p^2 / n` in variance, while the mixture adds :math:`p^2 \operatorname{Var}(w) / E[w]^2`. So tails show
    only where :math:`\operatorname{Var}(w) / E[w]^2` exceeds about 2/n; below that the likelihood rises all the way
    to the Gaussian end, and is flat there.

    Parameters
    ----------
    chi, psi : float > 0 or "auto", default="auto"
        Both as numbers fix the shape of the tails; one alone, with a free dispersion, only fixes the scale.
        "auto" searches sqrt(chi psi) from 0.001 to 1000 times (p + 1)/2.
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
        Mean log-likelihood at the start and after each iteration; where a singular covariance needed a ridge (a warning
        says so), less ``ridge / 2`` times the trace of the inverse dispersion times the variances.

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
        "max_iter": [whole(1)],
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the location, the dispersion, chi and psi; y is ignored.

        Parameters
        ----------
        X : array, DataFrame or Dask collection (n_samples, n_features)
        sample_weight : array (n_samples,) or None
            Two is a row twice, zero a row absent; a constant changes nothing.
        """
        chi = None if isinstance(self.chi, str) else float(self.chi)
        psi = None if isinstance(self.psi, str) else float(self.psi)
        fit, given = self._maximise(X, sample_weight, lambda k, free: _start(k, chi, psi, free_scale=free))
        shape = fit.shape
        if chi is None or psi is None:
            _warn_omega(shape)
        if self.dispersion is not None:
            factor = 1.0
        elif chi is not None:
            factor = shape.chi / chi
        elif psi is not None:
            factor = psi / shape.psi
        else:
            factor = shape.mean
        self.chi_, self.psi_ = shape.chi / factor, shape.psi * factor
        self.dispersion_ = self._set_scaled(fit, given, factor)
        self.covariance_ = shape.mean * (fit.dispersion if given is None else given)
        return self

    def _given_matrix(self) -> tuple[str, Any]:
        return "dispersion", self.dispersion

    def _factors(self, Q: Array) -> tuple[Array, Array]:
        a = np.sqrt(self.psi_ / (self.chi_ + Q))
        return a, (self.psi_ + a) / (self.chi_ + Q)

    def _log_radial(self, Q: Array) -> Array:
        return HyperbolicShape(len(self._root), self.chi_, self.psi_).log_radial(Q)


def _start(p: int, chi: float | None, psi: float | None, *, free_scale: bool) -> HyperbolicShape:
    """First values, E[w] near one where the scale is free, and the free directions in (log chi, log psi)."""
    if chi is not None and psi is not None:
        shape = HyperbolicShape(p, chi, psi)
        return (
            replace(shape, chi=chi / shape.mean, psi=psi * shape.mean, directions=(_SCALE,))
            if free_scale
            else shape
        )
    if chi is not None and not free_scale:
        return HyperbolicShape(p, chi, chi + p + 1, ((0.0, 1.0),))
    if psi is not None and not free_scale:
        return HyperbolicShape(p, max(psi - p - 1, 0.25 / psi), psi, ((1.0, 0.0),))
    omega = 0.5 * (p + 1)
    mean = HyperbolicShape(p, omega, omega).mean
    return HyperbolicShape(p, omega / mean, omega * mean, (_OMEGA, _SCALE))


def _warn_omega(shape: HyperbolicShape) -> None:
    if _OMEGA not in shape.directions:
        return
    low, high = (end * 0.5 * (shape.p + 1) for end in OMEGA_RANGE)
    if shape.omega > high * (1 - 1e-6):
        warnings.warn(
            f"sqrt(chi psi)={shape.omega:g} is the upper end of the search: the data look Gaussian, have lighter "
            "tails, or are too few to tell (a mixture shows where Var(w)/E[w]^2 exceeds about 2/n_samples). "
            "GaussianScore is simpler; numbers for chi and psi silence this",
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
