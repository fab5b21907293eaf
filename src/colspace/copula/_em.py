"""Expectation-propagation EM of the low-rank Gaussian copula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..moments import Additive
from ._estep import (
    Array,
    Factors,
    FactorSums,
    Index,
    Rows,
    cavity,
    censored_law,
    factor_sums,
    posterior,
    signal,
    sites_of,
    unpack,
)
from ._marginals import Chain, NodeSums, move, rescaled
from ._truncated import truncated_moments

ROUNDS = 2  # times that knots are moved; more did not help
_SMALL = 1e-10  # of a unit variance
RANK_SHARE = 1e-3  # of the largest eigenvalue of W'W, under which a factor is none


@dataclass(frozen=True)
class Block:
    """Observed cells of some rows. ``exact`` and ``censored`` are positions among the cells: the former have a node
    and the way to the next one, the latter a level; ``tau`` and ``nu`` are the sites of all cells.
    """

    rows: Rows
    exact: Index
    node: Index
    part: Array
    censored: Index
    level: Index
    tau: Array
    nu: Array


@dataclass(frozen=True)
class State:
    """Everything that is learned."""

    factors: Factors
    chain: Chain


@dataclass(frozen=True)
class Sums(Additive):
    """Sums of one pass: of the factors, and per column cells, squared z of knots and squared noise."""

    factors: FactorSums
    cells: Array
    squares: Array
    noise: Array
    nodes: NodeSums


@dataclass(frozen=True)
class Trace:
    """How a fit went: changes of W W' per iteration, and whether the last was small enough."""

    changes: tuple[float, ...]
    converged: bool


def exact_z(block: Block, chain: Chain) -> Array:
    """Latent values of cells that are known exactly."""
    if not block.part.any():
        return chain.z[block.node]
    after = np.minimum(block.node + 1, len(chain.z) - 1)
    return (1.0 - block.part) * chain.z[block.node] + block.part * chain.z[after]


def step(block: Block, state: State, knots: bool) -> tuple[Block, Sums]:
    """One pass over a block: sums at its present sites, and the sites after them.

    ``knots``: sums for the knots too.
    """
    f, chain, rows = state.factors, state.chain, block.rows
    column = rows.column
    tau, nu = block.tau.copy(), block.nu.copy()
    z = exact_z(block, chain)
    on_exact = column[block.exact]
    tau[block.exact] = 1.0 / f.noise[on_exact]
    nu[block.exact] = z * tau[block.exact]
    q = posterior(rows, tau, nu, f)
    factors = factor_sums(rows, tau, nu, q)
    n = len(chain.z)
    nodes = NodeSums(np.zeros(n), np.zeros(n), np.zeros(n))
    noise = np.zeros(rows.p)
    if len(block.censored) or knots:
        m, v = signal(rows, q, f)
        if len(block.exact):
            me, ve = m[block.exact], v[block.exact]
            if len(block.censored):
                noise += np.bincount(on_exact, (z - me) ** 2 + ve, rows.p)
            if knots:
                nodes += _knot_sums(block, *cavity(me, ve, tau[block.exact], nu[block.exact]), f.noise[on_exact], n)
        if len(block.censored):
            where = block.censored
            on = column[where]
            centre, spread = cavity(m[where], v[where], tau[where], nu[where])
            law = censored_law(centre, spread, f.noise[on], chain.bounds, block.level, chain)
            tau[where], nu[where] = sites_of(centre, spread, f.noise[on], law)
            share = f.noise[on] / (spread + f.noise[on])
            noise += np.bincount(on, share * (f.noise[on] * (law.variance + law.mean**2) + spread), rows.p)
            nodes += _cut_sums(block, chain, spread + f.noise[on], law)
    sums = Sums(
        factors,
        np.bincount(column, minlength=rows.p).astype(np.float64),
        np.bincount(on_exact, z * z, rows.p),
        noise,
        nodes,
    )
    return replace(block, tau=tau, nu=nu), sums


