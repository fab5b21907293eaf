"""What a forest adds to the copula where columns bend: a correction of the latent mean, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import minimize

from ._encode import KnownRows, by_column, known_rows
from ._estep import (
    Array,
    Factors,
    Index,
    Posterior,
    Rows,
    cavity,
    censored_law,
    pack,
    posterior,
    signal,
    sites_of,
    unpack,
)
from ._fit import CopulaModel
from ._forest import TOLD, Forest, grow
from ._lean import beside_median, lean_of
from ._predict import Gaps, dense, plain_gaps
from ._residual_law import ResidualLaw, residual_law
from ._row_laws import RowLaws, latent_variance, row_laws
from ._step import level_means
from ._truncated import log_mass, truncated_moments

LEARN = 10_000  # rows that forests learn from, at most
LEAST_GAIN, LEAST_RATIO = 0.03, 2.0  # of the error outside the bag: its share, and over its standard error
ROUNDS, MORE = 3, 0.02  # rounds, and what one more must gain
FEWEST = 40  # cells of a column worth a forest
_REDRAWS = 2  # sweeps over corrected columns of a drawn table
_SPREAD_LEAF = 8  # cells whose spread is told together, at least
_SWEEPS = 3  # of the sites of the other levels, once a cell is gone
_MANY = 24  # factors beyond which one has to do
_BROAD = 100  # columns beyond which none is needed
_KEPT = 1 << 25  # numbers of hidden rows that are kept from round to round
_AT_ONCE = 1 << 22  # cells of a table that are filled at once

Rounds: TypeAlias = "list[tuple[Bend, ...]]"  # corrections, round by round
Told: TypeAlias = list[
    dict[int, Array]
]  # their means of the cells that they are learned from, outside the bag


@dataclass(frozen=True)
class Spread:
    """How wide residuals are in a row, relative to the copula: mean + part (forest - mean)."""

    forest: Forest
    mean: float
    part: float

    def __call__(self, X: Array) -> Array:
        return self.mixed(self.forest(X))

    def mixed(self, told: Array) -> Array:
        """The mean moved to what the forest has told; nothing is narrower than a tenth of it."""
        return np.maximum(self.mean + self.part * (told - self.mean), 0.1 * self.mean)


def features_of_spread(table: Array, missing: Any, j: int) -> Array:
    """The other columns, and which of them are gaps."""
    return np.column_stack([np.delete(table, j, axis=1), np.delete(missing, j, axis=1)])


@dataclass(frozen=True)
class Bend:
    """Correction of one column: ``share`` of what the forest says of the other columns is added to the latent mean.

    Its residuals are ``scale`` times the copula's standard deviation wide (and times what ``spread`` says of the row), and have
    the ``law`` (None: normal). ``lean`` is how far the mean goes from the median to what that says.
    """

    column: int
    forest: Forest
    share: float
    scale: float
    law: ResidualLaw | None
    error: float
    spread: Spread | None = None
    lean: float = 1.0

    def width(self, sd: Array, table: Array, missing: Any) -> Array:
        """Standard deviations of the cells of some rows, filled, with gaps where ``missing``."""
        out = self.scale * sd
        if self.spread is None:
            return out
        return out * self.spread(features_of_spread(table, missing, self.column))


@dataclass(frozen=True)
class Curved:
    """Corrections, round by round: those of a round see gaps as the rounds before have filled them."""

    rounds: tuple[tuple[Bend, ...], ...]
    gain: Array

    def gaps(self, X: Any, model: CopulaModel, *, spread: bool) -> Iterator[Gaps]:
        """Missing cells with corrected laws, column by column."""
        step = max(1, _AT_ONCE // max(X.shape[1], 1))
        last = self.last
        plain = {} if model.lean is None else dict(enumerate(map(float, model.lean)))
        for a in range(0, X.shape[0], step):
            part = X[a : a + step]
            table, missing = observed_latents(part, model)
            sd = np.ones(table.shape) if spread else None
            for gap in plain_gaps(part, model, spread=spread):
                table[gap.rows, gap.column] = gap.mean
                if sd is not None:
                    sd[gap.rows, gap.column] = gap.sd
            table = self.filled(table, missing)
            for j in map(int, np.flatnonzero(missing.any(axis=0))):
                rows = np.flatnonzero(missing[:, j])
                width, bend = np.zeros(0) if sd is None else sd[rows, j], last.get(j)
                if bend is not None and sd is not None:
                    width = bend.width(width, table[rows], missing[rows])
                law, lean = (None, plain.get(j, 1.0)) if bend is None else (bend.law, bend.lean)
                yield Gaps(j, a + rows, table[rows, j], width, law, lean)

    @property
    def last(self) -> dict[int, Bend]:
        """The correction of each column that has one."""
        return {bend.column: bend for bends in self.rounds for bend in bends}

    def filled(self, table: Array, missing: Any) -> Array:
        """The table with gaps, at first filled by the factors, as all rounds fill them."""
        base = table
        for bends in self.rounds:
            table = one_round(bends, table, base, missing)
        return table


def one_round(bends: tuple[Bend, ...], table: Array, base: Array, missing: Any) -> Array:
    """Gaps of corrected columns anew: the factors' mean plus what their forests say of ``table``."""
    out = table.copy()
    for bend in bends:
        j = bend.column
        rows = np.flatnonzero(missing[:, j])
        if len(rows):
            out[rows, j] = base[rows, j] + bend.share * bend.forest(np.delete(table[rows], j, axis=1))
    return out


