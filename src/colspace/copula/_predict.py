"""Laws of cells given the rest of their row, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ._covariance import Normal, cells_of, inverse
from ._covariance import row_laws as cell_laws
from ._encode import KnownRows, by_column, known_rows, rows_per_block
from ._estep import (
    Array,
    Factors,
    Index,
    Posterior,
    Rows,
    Work,
    cavity,
    censored_law,
    distance_left,
    doubled,
    pack,
    posterior,
    posterior_of,
    signal,
    sites_of,
    sums_by,
    triangle,
    unpack,
)
from ._fit import CopulaModel
from ._ladders import Ladders
from ._marginals import STEPPED
from ._pairs import bridged
from ._residual_law import ResidualLaw
from ._solved import remembered
from ._step import DAMPING, level_means, own_sites
from ._tails import StudentLaw, log_steepness
from ._threads import plain_products
from ._truncated import log_mass

SWEEPS, FREE = 200, 20  # of a row's sites, and those without damping
SETTLED = 5e-3  # distance from where the sweeps lead, in units of the factors, that ends them
_PUBLISHED = 1e-4  # the change that ends the published ones


@dataclass(frozen=True)
class RowLaws:
    """Factors of some rows given their observed cells; sites of those cells."""

    known: KnownRows
    posterior: Posterior
    tau: Array
    nu: Array


@dataclass(frozen=True)
class _Part:
    """Some rows of many: their ``index``, ``cells``, and the censored ones of these, ``own`` among them, ``on`` in all."""

    rows: Rows
    index: Index
    cells: Index
    own: Index
    on: Index
    level: Index

    @classmethod
    def of(cls, known: KnownRows, index: Index) -> _Part:
        rows = known.rows
        place = np.full(rows.n, -1)
        place[index] = np.arange(len(index))
        cells = np.flatnonzero(place[rows.row] >= 0)
        level = np.full(len(rows.row), -1)
        level[known.censored] = known.level
        own = np.flatnonzero(level[cells] >= 0)
        part = Rows(len(index), rows.p, place[rows.row[cells]], rows.column[cells])
        return cls(part, index, cells, own, cells[own], level[cells[own]])


def row_laws(known: KnownRows, model: CopulaModel, settled: float = SETTLED) -> RowLaws:
    """Sweep the sites of each row until its factors stay; every row by itself, so batches do not matter."""
    state, rows = model.state, known.rows
    f, column = state.factors, rows.column
    paper = model.method == "paper"
    tau, nu = np.zeros(len(column)), np.zeros(len(column))
    if paper:
        tau = 1.0 / f.noise[column]
        nu[known.censored] = level_means(state.chain)[known.level] * tau[known.censored]
    elif len(known.censored):
        tau[known.censored], nu[known.censored] = (site[known.level] for site in own_sites(state))
    tau[known.exact] = 1.0 / f.noise[column[known.exact]]
    nu[known.exact] = known.z * tau[known.exact]
    variance = np.zeros(len(column))
    q = posterior(rows, tau, nu, f)
    part = _Part.of(known, np.unique(rows.row[known.censored]))
    active = np.ones(part.rows.n, dtype=bool)
    pace, last = np.ones(rows.n), np.full(rows.n, np.inf)
    take = Work()
    for sweep in range(SWEEPS):
        if not active.any():
            break
        if active.sum() < 0.7 * len(active):
            part = _Part.of(known, part.index[active])
            active = np.ones(part.rows.n, dtype=bool)
        noise = f.noise[column[part.on]]
        before = Posterior(q.t[part.index], q.V[part.index])
        m, v = signal(part.rows, before, f, take)
        if len(part.own) < len(m):
            m, v = m[part.own], v[part.own]
        centre, spread = cavity(m, v, tau[part.on], nu[part.on], take)
        law = censored_law(centre, spread, noise, state.chain.bounds, part.level, state.chain, take)
        moving: Any = slice(None) if active.all() else active[part.rows.row[part.own]]
        on = part.on[moving]
        if paper:
            total = spread + noise
            new_nu = ((centre + np.sqrt(total) * law.mean) * tau[part.on])[moving]
            nu[on] += pace[rows.row[on]] * (new_nu - nu[on])
            variance[on] = (total * law.variance)[moving]
        else:
            new = sites_of(centre, spread, noise, law, take)
            share = 1.0 if sweep < FREE else DAMPING
            tau[on] += share * (new[0][moving] - tau[on])
            nu[on] += share * (new[1][moving] - nu[on])
        taus = part.rows.table(tau[part.cells], take, "tau table")
        after = posterior_of(taus, part.rows.table(nu[part.cells], take, "nu table"), f, take)
        moved = np.abs(after.t - before.t).max(axis=1) + np.abs(after.V - before.V).max(axis=1)
        rows_now = part.index[active]
        q.t[rows_now], q.V[rows_now] = after.t[active], after.V[active]
        if paper:  # steps that grow would never end
            pace[part.index] *= np.where(moved > last[part.index], 0.5, 1.0)
            active &= moved > _PUBLISHED
        else:
            active &= distance_left(moved, last[part.index]) > settled
        last[part.index] = moved
    if paper and len(known.censored):
        V = unpack(q.V, f.rank)
        products = pack(f.W[:, :, None] * f.W[:, None, :])
        inner = unpack(np.asarray(rows.table(variance * tau**2) @ products), f.rank)
        q = Posterior(q.t, q.V + pack(V @ inner @ V))
    return RowLaws(known, q, tau, nu)


def latent_variance(q: Posterior, f: Factors, scale: Array | None = None) -> Array:
    """Variance of z, every row and column; uncertain loadings and noise included. ``scale``: that of each row, of a variance."""
    k = f.rank
    i, j = triangle(k)
    loose = pack(f.C)
    variance = doubled(q.V, k) @ (pack(f.W[:, :, None] * f.W[:, None, :]) + loose).T
    if scale is not None:
        variance += f.noise
        variance *= scale[:, None]
    if loose.any():
        variance += doubled(q.t[:, i] * q.t[:, j], k) @ loose.T
    if scale is None:
        variance += f.noise
    return variance


@dataclass(frozen=True)
class Gaps:
    """Missing cells of one column in some rows, with their latent laws: normal, or of the shape of ``law``.

    ``lean`` is how far their mean goes from the median to that of the law.
    """

    column: int
    rows: Index
    mean: Array
    sd: Array
    law: ResidualLaw | StudentLaw | None = None
    lean: float = 1.0

    def some(self, on: Index) -> Gaps:
        """Some of the cells."""
        law = None if self.law is None else self.law.some(on)
        return replace(self, rows=self.rows[on], mean=self.mean[on], sd=self.sd[on], law=law)

    def below(self, z: Array) -> Array:
        """Probability that the latent value is below z."""
        at = (z - self.mean) / self.sd
        return np.asarray(ndtr(at)) if self.law is None else self.law.below(at)


def gaps(X: Any, model: CopulaModel, *, spread: bool = True) -> Iterator[Gaps]:
    """Missing cells, column by column, corrected where columns bend; ``spread=False`` leaves ``sd`` empty."""
    return (plain_gaps if model.curved is None else model.curved.gaps)(X, model, spread=spread)


@dataclass(frozen=True)
class GapBlock:
    """Rows from ``start``: where they are missing, and means and deviations of z (None: not asked for), columns x rows."""

    start: int
    missing: NDArray[np.bool_]
    mean: Array
    sd: Array | None
    law: StudentLaw | None
    lean: Array | None

    def write(self, out: Array, columns: Any, values: Array) -> None:
        """Values of the gaps of some columns into a table of all rows."""
        rows = out[self.start : self.start + self.missing.shape[1]].T
        if isinstance(columns, slice):
            np.copyto(rows[columns], values, where=self.missing[columns])
        else:
            rows[columns] = np.where(self.missing[columns], values, rows[columns])

    def gaps(self, without: Any = ()) -> Iterator[Gaps]:
        """Column by column, but for some."""
        left_out = set(map(int, without))
        for j, gone in enumerate(self.missing):
            if j in left_out:
                continue
            rows = np.flatnonzero(gone)
            if len(rows):
                width = np.zeros(0) if self.sd is None else self.sd[j, rows]
                lean = 1.0 if self.lean is None else float(self.lean[j])
                own = None if self.law is None else self.law.some(rows)
                yield Gaps(j, self.start + rows, self.mean[j, rows], width, own, lean)


def plain_gaps(X: Any, model: CopulaModel, *, spread: bool = True) -> Iterator[Gaps]:
    """Missing cells, block of rows by block of rows, column by column; ``spread=False`` leaves ``sd`` empty."""
    for block in gap_blocks(X, model, spread=spread):
        yield from block.gaps()


def gaps_beside(
    X: Any, model: CopulaModel, todo: Callable[[GapBlock, Ladders], None], *, spread: bool = True
) -> Iterator[Gaps]:
    """Missing cells as `gaps` has them, but for columns of few levels, which ``todo`` has done all at once."""
    ladders = Ladders.of(model.columns) if model.curved is None else None
    if ladders is None:
        yield from gaps(X, model, spread=spread)
        return
    for block in gap_blocks(X, model, spread=spread):
        todo(block, ladders)
        yield from block.gaps(ladders.columns)


def gap_blocks(X: Any, model: CopulaModel, *, spread: bool = True) -> Iterator[GapBlock]:
    """Laws of all cells, block of rows by block of rows."""
    f = model.factors
    for some, q in solved_rows(X, model):
        mean = q.t.T if model.by_cell else f.W @ q.t.T
        sd: Array | None = None
        if spread:
            sd = np.sqrt(q.V if model.by_cell else latent_variance(q, f)).T
            sd = sd if model.wider is None else sd * model.wider[:, None]
        if model.bridge is not None:
            other = model.bridge.model
            there = known_rows(X[some], other.state.chain, other.columns, other.labels)
            mean, sd = bridged(model.bridge, row_laws(there, other).posterior, there.rows, mean, sd)
        missing = np.ascontiguousarray(_missing(X[some]).T)
        law = StudentLaw(model.tails + np.sum(~missing, axis=0)) if np.isfinite(model.tails) else None
        yield GapBlock(some.start, missing, mean, sd, law, model.lean)


def solved_rows(X: Any, model: CopulaModel) -> Iterator[tuple[slice, Posterior]]:
    """Blocks of rows with the law of their factors, solved once for all that is asked of one table after another.

    Of a model with a joint correlation or tails, means and variances of z in place of the factors'.
    """

    def solve(rows: slice) -> Posterior:
        known = known_rows(X[rows], model.state.chain, model.columns, model.labels)
        if not model.by_cell:
            return row_laws(known, model).posterior
        return tailed_laws(known, model) if model.joint is None else joint_laws(known, model)

    return remembered(X, model, solve)


def joint_laws(known: KnownRows, model: CopulaModel) -> Posterior:
    """Means and variances of z of all cells."""
    assert model.joint is not None
    chain = model.state.chain
    cells = cells_of(known.rows, known.exact, known.z, known.censored, known.level, chain, None)
    z, variance = cell_laws(cells, Normal(np.zeros(len(model.joint)), model.joint))
    if np.isfinite(model.tails):
        far = np.einsum("ij,ij->i", z @ inverse(model.joint), z)
        variance *= row_scale(far, known, model.tails)[:, None]
    return Posterior(z, variance)


def tailed_laws(known: KnownRows, model: CopulaModel) -> Posterior:
    """Means and variances of z of all cells under factors, rows having each a scale of their own."""
    laws, f = row_laws(known, model), model.factors
    scale = row_scale(row_distance(laws, f), known, model.tails)
    return Posterior(laws.posterior.t @ f.W.T, latent_variance(laws.posterior, f, scale))


def row_distance(laws: RowLaws, f: Factors) -> Array:
    r"""Of what each row shows, all of it known exactly: :math:`z^\top (W W^\top + D)^{-1} z = z^\top D^{-1} z - t^\top W^\top D^{-1} z`."""
    rows, known = laws.known.rows, laws.known
    square = sums_by(rows.row[known.exact], known.z * laws.nu[known.exact], rows.n)
    told = np.einsum("ni,ni->n", laws.posterior.t, np.asarray(rows.table(laws.nu) @ f.W))
    return np.maximum(square - told, 0.0)


def row_scale(far: Array, known: KnownRows, tails: float) -> Array:
    r"""Squared scale of the law of a row's gaps, Student's t: :math:`(\nu + \delta^2) / (\nu + m)` with m cells at the distance delta."""
    return (tails + far) / (tails + np.bincount(known.rows.row, minlength=known.rows.n))


def _missing(X: Any) -> NDArray[np.bool_]:
    if not hasattr(X, "tocoo"):
        return np.isnan(X)
    out = np.ones(X.shape, dtype=bool)
    cells = X.tocoo()
    out[cells.row, cells.col] = False
    return out


def dense(X: Any) -> Array:
    """The table as an array of its own, NaN where nothing is observed."""
    if not hasattr(X, "tocoo"):
        return np.array(X, dtype=np.float64)
    out = np.full(X.shape, np.nan)
    cells = X.tocoo()
    out[cells.row, cells.col] = cells.data
    return out


@plain_products
def impute(X: Any, model: CopulaModel, *, clip: bool, expected: bool = False) -> Array:
    """Every gap filled by g(E z), or by E[g(z)]."""
    out = dense(X)

    def levels(block: GapBlock, ladders: Ladders) -> None:
        block.write(out, ladders.every, ladders.values(block.mean[ladders.every]))

    cells = gaps(X, model) if expected else gaps_beside(X, model, levels, spread=False)
    for gap in cells:
        column = model.columns[gap.column]
        limits = column.limits if clip else None
        x = column.values(gap.mean)
        x = x if limits is None else np.clip(x, *limits)
        if expected:
            mean = column.expectation(gap.mean, gap.sd, limits, gap.law)
            x = mean if gap.lean == 1.0 else (1.0 - gap.lean) * x + gap.lean * mean
        out[gap.rows, gap.column] = x
    return out


def interval_ends(gap: Gaps, model: CopulaModel, level: float) -> tuple[Array, Array]:
    """Latent ends of the central interval.

    For columns whose marginal was learned from m cells the variance grows by 1 + (z_max - z_min) / (2 s m), and at an
    end e by s / (2 m phi(e)), s the mean standard deviation of a cell given the others.
    """
    q = ndtri(0.5 + 0.5 * level)
    column, j = model.columns[gap.column], gap.column
    variance = gap.sd**2
    if model.method == "paper" or column.kind in STEPPED:
        return gap.mean - q * gap.sd, gap.mean + q * gap.sd
    m, s = model.cells[j], model.loose[j]
    variance *= 1.0 + column.span / (2.0 * s * m)
    sides = (-q, q) if gap.law is None else gap.law.quantile(np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level]))
    at = np.asarray(sides).reshape(2, -1)
    ends = at * np.sqrt(variance)
    ends += gap.mean
    ends = column.looseness(np.clip(ends, column.z[0], column.z[-1], out=ends))
    ends *= s / (2.0 * m)
    ends += variance
    np.sqrt(ends, out=ends)
    ends *= at
    ends += gap.mean
    return ends[0], ends[1]


@plain_products
def intervals(X: Any, model: CopulaModel, level: float, *, clip: bool) -> tuple[Array, Array]:
    """Lower and upper ends; an observed cell is its own interval."""
    lower, upper = dense(X), dense(X)
    q = float(ndtri(0.5 + 0.5 * level))

    def levels(block: GapBlock, ladders: Ladders) -> None:
        on = ladders.every
        mean, reach = block.mean[on], q * np.asarray(block.sd)[on]
        block.write(lower, on, ladders.values(mean - reach))
        block.write(upper, on, ladders.values(mean + reach))

    for gap in gaps_beside(X, model, levels):
        column = model.columns[gap.column]
        ends = column.values(np.concatenate(interval_ends(gap, model, level))).reshape(2, -1)
        for table, x in zip((lower, upper), ends, strict=True):
            table[gap.rows, gap.column] = np.clip(x, *column.limits) if clip else x
    return lower, upper


@plain_products
def within(X: Any, model: CopulaModel, d: float, *, bound: bool) -> Array:
    """Probability that a gap's value is within d (levels of a stepped column) of its imputation; 1 where observed.

    ``bound``: 1 - Var[z] / d_j^2 of Theorem 4 instead of the probability under the model.
    """
    out = np.ones(X.shape)
    for gap in gaps(X, model):
        column = model.columns[gap.column]
        if column.kind in STEPPED:
            edges, level = column.edges, np.searchsorted(column.z, gap.mean, side="left")
            steps = int(min(d, len(edges)))
            low = edges[np.maximum(level - steps, 0)]
            high = edges[np.minimum(level + 1 + steps, len(edges) - 1)]
        else:
            x = column.values(gap.mean)
            low, high = column.around(x, d)
            low, high = np.minimum(low, gap.mean), np.maximum(high, gap.mean)
        if bound:
            reach = np.maximum(np.minimum(gap.mean - low, high - gap.mean), 1e-9 * gap.sd)
            p = np.maximum(1.0 - (1.0 if gap.law is None else gap.law.variance) * (gap.sd / reach) ** 2, 0.0)
        else:
            p = gap.below(high) - gap.below(low)
        out[gap.rows, gap.column] = p
    return out


@plain_products
def reliabilities(X: Any, model: CopulaModel) -> Array:
    """Stepped columns: probability of the imputed level. Others: (||D||^2 - D_ij^2) / (||Xh||^2 - Xh_ij^2).

    D are the lengths of 95 % intervals and Xh the imputations of all gaps; NaN where observed.
    """
    out = np.full(X.shape, np.nan)
    found: list[tuple[int, Index, Array, Array]] = []

    def levels(block: GapBlock, ladders: Ladders) -> None:
        on = ladders.every
        block.write(out, on, ladders.certainty(block.mean[on], np.asarray(block.sd)[on]))

    for gap in gaps_beside(X, model, levels):
        column = model.columns[gap.column]
        if column.kind in STEPPED:
            level = np.searchsorted(column.z, gap.mean, side="left")
            high, low = column.edges[level + 1], column.edges[level]
            out[gap.rows, gap.column] = gap.below(high) - gap.below(low)
        else:
            ends = interval_ends(gap, model, 0.95)
            low, high, x = column.values(np.concatenate([*ends, gap.mean])).reshape(3, -1)
            found.append((gap.column, gap.rows, high - low, x))
    if not found:
        return out
    d, x = (np.concatenate([each[i] for each in found]) for i in (2, 3))
    unit = max(d.max(), np.abs(x).max()) or 1.0  # squares stay finite
    for each in (d, x):
        each /= unit
        each *= each
    size = x.sum()
    least = np.finfo(float).eps * size or 1.0  # all imputations zero: the lengths alone tell
    told = (d.sum() - d) / np.maximum(size - x, least)
    starts = np.cumsum([len(rows) for _, rows, *_ in found])
    for (j, rows, *_), part in zip(found, np.split(told, starts[:-1]), strict=True):
        out[rows, j] = part
    return out


@plain_products
def explained(X: Any, model: CopulaModel) -> Array:
    """1 - Var[z | observed], comparable over all kinds of columns; NaN where observed.

    Of rows with a scale of their own, on the normal scale of z.
    """
    out = np.full(X.shape, np.nan)
    for gap in gaps(X, model):
        sd = gap.sd if np.isinf(model.tails) else gap.sd * np.exp(-log_steepness(gap.mean, model.tails))
        out[gap.rows, gap.column] = np.maximum(1.0 - sd**2, 0.0)
    return out


@plain_products
def draws(X: Any, model: CopulaModel, n_samples: int, rng: np.random.Generator, *, clip: bool) -> list[Array]:
    """Tables whose gaps are drawn from their joint law given the row; loadings, noise and the place of z once for each table.

    Of m cells noise ~ noise m / chi2(m), but in columns of levels, whose scale is fixed, and the place ~ N(0, noise / m). With tails
    of nu degrees of freedom what a row's m cells leave open is times the root of (nu + distance^2) / chi2(nu + m).
    """
    f, k, p = model.factors, model.factors.rank, len(model.columns)
    out = [dense(X) for _ in range(n_samples)]
    root = np.linalg.cholesky(f.C + 1e-15 * np.eye(k))
    loadings = [f.W + np.einsum("pij,pj->pi", root, rng.standard_normal((p, k))) for _ in range(n_samples)]
    noises, places = _noise_and_place(model, n_samples, rng)
    for some, q, far in _factor_rows(X, model):
        a, missing = some.start, _missing(X[some])
        spread = np.linalg.cholesky(unpack(q.V, k))
        seen = np.sum(~missing, axis=1)
        for table, W, noise, place in zip(out, loadings, noises, places, strict=True):
            away = np.einsum("nij,nj->ni", spread, rng.standard_normal(q.t.shape))
            own = np.sqrt(noise) * rng.standard_normal(missing.shape)
            if far is not None:
                wide = np.sqrt((model.tails + far) / rng.chisquare(model.tails + seen))[:, None]
                away, own = away * wide, own * wide
            z = (q.t + away) @ W.T + place + own
            for j in np.flatnonzero(missing.any(axis=0)):
                rows = np.flatnonzero(missing[:, j])
                column = model.columns[j]
                x = column.values(z[rows, j])
                table[a + rows, j] = np.clip(x, *column.limits) if clip else x
    return out


def _factor_rows(X: Any, model: CopulaModel) -> Iterator[tuple[slice, Posterior, Array | None]]:
    """Blocks of rows with their factors and, of a model with tails, the distances of what they show."""
    if np.isinf(model.tails):
        for some, q in solved_rows(X, model):
            yield some, q, None
        return
    size = rows_per_block(len(model.columns), model.factors.rank)
    for a in range(0, X.shape[0], size):
        some = slice(a, min(a + size, X.shape[0]))
        laws = row_laws(known_rows(X[some], model.state.chain, model.columns, model.labels), model)
        yield some, laws.posterior, row_distance(laws, model.factors)


def _noise_and_place(model: CopulaModel, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Drawn noise variances and shifts of z, n_samples x columns; those of the paper are not drawn."""
    noise, cells, shape = model.factors.noise, np.maximum(model.cells, 2.0), (n_samples, len(model.columns))
    if model.method == "paper":
        return np.tile(noise, (n_samples, 1)), np.zeros(shape)
    stepped = np.array([column.kind in STEPPED for column in model.columns], dtype=bool)
    drawn = np.where(stepped, noise, noise * cells / rng.chisquare(cells, shape))
    return drawn, rng.standard_normal(shape) * np.sqrt(noise / cells)


