"""What every score model offers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]


class ScoreModel(BaseEstimator):
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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the density from rows of X; y is ignored."""
        raise NotImplementedError

    def score_function(self, X: Any) -> Array:
        """The scores of rows, n x p."""
        raise NotImplementedError

    def first_moment(self, X: Any, Y: Array) -> Array:
        """Sum over rows of s(x) y', p x q."""
        return self.score_function(X).T @ Y

    def second_moment(self, X: Any, weights: Array) -> Array:
        """Sum over rows of w T(x): p x p for one weight per row, k x p x p for weights n x k."""
        raise NotImplementedError

    def _checked(self, X: Any) -> Array:
        """Rows for a fitted model, float64."""
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)
