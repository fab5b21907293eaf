"""Sums of groups of rows for the errors of directions under moments="auto"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..moments import Additive, TripleMoments
from ._auto_rows import RowSample
from ._auto_tiles import FOLDS, RowDeal
from ._groups import choose_groups, source_rows
from ._source import Source

Array = NDArray[np.float64]

# share of the sample's rows that may have a copy, and of its keys that different rows may have in common, before keys no
# longer deal rows by themselves
_COPIES = 0.02
_SHARED = 0.2


def group_bytes(sizes: Sequence[int], q: int, *, second: bool) -> int:
    """Bytes of a group's sums of so many coordinates of every block and so many responses."""
    size, noise = sum(sizes), sum(k * k for k in sizes)
    return 8 * (size * size * (1 + q * second) + 2 * size * q + noise * second)


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
    different = len(sample.keys)
    copied, shared = 1 - different / sample.copies.sum(), 1 - len(np.unique(sample.keys)) / different
    return RowDeal(k, by_key=bool(copied < _COPIES and shared < _SHARED)), ""


@dataclass(frozen=True)
class GroupPart(Additive):
    """Sums of a group: whitened coordinates a and residuals (``moments``), a v' of the mapped responses v, and v.

    ``sampled`` counts the group in each row of the kernel's sample, known after the pass. ``noise``: of every block,
    |r|^2 |a|^2 a a'.
    """

    moments: TripleMoments
    cross: Array
    response: Array
    sampled: Array
    noise: dict[int, Array] = field(default_factory=dict)

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
