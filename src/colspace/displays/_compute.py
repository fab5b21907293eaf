"""The numbers behind the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from .._blocks import parse_columns
from .._containers import as_column, as_table
from ..reduction._loadings import blocks_of

Array = NDArray[np.float64]

_MOST_CLASSES = 10  # whole numbers with at most so many values are drawn as classes


def deviations(estimator: Any, X: Any = None) -> Array | None:
    """Standard deviations of the columns: those of X, else those that the estimator saw in fit, else None."""
    if X is None:
        return getattr(estimator, "scale_", None)
    return spread(as_table(X).values)


def spread(table: Any) -> Array:
    """Standard deviations of the columns of an array or sparse matrix."""
    if sparse.issparse(table) and table.shape[1]:
        return np.sqrt(mean_variance_axis(sparse.csr_array(table).astype(np.float64), axis=0)[1])
    return np.std(np.asarray(table, dtype=np.float64), axis=0) if table.shape[1] else np.zeros(0)


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
    known = list(blocks_of(estimator))
    if block is None:
        return str(known[0])
    if block not in known:
        msg = f"block={block!r} is unknown; blocks: {', '.join(map(repr, known))}"
        raise ValueError(msg)
    return block


def embedding_columns(
    estimator: Any, block: str | None, components: int | str | Sequence[int | str] | None
) -> tuple[list[int], list[str]]:
    """Positions and names of the one or two columns of the embedding to draw."""
    names = [str(n) for n in estimator.get_feature_names_out()]
    blocks = list(blocks_of(estimator))
    r = len(names) // len(blocks)
    first = blocks.index(check_block(estimator, block)) * r
    if components is None:
        across = r == 1 and block is None and len(blocks) > 1
        chosen: tuple[int | str, ...] = (names[0], names[1]) if across else (0, 1)[:r]
    else:
        chosen = (components,) if isinstance(components, int | np.integer | str) else tuple(components)
    if len(chosen) not in (1, 2):
        msg = f"components={components!r}: give one or two columns of the embedding"
        raise ValueError(msg)
    positions = []
    for component in chosen:
        if isinstance(component, str):
            positions.append(int(parse_columns(component, len(names), names, what="components")[0]))
        elif 0 <= component < r:
            positions.append(first + int(component))
        else:
            msg = (
                f"components={components!r}: block {blocks[first // r]!r} has {r} component(s), numbered "
                f"from 0. Columns of different blocks are named: {', '.join(names[:6])}"
            )
            raise ValueError(msg)
    return positions, [names[p] for p in positions]


def colour_response(y: Any, rows: int) -> tuple[NDArray[Any], bool]:
    """y as one column, and whether it is drawn as classes."""
    values, categories = as_column(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values.ravel()
    if values.shape != (rows,):
        msg = f"y must be one column with a value for each of the {rows} rows, got shape {values.shape}"
        raise ValueError(msg)
    if values.dtype.kind in "OUSTb" or categories:
        return values.astype(object), True
    distinct = np.unique(values)
    whole = bool(np.all(distinct == np.round(distinct)))
    return values, whole and len(distinct) <= _MOST_CLASSES
