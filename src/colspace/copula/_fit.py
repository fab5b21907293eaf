"""Fit a low-rank Gaussian copula to numbers with gaps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .._random import generator
from ..factor import eigh
from ._em import LOOSER, Trace, fit_ep, iterate, noise_edge
from ._estep import Array, Factors, Take
from ._marginals import Chain, Distinct, build_chain
from ._paper import fit_paper, paper_step
from ._passes import DaskRows, LocalRows, Passes
from ._rank import MOST, best_rank, unclear
from ._step import Block, State, level_means, restart, start_table, step
from ._values import Column, column_of, empirical_column

GENEROUS = 20  # factors that an automatic rank starts with
_SVD_PASSES = 4
_NARROW = 400  # columns up to which all correlations are formed
START_SHARE = 0.5  # of what a factor must add to noise, under which the pairwise correlations rule it out
_SURE, _SMALLEST = (
    0.3,
    0.02,
)  # eigenvalue of errors of the correlations up to which, and their own from which, these are inverted
_GENEROUS_ROUNDS = 4
_DETERMINED = 0.03  # noise of a column that others determine
_COUNTED = 1000  # columns up to which rows that have both of two are counted
ENOUGH = 420  # cells of a column, for each column, with which `noise_edge` is at its least
_PRINCIPAL = 2  # rounds of principal factors


@dataclass(frozen=True)
class CopulaModel:
    """A fitted copula: factors and chain, g of every column, and what calibrates intervals.

    ``cells`` are observed cells per column, ``loose`` the mean standard deviation of a cell of the column given the others,
    ``rank`` the factors that can be told from noise, which may be fewer than those that predict best. ``curved`` corrects the
    laws of gaps where columns bend.
    ``together`` counts rows (their weights) with both of two columns, ``rows`` all. ``bridge`` predicts columns that some were never
    seen beside. ``joint`` is a correlation that predicts in place of the factors' (which are then as many as columns, for it), and
    ``wider`` how much wider its laws of a column's cells are than it says; ``share`` of it is the full one. ``lean`` is how far a column's mean goes from its median
    to what its law says. ``tails`` are degrees of freedom of a row's common scale (infinite: all rows are alike), and z is on the
    scale of Student's t with these.
    """

    state: State
    columns: tuple[Column, ...]
    labels: tuple[Hashable, ...]
    method: str
    cells: Array
    loose: Array
    traces: tuple[Trace, ...]
    rank: int = 0
    n_jobs: int = 1
    curved: Any = None
    together: Array | None = None
    rows: float = 0.0
    bridge: Any = None
    joint: Array | None = None
    share: float = 0.0
    wider: Array | None = None
    lean: Array | None = None
    tails: float = np.inf

    @property
    def by_cell(self) -> bool:
        """Whether rows are solved for means and variances of z in place of the factors'."""
        return self.joint is not None or np.isfinite(self.tails)

    @property
    def factors(self) -> Factors:
        """Loadings, their covariances and noise variances."""
        return self.state.factors


@dataclass(frozen=True)
class Marginals:
    """What a fit begins with: nodes of all columns and their cells; with ``values`` all that are distinct, for the published g."""

    chain: Chain
    cells: Array
    values: tuple[Distinct, ...] | None = None


def marginals_of(values: Sequence[Distinct], kinds: Sequence[str], method: str = "ep") -> Marginals:
    """Nodes at their start; the distinct values themselves are only kept where the method needs them."""
    cells = np.array([column.counts.sum() for column in values])
    return Marginals(build_chain(values, kinds), cells, tuple(values) if method == "paper" else None)


def most_factors(p: int) -> int:
    """Ledermann's bound: with more factors the noise of p columns is not determined by their correlations."""
    return max(int(p + 0.5 - np.sqrt(2 * p + 0.25)), 1)


