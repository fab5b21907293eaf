"""Any covariance of the latent columns: gaps integrated out, levels by expectation propagation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from ._estep import Array, Index, Rows, distance_left
from ._marginals import Chain
from ._truncated import truncated_moments

ITERATIONS, NEAR = 60, 2e-3  # of EM, and the change of a correlation that ends it
SWEEPS, FREE, SETTLED, DAMPING = (
    100,
    10,
    5e-3,
    0.7,
)  # of sites, those without damping, the distance left that ends them
_AT_ONCE = 1 << 20  # entries of matrices that are inverted at once
_BY_ROOTS = 24  # columns of matrices from which on roots are faster
_STIFF = 1e6  # precision of a site, at most
_LEAST = 1e-12


class Normal(NamedTuple):
    """Mean and covariance of z."""

    mean: Array
    cover: Array


@dataclass(frozen=True)
class Unknown:
    """Rows with as many cells that are not known: their columns, sites and ends (gaps: no site, infinite ends)."""

    rows: Index
    columns: Index
    tau: Array
    nu: Array
    low: Array
    high: Array

    def part(self, some: slice | Index) -> Unknown:
        """Some of the rows."""
        return Unknown(*(array[some] for array in vars(self).values()))


@dataclass(frozen=True)
class Cells:
    """z of the cells that are known exactly (0 elsewhere), rows grouped by how many are not, and weights."""

    z: Array
    groups: tuple[Unknown, ...]
    weight: Array
    levels: bool

    @property
    def work(self) -> float:
        """Cubes of the numbers of cells that are not known, summed over rows by their weights."""
        return sum(
            float(self.weight[group.rows].sum()) * group.columns.shape[1] ** 3 for group in self.groups
        )


def cells_of(
    rows: Rows, exact: Index, z: Array, censored: Index, level: Index, chain: Chain, weight: Array | None
) -> Cells:
    """Observed cells as those of all rows, levels with the sites of their own level alone."""
    table, known = np.zeros((rows.n, rows.p)), np.zeros((rows.n, rows.p), dtype=bool)
    at = rows.row[exact], rows.column[exact]
    table[at], known[at] = z, True
    low, high = np.full(table.shape, -np.inf), np.full(table.shape, np.inf)
    at = rows.row[censored], rows.column[censored]
    low[at], high[at] = chain.bounds[chain.level_low[level]], chain.bounds[chain.level_high[level]]
    count = (~known).sum(axis=1)
    groups = []
    for u in np.unique(count[count > 0]):
        some = np.flatnonzero(count == u)
        columns = np.nonzero(~known[some])[1].reshape(len(some), u)
        ends = [end[some[:, None], columns] for end in (low, high)]
        zero, one = np.zeros(columns.shape), np.ones(columns.shape)
        groups.append(Unknown(some, columns, *sites_between(zero, one, *ends), *ends))
    return Cells(table, tuple(groups), np.ones(rows.n) if weight is None else weight, bool(len(censored)))


def sites_between(m: Array, v: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Sites that give N(m, v) the moments that it has between the ends; none where there are no ends."""
    tau, nu = np.zeros(m.shape), np.zeros(m.shape)
    on = np.isfinite(low) | np.isfinite(high)
    m, v = m[on], v[on]
    sd = np.sqrt(v)
    law = truncated_moments((low[on] - m) / sd, (high[on] - m) / sd)
    precision = np.clip(1.0 / np.maximum(v * law.variance, _LEAST) - 1.0 / v, 0.0, _STIFF)
    tau[on], nu[on] = precision, (m + sd * law.mean) * (precision + 1.0 / v) - m / v
    return tau, nu


def solve(group: Unknown, z: Array, law: Normal, Q: Array) -> tuple[Array, Array]:
    r"""E[z] of the cells that are not known and their covariance, at the sites.

    With Q the inverse covariance, U what a row does not know and O what it does,

    .. math:: V = (Q_{UU} + \mathrm{diag}(\tau))^{-1}, \qquad
        E z_U = \mu_U + V (\nu - \tau \mu_U - Q_{UO} (z_O - \mu_O)) .
    """
    U, u = group.columns, group.columns.shape[1]
    off = z[group.rows] - law.mean
    np.put_along_axis(off, U, 0.0, axis=1)
    A = Q[U[:, :, None], U[:, None, :]]
    A[:, np.arange(u), np.arange(u)] += group.tau
    V = inverse(A)
    mu = law.mean[U]
    pull = group.nu - group.tau * mu - np.take_along_axis(off @ Q, U, axis=1)
    return mu + np.einsum("nij,nj->ni", V, pull), V


