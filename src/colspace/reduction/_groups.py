r"""Errors of directions from sums over groups of rows: the delete-one-group jackknife.

Moments are additive, so that one pass keeps the sums of K groups of rows, and the whole less a group gives the
directions without it: small matrices only. Rows are dealt to groups at random within each chunk, by a generator that
the chunk's own numbers start, so that neither sorted nor periodic rows can line up with the groups.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._blocks import Blocks
from .._overflow import overflow_error
from .._response import check_varies
from .._rows import CHUNK_BYTES, workspace
from ..factor import svd
from ..moments import TripleMoments, TriplePlan, all_finite
from ._source import Source

Array = NDArray[np.float64]
Pairs = tuple[tuple[int, int], ...]

#: Bytes that the sums of all groups may take.
GROUP_BYTES = 256 << 20
_FEWEST = 10  # groups under which errors are too rough to be worth memory that is short

# squared error of directions from which halves of the rows are looked at, and between which errors they take over
_WEAK = 0.3
_DOUBT = (0.5, 0.7)
_SPLITS = 10

OFF = "n_groups=None: no errors were asked for"


def choose_groups(n_groups: int | None, size: int, rows: int | None) -> tuple[int, str]:
    """How many groups to keep, and why none when it is zero; ``size`` is the bytes that one of them takes."""
    if n_groups is None:
        return 0, OFF
    k = n_groups if rows is None else min(n_groups, rows)
    if k * size > GROUP_BYTES:
        most = GROUP_BYTES // size
        if most < min(k, _FEWEST):
            return 0, _too_much(f"the sums of {k} groups of rows", k * size)
        k = most
    if k < 2:
        return 0, f"{rows} row(s) do not make two groups"
    return k, ""


def _too_much(what: str, size: int) -> str:
    return (
        f"{what} would take {size / 2**20:,.0f} MB, more than the {GROUP_BYTES >> 20} MB allowed. Remedies: fewer "
        "n_groups, or fewer columns"
    )


def deal(X: Any, k: int) -> list[tuple[int, NDArray[np.intp]]]:
    """Rows of a chunk dealt to k groups: pairs (group, its rows in order), parts of equal size but for one row."""
    m = X.shape[0]
    some = X[:: max(1, m // 8)]
    some = some.toarray() if sparse.issparse(some) else np.asarray(some)
    seed = zlib.crc32(np.ascontiguousarray(some, dtype=np.float64).tobytes())
    rng = np.random.default_rng([seed, m])
    first = int(rng.integers(k))
    parts = np.array_split(rng.permutation(m), min(k, m))
    return [((first + i) % k, np.sort(rows)) for i, rows in enumerate(parts)]


def _take(a: Any, rows: NDArray[np.intp]) -> Any:
    """Rows of an array; those of a table of floats last until the next."""
    if isinstance(a, np.ndarray) and a.ndim == 2 and a.dtype == np.float64:
        out = workspace(f"dealt {a.shape[1]}", (len(rows), a.shape[1]))
        return np.take(a, rows, axis=0, out=out, mode="clip")
    return a[rows]


def merged(one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
    """Statistics added up by their group."""
    parts = dict(one)
    for i, part in other.items():
        parts[i] = parts[i] + part if i in parts else part
    return parts


@dataclass(frozen=True)
class Groups:
    """Statistics of groups of rows by their number; ``extra``, another statistic, of one group in each chunk."""

    parts: dict[int, Any]
    extra: Any = None

    def __add__(self, other: Self) -> Self:
        kept = [e for e in (self.extra, other.extra) if e is not None]
        return type(self)(merged(self.parts, other.parts), reduce(add, kept) if kept else None)

    @property
    def total(self) -> Any:
        """All groups together."""
        return reduce(add, self.parts.values())


@dataclass(frozen=True)
class Grouped:
    """``grouped(*arrays)``: a statistic of each of k groups of a chunk's rows, and ``extra`` of the first of them."""

    statistic: Callable[..., Any]
    k: int
    extra: Callable[..., Any] | None = None

    def __call__(self, *arrays: Any) -> Groups:
        """Statistics of one chunk."""
        return reduce(add, self.pieces(*arrays))

    def pieces(self, *arrays: Any) -> Any:
        """One group of the chunk after the other."""
        for place, (i, rows) in enumerate(deal(arrays[0], self.k)):
            mine = tuple(_take(a, rows) for a in arrays)
            extra = self.extra(*mine) if self.extra is not None and place == 0 else None
            yield Groups({i: self.statistic(*mine)}, extra)


