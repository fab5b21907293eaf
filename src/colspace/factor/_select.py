"""Row selection on proxies by sequential projection (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def _largest(values: Array, s: int) -> Index:
    """Sorted positions of the s largest values, ties broken by position."""
    return np.sort(np.argsort(-values, kind="stable")[:s])


def keep_largest_in_columns(M: Array, s: int) -> Array:
    """Zero all but the s entries of largest modulus in each column."""
    if s >= M.shape[0]:
        return M.copy()
    kept = np.argpartition(-np.abs(M), s - 1, axis=0)[:s]
    out = np.zeros_like(M)
    np.put_along_axis(out, kept, np.take_along_axis(M, kept, axis=0), axis=0)
    return out


def sparse_proxy(X0: Array, s1: int, s2: int) -> tuple[Array, Index, Index]:
    """The (s1, s2)-sparse approximation of the paper, with its rows and columns.

    X1 keeps the s1 largest entries of each column, X2 the s2 columns of X1 with the largest norm,
    X3 the s1 rows of X2 with the largest norm.

    Examples
    --------
    >>> import numpy as np
    >>> X3, rows, columns = sparse_proxy(np.outer([3.0, 0.1, 2.0], [1.0, 4.0, 0.1]), 2, 1)
    >>> rows, columns
    (array([0, 2]), array([1]))
    """
    X = keep_largest_in_columns(X0, s1)
    columns = _largest(np.sum(X**2, axis=0), s2)
    rows = _largest(np.sum(X[:, columns] ** 2, axis=1), s1)
    out = np.zeros_like(X0)
    out[np.ix_(rows, columns)] = X[np.ix_(rows, columns)]
    return out, rows, columns


def select_rows(
    unfolded: Sequence[Array], owners: Sequence[Index], features: Sequence[Index], counts: Sequence[int]
) -> tuple[list[Array], list[Index]]:
    """The same three projections for any set of blocks and moments.

    ``unfolded[b]`` has block b's features in rows; column c belongs to feature ``features[b][c]`` of block
    ``owners[b][c]`` (owner -1: a column that is no feature, always kept). Column norms vote for
    features, row norms then decide. Returns the masked matrices and the kept rows of each block.
    """
    thinned = [keep_largest_in_columns(M, s) for M, s in zip(unfolded, counts, strict=True)]
    votes = [np.zeros(M.shape[0]) for M in unfolded]
    for T, owner, feature in zip(thinned, owners, features, strict=True):
        norms = np.sum(T**2, axis=0)
        for b in range(len(votes)):
            mine = owner == b
            np.add.at(votes[b], feature[mine], norms[mine])
    likely = [
        _largest(v if v.any() else np.sum(T**2, axis=1), s)
        for v, T, s in zip(votes, thinned, counts, strict=True)
    ]
    masked, supports = [], []
    for T, owner, feature, s in zip(thinned, owners, features, counts, strict=True):
        kept = owner < 0
        for b, columns in enumerate(likely):
            kept |= (owner == b) & np.isin(feature, columns)
        rows = _largest(np.sum(T[:, kept] ** 2, axis=1), s)
        out = np.zeros_like(T)
        out[np.ix_(rows, np.flatnonzero(kept))] = T[np.ix_(rows, np.flatnonzero(kept))]
        masked.append(out)
        supports.append(rows)
    return masked, supports
