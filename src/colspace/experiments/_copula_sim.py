"""What the copula experiments share: errors, the oracle, and short references of two rivals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from ..datasets import CopulaTruth
from ..metrics import nrmse

Array = NDArray[np.float64]
Index = NDArray[np.intp]

#: lambda / lambda_0 of soft-impute: nine points, evenly spaced in logarithm, from 1 to 1/100.
ALPHAS: tuple[float, ...] = tuple(np.exp(np.linspace(0.0, np.log(0.01), 9)).tolist())
_CHUNK = 200_000  # cells at a time


def imputation_error(name: str, complete: Array, filled: Array, mask: Any) -> float:
    """NRMSE of continuous settings, mean absolute error of the others, over masked cells."""
    if name.startswith("continuous"):
        return nrmse(complete, filled, mask)
    return float(np.mean(np.abs(complete - filled)[mask]))


def tables_of(repetitions: int, size: Mapping[str, int]) -> str:
    """How much was run, in words; tables are of the published size where ``size`` says nothing else."""
    n, p = size.get("n_samples", 500), size.get("n_features", 200)
    return f"{repetitions} tables of {n} x {p} a setting"


def to_levels(name: str, filled: Array, X: Array) -> Array:
    """Fills of ordinal columns rounded to levels within the observed range; continuous ones unchanged."""
    if name.startswith("continuous"):
        return filled
    return np.clip(np.rint(filled), np.nanmin(X, axis=0), np.nanmax(X, axis=0))


def error_curve(
    name: str, complete: Array, filled: Array, reliability: Array, mask: Any, shares: Sequence[float]
) -> list[float]:
    """Errors over the most reliable shares of the masked cells."""
    order = np.argsort(-reliability[mask], kind="stable")
    true, guess = complete[mask][order], filled[mask][order]
    errors = []
    for share in shares:
        m = max(1, round(share * len(order)))
        errors.append(imputation_error(name, true[:m], guess[:m], np.ones(m, dtype=bool)))
    return errors


def oracle(X: Array, truth: CopulaTruth, *, rng: Any = None, sweeps: int = 400) -> Array:
    """g(E[z | observed]) under the true law: exact for continuous columns, by Gibbs sampling for levels."""
    return truth.values(latent_moments(X, truth, rng=rng, sweeps=sweeps)[0])


def latent_moments(
    X: Array, truth: CopulaTruth, *, rng: Any = None, sweeps: int = 400
) -> tuple[Array, Array]:
    """Mean and variance of z = W t + e given the observed cells, for gaps: s2 + w' Cov[t | observed] w."""
    lower, upper = truth.bounds(X)
    observed, W, s2 = ~np.isnan(X), truth.loadings, truth.noise
    k = W.shape[1]
    products = (W[:, :, None] * W[:, None, :]).reshape(-1, k * k)
    V = s2 * np.linalg.inv(s2 * np.eye(k) + (observed @ products).reshape(-1, k, k))
    if truth.cuts is None:
        z = np.where(observed, lower, 0.0)
        t = np.einsum("nij,nj->ni", V, z @ W / s2)
        return t @ W.T, s2 + V.reshape(-1, k * k) @ products.T
    rng = np.random.default_rng(rng)
    L = np.linalg.cholesky(V)
    low, high = lower[observed], upper[observed]
    z, total, square = np.zeros(X.shape), np.zeros((len(X), k)), np.zeros((len(X), k, k))
    z[observed] = _truncated_draws(np.zeros(len(low)), 1.0, low, high, rng)
    burn = sweeps // 4
    for sweep in range(sweeps):
        mean = np.einsum("nij,nj->ni", V, z @ W / s2)
        if sweep >= burn:
            total += mean
            square += mean[:, :, None] * mean[:, None, :]
        t = mean + np.einsum("nij,nj->ni", L, rng.standard_normal(mean.shape))
        z[observed] = _truncated_draws((t @ W.T)[observed], np.sqrt(s2), low, high, rng)
    total /= sweeps - burn
    spread = square / (sweeps - burn) - total[:, :, None] * total[:, None, :]
    return total @ W.T, s2 + (V + spread).reshape(-1, k * k) @ products.T


