"""What the classifier and the regressor share: columns, fitting, codes, rebuilding, and the path over xi."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._progress import track
from .._random import generator
from .._rows import is_dask
from .._validation import check_table, feature_names
from ._fit import Options, plain_codes, refitted, solve
from ._left_out import asked_ridge
from ._losses import Array, Loss
from ._objective import Problem, Solution, State, make_problem, over_rows, projections, rebuilding
from ._regions import check_bounds
from ._remote import Prepare, Target, code_sums, lazily, remote_problem
from ._settings import DictionarySettings
from ._setup import Setup, XiPath
from ._stability import bootstrap_stability
from ._summary import DictionarySummary
from ._tables import (
    copied_columns,
    count_unequal,
    finite_rows,
)
from ._units import columns_of, seen_energy, warn_far

_RIDGE = 0.01  # of the mean square distance of rows from their mean (filter)
_CODE_RIDGE = 0.001  # of the activations (feature)
_TOPICS = 10.0  # times the automatic xi


class SupervisedDictionary(
    DictionarySummary, ClassNamePrefixFeaturesOutMixin, TransformerMixin, DictionarySettings, ABC
):
    """Atoms that rebuild rows and predict; see the two estimators."""

    components_: NDArray[Any]
    _state: State
    _coefficients: tuple[Array, Array, Array]

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
        warn_far(columns, mass, [labels[j] for j in self.dictionary_columns_], level=9)
        length = problem.energy / mass
        xi, l2 = self.xi, self.l2
        if isinstance(xi, str):
            auto = null_loss / length if length > 0 and null_loss > 0 else 1.0
            xi = _TOPICS * auto if xi == "topics" else auto
        else:
            xi = xi / unit
        if isinstance(l2, str):
            l2 = _CODE_RIDGE
            if self.model == "filter":
                l2 = max(_RIDGE * seen_energy(problem, columns), asked_ridge(problem))
        return replace(problem, xi=float(xi), l2=float(l2))

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
                stacklevel=5,
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
        largest = float(np.abs(state.W).max())
        if largest > float(np.finfo(dtype).max):
            msg = (
                f"atoms have grown to {largest:.3g}, which {np.dtype(dtype).name} does not hold: the fit has diverged. "
                "Remedies: step=None, or a shorter step"
            )
            raise ValueError(msg)
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
