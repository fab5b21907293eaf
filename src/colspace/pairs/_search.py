"""Held-out entities for scikit-learn's searches: a splitter and scorers for a PairTable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._random import generator
from ..metrics import auc_by_entity, average_precision_by_entity, precision_at_k, recall_at_k
from ._features import PairTable
from ._links import check_links, read_links
from ._tune import entity_folds

Index = NDArray[np.intp]

_METRICS = ("recall", "precision", "average_precision", "auc", "neg_mean_squared_error")


class HeldOutEntities:
    """Folds over the left entities of a PairTable.

    Entities with links are held out in turn; those without are always in the training part.

    Parameters
    ----------
    n_splits : int, default=5
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.pairs import HeldOutEntities, PairTable
    >>> table = PairTable(np.eye(4), np.eye(2), np.array([[1, 0], [0, 0], [0, 1], [1, 1]]))
    >>> sorted(np.concatenate([test for _, test in HeldOutEntities(3, random_state=0).split(table)]).tolist())
    [0, 2, 3]
    """

    def __init__(self, n_splits: int = 5, *, random_state: Any = None) -> None:
        if n_splits < 2:
            msg = f"n_splits={n_splits} must be at least 2"
            raise ValueError(msg)
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Index, Index]]:
        """Positions of training and held-out left entities, fold by fold."""
        if not isinstance(X, PairTable):
            msg = f"HeldOutEntities splits a PairTable(A, B, Y), got {type(X).__name__}"
            raise TypeError(msg)
        links = check_links(X.Y, X.mask, (len(X), X.B.shape[0]), X.sample_weight)
        pattern = links.positives() if links.mask is None else links.mask
        linked = np.flatnonzero(np.diff(pattern.indptr))
        for test in entity_folds(linked, self.n_splits, generator(self.random_state)):
            yield np.setdiff1d(np.arange(len(X)), test), test


@dataclass(frozen=True)
class _Scorer:
    """``scorer(model, table)`` for GridSearchCV and cross_validate."""

    metric: str
    k: int

    def __call__(self, estimator: Any, table: PairTable, y: Any = None) -> float:
        scores = np.asarray(estimator.predict(table.A, table.B))
        if self.metric == "neg_mean_squared_error":
            return _neg_squared_error(table, scores)
        positive = (
            table.Y if sparse.issparse(table.Y) else np.nan_to_num(np.asarray(table.Y, dtype=np.float64))
        )
        if table.sample_weight is not None:  # links of weight zero are none
            positive = read_links(table.Y, table.mask, scores.shape, table.sample_weight).scores
        with_k: dict[str, Callable[..., Any]] = {"recall": recall_at_k, "precision": precision_at_k}
        if self.metric in with_k:
            return float(with_k[self.metric](positive, scores, self.k))
        whole = {"average_precision": average_precision_by_entity, "auc": auc_by_entity}
        return float(whole[self.metric](positive, scores))


def _neg_squared_error(table: PairTable, scores: Any) -> float:
    links = read_links(table.Y, table.mask, scores.shape, table.sample_weight)
    if links.mask is None:
        weight = None if links.extra is None else 1.0 + links.extra.toarray()
        return -float(np.average((links.Y.toarray() - scores) ** 2, weights=weight))
    rows, columns = links.mask.tocoo().coords
    truth = np.asarray(links.Y[rows, columns]).ravel()
    errors = (truth - scores[rows, columns]) ** 2
    return -float(np.average(errors, weights=links.weights_at(rows, columns)))


def pair_scorer(metric: str = "recall", k: int = 10) -> Callable[..., float]:
    """A scorer of predictions for held-out left entities, for ``scoring=`` of scikit-learn's searches.

    Parameters
    ----------
    metric : {"recall", "precision", "average_precision", "auc", "neg_mean_squared_error"}
        See `colspace.metrics`; the squared error is over observed pairs, each as often as its weight says. The others
        count every link of positive weight once.
    k : length of the list for recall and precision.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from colspace.datasets import make_pairs
    >>> from colspace.pairs import HeldOutEntities, PairRegressor, PairTable, pair_scorer
    >>> A, B, Y, _ = make_pairs(200, 100, rng=0)
    >>> search = GridSearchCV(
    ...     PairRegressor(bandwidth=0.2, shrinkage=0.1),
    ...     {"n_components": [1, 3]},
    ...     cv=HeldOutEntities(3, random_state=0),
    ...     scoring=pair_scorer("recall", k=10),
    ... ).fit(PairTable(A, B, Y))
    >>> search.best_params_
    {'n_components': 3}
    """
    if metric not in _METRICS:
        msg = f"metric={metric!r} must be one of {', '.join(_METRICS)}"
        raise ValueError(msg)
    if k < 1:
        msg = f"k={k} must be at least 1"
        raise ValueError(msg)
    return _Scorer(metric, int(k))
