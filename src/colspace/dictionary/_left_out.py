"""The ridge that a linear model of the labels asks for, where columns are many beside the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from .._rows import is_dask, reduce_rows
from ._losses import Array, Squared
from ._objective import Problem, over_rows

_TALL = 20.0  # rows a column, from which a ridge hardly matters
_ROWS = 1000  # that are looked at
_LADDER = np.logspace(-6, 2, 33)  # times the largest eigenvalue
_CLASSES = 1.0 / 3.0  # of the linear model's ridge, for a logistic one
_LEAST = 1e-3  # degrees of freedom a row that a residual has at least


@dataclass(frozen=True)
class FewRows:
    """Columns and covariates side by side, labels and weights of some rows; merges by ``+``."""

    X: Any
    Y: Array
    v: Array

    def __add__(self, other: FewRows) -> FewRows:
        pile = sparse.vstack if sparse.issparse(self.X) else np.vstack
        return FewRows(
            pile([self.X, other.X]), np.vstack([self.Y, other.Y]), np.concatenate([self.v, other.v])
        )


def few_rows(X: Any, Y: Any, Z: Any, _: Any, v: Array, *, share: float) -> FewRows:
    """As many of the rows, drawn at random."""
    n = X.shape[0]
    count = min(n, int(np.ceil(share * n)))
    rows = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
    X, Z = (
        part.tocsr()[rows].astype(np.float64) if sparse.issparse(part) else np.asarray(part)[rows]
        for part in (X, Z)
    )
    both = sparse.hstack([X, Z], format="csr") if sparse.issparse(X) else np.column_stack([X, Z])
    return FewRows(both.astype(np.float64, copy=False), np.asarray(Y, dtype=np.float64)[rows], v[rows])


def asked_ridge(problem: Problem) -> float:
    """The ridge of least generalised cross-validation error of labels on columns, in the units of the labels' loss; zero for tall tables.

    Numbers: that of a linear model. Classes: times p (1 - p) / 2, what it is in a logistic model of labels that are hardly told apart, and
    times a third, or the share of the variance that is left if that is less, as labels that are told apart curve the loss less.
    """
    n, p = problem.X.shape[0], problem.X.shape[1] + problem.Z.shape[1]
    if float(problem.weight.sum()) >= _TALL * p:
        return 0.0
    take = partial(few_rows, share=min(1.0, _ROWS / n))
    arrays = problem.X, problem.Y, problem.Z, problem.weight, problem.label_weight
    if problem.rows is not None:
        seen = over_rows(problem, take)
    else:
        seen = reduce_rows(take, *arrays) if is_dask(problem.X) else take(*arrays)
    total = float(seen.v.sum())
    if not total > 0:
        return 0.0
    Y, numbers = seen.Y, isinstance(problem.loss, Squared)
    if not numbers and Y.shape[1] > 1:
        Y = np.column_stack([1.0 - Y.sum(axis=1), Y])  # the class of reference
    share = seen.v / total
    mean = share @ Y
    with np.errstate(over="ignore", invalid="ignore"):
        K = _dense(seen.X @ seen.X.T)
        if problem.fit_intercept:
            at = K @ share
            K += share @ at - at[:, None] - at
            Y = Y - mean
        root = np.sqrt(seen.v)[:, None]
        K, Y = root * K * root.T, root * Y
    if not np.isfinite(K).all():
        return 0.0
    ridge, left = _least_error(K, Y, total - problem.fit_intercept)
    return ridge if numbers else ridge * float(np.mean(mean * (1.0 - mean))) / 2.0 * min(left, _CLASSES)


def _dense(products: Any) -> Array:
    """Products of few rows."""
    if not sparse.issparse(products):
        return np.asarray(products)
    found, entries = np.zeros(products.shape), products.tocoo()
    found[entries.row, entries.col] = entries.data
    return found


def _least_error(K: Array, Y: Array, total: float) -> tuple[float, float]:
    """The ridge r of least |r (K + r)^-1 Y|^2 / (total - tr K (K + r)^-1)^2, and the share of the variance that it leaves; zero if there is none."""
    values, axes = eigh(K)
    values = np.maximum(values, 0.0)
    along = np.sum((axes.T @ Y) ** 2, axis=1)
    if not (values[-1] > 0 and along.sum() > 0 and total > 0):
        return 0.0, 0.0
    ridges = values[-1] * _LADDER
    kept = ridges / (values[:, None] + ridges)
    free = (total - np.sum(1.0 - kept, axis=0)) / total
    able = free > _LEAST
    if not able.any():
        return 0.0, 0.0
    errors = np.where(able, along @ kept**2 / along.sum() / np.where(able, free, 1.0) ** 2, np.inf)
    best = int(np.argmin(errors))
    return float(ridges[best]), float(errors[best])
