"""Rivals of joint reduction on links: kernel ridge in two steps, after a joint reduction, as one Kronecker system, neighbours.

Every rival climbs along its settings, one at a time, by recall at 100 on the tuning partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..factor import eigh
from ..metrics import recall_at_k
from ..pairs._climb import climb
from ..pairs._links import Links
from ..pairs._reduce import embeddings, pair_moments
from ..pairs._ridge import Ridge, inverse_plus
from ..pairs._ridge_search import ALPHAS, WIDER
from ..pairs._similarity import base_kernel, profile_kernel

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Values = tuple[Any, ...]

_KEPT = 3


@dataclass
class Memory:
    """Features and links of a study, and matrices that settings or partitions share; the last few of a kind are kept."""

    A: Array
    B: Array
    Y: Any
    kept: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def keep(self, what: str, key: Any, make: Callable[[], Any]) -> Any:
        """Something made before with the same key, or made now."""
        store = self.kept.setdefault(what, {})
        if key not in store:
            while len(store) >= _KEPT:
                store.pop(next(iter(store)))
            store[key] = make()
        return store[key]

    def kernel(self, side: str, bandwidth: float) -> Any:
        """Gaussian kernel of all entities of a side, single precision."""
        X = self.A if side == "left" else self.B
        base, raw = self.keep("distances " + side, None, lambda: _distances(X, True))
        return self.keep("kernel " + side, bandwidth, lambda: base.kernel(raw, bandwidth))


def _distances(X: Array, standardise: bool) -> tuple[Any, Any]:
    base = base_kernel(X, "gaussian", standardise=standardise)
    return base, base.raw(base.values).astype(np.float32)


def two_step(m: Memory, train: Index, test: Index, values: Values) -> Any:
    """k (K + alpha)^-1 Y (L + beta)^-1 L; weights k (K + alpha)^-1 as they are, or their positive parts."""
    h, alpha, g, beta, positive = values
    K, L = m.kernel("left", h), m.kernel("right", g)
    inverse = m.keep("right inverse", (g, beta), lambda: inverse_plus(L, beta))
    half = _left(K, m.Y, train, test, alpha, positive)
    return half - beta * (half @ inverse)


def _left(K: Any, Y: Any, train: Index, test: Index, alpha: float, positive: bool) -> Any:
    ridge = Ridge(inverse_plus(K[np.ix_(train, train)], alpha), alpha, positive)
    return ridge.weights(K[np.ix_(test, train)]) @ Y[train].astype(np.float32)


def joint_ridge(m: Memory, train: Index, test: Index, values: Values) -> Any:
    """The same on joint directions of the training part."""
    h, alpha, g, beta, r, shrinkage, positive = values
    key = len(train), int(train[:50].sum()), shrinkage, min(r, m.A.shape[1], m.B.shape[1])

    def coordinates() -> Any:
        moments = pair_moments(m.A[train], m.B, Links(m.Y[train]), "joint", key[-1])
        return [
            e(X) for e, X in zip(embeddings(moments, "joint", key[-1], shrinkage), (m.A, m.B), strict=True)
        ]

    pair = m.keep("coordinates", key, coordinates)
    (left, D), (right, E) = m.keep("coordinate distances", key, lambda: [_distances(X, False) for X in pair])
    half = _left(left.kernel(D, h), m.Y, train, test, alpha, positive)
    inverse = m.keep("coordinate inverse", (key, g, beta), lambda: inverse_plus(right.kernel(E, g), beta))
    return half - beta * (half @ inverse)


def kronecker(m: Memory, train: Index, test: Index, values: Values) -> Any:
    """k (K x L + alpha)^-1 vec Y, by eigenvectors of both; a share of L may be the kernel of the genes' links."""
    h, g, alpha, share = values
    K, L = m.kernel("left", h), m.kernel("right", g)
    if share:
        links = sparse.csr_array(m.Y[train].T)
        everyone = np.arange(links.shape[0])
        L = (1 - share) * L + share * profile_kernel(links, everyone, everyone)
    part = len(train), int(train[:50].sum())
    key = (g, share, part if share else None)
    b, V = m.keep("right eigenvectors", key, lambda: eigh(L))
    a, U = m.keep("left eigenvectors", (h, part), lambda: eigh(K[np.ix_(train, train)]))
    core = (U.T @ m.Y[train]) @ V
    core *= np.maximum(b, 0) / (np.outer(np.maximum(a, 0), np.maximum(b, 0)) + alpha)
    return ((K[np.ix_(test, train)] @ U) @ core) @ V.T


def near(m: Memory, train: Index, test: Index, values: Values) -> Any:
    """Mean scores of the k most similar diseases, weighted by similarity."""
    h, k = values
    K = m.kernel("left", h)[np.ix_(test, train)]
    least = -np.partition(-K, k - 1, axis=1)[:, k - 1 : k]
    K = np.where(least <= K, K, 0.0)
    return (K / np.maximum(K.sum(axis=1, keepdims=True), 1e-30)) @ m.Y[train]


@dataclass(frozen=True)
class Rival:
    """Predictions for held-out entities by settings, the values of each, and where to begin."""

    scores: Callable[[Memory, Index, Index, Values], Any]
    ladders: tuple[Values, ...]
    start: tuple[int, ...]

    def at(self, places: tuple[int, ...]) -> Values:
        """The settings at these places of the ladders."""
        return tuple(values[i] for values, i in zip(self.ladders, places, strict=True))


_WIDTHS, _RIDGES, _SIGNS = WIDER[::2], ALPHAS[::2], (False, True)
RIVALS = {
    "kernel ridge": Rival(two_step, (_WIDTHS, _RIDGES, _WIDTHS, _RIDGES, _SIGNS), (4, 4, 1, 2, 0)),
    "JDR + ridge": Rival(
        joint_ridge,
        (_WIDTHS, _RIDGES, _WIDTHS, _RIDGES, (50, 100, 200), (0.1, 0.3, 0.5), _SIGNS),
        (4, 5, 3, 2, 2, 1, 0),
    ),
    "Kronecker ridge": Rival(kronecker, (_WIDTHS[2:], _WIDTHS[:4], _RIDGES, (0.0,)), (2, 1, 4, 0)),
    "Kronecker ridge, profiles": Rival(
        kronecker, (_WIDTHS[4:5], _WIDTHS[1:2], _RIDGES, (0.25, 0.5)), (0, 0, 4, 1)
    ),
    "neighbours": Rival(near, (WIDER, (1, 3, 5, 10, 20, 50, 100)), (6, 4)),
}


def tuned_rival(rival: Rival, m: Memory, train: Index, test: Index, k: int = 100) -> tuple[Values, float]:
    """The settings of highest recall on one partition, found by climbing, and that recall."""
    found: dict[tuple[int, ...], float] = {}

    def score(places: tuple[int, ...]) -> float:
        if places not in found:
            scores = rival.scores(m, train, test, rival.at(places))
            found[places] = float(recall_at_k(m.Y[test], scores, min(k, scores.shape[1])))
        return found[places]

    best = climb(score, tuple(len(values) for values in rival.ladders), rival.start)
    return rival.at(best), score(best)