@dataclass(frozen=True)
class _Gather:
    """A Grouped whose sums are kept here, in place, for rows in memory: one chunk's sums at a time and no more."""

    grouped: Grouped
    parts: dict[int, Any] = field(default_factory=dict)
    own: set[int] = field(default_factory=set)
    extra: list[Any] = field(default_factory=list)

    def __call__(self, *arrays: Any) -> int:
        for piece in self.grouped.pieces(*arrays):
            ((i, part),) = piece.parts.items()
            if i not in self.parts:
                self.parts[i] = part
            elif i in self.own and hasattr(part, "absorb"):
                self.parts[i] = self.parts[i].absorb(part)
            else:
                self.parts[i] = self.parts[i] + part
                self.own.add(i)
            if piece.extra is not None:
                self.extra[:] = [reduce(add, [*self.extra, piece.extra])]
        return 1


@dataclass(frozen=True)
class GroupSums:
    """The sums of all rows and of the groups; ``note`` says why there are no groups when there are none."""

    total: Any
    parts: dict[int, Any] = field(default_factory=dict)
    note: str = ""

    def __add__(self, other: Self) -> Self:
        return type(self)(self.total + other.total, merged(self.parts, other.parts), self.note)

    @property
    def shares(self) -> Array:
        """Weight of each group's rows over that of all."""
        return np.array([_count(part) for part in self.parts.values()]) / _count(self.total)


def _count(statistic: Any) -> float:
    for name in ("count", "n_rows"):
        value = getattr(statistic, name, None)
        if value is not None and np.ndim(value) == 0:
            return float(value)
    return _count(statistic.labeled) + _count(statistic.rest)


def reduce_groups(
    reduce_rows: Callable[..., Any],
    statistic: Callable[..., Any],
    k: int,
    *,
    dask: bool,
    chunk: int,
    extra: Callable[..., Any] | None = None,
) -> Groups:
    """The sums of k groups in one pass; ``reduce_rows(statistic, chunk=)`` makes it.

    A chunk holds k times the rows, so that the products of a group are as long as those of an ungrouped pass.
    """
    grouped = Grouped(statistic, k, extra)
    if dask:
        return reduce_rows(grouped, chunk=k * chunk)
    gather = _Gather(grouped)
    reduce_rows(gather, chunk=k * chunk)
    return Groups(gather.parts, gather.extra[0] if gather.extra else None)


def source_groups(
    source: Source,
    statistic: Callable[..., Any],
    k: int,
    chunk: int,
    extra: Callable[..., Any] | None = None,
) -> Groups:
    """``reduce_groups`` of a source, whose overflow is an error."""
    groups = reduce_groups(source.reduce, statistic, k, dask=source.dask, chunk=chunk, extra=extra)
    if not all_finite(groups):
        raise overflow_error(source.X, source.labels)
    return groups


def source_rows(source: Source) -> int | None:
    """Rows of a table in memory."""
    return None if source.dask else int(source.X.shape[0])


def triple_bytes(plan: TriplePlan, q: int) -> int:
    """Bytes of the sums of a plan with q responses."""
    width = [s.stop - s.start for s in plan.slices]
    cells = sum(width[i] * width[j] for i, j in plan.plain)
    cells += q * sum(width[i] * width[j] for i, j in plan.weighted)
    return 8 * (cells + (1 + q) * sum(width))


def grouped_moments(
    source: Source, blocks: Blocks, plain: Pairs, weighted: Pairs, n_groups: int | None
) -> GroupSums:
    """The moments of block pairs and those of groups of rows, in one pass."""
    plan, rows = source.plan(blocks, plain, weighted)
    return grouped_plan(source, plan, plan, rows, n_groups)


