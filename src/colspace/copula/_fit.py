"""Fit a low-rank Gaussian copula to numbers with gaps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from .._random import generator
from ._em import (
    Block,
    State,
    Trace,
    fit_ep,
    level_means,
    start_sites,
    start_table,
    step,
)
from ._encode import distinct_values, merge_distinct, rows_per_block, training_block
from ._estep import Array, Factors, Index
from ._marginals import Chain, build_chain
from ._paper import fit_paper, paper_step
from ._values import Column, column_of, empirical_column

GENEROUS = 20  # factors that an automatic rank starts with
_SVD_PASSES = 4
_NARROW = 400  # columns up to which all correlations are formed
_PRINCIPAL = 2  # rounds of principal factors


@dataclass(frozen=True)
class CopulaModel:
    """A fitted copula: factors and chain, g of every column, and what calibrates intervals.

    ``cells`` are observed cells per column, ``loose`` the mean standard deviation of a cell of the column given the others.
    """

    state: State
    columns: tuple[Column, ...]
    labels: tuple[Hashable, ...]
    method: str
    cells: Array
    loose: Array
    traces: tuple[Trace, ...]

    @property
    def factors(self) -> Factors:
        """Loadings, their covariances and noise variances."""
        return self.state.factors


def most_factors(p: int) -> int:
    """Ledermann's bound: with more factors the noise of p columns is not determined by their correlations."""
    return max(int(p + 0.5 - np.sqrt(2 * p + 0.25)), 1)


