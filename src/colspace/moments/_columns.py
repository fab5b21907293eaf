"""Column-wise sums: means, variances and what Ledoit-Wolf shrinkage needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._additive import Additive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnMoments(Additive):
    """Count, sums and sums of squares of shifted columns."""

    _shared: ClassVar[tuple[str, ...]] = ("shift",)

    shift: Array
    count: int
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
    """The covariance with exact zeros for constant columns; ``raw`` holds raw second moments."""
    flat = is_flat(np.diag(covariance), raw)
    covariance[flat, :] = covariance[:, flat] = 0.0
    return covariance


def column_moments(X: Any, *, shift: Array) -> ColumnMoments:
    """Statistic of a chunk; the zeros of a sparse chunk are shifted by counting them."""
    if sparse.issparse(X):
        m, n = X.shape
        stored = X.data.astype(np.float64) - shift[X.indices]
        absent = m - np.bincount(X.indices, minlength=n)
        total = np.bincount(X.indices, stored, minlength=n) - absent * shift
        square = np.bincount(X.indices, stored**2, minlength=n) + absent * shift**2
        return ColumnMoments(shift, m, total, square)
    Z = np.subtract(X, shift, dtype=np.float64)
    return ColumnMoments(shift, Z.shape[0], Z.sum(axis=0), np.einsum("ij,ij->j", Z, Z))


@dataclass(frozen=True)
class TableMoments(Additive):
    """Column moments of the features and of the responses."""

    x: ColumnMoments
    y: ColumnMoments


def table_moments(X: Any, Y: Array, *, shift_x: Array, shift_y: Array) -> TableMoments:
    """Statistic of a chunk of features and responses."""
    return TableMoments(column_moments(X, shift=shift_x), column_moments(Y, shift=shift_y))


def fourth_norms(X: Any, Y: Any, *, mean: Array, scale: Array, columns: tuple[Any, ...]) -> Array:
    """Per block, the sum over rows of ||(x - mean)/scale||^4: the one extra sum of Ledoit-Wolf (Y unused)."""
    if sparse.issparse(X):
        # ||(x - mean)/scale||^2 = ||x/scale||^2 - 2 x'mean/scale^2 + ||mean/scale||^2, no dense row
        weight = 1.0 / scale**2
        X = X.astype(np.float64)
        norms = [
            X.multiply(X)[:, c] @ weight[c] - 2 * (X[:, c] @ (mean * weight)[c]) + mean[c] ** 2 @ weight[c]
            for c in columns
        ]
        return np.array([np.sum(n**2) for n in norms])
    Z = (X - mean) / scale
    return np.array([np.sum(np.einsum("ij,ij->i", Z[:, c], Z[:, c]) ** 2) for c in columns])
