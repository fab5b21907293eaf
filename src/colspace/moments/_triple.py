"""Moments of columns with columns, weighted by responses: the sums behind every spectral estimator.

With rows x = (a, b, ...) and responses y the pass adds up, on data shifted by constants near the mean,

    sum x,  sum y,  sum y y',  sum x y',  sum x_i x_j',  sum y_k x_i x_j'

for the pairs of blocks (i, j) asked for, each row counted by its weight. Responses are divided by a constant
near their spread, so that no product of three numbers overflows. Centring is exact algebra on these small sums
afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.blas import dsyrk

from .._rows import is_workspace, workspace
from ._additive import Additive
from ._columns import clear_flat, is_flat

Array = NDArray[np.float64]
Pair = tuple[int, int]


@dataclass(frozen=True)
class TripleMoments(Additive):
    """Raw sums of shifted data; ``xx`` and ``xyx`` are keyed by block pairs (i, j), i <= j.

    ``count`` is the sum of the weights, ``rows`` the number of rows that have one; y is in units of ``scale_y``.
    """

    _shared: ClassVar[tuple[str, ...]] = ("shift_x", "shift_y", "scale_y", "slices")

    shift_x: Array
    shift_y: Array
    scale_y: Array | float
    slices: tuple[slice, ...]
    rows: int
    count: float
    x: Array
    y: Array
    yy: Array
    xy: Array
    xx: dict[Pair, Array]
    xyx: dict[Pair, Array]

    @property
    def y_variance(self) -> Array:
        """Variances of the responses in units of ``scale_y``; exactly zero for constant ones."""
        raw = np.diag(self.yy) / self.count
        variance = raw - (self.y / self.count) ** 2
        return np.where(is_flat(variance, raw), 0.0, variance)

    @property
    def y_deviation(self) -> Array:
        """Standard deviations of the responses; one for constant ones."""
        deviation = np.sqrt(self.y_variance) * self.scale_y
        return np.where(deviation > 0, deviation, 1.0)


@dataclass(frozen=True)
class TriplePlan:
    """What to add up, and on which shift: ``plan(X, Y, weights)`` is the statistic of a chunk of rows.

    Parameters
    ----------
    slices : where each block stands once columns are in ``order``.
    order : columns in block order, None when they already are.
    shift_x, shift_y : constants taken off before anything is multiplied.
    plain, weighted : pairs of blocks for sum x_i x_j' and sum y x_i x_j'.
    keep_sparse : multiply sparse chunks as they are (needs a zero shift).
    scale_y : constants by which the responses are divided.
    """

    slices: tuple[slice, ...]
    order: NDArray[np.intp] | None
    shift_x: Array
    shift_y: Array
    plain: tuple[Pair, ...]
    weighted: tuple[Pair, ...]
    keep_sparse: bool = False
    scale_y: Array | float = 1.0

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> TripleMoments:
        """Statistic of one chunk."""
        V = np.asarray(Y, dtype=np.float64)
        V = ((V if V.ndim == 2 else V[:, None]) - self.shift_y) / self.scale_y
        Z = self.columns(X)
        W = V if weights is None else V * weights[:, None]
        weighted: dict[Pair, list[Array]] = {pair: [] for pair in self.weighted}
        for k in range(V.shape[1] if self.weighted else 0):
            for pair, g in self._products(Z, W[:, k], self.weighted).items():
                weighted[pair].append(g)
        return TripleMoments(
            shift_x=self.shift_x,
            shift_y=self.shift_y,
            scale_y=self.scale_y,
            slices=self.slices,
            rows=len(V) if weights is None else int(np.count_nonzero(weights)),
            count=len(V) if weights is None else float(weights.sum()),
            x=np.asarray(Z.sum(axis=0) if weights is None else Z.T @ weights).ravel(),
            y=W.sum(axis=0),
            yy=V.T @ W,
            xy=np.asarray(Z.T @ W),
            xx=self._products(Z, weights, self.plain),
            xyx={pair: np.stack(g) for pair, g in weighted.items()},
        )

    def _all(self, pairs: tuple[Pair, ...]) -> bool:
        return len(pairs) == len(self.slices) * (len(self.slices) + 1) // 2

    def columns(self, X: Any) -> Any:
        """The chunk in block order, float64, shifted; a dense one lasts until the next, a workspace is shifted itself."""
        if sparse.issparse(X):
            X = X if self.order is None else X[:, self.order]
            if self.keep_sparse:
                return X.astype(np.float64, copy=False)
            return X.toarray().astype(np.float64, copy=False) - self.shift_x
        X = np.asarray(X)
        X = X if self.order is None else X[:, self.order]
        out = X if is_workspace(X) and X.dtype == np.float64 else workspace("columns", X.shape)
        return np.subtract(X, self.shift_x, dtype=np.float64, out=out)

    def _products(self, Z: Any, w: Array | None, pairs: tuple[Pair, ...]) -> dict[Pair, Array]:
        """Z_i' diag(w) Z_j for the pairs: one symmetric product when all are wanted."""
        s = self.slices
        if self._all(pairs):
            whole = weighted_gram(Z, w)
            return {(i, j): whole[s[i], s[j]] for i, j in pairs}
        found = {}
        for i, j in pairs:
            if i == j:
                found[i, j] = weighted_gram(Z[:, s[i]], w)
            else:
                found[i, j] = _dense(Z[:, s[i]].T @ _scale_rows(Z[:, s[j]], w))
        return found


