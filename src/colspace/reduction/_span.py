"""Tables with more columns than rows: everything happens in the span of the rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._blocks import Blocks
from .._rows import CHUNK_BYTES
from ..factor import SingularCovarianceError, SingularCovarianceWarning, eigh
from ._source import Source

Array = NDArray[np.float64]

# eigenvalues of the rows' products under this share of the largest are rounding
_RANK_TOLERANCE = 1e-10
_LEAST = 0.02  # share of its variance that a column is taken to have of its own


@dataclass(frozen=True)
class Span:
    r"""A table whose wide blocks are given in coordinates of the span of their rows.

    With standardised columns :math:`Z` (n x p, n <= p) of a block, :math:`Z Z^\top = U S^2 U^\top` (n x n) gives the
    orthonormal basis :math:`V = Z^\top U S^{-1}` and coordinates :math:`A = Z V = U S` with
    at most n - 1 columns. Every moment of Z lies in the span of V, so directions found in A, shrunk towards the
    identity there, are those of Z: :math:`V L`. V is never formed.

    ``source`` and ``blocks`` are what estimators work on; ``mean``, ``deviation`` and ``scale`` (by which they
    were divided) are of the original columns.
    """

    source: Source
    blocks: Blocks
    original: Blocks
    mean: Array
    scale: Array
    deviation: Array
    factors: tuple[Array | None, ...]  # U S^-1 (rows x coordinates), None for a block that was not wide
    table: Any

    @property
    def unit(self) -> float:
        """Mean variance of the columns after division by ``scale`` (one where that is the deviation)."""
        if np.array_equal(self.scale, self.deviation):
            return 1.0
        return float(np.mean(self.deviation**2)) or 1.0

    def loadings(self, b: int, L: Array) -> Array:
        """Directions for the original columns of block b from directions in its coordinates."""
        columns, factor = self.original.columns[b], self.factors[b]
        if factor is None:
            return L * _inverse(self.scale[columns])[:, None]
        C = factor @ L
        out = np.empty((len(columns), L.shape[1]))
        for part, Z in _column_chunks(self.table, columns, self.mean, self.scale):
            out[part] = Z.T @ C
        return out * _inverse(self.scale[columns])[:, None]

    def covariances(self, b: int, C: Array) -> Array:
        """Covariances of the original columns of block b with scores, from those of its coordinates: D V C."""
        return self.loadings(b, C) * self.scale[self.original.columns[b]][:, None] ** 2

    def covariances_with(self, columns: NDArray[np.intp], L: Array) -> Array:
        """Covariances of original columns with the scores that directions L of these columns give."""
        scores, units = np.zeros((self.table.shape[0], L.shape[1])), np.ones_like(self.scale)
        for part, Z in _column_chunks(self.table, columns, self.mean, units):
            scores += Z @ L[part]
        weights = np.ones(len(scores)) if self.source.weights is None else self.source.weights
        out = np.empty_like(L)
        for part, Z in _column_chunks(self.table, columns, self.mean, units):
            out[part] = Z.T @ (scores * weights[:, None])
        return out / weights.sum()

    def mean_of_columns(self, b: int) -> Array:
        """The mean of the columns of block b, divided by ``scale``, in its coordinates: V' 1 / p."""
        columns, factor = self.original.columns[b], self.factors[b]
        if factor is None:
            return np.full(len(columns), 1.0 / len(columns))
        chunks = _column_chunks(self.table, columns, self.mean, self.scale)
        return np.asarray(factor.T @ sum(Z.sum(axis=1) for _, Z in chunks)) / len(columns)


def is_wide(source: Source, blocks: Blocks) -> bool:
    """Whether a block of a table in memory has at least as many columns as the table has rows."""
    return not source.dask and source.X.shape[0] <= max(blocks.widths)


def row_span(
    source: Source,
    blocks: Blocks,
    *,
    whiten: bool = True,
    shrinkage: Any = None,
    scale: bool = True,
    apart: bool = False,
    remedies: str = "shrinkage='auto' or a number in (0, 1]",
) -> Span | None:
    """The table in coordinates of its rows' span, or None for a table that is not wide.

    ``whiten``: covariances are going to be inverted, so a ridge of zero (``shrinkage``) is refused and the least
    one is said in a warning. ``scale=False`` leaves the columns in their units; ``apart`` divides them by the deviation that the
    response leaves (``own_share``).
    """
    if not is_wide(source, blocks):
        return None
    n = source.X.shape[0]
    if whiten and shrinkage == 0.0:
        wide = int(np.argmax(blocks.widths))
        what = f"block {blocks.names[wide]!r}" if len(blocks) > 1 else "X"
        msg = (
            f"more rows than columns are needed: {n} rows (n_samples={n}), {what} has {blocks.widths[wide]} columns. "
            f"Remedies: {remedies}, or fewer columns"
        )
        raise SingularCovarianceError(msg)
    if whiten and shrinkage is None:
        warnings.warn(
            f"{n} rows and {max(blocks.widths)} columns: the covariance is singular and is inverted on the span of "
            f"the rows, where every row is a direction of its own. Better: {remedies}",
            SingularCovarianceWarning,
            stacklevel=4,
        )
    table = source.columns().x
    mean = table.mean
    deviation = np.sqrt(table.variance)
    unit = deviation if scale else (deviation > 0).astype(np.float64)
    if apart:
        unit = unit * np.sqrt(own_share(source, mean, deviation))
    coordinates: list[Array] = []
    factors: list[Array | None] = []
    for columns in blocks.columns:
        if len(columns) < n:
            (Z,) = [Z for _, Z in _column_chunks(source.X, columns, mean, unit, whole=True)]
            coordinates.append(Z)
            factors.append(None)
        else:
            A, factor = _coordinates(source.X, columns, mean, unit, source.weights)
            coordinates.append(A)
            factors.append(factor)
    widths = [A.shape[1] for A in coordinates]
    ends = np.cumsum(widths)
    places = tuple(np.arange(e - w, e) for e, w in zip(ends, widths, strict=True))
    inner = Blocks(blocks.names, places, int(ends[-1]))
    moved = replace(
        source, X=np.hstack(coordinates), labels=None, unit=scale or source.unit, n_columns=blocks.widths
    )
    return Span(moved, inner, blocks, mean, unit, deviation, tuple(factors), source.X)


