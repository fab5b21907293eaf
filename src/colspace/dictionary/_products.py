"""Products of some rows with thin matrices: in the dtype of the rows, and the way round that BLAS is fast at."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._rows import as_array
from ._losses import Array

_FAR = 1e18  # beyond this, or its inverse, single precision may leave its range


def forward(X: Any, W: Array) -> Array:
    """X W (n x k): as (W'X')' in float64, where it takes two thirds of the time."""
    X = (
        X if sparse.issparse(X) else as_array(X)
    )  # which would sort the entries of a sparse table, each time anew
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
    ):  # whose squares may leave single precision
        X = X.astype(np.float64)
    return unit * np.asarray(X.T @ X, dtype=np.float64)
