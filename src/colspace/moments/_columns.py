"""Column-wise sums: means, variances and what Ledoit-Wolf shrinkage needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._overflow import ColumnOverflowError
from ._additive import Additive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnMoments(Additive):
    """Sum of weights, sums and sums of squares of shifted columns; ``rows`` counts those with a weight."""

    _shared: ClassVar[tuple[str, ...]] = ("shift",)

    shift: Array
    rows: int
    count: float
    total: Array
    square: Array

    @property
    def mean(self) -> Array:
        """Column means."""
        return self.shift + self.total / self.count

    @property
    def variance(self) -> Array:
        """Column variances (1/m); exactly zero for constant columns."""
        raw = self.square / self.count
        variance = raw - (self.total / self.count) ** 2
        return np.where(is_flat(variance, raw), 0.0, variance)


def is_flat(variance: Array, raw: Array) -> NDArray[np.bool_]:
    """Whether a variance is lost in the rounding of the raw second moment it came from."""
    return variance <= 1e-12 * raw


def clear_flat(covariance: Array, raw: Array) -> Array:
    """The covariance with exact zeros for constant columns; ``raw`` holds raw second moments.

    Refuses, by position, a column whose variance is no number.
    """
    if not np.isfinite(covariance).all():
        column = int(np.argmax(~np.isfinite(np.diag(covariance))))
        msg = (
            f"column {column} holds values whose variance overflows float64 (1.8e308). Remedies: divide the column by "
            "a constant, take its logarithm, or correct the cell"
        )
        raise ColumnOverflowError(msg)
    flat = is_flat(np.diag(covariance), raw)
    covariance[flat, :] = covariance[:, flat] = 0.0
    return covariance


def column_moments(X: Any, weights: Array | None = None, *, shift: Array) -> ColumnMoments:
    """Statistic of a chunk; the zeros of a sparse chunk are shifted by counting them."""
    m, n = X.shape
    rows = m if weights is None else int(np.count_nonzero(weights))
    count = m if weights is None else float(weights.sum())
    if sparse.issparse(X):
        X = X.tocsr()
        stored = X.data.astype(np.float64) - shift[X.indices]
        each = np.ones(X.nnz) if weights is None else np.repeat(weights, np.diff(X.indptr))
        absent = count - np.bincount(X.indices, each, minlength=n)
        total = np.bincount(X.indices, each * stored, minlength=n) - absent * shift
        square = np.bincount(X.indices, each * stored**2, minlength=n) + absent * shift**2
        return ColumnMoments(shift, rows, count, total, square)
    Z = np.subtract(X, shift, dtype=np.float64)
    if weights is None:
        return ColumnMoments(shift, rows, count, Z.sum(axis=0), np.einsum("ij,ij->j", Z, Z))
    return ColumnMoments(shift, rows, count, weights @ Z, np.einsum("i,ij,ij->j", weights, Z, Z))


@dataclass(frozen=True)
class TableMoments(Additive):
    """Column moments of the features and of the responses."""

    x: ColumnMoments
    y: ColumnMoments


def table_moments(
    X: Any, Y: Array, weights: Array | None = None, *, shift_x: Array, shift_y: Array
) -> TableMoments:
    """Statistic of a chunk of features and responses."""
    return TableMoments(column_moments(X, weights, shift=shift_x), column_moments(Y, weights, shift=shift_y))


def fourth_norms(
    X: Any, Y: Any, weights: Array | None = None, *, mean: Array, scale: Array, columns: tuple[Any, ...]
) -> Array:
    """Per block, the sum over rows of ||(x - mean)/scale||^4: the one extra sum of Ledoit-Wolf (Y unused)."""
    if sparse.issparse(X):
        # ||(x - mean)/scale||^2 = ||x/scale||^2 - 2 x'mean/scale^2 + ||mean/scale||^2, no dense row
        inverse, centre = 1.0 / scale, mean / scale
        X = X.astype(np.float64) @ sparse.diags_array(inverse)
        norms = [
            np.asarray(X.multiply(X)[:, c].sum(axis=1)).ravel()
            - 2 * (X[:, c] @ centre[c])
            + centre[c] @ centre[c]
            for c in columns
        ]
    else:
        Z = (X - mean) / scale
        norms = [np.einsum("ij,ij->i", Z[:, c], Z[:, c]) for c in columns]
    w = np.ones(X.shape[0]) if weights is None else weights
    return np.array([np.sum(w * n**2) for n in norms])
