"""Factors, any correlation, or a mixture of both: by cells hidden from either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from ._covariance import Cells, Normal, cells_of, correlation, fit_normal, row_laws
from ._em import iterate
from ._encode import training_block
from ._estep import Array, Factors
from ._fit import CopulaModel
from ._marginals import Chain
from ._passes import LocalRows, Passes
from ._rank import chosen, some_cells, together
from ._step import Block, State, exact_z, restart, step
from ._truncated import log_mass

HIDDEN, ROWS = 0.15, 1500  # share of the cells that are hidden, in so many rows at most
FEWEST = 20  # hidden cells that tell anything
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the full correlation, that are tried
LEAST = 0.1  # share under which the factors are left as they are
WORK = 1.5e8  # cubes of unknown cells, summed over rows, above which nothing is tried
_DOUBT = 100.0  # hidden cells at which half of what they say is believed
_WIDTHS = np.exp(np.linspace(0.0, 0.6, 25))  # of levels, that are tried
_ITERATIONS, _LOOSER = 12, 3.0  # of the factors


@dataclass(frozen=True)
class Mixture:
    """``share`` of the full law in the correlation, with it in units of z, and how much wider cells of each column are than they say."""

    share: float
    full: Normal
    wider: Array


def factor_correlation(f: Factors) -> Array:
    """W W' + noise."""
    return np.asarray(f.W @ f.W.T + np.diag(f.noise))


def block_cells(block: Block, chain: Chain) -> Cells:
    """Cells of a block."""
    z = exact_z(block, chain)
    return cells_of(block.rows, block.exact, z, block.censored, block.level, chain, block.weight)


def two_valued(chain: Chain) -> Any:
    """Columns whose variance is not told."""
    return np.array([kind == "binary" for kind in chain.kinds], dtype=bool)


def mixed(R: Array, full: Normal, share: float) -> Normal:
    """The factors' law, N(0, R), and the full one: correlations, means and deviations, each on the way from one to the other."""
    scale = 1.0 - share + share * np.sqrt(np.diag(full.cover))
    cover = ((1.0 - share) * R + share * correlation(full)) * np.outer(scale, scale)
    return Normal(share * full.mean, cover)


def best_mixture(
    rows: LocalRows,
    model: CopulaModel,
    tol: float,
    share: float | None = None,
    change: Callable[[Array], Array] = lambda R: R,
    groups: Sequence[slice] = (),
) -> Mixture | None:
    """The mixture that hidden cells ask for (or one of the given ``share``); None where that is the factors.

    15 % of the cells are hidden, both laws fitted to the rest from where they are, and the cells' likelihoods under mixtures of them
    are the weights by which their shares are averaged. Fitted to all cells, the full law is mixed with that share.
    Columns of one of the ``groups`` are hidden together.
    """
    chain, p = model.state.chain, len(model.columns)
    block = training_block(rows.X, chain, rows.weight)
    whole = block_cells(block, chain)
    if share is None and whole.work > WORK:
        return None
    total = float(whole.weight.sum())
    gone = together(block.rows, chosen(block, HIDDEN, ROWS / total), groups)
    wider = np.ones(p)
    factors, full = factor_correlation(model.factors), None
    if float(whole.weight[block.rows.row[gone]].sum()) >= FEWEST:
        kept, held = some_cells(block, ~gone), some_cells(block, gone)
        told = Held.of(held, chain)
        R = factor_correlation(warm_state(Passes([kept]), model, tol).factors)
        cells, full = fit_normal(
            block_cells(kept, chain), Normal(np.zeros(p), R), R, p, two_valued(chain), change
        )
        seen = told.rows_of(cells)
        if share is None:
            tried = [told.likelihood(*row_laws(seen, mixed(R, full, a))) for a in SHARES]
            weights = np.exp(told.believed * (np.array(tried) - max(tried)))
            share = float(weights @ SHARES / weights.sum())
        if share < LEAST:
            return None
        wider = told.widths(*row_laws(seen, mixed(R, full, share)), p)
    elif share is None:
        return None
    _, full = fit_normal(whole, full or Normal(np.zeros(p), factors), factors, p, two_valued(chain), change)
    return Mixture(share, full, wider)


def same_mixture(rows: LocalRows, model: CopulaModel, last: CopulaModel, point: CopulaModel) -> Mixture:
    """The mixture of the ``last`` fit, whose predictions are ``point``, fitted to other rows from the full correlation that it had."""
    assert point.joint is not None
    assert point.wider is not None
    chain, share = model.state.chain, point.share
    full = (point.joint - (1.0 - share) * factor_correlation(last.factors)) / share
    cells = block_cells(training_block(rows.X, chain, rows.weight), chain)
    R, p = factor_correlation(model.factors), len(model.columns)
    return Mixture(
        share, fit_normal(cells, Normal(np.zeros(p), full), R, p, two_valued(chain))[1], point.wider
    )


