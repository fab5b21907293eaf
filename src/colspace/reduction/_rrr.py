"""Reduced-rank regression."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._blocks import parse_blocks
from .._containers import as_column
from .._rows import is_dask
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._validation import check_table, table_dtype
from ..factor import Whitener, fix_signs
from ..moments import centre
from ._linear import (
    LinearReductionMixin,
    column_labels,
    linear_transform,
    table_whitener,
)
from ._source import Source

Array = NDArray[np.float64]


class ReducedRank(RegressorMixin, LinearReductionMixin, BaseEstimator):
    r"""Reduced-rank (ridge) regression: several responses through a few directions.

    Minimises, over coefficient matrices of rank ``n_components``,

    .. math:: E\,\|y - B^\top x\|_\Gamma^2 + \alpha\, \frac{\operatorname{tr} \Sigma}{p}\, \|B\|_\Gamma^2,

    centred, with the covariance :math:`\Sigma` of the p columns. Only second moments are needed: one
    pass over the rows.

    Parameters
    ----------
    n_components : int, default=1
        Rank of the coefficients, at most the number of columns and of responses.
    alpha : float, default=0.0
        Ridge penalty relative to the average variance of the columns.
    weighting : {"identity", "inverse"}, default="identity"
        Weight :math:`\Gamma` of the responses. "identity" is least squares; "inverse" is the inverse of their
        covariance, so units do not matter and the directions are those of canonical correlation.

    Attributes
    ----------
    coef_ : ndarray (n_responses, n_features), or (n_features,) for a 1-D y
    intercept_ : ndarray (n_responses,), or float for a 1-D y
    components_ : ndarray (n_components, n_features)
        Directions in X; ``coef_ = y_loadings_ @ components_``.
    y_loadings_ : ndarray (n_responses, n_components)
        How each response follows the directions.
    singular_values_ : ndarray (n_components,)
        With "inverse" weighting and ``alpha=0`` the canonical correlations.
    mean_ : ndarray (n_features,)
    y_mean_ : ndarray (n_responses,)
    n_components_ : int

    References
    ----------
    Izenman (1975), "Reduced-rank regression for the multivariate linear model", Journal of Multivariate
    Analysis 5.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import ReducedRank
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 6))
    >>> Y = np.outer(X[:, 0] - X[:, 1], [1.0, 2.0, 3.0]) + 0.1 * rng.standard_normal((500, 3))
    >>> model = ReducedRank(n_components=1).fit(X, Y)
    >>> model.coef_.round(1)[:, :2]
    array([[ 1., -1.],
           [ 2., -2.],
           [ 3., -3.]])
    >>> model.transform(X).shape, model.score(X, Y) > 0.99
    ((500, 1), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "weighting": [StrOptions({"identity", "inverse"})],
    }

    def __init__(self, n_components: int = 1, *, alpha: float = 0.0, weighting: str = "identity") -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.weighting = weighting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, Dask array or dataframe
        y : array (n,) or (n, q) of numbers
        """
        X = check_table(self, X, reset=True, min_rows=2)
        source = Source.of(X, y, None, type(self).__name__, tails=False, codes=None)
        if source.encoder.labels:
            msg = (
                "y holds class labels, but a regression needs numbers. Remedies: encode them "
                "(sklearn.preprocessing.OneHotEncoder), or use JointReduction or SlicedInverse, which take labels"
            )
            raise ValueError(msg)
        q, p = source.encoder.n_responses, self.n_features_in_
        if self.n_components > min(p, q):
            msg = (
                f"n_components={self.n_components} is more than the rank of coefficients can be: {q} response(s), "
                f"{p} columns (n_features = {p}). Remedies: lower n_components, or more responses"
            )
            raise ValueError(msg)
        total = source.moments(parse_blocks(None, p), ((0, 0),), ())
        c = centre(total, y_scale=np.ones(q))
        covariance = c.covariance[0, 0]
        whitener = ridge_whitener(covariance, c.count, self.alpha, column_labels(self))
        root = np.eye(q)
        if self.weighting == "inverse":
            shift = total.y / total.count
            root = response_root(total.yy / total.count - np.outer(shift, shift))
        directions, loadings, values = reduced_rank(whitener, c.linear, root, self.n_components)
        dtype = table_dtype(X)
        flat = (y if is_dask(y) else as_column(y).values).ndim == 1
        coef = loadings @ directions.T
        intercept = c.y_mean - coef @ c.mean
        self.n_components_ = self.n_components
        self.singular_values_ = values
        self.mean_, self.y_mean_ = c.mean, c.y_mean
        self.components_ = directions.T.astype(dtype)
        self.y_loadings_ = loadings.astype(dtype)
        self.coef_ = (coef[0] if flat else coef).astype(dtype)
        self.intercept_ = float(intercept[0]) if flat else intercept.astype(dtype)
        return self

    def predict(self, X: Any) -> Any:
        """The fitted responses of rows."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        centred = linear_transform(X, self.mean_, np.atleast_2d(self.coef_))
        out = centred + self.y_mean_.astype(centred.dtype)
        return out[:, 0] if self.coef_.ndim == 1 else out


def ridge_whitener(covariance: Array, count: int, alpha: float, labels: list[object]) -> Whitener:
    """Whitener of Sigma + alpha tr(Sigma)/p I."""
    p = covariance.shape[0]
    if alpha > 0:
        # the ridge makes the matrix regular whatever the number of rows
        covariance, count = covariance + alpha * np.trace(covariance) / p * np.eye(p), max(count, p + 1)
    return table_whitener(covariance, count, 0.0, labels, remedies="alpha > 0, or fewer columns")


def response_root(covariance: Array) -> Array:
    """Lower triangular L with L L' = Cov(y); refuses a singular one."""
    scale = np.sqrt(np.diag(covariance))
    try:
        root = cholesky(covariance / np.outer(scale, scale), lower=True, check_finite=False)
    except LinAlgError:
        root = np.zeros((1, 1))
    if np.diag(root).min() ** 2 < 1e-13:
        msg = (
            f"weighting='inverse' divides by the covariance of the {len(scale)} responses, which is singular: some "
            "response is a combination of others. Remedies: weighting='identity', or drop that response"
        )
        raise ValueError(msg)
    return root * scale[:, None]


def reduced_rank(whitener: Whitener, cross: Array, root: Array, r: int) -> tuple[Array, Array, Array]:
    """Rank-r coefficients as (directions, y loadings, singular values): B' = loadings directions'.

    With W'W = (Sigma + ridge)^-1, cross = Sigma_xy and Gamma^-1 = root root' the matrix
    W Sigma_xy root^-T = U S V' is cut to rank r: directions W'U, loadings root V S. V are the leading
    eigenvectors of B'(Sigma + ridge) B for the full-rank B, in the coordinates of the weighted responses.
    """
    weighted = solve_triangular(root, whitener.apply(cross).T, lower=True, check_finite=False).T
    U, s, Vt = np.linalg.svd(weighted, full_matrices=False)
    signs = np.sign(np.sum(fix_signs(U) * U, axis=0))[:r]
    return whitener.loadings(U[:, :r] * signs), root @ (Vt[:r].T * (s[:r] * signs)), s[:r]
