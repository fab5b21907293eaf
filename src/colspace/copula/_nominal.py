"""Probabilities of the levels of nominal columns: one latent column a level, and forests where they pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_ndtr, log_softmax

from .._random import generator
from ._bend import distinct_rows, sampled
from ._columns import Columns, Group
from ._curved import FEWEST, LEAST_GAIN, is_gain, observed_latents
from ._estep import Array, Index
from ._fit import CopulaModel
from ._forest import Forest, grow
from ._passes import DaskRows, LocalRows
from ._predict import gaps

POWER = 0.85  # of the odds, where cells are too few to tell
FOLDS = 4  # of the cells of nominal columns, each hidden from a fit once
SPLITS = 100  # columns that a split of a forest looks at: levels of many words are many columns, of which few say anything
PENALTIES = (30.0, 3.0)  # of the slopes
SLOPE_ROWS = 3000  # rows that slopes are learned from, at most
_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the forest's word
_LEAST = 1e-3  # part of the column's own shares in every law, so that nothing is impossible
_AT_ONCE = 1 << 22  # cells of a table whose laws are found at once


@dataclass(frozen=True)
class Words:
    """What is known of a group beside its latent columns: power of the odds, ``slopes`` on the other columns, a forest and its ``share``."""

    power: float = POWER
    slopes: Array | None = None
    forest: Forest | None = None
    share: float = 0.0
    gain: float = 0.0


@dataclass(frozen=True)
class Levels:
    """Gaps of a nominal column and the probability of every level there."""

    group: Group
    rows: Index
    probability: Array

    @property
    def best(self) -> Index:
        """The most probable level, by its position."""
        return np.asarray(self.probability.argmax(axis=1))

    @property
    def top(self) -> Array:
        """Its probability."""
        return np.asarray(self.probability.max(axis=1))

    @property
    def value(self) -> Array:
        """The most probable level."""
        return self.group.levels[self.best]

    def value_if(self, level: float) -> Array:
        """The most probable level where its probability is at least ``level``, else NaN."""
        return np.where(self.top >= level, self.value, np.nan)

    @property
    def explained(self) -> Array:
        """1 - (1 - sum p^2) / (1 - sum s^2), s the shares of the levels in the column: what is left of its variance."""
        group = self.group
        own = group.share * group.count[group.kind] / group.count.sum()
        apart = 1.0 - (self.probability**2).sum(axis=1)
        return np.maximum(1.0 - apart / max(1.0 - float(own @ own), 1e-12), 0.0)


def log_odds(group: Group, model: CopulaModel, mean: Array, sd: Array) -> Array:
    r"""log Phi(u) - log Phi(-u), u = (mean - cut) / sd, of every class; of two classes that of the second against 0."""
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


def missing_levels(values: Any, columns: Columns) -> list[Index]:
    """Rows of the gaps of each group, in a table of floats."""
    return [np.flatnonzero(np.isnan(values[:, group.column])) for group in columns.groups]


def level_laws(values: Any, model: CopulaModel, columns: Columns, words: Sequence[Words]) -> list[Levels]:
    """Probabilities of the levels at the gaps of nominal columns of a table of floats."""
    out = []
    for group, rows, known in zip(columns.groups, missing_levels(values, columns), words, strict=True):
        law = group_law(columns.expand(values[rows]), model, group, known)
        out.append(Levels(group, rows, law[:, group.kind] * group.share))
    return out


def group_law(X: Array, model: CopulaModel, group: Group, words: Words) -> Array:
    """Probabilities of the classes of a group in rows where it is missing."""
    if not group.width:  # one class: nothing but the shares of its levels is known
        return np.ones((len(X), 1))
    step = max(1, _AT_ONCE // max(X.shape[1], 1))
    parts = [np.zeros((0, group.classes))]
    for a in range(0, len(X), step):
        asked = words.forest is not None or words.slopes is not None
        odds, rest = hidden_group(X[a : a + step], model, group, table=asked)
        law = class_law(words.power, odds, rest, words.slopes)
        told = None if words.forest is None else words.forest(np.column_stack([rest, law]))
        parts.append(mixed(group, law, told, words.share))
    return np.concatenate(parts)


def mixed(group: Group, law: Array, told: Array | None, share: float) -> Array:
    """The copula's law and the forest's, and a little of the column's own shares."""
    found = np.exp(law)
    if told is not None:
        found = (1.0 - share) * found + share * told
    return (1.0 - _LEAST) * found + _LEAST * group.count / group.count.sum()


