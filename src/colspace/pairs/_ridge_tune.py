"""Kernels, ridges and reductions of KernelPairRegressor: held-out predictions, and the search by coordinates."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._links import Links
from ._reduce import Embedding, embeddings, pair_moments
from ._ridge import LowRankRidge, Ridge, complete, inverse_plus, left_out, nystroem
from ._similarity import Base, base_kernel, named, profile_kernel
from ._tune import Held, entity_folds

Array = NDArray[np.float64]
Index = NDArray[np.intp]

HELD_OUT = 2000  # entities whose predictions are looked at
EXACT = 5000  # entities of a side up to which the kernel is used as it is
LANDMARKS = 2000
_SINGLE = 10**6  # pairs from which the search is in single precision
_KEPT = 4  # smoothers of a side kept during a search

MOST = 200  # directions that are tried


@dataclass(frozen=True)
class SidePoint:
    """Settings of one side: width of kernels, ridge, weights of kernels, share of the links' own kernel, whether
    training entities count with positive weights only, the tails of kernels that are "auto", a place in ``TAILS``, and
    the share of the kernel in which entities are like themselves alone."""

    bandwidth: float
    alpha: float
    weights: tuple[float, ...]
    profile: float
    positive: bool = False
    heavy: int = 0
    own: float = 0.0


@dataclass(frozen=True)
class Point:
    """Settings of both sides, and of the reduction in front."""

    left: SidePoint
    right: SidePoint
    n_components: int | None = None
    shrinkage: float = 0.0


@dataclass(frozen=True)
class Source:
    """What is known of the entities of one side: tables with a metric each."""

    tables: tuple[Array, ...]
    metrics: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tables[0])

    @cached_property
    def bases(self) -> tuple[Base, ...]:
        """The kernels before their widths."""
        return tuple(base_kernel(X, m) for X, m in zip(self.tables, self.metrics, strict=True))

    @cached_property
    def twins(self) -> float:
        """Share of entities whose features another has as well."""
        rows = np.ascontiguousarray(np.hstack(self.tables) + 0.0)  # -0 is 0
        _, counts = np.unique(rows.view(f"V{rows.itemsize * rows.shape[1]}"), return_counts=True)
        return float(counts[counts > 1].sum()) / len(rows)


@dataclass(frozen=True)
class Fold:
    """Entities that a fit sees and others it is asked about, with the links seen and those asked for (positions)."""

    train: tuple[Index, Index]
    test: tuple[Index, Index]
    seen: Links
    rows: Index
    columns: Index
    hidden: Any = None  # pairs that are known, and no candidates


@dataclass(frozen=True)
class Problem:
    """What is tuned. New right entities are new left ones of the transposed problem."""

    left: Source
    right: Source
    links: Links
    target: str
    reduction: str | None = None
    n_top: int = 100
    cv: int = 3
    landmarks: tuple[int | None, int | None] = (None, None)
    seed: int = 0
    by_folds: bool = False
    n_folds: int | None = None
    kept: dict[str, OrderedDict[Any, Any]] = field(default_factory=dict)

    @property
    def precision(self) -> Any:
        """Single where tables are large."""
        return np.float32 if np.prod(self.links.shape) > _SINGLE else np.float64

    def keep(self, what: str, key: Any, make: Callable[[], Any]) -> Any:
        """Something made before with the same key, or made now; the last few are kept."""
        store = self.kept.setdefault(what, OrderedDict())
        if key not in store:
            store[key] = make()
            while len(store) > _KEPT:
                store.popitem(last=False)
        store.move_to_end(key)
        return store[key]

    @cached_property
    def folds(self) -> list[Fold]:
        """Folds over what the target calls new."""
        return list(_folds(self))


def transposed(links: Links) -> Links:
    """Links seen from the other side."""
    parts = (None if M is None else sparse.csr_array(M.T) for M in (links.Y, links.mask, links.extra))
    return Links(*parts)


# ------------------------------------------------------------------------------------------------ one side's kernel


def kernel_of(
    bases: tuple[Base, ...],
    raws: list[Any],
    point: SidePoint,
    profile: Callable[[], Any] | None = None,
    same: Callable[[], Any] | None = None,
) -> Any:
    """Weighted mean of the kernels, of the kernel of the links, and of that of entities that are the ``same``."""
    total = sum(point.weights) or 1.0
    K: Any = 0.0 if any(point.weights) else np.zeros_like(raws[0])
    for base, raw, weight in zip(bases, raws, point.weights, strict=True):
        if weight > 0:
            share = (1 - point.profile) * weight / total
            one = base.kernel(raw, point.bandwidth, point.heavy)
            K = K + (one if share == 1 else share * one)
    if point.profile > 0 and profile is not None:
        K = K + (point.profile * profile()).astype(np.asarray(K).dtype, copy=False)
    if point.own > 0 and same is not None:
        K = (1 - point.own) * K
        K[same()] += point.own
    return K


@dataclass(frozen=True)
class Side:
    """Kernels between the entities of one side, all of them, for given links and coordinates."""

    bases: tuple[Base, ...]
    profiles: Any  # links, entities in rows; None: not used
    whole: list[Any] | None  # distances of all to all, where these are few

    def kernel(self, point: SidePoint, rows: Index, columns: Index, precision: Any = np.float64) -> Any:
        """Kernel of some entities with some."""
        if self.whole is not None:
            n = len(self.whole[0])
            whole = len(rows) == n and len(columns) == n
            raws = [R if whole else R[np.ix_(rows, columns)] for R in self.whole]
        else:
            raws = [b.raw(b.values[rows], columns).astype(precision, copy=False) for b in self.bases]
        return kernel_of(
            self.bases,
            raws,
            point,
            None if self.profiles is None else lambda: profile_kernel(self.profiles, rows, columns),
            lambda: np.nonzero(rows[:, None] == columns),
        )

    def smoother(
        self, point: SidePoint, train: Index, landmarks: int | None, seed: int, precision: Any
    ) -> tuple[Ridge | LowRankRidge, Index, float]:
        """The ridge on some entities, those whose kernels a prediction takes, and the share of the kernel lost."""
        if landmarks is None or landmarks >= len(train):
            K = self.kernel(point, train, train, precision)
            return Ridge(inverse_plus(K, point.alpha), point.alpha), train, 0.0
        places = np.sort(np.random.default_rng(seed).permutation(len(train))[:landmarks])
        columns = self.kernel(point, train, train[places], precision)
        P, root, lost = nystroem(columns, places)
        return LowRankRidge(P, root, point.alpha), train[places], lost


def make_side(bases: tuple[Base, ...], profiles: Any, precision: Any) -> Side:
    """Kernels of all entities, with distances found once where entities are few."""
    n = len(bases[0].values)
    whole = [b.raw(b.values).astype(precision, copy=False) for b in bases] if n <= EXACT else None
    return Side(bases, profiles, whole)


def reduced(
    problem: Problem, seen: Links, train: tuple[Index, Index], r: int, shrinkage: float
) -> tuple[Embedding, Embedding]:
    """Directions of both sides from some entities and their links."""
    assert problem.reduction is not None
    A, B = problem.left.tables[0], problem.right.tables[0]
    moments = pair_moments(A[train[0]], B[train[1]], seen, problem.reduction, r)
    return embeddings(moments, problem.reduction, r, shrinkage)


def _side(problem: Problem, fold: Fold, number: int, place: int, point: Point) -> Side:
    """Kernels of one side in a fold; without links in them they are those of every fold."""
    one = (point.left, point.right)[place]
    source = (problem.left, problem.right)[place]
    key: Any = None
    if problem.reduction is not None:
        key = (number, point.n_components, point.shrinkage)
    elif one.profile > 0:
        key = (number,)

    def make() -> Side:
        bases = source.bases
        if problem.reduction is not None:
            top = max_components(problem, point.n_components)
            pair = problem.keep(
                "directions",
                (number, point.shrinkage),
                lambda: reduced(problem, fold.seen, fold.train, top, point.shrinkage),
            )
            E = pair[place](source.tables[0])[:, : point.n_components]
            bases = (base_kernel(E, source.metrics[0], standardise=False),)
        profiles = None
        if one.profile > 0:
            profiles = _spread(fold.seen.scores, fold.train, problem.links.shape)
            profiles = profiles if place == 0 else sparse.csr_array(profiles.T)
        return make_side(bases, profiles, problem.precision)

    side: Side = problem.keep(f"side {place}", key, make)
    return side


def _spread(Y: Any, train: tuple[Index, Index], shape: tuple[int, int]) -> Any:
    """A table of some entities as one of all."""
    if Y.shape == shape:
        return Y
    table = Y.tocoo()
    where = train[0][table.coords[0]], train[1][table.coords[1]]
    return sparse.csr_array((table.data, where), shape=shape)


def max_components(problem: Problem, r: int | None = None) -> int:
    """Most directions that both sides can give and a search tries, or more that are asked for."""
    widths = problem.left.tables[0].shape[1], problem.right.tables[0].shape[1]
    return min(*widths, max(MOST, r or 0))


# ------------------------------------------------------------------------------------------------ held-out predictions


def held_out(problem: Problem, point: Point) -> Iterator[Held]:
    """Predictions for entities, or pairs, that the fit behind them has not seen.

    By the formulas of `left_out`, entity by entity, where kernels and links are those of the whole fit whoever is left
    out; otherwise (directions or kernels made of the links, gaps, weights) by fits to folds.
    """
    if problem.by_folds:
        for number, fold in enumerate(problem.folds[: problem.n_folds]):
            yield _held_fold(problem, fold, number, point)
        return
    whole = problem.keep("whole", None, lambda: _whole(problem))
    left, right = (_fitted(problem, whole, 0, place, point)[0] for place in (0, 1))
    pattern = problem.links.positives()[whole.test[0]].tocoo()
    rows, columns = pattern.coords
    Y = problem.links.Y.astype(problem.precision)
    scores = left_out(left, right, Y, whole.test[0], problem.target)
    truth = problem.links.scores_at(whole.test[0][rows], columns)
    yield Held(whole.test[0], scores, rows, columns, truth, np.ones(len(rows)))


def _whole(problem: Problem) -> Fold:
    """All entities, with a sample of the linked ones to look at."""
    linked = np.flatnonzero(np.diff(problem.links.positives().indptr))
    order = np.random.default_rng(problem.seed).permutation(linked)
    everyone = tuple(np.arange(n) for n in problem.links.shape)
    none = np.zeros(0, dtype=np.intp)
    return Fold(
        (everyone[0], everyone[1]), (np.sort(order[:HELD_OUT]), everyone[1]), problem.links, none, none
    )


def _fitted(problem: Problem, fold: Fold, number: int, place: int, point: Point) -> Any:
    one = (point.left, point.right)[place]
    everyone = len(fold.train[place]) == problem.links.shape[place]
    shared = everyone and problem.reduction is None and not one.profile
    plain = replace(one, positive=False)
    key = (None if shared else number, plain, point.n_components, point.shrinkage)
    ridge, basis, lost = problem.keep(
        f"smoother {place}",
        key,
        lambda: _side(problem, fold, number, place, point).smoother(
            plain, fold.train[place], problem.landmarks[place], problem.seed, problem.precision
        ),
    )
    return (replace(ridge, positive=True) if one.positive else ridge), basis, lost


def _held_fold(problem: Problem, fold: Fold, number: int, point: Point) -> Held:
    (left, here, _), (right, there, _) = (_fitted(problem, fold, number, place, point) for place in (0, 1))
    table, level = table_to_smooth(fold.seen, left, right)
    n, m = problem.links.shape
    if len(fold.train[0]) == n:  # entities of the fit: their rows of the smoother
        scores = left.rows(fold.test[0]) @ table
    else:
        K = _side(problem, fold, number, 0, point).kernel(point.left, fold.test[0], here, problem.precision)
        many = len(K) > len(here) and not left.positive
        scores = K @ left.dual(table) if many else left.weights(K) @ table
    if len(fold.train[1]) == len(fold.test[1]) == m:
        scores = right.apply(scores)
    else:
        K = _side(problem, fold, number, 1, point).kernel(point.right, fold.test[1], there, problem.precision)
        scores = scores @ right.weights(K).T if right.positive else (K @ right.dual(scores.T)).T
    scores += level
    if fold.hidden is not None:
        scores[fold.hidden] = -np.inf
    at = fold.test[0][fold.rows], fold.test[1][fold.columns]
    truth = problem.links.scores_at(*at)
    return Held(fold.test[0], scores, fold.rows, fold.columns, truth, problem.links.weights_at(*at))


def table_to_smooth(links: Links, left: Any, right: Any) -> tuple[Any, float]:
    """The table that two-step ridge smooths, and the level it is about: the mean of observed scores, else zero."""
    if links.counted is None:
        return links.Y, 0.0
    level = links.mean if links.mask is not None else 0.0
    weight = links.counted.toarray() + links.base
    Y = links.Y.toarray() - level * (weight > 0)
    return complete(left, right, Y, weight), level


def _folds(problem: Problem) -> Iterator[Fold]:
    links, rng = problem.links, np.random.default_rng(problem.seed)
    pattern = links.positives() if links.mask is None else links.mask
    everyone = tuple(np.arange(n) for n in links.shape)
    if problem.target == "entries":
        yield from _entry_folds(problem, pattern, rng)
        return
    linked = np.flatnonzero(np.diff(pattern.indptr))
    parts = entity_folds(linked, problem.cv, rng)
    others = entity_folds(everyone[1], problem.cv, rng) if problem.target == "new-both" else None
    for k, part in enumerate(parts):
        train = np.setdiff1d(everyone[0], part)
        columns = everyone[1] if others is None else others[k]
        right = everyone[1] if others is None else np.setdiff1d(everyone[1], columns)
        test = np.sort(rng.permutation(part)[: HELD_OUT // 2])
        rows, places = pattern[test][:, columns].tocoo().coords
        seen = links.rows(train)
        if others is not None:
            seen = Links(*(None if M is None else M[:, right] for M in (seen.Y, seen.mask, seen.extra)))
        if len(rows) and _teaches(seen):
            yield Fold((train, right), (test, columns), seen, rows, places)


def _teaches(seen: Links) -> bool:
    """Whether there is something to learn from: scores that are not all the same."""
    return bool(np.any(seen.scores.data)) and (seen.mask is None or seen.deviation > 0)


def _entry_folds(problem: Problem, pattern: Any, rng: np.random.Generator) -> Iterator[Fold]:
    """Folds over the pairs with a link (or observed): set to zero (or not observed)."""
    links = problem.links
    everyone = tuple(np.arange(n) for n in links.shape)
    i, j = pattern.tocoo().coords
    for part in np.array_split(rng.permutation(len(i)), max(1, min(problem.cv, len(i)))):
        gone = sparse.csr_array((np.ones(len(part)), (i[part], j[part])), shape=links.shape)
        keep = [None if M is None else sparse.csr_array(M - M.multiply(gone)) for M in (links.Y, links.mask)]
        for M in keep:
            if M is not None:
                M.eliminate_zeros()
        seen = Links(keep[0], keep[1], links.extra)
        asked = np.unique(i[part])
        test = np.sort(rng.permutation(asked)[:HELD_OUT])
        rows, columns = gone[test].tocoo().coords
        hidden = None if links.mask is not None else (seen.positives()[test]).nonzero()
        if _teaches(seen):
            yield Fold((everyone[0], everyone[1]), (test, everyone[1]), seen, rows, columns, hidden)


# ------------------------------------------------------------------------------------------------ the fit itself


@dataclass(frozen=True)
class FittedSide:
    """What predictions need of one side: kernels, coordinates in front of them, entities whose kernels they take, and
    the matrix that makes weights of kernels where these are to be positive."""

    bases: tuple[Base, ...]
    embedding: Embedding | None
    basis: Index
    lost: float
    matrix: Any = None


def fit_point(problem: Problem, point: Point) -> tuple[FittedSide, FittedSide, Any, float]:
    """Both sides, the coefficients of pairs of kernels, and the level they are about."""
    links, fitted, ridges = problem.links, [], []
    everyone = (np.arange(links.shape[0]), np.arange(links.shape[1]))
    pair: Any = (None, None)
    if problem.reduction is not None:
        assert point.n_components is not None
        pair = reduced(problem, links, everyone, point.n_components, point.shrinkage)
    for place, (source, one) in enumerate(
        zip((problem.left, problem.right), (point.left, point.right), strict=True)
    ):
        bases = source.bases
        if pair[place] is not None:
            E = pair[place](source.tables[0])
            bases = (base_kernel(E, source.metrics[0], standardise=False),)
        bases = tuple(named(base, one.heavy) for base in bases)
        profiles = None
        if one.profile > 0:
            profiles = links.scores if place == 0 else sparse.csr_array(links.scores.T)
        landmarks = problem.landmarks[place]
        precision = np.float64 if landmarks is None else problem.precision
        side = Side(bases, profiles, None)  # distances are not kept
        ridge, basis, lost = side.smoother(one, everyone[place], landmarks, problem.seed, precision)
        fitted.append(FittedSide(bases, pair[place], basis, lost, ridge.matrix if one.positive else None))
        ridges.append(ridge)
    table, level = table_to_smooth(links, *ridges)
    if not point.right.positive:
        table = ridges[1].dual(table.T).T
    if not point.left.positive:
        table = ridges[0].dual(table)
    coefficients = table.toarray() if sparse.issparse(table) else table
    return fitted[0], fitted[1], coefficients, level
