"""What a fit is worth on entities left out, by settings that others chose, beside simple rivals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._ranking import average_precision_by_entity, recall_at_k
from ._ridge_search import Choice
from ._ridge_tune import Fold, Problem, SidePoint, held_out, make_side
from ._rivals import alternating_least_squares, neighbours, popularity
from ._tune import Held

Array = NDArray[np.float64]
Index = NDArray[np.intp]

NEIGHBOURS = (1, 3, 10, 30)
RANKS = (5, 20)
PENALTIES = (0.1, 1.0, 10.0)
_CONFIDENCE = 10.0
WIDTH = 0.5  # of the median distance: how similar neighbours are
MOST = 5000  # entities of a side up to which neighbours are looked for

Measures = dict[str, Array]  # per entity; NaN: not asked


def quality(choice: Choice, k: int) -> list[dict[str, Any]]:
    """Rows of method and measures: recall at k and average precision per entity, or the root mean squared error.

    Entities are in two halves; each half is predicted, every entity (or pair) left out, with the settings that are best
    on the other half. Rivals are treated alike. Nothing, where nobody who is left out has a link to be found.
    """
    problem = choice.ways[0][0]
    n = problem.links.shape[0]
    half = np.random.default_rng(problem.seed).permutation(n) % 2 == 0
    found: dict[str, Measures] = {}
    for part in (half, ~half):
        way, point = choice.best(~part)
        if problem.target == "new-both":  # as the rivals: the same pairs, whether by folds or one by one
            way = replace(way, by_folds=True, kept={})
        _add(found, "kernel ridge", held_out(way, point), part, k, problem)
    if not found:
        return []
    asked = np.flatnonzero(np.isfinite(next(iter(found["kernel ridge"].values()))))
    for name, ways in _rivals(problem, asked).items():
        whole = [_measured(way(), np.ones(n, dtype=bool), k, problem) for way in ways]
        first = next(iter(whole[0]))
        sign = -1 if problem.links.mask is not None else 1
        for part in (half, ~half):
            with np.errstate(invalid="ignore"):
                best = max(whole, key=lambda m: _mean(sign * m[first][~part]))
            for what, values in best.items():
                mine = found.setdefault(name, {}).setdefault(what, np.full(n, np.nan))
                mine[part] = values[part]
    return [
        {"method": name, **{what: _summary(what, values) for what, values in measures.items()}}
        for name, measures in found.items()
    ]


def _mean(values: Array) -> float:
    kept = values[np.isfinite(values)]
    return float(kept.mean()) if kept.size else -np.inf


def _summary(what: str, values: Array) -> float:
    mean = _mean(values)
    return float(np.sqrt(mean)) if what == "error" else mean


def _add(
    found: dict[str, Measures], name: str, held: Iterator[Held], part: Any, k: int, problem: Problem
) -> None:
    for what, values in _measured(held, part, k, problem).items():
        mine = found.setdefault(name, {}).setdefault(what, np.full(len(part), np.nan))
        kept = np.isfinite(values)
        mine[kept] = values[kept]


def _measured(held: Iterator[Held], part: Any, k: int, problem: Problem) -> Measures:
    """Measures of the entities of a part; means over folds where an entity is in several."""
    sums: dict[str, Array] = {}
    counts: dict[str, Array] = {}
    for one in held:
        rows = np.flatnonzero(part[one.entities] & np.isin(np.arange(len(one.entities)), one.rows))
        if not len(rows):
            continue
        if problem.links.mask is not None:
            errors = (one.scores[one.rows, one.columns] - one.truth) ** 2
            squares = np.bincount(one.rows, errors * one.weight, len(one.entities))
            weight = np.bincount(one.rows, one.weight, len(one.entities))
            values = {"error": (squares / np.where(weight > 0, weight, 1.0))[rows]}
        else:
            truth = np.zeros(one.scores.shape, dtype=bool)
            truth[one.rows, one.columns] = True
            scores = np.maximum(one.scores[rows], np.finfo(np.float32).min)  # -inf: no candidates
            length = max(1, round(min(k, len(problem.right)) * scores.shape[1] / len(problem.right)))
            values = {
                "recall": recall_at_k(truth[rows], scores, length, per_entity=True),
                "average precision": average_precision_by_entity(truth[rows], scores, per_entity=True),
            }
        for what, each in values.items():
            total = sums.setdefault(what, np.zeros(len(part)))
            count = counts.setdefault(what, np.zeros(len(part)))
            total[one.entities[rows]] += each
            count[one.entities[rows]] += 1
    out = {}
    for what, total in sums.items():
        out[what] = np.where(counts[what] > 0, total / np.maximum(counts[what], 1), np.nan)
    return out


Way = Callable[[], Iterator[Held]]


def _rivals(problem: Problem, asked: Index) -> dict[str, list[Way]]:
    """Predictions of the same entities by rivals, a list of settings each."""
    links, target = problem.links, problem.target
    if links.mask is not None:
        return {"mean": [lambda: _constant(problem, asked)]}
    folds = replace(problem, by_folds=True, kept={}).folds if target in ("entries", "new-both") else []
    found: dict[str, list[Way]] = {"popularity": [lambda: _popular(problem, asked, folds)]}
    if max(links.shape) <= MOST:
        S, T = (_similarities(source.bases) for source in (problem.left, problem.right))
        found["nearest neighbours"] = [
            lambda k=k: _near(problem, asked, folds, S, T, k)  # type: ignore[misc]
            for k in NEIGHBOURS
        ]
    if target == "entries":
        found["alternating least squares"] = [
            lambda r=r, a=a: _factors(folds, links, r, a)  # type: ignore[misc]
            for r in RANKS
            for a in PENALTIES
        ]
    return found


def _similarities(bases: Any) -> Any:
    n = len(bases[0].values)
    point = SidePoint(WIDTH, 1.0, (1.0,) * len(bases), 0.0)
    return make_side(bases, None, np.float64).kernel(point, np.arange(n), np.arange(n))


def _constant(problem: Problem, asked: Index) -> Iterator[Held]:
    links = problem.links
    rows, columns = links.mask[asked].tocoo().coords
    truth = links.scores_at(asked[rows], columns)
    scores = np.full((len(asked), links.shape[1]), links.mean)
    yield Held(asked, scores, rows, columns, truth, links.weights_at(asked[rows], columns))


def _whole(problem: Problem, asked: Index, scores: Array) -> Held:
    rows, columns = problem.links.positives()[asked].tocoo().coords
    return Held(asked, scores, rows, columns, np.ones(len(rows)), np.ones(len(rows)))


def _in_fold(fold: Fold, scores: Array) -> Held:
    """Scores of the pairs that a fold asks about; rows are its entities, columns all of the right side."""
    scores = scores[:, fold.test[1]]
    if fold.hidden is not None:
        scores[fold.hidden] = -np.inf
    ones = np.ones(len(fold.rows))
    return Held(fold.test[0], scores, fold.rows, fold.columns, ones, ones)


def _popular(problem: Problem, asked: Index, folds: list[Fold]) -> Iterator[Held]:
    if problem.target in ("entries", "new-both"):
        for fold in folds:
            seen = fold.seen.Y if problem.target == "entries" else problem.links.Y
            yield _in_fold(fold, popularity(seen, fold.test[0], problem.target))
        return
    yield _whole(problem, asked, popularity(problem.links.Y, asked, problem.target))


def _near(problem: Problem, asked: Index, folds: list[Fold], S: Any, T: Any, k: int) -> Iterator[Held]:
    if problem.target in ("entries", "new-both"):
        for fold in folds:
            seen = fold.seen.Y if problem.target == "entries" else problem.links.Y
            yield _in_fold(fold, neighbours(S, T, seen, fold.test[0], problem.target, k))
        return
    yield _whole(problem, asked, neighbours(S, T, problem.links.Y, asked, problem.target, k))


def _factors(folds: list[Fold], links: Any, r: int, alpha: float) -> Iterator[Held]:
    for fold in folds:
        U, V = alternating_least_squares(fold.seen.Y, min(r, *links.shape), alpha, _CONFIDENCE)
        yield _in_fold(fold, U[fold.test[0]] @ V.T)
