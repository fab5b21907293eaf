"""Leave-one-out ridge regression of the responses on blocks of columns, in passes of additive sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import sum_parts, workspace
from ..factor import eigh
from ..moments import Additive, TripleMoments
from ._tiles import block_slices, column_part, rows_along, tiles

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# ridges in units of the mean eigenvalue: next to nothing, then from a ten-thousandth to some hundred
GRID = np.concatenate([[1e-7], 10.0 ** np.linspace(-4.0, 2.5, 14)])


@dataclass(frozen=True)
class Axes:
    r"""Principal axes of a set of standardised columns: rows become :math:`a = T^\top (x - \mu)` with variances ``values``.

    ``columns`` are positions in the table; with deviations D and correlations :math:`R = V S V^\top` the map is
    :math:`T = D^{-1} V`.
    """

    columns: Index
    mean: Array
    map: Array
    values: Array

    def coordinates(self, X: Any) -> Array:
        """Rows in coordinates of the axes."""
        part = column_part(X, self.columns)
        if sparse.issparse(X):
            return np.asarray(part @ self.map - self.mean @ self.map)
        return np.subtract(part, self.mean, dtype=np.float64) @ self.map

    def covariances(self, L: Array, deviation: Array) -> Array:
        r"""Covariances of the columns with scores of directions L: :math:`\Sigma L = D V S V^\top D L`, with :math:`D V = D^2 T`."""
        lifted = self.map * deviation[:, None] ** 2
        return np.asarray(lifted @ (self.values[:, None] * (lifted.T @ L)))


def principal_axes(
    covariance: Array, columns: Index, mean: Array, *, unit: bool = False, scale: Array | None = None
) -> Axes:
    """Axes of standardised columns (``unit``: they have the right units already); constant columns have no part.

    ``scale``: deviations to divide by, where they are not those of the covariance.
    """
    variance = np.diag(covariance)
    if scale is None:
        scale = np.ones(len(mean)) if unit else np.sqrt(np.where(variance > 0, variance, 1.0))
    values, V = eigh(covariance / scale / scale[:, None])
    to_axes = V[:, ::-1] / scale[:, None]
    to_axes[variance <= 0] = 0.0
    values = np.maximum(values[::-1], 0.0)
    return Axes(columns, mean, to_axes, values if values.any() else np.ones_like(values))


@dataclass(frozen=True)
class LooSums(Additive):
    """Sums over rows, for every ridge: squared leave-one-out errors of each response, and Y'F of the predictions."""

    _shared: ClassVar[tuple[str, ...]] = ()

    error: Array  # ridges x responses
    agreement: Array  # ridges x responses x responses


@dataclass(frozen=True)
class RidgePath:
    r"""Ridge regressions of standardised responses on the coordinates of ``axes``, for several ridges.

    With :math:`c = E[a\,y^\top]` predictions are :math:`f = a^\top (S + \lambda)^{-1} c`, the leverage of one row of
    n is :math:`h = (1 + a^\top (S + \lambda)^{-1} a)/n`, and :math:`(y - f)/(1 - h)` is the exact error of leaving it out.
    """

    axes: Axes
    ridges: Array
    cross: Array
    count: float

    def loo(self, X: Any, Y: Array) -> tuple[Array, Array]:
        """Leave-one-out errors (rows x ridges x responses) and the coordinates of rows."""
        A = self.axes.coordinates(X)
        return self.errors(A.T, Y.T).transpose(2, 0, 1).copy(), A

    def errors(self, A: Array, V: Array) -> Array:
        """Leave-one-out errors, ridges x responses x rows, of coordinates and responses that have rows as columns.

        Products for all ridges at once, in memory that lasts until the next call.
        """
        inverse = 1.0 / (self.axes.values + self.ridges[:, None])  # ridges x coordinates
        (size, k), (q, n) = inverse.shape, V.shape
        keep = workspace("auto.keep", (size, n))
        np.matmul(
            inverse * (-1.0 / self.count), np.multiply(A, A, out=workspace("auto.square", (k, n))), out=keep
        )
        keep += 1.0 - 1.0 / self.count
        np.maximum(keep, 1e-14, out=keep)
        error = workspace("auto.errors", (size * q, n))
        np.matmul((inverse[:, None, :] * self.cross.T).reshape(size * q, k), A, out=error)
        error = error.reshape(size, q, n)
        np.subtract(V, error, out=error)
        return np.divide(error, keep[:, None, :], out=error)

    def sums(self, A: Array, V: Array, w: Array) -> LooSums:
        """Sums over rows of their coordinates and responses, which have rows as columns."""
        (q, n), size = V.shape, len(self.ridges)
        error = self.errors(A, V).reshape(size * q, n)
        target = V * w
        left = (error @ target.T).reshape(size, q, q)  # ridge, predicted, responses
        np.multiply(error, error, out=error)
        return LooSums(error=(error @ w).reshape(size, q), agreement=target @ V.T - left.transpose(0, 2, 1))


@dataclass(frozen=True)
class ResponseMap:
    """Responses as the ridge sees them: (y - mean)/unit map, standardised numbers or whitened indicators of labels.

    ``unit``: powers of two, as 1/unit of a subnormal response is no number.
    """

    mean: Array
    map: Array
    unit: Array | float = 1.0

    def __call__(self, Y: Array) -> Array:
        """Map rows."""
        return (Y - self.mean) / self.unit @ self.map