def _knot_sums(block: Block, m: Array, v: Array, noise: Array, n: int) -> NodeSums:
    """Leave-one-out laws N(m, v + noise) of the exact cells, as a quadratic in their nodes."""
    w = 1.0 / (v + noise)
    node, part = block.node, block.part
    after = np.minimum(node + 1, n - 1)
    rest = 1.0 - part
    return NodeSums(
        np.bincount(node, w * rest**2, n) + np.bincount(after, w * part**2, n),
        np.bincount(node, w * part * rest, n),
        np.bincount(node, w * m * rest, n) + np.bincount(after, w * m * part, n),
    )


def _cut_sums(block: Block, chain: Chain, variance: Array, law: Any) -> NodeSums:
    """Log-likelihood of the cuts to second order about where they are.

    With a = (low - m)/s: d/dlow = -phi(a)/(s mass), and so on; levels are summed before nodes.
    """
    levels, n = len(chain.level_value), len(chain.z)
    s = np.sqrt(variance)
    at_low, at_high = law.at_low / s, law.at_high / s
    bounds = chain.bounds
    low, high = chain.level_low, chain.level_high
    finite_low, finite_high = low < n, high < n

    def per_level(values: Array) -> Array:
        return np.bincount(block.level, values, levels)

    a, b = np.maximum(law.low, -1e9), np.minimum(law.high, 1e9)  # times a density of zero where they were infinite
    up = per_level(at_high * (b + law.at_high) / s)
    down = per_level(at_low * (law.at_low - a) / s)
    across = -per_level(at_low * at_high)
    slope_up, slope_down = per_level(at_high), -per_level(at_low)
    diagonal = np.bincount(high[finite_high], up[finite_high], n) + np.bincount(low[finite_low], down[finite_low], n)
    slope = np.bincount(high[finite_high], slope_up[finite_high], n)
    slope += np.bincount(low[finite_low], slope_down[finite_low], n)
    both = finite_low & finite_high
    beside = np.bincount(low[both], across[both], n)
    z = bounds[:n]
    linear = slope + diagonal * z
    linear[:-1] += beside[:-1] * z[1:]
    linear[1:] += beside[:-1] * z[:-1]
    return NodeSums(diagonal, beside, linear)


def maximise(state: State, sums: Sums, *, common: bool) -> State:
    """The M-step: empirical-Bayes loadings, noise, expansion of the factors, and the unit diagonal."""
    f, chain = state.factors, state.chain
    k = f.rank
    A = unpack(sums.factors.A, k)
    prior = (f.W.T @ f.W + f.C.sum(axis=0)) / len(f.W) + _SMALL * np.eye(k)
    C = np.linalg.inv(A + np.linalg.inv(prior))
    W = np.einsum("pij,pj->pi", C, sums.factors.b)
    second = np.einsum("pij,pij->p", A, W[:, :, None] * W[:, None, :] + C)
    cells = np.maximum(sums.cells, 1.0)
    kinds = np.array(chain.kinds)
    continuous = kinds == "continuous"
    limited = np.isin(kinds, ("lower", "upper", "two-sided"))
    fitted = (sums.squares + f.noise * (second - 2 * np.einsum("pi,pi->p", W, sums.factors.b))) / cells
    spread = sums.noise / cells + f.noise * np.einsum("pij,pij->p", A, C) / cells
    noise = np.where(continuous, fitted, np.where(limited | common, spread, f.noise))
    noise = np.maximum(noise, 1e-6)
    expand = np.linalg.cholesky(unpack(sums.factors.tt, k) / sums.factors.count)
    W, C = W @ expand, expand.T @ C @ expand
    length = np.einsum("pi,pi->p", W, W)
    if common:
        pooled = float(np.average(noise / (noise + length), weights=sums.cells))
        noise, scale = np.full(len(W), pooled), np.sqrt((1.0 - pooled) / np.maximum(length, 1e-12))
        shrink = np.ones(len(W))
    else:
        total = noise + length
        noise, scale = noise / total, 1.0 / np.sqrt(total)
        shrink = np.where(continuous, 1.0, scale)
    factors = Factors(W * scale[:, None], C * (scale**2)[:, None, None], noise)
    if chain.cut.any():
        z = move(chain, sums.nodes, knots=False)
        chain = replace(chain, z=z * np.repeat(shrink, np.diff(chain.start)))
    return State(factors, chain)