def observed_latents(X: Any, model: CopulaModel) -> tuple[Array, Any]:
    """z of the observed cells, E[z | level] of levels and 0 of gaps; and which cells are gaps."""
    known = known_rows(X, model.state.chain, model.columns, model.labels)
    return latent_table(known, model)


def latent_table(known: KnownRows, model: CopulaModel) -> tuple[Array, Any]:
    """The same of cells that are known."""
    rows = known.rows
    z = np.zeros(len(rows.row))
    z[known.exact] = known.z
    z[known.censored] = level_means(model.state.chain)[known.level]
    table, missing = np.zeros((rows.n, rows.p)), np.ones((rows.n, rows.p), dtype=bool)
    table[rows.row, rows.column] = z
    missing[rows.row, rows.column] = False
    return table, missing


def redrawn(
    tables: list[Array], X: Any, model: CopulaModel, rng: np.random.Generator, *, clip: bool
) -> list[Array]:
    """Drawn tables with gaps of corrected columns drawn again, given all other cells of their rows, column by column.

    The mean is the factors' plus what the forest says of the row, the spread that of the residuals outside the bag.
    """
    missing = np.isnan(dense(X))
    for out in tables:
        for _ in range(_REDRAWS):
            for j, bend in model.curved.last.items():
                rows = np.flatnonzero(missing[:, j])
                if len(rows):
                    column = model.columns[j]
                    x = column.values(_draw(out[rows], j, bend, model, rng))
                    out[rows, j] = np.clip(x, *column.limits) if clip else x
    return tables


def _draw(rows: Array, j: int, bend: Bend, model: CopulaModel, rng: np.random.Generator) -> Array:
    """Latent draws of column j of whole rows, given the other columns."""
    known = known_rows(rows, model.state.chain, model.columns, model.labels)
    cells = np.flatnonzero(known.rows.column == j)
    table, missing = latent_table(known, model)
    cell = hidden(row_laws(known, model), model, cells, table, missing, np.ones(len(rows)))
    mean = cell.mean + bend.share * bend.forest(np.delete(cell.base, j, axis=1))
    noise = rng.standard_normal(len(rows)) if bend.law is None else bend.law.quantile(rng.random(len(rows)))
    return mean + bend.width(cell.sd, cell.base, missing) * noise


# ---------------------------------------------------------------------- one cell hidden


