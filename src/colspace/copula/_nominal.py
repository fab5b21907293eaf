"""Probabilities of the levels of words: one latent column a level, slopes on the other columns, and forests where they pay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr, log_softmax

from ._columns import Columns, Group
from ._curved import observed_latents
from ._estep import Array, Factors, Index
from ._fit import CopulaModel
from ._forest import Forest
from ._predict import HOLEY, gaps

POWER = 0.85  # of the odds, where cells are too few to tell
_LEAST = 1e-3  # part of the column's own shares in every law, so that nothing is impossible
_AT_ONCE = 1 << 22  # cells of a table whose laws are found at once


@dataclass(frozen=True)
class Words:
    """What is known of a group beside its latent columns: power of the odds, ``slopes`` on the other columns, a forest and its ``share``.

    ``doubt`` is a root of the covariance of power and slopes, one after another, as far as the cells leave them uncertain.
    """

    power: float = POWER
    slopes: Array | None = None
    forest: Forest | None = None
    share: float = 0.0
    gain: float = 0.0
    doubt: Array | None = None


@dataclass(frozen=True)
class Levels:
    """Gaps of a column of words and the probability of every level there."""

    group: Group
    rows: Index
    probability: Array

    @property
    def best(self) -> Index:
        """The level that is filled in, by its position: the most probable, of levels in order the median."""
        return self._at(0.5) if self.group.direct else np.asarray(self.probability.argmax(axis=1))

    def _at(self, share: float) -> Index:
        """Levels in order at a share of the law."""
        after = np.cumsum(self.probability[:, :-1], axis=1)
        return np.asarray((after < share).sum(axis=1))

    @property
    def top(self) -> Array:
        """Its probability."""
        return np.take_along_axis(self.probability, self.best[:, None], axis=1)[:, 0]

    @property
    def value(self) -> Array:
        """That level."""
        return self.group.levels[self.best]

    @property
    def mean(self) -> Array | float:
        """Mean of the levels as numbers; NaN where they have no order."""
        return self.probability @ self.group.levels if self.group.direct else np.nan

    def ends(self, level: float) -> tuple[Array, Array]:
        """Both ends of an interval: the most probable level where it has the probability ``level``, else NaN; in order, quantiles."""
        if not self.group.direct:
            end = np.where(self.top >= level, self.value, np.nan)
            return end, end
        lower, upper = (self.group.levels[self._at(0.5 + side * level)] for side in (-0.5, 0.5))
        return lower, upper

    def within(self, d: float) -> Array:
        """Probability of being within d levels of the one filled in; levels without an order are not within any distance."""
        if not self.group.direct:
            return self.top
        apart = np.abs(np.arange(len(self.group.levels)) - self.best[:, None])
        return np.asarray((self.probability * (apart <= d)).sum(axis=1))

    @property
    def explained(self) -> Array:
        """1 - (1 - sum p^2) / (1 - sum s^2), s the shares of the levels in the column: what is left of its variance."""
        group = self.group
        own = group.share * group.count[group.kind] / group.count.sum()
        apart = 1.0 - (self.probability**2).sum(axis=1)
        return np.maximum(1.0 - apart / max(1.0 - float(own @ own), 1e-12), 0.0)


def log_odds(group: Group, model: CopulaModel, mean: Array, sd: Array) -> Array:
    r"""log Phi(u) - log Phi(-u), u = (mean - cut) / sd, of every class; of two classes that of the second against 0.

    Of levels in order log p.
    """
    if group.direct:
        law = model.columns[group.start].probabilities(mean[:, 0], sd[:, 0])
        return np.log(np.maximum(law, 1e-300))
    cuts = np.array([column.z[0] for column in model.columns[group.latents]])
    u = (mean - cuts) / sd
    odds = log_ndtr(u) - log_ndtr(-u)
    return odds if group.width == group.classes else np.column_stack([np.zeros(len(odds)), odds])


def class_law(power: float, odds: Array, rest: Array | None = None, slopes: Array | None = None) -> Array:
    r"""log p of the classes: p_c is proportional to its odds to a power, times exp(a_c + b_c' z) of the rest of the row.

    At power 1 and without slopes it is the law of independent indicators given that just one is on,
    p_c ~ P_c prod_{d != c} (1 - P_d). The first row of ``slopes`` is a, the others are b.
    """
    told = power * odds
    if slopes is not None and rest is not None:
        told = told + slopes[0] + rest @ slopes[1:]
    return np.asarray(log_softmax(told, axis=1))


def missing_levels(values: Any, groups: Sequence[Group]) -> list[Index]:
    """Rows of the gaps of each group, in a table of floats."""
    return [np.flatnonzero(np.isnan(values[:, group.column])) for group in groups]


def level_laws(
    values: Any, model: CopulaModel, columns: Columns, groups: Sequence[Group], words: Sequence[Words]
) -> list[Levels]:
    """Probabilities of the levels at the gaps of some groups of a table of floats, whose rows are solved once for all groups."""
    if not groups:
        return []
    gone = missing_levels(values, groups)
    law = [np.ones((len(rows), group.classes)) for rows, group in zip(gone, groups, strict=True)]
    some = np.unique(np.concatenate([np.zeros(0, np.intp), *gone]))
    if len(some) > HOLEY * len(values):
        some = np.arange(len(values))  # a table that others ask about, too, and that is solved once for all
    for a, b, whole, sd in filled_tables(columns.expand(values[some]), model):
        for out, rows, group, known in zip(law, gone, groups, words, strict=True):
            ends = np.searchsorted(rows, [some[a], some[b - 1] + 1])
            at = np.searchsorted(some[a:b], rows[slice(*ends)])
            if len(at) and group.width:
                out[slice(*ends)] = law_of(whole[at], sd[at], model, group, known)
    return [
        Levels(group, rows, each[:, group.kind] * group.share)
        for group, rows, each in zip(groups, gone, law, strict=True)
    ]


def filled_tables(X: Array, model: CopulaModel) -> Iterator[tuple[int, int, Array, Array]]:
    """Some rows after others, from which to which: z with gaps filled by their means, and deviations of the gaps."""
    step = max(1, _AT_ONCE // max(X.shape[1], 1))
    for a in range(0, len(X), step):
        part = X[a : a + step]
        whole, sd = observed_latents(part, model)[0], np.zeros(part.shape)
        for gap in gaps(part, model):
            whole[gap.rows, gap.column] = gap.mean
            sd[gap.rows, gap.column] = gap.sd
        yield a, a + len(part), whole, sd


def law_of(whole: Array, sd: Array, model: CopulaModel, group: Group, words: Words) -> Array:
    """Probabilities of the classes of a group in rows where it is missing, whose gaps are filled."""
    odds, rest = told_of(whole, sd, model, group)
    law = class_law(words.power, odds, rest, words.slopes)
    told = None if words.forest is None else words.forest(np.column_stack([rest, law]))
    return mixed(group, law, told, words.share)


def told_of(whole: Array, sd: Array, model: CopulaModel, group: Group) -> tuple[Array, Array]:
    """Log odds of the classes and z of all other columns."""
    odds = log_odds(group, model, whole[:, group.latents], sd[:, group.latents])
    return odds, np.delete(whole, group.latents, axis=1)


def group_law(X: Array, model: CopulaModel, group: Group, words: Words) -> Array:
    """Probabilities of the classes of a group in rows where it is missing."""
    if not group.width:  # one class: nothing but the shares of its levels is known
        return np.ones((len(X), 1))
    parts = [law_of(whole, sd, model, group, words) for _, _, whole, sd in filled_tables(X, model)]
    return np.concatenate([np.zeros((0, group.classes)), *parts])


def mixed(group: Group, law: Array, told: Array | None, share: float) -> Array:
    """The copula's law and the forest's, and a little of the column's own shares."""
    found = np.exp(law)
    if told is not None:
        found = (1.0 - share) * found + share * told
    return (1.0 - _LEAST) * found + _LEAST * group.count / group.count.sum()


def hidden_group(X: Array, model: CopulaModel, group: Group) -> tuple[Array, Array]:
    """Log odds of the classes in rows without them, and z of all other columns, gaps filled by their means."""
    parts = [told_of(whole, sd, model, group) for _, _, whole, sd in filled_tables(X, model)]
    return np.concatenate([odds for odds, _ in parts]), np.concatenate([rest for _, rest in parts])


def stepped_laws(values: Any, model: CopulaModel, columns: Columns) -> dict[int, tuple[Index, Array]]:
    """Rows of gaps and probabilities of the levels of ordinal and binary columns of a table of floats."""
    wanted = {int(at): int(j) for at, j in zip(columns.place, columns.direct, strict=True)}
    wanted = {at: j for at, j in wanted.items() if columns.kinds[j] in ("ordinal", "binary")}
    parts: dict[int, list[tuple[Index, Array]]] = {}
    for gap in gaps(columns.expand(values), model) if wanted else ():
        if gap.column in wanted:
            law = model.columns[gap.column].probabilities(gap.mean, gap.sd)
            parts.setdefault(wanted[gap.column], []).append((gap.rows, law))
    return {
        j: (np.concatenate([r for r, _ in part]), np.concatenate([p for _, p in part]))
        for j, part in parts.items()
    }


# ---------------------------------------------------------------------- draws


def draw_levels(
    table: Array,
    missing: Sequence[Index],
    model: CopulaModel,
    groups: Sequence[Group],
    words: Sequence[Words],
    rng: np.random.Generator,
) -> list[Array]:
    """Levels of the gaps of one drawn table, group after group given all other cells; those still to be drawn count as missing.

    The groups' columns of the table, in place, become those of the levels.
    """
    for group, rows in zip(groups, missing, strict=True):
        table[rows, group.latents] = np.nan
    out = []
    for group, rows, known in zip(groups, missing, words, strict=True):
        law = group_law(table[rows], model, group, drawn_words(known, rng))
        law = law[:, group.kind] * group.share
        after = np.cumsum(law, axis=1)
        at = (after < rng.random(len(rows))[:, None] * after[:, -1:]).sum(axis=1)
        x = group.levels[np.minimum(at, len(group.levels) - 1)]
        table[rows, group.latents] = group.latent_cells(x)
        out.append(x)
    return out


def drawn_words(words: Words, rng: np.random.Generator) -> Words:
    """Power and slopes drawn from their law given the cells."""
    if words.doubt is None:
        return words
    moved = words.doubt @ rng.standard_normal(len(words.doubt))
    slopes = words.slopes
    if slopes is not None and len(moved) > 1:
        slopes = slopes + moved[1:].reshape(slopes.shape)
    return replace(words, power=max(words.power + float(moved[0]), 0.0), slopes=slopes)


def drawn_odds(model: CopulaModel, rng: np.random.Generator) -> CopulaModel:
    """The factors' model with loadings drawn from their law, each column's variance kept at one."""
    f = model.factors
    if model.method == "paper" or model.bridge is not None or not f.C.any():
        return model
    root = np.linalg.cholesky(f.C + 1e-15 * np.eye(f.rank))
    W = f.W + np.einsum("pij,pj->pi", root, rng.standard_normal(f.W.shape))
    total = np.einsum("pi,pi->p", W, W) + f.noise
    drawn = Factors(W / np.sqrt(total)[:, None], np.zeros_like(f.C), f.noise / total)
    return replace(model, state=replace(model.state, factors=drawn))
