"""Stein's method with its ridge and unlabelled weight chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length

from .._response import check_varies, make_encoder, read_response
from .._rows import is_dask
from .._sklearn_compat import StrOptions, _fit_context, whole
from .._threads import small_products, table_work
from .._validation import check_table, check_weights
from ..factor import SingularCovarianceError
from ..scores import GaussianScore
from ._linear import LinearReductionMixin, column_labels
from ._source import weighted_rows
from ._stein import SteinReduction
from ._stein_fit import response_rank
from ._stein_folds import CrossFolds, FoldedPlan, fold_errors, split_tables
from ._stein_path import ZERO_RIDGE
from ._stein_plan import check_combine
from ._stein_sums import (
    column_scale,
    gaussian_moments,
    labelled_rows,
    reduce_stein,
    ridge_unit,
    stein_from_tables,
)

Array = NDArray[np.float64]


_WEIGHTS = (0.0, 0.1, 0.3, 1.0)


class SteinReductionCV(LinearReductionMixin, BaseEstimator):
    r"""SteinReduction with a Gaussian score whose ridge and unlabelled weight are cross-validated.

    For every ridge and weight the directions are learned, score included, on the training folds of the labelled
    rows and all unlabelled ones; y is then regressed on the embedding and the squared error taken on the held-out
    labelled rows, responses scaled to unit variance. All of it comes from moments of the folds: one pass over the rows.

    Parameters
    ----------
    n_components : int, default=2
    ridges : sequence of float, default=(0.3, 1.0, 3.0, 10.0, 30.0, inf)
        Ridges in units of each column's variance; inf replaces the covariance by its diagonal.
    weights : sequence of float, default=(0.0, 0.1, 0.3, 1.0)
        Weights of the unlabelled block. When all rows are labelled only 0 is tried; 0 is not tried where
        ``n_components`` exceeds the directions that the responses can show.
    order, standardize, whiten_response, combine, response : see SteinReduction.
    cv : int or splitter, default=5
        Folds of the labelled rows; a number for a Dask collection, whose rows are dealt out in turn.

    Attributes
    ----------
    ridge_, unlabeled_weight_ : float
        The chosen values.
    weights_ : ndarray
        The weights tried.
    cv_errors_ : ndarray (ridges, weights tried)
        Mean held-out squared error relative to predicting the mean.
    estimator_ : SteinReduction
        Refitted on all rows.
    components_, mean_, scale_, singular_values_ : those of ``estimator_``.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import SteinReductionCV
    >>> from colspace.datasets import make_multiple_response
    >>> X, Y, B = make_multiple_response(400, 10, 6, 2, rng=0)
    >>> Y[100:] = np.nan
    >>> SteinReductionCV(n_components=2).fit(X, Y).transform(X).shape
    (400, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "ridges": ["array-like"],
        "weights": ["array-like"],
        "order": [whole(1, 2), StrOptions({"both"})],
        "standardize": ["boolean"],
        "whiten_response": ["boolean", StrOptions({"auto"})],
        "combine": [StrOptions({"stack", "mean"})],
        "response": [StrOptions({"rank", "labels", "numbers"}), callable, None],
        "cv": ["cv_object"],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        ridges: Sequence[float] = (0.3, 1.0, 3.0, 10.0, 30.0, np.inf),
        weights: Sequence[float] = _WEIGHTS,
        order: int | str = 1,
        standardize: bool = True,
        whiten_response: bool | str = "auto",
        combine: str = "stack",
        response: str | Callable[[Any], Any] | None = None,
        cv: Any = 5,
    ) -> None:
        self.n_components = n_components
        self.ridges = ridges
        self.weights = weights
        self.order = order
        self.standardize = standardize
        self.whiten_response = whiten_response
        self.combine = combine
        self.response = response
        self.cv = cv

    @_fit_context(prefer_skip_nested_validation=True)
    @small_products(table_work)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose ridge and weight, then learn the directions.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, Dask array or dataframe
        y : array (n,), array (n, q) or class labels; rows that are NaN are unlabelled
        sample_weight : array (n,), optional
            A weight of two counts a row twice, zero leaves it out; folds are of rows. A splitter sees all labelled
            rows, those of weight zero among them.
        """
        check_combine(self.order, self.combine)
        X = check_table(self, X, reset=True, min_rows=2)
        if y is None:
            make_encoder(None, self.response, caller=type(self).__name__)
        ridges, weights = check_grid("ridges", self.ridges), check_grid("weights", self.weights)
        row_weights = check_weights(sample_weight, X)
        cv = 5 if self.cv is None else self.cv
        y, response = read_response(y, self.response)
        if not is_dask(X):
            check_consistent_length(X, y)
            if isinstance(cv, int | np.integer):  # a splitter may number the rows as they are
                X, y, row_weights = weighted_rows(row_weights, X, y)
            if (known := labelled_rows(y).sum()) < 2:
                msg = f"{known} labelled row(s): cross-validation needs at least two (n_samples={X.shape[0]})"
                raise ValueError(msg)
        model = self._model("auto", 0.0, response)
        model.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        folds = folds_of(model, X, y, row_weights, cv)
        labeled, rest = folds.tables.whole.labeled, folds.tables.whole.rest
        if (ridges == 0).any() and labeled.rows + rest.rows <= self.n_features_in_:
            raise SingularCovarianceError(ZERO_RIDGE)
        check_varies(labeled.y_variance)
        if rest.count == 0:
            if weights.any() and weights.tolist() != list(_WEIGHTS):
                msg = (
                    f"weights={weights.tolist()} are of rows without labels, but all rows have some; give rows whose y is NaN, or leave "
                    "weights at its default"
                )
                raise ValueError(msg)
            weights = np.zeros(1)
        m = stein_from_tables(folds.tables.whole, None, folds.scale)
        if self.order == 1 and self.n_components > response_rank(m):
            weights = weights[weights > 0] if (weights > 0).any() else weights
        self.weights_ = weights
        self.cv_errors_ = fold_errors(folds, model._options(), ridges, weights, (self.n_components,))[0]
        best = np.unravel_index(np.argmin(self.cv_errors_), self.cv_errors_.shape)
        self.ridge_, self.unlabeled_weight_ = float(ridges[best[0]]), float(weights[best[1]])
        if response is None:  # as the folds have read it
            response = "labels" if folds.labels else "numbers"
        chosen = self._model(self.ridge_, self.unlabeled_weight_, response)
        self.estimator_ = chosen.fit(X, y, sample_weight=row_weights)
        if hasattr(self, "feature_names_in_") and not hasattr(self.estimator_, "feature_names_in_"):
            self.estimator_.feature_names_in_ = self.feature_names_in_
        self.components_ = self.estimator_.components_
        self.rebuild_ = self.estimator_.rebuild_
        self.singular_values_ = self.estimator_.singular_values_
        self.mean_, self.scale_ = self.estimator_.mean_, self.estimator_.scale_
        self.n_components_ = self.estimator_.n_components_
        return self

    def _model(self, ridge: float | str, weight: float, response: Any) -> SteinReduction:
        return SteinReduction(
            self.n_components,
            order=self.order,
            score_model=GaussianScore(ridge=ridge),
            standardize=self.standardize,
            whiten=False,
            whiten_response=self.whiten_response,
            combine=self.combine,
            unlabeled_weight=weight,
            response=response,
            n_groups=None,
        )


def check_grid(name: str, given: Any) -> Array:
    """A grid as numbers; refuses one that is empty or has a value below zero."""
    values = np.asarray(given)
    if values.ndim != 1 or values.dtype.kind not in "iuf" or not values.size or not (values >= 0).all():
        msg = f"{name}={values.tolist()}: give one or more values of at least 0"
        raise ValueError(msg)
    return values.astype(np.float64)


def folds_of(model: SteinReduction, X: Any, y: Any, weights: Any, cv: Any) -> CrossFolds:
    """Moments of a validated table by folds of its labelled rows, for a Gaussian score, in one pass."""
    # folds of classes are stratified, so that two codes differ from numbers, too
    encoder, y = model._encoder(X, y, model.response, weights=weights, codes=2)
    assert encoder is not None
    span = model._span(X, weights, ridged=True)
    if span is not None:
        X = span.source.X
    plan = model._gaussian_plan(X, y, encoder, weights)
    labels = None if span is not None else column_labels(model)
    if is_dask(X):
        if not isinstance(cv, Integral):
            msg = f"cv={cv!r}: folds of a Dask collection are dealt out in turn; give their number"
            raise TypeError(msg)
        tables = reduce_stein(FoldedPlan(plan, int(cv)), X, y, weights, labels)
    else:
        tables = split_tables(plan, X, y, weights, cv, labels)
    _, covariance, _ = gaussian_moments(tables.whole)
    if span is not None:
        scale, unit = np.ones(X.shape[1]), span.unit
    else:
        scale = column_scale(covariance, standardize=model.standardize)
        unit = ridge_unit(covariance, standardize=model.standardize)
    return CrossFolds(tables, scale, unit, encoder.labels, model.n_features_in_)