class Passes:
    """Passes over blocks of rows, whose sites change from one pass to the next."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = list(blocks)

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args)``."""
        return reduce(add, (function(block, *args) for block in self.blocks))

    def update(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args)[1]``; the blocks become what comes first."""
        total = None
        for i, block in enumerate(self.blocks):
            self.blocks[i], sums = function(block, *args)
            total = sums if total is None else total + sums
        return total


class DaskPasses(Passes):
    """The same on a Dask scheduler: each partition is a Passes of its own and stays where it is."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args)``."""
        import dask

        return reduce(add, dask.compute(*(dask.delayed(_total)(part, function, args) for part in self.parts)))

    def update(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args)[1]``; the blocks become what comes first."""
        import dask

        pairs = dask.persist(*(dask.delayed(_update, nout=2)(part, function, args) for part in self.parts))
        self.parts = dask.persist(*(pair[0] for pair in pairs))
        return reduce(add, dask.compute(*(pair[1] for pair in pairs)))


def _total(passes: Passes, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return passes.total(function, *args)


def _update(passes: Passes, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Passes, Any]:
    new = Passes(passes.blocks)
    return new, new.update(function, *args)


@dataclass(frozen=True)
class Parts:
    """A table in delayed pieces of rows, each an array of floats with NaN."""

    pieces: tuple[Any, ...]

    def columns(self, kept: Index) -> Parts:
        """Some of the columns."""
        import dask

        return Parts(tuple(dask.delayed(_columns)(piece, kept) for piece in self.pieces))


def _columns(piece: Array, kept: Index) -> Array:
    return piece[:, kept]


def table_values(X: Any) -> list[tuple[Array, Array]]:
    """Distinct values and counts of every column."""
    if not isinstance(X, Parts):
        return distinct_values(X)
    import dask

    return reduce(merge_distinct, dask.compute(*(dask.delayed(distinct_values)(piece) for piece in X.pieces)))


def passes_over(X: Any, chain: Chain, k: int) -> Passes:
    """Blocks of rows small enough for their dense tables."""
    if isinstance(X, Parts):
        import dask

        return DaskPasses(dask.persist(*(dask.delayed(passes_over)(piece, chain, k) for piece in X.pieces)))
    size = rows_per_block(len(chain.kinds), k)
    return Passes([training_block(X[a : a + size], chain) for a in range(0, X.shape[0], size)])


def start_factors(passes: Passes, chain: Chain, k: int, rng: Any) -> Factors:
    """Loadings and noise to start from: principal factors of pairwise correlations, or singular vectors of a wide table."""
    p = len(chain.kinds)
    if p <= _NARROW:
        products, counts = passes.total(_pair_sums, chain)
        W = principal_factors(products, counts, k)
    else:
        W = leading_vectors(passes, chain, k, rng)
    length = np.einsum("pi,pi->p", W, W)
    W = W * np.sqrt(np.minimum(1.0, 0.98 / np.maximum(length, 1e-12)))[:, None]
    return Factors(W, np.tile(1e-3 * np.eye(k), (p, 1, 1)), 1.0 - np.einsum("pi,pi->p", W, W))


def principal_factors(products: Array, counts: Array, k: int) -> Array:
    """Loadings of k factors from sums of products of latent means over rows that have both columns."""
    R = products / np.maximum(counts, 1.0)
    scale = np.sqrt(np.maximum(np.diag(R), 1e-12))
    R /= np.outer(scale, scale)
    noise = np.full(len(R), 0.3)
    for _ in range(_PRINCIPAL):
        np.fill_diagonal(R, 1.0 - noise)
        values, vectors = _largest(R, k)
        W = vectors * np.sqrt(np.maximum(values, 0.0))
        noise = np.clip(1.0 - np.einsum("pi,pi->p", W, W), 0.02, 1.0)
    return np.asarray(W[:, ::-1], dtype=np.float64)


def _largest(R: Array, k: int) -> tuple[Array, Array]:
    """The k largest eigenvalues and their vectors."""
    try:
        values, vectors = eigh(R, subset_by_index=[len(R) - k, len(R) - 1])
    except np.linalg.LinAlgError:  # some of many equal ones: LAPACK may fail to tell them apart
        values, vectors = (part[..., -k:] for part in np.linalg.eigh(R))
    return values, vectors


def _pair_sums(block: Block, chain: Chain) -> Array:
    table = start_table(block, chain)
    seen = block.rows.table(np.ones(len(block.rows.row)))
    products: list[Any] = [table.T @ table, seen.T @ seen]
    return np.stack([x.toarray() if sparse.issparse(x) else x for x in products])


def leading_vectors(passes: Passes, chain: Chain, k: int, rng: Any) -> Array:
    """Leading right singular vectors of the latent means, missing cells zero, scaled to loadings."""
    p = len(chain.kinds)
    rows, cells = passes.total(_size)
    basis = generator(rng).standard_normal((p, min(p, k + 10)))
    for _ in range(_SVD_PASSES):
        basis = np.linalg.qr(passes.total(_gram_times, chain, basis))[0]
    values, vectors = np.linalg.eigh(basis.T @ passes.total(_gram_times, chain, basis))
    right = basis @ vectors[:, ::-1][:, :k]
    share, ratio = cells / (rows * p), p / rows
    return right * np.sqrt(signal_variance(values[::-1][:k] / (rows * share), ratio) / share)


def signal_variance(values: Array, ratio: float) -> Array:
    """What a factor adds to unit noise, from eigenvalues of a sample covariance of ``ratio`` columns per row.

    The inverse of y = (1 + l)(1 + ratio / l), where it has one; else a small value.
    """
    rest = values - 1.0 - ratio
    return np.maximum(0.5 * (rest + np.sqrt(np.maximum(rest**2 - 4.0 * ratio, 0.0))), 1e-2)


def _size(block: Block) -> Index:
    return np.array([block.rows.n, len(block.rows.row)])


def _gram_times(block: Block, chain: Chain, basis: Array) -> Array:
    table = start_table(block, chain)
    return np.asarray(table.T @ (table @ basis))


def fit_copula(
    X: Any,
    values: Sequence[tuple[Array, Array]],
    kinds: Sequence[str],
    labels: Sequence[Hashable] | None = None,
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
    k = min(GENEROUS, most_factors(p)) if n_components is None else n_components
    if not p:
        none = Factors(np.zeros((0, k)), np.zeros((0, k, k)), np.zeros(0))
        return CopulaModel(State(none, chain), (), (), method, np.zeros(0), np.zeros(0), ())
    passes = passes_over(X, chain, k)
    factors = start_factors(passes, chain, k, rng)
    if start is not None and start.shape == factors.W.shape:
        factors = Factors(start, factors.C, 1.0 - np.einsum("pi,pi->p", start, start))
    state = State(factors, chain)
    cells = np.array([counts.sum() for _, counts in values])
    if method == "paper":
        passes.update(_start_paper, state)
        state, traces = fit_paper(
            lambda s: passes.update(paper_step, s), state, tol=tol, max_iter=max_iter, tick=tick
        )
        loose = np.ones(p)
        columns = tuple(empirical_column(state.chain, j, *values[j]) for j in range(p))
    else:
        passes.update(_start_ep, state)
        state, traces, loose = fit_ep(
            lambda s, knots: passes.update(step, s, knots),
            state,
            cells,
            common=common,
            auto_rank=n_components is None,
            tol=tol,
            max_iter=max_iter,
            tick=tick,
        )
        columns = tuple(column_of(state.chain, j, loose[j] / (2.0 * cells[j])) for j in range(p))
    state = replace(state, factors=principal(state.factors))
    names = tuple(range(p) if labels is None else labels)
    return CopulaModel(state, columns, names, method, cells, loose, tuple(traces))


def principal(f: Factors) -> Factors:
    """The factors turned so that W'W is diagonal and decreasing, each column's largest loading positive."""
    _, vectors = np.linalg.eigh(f.W.T @ f.W)
    turn = vectors[:, ::-1]
    W = f.W @ turn
    signs = np.where(W[np.abs(W).argmax(axis=0), np.arange(f.rank)] < 0, -1.0, 1.0)
    turn = turn * signs
    return Factors(W * signs, turn.T @ f.C @ turn, f.noise)


def _start_ep(block: Block, state: State) -> tuple[Block, int]:
    return start_sites(block, state), 0


def _start_paper(block: Block, state: State) -> tuple[Block, int]:
    mean = level_means(state.chain)
    nu = np.zeros(len(block.rows.row))
    nu[block.censored] = mean[block.level]
    return replace(block, nu=nu), 0
