"""What every score model offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from .._containers import as_column
from .._rows import is_dask
from .._summary import SummaryMixin
from .._validation import check_table, check_weights

Array = NDArray[np.float64]


class ScoreModel(SummaryMixin, BaseEstimator, ABC):
    r"""A model of a density P that gives its scores.

    .. math:: s(x) = -\nabla \log P(x), \qquad T(x) = s s^\top - \nabla s .

    Sums over rows are what estimators need: ``first_moment`` gives :math:`\sum_i s(x_i) y_i^\top`,
    ``second_moment`` :math:`\sum_i w_i T(x_i)` as one weighted product, T never formed row by row. Both are linear in y
    and w, so weights of rows are multiplied into those.
    """

    n_features_in_: int
    _why_in_memory = "it looks at all rows at once"

    @property
    def is_given(self) -> bool:
        """Whether every parameter of the law is given, so that nothing is learned from rows."""
        return False

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the density from rows of X; y is ignored.

        A ``sample_weight`` of two is a row twice, zero is a row absent, and a constant changes nothing.
        """

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

    def _rows_to_fit(
        self, X: Any, min_rows: int, sample_weight: Any = None, *, partitions: bool = False
    ) -> tuple[Any, Any]:
        """Rows that the model learns from, float64, and their weights or None; sets names and width.

        Rows of weight zero are left out. With ``partitions`` a Dask collection stays as it is.
        """
        if not partitions:
            refuse_dask(X, type(self).__name__, f": {self._why_in_memory}")
        rows = _dense(check_table(self, X, reset=True, min_rows=min_rows), type(self).__name__)
        weight = check_weights(sample_weight, rows)
        if is_dask(rows) or weight is None:
            return rows, weight
        kept = weight > 0
        if int(kept.sum()) < min_rows:
            msg = f"{int(kept.sum())} row(s) have a positive sample_weight (n_samples={len(rows)}), and {min_rows} are needed"
            raise ValueError(msg)
        weight = weight / weight.max()
        return (rows, weight) if kept.all() else (rows[kept], weight[kept])

    def _checked(self, X: Any) -> Array:
        """Rows for a fitted model, float64."""
        check_is_fitted(self)
        refuse_dask(X, type(self).__name__)
        return _dense(check_table(self, X, reset=False), type(self).__name__)


def _dense(X: Any, who: str) -> Any:
    """Rows as float64; a Dask collection as it is."""
    if is_dask(X):
        return X
    if sparse.issparse(X):
        msg = f"X is sparse, but {who} works on centred rows, which are dense. Remedy: X.toarray()"
        raise TypeError(msg)
    return np.asarray(X, dtype=np.float64)


def refuse_dask(X: Any, who: str, reason: str = "") -> None:
    """A Dask collection would be loaded without a word."""
    if is_dask(X):
        msg = (
            f"X is a Dask collection ({type(X).__name__}), but {who} works on rows in memory{reason}. Remedies: "
            "X.compute(), a sample of the rows, or GaussianScore, StudentScore or HyperbolicScore, which are fitted in "
            "partitions"
        )
        raise TypeError(msg)


def per_row(values: Any, n: int, name: str) -> Array:
    """One or several finite numbers per row: n, or n x k."""
    values = as_column(values, name).values
    with np.errstate(over="ignore", invalid="ignore"):
        values = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name, ensure_min_samples=0)
    if values.ndim not in (1, 2) or len(values) != n:
        msg = f"{name} has shape {values.shape}, but X has {n} rows: shape ({n},) or ({n}, k) is needed"
        raise ValueError(msg)
    return values
