"""The ridge of least leave-one-out error for estimators of one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._blocks import Blocks
from .._rows import CHUNK_BYTES, reduce_rows
from .._validation import warn_constant
from ..factor import Whitener, ridge_whitener
from ..moments import Additive, SlicedMoments, TripleMoments
from ._linear import table_shrinkage, table_whitener
from ._ridge import Axes, least_ridge, principal_axes, response_map, ridge_paths, triple_responses
from ._source import Source
from ._stein_sums import labelled_rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Responses = Callable[[Array], Array]


def learned_whitener(
    source: Source,
    table: Blocks,
    mean: Array,
    covariance: Array,
    count: float,
    rows: int,
    shrinkage: Any,
    labels: Sequence[object],
    ridge: Callable[[], float],
    total: Array | None = None,
) -> Whitener:
    """Whitener of a table as ``shrinkage`` asks for it; ``ridge()`` finds that of least leave-one-out error.

    ``total``: the covariance of all rows, where another one is to be whitened.
    """
    if shrinkage != "ridge":
        weight = table_shrinkage(
            source, table, mean, covariance if total is None else total, count, shrinkage
        )
        return table_whitener(source, covariance, rows, weight, labels)
    if not source.unit:
        warn_constant(np.diag(covariance), labels)
    return ridge_whitener(covariance, ridge(), unit=source.unit)


def store_ridge(model: Any, whitener: Whitener) -> None:
    """Set ``ridge_`` and ``shrinkage_``, the weights of the identity beside R and in a mean with R."""
    own, identity = whitener.mix
    model.ridge_ = identity / own if own > 0 else np.inf
    model.shrinkage_ = identity / (own + identity)


@dataclass(frozen=True)
class LooErrors(Additive):
    """Sums over rows of squared leave-one-out errors, one for each ridge."""

    _shared: ClassVar[tuple[str, ...]] = ()

    error: Array


@dataclass(frozen=True)
class ErrorPlan:
    r"""``plan(X, Y, weights)``: squared leave-one-out errors of ridge regressions along principal axes.

    With coordinates a of variances S and :math:`c = E[a v^\top]` the error of a row of n is
    :math:`(v - c^\top (S + \lambda)^{-1} a)/(1 - h)`, :math:`h = (1 + a^\top (S + \lambda)^{-1} a)/n`.
    """

    axes: Axes
    ridges: Array
    cross: Array
    rows: float
    responses: Responses

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> LooErrors:
        """Statistic of one chunk."""
        A, V = self.axes.coordinates(X), self.responses(Y)
        return LooErrors(self.errors(A, V, weights, 1.0 / self.rows))

    def errors(self, A: Array, V: Array, weights: Array | None, own: Array | float) -> Array:
        """Sums for rows in coordinates; ``own``: the leverage of a row in its mean."""
        found = self.squares(A, V, own)
        return np.array([squares.sum() if weights is None else weights @ squares for squares in found])

    def squares(self, A: Array, V: Array, own: Array | float) -> Array:
        """Squared errors, ridges x rows."""
        inverse = 1.0 / (self.axes.values[:, None] + self.ridges)
        left = 1.0 - (own + ((A * A) @ inverse).T / self.rows)
        found = np.empty(left.shape)
        for k, share in enumerate(np.maximum(left, 1e-14)):
            residual = V - A @ (inverse[:, k, None] * self.cross)
            found[k] = np.einsum("ij,ij->i", residual, residual) / share**2
        return found

    def least(self, sums: LooErrors, count: float, width: int) -> float:
        """The ridge of least error; ``count`` is the weight of all rows and ``width`` the number of columns."""
        r2 = 1.0 - sums.error / max(count * self.cross.shape[1], np.finfo(np.float64).tiny)
        return float(self.ridges[least_ridge(r2, self.rows, width)])


@dataclass(frozen=True)
class PairedErrors(LooErrors):
    """The sums, those of products of two ridges' squared errors, and of the rows' weights."""

    products: Array
    count: float

    def heaviest(self, ridges: Array, rows: float) -> float:
        """The heaviest ridge whose error is within one standard error of the least, that of their difference row by row."""
        gap, square = self.error / self.count, np.diag(self.products)
        best = int(np.argmin(gap))
        gap = gap - gap[best]
        square = (square - 2.0 * self.products[best] + square[best]) / self.count
        spread = np.sqrt(np.maximum(square - gap**2, 0.0) / rows)
        return float(ridges[np.flatnonzero(gap <= spread)[-1]])


def leave_one_out_ridge(
    source: Source, columns: Index, mean: Array, covariance: Array, count: float, cross: Array, of: Responses
) -> float:
    """The ridge, on standardised columns, of least leave-one-out error: one pass over the rows.

    ``cross`` = E[(x - mean) v'] with the responses v = ``of(Y)`` of unit variance. See ``least_ridge`` for tables
    whose columns say nothing linear.
    """
    axes = principal_axes(covariance, columns, mean, unit=source.unit)
    plan = error_plan(axes, cross, count, source.weights, of)
    sums = source.reduce(plan, chunk=loo_chunk(*cross.shape))
    return plan.least(sums, count, table_width(source, covariance))


def error_plan(axes: Axes, cross: Array, count: float, weights: Any, of: Responses) -> ErrorPlan:
    """The errors of all ridges of the grid, for ``cross`` = E[(x - mean) v'] of the columns behind the axes."""
    (path,) = ridge_paths([axes], [axes.map.T @ cross], count)
    return ErrorPlan(axes, path.ridges, path.cross, rows_left_out_of(weights, count), of)


def loo_chunk(n_columns: int, n_responses: int) -> int:
    """Rows of a chunk whose dense copies and responses take about ``CHUNK_BYTES``."""
    return max(256, CHUNK_BYTES // (8 * (2 * n_columns + n_responses)))


def rows_left_out_of(weights: Any, count: float) -> float:
    """How many rows there are, one of which is left out: see ``row_unit``."""
    return count if weights is None else count / row_unit(weights)


def row_unit(weights: Any, *y: Any) -> float:
    """The weight that stands for one row (with ``y``: for one row that has a label).

    A weight of two is a row twice, in whatever unit weights are given: where all are multiples of the least one it is the
    unit; where all are whole numbers it is one. Others, such as weights of a survey, say nothing of a number: they are as good
    as (sum w)^2 / sum w^2 rows.
    """
    sums = reduce_rows(_weight_sums, weights, *y)
    if reduce_rows(partial(_fractions, unit=sums.least), weights, *y) == 0:
        return sums.least
    return 1.0 if sums.fractions == 0 else sums.squares / sums.total


def in_rows(weights: Any) -> Any:
    """Weights whose sum is a number of rows; None stays None."""
    if weights is None:
        return None
    unit = row_unit(weights)
    return weights if unit == 1.0 else weights / unit


@dataclass(frozen=True)
class WeightSums:
    """The sum of weights and of their squares, the least, and how many are no whole numbers."""

    total: float
    squares: float
    least: float
    fractions: int

    def __add__(self, other: WeightSums) -> WeightSums:
        return WeightSums(
            self.total + other.total,
            self.squares + other.squares,
            min(self.least, other.least),
            self.fractions + other.fractions,
        )


def _counting(weights: Any, y: Any = None) -> Array:
    w = np.asarray(weights, dtype=np.float64).ravel()
    return w if y is None else w[labelled_rows(y)]


def _weight_sums(weights: Any, y: Any = None) -> WeightSums:
    w = _counting(weights, y)
    w = w[w > 0]
    return WeightSums(float(w.sum()), float(w @ w), float(w.min(initial=np.inf)), _fractions(w))


def _fractions(weights: Any, y: Any = None, *, unit: float = 1.0) -> int:
    """How many weights are no multiples of the unit, but for rounding; from 2^53 on every float is whole, which says nothing."""
    with np.errstate(over="ignore"):
        w = _counting(weights, y) / unit
    large = w > 2.0**53
    w = np.where(large, 0.0, w)
    return int(np.count_nonzero(large | (np.abs(w - np.round(w)) > 1e-9 * np.abs(w))))


def table_width(source: Source, covariance: Array) -> int:
    """Columns that vary; in coordinates of the rows' span those of the table."""
    return source.n_columns[0] if source.n_columns else max(1, int(np.count_nonzero(np.diag(covariance) > 0)))


def triple_ridge(
    source: Source, columns: Index, total: TripleMoments, mean: Array, covariance: Array
) -> float:
    """The ridge for a table whose products with the responses are known."""
    cross, responses = triple_responses(total, labels=source.encoder.labels)
    return leave_one_out_ridge(source, columns, mean, covariance, total.count, cross, responses)


@dataclass(frozen=True)
class SliceScores:
    """Responses as slices see them: v = scores of a row's slices, one column per response or class direction."""

    slicer: Callable[[Array], Index]
    scores: tuple[Array, ...]  # one table (slices x scores) per response
    starts: Index

    def __call__(self, Y: Array) -> Array:
        """Scores of rows."""
        numbers = self.slicer(Y) - self.starts
        return np.hstack([table[numbers[:, j]] for j, table in enumerate(self.scores)])


def slice_responses(
    m: SlicedMoments, slicer: Callable[[Array], Index], counts: list[int], *, indicators: Sequence[bool]
) -> tuple[Array, SliceScores]:
    """E[(x - mean) v'] and the responses v of unit variance: indicators of a response's slices, or their ranks.

    So the ridge, like the slices, does not change with monotone functions of the response.
    """
    starts = np.concatenate([[0], np.cumsum(counts[:-1])]).astype(np.intp)
    scores, cross = [], []
    for start, k, by_indicators in zip(starts, counts, indicators, strict=True):
        p = m.weights[start : start + k]
        table = np.eye(k) if by_indicators else (np.cumsum(p) - p / 2)[:, None]
        mean = p @ table
        mapped = response_map(mean, (table - mean).T @ ((table - mean) * p[:, None]), labels=by_indicators)
        scores.append(mapped(table))
        cross.append((m.slice_means[start : start + k].T * p) @ scores[-1])
    return np.hstack(cross), SliceScores(slicer, tuple(scores), starts)


@dataclass(frozen=True)
class WithinSums(Additive):
    """Products of rows less the means of their groups: with responses, and of responses."""

    _shared: ClassVar[tuple[str, ...]] = ()

    xy: Array
    yy: Array


@dataclass(frozen=True)
class WithinPlan:
    """``plan(X, groups, Y, weights)``: sums of rows less the means of their groups."""

    columns: Index
    means: Array
    y_means: Array

    def centred(self, X: Any, groups: Index, Y: Array) -> tuple[Array, Array]:
        """Rows and responses less the means of their groups."""
        part = X[:, self.columns]
        part = part.toarray() if sparse.issparse(part) else part
        return np.subtract(part, self.means[groups], dtype=np.float64), Y - self.y_means[groups]

    def __call__(self, X: Any, groups: Index, Y: Array, weights: Array | None = None) -> WithinSums:
        """Statistic of one chunk."""
        Z, V = self.centred(X, groups, Y)
        W = V if weights is None else V * weights[:, None]
        return WithinSums(Z.T @ W, V.T @ W)


@dataclass(frozen=True)
class WithinErrors:
    """``plan(X, groups, Y, weights)``: leave-one-out errors when each group has a mean of its own.

    The leverage of a row in the mean of its group of n_g rows is 1/n_g; one that is alone says nothing.
    """

    rows: WithinPlan
    errors: ErrorPlan
    counts: Array

    def __call__(self, X: Any, groups: Index, Y: Array, weights: Array | None = None) -> LooErrors:
        """Statistic of one chunk."""
        Z, V = self.rows.centred(X, groups, Y)
        several = self.counts[groups] > 1.0
        w = several.astype(np.float64) if weights is None else weights * several
        own = np.where(several, 1.0 / self.counts[groups], 0.0)
        return LooErrors(self.errors.errors(Z @ self.errors.axes.map, self.errors.responses(V), w, own))


def within_ridge(source: Source, columns: Index, groups: Index, m: SlicedMoments, pooled: Array) -> float:
    """The ridge of least leave-one-out error within groups of rows in memory: two passes.

    ``m`` are their moments, by groups of the first response, and ``pooled`` their covariance.
    """
    k = int(groups.max()) + 1
    means = m.shift + m.x[:k] / m.count[:k, None]
    y_mean, y_scale = source.response_units()
    Y = (source.y - y_mean) / y_scale
    arrays = (source.X, groups, Y) if source.weights is None else (source.X, groups, Y, source.weights)
    y_means = np.zeros((k, Y.shape[1]))
    np.add.at(y_means, groups, Y if source.weights is None else Y * source.weights[:, None])
    plan = WithinPlan(columns, means, y_means / m.count[:k, None])
    chunk = loo_chunk(len(columns), Y.shape[1])
    sums = reduce_rows(plan, *arrays, chunk=chunk)
    n = float(m.n_rows)
    mapped = response_map(np.zeros(len(sums.yy)), sums.yy / n, labels=source.encoder.labels)
    axes = principal_axes(pooled, np.arange(len(pooled)), np.zeros(len(pooled)), unit=source.unit)
    errors = error_plan(axes, sums.xy @ mapped.map / n, n, source.weights, mapped)
    counts = m.count[:k] * errors.rows / n
    found = reduce_rows(WithinErrors(plan, errors, counts), *arrays, chunk=chunk)
    return errors.least(found, n, table_width(source, pooled))
