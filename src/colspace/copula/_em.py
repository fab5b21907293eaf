"""Expectation-propagation EM of the low-rank Gaussian copula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..factor import eigh
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
    unpack,
)
from ._marginals import Chain, NodeSums, move, rescaled
from ._truncated import truncated_moments

DAMPING = 0.7  # of the sites of a row, which are all changed at once
ROUNDS = 2  # times that knots are moved; more did not help
LEAST = 1e-6  # noise, of a unit variance
_SMALL = 1e-10  # of a unit variance
_PLAIN = 6  # iterations before factors go or steps are extrapolated
_SLOW = 0.7  # ratio of changes that calls for an extrapolation
_STRIDE = 16.0  # its reach, in steps
_LOOSER = 4.0  # tolerance of rounds that others follow
RANK_SHARE = 1e-3  # of the largest eigenvalue of W'W, under which a factor is none


@dataclass(frozen=True)
class Block:
    """Observed cells of some rows. ``exact`` and ``censored`` are positions among the cells: the former have a node
    and the way to the next one, the latter a level; ``tau`` and ``nu`` are the sites of the censored ones. ``weight``
    is that of each row, None when all count once.
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


@dataclass(frozen=True)
class Trace:
    """How a fit went: changes of W W' per iteration, whether it came near enough, and how far it still had to go."""

    changes: tuple[float, ...]
    converged: bool
    left: float


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
    nodes = NodeSums(np.zeros(n), np.zeros(n), np.zeros(n))
    noise, loose = np.zeros(p), np.zeros(p)
    new_tau, new_nu = block.tau, block.nu
    if len(block.censored) or knots:
        m, v = signal(rows, q, f, take)
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
    continuous, limited = chain.continuous, chain.limited
    fitted = (sums.squares + f.noise * (second - 2 * np.einsum("pi,pi->p", W, sums.factors.b))) / cells
    spread = sums.noise / cells + f.noise * np.einsum("pij,pij->p", A, C) / cells
    noise = np.maximum(np.where(continuous, fitted, np.where(limited | common, spread, f.noise)), LEAST)
    expand = np.linalg.cholesky(unpack(sums.factors.tt, k) / sums.factors.count)
    W, C = W @ expand, expand.T @ C @ expand
    total = noise + np.einsum("pi,pi->p", W, W)
    noise, W, C = noise / total, W / np.sqrt(total)[:, None], C / total[:, None, None]
    if common:
        new = np.full(len(W), float(np.average(noise, weights=sums.cells)))
    else:
        loose = 4 * np.einsum("pij,pi,pj->p", C, W, W) / noise**2
        new = shrink(noise, np.where(continuous, 2 / cells, loose))
    new = np.where(1.0 - noise > 1e-12, new, noise)  # nothing to scale
    scale = np.sqrt((1.0 - new) / np.maximum(1.0 - noise, 1e-12))
    factors = Factors(W * scale[:, None], C * (scale**2)[:, None, None], new)
    if chain.cut.any():
        z = move(chain, sums.nodes, knots=False)
        rest = np.where(continuous | common, 1.0, 1.0 / np.sqrt(total))
        chain = replace(chain, z=z * rest[chain.column])
    return State(factors, chain)


def shrink(noise: Array, variances: Array) -> Array:
    """Noise variances drawn to their geometric mean as far as their logarithms differ by chance.

    ``variances`` are the sampling variances of the logarithms.
    """
    logs = np.log(noise)
    mean, chance = float(logs.mean()), float(np.minimum(variances, 1.0).mean())
    between = max(float(logs.var()) - chance, 0.0)
    kept = between / np.maximum(between + np.minimum(variances, 1.0), 1e-300)
    return np.exp(mean + kept * (logs - mean))


