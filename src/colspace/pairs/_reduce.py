"""Moments over pairs of entities in closed form, and the reductions of both sides that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..factor import Whitener, eigh, fix_signs, full_whitener, left_singular, svd
from ..reduction._phd import hessian_directions
from ._links import Links

Array = NDArray[np.float64]
Index = NDArray[np.intp]

REDUCTIONS = ("joint", "pca", "phd", "cphd", "sols")
_DIRECTIONS = 10  # where none are asked for
WHITENED = ("joint", "phd", "cphd", "sols")


@dataclass(frozen=True)
class Embedding:
    """x -> scale * loadings' (x - mean) for one side; ``values`` are the singular values or eigenvalues behind it."""

    mean: Array
    loadings: Array
    scale: Array
    values: Array

    def __call__(self, X: Array) -> Array:
        """Embedded entities."""
        return (X - self.mean) @ (self.loadings * self.scale)


@dataclass(frozen=True)
class PairMoments:
    """Moments over the observed pairs, (left, right) each; those that a reduction does not need are None.

    ``cross`` is E[y' a b'], ``hessians`` E[y' a a'] and E[y' b b'], ``regressions`` the covariances with y' within
    groups of entities, ``between`` the covariance of a and b (zero when all pairs are observed).
    """

    counts: tuple[int, int]
    means: tuple[Array, Array]
    covariances: tuple[Array, Array]
    cross: Array | None = None
    hessians: tuple[Array, Array] | None = None
    regressions: tuple[Array, Array] | None = None
    between: Array | None = None


def pair_moments(A: Array, B: Array, links: Links, reduction: str, r: int, rng: Any = 0) -> PairMoments:
    """All that a reduction needs to know of the pairs; sparse scores stay sparse.

    When every pair is observed a and b are independent over pairs, so their means and covariances are those of the
    entities, and E[y' a' b''] = A'^T Y B' / (count sd(y)) as the centring of y drops out. Otherwise entities count
    as often as their pairs do, and the pattern of counts times the mean of y is taken off.
    """
    weights = links.degrees(1), links.degrees(0)
    centred, means, covariances = [], [], []
    for X, d in zip((A, B), weights, strict=True):
        first = X[0 if d is None else int(np.argmax(d > 0))]
        C = X - first  # constant columns are exactly zero, which the mean of X may miss by a rounding error
        shift = C.mean(axis=0) if d is None else d @ C / d.sum()
        C -= shift
        covariances.append(C.T @ C / len(C) if d is None else C.T @ (C * (d / d.sum())[:, None]))
        centred.append(C)
        means.append(first + shift)
    Ac, Bc = centred
    counts = [len(X) if d is None else int((d > 0).sum()) for X, d in zip((A, B), weights, strict=True)]
    total = links.count * links.deviation or np.inf  # scores that are all the same say nothing
    found: dict[str, Any] = {}
    if reduction in ("joint", "cphd"):
        residual = links.scores if links.counted is None else links.scores - links.mean * links.counted
        level = links.mean * links.base * np.outer(Ac.sum(axis=0), Bc.sum(axis=0))
        found["cross"] = (Ac.T @ (residual @ Bc) - level) / total
    if reduction in ("phd", "cphd"):
        sums = _residual_sums(links)
        found["hessians"] = tuple(C.T @ (C * s[:, None]) / total for C, s in zip(centred, sums, strict=True))
    if reduction == "cphd" and links.counted is not None:
        level = links.base * np.outer(Ac.sum(axis=0), Bc.sum(axis=0))
        found["between"] = (Ac.T @ (links.counted @ Bc) + level) / links.count
    if reduction == "sols":
        found["regressions"] = tuple(
            group_regressions(C, _groups(C, r, rng), *parts) / total
            for C, parts in zip(centred, _row_totals(links), strict=True)
        )
    return PairMoments(
        (counts[0], counts[1]), (means[0], means[1]), (covariances[0], covariances[1]), **found
    )


