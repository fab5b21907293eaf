"""Columns of a table and the latent columns that stand for them: one each, none of an id, one for each level of words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._codecs import ID, NOMINAL, shown
from ._estep import Array, Index
from ._kinds import CONSTANT, forced_kinds
from ._marginals import Distinct
from ._passes import DaskRows, LocalRows
from ._table import Layout

MOST_OWN = 50  # levels with a latent column of their own, at most
FEWEST = 3  # cells of such a level, at least
MOST_STEPS = 10  # levels in order, up to which a forest may tell them one by one


class LeftOutWarning(UserWarning):
    """Columns that are ids or free text are neither used nor filled."""


@dataclass(frozen=True)
class Group:
    """A nominal column: its levels (in the table of floats) fall into classes, each of one level but the last, of the rare ones.

    ``kind[l]`` is the class of level l, ``share[l]`` its part of the cells of that class. Three classes or more have a latent column each,
    from ``start`` on in the model; two have one, of the second. ``direct``: levels in order, which one column of the model holds itself.
    """

    column: int
    start: int
    levels: Array
    kind: Index
    share: Array
    count: Array
    direct: bool = False

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.count)

    @property
    def width(self) -> int:
        """Number of latent columns."""
        return self.classes if self.classes > 2 and not self.direct else min(self.classes - 1, 1)

    @property
    def latents(self) -> slice:
        """Latent columns in the model."""
        return slice(self.start, self.start + self.width)

    def classes_of(self, x: Array) -> Index:
        """Class of every cell that is there."""
        return self.kind[np.searchsorted(self.levels, x)]

    def latent_cells(self, x: Array) -> Array:
        """Cells as the model's columns hold them."""
        return x[:, None] if self.direct else self.indicators(x)

    def indicators(self, x: Array) -> Array:
        """Cells as columns of 0 and 1, NaN where nothing is there."""
        first = self.classes - self.width
        out = np.full((len(x), self.width), np.nan)
        there = np.flatnonzero(~np.isnan(x))
        out[there] = self.classes_of(x[there])[:, None] == np.arange(first, self.classes)
        return out

    def distinct(self) -> list[Distinct]:
        """Values of the latent columns and their counts."""
        total, values = self.count.sum(), np.array([0.0, 1.0])
        return [Distinct(values, np.array([total - c, c])) for c in self.count[self.classes - self.width :]]


def group_of(column: int, start: int, distinct: Distinct) -> Group:
    """Levels in classes: the commonest by themselves, those with fewer than ``FEWEST`` cells or beyond ``MOST_OWN`` in one."""
    counts = distinct.counts.astype(np.float64)
    own = np.zeros(len(counts), dtype=bool)
    own[np.argsort(-counts, kind="stable")[:MOST_OWN]] = True
    own &= counts >= FEWEST
    kind = np.where(own, np.cumsum(own) - 1, own.sum())
    count = np.bincount(kind, counts).astype(np.float64)
    return Group(column, start, distinct.values, kind, counts / count[kind], count)


def steps_of(column: int, start: int, distinct: Distinct) -> Group:
    """A column of levels in order."""
    counts = distinct.counts.astype(np.float64)
    every = np.arange(len(counts))
    return Group(column, start, distinct.values, every, np.ones(len(counts)), counts, direct=True)


