"""How many directions pay: held-out prediction from embeddings of growing width."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

Array = NDArray[np.float64]

MOST = 10
FOLDS = 5
_ALPHAS = 10.0 ** np.arange(-3.0, 4.0)


@dataclass(frozen=True)
class HeldOutErrors:
    """Mean held-out squared error of 0, 1, ... directions, relative to the mean's, and the number that pays.

    Each width is read by the better of a linear and a quadratic ridge. ``n_components`` is the least number whose error is
    within one standard error (of the rows' differences) of the best; 0 where the mean is as good.
    """

    errors: Array
    standard_errors: Array
    n_components: int


def held_out_errors(
    fit: Callable[[Any, Any, Any], Callable[[Any], Array]],
    X: Any,
    y: Any,
    Y: Array,
    weights: Array | None,
    limit: int,
    blocks: int,
    folds: NDArray[np.intp],
) -> HeldOutErrors:
    """Errors by width: ``fit(X, y, weights)`` gives a function that embeds rows into ``blocks * limit`` coordinates.

    ``Y`` are the responses as numbers of unit variance, and ``folds`` the fold of each row.
    """
    w = np.ones(len(Y)) if weights is None else weights
    rows: list[Array] = []  # (widths + 1) x readers x held-out rows
    order: list[NDArray[np.intp]] = []
    for fold in np.unique(folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            embed = fit(X[train], y[train], None if weights is None else weights[train])
        Z, Z_test = embed(X[train]), embed(X[test])
        mean = w[train] @ Y[train] / w[train].sum()
        found = np.zeros((limit + 1, 2, len(test)))
        found[0] = np.sum((Y[test] - mean) ** 2, axis=1)
        for h in range(1, limit + 1):
            columns = (np.arange(blocks)[:, None] * limit + np.arange(h)).ravel()
            for k, reader in enumerate(_readers(len(columns), len(train))):
                if reader is None:
                    found[h, k] = np.inf
                    continue
                reader.fit(Z[:, columns], Y[train], ridgecv__sample_weight=w[train])
                guess = reader.predict(Z_test[:, columns]).reshape(len(test), -1)
                found[h, k] = np.sum((Y[test] - guess) ** 2, axis=1)
        rows.append(found)
        order.append(test)
    errors, place = np.concatenate(rows, axis=2), np.concatenate(order)
    w = w[place] / w.sum()
    means = np.einsum("hkn,n->hk", np.where(np.isfinite(errors), errors, 0.0), w)
    means[~np.isfinite(errors).all(axis=2)] = np.inf
    best_reader = np.argmin(means, axis=1)
    chosen = errors[np.arange(limit + 1), best_reader]
    mean = chosen @ w
    best = int(np.argmin(mean))
    gap = chosen - chosen[best]
    spread = np.sqrt(np.maximum(((gap - (gap @ w)[:, None]) ** 2) @ (w * w), 0.0))
    within = np.flatnonzero(mean - mean[best] <= spread)
    scale = mean[0] if mean[0] > 0 else 1.0
    return HeldOutErrors(mean / scale, spread / scale, int(within[0]))


def _readers(width: int, n_rows: int) -> list[Any]:
    """A linear and a quadratic ridge; no quadratic one where its terms outnumber the rows by far."""
    linear = make_pipeline(StandardScaler(), RidgeCV(_ALPHAS))
    if width * (width + 3) // 2 > 2 * n_rows:
        return [linear, None]
    squares = PolynomialFeatures(2, include_bias=False)
    return [linear, make_pipeline(StandardScaler(), squares, StandardScaler(), RidgeCV(_ALPHAS))]
