"""The published EM: one Jacobi step for the truncated moments, maximum likelihood, one noise for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..moments import Additive
from ._em import BROKEN, LEAST, Trace
from ._estep import (
    Array,
    Factors,
    Posterior,
    cavity,
    censored_law,
    pack,
    posterior,
    signal,
    sums_by,
    unpack,
)
from ._step import Block, State, exact_z


@dataclass(frozen=True)
class PaperSums(Additive):
    """Per column sum E[tt'] (packed), sum E[z t'], sum E[z^2], cells; over rows by their weights."""

    tt: Array
    zt: Array
    zz: Array
    cells: Array


def paper_sites(block: Block, state: State) -> tuple[Array, Array, Posterior]:
    """E[z] and Var[z] of the observed cells after one Jacobi step, and the factors given all z as they were.

    ``block.nu`` holds E[z] of the censored cells.
    """
    f, rows = state.factors, block.rows
    cells = len(rows.column)
    mean, variance = np.empty(cells), np.zeros(cells)
    mean[block.exact], mean[block.censored] = exact_z(block, state.chain), block.nu
    precision = 1.0 / f.noise[rows.column]
    q = posterior(rows, precision, mean * precision, f)
    if len(block.censored):
        where, on = block.censored, rows.column[block.censored]
        m, v = signal(rows, q, f)
        centre, spread = cavity(m[where], v[where], precision[where], mean[where] * precision[where])
        law = censored_law(centre, spread, f.noise[on], state.chain.bounds, block.level, state.chain)
        total = spread + f.noise[on]
        mean[where] = centre + np.sqrt(total) * law.mean
        variance[where] = total * law.variance
    return mean, variance, q


def paper_posterior(
    block: Block, mean: Array, variance: Array, q: Posterior, f: Factors
) -> tuple[Posterior, Array]:
    """Mean and covariance of the factors given E[z] and Var[z], and V W' Var[z] W V alone (packed)."""
    rows, k = block.rows, f.rank
    precision = 1.0 / f.noise[rows.column]
    V = unpack(q.V, k)
    t = np.einsum("nij,nj->ni", V, np.asarray(rows.table(mean * precision) @ f.W))
    if not variance.any():
        return Posterior(t, q.V), np.zeros_like(q.V)
    inner = unpack(
        np.asarray(rows.table(variance * precision**2) @ pack(f.W[:, :, None] * f.W[:, None, :])), k
    )
    added = pack(V @ inner @ V)
    return Posterior(t, q.V + added), added


def paper_step(block: Block, state: State) -> tuple[Block, PaperSums]:
    """One pass over a block."""
    f, rows = state.factors, block.rows
    k, p = f.rank, rows.p
    mean, variance, q = paper_sites(block, state)
    full, _ = paper_posterior(block, mean, variance, q, f)
    i, j = np.triu_indices(k)
    second = full.V + full.t[:, i] * full.t[:, j]
    each = np.ones(len(mean)) if block.weight is None else block.weight[rows.row]
    zt = np.asarray(rows.table(each * mean).T @ full.t)
    if variance.any():  # Cov(z, t) = Var[z] w' M^-1
        weighted = unpack(np.asarray(rows.table(each * variance / f.noise[rows.column]).T @ q.V), k)
        zt = zt + np.einsum("pij,pj->pi", weighted, f.W)
    sums = PaperSums(
        np.asarray(rows.table(each).T @ second),
        zt,
        sums_by(rows.column, each * (mean**2 + variance), p),
        sums_by(rows.column, each, p),
    )
    return replace(block, nu=mean[block.censored]), sums


def paper_maximise(state: State, sums: PaperSums, *, unit: bool = True) -> State:
    """w_j = E[z t'] E[tt']^-1 and one noise, then (``unit``) the unit diagonal."""
    k = state.factors.rank
    A = unpack(sums.tt, k)
    W = np.asarray(np.linalg.solve(A + 1e-10 * np.eye(k), sums.zt[:, :, None])[:, :, 0], dtype=np.float64)
    total = sums.zz - 2 * np.einsum("pi,pi->p", W, sums.zt) + np.einsum("pij,pi,pj->p", A, W, W)
    noise = max(float(total.sum() / sums.cells.sum()), LEAST)
    length = np.einsum("pi,pi->p", W, W)
    if unit:
        noise = max(float(np.mean(noise / (noise + length))), LEAST)
        W *= np.sqrt((1.0 - noise) / np.maximum(length, 1e-12))[:, None]
    alone = unit & (length <= 1e-12)  # a column without loadings is noise, all of it
    return replace(
        state,
        factors=Factors(
            np.where(alone[:, None], 0.0, W), np.zeros((len(W), k, k)), np.where(alone, 1.0, noise)
        ),
    )


def moved(before: Array, after: Array) -> float:
    """||W1 - W2||_F / ||W1||_F, the root of the published measure (2.4 of the supplement), as in the authors' code."""
    return float(np.linalg.norm(after - before) / max(float(np.linalg.norm(before)), 1e-300))


def fit_paper(
    run: Callable[[State], PaperSums],
    state: State,
    *,
    tol: float,
    max_iter: int,
    tick: Callable[[], None] = lambda: None,
) -> tuple[State, list[Trace]]:
    """EM until `moved` is less than ``tol``."""
    f = state.factors
    state = replace(state, factors=Factors(f.W, np.zeros_like(f.C), np.full(len(f.W), float(f.noise.mean()))))
    changes: list[float] = []
    while len(changes) < max_iter:
        new = paper_maximise(state, run(state))
        if not np.isfinite(new.factors.W).all():
            raise np.linalg.LinAlgError(BROKEN.format(len(changes) + 1, new.factors.rank))
        changes.append(moved(state.factors.W, new.factors.W))
        state = new
        tick()
        if changes[-1] < tol:
            return state, [Trace(tuple(changes), True, changes[-1])]
    return state, [Trace(tuple(changes), False, changes[-1])]
