"""The published block sweeps, step lengths and stopping as they were, so that the published tables can be had again.

Differences from Algorithm 3: gradients of the squared error lack their factor 2, steps are fixed fractions of a trace,
coefficients are refitted by an L2 logistic regression in every sweep, the feature model's codes move for a random tenth
of the rows, and 200 sweeps end the run wherever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve
from sklearn.utils.extmath import randomized_svd

from ..dictionary._codes import nonnegative_codes
from ._core import unfinished

Array = NDArray[np.float64]

SWEEPS = 200
_TENTH = 10


@dataclass(frozen=True)
class Published:
    """Atoms W (p x r), coefficients and intercept, and the model they are of; rows are divided by ``scale`` first.

    Codes are nonnegative, or ``free``, by least squares.
    """

    W: Array
    coef: Array
    intercept: float
    model: str
    scale: float = 1.0
    free: bool = False

    def codes(self, X: Array) -> Array:
        """Of rows, without their labels."""
        X = X / self.scale
        if self.free:
            return np.asarray(np.linalg.lstsq(self.W, X.T, rcond=None)[0].T, dtype=np.float64)
        return nonnegative_codes(X @ self.W, self.W.T @ self.W)[0]

    def activation(self, X: Array) -> Array:
        """Log odds of rows: seen through the atoms, or of their codes."""
        source = X / self.scale @ self.W if self.model == "filter" else self.codes(X)
        return source @ self.coef + self.intercept

    def relative_error(self, X: Array) -> float:
        """||X - HW'|| / ||X||."""
        rows = X / self.scale
        return float(np.linalg.norm(rows - self.codes(X) @ self.W.T) / np.linalg.norm(rows))


def quick_logistic(X: Array, y: Array) -> tuple[Array, float]:
    """scikit-learn's default, stopped at 100 iterations whether it converged or not."""
    with unfinished():
        fit = LogisticRegression().fit(X, y)
    return fit.coef_[0], float(fit.intercept_[0])


def _radius(X: Array, sweep: int) -> float:
    return float(SWEEPS * np.linalg.norm(X) / ((sweep + 1) * np.log(sweep + 2)))


def _rows_sweep(X: Array, W: Array, H: Array, radius: float) -> Array:
    """Two rounds of projected gradient over the columns of H for X ~ H W'."""
    gram, cross = W.T @ W, X @ W
    for _ in range(2):
        for k in range(H.shape[1]):
            slope = H @ gram[:, k] - cross[:, k]
            step = 1.0 / (gram[k, k] + 1.0)
            step *= radius / max(radius, step * float(np.linalg.norm(slope)))
            H[:, k] = np.maximum(H[:, k] - step * slope, 0.0)
    return H


def published_filter(
    X: Array,
    y: Array,
    xi: float,
    r: int,
    rng: np.random.Generator,
    watch: Callable[[Array, Array, Array, float], None] = lambda W, H, b, c: None,
) -> Published:
    """The nonnegative filter model from a random start; ``watch`` sees atoms, codes and coefficients of each sweep."""
    n, p = X.shape
    H, W, b, c = rng.random((n, r)), rng.random((p, r)), rng.uniform(-1, 1, r), float(rng.uniform(-1, 1))
    for sweep in range(SWEEPS):
        radius = _radius(X, sweep)
        gram, cross = H.T @ H, X.T @ H
        scale, last = float(np.trace(gram)) + 1.0, W
        for i in range(5):
            k = expit(X @ (W @ b) + c) - y
            moved = W - (xi * (W @ gram - cross) + np.outer(X.T @ k, b)) / (np.sqrt(i + 10) * scale)
            away = moved - last
            last = last + radius / max(radius, float(np.linalg.norm(away, 2))) * away
            W = np.maximum(last, 0.0)
        W = W / np.linalg.norm(W)
        b, c = quick_logistic(X @ W, y)
        H = _rows_sweep(X, W, H, radius)
        watch(W, H, b, c)
    return Published(W, b, c, "filter")


def published_feature(X: Array, y: Array, xi: float, r: int, rng: np.random.Generator) -> Published:
    """The nonnegative feature model from a random start."""
    n, p = X.shape
    H, W = rng.random((n, r)), rng.random((p, r))
    b, c = np.zeros(r), 0.0
    for sweep in range(SWEEPS):
        W = _rows_sweep(X.T, H, W, _radius(X, sweep))
        W = W / np.linalg.norm(W)
        b, c = quick_logistic(H, y)
        gram, cross = W.T @ W, X @ W
        for i in range(2):
            for k in range(r):
                rows = rng.integers(n, size=n // _TENTH)
                h = H[rows]
                slope = xi * (h @ gram[:, k] - cross[rows, k]) + b[k] * (expit(h @ b + c) - y[rows])
                H[rows, k] = np.maximum(h[:, k] - slope / (np.sqrt(i + 10) * (gram[k, k] + 1.0)), 0.0)
    return Published(W, b, c, "feature")


def published_nmf(X: Array, y: Array, r: int, rng: np.random.Generator) -> Published:
    """Alternating gradient steps whose gradient is not renewed within a block, then logistic regression on X W."""
    n, p = X.shape
    W, H = rng.random((p, r)), rng.random((n, r))
    for _ in range(SWEEPS):
        H = _stale_steps(X, W, H)
        W = _stale_steps(X.T, H, W)
    return Published(W, *quick_logistic(X @ W, y), "filter")


def _stale_steps(X: Array, W: Array, H: Array) -> Array:
    gram = W.T @ W
    slope, scale = H @ gram - X @ W, float(np.trace(gram)) + 1.0
    for i in range(5):
        H = np.maximum(H - slope / ((i + 1) * scale), 0.0)
    return H


def youden(y: Any, score: Array) -> float:
    """Threshold of the score with the largest sensitivity + specificity."""
    false, true, thresholds = roc_curve(y, score)
    return float(thresholds[np.argmax(true - false)])


def published_convex(
    X: Array, y: Array, xi: float, r: int, rng: np.random.Generator, model: str, step: float = 0.01
) -> Published:
    """Algorithms 1 and 2 with a fixed step, no ridge, and X divided by 10 (filter) or 500 (feature)."""
    scale = 10.0 if model == "filter" else 500.0
    X = X / scale
    n, p = X.shape
    H, W, b = rng.random((n, r)), rng.random((p, r)), rng.uniform(-1, 1, r)
    c, seed = float(rng.uniform(-1, 1)), int(rng.integers(2**31 - 1))
    A, B = (W @ b if model == "filter" else H @ b), H @ W.T
    for sweep in range(SWEEPS):
        k = expit((X @ A if model == "filter" else A) + c) - y
        A = A - step * (X.T @ k if model == "filter" else k)
        B = B - 2.0 * step * xi * (B - X)
        c -= step * float(k.sum())
        both = np.vstack([A, B]) if model == "filter" else np.column_stack([A, B])
        U, values, Vt = randomized_svd(both, r, n_iter=7, random_state=seed)
        if sweep < SWEEPS - 1:
            low = (U * values) @ Vt
            A, B = (low[0], low[1:]) if model == "filter" else (low[:, 0], low[:, 1:])
    root = np.sqrt(values)
    left, right = U * root, Vt.T * root
    if model == "filter":
        return Published(right, left[0], c, model, scale, free=True)
    return Published(right[1:], right[0], c, model, scale, free=True)
