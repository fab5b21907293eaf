"""The table that reductions are compared on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from .._blocks import parse_blocks
from .._response import check_varies, make_encoder
from .._rows import is_dask
from .._validation import check_table, check_weights, feature_names
from ..reduction import JointReduction
from ._methods import width_parameter

Array = NDArray[np.float64]
Positions = dict[str, NDArray[np.intp]]


@dataclass(frozen=True)
class ComparedTable:
    """The rows that are compared on: X and y in units of order one, classes as text."""

    X: Array
    y: NDArray[Any]
    classes: bool
    metric: str
    variance: Array
    weights: Array | None
    blocks: Positions
    named: bool
    rows: NDArray[np.intp]  # those of positive weight
    names: Sequence[str] | None

    def score(self, truth: Any, guess: Any, weights: Any) -> float:
        """Score of guesses."""
        if self.metric == "R2":
            square = np.square(np.subtract(truth, np.reshape(guess, np.shape(truth)))).reshape(len(truth), -1)
            loss = np.average(square, axis=0, weights=weights)
            return float(np.mean(1.0 - loss / self.variance))
        right = np.asarray(truth) == np.asarray(guess)
        w = np.ones(len(right)) if weights is None else weights
        if self.metric == "accuracy":
            return float(np.average(right, weights=w))
        return float(
            np.mean([np.average(right[truth == c], weights=w[truth == c]) for c in np.unique(truth)])
        )

    def gains(self, truth: Any, guess: Any, nothing: Any) -> Array:
        """What each row adds to the score, less what it adds where ``nothing`` is guessed."""
        if self.metric == "R2":
            both = [np.square(np.subtract(truth, np.reshape(g, np.shape(truth)))) for g in (nothing, guess)]
            return np.mean((both[0] - both[1]).reshape(len(truth), -1) / self.variance, axis=1)
        right = (np.asarray(guess) == truth).astype(float) - (np.asarray(nothing) == truth)
        if self.metric == "accuracy":
            return right
        labels, place = np.unique(self.y, return_inverse=True)
        shares = np.bincount(place, weights=self.weights) / (
            len(place) if self.weights is None else self.weights.sum()
        )
        return right / (len(labels) * shares[np.searchsorted(labels, truth)])

    def sized(self, estimator: Any, h: int | None, n_rows: int) -> Any:
        """A copy of a reducer with h directions per block."""
        model = clone(estimator)
        blocks = [self.blocks]
        own = "blocks" in model.get_params(deep=False)
        if own:
            if not self.named and model.blocks is not None:
                parsed = parse_blocks(model.blocks, self.X.shape[1], self.names)
                blocks = [dict(zip(parsed.names, parsed.columns, strict=True))]
                rest = np.setdiff1d(np.arange(self.X.shape[1]), np.concatenate(parsed.columns))
                model.set_params(blocks={**blocks[0], **({"drop": rest} if len(rest) else {})})
            elif self.named:
                model.set_params(blocks=self.blocks)
        parameter = width_parameter(model)
        if h is None or parameter is None:
            return model
        widest = min(map(len, blocks[0].values())) if own else self.X.shape[1]
        count = h if own else h * len(self.blocks)
        return model.set_params(**{parameter: max(1, min(count, widest, n_rows - 1))})


def read_table(X: Any, y: Any, blocks: Any, response: Any, sample_weight: Any) -> ComparedTable:
    """Check the input and put it into units of order one."""
    if is_dask(X) or is_dask(y):
        msg = "a comparison takes rows in memory: compute a sample of the Dask collection first, e.g. X.sample(frac=0.1)"
        raise TypeError(msg)
    model = JointReduction()
    X = check_table(model, X, reset=True, min_rows=4)
    names = feature_names(model)
    weights = check_weights(sample_weight, X)
    encoder = make_encoder(y, response, caller="compare_reductions", codes=2)
    Y = encoder(y).copy()
    if len(Y) != X.shape[0]:
        msg = f"X has {X.shape[0]} rows and y {len(Y)}; give one response per row"
        raise ValueError(msg)
    parsed = parse_blocks(blocks, X.shape[1], names)
    order = np.concatenate(parsed.columns)
    kept = np.arange(len(Y)) if weights is None else np.flatnonzero(weights)
    X = X[:, order]
    X = np.array(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    left_out = np.setdiff1d(np.arange(len(Y)), kept)
    X[left_out], Y[left_out] = X[kept[0]], Y[kept[0]]
    X, Y = X / _units(X), Y / _units(Y)
    mean = np.average(Y, axis=0, weights=weights)
    variance = np.average((Y - mean) ** 2, axis=0, weights=weights)
    check_varies(variance)
    metric, target = "R2", Y[:, 0] if Y.shape[1] == 1 else Y
    if encoder.classes is not None:
        labels = [str(c) for c in encoder.classes]
        if len(set(labels)) < len(labels):
            labels = [repr(c) for c in encoder.classes]
        codes = np.argmax(Y, axis=1) if Y.shape[1] > 1 else (Y[:, 0] > 0).astype(int)
        target = np.array(labels)[codes]
        share = np.bincount(codes, weights=weights).max() / (len(codes) if weights is None else weights.sum())
        metric = "balanced accuracy" if share > 1.5 / len(labels) else "accuracy"
    return ComparedTable(
        X=X,
        y=target,
        classes=encoder.labels,
        metric=metric,
        variance=variance,
        weights=weights,
        blocks={n: np.arange(s.start, s.stop) for n, s in zip(parsed.names, parsed.slices, strict=True)},
        named=blocks is not None,
        rows=kept,
        names=names,
    )


def _units(X: Array) -> Array:
    """A power of two near the largest entry of each column, so that squares neither overflow nor vanish."""
    largest = np.abs(X).max(axis=0)
    return np.ldexp(1.0, np.frexp(np.where(largest > 0, largest, 1.0))[1] - 1)