def grouped_plan(
    source: Source, plan: TriplePlan, statistic: Callable[..., Any], rows: int | None, n_groups: int | None
) -> GroupSums:
    """The sums of a plan (``statistic``: or of something made of it) and those of groups of rows, in one pass.

    y is shifted by its mean where the plan has no cross products of blocks to centre with. A part of the rows has
    another mean, and cross products are needed after all; those of one group in each chunk will do, as what they
    are multiplied by is small.
    """
    k, note = choose_groups(n_groups, triple_bytes(plan, source.encoder.n_responses), source_rows(source))
    if not k:
        total = source.reduce(statistic, chunk=rows)
    else:
        missing = tuple(sorted(set(plan.weighted) - set(plan.plain)))
        extra = replace(plan, plain=missing, weighted=()) if missing else None
        groups = source_groups(source, statistic, k, rows or 1024, extra)
        total = groups.total
        parts = groups.parts
        if groups.extra is not None:
            parts = {i: _with_cross(part, groups.extra) for i, part in parts.items()}
    if source.dask or source.weights is not None:
        check_varies(total.y_variance)
    if not k:
        return GroupSums(total, note=note)
    return GroupSums(total, parts)


def grouped_sums(
    source: Source, statistic: Callable[..., Any], rows: int, n_groups: int | None, size: int
) -> GroupSums:
    """Any statistic of a source and those of groups of rows, in one pass; ``size`` is its bytes."""
    k, note = choose_groups(n_groups, size, source_rows(source))
    if not k:
        return GroupSums(source.reduce(statistic, chunk=rows), note=note)
    groups = source_groups(source, statistic, k, rows)
    return GroupSums(groups.total, groups.parts)


