"""Settings of KernelPairRegressor: ladders of values, and a search along one of them at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._climb import climb
from ._reduce import count_of
from ._ridge_tune import Point, Problem, SidePoint, held_out, max_components
from ._similarity import DISTANCES
from ._tune import Held, top_gains

Array = NDArray[np.float64]
Index = NDArray[np.intp]

BANDWIDTHS = tuple(float(f"{2 ** (k / 2):.3g}") for k in range(-12, 6))  # of the median distance
WIDER = BANDWIDTHS[5:]  # of Gaussian kernels, and of few directions
ALPHAS = tuple(2.0**k for k in range(-8, 8))  # kernels have a mean diagonal of one
WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of one kernel among several
PROFILES = (0.0, 0.25, 0.5, 0.75, 0.9)
_TWINS = 0.05  # share of entities with the features of another, from which a share is tried
OWN = (0.0, 0.25, 0.5, 0.75, 0.9)
COMPONENTS = (10, 25, 50, 100, 200)
SHRINKAGES = (0.03, 0.1, 0.3, 0.5, 0.8)
NEW = (0.707, 4.0)  # bandwidth and ridge to start from, of a side whose entities are new
KNOWN = (0.25, 0.125)  # and of one whose entities are known
HEAVY = {1: (0.125, 1.0), 2: (0.0312, 2.0)}  # the same with heavy tails


@dataclass
class Search:
    """Points tried, with what each says of every held-out entity: sums of gains and of weights."""

    entities: dict[Point, tuple[Index, Array, Array]] = field(default_factory=dict)

    def score(self, point: Point, part: Any = None) -> float:
        """Mean gain over held-out entities, or those of a part (booleans over all left entities)."""
        entities, gains, weights = self.entities[point]
        chosen = slice(None) if part is None else part[entities]
        total = float(weights[chosen].sum())
        return float(gains[chosen].sum()) / total if total > 0 else -np.inf

    def best(self, part: Any = None) -> Point:
        """The point of the highest score."""
        return max(self.entities, key=lambda p: self.score(p, part))


def gains(problem: Problem, held: Held) -> tuple[Index, Array, Array]:
    """Per held-out entity: how far up its partners stand, or minus squared errors, with weights."""
    n = len(held.entities)
    if problem.links.mask is not None:
        errors = (held.scores[held.rows, held.columns] - held.truth) ** 2
        return (
            held.entities,
            np.asarray(-np.bincount(held.rows, held.weight * errors, n), dtype=np.float64),
            np.asarray(np.bincount(held.rows, held.weight, n), dtype=np.float64),
        )
    width = held.scores.shape[1]
    n_top = max(1, round(min(problem.n_top, len(problem.right)) * width / len(problem.right)))
    found, has = top_gains(held.scores, held.rows, held.columns, n_top, held.weight)
    return held.entities, found, has.astype(np.float64)


def search(problem: Problem, ladders: dict[str, tuple[Any, ...]], start: Point) -> Search:
    """Climb along one setting at a time, from a start, over the values of each."""
    found = Search()
    names = list(ladders)

    def at(places: tuple[int, ...]) -> Point:
        return with_values(start, {name: ladders[name][k] for name, k in zip(names, places, strict=True)})

    def score(places: tuple[int, ...]) -> float:
        point = at(places)
        if point not in found.entities:
            parts = [gains(problem, held) for held in held_out(problem, point)]
            if not parts:
                msg = (
                    "folds leave nothing to learn from: there are too few links to tune by. Give bandwidth and alpha as numbers "
                    "(also profile, n_components and shrinkage where they are used)"
                )
                raise ValueError(msg)
            joined = tuple(np.concatenate(one) for one in zip(*parts, strict=True))
            found.entities[point] = joined[0], joined[1], joined[2]
        return found.score(point)

    first = tuple(_nearest(values, value_of(start, name)) for name, values in ladders.items())
    score(first)
    climb(score, tuple(len(values) for values in ladders.values()), first)
    return found


def _nearest(values: tuple[Any, ...], value: Any) -> int:
    return int(np.argmin([abs(float(v) - float(value)) for v in values]))


def value_of(point: Point, name: str) -> Any:
    """A setting by the name of its ladder: side.setting or side.weights.place, or one of the reduction."""
    side, _, rest = name.partition(".")
    if not rest:
        return getattr(point, side)
    setting, _, place = rest.partition(".")
    value = getattr(getattr(point, side), setting)
    return value[int(place)] if place else value


def with_values(point: Point, values: dict[str, Any]) -> Point:
    """The point with some settings replaced."""
    for name, value in values.items():
        side, _, rest = name.partition(".")
        if not rest:
            point = replace(point, **{side: value})
            continue
        setting, _, place = rest.partition(".")
        one = getattr(point, side)
        if place:
            weights = list(one.weights)
            weights[int(place)] = value
            value = tuple(weights)
        point = replace(point, **{side: replace(one, **{setting: value})})
    return point


# ------------------------------------------------------------------------------------------------ what to try


@dataclass(frozen=True)
class Wish:
    """What was asked for; None is to be found. Pairs are left, right as the problem has them."""

    bandwidth: tuple[float | None, float | None]
    alpha: tuple[float | None, float | None]
    profile: float | None
    reduction: str | None
    n_components: int | None
    shrinkage: float | None
    positive: bool | None
    own: float | None = None

    def turned(self) -> Wish:
        """Seen from the other side."""
        return replace(self, bandwidth=self.bandwidth[::-1], alpha=self.alpha[::-1])


def numbers(name: str, given: Any) -> tuple[float | None, float | None]:
    """A number for each side, None where it is to be found."""
    if isinstance(given, str):
        return None, None
    pair = (given, given) if isinstance(given, Real) else tuple(given)
    if len(pair) != 2 or not all(isinstance(v, Real) and 0 < float(v) < np.inf for v in pair):
        msg = f"{name}={given!r} must be 'auto', a positive number, or two of them (left, right)"
        raise ValueError(msg)
    return float(pair[0]), float(pair[1])


@dataclass(frozen=True)
class Choice:
    """Problems with and without reduction, the points tried for each, and what folds say of the best of both."""

    ways: list[tuple[Problem, Search]]
    judged: tuple[Search, ...] = ()

    def best(self, part: Any = None) -> tuple[Problem, Point]:
        """The problem to fit and its point, as all left entities have it or those of a part."""
        way = int(np.argmax([one.score(one.best(), part) for one in self.judged])) if self.judged else 0
        problem, tried = self.ways[way]
        return problem, tried.best(part)


def refuse_unused(problem: Problem, wish: Wish) -> None:
    """Refuse settings that are given and would do nothing."""
    metrics = {name for source in (problem.left, problem.right) for name in source.metrics}
    if wish.reduction in (None, "pca") and wish.shrinkage is not None:
        msg = f"shrinkage={wish.shrinkage:g} belongs to reduction='joint', got reduction={wish.reduction!r}; leave it at 'auto'"
    elif wish.reduction is None and wish.n_components is not None:
        msg = f"n_components={wish.n_components} belongs to a reduction, got reduction=None; leave it at 'auto', or reduce"
    elif wish.bandwidth != (None, None) and not metrics & set(DISTANCES):
        msg = f"bandwidth={wish.bandwidth} belongs to kernels of distances, got metric {sorted(metrics)}; leave it at 'auto'"
    elif wish.profile and problem.target == "new-both":
        msg = f"profile={wish.profile:g} is of entities with links, which target='new-both' has none of; leave it at 'auto'"
    elif wish.own and not any(_own(problem, wish, place) != (0.0,) for place in (0, 1)):
        why = "landmarks stand for them: n_landmarks=None"
        why = "target='new-both' asks about others" if problem.target == "new-both" else why
        msg = f"own={wish.own:g} is of each entity of the fit by itself, and {why}; or leave it at 'auto'"
    elif wish.positive and problem.target == "entries":
        msg = "positive=True is of entities without links, and target='entries' asks about others; leave it at 'auto'"
    elif wish.positive and not _additive(problem):
        msg = (
            "positive=True adds up links that all count once and have scores above zero, and here are gaps, weights or "
            "negative scores; leave it at 'auto'"
        )
    else:
        return
    raise ValueError(msg)


def _additive(problem: Problem) -> bool:
    """Whether links speak for partners and absent ones say nothing: positive scores, each counted once."""
    links = problem.links
    return links.counted is None and bool(links.Y.data.min(initial=0.0) >= 0)


def choose(problem: Problem, wish: Wish) -> Choice:
    """What was tried: the problem with or without reduction, or both."""
    refuse_unused(problem, wish)
    plain = _with(problem, wish, None)
    if wish.reduction is None:
        return Choice([(plain, _tried(plain, wish))])
    if not all(len(s.tables) == 1 and s.metrics[0] != "precomputed" for s in (problem.left, problem.right)):
        if wish.reduction == "auto":
            return Choice([(plain, _tried(plain, wish))])
        msg = f"reduction={wish.reduction!r} takes one table of features a side, not several or similarities; use None"
        raise ValueError(msg)
    front = _with(problem, wish, "joint" if wish.reduction == "auto" else wish.reduction)
    if wish.reduction != "auto":
        return Choice([(front, _tried(front, wish))])
    if not foldable(front):
        return Choice([(plain, _tried(plain, wish))])
    ways = [(one, _tried(one, wish)) for one in (plain, front)]
    # both on the same folds, as leaving one out sees more entities than a fold does; and on others than settings were
    # tuned by, on which the more flexible way would look better than it is
    judged = [
        search(replace(one, by_folds=True, kept={}, seed=one.seed + 1), {}, tried.best())
        for one, tried in ways
    ]
    return Choice(ways, tuple(judged))


def foldable(problem: Problem) -> bool:
    """Whether there are links enough for folds."""
    try:
        return len(problem.folds) > 1
    except ValueError:
        return False


def _with(problem: Problem, wish: Wish, reduction: str | None) -> Problem:
    by_folds = (
        reduction not in (None, "pca")
        or problem.links.counted is not None
        or any(values != (0.0,) for values in _profiles(wish, problem.target))
    )
    return replace(problem, reduction=reduction, by_folds=by_folds, kept={})


def _profiles(wish: Wish, target: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Shares of the links' kernel to try, of entities whose links are known in the question."""
    values: tuple[float, ...] = PROFILES if target == "entries" else (0.0,)
    if wish.profile is not None:
        values = (wish.profile,)
    none = (0.0,)
    return {"entries": (values, values), "new-left": (none, values), "new-both": (none, none)}[target]


