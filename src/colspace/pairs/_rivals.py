"""Simple predictors that a model has to beat: popularity, nearest neighbours, alternating least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def popularity(Y: Any, rows: Index, target: str) -> Array:
    """Sums of scores of right entities over the left ones, without the entity's own; nobody knows a new right one."""
    if target == "new-both":
        return np.zeros((len(rows), Y.shape[1]))
    total = np.asarray(Y.sum(axis=0)).ravel()
    return np.asarray(total - Y[rows].toarray())


def nearest(S: Any, k: int, *, itself: bool = False) -> Any:
    """Similarities to the k most similar others (or also itself), summing to one, CSR."""
    S = np.array(S, dtype=np.float64)
    if not itself:
        S[np.diag_indices_from(S)] = -np.inf
    k = min(k, S.shape[1] - (not itself))
    if k == 0:  # nobody else
        return sparse.csr_array(S.shape)
    columns = np.argpartition(S, -k, axis=1)[:, -k:]
    values = np.maximum(np.take_along_axis(S, columns, axis=1), 1e-12)  # of far ones, too
    values /= values.sum(axis=1, keepdims=True)
    where = np.arange(0, k * len(S) + 1, k)
    return sparse.csr_array((values.ravel(), columns.ravel(), where), shape=S.shape)


def neighbours(S: Any, T: Any, Y: Any, rows: Index, target: str, k: int) -> Array:
    """Mean scores of the k nearest left entities; for pairs of new ones also over the nearest right ones, for entries the
    mean of both sides' means.

    S and T are similarities of the left and of the right entities; no entity is its own neighbour.
    """
    left = nearest(S, k)[rows] @ Y
    if target == "new-left":
        return np.asarray(left.toarray())
    right = nearest(T, k)
    if target == "new-both":
        return np.asarray((left @ right.T).toarray())
    return np.asarray((left + Y[rows] @ right.T).toarray() / 2)


def alternating_least_squares(
    Y: Any, r: int, alpha: float, confidence: float, rounds: int = 15, seed: int = 0
) -> tuple[Array, Array]:
    """U, V of least sum c (y - u'v)^2 + alpha (|u|^2 + |v|^2), c = 1 + confidence for links and 1 for other pairs."""
    rng = np.random.default_rng(seed)
    Y = sparse.csr_array(Y)
    V = rng.standard_normal((Y.shape[1], r)) / np.sqrt(r)
    U = np.zeros((Y.shape[0], r))
    T = sparse.csr_array(Y.T)
    for _ in range(rounds):
        U = _solve(Y, V, alpha, confidence)
        V = _solve(T, U, alpha, confidence)
    return U, V


def _solve(Y: Any, V: Array, alpha: float, confidence: float) -> Array:
    """All rows' ridge regressions at once."""
    r = V.shape[1]
    outer = (V[:, :, None] * V[:, None, :]).reshape(len(V), r * r)
    ones = sparse.csr_array((np.ones(Y.nnz), Y.indices, Y.indptr), shape=Y.shape)
    gram = (ones @ outer).reshape(-1, r, r) * confidence + (V.T @ V + alpha * np.eye(r))
    return np.asarray(np.linalg.solve(gram, ((1 + confidence) * (Y @ V))[:, :, None])[:, :, 0])
