"""Kernels between the entities of one side: of features, given as similarities, and of the links themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from .._containers import as_table
from ..factor import eigh, fix_signs
from ._features import TABLE, Features, check_features, check_same_columns, index_of
from ._kernel import median_distance
from ._links import shown

Array = NDArray[np.float64]
Index = NDArray[np.intp]

TAILS = (
    "gaussian",
    "multiquadric",
    "root-multiquadric",
)  # kernels of distances in bandwidths, the heavier the later
DISTANCES = ("auto", *TAILS)
METRICS = (*DISTANCES, "linear", "cosine", "precomputed")
_OUTERMOST = 1e140  # deviations of a feature: squares of it can be added
_FARTHEST = 1e300  # squared distance in units of the median: nothing there is seen
_ROUNDING = 1e-8  # of the largest similarity: asymmetry and negative eigenvalues up to this are rounding
_UNIT = "the mean of the diagonal is zero, so no entity is similar to itself"


@dataclass(frozen=True)
class Base:
    """A kernel of one side before its width: features as it sees them, or similarities, in its own unit."""

    metric: str
    values: Any
    mean: Any
    scale: Any
    unit: float

    def see(self, X: Any) -> Any:
        """Features of other entities as the kernel sees them; similarities stay as they are."""
        if self.metric == "precomputed":
            return X
        with np.errstate(over="ignore"):
            Z = np.clip((X - self.mean) / self.scale, -_OUTERMOST, _OUTERMOST)
        return _unit_rows(Z) if self.metric == "cosine" else Z

    def raw(self, Z: Any, index: Index | None = None) -> Any:
        """Squared distances (of kernels of these) or similarities of seen rows to the training entities, or some of them."""
        if self.metric == "precomputed":
            return (Z if index is None else Z[:, index]) / self.unit
        other = self.values if index is None else self.values[index]
        D = Z @ other.T
        if self.metric in DISTANCES:
            D *= -2.0
            D += np.einsum("ij,ij->i", Z, Z)[:, None]
            D += np.einsum("ij,ij->i", other, other)
            np.clip(D, 0.0, _FARTHEST * min(self.unit, 1.0), out=D)
        D /= self.unit
        return D

    def kernel(self, raw: Any, bandwidth: float, heavy: int = 0) -> Any:
        """exp(-d^2 / 2 bandwidth^2), (1 + d^2 / bandwidth^2)^-1/2 for "multiquadric" and its root for "root-multiquadric"; "auto"
        is that of ``TAILS`` at the place ``heavy``. Distances d are in units of the median; or the similarity."""
        if self.metric not in DISTANCES:
            return raw
        metric = named(self, heavy).metric
        if metric != "gaussian":
            K = raw / bandwidth**2
            K += 1.0
            np.sqrt(K, out=K)
            if metric == "root-multiquadric":
                np.sqrt(K, out=K)
            return np.divide(1.0, K, out=K)
        K = raw * (-0.5 / bandwidth**2)
        return np.exp(K, out=K)


def named(base: Base, heavy: int) -> Base:
    """The kernel by the name of what "auto" has found."""
    return base if base.metric != "auto" else replace(base, metric=TAILS[heavy])


def base_kernel(X: Array, metric: str, *, standardise: bool = True) -> Base:
    """A kernel of the training entities' features (columns centred, in units of their deviation), or similarities."""
    if metric == "precomputed":
        unit = float(np.mean(np.diagonal(X)))
        return Base(metric, X, None, None, unit)
    p = X.shape[1]
    mean, scale = np.zeros(p), np.ones(p)
    if standardise and metric != "cosine":
        spread = np.ptp(X, axis=0)  # exactly zero for constants
        mean = X[0] + (X - X[0]).mean(axis=0)
        unit_of = np.where(spread > 0, spread, 1.0)  # no square leaves float64
        scale = np.where(spread > 0, unit_of * ((X - X[0]) / unit_of).std(axis=0), 1.0)
    base = Base(metric, None, mean, scale, 1.0)
    Z = base.see(X)
    if metric in DISTANCES:
        unit = median_distance(Z) ** 2
    else:
        unit = float(np.mean(np.einsum("ij,ij->i", Z, Z))) or 1.0
    return Base(metric, Z, mean, scale, unit)


def _unit_rows(Z: Array) -> Array:
    size = np.abs(Z).max(axis=1, keepdims=True)
    Z = Z / np.where(size > 0, size, 1.0)
    length = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.asarray(Z / np.where(length > 0, length, 1.0))


def profile_kernel(Y: Any, rows: Index, columns: Index) -> Any:
    """exp(-|y_i - y_p|^2 / mean of |y|^2) for entities with links, zero for those without; rows of Y are entities."""
    size = np.asarray(Y.multiply(Y).sum(axis=1)).ravel()
    linked = size > 0
    unit = float(size[linked].mean()) if linked.any() else 1.0
    D = (Y[rows] @ Y[columns].T).toarray() * (-2.0)
    D += size[rows, None]
    D += size[columns]
    K = np.exp(np.maximum(D, 0.0) / -unit)
    return K * linked[rows, None] * linked[columns]


