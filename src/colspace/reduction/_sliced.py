"""Inverse regression on slices of the response: SIR and SAVE."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from .._blocks import Blocks, parse_blocks
from .._rows import CHUNK_BYTES
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._threads import small_products, table_work
from .._validation import check_table, table_dtype
from ..factor import Whitener, left_singular
from ..moments import QuantileSummary, SlicedMoments, quantile_summary, sliced_moments
from ._groups import GroupSums, grouped_sums
from ._jackknife import leave_out, store_errors
from ._linear import (
    LinearReductionMixin,
    Table,
    column_labels,
)
from ._loo import learned_whitener, leave_one_out_ridge, slice_responses, store_ridge
from ._source import Source

Array = NDArray[np.float64]
Index = NDArray[np.intp]


_SLICES = 10


class _SlicedReduction(LinearReductionMixin, BaseEstimator):
    """Slices, one pass, a kernel matrix, its leading eigenvectors."""

    _second: ClassVar[bool]
    _kernel: Callable[[SlicedMoments, Whitener], Array]

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "n_slices": [whole(2)],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto", "ridge"}), None],
        "response": [StrOptions({"rank", "labels", "numbers"}), callable, None],
        "n_groups": [whole(2), None],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_slices: int = _SLICES,
        shrinkage: float | str | None = "ridge",
        response: str | Callable[[Any], Any] | None = None,
        n_groups: int | None = 20,
    ) -> None:
        self.n_components = n_components
        self.n_slices = n_slices
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
            The slices of a Dask collection are exact up to 10,000 distinct values of y, and off by at most a
            thousandth of the rows beyond.
        sample_weight : array (n,), optional
            A weight of two counts a row twice, zero leaves it out.
        """
        X = check_table(self, X, reset=True, min_rows=2)
        labels = column_labels(self)
        name = type(self).__name__
        source = Source.of(
            X,
            y,
            self.response,
            name,
            tails=False,
            weights=sample_weight,
            labels=labels,
            codes=max(3, self.n_slices + 1),  # fewer values have a slice each, as labels have
        )
        classes = 0 if source.encoder.classes is None else len(source.encoder.classes)
        if classes > self.n_slices != _SLICES:
            msg = (
                f"n_slices={self.n_slices}, but y holds {classes} class labels, which have a slice each. Remedies: n_slices={classes}, "
                "or response='numbers' for numbers that are no classes"
            )
            raise ValueError(msg)
        view = Table.of(source, parse_blocks(None, self.n_features_in_), self.shrinkage, labels)
        view.check_components(self.n_components)
        source, table = view.source, view.blocks
        slicer = make_slicer(source, self.n_slices)
        sums = collect_slices(source, table, slicer, second=self._second, n_groups=self.n_groups)
        m = sums.total
        counts = slicer.counts
        _warn_thin_slices(m, counts)
        covariance = m.covariance

        def ridge() -> float:
            indicators = [self._second or single for single in slicer.single]
            cross, scores = slice_responses(m, slicer, counts, indicators=indicators)
            return leave_one_out_ridge(source, table.columns[0], m.mean, covariance, m.n_rows, cross, scores)

        whitener = learned_whitener(
            source, table, m.mean, covariance, m.n_rows, m.rows, self.shrinkage, labels, ridge
        )
        store_ridge(self, whitener)
        self.n_components_ = min(self.n_components, self._most(counts))
        found, values = self._directions(m, whitener)
        self.eigenvalues_ = values
        self.n_slices_ = counts[0] if len(counts) == 1 else np.array(counts)
        self.mean_, self.scale_ = view.mean(m.mean), view.scale(covariance)
        loadings = view.loadings(found)
        self._store_directions(loadings, table_dtype(X), view.covariances(covariance @ found))

        def solve(total: SlicedMoments) -> list[Array]:
            rest = total.filled
            return [self._directions(rest, whitener.again(rest.covariance, rest.rows, unit=source.unit))[0]]

        left = leave_out(sums, solve, [found], [whitener.metric])
        del sums  # of all groups: large beside the directions that are now made
        store_errors(self, view.lifted(left), loadings)
        return self

    def _directions(self, m: SlicedMoments, whitener: Whitener) -> tuple[Array, Array]:
        """Loadings and eigenvalues of the kernel matrix."""
        U, values = left_singular(self._kernel(m, whitener), self.n_components_, whitener.tie(m.covariance))
        return whitener.loadings(U), values

    def _most(self, counts: list[int]) -> int:
        """Directions that this many slices can carry."""
        return self.n_features_in_


