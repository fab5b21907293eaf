"""Nadaraya-Watson over pairs with one Gaussian kernel on the sum of both sides' coordinates (cpHd as published)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._kernel import CHUNK, in_units
from ._links import Links

Array = NDArray[np.float64]

_NEAR = 12.0  # widths from the centre up to which no factor of a weight overflows or underflows
_FAINT = 1e-200  # sums of weights up to this are made again from their exponents


@dataclass(frozen=True)
class SumSmoother:
    r"""Training entities in their embedded coordinates, their links, and the width of the kernel.

    A pair has the coordinates e + f, and training pair (p, q) the weight :math:`\exp(-|e_i + f_j - e_p - f_q|^2 / 2 h^2)`
    in the score of (i, j). In units of h it is, but for a factor of (i, j),

    .. math:: [e^{-|e_i - e_p|^2/2}\, e^{e_p \cdot f_j}]\; e^{-e_p \cdot f_q}\; [e^{-|f_j - f_q|^2/2}\, e^{e_i \cdot f_q}],

    exponentials of two entities each: a score then takes one multiplication for each training pair. Entities far away,
    where the factors leave the range of numbers, take one exponential for each.
    """

    left: Array
    right: Array
    links: Links
    width: float
    chunk: int = CHUNK

    def blocks(self, E: Array, F: Array) -> Iterator[tuple[slice, slice, Any]]:
        """Predictions for all pairs of rows of E and F, a left entity at a time: rows, columns, scores."""
        P, Q = self._centred(self.left, "left"), self._centred(self.right, "right")
        E, F = self._centred(E, "left"), self._centred(F, "right")
        usual = max(_sizes(P).max(), _sizes(Q).max()) <= _NEAR
        near = _sizes(F) <= _NEAR
        for i, e in enumerate(E):
            inside = near if usual and np.linalg.norm(e) <= _NEAR else np.zeros(len(F), dtype=bool)
            yield slice(i, i + 1), slice(0, len(F)), self._row(e, F, P, Q, inside)[None]

    def _centred(self, X: Array, side: str) -> Array:
        """Coordinates in widths about the mean of the training entities: a shift of a side changes no weight."""
        return in_units(X - (self.left if side == "left" else self.right).mean(axis=0), self.width)

    def _parts(self, P: Array, Q: Array) -> Iterator[tuple[Any, Any, Array]]:
        """Training pairs, some left entities at a time: scores and weights of pairs, and the products e_p f_q."""
        links, step = self.links, max(1, self.chunk // len(Q))
        for start in range(0, len(P), step):
            part = slice(start, start + step)
            counted = None if links.counted is None else links.counted[part].toarray() + links.base
            yield part, counted, P[part] @ Q.T

    def _row(self, e: Array, F: Array, P: Array, Q: Array, inside: Any) -> Array:
        """Scores of one left entity with all right ones."""
        scores, done = np.empty(len(F)), np.zeros(len(F), dtype=bool)
        columns, step = np.flatnonzero(inside), max(1, self.chunk // max(len(P), len(Q)))
        for start in range(0, len(columns), step):
            some = columns[start : start + step]
            top, bottom = self._sums(e, F[some], P, Q)
            done[some] = bottom > _FAINT
            scores[some] = top / np.where(bottom > _FAINT, bottom, 1.0)
        for j in np.flatnonzero(~done):
            scores[j] = self._one(e + F[j], P, Q)
        return scores

    def _sums(self, e: Array, F: Array, P: Array, Q: Array) -> tuple[Array, Array]:
        """Weighted sums of scores, and of weights, of one left entity and some right ones."""
        U = np.exp(F @ P.T - np.sum((e - P) ** 2, axis=1) / 2)
        V = np.exp(Q @ e + F @ Q.T - np.sum(Q**2, axis=1) / 2 - np.sum(F**2, axis=1)[:, None] / 2)
        top, bottom = np.zeros(len(F)), np.zeros(len(F))
        for part, counted, cross in self._parts(P, Q):
            K = np.exp(-cross)
            top += np.sum((U[:, part] @ _times(self.links.scores[part], K)) * V, axis=1)
            bottom += np.sum((U[:, part] @ (K if counted is None else K * counted)) * V, axis=1)
        return top, bottom

    def _one(self, t: Array, P: Array, Q: Array) -> float:
        """One score by the exponents of all training pairs, beyond the largest of them so far."""
        highest, top, bottom = -np.inf, 0.0, 0.0
        for part, counted, cross in self._parts(P, Q):
            X = _exponents(t, P[part], Q, cross)
            if counted is not None:
                X[counted <= 0] = -np.inf
            here = float(X.max())
            if here == -np.inf:
                continue
            scale = np.exp(min(highest - here, 0.0))
            highest = max(highest, here)
            K = np.exp(X - highest)
            top = top * scale + float(_times(self.links.scores[part], K).sum())
            bottom = bottom * scale + float(np.sum(K if counted is None else K * counted))
        return top / bottom

    def weights(self, e: Array, f: Array) -> Array:
        """Weight of each stored pair in the prediction for one pair, as `Smoother.weights` has it."""
        links = self.links
        P, Q = self._centred(self.left, "left"), self._centred(self.right, "right")
        t = self._centred(e[None], "left")[0] + self._centred(f[None], "right")[0]
        X = _exponents(t, P, Q, P @ Q.T)
        if links.counted is not None:
            weight = links.counted.toarray() + links.base
            X[weight <= 0] = -np.inf
        K = np.exp(X - X.max())
        K = K if links.counted is None else K * weight
        pattern = links.Y if links.mask is None else links.mask
        owner = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        return np.asarray(K[owner, pattern.indices] / K.sum())


def sum_smoother(left: Array, right: Array, links: Links, widths: tuple[float, float]) -> SumSmoother:
    """With the width that both sides' kernels have together."""
    return SumSmoother(left, right, links, float(np.hypot(*widths)))


def _exponents(t: Array, P: Array, Q: Array, cross: Array) -> Array:
    """Logarithms of weights but for -|t|^2 / 2, which all have: entities far away lose no digits."""
    rows, columns = (X @ t - np.sum(X**2, axis=1) / 2 for X in (P, Q))
    return np.asarray(rows[:, None] + columns - cross)


def _sizes(X: Array) -> Array:
    return np.asarray(np.linalg.norm(X, axis=1))


def _times(table: Any, K: Array) -> Any:
    """A sparse table times a dense one, entry by entry, CSR."""
    owner = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    values = table.data * K[owner, table.indices]
    return sparse.csr_array((values, table.indices, table.indptr), shape=table.shape)
