"""Expectation-propagation EM of the low-rank Gaussian copula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..factor import eigh
from ._estep import Array, Factors, unpack
from ._marginals import move, rescaled
from ._step import State, Sums

ROUNDS = 2  # times that knots are moved; more did not help
LEAST = 1e-6  # noise, of a unit variance
_SMALL = 1e-10  # of a unit variance
_PLAIN = 6  # iterations before steps are extrapolated
_GROW = 4  # iterations before factors go
_SLOW = 0.7  # ratio of changes that calls for an extrapolation
_STRIDE = 16.0  # its reach, in steps
_WAIT = 15  # iterations without another after one that went wrong, twice as many each time
LOOSER = 4.0  # tolerance of rounds that others follow
RANK_SHARE = 1e-3  # of the largest eigenvalue of W'W, under which a factor is none


@dataclass(frozen=True)
class Trace:
    """How a fit went: changes of W W' per iteration, whether it came near enough, and how far it still had to go."""

    changes: tuple[float, ...]
    converged: bool
    left: float

    def warning(self, what: str, tol: float) -> str:
        """What to say where it did not."""
        return (
            f"EM has not converged: after {len(self.changes)} iterations {what} is about {self.left:.3g} from its limit, "
            f"more than tol={tol:g}. Remedies: a larger max_iter or tol"
        )


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
    series, change * ratio / (1 - ratio), the ratio that of changes since the last extrapolation. With ``cells`` of the columns,
    factors that are none go on the way.
    """
    changes: list[float] = []
    path: list[State] = [state]
    kept: State | None = None  # where a leap began that is not yet found good
    patient = bool(state.chain.continuous.mean() > 0.5)
    next_leap = _PLAIN if patient else max_iter  # sites do not follow leaps
    wait = _WAIT
    left, ratio, landed = np.inf, 0.0, 0
    while len(changes) < max_iter:
        new = _attempt(run, state, common)
        if new is None:
            if kept is None:
                raise np.linalg.LinAlgError(BROKEN.format(len(changes) + 1, state.factors.rank))
            state, kept, next_leap, wait = kept, None, len(changes) + wait, 2 * wait
            path = [state]
            continue
        state = new
        changes.append(change(path[-1].factors.W, state.factors.W))
        path = [*path[-2:], state]
        tick()
        recent = changes[max(landed, len(changes) - 4) :]
        if len(recent) >= (2 if landed else 4) and recent[0] > 0:
            ratio = min((recent[-1] / recent[0]) ** (1 / (len(recent) - 1)), 0.99)
        left = changes[-1] * (max(ratio / (1.0 - ratio), 1.0) if patient else 1.0)
        if cells is not None and (left < tol or len(changes) >= _GROW):
            pruned = prune(state, cells)
            if (
                pruned.factors.rank < state.factors.rank
            ):  # no end with factors that are none, or may still grow
                if len(changes) >= _GROW:
                    state, path, kept = pruned, [pruned], None
                continue
        if left < tol:
            return state, Trace(tuple(changes), True, left)
        if kept is not None and changes[-1] > 3 * changes[-2]:  # a leap that went wrong
            state, next_leap, wait = kept, len(changes) + wait, 2 * wait
            path = [state]
        kept = None
        turn = next_leap <= len(changes) < max_iter and len(changes) % 3 == 0
        if turn and ratio > _SLOW and len(path) == 3:
            kept, state = state, extrapolate(*path)
            path, landed = [state], len(changes) + 1  # the step that follows says nothing of the pace
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


def noise_edge(p: int, cells: Array) -> float:
    """What a factor must add to unit noise to be told from it.

    m cells of p columns of pure noise have a largest eigenvalue of (1 + sqrt(p/m))^2: that less one, and at least a tenth.
    """
    return float(max((1.0 + np.sqrt(p / cells.mean())) ** 2 - 1.0, 0.1))


def prune(state: State, cells: Array) -> State:
    """Factors go that are too weak to be told from noise.

    In units of the noise a factor must exceed `noise_edge`; also ``RANK_SHARE`` of the largest factor, and its
    own uncertainty.
    """
    f = state.factors
    values, vectors = eigh(f.W.T @ f.W)
    loose = np.diag(vectors.T @ f.C.sum(axis=0) @ vectors)
    W = f.W @ vectors
    strength = np.einsum("pi,pi,p->i", W, W, 1.0 / f.noise)
    seen = strength > noise_edge(len(W), cells)
    kept = (values > RANK_SHARE * values[-1]) & (values > loose) & seen
    kept[-1] = True
    keep = vectors[:, kept][:, ::-1]
    return replace(state, factors=Factors(f.W @ keep, keep.T @ f.C @ keep, f.noise))


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
        near = tol if not left else LOOSER * tol  # knots move after it anyway
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
