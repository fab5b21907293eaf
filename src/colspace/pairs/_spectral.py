"""Features of entities from similarities between them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from .._containers import as_table
from .._sklearn_compat import whole
from ..factor import eigh, fix_signs
from ._links import shown

Array = NDArray[np.float64]

_DENSE = 1500  # entities up to which all eigenvectors are found at once


class DisconnectedGraphWarning(UserWarning):
    """Some entities are not connected to the others by any chain of similarities."""


def spectral_features(S: Any, n_components: int = 100, *, normalize: bool = True) -> Any:
    r"""Coordinates of entities from a similarity matrix or graph (Ng, Jordan and Weiss).

    The eigenvectors with the largest eigenvalues of :math:`D^{-1/2} S D^{-1/2}`, D the row sums, side by side;
    each row is then scaled to length one.

    Parameters
    ----------
    S : array, sparse matrix or DataFrame (entities, entities)
        Symmetric and nonnegative; the diagonal is used as it is. A networkx graph goes in as
        ``networkx.to_scipy_sparse_array(graph)``.
    n_components : int, default=100
    normalize : bool, default=True
        Scale rows to length one.

    Returns
    -------
    ndarray (entities, n_components), or a DataFrame with the entities' names when S is one

    References
    ----------
    Ng, Jordan and Weiss (2001), "On spectral clustering: analysis and an algorithm", NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.pairs import spectral_features
    >>> S = np.kron(np.eye(2), np.ones((3, 3))) + 0.1
    >>> X = spectral_features(S, 2)
    >>> bool(np.sign(X[0, 1]) == -np.sign(X[5, 1])), X.shape
    (True, (6, 2))
    """
    names = S.index if hasattr(S, "iloc") else None
    table = as_table(S, "S").values
    W: Any = sparse.csr_array(table) if sparse.issparse(table) else table
    W = W.astype(np.float64, copy=False)
    degree = _check(W, n_components)
    scale = 1.0 / np.sqrt(degree)
    if sparse.issparse(W) and len(degree) > _DENSE and n_components < len(degree) // 3:
        N = sparse.diags_array(scale) @ W @ sparse.diags_array(scale)
        start = np.random.default_rng(0).standard_normal(len(degree))
        _, V = eigsh(N, n_components, which="LA", v0=start)
        V = V[:, ::-1]
    else:
        N = (W.toarray() if sparse.issparse(W) else W) * scale[:, None] * scale
        _, V = eigh((N + N.T) / 2, n_components, what="S")
        V = V[:, ::-1]
    V = fix_signs(V)
    if normalize:
        size = np.linalg.norm(V, axis=1, keepdims=True)
        V = V / np.where(size > 1e-12, size, 1.0)
    if names is None:
        return V
    from ._ranking import require_pandas

    return require_pandas("spectral_features").DataFrame(V, index=names)


def _check(W: Any, n_components: int) -> Array:
    """Row sums of a similarity matrix that can be used."""
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        msg = f"S has shape {W.shape}; similarities are a square matrix, entities x entities"
        raise ValueError(msg)
    values = W.data if sparse.issparse(W) else W
    if not np.isfinite(values).all() or np.any(values < 0):
        msg = "S holds negative numbers, NaN or infinity; similarities are at least 0 (distances: use exp(-d**2 / (2 h**2)))"
        raise ValueError(msg)
    if abs(W - W.T).max() > 1e-8 * max(float(values.max(initial=0.0)), 1e-300):
        msg = "S is not symmetric; use (S + S.T) / 2, or S.maximum(S.T) for nearest-neighbour graphs"
        raise ValueError(msg)
    n = W.shape[0]
    if not whole(1).is_satisfied_by(n_components) or n_components > n:
        msg = f"n_components={n_components} must lie between 1 and the {n} entities of S"
        raise ValueError(msg)
    degree = np.asarray(W.sum(axis=1)).ravel()
    alone = np.flatnonzero(degree <= 0)
    if alone.size:
        msg = (
            f"{alone.size} entities have no similarity to any other, so S gives them no features: "
            f"{shown([int(i) for i in alone])}. Leave them out, or add their similarities"
        )
        raise ValueError(msg)
    parts, label = connected_components(sparse.csr_array(W), directed=False)
    if parts > 1:
        sizes = np.sort(np.bincount(label))[::-1]
        many = (
            f"; {parts} parts take up {parts} of the {n_components} components"
            if parts <= n_components
            else (f", more than n_components={n_components}: parts cannot all be told apart")
        )
        warnings.warn(
            f"the graph falls into {parts} parts of {', '.join(map(str, sizes[:5]))}"
            f"{', ...' if parts > 5 else ''} entities that no similarity connects{many}. Keep the largest part, or add links",
            DisconnectedGraphWarning,
            stacklevel=3,
        )
    return degree