def response_map(mean: Array, covariance: Array, *, labels: bool) -> ResponseMap:
    """Standardise numbers; whiten indicators, whose last direction is spanned by the others."""
    if not labels:
        variance = np.diag(covariance)
        return ResponseMap(mean, np.diag(1.0 / np.sqrt(np.where(variance > 0, variance, 1.0))))
    values, V = eigh(covariance)
    kept = values > 1e-10 * values[-1]
    return ResponseMap(mean, V[:, kept] / np.sqrt(values[kept]))


@dataclass(frozen=True)
class LooPlan:
    """``plan(X, Y, weights)``: leave-one-out sums of several ridge paths in one pass."""

    paths: tuple[RidgePath, ...]
    response: ResponseMap

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> LooPaths:
        """Statistic of one chunk."""
        joint = self.paths[-1].axes
        return sum_parts(
            self.of_rows(Z, self.response(Y[rows]), None if weights is None else weights[rows])
            for rows, Z in tiles(X, joint.columns, joint.mean)
        )

    def of_rows(self, Z: Any, V: Array, weights: Array | None) -> LooPaths:
        """Statistic of a tile of centred rows (columns of all blocks, as the last path has them)."""
        w = np.ones(len(V)) if weights is None else weights
        Vt = np.ascontiguousarray(V.T)
        places = block_slices([len(path.axes.columns) for path in self.paths])
        sums = []
        for path, place in zip(self.paths, places, strict=True):
            axes = path.axes
            out = workspace("auto.axes", (axes.map.shape[1], len(V)))
            sums.append(path.sums(rows_along(Z, place, axes.mean, axes.map, out, flipped=True), Vt, w))
        return LooPaths(tuple(sums))


@dataclass(frozen=True)
class LooPaths:
    """Leave-one-out sums of several ridge paths."""

    paths: tuple[LooSums, ...]

    def __add__(self, other: LooPaths) -> LooPaths:
        return LooPaths(tuple(a + b for a, b in zip(self.paths, other.paths, strict=True)))

    def absorb(self, other: LooPaths) -> LooPaths:
        """``self + other`` in the arrays of ``self``."""
        return LooPaths(tuple(a.absorb(b) for a, b in zip(self.paths, other.paths, strict=True)))


@dataclass(frozen=True)
class Ridge:
    """A chosen ridge: its axes, value, held-out R2, and the symmetric held-out covariance of y and predictions."""

    axes: Axes
    ridge: float
    cross: Array
    r2: float
    agreement: Array
    count: float

    @property
    def path(self) -> RidgePath:
        """The path of this ridge alone."""
        return RidgePath(self.axes, np.array([self.ridge]), self.cross, self.count)

    @property
    def root(self) -> Array:
        """(S + ridge)^(1/2) along the axes."""
        return np.sqrt(self.axes.values + self.ridge)

    def held_out(self, B: Array, scale: Array, V: Array) -> Array:
        """Leave-one-out errors of rows x responses V, from B with the coordinates a = scale * b of the rows."""
        weight = scale / (self.axes.values + self.ridge)
        keep = np.multiply(B, B, out=workspace("auto.square", B.shape)) @ (
            scale * weight * (-1.0 / self.count)
        )
        keep += 1.0 - 1.0 / self.count
        np.maximum(keep, 1e-14, out=keep)
        error = V - B @ (weight[:, None] * self.cross)
        return np.divide(error, keep[:, None], out=error)

    @property
    def whitened_cross(self) -> Array:
        """E[a y'] of whitened coordinates a = (S + ridge)^(-1/2) x."""
        return self.cross / self.root[:, None]


def choose_ridge(path: RidgePath, sums: LooSums, n_columns: int | None = None, steps: int = 0) -> Ridge:
    """The ridge of least leave-one-out error, or ``steps`` of the grid more.

    For a metric (``n_columns`` given) it is the least of the grid where nothing linear speaks and rows are plenty.
    """
    n = path.count
    r2 = 1.0 - sums.error.sum(axis=1) / (n * sums.error.shape[1])
    best = min(least_ridge(r2, n, n_columns) + steps, len(r2) - 1)
    agreement = sums.agreement[best] / n
    symmetric = (agreement + agreement.T) / 2
    return Ridge(path.axes, float(path.ridges[best]), path.cross, float(r2[best]), symmetric, n)


def triple_responses(total: TripleMoments, *, labels: bool) -> tuple[Array, ResponseMap]:
    """E[(x - mean) v'] and the responses v: standardised numbers, or whitened indicators of labels."""
    n, dy = total.count, total.y / total.count
    units = np.broadcast_to(total.scale_y, dy.shape)
    mapped = response_map(dy, total.yy / n - np.outer(dy, dy), labels=labels)
    linear = total.xy / n - np.outer(total.x / n, dy)  # responses in the plan's units
    return linear @ mapped.map, ResponseMap(total.shift_y + dy * units, mapped.map, units)


def least_ridge(r2: Array, count: float, n_columns: int | None = None) -> int:
    """The place in the grid of the largest held-out R2.

    The first of all where ``n_columns`` are given, R2 < 1/sqrt(n) and n > 5 columns: nothing linear speaks then.
    """
    best = int(np.argmax(r2))
    return 0 if n_columns is not None and r2[best] < 1.0 / np.sqrt(count) and count > 5 * n_columns else best


def ridge_paths(axes: Sequence[Axes], cross: Sequence[Array], count: float) -> tuple[RidgePath, ...]:
    """Paths over the grid, in units of each mean eigenvalue."""
    return tuple(
        RidgePath(a, GRID * min(_mean_eigenvalue(a.values), 1e300), c, count)
        for a, c in zip(axes, cross, strict=True)
    )


def _mean_eigenvalue(values: Array) -> float:
    """Of the axes along which something varies."""
    return float(values.sum() / np.count_nonzero(values > 1e-10 * values.max()))
