"""Which correlation a copula has: any, or that of few factors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from .._random import generator
from ._estep import Array
from ._fit import CopulaModel
from ._gibbs import Table, full_draws, mean_parameters, standardised
from ._pairs import WIDEST, Pairs, all_factors, bridge_of, contracted, unseen_pairs
from ._passes import DaskRows, LocalRows
from ._predict import dense, draws

COLUMNS = 100  # up to which a full correlation is drawn
CELLS = 1_000_000  # of a table for which that is done by itself


def training_table(correlation: str, rows: LocalRows | DaskRows, active: Any, method: str) -> Table | None:
    """The rows to draw a full correlation from, None where factors are to do.

    "auto" takes a full correlation for tables in memory, not sparse, of at most ``COLUMNS`` columns, no more than rows, and
    ``CELLS`` cells.
    """
    if correlation == "factors":
        return None
    p = int(np.count_nonzero(active))
    why = _why_not(rows, p, method)
    if why is None and isinstance(rows, LocalRows):
        large = rows.X.shape[0] * p > CELLS
        if p and not (large and correlation == "auto"):
            return Table(np.array(rows.X[:, np.flatnonzero(active)]), rows.weight)
        return None
    if correlation == "full":
        msg = f"correlation='full' cannot be had: {why}. Remedies: that, or correlation='auto' or 'factors'"
        raise ValueError(msg)
    return None


def _why_not(rows: LocalRows | DaskRows, p: int, method: str) -> str | None:
    if method == "paper":
        return "method='paper' has factors by its definition, and method must be 'ep'"
    if isinstance(rows, DaskRows) or sparse.issparse(rows.X):
        return "X is sparse or a Dask collection, and must be a table in memory"
    n = rows.X.shape[0]
    if p > min(n, COLUMNS):
        return f"X has {p} columns that vary and {n} rows, and columns must be at most {COLUMNS} and no more than rows"
    return None


def unseen_of(model: CopulaModel) -> Pairs | None:
    """Pairs never seen together, None where there are none (or too many columns to count)."""
    if model.together is None:
        return None
    found = unseen_pairs(model.together, model.rows)
    return found if found.any() else None


def point_model(
    model: CopulaModel, table: Table | None, unseen: Pairs | None, correlation: str, rng: Any
) -> CopulaModel:
    """What predicts: the factors or, if asked for, the posterior mean of the full correlation; with a bridge over unseen pairs.

    The bridge rests on the full correlation where there is one.
    """
    p = len(model.columns)
    wide = unseen is None or len(unseen) > WIDEST
    full, mean, scale = model, np.zeros(p), np.ones(p)
    if table is not None and (correlation == "full" or not wide):
        R, mean, scale = mean_parameters(table, model, None if wide else unseen, generator(rng))
        full = standardised(model, mean, scale)
        full = replace(full, state=replace(full.state, factors=all_factors(R)))
    if correlation == "full":
        model, mean, scale = full, np.zeros(p), np.ones(p)
    return model if unseen is None or wide else replace(model, bridge=bridge_of(full, unseen, mean, scale))


def drawn_tables(
    X: Any,
    model: CopulaModel,
    table: Table | None,
    unseen: Pairs | None,
    n_samples: int,
    rng: np.random.Generator,
    *,
    clip: bool,
) -> list[Array]:
    """Tables with drawn gaps: by a full correlation where there is a table to draw it from, else by the factors."""
    if unseen is not None and len(unseen) > WIDEST:
        unseen = None
    if table is not None:
        return full_draws(dense(X), table, model, n_samples, rng, clip=clip, unseen=unseen)
    if unseen is None or model.method == "paper":
        return draws(X, model, n_samples, rng, clip=clip)
    f = model.factors
    root = np.linalg.cholesky(f.C + 1e-15 * np.eye(f.rank))
    out = []
    for _ in range(n_samples):
        W = f.W + np.einsum("pij,pj->pi", root, rng.standard_normal(f.W.shape))
        scale = np.sqrt(np.einsum("pi,pi->p", W, W) + f.noise)
        R = (W @ W.T + np.diag(f.noise)) / np.outer(scale, scale)
        factors = all_factors(contracted(R, unseen, rng))
        out += draws(X, replace(model, state=replace(model.state, factors=factors)), 1, rng, clip=clip)
    return out
