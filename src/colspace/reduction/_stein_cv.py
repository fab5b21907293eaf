"""Stein's method with its ridge and unlabelled weight chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_consistent_length

from .._response import check_varies, make_encoder, read_response
from .._sklearn_compat import StrOptions, _fit_context, whole
from .._validation import check_table
from ..scores import GaussianScore
from ._linear import LinearReductionMixin
from ._stein import SteinReduction
from ._stein_fit import gaussian_moments, gaussian_score, known, labelled_rows

Array = NDArray[np.float64]


class SteinReductionCV(LinearReductionMixin, BaseEstimator):
    r"""SteinReduction with a Gaussian score whose ridge and unlabelled weight are cross-validated.

    For every ridge and weight the directions are learned, score included, on the training folds of the labelled
    rows and all unlabelled ones; y is then regressed on the embedding and the squared error taken on the held-out
    labelled rows, responses scaled to unit variance.

    Parameters
    ----------
    n_components : int, default=2
    ridges : sequence of float, default=(0.3, 1.0, 3.0, 10.0, 30.0, inf)
        Ridges relative to the mean variance; inf replaces the covariance by the identity.
    weights : sequence of float, default=(0.0, 0.1, 0.3, 1.0)
        Weights of the unlabelled block. When all rows are labelled only 0 is tried; 0 is not tried where
        ``n_components`` exceeds the directions that the responses can show.
    order, whiten_response, combine, response : see SteinReduction.
    cv : int or splitter, default=5
        Folds of the labelled rows.

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
    components_, mean_, singular_values_ : those of ``estimator_``.

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
        weights: Sequence[float] = (0.0, 0.1, 0.3, 1.0),
        order: int | str = 1,
        whiten_response: bool | str = "auto",
        combine: str = "stack",
        response: str | Callable[[Any], Any] | None = None,
        cv: Any = 5,
    ) -> None:
        self.n_components = n_components
        self.ridges = ridges
        self.weights = weights
        self.order = order
        self.whiten_response = whiten_response
        self.combine = combine
        self.response = response
        self.cv = cv

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose ridge and weight, then learn the directions.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix
        y : array (n,), array (n, q) or class labels; rows that are NaN are unlabelled
        """
        X = check_table(self, X, reset=True, min_rows=2)
        name = type(self).__name__
        if y is None:
            make_encoder(None, self.response, caller=name)
        y, response = read_response(y, self.response)
        check_consistent_length(X, y)
        mask = labelled_rows(y)
        rows = np.flatnonzero(mask)
        if rows.size < 2:
            msg = f"{rows.size} labelled row(s): cross-validation needs at least two (n_samples={len(y)})"
            raise ValueError(msg)
        # folds of classes are stratified, so that two codes differ from numbers, too
        encoder = make_encoder(known(y, mask), response, caller=name, codes=2)
        Y = encoder(known(y, mask))
        check_varies(np.ptp(Y, axis=0))
        ridges = np.asarray(self.ridges, dtype=np.float64)
        weights = np.asarray(self.weights, dtype=np.float64) if not mask.all() else np.zeros(1)
        check_grid("ridges", ridges)
        check_grid("weights", weights)
        if self.order == 1 and self.n_components > np.linalg.matrix_rank(Y - Y.mean(axis=0)):
            weights = weights[weights > 0] if (weights > 0).any() else weights
        self.weights_ = weights
        self.cv_errors_ = self._errors(X, y, encoder.labels, Y, ridges, weights, (self.n_components,))[0]
        best = np.unravel_index(np.argmin(self.cv_errors_), self.cv_errors_.shape)
        self.ridge_, self.unlabeled_weight_ = float(ridges[best[0]]), float(weights[best[1]])
        self.estimator_ = self._model(self.ridge_, self.unlabeled_weight_, encoder.labels).fit(X, y)
        self.components_ = self.estimator_.components_
        self.singular_values_ = self.estimator_.singular_values_
        self.mean_ = self.estimator_.mean_
        self.n_components_ = self.estimator_.n_components_
        return self

    def _errors(
        self, X: Any, y: Any, labels: bool, Y: Array, ridges: Array, weights: Array, widths: Sequence[int]
    ) -> Array:
        """Held-out squared error relative to the mean's: widths x ridges x weights; Y is y of the labelled rows."""
        mask = labelled_rows(y)
        rows = np.flatnonzero(mask)
        Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
        cv = check_cv(self.cv, known(y, mask), classifier=labels)
        n_splits = min(cv.get_n_splits(rows, known(y, mask)), rows.size)
        if n_splits != cv.get_n_splits(rows, known(y, mask)):
            cv = check_cv(n_splits)
        errors = np.zeros((len(widths), len(ridges), len(weights)))
        for train, test in cv.split(rows, known(y, mask)):
            model = self._model(0.0, 0.0, labels)
            tables = model._tables_of(X, _without(y, rows[test]))
            if (ridges == 0).any():  # refused where the covariance is singular
                gaussian_score(GaussianScore(), *gaussian_moments(tables))
            path = model._path_of(tables, labels)
            rotated = X[rows] @ path.basis
            for i, ridge in enumerate(ridges):
                for j, directions in enumerate(path.directions(ridge, weights.tolist(), max(widths))):
                    Z = rotated @ directions
                    for k, h in enumerate(widths):
                        errors[k, i, j] += read_out_error(Z[train, :h], Y[train], Z[test, :h], Y[test])
        return errors / Y.size

    def _model(self, ridge: float, weight: float, labels: bool) -> SteinReduction:
        return SteinReduction(
            self.n_components,
            order=self.order,
            score_model=GaussianScore(ridge=ridge),
            whiten=False,
            whiten_response=self.whiten_response,
            combine=self.combine,
            unlabeled_weight=weight,
            response=self.response if self.response is not None else "labels" if labels else "numbers",
        )


def check_grid(name: str, values: Array) -> None:
    """Refuse a grid that is empty or has a value below zero."""
    if values.ndim != 1 or not values.size or not (values >= 0).all():
        msg = f"{name}={values.tolist()}: give one or more values of at least 0"
        raise ValueError(msg)


def _without(y: Any, rows: NDArray[np.intp]) -> Any:
    """y with the given rows unlabelled."""
    hidden = y.astype(object) if y.dtype.kind not in "f" else y.copy()
    hidden[rows] = None if hidden.dtype == object else np.nan
    return hidden


def read_out(Z: Array, Y: Array, Z_test: Array) -> Array:
    """Responses of further rows by the least-squares regression of Y on the embedding, with intercept."""
    design = np.column_stack([np.ones(len(Z)), Z])
    return np.column_stack([np.ones(len(Z_test)), Z_test]) @ np.linalg.lstsq(design, Y, rcond=None)[0]


def read_out_error(Z: Array, Y: Array, Z_test: Array, Y_test: Array) -> float:
    """Squared error of the read-out on held-out rows."""
    return float(np.sum((Y_test - read_out(Z, Y, Z_test)) ** 2))
