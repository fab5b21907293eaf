"""How likely cells are that are hidden in turn: what a search over options compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._encode import by_column, known_rows
from ._estep import Array
from ._fit import CopulaModel
from ._marginals import STEPPED
from ._predict import Gaps, dense, gaps
from ._rank import cell_keys
from ._truncated import log_mass
from ._values import Column

FOLDS = 5  # each cell is hidden once, with about so large a part of the others
_AT_ONCE = 1 << 22  # cells of a table that are dense at once
_LEAST = 1e-12  # probability of what a law of residuals rules out
_ROOT = 0.5 * np.log(2 * np.pi)


def hidden_score(X: Any, model: CopulaModel, weight: Array | None, groups: Sequence[Any] = ()) -> float:
    """Mean, by weights of rows, of log densities of observed cells (probabilities of levels) that are hidden in turn.

    ``groups`` are the columns of each nominal one: they are hidden together, and their mean counts as one cell.
    """
    total = count = 0.0
    part_of_cell = np.ones(X.shape[1])
    for columns in groups:
        part_of_cell[columns] /= max(1, len(part_of_cell[columns]))
    step = max(1, _AT_ONCE // max(X.shape[1], 1))
    for a in range(0, X.shape[0], step):
        part = X[a : a + step]
        w = np.ones(part.shape[0]) if weight is None else weight[a : a + step]
        fold = cell_folds(part, model)
        for columns in groups:
            fold[:, columns] = fold[:, columns][:, :1]
        table = dense(part)
        for f in range(FOLDS):
            held = fold == f
            for gap in gaps(np.where(held, np.nan, table), model):
                on = np.flatnonzero(held[gap.rows, gap.column])
                if len(on):
                    x = table[gap.rows[on], gap.column]
                    share = w[gap.rows[on]] * part_of_cell[gap.column]
                    total += float(share @ log_density(model.columns[gap.column], gap.some(on), x))
                    count += float(share.sum())
    return total / count if count > 0 else 0.0


def cell_folds(X: Any, model: CopulaModel) -> Any:
    """When each cell is hidden, -1 where nothing is observed; by its column and what the row holds, in no units."""
    known = known_rows(X, model.state.chain, model.columns, model.labels)
    rows = known.rows
    place = np.zeros(len(rows.row), np.uint64)
    for j, where in by_column(rows):
        column = model.columns[j]
        ladder = column.levels if column.kind in STEPPED else column.x
        place[where] = np.searchsorted(ladder, known.x[where])
    out = np.full((rows.n, rows.p), -1)
    out[rows.row, rows.column] = cell_keys(rows, place)[0] % np.uint64(FOLDS)
    return out


def log_density(column: Column, gap: Gaps, x: Array) -> Array:
    """Log density of values, or the log probability of a level, under the laws of the cells."""
    inner = np.ones(len(x), dtype=bool)
    out = np.zeros(len(x))
    if column.kind in STEPPED:
        at = np.abs(column.levels[:, None] - x).argmin(axis=0)
        edges = np.concatenate([[-np.inf], column.z, [np.inf]])
        return _log_between(gap, edges[at], edges[at + 1])
    ends = ((column.tails[0], x <= column.x[0], 0), (column.tails[1], x >= column.x[-1], -1))
    for tail, beyond, end in ends:
        if tail is None and beyond.any():
            on = np.flatnonzero(beyond)
            cut, far = np.full(len(on), column.z[end]), np.full(len(on), np.inf)
            out[on] = _log_between(gap.some(on), *((-far, cut) if end == 0 else (cut, far)))
            inner[on] = False
    on = np.flatnonzero(inner)
    part, value = gap.some(on), x[on]
    at = (column.latent(value) - part.mean) / part.sd
    told = -0.5 * at**2 - _ROOT if part.law is None else part.law.log_density(at)
    out[on] = told - np.log(part.sd) + column.log_slope(value)
    return out


def _log_between(gap: Gaps, low: Array, high: Array) -> Array:
    if gap.law is None:
        return log_mass((low - gap.mean) / gap.sd, (high - gap.mean) / gap.sd)
    return np.asarray(np.log(np.maximum(gap.below(high) - gap.below(low), _LEAST)))
