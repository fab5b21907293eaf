"""Laws of rows given what is observed of them: of their factors, or of all their z."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ._covariance import Normal, cells_of, inverse
from ._covariance import row_laws as cell_laws
from ._encode import KnownRows
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
    solved,
    sums_by,
    triangle,
    unpack,
)
from ._fit import CopulaModel
from ._step import DAMPING, level_means, own_sites

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
    factors: Factors

    @cached_property
    def tables(self) -> tuple[Any, Any]:
        """Tables of the sites."""
        return self.known.rows.table(self.tau), self.known.rows.table(self.nu)

    @cached_property
    def told(self) -> tuple[Array, Array]:
        """What the sites add to the precision of each row's factors (packed), and to that times their mean."""
        (tau, nu), f = self.tables, self.factors
        return np.asarray(tau @ f.second), np.asarray(nu @ f.W)

    def without(self, at: Index, own: slice) -> Posterior:
        r"""Factors of rows ``at`` with some columns hidden, the sites of the others as they are:

        .. math:: V^{-1} = I + \sum_{j \notin own} \tau_j (w_j w_j^\top + C_j), \qquad V^{-1} t = \sum_{j \notin own} \nu_j w_j .
        """
        (tau, nu), f = self.tables, self.factors
        V = self.told[0][at] - np.asarray(tau[at][:, own] @ f.second[own])
        b = self.told[1][at] - np.asarray(nu[at][:, own] @ f.W[own])
        return solved(np.ascontiguousarray(V.T), np.ascontiguousarray(b.T))


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
    return RowLaws(known, q, tau, nu, f)


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


def row_distances(known: KnownRows, model: CopulaModel) -> Array:
    """Of what each row shows, all of it known exactly, under the factors or the joint correlation."""
    if model.joint is None:
        return row_distance(row_laws(known, model), model.factors)
    cells = cells_of(known.rows, known.exact, known.z, known.censored, known.level, model.state.chain, None)
    z = cell_laws(cells, Normal(np.zeros(len(model.joint)), model.joint))[0]
    return np.asarray(np.einsum("ij,ij->i", z @ inverse(model.joint), z))


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
