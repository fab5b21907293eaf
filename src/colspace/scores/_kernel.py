"""Scores by regularised regression in a space of vector fields."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._overflow import finite_result
from .._random import generator
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._validation import feature_names
from ._base import Array, ScoreModel, per_row
from ._kernel_fields import Field, Radial, median_distance
from ._kernel_solvers import Solution, solve_path
from ._kernel_system import System
from ._standard import deviations, warn_flat

_MAX_ROWS = 20_000
_HELD_OUT = 2_000  # rows on which a regularisation is judged
_DIAGONAL = ("stein", "ssge")
_WIDTHS = (1e-30, 1e30)  # the fourth derivative has the eighth power of the bandwidth


def _grid(method: str) -> Array:
    """Regularisations to try, in falling order."""
    if method == "ssge":
        return np.array([0.3, 0.1, 0.03, 0.01, 0.003, 0.001], dtype=np.float64)
    first, last = {"landweber": (0, 5), "spectral": (1, 8)}.get(method, (0, 8))
    return np.power(10.0, -0.5 * np.arange(first, last + 1), dtype=np.float64)


def _check_width(width: float) -> None:
    low, high = _WIDTHS
    if not low <= width <= high:
        msg = (
            f"a bandwidth of {width:.3g} is outside {low:g} to {high:g}, where derivatives of the kernel overflow. "
            "Remedy: rescale the columns (sklearn.preprocessing.StandardScaler)"
        )
        raise ValueError(msg)


class KernelScore(ScoreModel):
    r"""Nonparametric scores: regularised regression of :math:`g = \nabla \log P` on a kernel's vector fields.

    Columns are divided by their deviations first, and the score is that of the columns as they came: units do not
    matter. With :math:`L = \frac1n \sum_i K(x_i, \cdot)` and :math:`\zeta = \frac1n \sum_i \operatorname{div} K(x_i, \cdot)`,
    integration by parts gives :math:`L g \approx -\zeta`, so that :math:`\hat g = -R_\lambda(L)\,\zeta` with a
    regularised inverse R; the score is :math:`s = -\hat g`.

    Parameters
    ----------
    method : {"nu", "tikhonov", "landweber", "spectral", "stein", "ssge"}, default="nu"
        How L is inverted. "nu" takes about :math:`\lambda^{-1/2}` accelerated steps, "landweber"
        :math:`\lambda^{-1}` plain ones; "tikhonov" solves with :math:`L + \lambda`; "spectral" keeps eigenvalues
        from :math:`\lambda` up. "stein" (Li and Turner; Tikhonov on the diagonal kernel, extended to new rows
        within the kernel's space) and "ssge" (Shi, Sun and Zhu; eigenvectors that carry all but a share
        ``regularization`` of the kernel's trace) always use the diagonal kernel.
    kernel : {"imq", "rbf"}, default="imq"
        :math:`(1 + r/\sigma^2)^{-1/2}` or :math:`\exp(-r/2\sigma^2)` of the squared distance r.
    curl_free : bool, default=True
        Fields that are gradients, :math:`-\nabla\nabla^\top \phi`; False is the diagonal kernel :math:`\phi I`.
        "spectral" with it finds the eigenvectors iteratively and refuses where they are too many.
    regularization : float or "auto", default="auto"
        :math:`\lambda`; "auto" takes the one with the least score-matching loss
        :math:`\frac12\|g\|^2 + \operatorname{div} g` on held-out rows.
    normalize : bool, default=True
        Divide the kernel by the largest eigenvalue of L, so that :math:`\lambda` is free of scale (1 is strong).
        False is the published scale (for "stein" then :math:`K + \lambda I`, not divided by n).
    bandwidth : float or "median", default="median"
        :math:`\sigma`; "median" is the median distance of rows (at most 2,000 of them). A number is in the units of
        ``standardize``.
    standardize : bool, default=True
        Distances between rows whose columns are divided by their deviations. False is the published choice,
        distances between rows as they are.
    nu : float, default=1.0
        Qualification of the nu-method.
    max_samples : int or None, default=None
        Fit on a random sample of so many rows; memory and time grow with its square. None takes all rows and
        refuses more than 20,000.
    random_state : int, RandomState or None, default=None
        Used for held-out rows and samples of rows.

    Attributes
    ----------
    regularization_ : float
    bandwidth_ : float
    location_, deviation_ : ndarray (n_features,)
        What is taken off the columns, and what they are divided by; 0 and 1 without ``standardize``. A deviation of zero
        is a constant column, which gets a score of zero.
    lambda_max_ : float
        Largest eigenvalue of L before normalisation.
    n_iter_ : int
        Steps taken; for "spectral" and "ssge" the number of eigenvectors kept.
    grid_, losses_ : ndarray
        With "auto": regularisations tried, and their held-out losses (infinite where not computed; with two
        rows nothing is, and the strongest is taken).
    centres_ : ndarray (n_centres, n_features)
    shares_ : ndarray (n_centres,)
        Weights of the centres, of sum one.
    coef_ : ndarray (n_centres, n_features that vary)
    zeta_coef_ : float
        :math:`\hat g(x) = a\,\zeta(x) + \sum_j K(x, c_j) z_j` of standardised rows, with the kernel before normalisation.

    References
    ----------
    Zhou, Shi and Zhu, "Nonparametric score estimators", ICML 2020.
    Li and Turner, "Gradient estimators for implicit models", ICLR 2018.
    Shi, Sun and Zhu, "A spectral approach to gradient estimation for implicit distributions", ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.scores import KernelScore
    >>> X = np.random.default_rng(0).standard_normal((400, 2))
    >>> model = KernelScore(random_state=0).fit(X)
    >>> error = model.score_function(X) - X  # the truth is s(x) = x
    >>> bool(np.mean(error**2) < 0.2)
    True
    """

    _why_in_memory = "every row is compared with every other"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "method": [StrOptions({"nu", "tikhonov", "landweber", "spectral", "stein", "ssge"})],
        "kernel": [StrOptions({"imq", "rbf"})],
        "curl_free": ["boolean"],
        "regularization": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "normalize": ["boolean"],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "standardize": ["boolean"],
        "nu": [Interval(Real, 0, None, closed="neither")],
        "max_samples": [whole(2), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        method: str = "nu",
        kernel: str = "imq",
        curl_free: bool = True,
        regularization: float | str = "auto",
        normalize: bool = True,
        bandwidth: float | str = "median",
        standardize: bool = True,
        nu: float = 1.0,
        max_samples: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.kernel = kernel
        self.curl_free = curl_free
        self.regularization = regularization
        self.normalize = normalize
        self.bandwidth = bandwidth
        self.standardize = standardize
        self.nu = nu
        self.max_samples = max_samples
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the scores from rows of X; y is ignored.

        Parameters
        ----------
        X : array or DataFrame (n_samples, n_features)
        sample_weight : array (n_samples,) or None
            Two is a row twice, zero a row absent; a constant changes nothing. Where rows are counted or drawn a row
            counts once whatever its weight: ``max_samples``, the 2,000 rows behind a median distance, the folds of
            regularization="auto", and the n of method="stein" with ``normalize=False``.
        """
        X, weight = self._rows_to_fit(X, 2, sample_weight)
        self._check_parameters()
        rng = generator(self.random_state)
        X, weight = self._sample(X, weight, rng)
        self._standardise(X, weight)
        Z = self._inside(X)
        width = median_distance(Z, rng, weight=weight) if isinstance(self.bandwidth, str) else self.bandwidth
        width = float(width)
        _check_width(width)
        kernel = Radial(self.kernel, width)
        for name in ("grid_", "losses_"):
            if hasattr(self, name):
                delattr(self, name)
        if isinstance(self.regularization, str):
            self.grid_ = _grid(self.method)
            self.losses_ = self._held_out_losses(Z, weight, kernel, rng)
            strength = float(self.grid_[np.argmin(self.losses_)])
        else:
            strength = float(self.regularization)
        system = self._system(Z, weight, kernel)
        if not isinstance(self.regularization, str):
            self._check_scale(system, strength)
        solution = next(self._solve(system, [strength]))
        field = self._field(system, solution, Z, weight, kernel)
        self._law = (self.kernel, field.curl_free)  # as fitted, whatever set_params does later
        self.bandwidth_, self.regularization_ = width, strength
        self.lambda_max_, self.n_iter_ = system.lambda_max, solution.n_iter
        self.centres_, self.coef_, self.zeta_coef_ = X, field.coef, field.zeta_coef
        self.shares_ = field.share
        return self

    def _standardise(self, X: Array, weight: Array | None) -> None:
        """Location and deviation of the columns, or 0 and 1."""
        names = feature_names(self)
        mean, deviation = deviations(X, weight, names)
        if not deviation.any():
            msg = "all rows are equal: X has no variation, and a score needs a spread. Remedy: other columns"
            raise ValueError(msg)
        self.location_, self.deviation_ = mean, deviation
        if not self.standardize:
            self.location_, self.deviation_ = np.zeros_like(mean), np.ones_like(mean)
        warn_flat(self.deviation_ > 0, names)

    def _inside(self, X: Array) -> Array:
        """Rows as the kernel sees them: columns that vary, in units of their deviations."""
        varying = self.deviation_ > 0
        if varying.all() and (self.deviation_ == 1).all() and not self.location_.any():
            return X
        return (X[:, varying] - self.location_[varying]) / self.deviation_[varying]

    def _outside(self, G: Array) -> Array:
        """A field at rows, n x p, for the columns as they came."""
        varying = self.deviation_ > 0
        out = np.zeros((len(G), len(varying)))
        out[:, varying] = G / self.deviation_[varying]
        return out

    @property
    def _curl_free(self) -> bool:
        return self.curl_free and self.method not in _DIAGONAL

    def _check_parameters(self) -> None:
        if isinstance(self.regularization, str) and not self.normalize:
            msg = (
                "regularization='auto' searches a grid that is free of scale, so it needs normalize=True; "
                "or give a number"
            )
            raise ValueError(msg)
        if self.method == "ssge" and not isinstance(self.regularization, str) and self.regularization >= 1:
            msg = (
                f"regularization={self.regularization} with method='ssge' is the share of the kernel's trace left "
                "out and must be below 1; 0.01 is usual"
            )
            raise ValueError(msg)

    def _sample(self, X: Array, weight: Array | None, rng: np.random.Generator) -> tuple[Array, Array | None]:
        n = len(X)
        if self.max_samples is not None:
            if n <= self.max_samples:
                return X, weight
            rows = np.sort(rng.choice(n, self.max_samples, replace=False))
            return X[rows], None if weight is None else weight[rows]
        if n > _MAX_ROWS:
            msg = (
                f"{n} rows: the four {n} x {n} matrices of the fit would take about {4 * 8 * n**2 / 1e9:.0f} GB, so "
                f"more than {_MAX_ROWS} rows are refused. Remedy: max_samples=5000 fits on a random sample"
            )
            raise ValueError(msg)
        return X, weight

    def _system(self, X: Array, weight: Array | None, kernel: Radial) -> System:
        curl_free = self._curl_free
        route = "plain"
        if X.shape[1] >= len(X):
            route = "rotated" if curl_free and self.method in ("tikhonov", "spectral") else "span"
        share = None if weight is None else weight / weight.sum()
        system = System(X, kernel, curl_free=curl_free, route=route, share=share)
        if self.normalize:
            system.normalize()
        return system

    def _solve(self, system: System, strengths: list[float], tol: float = 1e-10) -> Any:
        if self.method == "stein" and not self.normalize:
            strengths = [v / len(system.X) for v in strengths]
        return solve_path(system, self.method, strengths, nu=self.nu, tol=tol)

    @staticmethod
    def _field(system: System, solution: Solution, X: Array, weight: Array | None, kernel: Radial) -> Field:
        """The field g = -R zeta on the kernel's own scale."""
        coef = system.expand(solution.coef)
        coef = coef / (-len(X) * system.scale)
        share = np.full(len(X), 1 / len(X)) if weight is None else weight / weight.sum()
        return Field(kernel, system.curl_free, X, coef, -solution.zeta_coef / system.scale, share)

    def _check_scale(self, system: System, strength: float) -> None:
        """Warn where lambda is out of all proportion to L; refuse steps that diverge."""
        top = 1.0 if self.normalize else system.lambda_max
        if self.method in ("nu", "landweber") and top > 1.0:
            msg = (
                f"method={self.method!r} diverges on the raw kernel: its largest eigenvalue is {top:.3g}, above 1. "
                "Remedies: normalize=True or a larger bandwidth"
            )
            raise ValueError(msg)
        if self.method in ("ssge", "spectral"):
            return
        relative = strength / len(system.X) if self.method == "stein" and not self.normalize else strength
        if relative >= 10 * top:
            name = "regularization / n" if relative != strength else "regularization"
            remedy = (
                "a value below 1" if self.normalize else f"normalize=True, or a value well below {top:.2g}"
            )
            warnings.warn(
                f"{name}={relative:.3g} is {relative / top:.0f} times the kernel's largest eigenvalue {top:.3g}: "
                "nothing is inverted, the score is a multiple of the kernel's mean divergence. "
                f"Remedy: {remedy}",
                UserWarning,
                stacklevel=4,
            )

    def _held_out_losses(
        self, X: Array, weight: Array | None, kernel: Radial, rng: np.random.Generator
    ) -> Array:
        """Mean score-matching loss for each regularisation: four folds, from 1,000 rows on one of them."""
        n = len(X)
        each = np.ones(n) if weight is None else weight
        parts = np.array_split(rng.permutation(n), min(4, n))
        if n < 3:  # nothing to judge on: the strongest
            return np.full(len(self.grid_), np.inf)
        losses, total = np.zeros(len(self.grid_)), 0.0
        for part in parts if n < 1000 else parts[:1]:
            rest = np.delete(X, part, axis=0)
            seen = None if weight is None else np.delete(weight, part)
            judged = part[:_HELD_OUT]
            system = self._system(rest, seen, kernel)
            found = np.full(len(losses), np.inf)
            for i, solution in enumerate(self._solve(system, list(self.grid_), tol=1e-6)):
                found[i] = _loss(self._field(system, solution, rest, seen, kernel), X[judged], each[judged])
                if i > 1 and (np.diff(found[i - 2 : i + 1]) > 0.01 * abs(found.min())).all():
                    break  # clearly worse twice in a row
            losses += each[part].sum() * np.where(np.isfinite(found), found, np.inf)
            total += float(each[part].sum())
        return losses / total

    def _fitted_field(self) -> Field:
        check_is_fitted(self)
        name, curl_free = self._law
        kernel = Radial(name, self.bandwidth_)
        return Field(
            kernel, curl_free, self._inside(self.centres_), self.coef_, self.zeta_coef_, self.shares_
        )

    @finite_result
    def score_function(self, X: Any) -> Array:
        """The scores s = -g of rows, n x p."""
        X = self._checked(X)
        return -self._outside(self._fitted_field()(self._inside(X)))

    @finite_result
    def second_moment(self, X: Any, weights: Array) -> Array:
        """Sum over rows of w T(x), T = g g' + grad g (its symmetric part with the diagonal kernel)."""
        X = self._checked(X)
        weights = per_row(weights, len(X), "weights")
        varying = self.deviation_ > 0
        inside = self._fitted_field().second_moment(self._inside(X), weights.reshape(len(X), -1))
        size = self.deviation_[varying]
        out = np.zeros((len(inside), len(varying), len(varying)))
        out[:, varying[:, None] & varying] = (inside / np.outer(size, size)).reshape(len(inside), -1)
        return out[0] if weights.ndim == 1 else out

    def divergence(self, X: Any) -> Array:
        """Divergence of g = -s at rows, the Laplacian of log P."""
        X = self._checked(X)
        size = self.deviation_[self.deviation_ > 0]
        return self._fitted_field().divergence(self._inside(X), 1.0 / size**2)

    def potential(self, X: Any) -> Array:
        """log P at rows up to a constant: the function whose gradient is g (curl-free kernels only)."""
        X = self._checked(X)
        if not self._law[1]:
            msg = (
                "the diagonal kernel's field is not the gradient of anything; use curl_free=True with method "
                "'nu', 'tikhonov', 'landweber' or 'spectral'"
            )
            raise ValueError(msg)
        return self._fitted_field().potential(self._inside(X))

    def score_matching_loss(self, X: Any) -> float:
        """Mean over rows of half the squared norm of g plus its divergence; lower is better.

        Of the rows as the kernel sees them: with ``standardize`` units do not matter.
        """
        X = self._checked(X)
        return _loss(self._fitted_field(), self._inside(X))


def _loss(field: Field, X: Array, weight: Array | None = None) -> float:
    each = 0.5 * (field(X) ** 2).sum(axis=1) + field.divergence(X)
    return float(np.average(each, weights=weight))
