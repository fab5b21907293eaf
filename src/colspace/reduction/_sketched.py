"""Algorithm 2: directions from products with the data, the proxy never formed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._blocks import Blocks
from .._rows import chunk_rows
from ..factor import Whitener, count_sketch, factor_by_products, gaussian_sketch
from ._source import Source

Array = NDArray[np.float64]


def _centred(X: Any, mean: Array, order: Any) -> tuple[Any, Array | None]:
    """The chunk in block order: dense and centred, or sparse with the mean still to take off."""
    X = X if order is None else X[:, order]
    return (X, mean) if sparse.issparse(X) else (np.subtract(X, mean, dtype=np.float64), None)


def _standard(Y: Array, mean: Array, scale: Array, weights: Array | None) -> Array:
    """The standardised responses, each row times its weight."""
    V = (Y - mean) / scale
    return V if weights is None else V * weights[:, None]


def _times(X: Any, mean: Array | None, right: Any) -> Array:
    """(X - mean) right."""
    product = X @ right
    if sparse.issparse(product):
        product = product.toarray()
    return np.asarray(product if mean is None else product - mean @ right)


def _transposed(X: Any, mean: Array | None, T: Array) -> Array:
    """(X - mean)' T."""
    product = np.asarray(X.T @ T)
    return product if mean is None else product - np.outer(mean, T.sum(axis=0))


@dataclass(frozen=True)
class _Forward:
    """Sum over rows of x T_b', with T_b = sum_k y_k (w_bk + (x - mean)' S_bk), for all blocks at once."""

    right: Any  # features x (blocks * responses * columns)
    constant: Array  # the same columns' row for the linear moment
    mean: Array
    order: Any
    y_mean: Array
    y_scale: Array
    n_blocks: int

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        Z, mean = _centred(X, self.mean, self.order)
        V = _standard(Y, self.y_mean, self.y_scale, weights)
        m, q = V.shape
        T = (_times(Z, mean, self.right) + self.constant).reshape(m, self.n_blocks, q, -1)
        T = np.einsum("mbqk,mq->mbk", T, V)
        return _transposed(Z, mean, T.reshape(m, -1))


@dataclass(frozen=True)
class _Adjoint:
    """Sums over rows of y_k (x - mean) T_b' and of y_k T_b' with T_b = (x_b - mean_b)' Q_b."""

    right: Array  # features x (blocks * columns), block-diagonal
    mean: Array
    order: Any
    y_mean: Array
    y_scale: Array

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        Z, mean = _centred(X, self.mean, self.order)
        V = _standard(Y, self.y_mean, self.y_scale, weights)
        T = _times(Z, mean, self.right)
        T = (V[:, :, None] * T[:, None, :]).reshape(len(V), -1)
        return np.vstack([_transposed(Z, mean, T), T.sum(axis=0)])