@dataclass(frozen=True)
class Columns:
    """Which columns are in the model as they are (``direct``, at ``place`` of its columns), as groups, or not at all.

    ``latents`` says of which column each row of the loadings is, ``active`` which of them the model has, constants not. ``steps`` are columns of
    few levels in order, which are direct, and ``texts`` those that hold words.
    """

    kinds: tuple[str, ...]
    direct: Index
    place: Index
    groups: tuple[Group, ...]
    latents: Index
    active: NDArray[np.bool_]
    steps: tuple[Group, ...] = ()
    texts: tuple[int, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the model has the columns of the table, no more and no fewer."""
        return not self.groups and len(self.direct) == len(self.kinds)

    @cached_property
    def grouped(self) -> NDArray[np.bool_]:
        """Which columns of the model are levels of a group."""
        out = np.ones(int(self.active.sum()), dtype=bool)
        out[self.place] = False
        return out

    @property
    def two_words(self) -> tuple[Group, ...]:
        """Columns of two values that are words."""
        return tuple(group for group in self.steps if group.column in self.texts and group.classes == 2)

    @property
    def apart(self) -> NDArray[np.bool_] | None:
        """Columns of the model that are words or few levels, or None where there are none."""
        if not self.groups and not self.steps:
            return None
        out = self.grouped.copy()
        out[[group.start for group in self.steps]] = True
        return out

    @property
    def words(self) -> list[slice]:
        """Columns of the model that are levels of the same column, for each that has more than one class."""
        return [group.latents for group in self.groups if group.width]

    def expand(self, values: Any) -> Any:
        """The columns of the model."""
        if self.whole:
            return values
        if not self.groups:
            return values[:, self.direct]
        if sparse.issparse(values):
            msg = "nominal columns of a sparse X are not supported; give a dense table with NaN for gaps"
            raise ValueError(msg)
        out = np.empty((len(values), len(self.grouped)))
        out[:, self.place] = values[:, self.direct]
        for group in self.groups:
            out[:, group.latents] = group.indicators(values[:, group.column])
        return out

    def rows(self, rows: LocalRows | DaskRows) -> LocalRows | DaskRows:
        """Rows of the model's columns."""
        if self.whole:
            return rows
        return rows.changed(self.expand) if self.groups else rows.columns(self.direct)

    def collapse(self, found: Array, fill: Sequence[float]) -> Array:
        """What was found of the model's columns as columns of the table; ``fill`` for those that it does not have directly."""
        if self.whole:
            return found
        out = np.empty((found.shape[0], len(self.kinds)))
        out[:] = fill
        out[:, self.direct] = found[:, self.place]
        return out

    def each(self, items: Sequence[Any]) -> list[Any]:
        """Items of the columns as items of the model's columns."""
        return [items[j] for j in self.latents[self.active]]


def columns_of(
    kinds: tuple[str, ...], distinct: Sequence[Distinct], words: Sequence[bool] | None = None
) -> Columns:
    """Where the columns of a table are in the model; ``words`` says which hold words."""
    direct, place, groups, latents, active = [], [], [], [], []
    steps = []
    at = 0
    for j, kind in enumerate(kinds):
        if kind in ("binary", "ordinal") and len(distinct[j].values) <= MOST_STEPS:
            steps.append(steps_of(j, at, distinct[j]))
        if kind == NOMINAL:
            groups.append(group_of(j, at, distinct[j]))
            width = groups[-1].width
        else:
            width = int(kind not in (ID, CONSTANT))
            direct += [j] * width
            place += [at] * width
        rows = width or int(kind == CONSTANT)
        latents += [j] * rows
        active += [width > 0] * rows
        at += width
    index = [np.array(part, dtype=np.intp) for part in (direct, place, latents)]
    texts = () if words is None else tuple(map(int, np.flatnonzero(words)))
    return Columns(
        kinds, index[0], index[1], tuple(groups), index[2], np.array(active, dtype=bool), tuple(steps), texts
    )


def model_columns(columns: Columns, distinct: Sequence[Distinct]) -> tuple[list[Distinct], list[str]]:
    """Distinct values and kinds of the model's columns."""
    values = {int(at): distinct[j] for at, j in zip(columns.place, columns.direct, strict=True)}
    for group in columns.groups:
        values |= dict(enumerate(group.distinct(), group.start))
    kinds = ["binary" if kind == NOMINAL else kind for kind in columns.each(columns.kinds)]
    return [values[at] for at in range(len(values))], kinds


def warn_left_out(layout: Layout, given: Any) -> None:
    """Name the columns that were taken for ids, unasked."""
    asked = forced_kinds(given, layout.names, len(layout.codecs))
    ids = [j for j, codec in enumerate(layout.codecs) if codec.values == ID and asked.get(j) != ID]
    if ids:
        names = [layout.labels[j] for j in ids]
        warnings.warn(
            f"{len(names)} column(s) of ids or free text are neither used nor filled: {shown(names)}. Remedies: "
            f"kinds={{{names[0]!r}: 'nominal'}} to use one all the same, 'id' or dropping it to silence this",
            LeftOutWarning,
            stacklevel=5,
        )
