"""One pass over a block of rows: its sums, and where its sites go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..moments import Additive
from ._estep import (
    Array,
    Factors,
    FactorSums,
    Index,
    Rows,
    Take,
    cavity,
    censored_law,
    factor_sums,
    fresh,
    pick,
    posterior_of,
    signal,
    sites_of,
    sums_by,
)
from ._marginals import Chain, NodeSums
from ._truncated import truncated_moments

DAMPING = 0.7  # of the sites of a row, which are all changed at once


@dataclass(frozen=True)
class Block:
    """Observed cells of some rows. ``exact`` and ``censored`` are positions among the cells: the former have a node
    and the way to the next one, the latter a level; ``tau`` and ``nu`` are the sites of the censored ones. ``weight``
    is that of each row, None when all count once; ``held`` are cells of the same rows that take no part.
    """

    rows: Rows
    exact: Index
    node: Index
    part: Array
    censored: Index
    level: Index
    tau: Array
    nu: Array
    weight: Array | None = None
    held: Block | None = None

    @cached_property
    def on_knots(self) -> bool:
        """Whether every exact cell lies on a knot."""
        return not self.part.any()


@dataclass(frozen=True)
class State:
    """Everything that is learned."""

    factors: Factors
    chain: Chain


@dataclass(frozen=True)
class Sums(Additive):
    """Sums of one pass over rows by their weights: of the factors, and per column cells, squared z of knots, squared noise,
    and (with knots) the standard deviation of a cell given the others.
    """

    factors: FactorSums
    cells: Array
    squares: Array
    noise: Array
    loose: Array
    nodes: NodeSums


def level_means(chain: Chain) -> Array:
    """E[z] of every level by itself."""
    return truncated_moments(chain.bounds[chain.level_low], chain.bounds[chain.level_high]).mean


def start_table(block: Block, chain: Chain, take: Take = fresh) -> tuple[Any, Any]:
    """Latent means of the observed cells, zeros elsewhere; and the same with rows times their weights."""
    rows = block.rows
    z = take("start z", len(rows.column))
    z[block.exact] = exact_z(block, chain, take)
    z[block.censored] = level_means(chain)[block.level]
    table = rows.table(z, take, "start")
    return table, table if block.weight is None else rows.table(z * block.weight[rows.row], take, "weighted")


def own_sites(state: State) -> tuple[Array, Array]:
    """Sites of every level given it alone."""
    f, chain = state.factors, state.chain
    noise = np.repeat(f.noise, np.diff(chain.level_start))
    zero, spread = np.zeros(len(noise)), 1.0 - noise
    law = censored_law(zero, spread, noise, chain.bounds, np.arange(len(noise)), chain)
    return sites_of(zero, spread, noise, law)


def start_sites(block: Block, state: State) -> Block:
    """Sites of the censored cells given their own level alone."""
    tau, nu = own_sites(state)
    return replace(block, tau=tau[block.level], nu=nu[block.level])


def restart(block: Block, state: State, _: Take) -> tuple[Block, int]:
    """The block with its first sites, as a pass over blocks."""
    return start_sites(block, state), 0


def exact_z(block: Block, chain: Chain, take: Take = fresh) -> Array:
    """Latent values of cells that are known exactly."""
    size = len(block.node)
    z = np.take(chain.z, block.node, out=take("exact z", size), mode="clip")
    if block.on_knots:
        return z
    steps = np.zeros_like(chain.z)
    np.subtract(chain.z[1:], chain.z[:-1], out=steps[:-1])
    way = np.take(steps, block.node, out=take("exact way", size), mode="clip")
    way *= block.part
    z += way
    return z


def site_tables(block: Block, state: State, take: Take = fresh) -> tuple[Any, Any]:
    """Tables of the sites of all cells at the noise of the state."""
    f, rows = state.factors, block.rows
    tau, nu = np.divide(1.0, f.noise[rows.column]), np.zeros(len(rows.column))
    nu[block.exact] = exact_z(block, state.chain, take) * tau[block.exact]
    tau[block.censored], nu[block.censored] = block.tau, block.nu
    return rows.table(tau, take, "tau table"), rows.table(nu, take, "nu table")


def step(block: Block, state: State, knots: bool, take: Take = fresh) -> tuple[Block, Sums]:
    """One pass over a block: sums at its present sites, and the sites after them.

    ``knots``: sums for the knots too.
    """
    f, chain, rows = state.factors, state.chain, block.rows
    column, p, n, cells = rows.column, rows.p, len(chain.z), len(rows.column)
    exact, censored = _positions(block.exact, cells), _positions(block.censored, cells)
    own = np.take(f.noise, column, out=take("own noise", cells), mode="clip")
    tau, nu = np.divide(1.0, own, out=take("tau", cells)), take("nu", cells)
    z = exact_z(block, chain, take)
    nu[censored], nu[exact] = 0.0, z
    nu *= tau
    tau[censored], nu[censored] = block.tau, block.nu
    weight = block.weight
    each = None if weight is None else np.take(weight, rows.row, out=take("each", cells), mode="clip")
    some = _Some(exact, "exact", column, own, tau, nu, each, take)
    tau_table, nu_table = rows.table(tau, take, "tau table"), rows.table(nu, take, "nu table")
    q = posterior_of(tau_table, nu_table, f, take)
    factors = factor_sums(tau_table, nu_table, q, weight, take)
    moving = knots or bool(chain.cut.any())
    nodes = NodeSums(*np.zeros((3, n if moving else 0)))
    noise, loose = np.zeros(p), np.zeros(p)
    new_tau, new_nu = block.tau, block.nu
    if len(block.censored) or knots:
        m, v = signal(rows, q, f, take, single=True)
        if len(block.exact):
            centre, spread = some.of(m, "m"), some.of(v, "v")
            if len(block.censored):
                off = np.subtract(z, centre, out=take("off", len(z)))
                off *= off
                off += spread
                noise += some.sums(off, p)
            if knots:
                centre, spread = cavity(centre, spread, some.tau, some.nu, take)
                spread += some.noise
                nodes += _knot_sums(block, centre, spread, n, some.each, take)
                loose += some.sums(np.sqrt(spread, out=spread), p)
        if len(block.censored):
            cut = _Some(censored, "censored", column, own, tau, nu, each, take)
            centre, spread = cavity(cut.of(m, "m"), cut.of(v, "v"), cut.tau, cut.nu, take)
            law = censored_law(centre, spread, cut.noise, chain.bounds, block.level, chain, take)
            new_tau, new_nu = sites_of(centre, spread, cut.noise, law, take)
            new_tau, new_nu = _damped(block.tau, new_tau), _damped(block.nu, new_nu)
            # E[e^2] = noise / (v + noise) * (noise * E[z^2 within] + v)
            square = np.multiply(law.mean, law.mean, out=centre)
            square += law.variance
            square *= cut.noise
            square += spread
            square *= cut.noise
            spread += cut.noise
            square /= spread
            noise += cut.sums(square, p)
            if moving:
                nodes += _cut_sums(block, chain, spread, law, cut.each, take)
    seen = np.bincount(column, each, p).astype(np.float64)
    z *= z
    return replace(block, tau=new_tau, nu=new_nu), Sums(factors, seen, some.sums(z, p), noise, loose, nodes)


def _damped(old: Array, new: Array) -> Array:
    """A step from old towards new, whose array is lost."""
    new -= old
    new *= DAMPING
    return old + new


class _Some:
    """What belongs to some of the cells: column, noise, sites and weight of each."""

    def __init__(
        self,
        where: Any,
        name: str,
        column: Index,
        noise: Array,
        tau: Array,
        nu: Array,
        each: Array | None,
        take: Take,
    ) -> None:
        self.where, self.name, self.take = where, name, take
        self.column = pick(column, where, lambda size: take(f"{name} column", size, dtype=np.intp))
        self.noise, self.tau, self.nu = self.of(noise, "noise"), self.of(tau, "tau"), self.of(nu, "nu")
        self.each = None if each is None else self.of(each, "each")

    def of(self, values: Array, name: str) -> Array:
        """The values of these cells."""
        return pick(values, self.where, lambda size: self.take(f"{self.name} {name}", size))

    def sums(self, values: Array, p: int) -> Array:
        """Sums by column; the values are lost."""
        if self.each is not None:
            values *= self.each
        return sums_by(self.column, values, p)


def _positions(where: Index, total: int) -> Any:
    """Positions, as a slice when they are all there are."""
    return slice(None) if len(where) == total else where


def _knot_sums(
    block: Block, m: Array, v: Array, n: int, each: Array | None = None, take: Take = fresh
) -> NodeSums:
    """Leave-one-out laws N(m, v) of the exact cells, as a quadratic in their nodes."""
    node, part, size = block.node, block.part, len(m)
    w = np.divide(1.0 if each is None else each, v, out=take("knot w", size))
    product = take("knot product", size)
    if block.on_knots:
        diagonal = sums_by(node, w, n)
        return NodeSums(diagonal, np.zeros(n), sums_by(node, np.multiply(w, m, out=product), n))
    after = np.add(node, 1, out=take("knot after", size, dtype=np.intp))
    np.minimum(after, n - 1, out=after)
    far = np.multiply(w, part, out=take("knot far", size))  # w times the way to the next node
    near = np.subtract(w, far, out=w)
    beside = np.multiply(near, part, out=product)
    across = sums_by(node, beside, n)
    diagonal = sums_by(node, np.subtract(near, beside, out=product), n)
    diagonal += sums_by(after, np.multiply(far, part, out=product), n)
    linear = sums_by(node, np.multiply(near, m, out=product), n)
    linear += sums_by(after, np.multiply(far, m, out=product), n)
    return NodeSums(diagonal, across, linear)


def _cut_sums(
    block: Block, chain: Chain, variance: Array, law: Any, each: Array | None = None, take: Take = fresh
) -> NodeSums:
    """Log-likelihood of the cuts to second order about where they are.

    With a = (low - m)/s: d/dlow = -phi(a)/(s mass), and so on; levels are summed before nodes.
    """
    levels, n = len(chain.level_value), len(chain.z)
    size = len(variance)
    s = np.sqrt(variance, out=take("cut sd", size))
    at_low = np.divide(law.at_low, s, out=take("cut low", size))
    at_high = np.divide(law.at_high, s, out=take("cut high", size))
    product = take("cut product", size)
    bounds = chain.bounds
    low, high = chain.level_low, chain.level_high
    finite_low, finite_high = low < n, high < n

    def per_level(values: Array) -> Array:
        if each is not None:
            values = np.multiply(values, each, out=product)
        return sums_by(block.level, values, levels)

    # ends are times a density of zero where they were infinite
    np.minimum(law.high, 1e9, out=product)
    product += law.at_high
    product *= at_high
    product /= s
    up = per_level(product)
    np.maximum(law.low, -1e9, out=product)
    np.subtract(law.at_low, product, out=product)
    product *= at_low
    product /= s
    down = per_level(product)
    across = -per_level(np.multiply(at_low, at_high, out=product))
    slope_up, slope_down = per_level(at_high), -per_level(at_low)
    diagonal = sums_by(high[finite_high], up[finite_high], n) + sums_by(low[finite_low], down[finite_low], n)
    slope = sums_by(high[finite_high], slope_up[finite_high], n)
    slope += sums_by(low[finite_low], slope_down[finite_low], n)
    both = finite_low & finite_high
    beside = sums_by(low[both], across[both], n)
    z = bounds[:n]
    linear = slope + diagonal * z
    linear[:-1] += beside[:-1] * z[1:]
    linear[1:] += beside[:-1] * z[:-1]
    return NodeSums(diagonal, beside, linear)
