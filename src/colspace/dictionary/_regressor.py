"""Supervised dictionaries for numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_array, check_consistent_length

from .._containers import as_column
from .._rows import is_dask
from .._sklearn_compat import _fit_context
from .._validation import table_dtype
from ._base import Setup, SupervisedDictionary
from ._losses import Squared
from ._objective import State


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
    xi_, l2_, solver_, reason_, history_, objective_, n_iter_, reconstruction_error_
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
        covariates: Any = None,
        fit_intercept: bool = True,
        coding: str = "refit",
        dictionary_norm: float | None = None,
        radius: Any = None,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.model = model
        self.solver = solver
        self.xi = xi
        self.positive = positive
        self.l1 = l1
        self.l2 = l2
        self.covariates = covariates
        self.fit_intercept = fit_intercept
        self.coding = coding
        self.dictionary_norm = dictionary_norm
        self.radius = radius
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn atoms and coefficients.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, or Dask array or dataframe (read in chunks, never held whole), covariates included
        y : array (n,) or (n, q) of numbers
        sample_weight : array (n,), optional
            How often each row counts.
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
        y = check_array(
            np.asarray(y) if is_dask(y) else as_column(y).values,
            ensure_2d=False,
            dtype="numeric",
            input_name="y",
            estimator=self,
        )
        check_consistent_length(table, y)
        Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, table)
        # the fit is of (y - shift) / scale, which changes units alone
        shift = np.average(Y, axis=0, weights=weight) if self.fit_intercept else np.zeros(Y.shape[1])
        variance = float(np.average(np.sum((Y - shift) ** 2, axis=1), weights=weight))
        scale = np.sqrt(variance) if variance > 0 else 1.0
        problem = self._problem(
            table, (Y - shift) / scale, Squared(), variance / scale**2, weight, unit=scale**2
        )
        return Setup(table, y, weight, problem, scale**2, shift)

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
        a = self._activations(X)
        return a[:, 0] if self.coef_.ndim == 1 else a

    def _label_loss(self, X: Any, y: Any) -> float:
        left = np.asarray(y, dtype=np.float64) - self.predict(X)
        return float(np.mean(np.sum(left.reshape(len(left), -1) ** 2, axis=1)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
