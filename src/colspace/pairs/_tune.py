"""Shrinkage and bandwidths by cross-validation over held-out left entities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._climb import climb
from ._kernel import CHUNK, UNREACHED, Smoother, excess_distances, kernel_rows, median_distance, pair_weights
from ._links import Links
from ._ranking import assemble
from ._reduce import PairMoments, embeddings, pair_moments
from ._sum_kernel import sum_smoother

Array = NDArray[np.float64]
Index = NDArray[np.intp]

SHRINKAGES = (0.03, 0.1, 0.3, 0.5, 0.8)
LEFT = RIGHT = (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
COMPONENTS = (10, 25, 50, 100)
START = (0.3, 0.2, 0.2)  # shrinkage and bandwidths to begin at
HELD_OUT = 1000  # left entities whose predictions are looked at
CANDIDATES = 4000  # right entities up to which all are ranked
SAMPLE = 2000  # as many are beyond that
_KEPT = 2**24  # distances kept between settings at most


@dataclass(frozen=True)
class Settings:
    """What can be tuned; bandwidths are relative to the median distance of their side; directions: None as given."""

    shrinkage: float
    left: float
    right: float
    n_components: int | None = None


@dataclass(frozen=True)
class Grid:
    """Values to try for each setting."""

    shrinkage: tuple[float, ...]
    left: tuple[float, ...]
    right: tuple[float, ...]
    n_components: tuple[int | None, ...] = (None,)

    @property
    def ladders(self) -> tuple[tuple[Any, ...], ...]:
        """Values of each setting."""
        return self.shrinkage, self.left, self.right, self.n_components

    @property
    def settings(self) -> list[Settings]:
        """All combinations."""
        return [Settings(*values) for values in product(*self.ladders)]

    @property
    def start(self) -> tuple[int, ...]:
        """Places to begin at: shrinkage near .3, bandwidths near .2, the middle number of directions."""
        near = [
            int(np.argmin(np.abs(np.subtract(values, at))))
            for values, at in zip(self.ladders, START, strict=False)
        ]
        return (*near, len(self.n_components) // 2)


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
    the squared error. At most HELD_OUT entities are looked at, among a sample of partners when there are many. The
    search climbs along one setting at a time.
    """
    most = max(problem.n_components if r is None else r for r in grid.n_components)
    folds = [_Judge(problem, fold, most) for fold in _folds(problem, n_splits, rng)]
    tried: dict[Settings, float] = {}

    def score(places: tuple[int, ...]) -> float:
        settings = Settings(*(values[k] for values, k in zip(grid.ladders, places, strict=True)))
        if settings not in tried:
            tried[settings] = sum(fold.score(settings) for fold in folds) / len(folds)
        return tried[settings]

    score(grid.start)
    climb(score, tuple(len(values) for values in grid.ladders), grid.start)
    return list(tried), np.array(list(tried.values()))


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


@dataclass(frozen=True)
class Held:
    """Predictions of some left entities that did not see what they are asked: scores, and where the partners are."""

    entities: Index
    scores: Any
    rows: Index
    columns: Index
    truth: Array
    weight: Array


def refits(
    problem: Problem, settings: Settings, n_splits: int, rng: np.random.Generator, kernel: str = "separable"
) -> Iterator[Held]:
    """Predictions of held-out left entities by fits to the others with the same settings."""
    r = settings.n_components or problem.n_components
    for fold in _folds(problem, n_splits, rng):
        left, right = embeddings(fold.moments, problem.reduction, r, settings.shrinkage)
        train, F = left(problem.A[fold.train]), right(problem.B)
        widths = settings.left * median_distance(train), settings.right * median_distance(F)
        make = Smoother if kernel == "separable" else sum_smoother
        E, chosen = left(problem.A[fold.test]), F[fold.candidates]
        blocks = make(train, F, fold.seen, widths).blocks(E, chosen)
        scores = assemble(blocks, (len(E), len(chosen)))
        yield Held(fold.test, scores, fold.rows, fold.columns, fold.truth, fold.weight)