def hidden_group(X: Array, model: CopulaModel, group: Group, *, table: bool) -> tuple[Array, Array]:
    """Log odds of the classes in rows without them, and (if asked for) z of all other columns, gaps filled by their means."""
    mean, sd = np.zeros((2, len(X), group.width))
    whole = observed_latents(X, model)[0] if table else np.zeros((len(X), 0))
    first, last = group.latents.start, group.latents.stop
    for gap in gaps(X, model):
        if first <= gap.column < last:
            mean[gap.rows, gap.column - first] = gap.mean
            sd[gap.rows, gap.column - first] = gap.sd
        if table:
            whole[gap.rows, gap.column] = gap.mean
    return log_odds(group, model, mean, sd), np.delete(
        whole, np.arange(first, last), axis=1
    ) if table else whole


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


# ---------------------------------------------------------------------- learning


def learn_words(
    rows: LocalRows | DaskRows,
    model: CopulaModel,
    columns: Columns,
    refit: Callable[[LocalRows], CopulaModel],
    random_state: Any,
    *,
    forests: bool,
) -> tuple[Words, ...]:
    """For each group the power of its odds and, if it pays, a forest: learned on the cells that are there.

    The odds of a cell are those of a model that has not seen it: ``refit`` without one of ``FOLDS`` parts of the cells of nominal columns.
    """
    groups = columns.groups
    if not any(group.width for group in groups) or not isinstance(rows, LocalRows):
        return (Words(),) * len(groups)
    rng = generator(random_state)
    X, weight = distinct_rows(*sampled(rows.X, rows.weight, rng))
    there = [
        np.flatnonzero(~np.isnan(X[:, group.start])) if group.width else np.zeros(0, np.intp)
        for group in groups
    ]
    fold = [rng.permutation(np.arange(len(cells)) % FOLDS) for cells in there]
    odds = [np.zeros((len(cells), group.classes)) for cells, group in zip(there, groups, strict=True)]
    for k in range(FOLDS):
        part = X.copy()
        for group, cells, which in zip(groups, there, fold, strict=True):
            part[cells[which == k], group.latents] = np.nan
        other = refit(LocalRows(part, weight, rows.n_jobs))
        for group, cells, which, found in zip(groups, there, fold, odds, strict=True):
            if len(cells) >= FEWEST:
                on = np.flatnonzero(which == k)
                found[on] = hidden_group(hide(X[cells[on]], group), other, group, table=False)[0]
    w = np.ones(len(X)) if weight is None else weight
    return tuple(
        learn_group(X[cells], w[cells], found, model, group, rng, forests=forests)
        if len(cells) >= FEWEST
        else Words()
        for group, cells, found in zip(groups, there, odds, strict=True)
    )


def hide(X: Array, group: Group) -> Array:
    """The rows without a group."""
    X = X.copy()
    X[:, group.latents] = np.nan
    return X


def learn_group(
    X: Array,
    w: Array,
    odds: Array,
    model: CopulaModel,
    group: Group,
    rng: np.random.Generator,
    *,
    forests: bool,
) -> Words:
    """Power and forest of one group, which all rows of X have."""
    on = X[:, group.latents]
    y = on if group.width == group.classes else np.column_stack([1.0 - on, on])
    power = likeliest_power(odds, y, w, group)
    if X.shape[1] == group.width:
        return Words(power)
    rest = hidden_group(hide(X, group), model, group, table=True)[1]
    slopes = best_slopes(power * odds, rest, y, w, group, rng)
    law = class_law(power, odds, rest, slopes)
    straight = Words(power, slopes)
    if not forests:
        return straight
    old = brier(mixed(group, law, None, 0.0), y)

    def blended(outside: Array) -> tuple[float, Array]:
        tried = [(share, brier(mixed(group, law, outside, share), y)) for share in _SHARES]
        return min(tried, key=lambda each: float(w @ each[1]))

    def worth(outside: Array) -> bool:
        return float(w @ blended(outside)[1]) < (1.0 - 0.25 * LEAST_GAIN) * float(w @ old)

    uniform = bool((w == w[0]).all())
    grown = grow(np.column_stack([rest, law]), y, None if uniform else w, rng, worth, splits=SPLITS)
    if grown is None:
        return straight
    forest, outside = grown
    share, new = blended(outside)
    if not is_gain(old, new, w, LEAST_GAIN):
        return straight
    return Words(power, slopes, forest, share, 1.0 - float(w @ new) / float(w @ old))