def change(before: Array, after: Array) -> float:
    """Change of W W', the same for every rotation of the factors, relative to the correlation that it is part of."""
    old, new, cross = before.T @ before, after.T @ after, before.T @ after
    moved = np.sum(old * old) + np.sum(new * new) - 2 * np.sum(cross * cross)
    return float(np.sqrt(max(moved, 0.0) / (np.sum(old * old) + len(before))))


Pass = Callable[[State, bool], Sums]
BROKEN = (
    "the numbers broke down in EM iteration {} with {} factors; give fewer factors (n_components), noise='common', "
    "or leave out columns that repeat one another"
)


def iterate(
    run: Pass,
    state: State,
    cells: Array | None,
    *,
    common: bool,
    tol: float,
    max_iter: int,
    tick: Callable[[], None],
) -> tuple[State, Trace]:
    """E and M steps until W W' changes by less than ``tol``.

    Where most columns are continuous, slow steps are extrapolated and ``tol`` is for the distance left, that of a geometric
    series, change * ratio / (1 - ratio). With ``cells`` of the columns, factors that are none go on the way.
    """
    changes: list[float] = []
    path: list[State] = [state]
    kept: State | None = None  # where a leap began that is not yet found good
    patient = bool(state.chain.continuous.mean() > 0.5)
    trusted = patient  # sites do not follow leaps
    left = np.inf
    while len(changes) < max_iter:
        new = _attempt(run, state, common)
        if new is None:
            if kept is None:
                raise np.linalg.LinAlgError(BROKEN.format(len(changes) + 1, state.factors.rank))
            state, kept, trusted = kept, None, False
            path = [state]
            continue
        state = new
        changes.append(change(path[-1].factors.W, state.factors.W))
        path = [*path[-2:], state]
        tick()
        if cells is not None and len(changes) >= _PLAIN:
            pruned = prune(state, cells)
            if pruned.factors.rank < state.factors.rank:
                state, path, kept = pruned, [pruned], None
                continue
        recent = changes[-4:]
        ratio = min((recent[-1] / recent[0]) ** (1 / 3), 0.99) if len(recent) == 4 and recent[0] > 0 else 0.0
        left = changes[-1] * (max(ratio / (1.0 - ratio), 1.0) if patient else 1.0)
        if left < tol:
            return state, Trace(tuple(changes), True, left)
        if kept is not None and changes[-1] > 3 * changes[-2]:  # a leap that went wrong
            state, trusted = kept, False
            path = [state]
        kept = None
        turn = _PLAIN <= len(changes) < max_iter and len(changes) % 3 == 0
        if trusted and turn and ratio > _SLOW and len(path) == 3:
            kept, state = state, extrapolate(*path)
            path = [state]
    return state, Trace(tuple(changes), False, left)


def _attempt(run: Pass, state: State, common: bool) -> State | None:
    """One E and M step, or None where the numbers break down."""
    try:
        new = maximise(state, run(state, False), common=common)
    except np.linalg.LinAlgError:
        return None
    f = new.factors
    finite = np.isfinite(f.W).all() and np.isfinite(f.noise).all() and np.isfinite(new.chain.z).all()
    return new if finite else None


def extrapolate(first: State, second: State, third: State) -> State:
    """Where three steps of EM lead: a squared step of the polynomial extrapolation of Varadhan and Roland."""
    theta = [np.column_stack([s.factors.W, np.log(s.factors.noise)]) for s in (first, second, third)]
    r = theta[1] - theta[0]
    v = theta[2] - theta[1] - r
    bend = max(float(np.linalg.norm(v)), 1e-300)
    length = -min(max(float(np.linalg.norm(r)) / bend, 1.0), _STRIDE)
    W = theta[0] - 2 * length * r + length**2 * v
    W, logs = W[:, :-1], W[:, -1]
    length = np.einsum("pi,pi->p", W, W)
    noise = np.maximum(np.exp(np.minimum(logs, 0.0)), LEAST * length)
    total = noise + length
    factors = Factors(W / np.sqrt(total)[:, None], third.factors.C, noise / total)
    return replace(third, factors=factors)


