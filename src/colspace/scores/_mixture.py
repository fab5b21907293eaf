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

from ..factor import SingularCovarianceError, Whitener, full_whitener
from ..moments import weighted_gram
from ._base import Array
from ._elliptical import EllipticalScore, centre_rows, given_parameters, root_of, sample_covariance

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

    def slope(self, Q: Array) -> Array:
        """Gradient of the mean log density in the coordinates of the shape."""
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
    whitener = (
        full_whitener(
            sample_covariance(centred),
            n + (location is not None),
            remedies="fewer columns, more rows, or GaussianScore(ridge=...), which has no shape to estimate",
        )
        if dispersion is None
        else _whitener_of_given(dispersion)
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


def _whitener_of_given(matrix: Array) -> Whitener:
    p = len(matrix)
    try:
        return full_whitener(matrix, p + 1)
    except SingularCovarianceError as reason:
        rank = int(np.linalg.matrix_rank(matrix, hermitian=True))
        msg = (
            f"the given matrix is singular: rank {rank} of {p} columns, and a density needs its inverse. Remedies: a "
            "positive definite one (add a small multiple of the identity), or None to estimate it"
        )
        raise SingularCovarianceError(msg) from reason


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


def climb(at: Callable[[Array], S], Q: Array, directions: Array, bounds: list[tuple[float, float]]) -> S:
    """The shape at(u) of largest likelihood at distances Q; u = 0 is the start, and never beaten by the result.

    Row k of ``directions`` is the direction of u_k in the coordinates of the shape's slope.
    """

    def negative(u: Array) -> tuple[float, Array]:
        shape = at(u)
        return -float(np.mean(shape.log_radial(Q))), -directions @ shape.slope(Q)

    start = np.zeros(len(directions))
    found = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 100},
    )
    return at(found.x if found.fun <= negative(start)[0] else start)


class MixtureScore(EllipticalScore, Generic[S]):
    """An elliptical law fitted as a variance mixture by maximum likelihood (ECME)."""

    location: Any
    tol: float
    max_iter: int

    @abstractmethod
    def _given_matrix(self) -> tuple[str, Any]:
        """Name and value of the parameter that gives the covariance or dispersion."""

    def _maximise(self, X: Any, make_shape: Callable[[int, bool], S]) -> MixtureFit[S]:
        """Fit from ``make_shape(p, free_scale)``; called by ``fit``, one frame under the caller's."""
        X = self._rows_to_fit(X, 1 if self.is_given else 2)
        what, matrix = self._given_matrix()
        location, matrix = given_parameters(self.location, matrix, X.shape[1], what)
        fit = fit_mixture(
            X,
            make_shape(X.shape[1], matrix is None),
            location=location,
            dispersion=matrix,
            tol=self.tol,
            max_iter=self.max_iter,
        )
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
        return fit

    def _set_scaled(self, fit: MixtureFit[S], factor: float) -> Array:
        """Store the law whose matrix is ``factor`` times the fit's dispersion, and return that matrix."""
        p = len(fit.location)
        self._set_law(fit.location, fit.root / np.sqrt(factor), fit.log_det + p * float(np.log(factor)))
        return factor * fit.dispersion