def row_log_likelihood(X: Any, model: CopulaModel) -> Array:
    """Approximate log density of the observed cells of each row, by expectation propagation whatever the method."""
    model = replace(model, method="ep")
    f, k = model.factors, model.factors.rank
    out = np.zeros(X.shape[0])
    size = rows_per_block(len(model.columns), k)
    for a in range(0, X.shape[0], size):
        part = X[a : a + size]
        known = known_rows(part, model.state.chain, model.columns, model.labels)
        laws = row_laws(known, model)
        rows, q, tau, nu = known.rows, laws.posterior, laws.tau, laws.nu
        constant = np.zeros(len(rows.row))
        on = rows.column[known.exact]
        constant[known.exact] = -0.5 * (np.log(2 * np.pi * f.noise[on]) + known.z**2 / f.noise[on])
        for j, where in by_column(rows):
            exact = where[np.isin(where, known.exact)] if len(known.censored) else where
            if len(exact):
                constant[exact] += model.columns[j].log_slope(known.x[exact])
        if len(known.censored):
            m, v = signal(rows, q, f)
            where = known.censored
            centre, spread = cavity(m[where], v[where], tau[where], nu[where])
            noise = f.noise[rows.column[where]]
            law = censored_law(
                centre, spread, noise, model.state.chain.bounds, known.level, model.state.chain
            )
            grown = 1.0 + tau[where] * spread
            shift = spread * nu[where] ** 2 + 2 * centre * nu[where] - tau[where] * centre**2
            constant[where] = log_mass(law.low, law.high) + 0.5 * np.log(grown) - 0.5 * shift / grown
        weighted = np.asarray(rows.table(nu) @ f.W)
        total = sums_by(rows.row, constant, rows.n) + 0.5 * np.einsum("ni,ni->n", q.t, weighted)
        out[a : a + size] = total + 0.5 * np.linalg.slogdet(unpack(q.V, k))[1]
    return out


def latent_means(X: Any, model: CopulaModel) -> Array:
    """E[t | observed] of every row."""
    parts = [q.t for _, q in solved_rows(X, model)]
    return np.vstack([np.zeros((0, model.factors.rank)), *parts])