class SlicedInverse(_SlicedReduction):
    r"""Sliced inverse regression (SIR): directions in which the columns' mean moves with y.

    With whitened columns z and slices h of y holding shares :math:`p_h` of the rows, the directions are the
    leading eigenvectors of

    .. math:: \sum_h p_h\, m_h m_h^\top, \qquad m_h = E[z \mid h].

    Monotone links are found well, even links not at all. H slices carry at most H - 1 directions; if
    fewer than ``n_components`` exist, a warning says so and only those are kept.

    Parameters
    ----------
    n_components : int, default=2
        Number of directions.
    n_slices : int, default=10
        Rows are ordered by y and cut into this many parts of nearly equal size. Rows with equal y stay
        in one slice, the one that holds the middle of them; a y with at most ``n_slices`` values has
        one slice per value, class labels have one per class. Several responses are sliced one by
        one and their matrices added.
    shrinkage : "ridge", float in [0, 1], "auto" or None, default="ridge"
        What is added to the correlation matrix R before it is inverted. "ridge": R + ridge I with the ridge of least
        leave-one-out error of a regression of the slice's rank (of indicators where each class or value is a slice) on the columns (one more pass over the
        rows), next to nothing where they say nothing linear. Otherwise the weight of the identity in a mean with R: a number, "auto" for Ledoit-Wolf, None
        (the published estimator) as little as the numbers allow; 0 refuses a singular R.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y. "labels" takes numbers as class labels; strings, booleans and categories always are.
        Numbers that look like codes of classes get a warning, which "numbers" silences.
    n_groups : int or None, default=20
        Groups of rows for errors of the directions, from sums that the same pass keeps; see JointReduction. The
        slices are those of all rows.

    Attributes
    ----------
    components_ : ndarray (n_components_, n_features)
    components_error_ : ndarray (n_components_, n_features), or None
        Standard errors by the delete-one-group jackknife.
    expected_error_ : float, or None
        Expected NSEE (`colspace.metrics.nsee`) of the space.
    n_groups_ : int
    errors_note_ : str
        Why there are no errors; empty when there are.
    eigenvalues_ : ndarray (n_components_,)
        Between 0 and 1 for one response.
    mean_, scale_ : ndarray (n_features,)
        Means and standard deviations of the columns.
    n_components_ : int
    n_slices_ : int, or ndarray of int with several responses
    ridge_, shrinkage_ : float
        Weight of the identity beside R, and in a mean with R: ridge / (1 + ridge).

    References
    ----------
    Li (1991), "Sliced inverse regression for dimension reduction", Journal of the American Statistical
    Association 86.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import SlicedInverse
    >>> from colspace.metrics import nsee
    >>> X = np.random.default_rng(0).standard_normal((2000, 6))
    >>> model = SlicedInverse(n_components=1).fit(X, np.exp(X[:, 0] + X[:, 1]))
    >>> truth = np.array([1, 1, 0, 0, 0, 0])
    >>> print(f"{nsee(truth, model.components_.T):.1f}")
    0.0
    """

    _second = False

    def _kernel(self, m: SlicedMoments, whitener: Whitener) -> Array:
        return inverse_kernel(m.weights, whitener.apply(m.slice_means.T))

    def _most(self, counts: list[int]) -> int:
        most = min(self.n_features_in_, sum(counts) - len(counts))
        if self.n_components > most:
            warnings.warn(
                f"n_components={self.n_components}, but {sum(counts)} slices carry at most {most} direction(s), "
                "which are kept. Remedies: lower n_components, raise n_slices, or use SlicedAverage or "
                "JointReduction (a response with few values has few slices)",
                UserWarning,
                stacklevel=5,
            )
        return min(self.n_components, most)


