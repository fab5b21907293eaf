"""Cross-validation of Stein's method from moments of folds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..factor import eigh
from ..moments import TripleMoments
from ._proxies import held_out_gain
from ._stein_fit import SteinOptions
from ._stein_path import GaussianPath
from ._stein_sums import (
    GaussianPlan,
    GaussianTables,
    Mask,
    labelled_rows,
    reduce_stein,
    split_response,
    stein_from_tables,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FoldedTables:
    """Moments of the held-out rows of each fold, and of all rows.

    ``unused``: of the labelled rows that a fold does not train on, where they are not just the held-out ones.
    """

    parts: tuple[TripleMoments, ...]
    whole: GaussianTables
    unused: tuple[TripleMoments, ...] = ()

    def __add__(self, other: FoldedTables) -> FoldedTables:
        parts = tuple(a + b for a, b in zip(self.parts, other.parts, strict=True))
        return FoldedTables(parts, self.whole + other.whole)


@dataclass(frozen=True)
class FoldedPlan:
    """A GaussianPlan whose labelled rows are kept apart by fold: every k-th labelled row of a chunk."""

    plan: GaussianPlan
    k: int

    def __call__(self, X: Any, y: Any, weights: Array | None = None) -> FoldedTables:
        """Statistic of one chunk."""
        y = np.asarray(y)
        mask, _ = split_response(y, self.plan.encoder, len(self.plan.plan.shift_y))
        rows = np.flatnonzero(mask if weights is None else mask & (weights > 0))

        def part(chosen: Any) -> GaussianTables:
            return self.plan(X[chosen], y[chosen], None if weights is None else weights[chosen])

        parts = tuple(part(rows[i :: self.k]).labeled for i in range(self.k))
        total = reduce(operator.add, parts)
        return FoldedTables(parts, GaussianTables(total, part(np.flatnonzero(~mask)).rest))


@dataclass(frozen=True)
class CrossFolds:
    """Moments of the folds; columns are divided by ``scale``, and a ridge of one adds ``unit`` to their variances."""

    tables: FoldedTables
    scale: Array
    unit: float
    labels: bool
    n_columns: int


def split_tables(plan: GaussianPlan, X: Any, y: Any, weights: Any, cv: Any, labels: Any) -> FoldedTables:
    """Moments of rows in memory by folds of the labelled ones; ``cv`` is a number or a splitter of them."""
    from sklearn.model_selection import check_cv  # takes a twelfth of a second to import

    mask = labelled_rows(y)
    rows = np.flatnonzero(mask)
    assert plan.encoder is not None
    target = np.asarray(y)[mask]
    if plan.encoder.labels:
        target = target[:, 0] if target.shape[1] == 1 else target.argmax(axis=1)
    splitter = check_cv(cv, target, classifier=plan.encoder.labels)
    most = int(np.unique(target, return_counts=True)[1].max()) if plan.encoder.labels else rows.size
    if isinstance(cv, int | np.integer) and cv > most and rows.size > 1:
        splitter = (
            check_cv(most, target, classifier=True) if 1 < most < rows.size else check_cv(min(cv, rows.size))
        )

    def part(chosen: Any) -> GaussianTables:
        return reduce_stein(plan, X[chosen], y[chosen], None if weights is None else weights[chosen], labels)

    whole = reduce_stein(plan, X, y, weights, labels)
    parts, unused = [], []
    for train, test in splitter.split(rows, target) if rows.size > 1 else ():
        left_out = np.setdiff1d(np.arange(rows.size), train)
        parts.append(part(rows[test]).labeled)
        unused.append(parts[-1] if np.array_equal(left_out, np.sort(test)) else part(rows[left_out]).labeled)
    return FoldedTables(tuple(parts), whole, tuple(unused))


def fold_errors(
    folds: CrossFolds, options: SteinOptions, ridges: Array, weights: Array, widths: Sequence[int]
) -> Array:
    """Held-out squared error relative to the mean's: widths x ridges x weights."""
    whole = folds.tables.whole
    y_scale = whole.labeled.y_deviation / whole.labeled.scale_y
    errors = np.zeros((len(widths), len(ridges), len(weights)))
    count = sum(part.count for part in folds.tables.parts)
    parts = folds.tables.parts
    for held_out, unused in zip(parts, folds.tables.unused or parts, strict=True):
        if held_out.count == 0:
            continue
        tables = whole.unlabel(unused)
        if tables.labeled.count <= 0:  # every row that counts is held out
            continue
        path = GaussianPath(
            stein_from_tables(tables, None, folds.scale), options, folds.labels, folds.n_columns
        )
        basis = path.basis / folds.scale[:, None]
        train, test = (project_moments(m, basis) for m in (tables.labeled, held_out))
        for i, ridge in enumerate(ridges):
            for j, directions in enumerate(
                path.directions(ridge * folds.unit, weights.tolist(), max(widths))
            ):
                for k, h in enumerate(widths):
                    errors[k, i, j] += read_out_error(train, test, directions[:, :h], y_scale)
    return errors / (count * len(y_scale))


@dataclass(frozen=True)
class LinearSums:
    """Sums over rows of z, y, z z', z y', y y' (y in the units of the plan)."""

    count: float
    z: Array
    y: Array
    zz: Array
    zy: Array
    yy: Array


def project_moments(m: TripleMoments, basis: Array) -> LinearSums:
    """Sums of rotated rows from sums of rows."""
    return LinearSums(m.count, basis.T @ m.x, m.y, basis.T @ m.xx[0, 0] @ basis, basis.T @ m.xy, m.yy)


def read_out_error(train: LinearSums, test: LinearSums, directions: Array, y_scale: Array) -> float:
    """Squared error on held-out rows of the least-squares regression of y on an embedding, from sums alone.

    With B and the means from the training rows, the sum over held-out rows of ||(y - my) - B'(z - mz)||^2,
    responses in units of ``y_scale``.
    """
    mz, my = directions.T @ train.z / train.count, train.y / train.count
    n = train.count
    zz = directions.T @ train.zz @ directions / n - np.outer(mz, mz)
    zy = directions.T @ train.zy / n - np.outer(mz, my)
    values, vectors = eigh(zz, what="the covariance of an embedding")
    kept = vectors[:, values > 1e-12 * values[-1]]
    B = kept / values[values > 1e-12 * values[-1]] @ (kept.T @ zy)
    z = directions.T @ test.z
    out_zz = (
        directions.T @ test.zz @ directions
        - np.outer(z, mz)
        - np.outer(mz, z)
        + test.count * np.outer(mz, mz)
    )
    out_zy = directions.T @ test.zy - np.outer(z, my) - np.outer(mz, test.y) + test.count * np.outer(mz, my)
    out_yy = np.diag(test.yy) - 2 * my * test.y + test.count * my**2
    error = out_yy - 2 * np.einsum("hq,hq->q", B, out_zy) + np.einsum("hq,hk,kq->q", B, out_zz, B)
    return float(np.sum(np.maximum(error, 0.0) / y_scale**2))


def held_out_rank(matrix: Callable[[Any], Array], labelled: Mask, n_folds: int) -> int:
    """The number of directions with the least held-out squared error of moments; ``matrix(rows)`` gives them.

    Labelled rows are dealt out in turn; the others, which have no part in the moments, go along.
    """
    errors: Array | None = None
    for fold in range(n_folds):
        held_out = np.cumsum(labelled) % n_folds == fold
        train, test = matrix(~held_out), matrix(held_out)
        gain = held_out_gain([train], [test], min(train.shape))
        errors = gain if errors is None else errors + gain
    assert errors is not None
    return int(np.argmin(errors)) + 1
