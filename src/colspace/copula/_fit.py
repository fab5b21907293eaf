"""Fit a low-rank Gaussian copula to numbers with gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from .._rows import dask_partitions, is_dask
from ._em import (
    Block,
    State,
    Trace,
    exact_z,
    fit_ep,
    level_means,
    start_factors,
    start_sites,
    start_table,
    step,
)
from ._encode import distinct_values, merge_distinct, rows_per_block, training_block
from ._estep import Array, Factors, cavity, posterior, signal
from ._marginals import Chain, build_chain
from ._paper import fit_paper, paper_step
from ._values import Column, column_of, empirical_column

GENEROUS = 20  # factors that an automatic rank starts with


@dataclass(frozen=True)
class CopulaModel:
    """A fitted copula: factors and chain, g of every column, and what calibrates intervals.

    ``cells`` are observed cells per column, ``loose`` the mean standard deviation of a cell of the column given the others.
    """

    state: State
    columns: tuple[Column, ...]
    method: str
    cells: Array
    loose: Array
    traces: tuple[Trace, ...]

    @property
    def factors(self) -> Factors:
        """Loadings, their covariances and noise variances."""
        return self.state.factors


class Passes:
    """Passes over blocks of rows whose sites change from one to the next."""

    def __init__(self, blocks: Sequence[Any]) -> None:
        self.blocks = list(blocks)

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """The function's value for each block."""
        return [function(block, *args) for block in self.blocks]

    def update(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args)[1]``; the blocks become what comes first."""
        total = None
        for i, block in enumerate(self.blocks):
            self.blocks[i], sums = function(block, *args)
            total = sums if total is None else total + sums
        return total


class DaskPasses(Passes):
    """The same on a Dask scheduler: blocks stay where they are."""

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """The function's value for each block."""
        import dask

        return list(dask.compute(*(dask.delayed(function)(block, *args) for block in self.blocks)))

    def update(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args)[1]``; the blocks become what comes first."""
        import dask

        pairs = dask.persist(*(dask.delayed(function, nout=2)(block, *args) for block in self.blocks))
        self.blocks = [pair[0] for pair in pairs]
        return reduce(add, dask.compute(*(pair[1] for pair in pairs)))


def table_values(X: Any) -> list[tuple[Array, Array]]:
    """Distinct values and counts of every column, one partition at a time for Dask."""
    if not is_dask(X):
        return distinct_values(X)
    import dask

    parts = [dask.delayed(_distinct_of)(part) for (part,) in zip(*dask_partitions(X), strict=True)]
    return reduce(merge_distinct, dask.compute(*parts))


def _distinct_of(part: Any) -> list[tuple[Array, Array]]:
    return distinct_values(np.asarray(part, dtype=np.float64))


def _block_of(part: Any, chain: Chain) -> Block:
    return training_block(np.asarray(part, dtype=np.float64), chain)


def passes_over(X: Any, chain: Chain, k: int) -> Passes:
    """Blocks of rows small enough for their dense tables."""
    if is_dask(X):
        import dask

        parts = [dask.delayed(_block_of)(part, chain) for (part,) in zip(*dask_partitions(X), strict=True)]
        return DaskPasses(dask.persist(*parts))
    size = rows_per_block(len(chain.kinds), k)
    return Passes([training_block(X[a : a + size], chain) for a in range(0, X.shape[0], size)])


def fit_copula(
    X: Any,
    values: Sequence[tuple[Array, Array]],
    kinds: Sequence[str],
    *,
    n_components: int | None,
    method: str,
    common: bool,
    tol: float,
    max_iter: int,
    rng: Any,
    start: Array | None = None,
    tick: Callable[[], None] = lambda: None,
) -> CopulaModel:
    """The copula of a table; ``values`` are its distinct values by column, ``n_components`` None finds the rank."""
    chain = build_chain(values, kinds)
    p = len(kinds)
    k = min(GENEROUS, p - 1) if n_components is None else n_components
    passes = passes_over(X, chain, k)
    k = min(k, sum(passes.map(_row_count)))
    factors = start_factors(passes.map(partial(start_table, chain=chain)), k, rng)
    if start is not None and start.shape == factors.W.shape:
        factors = Factors(start, factors.C, 1.0 - np.einsum("pi,pi->p", start, start))
    state = State(factors, chain)
    if method == "paper":
        passes.update(_start_paper, state)
        state, traces = fit_paper(
            lambda s: passes.update(paper_step, s), state, tol=tol, max_iter=max_iter, tick=tick
        )
        columns = tuple(empirical_column(state.chain, j, *values[j]) for j in range(p))
    else:
        passes.update(_start_ep, state)
        state, traces = fit_ep(
            lambda s, knots: passes.update(step, s, knots),
            state,
            common=common,
            auto_rank=n_components is None,
            tol=tol,
            max_iter=max_iter,
            tick=tick,
        )
        columns = tuple(column_of(state.chain, j) for j in range(p))
    cells = np.array([counts.sum() for _, counts in values])
    loose = sum(passes.map(_looseness, state, method)) / cells
    return CopulaModel(state, columns, method, cells, loose, tuple(traces))


def _row_count(block: Block) -> int:
    return block.rows.n


def _start_ep(block: Block, state: State) -> tuple[Block, int]:
    return start_sites(block, state), 0


def _start_paper(block: Block, state: State) -> tuple[Block, int]:
    mean = level_means(state.chain)
    nu = np.zeros(len(block.rows.row))
    nu[block.censored] = mean[block.level]
    return replace(block, nu=nu), 0


def _looseness(block: Block, state: State, method: str) -> Array:
    """Sum over cells of the standard deviation of z given the row's other cells, by column."""
    f, rows = state.factors, block.rows
    tau, nu = block.tau.copy(), block.nu.copy()
    if method == "paper":
        tau = 1.0 / f.noise[rows.column]
        nu = nu * tau
    else:
        tau[block.exact] = 1.0 / f.noise[rows.column[block.exact]]
        nu[block.exact] = exact_z(block, state.chain) * tau[block.exact]
    q = posterior(rows, tau, nu, f)
    _, v = cavity(*signal(rows, q, f), tau, nu)
    return np.bincount(rows.column, np.sqrt(v + f.noise[rows.column]), rows.p)
