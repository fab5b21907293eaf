"""Reduced-rank regression."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._blocks import parse_blocks
from .._containers import as_column
from .._overflow import ColumnOverflowError
from .._rows import is_dask
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._threads import small_products, table_work
from .._validation import check_table, table_dtype
from ..factor import Whitener, left_singular
from ..moments import CentredMoments, TripleMoments, centre
from ._groups import grouped_moments
from ._jackknife import leave_out, store_errors
from ._linear import (
    LinearReductionMixin,
    Table,
    column_labels,
    direction_signs,
    linear_transform,
    table_whitener,
)
from ._rebuild import rebuild_map
from ._source import Source
from ._span import check_span

Array = NDArray[np.float64]


class ReducedRank(RegressorMixin, LinearReductionMixin, BaseEstimator):
    r"""Reduced-rank (ridge) regression: several responses through a few directions.

    Minimises, over coefficient matrices of rank ``n_components``,

    .. math:: E\,\|y - B^\top x\|_\Gamma^2 + \alpha\, \|D B\|_\Gamma^2,

    centred, with the standard deviations D of the columns, so that units do not matter. Only second moments are
    needed: one pass over the rows.

    Parameters
    ----------
    n_components : int, default=1
        Rank of the coefficients, at most the number of columns and of responses.
    alpha : float or None, default=None
        Ridge penalty on standardised columns. None is as little as the numbers allow (nothing where the covariance is
        regular); 0 refuses a singular covariance.
    weighting : {"unit", "identity", "inverse"}, default="unit"
        Weight :math:`\Gamma` of the responses. "unit" gives each unit variance, so that their units do not matter;
        "identity" is plain least squares; "inverse" is the inverse of their covariance, and the
        directions are those of canonical correlation.
    n_groups : int or None, default=20
        Groups of rows for errors of the directions, from sums that the same pass keeps; see JointReduction.

    Attributes
    ----------
    coef_ : ndarray (n_responses, n_features), or (n_features,) for a 1-D y
    intercept_ : ndarray (n_responses,), or float for a 1-D y
    components_ : ndarray (n_components, n_features)
        Directions in X; ``coef_ = y_loadings_ @ components_``.
    components_error_ : ndarray (n_components, n_features), or None
        Standard errors by the delete-one-group jackknife.
    expected_error_ : float, or None
        Expected NSEE (`colspace.metrics.nsee`) of the space.
    n_groups_ : int
    errors_note_ : str
        Why there are no errors; empty when there are.
    y_loadings_ : ndarray (n_responses, n_components)
        How each response follows the directions.
    singular_values_ : ndarray (n_components,)
        With "inverse" weighting and no ridge the canonical correlations.
    mean_, scale_ : ndarray (n_features,)
        Means and standard deviations of the columns.
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
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "weighting": [StrOptions({"unit", "identity", "inverse"})],
        "n_groups": [whole(2), None],
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        alpha: float | None = None,
        weighting: str = "unit",
        n_groups: int | None = 20,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.weighting = weighting
        self.n_groups = n_groups

    @_fit_context(prefer_skip_nested_validation=True)
    @small_products(table_work)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, Dask array or dataframe
        y : array (n,) or (n, q) of numbers
        sample_weight : array (n,), optional
            A weight of two counts a row twice, zero leaves it out.
        """
        X = check_table(self, X, reset=True, min_rows=2)
        source, labels = self._source(X, y, sample_weight), column_labels(self)
        shrinkage = None if self.alpha is None else self.alpha / (1.0 + self.alpha)
        view = Table.of(source, parse_blocks(None, self.n_features_in_), shrinkage, labels)
        if view.span is not None:
            check_span(self.n_components, view.blocks.widths, view.source.X.shape[0])
        sums = grouped_moments(view.source, view.blocks, ((0, 0),), (), self.n_groups)
        c = centre(sums.total)
        covariance = c.covariance[0, 0]
        remedies = "alpha > 0, or fewer columns"
        whitener = table_whitener(view.source, covariance, c.rows, shrinkage, labels, remedies=remedies)
        inner, loadings, values = self._solve(sums.total, c, whitener)
        self.mean_, self.scale_ = view.mean(c.mean), view.scale(covariance)
        directions, loadings = view.loadings(inner), loadings * c.y_scale[:, None]
        signs = direction_signs(directions, self.scale_)
        directions, loadings = directions * signs, loadings * signs
        if self.weighting == "identity":
            values = values * c.y_scale.max()
        dtype = table_dtype(X)
        flat = (y if is_dask(y) else as_column(y).values).ndim == 1
        with np.errstate(over="ignore", invalid="ignore"):
            coef = loadings @ directions.T
            intercept = c.y_mean - coef @ self.mean_
            coef, intercept, loadings = (a.astype(dtype) for a in (coef, intercept, loadings))
        if not all(np.isfinite(a).all() for a in (coef, intercept, loadings)):
            msg = f"coefficients overflow {np.dtype(dtype)} ({np.finfo(dtype).max:.2g}): y is out of all proportion to X; divide y by a constant"
            raise ColumnOverflowError(msg)
        self.n_components_ = self.n_components
        self.singular_values_ = values
        self.y_mean_ = c.y_mean
        self.components_ = directions.T.astype(dtype)
        spread = view.covariances(covariance @ inner) * signs
        self.rebuild_ = rebuild_map(directions, spread).astype(dtype)
        self.y_loadings_ = loadings
        self.coef_ = coef[0] if flat else coef
        self.intercept_ = float(intercept[0]) if flat else intercept

        def solve(rest: TripleMoments) -> list[Array]:
            c = centre(rest)
            again = whitener.again(c.covariance[0, 0], c.rows, unit=view.source.unit)
            return [self._solve(rest, c, again)[0]]

        left = leave_out(sums, solve, [inner], [self._ridged(whitener).metric])
        store_errors(self, view.lifted(left), directions)
        return self

    def _source(self, X: Any, y: Any, weights: Any) -> Source:
        """X with responses that are numbers, as many as the rank asks for."""
        labels = column_labels(self)
        name = type(self).__name__
        source = Source.of(X, y, None, name, tails=False, weights=weights, labels=labels, codes=None)
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
        return source

    def _ridged(self, whitener: Whitener) -> Whitener:
        """W'W = (Sigma + alpha D^2)^-1 from the whitener of (Sigma + alpha D^2)/(1 + alpha)."""
        return replace(whitener, scale=whitener.scale * np.sqrt(1.0 + (self.alpha or 0.0)))

    def _solve(
        self, total: TripleMoments, c: CentredMoments, whitener: Whitener
    ) -> tuple[Array, Array, Array]:
        """Directions, loadings of the responses in units of their deviations, and singular values."""
        root = np.eye(len(c.y_scale))
        if self.weighting == "identity":
            root = np.diag(c.y_scale.max() / c.y_scale)
        elif self.weighting == "inverse":
            shift = total.y / total.count
            spread = c.y_scale / total.scale_y
            root = response_root((total.yy / total.count - np.outer(shift, shift)) / spread / spread[:, None])
        tie = whitener.tie(c.covariance[0, 0])
        return reduced_rank(self._ridged(whitener), c.linear, root, self.n_components, tie)

    def predict(self, X: Any) -> Any:
        """The fitted responses of rows."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        centred = linear_transform(X, self.mean_, np.atleast_2d(self.coef_))
        out = centred + self.y_mean_.astype(centred.dtype)
        return out[:, 0] if self.coef_.ndim == 1 else out


def response_root(covariance: Array) -> Array:
    """Lower triangular L with L L' = Cov(y); refuses a singular one."""
    scale = np.sqrt(np.diag(covariance))
    try:
        root = cholesky(covariance / scale / scale[:, None], lower=True)
    except LinAlgError:
        root = np.zeros((1, 1))
    if np.diag(root).min() ** 2 < 1e-13:
        msg = (
            f"weighting='inverse' divides by the covariance of the {len(scale)} responses, which is singular: some "
            "response is a combination of others. Remedies: weighting='identity', or drop that response"
        )
        raise ValueError(msg)
    return root * scale[:, None]


def reduced_rank(
    whitener: Whitener, cross: Array, root: Array, r: int, tie: Array
) -> tuple[Array, Array, Array]:
    """Rank-r coefficients as (directions, y loadings, singular values): B' = loadings directions'.

    With W'W = (Sigma + ridge)^-1, cross = Sigma_xy and Gamma^-1 = root root' the matrix
    W Sigma_xy root^-T = U S V' is cut to rank r: directions W'U, loadings root V S. V are the leading
    eigenvectors of B'(Sigma + ridge) B for the full-rank B, in the coordinates of the weighted responses. ``tie``
    orders directions of equal values.
    """
    weighted = solve_triangular(root, whitener.apply(cross).T, lower=True, check_finite=False).T
    U, s = left_singular(weighted, r, tie)
    return whitener.loadings(U), root @ (weighted.T @ U), s
