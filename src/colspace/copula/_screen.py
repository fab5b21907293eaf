"""Whether a table bends where a Gaussian copula is straight: a cheap test on a few of its rows and columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincc, ndtr, ndtri

from ._encode import known_rows
from ._estep import Array, Index, cavity, censored_law, signal
from ._fit import CopulaModel
from ._row_laws import row_laws
from ._step import level_means

ROWS, KERNEL_ROWS = 1000, 150  # rows that are looked at, and those whose distances are
COLUMNS, KERNEL_COLUMNS = 24, 12  # columns likewise
PRODUCTS = 80_000  # rows times pairs of columns, at most
PRODUCT_LEVEL, KERNEL_LEVEL = 0.01, 0.001  # chance of a false alarm, of all columns together
_FEWEST = 30  # cells of a column that say anything


class Screen(NamedTuple):
    """Chances, all columns together, of such products and of such kernels in a Gaussian copula; whether one is too small."""

    products: float
    kernels: float

    @property
    def curved(self) -> bool:
        """Whether the copula misses something."""
        return self.products < PRODUCT_LEVEL or self.kernels < KERNEL_LEVEL


def screen_table(
    X: Any, model: CopulaModel, weight: Array | None, rng: np.random.Generator, apart: Any = None
) -> Screen:
    """Test residuals of some rows and columns, not those ``apart``, against products, and kernels, of the other columns."""
    n, p = X.shape
    columns = np.sort(rng.choice(p, COLUMNS, replace=False)) if p > COLUMNS else np.arange(p)
    most = max(min(ROWS, 2 * PRODUCTS // (len(columns) * (len(columns) + 1))), KERNEL_ROWS)
    rows = np.sort(rng.choice(n, most, replace=False)) if n > most else np.arange(n)
    residual, normal, latent = residuals(X[rows], model, columns, rng)
    if apart is not None:
        residual[:, apart[columns]] = normal[:, apart[columns]] = np.nan
    w = None if weight is None else weight[rows]
    first = product_chance(residual, latent, w)
    if first < PRODUCT_LEVEL:
        return Screen(first, 1.0)
    return Screen(first, kernel_chance(normal, latent))


def residuals(
    X: Any, model: CopulaModel, columns: Index, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Residuals, the same made normal, and z; n x len(columns), NaN where nothing is observed.

    A residual is z less its mean given the others of these columns, over its standard deviation. That of a level is the mean
    over its interval; made normal, a draw from there, which has the same law whatever the rest. z of a level is its own mean.
    """
    f, chain = model.factors, model.state.chain
    if len(columns) < X.shape[1]:
        part = np.full(X.shape, np.nan)
        part[:, columns] = X[:, columns]
        X = part
    known = known_rows(X, chain, model.columns, model.labels)
    laws, rows = row_laws(known, model), known.rows
    m, v = signal(rows, laws.posterior, f)
    centre, spread = cavity(m, v, laws.tau, laws.nu)
    noise = f.noise[rows.column]
    sd = np.sqrt(spread + noise)
    z = np.zeros(len(m))
    z[known.exact] = known.z
    off = (z - centre) / sd
    normal = off
    on = known.censored
    if len(on):
        law = censored_law(centre[on], spread[on], noise[on], chain.bounds, known.level, chain)
        normal = off.copy()
        normal[on] = draw_between(law.low, law.high, rng)
        off[on] = law.mean
        z[on] = level_means(chain)[known.level]
    out = []
    for values in (off, normal, z):
        table = np.full((rows.n, rows.p), np.nan)
        table[rows.row, rows.column] = values
        out.append(table[:, columns])
    return out[0], out[1], out[2]


