"""Applying directions to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import chunk_rows, is_dask


def linear_transform(X: Any, mean: NDArray[Any], components: NDArray[Any]) -> Any:
    """(X - mean) components' without a centred copy; lazy for Dask, never dense for CSR."""
    if is_dask(X):
        array = X.to_dask_array(lengths=None) if hasattr(X, "to_dask_array") else X
        array = array.rechunk({1: -1})
        return array.map_blocks(
            linear_transform,
            mean,
            components,
            dtype=components.dtype,
            chunks=(array.chunks[0], (components.shape[0],)),
        )
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    if sparse.issparse(X):
        return np.asarray(X @ components.T - mean @ components.T.astype(np.float64)).astype(dtype, copy=False)
    out = np.empty((X.shape[0], components.shape[0]), dtype=dtype)
    step = chunk_rows(X)
    directions = components.T.astype(np.float64, copy=False)
    for i in range(0, X.shape[0], step):
        out[i : i + step] = (X[i : i + step] - mean) @ directions
    return out
