"""Shrinkage and bandwidths by cross-validation over held-out left entities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._kernel import CHUNK, UNREACHED, excess_distances, kernel_rows, median_distance, pair_weights
from ._links import Links
from ._reduce import PairMoments, embeddings, pair_moments

Array = NDArray[np.float64]
Index = NDArray[np.intp]

SHRINKAGES = (0.3, 0.03, 0.1, 0.5, 0.8)  # the first is tried with all bandwidths
LEFT = RIGHT = (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
HELD_OUT = 1000  # left entities whose predictions are looked at
CANDIDATES = 4000  # right entities up to which all are ranked
SAMPLE = 2000  # as many are beyond that


@dataclass(frozen=True)
class Settings:
    """What can be tuned; bandwidths are relative to the median distance of their side."""

    shrinkage: float
    left: float
    right: float


@dataclass(frozen=True)
class Grid:
    """Values to try for each setting."""

    shrinkage: tuple[float, ...]
    left: tuple[float, ...]
    right: tuple[float, ...]

    @property
    def settings(self) -> list[Settings]:
        """All combinations."""
        return [Settings(a, h, g) for a in self.shrinkage for h in self.left for g in self.right]

    def first(self) -> Grid:
        """All bandwidths with the first shrinkage."""
        return Grid(self.shrinkage[:1], self.left, self.right)

    def near(self, best: Settings) -> Grid:
        """The other shrinkages with bandwidths at most one step from the best."""
        return Grid(self.shrinkage[1:], _around(self.left, best.left), _around(self.right, best.right))


def _around(values: tuple[float, ...], centre: float) -> tuple[float, ...]:
    i = values.index(centre)
    return values[max(0, i - 1) : i + 2]


def entity_folds(linked: Index, n_splits: int, rng: np.random.Generator) -> list[Index]:
    """Linked entities in folds of about equal size."""
    if len(linked) < n_splits:
        msg = (
            f"{n_splits} folds need as many left entities with links, and there are {len(linked)}. Remedies: a smaller "
            "cv, or bandwidth and shrinkage as numbers"
        )
        raise ValueError(msg)
    return [np.sort(fold) for fold in np.array_split(rng.permutation(linked), n_splits)]


def top_gains(
    scores: Any, rows: Index, columns: Index, n_top: int, weight: Array | None = None
) -> tuple[Array, Any]:
    """Per row: recall at k averaged over k = 1..n_top, and whether it has partners that weigh; see `top_score`."""
    n = scores.shape[1]
    best = np.partition(scores, max(n - n_top - 1, 0), axis=1)[:, max(n - n_top - 1, 0) :]
    least = best.min(axis=1, keepdims=True)
    own = scores[rows, columns]
    above = np.sum(best[rows] > own[:, None], axis=1)
    tied = np.sum(best[rows] == own[:, None], axis=1)
    last = own == least[rows, 0]  # ties with the last of the best may go on beyond them
    tied = np.where(last, np.sum(scores == least, axis=1)[rows], tied)
    gain = np.maximum(0.0, 1.0 - (above + (tied - 1) / 2) / n_top)
    gain[own < least[rows, 0]] = 0.0
    weight = np.ones(len(rows)) if weight is None else weight
    count = np.bincount(rows, weights=weight, minlength=len(scores))
    total = np.bincount(rows, weights=weight * gain, minlength=len(scores))
    return total / np.where(count > 0, count, 1.0), count > 0


def top_score(scores: Any, rows: Index, columns: Index, n_top: int, weight: Array | None = None) -> float:
    """Recall at k averaged over k = 1..n_top, and over rows; ties: middle rank; partners count as often as they weigh.

    A partner of rank q is found by the lists of length k >= q, a share 1 - (q - 1) / n_top of them.
    """
    gain, has = top_gains(scores, rows, columns, n_top, weight)
    return float(np.mean(gain[has]))


def squared_score(
    scores: Any, rows: Index, columns: Index, truth: Array, weight: Array | None = None
) -> float:
    """Minus the mean squared error of observed scores."""
    return -float(np.average((scores[rows, columns] - truth) ** 2, weights=weight))


@dataclass(frozen=True)
class Problem:
    """What is tuned: entities, links, the reduction with its number of directions, and the list that matters."""

    A: Array
    B: Array
    links: Links
    reduction: str
    n_components: int
    n_top: int


@dataclass(frozen=True)
class Fold:
    """Training part and held-out pairs of one fold; ``rows`` and ``columns`` point into test and candidates."""

    train: Index
    test: Index
    candidates: Index
    rows: Index
    columns: Index
    truth: Array
    weight: Array
    moments: PairMoments
    seen: Links


def tune(
    problem: Problem, grid: Grid, n_splits: int, rng: np.random.Generator
) -> tuple[list[Settings], Array]:
    """Settings with their mean score over folds of held-out left entities, larger is better.

    Zero-filled scores: how far up the list a held-out entity's partners stand (`top_score`). Observed ones: minus
    the squared error. At most HELD_OUT entities are looked at, among a sample of partners when there are many. All
    bandwidths are tried with the first shrinkage, then the other shrinkages around the best of them.
    """
    folds = list(_folds(problem, n_splits, rng))
    total = _scores(problem, folds, grid.first())
    if len(grid.shrinkage) > 1:
        total |= _scores(problem, folds, grid.near(max(total, key=lambda s: total[s])))
    return list(total), np.array(list(total.values()))


def _folds(problem: Problem, n_splits: int, rng: np.random.Generator) -> Iterator[Fold]:
    A, B, links = problem.A, problem.B, problem.links
    pattern = links.positives() if links.mask is None else links.mask
    linked = np.flatnonzero(np.diff(pattern.indptr))
    for fold in entity_folds(linked, n_splits, rng):
        train = np.setdiff1d(np.arange(len(A)), fold)
        seen = links.rows(train)
        if not np.any(seen.scores.data) or seen.deviation == 0:
            msg = (
                "a fold leaves nothing to learn from: too few left entities have links. Give bandwidth and shrinkage as "
                "numbers"
            )
            raise ValueError(msg)
        test = np.sort(rng.permutation(fold)[: max(1, HELD_OUT // n_splits)])
        candidates = _candidates(pattern[test], len(B), rng)
        rows, columns = pattern[test][:, candidates].tocoo().coords
        truth = np.asarray(links.Y[test[rows], candidates[columns]]).ravel()
        weight = links.weights_at(test[rows], candidates[columns])
        moments = pair_moments(A[train], B, seen, problem.reduction, problem.n_components, 0)
        yield Fold(train, test, candidates, rows, columns, truth, weight, moments, seen)


def _scores(problem: Problem, folds: list[Fold], grid: Grid) -> dict[Settings, float]:
    A, B = problem.A, problem.B
    total = dict.fromkeys(grid.settings, 0.0)
    for fold in folds:
        n_top = max(1, round(min(problem.n_top, len(B)) * len(fold.candidates) / len(B)))
        for shrinkage in grid.shrinkage:
            left, right = embeddings(fold.moments, problem.reduction, problem.n_components, shrinkage)
            found = grid_scores(
                left(A[fold.test]), left(A[fold.train]), right(B), fold.candidates, fold.seen, grid
            )
            for (h, g), scores in found:
                value = (
                    top_score(scores, fold.rows, fold.columns, n_top, fold.weight)
                    if fold.seen.mask is None
                    else squared_score(scores, fold.rows, fold.columns, fold.truth, fold.weight)
                )
                total[Settings(shrinkage, h, g)] += value / len(folds)
    return total


def _candidates(held_out: Any, n: int, rng: np.random.Generator) -> Index:
    """All right entities, or a sample: about as many partners of each held-out entity, and as many others in all."""
    if n <= CANDIDATES:
        return np.arange(n)
    each = max(1, SAMPLE // (2 * held_out.shape[0]))
    partners = [rng.permutation(held_out.indices[i:j])[:each] for i, j in pairwise(held_out.indptr)]
    kept = np.unique(np.concatenate(partners))
    others = rng.permutation(np.setdiff1d(np.arange(n), kept))[: max(SAMPLE - len(kept), SAMPLE // 2)]
    return np.sort(np.concatenate([kept, others]))


def grid_scores(
    test: Array, train: Array, right: Array, candidates: Index, seen: Links, grid: Grid
) -> Iterator[tuple[tuple[float, float], Any]]:
    """Predictions for every pair of bandwidths, one at a time.

    Single precision is enough to rank partners; weights of observed pairs would underflow in it.
    """
    plain = seen.counted is None
    precision: Any = np.float32 if plain else np.float64
    units = median_distance(train), median_distance(right)
    distances = excess_distances(test, train, units[0])
    smoothed, counts = [], []
    for h in grid.left:
        K = kernel_rows(distances.copy(), h)
        smoothed.append((_rows_to_one(K) if plain else K) @ seen.scores)
        counts.append(np.zeros((0, seen.shape[1])) if plain else pair_weights(K, seen))
    sums: list[Any] = [np.vstack(part).astype(precision, copy=False) for part in (smoothed, counts)]
    step = max(1, CHUNK // len(right))
    for g in grid.right:
        blocks = []
        for start in range(0, len(candidates), step):
            chosen = right[candidates[start : start + step]]
            K = kernel_rows(excess_distances(chosen, right, units[1]).astype(precision, copy=False), g)
            if plain:
                blocks.append(sums[0] @ _rows_to_one(K).T)
                continue
            weights = sums[1] @ K.T
            scores = np.full_like(weights, seen.mean)
            blocks.append(np.divide(sums[0] @ K.T, weights, out=scores, where=weights > UNREACHED))
        scores = np.hstack(blocks)
        for n, h in enumerate(grid.left):
            yield (h, g), scores[n * len(test) : (n + 1) * len(test)]


def _rows_to_one(K: Any) -> Any:
    K /= K.sum(axis=1, keepdims=True)
    return K
