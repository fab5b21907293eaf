"""Columns of a table: those of the atoms, covariates, and copies; what a Dask table must be for a solver that keeps codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._overflow import overflow_error
from .._rows import as_array, dask_partitions, frame_array, is_dask, reduce_rows
from .._validation import checked_chunk
from ..moments import Additive
from ._losses import Array

_LARGEST = 1e100  # of an entry


def split_columns(X: Any, columns: NDArray[np.intp], skipped: NDArray[np.intp]) -> tuple[Any, Array]:
    """The columns of the atoms (a view where they lie side by side) and the covariates."""
    if not len(skipped):
        return _floats(X), np.zeros((X.shape[0], 0))
    return _floats(_some(X, columns)), np.asarray(dense(X[:, skipped]), dtype=np.float64)


def columns_of_dask(X: Any, columns: NDArray[np.intp], skipped: NDArray[np.intp]) -> tuple[Any, Array]:
    """The same of a Dask array, the covariates in memory."""
    if not len(skipped):
        return _floats(X), np.zeros((X.shape[0], 0))
    import dask

    take = dask.delayed(_covariates, pure=False)
    Z = np.concatenate(dask.compute(*(take(part, skipped) for part in dask_partitions(X)[0])))
    return _floats(_some(X, columns)), Z


def _covariates(part: Any, skipped: NDArray[np.intp]) -> Array:
    return np.asarray(dense(as_array(part)[:, skipped]), dtype=np.float64)


def _some(X: Any, columns: NDArray[np.intp]) -> Any:
    together = columns[-1] - columns[0] + 1 == len(columns)
    return X[:, columns[0] : columns[-1] + 1] if together else X[:, columns]


def dense(a: Any) -> NDArray[Any]:
    """A few columns in memory."""
    return np.asarray(a.toarray() if sparse.issparse(a) else a)


def _floats(X: Any) -> Any:
    return X if X.dtype in (np.float64, np.float32) else X.astype(np.float64)


def check_range(X: Any, names: Sequence[object] | None = None) -> None:
    """Refuse entries whose products with each other leave float64, by column."""
    values = X.data if sparse.issparse(X) else X
    largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    if largest > _LARGEST:
        raise overflow_error(X, names)
    if 0 < largest < 1 / _LARGEST:
        msg = (
            f"the largest entry of X is {largest:g}, and squares of such values underflow float64. Remedy: multiply X by a "
            "constant (sklearn.preprocessing.MaxAbsScaler)"
        )
        raise ValueError(msg)


def finite_rows(model: Any, name: str, X: Any) -> Any:
    """``model.name(X)``; refuses rows, by column, so far off that it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = getattr(model, name)(X)
    if out.dtype.kind == "f" and not np.isfinite(out).all():
        raise overflow_error(X)
    return out


# ---------------------------------------------------------------------- copies


@dataclass(frozen=True)
class Unequal(Additive):
    """Rows in which covariates (q) and columns (p) differ; the least and the largest value of each covariate."""

    count: NDArray[np.int64]
    low: Any
    high: Any

    @property
    def copies(self) -> NDArray[np.bool_]:
        """Which columns are copies of covariates that vary (q x p)."""
        return (self.count == 0) & (self.low.value < self.high.value)[:, None]


@dataclass(frozen=True)
class Extreme:
    """Values that keep the larger, times ``sign``, when added."""

    value: Array
    sign: float

    def __add__(self, other: Extreme) -> Extreme:
        pick = np.maximum if self.sign > 0 else np.minimum
        return Extreme(pick(self.value, other.value), self.sign)


def count_unequal(X: Any, Y: Any, Z: Array, w: Any, v: Any) -> Unequal:
    """The statistic of some rows (their labels and weights unused)."""
    count = np.stack([_unequal(X, z) for z in Z.T])
    return Unequal(count, Extreme(Z.min(axis=0), -1.0), Extreme(Z.max(axis=0), 1.0))


def _unequal(X: Any, z: Array) -> NDArray[np.int64]:
    """Rows in which each column of X differs from z."""
    n, p = X.shape
    if not sparse.issparse(X):
        return np.asarray((z[:, None] != X).sum(axis=0), dtype=np.int64)
    X = X.tocsr()
    rows = np.repeat(np.arange(n), np.diff(X.indptr))
    same = np.bincount(X.indices[X.data == z[rows]], minlength=p)
    absent = np.sum(z == 0) - np.bincount(X.indices[z[rows] == 0], minlength=p)
    return np.asarray(n - same - absent, dtype=np.int64)


def copied_columns(X: Any, Z: Array) -> NDArray[np.bool_]:
    """Which columns of X are copies of covariates that vary (q x p): those that a probe cannot tell apart are compared."""
    if is_dask(X):
        nothing = np.zeros((X.shape[0], 0))
        return reduce_rows(count_unequal, X, nothing, Z, nothing, nothing).copies
    probe = np.cos(np.arange(1.0, X.shape[0] + 1.0))
    seen, asked = np.asarray(X.T @ probe).ravel(), Z.T @ probe
    copies = np.zeros((Z.shape[1], X.shape[1]), dtype=bool)
    for k in np.flatnonzero(np.ptp(Z, axis=0) > 0):
        near = np.abs(seen - asked[k]) <= 1e-9 * max(abs(asked[k]), 1e-300)
        for j in np.flatnonzero(near):
            copies[k, j] = np.array_equal(dense(X[:, [j]])[:, 0], Z[:, k])
    return copies


# ---------------------------------------------------------------------- Dask tables whose codes are kept


def known_rows(X: Any) -> Any:
    """A Dask collection as an array of finite numbers and known chunks."""
    X = frame_array(X) if hasattr(X, "to_dask_array") else X
    if any(np.isnan(size) for size in X.chunks[0]):
        X = X.compute_chunk_sizes()
    reduce_rows(partial(checked_chunk, len_of), X)
    return X


def len_of(X: Any) -> int:
    """Rows of a chunk, after a look at their range."""
    check_range(X)
    return int(X.shape[0])


def check_kept(X: Any, per_row: int, why: str) -> None:
    """Refuse what would bring more numbers to the client than the largest partition of a Dask array has."""
    rows = X.chunks[0]
    if per_row * sum(rows) > max(rows) * X.shape[1]:
        msg = (
            f"{why}: {per_row} numbers for each of {sum(rows)} rows, more than a partition of the Dask table "
            f"({max(rows)} x {X.shape[1]}) has. Remedies: model='filter' with solver='lbfgs' and neither l1, bounds, "
            "step nor radius, which keeps nothing per row; fewer components; larger chunks; or a sample of rows in memory"
        )
        raise ValueError(msg)