def own_share(source: Source, mean: Array, deviation: Array) -> Array:
    r"""Share of the variance of every column that the responses leave, 1 - max(0, (R² - c)/(1 - c)).

    c = (q + log p)/n, with q responses and p columns, is about what chance gives the largest :math:`R^2` of p columns. Few columns that
    differ between classes more than within them are then penalised less, as by linear discriminants with a ridge within
    classes; a ridge on columns of one variance penalises them as it does all others.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.reduction._source import Source
    >>> from colspace.reduction._span import own_share
    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_normal(500)
    >>> X = np.column_stack([y + 0.5 * rng.standard_normal(500), rng.standard_normal(500)])
    >>> own_share(Source.of(X, y, None, "example"), X.mean(axis=0), X.std(axis=0)).round(1)
    array([0.2, 1. ])
    """
    Y = np.asarray(source.y, dtype=np.float64).reshape(len(source.y), -1)
    w = np.ones(len(Y)) if source.weights is None else np.asarray(source.weights, dtype=np.float64)
    n = float(w.sum())
    Y = Y - w @ Y / n
    Y = Y / np.maximum(np.abs(Y).max(axis=0), np.finfo(float).tiny)
    values, U = eigh((Y.T * w) @ Y)
    kept = values > _RANK_TOLERANCE * max(values[-1], 0.0)
    basis = (Y @ U[:, kept] / np.sqrt(values[kept])) * w[:, None]
    told = np.zeros(len(mean))
    for part, Z in _column_chunks(source.X, np.arange(len(mean)), mean, deviation):
        told[part] = np.sum((Z.T @ basis) ** 2, axis=1) / n
    chance = (np.count_nonzero(kept) + math.log(max(1, int(np.count_nonzero(deviation))))) / n
    if chance >= 1.0:
        return np.ones(len(mean))
    return np.clip(1.0 - np.clip((told - chance) / (1.0 - chance), 0.0, 1.0), _LEAST, 1.0)


def _coordinates(
    X: Any, columns: NDArray[np.intp], mean: Array, scale: Array, weights: Array | None
) -> tuple[Array, Array]:
    """A = Z V and the factor that gives V = Z' factor, from the products of rows (weighted)."""
    n = X.shape[0]
    gram = np.zeros((n, n))
    for _, Z in _column_chunks(X, columns, mean, scale):
        gram += Z @ Z.T
    root = np.ones(n) if weights is None else np.sqrt(weights)
    values, U = eigh(gram * root * root[:, None])
    kept = values > _RANK_TOLERANCE * max(values[-1], 0.0)
    if not kept.any():  # nothing varies: one coordinate of zeros
        return np.zeros((n, 1)), np.zeros((n, 1))
    S = np.sqrt(values[kept])[::-1]
    U = U[:, kept][:, ::-1]
    factor = U / S * root[:, None]
    if root.all():
        return U * S / root[:, None], factor
    return gram @ factor, factor  # also of rows of weight zero


def _column_chunks(
    X: Any, columns: NDArray[np.intp], mean: Array, scale: Array, *, whole: bool = False
) -> Iterator[tuple[slice, Array]]:
    """Standardised columns, a few at a time; columns that do not vary are zero."""
    step = len(columns) if whole else max(16, CHUNK_BYTES // (8 * X.shape[0]))
    table = X.tocsc() if sparse.issparse(X) else X
    for i in range(0, len(columns), step):
        part = columns[i : i + step]
        Z = table[:, part]
        Z = np.asarray(Z.toarray() if sparse.issparse(Z) else Z, dtype=np.float64) - mean[part]
        yield slice(i, i + step), Z * _inverse(scale[part])


def _inverse(scale: Array) -> Array:
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)


def check_span(n_components: int, widths: Sequence[int], n_rows: int) -> None:
    """Refuse more directions than the rows span."""
    if n_components > min(widths):
        msg = (
            f"n_components={n_components} is more than the {min(widths)} direction(s) that {n_rows} rows "
            f"(n_samples={n_rows}) span; lower n_components, or take more rows"
        )
        raise ValueError(msg)