def without(laws: RowLaws, model: CopulaModel, cells: Index) -> Posterior:
    r"""Factors of the rows of ``cells``, all of one column j, with these cells hidden.

    .. math:: V_{-j} = (V^{-1} - \tau (w_j w_j^\top + C_j))^{-1}, \qquad
        t_{-j} = V_{-j} (V^{-1} t - \nu w_j),

    by a rank-one downdate and (where loadings are uncertain) a small solve. Sites of other levels have been found with
    the cell in view: they are swept anew, unless columns are so many that one cell is little of what tells them.
    """
    f, k = model.factors, model.factors.rank
    rows = laws.known.rows
    at, j = rows.row[cells], int(rows.column[cells[0]])
    if rows.p > _BROAD and len(laws.known.censored):
        return laws.without(at, slice(j, j + 1))
    tau, nu, w = laws.tau[cells], laws.nu[cells], f.W[j]
    t, V = laws.posterior.t[at], unpack(laws.posterior.V[at], k)
    Vw = V @ w
    rest = np.maximum(1.0 - tau * (Vw @ w), 1e-12)
    t = t + Vw * ((tau * (t @ w) - nu) / rest)[:, None]
    V = V + Vw[:, :, None] * Vw[:, None, :] * (tau / rest)[:, None, None]
    if f.C[j].any():
        solve = np.linalg.inv(np.eye(k) - tau[:, None, None] * (V @ f.C[j]))
        t, V = np.einsum("nij,nj->ni", solve, t), solve @ V
    q = Posterior(t, pack(V))
    censored = laws.known.censored
    if not len(censored):
        return q
    place = np.full(rows.n, -1)
    place[at] = np.arange(len(at))
    kept = np.flatnonzero((place[rows.row] >= 0) & (rows.column != j))
    level = np.full(len(rows.row), -1)
    level[censored] = laws.known.level
    on = np.flatnonzero(level[kept] >= 0)
    part = Rows(len(at), rows.p, place[rows.row[kept]], rows.column[kept])
    tau, nu, level, noise = laws.tau[kept], laws.nu[kept], level[kept[on]], f.noise[rows.column[kept[on]]]
    chain = model.state.chain
    for _ in range((_SWEEPS if k <= _MANY else 1) if len(on) else 0):
        m, v = signal(part, q, f)
        centre, spread = cavity(m[on], v[on], tau[on], nu[on])
        law = censored_law(centre, spread, noise, chain.bounds, level, chain)
        tau[on], nu[on] = sites_of(centre, spread, noise, law)
        q = posterior(part, tau, nu, f)
    return q


@dataclass(frozen=True)
class Hidden:
    """Cells of a column as if they were gaps: their rows, x, z, ends of z where it is not known, and the tables that are left.

    ``base`` is the factors' mean of all columns, ``sd`` that of the cell given the others.
    """

    column: int
    rows: Index
    x: Array
    low: Array
    high: Array
    base: Array
    sd: Array
    weight: Array

    @property
    def exact(self) -> Any:
        """Cells whose z is known."""
        return self.low == self.high

    @property
    def mean(self) -> Array:
        """The factors' mean of the cells."""
        return self.base[:, self.column]

    def residual(self) -> Array:
        """z less its mean; of levels the mean over their interval."""
        out = self.low - self.mean
        on = np.flatnonzero(~self.exact)
        if len(on):
            mean, sd = self.mean[on], self.sd[on]
            law = truncated_moments((self.low[on] - mean) / sd, (self.high[on] - mean) / sd)
            out[on] = sd * law.mean
        return out


def hidden(laws: RowLaws, model: CopulaModel, cells: Index, table: Array, missing: Any, w: Array) -> Hidden:
    """The cells of one column hidden: what the rest of each row says of all columns."""
    f, known, chain = model.factors, laws.known, model.state.chain
    j, at = int(known.rows.column[cells[0]]), known.rows.row[cells]
    q = without(laws, model, cells)
    gone = missing[at]
    gone[:, j] = True
    base = np.where(gone, q.t @ f.W.T, table[at])
    one = Factors(f.W[j : j + 1], f.C[j : j + 1], f.noise[j : j + 1])
    sd = np.sqrt(latent_variance(q, one))[:, 0]
    z, low, high = (np.zeros(len(known.rows.row)) for _ in range(3))
    z[known.exact] = known.z
    low[:], high[:] = z, z
    low[known.censored] = chain.bounds[chain.level_low[known.level]]
    high[known.censored] = chain.bounds[chain.level_high[known.level]]
    return Hidden(j, at, known.x[cells], low[cells], high[cells], base, sd, w[at])


# ---------------------------------------------------------------------- learning


