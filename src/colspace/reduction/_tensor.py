"""The paper's proxy for three and more blocks: a tensor and its higher-order SVD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._blocks import Blocks
from .._rows import CHUNK_BYTES
from ..factor import Whitener, hosvd
from ._source import Source

Array = NDArray[np.float64]

_LARGEST = 50_000_000


@dataclass(frozen=True)
class _TensorSum:
    """Sum over rows of y o a o b o c on centred data, as a matrix (responses * first block) x (the rest)."""

    mean: Array
    order: Any
    slices: tuple[slice, ...]
    y_mean: Array
    y_scale: Array

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        X = X.toarray() if sparse.issparse(X) else X
        Z = (X if self.order is None else X[:, self.order]) - self.mean
        V = (Y - self.y_mean) / self.y_scale
        V = V if weights is None else V * weights[:, None]
        left = (V[:, :, None] * Z[:, None, self.slices[0]]).reshape(len(V), -1)
        right = Z[:, self.slices[1]]
        for s in self.slices[2:]:
            right = (right[:, :, None] * Z[:, None, s]).reshape(len(V), -1)
        return left.T @ right


def fit_tensor(
    source: Source,
    blocks: Blocks,
    whiteners: Sequence[Whitener],
    *,
    mean: Array,
    y_mean: Array,
    y_scale: Array,
    count: float,
    r: int,
) -> tuple[list[Array], list[Array]]:
    """HOSVD factors of (1/m) sum y o a' o b' o ..., whitened mode by mode."""
    shape = (len(y_mean), *blocks.widths)
    if np.prod([float(n) for n in shape]) > _LARGEST:
        msg = (
            f"moments='tensor' would form a tensor of shape {shape}, over {_LARGEST} entries. Remedies: "
            "moments='joint' (pairwise proxies, which also need fewer rows), or fewer columns"
        )
        raise ValueError(msg)
    row_bytes = 8 * (shape[0] * shape[1] + int(np.prod(shape[2:])))
    statistic = _TensorSum(mean, blocks.order, blocks.slices, y_mean, y_scale)
    T = source.reduce(statistic, chunk=max(64, CHUNK_BYTES // row_bytes)) / count
    T = T.reshape(shape)
    for mode, w in enumerate(whiteners, start=1):
        moved = np.moveaxis(T, mode, 0)
        T = np.moveaxis(w.apply(moved.reshape(shape[mode], -1)).reshape(moved.shape), 0, mode)
    factors = hosvd(T, dict.fromkeys(range(1, len(shape)), r))
    return [factors[m][0] for m in sorted(factors)], [factors[m][1] for m in sorted(factors)]