def stream_sums(source: Source, plan: TriplePlan, k: int, note: str) -> GroupSums:
    """The sums of one chunk of a stream, which was given k groups (zero: none, as the note says)."""
    if not k:
        return GroupSums(source.reduce(plan), note=note)
    width = max(s.stop for s in plan.slices)
    groups = source_groups(source, plan, k, max(256, CHUNK_BYTES // (8 * width)))
    return GroupSums(groups.total, groups.parts)


def _with_cross(part: TripleMoments, cross: TripleMoments) -> TripleMoments:
    """A group's sums with cross products as those of other rows would be for as many."""
    share = part.count / cross.count
    return replace(part, xx={**part.xx, **{pair: g * share for pair, g in cross.xx.items()}})


def with_cross(total: TripleMoments, part: TripleMoments) -> TripleMoments:
    """All rows' sums, with the cross products that a part of the rows has and they lack."""
    missing = set(part.xx) - set(total.xx)
    if not missing:
        return total
    share = total.count / part.count
    return replace(total, xx={**total.xx, **{pair: part.xx[pair] * share for pair in missing}})


@dataclass(frozen=True)
class LeftOut:
    """Directions of every block without each group, turned to those of all rows: groups x columns x directions.

    ``weights`` are the jackknife's, (1/share - 1)/K: se^2 = sum of weights times squared deviations. ``halves``, where
    the directions are badly known: those of halves of the groups, each half followed by the other. ``jumps``: what a
    choice made anew without each group (of columns) adds to the directions.
    """

    directions: tuple[Array, ...] = ()
    weights: Array | None = None
    halves: tuple[Array, ...] = ()
    note: str = ""
    jumps: tuple[Array, ...] = ()

    def mapped(self, lift: Callable[[int, Array], Array], widths: Sequence[int]) -> LeftOut:
        """The same after a linear map of directions to so many columns, ``lift(block, columns x directions)``."""
        if self.note:
            return self
        k, _, r = self.directions[0].shape
        size = 8 * k * r * sum(widths) * (2 if self.halves else 1)
        if size > GROUP_BYTES:
            return LeftOut(note=_too_much(f"directions without each of {k} groups", size))

        def whole(b: int, D: Array) -> Array:
            n, p, _ = D.shape
            return lift(b, D.transpose(1, 0, 2).reshape(p, n * r)).reshape(-1, n, r).transpose(1, 0, 2)

        found, halves = (
            tuple(whole(b, D) for b, D in enumerate(stacks)) for stacks in (self.directions, self.halves)
        )
        return replace(self, directions=found, halves=halves)

    def squares(self, D: Array, jumps: Array | None) -> Array:
        r"""Jackknife sum of squares of quantities without each group (groups x ...), cell by cell.

        A jump counts by :math:`1/\sqrt{K - 1}`: leaving out a group moves a margin by :math:`1/\sqrt{K - 1}` of its own
        deviation, so that a choice changes that much less often than the jackknife's weight of :math:`K - 1` supposes.
        """
        assert self.weights is not None

        def sum_of(stack: Array) -> Array:
            return np.tensordot(self.weights, (stack - stack.mean(axis=0)) ** 2, 1)

        return sum_of(D) if jumps is None else sum_of(D) + sum_of(jumps) / np.sqrt(max(len(D) - 1, 1))


def leave_out(
    sums: GroupSums,
    solve: Callable[[Any], Sequence[Array]],
    full: Sequence[Array],
    metrics: Sequence[Callable[[Array], Array]],
    choose: Callable[[Any], Sequence[Array]] | None = None,
) -> LeftOut:
    """Solve without each group in turn, and turn what is found to the directions of all rows.

    ``solve`` gives directions (columns x directions) of every block from sums; ``metrics[b](L)`` is G L for the
    matrix G in which the directions of block b are orthonormal. ``choose`` gives them when a choice that ``solve``
    takes from all rows is made anew.
    """
    if sums.note:
        return LeftOut(note=sums.note)
    if len(sums.parts) < 2:
        return LeftOut(note="the rows did not fill two groups")
    targets = [metric(L) for metric, L in zip(metrics, full, strict=True)]
    found: list[list[Array]] = []
    jumped: list[list[Array]] = []
    halves: tuple[Array, ...] = ()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # said of all rows already
        try:
            for part in sums.parts.values():
                total = with_cross(sums.total, part) if isinstance(part, TripleMoments) else sums.total
                rest = total - part
                found.append([turn(L, target) for L, target in zip(solve(rest), targets, strict=True)])
                if choose is not None:
                    anew = [turn(L, target) for L, target in zip(choose(rest), targets, strict=True)]
                    jumped.append([a - b for a, b in zip(anew, found[-1], strict=True)])
            directions = tuple(np.stack(block) for block in zip(*found, strict=True))
            weights = (1.0 / sums.shares - 1.0) / len(sums.parts)
            if any(
                _spread(D, weights, metric) > _WEAK for D, metric in zip(directions, metrics, strict=True)
            ):
                halves = _half_fits(list(sums.parts.values()), choose or solve)
        except (ValueError, ArithmeticError) as reason:
            return LeftOut(note=f"without some group of the rows there is no fit: {reason}")
    if not all(np.isfinite(D).all() for D in (*directions, *halves)):
        return LeftOut(note="without some group of the rows the directions are not finite")
    return LeftOut(directions, weights, halves, jumps=tuple(np.stack(b) for b in zip(*jumped, strict=True)))


def _spread(D: Array, weights: Array, metric: Callable[[Array], Array]) -> float:
    """The jackknife's squared error of directions (groups x columns x directions) that have length one, per direction."""
    deviations = D - D.mean(axis=0)
    return (
        float(sum(w * np.sum(d * metric(d)) for w, d in zip(weights, deviations, strict=True))) / D.shape[2]
    )


def _half_fits(parts: list[Any], solve: Callable[[Any], Sequence[Array]]) -> tuple[Array, ...]:
    """Directions of every block from halves of the groups, several ways to split them."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(_SPLITS):
        order = rng.permutation(len(parts))
        for half in np.array_split(order, 2):
            found.append(list(solve(reduce(add, [parts[i] for i in half]))))
    return tuple(np.stack(block) for block in zip(*found, strict=True))


def turn(L: Array, target: Array) -> Array:
    """L Q with the orthogonal Q that brings it nearest: Q = U V' for L' target = U S V'."""
    U, _, Vt = svd(L.T @ target)
    return L @ (U @ Vt)


def standard_errors(left: LeftOut, b: int = 0) -> Array:
    """Jackknife standard errors of the directions of block b (columns x directions)."""
    return np.sqrt(left.squares(left.directions[b], left.jumps[b] if left.jumps else None))


def space_error(L: Array, left: LeftOut, b: int = 0) -> float:
    r"""Expected NSEE of the space of L, the directions of block b.

    With orthonormal bases V of L and :math:`V_{-k}` of the others, turned to V, the part outside the space is
    :math:`E_k = (I - VV^\top) V_{-k}`, and :math:`t = \sum_k w_k |E_k - \bar E|^2 / r` estimates the squared tangent of
    the angle to the true space. Its squared sine, at most the c = 1 - r/p of a space drawn at random, is
    :math:`t c / (t + c)`. Where that is large, the jackknife sees too little: without signal the directions of all
    rows stay near those of most rows. Halves of the rows then tell, see ``half_error``.
    """
    p, r = L.shape
    if r == p:
        return 0.0
    V = basis(L)

    def outside(stack: Array) -> Array:
        bases = [turn(basis(M), V) for M in stack]
        return np.stack([B - V @ (V.T @ B) for B in bases])

    E = outside(left.directions[b])
    jumps = outside(left.directions[b] + left.jumps[b]) - E if left.jumps else None
    t = float(left.squares(E, jumps).sum()) / r
    found = np.sqrt(_sine(t, 1.0 - r / p))
    if left.halves:
        low, high = _DOUBT
        share = min(max((found - low) / (high - low), 0.0), 1.0)
        found += share * max(half_error(left.halves[b]) - found, 0.0)
    return float(found)


def _sine(t: float, c: float) -> float:
    return t * c / (t + c) if t > 0 else 0.0


def half_error(halves: Array) -> float:
    r"""Expected NSEE from spaces A and B of disjoint halves of the rows, each followed by the other.

    If a half's squared cosine with the truth is :math:`\gamma`, independent halves overlap by :math:`|A^\top B|^2 / r =
    \gamma^2 + (1 - \gamma)^2 r / (p - r)`, which is r/p without signal. Less half a standard deviation of
    what chance gives, it is solved for :math:`\gamma`; twice the rows halve the squared tangent.
    """
    p, r = halves.shape[1:]
    a, c = r / (p - r), 1.0 - r / p
    overlap = float(
        np.mean(
            [np.sum((basis(A).T @ basis(B)) ** 2) for A, B in zip(halves[::2], halves[1::2], strict=True)]
        )
    )
    overlap = overlap / r - np.sqrt(0.5) / p
    root = a**2 - (1.0 + a) * (a - overlap)
    sine = c - (np.sqrt(root) / (1.0 + a) if root > 0 else 0.0)
    if sine >= c:
        return float(np.sqrt(c))
    t = max(sine, 0.0) * c / (c - sine) / 2.0
    return float(np.sqrt(_sine(t, c)))


def basis(L: Array) -> Array:
    """Orthonormal columns that span those of L."""
    return svd(L / max(np.abs(L).max(initial=0.0), np.finfo(float).tiny))[0]


def store_block_errors(estimator: Any, left: LeftOut, blocks: Blocks, loadings: Sequence[Array]) -> None:
    """Set the errors of an estimator that keeps directions block by block; ``loadings`` in block order."""
    _store_note(estimator, left)
    estimator.loadings_error_ = estimator.components_error_ = estimator.expected_error_ = None
    if left.note:
        return
    dtype = estimator.components_.dtype
    errors = [standard_errors(left, b) for b in range(len(blocks))]
    estimator.loadings_error_ = {n: e.astype(dtype) for n, e in zip(blocks.names, errors, strict=True)}
    estimator.components_error_ = np.zeros_like(estimator.components_)
    r = errors[0].shape[1]
    for b, (columns, e) in enumerate(zip(blocks.columns, errors, strict=True)):
        estimator.components_error_[b * r : (b + 1) * r, columns] = e.T
    estimator.expected_error_ = {
        name: space_error(L, left, b) for b, (name, L) in enumerate(zip(blocks.names, loadings, strict=True))
    }


def store_errors(estimator: Any, left: LeftOut, loadings: Array) -> None:
    """Set the errors of an estimator of one table; ``loadings`` (columns x directions) before any rounding."""
    _store_note(estimator, left)
    estimator.components_error_ = estimator.expected_error_ = None
    if left.note:
        return
    estimator.components_error_ = standard_errors(left).T.astype(estimator.components_.dtype)
    estimator.expected_error_ = space_error(loadings, left)


def _store_note(estimator: Any, left: LeftOut) -> None:
    estimator.errors_note_ = left.note
    estimator.n_groups_ = 0 if left.note else len(left.directions[0])
