"""Normal variance mixtures: the EM algorithm and the estimator that its laws share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from .._validation import feature_names
from ..factor import SingularCovarianceError, matrix_rank
from ._base import Array
from ._elliptical import EllipticalScore, given_parameters, root_from, unit_diagonal
from ._mixture_rows import Rows, rows_of
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

# the spread of the fitted law may shrink to this part of the sample's standard deviation, not further
_SMALLEST_SPREAD = 1e-10

NARROWEST = 1e-100  # squared width of a law, in variances
COLLAPSED = (
    "so many rows of X are equal that the likelihood has no maximum: the law's width goes to zero. Remedies: drop columns "
    "that hold one value nearly everywhere, or use GaussianScore"
)


class Shape(Protocol):
    """The shape of a variance mixture: what it adds to a location and a dispersion matrix."""

    def log_radial(self, Q: Array) -> Array:
        """Log density without the determinant, at squared distances Q."""
        ...

    def weights(self, Q: Array) -> Array:
        """E[1/w | x], the E-step; also the factor of P d in the score."""
        ...

    def slope(self, Q: Array, share: Array | None = None) -> Array:
        """Gradient of the mean log density in the coordinates of the shape."""
        ...

    def update(self, Q: Array, share: Array | None = None) -> Self:
        """The shape of largest likelihood at given distances."""
        ...

    def without_scale(self) -> Self:
        """The shape whose scale stays, so that the dispersion alone carries it."""
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


@dataclass(frozen=True)
class Start:
    """Where EM begins: location, and W with W'W the inverse of D L L' D; ``lower`` is L, ``deviation`` D.

    ``ridge`` is what a singular correlation matrix needs: L L' is R + ridge I then.
    """

    location: Array
    deviation: Array
    lower: Array
    ridge: float = 0.0


def fit_mixture(
    rows: Rows,
    shape: S,
    start: Start,
    *,
    free_location: bool,
    free_dispersion: bool,
    tol: float,
    max_iter: int,
) -> MixtureFit[S]:
    """ECME for x = location + sqrt(w) A z: location and dispersion by weighted moments, then the shape.

    The shape step maximises the likelihood itself, and along the scale of the dispersion too where that is
    free, so no step can lose likelihood. Everything happens in coordinates where the covariance is the
    identity, so units do not matter. A location or dispersion that is not free stays.

    A ridge a adds -a/2 tr(dispersion^-1 D^2) to the mean log-likelihood, whose maximum is the weighted covariance
    plus a D^2; the scale is then left to the dispersion.
    """
    first, log_det = root_from(start.lower, start.deviation)
    k = len(first)
    varying = start.deviation > 0
    unwhiten = start.deviation[varying, None] * start.lower
    location, root, factor = start.location.copy(), first, np.eye(k)
    if start.ridge:
        shape = shape.without_scale()

    def penalised(Q: Array, share: Array) -> float:
        value = float(np.average(shape.log_radial(Q), weights=share)) - float(np.log(np.diag(factor)).sum())
        return value - 0.5 * start.ridge * float(np.sum(inverse_of(factor) ** 2)) if start.ridge else value

    def inverse_of(factor: Array) -> Array:
        """F^-1 L^-1: correlation units in coordinates of the current dispersion."""
        return solve_triangular(start.lower @ factor, np.eye(k), lower=True, check_finite=False)

    Q, share = rows.distances(location, root)
    shape = shape.update(Q, share)
    path = [penalised(Q, share)]
    converged = False
    for _ in range(max_iter):
        sums = rows.sums(shape)
        inner = sums.second
        if free_location:
            step = sums.first / sums.total
            location[varying] += unwhiten @ (factor @ step)
            inner = inner - sums.total * np.outer(step, step)
        if free_dispersion:
            if start.ridge:
                G = inverse_of(factor)
                inner = inner + start.ridge * (G @ G.T)
            factor = factor @ _factor(inner, factor)
            root = solve_triangular(factor, first, lower=True, check_finite=False)
        Q, share = rows.distances(location, root)
        shape = shape.update(Q, share)
        path.append(penalised(Q, share))
        converged = path[-1] - path[-2] <= tol
        if converged:
            break
    spread = np.zeros((len(varying), k))
    spread[varying] = unwhiten @ factor
    return MixtureFit(
        location=location,
        dispersion=spread @ spread.T,
        root=root,
        log_det=log_det + 2 * float(np.log(np.diag(factor)).sum()),
        shape=shape,
        path=np.array(path) - 0.5 * log_det,
        converged=bool(converged),
    )


def _lower_of_given(correlation: Array, deviation: Array) -> Array:
    """L of a given matrix D L L' D, which must be positive definite."""
    p = len(deviation)
    if len(correlation) < p or singular_ridge(correlation):
        rank = matrix_rank(correlation, tol=1e-10 * p)
        msg = (
            f"the given matrix is singular: rank {rank} of {p} columns, and a density needs its inverse. Remedies: a "
            "positive definite one (add a small multiple of its diagonal), or None to estimate it"
        )
        raise SingularCovarianceError(msg)
    return lower_factor(correlation)


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


