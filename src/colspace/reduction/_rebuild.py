"""Columns from an embedding: the best linear way back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._containers import as_table
from .._rows import is_dask

Array = NDArray[np.float64]

_RANK_TOLERANCE = 1e-12
UNKNOWN = (
    "the covariance of the columns with the embedding is not known: this solver sees moments through products alone. Remedies: "
    "solver='exact', or least squares of the columns on the embedding (sklearn.linear_model.LinearRegression)"
)


def rebuild_map(loadings: Array, spread: Array) -> Array:
    r"""The least-squares map from scores :math:`s = L^\top (x - \mu)` back to columns: :math:`B = (L^\top C)^+ C^\top`.

    :math:`C = \mathrm{Cov}(x, s) = \Sigma L`, so that :math:`L^\top C` is the covariance of the scores; scores that others determine
    have no part of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.reduction._rebuild import rebuild_map
    >>> covariance = np.array([[2.0, 1.0], [1.0, 1.0]])
    >>> L = np.array([[1.0], [0.0]])
    >>> rebuild_map(L, covariance @ L)
    array([[1. , 0.5]])
    """
    own = loadings.T @ spread
    deviation = np.sqrt(np.maximum(np.diag(own), 0.0))
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    correlation = own * inverse * inverse[:, None]
    return (
        np.linalg.pinv((correlation + correlation.T) / 2, rcond=_RANK_TOLERANCE, hermitian=True)
        @ ((spread * inverse).T)
        * inverse[:, None]
    )


def rebuild(Z: Any, mean: Array, back: NDArray[Any]) -> Any:
    """mean + Z back; lazy for Dask."""
    if is_dask(Z):
        table = Z.to_dask_array(lengths=True) if hasattr(Z, "to_dask_array") else Z
        return table @ back + mean.astype(back.dtype)
    values = as_table(Z).values
    values = np.asarray(values.toarray() if sparse.issparse(values) else values)
    if values.ndim != 2 or values.shape[1] != len(back):
        msg = f"an embedding of {len(back)} column(s) is rebuilt, but X has shape {values.shape}; give what transform gave"
        raise ValueError(msg)
    dtype = np.float32 if values.dtype == np.float32 else np.float64
    return (values.astype(np.float64) @ back.astype(np.float64) + mean).astype(dtype)