def renewed(group: Unknown, m: Array, V: Array, pace: float) -> Unknown:
    """The sites anew: those of each cell's law without its own."""
    v = np.maximum(np.einsum("nii->ni", V), _LEAST)
    rest = np.maximum(1.0 - group.tau * v, 1e-9)
    tau, nu = sites_between((m - v * group.nu) / rest, v / rest, group.low, group.high)
    return replace(group, tau=group.tau + pace * (tau - group.tau), nu=group.nu + pace * (nu - group.nu))


def _parts(group: Unknown) -> list[slice]:
    step = max(1, _AT_ONCE // group.columns.shape[1] ** 2)
    return [slice(a, a + step) for a in range(0, len(group.rows), step)]


def one_pass(cells: Cells, law: Normal) -> tuple[Cells, Array, Array]:
    """E[z] of all cells and the sum of Cov[z] over rows, by their weights; and the cells with sites anew."""
    Q = inverse(law.cover)
    p = len(Q)
    z, sums, groups = cells.z.copy(), np.zeros(p * p), []
    for group in cells.groups:
        done = []
        for some in _parts(group):
            part = group.part(some)
            U = part.columns
            m, V = solve(part, cells.z, law, Q)
            z[part.rows[:, None], U] = m
            if cells.levels:
                done.append(renewed(part, m, V, DAMPING))
            V *= cells.weight[part.rows, None, None]
            sums += np.bincount((U[:, :, None] * p + U[:, None, :]).ravel(), V.ravel(), p * p)
        groups.append(_joined(done) if cells.levels else group)
    return replace(cells, groups=tuple(groups)), z, sums.reshape(p, p)


def _joined(parts: list[Unknown]) -> Unknown:
    if len(parts) == 1:
        return parts[0]
    return Unknown(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


def row_laws(cells: Cells, law: Normal) -> tuple[Array, Array]:
    """E[z] and Var[z] of every cell, sites swept until they stay; every row by itself."""
    Q = inverse(law.cover)
    z, variance = cells.z.copy(), np.zeros(cells.z.shape)
    for group in cells.groups:
        for some in _parts(group):
            part = group.part(some)
            last = np.full(len(part.rows), np.inf)
            for sweep in range(SWEEPS if cells.levels else 1):
                m, V = solve(part, cells.z, law, Q)
                v = np.einsum("nii->ni", V)
                at = part.rows[:, None], part.columns
                moved = (np.abs(m - z[at]) + np.abs(v - variance[at])).max(axis=1)
                z[at], variance[at] = m, v
                on = np.flatnonzero((distance_left(moved, last) > SETTLED) | (sweep == 0))
                if not len(on) or not cells.levels:
                    break
                last = moved[on] if sweep else last  # the first has nothing before it
                part = renewed(part, m, V, 1.0 if sweep < FREE else DAMPING).part(on)
    return z, variance


def fit_normal(
    cells: Cells,
    law: Normal,
    prior: Array,
    weight: float,
    held: Array,
    change: Callable[[Array], Array] = lambda R: R,
) -> tuple[Cells, Normal]:
    r"""The likeliest mean and covariance, with an inverse Wishart law of ``weight`` rows about ``prior``.

    .. math:: \Sigma = (S + w R_0) / (n + w), \qquad S = \sum_i E[(z_i - \bar z)(z_i - \bar z)^\top] .

    Columns ``held`` keep a unit variance, which one cut does not tell. ``change`` is done to each correlation.
    """
    n = float(cells.weight.sum())
    before = correlation(law)
    for _ in range(ITERATIONS):
        cells, z, sums = one_pass(cells, law)
        mean = cells.weight @ z / n
        off = z - mean
        cover = ((off * cells.weight[:, None]).T @ off + sums + weight * prior) / (n + weight)
        cover = 0.5 * (cover + cover.T)
        scale = np.sqrt(np.diag(cover))
        R = change(cover / np.outer(scale, scale))
        scale = np.where(held, 1.0, scale)
        law = Normal(mean, R * np.outer(scale, scale))
        moved = float(np.abs(R - before).max())
        before = R
        if moved < NEAR:
            break
    return cells, law


def inverse(A: Array) -> Array:
    """Inverses of symmetric matrices, large ones by Cholesky roots where they have such."""
    p = A.shape[-1]
    if p < _BY_ROOTS:
        return np.asarray(np.linalg.inv(A), dtype=np.float64)
    out = np.array(A, dtype=np.float64).reshape(-1, p, p)
    for matrix in out:
        root, failed = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)  # in its place
        if not failed:
            _, failed = dpotri(root, lower=0, overwrite_c=1)
        if failed:
            return np.asarray(np.linalg.inv(A), dtype=np.float64)
    above = np.triu(np.ones((p, p), dtype=bool), 1)
    return np.where(above, out.transpose(0, 2, 1), out).reshape(A.shape)


def correlation(law: Normal) -> Array:
    """Correlation of a law."""
    scale = np.sqrt(np.diag(law.cover))
    return np.asarray(law.cover / np.outer(scale, scale))