def start_factors(
    passes: Passes, chain: Chain, k: int, rng: Any, cells: Array | None = None
) -> tuple[Factors, Array | None]:
    """Loadings and noise to start from: principal factors of pairwise correlations, or singular vectors of a wide table.

    With the ``cells`` of the columns at most k, those that may be more than noise. Also how many rows have both of two columns,
    None of more than ``_COUNTED`` columns.
    """
    p, counts = len(chain.kinds), None
    if p <= _NARROW:
        products, counts = passes.total(_pair_sums, chain)
        if cells is None:
            W = principal_factors(products, counts, k)
        else:
            W = generous_factors(products, counts, k, cells)
    else:
        W = leading_vectors(passes, chain, k, rng)
        counts = passes.total(_pair_counts) if p <= _COUNTED else None
    length = np.einsum("pi,pi->p", W, W)
    W = W * np.sqrt(np.minimum(1.0, 0.98 / np.maximum(length, 1e-12)))[:, None]
    noise = 1.0 - np.einsum("pi,pi->p", W, W)
    return Factors(W, np.tile(1e-3 * np.eye(W.shape[1]), (p, 1, 1)), noise), counts


def _started(passes: Passes, k: int, chain: Chain, rng: Any) -> Factors:
    return start_factors(passes, chain, k, rng)[0]


def _correlations(products: Array, counts: Array) -> Array:
    """Pairwise correlations, from sums of products of latent means over rows that have both columns."""
    R = products / np.maximum(counts, 1.0)
    scale = np.sqrt(np.maximum(np.diag(R), 1e-12))
    return np.asarray(R / np.outer(scale, scale))


def principal_factors(products: Array, counts: Array, k: int) -> Array:
    """Loadings of k factors from sums of products of latent means over rows that have both columns."""
    R = _correlations(products, counts)
    noise = np.full(len(R), 0.3)
    for _ in range(_PRINCIPAL):
        np.fill_diagonal(R, 1.0 - noise)
        values, vectors = eigh(R, k, what="the matrix of correlations")
        W = vectors * np.sqrt(np.maximum(values, 0.0))
        noise = np.clip(1.0 - np.einsum("pi,pi->p", W, W), 0.02, 1.0)
    return np.asarray(W[:, ::-1], dtype=np.float64)


def generous_factors(products: Array, counts: Array, k: int, cells: Array) -> Array:
    """Loadings of at most k factors; the noise is what the strong ones leave, so that chance is not taken for signal.

    Errors of the correlations, of variances 1/n_ij, alone have eigenvalues up to 2 s, s^2 = p mean(1/n_ij). Strong are factors
    of more than 3 s. The others come from the correlations that these leave, in units of the noise; they begin with
    ``START_SHARE`` of `noise_edge`, from where what is real grows fast: EM multiplies a small one by (1 + l)^2, l what it
    truly adds. Where a column surely (2 s < 1) has nearly no noise, what is weak in the correlations is not weak beside the
    noise: all k factors come from the correlations.
    """
    R = _correlations(products, counts)
    chance = np.sqrt(len(R) * float(np.mean(1.0 / np.maximum(counts, 1.0))))
    noise, strong = first_noise(R, chance), 0
    for _ in range(_GENEROUS_ROUNDS):
        np.fill_diagonal(R, 1.0 - noise)
        values, vectors = eigh(R, k, what="the matrix of correlations")
        strong = max(int(np.count_nonzero(values > 3 * chance)), 1)
        W = vectors[:, ::-1][:, :strong] * np.sqrt(np.maximum(values[::-1][:strong], 0.0))
        noise = np.clip(1.0 - np.einsum("pi,pi->p", W, W), 0.02, 1.0)
    if noise.min() < _DETERMINED and 2 * chance < 1:
        return principal_factors(products, counts, k)
    if strong < k:
        sd, least = np.sqrt(noise), START_SHARE * noise_edge(len(R), cells)
        rest = (R - W @ W.T) / np.outer(sd, sd)
        np.fill_diagonal(rest, 0.0)
        values, vectors = eigh(rest, k - strong, what="the matrix of correlations")
        weak = vectors[:, values > least][:, ::-1] * sd[:, None] * np.sqrt(least)
        W = np.hstack([W, weak])
    return np.asarray(W, dtype=np.float64)


def first_noise(R: Array, chance: float) -> Array:
    """What the other columns leave of each, 1 / (R^-1)_jj, at least its noise; .3 where errors of R are too large to tell.

    A smaller noise than the true one makes a factor of that column alone.
    """
    np.fill_diagonal(R, 1.0)
    if 2 * chance > _SURE or float(eigh(R)[0][0]) < _SMALLEST:
        return np.full(len(R), 0.3)
    return np.clip(1.0 / np.diag(np.linalg.inv(R)), 0.02, 1.0)