def check_similarities(S: Any, side: str) -> Features:
    """A symmetric positive semidefinite table of similarities between the entities of one side, with their names."""
    table = TABLE[side]
    names = index_of(S)
    values = _numbers(S, table)
    if values.shape[0] != values.shape[1]:
        msg = (
            f"{table} has shape {values.shape}, but metric='precomputed' takes similarities of each entity with each: a "
            "square table. Features go with metric='gaussian'"
        )
        raise ValueError(msg)
    if names is not None:
        _check_order(list(S.columns), list(names), table, "rows")
    _check_finite(values, table, names)
    top = float(np.abs(values).max(initial=0.0))
    gap = float(np.abs(values - values.T).max(initial=0.0))
    if gap > _ROUNDING * top:
        i, j = (int(k) for k in np.unravel_index(int(np.argmax(np.abs(values - values.T))), values.shape))
        msg = (
            f"{table} is not symmetric: entities {_name(names, i)!r} and {_name(names, j)!r} have the similarities "
            f"{values[i, j]:.6g} and {values[j, i]:.6g}. Remedy: ({table} + {table}.T) / 2"
        )
        raise ValueError(msg)
    values = (values + values.T) / 2
    shifted = values.copy()
    shifted[np.diag_indices_from(shifted)] += max(_ROUNDING * top * len(values), 1e-300)
    if linalg.get_lapack_funcs("potrf", (shifted,))(shifted, overwrite_a=1)[1]:
        least = float(linalg.eigvalsh(values, subset_by_index=[0, 0])[0])
        msg = (
            f"{table} is not positive semidefinite: its least eigenvalue is {least:.6g}, so it is no kernel. Remedy: add "
            f"{-1.01 * least:.3g} to its diagonal ({table} + {-1.01 * least:.3g} * np.eye({len(values)})), or give "
            f"colspace.pairs.spectral_features({table}) as features"
        )
        raise ValueError(msg)
    if not np.mean(np.diagonal(values)) > 0:
        msg = f"{table} is zero: {_UNIT}. Give similarities above zero"
        raise ValueError(msg)
    return Features(values, names, None)


def check_new_similarities(S: Any, side: str, n: int, entities: Any) -> Features:
    """Similarities of other entities (rows) to those of fit (columns)."""
    table = TABLE[side]
    values = _numbers(S, table)
    if entities is not None and hasattr(S, "iloc"):
        _check_order(list(S.columns), list(entities), table, "entities of fit")
    if values.shape[1] != n:
        msg = (
            f"{table} has similarities to {values.shape[1]} entities, but fit had {n}; with metric='precomputed' rows are "
            "the new entities and columns all those of fit, in their order"
        )
        raise ValueError(msg)
    names = index_of(S)
    _check_finite(values, table, names)
    return Features(values, names, None)


def principal_coordinates(S: Array, most: int = 200) -> tuple[Array, Array]:
    """Leading coordinates X of entities with X X' = S, and the matrix that makes those of others of their similarities."""
    values, vectors = eigh(S, min(most, len(S)), what="the similarities")
    kept = values > 1e-10 * values[-1]
    values, vectors = values[kept][::-1], fix_signs(vectors[:, kept][:, ::-1])
    return vectors * np.sqrt(values), vectors / np.sqrt(values)


def check_side(X: Any, side: str, metric: str) -> Features:
    """Features or similarities of the entities of one side."""
    return check_similarities(X, side) if metric == "precomputed" else check_features(X, side)


def check_new_side(X: Any, side: str, metric: str, n: int, like: Any, entities: Any) -> Features:
    """The same of other entities, with the columns that fit saw (their number and names)."""
    if metric == "precomputed":
        return check_new_similarities(X, side, n, entities)
    found = check_features(X, side)
    check_same_columns(found, side, *like)
    return found


def _numbers(S: Any, table: str) -> Array:
    values = S if sparse.issparse(S) else as_table(S, table).values
    values = values.toarray() if sparse.issparse(values) else np.asarray(values)
    if values.ndim != 2:
        msg = f"{table} has {values.ndim} dimension(s); similarities are a table of entities x entities"
        raise ValueError(msg)
    return values.astype(np.float64)


def _name(names: Any, i: int) -> Any:
    return i if names is None else names[i]


def _check_order(columns: list[Any], names: list[Any], table: str, what: str) -> None:
    if columns == names:
        return
    if set(columns) == set(names):
        msg = f"columns of {table} name the {what} in another order; use {table}[names] with the names of the {what}"
        raise ValueError(msg)
    here, known = set(columns), set(names)
    odd = [c for c in columns if c not in known]
    lost = [n for n in names if n not in here]
    told = [f"{shown(odd)} are none of them"] if odd else []
    told += [f"similarities to {shown(lost)} are missing"] if lost else []
    told = told or ["some stand twice"]
    msg = f"columns of {table} are not the {what}: {', and '.join(told)}. Give one column for each of the {what}"
    raise ValueError(msg)


def _check_finite(values: Array, table: str, names: Any) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        rows = np.flatnonzero(bad.any(axis=1))
        msg = (
            f"{table} has {int(bad.sum())} similarities that are missing or infinite, of the entities "
            f"{shown([_name(names, int(i)) for i in rows])}. Fill them (0: not similar), or leave these entities out"
        )
        raise ValueError(msg)
