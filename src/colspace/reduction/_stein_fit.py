"""The sums and small matrices behind Stein's method of first and second order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from .._response import ResponseEncoder, is_gap
from ..factor import fix_signs
from ..moments import Additive, TripleMoments, TriplePlan, weighted_gram
from ..scores import GaussianScore, ScoreModel, gaussian_from_moments

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
    """Everything the directions are made of.

    ``first`` = E[s (y - mean)'] (p x q) and ``second`` = E[(y - mean) T] (q x p x p) over labelled rows with
    responses of covariance ``y_covariance``; ``unlabeled`` = E[s (x - mean)'] over all rows (p x p).
    """

    count: int
    n_labeled: int
    mean: Array
    covariance: Array
    y_covariance: Array
    first: Array
    second: Array | None
    unlabeled: Array | None


@dataclass(frozen=True)
class GaussianTables(Additive):
    """Moments of labelled rows and of the rest: all that a Gaussian score needs."""

    labeled: TripleMoments
    rest: TripleMoments


@dataclass(frozen=True)
class GaussianPlan:
    """``plan(X, y)`` is the statistic of a chunk; y may have gaps."""

    plan: TriplePlan
    encoder: ResponseEncoder | None

    def __call__(self, X: Any, y: Any) -> GaussianTables:
        """Statistic of one chunk."""
        mask, Y = split_response(y, self.encoder, len(self.plan.shift_y))
        order_one = TriplePlan(
            self.plan.slices,
            None,
            self.plan.shift_x,
            self.plan.shift_y,
            self.plan.plain,
            (),
            self.plan.keep_sparse,
        )
        none = np.broadcast_to(self.plan.shift_y, (int((~mask).sum()), len(self.plan.shift_y)))
        whole = mask.all()
        labeled = self.plan(X if whole else X[mask], Y)
        return GaussianTables(labeled, order_one(X[:0] if whole else X[~mask], none))


def split_response(y: Any, encoder: ResponseEncoder | None, q: int) -> tuple[Mask, Array]:
    """Which rows of a chunk are labelled, and their encoded responses; ``encoder`` None: no row is."""
    if encoder is None:
        return np.zeros(len(y), dtype=bool), np.zeros((0, q))
    mask = labelled_rows(y)
    return mask, encoder(known(y, mask)) if mask.any() else np.zeros((0, q))


def gaussian_score(template: GaussianScore, mean: Array, covariance: Array, count: int) -> GaussianScore:
    """A fitted copy of the template from moments; an infinite ridge replaces the covariance by its scale."""
    if template.location is not None:
        mean = np.asarray(template.location, dtype=np.float64)
    if template.covariance is not None:
        covariance, count = np.asarray(template.covariance, dtype=np.float64), len(mean) + 1
    if np.isinf(template.ridge):
        p = len(mean)
        return gaussian_from_moments(mean, np.trace(covariance) / p * np.eye(p), count=p + 1)
    return gaussian_from_moments(mean, covariance, template.ridge, template.pseudo_inverse, count)


def gaussian_moments(tables: GaussianTables) -> tuple[Array, Array, int]:
    """Mean, covariance and number of all rows."""
    a, b = tables.labeled, tables.rest
    n = a.count + b.count
    shift = (a.x + b.x) / n
    covariance = (a.xx[0, 0] + b.xx[0, 0]) / n - np.outer(shift, shift)
    return a.shift_x + shift, covariance, n


def stein_from_tables(tables: GaussianTables, score: GaussianScore | None) -> SteinMoments:
    """Moments of a Gaussian score with precision P: first P Cov(x, y), second P E[y d d'] P, rest P Cov(x).

    No score: P = I, about the mean of all rows.
    """
    mean, covariance, n = gaussian_moments(tables)
    m, location = tables.labeled, mean if score is None else score.location_
    k = max(m.count, 1)
    dx, dy = m.x / k, m.y / k
    cross = m.xy / k - np.outer(dx, dy)
    second = None
    if m.xyx:
        # E[(y - mean)(x - mu)(x - mu)'] about the mean mu of all rows
        off = m.shift_x + dx - location
        third = m.xyx[0, 0] / k - dy[:, None, None] * (m.xx[0, 0] / k)
        third = third - cross.T[:, :, None] * dx - dx[:, None] * cross.T[:, None, :]
        third = third + cross.T[:, :, None] * off + off[:, None] * cross.T[:, None, :]
        second = third if score is None else score.precision_ @ third @ score.precision_
    return SteinMoments(
        count=n,
        n_labeled=m.count,
        mean=mean,
        covariance=covariance,
        y_covariance=m.yy / k - np.outer(dy, dy),
        first=cross if score is None else score.precision_ @ cross,
        second=second,
        unlabeled=covariance if score is None else score.precision_ @ covariance,
    )


@dataclass(frozen=True)
class ScoreSums(Additive):
    """Sums over rows for any score model: labelled rows (with a constant column), and all rows."""

    n_labeled: int
    count: int
    y: Array
    yy: Array
    first: Array
    second: Array
    x: Array
    xx: Array
    unlabeled: Array


@dataclass(frozen=True)
class ScorePlan:
    """``plan(X, y)`` is the statistic of a chunk under a fitted score model."""

    score: ScoreModel
    encoder: ResponseEncoder | None
    shift_x: Array
    shift_y: Array
    second_order: bool
    all_rows: bool

    def __call__(self, X: Any, y: Any) -> ScoreSums:
        """Statistic of one chunk."""
        q = len(self.shift_y)
        mask, Y = split_response(y, self.encoder, q)
        V = np.column_stack([np.ones(len(Y)), Y - self.shift_y])
        XL = np.asarray(X[mask], dtype=np.float64)
        Z = np.subtract(X, self.shift_x, dtype=np.float64)
        p = Z.shape[1]
        some = len(XL) > 0
        first = self.score.first_moment(XL, V) if some else np.zeros((p, 1 + q))
        second = np.zeros((0, p, p))
        if self.second_order:
            second = self.score.second_moment(XL, V) if some else np.zeros((1 + q, p, p))
        everything = np.zeros((0, 1 + p))
        if self.all_rows:
            ones = np.column_stack([np.ones(len(Z)), Z])
            everything = self.score.first_moment(np.asarray(X, dtype=np.float64), ones)
        return ScoreSums(
            n_labeled=len(Y),
            count=len(Z),
            y=V[:, 1:].sum(axis=0),
            yy=V[:, 1:].T @ V[:, 1:],
            first=first,
            second=second,
            x=Z.sum(axis=0),
            xx=weighted_gram(Z),
            unlabeled=everything,
        )


def stein_from_sums(m: ScoreSums, shift_x: Array) -> SteinMoments:
    """Centre y (and x in the unlabelled block) in sums of any score model."""
    k, n = max(m.n_labeled, 1), m.count
    dy, dx = m.y / k, m.x / n
    first = (m.first[:, 1:] - np.outer(m.first[:, 0], dy)) / k
    second = None
    if len(m.second):
        second = (m.second[1:] - dy[:, None, None] * m.second[0]) / k
    unlabeled = None
    if len(m.unlabeled):
        unlabeled = (m.unlabeled[:, 1:] - np.outer(m.unlabeled[:, 0], dx)) / n
    return SteinMoments(
        count=n,
        n_labeled=m.n_labeled,
        mean=shift_x + dx,
        covariance=m.xx / n - np.outer(dx, dx),
        y_covariance=m.yy / k - np.outer(dy, dy),
        first=first,
        second=second,
        unlabeled=unlabeled,
    )


def inverse_root(covariance: Array) -> Array:
    """Symmetric inverse square root on the range of a covariance."""
    values, vectors = eigh(covariance)
    keep = values > 1e-10 * max(values[-1], np.finfo(float).tiny)
    return (vectors[:, keep] / np.sqrt(values[keep])) @ vectors[:, keep].T


def response_map(y_covariance: Array, *, whiten: bool) -> Array:
    """Responses are multiplied by this: the inverse root of their covariance, or of its diagonal."""
    if whiten:
        return inverse_root(y_covariance)
    variance = np.diag(y_covariance)
    return np.diag(1.0 / np.sqrt(np.where(variance > 0, variance, 1.0)))


def supervised_matrix(
    m: SteinMoments, order: Any, combine: str, transform: Array | None, root: Array | None
) -> Array:
    """The labelled rows' moments side by side, rows of the matrix being features.

    ``root`` is the metric: C^(1/2) with C the covariance, so that noise is even, or None for I, the published one.
    ``transform`` acts on responses (None: as they are).
    """
    parts = []
    if order in (1, "both"):
        first = m.first if transform is None else m.first @ transform
        parts.append(first if root is None else root @ first)
    if order in (2, "both"):
        assert m.second is not None
        stack = m.second if transform is None else np.einsum("jab,jk->kab", m.second, transform)
        if combine == "mean":
            stack = stack.mean(axis=0, keepdims=True)
        parts.extend(H if root is None else root @ H @ root for H in stack)
    return np.hstack(parts)


def blend(
    labeled: Array | None, unlabeled: Array | None, weight: float | str, norm: float | None = None
) -> Array:
    """M_l M_l' + (w rho)^2 M_u M_u', rho the ratio of spectral norms ("paper": both as they are).

    ``norm`` is that of M_u where it is known.
    """
    if labeled is None:
        assert unlabeled is not None
        return unlabeled @ unlabeled.T
    gram = labeled @ labeled.T
    if unlabeled is None or weight == 0.0:
        return gram
    scale = 1.0
    if not isinstance(weight, str):
        scale = weight * float(np.linalg.norm(labeled, 2)) / (norm or float(np.linalg.norm(unlabeled, 2)))
    return gram + scale**2 * (unlabeled @ unlabeled.T)


def leading(gram: Array, r: int) -> tuple[Array, Array]:
    """The r leading eigenvectors of a Gram matrix and the roots of its r + 1 leading eigenvalues."""
    p = len(gram)
    k = min(r + 1, p)
    values, vectors = eigh(gram, subset_by_index=[p - k, p - 1])
    return fix_signs(vectors[:, ::-1][:, :r]), np.sqrt(np.maximum(values[::-1], 0.0))


def is_flat(values: Array) -> bool:
    """Whether a block's singular values all agree to 1e-6: it then prefers no direction."""
    return bool(values.max() - values.min() <= 1e-6 * values.max())


@dataclass(frozen=True)
class SteinOptions:
    """What is asked of the moments: see SteinReduction."""

    n_components: int | str
    order: int | str
    whiten: bool | str
    whiten_response: bool | str
    combine: str
    unlabeled_weight: float | str


@dataclass(frozen=True)
class Frame:
    """Choices that the moments settle: metric, map of the responses, weight of the unlabelled block."""

    supervised: bool
    weight: float | str
    transform: Array | None
    root: Array | None
    inverse: Array | None


def settle(options: SteinOptions, m: SteinMoments, score: Any, labels: bool) -> Frame:
    """Resolve every "auto" against the moments."""
    supervised = m.n_labeled > 0 and len(m.y_covariance) > 0
    weight = _weight(options, m, labels) if supervised else 1.0
    transform = None
    if supervised and options.whiten_response is not False:
        enough = labels or m.n_labeled >= 10 * len(m.mean)
        whiten_y = enough if isinstance(options.whiten_response, str) else True
        transform = response_map(m.y_covariance, whiten=whiten_y)
    whiten = options.whiten if isinstance(options.whiten, bool) else supervised and weight == 0.0
    if not whiten:
        return Frame(supervised, weight, transform, None, None)
    metric = m.covariance + getattr(score, "ridge_", 0.0) * np.eye(len(m.mean))
    inverse = inverse_root(metric)
    return Frame(supervised, weight, transform, metric @ inverse, inverse)


def _weight(options: SteinOptions, m: SteinMoments, labels: bool) -> float | str:
    if options.unlabeled_weight != "auto":
        return options.unlabeled_weight
    if m.n_labeled == m.count:
        return 0.0
    few = m.n_labeled < 5 * len(m.y_covariance)
    beyond = not isinstance(options.n_components, str) and options.n_components > response_rank(m)
    return 1.0 if labels or few or beyond else 0.3


def response_rank(m: SteinMoments) -> int:
    """Number of linearly independent responses."""
    return int(np.linalg.matrix_rank(m.y_covariance, hermitian=True))


@dataclass(frozen=True)
class SteinSolution:
    """Directions (r x p), singular values, the weight in force, and what the user should know."""

    components: Array
    values: Array
    weight: float | str
    notes: tuple[str, ...]


def solve_stein(
    options: SteinOptions, m: SteinMoments, frame: Frame, r: int, *, exact: bool
) -> SteinSolution:
    """Directions from moments; ``exact``: the score is a Gaussian, whose unlabelled block is PCA's."""
    notes: list[str] = []
    labeled, unlabeled, weight, norm = None, None, frame.weight, None
    if frame.supervised:
        labeled = supervised_matrix(m, options.order, options.combine, frame.transform, frame.root)
    if weight != 0.0:
        assert m.unlabeled is not None
        unlabeled = m.unlabeled
        singular = np.linalg.svd(unlabeled, compute_uv=False)
        norm, flat = float(singular[0]), is_flat(np.asarray(singular, dtype=np.float64))
        if frame.supervised and flat:
            unlabeled, weight = None, 0.0
            notes.append(
                "the block of the unlabelled rows is flat, as it is for every exact score, so they add nothing. "
                "Remedy: a smoothed score, e.g. score_model=GaussianScore(ridge=1.0)"
            )
        elif not frame.supervised and (flat or exact):
            unlabeled = m.covariance
            notes.append(
                "without labels the scores prefer no direction by themselves; the directions are those of PCA"
            )
    directions, values = leading(blend(labeled, unlabeled, weight, norm), r)
    rank = response_rank(m) if frame.supervised else 0
    if frame.supervised and weight == 0.0 and options.order == 1 and r > rank:
        notes.append(
            f"n_components={r} is more than the {rank} direction(s) that the responses can show in first "
            "order; the rest are arbitrary. Remedies: fewer, order='both', or unlabeled_weight > 0"
        )
    elif len(values) > r and values[r] > 0.99 * values[r - 1] > 0:
        notes.append(
            f"no gap after component {r}: singular values {values[r - 1]:.3g} and {values[r]:.3g}, so the last "
            "directions are not determined by the data. Try another n_components, or 'auto'"
        )
    components = directions if frame.inverse is None else frame.inverse @ directions
    return SteinSolution(components.T, values[:r], weight, tuple(notes))
