"""Structured ordinary least squares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .._blocks import Blocks, parse_blocks
from .._containers import as_column
from .._response import check_varies, is_gap
from .._rows import chunk_rows, is_dask, reduce_rows
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._threads import small_products, table_work
from .._validation import check_table, check_weights, feature_names, table_dtype
from ..factor import Whitener, eigh, fix_signs
from ..moments import SlicedMoments, TripleMoments, centre, clear_flat
from ._groups import GroupSums, choose_groups, grouped_moments, reduce_groups
from ._jackknife import leave_out, store_block_errors
from ._linear import (
    BlockReductionMixin,
    Table,
    check_block_widths,
    column_labels,
    linear_transform,
)
from ._loo import learned_whitener, store_ridge, triple_ridge, within_ridge
from ._sliced import collect_slices, make_slicer, slice_bytes, slice_statistic
from ._source import Source, weighted_rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class StructuredOLS(BlockReductionMixin, BaseEstimator):
    r"""Structured ordinary least squares (sOLS): least-squares directions and their parts in blocks of columns.

    The regression of y on the whole table, and the regressions within sub-populations h, give the directions

    .. math:: \Sigma^{-1} E[(x - \mu)\, y], \qquad \Sigma^{-1} E[(x - \mu)(y - \bar y_h)\, 1_h].

    Each block takes its parts of all of them, weighed by the block's covariance, and keeps their leading
    left singular vectors.

    Parameters
    ----------
    n_components : int, default=1
        Directions per block; at most the number of regressions.
    blocks : mapping, "prefix" or None, default=None
        Name -> columns (names, patterns, positions, slices, masks). "prefix" takes the text before ``__``
        in column names. None is one block. The key "drop" leaves columns out.
    n_slices : int, default=1
        Slices of y that serve as sub-populations beside the whole, cut as in SlicedInverse; 1 is none.
    shrinkage : "ridge", float in [0, 1], "auto" or None, default="ridge"
        What is added to the correlation matrix R before it is inverted. "ridge": R + ridge I with the ridge of least
        leave-one-out error of a regression of y on the columns (one more pass over the
        rows), next to nothing where they say nothing linear. Otherwise the weight of the identity in a mean with R: a number, "auto" for Ledoit-Wolf, None
        (the published estimator) as little as the numbers allow; 0 refuses a singular R.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y. "labels" takes numbers as class labels; strings, booleans and categories always are.
        Numbers that look like codes of classes get a warning, which "numbers" silences.
    n_groups : int or None, default=20
        Groups of rows for errors of the directions (not to be taken for the sub-populations ``groups`` of ``fit``),
        from sums that the same pass keeps; see JointReduction.

    Attributes
    ----------
    loadings_ : dict of str to ndarray (columns of the block, n_components)
    components_ : ndarray (blocks * n_components, n_features)
    loadings_error_, components_error_ : of the same shapes, or None
        Standard errors by the delete-one-group jackknife.
    expected_error_ : dict of str to float, or None
        Expected NSEE (`colspace.metrics.nsee`) of each block's space.
    n_groups_ : int
    errors_note_ : str
        Why there are no errors; empty when there are.
    singular_values_ : dict of str to ndarray
    mean_, scale_ : ndarray (n_features,)
        Means and standard deviations of the columns.
    blocks_ : dict of str to ndarray
        Columns of each block.
    n_components_ : int
    n_directions_ : int
        Number of regressions behind the directions.
    ridge_, shrinkage_ : float
        Weight of the identity beside R, and in a mean with R: ridge / (1 + ridge).

    References
    ----------
    Liu, Chiaromonte and Li (2017), "Structured ordinary least squares: a sufficient dimension reduction
    approach for regressions with partitioned predictors and heterogeneous units", Biometrics 73.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import StructuredOLS
    >>> from colspace.metrics import nsee
    >>> X = np.random.default_rng(0).standard_normal((2000, 5))
    >>> model = StructuredOLS(blocks={"a": [0, 1], "b": [2, 3, 4]})
    >>> model.fit(X, np.tanh(X[:, 0] + X[:, 2] - X[:, 4])).get_feature_names_out()
    array(['a__0', 'b__0'], dtype=object)
    >>> truth = {"a": np.array([1, 0]), "b": np.array([1, 0, -1])}
    >>> print(f"{nsee(truth, model.loadings_):.1f}")
    0.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "blocks": "no_validation",
        "n_slices": [whole(1)],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto", "ridge"}), None],
        "response": [StrOptions({"rank", "labels", "numbers"}), callable, None],
        "n_groups": [whole(2), None],
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        blocks: Any = None,
        n_slices: int = 1,
        shrinkage: float | str | None = "ridge",
        response: str | Callable[[Any], Any] | None = None,
        n_groups: int | None = 20,
    ) -> None:
        self.n_components = n_components
        self.blocks = blocks
        self.n_slices = n_slices
        self.shrinkage = shrinkage
        self.response = response
        self.n_groups = n_groups

    @_fit_context(prefer_skip_nested_validation=True)
    @small_products(table_work)
    def fit(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Self:
        """Learn the directions.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix; without ``groups`` also a Dask array or dataframe
        y : array (n,), array (n, q), or class labels
        groups : array (n,), optional
            One label per row: sub-populations with means of their own and a common covariance (pooled
            within groups) take the place of the slices. Their sum, the overall regression within
            groups, is no further direction.
        sample_weight : array (n,), optional
            A weight of two counts a row twice, zero leaves it out.
        """
        name = type(self).__name__
        X = check_table(self, X, reset=True, min_rows=2)
        labels = column_labels(self)
        groups = None if groups is None else self._labels_of_rows(X, groups, sample_weight)
        source = Source.of(X, y, self.response, name, weights=sample_weight, labels=labels)
        blocks = parse_blocks(self.blocks, self.n_features_in_, feature_names(self))
        check_block_widths(self.n_components, blocks)
        columns = np.concatenate(blocks.columns)
        labels = [labels[i] for i in columns]
        view = Table.of(source, Blocks(("x",), (columns,), self.n_features_in_), self.shrinkage, labels)
        source, table = view.source, view.blocks
        sums, regressions = self._regressions(source, table, groups)
        r = regressions(sums.total)
        self._check_components(r.cross.shape[1])
        whitener = learned_whitener(
            source,
            table,
            r.mean,
            r.covariance,
            r.count,
            r.rows,
            self.shrinkage,
            labels,
            lambda: self._ridge(source, table, sums.total, r),
            r.total,
        )
        store_ridge(self, whitener)
        scale = view.scale(r.total)
        unit = whitener.scale if view.span is None else np.where(scale > 0, scale, 1.0)

        def parts(now: Regressions, w: Whitener) -> tuple[list[Array], list[Array]]:
            coefficients = view.loadings(w.loadings(w.apply(now.cross)))
            loadings, values = [], []
            own, identity = w.mix
            units = w.scale if view.span is None else unit
            for s in blocks.slices:
                standard = coefficients[s] * units[s, None]
                metric = own * self._block_metric(view, now, coefficients, s, columns)
                L, found = block_directions(
                    metric + identity * standard.T @ standard, standard, self.n_components
                )
                loadings.append(L / units[s, None])
                values.append(found)
            return loadings, values

        def solve(rest: Any) -> list[Array]:
            now = regressions(rest)
            return parts(now, whitener.again(now.covariance, now.rows, unit=source.unit))[0]

        loadings, values = parts(r, whitener)
        metrics = [self._metric(view, r, unit, s) for s in blocks.slices]
        left = leave_out(sums, solve, loadings, metrics)
        self.n_directions_ = r.cross.shape[1]
        spreads = [self._spread(view, r, L, s, columns) for L, s in zip(loadings, blocks.slices, strict=True)]
        self._store_blocks(blocks, loadings, values, view.mean(r.mean), scale, table_dtype(X), spreads)
        store_block_errors(self, left, blocks, loadings)
        return self

    def _labels_of_rows(self, X: Any, groups: Any, weights: Any) -> Any:
        """The groups of the rows that count."""
        refuse_dask(X, type(self).__name__)
        if self.n_slices != 1:
            msg = f"n_slices={self.n_slices}, but groups take the place of slices; give n_slices=1, or no groups"
            raise ValueError(msg)
        groups = column_or_1d(as_column(groups, "groups").values)
        check_consistent_length(X, groups)
        return weighted_rows(check_weights(weights, X), groups)[0]

    @staticmethod
    def _spread(view: Table, r: Regressions, L: Array, s: slice, columns: Index) -> Array:
        """Covariances of a block's columns with its embedding; of a wide table from its rows."""
        if view.span is None:
            return r.total[s, s] @ L
        return view.span.covariances_with(columns[s], L)

    @staticmethod
    def _metric(view: Table, r: Regressions, unit: Array, s: slice) -> Callable[[Array], Array]:
        """What directions of a block are orthonormal in: its covariance, or its columns' units in a wide table."""
        if view.span is None:
            return lambda L: r.covariance[s, s] @ L
        return lambda L: L * unit[s, None] ** 2

    def _block_metric(
        self, view: Table, r: Regressions, coefficients: Array, s: slice, columns: Index
    ) -> Array:
        """beta' Sigma beta for the part of the coefficients that belongs to one block."""
        if view.span is None:
            return coefficients[s].T @ r.covariance[s, s] @ coefficients[s]
        fitted = linear_transform(
            view.span.table, view.span.mean, _placed(coefficients[s], columns[s], self.n_features_in_)
        )
        w = view.source.weights
        w = np.ones(len(fitted)) if w is None else w
        means = r.group_means(fitted, w)
        return ((fitted - means) * w[:, None]).T @ (fitted - means) / w.sum()

    def _regressions(
        self, source: Source, table: Blocks, groups: Any
    ) -> tuple[GroupSums, Callable[[Any], Regressions]]:
        """Sums of all rows and of groups of them, and how regressions are made of sums."""
        if groups is not None:
            codes, n_codes = group_numbers(groups)
            q = source.y.shape[1]
            slices = codes[:, None] + n_codes * np.arange(q)
            y_mean, y_scale = source.response_units()
            statistic = slice_statistic(source, table, n_codes * q)
            arrays = [source.X, slices, (source.y - y_mean) / y_scale]
            if source.weights is not None:
                arrays.append(source.weights)

            def pass_over(statistic: Callable[..., Any], chunk: int | None = None) -> Any:
                return reduce_rows(statistic, *arrays, chunk=chunk)

            k, note = choose_groups(self.n_groups, slice_bytes(n_codes * q, table), source.X.shape[0])
            if not k:
                return GroupSums(pass_over(statistic), note=note), partial(
                    group_regressions, q=q, groups=codes
                )
            found = reduce_groups(pass_over, statistic, k, dask=False, chunk=chunk_rows(*arrays))
            return GroupSums(found.total, found.parts), partial(group_regressions, q=q, groups=codes)
        if self.n_slices == 1:
            return grouped_moments(source, table, ((0, 0),), (), self.n_groups), whole_regressions
        if source.encoder.labels:
            msg = (
                f"n_slices={self.n_slices}, but y holds class labels, which do not vary within a slice. Remedies: "
                "n_slices=1, or fit(X, y, groups=...) with other sub-populations"
            )
            raise ValueError(msg)
        slicer = make_slicer(source, self.n_slices)
        sums = collect_slices(source, table, slicer, responses=True, n_groups=self.n_groups)
        return sums, partial(slice_regressions, counts=slicer.counts)

    def _ridge(self, source: Source, table: Blocks, total: Any, r: Regressions) -> float:
        """The ridge of least leave-one-out error of the regression of y, within groups where there are any."""
        columns = table.columns[0]
        if r.groups is not None:
            return within_ridge(source, columns, r.groups, total, r.covariance)
        if isinstance(total, SlicedMoments):
            total = source.moments(table, (), ())
        return triple_ridge(source, columns, total, r.mean, r.covariance)

    def _check_components(self, n_directions: int) -> None:
        if self.n_components > n_directions:
            msg = (
                f"n_components={self.n_components} is more than the {n_directions} least-squares direction(s) that "
                "these responses and sub-populations give. Remedies: lower n_components, raise n_slices, give "
                "groups, or use JointReduction"
            )
            raise ValueError(msg)


@dataclass(frozen=True)
class Regressions:
    """What the least-squares directions are made of.

    ``covariance`` is the one to divide by (within groups, when there are any) and ``total`` that of all rows;
    ``cross`` holds covariances with the standardised responses, features x directions. ``groups``: the group
    of each row, when there are any.
    """

    rows: int
    count: float
    mean: Array
    total: Array
    covariance: Array
    cross: Array
    groups: Index | None = None

    def group_means(self, values: Array, weights: Array) -> Array:
        """Weighted means of columns of values, of each row's group or of all rows."""
        if self.groups is None:
            return weights @ values / weights.sum()
        total = np.zeros((self.groups.max() + 1, values.shape[1]))
        np.add.at(total, self.groups, values * weights[:, None])
        return (total / np.bincount(self.groups, weights)[:, None])[self.groups]


def deviations(m: SlicedMoments, counts: list[int]) -> Array:
    """Standard deviation of the response behind each slice, over all its slices."""
    starts = np.cumsum([0, *counts[:-1]])
    mean = np.add.reduceat(m.y, starts) / m.n_rows
    variance = np.add.reduceat(m.yy, starts) / m.n_rows - mean**2
    check_varies(variance)
    return np.repeat(np.sqrt(variance), counts)


def whole_regressions(total: TripleMoments) -> Regressions:
    """The regression of each response on all rows."""
    c = centre(total)
    covariance = c.covariance[0, 0]
    return Regressions(c.rows, c.count, c.mean, covariance, covariance, c.linear)


def slice_regressions(m: SlicedMoments, counts: list[int]) -> Regressions:
    """The overall regression of each response, and those within the slices in which it varies."""
    counts = [int(part.sum()) for part in np.split(m.occupied, np.cumsum(counts)[:-1])]
    m = m.filled
    owner = np.repeat(np.arange(len(counts)), counts)
    scale = deviations(m, counts)
    within = m.slice_cross / scale
    # between slices: sum_h p_h (mean x - mu)(mean y)
    between = m.slice_means.T * (m.y / m.n_rows) / scale
    overall = (within + between) @ (owner[:, None] == np.arange(len(counts)))
    cross = np.hstack([overall, within[:, m.slice_varies]])
    return Regressions(m.rows, m.n_rows, m.mean, m.covariance, m.covariance, cross)


def group_regressions(m: SlicedMoments, q: int, groups: Index) -> Regressions:
    """The regressions within groups in which the response varies, on the pooled covariance."""
    m = m.filled
    n_groups = len(m.count) // q
    scale = deviations(m, [n_groups] * (len(m.count) // n_groups))
    means = m.slice_means[:n_groups]
    pooled = m.covariance - (means.T * m.weights[:n_groups]) @ means
    clear_flat(pooled, np.diag(m.gram) / m.n_rows)
    cross = (m.slice_cross / scale)[:, m.slice_varies]
    return Regressions(m.rows, m.n_rows, m.mean, m.covariance, pooled, cross, groups)


def refuse_dask(X: Any, caller: str) -> None:
    """Groups are numbered with all of them at hand."""
    if is_dask(X):
        msg = (
            f"{caller} with groups needs all rows in memory, but got a Dask collection; load it (X.compute())"
        )
        raise TypeError(msg)


def group_numbers(values: Any) -> tuple[Index, int]:
    """Group of each row as a number, and how many there are."""
    if any(map(is_gap, set(values.tolist()))):
        msg = "groups contains missing labels (None or NaN); drop those rows first, or give them a label"
        raise ValueError(msg)
    labels, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.intp), len(labels)


def block_directions(metric: Array, coefficients: Array, r: int) -> tuple[Array, Array]:
    r"""Loadings (features x r) and singular values of a block's parts of all directions, on standardised columns.

    The left singular vectors U of :math:`\Sigma^{1/2} \beta` and the loadings :math:`\Sigma^{-1/2} U = \beta V S^{-1}`
    follow from ``metric`` :math:`\beta^\top \Sigma \beta = V S^2 V^\top`.
    """
    values, V = eigh(metric, r)
    S = np.sqrt(np.maximum(values[::-1], 0.0))
    V = V[:, ::-1]
    inverse = np.divide(1.0, S, out=np.zeros_like(S), where=1e-12 * S[0] < S)
    return fix_signs(coefficients @ (V * inverse)), S


def _placed(coefficients: Array, columns: Index, n_features: int) -> Array:
    """Rows of coefficients of a few columns in a matrix (directions x all columns)."""
    out = np.zeros((coefficients.shape[1], n_features))
    out[:, columns] = coefficients.T
    return out
