"""What every score model offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from .._containers import as_column
from .._rows import is_dask
from .._validation import check_table

Array = NDArray[np.float64]


class ScoreModel(BaseEstimator, ABC):
    r"""A model of a density P that gives its scores.

    .. math:: s(x) = -\nabla \log P(x), \qquad T(x) = s s^\top - \nabla s .

    Sums over rows are what estimators need: ``first_moment`` gives :math:`\sum_i s(x_i) y_i^\top`,
    ``second_moment`` :math:`\sum_i w_i T(x_i)` as one weighted product, T never formed row by row.
    """

    n_features_in_: int

    @property
    def is_given(self) -> bool:
        """Whether every parameter of the law is given, so that nothing is learned from rows."""
        return False

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the density from rows of X; y is ignored."""

    @abstractmethod
    def score_function(self, X: Any) -> Array:
        """The scores of rows, n x p."""

    def first_moment(self, X: Any, Y: Array) -> Array:
        """Sum over rows of s(x) y', p x q."""
        s = self.score_function(X)
        return s.T @ per_row(Y, len(s), "Y")

    @abstractmethod
    def second_moment(self, X: Any, weights: Array) -> Array:
        """Sum over rows of w T(x): p x p for one weight per row, k x p x p for weights n x k."""

    def _rows_to_fit(self, X: Any, min_rows: int) -> Array:
        """Rows that the model learns from, float64; sets names and width."""
        refuse_dask(X, type(self).__name__)
        return check_table(self, X, reset=True, min_rows=min_rows, accept_sparse=False, dtype=np.float64)

    def _checked(self, X: Any) -> Array:
        """Rows for a fitted model, float64."""
        check_is_fitted(self)
        refuse_dask(X, type(self).__name__)
        return check_table(self, X, reset=False, accept_sparse=False, dtype=np.float64)


def refuse_dask(X: Any, who: str) -> None:
    """A Dask collection would be loaded without a word."""
    if is_dask(X):
        msg = (
            f"X is a Dask collection ({type(X).__name__}), but {who} works on rows in memory. Remedies: X.compute(), "
            "a sample of the rows, or SteinReduction(score_model='gaussian'), which reads it in partitions"
        )
        raise TypeError(msg)


def per_row(values: Any, n: int, name: str) -> Array:
    """One or several finite numbers per row: n, or n x k."""
    values = as_column(values, name).values
    values = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name, ensure_min_samples=0)
    if values.ndim not in (1, 2) or len(values) != n:
        msg = f"{name} has shape {values.shape}, but X has {n} rows: shape ({n},) or ({n}, k) is needed"
        raise ValueError(msg)
    return values
