"""What a regressor of pairs is worth on left entities left out, by fits to the others, beside simple rivals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._ranking import average_precision_by_entity, recall_at_k
from ._features import PairTable, filled
from ._quality import MOST, NEIGHBOURS, WIDTH
from ._rivals import nearest
from ._search import HeldOutEntities
from ._similarity import base_kernel

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_FOLDS = 3


def refit_quality(model: Any, A: Any, B: Any, Y: Any, mask: Any, k: int) -> list[dict[str, Any]]:
    """Rows of method and measures, as `quality` has them: means over thirds of the left entities with links.

    The model is tuned anew on the others; neighbours are as many as serve the other thirds best. A and B are frames of
    features, or of similarities, and Y is sparse. Fewer entities than thirds say nothing.
    """
    pattern = Y if mask is not None else Y > 0
    if np.count_nonzero(np.diff(pattern.tocsr().indptr)) < _FOLDS:
        return []
    given, few = model.metric == "precomputed", len(A) <= MOST
    S = A.to_numpy(dtype=np.float64) if given else _similarity(A, model.impute) if few else None
    fresh = clone(model).set_params(calibrate=False)
    found: dict[str, list[tuple[float, float]]] = {}
    for train, test in HeldOutEntities(_FOLDS, random_state=0).split(PairTable(A, B, Y, mask)):
        here, there = (A.iloc[train, train], A.iloc[test, train]) if given else (A.iloc[train], A.iloc[test])
        scores = np.asarray(fresh.fit(here, B, Y[train], mask).predict(there))
        if mask is not None:
            mean = float(Y[train].sum() / Y[train].nnz)
            for name, each in (("joint reduction", scores), ("mean", np.full(scores.shape, mean))):
                found.setdefault(name, []).append((_error(Y[test], each), 0.0))
            continue
        popular = np.broadcast_to(np.asarray(Y[train].sum(axis=0)).ravel(), scores.shape)
        ways = {"joint reduction": scores, "popularity": popular}
        ways |= {} if S is None else {f"{n}": _near(S, Y, train, test, n) for n in NEIGHBOURS}
        for name, each in ways.items():
            pair = recall_at_k(Y[test], each, k), average_precision_by_entity(Y[test], each)
            found.setdefault(name, []).append((float(pair[0]), float(pair[1])))
    if mask is not None:
        return [{"method": name, "error": float(np.sqrt(np.mean(v, axis=0)[0]))} for name, v in found.items()]
    if S is not None:
        found["nearest neighbours"] = _by_others(found)
    return [
        {"method": name, "recall": float(mean[0]), "average precision": float(mean[1])}
        for name, mean in ((name, np.mean(values, axis=0)) for name, values in found.items())
    ]


def _by_others(found: dict[str, list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Measures of each fold with the number of neighbours that the other folds like best."""
    near = np.array([found.pop(f"{n}") for n in NEIGHBOURS])  # numbers of neighbours x folds x measures
    best = [np.delete(near[:, :, 0], fold, axis=1).mean(axis=1).argmax() for fold in range(near.shape[1])]
    return [(float(near[n, fold, 0]), float(near[n, fold, 1])) for fold, n in enumerate(best)]


def _similarity(A: Any, impute: bool) -> Array:
    X = filled(A, "left")[0] if impute else A
    base = base_kernel(np.asarray(X, dtype=np.float64), "gaussian")
    return np.asarray(base.kernel(base.raw(base.values), WIDTH))


def _near(S: Array, Y: Any, train: Index, test: Index, k: int) -> Array:
    """Mean scores of the k most similar training entities."""
    return np.asarray((nearest(S[np.ix_(test, train)], k, itself=True) @ Y[train]).toarray())


def _error(Y: Any, scores: Array) -> float:
    """Mean squared error of the stored scores."""
    rows, columns = Y.tocoo().coords
    return float(np.mean((scores[rows, columns] - Y.data) ** 2))
