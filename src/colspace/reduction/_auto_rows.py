"""Samples and folds of rows by what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import workspace
from ._ridge import ResponseMap
from ._tiles import tiles

Array = NDArray[np.float64]

# rows of the kernel regression, at most
KERNEL_ROWS = 1500


@dataclass(frozen=True)
class RowKeys:
    """Pseudo-random numbers of rows from what they hold, whatever the order of rows and columns, units and chunks.

    They mix the squared norms of the standardised row and of its responses, so equal rows have equal keys.
    """

    columns: NDArray[np.intp]
    mean: Array
    inverse: Array
    response: ResponseMap
    seed: int = 0

    def __call__(self, X: Any, Y: Array) -> NDArray[np.uint64]:
        """One key per row."""
        keys = np.empty(len(Y), dtype=np.uint64)
        for rows, Z in tiles(X, self.columns, self.mean):
            keys[rows] = self.of_rows(Z, self.response(Y[rows]))
        return keys

    def of_rows(self, Z: Any, V: Array) -> NDArray[np.uint64]:
        """Keys of a tile of centred rows and mapped responses."""
        norms = standard_norms(Z, self.mean if sparse.issparse(Z) else None, self.inverse)
        key = np.full(len(V), self.seed + 1, dtype=np.uint64)
        with np.errstate(over="ignore"):
            key *= _GOLDEN
            for squares, unit in ((norms, 1414.2135623), (np.einsum("ij,ij->i", V, V), 1732.0508075)):
                squares *= unit
                part = np.floor(squares, out=squares).astype(np.int64).view(np.uint64)
                part += _GOLDEN
                key ^= part
                _mix(key, part)
        return key


def mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys whose bits are mixed again."""
    key = key.copy()
    with np.errstate(over="ignore"):
        _mix(key, np.empty_like(key))
    return key


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(key: NDArray[np.uint64], spare: NDArray[np.uint64]) -> None:
    """Scramble 64 bits in place; ``spare`` is room."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        key ^= np.right_shift(key, np.uint64(shift), out=spare)
        if factor != 1:
            key *= np.uint64(factor)


def standard_norms(X: Any, mean: Array | None, inverse: Array) -> Array:
    """Squared norms of standardised rows (mean None: they are centred)."""
    if sparse.issparse(X):
        Z = X.astype(np.float64) @ sparse.diags_array(inverse)
        centre = np.zeros_like(inverse) if mean is None else mean * inverse
        return np.asarray(Z.multiply(Z).sum(axis=1)).ravel() - 2 * (Z @ centre) + centre @ centre
    Z = workspace("auto.square", X.shape)
    if mean is None:
        np.multiply(X, inverse, out=Z)
    else:
        np.subtract(X, mean, dtype=np.float64, out=Z)
        Z *= inverse
    return np.einsum("ij,ij->i", Z, Z)


@dataclass(frozen=True)
class RowSample:
    """Different rows of the smallest keys with the weight of their copies: a sample that merges by ``+``.

    ``copies`` is how many rows of the table each of them stands for; ``most`` rows (None: KERNEL_ROWS) are kept.
    """

    keys: NDArray[np.uint64]
    X: Array
    Y: Array
    weights: Array
    copies: Array
    most: int | None = None

    @classmethod
    def of(
        cls,
        keys: NDArray[np.uint64],
        X: Array,
        Y: Array,
        weights: Array,
        most: int | None = None,
        copies: Array | None = None,
    ) -> RowSample:
        """The sample of some rows; equal ones become one."""
        copies = np.ones(len(keys)) if copies is None else copies
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        again = np.zeros(len(keys), dtype=bool)
        near = np.flatnonzero(keys[1:] == keys[:-1]) + 1
        here, before = order[near], order[near - 1]
        largest = np.maximum(X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0))
        same = np.abs(X[here] - X[before]) <= 1e-9 * largest  # but for rounding
        again[near] = same.all(axis=1) & (Y[here] == Y[before]).all(axis=1)
        first = np.flatnonzero(~again)
        weights, copies = weights[order], copies[order]
        if len(first):
            weights, copies = np.add.reduceat(weights, first), np.add.reduceat(copies, first)
        kept = first[: most or KERNEL_ROWS]
        rows = order[kept]
        return cls(keys[kept], X[rows], Y[rows], weights[: len(kept)], copies[: len(kept)], most)

    def __add__(self, other: RowSample) -> RowSample:
        return RowSample.of(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.X, other.X]),
            np.concatenate([self.Y, other.Y]),
            np.concatenate([self.weights, other.weights]),
            self.most,
            np.concatenate([self.copies, other.copies]),
        )


@dataclass(frozen=True)
class SamplePlan:
    """``plan(X, Y, weights)``: the rows of a chunk that may be in the sample."""

    keys: RowKeys
    most: int | None = None

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> RowSample:
        """Statistic of one chunk."""
        return self.chosen(self.keys(X, Y), X, Y, weights)

    def chosen(self, keys: NDArray[np.uint64], X: Any, Y: Array, weights: Array | None) -> RowSample:
        """The sample of rows with these keys."""
        if not len(keys):
            return RowSample(keys, np.zeros((0, X.shape[1])), Y, np.zeros(0), np.zeros(0), self.most)
        kept = np.flatnonzero(keys <= largest_kept(keys, self.most or KERNEL_ROWS))
        rows = X[kept]
        rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        w = np.ones(len(kept)) if weights is None else weights[kept]
        return RowSample.of(keys[kept], rows, Y[kept], w, self.most)


def largest_kept(keys: NDArray[np.uint64], k: int) -> np.uint64:
    """The k-th smallest of the different keys, or the largest if there are fewer: copies of a row share its key."""
    size = k
    while size < len(keys):
        few = np.unique(np.partition(keys, size - 1)[:size])
        if len(few) >= k:
            return few[k - 1]
        size *= 2
    different = np.unique(keys)
    return different[min(k, len(different)) - 1]