class _Judge:
    """One fold with what settings share: directions of a shrinkage, distances of a number of directions, smoothed scores.

    Singular vectors nest, so all numbers of directions come from the largest. Single precision is enough to rank
    partners; weights of observed pairs would underflow in it.
    """

    def __init__(self, problem: Problem, fold: Fold, most: int) -> None:
        self.problem, self.fold, self.most = problem, fold, most
        self.plain = fold.seen.counted is None
        self.precision: Any = np.float32 if self.plain else np.float64
        self.kept: dict[str, tuple[Any, Any]] = {}

    def _last(self, what: str, key: Any, make: Callable[[], Any]) -> Any:
        """The last thing of a kind if it is the same, else a new one."""
        if self.kept.get(what, (None,))[0] != key:
            self.kept.pop(what, None)
            self.kept[what] = key, make()
        return self.kept[what][1]

    def _coordinates(self, shrinkage: float) -> tuple[Array, Array, Array]:
        problem, fold = self.problem, self.fold
        left, right = embeddings(fold.moments, problem.reduction, self.most, shrinkage)
        return left(problem.A[fold.test]), left(problem.A[fold.train]), right(problem.B)

    def _distances(self, settings: Settings) -> tuple[Any, Any, float, Array]:
        """Of held-out entities to the others, of the candidates to all right ones if these are few, and their unit."""
        found = self._last("E", settings.shrinkage, lambda: self._coordinates(settings.shrinkage))
        test, train, right = (E[:, : settings.n_components] for E in found)
        unit = median_distance(right)
        few = len(self.fold.candidates) * len(right) <= _KEPT
        D = self._right(right, self.fold.candidates, unit) if few else None
        return excess_distances(test, train, median_distance(train)), D, unit, right

    def _right(self, right: Array, chosen: Index, unit: float) -> Any:
        return excess_distances(right[chosen], right, unit).astype(self.precision, copy=False)

    def _smoothed(self, D: Any, width: float) -> tuple[Any, Any]:
        seen, K = self.fold.seen, kernel_rows(D.copy(), width)
        if self.plain:
            return (_rows_to_one(K) @ seen.scores).astype(self.precision, copy=False), None
        return K @ seen.scores, pair_weights(K, seen)

    def score(self, settings: Settings) -> float:
        """How good the predictions of held-out entities are."""
        fold, problem = self.fold, self.problem
        where = settings.shrinkage, settings.n_components
        D, D_right, unit, right = self._last("D", where, lambda: self._distances(settings))
        sums = self._last("sums", (*where, settings.left), lambda: self._smoothed(D, settings.left))
        blocks, step = [], len(fold.candidates) if D_right is not None else max(1, CHUNK // len(right))
        for start in range(0, len(fold.candidates), step):
            chosen = fold.candidates[start : start + step]
            part = D_right.copy() if D_right is not None else self._right(right, chosen, unit)
            K = kernel_rows(part, settings.right)
            if self.plain:
                blocks.append(sums[0] @ _rows_to_one(K).T)
                continue
            weights = sums[1] @ K.T
            scores = np.full_like(weights, fold.seen.mean)
            blocks.append(np.divide(sums[0] @ K.T, weights, out=scores, where=weights > UNREACHED))
        scores = np.hstack(blocks)
        if fold.seen.mask is not None:
            return squared_score(scores, fold.rows, fold.columns, fold.truth, fold.weight)
        n_top = max(1, round(min(problem.n_top, len(right)) * len(fold.candidates) / len(right)))
        return top_score(scores, fold.rows, fold.columns, n_top, fold.weight)


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
    chosen = excess_distances(right[candidates], right, units[1]).astype(precision, copy=False)
    for g in grid.right:
        K = kernel_rows(chosen.copy(), g)
        if plain:
            scores = sums[0] @ _rows_to_one(K).T
        else:
            weights = sums[1] @ K.T
            scores = np.full_like(weights, seen.mean)
            np.divide(sums[0] @ K.T, weights, out=scores, where=weights > UNREACHED)
        for n, h in enumerate(grid.left):
            yield (h, g), scores[n * len(test) : (n + 1) * len(test)]


def _rows_to_one(K: Any) -> Any:
    K /= K.sum(axis=1, keepdims=True)
    return K