class SlicedAverage(_SlicedReduction):
    r"""Sliced average variance estimation (SAVE): directions in which the columns' variance moves with y.

    With whitened columns z and slices h of y holding shares :math:`p_h` of the rows, the directions are the
    leading eigenvectors of

    .. math:: \sum_h p_h\, (I - V_h)^2, \qquad V_h = \operatorname{Cov}[z \mid h].

    Even links are found as well as monotone ones, at the price of more rows. With shrinkage the
    covariance of the whitened columns takes the place of I.

    Parameters
    ----------
    n_components : int, default=2
        Number of directions.
    n_slices : int, default=10
        Rows are ordered by y and cut into this many parts of nearly equal size. Rows with equal y stay
        in one slice, the one that holds the middle of them; a y with at most ``n_slices`` values has
        one slice per value, class labels have one per class. Several responses are sliced one by
        one and their matrices added.
    shrinkage : "ridge", float in [0, 1], "auto" or None, default="ridge"
        What is added to the correlation matrix R before it is inverted. "ridge": R + ridge I with the ridge of least
        leave-one-out error of a regression of the slices' indicators on the columns (one more pass over the
        rows), next to nothing where they say nothing linear. Otherwise the weight of the identity in a mean with R: a number, "auto" for Ledoit-Wolf, None
        (the published estimator) as little as the numbers allow; 0 refuses a singular R.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y. "labels" takes numbers as class labels; strings, booleans and categories always are.
        Numbers that look like codes of classes get a warning, which "numbers" silences.
    n_groups : int or None, default=20
        Groups of rows for errors of the directions, from sums that the same pass keeps; see JointReduction. The
        slices are those of all rows.

    Attributes
    ----------
    components_ : ndarray (n_components_, n_features)
    components_error_ : ndarray (n_components_, n_features), or None
        Standard errors by the delete-one-group jackknife.
    expected_error_ : float, or None
        Expected NSEE (`colspace.metrics.nsee`) of the space.
    n_groups_ : int
    errors_note_ : str
        Why there are no errors; empty when there are.
    eigenvalues_ : ndarray (n_components_,)
    mean_, scale_ : ndarray (n_features,)
        Means and standard deviations of the columns.
    n_components_ : int
    n_slices_ : int, or ndarray of int with several responses
    ridge_, shrinkage_ : float
        Weight of the identity beside R, and in a mean with R: ridge / (1 + ridge).

    References
    ----------
    Cook and Weisberg (1991), discussion of "Sliced inverse regression for dimension reduction", Journal
    of the American Statistical Association 86.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import SlicedAverage
    >>> from colspace.metrics import nsee
    >>> X = np.random.default_rng(0).standard_normal((8000, 6))
    >>> model = SlicedAverage(n_components=1).fit(X, (X[:, 0] + X[:, 1]) ** 2)
    >>> truth = np.array([1, 1, 0, 0, 0, 0])
    >>> print(f"{nsee(truth, model.components_.T):.1f}")
    0.0
    """

    _second = True

    def _kernel(self, m: SlicedMoments, whitener: Whitener) -> Array:
        overall = whitener.both_sides(m.covariance[None], whitener)[0]
        return average_kernel(m.weights, overall, whitener.both_sides(m.slice_covariances, whitener))


def inverse_kernel(weights: Array, means: Array) -> Array:
    """sum_h p_h m_h m_h' from whitened slice means (features x slices)."""
    return (means * weights) @ means.T


def average_kernel(weights: Array, overall: Array, covariances: Array) -> Array:
    """sum_h p_h (V - V_h)^2 from whitened covariances, V = I without shrinkage."""
    spread = overall - covariances
    return np.einsum("h,hij,hjk->ik", weights, spread, spread, optimize=True)


def slice_edges(values: Array, weights: Array, n_slices: int) -> Array:
    """The largest values of all slices but the last: equal parts of the weight of ordered values, ties together.

    A value is in the slice that holds the middle of its weight; at most ``n_slices`` values are slices of their own.

    Examples
    --------
    >>> import numpy as np
    >>> slice_edges(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5), 2)
    array([3.])
    >>> slice_edges(np.array([0.0, 7.0, 8.0, 9.0]), np.array([3.0, 1.0, 1.0, 1.0]), 3)
    array([0., 7.])
    """
    if len(values) <= n_slices:
        return values[:-1]
    share = (np.cumsum(weights) - weights / 2) / weights.sum()
    part = np.ceil(np.round(share * n_slices, 9)).astype(np.intp)
    return values[:-1][np.diff(part) > 0]