def warm_state(
    passes: Passes, model: CopulaModel, tol: float, *, common: bool = False, cuts: bool = False
) -> State:
    """The factors fitted to some of the cells, from where they are; g stays, or only its ``cuts`` move."""
    chain = model.state.chain
    if not cuts:
        chain = replace(chain, cut=np.zeros_like(chain.cut))
    state = State(model.factors, chain)
    passes.update(restart, state)
    state, _ = iterate(
        lambda s, knots: passes.update(step, s, knots),
        state,
        None,
        common=common,
        tol=_LOOSER * tol,
        max_iter=_ITERATIONS,
        tick=lambda: None,
    )
    return state


@dataclass(frozen=True)
class Held:
    """Hidden cells: their rows among those that have any, columns, weights, and the ends of their z (equal where it is known)."""

    index: Any
    row: Any
    column: Any
    weight: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, held: Block, chain: Chain) -> Held:
        """Those of a block."""
        rows, size = held.rows, len(held.rows.row)
        low, high = np.zeros(size), np.zeros(size)
        low[held.exact] = high[held.exact] = exact_z(held, chain)
        low[held.censored] = chain.bounds[chain.level_low[held.level]]
        high[held.censored] = chain.bounds[chain.level_high[held.level]]
        index, row = np.unique(rows.row, return_inverse=True)
        weight = np.ones(size) if held.weight is None else held.weight[rows.row]
        return cls(index, row, rows.column, weight, low, high)

    def rows_of(self, cells: Cells) -> Cells:
        """The rows that have hidden cells."""
        place = np.full(len(cells.z), -1)
        place[self.index] = np.arange(len(self.index))
        groups = []
        for group in cells.groups:
            part = group.part(np.flatnonzero(place[group.rows] >= 0))
            if len(part.rows):
                groups.append(replace(part, rows=place[part.rows]))
        return Cells(cells.z[self.index], tuple(groups), cells.weight[self.index], cells.levels)

    @property
    def believed(self) -> float:
        """How far the cells are to be believed: less where they are few."""
        return _belief(float(self.weight.sum()))

    @property
    def exact(self) -> Any:
        """Cells whose z is known."""
        return self.low == self.high

    def standard(self, z: Array, variance: Array) -> tuple[Array, Array, Array]:
        """Ends in units of what is left of them, and these units."""
        m, sd = z[self.row, self.column], np.sqrt(variance[self.row, self.column])
        return (self.low - m) / sd, (self.high - m) / sd, sd

    def likelihood(self, z: Array, variance: Array) -> float:
        """Log likelihood, the variances of all numbers times what makes it largest."""
        low, high, sd = self.standard(z, variance)
        on, w = self.exact, self.weight
        out = float(w[~on] @ log_mass(low[~on], high[~on]))
        if on.any():
            total = float(w[on].sum())
            square = float(w[on] @ low[on] ** 2) / total
            out -= float(w[on] @ np.log(sd[on])) + 0.5 * total * np.log(max(square, 1e-300))
        return out

    def widths(self, z: Array, variance: Array, p: int) -> Array:
        """How much wider than told: numbers by the .95 quantile of their residuals, levels by likelihood; at least 1, drawn to 1."""
        low, high, _ = self.standard(z, variance)
        on, w = self.exact, self.weight
        out = np.ones(p)
        numbers = np.unique(self.column[on])
        if len(numbers):
            at = weighted_quantile(np.abs(low[on]), w[on], 0.95) / float(ndtri(0.975))
            out[numbers] = _doubted(at, float(w[on].sum()))
        levels = np.setdiff1d(self.column[~on], numbers)
        if len(levels):
            some = np.isin(self.column, levels)
            told = [float(w[some] @ log_mass(low[some] / s, high[some] / s)) for s in _WIDTHS]
            out[levels] = _doubted(float(_WIDTHS[int(np.argmax(told))]), float(w[some].sum()))
        return out


def _belief(cells: float) -> float:
    return cells / (cells + _DOUBT)


def _doubted(width: float, cells: float) -> float:
    return float(max(width, 1.0) ** _belief(cells))


def weighted_quantile(x: Array, weight: Array, share: float) -> float:
    """The value below which a share of the weights lies."""
    order = np.argsort(x, kind="stable")
    after = np.cumsum(weight[order])
    return float(x[order[np.searchsorted(after, share * after[-1])]])
