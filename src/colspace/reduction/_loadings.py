"""Loadings of a fitted linear reduction, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._validation import feature_names

Array = NDArray[np.float64]


def blocks_of(estimator: Any) -> dict[str, NDArray[np.intp]]:
    """Columns of each block; one block "x" of all columns for estimators without blocks."""
    blocks = getattr(estimator, "blocks_", None)
    return blocks if blocks is not None else {"x": np.arange(estimator.n_features_in_)}


def block_loadings(estimator: Any, deviation: Array | None = None) -> dict[str, tuple[list[str], Array]]:
    """Column names and loadings of each block, times the columns' standard deviations when given."""
    check_is_fitted(estimator)
    if not hasattr(estimator, "components_"):
        msg = (
            f"{type(estimator).__name__} has no components_; loadings are those of a linear reduction such as "
            "JointReduction or SlicedInverse"
        )
        raise TypeError(msg)
    n_features = int(estimator.n_features_in_)
    names = feature_names(estimator) or [f"x{i}" for i in range(n_features)]
    if deviation is None:
        deviation = np.ones(n_features)
    if len(deviation) != n_features:
        msg = f"X has {len(deviation)} columns, but the estimator was fitted on {n_features}; give it the same columns"
        raise ValueError(msg)
    blocks = blocks_of(estimator)
    directions = np.split(np.asarray(estimator.components_, dtype=np.float64), len(blocks))
    return {
        block: ([names[c] for c in columns], (D * deviation)[:, columns].T)
        for (block, columns), D in zip(blocks.items(), directions, strict=True)
    }


def block_errors(estimator: Any, deviation: Array | None = None) -> dict[str, Array] | None:
    """Standard errors of the loadings of each block, in the units of ``block_loadings``; None where there are none."""
    errors = getattr(estimator, "components_error_", None)
    if errors is None:
        return None
    blocks = blocks_of(estimator)
    scaled = np.asarray(errors, dtype=np.float64) * (1.0 if deviation is None else deviation)
    return {
        block: E[:, columns].T
        for (block, columns), E in zip(blocks.items(), np.split(scaled, len(blocks)), strict=True)
    }


def largest(loading: Array, limit: int) -> NDArray[np.intp]:
    """Positions of the largest absolute entries that are not zero, largest first."""
    order = np.argsort(-np.abs(loading), kind="stable")[:limit]
    return order[loading[order] != 0.0]
