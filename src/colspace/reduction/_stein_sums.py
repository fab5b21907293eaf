"""The sums and small matrices behind Stein's method of first and second order."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._overflow import ColumnOverflowError, overflow_error
from .._response import ResponseEncoder, holds_labels, is_gap, make_encoder
from .._rows import CHUNK_BYTES, is_dask, reduce_rows
from .._validation import ConstantColumnWarning, sample_rows
from ..factor import eigh
from ..moments import Additive, TripleMoments, TriplePlan, all_finite, clear_flat, weighted_gram
from ..scores import GaussianScore, ScoreModel, gaussian_from_moments
from ._source import Encoded, all_classes

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def labelled_rows(y: Any) -> Mask:
    """Rows whose y is known: NaN, None and NA mark unlabelled rows; a row is labelled wholly or not at all."""
    values = np.asarray(y)
    if values.dtype.kind in "fc":
        gaps = np.isnan(values)
    elif values.dtype.kind == "O":
        gaps = np.array([is_gap(v) for v in values.ravel().tolist()], dtype=bool).reshape(values.shape)
    else:
        return np.ones(values.shape[0], dtype=bool)
    if gaps.ndim == 1:
        return ~gaps
    partly = gaps.any(axis=1) & ~gaps.all(axis=1)
    if partly.any():
        msg = (
            f"{int(partly.sum())} row(s) have some responses and miss others (first: row {int(np.argmax(partly))}); "
            "a row is labelled wholly or not at all. Remedies: drop or impute those, or fit the responses apart"
        )
        raise ValueError(msg)
    return ~gaps.any(axis=1)


def wants_unlabeled(weight: float | str, y: Any, encoder: ResponseEncoder | None) -> bool:
    """Whether the block of all rows has a part in the directions; ``weight``: see SteinReduction."""
    if encoder is None or weight == "paper":
        return True
    return not labelled_rows(y).all() if isinstance(weight, str) else weight > 0


def no_response(X: Any) -> Any:
    """A gap for each row of X, where its rows are."""
    if is_dask(X):
        return (X[:, 0] if hasattr(X, "chunks") else X[X.columns[0]]) * np.nan
    return np.full(X.shape[0], np.nan)


def lazy_encoder(
    X: Any, y: Any, weights: Any, response: Any, *, caller: str, codes: int | None
) -> ResponseEncoder:
    """The encoder of a y beside a Dask collection: as its first partition has it, with the classes of all."""
    start = sample_rows(X, y, weights=weights)[1]
    mask = labelled_rows(start)
    if not mask.any():
        msg = "the first partition has no labelled row; put some there, so that the response can be read"
        raise ValueError(msg)
    some = known(start, mask)
    classes = all_classes(y, weights, gaps=True) if holds_labels(some, response) else None
    return make_encoder(some, response, classes=classes, streaming=True, caller=caller, codes=codes)


def known(y: Any, mask: Mask) -> Any:
    """The labelled part of y, of the type that the labels have without gaps."""
    kept = np.asarray(y)[mask]
    if kept.dtype == object:
        kinds = set(map(type, kept.ravel().tolist()))
        if kinds <= {str}:
            return kept.astype(str)
        if all(issubclass(k, int | float | np.number) and k is not bool for k in kinds):
            return kept.astype(np.float64)
    return kept


@dataclass(frozen=True)
class EncodedResponse(ResponseEncoder):
    """The encoder of responses that have been encoded and checked before."""

    def __call__(self, y: Any) -> Array:
        """The numbers as they are."""
        return np.asarray(y, dtype=np.float64)


@dataclass(frozen=True)
class SteinMoments:
    """Everything the directions are made of, for columns divided by ``scale``.

    ``first`` = E[s (y - mean)'] (p x q) and ``second`` = E[(y - mean) T] (q x p x p) over labelled rows with
    responses of covariance ``y_covariance``; ``unlabeled`` = E[s (x - mean)'] over all rows (p x p), and where it is asked
    for ``own`` = E[(x_j - mean_j) T] over all rows (p x p x p; one matrix: of the mean over j).
    """

    count: float
    n_labeled: float
    mean: Array
    scale: Array
    covariance: Array
    y_covariance: Array
    first: Array
    second: Array | None
    unlabeled: Array | None
    averaged: bool = False  # second is the one matrix of the mean over mapped responses
    own: Array | None = None
    metric: Array | None = None  # that of noise, where it is not the covariance with the ridge of the score


@dataclass(frozen=True)
class GaussianTables(Additive):
    """Moments of labelled rows and of the rest: all that a Gaussian score needs.

    ``own`` are sums over all rows of u_k z z', u = z' ``basis`` being the columns as responses; empty where not asked for.
    """

    _shared: ClassVar[tuple[str, ...]] = ("basis",)

    labeled: TripleMoments
    rest: TripleMoments
    own: Array = field(default_factory=lambda: np.zeros(0))
    basis: Array = field(default_factory=lambda: np.zeros(0))

    def unlabel(self, part: TripleMoments) -> GaussianTables:
        """The same rows when those of ``part`` have lost their labels."""
        zero = np.zeros_like(part.y)
        bare = replace(part, y=zero, yy=np.zeros_like(part.yy), xy=np.zeros_like(part.xy), xyx={})
        return replace(self, labeled=self.labeled - part, rest=self.rest + bare)


@dataclass(frozen=True)
class GaussianPlan:
    """``plan(X, y, weights)`` is the statistic of a chunk; y may have gaps.

    ``average``: weights of responses whose sum alone has second moments. ``own`` (p x k): columns as responses, see GaussianTables.
    """

    plan: TriplePlan
    encoder: ResponseEncoder | None
    average: Array | None = None
    own: Array | None = None

    def __call__(self, X: Any, y: Any, weights: Array | None = None) -> GaussianTables:
        """Statistic of one chunk."""
        if self.own is not None:
            return self._with_own(X, y, weights, self.own)
        mask, Y = split_response(y, self.encoder, len(self.plan.shift_y))
        order_one = replace(self.plan, weighted=())
        none = np.broadcast_to(self.plan.shift_y, (int((~mask).sum()), len(self.plan.shift_y)))
        if mask.all():
            return GaussianTables(self._labelled(X, Y, weights), order_one(X[:0], none))
        w = (None, None) if weights is None else (weights[mask], weights[~mask])
        return GaussianTables(self._labelled(X[mask], Y, w[0]), order_one(X[~mask], none, w[1]))

    def _with_own(self, X: Any, y: Any, weights: Array | None, basis: Array) -> GaussianTables:
        shift = self.plan.shift_x
        Z = self.plan.columns(X).copy()  # a workspace would be shifted again
        U = Z @ basis if weights is None else (Z @ basis) * weights[:, None]
        own = np.stack([weighted_gram(Z, u) for u in U.T])
        rest = replace(self, plan=replace(self.plan, shift_x=np.zeros_like(shift)), own=None)(Z, y, weights)
        labeled, other = (replace(m, shift_x=shift) for m in (rest.labeled, rest.rest))
        return GaussianTables(labeled, other, own, basis)

    def _labelled(self, X: Any, Y: Array, weights: Array | None) -> TripleMoments:
        plan, c = self.plan, self.average
        if c is None:
            return plan(X, Y, weights)
        Z, u = plan.columns(X), (Y - plan.shift_y) @ c
        second = weighted_gram(Z, u if weights is None else u * weights)[None]
        rest = replace(plan, shift_x=np.zeros_like(plan.shift_x), weighted=())(Z, Y, weights)
        return replace(rest, shift_x=plan.shift_x, xyx={(0, 0): second})


def split_response(y: Any, encoder: ResponseEncoder | None, q: int) -> tuple[Mask, Array]:
    """Which rows of a chunk are labelled, and their encoded responses; ``encoder`` None: no row is."""
    if encoder is None:
        return np.zeros(len(y), dtype=bool), np.zeros((0, q))
    mask = labelled_rows(y)
    return mask, encoder(known(y, mask)) if mask.any() else np.zeros((0, q))


def gaussian_moments(tables: GaussianTables) -> tuple[Array, Array, int]:
    """Mean, covariance and number of all rows."""
    a, b = tables.labeled, tables.rest
    n = a.count + b.count
    with np.errstate(over="ignore", invalid="ignore"):  # refused by column
        shift = (a.x + b.x) / n
        raw = (a.xx[0, 0] + b.xx[0, 0]) / n
        covariance = raw - np.outer(shift, shift)
    return a.shift_x + shift, clear_flat(covariance, np.diag(raw)), a.rows + b.rows


def labelled_moments(tables: GaussianTables) -> tuple[Array, Array, int]:
    """Mean, covariance and number of the labelled rows."""
    return gaussian_moments(replace(tables, rest=tables.labeled - tables.labeled))


def column_scale(covariance: Array, *, standardize: bool) -> Array:
    """By what columns are divided: their deviations, or one."""
    variance = np.diag(covariance)
    return np.sqrt(np.where(variance > 0, variance, 1.0)) if standardize else np.ones(len(variance))


def ridge_unit(covariance: Array, *, standardize: bool) -> float:
    """What a ridge of one adds to the variance of scaled columns: one, or their mean variance if they are not scaled."""
    return 1.0 if standardize else float(np.mean(np.diag(covariance))) or 1.0


@dataclass(frozen=True)
class Law:
    """A Gaussian law for scaled columns: its mean in the columns' units, the inverse of its covariance, its ridge.

    ``score`` is the public model, None where the law is known on the span of the rows only. ``metric``: see SteinMoments.
    """

    location: Array
    precision: Array
    ridge: float
    score: GaussianScore | None
    metric: Array | None = None


def gaussian_law(
    template: GaussianScore, mean: Array, covariance: Array, rows: int, scale: Array, *, standardize: bool
) -> Law:
    """The law of a template from moments; an infinite ridge replaces the covariance by what a ridge of one adds."""
    if template.location is not None:
        mean = np.asarray(template.location, dtype=np.float64)
    if template.covariance is not None:
        covariance, rows = np.asarray(template.covariance, dtype=np.float64), len(mean) + 1
    with warnings.catch_warnings():  # constant columns are named once, by the reducer
        warnings.simplefilter("ignore", ConstantColumnWarning)
        return _gaussian_law(template, mean, covariance, rows, scale, standardize=standardize)


def _gaussian_law(
    template: GaussianScore, mean: Array, covariance: Array, rows: int, scale: Array, *, standardize: bool
) -> Law:
    p, unit = len(mean), ridge_unit(covariance, standardize=standardize)
    ridge = 0.0 if isinstance(template.ridge, str) else template.ridge * unit
    if np.isinf(ridge):
        score = gaussian_from_moments(mean, np.diag(unit * scale**2), count=p + 1)
        ridge = 0.0
    elif standardize or not ridge:
        score = gaussian_from_moments(mean, covariance, template.ridge, template.pseudo_inverse, rows)
    else:
        score = gaussian_from_moments(mean, covariance + ridge * np.eye(p), count=p + 1)
    return Law(score.location_, score.precision_ * scale * scale[:, None], ridge, score)


def span_law(
    template: GaussianScore, mean: Array, covariance: Array, unit: float, *, diagonal: bool = True
) -> Law:
    """The law in coordinates of the rows' span, in which the covariance of all rows is diagonal."""
    if template.ridge == np.inf:
        return Law(mean, np.eye(len(mean)) / unit, 0.0, None)
    ridge = 0.0 if isinstance(template.ridge, str) else template.ridge * unit
    if diagonal:
        return Law(mean, np.diag(1.0 / (np.diag(covariance) + ridge)), ridge, None)
    values, vectors = eigh(covariance)
    values = np.where(values > 1e-10 * values[-1], values, 0.0) + ridge
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
    return Law(mean, (vectors * inverse) @ vectors.T, ridge, None)


def labelled_law(tables: GaussianTables, ridge: float, scale: Array, *, span: bool) -> Law:
    r"""The law of labelled rows alone, :math:`C_l + \lambda D^2`, D what the columns of all rows are divided by."""
    mean, covariance, _ = labelled_moments(tables)
    metric = covariance / scale / scale[:, None] + ridge * np.eye(len(mean))
    if span:
        values, vectors = eigh(metric)
        return Law(mean, (vectors / values) @ vectors.T, ridge, None, metric)
    score = gaussian_from_moments(mean, metric * scale * scale[:, None], count=len(mean) + 1)
    return Law(mean, score.precision_ * scale * scale[:, None], ridge, score, metric)


def stein_from_tables(
    tables: GaussianTables, law: Law | None, scale: Array, average: Array | None = None
) -> SteinMoments:
    """Moments of a Gaussian score with precision P: first P Cov(x, y), second P E[y d d'] P, rest P Cov(x).

    No law: P = I, about the mean of all rows. ``average``: see GaussianPlan.
    """
    mean, covariance, _ = gaussian_moments(tables)
    m, location = tables.labeled, mean if law is None else law.location
    k = m.count if m.count > 0 else 1.0
    dx, dy = m.x / k, m.y / k
    unit = np.broadcast_to(m.scale_y, dy.shape)
    cross = (m.xy / k - np.outer(dx, dy)) / scale[:, None]
    second = None
    if m.xyx:
        # E[(y - mean)(x - mu)(x - mu)'] about the mean mu of all rows
        off, dx = (m.shift_x + dx - location) / scale, dx / scale
        means, slopes, units = dy, cross.T, unit
        if average is not None:  # of the one response c'y
            means, slopes, units = (dy * unit @ average)[None], (cross * unit @ average)[None], np.ones(1)
        third = (m.xyx[0, 0] / k - means[:, None, None] * (m.xx[0, 0] / k)) / scale / scale[:, None]
        third = third - slopes[:, :, None] * dx - dx[:, None] * slopes[:, None, :]
        third = third + slopes[:, :, None] * off + off[:, None] * slopes[:, None, :]
        second = (third if law is None else law.precision @ third @ law.precision) * units[:, None, None]
    standard = covariance / scale / scale[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        y_covariance = (m.yy / k - np.outer(dy, dy)) * unit * unit[:, None]
    if m.count > 0 and not np.diag(y_covariance).any() and (m.y_variance > 0).any():
        msg = f"y spreads over {unit.max():g}, and squares of that are zero in float64; multiply y by a constant"
        raise ColumnOverflowError(msg)
    if not np.isfinite(y_covariance).all():
        msg = f"y spreads over {unit.max():g}, and squares of that overflow float64 (1.8e308); divide y by a constant"
        raise ColumnOverflowError(msg)
    return SteinMoments(
        count=m.count + tables.rest.count,
        n_labeled=m.count,
        mean=mean,
        scale=scale,
        covariance=standard,
        y_covariance=y_covariance,
        first=(cross if law is None else law.precision @ cross) * unit,
        second=second,
        unlabeled=standard if law is None else law.precision @ standard,
        averaged=average is not None,
        own=_own_from_tables(tables, covariance, location, law, scale),
        metric=None if law is None else law.metric,
    )


def _own_from_tables(
    tables: GaussianTables, covariance: Array, location: Array, law: Law | None, scale: Array
) -> Array | None:
    """P E[(u - mean)(x - mu)(x - mu)'] P over all rows, u the columns as responses."""
    if not tables.own.size:
        return None
    a, b = tables.labeled, tables.rest
    n = a.count + b.count
    dx, off = (a.x + b.x) / n, location - a.shift_x
    means, slopes = dx @ tables.basis, (covariance @ tables.basis).T
    third = tables.own / n - means[:, None, None] * ((a.xx[0, 0] + b.xx[0, 0]) / n)
    third = third - slopes[:, :, None] * off - off[:, None] * slopes[:, None, :]
    third = in_own_units(third, scale) / scale / scale[:, None]
    return third if law is None else law.precision @ third @ law.precision


def in_own_units(each: Array, scale: Array) -> Array:
    """Second moments of columns as responses, one matrix for each column, for columns divided by ``scale``."""
    return each / scale[:, None, None] if len(each) == len(scale) > 1 else each


@dataclass(frozen=True)
class ScoreSums(Additive):
    """Sums over rows for any score model: labelled rows (with a constant column), and all rows."""

    n_labeled: float
    count: float
    y: Array
    yy: Array
    first: Array
    second: Array
    x: Array
    xx: Array
    unlabeled: Array
    own: Array


@dataclass(frozen=True)
class ScorePlan:
    """``plan(X, y, weights)`` is the statistic of a chunk under a fitted score model."""

    score: ScoreModel
    encoder: ResponseEncoder | None
    shift_x: Array
    shift_y: Array
    second_order: bool
    all_rows: bool
    average: Array | None = None  # these two: see GaussianPlan
    own: Array | None = None

    def __call__(self, X: Any, y: Any, weights: Array | None = None) -> ScoreSums:
        """Statistic of one chunk."""
        q = len(self.shift_y)
        mask, Y = split_response(y, self.encoder, q)
        w = np.ones(len(mask)) if weights is None else weights
        V = np.column_stack([np.ones(len(Y)), Y - self.shift_y])
        W = V * w[mask, None]
        XL = np.asarray(X[mask], dtype=np.float64)
        Z = np.subtract(X, self.shift_x, dtype=np.float64)
        p = Z.shape[1]
        some = len(XL) > 0
        first = self.score.first_moment(XL, W) if some else np.zeros((p, 1 + q))
        second = np.zeros((0, p, p))
        if self.second_order:
            S = W if self.average is None else np.column_stack([W[:, 0], W[:, 1:] @ self.average])
            second = self.score.second_moment(XL, S) if some else np.zeros((S.shape[1], p, p))
        everything = np.zeros((0, 1 + p))
        if self.all_rows:
            ones = np.column_stack([w, Z * w[:, None]])
            everything = self.score.first_moment(np.asarray(X, dtype=np.float64), ones)
        own = np.zeros(0)
        if self.own is not None:
            U = np.column_stack([w, (Z @ self.own) * w[:, None]])
            own = self.score.second_moment(np.asarray(X, dtype=np.float64), U)
        return ScoreSums(
            n_labeled=float(w[mask].sum()),
            count=float(w.sum()),
            y=W[:, 1:].sum(axis=0),
            yy=V[:, 1:].T @ W[:, 1:],
            first=first,
            second=second,
            x=w @ Z,
            xx=weighted_gram(Z, weights),
            unlabeled=everything,
            own=own,
        )


def stein_from_sums(m: ScoreSums, plan: ScorePlan, *, standardize: bool) -> SteinMoments:
    """Centre y (and x in the unlabelled block) in sums of any score model; scores take columns' units the other way."""
    average = plan.average
    k, n = m.n_labeled if m.n_labeled > 0 else 1.0, m.count
    dy, dx = m.y / k, m.x / n
    raw = m.xx / n
    covariance = clear_flat(raw - np.outer(dx, dx), np.diag(raw))
    scale = column_scale(covariance, standardize=standardize)
    first = (m.first[:, 1:] - np.outer(m.first[:, 0], dy)) / k
    second = None
    if len(m.second):
        means = dy if average is None else (dy @ average)[None]
        second = (m.second[1:] - means[:, None, None] * m.second[0]) / k * scale * scale[:, None]
    unlabeled = None
    if len(m.unlabeled):
        unlabeled = (m.unlabeled[:, 1:] - np.outer(m.unlabeled[:, 0], dx)) / n / scale * scale[:, None]
    own = None
    if plan.own is not None:
        own = (m.own[1:] - (dx @ plan.own)[:, None, None] * m.own[0]) / n
        own = in_own_units(own, scale) * scale * scale[:, None]
    return SteinMoments(
        count=n,
        n_labeled=m.n_labeled,
        mean=plan.shift_x + dx,
        scale=scale,
        covariance=covariance / scale / scale[:, None],
        y_covariance=m.yy / k - np.outer(dy, dy),
        first=first * scale[:, None],
        second=second,
        unlabeled=unlabeled,
        averaged=average is not None,
        own=own,
    )


def stein_rows(n_columns: int) -> int:
    """Rows of a chunk."""
    return max(256, CHUNK_BYTES // (8 * n_columns))


def reduce_stein(
    plan: Any, X: Any, y: Any, weights: Any = None, labels: Any = None, chunk: int | None = None
) -> Any:
    """One pass of a plan over rows that may live in a Dask collection."""
    arrays = (X, y) if weights is None else (X, y, weights)
    if is_dask(X):
        return reduce_rows(Encoded(plan, None, labels), *arrays, chunk=chunk)
    with np.errstate(over="ignore", invalid="ignore"):
        total = reduce_rows(plan, *arrays, chunk=chunk or stein_rows(X.shape[1]))
    if not all_finite(total):
        raise overflow_error(X, labels, sample_weight=weights)
    return total


def fitted_score(score: ScoreModel, X: Any, weights: Any) -> ScoreModel:
    """The score model fitted to rows (a given law needs none), after a look at what it returns."""
    rows = np.asarray(sample_rows(X)[0][:2] if is_dask(X) else X[:2])
    if is_dask(X) and score.is_given:
        score.fit(rows)
    else:
        score = score.fit(X) if weights is None else score.fit(X, sample_weight=weights)
    shape = np.shape(score.score_function(rows))
    if shape != rows.shape:
        msg = (
            f"score_function of {type(score).__name__} gave shape {shape} for {len(rows)} rows; it must give one "
            f"score per row and column, {rows.shape}"
        )
        raise ValueError(msg)
    return score
