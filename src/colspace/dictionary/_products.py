"""Products of some rows with thin matrices: in the dtype of the rows, and the way round that BLAS is fast at."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._rows import as_array, is_dask, reduce_rows
from ._losses import Array

_FAR = 1e18  # beyond this, or its inverse, single precision may leave its range


def forward(X: Any, W: Array) -> Array:
    """X W (n x k): as (W'X')' in float64, where it takes two thirds of the time."""
    if not sparse.issparse(X):  # whose entries would be sorted, each time anew
        X = as_array(X)
    if X.dtype == np.float32:
        W, unit = _single(W)
        return unit * np.asarray(X @ W, dtype=np.float64)
    if sparse.issparse(X) or W.shape[1] < 2:
        return np.asarray(X @ W, dtype=np.float64)
    return np.asarray((np.ascontiguousarray(W.T) @ X.T).T, dtype=np.float64)


def backward(X: Any, R: Array) -> Array:
    """X'R (p x k), as (R'X)'."""
    unit = 1.0
    if X.dtype == np.float32:
        R, unit = _single(R)
    if sparse.issparse(X):
        return unit * np.asarray(X.T @ R, dtype=np.float64)
    return unit * np.asarray((np.ascontiguousarray(R.T) @ X).T, dtype=np.float64)


def _single(R: Array) -> tuple[Any, float]:
    """A matrix in single precision and the unit it is in: 1 unless it is far from there."""
    size = float(np.abs(R).max(initial=0.0))
    unit = size if np.isfinite(size) and (size > _FAR or 0.0 < size < 1.0 / _FAR) else 1.0
    return (R / unit if unit != 1.0 else R).astype(np.float32), unit


def second_moment(X: Any, Y: Any, Z: Any, w: Array, v: Any) -> Array:
    """X' diag(w) X of some rows (their labels and covariates unused)."""
    top = float(w.max(initial=0.0)) or 1.0
    root = None if np.all(w == 1.0) else np.sqrt(w / top).astype(X.dtype)
    unit = 1.0 if root is None else top
    if sparse.issparse(X):
        X = X if root is None else sparse.csr_array(X.multiply(root[:, None]))
        return unit * np.asarray((X.T @ X).toarray(), dtype=np.float64)
    X = X if root is None else root[:, None] * X
    if (
        X.dtype == np.float32 and X.size and max(X.max(), -X.min()) > 1e15
    ):  # squares may leave single precision
        X = X.astype(np.float64)
    return unit * np.asarray(X.T @ X, dtype=np.float64)


class _Least(float):
    """A number that keeps the smaller when added."""

    def __add__(self, other: float) -> _Least:
        return _Least(min(self, other))


def _least(X: Any) -> _Least:
    return _Least((X.data if sparse.issparse(X) else X).min(initial=0.0))


def check_nonnegative(X: Any) -> None:
    """Refuse negative entries, which nonnegative atoms and codes cannot rebuild."""
    least = float(reduce_rows(_least, X) if is_dask(X) else _least(X))
    if least < 0:
        msg = (
            f"Negative values in data (least {least:g}), which nonnegative atoms and codes cannot rebuild. "
            "Remedies: shift X by its column minima (X - X.min(axis=0)), or drop the sign constraint (positive=False)"
        )
        raise ValueError(msg)


def square_lengths(X: Any) -> Array:
    """||x_i||^2 of some rows."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def row_energy(X: Any, weight: Array) -> Any:
    """sum_i weight_i ||x_i||^2 of some rows."""
    return weight @ square_lengths(X)
