"""Sums by column: the energy that the labels see, and columns of units far from the others'."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .._rows import reduce_rows
from ..moments import Additive
from ._losses import Array
from ._objective import Problem

_FAR = 1e4  # times the median column from which one is named
_LEAST = 1e-6  # of rows that hardly differ
_NAMED = 3


@dataclass(frozen=True)
class Columns(Additive):
    """Sums over rows of w x and w x^2, by column."""

    total: Array
    square: Array


def sum_columns(X: Any, w: Array) -> Columns:
    """The statistic of some rows."""
    wide = X.astype(np.float64, copy=False)  # squares of single precision may leave its range
    squares = wide.multiply(wide) if sparse.issparse(X) else np.square(wide)
    return Columns(np.asarray(X.T @ w, dtype=np.float64), np.asarray(squares.T @ w, dtype=np.float64))


def columns_of(problem: Problem) -> Columns:
    """Of all rows."""
    if problem.opening is not None:
        found: Columns = problem.opening.columns
        return found
    return reduce_rows(sum_columns, problem.X, problem.weight, chunk=problem.chunk)


def seen_energy(problem: Problem, columns: Columns) -> float:
    """Mean of ||x||^2 about the mean row, which the intercept takes up, or a millionth of that about 0; without an intercept the latter."""
    mass = max(float(problem.weight.sum()), 1e-300)
    whole = float(columns.square.sum())
    centre = float(columns.total @ columns.total) / mass if problem.fit_intercept else 0.0
    return max(whole - centre, _LEAST * whole) / mass


def warn_far(columns: Columns, mass: float, names: Sequence[object], level: int) -> None:
    """Name columns whose root mean square is far above that of the median column."""
    size = np.sqrt(np.maximum(columns.square, 0.0) / max(mass, 1e-300))
    used = size[size > 0]
    middle = float(np.median(used)) if len(used) > 1 else 0.0
    if len(used) == 2:
        middle = float(used.min())
    far = np.flatnonzero(size > _FAR * middle) if middle > 0 else np.zeros(0, dtype=np.intp)
    if not len(far):
        return
    far = far[np.argsort(-size[far], kind="stable")]
    shown = ", ".join(repr(names[j]) for j in far[:_NAMED])
    more = f" and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
    first = size[far[0]]
    warnings.warn(
        f"column(s) {shown}{more}: root mean square up to {first:.3g}, {first / middle:.1g} times that of the median column. Columns "
        "are taken in the units they come in, so atoms rebuild these and the ridge leaves the others little say. Remedies: "
        "scale the columns (sklearn.preprocessing.MaxAbsScaler or StandardScaler), take logarithms, or name them in covariates=",
        UserWarning,
        stacklevel=level,
    )
