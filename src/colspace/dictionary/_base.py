"""What the classifier and the regressor share: columns, fitting, codes, rebuilding, and the path over xi."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._blocks import parse_columns
from .._progress import track
from .._random import generator
from .._rows import is_dask
from .._sklearn_compat import Interval, StrOptions, whole
from .._validation import check_table, feature_names
from ._fit import Options, plain_codes, refitted, solve
from ._losses import Array, Loss
from ._objective import Problem, Solution, State, make_problem, over_rows, projections, rebuilding
from ._regions import Radius, check_bounds
from ._remote import Prepare, Target, code_sums, lazily, remote_problem
from ._setup import Setup, XiPath, keep
from ._stability import bootstrap_stability
from ._summary import DictionarySummary
from ._tables import (
    check_kept,
    check_range,
    columns_of_dask,
    copied_columns,
    count_unequal,
    finite_rows,
    known_rows,
    split_columns,
)
from ._units import columns_of, seen_energy, warn_far

_APART = 0.1  # share of the ridge that keeps nonnegative atoms from cancelling each other
_RIDGE = 0.01  # of the mean square distance of rows from their mean (filter)
_CODE_RIDGE = 0.001  # of the activations (feature)
_TOPICS = 10.0  # times the automatic xi


class SupervisedDictionary(
    DictionarySummary, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC
):
    """Atoms that rebuild rows and predict; see the two estimators."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "model": [StrOptions({"filter", "feature"})],
        "solver": [StrOptions({"auto", "lbfgs", "bcd", "lpgd"})],
        "xi": [Interval(Real, 0, None, closed="left"), StrOptions({"auto", "topics"})],
        "positive": ["boolean"],
        "l1": [Interval(Real, 0, None, closed="left")],
        "l2": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "apart": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "covariates": "no_validation",
        "fit_intercept": ["boolean"],
        "coding": [StrOptions({"refit", "plain", "labels"})],
        "bounds": [dict, None],
        "radius": [Radius, None],
        "step": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [whole(1)],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_bootstraps": [whole(0)],
        "random_state": ["random_state"],
        "verbose": ["boolean"],
    }

    n_components: Any
    model: Any
    solver: str
    xi: Any
    positive: bool
    l1: float
    l2: Any
    apart: Any
    covariates: Any
    fit_intercept: bool
    coding: str
    bounds: Any
    radius: Radius | None
    step: float | None
    max_iter: int
    tol: float
    n_bootstraps: int
    random_state: Any
    verbose: bool
    n_features_in_: int
    components_: NDArray[Any]
    _state: State
    _coefficients: tuple[Array, Array, Array]

    def __init__(
        self,
        n_components: int = 2,
        *,
        model: str = "filter",
        solver: str = "auto",
        xi: float | str = "auto",
        positive: bool = False,
        l1: float = 0.0,
        l2: float | str = "auto",
        apart: float | str = "auto",
        covariates: Any = None,
        fit_intercept: bool = True,
        coding: str = "refit",
        bounds: Any = None,
        radius: Any = None,
        step: float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-5,
        n_bootstraps: int = 0,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep(self, locals())

    # ------------------------------------------------------------------ columns

    def _read(self, X: Any) -> Any:
        """X of a fit, its columns sorted into atoms' and covariates'."""
        X = check_table(self, X, reset=True, min_rows=2)
        if not is_dask(X):
            check_range(X, feature_names(self))
        p = self.n_features_in_
        skip = np.zeros(0, dtype=np.intp)
        if self.covariates is not None and np.size(self.covariates):
            skip = parse_columns(self.covariates, p, feature_names(self), what="covariates")
        self.covariate_columns_ = skip
        self.dictionary_columns_ = np.setdiff1d(np.arange(p), skip)
        if len(self.dictionary_columns_) == 0:
            msg = f"all {p} columns are covariates, which leaves none to make atoms of; name fewer in covariates="
            raise ValueError(msg)
        if is_dask(X) and self.n_bootstraps:
            msg = (
                f"n_bootstraps={self.n_bootstraps} draws rows, which a Dask table has not at hand. Remedies: n_bootstraps=0, or a "
                "sample of rows in memory"
            )
            raise ValueError(msg)
        if is_dask(X) and not self._by_sums:
            X = known_rows(X)
            check_kept(X, self._kept_per_row(1), self._why_kept)
        if not is_dask(X) or not self._by_sums:
            self._check_size(X.shape[0])
        return X

    def _check_size(self, n: int) -> None:
        wide, skipped = len(self.dictionary_columns_), len(self.covariate_columns_)
        if self.n_components > min(n, wide):
            msg = (
                f"n_components={self.n_components} is more than {n} sample(s) or {wide} column(s) allow "
                f"(n_samples = {n}, n_features = {wide + skipped}, of which {skipped} are covariates); "
                f"use at most {min(n, wide)}"
            )
            raise ValueError(msg)

    @property
    def _by_sums(self) -> bool:
        """Whether a Dask table is fitted by sums over its rows alone: codes must have a closed form."""
        bounded = self.l1 > 0 or self.bounds or self.radius is not None or self.step is not None
        rebuilt = isinstance(self.xi, str) or self.xi > 0
        return self.model == "filter" and self.solver in ("auto", "lbfgs") and not bounded and rebuilt

    def _kept_per_row(self, n_outputs: int) -> int:
        """Numbers that other solvers keep for each row: its code, labels, covariates and weights."""
        return self.n_components + n_outputs + len(self.covariate_columns_) + 2

    @property
    def _why_kept(self) -> str:
        return f"model={self.model!r} with solver={self.solver!r}, l1={self.l1:g} keeps codes of all rows"

    def _columns(self, X: Any) -> tuple[Any, Array]:
        """The columns of the atoms (a view where they lie side by side) and the covariates."""
        return (columns_of_dask if is_dask(X) else split_columns)(
            X, self.dictionary_columns_, self.covariate_columns_
        )

    def _warn_copies(self, copies: NDArray[np.bool_]) -> None:
        """Say which covariates (rows) are also columns of the dictionary."""
        labels = feature_names(self) or range(self.n_features_in_)
        for k, j in np.argwhere(copies):
            pair = labels[self.covariate_columns_[k]], labels[self.dictionary_columns_[j]]
            warnings.warn(
                f"covariate {pair[0]!r} is a copy of column {pair[1]!r} of the dictionary, so their effects cannot be told "
                "apart; drop one of them",
                UserWarning,
                stacklevel=6,
            )

    # ------------------------------------------------------------------ fitting

    def _problem(
        self,
        X: Any,
        Y: Array,
        loss: Loss,
        null_loss: float,
        weight: Any = None,
        label_weight: Any = None,
        unit: float = 1.0,
    ) -> Problem:
        """The problem, divided by ``unit``, with its automatic terms; ``null_loss`` is that of a constant prediction."""
        self._check_settings()
        X, Z = self._columns(X)
        if Z.shape[1]:
            self._warn_copies(copied_columns(X, Z))
        problem = make_problem(
            X,
            Y,
            Z,
            loss=loss,
            model=self.model,
            xi=0.0,
            l1=float(self.l1) / unit,
            weight=weight,
            label_weight=label_weight,
            fit_intercept=self.fit_intercept,
            apart=self._apart,
        )
        return self._with_terms(problem, null_loss, unit)

    def _check_settings(self) -> None:
        check_bounds(self.bounds)
        if self.model == "filter" and self.coding != "refit":
            msg = f"coding={self.coding!r} is a setting of model='feature'; leave it at 'refit' for model='filter'"
            raise ValueError(msg)
        if self.apart != "auto" and self.apart > 0:
            if not self.positive:
                msg = (
                    f"apart={self.apart:g} is for nonnegative atoms: free ones can be turned without any change of the fit. "
                    "Remedies: positive=True, or apart='auto'"
                )
                raise ValueError(msg)
            if self.l2 == 0:
                msg = f"apart={self.apart:g} is a share of the ridge, and l2=0 is none; give l2 > 0, or apart='auto'"
                raise ValueError(msg)

    def _remote_problem(
        self,
        arrays: tuple[Any, ...],
        target: Target,
        n_outputs: int,
        loss: Loss,
        null_loss: float,
        unit: float = 1.0,
    ) -> Problem:
        """The problem of X, y and weights of which X is a Dask collection, fitted where its rows are."""
        self._check_settings()
        prepare = Prepare(self.dictionary_columns_, self.covariate_columns_, target)
        problem = remote_problem(
            arrays,
            prepare,
            n_outputs,
            loss=loss,
            positive=self.positive,
            xi=0.0,
            l1=0.0,
            l2=0.0,
            fit_intercept=self.fit_intercept,
            apart=self._apart,
        )
        self._check_size(problem.X.shape[0])
        if len(self.covariate_columns_):
            self._warn_copies(over_rows(problem, count_unequal).copies)
        return self._with_terms(problem, null_loss, unit)

    def _with_terms(self, problem: Problem, null_loss: float, unit: float) -> Problem:
        """Automatic xi and l2."""
        columns, mass = columns_of(problem), max(float(problem.weight.sum()), 1e-300)
        labels = feature_names(self) or range(self.n_features_in_)
        warn_far(columns, mass, [labels[j] for j in self.dictionary_columns_], level=8)
        length = problem.energy / mass
        xi, l2 = self.xi, self.l2
        if isinstance(xi, str):
            auto = null_loss / length if length > 0 and null_loss > 0 else 1.0
            xi = _TOPICS * auto if xi == "topics" else auto
        else:
            xi = xi / unit
        if isinstance(l2, str):
            l2 = _RIDGE * seen_energy(problem, columns) if self.model == "filter" else _CODE_RIDGE
        return replace(problem, xi=float(xi), l2=float(l2))

    @property
    def _apart(self) -> float:
        if self.apart == "auto":
            return _APART if self.positive else 0.0
        return float(self.apart)

    @property
    def _as_published(self) -> bool:
        """Whether blocks, bounds and steps are to be those of the problem as it is written, in the units of y."""
        return (
            bool(self.bounds) or self.step is not None or (self.radius is not None and self.radius.absolute)
        )

    def _options(self) -> Options:
        return Options(
            self.n_components,
            self.positive,
            self.solver,
            float(self.tol),
            int(self.max_iter),
            check_bounds(self.bounds),
            self.radius,
            None if self.step is None else float(self.step),
        )

    def _solve(self, problem: Problem, start: State | None) -> Solution:
        options = self._options()
        with track(self.max_iter, "dictionary", show=self.verbose) as advance:
            found, self.solver_ = solve(problem, options, generator(self.random_state), start, advance)
        if not found.converged:
            warnings.warn(
                f"the fit has not converged: {found.reason}, objective {found.history[-1]:.6g}. "
                f"Remedies: a larger max_iter (now {self.max_iter}) or tol (now {self.tol:g})",
                ConvergenceWarning,
                stacklevel=4,
            )
        return found

    def _store(self, problem: Problem, found: Solution, dtype: Any, unit: float = 1.0) -> State:
        """Learned attributes that both estimators have; returns the state that predicts."""
        state = found.state
        self._state = state
        self.xi_, self.l2_ = unit * problem.xi, problem.l2
        self.history_ = unit * np.asarray(found.history)
        self.objective_ = float(self.history_[-1])
        self.n_iter_ = max(1, len(found.history) - 1)
        self.reason_ = found.reason
        self.reconstruction_error_ = rebuilding_error(problem, state.W, state.H, self.positive)
        self.components_ = state.W.T.astype(dtype)
        if self.n_bootstraps:
            rng = generator(self.random_state)
            with track(self.n_bootstraps, "bootstrap", show=self.verbose) as advance:
                self.stability_ = bootstrap_stability(
                    problem, self._options(), state.W, self.n_bootstraps, rng, advance
                )
        if self.model == "feature" and self.coding == "refit":
            return refitted(problem, state, self.positive)
        return state

    def _by_rows(self, name: str, X: Any, width: int | None = None, dtype: Any = np.float64) -> Any:
        """``self.name`` of checked rows; of a Dask table a lazy array, ``width`` columns wide."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        return lazily(self, name, X, width, dtype) if is_dask(X) else finite_rows(self, name, X)

    def _unlabelled(self, X: Any, loss: Loss | None = None) -> tuple[Problem, Array]:
        """Checked rows in memory as a problem without labels, and the dictionary."""
        X, Z = self._columns(X)
        Y = np.zeros((X.shape[0], self._state.B.shape[1]))
        problem = make_problem(
            X,
            Y,
            Z,
            loss=loss,
            model=self.model,
            xi=self.xi_,
            l1=float(self.l1),
            l2=self.l2_,
            apart=self._apart,
        )
        return problem, self._state.W

    def _activations(self, X: Any) -> Array:
        """What coefficients, covariates and intercept add up to (n x K)."""
        problem, W = self._unlabelled(X)
        filtered = self.model == "filter"
        s = projections(problem, W) if filtered else plain_codes(problem, W, self.positive)
        B, G, c = self._coefficients
        return s @ B + problem.Z @ G + c

    # ------------------------------------------------------------------ codes

    def transform(self, X: Any) -> NDArray[Any]:
        """Codes of rows, found without labels: min over h of xi ||x - W h||^2 + l1 |h|_1, h >= 0 if ``positive``.

        Of a Dask table a lazy Dask array, here and in predictions.
        """
        check_is_fitted(self)
        codes: NDArray[Any] = self._by_rows("_codes", X, len(self.components_), self.components_.dtype)
        return codes

    def _codes(self, X: Any) -> NDArray[Any]:
        problem, W = self._unlabelled(X)
        return plain_codes(problem, W, self.positive).astype(self.components_.dtype, copy=False)

    def reconstruct(self, X: Any) -> NDArray[Any]:
        """Rows rebuilt from their codes (the columns of the atoms, without covariates)."""
        check_is_fitted(self)
        rows: NDArray[Any] = self._by_rows("_rebuilt", X, self.components_.shape[1], self.components_.dtype)
        return rows

    def _rebuilt(self, X: Any) -> NDArray[Any]:
        return self._codes(X) @ self.components_

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    # ------------------------------------------------------------------ the path over xi

    def xi_path(self, X: Any, y: Any, xis: Any = None) -> XiPath:
        """Fits over a grid of xi, each begun at the one before: how rebuilding is traded for prediction.

        Parameters
        ----------
        xis : numbers > 0, default: 11 from 1/1000 to 100 times the automatic xi
        """
        self._validate_params()
        if xis is None:
            automatic = clone(self).set_params(xi="auto")._setup(X, y)
            grid = automatic.unit * automatic.problem.xi * np.logspace(-3, 2, 11)
        else:
            grid = np.asarray(xis, dtype=np.float64)
            if grid.ndim != 1 or not len(grid) or not np.all(np.isfinite(grid) & (grid > 0)):
                msg = f"xis={xis!r} must be a list of numbers > 0"
                raise ValueError(msg)
        models: list[Any] = [None] * len(grid)
        state: State | None = None
        for i in np.argsort(-grid, kind="stable"):
            models[i] = clone(self).set_params(xi=float(grid[i]), n_bootstraps=0)
            models[i]._fit(X, y, start=state)
            state = models[i]._state
            models[i]._forget_codes()
        return XiPath(
            grid,
            np.array([m.reconstruction_error_ for m in models]),
            np.array([m._label_loss(X, y) for m in models]),
            np.array([m.score(X, y) for m in models]),
            tuple(models),
        )

    def _forget_codes(self) -> None:
        """A model is as small as its dictionary."""
        self._state = self._state._replace(H=self._state.H[:0].copy())

    @abstractmethod
    def _setup(self, X: Any, y: Any, sample_weight: Any = None) -> Setup:
        """Check everything and state the problem."""

    @abstractmethod
    def _fit(self, X: Any, y: Any, sample_weight: Any = None, start: State | None = None) -> Self:
        """Learn from checked parameters, from ``start`` if there is one."""

    @abstractmethod
    def _label_loss(self, X: Any, y: Any) -> float:
        """Mean loss of the labels of rows."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.positive
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def rebuilding_error(problem: Problem, W: Array, H: Array, positive: bool = False) -> float:
    """sum_i w_i ||x_i - W h_i||^2 / sum_i w_i ||x_i||^2; codes that are not at hand are the best ones."""
    if problem.rows is not None:
        sums = code_sums(problem, W, positive)
        cross, gram = sums.cross, sums.gram
    else:
        wh = problem.weight[:, None] * H
        cross, gram = float(np.vdot(wh, projections(problem, W))), H.T @ wh
    left = rebuilding(problem, cross, gram, W.T @ W)
    return max(left, 0.0) / problem.energy if problem.energy > 0 else 0.0