@dataclass(frozen=True)
class _Proxies:
    """The matrices of blocks, known by their products: a column per (response, feature or constant), masked ones are zero."""

    source: Source
    blocks: Blocks
    whiteners: Sequence[Whitener]
    rows: Sequence[int]  # blocks that have a matrix
    masks: Sequence[NDArray[np.bool_]]
    mean: Array
    y_mean: Array
    y_scale: Array
    count: float

    @property
    def n_columns(self) -> int:
        """Columns for one response."""
        return sum(self.blocks.widths) + 1

    def _sums(self, statistic: Any, products: int) -> Array:
        chunk = chunk_rows(self.source.X, extra=2 * products)
        return np.asarray(self.source.reduce(statistic, chunk=chunk) / self.count)

    def forward(self, sketches: list[Any]) -> list[Array]:
        """The matrices times sketches."""
        slices, n = self.blocks.slices, self.n_columns
        parts, constants = [], []
        for S, mask in zip(sketches, self.masks, strict=True):
            stack = S.tocsr() if sparse.issparse(S) else S
            for k in range(len(self.y_mean)):
                piece = stack[k * n : (k + 1) * n]
                keep = sparse.diags_array(mask.astype(float)) if sparse.issparse(piece) else mask[:, None]
                piece = keep @ piece if sparse.issparse(piece) else keep * piece
                parts.append(_loadings(piece[:-1], self.whiteners, slices))
                last = piece[[-1]]
                constants.append(last.toarray() if sparse.issparse(last) else last)
        right = sparse.hstack(parts).tocsc() if sparse.issparse(parts[0]) else np.hstack(parts)
        scales = (self.mean, self.blocks.order, self.y_mean, self.y_scale)
        G = self._sums(_Forward(right, np.hstack(constants), *scales, len(self.rows)), right.shape[1])
        each = np.split(G, len(self.rows), axis=1)
        return [self.whiteners[b].apply(g[slices[b]]) for b, g in zip(self.rows, each, strict=True)]

    def adjoint(self, Q: list[Array]) -> list[Array]:
        """The transposed matrices times bases."""
        slices, n, q = self.blocks.slices, self.n_columns, len(self.y_mean)
        ends = np.cumsum([0, *(basis.shape[1] for basis in Q)])
        right = np.zeros((n - 1, ends[-1]))
        for b, basis, start, end in zip(self.rows, Q, ends, ends[1:], strict=False):
            right[slices[b], start:end] = self.whiteners[b].loadings(basis)
        scales = (self.mean, self.blocks.order, self.y_mean, self.y_scale)
        G = self._sums(_Adjoint(right, *scales), q * right.shape[1])
        white = [w.apply(G[:-1][s]) for w, s in zip(self.whiteners, slices, strict=True)]
        G = np.vstack([*white, G[-1:]]).reshape(n, q, -1)
        parts = [
            G[:, :, start:end] * mask[:, None, None]
            for mask, start, end in zip(self.masks, ends, ends[1:], strict=False)
        ]
        return [part.transpose(1, 0, 2).reshape(q * n, -1) for part in parts]


def fit_sketched(
    source: Source,
    blocks: Blocks,
    whiteners: Sequence[Whitener],
    wanted: frozenset[str],
    *,
    mean: Array,
    y_mean: Array,
    y_scale: Array,
    count: float,
    r: int,
    n_power: int,
    method: str,
    rng: np.random.Generator,
) -> tuple[list[Array], list[Array]]:
    """Whitened directions and singular values of every block from 2 n_power + 2 passes; ``wanted`` moments alone are not zero.

    For two blocks, one response and the joint moment alone, both factors come from the one proxy.
    """
    one_proxy = wanted == {"joint"} and len(blocks) == 2 and len(y_mean) == 1
    rows = [0] if one_proxy else list(range(len(blocks)))
    masks = [_column_mask(b, blocks, wanted) for b in rows]
    proxies = _Proxies(source, blocks, whiteners, rows, masks, mean, y_mean, y_scale, count)
    make = count_sketch if method == "countsketch" else gaussian_sketch
    narrowest = min(blocks.widths)
    width = min(max(2 * r, r + 10), narrowest)
    buckets = min(4 * width, narrowest) if method == "countsketch" else width
    sketches = [make(len(y_mean) * proxies.n_columns, buckets, rng) for _ in rows]
    factors = factor_by_products(proxies.forward, proxies.adjoint, sketches, r, n_power, width)
    if one_proxy:
        U, s, V = factors[0]
        return [U, V[blocks.slices[1]]], [s, s]
    return [U for U, _, _ in factors], [s for _, s, _ in factors]


def _column_mask(b: int, blocks: Blocks, wanted: frozenset[str]) -> NDArray[np.bool_]:
    """Which columns (features of all blocks, then the constant) block b's matrix has."""
    mask = np.zeros(sum(blocks.widths) + 1, dtype=bool)
    for other, s in enumerate(blocks.slices):
        mask[s] = ("hessian" if other == b else "joint") in wanted
    mask[-1] = "linear" in wanted
    return mask


def _loadings(piece: Any, whiteners: Sequence[Whitener], slices: Sequence[slice]) -> Any:
    """W' S block by block; a sparse sketch stays sparse under feature-wise scaling."""
    if sparse.issparse(piece):
        if all(w.cholesky is None for w in whiteners):
            return sparse.diags_array(1.0 / np.concatenate([w.scale for w in whiteners])) @ piece
        piece = piece.toarray()
    return np.vstack([w.loadings(piece[s]) for w, s in zip(whiteners, slices, strict=True)])
