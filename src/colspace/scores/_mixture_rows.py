"""Rows under a variance mixture: squared distances and weighted sums, in memory or in partitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._rows import is_dask
from ..moments import Additive, weighted_gram
from ._base import Array
from ._standard import kept_rows, pass_over

# squared distances from 1e-12 to about 1e31 in bins of equal logarithm, six Chebyshev nodes in each
_LOW, _STEP, _BINS, _NODES = float(np.log(1e-12)), 0.1, 1000, 6
_AT: Array = np.cos(np.pi * (np.arange(_NODES, dtype=np.float64) + 0.5) / _NODES)
_TO_NODES: Array = np.asarray(
    np.linalg.inv(np.vander(_AT, increasing=True)), dtype=np.float64
)  # powers to Lagrange's polynomials


@dataclass(frozen=True)
class Sums(Additive):
    """Sums over rows of w a, w a z and w a z z', z the whitened row and a its weight in the E-step."""

    total: float
    first: Array
    second: Array


class Weighs(Protocol):
    """What the E-step needs of a shape."""

    def weights(self, Q: Array) -> Array:
        """E[1/w | x] at squared distances Q."""
        ...


class Rows(Protocol):
    """Weighted rows that can be whitened and summed."""

    def distances(self, location: Array, root: Array) -> tuple[Array, Array]:
        """Squared distances with their weights; what follows is about this location and root."""
        ...

    def sums(self, shape: Weighs) -> Sums:
        """The M-step's sums, divided by the rows' weight."""
        ...


def rows_of(X: Any, weight: Any) -> Rows:
    """Rows in memory are whitened once per step, those of a Dask collection once per pass."""
    return Partitions(X, weight) if is_dask(X) else InMemory(X, weight)


class InMemory:
    """Rows in memory; the whitened ones are kept between the passes."""

    def __init__(self, X: Array, weight: Array | None) -> None:
        self.X = X
        self.weight = np.ones(len(X)) if weight is None else weight
        self.share = self.weight / self.weight.sum()
        self.Z, self.Q = X, self.weight

    def distances(self, location: Array, root: Array) -> tuple[Array, Array]:
        """Squared distances of the rows and their weights."""
        self.Z, self.Q = whitened(self.X, location, root)
        return self.Q, self.share

    def sums(self, shape: Weighs) -> Sums:
        """The M-step's sums."""
        return _sums(self.Z, self.Q, self.share, shape)


class Partitions:
    """Rows of a Dask collection: nothing but sums and a fixed number of nodes ever reaches the client."""

    def __init__(self, X: Any, weight: Any) -> None:
        self.X, self.weight = X, weight
        self.location, self.root = np.zeros(0), np.zeros((0, 0))
        self.total = 1.0

    def distances(self, location: Array, root: Array) -> tuple[Array, Array]:
        """Nodes that stand for the squared distances of all rows in every mean of a smooth function."""
        self.location, self.root = location, root
        nodes: Array = pass_over(partial(node_weights, location=location, root=root), self.X, self.weight)
        self.total = float(nodes.sum())
        used = np.flatnonzero(nodes.any(axis=1))
        return node_places(used).ravel(), (nodes[used] / self.total).ravel()

    def sums(self, shape: Weighs) -> Sums:
        """The M-step's sums."""
        found: Sums = pass_over(
            partial(_chunk_sums, location=self.location, root=self.root, shape=shape), self.X, self.weight
        )
        return Sums(found.total / self.total, found.first / self.total, found.second / self.total)


def whitened(X: Array, location: Array, root: Array) -> tuple[Array, Array]:
    """Rows in coordinates where the precision root' root is the identity, and their squared lengths."""
    Z = (X - location) @ root.T
    return Z, np.einsum("ij,ij->i", Z, Z)


def _sums(Z: Array, Q: Array, w: Array, shape: Weighs) -> Sums:
    a = w * shape.weights(Q)
    return Sums(float(a.sum()), a @ Z, weighted_gram(Z, a))


def _chunk_sums(X: Any, w: Any = None, *, location: Array, root: Array, shape: Weighs) -> Sums:
    X, w = kept_rows(X, w)
    return _sums(*whitened(X, location, root), w, shape)


def node_weights(X: Any, w: Any = None, *, location: Array, root: Array) -> Array:
    """Weights (bins x nodes) with sum_i w_i f(Q_i) = sum over nodes, f of degree 5 in log Q within a bin.

    Interpolation at Chebyshev nodes is linear in f, so what each row gives to its bin's nodes adds up over chunks.
    """
    X, w = kept_rows(X, w)
    return spread(whitened(X, location, root)[1], w)


def spread(Q: Array, w: Array) -> Array:
    """What rows at squared distances Q of weights w give to the nodes, bins x nodes."""
    place = (np.log(np.maximum(Q, np.exp(_LOW))) - _LOW) / _STEP
    bins: NDArray[np.intp] = np.minimum(place, _BINS - 1).astype(np.intp)
    inside = np.minimum(2.0 * (place - bins) - 1.0, 1.0)
    shares = w[:, None] * (np.vander(inside, _NODES, increasing=True) @ _TO_NODES)
    return np.stack([np.bincount(bins, column, minlength=_BINS) for column in shares.T], axis=1)


def node_places(bins: NDArray[np.intp]) -> Array:
    """Squared distances at the nodes of some bins."""
    return np.exp(_LOW + _STEP * (bins[:, None] + 0.5 * (_AT + 1.0)))
