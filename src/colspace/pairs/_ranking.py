"""Predictions as tables with the entities' names."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._sklearn_compat import whole

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Blocks = Iterable[tuple[slice, slice, Array]]


def require_pandas(purpose: str) -> Any:
    """pandas, or an ImportError that names the extra."""
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        msg = (
            f"{purpose} returns a table and needs pandas, which is not installed: pip install 'colspace[cli]'"
        )
        raise ImportError(msg) from error


def scores_frame(scores: Array, rows: Any, columns: Any) -> Any:
    """Scores with the names of both sides."""
    pandas = require_pandas("predict")
    labels = (None if names is None else pandas.Index(names).infer_objects() for names in (rows, columns))
    return pandas.DataFrame(scores, *labels)


def ranked_frame(places: Index, scores: Array, rows: Any, columns: Any, known: Any = None) -> Any:
    """The best partners of each left entity as one long table; ``known`` (CSR) adds a column, -inf is no partner."""
    n, k = places.shape
    owner = np.repeat(np.arange(n), k)
    flat = places.ravel()
    table = {
        "left": owner if rows is None else np.asarray(rows)[owner],
        "rank": np.tile(np.arange(1, k + 1), n),
        "right": flat if columns is None else np.asarray(columns)[flat],
        "score": scores.ravel(),
    }
    if known is not None:
        table["known"] = np.asarray(known[owner, flat]).ravel().astype(bool)
    kept = np.isfinite(table["score"])
    if not kept.all():
        table = {name: values[kept] for name, values in table.items()}
    return require_pandas("rank").DataFrame(table).infer_objects()


def places_of(names: Any, entities: Any, n: int) -> Index:
    """Positions in fit of entities given by name, -1 for others; without names all are others."""
    if names is None or entities is None:
        return np.full(n, -1, dtype=np.intp)
    place = {name: i for i, name in enumerate(entities)}
    return np.array([place.get(name, -1) for name in names], dtype=np.intp)


def known_pairs(pattern: Any, rows: Index, columns: Index) -> Any:
    """Which pairs of some entities (positions in fit, -1 for others) have a link that fit saw, CSR of booleans."""
    table = sparse.csr_array(pattern)[np.maximum(rows, 0)]
    whole = len(columns) == table.shape[1] and np.array_equal(columns, np.arange(len(columns)))
    table = (table if whole else table[:, np.maximum(columns, 0)]).tocoo()
    i, j = table.coords
    kept = (rows[i] >= 0) & (columns[j] >= 0) & (table.data != 0)
    return sparse.csr_array((np.ones(int(kept.sum()), dtype=bool), (i[kept], j[kept])), shape=table.shape)


def without(blocks: Blocks, known: Any) -> Blocks:
    """Blocks with the scores of known pairs at -inf."""
    for rows, columns, scores in blocks:
        i, j = known[rows].tocoo().coords
        inside = (j >= columns.start) & (j < columns.stop)
        scores[i[inside], j[inside] - columns.start] = -np.inf
        yield rows, columns, scores


def rank_blocks(
    blocks: Blocks, shape: tuple[int, int], k: Any, names: tuple[Any, Any], known: Any, exclude: bool
) -> Any:
    """The k best partners of each row as a table that says which are known; without those if they are excluded."""
    check_k(k, shape[1])
    found = top_of_blocks(without(blocks, known) if exclude else blocks, shape[0], int(k))
    return ranked_frame(*found, *names, known)


def check_k(k: Any, n: int | None) -> None:
    """Refuse lists without a length, or longer than there are partners (None: of any length)."""
    if not whole(1).is_satisfied_by(k) or (n is not None and int(k) > n):
        limits = "at least 1" if n is None else f"between 1 and the {n} entities to rank"
        msg = f"k={k!r} must be a whole number {limits}"
        raise ValueError(msg)


def assemble(blocks: Blocks, shape: tuple[int, int]) -> Array:
    """Scores of all pairs in one array."""
    out = np.empty(shape)
    for rows, columns, scores in blocks:
        out[rows, columns] = scores
    return out


def top_of_blocks(blocks: Blocks, n: int, k: int) -> tuple[Index, Array]:
    """Positions and scores of the k best partners of each of n rows, best first; ties by position."""
    places, values = np.zeros((n, k), dtype=np.intp), np.full((n, k), -np.inf)
    for rows, columns, scores in blocks:
        both = np.hstack([values[rows], scores])
        here = np.broadcast_to(np.arange(columns.start, columns.stop), scores.shape)
        where = np.hstack([places[rows], here])
        order = best_first(both, k)
        values[rows] = np.take_along_axis(both, order, axis=1)
        places[rows] = np.take_along_axis(where, order, axis=1)
    return places, values


def best_first(scores: Array, k: int) -> Index:
    """Columns of the k largest of each row, largest first; ties by position."""
    width = scores.shape[1]
    if width <= 4 * k:
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]
    # columns above the k-th largest value, then the first ones that equal it
    limit = np.partition(scores, width - k, axis=1)[:, width - k, None]
    room = k - np.sum(scores > limit, axis=1, keepdims=True)
    equal = scores == limit
    keep = (scores > limit) | (equal & (np.cumsum(equal, axis=1) <= room))
    kept = np.nonzero(keep)[1].reshape(-1, k)
    order = np.argsort(-np.take_along_axis(scores, kept, axis=1), axis=1, kind="stable")
    return np.take_along_axis(kept, order, axis=1)