def _own(problem: Problem, wish: Wish, place: int) -> tuple[float, ...]:
    """Shares to try of the kernel in which entities of one side are like themselves alone.

    Kernels of distances come near it by themselves as they get narrow, but for entities with the same features;
    similarities and products do not.
    """
    known = {"entries": (True, True), "new-left": (False, True), "new-both": (False, False)}[problem.target]
    source, marks = (problem.left, problem.right)[place], problem.landmarks[place]
    if not known[place] or (marks is not None and marks < len(source)):
        return (0.0,)
    if wish.own is not None:
        return (wish.own,)
    smooth = source.twins > _TWINS or not any(metric in DISTANCES for metric in source.metrics)
    return OWN if smooth and wish.alpha[place] is None and problem.target == "new-left" else (0.0,)


def _tried(problem: Problem, wish: Wish) -> Search:
    """Points tried for one problem."""
    ladders: dict[str, tuple[Any, ...]] = {}
    points: list[SidePoint] = []
    known = (
        problem.target == "entries",
        problem.target != "new-both" and problem.reduction is None,
    )
    shares = _profiles(wish, problem.target)
    widths, tails = (BANDWIDTHS, (0, 1, 2)) if problem.reduction is None else (WIDER, (0, 1))
    for place, (name, source) in enumerate((("left", problem.left), ("right", problem.right))):
        width, ridge = wish.bandwidth[place], wish.alpha[place]
        count = len(source.metrics)
        if width is None and any(metric in DISTANCES for metric in source.metrics):
            ladders[f"{name}.bandwidth"] = widths
        either = width is None and "auto" in source.metrics
        if ridge is None:
            ladders[f"{name}.alpha"] = ALPHAS
        if len(shares[place]) > 1:
            ladders[f"{name}.profile"] = shares[place]
        own = _own(problem, wish, place)
        if len(own) > 1:
            ladders[f"{name}.own"] = own
        if count > 1:
            ladders |= {f"{name}.weights.{k}": WEIGHTS for k in range(count)}
        if either:
            ladders[f"{name}.heavy"] = tails
        heavy = tails[-1] if known[place] and either else 0
        start = HEAVY.get(heavy, KNOWN) if known[place] else NEW
        points.append(
            SidePoint(
                start[0] if width is None else width,
                start[1] if ridge is None else ridge,
                (1.0,) * count,
                shares[place][len(shares[place]) // 2],
                heavy=heavy,
                own=own[len(own) // 2],
            )
        )
    point = Point(points[0], points[1])
    if problem.reduction is not None:
        point = _reduction_start(problem, wish, point, ladders)
    new = {"new-left": ("left",), "new-both": ("left", "right"), "entries": ()}[problem.target]
    if wish.positive is None and ladders and _additive(problem):
        ladders |= {f"{name}.positive": (False, True) for name in new}
    elif wish.positive:
        point = with_values(point, {f"{name}.positive": True for name in new})
    if not ladders:
        nobody = np.zeros(0, dtype=np.intp)
        return Search({point: (nobody, np.zeros(0), np.zeros(0))})
    if problem.links.mask is None and not problem.links.positives().nnz:
        msg = (
            "no score in Y is above zero, and settings are tuned by the places of partners with such scores. Give bandwidth "
            "and alpha as numbers (also profile, n_components and shrinkage where they are used), or mask='observed' if absent pairs are unknown instead of zero"
        )
        raise ValueError(msg)
    # one fold of a large table has entities enough to climb by
    few = 1 if problem.by_folds and problem.precision == np.float32 else None
    return search(replace(problem, n_folds=few), ladders, point)


def _reduction_start(problem: Problem, wish: Wish, start: Point, ladders: dict[str, Any]) -> Point:
    assert problem.reduction is not None
    if wish.n_components is None:
        most = max_components(problem)
        ladders["n_components"] = tuple(dict.fromkeys(min(r, most) for r in COMPONENTS))
        r = ladders["n_components"][len(ladders["n_components"]) // 2]
    else:
        r = wish.n_components
        widths = [source.tables[0].shape[1] for source in (problem.left, problem.right)]
        count_of(r, (widths[0], widths[1]), problem.reduction)
    if problem.reduction == "pca":
        return replace(start, n_components=r)
    if wish.shrinkage is None:
        ladders["shrinkage"] = SHRINKAGES
    return replace(start, n_components=r, shrinkage=0.3 if wish.shrinkage is None else wish.shrinkage)
