"""Sums of groups of rows for the errors of directions under moments="auto"."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..moments import Additive, TripleMoments, TriplePlan
from ._auto_rows import RowSample, mixed
from ._groups import choose_groups, source_rows
from ._source import Source

Array = NDArray[np.float64]
Index = NDArray[np.intp]

FOLDS = 5
# share of the sample's rows that may have a copy (or only a key in common) before keys no longer deal rows by themselves
_COPIES = 0.02


@dataclass(frozen=True)
class RowDeal:
    """Rows dealt to k groups by their keys: whatever their order, chunks and container, the groups are the same.

    Equal rows have equal keys and would stay together, which is wrong for a table of few different rows; there
    (``by_key`` false) each chunk deals its rows at random, from a seed that its own numbers give.
    """

    k: int
    by_key: bool

    @property
    def nested(self) -> bool:
        """Whether groups lie within folds, so that their sums give those of the folds."""
        return self.by_key and self.k % FOLDS == 0

    def of_keys(self, keys: NDArray[np.uint64]) -> Index:
        """Groups of rows that have these keys."""
        if self.nested:
            part = keys // np.uint64(FOLDS) % np.uint64(self.k // FOLDS)
            return (keys % np.uint64(FOLDS) + np.uint64(FOLDS) * part).astype(np.intp)
        return (mixed(keys) % np.uint64(self.k)).astype(np.intp)

    def __call__(self, X: Any, keys: NDArray[np.uint64]) -> Index:
        """Groups of the rows of a chunk."""
        if self.by_key or not len(keys):
            return self.of_keys(keys)
        some = X[:: max(1, X.shape[0] // 8)]
        some = some.toarray() if sparse.issparse(some) else np.asarray(some)
        seed = zlib.crc32(np.ascontiguousarray(some, dtype=np.float64).tobytes())
        return np.random.default_rng([seed, len(keys)]).integers(self.k, size=len(keys))


def group_bytes(size: int, q: int, *, second: bool) -> int:
    """Bytes of a group's sums of so many coordinates and responses."""
    return 8 * (size * size * (1 + q * second) + 2 * size * q)


def choose_deal(
    n_groups: int | None, size: int, source: Source, sample: RowSample
) -> tuple[RowDeal | None, str]:
    """How rows are dealt, or why not; ``size`` is the bytes that one group takes.

    The sample tells how many rows share their key with others.
    """
    rows = source_rows(source)
    k, note = choose_groups(n_groups, size, rows)
    if not k:
        return None, note
    if n_groups is not None and FOLDS < k < min(
        n_groups, rows or n_groups
    ):  # groups within folds need no more sums
        k -= k % FOLDS
    alone = len(np.unique(sample.keys)) / sample.copies.sum()
    return RowDeal(k, by_key=alone > 1.0 - _COPIES), ""


def parts_of(number: Index, k: int) -> Iterator[tuple[int, Index]]:
    """Pairs (part, its rows) of rows numbered by their part."""
    order = np.argsort(number.astype(np.int32), kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=k))
    for i, end in enumerate(ends):
        yield i, order[(ends[i - 1] if i else 0) : end]


@dataclass(frozen=True)
class GroupPart(Additive):
    """Sums of a group: whitened coordinates a and residuals (``moments``), a v' of the mapped responses v, and v.

    ``sampled`` counts the group in each row of the kernel's sample, known after the pass.
    """

    moments: TripleMoments
    cross: Array
    response: Array
    sampled: Array

    @property
    def count(self) -> float:
        """Weight of the rows."""
        return self.moments.count

    @property
    def rows(self) -> int:
        """Rows that have a weight."""
        return self.moments.rows


@dataclass(frozen=True)
class GroupParts:
    """Sums of groups by their number."""

    parts: dict[int, GroupPart]

    def __add__(self, other: GroupParts) -> GroupParts:
        mine, theirs = self.parts, other.parts
        both = {i: mine[i] + theirs[i] for i in mine.keys() & theirs.keys()}
        return GroupParts(
            {i: both.get(i) or copied({**mine, **theirs}[i]) for i in mine.keys() | theirs.keys()}
        )

    def absorb(self, other: GroupParts) -> GroupParts:
        """``self + other`` in the arrays of ``self``, a sum that nobody else holds."""
        for i, part in other.parts.items():
            self.parts[i] = self.parts[i].absorb(part) if i in self.parts else copied(part)
        return self


def copied(part: GroupPart) -> GroupPart:
    """The same sums in arrays of their own."""
    return part + (part - part)


def whitened_plan(size: int, q: int, *, second: bool) -> TriplePlan:
    """Moments of whitened coordinates; ``second``: also those weighted by q residuals."""
    whole = ((0, 0),)
    return TriplePlan((slice(0, size),), None, np.zeros(size), np.zeros(q), whole, whole if second else ())


def group_parts(
    number: Index,
    deal: RowDeal,
    plan: TriplePlan,
    A: Array,
    R: Array,
    V: Array,
    weights: Array | None,
) -> GroupParts:
    """Sums of the groups of a chunk from coordinates, residuals and mapped responses of its rows."""
    found = {}
    for i, part in parts_of(number, deal.k):
        if not len(part):
            continue
        w = None if weights is None else weights[part]
        a, v = A[part], V[part] if w is None else V[part] * w[:, None]
        found[i] = GroupPart(plan(a, R[part], w), a.T @ v, v.sum(axis=0), np.zeros(0))
    return GroupParts(found)


@dataclass(frozen=True)
class LinearGroupPlan:
    """``plan(X, Y, weights)``: sums of groups where second moments of residuals have no part."""

    rows: Any  # Residuals
    keys: Any  # RowKeys
    deal: RowDeal
    size: int

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> GroupParts:
        """Statistic of one chunk."""
        A = self.rows.coordinates(X)
        V = self.rows.response(Y)
        number = self.deal(X, self.keys(X, Y) if self.deal.by_key else np.zeros(len(A), dtype=np.uint64))
        plan = whitened_plan(self.size, 0, second=False)
        return group_parts(number, self.deal, plan, A, V[:, :0], V, weights)
