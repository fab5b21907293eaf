"""What a reduction is compared with, and what reads y from the reduced columns."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from .._response import make_encoder
from ..factor import matrix_rank, svd
from ..reduction import JointReduction
from ._ridge import LooRidge

Array = NDArray[np.float64]


def as_numbers(y: Any) -> Array:
    """A response as a matrix: classes as indicators, one column for two of them."""
    return make_encoder(y, None, codes=None)(y)


class PlsDirections(TransformerMixin, BaseEstimator):
    """Scores of PLS regression; classes as indicators.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.quality import PlsDirections
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> PlsDirections(1).fit_transform(X, X[:, 0] > 0).shape
    (50, 1)
    """

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the directions."""
        X = np.asarray(X)
        self.model_ = PLSRegression(min(self.n_components, X.shape[1], len(X) - 1)).fit(X, as_numbers(y))
        return self

    def transform(self, X: Any) -> Any:
        """Scores of rows."""
        return self.model_.transform(X)


class RidgeDirections(TransformerMixin, BaseEstimator):
    """Leave-one-out ridge, its fitted values cut to ``n_components`` directions; PCA's order where y has fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.quality import RidgeDirections
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> RidgeDirections(2).fit(X, X[:, 0]).directions_.shape
    (4, 2)
    """

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the directions."""
        X, Y = np.asarray(X), as_numbers(y)
        h = min(self.n_components, X.shape[1])
        centre = partial(np.average, axis=0, weights=sample_weight)
        deviation = np.sqrt(centre((Y - centre(Y)) ** 2))
        ridge = LooRidge(np.logspace(-3, 5, 17)).fit(X, Y / deviation.clip(1e-12), sample_weight)
        B = np.reshape(ridge.coef_, (-1, X.shape[1])).T
        root = np.ones(len(X)) if sample_weight is None else np.sqrt(sample_weight)
        centred = (X - centre(X)) * root[:, None]
        r = min(h, matrix_rank(B))
        self.directions_ = B @ svd(centred @ B)[2][:r].T
        if r < h:  # what PCA finds beside it
            Q = np.linalg.qr(self.directions_)[0]
            more = svd(centred - centred @ Q @ Q.T)[2][: h - r].T
            self.directions_ = np.column_stack([self.directions_, more])
        return self

    def transform(self, X: Any) -> Any:
        """Rows along the directions."""
        return np.asarray(X) @ self.directions_


OURS = "joint reduction"


def default_reducers() -> dict[str, Any]:
    """Joint reduction, PCA, PLS and reduced-rank ridge, without errors of the directions, which no score needs."""
    return {
        OURS: JointReduction(n_groups=None),
        "PCA": PCA(random_state=0),
        "PLS": PlsDirections(),
        "ridge": RidgeDirections(),
    }


def default_readers(*, classes: bool) -> dict[str, Any]:
    """A linear, a local and a quadratic reader of scaled columns."""
    scale = StandardScaler
    if classes:
        return {
            "logistic": make_pipeline(scale(), LogisticRegression(max_iter=500)),
            "neighbours": make_pipeline(scale(), KNeighborsClassifier(10)),
            "quadratic": make_pipeline(scale(), QuadraticDiscriminantAnalysis(reg_param=0.1)),
        }
    alphas = np.logspace(-3, 3, 13)
    squares = PolynomialFeatures(2, include_bias=False)
    return {
        "ridge": make_pipeline(scale(), LooRidge(alphas)),
        "neighbours": make_pipeline(scale(), KNeighborsRegressor(10)),
        "quadratic": make_pipeline(scale(), squares, scale(), LooRidge(alphas)),
    }


def readers_of_all(
    readers: Mapping[str, Any], n_columns: int, n_rows: int, *, classes: bool
) -> dict[str, Any]:
    """Without the quadratic reader where its terms outnumber the rows by far, or would take long (regression)."""
    most = 2 * n_rows if classes else min(2 * n_rows, 500)
    few = n_columns * (n_columns + 3) // 2 <= most
    return {name: reader for name, reader in readers.items() if few or name != "quadratic"}


def width_parameter(estimator: Any) -> str | None:
    """The parameter that counts the directions of a reducer, in a pipeline that of its last step that has one."""
    if "n_components" in estimator.get_params(deep=False):
        return "n_components"
    if isinstance(estimator, Pipeline):
        for name, step in reversed(estimator.steps):
            if hasattr(step, "get_params") and "n_components" in step.get_params(deep=False):
                return f"{name}__n_components"
    return None


def weights_parameter(estimator: Any) -> str | None:
    """What ``fit`` calls its weights (in a pipeline those of the last step), or None where it takes none."""
    if isinstance(estimator, Pipeline):
        name, step = estimator.steps[-1]
        inner = weights_parameter(step)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if "sample_weight" in inspect.signature(estimator.fit).parameters else None
