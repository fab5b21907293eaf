"""Whether rows have scales of their own: the tails that observed cells ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ._encode import known_rows
from ._estep import Array, sums_by
from ._fit import CopulaModel
from ._left_out import left_out, some_rows, with_lean
from ._marginals import Chain
from ._pairs import Pairs
from ._passes import DaskRows, LocalRows
from ._row_laws import row_distances
from ._tails import log_steepness, normal_scores, student_scores

DEGREES = (1.5, 2.0, 3.0, 4.0, 6.0, 20.0)  # that are tried where ``_FIRST`` is better than none
_FIRST = 10.0
_SURE = 3.0  # standard errors of the rows' likelihoods by which tails must be better than none
_DOUBT = 2.0  # errors by which rows must vary too much for tails to be tried
_LOOK = 40_000  # cells that tell so
_CELLS = 300_000  # that are looked through for rows
_ROOT = 0.5 * np.log(2 * np.pi)


def by_ranks(model: CopulaModel, first: Chain) -> CopulaModel:
    """The model with nodes where their ranks are (``first``), at the place and spread that its own nodes have.

    What heavy tails have taught the far nodes under a normal law, Student's t would enlarge.
    """
    chain, z = model.state.chain, np.empty_like(first.z)
    for j in range(len(first.kinds)):
        on = first.nodes(j)
        start, w = first.z[on], first.weight[on] / first.weight[on].sum()
        far, place = start - w @ start, float(w @ chain.z[on])
        spread = float(w @ (far * chain.z[on])) / max(float(w @ far**2), 1e-300) or 1.0
        z[on] = place + spread * far
    columns = tuple(replace(column, z=z[first.nodes(j)]) for j, column in enumerate(model.columns))
    return replace(model, state=replace(model.state, chain=replace(chain, z=z)), columns=columns)


def with_tails(model: CopulaModel, df: float) -> CopulaModel:
    """The model with z on the scale of Student's t."""
    chain = model.state.chain
    state = replace(model.state, chain=replace(chain, z=student_scores(chain.z, df)))
    columns = tuple(column.with_tails(df) for column in model.columns)
    return replace(model, state=state, columns=columns, tails=df)


def without_tails(model: CopulaModel) -> CopulaModel:
    """The model with z on the normal scale again."""
    chain, df = model.state.chain, model.tails
    state = replace(model.state, chain=replace(chain, z=normal_scores(chain.z, df)))
    columns = tuple(replace(c, z=normal_scores(c.z, df), df=np.inf) for c in model.columns)
    return replace(model, state=state, columns=columns, tails=np.inf)


def row_likelihoods(X: Array, model: CopulaModel) -> Array:
    """Of each row the sum of the log densities of its cells, each given the others, on the normal scale of z."""
    cells = left_out(X, model)
    z = np.empty(len(cells.x))
    for j in map(int, np.unique(cells.column)):
        on = cells.column == j
        z[on] = model.columns[j].latent(cells.x[on])
    at = (z - cells.mean) / cells.sd
    told = -0.5 * at**2 - _ROOT if cells.law is None else cells.law.log_density(at)
    told -= np.log(cells.sd)
    if np.isfinite(model.tails):
        told += log_steepness(z, model.tails)
    return sums_by(cells.row, told, len(X))


def wild(X: Any, model: CopulaModel, w: Array) -> bool:
    r"""Whether squared distances of rows, over their cells, vary by more than a normal law says: a cheap look at some rows.

    With :math:`u = \delta^2 / m` a row adds :math:`(u - \bar u)^2 - 2 \bar u^2 / m`, zero on average; the sum must be above two of its errors.
    """
    few = max(1, len(X) * X.shape[1] // _LOOK)
    X, w = X[::few], w[::few]
    known = known_rows(X, model.state.chain, model.columns, model.labels)
    seen = np.bincount(known.rows.row, minlength=len(X))
    on = (seen > 0) & (w > 0)
    if not on.any():
        return False
    seen, w = seen[on], w[on]
    u = row_distances(known, model)[on] / seen
    middle = float(np.average(u, weights=w))
    more = (u - middle) ** 2 - 2.0 * middle**2 / seen
    return bool(w @ more > _DOUBT * np.sqrt(w @ more**2))


def best_tails(X: Any, model: CopulaModel, ranks: CopulaModel, weight: Array | None) -> float:
    """Degrees of freedom with which cells are likeliest given the rest of their rows; infinite where that is not sure.

    With its nodes by ``ranks`` tails must surely be better than the normal law, and better than the model itself.
    """
    step = max(1, X.size // _CELLS)
    X, w = some_rows(X[::step], None if weight is None else weight[::step], model)
    if not wild(X, model, w):
        return np.inf
    plain = row_likelihoods(X, ranks)

    def gain(df: float) -> Array:
        return row_likelihoods(X, with_tails(ranks, df)) - plain

    found = {_FIRST: gain(_FIRST)}
    if not w @ found[_FIRST] > 0:
        return np.inf
    found |= {df: gain(df) for df in DEGREES}
    best = max(found, key=lambda df: float(w @ found[df]))
    total, sd = float(w @ found[best]), float(np.sqrt(w @ found[best] ** 2))
    if not total > _SURE * sd:
        return np.inf
    return best if total + float(w @ plain) > float(w @ row_likelihoods(X, model)) else np.inf


def tailed(
    rows: LocalRows | DaskRows, model: CopulaModel, first: Chain, tails: str | float, unseen: Pairs | None
) -> CopulaModel:
    """The model with the ``tails`` that are asked for; "auto": with those that observed cells ask for, if any, where that may be.

    ``first`` has the nodes where their ranks are.
    """
    why = _why_not(rows, model, unseen)
    if tails in ("normal", np.inf) or (why and tails == "auto"):
        return model
    if why or not isinstance(rows, LocalRows):
        msg = f"tails={tails!r}, but {why}, or tails='auto' or 'normal'"
        raise ValueError(msg)
    ranks = by_ranks(model, first)
    df = best_tails(rows.X, model, ranks, rows.weight) if isinstance(tails, str) else float(tails)
    if np.isinf(df):
        return model
    found = with_tails(ranks, df)
    return found if model.lean is None else with_lean(found, rows.X, rows.weight)


def _why_not(rows: LocalRows | DaskRows, model: CopulaModel, unseen: Pairs | None) -> str | None:
    if model.method == "paper":
        return "method='paper' has a normal law; use method='ep'"
    if not isinstance(rows, LocalRows) or hasattr(rows.X, "tocoo"):
        return "X is sparse or a Dask collection; give a table in memory"
    others = [
        str(name) for name, c in zip(model.labels, model.columns, strict=True) if c.kind != "continuous"
    ]
    if others:
        return f"column {others[0]!r} has levels or limits; give columns of numbers, or make it 'continuous' (kinds)"
    if len(model.columns) < 2:
        return "X has one column that varies, and tails are of rows; give more columns"
    if unseen is not None:
        return "some columns were never observed together (unseen_pairs_); drop one of each pair"
    if model.curved is not None:
        return "nonlinear=True has forests that learn on a normal scale; use nonlinear='auto' or False"
    return None
