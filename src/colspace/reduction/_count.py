"""The number of directions that a held-out reader of y can tell from fewer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._response import ConstantResponseError
from ..factor import eigh

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Embed = Callable[[Index], Sequence[Array]]

FOLDS = 5
#: Directions per block that are tried, at most.
MOST = 10
# rows under which nothing is compared
_LEAST_ROWS = 2 * FOLDS
# improvements under this share of what the best number explains do not count
_SHARE = 0.01
# ridges in units of the features' variance; the last leaves the mean alone
_RIDGES = 10.0 ** np.linspace(-5.0, 4.0, 19)
# features of the quadratic reader: at most this many, and rows for each
_TERMS = 400
_ROWS_PER_TERM = 3


@dataclass(frozen=True)
class Count:
    """A number of directions and what it was chosen by, for h = 0, 1, ..., limit.

    ``score`` is 1 - (squared error on rows left out)/(variance), ``error`` its standard error, ``difference_error`` that
    of its difference to the best; all are empty where rows are too few to compare.
    """

    n_components: int
    score: Array
    error: Array
    difference_error: Array

    def as_dict(self) -> dict[str, Array]:
        """What a fitted estimator keeps."""
        return {"score": self.score, "error": self.error, "difference_error": self.difference_error}


def held_out_count(
    fit_directions: Callable[[Index], Embed],
    Y: Array,
    weights: Array | None,
    folds: Index,
    limit: int,
    *,
    labels: bool = False,
) -> Count:
    r"""The least h with :math:`L_h - L_* \le \max(\mathrm{se}(L_h - L_*), (L_0 - L_*)/100)`, L the held-out loss and * its least.

    ``fit_directions(train)`` learns from rows and gives the function that embeds rows: per block a matrix whose first h
    columns are its h leading directions. :math:`L_h` is the mean squared error of standardised responses (of indicators
    of labels) on the rows of each fold, read by a ridge on the embedding, or by one on its squares and products too,
    whichever is better; :math:`L_0` is the variance. Rows of fold -1 are never left out. Zero is given where nothing beats the mean.
    """
    w = np.ones(len(Y)) if weights is None else weights
    mean = w @ Y / w.sum()
    V = Y - mean
    if not labels:
        V = V / power_of_two(np.abs(V).max(axis=0))  # squares of tiny responses are zero
        deviation = np.sqrt(w @ V**2 / w.sum())
        V = V / np.where(deviation > 0, deviation, 1.0)
    losses = np.full((2, limit + 1, len(Y)), np.nan)
    for k in range(int(folds.max(initial=-1)) + 1):
        train, test = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
        if not len(test) or not np.ptp(V[train], axis=0).all():
            continue
        try:
            embed = fit_directions(train)
        except ConstantResponseError:
            continue
        losses[:, 1:, test] = reader_losses(embed(train), V[train], w[train], embed(test), V[test], limit)
    seen = ~np.isnan(losses[0, 1])
    if seen.sum() < _LEAST_ROWS:
        empty = np.zeros(0)
        return Count(0, empty, empty, empty)
    losses, w, V = losses[:, :, seen], w[seen], V[seen]
    losses[:, 0] = np.sum((V - w @ V / w.sum()) ** 2, axis=1)
    spread = float(losses[0, 0] @ w / w.sum())
    found, loss, error, difference_error = least_within_error(better_reader(losses, w), w)
    return Count(found, 1.0 - loss / spread, error / spread, difference_error / spread)


def better_reader(losses: Array, w: Array) -> Array:
    """Of losses (readers x numbers x rows), for each number those of the reader with the least mean."""
    best = np.argmin(losses @ w, axis=0)
    return losses[best, np.arange(losses.shape[1])]


def least_within_error(losses: Array, w: Array) -> tuple[int, Array, Array, Array]:
    """The first row of losses (numbers x rows) within a standard error (or 1 % of the gain) of the best; means and errors.

    se(d)^2 = n/(n - 1) sum of w_i^2 (d_i - mean)^2 over (sum of w)^2.
    """
    mean = losses @ w / w.sum()
    best = int(np.argmin(mean))
    gap = losses - losses[best]
    error, difference_error = standard_error(losses, w), standard_error(gap, w)
    tolerated = np.maximum(difference_error, _SHARE * (mean[0] - mean[best]))
    return int(np.argmax(mean - mean[best] <= tolerated)), mean, error, difference_error


def standard_error(losses: Array, w: Array) -> Array:
    """Standard errors of weighted means along rows."""
    n = len(w)
    off = (losses - (losses @ w / w.sum())[:, None]) * w
    unit = power_of_two(np.abs(off).max(axis=1))  # squares of large losses overflow
    return np.sqrt(n / (n - 1) * np.sum((off / unit[:, None]) ** 2, axis=1)) / w.sum() * unit


def power_of_two(size: Array) -> Array:
    """A power of two near each size, by which values are divided without rounding."""
    return np.ldexp(1.0, np.maximum(np.frexp(size)[1] - 1, -1074))


def reader_losses(
    Z: Sequence[Array], V: Array, w: Array, Z_test: Sequence[Array], V_test: Array, limit: int
) -> Array:
    """Squared errors (2 readers x h = 1, ..., limit x rows) on further rows."""
    share = w / w.sum()
    target = share @ V
    level = np.concatenate([np.arange(1, A.shape[1] + 1) for A in Z])
    rows = 1.0 / float(share @ share)
    room = min(_TERMS, rows / _ROWS_PER_TERM)
    terms = quadratic_terms(level, limit, room)
    train, test = standardised(np.hstack(Z), np.hstack(Z_test), share)
    held = np.clip(test, train.min(axis=0), train.max(axis=0))  # a product is not asked what lies beyond
    left, right = terms.pairs
    F, F_test = standardised(
        np.hstack([train, train[:, left] * train[:, right]]),
        np.hstack([test, held[:, left] * held[:, right]]),
        share,
    )
    gram, cross = (F.T * share) @ F, (F.T * share) @ (V - target)
    total = float(share @ np.sum((V - target) ** 2, axis=1))
    out = np.empty((2, limit, len(V_test)))
    for h in range(1, limit + 1):
        chosen = (np.flatnonzero(level <= h), terms.upto(h))
        for reader, kept in enumerate(chosen):
            if reader == 1 and len(kept) == len(chosen[0]):
                out[1, h - 1] = out[0, h - 1]
                continue
            B = ridge_by_gcv(gram[np.ix_(kept, kept)], cross[kept], total, rows)
            out[reader, h - 1] = np.sum((V_test - target - F_test[:, kept] @ B) ** 2, axis=1)
    return out


@dataclass(frozen=True)
class Terms:
    """Terms of the quadratic reader: columns, then products of ``pairs`` of them."""

    level: Index  # the number of directions with which a column comes
    pairs: tuple[Index, Index]
    kinds: tuple[int, ...]  # for h = 1, ...: 0 columns alone, 1 their squares, 2 all products

    def upto(self, h: int) -> Index:
        """Positions of the terms of h directions."""
        left, right = self.pairs
        there = np.maximum(self.level[left], self.level[right]) <= h
        kept = there & ((self.kinds[h - 1] == 2) | ((self.kinds[h - 1] == 1) & (left == right)))
        return np.concatenate([np.flatnonzero(self.level <= h), len(self.level) + np.flatnonzero(kept)])


def quadratic_terms(level: Index, limit: int, room: float) -> Terms:
    """All products while columns and products are at most ``room``, then squares, then nothing."""
    kinds = []
    for h in range(1, limit + 1):
        d = int(np.count_nonzero(level <= h))
        kinds.append(2 if d * (d + 3) / 2 <= room else 1 if 2 * d <= room else 0)
    left, right = np.triu_indices(len(level))
    widest = max((h for h, kind in enumerate(kinds, 1) if kind == 2), default=0)
    squares = max((h for h, kind in enumerate(kinds, 1) if kind), default=0)
    there = np.maximum(level[left], level[right])
    used = (there <= widest) | ((left == right) & (there <= squares))
    return Terms(level, (left[used], right[used]), tuple(kinds))


def standardised(A: Array, B: Array, share: Array) -> tuple[Array, Array]:
    """Both tables in units of the first; what does not vary there is zero."""
    mean = share @ A
    A, B = A - mean, B - mean
    deviation = np.sqrt(share @ A**2)
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return A * inverse, B * inverse


def ridge_by_gcv(gram: Array, cross: Array, total: float, rows: float) -> Array:
    r"""Coefficients of the ridge with the least generalised cross-validation error.

    With gram :math:`= V S V^\top` and :math:`t = V^\top` cross it is
    :math:`(\mathrm{total} - \sum t^2 (s + 2\lambda)/(s + \lambda)^2)/(1 - (1 + \sum s/(s + \lambda))/n)^2`.
    """
    s, U = eigh(gram)
    s = np.maximum(s, 0.0)
    t = U.T @ cross
    energy = np.sum(t * t, axis=1)
    below = s[:, None] + _RIDGES
    error = total - energy @ ((s[:, None] + 2 * _RIDGES) / below**2)
    free = 1.0 - (1.0 + np.sum(s[:, None] / below, axis=0)) / rows
    gcv = np.where(free > 0, np.maximum(error, 0.0) / np.where(free > 0, free, 1.0) ** 2, np.inf)
    best = len(gcv) - 1 - int(np.argmin(gcv[::-1]))  # the largest of equals
    return U @ (t / below[:, [best]])


def deal_folds(classes: Index | None, n: int) -> Index:
    """Folds of n rows in turn, class by class; a class's only row is never left out (-1)."""
    if classes is None:
        return np.arange(n) % FOLDS
    order = np.argsort(classes, kind="stable")
    folds = np.empty(n, dtype=np.intp)
    folds[order] = np.arange(n) % FOLDS
    folds[np.bincount(classes)[classes] == 1] = -1
    return folds


def kept_components(count: Count, further: str = "") -> int:
    """The count, or one and a warning that says why; ``further`` is its last sentence."""
    if count.n_components:
        return count.n_components
    reason = "no direction improves the prediction of y on rows left out by more than its standard error: take the loadings as noise"
    if not len(count.score):
        reason = f"fewer than {_LEAST_ROWS} different rows could be left out, too few to compare numbers of directions"
    warnings.warn(f"{reason}. One component is kept. {further}".rstrip(), UserWarning, stacklevel=6)
    return 1
