"""Samples and folds of rows by what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._ridge import ResponseMap

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
        V = self.response(Y)
        norms = standard_norms(X[:, self.columns], self.mean, self.inverse)
        parts = (np.floor(norms * 1414.2135623), np.floor(np.einsum("ij,ij->i", V, V) * 1732.0508075))
        with np.errstate(over="ignore"):
            key = np.full(len(V), self.seed + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            for part in parts:
                key = mixed(key ^ (part.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)))
        return key


def mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys whose bits are mixed again."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def standard_norms(X: Any, mean: Array, inverse: Array) -> Array:
    """Squared norms of standardised rows."""
    if sparse.issparse(X):
        Z = X.astype(np.float64) @ sparse.diags_array(inverse)
        centre = mean * inverse
        return np.asarray(Z.multiply(Z).sum(axis=1)).ravel() - 2 * (Z @ centre) + centre @ centre
    Z = np.subtract(X, mean, dtype=np.float64) * inverse
    return np.einsum("ij,ij->i", Z, Z)


@dataclass(frozen=True)
class RowSample:
    """Different rows of the smallest keys with the weight of their copies: a sample that merges by ``+``.

    ``copies`` is how many rows of the table each of them stands for.
    """

    keys: NDArray[np.uint64]
    X: Array
    Y: Array
    weights: Array
    copies: Array

    @classmethod
    def of(
        cls, keys: NDArray[np.uint64], X: Array, Y: Array, weights: Array, copies: Array | None = None
    ) -> RowSample:
        """The sample of some rows; equal ones become one."""
        copies = np.ones(len(keys)) if copies is None else copies
        order = np.argsort(keys, kind="stable")
        keys, X, Y, weights, copies = keys[order], X[order], Y[order], weights[order], copies[order]
        again = np.zeros(len(keys), dtype=bool)
        near = np.flatnonzero(keys[1:] == keys[:-1]) + 1
        same = np.abs(X[near] - X[near - 1]) <= 1e-9 * np.abs(X).max(axis=0, initial=0.0)  # but for rounding
        again[near] = same.all(axis=1) & (Y[near] == Y[near - 1]).all(axis=1)
        first = np.flatnonzero(~again)
        if len(first):
            weights, copies = np.add.reduceat(weights, first), np.add.reduceat(copies, first)
        kept = first[:KERNEL_ROWS]
        return cls(keys[kept], X[kept], Y[kept], weights[: len(kept)], copies[: len(kept)])

    def __add__(self, other: RowSample) -> RowSample:
        return RowSample.of(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.X, other.X]),
            np.concatenate([self.Y, other.Y]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.copies, other.copies]),
        )


@dataclass(frozen=True)
class SamplePlan:
    """``plan(X, Y, weights)``: the rows of a chunk that may be in the sample."""

    keys: RowKeys

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> RowSample:
        """Statistic of one chunk."""
        keys = self.keys(X, Y)
        if not len(keys):
            return RowSample(keys, np.zeros((0, X.shape[1])), Y, np.zeros(0), np.zeros(0))
        w = np.ones(len(Y)) if weights is None else weights
        different = np.unique(keys)  # copies of a row share its key
        kept = np.flatnonzero(keys <= different[min(KERNEL_ROWS, len(different)) - 1])
        rows = X[kept]
        rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        return RowSample.of(keys[kept], rows, Y[kept], w[kept])