def _truncated_draws(mean: Array, sd: float, low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Draws of N(mean, sd^2) between limits, by inversion in the lighter tail."""
    a, b = (low - mean) / sd, (high - mean) / sd
    flip = a > 0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    lower, upper = ndtr(a), ndtr(b)
    u = ndtri(np.maximum(lower + rng.random(len(a)) * (upper - lower), 1e-300))
    u = np.clip(u, a, b)
    return mean + sd * np.where(flip, -u, u)


def ppca(X: Array, rank: int, *, tol: float = 1e-4, max_iter: int = 300) -> Array:
    """Probabilistic PCA by EM on the observed cells: x = mu + W t + N(0, s2), missing cells filled with E[x].

    Stops when s2 changes by less than ``tol`` of itself.
    """
    observed = ~np.isnan(X)
    mask, Z = observed.astype(float), np.where(observed, X, 0.0)
    n, k = len(X), rank
    mu = Z.sum(axis=0) / mask.sum(axis=0)
    centred = np.where(observed, X - mu, 0.0)
    _, s, Vt = np.linalg.svd(centred, full_matrices=False)
    s2 = float(np.sum(centred**2) / mask.sum())
    B = np.column_stack([Vt[:k].T * (s[:k] / np.sqrt(n)), mu])  # loadings and mean: x = B (t, 1)
    total, last, floor = float(np.sum(Z**2)), np.inf, 1e-8 * s2
    for _ in range(max_iter):
        W, mu = B[:, :k], B[:, k]
        V = s2 * np.linalg.inv(
            s2 * np.eye(k) + (mask @ (W[:, :, None] * W[:, None, :]).reshape(-1, k * k)).reshape(n, k, k)
        )
        T = np.einsum("nij,nj->ni", V, np.where(observed, X - mu, 0.0) @ W / s2)
        T1 = np.column_stack([T, np.ones(n)])
        second = T1[:, :, None] * T1[:, None, :]
        second[:, :k, :k] += V
        S = (mask.T @ second.reshape(n, -1)).reshape(-1, k + 1, k + 1)
        cross = Z.T @ T1
        B = np.linalg.solve(S + 1e-9 * np.eye(k + 1), cross[:, :, None])[:, :, 0]
        fit = np.sum(B * cross)
        s2 = max(float((total - 2 * fit + np.einsum("pi,pij,pj->", B, S, B)) / mask.sum()), floor)
        if abs(last - s2) < tol * s2:
            break
        last = s2
    return np.where(observed, X, T1 @ B.T)


@dataclass(frozen=True)
class SoftFill:
    """Row and column effects plus a low-rank part U V'."""

    rows: Array
    columns: Array
    U: Array
    V: Array

    def at(self, row: Any, column: Any) -> Array:
        """Values of some cells."""
        return self.rows[row] + self.columns[column] + _cells_of(self.U, self.V, row, column)

    def table(self) -> Array:
        """All cells."""
        return self.rows[:, None] + self.columns + self.U @ self.V.T


def observed_cells(X: Any) -> csr_array:
    """The known cells of a table with NaN as a sparse array that keeps zeros."""
    row, column = np.nonzero(~np.isnan(X))
    return csr_array((X[row, column], (row, column)), shape=X.shape)


def soft_impute_path(
    cells: csr_array,
    alphas: Sequence[float] = ALPHAS,
    *,
    max_rank: int = 100,
    tol: float = 1e-3,
    max_iter: int = 100,
) -> Iterator[SoftFill]:
    """Soft-impute on centred rows and columns, lambda = alpha lambda_0, each start the last solution.

    Z <- shrink(P(X) + P'(Z), lambda): the singular values, kept to ``max_rank`` by one warm subspace iteration,
    lose lambda. lambda_0 is the largest singular value of P(X). Stops when Z changes by ``tol`` of its length.
    """
    row = np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))
    column = cells.indices
    a, b = _effects(row, column, cells.data, cells.shape)
    target = cells.data - a[row] - b[column]
    residual = csr_array((target.copy(), cells.indices, cells.indptr), shape=cells.shape)
    rank = min(max_rank, *cells.shape)
    basis = np.random.default_rng(0).standard_normal((cells.shape[1], rank))
    for _ in range(4):
        basis = np.linalg.qr(residual.T @ (residual @ basis))[0]
    start = float(np.linalg.norm(residual @ basis, 2))
    U, V = np.zeros((cells.shape[0], 0)), np.zeros((cells.shape[1], 0))
    for alpha in alphas:
        for _ in range(max_iter):
            residual.data[:] = target - _cells_of(U, V, row, column)
            Q = np.linalg.qr(residual @ basis + U @ (V.T @ basis))[0]
            left, s, right = np.linalg.svd(residual.T @ Q + V @ (U.T @ Q), full_matrices=False)
            keep = np.maximum(s - alpha * start, 0.0)
            used = keep > 0
            basis, last_U, last_V = left, U, V
            U, V = (Q @ right.T)[:, used] * keep[used], left[:, used]
            if _moved(U, V, last_U, last_V) <= tol * max(float(np.linalg.norm(keep)), 1e-12):
                break
        yield SoftFill(a, b, U, V)


