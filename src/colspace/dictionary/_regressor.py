"""Supervised dictionaries for numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
)

from .._containers import as_column
from .._overflow import ColumnOverflowError, overflow_error
from .._rows import is_dask, reduce_rows
from .._sklearn_compat import _fit_context
from .._threads import plain_products
from .._validation import check_table, check_weights, table_dtype
from ._base import SupervisedDictionary
from ._losses import Array, Squared
from ._objective import State
from ._remote import beside, chunk_weights
from ._setup import Setup
from ._tables import check_kept


class SupervisedDictionaryRegressor(RegressorMixin, SupervisedDictionary):
    r"""Atoms that rebuild the rows of a table and predict one or several numbers.

    As `SupervisedDictionaryClassifier` with the squared loss :math:`\|y_i - a_i\|^2`. Its parameters are those, without
    what concerns classes; "auto" xi is the mean squared deviation of y over the mean of :math:`\|x\|^2`.

    Attributes
    ----------
    components_ : ndarray (n_components, n_dictionary_columns)
    coef_ : ndarray (n_components,), or (n_responses, n_components)
    covariate_coef_ : ndarray (n_covariates,), or (n_responses, n_covariates)
    intercept_ : float, or ndarray (n_responses,)
    xi_, l2_, solver_, reason_, history_, objective_, n_iter_, reconstruction_error_, stability_
        As for the classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import SupervisedDictionaryRegressor
    >>> rng = np.random.default_rng(0)
    >>> H, W = rng.exponential(size=(300, 2)), rng.exponential(size=(2, 20))
    >>> X = H @ W + 0.1 * rng.uniform(size=(300, 20))
    >>> y = H @ [3.0, -1.0] + 0.1 * rng.standard_normal(300)
    >>> model = SupervisedDictionaryRegressor(2).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.98
    True
    """

    @_fit_context(prefer_skip_nested_validation=True)
    @plain_products
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn atoms and coefficients.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, or Dask array (also of CSR blocks) or dataframe, covariates included
            As for the classifier.
        y : array (n,) or (n, q) of numbers; beside a Dask table also a Dask array, Series or dataframe
        sample_weight : array (n,), optional
            How often each row counts; beside a Dask table also a Dask array or Series.
        """
        self._fit(X, y, sample_weight)
        self._forget_codes()
        return self

    def _setup(self, X: Any, y: Any, sample_weight: Any = None) -> Setup:
        if self.coding == "labels":
            msg = "coding='labels' compares classes, which a regressor has not; use 'refit' or 'plain'"
            raise ValueError(msg)
        table = self._read(X)
        if y is None:
            msg = f"{type(self).__name__} requires y to be passed, but the target y is None"
            raise ValueError(msg)
        if is_dask(table) and self._by_sums:
            return self._remote_setup(table, y, sample_weight)
        y = _numbers(np.asarray(y) if is_dask(y) else as_column(y).values)
        check_consistent_length(table, y)
        Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        weight = check_weights(sample_weight, table)
        if is_dask(table):
            check_kept(table, self._kept_per_row(Y.shape[1]), self._why_kept)
        # the fit is of (y - shift) / scale, which changes units alone
        with np.errstate(over="ignore", invalid="ignore"):
            shift = np.average(Y, axis=0, weights=weight) if self.fit_intercept else np.zeros(Y.shape[1])
            variance = float(np.average(np.sum((Y - shift) ** 2, axis=1), weights=weight))
        if not np.isfinite(variance):
            raise overflow_error(Y, what="y")
        scale = np.sqrt(variance) if variance > 0 and not self._as_published else 1.0
        shift = np.zeros_like(shift) if self._as_published else shift
        problem = self._problem(
            table, (Y - shift) / scale, Squared(), variance / scale**2, weight, unit=scale**2
        )
        return Setup(table, y, weight, problem, variance, scale**2, shift)

    def _remote_setup(self, table: Any, y: Any, sample_weight: Any) -> Setup:
        """The problem of a Dask table, whose responses are scaled where they are."""
        arrays = beside(table, y if is_dask(y) else _numbers(y), sample_weight)
        first = reduce_rows(partial(_moments, shift=None), *arrays[1:])
        mean = first[1] / first[0] if np.all(first[0] > 0) else np.zeros(first.shape[1])
        shift = mean if self.fit_intercept else np.zeros_like(mean)
        second = reduce_rows(partial(_moments, shift=shift), *arrays[1:])
        variance = float(np.sum(second[2] / np.maximum(second[0], 1e-300)))
        if not np.isfinite(variance):
            msg = "sums of squares of y overflow float64 (1.8e308); divide y by a constant"
            raise ColumnOverflowError(msg)
        scale = float(np.sqrt(variance)) if variance > 0 else 1.0
        target = NumberTarget(shift, scale)
        problem = self._remote_problem(
            arrays, target, len(shift), Squared(), variance / scale**2, unit=scale**2
        )
        flat = len(y.shape if hasattr(y, "shape") else np.shape(y)) == 1
        return Setup(
            table, np.zeros(0 if flat else (0, len(shift))), None, problem, variance, scale**2, shift
        )

    def _fit(self, X: Any, y: Any, sample_weight: Any = None, start: State | None = None) -> Self:
        setup = self._setup(X, y, sample_weight)
        dtype, scale = table_dtype(setup.table), np.sqrt(setup.unit)
        state = self._store(setup.problem, self._solve(setup.problem, start), dtype, setup.unit)
        B, G, c = state.B * scale, state.G * scale, state.intercept * scale + setup.shift
        self._coefficients = B, G, c
        flat = setup.y.ndim == 1
        self.coef_, self.covariate_coef_ = (
            (block[:, 0] if flat else block.T).astype(dtype) for block in (B, G)
        )
        self.intercept_ = float(c[0]) if flat else c
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The fitted numbers of rows."""
        check_is_fitted(self)
        wide = None if self.coef_.ndim == 1 else self.coef_.shape[0]
        numbers: NDArray[Any] = self._by_rows("_fitted", X, wide)
        return numbers

    def _fitted(self, X: Any) -> Array:
        a = self._activations(X)
        return a[:, 0] if self.coef_.ndim == 1 else a

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, the mean of that of several responses."""
        if not is_dask(X):
            return float(super().score(X, y, sample_weight))
        arrays = beside(check_table(self, X, reset=False), y, sample_weight)
        first = reduce_rows(partial(_moments, shift=None), *arrays[1:])
        left, spread = reduce_rows(partial(_residual, self, first[1] / first[0]), *arrays)
        flat = np.where(left == 0.0, 1.0, 0.0)  # of a constant response, as scikit-learn has it
        return float(np.mean(np.where(spread > 0, 1.0 - left / np.where(spread > 0, spread, 1.0), flat)))

    def _label_loss(self, X: Any, y: Any) -> float:
        if is_dask(X):
            left, _ = reduce_rows(partial(_residual, self, np.zeros(1)), check_table(self, X, reset=False), y)
            return float(left.sum() / reduce_rows(partial(_moments, shift=None), y)[0, 0])
        left = np.asarray(y, dtype=np.float64) - self.predict(X)
        return float(np.mean(np.sum(left.reshape(len(left), -1) ** 2, axis=1)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _numbers(y: Any) -> NDArray[Any]:
    """Responses, finite and numeric."""
    y = as_column(y).values
    if y.dtype.kind not in "biuf":
        msg = f"y holds {y.ravel()[0]!r}, no number; SupervisedDictionaryClassifier takes labels"
        raise ValueError(msg)
    with np.errstate(over="ignore", invalid="ignore"):  # in sums of finite numbers
        checked: NDArray[Any] = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
    return checked


def _matrix(y: Any) -> Array:
    y = _numbers(y)
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def _moments(y: Any, weight: Any = None, *, shift: Array | None) -> Array:
    """Sums of w, w y and w (y - shift)^2 of some rows, one column per response."""
    Y = _matrix(y)
    w = np.ones(len(Y)) if weight is None else chunk_weights(weight)
    Y = Y if shift is None else Y - shift
    with np.errstate(over="ignore", invalid="ignore"):
        return np.stack([np.full(Y.shape[1], w.sum()), w @ Y, w @ Y**2])


def _residual(model: Any, mean: Array, X: Any, y: Any, weight: Any = None) -> Array:
    """Sums of w (y - fitted)^2 and w (y - mean)^2 of some rows, one column per response."""
    Y = _matrix(y)
    w = np.ones(len(Y)) if weight is None else chunk_weights(weight)
    return np.stack([w @ (Y - model._fitted(X).reshape(len(Y), -1)) ** 2, w @ (Y - mean) ** 2])


@dataclass(frozen=True)
class NumberTarget:
    """Responses as the problem takes them: (y - shift) / scale."""

    shift: Array
    scale: float

    def __call__(self, y: Any, w: Array) -> tuple[Array, Array]:
        """Y and v of some rows."""
        return (_matrix(y) - self.shift) / self.scale, w