def prune(state: State, cells: Array) -> State:
    """Factors go that are too weak to be told from noise.

    In units of the noise, m cells of p columns of pure noise have a largest eigenvalue of (1 + sqrt(p/m))^2: a factor must
    exceed that less one, and a tenth; also ``RANK_SHARE`` of the largest factor, and its own uncertainty.
    """
    f = state.factors
    values, vectors = eigh(f.W.T @ f.W)
    loose = np.diag(vectors.T @ f.C.sum(axis=0) @ vectors)
    W = f.W @ vectors
    strength = np.einsum("pi,pi,p->i", W, W, 1.0 / f.noise)
    seen = strength > max((1.0 + np.sqrt(len(W) / cells.mean())) ** 2 - 1.0, 0.1)
    kept = (values > RANK_SHARE * values[-1]) & (values > loose) & seen
    kept[-1] = True
    keep = vectors[:, kept][:, ::-1]
    return replace(state, factors=Factors(f.W @ keep, keep.T @ f.C @ keep, f.noise))


def level_means(chain: Chain) -> Array:
    """E[z] of every level by itself."""
    return truncated_moments(chain.bounds[chain.level_low], chain.bounds[chain.level_high]).mean


def start_table(block: Block, chain: Chain) -> tuple[Any, Any]:
    """Latent means of the observed cells, zeros elsewhere; and the same with rows times their weights."""
    z = np.empty(len(block.rows.row))
    z[block.exact] = exact_z(block, chain)
    z[block.censored] = level_means(chain)[block.level]
    table = block.rows.table(z)
    return table, table if block.weight is None else block.rows.table(z * block.weight[block.rows.row])


def start_sites(block: Block, state: State, take: Take = fresh) -> Block:
    """Sites of the censored cells given their own level alone."""
    f, chain = state.factors, state.chain
    noise = f.noise[block.rows.column[block.censored]]
    zero, spread = np.zeros(len(noise)), 1.0 - noise
    law = censored_law(zero, spread, noise, chain.bounds, block.level, chain, take)
    tau, nu = sites_of(zero, spread, noise, law)
    return replace(block, tau=tau, nu=nu)


def fit_ep(
    run: Pass,
    state: State,
    cells: Array,
    *,
    common: bool,
    auto_rank: bool,
    tol: float,
    max_iter: int,
    tick: Callable[[], None] = lambda: None,
) -> tuple[State, list[Trace], Array]:
    """EM, then twice: knots moved, EM again. ``run`` makes one pass over all blocks, ``cells`` are those of each column.

    Also gives the mean standard deviation of an exact cell given the others, by column.
    """
    some = cells if auto_rank else None
    rounds = ROUNDS if np.any(~state.chain.cut) else 0
    traces: list[Trace] = []
    loose = np.ones(len(cells))
    for left in range(rounds, -1, -1):
        near = tol if auto_rank or not left else _LOOSER * tol  # knots move after it anyway
        state, trace = iterate(run, state, some, common=common, tol=near, max_iter=max_iter, tick=tick)
        traces.append(trace)
        if left:
            sums = run(state, True)
            loose = np.where(sums.loose > 0, sums.loose / cells, 1.0)
            z = move(state.chain, sums.nodes, knots=True, tol=0.05 if left == 1 else 0.3)
            state = replace(state, chain=rescaled(state.chain, z))
    return _pruned_last(state, cells) if auto_rank else state, traces, loose


def _pruned_last(state: State, cells: Array) -> State:
    """Without weak factors, what they explained being noise: no M-step follows that restores the unit diagonal."""
    found = prune(state, cells)
    f = found.factors
    rest = 1.0 - np.einsum("pi,pi->p", f.W, f.W)
    return replace(found, factors=replace(f, noise=np.where(np.abs(rest - f.noise) > 1e-9, rest, f.noise)))
