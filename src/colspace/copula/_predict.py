"""Laws of cells given the rest of their row, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from .._threads import plain_products
from ._encode import by_column, known_rows, rows_per_block
from ._estep import (
    Array,
    Index,
    Posterior,
    cavity,
    censored_law,
    signal,
    sums_by,
    unpack,
)
from ._fit import CopulaModel
from ._ladders import Ladders
from ._marginals import STEPPED
from ._pairs import bridged
from ._residual_law import ResidualLaw
from ._row_laws import joint_laws, latent_variance, row_distance, row_laws, tailed_laws
from ._solved import remembered
from ._tails import StudentLaw, log_steepness
from ._truncated import log_mass

P = ParamSpec("P")
T = TypeVar("T")

_TOGETHER = 1 << 12  # cells of a column that are filled at once
HOLEY = 0.5  # share of rows with gaps up to which others are not solved


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


def gathered(cells: Iterable[Gaps]) -> Iterator[Gaps]:
    """Cells of many blocks of rows, many of a column together; those with a law as they come."""
    found: dict[int, list[Gaps]] = {}
    for gap in cells:
        if gap.law is not None:
            yield gap
            continue
        parts = found.setdefault(gap.column, [])
        parts.append(gap)
        if sum(len(part.rows) for part in parts) >= _TOGETHER:
            yield joined(found.pop(gap.column))
    yield from map(joined, found.values())


def joined(parts: Sequence[Gaps]) -> Gaps:
    """Cells of one column as one."""
    rows, mean, sd = (np.concatenate([getattr(p, name) for p in parts]) for name in ("rows", "mean", "sd"))
    return replace(parts[0], rows=rows, mean=mean, sd=sd)


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


def of_holey_rows(observed: Callable[[Any], Array]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Of a table of which half of the rows have no gaps, ask a function about the others alone; ``observed(X)`` is what those rows have."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def chosen(*args: P.args, **kwargs: P.kwargs) -> T:
            X: Any = args[0]
            if hasattr(X, "tocoo") or not len(X) or not np.mean(holey := np.isnan(X).any(axis=1)) <= HOLEY:
                return function(*args, **kwargs)
            rows = np.flatnonzero(holey) if holey.any() else np.zeros(1, dtype=np.intp)
            found: Any = function(X[rows], *args[1:], **kwargs)  # type: ignore[arg-type]
            tables = [found] if isinstance(found, np.ndarray) else found
            whole: Any = [observed(X) for _ in tables]
            for table, part in zip(whole, tables, strict=True):
                table[rows] = part
            return cast(T, whole[0] if tables is not found else type(found)(whole))

        return chosen

    return decorate


@plain_products
@of_holey_rows(dense)
def impute(X: Any, model: CopulaModel, *, clip: bool, expected: bool = False) -> Array:
    """Every gap filled by g(E z), or by E[g(z)]."""
    out = dense(X)

    def levels(block: GapBlock, ladders: Ladders) -> None:
        block.write(out, ladders.every, ladders.values(block.mean[ladders.every]))

    cells = gaps(X, model) if expected else gaps_beside(X, model, levels, spread=False)
    for gap in gathered(cells):
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
@of_holey_rows(dense)
def intervals(X: Any, model: CopulaModel, level: float, *, clip: bool) -> tuple[Array, Array]:
    """Lower and upper ends; an observed cell is its own interval."""
    lower, upper = dense(X), dense(X)
    q = float(ndtri(0.5 + 0.5 * level))

    def levels(block: GapBlock, ladders: Ladders) -> None:
        on = ladders.every
        mean, reach = block.mean[on], q * np.asarray(block.sd)[on]
        block.write(lower, on, ladders.values(mean - reach))
        block.write(upper, on, ladders.values(mean + reach))

    for gap in gathered(gaps_beside(X, model, levels)):
        column = model.columns[gap.column]
        ends = column.values(np.concatenate(interval_ends(gap, model, level))).reshape(2, -1)
        for table, x in zip((lower, upper), ends, strict=True):
            table[gap.rows, gap.column] = np.clip(x, *column.limits) if clip else x
    return lower, upper


@plain_products
@of_holey_rows(lambda X: np.ones(X.shape))
def within(X: Any, model: CopulaModel, d: float, *, bound: bool) -> Array:
    """Probability that a gap's value is within d (levels of a stepped column) of its imputation; 1 where observed.

    ``bound``: 1 - Var[z] / d_j^2 of Theorem 4 instead of the probability under the model.
    """
    out = np.ones(X.shape)
    for gap in gathered(gaps(X, model)):
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
@of_holey_rows(lambda X: np.full(X.shape, np.nan))
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
@of_holey_rows(lambda X: np.full(X.shape, np.nan))
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
@of_holey_rows(dense)
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