def _row_totals(links: Links) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Sum of scores and number of observed pairs of each entity, left and right."""
    found = []
    for axis in (1, 0):
        d = links.degrees(axis)
        degree = np.full(links.shape[1 - axis], float(links.shape[axis])) if d is None else d
        found.append((np.asarray(links.scores.sum(axis=axis)).ravel(), degree))
    return found[0], found[1]


def _residual_sums(links: Links) -> tuple[Array, Array]:
    """Sum of y - mean over the observed pairs of each entity."""
    left, right = (sums - links.mean * degree for sums, degree in _row_totals(links))
    return left, right


def _groups(C: Array, n_groups: int, rng: Any) -> Index:
    """Groups of entities by k-means on standardised features."""
    from sklearn.cluster import KMeans

    if len(C) < 2 * n_groups:
        msg = (
            f"reduction='sols' takes {n_groups} directions from as many groups of entities, and {len(C)} entities are too "
            f"few for that; use n_components={max(1, len(C) // 2)} or less, or another reduction"
        )
        raise ValueError(msg)
    scale = C.std(axis=0)
    labels = KMeans(n_groups, n_init=1, random_state=rng).fit_predict(C / np.where(scale > 0, scale, 1.0))
    return np.asarray(labels, dtype=np.intp)


def group_regressions(C: Array, groups: Index, sums: Array, degrees: Array) -> Array:
    """Sum over the pairs of each group of (x - group mean)(y - group mean): features x groups."""
    indicator = sparse.csr_array((np.ones(len(C)), (groups, np.arange(len(C)))))
    size = np.maximum(indicator @ degrees, 1e-300)
    x_mean = (indicator @ (C * degrees[:, None])) / size[:, None]
    return ((indicator @ (C * sums[:, None])) - x_mean * (indicator @ sums)[:, None]).T


def count_of(r: int | None, widths: tuple[int, int], reduction: str) -> int:
    """Directions of each side: as many as asked, or ten; more than the features give are refused where they are asked for."""
    limit = sum(widths) // 2 if reduction == "cphd" else min(widths)
    if r is None:
        return min(_DIRECTIONS, limit)
    if r > limit:
        of = f"A has {widths[0]} features and B {widths[1]}"
        msg = f"n_components={r} is more than reduction={reduction!r} can give: {of}; use at most {limit}"
        raise ValueError(msg)
    return int(r)


def embeddings(m: PairMoments, reduction: str, r: int, shrinkage: float) -> tuple[Embedding, Embedding]:
    """Both sides' embeddings of r directions (2r for "cphd")."""
    if reduction == "pca":
        left, right = (_principal(mean, C, r) for mean, C in zip(m.means, m.covariances, strict=True))
        return left, right
    if reduction == "cphd":
        return _concatenated(m, r, shrinkage)
    whiteners = [_whitener(C, n, shrinkage, w) for C, n, w in zip(m.covariances, m.counts, "AB", strict=True)]
    if reduction == "joint":
        assert m.cross is not None
        half = whiteners[0].apply(m.cross)
        U, s, Vt = svd(whiteners[1].apply(half.T).T, what="the proxy of A and B")
        signs = np.sign(np.sum(fix_signs(U[:, :r]) * U[:, :r], axis=0))
        sides = [(U[:, :r] * signs, s[:r]), (Vt[:r].T * signs, s[:r])]
    elif reduction == "phd":
        assert m.hessians is not None
        sides = [
            hessian_directions(w.both_sides(H[None], w), r)
            for w, H in zip(whiteners, m.hessians, strict=True)
        ]
    else:
        assert m.regressions is not None
        sides = [left_singular(w.apply(R), r) for w, R in zip(whiteners, m.regressions, strict=True)]
    left, right = (
        Embedding(mean, w.loadings(U), np.sqrt(np.abs(s)), s)
        for mean, w, (U, s) in zip(m.means, whiteners, sides, strict=True)
    )
    return left, right


def _whitener(C: Array, count: int, shrinkage: float, what: str) -> Whitener:
    remedies = "shrinkage='auto' (or a number in (0, 1]), or fewer features"
    return full_whitener(C, count, shrinkage, what=what, remedies=remedies)


def _principal(mean: Array, C: Array, r: int) -> Embedding:
    values, vectors = eigh(C, r, what="the covariance of the features")
    values = np.sqrt(np.maximum(values[::-1], 0.0))
    return Embedding(mean, fix_signs(vectors[:, ::-1]), np.ones(r), values)


def _concatenated(m: PairMoments, r: int, shrinkage: float) -> tuple[Embedding, Embedding]:
    """2r principal Hessian directions of the features side by side, and each side's part of them."""
    assert m.cross is not None
    assert m.hessians is not None
    n = len(m.means[0])
    between = np.zeros_like(m.cross) if m.between is None else m.between
    covariance = np.block([[m.covariances[0], between], [between.T, m.covariances[1]]])
    hessian = np.block([[m.hessians[0], m.cross], [m.cross.T, m.hessians[1]]])
    whitener = _whitener(covariance, sum(m.counts), shrinkage, "[A, B]")
    U, values = hessian_directions(whitener.both_sides(hessian[None], whitener), 2 * r)
    loadings, scale = whitener.loadings(U), np.sqrt(np.abs(values))
    return (
        Embedding(m.means[0], loadings[:n], scale, values),
        Embedding(m.means[1], loadings[n:], scale, values),
    )
