r"""Errors of directions from sums over groups of rows: the delete-one-group jackknife.

Moments are additive, so that one pass keeps the sums of K groups of rows, and the whole less a group gives the
directions without it: small matrices only. Rows are dealt to groups at random within each chunk, by a generator that
the chunk's own numbers start, so that neither sorted nor periodic rows can line up with the groups.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
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
from .._threads import small_products, table_work
from ..moments import TripleMoments, TriplePlan, all_finite
from ._source import Source

Array = NDArray[np.float64]
Pairs = tuple[tuple[int, int], ...]

#: Bytes that the sums of all groups may take.
GROUP_BYTES = 256 << 20
_FEWEST = 10  # groups under which errors are too rough to be worth memory that is short

OFF = "n_groups=None: no errors were asked for"


def choose_groups(n_groups: int | None, size: int, rows: int | None) -> tuple[int, str]:
    """How many groups to keep, and why none when it is zero; ``size`` is the bytes that one of them takes."""
    if n_groups is None:
        return 0, OFF
    k = n_groups if rows is None else min(n_groups, rows)
    if k * size > GROUP_BYTES:
        most = GROUP_BYTES // size
        if most < min(k, _FEWEST):
            return 0, too_much(f"the sums of {k} groups of rows", k * size)
        k = most
    if k < 2:
        return 0, f"{rows} row(s) do not make two groups"
    return k, ""


def too_much(what: str, size: int) -> str:
    """Why there are no errors where memory is short."""
    return (
        f"{what} would take {size / 2**20:,.0f} MB, more than the {GROUP_BYTES >> 20} MB allowed. Remedies: fewer "
        "n_groups, or fewer columns"
    )


def deal(X: Any, k: int) -> list[tuple[int, NDArray[np.intp]]]:
    """Rows of a chunk dealt to k groups: pairs (group, its rows in order), parts of equal size but for one row."""
    m = X.shape[0]
    if m == 0:
        return [(0, np.arange(0))]
    some = X[:: max(1, m // 8)]
    some = some.toarray() if sparse.issparse(some) else np.asarray(some)
    seed = zlib.crc32(np.ascontiguousarray(some, dtype=np.float64).tobytes())
    rng = np.random.default_rng([seed, m])
    first = int(rng.integers(k))
    parts = np.array_split(rng.permutation(m), min(k, m))
    return [((first + i) % k, np.sort(rows)) for i, rows in enumerate(parts)]


def _take(a: Any, rows: NDArray[np.intp], number: int) -> Any:
    """Rows of an array; those of a table of floats last until the next rows of the array of that number."""
    if isinstance(a, np.ndarray) and a.ndim == 2 and a.dtype == np.float64:
        out = workspace(f"dealt {number}", (len(rows), a.shape[1]))
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
            extra = self.extra(*self._rows(arrays, rows)) if self.extra is not None and place == 0 else None
            yield Groups({i: self.statistic(*self._rows(arrays, rows))}, extra)

    @staticmethod
    def _rows(arrays: tuple[Any, ...], rows: NDArray[np.intp]) -> tuple[Any, ...]:
        """Copies of rows, which the statistic may write into."""
        return tuple(_take(a, rows, n) for n, a in enumerate(arrays))


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
        note = self.note or other.note
        return type(self)(self.total + other.total, {} if note else merged(self.parts, other.parts), note)

    @property
    def shares(self) -> Array:
        """Weight of each group's rows over that of all."""
        return np.array([_count(part) for part in self.parts.values()]) / _count(self.total)

    @property
    def weighty(self) -> Self:
        """The same without groups that the sums of all rows cannot tell from none: they are no part of a jackknife.

        A group of share s adds about s to the squared error, and its jackknife weight 1/s - 1 is infinite at s = 0.
        """
        kept = self.shares > np.finfo(np.float64).eps
        return replace(self, parts={i: self.parts[i] for i, k in zip(self.parts, kept, strict=True) if k})


def _count(statistic: Any) -> float:
    for name in ("count", "n_rows"):
        value = getattr(statistic, name, None)
        if value is not None and np.ndim(value) == 0:
            return float(value)
    return _count(statistic.labeled) + _count(statistic.rest)


def rows_of(statistic: Any) -> int:
    """Rows with a weight that a statistic has seen, labelled or not."""
    if hasattr(statistic, "labeled"):
        return rows_of(statistic.labeled) + rows_of(statistic.rest)
    return int(statistic.rows)


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


@small_products(lambda source, *rest: table_work(None, source.X))
def stream_sums(source: Source, plan: TriplePlan, n_groups: int | None) -> GroupSums:
    """The sums of one chunk of a stream, and those of groups of its rows."""
    k, note = choose_groups(n_groups, triple_bytes(plan, source.encoder.n_responses), None)
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
