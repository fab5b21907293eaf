"""Which correlation a copula has: any, or that of few factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ._choice import Mixture, best_mixture, block_cells, factor_correlation, mixed, same_mixture, two_valued
from ._covariance import Normal, fit_normal
from ._encode import training_block
from ._estep import Array
from ._fit import CopulaModel
from ._gibbs import Table, full_draws, standardised
from ._heavy import without_tails
from ._left_out import with_lean
from ._pairs import WIDEST, Pairs, all_factors, bridge_of, contracted, independent, unseen_pairs
from ._passes import DaskRows, LocalRows
from ._predict import dense, draws

COLUMNS = 100  # up to which a full correlation is drawn
CELLS = 1_000_000  # of a table for which that is done by itself
NARROW = 50  # columns up to which it is tried for predictions


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
    model: CopulaModel,
    table: Table | None,
    unseen: Pairs | None,
    correlation: str,
    tol: float,
    *,
    given: bool,
    groups: Sequence[slice] = (),
    last: tuple[CopulaModel, CopulaModel] | None = None,
) -> CopulaModel:
    """What predicts: the factors, the full correlation, or a mixture that hidden cells ask for, or have asked for in the ``last`` fit (its factors and what predicted).

    "auto" looks for the last where columns are few (``NARROW``, of ``groups`` one each) and all seen together, and factors are not
    ``given`` by number.
    """
    if table is None or not table.X.size:
        return model
    rows = LocalRows(table.X, table.weight)
    try:
        if correlation == "full":
            found = best_mixture(rows, model, tol, 1.0, _change(unseen), groups)
        elif last is not None and last[1].joint is not None and unseen is None:
            found = same_mixture(rows, model, *last)
        elif (
            given
            or unseen is not None
            or not 3 <= len(model.columns) <= COLUMNS
            or len(model.columns) - sum(group.stop - group.start - 1 for group in groups) > NARROW
        ):
            return model if len(model.columns) > NARROW else with_lean(model, rows.X, rows.weight)
        else:
            found = best_mixture(rows, model, tol, groups=groups)
        model = model if found is None else mixed_model(model, found)
        return with_lean(model, rows.X, rows.weight)
    except np.linalg.LinAlgError as error:
        if correlation != "full":
            return model
        msg = (
            "the correlation of the latent columns is singular beyond rounding; drop columns that are copies or sums of "
            "others, or fit with correlation='factors'"
        )
        raise ValueError(msg) from error


def mixed_model(model: CopulaModel, found: Mixture) -> CopulaModel:
    """The model with a mixed correlation, in units of its means and deviations."""
    law = mixed(factor_correlation(model.factors), found.full, found.share)
    scale = np.sqrt(np.diag(law.cover))
    R = law.cover / np.outer(scale, scale)
    new = standardised(model, law.mean, scale)
    state = replace(new.state, factors=all_factors(R))
    return replace(new, state=state, joint=R, share=found.share, wider=found.wider)


def with_bridge(
    point: CopulaModel, model: CopulaModel, table: Table | None, unseen: Pairs | None, correlation: str
) -> CopulaModel:
    """What predicts, with a bridge over unseen pairs. The bridge rests on the full correlation where there is a table for it."""
    if unseen is None or len(unseen) > WIDEST:
        return point
    p = len(model.columns)
    mean, scale = np.zeros(p), np.ones(p)
    if correlation == "full" or table is None:
        return replace(point, bridge=bridge_of(point, unseen, mean, scale))
    chain, R = model.state.chain, factor_correlation(model.factors)
    cells = block_cells(training_block(table.X, chain, table.weight), chain)
    law = fit_normal(cells, Normal(mean, R), R, p, two_valued(chain), _change(unseen))[1]
    scale = np.sqrt(np.diag(law.cover))
    full = standardised(model, law.mean, scale)
    full = replace(full, state=replace(full.state, factors=all_factors(law.cover / np.outer(scale, scale))))
    return replace(point, bridge=bridge_of(full, unseen, law.mean, scale))


def _change(unseen: Pairs | None) -> Callable[[Array], Array]:
    """What is done to a correlation on the way: unseen pairs stay independent given the others."""
    if unseen is None or len(unseen) > WIDEST:
        return lambda R: R
    return lambda R: independent(R, unseen)


def drawn_tables(
    X: Any,
    model: CopulaModel,
    point: CopulaModel,
    table: Table | None,
    unseen: Pairs | None,
    n_samples: int,
    rng: np.random.Generator,
    *,
    clip: bool,
) -> list[Array]:
    """Tables with drawn gaps: by a full correlation where there is a table to draw it from, else by the factors.

    With the tails of ``point``, what predicts.
    """
    if unseen is not None and len(unseen) > WIDEST:
        unseen = None
    if np.isfinite(point.tails):
        if table is None:
            return draws(X, point, n_samples, rng, clip=clip)
        return full_draws(dense(X), table, without_tails(point), n_samples, rng, clip=clip, tails=point.tails)
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