@dataclass(frozen=True)
class Learning:
    """What corrections are learned from: some rows, which ``cells`` each column has, and what the rest of a row says of each, were it hidden."""

    model: CopulaModel
    laws: RowLaws
    cells: dict[int, Index]
    table: Array
    missing: Any
    weight: Array
    kept: dict[int, Hidden]

    def cell(self, j: int) -> Hidden:
        """The cells of a column hidden; kept while there is room."""
        if j in self.kept:
            return self.kept[j]
        found = hidden(self.laws, self.model, self.cells[j], self.table, self.missing, self.weight)
        if (len(self.kept) + 1) * self.table.size <= _KEPT:
            self.kept[j] = found
        return found

    def finished(self, bend: Bend, rounds: Rounds, told: Told, rng: np.random.Generator) -> Bend:
        """The last correction of a column, with its widths and how far its mean goes from the median."""
        cell, columns = self.cell(bend.column), self.model.columns
        gone = self.missing[cell.rows]
        seen, width = refilled(cell, rounds, told, gone), bend.scale * cell.sd
        if bend.law is not None:
            bend, width = spread_out(cell, bend, seen, gone, rng, self.model.n_jobs)
        off = beside_median(columns[bend.column], seen[:, bend.column], width, cell.x, bend.law)
        return replace(bend, lean=lean_of(*off, cell.weight))

    def gain(self, bend: Bend) -> float:
        """The share of the factors' error that a correction takes away."""
        cell = self.cell(bend.column)
        start = float(np.average(misses(cell, self.model, cell.mean), weights=cell.weight))
        return 1.0 - bend.error / (start if start > 0 else 1.0)


def learn_curved(
    X: Any,
    model: CopulaModel,
    weight: Array | None,
    rng: np.random.Generator,
    apart: Any = None,
    *,
    wide: bool = False,
) -> Curved | None:
    """Corrections that pay outside the bag, or None where there are none; columns ``apart`` have none.

    ``wide``: levels of words are many columns, of which few say anything, and a split looks at all. One gap among more than ``TOLD`` of them
    says little, and there is one round.
    """
    known = known_rows(X, model.state.chain, model.columns, model.labels)
    cells = {j: where for j, where in by_column(known.rows) if len(where) >= FEWEST}
    if apart is not None:
        cells = {j: where for j, where in cells.items() if not apart[j]}
    w = np.ones(len(X)) if weight is None else weight
    data = Learning(model, row_laws(known, model), cells, *latent_table(known, model), w, {})
    rounds: Rounds = []
    told: Told = []
    tried, p = sorted(cells), X.shape[1]
    for number in range((1 if wide and p > TOLD else ROUNDS) if p > 1 else 0):
        found = {}
        for j in tried:
            cell = data.cell(j)
            seen = refilled(cell, rounds, told, data.missing[cell.rows])
            before, least = (seen[:, j], MORE) if rounds else (cell.mean, LEAST_GAIN)
            better = correct(cell, model, seen, before, least, rng, wide=wide)
            if better is not None:
                found[j] = better
        if not found:
            break
        if number:
            tried = list(found)  # the others have not paid with better fills either
        rounds.append(tuple(bend for bend, _ in found.values()))
        told.append({j: outside for j, (_, outside) in found.items()})
    if not rounds:
        return None
    last = Curved(tuple(rounds), np.zeros(p)).last
    gain = np.zeros(p)
    gain[list(last)] = [data.gain(bend) for bend in last.values()]
    new = {id(bend): data.finished(bend, rounds, told, rng) for bend in last.values()}
    return Curved(tuple(tuple(new.get(id(bend), bend) for bend in bends) for bends in rounds), gain)


