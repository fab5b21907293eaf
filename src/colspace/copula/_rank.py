"""How many factors predict best: cells hidden from a fit, and how likely it finds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._em import iterate, noise_edge
from ._estep import Array, Factors, Index, Rows, Take, censored_law, posterior_of, signal, sums_by
from ._passes import Passes
from ._step import Block, State, exact_z, restart, site_tables, step
from ._truncated import log_mass

HIDDEN = 0.1  # share of the cells
CROWDED = 0.2  # what a factor must add to unit noise, from which on there are few rows for the columns
CLEAR = 6.0  # times that, which every factor has where a rank is clear
EVEN = 10.0  # times the weakest factor, that the strongest has at most where a rank is clear
MOST = 80  # factors
_STEP, _LEAST_STEP = 2.0, 1.3  # from one number of factors to the next
_WORTH = 2e-3  # of a hidden cell's log likelihood, that more factors must gain
_ITERATIONS, _LOOSER = 12, 3.0
_ONE, _TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def unclear(f: Factors, cells: Array, begun: int) -> bool:
    """Whether strengths of factors go on into the noise and rows are few enough for that to matter; or all ``begun`` with are left."""
    edge = noise_edge(len(f.W), cells)
    if f.rank >= begun:
        return True
    if edge <= CROWDED:
        return False
    vectors = np.linalg.eigh(f.W.T @ f.W)[1]
    strength = np.einsum("pi,p->i", (f.W @ vectors) ** 2, 1.0 / f.noise)
    return bool(strength.min() < CLEAR * edge or strength.max() > EVEN * strength.min())


def best_rank(
    passes: Passes,
    state: State,
    start: Callable[..., Factors],
    most: int,
    *,
    common: bool,
    tol: float,
    groups: Sequence[slice] = (),
) -> int:
    """The number of factors, from those of ``state`` to ``most``, whose fit gives hidden cells the largest likelihood.

    Columns of one of the ``groups`` are hidden together.
    """
    passes = passes.fork()
    passes.update(hide_cells, HIDDEN, tuple(groups))
    still = replace(state.chain, cut=np.zeros_like(state.chain.cut))  # a level may have lost all its cells
    best, found, k = -np.inf, state.factors.rank, state.factors.rank
    while True:
        new = State(start(passes, k=k), still)
        passes.update(restart, new)
        new, _ = iterate(
            lambda s, knots: passes.update(step, s, knots),
            new,
            None,
            common=common,
            tol=_LOOSER * tol,
            max_iter=_ITERATIONS,
            tick=lambda: None,
        )
        total, count = passes.total(hidden_likelihood, new)
        score = total / max(count, 1.0)
        if not score > best + _WORTH:
            return found
        best, found = score, k
        k = min(round(_STEP * k), most)
        if k < _LEAST_STEP * found:
            return found


def hide_cells(block: Block, share: float, groups: Sequence[slice], _: Take) -> tuple[Block, int]:
    """The block without a share of its cells, which it holds apart; which ones only depends on what the row has."""
    gone = together(block.rows, chosen(block, share), groups)
    return replace(some_cells(block, ~gone), held=some_cells(block, gone)), 0


def chosen(block: Block, share: float, of_rows: float = 1.0) -> NDArray[np.bool_]:
    """Cells whose hash, of their column and of all cells of the row, is among the first; in a share of the rows by theirs."""
    value = np.zeros(len(block.rows.row), np.uint64)
    value[block.exact] = _mixed(block.node.astype(np.uint64)) + block.part.view(np.uint64)
    value[block.censored] = ~block.level.astype(np.uint64)
    cell, row = cell_keys(block.rows, value)
    found = _unit(cell) < share
    return found if of_rows >= 1.0 else found & (_unit(_mixed(~row)) < of_rows)[block.rows.row]


def together(rows: Rows, gone: Any, groups: Sequence[slice]) -> Any:
    """Cells to hide, those of a group as its first column says: one of them would tell the others."""
    gone = gone.copy()
    for group in groups:
        hidden = np.zeros(rows.n, dtype=bool)
        hidden[rows.row[gone & (rows.column == group.start)]] = True
        own = (rows.column >= group.start) & (rows.column < group.stop)
        gone[own] = hidden[rows.row[own]]
    return gone


def cell_keys(rows: Rows, value: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Hashes of cells, of their column and all ``value`` of the row; and of rows."""
    column = _mixed(rows.column.astype(np.uint64) + np.uint64(1))
    each = np.concatenate([[np.uint64(0)], np.cumsum(_mixed(value ^ column), dtype=np.uint64)])
    ends = np.searchsorted(rows.row, np.arange(rows.n + 1))
    row = _mixed(each[ends[1:]] - each[ends[:-1]])
    return _mixed(row[rows.row] + column), row


def _unit(key: NDArray[np.uint64]) -> Array:
    """Bits as numbers from 0 to 1."""
    return (key >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits of whole numbers, all of which depend on all."""
    x = (x + _ONE) * _TWO
    x ^= x >> np.uint64(29)
    x *= _ONE
    return x ^ (x >> np.uint64(32))


def some_cells(block: Block, kept: NDArray[np.bool_]) -> Block:
    """Some cells of the same rows."""
    rows = block.rows
    place: Index = np.cumsum(kept) - 1
    exact, censored = kept[block.exact], kept[block.censored]
    return replace(
        block,
        rows=Rows(rows.n, rows.p, rows.row[kept], rows.column[kept]),
        exact=place[block.exact[exact]],
        node=block.node[exact],
        part=block.part[exact],
        censored=place[block.censored[censored]],
        level=block.level[censored],
        tau=block.tau[censored],
        nu=block.nu[censored],
    )


def hidden_likelihood(block: Block, state: State, take: Take) -> Array:
    """Sum of the log likelihoods of z, or of its level, of cells held apart, each given its row; and of their weights."""
    held, f, chain = block.held, state.factors, state.chain
    assert held is not None
    tau, nu = site_tables(block, state, take)
    m, v = signal(held.rows, posterior_of(tau, nu, f, take), f)
    column = held.rows.column
    out = np.zeros(len(column))
    on = held.exact
    spread = v[on] + f.noise[column[on]]
    out[on] = -0.5 * (np.log(2 * np.pi * spread) + (exact_z(held, chain) - m[on]) ** 2 / spread)
    on = held.censored
    if len(on):
        law = censored_law(m[on], v[on], f.noise[column[on]], chain.bounds, held.level, chain)
        out[on] = log_mass(law.low, law.high)
    if block.weight is None:
        return np.array([out.sum(), float(len(out))])
    each = sums_by(held.rows.row, out, held.rows.n)
    count = np.bincount(held.rows.row, minlength=held.rows.n)
    return np.array([each @ block.weight, count @ block.weight])