def draw_between(low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Draws of a standard normal between two ends, from the tail that is the smaller."""
    turn = low + high > 0
    a, b = np.where(turn, -high, low), np.where(turn, -low, high)
    share = ndtr(a) + rng.random(len(a)) * (ndtr(b) - ndtr(a))
    z = np.clip(ndtri(np.maximum(share, 1e-300)), a, b)
    return np.where(turn, -z, z)


def product_chance(residual: Array, latent: Array, weight: Array | None = None) -> float:
    r"""Bonferroni's bound on the chance of the largest of

    .. math:: T_{jab} = \sum_i w_i r_{ij} h_{iab} \Big/ \Big(\sum_i w_i^2 r_{ij}^2 h_{iab}^2\Big)^{1/2}, \qquad
        h_{iab} = z_{ia} z_{ib} - \overline{z_a z_b},

    j apart from a and b, over rows that have all three: nearly standard normal where the copula is right.
    """
    p = residual.shape[1]
    if p < 2:
        return 1.0
    seen = ~np.isnan(latent)
    r, z = np.nan_to_num(residual), np.where(seen, latent, 0.0)
    a, b = np.triu_indices(p)
    both = seen[:, a] & seen[:, b]
    h = z[:, a] * z[:, b]
    w = np.ones(len(r)) if weight is None else weight
    h -= (w @ h) / np.maximum(w @ both, 1e-300)
    h *= both
    up = (r * w[:, None]).T @ h
    h *= h
    down = (r * r * (w * w)[:, None]).T @ h
    cells = seen.T.astype(np.float64) @ both
    j = np.arange(p)[:, None]
    tested = (j != a) & (j != b) & (cells >= _FEWEST) & (down > 0)
    if not tested.any():
        return 1.0
    largest = float(np.abs(up[tested] / np.sqrt(down[tested])).max())
    return min(1.0, 2.0 * float(ndtr(-largest)) * int(tested.sum()))


def kernel_chance(residual: Array, latent: Array) -> float:
    """Chance of such dependence, by kernels, of residuals on the other columns: those of single columns combined.

    Rows are those with the fewest gaps, whose latent values count as zero.
    """
    rows = np.sort(np.argsort(np.isnan(latent).sum(axis=1), kind="stable")[:KERNEL_ROWS])
    whole = np.nan_to_num(latent)
    z, p = whole[rows], whole.shape[1]
    A = np.column_stack([whole, np.ones(len(whole))])
    gram, pull = A.T @ A, A.T @ np.nan_to_num(residual)
    square = (z * z).sum(axis=1)
    apart = square[:, None] + square - 2.0 * z @ z.T
    chances = []
    for j in np.unique(np.linspace(0, p - 1, min(p, KERNEL_COLUMNS)).astype(int)):
        seen = np.flatnonzero(~np.isnan(residual[rows, j]))
        if len(seen) >= _FEWEST and p > 1:
            share = 1.0 - float(np.isnan(residual[:, j]).mean())
            at = rows[seen]
            r = residual[at, j] - A[at] @ straight(gram, pull[:, j], share, j)
            own = z[seen, j]
            distance = np.maximum(apart[np.ix_(seen, seen)] - (own[:, None] - own) ** 2, 0.0)
            chances.append(
                dependence_chance((r[:, None] - r) ** 2, distance / max(float(distance.mean()), 1e-12))
            )
    return joint_chance(np.array(chances)) if chances else 1.0


def straight(gram: Array, pull: Array, share: float, j: int) -> Array:
    """Coefficients of a residual, seen in a ``share`` of the rows, on the other columns: too few factors are not a bend."""
    rest = np.delete(np.arange(len(gram)), j)
    out = np.zeros(len(gram))
    inner = share * gram[np.ix_(rest, rest)]
    inner[np.diag_indices(len(rest))] += 1.0
    out[rest] = np.linalg.solve(inner, pull[rest])
    return out


def joint_chance(chances: Array) -> float:
    """Cauchy's combination of chances that may depend on each other: 1/2 - arctan(mean of tan(pi/2 - pi c)) / pi."""
    small = float(np.mean(1.0 / np.tan(np.pi * np.clip(chances, 1e-300, 1.0 - 1e-9))))
    return 0.5 - float(np.arctan(small)) / np.pi if small < 1e6 else 1.0 / (np.pi * small)


def dependence_chance(one: Array, other: Array) -> float:
    """Chance of tr(K L), K = exp(-one), L = exp(-other) centred, had the rows of one been shuffled.

    By a gamma law with the mean and the variance over all orders.
    """
    K, L = (_centred(np.exp(-squares)) for squares in (one, other))
    mean, variance = shuffled_moments(K, L)
    if not (variance > 0 and mean > 0):
        return 1.0
    return float(gammaincc(mean * mean / variance, float(np.vdot(K, L)) * mean / variance))


def shuffled_moments(K: Array, L: Array) -> tuple[float, float]:
    """Mean and variance of tr(P'KP L) over all permutations P of n rows; K and L centred, symmetric."""
    n = len(K)
    (t, t2, s2), (u, u2, v2) = (
        (float(np.trace(A)), float(np.vdot(A, A)), float(np.vdot(np.diagonal(A), np.diagonal(A))))
        for A in (K, L)
    )
    first = 2 * ((n - 1) * t2 - t * t) * ((n - 1) * u2 - u * u) / ((n - 1) ** 2 * (n + 1) * (n - 2))
    second = (n * (n + 1) * s2 - (n - 1) * (t * t + 2 * t2)) * (n * (n + 1) * v2 - (n - 1) * (u * u + 2 * u2))
    return t * u / (n - 1), first + second / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))


def _centred(A: Array) -> Array:
    A -= A.mean(axis=0)
    A -= A.mean(axis=1, keepdims=True)
    return A