def change(before: Array, after: Array) -> float:
    """Relative change of W W', the same for every rotation of the factors."""
    old, new, cross = before.T @ before, after.T @ after, before.T @ after
    size = max(float(np.sum(old * old)), _SMALL)
    return float(np.sqrt(max(size + np.sum(new * new) - 2 * np.sum(cross * cross), 0.0) / size))


Pass = Callable[[State, bool], Sums]


def iterate(run: Pass, state: State, *, common: bool, tol: float, max_iter: int, tick: Callable[[], None]) -> Any:
    """E and M steps until W W' changes by less than ``tol``."""
    changes: list[float] = []
    while len(changes) < max_iter:
        new = maximise(state, run(state, False), common=common)
        changes.append(change(state.factors.W, new.factors.W))
        state = new
        tick()
        if changes[-1] < tol:
            return state, Trace(tuple(changes), True)
    return state, Trace(tuple(changes), False)


def prune(state: State) -> State:
    """Factors whose eigenvalue is under ``RANK_SHARE`` of the largest go."""
    f = state.factors
    values, vectors = np.linalg.eigh(f.W.T @ f.W)
    found = max(int(np.sum(values > RANK_SHARE * values[-1])), 1)
    keep = vectors[:, ::-1][:, :found]
    return replace(state, factors=Factors(f.W @ keep, keep.T @ f.C @ keep, f.noise))


def level_means(chain: Chain) -> Array:
    """E[z] of every level by itself."""
    return truncated_moments(chain.bounds[chain.level_low], chain.bounds[chain.level_high]).mean


def start_table(block: Block, chain: Chain) -> Any:
    """Latent means of the observed cells, zeros elsewhere."""
    z = np.empty(len(block.rows.row))
    z[block.exact] = exact_z(block, chain)
    z[block.censored] = level_means(chain)[block.level]
    return block.rows.table(z)


def start_sites(block: Block, state: State) -> Block:
    """Sites of the censored cells given their own level alone."""
    f, chain = state.factors, state.chain
    tau, nu = np.zeros(len(block.rows.row)), np.zeros(len(block.rows.row))
    on = block.rows.column[block.censored]
    zero, spread = np.zeros(len(on)), 1.0 - f.noise[on]
    law = censored_law(zero, spread, f.noise[on], chain.bounds, block.level, chain)
    tau[block.censored], nu[block.censored] = sites_of(zero, spread, f.noise[on], law)
    return replace(block, tau=tau, nu=nu)


def fit_ep(
    run: Pass,
    state: State,
    *,
    common: bool,
    auto_rank: bool,
    tol: float,
    max_iter: int,
    tick: Callable[[], None] = lambda: None,
) -> tuple[State, list[Trace]]:
    """EM, then twice: knots moved, EM again. ``run`` makes one pass over all blocks."""
    state, trace = iterate(run, state, common=common, tol=tol, max_iter=max_iter, tick=tick)
    traces = [trace]
    if auto_rank:
        state = prune(state)
    if not np.any(~state.chain.cut):
        return state, traces
    for _ in range(ROUNDS):
        sums = run(state, True)
        state = replace(state, chain=rescaled(state.chain, move(state.chain, sums.nodes, knots=True)))
        state, trace = iterate(run, state, common=common, tol=tol, max_iter=max_iter, tick=tick)
        traces.append(trace)
        if auto_rank:
            state = prune(state)
    return state, traces