def best_slopes(
    told: Array, rest: Array, y: Array, w: Array, group: Group, rng: np.random.Generator
) -> Array | None:
    """Slopes with the penalty under which rows left out are likeliest; None where they are likelier without any."""
    if len(y) > SLOPE_ROWS:
        some = np.sort(rng.choice(len(y), SLOPE_ROWS, replace=False))
        told, rest, y, w = told[some], rest[some], y[some], w[some]
    which = rng.permutation(np.arange(len(y)) % FOLDS)

    def loss(part: Array, slopes: Array | None) -> float:
        law = mixed(group, class_law(1.0, told[part], rest[part], slopes), None, 0.0)
        return -float(w[part] @ np.log((law * y[part]).sum(axis=1)))

    losses = [loss(np.ones(len(y), dtype=bool), None)]
    for penalty in PENALTIES:
        parts = [which == k for k in range(FOLDS)]
        losses.append(sum(loss(k, slopes_of(told[~k], rest[~k], y[~k], w[~k], penalty)) for k in parts))
    best = int(np.argmin(losses))
    return None if best == 0 else slopes_of(told, rest, y, w, PENALTIES[best - 1])


def slopes_of(told: Array, rest: Array, y: Array, w: Array, penalty: float) -> Array:
    r"""a and b of the largest penalised likelihood: minimise

    .. math:: -\sum_i w_i \log p_{i y_i} + \tfrac{\lambda}{2} \lVert b \rVert^2 + \tfrac12 \lVert a \rVert^2 .
    """
    F = np.column_stack([np.ones(len(rest)), rest])
    ridge = np.append(1.0, np.full(rest.shape[1], penalty))[:, None]

    def loss(at: Array) -> tuple[float, Array]:
        A = at.reshape(F.shape[1], -1)
        law = log_softmax(told + F @ A, axis=1)
        slope = F.T @ (w[:, None] * (np.exp(law) - y)) + ridge * A
        return 0.5 * float((ridge * A * A).sum()) - float(w @ (law * y).sum(axis=1)), slope.ravel()

    found = minimize(
        loss, np.zeros(F.shape[1] * y.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 50}
    )
    return np.asarray(found.x).reshape(F.shape[1], -1)


def likeliest_power(odds: Array, y: Array, weight: Array, group: Group) -> float:
    """The power of the odds under which the classes are likeliest."""

    def loss(power: float) -> float:
        law = mixed(group, class_law(power, odds), None, 0.0)
        return -float(weight @ np.log((law * y).sum(axis=1)))

    return float(minimize_scalar(loss, bounds=(0.1, 3.0), method="bounded", options={"xatol": 1e-3}).x)


def brier(law: Array, y: Array) -> Array:
    """Sum of squared differences of probabilities and indicators, row by row."""
    return np.asarray(((law - y) ** 2).sum(axis=1))


# ---------------------------------------------------------------------- draws


def draw_levels(
    table: Array,
    missing: Sequence[Index],
    model: CopulaModel,
    columns: Columns,
    words: Sequence[Words],
    rng: np.random.Generator,
) -> list[Array]:
    """Levels of the gaps of one drawn table, group after group given all other cells; those still to be drawn count as missing.

    The indicators of the table, in place, become those of the levels.
    """
    for group, rows in zip(columns.groups, missing, strict=True):
        table[rows, group.latents] = np.nan
    out = []
    for group, rows, known in zip(columns.groups, missing, words, strict=True):
        law = group_law(table[rows], model, group, known)
        law = law[:, group.kind] * group.share
        after = np.cumsum(law, axis=1)
        at = (after < rng.random(len(rows))[:, None] * after[:, -1:]).sum(axis=1)
        x = group.levels[np.minimum(at, len(group.levels) - 1)]
        table[rows, group.latents] = group.indicators(x)
        out.append(x)
    return out
