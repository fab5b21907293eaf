"""Row selection on proxies by sequential projection (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_SWEEPS = 20


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
    """Rows that carry the moments, for any set of blocks; the moments on them stay whole.

    ``unfolded[b]`` has block b's features in rows; column c belongs to feature ``features[b][c]`` of block
    ``owners[b][c]`` (owner -1: a column that is no feature, always kept). Starting from the columns that
    the sequential projection keeps, each block in turn takes the ``counts[b]`` rows of largest norm on
    the columns kept by all, until nothing changes. Returns the masked matrices and the kept rows.
    """
    size = max((float(np.abs(M).max(initial=0.0)) for M in unfolded), default=0.0) or 1.0
    scaled = [M / size for M in unfolded]  # so that squares are numbers
    supports = _first_guess(scaled, owners, features, counts)
    for _ in range(_SWEEPS):
        before = [s.copy() for s in supports]
        for b, M in enumerate(scaled):
            kept = _kept_columns(owners[b], features[b], supports)
            supports[b] = _largest(np.sum(M[:, kept] ** 2, axis=1), counts[b])
        if all(np.array_equal(s, t) for s, t in zip(before, supports, strict=True)):
            break
    masked = [
        keep_cells(M, owner, feature, supports, support)
        for M, owner, feature, support in zip(unfolded, owners, features, supports, strict=True)
    ]
    return masked, supports


def keep_cells(M: Array, owner: Index, feature: Index, supports: Sequence[Index], rows: Index) -> Array:
    """M on these rows and on the columns of features that are in the supports, zero elsewhere."""
    cells = np.ix_(rows, _kept_columns(owner, feature, supports))
    out = np.zeros_like(M)
    out[cells] = M[cells]
    return out


def _first_guess(
    unfolded: Sequence[Array], owners: Sequence[Index], features: Sequence[Index], counts: Sequence[int]
) -> list[Index]:
    """Features whose columns have the largest norm once each column keeps its largest entries."""
    thinned = [keep_largest_in_columns(M, s) for M, s in zip(unfolded, counts, strict=True)]
    votes = [np.zeros(M.shape[0]) for M in unfolded]
    for T, owner, feature in zip(thinned, owners, features, strict=True):
        norms = np.sum(T**2, axis=0)
        for b in range(len(votes)):
            mine = owner == b
            np.add.at(votes[b], feature[mine], norms[mine])
    return [
        _largest(v if v.any() else np.sum(T**2, axis=1), s)
        for v, T, s in zip(votes, thinned, counts, strict=True)
    ]


def _kept_columns(owner: Index, feature: Index, supports: Sequence[Index]) -> Index:
    kept = owner < 0
    for b, support in enumerate(supports):
        kept |= (owner == b) & np.isin(feature, support)
    return np.flatnonzero(kept)