@dataclass(frozen=True)
class Slicer:
    """Slice numbers of rows, counted on from response to response; ``edges`` None: y holds class labels.

    ``single``: of each response, whether a slice is one class or one value.
    """

    edges: tuple[Array, ...] | None
    n_classes: int = 0
    single: tuple[bool, ...] = (True,)

    @property
    def counts(self) -> list[int]:
        """Slices per response."""
        return [self.n_classes] if self.edges is None else [len(e) + 1 for e in self.edges]

    def __call__(self, Y: Array) -> Index:
        """Slices of rows, rows x responses."""
        if self.edges is None:
            numbers = Y[:, 0].astype(np.intp) if Y.shape[1] == 1 else np.argmax(Y, axis=1)
            return numbers[:, None]
        counts = self.counts
        starts = np.cumsum(counts) - counts
        return np.column_stack(
            [
                np.searchsorted(edges, y, side="left") + s
                for edges, y, s in zip(self.edges, Y.T, starts, strict=True)
            ]
        )


def make_slicer(source: Source, n_slices: int) -> Slicer:
    """Slices from the order of the responses: of all rows, or of summaries that merge for Dask collections."""
    q = source.encoder.n_responses
    if source.encoder.labels:
        return Slicer(None, max(2, q))
    if source.dask:
        summary = source.reduce(_response_quantiles)
        found = [(c.values, c.weights) for c in summary.columns]
    else:
        found = []
        for y in source.y.T:
            values, inverse = np.unique(y, return_inverse=True)
            found.append((values, np.bincount(inverse, source.weights).astype(np.float64)))
    return Slicer(
        tuple(slice_edges(values, weights, n_slices) for values, weights in found),
        single=tuple(len(values) <= n_slices for values, _ in found),
    )


def _response_quantiles(X: Any, Y: Array, weights: Array | None = None) -> QuantileSummary:
    return quantile_summary(Y, weights)


@dataclass(frozen=True)
class SlicePlan:
    """``plan(X, Y, weights)``: the moments of a chunk within slices of its responses."""

    slicer: Slicer
    statistic: Callable[..., SlicedMoments]
    y_mean: Array
    y_scale: Array
    responses: bool

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> SlicedMoments:
        """Statistic of one chunk."""
        V = (Y - self.y_mean) / self.y_scale if self.responses else None
        return self.statistic(X, self.slicer(Y), V, weights)


def collect_slices(
    source: Source,
    table: Blocks,
    slicer: Slicer,
    *,
    second: bool = False,
    responses: bool = False,
    n_groups: int | None = None,
) -> GroupSums:
    """Moments within slices of the columns of a table, and those of groups of rows, in one pass over its rows.

    ``second``: with products of columns in each slice. ``responses``: with products of columns and
    responses, these centred and divided as ``source.response_units`` says.
    """
    y_mean, y_scale = source.response_units()
    statistic = slice_statistic(source, table, sum(slicer.counts), second=second)
    rows = max(256, CHUNK_BYTES // (8 * sum(table.widths)))
    plan = SlicePlan(slicer, statistic, y_mean, y_scale, responses)
    return grouped_sums(source, plan, rows, n_groups, slice_bytes(sum(slicer.counts), table, second=second))


def slice_bytes(n_slices: int, table: Blocks, *, second: bool = False) -> int:
    """Bytes of the sums of slices."""
    p = sum(table.widths)
    return 8 * (p**2 * (1 + n_slices * second) + p * (1 + 2 * n_slices))


def slice_statistic(
    source: Source, table: Blocks, n_slices: int, *, second: bool = False
) -> Callable[..., SlicedMoments]:
    """``sliced_moments`` for the columns of a table."""
    shift = source.columns().x.mean if sparse.issparse(source.X) else source.shift()
    return partial(
        sliced_moments,
        n_slices=n_slices,
        shift=shift if table.order is None else shift[table.order],
        second=second,
        order=table.order,
    )


def _warn_thin_slices(m: SlicedMoments, counts: list[int]) -> None:
    if m.rows < 2 * max(counts):
        warnings.warn(
            f"{m.rows} rows in {max(counts)} slices: fewer than two rows per slice tell nothing about how the "
            "columns move with y. Remedies: fewer slices (n_slices), or more rows",
            UserWarning,
            stacklevel=5,
        )