def climb(
    at: Callable[[Array], S],
    Q: Array,
    share: Array | None,
    directions: Array,
    bounds: list[tuple[float, float]],
) -> S:
    """The shape at(u) of largest likelihood at distances Q; u = 0 is the start, and never beaten by the result.

    Row k of ``directions`` is the direction of u_k in the coordinates of the shape's slope; ``share`` weighs rows.
    """

    def negative(u: Array) -> tuple[float, Array]:
        shape = at(u)
        value = float(np.average(shape.log_radial(Q), weights=share))
        return -value, -directions @ shape.slope(Q, share)

    start = np.zeros(len(directions))
    found = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 100},
    )
    if found.fun > negative(start)[0]:
        return at(start)
    return at(_polished(lambda u: negative(u)[1], found.x, bounds))


def _polished(gradient: Callable[[Array], Array], u: Array, bounds: list[tuple[float, float]]) -> Array:
    """Newton steps on the gradient from where a line search, which sees the function's digits only, has stopped.

    Without them the last half of the digits would be those of the order of summation.
    """
    low, high = np.array(bounds).T
    free = (u > low) & (u < high)
    value = gradient(u)[free]
    for _ in range(3):
        if not value.any():
            break
        steps = 1e-4 * np.eye(len(u))[free]
        H = np.stack([(gradient(u + e) - gradient(u - e))[free] / 2e-4 for e in steps])
        try:
            step = np.linalg.solve((H + H.T) / 2, value)
        except np.linalg.LinAlgError:
            break
        tried = u.copy()
        tried[free] -= step
        if np.abs(step).max() > 1e-3 or (tried < low).any() or (tried > high).any():
            break
        after = gradient(tried)[free]
        if np.abs(after).max() >= np.abs(value).max():
            break
        u, value = tried, after
    return u


class MixtureScore(EllipticalScore, Generic[S]):
    """An elliptical law fitted as a variance mixture by maximum likelihood (ECME).

    A Dask collection is read twice per iteration. Squared distances reach the client as a fixed number of weighted
    nodes, which give every mean of a smooth function of them to about twelve digits.
    """

    location: Any
    tol: float
    max_iter: int

    @abstractmethod
    def _given_matrix(self) -> tuple[str, Any]:
        """Name and value of the parameter that gives the covariance or dispersion."""

    def _maximise(
        self, X: Any, sample_weight: Any, make_shape: Callable[[int, bool], S]
    ) -> tuple[MixtureFit[S], Array | None]:
        """Fit from ``make_shape(columns, free_scale)``, and the given matrix; called by ``fit``."""
        X, weight = self._rows_to_fit(X, 1 if self.is_given else 2, sample_weight, partitions=True)
        what, matrix = self._given_matrix()
        location, matrix = given_parameters(self.location, matrix, self.n_features_in_, what)
        start = self._start(X, weight, location, matrix)
        fit = fit_mixture(
            rows_of(X, weight),
            make_shape(len(start.lower), matrix is None),
            start,
            free_location=location is None,
            free_dispersion=matrix is None,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        if not np.isfinite(fit.path).all():
            raise ValueError(COLLAPSED)
        if not fit.converged:
            warnings.warn(
                f"EM has not converged: the mean log-likelihood still grew by {fit.path[-1] - fit.path[-2]:.3g} in "
                f"iteration {self.max_iter}, more than tol={self.tol:g}. Remedies: a larger max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.n_iter_ = len(fit.path) - 1
        self.converged_ = fit.converged
        self.log_likelihoods_ = fit.path
        return fit, matrix

    def _start(self, X: Any, weight: Any, location: Array | None, matrix: Array | None) -> Start:
        """The sample's moments, or what is given of them."""
        if matrix is not None:
            deviation, correlation = unit_diagonal(matrix)
            lower = _lower_of_given(correlation, deviation)
            if location is None:
                location = standard(X, weight, None, feature_names(self)).location
            return Start(location, deviation, lower)
        table = standard(X, weight, location, feature_names(self))
        require_variation(table.varying)
        warn_flat(table.varying, feature_names(self), stacklevel=6)
        k, count = len(table.correlation), table.count + (location is not None)
        ridge = SINGULAR_RIDGE if count <= k else singular_ridge(table.correlation)
        if ridge:
            warn_singular(
                ridge,
                count,
                k,
                "Remedies: fewer columns, more rows, or GaussianScore(ridge=...)",
                stacklevel=6,
            )
        return Start(table.location, table.deviation, lower_factor(ridged(table.correlation, ridge)), ridge)

    def _set_scaled(self, fit: MixtureFit[S], given: Array | None, factor: float) -> Array:
        """Store the law whose matrix is ``factor`` times the fit's dispersion, and return that matrix."""
        k = len(fit.root)
        self._set_law(fit.location, fit.root / np.sqrt(factor), fit.log_det + k * float(np.log(factor)))
        return factor * (fit.dispersion if given is None else given)
