"""Draws of gaps and parameters of a Gaussian copula with any correlation matrix, by Gibbs steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from ._covariance import Normal, Unknown, solve
from ._encode import known_rows
from ._estep import Array, Index
from ._fit import CopulaModel
from ._pairs import Pairs, contracted, independent
from ._tails import normal_scores, student_scores
from ._values import Column

_FARTHEST = 37.0  # beyond which Phi is zero
_GRID = 80  # places at which the laws of all cells are summed
_FIRST = 5  # sweeps with the factors' correlation
_ASIDE = 20  # sweeps with a correlation of unseen pairs


def normal_between(low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Draws of a standard normal between ``low`` and ``high``, in every tail."""
    flip = high > -low  # the left tail keeps its digits
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below = ndtr(np.maximum(a, -_FARTHEST))
    found = ndtri(below + (ndtr(np.maximum(b, -_FARTHEST)) - below) * rng.random(len(a)))
    found = np.clip(found, np.minimum(a, b), b)
    return np.where(flip, -found, found)


def inverse_wishart(df: float, scale: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    r"""A draw of Sigma, of mean ``scale / (df - p - 1)``, and its inverse.

    With scale = L L' and Bartlett's triangle A, A A' ~ Wishart(df, I): Sigma = L A^-T A^-1 L'.
    """
    p = len(scale)
    L = lower_root(scale)
    A = np.tril(rng.standard_normal((p, p)), -1)
    A[np.diag_indices(p)] = np.sqrt(rng.chisquare(df - np.arange(p)))
    root = solve_triangular(A, L.T, lower=True)  # A^-1 L'
    inverse = solve_triangular(L, A, lower=True, trans="T")  # L^-T A
    return root.T @ root, inverse @ inverse.T


@dataclass(frozen=True)
class Cells:
    """Where the z of a table are not known, by column: missing cells, and cells of levels with the ends of these."""

    missing: tuple[Index, ...]
    levels: tuple[Index, ...]
    low: tuple[Array, ...]
    high: tuple[Array, ...]

    @property
    def most(self) -> int:
        """Missing cells of the column that lacks most."""
        return max(map(len, self.missing), default=0)


def latent_cells(X: Any, model: CopulaModel) -> tuple[Array, Cells]:
    """z of the cells known exactly (NaN elsewhere), and where the others are."""
    chain = model.state.chain
    known = known_rows(X, chain, model.columns, model.labels)
    rows = known.rows
    Z = np.full((rows.n, rows.p), np.nan)
    Z[rows.row[known.exact], rows.column[known.exact]] = known.z
    level = np.full((rows.n, rows.p), -1)
    level[rows.row[known.censored], rows.column[known.censored]] = known.level
    missing, levels, low, high = [], [], [], []
    for j in range(rows.p):
        on = np.flatnonzero(level[:, j] >= 0)
        which = level[on, j]
        levels.append(on)
        low.append(chain.bounds[chain.level_low[which]])
        high.append(chain.bounds[chain.level_high[which]])
        missing.append(np.flatnonzero(np.isnan(Z[:, j]) & (level[:, j] < 0)))
    return Z, Cells(tuple(missing), tuple(levels), tuple(low), tuple(high))


def sweep(Z: Array, cells: Cells, mean: Array, Q: Array, rng: np.random.Generator) -> None:
    """Every z that is not known drawn given the rest of its row, column by column, in place.

    With precision Q, z_j given the others is normal of variance 1 / Q_jj and mean mu_j - sum_k Q_jk (z_k - mu_k) / Q_jj over
    k != j; cells of a level are drawn between its ends.
    """
    D = Z - mean
    for j, (gone, on) in enumerate(zip(cells.missing, cells.levels, strict=True)):
        if not len(gone) and not len(on):
            continue
        weights = Q[:, j] / -Q[j, j]
        weights[j] = 0.0
        sd = 1.0 / np.sqrt(Q[j, j])
        if len(gone):
            D[gone, j] = D[gone] @ weights + sd * rng.standard_normal(len(gone))
        if len(on):
            centre = D[on] @ weights
            low, high = cells.low[j] - mean[j], cells.high[j] - mean[j]
            inner = normal_between((low - centre) / sd, (high - centre) / sd, rng)
            D[on, j] = np.clip(centre + sd * inner, low, high)
    np.add(D, mean, out=Z)


@dataclass(frozen=True)
class Parameters:
    """Mean and covariance of z, and its inverse."""

    mean: Array
    cover: Array
    Q: Array


def lower_root(M: Array) -> Array:
    """Cholesky's factor; of a matrix that rounding has left singular, with the least share of its diagonal added."""
    for share in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        try:
            return np.asarray(np.linalg.cholesky(M + share * np.diag(np.diag(M))))
        except np.linalg.LinAlgError:
            continue
    msg = (
        "the covariance of the latent columns is singular beyond rounding; drop columns that are copies or sums of others, "
        "or fit with correlation='factors'"
    )
    raise ValueError(msg)


def draw_parameters(Z: Array, weight: Array | None, prior: Array, rng: np.random.Generator) -> Parameters:
    r"""Mean and covariance given all z.

    Sigma ~ inverse Wishart(n + p + p/2, S + (p/2) R), S = sum (z - mean)(z - mean)' and R the factors' correlation; then
    mu ~ N(mean, Sigma / n). n is the sum of the weights.
    """
    p = Z.shape[1]
    n = float(len(Z)) if weight is None else float(weight.sum())
    centre = np.average(Z, axis=0, weights=weight)
    D = Z - centre
    S = D.T @ (D if weight is None else D * weight[:, None])
    cover, Q = inverse_wishart(n + p + 0.5 * p, S + 0.5 * p * prior, rng)
    mean = centre + lower_root(cover / n) @ rng.standard_normal(p)
    return Parameters(mean, cover, Q)


def unit_scale(Z: Array, found: Parameters, cuts: dict[int, float]) -> Parameters:
    """Two-valued columns at unit variance, which their one cut does not tell; z moves with it, in place."""
    if not cuts:
        return found
    scale, mean = np.ones(len(found.mean)), found.mean.copy()
    for j, cut in cuts.items():
        scale[j] = 1.0 / np.sqrt(found.cover[j, j])
        mean[j] = cut + (mean[j] - cut) * scale[j]
        Z[:, j] = cut + (Z[:, j] - cut) * scale[j]
    both = np.outer(scale, scale)
    return Parameters(mean, found.cover * both, found.Q / both)


def drawn_column(
    column: Column, x: Array, weight: Array | None, centre: Array, sd: float, rng: np.random.Generator
) -> Column:
    r"""g of a column of numbers, drawn by a Bayesian bootstrap of its cells.

    Cells have values x and laws N(centre, sd^2) given the rest of their rows. With weights w of a Dirichlet law, knot x_k moves to
    where the cells' laws have the share that their values have:

    .. math:: \sum_i w_i \Phi\Big(\frac{z_k - m_i}{s}\Big) = \sum_i w_i [x_i < x_k] + \tfrac12 \sum_i w_i [x_i = x_k] .
    """
    w = rng.standard_exponential(len(x)) if weight is None else rng.standard_gamma(weight)
    w = w if w.any() else np.ones(len(x))  # weights so small that no draw is above zero
    w /= w.sum()
    reach = 6.0 * sd
    grid = np.linspace(centre.min() - reach, centre.max() + reach, _GRID)
    share = np.clip([w @ ndtr((z - centre) / sd) for z in grid], 1e-300, 1.0 - 1e-16)
    order = np.argsort(x)
    values, total = x[order], np.concatenate([[0.0], np.cumsum(w[order])])
    below = total[np.searchsorted(values, column.x, "left")]
    upto = total[np.searchsorted(values, column.x, "right")]
    at = ndtri(np.clip(0.5 * (below + upto), 1e-12, 1.0 - 1e-12))
    z = np.maximum.accumulate(np.interp(at, ndtri(np.maximum.accumulate(share)), grid))
    return replace(column, z=z + 1e-9 * np.arange(len(z)))


def schedule(share: float) -> tuple[int, int]:
    """Sweeps before the first draw and between draws, by the share that the emptiest column lacks: 60 and 10, 200 and 50 at half."""
    more = float(np.clip((share - 0.25) / 0.25, 0.0, 1.0))
    return int(60 + 140 * more), int(10 + 40 * more)


@dataclass(frozen=True)
class Table:
    """Rows that the model was fitted to, numbers with gaps, and their weights."""

    X: Array
    weight: Array | None


@dataclass(frozen=True)
class Drawn:
    """A state of the chain: parameters, z of the rows of the table; cells and z of the rows that are drawn for."""

    found: Parameters
    Z: Array
    cells: Cells
    z: Array


def chain(
    table: Table,
    model: CopulaModel,
    rng: np.random.Generator,
    *,
    new: Array | None = None,
    unseen: Pairs | None = None,
) -> Iterator[Drawn]:
    """States of the chain, burnt in and thinned, without end.

    ``new`` are rows other than those of the table: their z are drawn given the parameters, which they do not change. ``unseen``
    pairs are independent given the other columns while the chain goes on, since its z would hold on to any correlation; for
    every state that is given out one is drawn of those that the others admit, and z swept with it aside.
    """
    f = model.factors
    R = f.W @ f.W.T + np.diag(f.noise)
    cuts = {j: float(c.z[0]) for j, c in enumerate(model.columns) if c.kind == "binary"}
    Z, cells = latent_cells(table.X, model)
    burn, thin = schedule(cells.most / len(Z))
    found = Parameters(np.zeros(len(R)), R, _inverse(R))
    start(Z, cells, found, rng)
    others = (Z, cells) if new is None else latent_cells(new, model)
    if new is not None:
        start(*others, found, rng)
    for sweeps in itertools.chain([burn], itertools.repeat(thin)):
        for left in range(sweeps, 0, -1):
            found = unit_scale(Z, draw_parameters(Z, table.weight, R, rng), cuts)
            if unseen is not None:
                found = with_correlation(found, lambda R: independent(R, unseen))
            sweep(Z, cells, found.mean, found.Q, rng)
            if new is not None and left <= thin:
                sweep(*others, found.mean, found.Q, rng)
        z, on = others
        if unseen is not None:
            aside = with_correlation(found, lambda R: contracted(R, unseen, rng))
            z = z.copy()
            for _ in range(_ASIDE):
                sweep(z, on, aside.mean, aside.Q, rng)
        yield Drawn(found, Z, on, z)


def with_correlation(found: Parameters, change: Callable[[Array], Array]) -> Parameters:
    """The same means and variances with another correlation."""
    scale = np.sqrt(np.diag(found.cover))
    both = np.outer(scale, scale)
    cover = change(found.cover / both) * both
    return Parameters(found.mean, cover, _inverse(cover))


def _inverse(A: Array) -> Array:
    return np.asarray(np.linalg.inv(A), dtype=np.float64)


def start(Z: Array, cells: Cells, found: Parameters, rng: np.random.Generator) -> None:
    """Unknown z: of levels between their ends, of gaps zero; then some sweeps with the factors' correlation."""
    for gone, on, low, high, column in zip(*_of(cells), Z.T, strict=True):
        column[gone] = 0.0
        column[on] = normal_between(low, high, rng)
    for _ in range(_FIRST):
        sweep(Z, cells, found.mean, found.Q, rng)


def _of(cells: Cells) -> tuple[Any, ...]:
    return cells.missing, cells.levels, cells.low, cells.high


def full_draws(
    X: Array,
    table: Table,
    model: CopulaModel,
    n_samples: int,
    rng: np.random.Generator,
    *,
    clip: bool,
    unseen: Pairs | None = None,
    tails: float = np.inf,
) -> list[Array]:
    """Tables whose gaps are drawn, with mean, covariance and marginals drawn for each; with ``tails`` rows have scales of their own."""
    same = X.shape == table.X.shape and np.array_equal(X, table.X, equal_nan=True)
    states = chain(table, model, rng, new=None if same else X, unseen=unseen)
    out = []
    for drawn in itertools.islice(states, n_samples):
        found, Z = drawn.found, drawn.Z
        filled = np.array(X, dtype=np.float64)
        z = drawn.z if np.isinf(tails) else heavier(drawn.z, np.isnan(filled), found, tails, rng)
        for j, gone in enumerate(drawn.cells.missing):
            if not len(gone):
                continue
            column = model.columns[j]
            if column.kind == "continuous":
                on = np.flatnonzero(~np.isnan(table.X[:, j]))
                weights = found.Q[:, j] / -found.Q[j, j]
                weights[j] = 0.0
                centre = found.mean[j] + (Z[on] - found.mean) @ weights
                w = None if table.weight is None else table.weight[on]
                column = drawn_column(column, table.X[on, j], w, centre, float(found.Q[j, j] ** -0.5), rng)
            x = column.values(z[gone, j])
            filled[gone, j] = np.clip(x, *column.limits) if clip else x
        out.append(filled)
    return out


def heavier(z: Array, gone: Any, found: Parameters, df: float, rng: np.random.Generator) -> Array:
    r"""Rows whose gaps were drawn from a normal law, with gaps as Student's t of the same correlation has them.

    On the scale of t the drawn residuals of row i are about its own mean of gaps and times :math:`\sqrt{(\nu + \delta_i^2) / \chi^2}`,
    a draw of nu + m degrees of freedom, where delta is the distance of its m known cells.
    """
    scale = np.sqrt(np.diag(found.cover))
    u = (z - found.mean) / scale
    law = Normal(np.zeros(len(scale)), found.cover / np.outer(scale, scale))
    Q, t = found.Q * np.outer(scale, scale), student_scores(u, df)
    count = gone.sum(axis=1)
    for m in np.unique(count[count > 0]):
        rows = np.flatnonzero(count == m)
        columns = np.nonzero(gone[rows])[1].reshape(len(rows), m)
        at, none = (rows[:, None], columns), np.zeros(columns.shape)
        group = Unknown(rows, columns, none, none, none, none)
        residual = u[at] - solve(group, u, law, Q)[0]
        t[at] = solve(group, t, law, Q)[0]
        far = np.einsum("ij,ij->i", t[rows] @ Q, t[rows])
        wide = np.sqrt((df + far) / rng.chisquare(df + z.shape[1] - m, len(rows)))
        t[at] += residual * wide[:, None]
    return found.mean + scale * normal_scores(t, df)


def standardised(model: CopulaModel, mean: Array, scale: Array) -> CopulaModel:
    """The model in units of (z - mean) / scale."""
    nodes = model.state.chain
    moved = replace(nodes, z=(nodes.z - mean[nodes.column]) / scale[nodes.column])
    columns = tuple(
        replace(column, z=(column.z - m) / s) for column, m, s in zip(model.columns, mean, scale, strict=True)
    )
    return replace(model, state=replace(model.state, chain=moved), columns=columns)