def _pair_sums(block: Block, chain: Chain, take: Take) -> Array:
    table, weighted = start_table(block, chain, take)
    product: Any = table.T @ weighted
    return np.stack([product.toarray() if sparse.issparse(product) else product, _pair_counts(block, take)])


def _pair_counts(block: Block, take: Take) -> Array:
    """Weights of the rows that have both of two columns."""
    rows = block.rows
    one = take("one", len(rows.column))
    one.fill(1.0)
    seen = rows.table(one, take, "seen")
    each = seen if block.weight is None else rows.table(block.weight[rows.row], take, "each seen")
    product: Any = seen.T @ each
    return product.toarray() if sparse.issparse(product) else product


def leading_vectors(passes: Passes, chain: Chain, k: int, rng: Any) -> Array:
    """Leading right singular vectors of the latent means, missing cells zero, scaled to loadings."""
    p = len(chain.kinds)
    rows, cells = passes.total(_size)
    basis = generator(rng).standard_normal((p, min(p, k + 10)))
    for _ in range(_SVD_PASSES):
        basis = np.linalg.qr(passes.total(_gram_times, chain, basis))[0]
    values, vectors = eigh(basis.T @ passes.total(_gram_times, chain, basis))
    right = basis @ vectors[:, ::-1][:, :k]
    share, ratio = cells / (rows * p), p / rows
    return right * np.sqrt(signal_variance(values[::-1][:k] / (rows * share), ratio) / share)


def signal_variance(values: Array, ratio: float) -> Array:
    """What a factor adds to unit noise, from eigenvalues of a sample covariance of ``ratio`` columns per row.

    The inverse of y = (1 + l)(1 + ratio / l), where it has one; else a small value.
    """
    rest = values - 1.0 - ratio
    return np.maximum(0.5 * (rest + np.sqrt(np.maximum(rest**2 - 4.0 * ratio, 0.0))), 1e-2)


def _size(block: Block, _: Take) -> Array:
    rows = block.rows
    if block.weight is None:
        return np.array([rows.n, len(rows.column)], dtype=np.float64)
    return np.array([block.weight.sum(), block.weight[rows.row].sum()])


def _gram_times(block: Block, chain: Chain, basis: Array, take: Take) -> Array:
    table, weighted = start_table(block, chain, take)
    return np.asarray(table.T @ (weighted @ basis))


@dataclass(frozen=True)
class Found:
    """What a method finds: factors and chain, g of every column, how loose its cells are, how it went, and factors told from noise (0: all)."""

    state: State
    columns: tuple[Column, ...]
    loose: Array
    traces: list[Trace]
    rank: int = 0


def fit_copula(
    rows: LocalRows | DaskRows,
    marginals: Marginals,
    labels: Sequence[Hashable] | None = None,
    *,
    n_components: int | None,
    method: str,
    common: bool,
    tol: float,
    max_iter: int,
    rng: Any,
    start: Array | None = None,
    groups: Sequence[slice] = (),
    tick: Callable[[], None] = lambda: None,
) -> CopulaModel:
    """The copula of some rows; ``n_components`` None finds the rank. ``groups`` are columns that are levels of one nominal column each."""
    chain, cells = marginals.chain, marginals.cells
    p = len(cells)
    k = min(GENEROUS, most_factors(p)) if n_components is None else n_components
    if not p:
        none = Factors(np.zeros((0, k)), np.zeros((0, k, k)), np.zeros(0))
        return CopulaModel(State(none, chain), (), (), method, np.zeros(0), np.zeros(0), (), k)
    passes = rows.passes(chain, k)
    counted = n_components is None and method == "ep"
    factors, together = start_factors(passes, chain, k, rng, cells if counted else None)
    size = float(passes.total(_size)[0])
    if start is not None and start.shape == factors.W.shape:
        factors = Factors(start, factors.C, 1.0 - np.einsum("pi,pi->p", start, start))
    state = State(factors, chain)
    how: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "tick": tick}
    if method == "paper":
        found = _by_paper(passes, state, marginals, **how)
    else:
        words = groups if counted else None
        found = _by_ep(passes, state, cells, size, begun=k, groups=words, common=common, rng=rng, **how)
    names = tuple(range(p) if labels is None else labels)
    return CopulaModel(
        replace(found.state, factors=principal(found.state.factors)),
        found.columns,
        names,
        method,
        cells,
        found.loose,
        tuple(found.traces),
        found.rank or found.state.factors.rank,
        getattr(rows, "n_jobs", 1),
        together=together,
        rows=size,
    )


