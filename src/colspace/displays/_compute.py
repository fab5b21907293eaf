"""The numbers behind the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._blocks import parse_columns
from .._validation import feature_names

Array = NDArray[np.float64]

_MOST_CLASSES = 10  # whole numbers with at most so many values are drawn as classes


def column_names(estimator: Any) -> list[str]:
    """Names of the columns of X, ``x0``, ``x1``, ... when it had none."""
    names = feature_names(estimator)
    return list(names) if names is not None else [f"x{i}" for i in range(estimator.n_features_in_)]


def block_loadings(estimator: Any, X: Any = None) -> dict[str, tuple[list[str], Array]]:
    """Column names and loadings of each block; times the columns' standard deviation when X is given."""
    check_is_fitted(estimator)
    names = column_names(estimator)
    deviation = np.ones(len(names)) if X is None else np.std(np.asarray(X, dtype=np.float64), axis=0)
    if len(deviation) != len(names):
        msg = f"X has {len(deviation)} columns, but the estimator was fitted on {len(names)}"
        raise ValueError(msg)
    return {
        block: (
            [names[c] for c in columns],
            np.asarray(estimator.loadings_[block], dtype=np.float64) * deviation[columns][:, None],
        )
        for block, columns in estimator.blocks_.items()
    }


def largest(loading: Array, limit: int) -> NDArray[np.intp]:
    """Positions of the largest absolute entries that are not zero, largest first."""
    order = np.argsort(-np.abs(loading), kind="stable")[:limit]
    return order[loading[order] != 0.0]


def check_components(components: int | Sequence[int], available: int) -> tuple[int, ...]:
    """Component numbers as a tuple, each below ``available``."""
    chosen = (components,) if isinstance(components, int | np.integer) else tuple(components)
    bad = [k for k in chosen if not 0 <= k < available]
    if bad or not chosen:
        msg = f"components={components!r}: the estimator has {available} per block, numbered from 0"
        raise ValueError(msg)
    return tuple(int(k) for k in chosen)


def check_block(estimator: Any, block: str | None) -> str:
    """The name of a block, the first one when None."""
    known = list(estimator.blocks_)
    if block is None:
        return str(known[0])
    if block not in known:
        msg = f"block={block!r} is unknown; blocks: {', '.join(map(repr, known))}"
        raise ValueError(msg)
    return block


def embedding_columns(
    estimator: Any, block: str | None, components: Sequence[int | str] | None
) -> tuple[list[int], list[str]]:
    """Positions and names of the two columns of the embedding to draw."""
    names = [str(n) for n in estimator.get_feature_names_out()]
    blocks = list(estimator.blocks_)
    r = int(estimator.n_components_)
    first = blocks.index(check_block(estimator, block)) * r
    if components is None:
        across = r == 1 and block is None and len(blocks) > 1
        components = (names[0], names[1]) if across else (0, 1)
    if len(components) != 2:
        msg = f"components={components!r}: a scatter needs two columns of the embedding"
        raise ValueError(msg)
    positions = []
    for component in components:
        if isinstance(component, str):
            positions.append(int(parse_columns(component, len(names), names, what="components")[0]))
        elif 0 <= component < r:
            positions.append(first + int(component))
        else:
            msg = (
                f"components={tuple(components)!r}: block {blocks[first // r]!r} has {r} component(s), numbered "
                f"from 0. Columns of different blocks are named: {', '.join(names[:6])}"
            )
            raise ValueError(msg)
    return positions, [names[p] for p in positions]


def colour_response(y: Any, rows: int) -> tuple[NDArray[Any], bool]:
    """y as one column, and whether it is drawn as classes."""
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values.ravel()
    if values.shape != (rows,):
        msg = f"y must be one column with a value for each of the {rows} rows, got shape {values.shape}"
        raise ValueError(msg)
    if values.dtype.kind in "OUSb" or hasattr(y, "cat"):
        return values.astype(object), True
    distinct = np.unique(values[:50_000])
    whole = bool(np.all(distinct == np.round(distinct)))
    return values, whole and len(distinct) <= _MOST_CLASSES