def _moved(U: Array, V: Array, last_U: Array, last_V: Array) -> float:
    """||U V' - last_U last_V'|| from small products."""
    square = np.sum((U.T @ U) * (V.T @ V)) + np.sum((last_U.T @ last_U) * (last_V.T @ last_V))
    return float(np.sqrt(max(square - 2 * np.sum((U.T @ last_U) * (V.T @ last_V)), 0.0)))


def _effects(row: Index, column: Any, x: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Least-squares effects of rows and columns, alternately."""
    n_row = np.maximum(np.bincount(row, minlength=shape[0]), 1)
    n_column = np.maximum(np.bincount(column, minlength=shape[1]), 1)
    a, b = np.zeros(shape[0]), np.zeros(shape[1])
    for _ in range(20):
        b = np.bincount(column, x - a[row], minlength=shape[1]) / n_column
        a = np.bincount(row, x - b[column], minlength=shape[0]) / n_row
    return a, b


def _cells_of(U: Array, V: Array, row: Any, column: Any) -> Array:
    """(U V') at some cells."""
    out = np.zeros(len(row))
    if U.shape[1]:
        for i in range(0, len(row), _CHUNK):
            part = slice(i, i + _CHUNK)
            out[part] = np.einsum("ij,ij->i", U[row[part]], V[column[part]])
    return out


def soft_impute(X: Array, *, rng: Any = 0, **options: Any) -> Array:
    """Soft-impute at the lambda that `best_alpha` finds."""
    return soft_fill(X, best_alpha(X, rng=rng, **options), **options)


def best_alpha(X: Array, *, held_out: float = 0.1, rng: Any = 0, **options: Any) -> float:
    """lambda / lambda_0 of the path that predicts a held-out share of the known cells best."""
    rng = np.random.default_rng(rng)
    row, column = np.nonzero(~np.isnan(X))
    out = rng.random(len(row)) < held_out
    seen = X.copy()
    seen[row[out], column[out]] = np.nan
    hidden = X[row[out], column[out]]
    errors = [
        float(np.mean((fill.at(row[out], column[out]) - hidden) ** 2))
        for fill in soft_impute_path(observed_cells(seen), **options)
    ]
    return ALPHAS[int(np.argmin(errors))]


def soft_fill(X: Array, alpha: float, **options: Any) -> Array:
    """X with its gaps filled by soft-impute at one lambda."""
    (fill,) = soft_impute_path(observed_cells(X), (alpha,), **options)
    return np.where(np.isnan(X), fill.table(), X)
