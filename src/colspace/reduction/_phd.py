"""Principal Hessian directions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from .._blocks import Blocks, parse_blocks
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._threads import small_products, table_work
from .._validation import check_table, table_dtype
from ..factor import Whitener, break_ties, eigh, left_singular
from ..moments import CentredMoments, TripleMoments, TriplePlan, centre
from ._groups import GroupSums, grouped_moments, grouped_plan
from ._jackknife import leave_out, store_errors
from ._linear import (
    LinearReductionMixin,
    Table,
    column_labels,
)
from ._loo import learned_whitener, store_ridge, triple_ridge
from ._source import Source

Array = NDArray[np.float64]

# residuals with less than this share of the response's deviation are rounding
_NO_RESIDUAL = 1e-9


class PrincipalHessian(LinearReductionMixin, BaseEstimator):
    r"""Principal Hessian directions: where the regression surface bends.

    With whitened columns z the directions are the eigenvectors with the largest eigenvalues, in modulus, of

    .. math:: E[(y - Ey)\, z z^\top],

    for normal columns the mean Hessian of the regression function. They see even links and miss linear
    ones. Several responses are standardised and their matrices factored side by side.

    Parameters
    ----------
    n_components : int, default=2
        Number of directions.
    residuals : bool, default=False
        Use the residuals of least squares on all columns in place of y (a second pass over the rows).
    shrinkage : "ridge", float in [0, 1], "auto" or None, default="ridge"
        What is added to the correlation matrix R before it is inverted. "ridge": R + ridge I with the ridge of least
        leave-one-out error of a regression of y on the columns (one more pass over the
        rows), next to nothing where they say nothing linear. Otherwise the weight of the identity in a mean with R: a number, "auto" for Ledoit-Wolf, None
        (the published estimator) as little as the numbers allow; 0 refuses a singular R.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y. "labels" takes numbers as class labels; strings, booleans and categories always are.
        Numbers that look like codes of classes get a warning, which "numbers" silences.
    n_groups : int or None, default=20
        Groups of rows for errors of the directions, from sums that the same pass keeps; see JointReduction. With
        ``residuals`` the regression is taken as known.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
    components_error_ : ndarray (n_components, n_features), or None
        Standard errors by the delete-one-group jackknife.
    expected_error_ : float, or None
        Expected NSEE (`colspace.metrics.nsee`) of the space.
    n_groups_ : int
    errors_note_ : str
        Why there are no errors; empty when there are.
    eigenvalues_ : ndarray (n_components,)
        Signed, in units of y; for several responses the singular values of the standardised ones.
    mean_, scale_ : ndarray (n_features,)
        Means and standard deviations of the columns.
    n_components_ : int
    ridge_, shrinkage_ : float
        Weight of the identity beside R, and in a mean with R: ridge / (1 + ridge).

    References
    ----------
    Li (1992), "On principal Hessian directions for data visualization and dimension reduction: another
    application of Stein's lemma", Journal of the American Statistical Association 87.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import PrincipalHessian
    >>> X = np.random.default_rng(0).standard_normal((4000, 5))
    >>> model = PrincipalHessian(n_components=1).fit(X, X[:, 0] ** 2)
    >>> model.eigenvalues_.round(), model.components_.round()
    (array([2.]), array([[ 1., ...0.,  ...0.,  ...0.,  ...0.]]))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "residuals": ["boolean"],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto", "ridge"}), None],
        "response": [StrOptions({"rank", "labels", "numbers"}), callable, None],
        "n_groups": [whole(2), None],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        residuals: bool = False,
        shrinkage: float | str | None = "ridge",
        response: str | Callable[[Any], Any] | None = None,
        n_groups: int | None = 20,
    ) -> None:
        self.n_components = n_components
        self.residuals = residuals
        self.shrinkage = shrinkage
        self.response = response
        self.n_groups = n_groups

    @_fit_context(prefer_skip_nested_validation=True)
    @small_products(table_work)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the directions.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, Dask array or dataframe
        y : array (n,), array (n, q), or class labels
        sample_weight : array (n,), optional
            A weight of two counts a row twice, zero leaves it out.
        """
        X = check_table(self, X, reset=True, min_rows=2)
        labels = column_labels(self)
        source = Source.of(X, y, self.response, type(self).__name__, weights=sample_weight, labels=labels)
        view = Table.of(source, parse_blocks(None, self.n_features_in_), self.shrinkage, labels)
        view.check_components(self.n_components)
        source, table = view.source, view.blocks
        own = ((0, 0),)
        weighted, n_groups = ((), None) if self.residuals else (own, self.n_groups)
        sums = grouped_moments(source, table, own, weighted, n_groups)
        c = centre(sums.total)
        covariance = c.covariance[0, 0]
        mean, total = c.mean, sums.total
        whitener = learned_whitener(
            source,
            table,
            mean,
            covariance,
            c.count,
            c.rows,
            self.shrinkage,
            labels,
            lambda: triple_ridge(source, table.columns[0], total, mean, covariance),
        )
        store_ridge(self, whitener)
        self.mean_, self.scale_ = view.mean(c.mean), view.scale(covariance)
        if self.residuals:
            sums = self._residual_moments(source, table, c, whitener)
            c = centre(sums.total)
        hessians = whitener.both_sides(c.triple[0, 0], whitener)
        directions, values = hessian_directions(hessians, self.n_components, whitener.tie(covariance))
        self.n_components_ = self.n_components
        self.eigenvalues_ = values * c.y_scale[0] if len(hessians) == 1 else values
        found = whitener.loadings(directions)
        loadings = view.loadings(found)
        self._store_directions(loadings, table_dtype(X), view.covariances(covariance @ found))

        def solve(total: TripleMoments) -> list[Array]:
            c = centre(total)
            w = whitener.again(c.covariance[0, 0], c.rows, unit=source.unit)
            H = w.both_sides(c.triple[0, 0], w)
            return [w.loadings(hessian_directions(H, self.n_components, w.tie(c.covariance[0, 0]))[0])]

        store_errors(self, view.lifted(leave_out(sums, solve, [found], [whitener.metric])), loadings)
        return self

    def _residual_moments(
        self, source: Source, table: Blocks, c: CentredMoments, whitener: Whitener
    ) -> GroupSums:
        """Moments of the residuals of least squares; of y itself where those are nothing but rounding."""
        own = ((0, 0),)
        coefficients = whitener.loadings(whitener.apply(c.linear)) * c.y_scale
        plan, rows = source.plan(table, own, own)
        plan = replace(plan, shift_y=np.zeros_like(c.y_mean), scale_y=c.y_scale)
        residuals = Residuals(plan, c.mean, c.y_mean, coefficients)
        sums = grouped_plan(source, plan, residuals, rows, self.n_groups)
        total = sums.total
        deviation = np.sqrt(np.diag(total.yy) / total.count)
        # the least ridge of the grid leaves about its own share of a linear response
        exact = np.flatnonzero(deviation <= max(_NO_RESIDUAL, 100 * min(whitener.ridge, 1e-6)))
        if not exact.size:
            return sums
        warnings.warn(
            f"response {exact[0]} is a linear function of X (residual deviation {deviation[exact[0]]:.1e} of its own), "
            "so residuals=True leaves nothing to look at, and y itself is used. Remedies: residuals=False, or a "
            "linear model",
            UserWarning,
            stacklevel=4,
        )
        return grouped_moments(source, table, own, own, self.n_groups)


@dataclass(frozen=True)
class Residuals:
    """The statistic of a plan with y - mean - (x - mean)' coefficients as the responses."""

    plan: TriplePlan
    mean: Array
    y_mean: Array
    coefficients: Array

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> TripleMoments:
        """Statistic of one chunk."""
        if sparse.issparse(X):
            fitted = X @ self.coefficients - self.mean @ self.coefficients
        else:
            fitted = (X - self.mean) @ self.coefficients
        return self.plan(X, Y - self.y_mean - fitted, weights)


def hessian_directions(hessians: Array, r: int, tie: Array | None = None) -> tuple[Array, Array]:
    """Leading directions of a stack of symmetric matrices (responses x features x features).

    One matrix: eigenvectors by modulus of their signed eigenvalues. Several: left singular vectors of
    the matrices side by side. ``tie`` orders directions of equal eigenvalues.
    """
    if len(hessians) > 1:
        return left_singular(np.hstack(list(hessians)), r, tie)
    H = (hessians[0] + hessians[0].T) / 2
    values, vectors = eigh(H)
    order = np.argsort(-np.abs(values), kind="stable")
    U = vectors[:, order[:r]]
    if tie is not None:
        U = break_ties(values[order] ** 2, vectors[:, order], r, tie)
    return U, np.einsum("ik,ij,jk->k", U, H, U)
