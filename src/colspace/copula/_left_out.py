"""Every observed cell as the rest of its row tells it, and how far the mean is to be trusted beside the median."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._covariance import Normal, Unknown, cells_of, inverse, renewed, solve
from ._encode import KnownRows, known_rows, training_block
from ._estep import Array, Index, cavity, signal
from ._fit import CopulaModel
from ._lean import beside_median, in_units, lean_of
from ._rank import chosen
from ._row_laws import row_distance, row_laws
from ._tails import StudentLaw

ROWS = 1000  # rows that are looked at, at most
_SWEEPS = 12  # of sites under any correlation


@dataclass(frozen=True)
class LeftOut:
    """Observed cells: rows and columns, values, and the latent law that the rest of the row gives them."""

    row: Index
    column: Index
    x: Array
    mean: Array
    sd: Array
    law: StudentLaw | None = None


def left_out(X: Array, model: CopulaModel) -> LeftOut:
    """The cells of some rows, sites of levels as they are with the cell in view."""
    known = known_rows(X, model.state.chain, model.columns, model.labels)
    mean, variance, far = (_factors if model.joint is None else _joint)(known, model)
    rows, law = known.rows, None
    if np.isfinite(model.tails):  # all cells are known exactly
        df = np.asarray(model.tails + np.bincount(rows.row, minlength=rows.n)[rows.row] - 1.0, np.float64)
        rest = np.maximum(far[rows.row] - (known.z - mean) ** 2 / variance, 0.0)
        variance, law = variance * (model.tails + rest) / df, StudentLaw(df)
    sd = np.sqrt(variance)
    if model.wider is not None:
        sd = sd * model.wider[rows.column]
    return LeftOut(rows.row, rows.column, known.x, mean, sd, law)


def _factors(known: KnownRows, model: CopulaModel) -> tuple[Array, Array, Array]:
    laws, f = row_laws(known, model), model.factors
    m, v = signal(known.rows, laws.posterior, f)
    centre, spread = cavity(m, v, laws.tau, laws.nu)
    return centre, spread + f.noise[known.rows.column], row_distance(laws, f)


def _joint(known: KnownRows, model: CopulaModel) -> tuple[Array, Array, Array]:
    r"""Under any correlation, with Q its inverse: a cell that is known exactly has, given the others,

    .. math:: K_{jj} = Q_{jj} - Q_{jU} V Q_{Uj}, \qquad E z_j = z_j - (Q \tilde z)_j / K_{jj}, \qquad Var z_j = 1 / K_{jj} ,

    U the cells that are not known, V their covariance and z with their means in place; a level the law of its cavity.
    """
    assert model.joint is not None
    chain, rows = model.state.chain, known.rows
    cells = cells_of(rows, known.exact, known.z, known.censored, known.level, chain, None)
    p = len(model.joint)
    Q, law = inverse(model.joint), Normal(np.zeros(p), model.joint)
    filled, precision = cells.z.copy(), np.tile(np.diag(Q), (rows.n, 1))
    mean, variance = np.zeros((2, rows.n, p))
    for group in cells.groups:
        part = group
        for _ in range(_SWEEPS if cells.levels else 0):
            part = renewed(part, *solve(part, cells.z, law, Q), 1.0)
        m, V = solve(part, cells.z, law, Q)
        at, U = part.rows[:, None], part.columns
        filled[at, U] = m
        away = np.asarray(Q[:, U]).transpose(1, 2, 0)  # rows x unknown x columns
        precision[part.rows] -= np.einsum("nuj,nuv,nvj->nj", away, V, away, optimize=True)
        mean[at, U], variance[at, U] = _cavity(part, m, V)
    exact = rows.row[known.exact], rows.column[known.exact]
    K = np.maximum(precision[exact], 1e-12)
    mean[exact] = cells.z[exact] - (filled @ Q)[exact] / K
    variance[exact] = 1.0 / K
    far = np.einsum("ij,ij->i", filled @ Q, filled)
    return mean[rows.row, rows.column], variance[rows.row, rows.column], far


def _cavity(group: Unknown, m: Array, V: Array) -> tuple[Array, Array]:
    v = np.maximum(np.einsum("nii->ni", V), 1e-12)
    rest = np.maximum(1.0 - group.tau * v, 1e-9)
    return (m - v * group.nu) / rest, v / rest


def some_rows(X: Any, weight: Array | None, model: CopulaModel) -> tuple[Any, Array]:
    """About ``ROWS`` of the rows and their weights, chosen by what they hold."""
    total = float(X.shape[0] if weight is None else weight.sum())
    if total > ROWS:
        block = training_block(X, model.state.chain)
        some = np.unique(block.rows.row[chosen(block, 1.0, ROWS / total)])
        X, weight = X[some], None if weight is None else weight[some]
    return X, np.ones(len(X)) if weight is None else weight


def with_lean(model: CopulaModel, X: Any, weight: Array | None) -> CopulaModel:
    """The model with what its means are to be trusted, by the squared errors of observed cells that are left out.

    First of the table, then of each column, with the table's in place of 1; in about ``ROWS`` rows, chosen by what they hold.
    """
    X, w = some_rows(X, weight, model)
    cells = left_out(X, model)
    found: dict[int, tuple[Array, Array, Array]] = {}
    for j in map(int, np.unique(cells.column)):
        on = np.flatnonzero(cells.column == j)
        law = None if cells.law is None else cells.law.some(on)
        off, told = beside_median(model.columns[j], cells.mean[on], cells.sd[on], cells.x[on], law)
        found[j] = off, told, w[cells.row[on]]
    lean = np.ones(len(model.columns))
    scaled = []
    for off, told, weights in found.values():
        units = in_units(off, told, weights)
        if units is not None:
            scaled.append((*units, weights))
    if scaled:
        off, told, weights = (np.concatenate(part) for part in zip(*scaled, strict=True))
        table = lean_of(off, told, weights)
        for j, part in found.items():
            lean[j] = lean_of(*part, table)
    return replace(model, lean=lean)