def spread_out(
    cell: Hidden, bend: Bend, table: Array, missing: Any, rng: np.random.Generator, n_jobs: int
) -> tuple[Bend, Array]:
    """The correction with widths that depend on the row, where absolute residuals e outside the bag tell so; and these outside the bag.

    By the likelihood of a law of scale u, log u + e / u on average, that must fall by more than .02.
    """
    j, w = cell.column, cell.weight
    off = (cell.low - table[:, j]) / cell.sd
    size = np.abs(off)
    mean = float(np.average(size, weights=w))
    if not mean > 0:
        return bend, bend.scale * cell.sd
    grown = grow(features_of_spread(table, missing, j), size, w, rng, leaf=_SPREAD_LEAF, n_jobs=n_jobs)
    assert grown is not None
    forest, outside = grown
    best, least = None, np.log(mean) + 1.0 - 0.02
    for part in (0.5, 0.75, 1.0):
        spread = Spread(forest, mean, part)
        u = spread.mixed(outside)
        loss = float(np.average(np.log(u) + size / u, weights=w))
        if loss < least:
            best, least = spread, loss
    if best is None:
        return bend, bend.scale * cell.sd
    u = best.mixed(outside)
    law, scale = residual_law(off / u, w)
    return replace(bend, law=law, scale=scale, spread=best), scale * u * cell.sd


def refilled(cell: Hidden, rounds: Rounds, told: Told, missing: Any) -> Array:
    """The rows without the cell after some rounds; the cell itself as trees that have not seen its row fill it."""
    table = cell.base
    for bends, outside in zip(rounds, told, strict=True):
        new = one_round(bends, table, cell.base, missing)
        if cell.column in outside:
            new[:, cell.column] = outside[cell.column]
        table = new
    return table


def misses(cell: Hidden, model: CopulaModel, mean: Array) -> Array:
    """Absolute errors of g(mean), in units of x (levels: their values)."""
    return np.abs(model.columns[cell.column].values(mean) - cell.x)


def correct(
    cell: Hidden,
    model: CopulaModel,
    table: Array,
    before: Array,
    least: float,
    rng: np.random.Generator,
    *,
    wide: bool = False,
) -> tuple[Bend, Array] | None:
    """A forest for one column if it pays outside the bag, and the means that it gives there."""
    r, w = cell.residual(), cell.weight
    old = misses(cell, model, before)

    def fitted(outside: Array) -> tuple[float, float]:
        if cell.exact.all():
            return min(float((w * outside) @ r) / max(float((w * outside) @ outside), 1e-300), 1.25), 1.0
        return likeliest(cell, outside)

    def worth(outside: Array) -> bool:
        new = misses(cell, model, cell.mean + fitted(outside)[0] * outside)
        return float(w @ new) < (1.0 - 0.25 * least) * float(w @ old)

    uniform = bool((w == w[0]).all())
    features = np.delete(table, cell.column, axis=1)
    grown = grow(features, r, None if uniform else w, rng, worth, n_jobs=model.n_jobs, wide=wide)
    if grown is None:
        return None
    forest, outside = grown
    share, scale = fitted(outside)
    mean = cell.mean + share * outside
    new = misses(cell, model, mean)
    if share <= 0 or not is_gain(old, new, w, least):
        return None
    law = None
    if cell.exact.all():
        law, scale = residual_law((cell.low - mean) / cell.sd, w)
    bend = Bend(cell.column, forest, share, scale, law, float(np.average(new, weights=cell.weight)))
    return bend, mean


def is_gain(old: Array, new: Array, weight: Array, least: float) -> bool:
    """Whether errors fell by a share of ``least``, and by more than twice the standard error of that."""
    total, fell = float(weight.sum()), old - new
    mean = float(weight @ fell) / total
    error = np.sqrt(float(weight @ (fell - mean) ** 2)) / total
    return mean > least * float(weight @ old) / total and mean > LEAST_RATIO * error


def likeliest(cell: Hidden, outside: Array) -> tuple[float, float]:
    """Share of the forest's word and scale of the spread under which the column is likeliest outside the bag."""
    exact, w = cell.exact, cell.weight

    def loss(at: Array) -> float:
        mean, sd = cell.mean + at[0] * outside, cell.sd * np.exp(at[1])
        low, high = (cell.low - mean) / sd, (cell.high - mean) / sd
        told = -0.5 * low[exact] ** 2 - np.log(sd[exact])
        return -float(w[exact] @ told) - float(w[~exact] @ log_mass(low[~exact], high[~exact]))

    found = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-3})
    share, scale = np.clip(found.x, [0.0, -3.0], [4.0, 1.0])
    return float(share), float(np.exp(scale))
