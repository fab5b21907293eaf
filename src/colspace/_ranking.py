"""How well partners are ranked, entity by entity; `colspace.metrics` has the public names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def _entities(truth: Any, scores: Any, what: str) -> tuple[Mask, Array]:
    """Which pairs are positive, and scores, of one shape."""
    S = np.asarray(scores, dtype=np.float64)
    P = truth.toarray() if sparse.issparse(truth) else np.asarray(truth)
    if S.ndim == 1 and P.ndim == 1:
        S, P = S[None], P[None]
    if S.ndim != 2 or S.shape != P.shape:
        msg = f"{what} compares tables of one shape (entities x partners), got {P.shape} and {S.shape}"
        raise ValueError(msg)
    P = P.astype(np.float64)
    if np.isnan(S).any() or np.isnan(P).any():
        msg = f"{what} is not defined for NaN; leave those entities out"
        raise ValueError(msg)
    return P > 0, S


def _summary(values: Array, per_entity: bool, what: str, needs: str) -> Any:
    if per_entity:
        return values
    if np.isnan(values).all():
        msg = f"{what}: no entity has {needs}"
        raise ValueError(msg)
    return float(np.nanmean(values))


def _check_k(k: Any, n: int, what: str) -> int:
    if not isinstance(k, int | np.integer) or not 1 <= k <= n:
        msg = f"{what}: k={k!r} must be a whole number between 1 and the {n} partners"
        raise ValueError(msg)
    return int(k)


def _expected_hits(P: Mask, S: Array, k: int) -> Array:
    """Positives among the first k, expected when ties are broken at random."""
    limit = np.partition(S, S.shape[1] - k, axis=1)[:, S.shape[1] - k, None]
    above, tied = limit < S, limit == S
    share = (k - above.sum(axis=1)) / tied.sum(axis=1)
    return (P & above).sum(axis=1) + share * (P & tied).sum(axis=1)


def recall_at_k(truth: Any, scores: Any, k: int = 10, *, per_entity: bool = False) -> Any:
    """Share of each entity's positives among its k best-scored partners, averaged over entities.

    Ties at the end of the list count as if broken at random (the expected share). Entities without positives are
    left out: NaN per entity, and no part of the mean.

    Parameters
    ----------
    truth : sparse or dense table (entities, partners); positive where above zero.
    scores : dense table of the same shape; larger is better.
    k : length of the list.
    per_entity : return one value per entity instead of the mean.

    Examples
    --------
    >>> recall_at_k([[1, 0, 1], [0, 1, 0], [0, 0, 0]], [[0.9, 0.5, 0.1], [0.2, 0.1, 0.3], [1, 2, 3]], k=1)
    0.25
    >>> recall_at_k([[1, 0, 0, 0]], [[0.5, 0.5, 0.5, 0.5]], k=2)
    0.5
    """
    P, S = _entities(truth, scores, "recall_at_k")
    hits = _expected_hits(P, S, _check_k(k, S.shape[1], "recall_at_k"))
    count = P.sum(axis=1)
    values = np.where(count > 0, hits / np.maximum(count, 1), np.nan)
    return _summary(values, per_entity, "recall_at_k", "a positive partner")


def precision_at_k(truth: Any, scores: Any, k: int = 10, *, per_entity: bool = False) -> Any:
    """Share of positives among each entity's k best-scored partners; rules and parameters as in `recall_at_k`.

    Examples
    --------
    >>> precision_at_k([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.2, 0.4, 0.3]], k=2)
    0.5
    """
    P, S = _entities(truth, scores, "precision_at_k")
    hits = _expected_hits(P, S, _check_k(k, S.shape[1], "precision_at_k"))
    values = np.where(P.any(axis=1), hits / k, np.nan)
    return _summary(values, per_entity, "precision_at_k", "a positive partner")


def average_precision_by_entity(truth: Any, scores: Any, *, per_entity: bool = False) -> Any:
    """Mean over positives of the precision at their place in the list, averaged over entities.

    Tied partners take one place together, the last of theirs, as in scikit-learn's average_precision_score.
    Entities without positives are left out; parameters as in `recall_at_k`.

    Examples
    --------
    >>> average_precision_by_entity([[1, 0, 1]], [[0.9, 0.5, 0.1]])
    0.8333333333333333
    """
    P, S = _entities(truth, scores, "average_precision_by_entity")
    values = np.full(len(S), np.nan)
    for i in np.flatnonzero(P.any(axis=1)):
        own = S[i, P[i]]
        listed = S.shape[1] - np.searchsorted(np.sort(S[i]), own, side="left")
        found = len(own) - np.searchsorted(np.sort(own), own, side="left")
        values[i] = np.mean(found / listed)
    return _summary(values, per_entity, "average_precision_by_entity", "a positive partner")


def auc_by_entity(truth: Any, scores: Any, *, per_entity: bool = False) -> Any:
    """Probability that a positive partner scores above another one, ties counting half, averaged over entities.

    Entities without positives, or with positives only, are left out; parameters as in `recall_at_k`.

    Examples
    --------
    >>> auc_by_entity([[1, 0, 0], [1, 1, 1]], [[0.5, 0.1, 0.9], [1, 2, 3]])
    0.5
    """
    P, S = _entities(truth, scores, "auc_by_entity")
    n, total = P.sum(axis=1), P.shape[1]
    ranks = rankdata(S, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = ((ranks * P).sum(axis=1) - n * (n + 1) / 2) / (n * (total - n))
    values[(n == 0) | (n == total)] = np.nan
    return _summary(values, per_entity, "auc_by_entity", "both positive and other partners")