def weighted_gram(Z: Any, w: Array | None = None) -> Array:
    """Z' diag(w) Z by symmetric rank updates, half the work of a general product.

    Rows are split by the sign of w and scaled by sqrt|w|; rows of weight zero cost nothing.
    """
    if w is None:
        return _dense(Z.T @ Z)
    if sparse.issparse(Z):
        return _dense(Z.T @ _scale_rows(Z, w))
    total = None
    for sign in (1.0, -1.0):
        rows = np.flatnonzero(sign * w > 0)
        if rows.size:
            part = np.take(Z, rows, axis=0, out=workspace("scaled", (rows.size, Z.shape[1])), mode="clip")
            part *= np.sqrt(np.abs(w[rows]))[:, None]
            gram = part.T @ part
            total = sign * gram if total is None else np.add(total, sign * gram, out=total)
    return np.zeros((Z.shape[1], Z.shape[1])) if total is None else total


def add_gram(total: Array, Z: Array, w: Array | None = None) -> None:
    """Add Z' diag(w) Z to the lower half of ``total`` (C-contiguous), in place; Z is dense, its rows contiguous.

    ``mirrored`` makes the sum whole.
    """
    if w is None:
        _rank_update(total, 1.0, Z)
        return
    for sign in (1.0, -1.0):
        rows = np.flatnonzero(sign * w > 0)
        part = np.take(Z, rows, axis=0, out=workspace("scaled", (rows.size, Z.shape[1])), mode="clip")
        part *= np.sqrt(np.abs(w[rows]))[:, None]
        _rank_update(total, sign, part)


def _rank_update(total: Array, sign: float, Z: Array) -> None:
    """What BLAS has as columns is stored here as rows: its upper half is the lower one here."""
    if len(Z):
        dsyrk(sign, Z.T, beta=1.0, c=total.T, overwrite_c=1)


def mirrored(total: Array) -> Array:
    """A symmetric matrix from its lower half, in place."""
    for i, row in enumerate(total):
        total[:i, i] = row[:i]
    return total


def _scale_rows(Z: Any, w: Array | None) -> Any:
    if w is None:
        return Z
    if sparse.issparse(Z):
        return sparse.diags_array(w) @ Z
    return np.multiply(Z, w[:, None], out=workspace("scaled", Z.shape))


def _dense(product: Any) -> Array:
    return product.toarray() if sparse.issparse(product) else product


@dataclass(frozen=True)
class CentredMoments:
    """Means and central moments, y scaled to unit variance.

    ``linear`` is E[y' x'] (features x responses); ``covariance[i, j]`` and
    ``triple[i, j]`` (responses x n_i x n_j) are keyed by block pairs.
    """

    rows: int
    count: float
    mean: Array
    y_mean: Array
    y_scale: Array
    linear: Array
    covariance: dict[Pair, Array]
    triple: dict[Pair, Array]
    slices: tuple[slice, ...]


def centre(m: TripleMoments, y_scale: Array | None = None) -> CentredMoments:
    """Central moments from raw sums; responses divided by ``y_scale`` (default: their deviation)."""
    n = m.count
    dx, dy = m.x / n, m.y / n
    y_scale = m.y_deviation if y_scale is None else y_scale
    with np.errstate(over="ignore"):  # of responses that are subnormal: refused by column
        unit = y_scale / m.scale_y
    linear = m.xy / n - np.outer(dx, dy)
    part = [dx[s] for s in m.slices]
    linear_part = [linear[s] for s in m.slices]
    with np.errstate(over="ignore", invalid="ignore"):  # refused by column
        raw = {pair: g / n for pair, g in m.xx.items()}
        covariance = {(i, j): g - np.outer(part[i], part[j]) for (i, j), g in raw.items()}
    for i, j in covariance:
        if i == j:
            clear_flat(covariance[i, i], np.diag(raw[i, i]))
    triple = {}
    for (i, j), g in m.xyx.items():
        t = g / n
        if (i, j) in m.xx:
            t -= dy[:, None, None] * (m.xx[i, j] / n)
        elif (np.abs(dy) > 1e-9 * unit).any():
            msg = (
                f"central moments of blocks {i, j} need their cross products unless y is shifted by its mean"
            )
            raise ValueError(msg)
        t -= linear_part[i].T[:, :, None] * part[j]
        t -= part[i][:, None] * linear_part[j].T[:, None, :]
        triple[i, j] = t / unit[:, None, None]
    return CentredMoments(
        rows=m.rows,
        count=n,
        mean=m.shift_x + dx,
        y_mean=m.shift_y + dy * m.scale_y,
        y_scale=y_scale,
        linear=linear / unit,
        covariance=covariance,
        triple=triple,
        slices=m.slices,
    )