def _by_paper(
    passes: Passes, state: State, marginals: Marginals, *, tol: float, max_iter: int, tick: Callable[[], None]
) -> Found:
    """The published EM, with empirical g."""
    passes.update(_start_paper, state)
    state, traces = fit_paper(
        lambda s: passes.update(_paper_step, s), state, tol=tol, max_iter=max_iter, tick=tick
    )
    columns = tuple(
        empirical_column(state.chain, j, column.values, column.counts)
        for j, column in enumerate(marginals.values or ())
    )
    return Found(state, columns, np.ones(len(marginals.cells)), traces)


def _by_ep(
    passes: Passes,
    state: State,
    cells: Array,
    size: float,
    *,
    begun: int,
    groups: Sequence[slice] | None,
    common: bool,
    tol: float,
    max_iter: int,
    rng: Any,
    tick: Callable[[], None],
) -> Found:
    """EM by expectation propagation from ``begun`` factors, of which those that are none go, unless ``groups`` is None: then all stay."""
    chain, p, counted = state.chain, len(cells), groups is not None
    passes.update(restart, state)
    how: dict[str, Any] = {"common": common, "tol": tol, "max_iter": max_iter}
    run: Callable[..., tuple[State, list[Trace], Array]] = partial(
        fit_ep, lambda s, knots: passes.update(step, s, knots), cells=cells, tick=tick, **how
    )
    every = int(cells.mean() // (ENOUGH * p)) if counted else 1
    some = passes
    if every > 1:
        some = passes.thinned(every)  # blocks that tell factors from noise as well as all do
        state = early_factors(some, state, cells / size, **how)
        passes.update(restart, state)
    state, traces, loose = run(state, auto_rank=counted)
    rank, most = state.factors.rank, min(most_factors(p), MOST)
    # where most columns are levels of words, forests and slopes tell what more factors would
    wordy = groups is not None and 2 * sum(group.stop - group.start for group in groups) > p
    if groups is not None and not wordy and rank < most and unclear(state.factors, cells, begun):
        starts = partial(_started, chain=chain, rng=rng)
        k = best_rank(some, state, starts, most, common=common, tol=tol, groups=groups)
        if k > rank:
            state = replace(state, factors=starts(passes, k=k))
            passes.update(restart, state)
            state, more, loose = run(state, auto_rank=False)
            traces += more
    columns = tuple(column_of(state.chain, j, loose[j] / (2.0 * cells[j])) for j in range(p))
    return Found(state, columns, loose, traces, rank)


def early_factors(
    passes: Passes, state: State, share: Array, *, common: bool, tol: float, max_iter: int
) -> State:
    """Factors that some rows tell from noise, which all of them would: they have enough. ``share`` of the rows have each column."""
    passes.update(restart, state)
    return iterate(
        lambda s, knots: passes.update(step, s, knots),
        state,
        share * float(passes.total(_size)[0]),
        common=common,
        tol=LOOSER * tol,
        max_iter=max_iter,
        tick=lambda: None,
    )[0]


def principal(f: Factors) -> Factors:
    """The factors turned so that W'W is diagonal and decreasing, each column's largest loading positive."""
    _, vectors = eigh(f.W.T @ f.W)
    turn = vectors[:, ::-1]
    W = f.W @ turn
    signs = np.where(W[np.abs(W).argmax(axis=0), np.arange(f.rank)] < 0, -1.0, 1.0)
    turn = turn * signs
    return Factors(W * signs, turn.T @ f.C @ turn, f.noise)


def _start_paper(block: Block, state: State, _: Take) -> tuple[Block, int]:
    return replace(block, nu=level_means(state.chain)[block.level]), 0


def _paper_step(block: Block, state: State, _: Take) -> tuple[Block, Any]:
    return paper_step(block, state)
