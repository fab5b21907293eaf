"""Means, deviations and correlations of weighted rows in two passes: nothing depends on the columns' units."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky

from .._rows import is_dask, reduce_rows
from .._validation import ConstantColumnWarning, assert_finite
from ..factor import SingularCovarianceWarning
from ..moments import Additive, weighted_gram

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# deviations beyond these have squares, or inverse squares, that float64 cannot hold
LARGEST, SMALLEST = 1e150, 1e-150
# a column whose values differ by fewer units in the last place than this is constant
_ROUNDING = 4 * np.finfo(np.float64).eps
# a squared Cholesky pivot of a correlation matrix under this has no correct digit left
_SMALLEST_PIVOT = 1e-13
# added to the diagonal of a singular correlation matrix: half of float64's digits remain in its inverse
SINGULAR_RIDGE = 1e-8


@dataclass(frozen=True)
class Extent:
    """Rows of positive weight, their weight, weighted sums, and smallest and largest value of every column."""

    count: int
    weight: float
    total: Array
    low: Array
    high: Array

    def __add__(self, other: Extent) -> Extent:
        with np.errstate(over="ignore", invalid="ignore"):
            return Extent(
                self.count + other.count,
                self.weight + other.weight,
                self.total + other.total,
                np.minimum(self.low, other.low),
                np.maximum(self.high, other.high),
            )


def kept_rows(X: Any, w: Any) -> tuple[Array, Array]:
    """Rows of positive weight as float64, and their weights."""
    X = np.asarray(X, dtype=np.float64)
    if w is None:
        return X, np.ones(len(X))
    w = np.asarray(w, dtype=np.float64).ravel()
    kept = w > 0
    return (X, w) if kept.all() else (X[kept], w[kept])


def extent(X: Any, w: Any = None) -> Extent:
    """Statistic of a chunk."""
    X, w = kept_rows(X, w)
    with np.errstate(over="ignore", invalid="ignore"):
        total = w @ X
    low, high = X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
    return Extent(len(X), float(w.sum()), total, low, high)


@dataclass(frozen=True)
class ScaledSums(Additive):
    """Weighted sums of z and z z' with z = (x - centre) / reach."""

    total: Array
    gram: Array


def scaled_sums(X: Any, w: Any = None, *, centre: Array, reach: Array) -> ScaledSums:
    """Statistic of a chunk; all of z lies within -1 and 1."""
    X, w = kept_rows(X, w)
    Z = (X - centre) / reach
    return ScaledSums(w @ Z, weighted_gram(Z, w))


def scaled_squares(X: Any, w: Any = None, *, centre: Array, reach: Array) -> Array:
    """Weighted sums of z and of z^2, 2 x p: all that deviations need."""
    X, w = kept_rows(X, w)
    Z = (X - centre) / reach
    return np.stack([w @ Z, w @ Z**2])


@dataclass(frozen=True)
class Standard:
    """A table's location, deviations (zero for constant columns), and the correlations of the others.

    ``location`` is the weighted mean, or a given one; deviations and correlations are about it, divisor the weight.
    """

    count: int
    location: Array
    deviation: Array
    correlation: Array

    @property
    def varying(self) -> Mask:
        """Columns that are not constant."""
        return self.deviation > 0

    @property
    def covariance(self) -> Array:
        """All columns' covariance; zeros for constant ones."""
        p = len(self.deviation)
        out = np.zeros((p, p))
        out[np.ix_(self.varying, self.varying)] = self.correlation
        return out * self.deviation[:, None] * self.deviation


def pass_over(statistic: Any, X: Any, weight: Any) -> Any:
    """Sum of a statistic over chunks of rows, and of their weights where they have some.

    Partitions, which no one has seen before, are checked on the way.
    """
    if is_dask(X):
        statistic = partial(_checked_rows, statistic)
    return reduce_rows(statistic, X) if weight is None else reduce_rows(statistic, X, weight)


def _checked_rows(statistic: Any, X: Any, w: Any = None) -> Any:
    """The statistic of a chunk whose rows and weights have been looked at."""
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    assert_finite(X, "X")
    if w is None:
        return statistic(X)
    w = np.asarray(w, dtype=np.float64).ravel()
    assert_finite(w, "sample_weight")
    if (w < 0).any():
        msg = f"sample_weight has the value {w.min():g}; weights must be at least 0"
        raise ValueError(msg)
    return statistic(X, w)


def standard(
    X: Any, weight: Any, location: Array | None = None, names: Sequence[object] | None = None
) -> Standard:
    """Location, deviations and correlations of rows, in memory or in partitions; refuses what overflows."""
    found, centre, reach, flat = _ranges(X, weight, location, names)
    sums: ScaledSums = pass_over(partial(scaled_sums, centre=centre, reach=reach), X, weight)
    shift, moment = sums.total / found.weight, sums.gram / found.weight
    if location is None:
        centre = np.where(flat, centre, centre + reach * shift)
        moment = moment - np.outer(shift, shift)
    kept = np.flatnonzero(~flat)
    moment = moment[np.ix_(kept, kept)]
    size = np.sqrt(np.diag(moment))
    deviation = np.zeros(len(reach))
    deviation[kept] = reach[kept] * size
    correlation = moment / np.outer(size, size)
    np.fill_diagonal(correlation, 1.0)
    return Standard(found.count, centre, deviation, correlation)


def deviations(X: Any, weight: Any, names: Sequence[object] | None = None) -> tuple[Array, Array]:
    """Means and deviations (zero for constant columns) alone, without the p x p matrix of correlations."""
    found, centre, reach, flat = _ranges(X, weight, None, names)
    shift, square = pass_over(partial(scaled_squares, centre=centre, reach=reach), X, weight) / found.weight
    mean = np.where(flat, centre, centre + reach * shift)
    return mean, np.where(flat, 0.0, reach * np.sqrt(np.maximum(square - shift**2, 0.0)))


def _ranges(
    X: Any, weight: Any, location: Array | None, names: Sequence[object] | None
) -> tuple[Extent, Array, Array, Mask]:
    """Extent of the rows, a centre, the reach from it (one for constant columns), and which columns are constant."""
    found: Extent = pass_over(extent, X, weight)
    if not found.count:
        msg = "sample_weight is zero in every row, so no row is left; give some row a positive weight"
        raise ValueError(msg)
    centre = np.clip(_mean(found), found.low, found.high) if location is None else location
    reach, flat = _reach(found, centre, names)
    return found, centre, np.where(flat, 1.0, reach), flat


def _mean(found: Extent) -> Array:
    """Weighted means; the middle of the range where the sum overflows."""
    with np.errstate(invalid="ignore"):
        mean = found.total / found.weight
    return np.where(np.isfinite(mean), mean, found.low / 2 + found.high / 2)


def _reach(found: Extent, centre: Array, names: Sequence[object] | None) -> tuple[Array, Mask]:
    """Largest distance from the centre, and which columns are constant; refuses what float64 cannot square."""
    with np.errstate(over="ignore"):
        reach = np.maximum(found.high - centre, centre - found.low)
    size = np.maximum(np.maximum(np.abs(found.low), np.abs(found.high)), np.abs(centre))
    flat = reach <= _ROUNDING * size
    label = column_label(names)
    if (reach > LARGEST).any():
        j = int(np.argmax(reach))
        value = found.high[j] if found.high[j] - centre[j] >= centre[j] - found.low[j] else found.low[j]
        msg = (
            f"the covariance overflows: column {label(j)} has the value {value:.6g}, more than {LARGEST:g} away from "
            "its mean. Remedy: rescale the column (sklearn.preprocessing.StandardScaler), or look for a wrong cell"
        )
        raise ValueError(msg)
    small = ~flat & (reach < SMALLEST)
    if small.any():
        j = int(np.argmax(small))
        msg = (
            f"column {label(j)} is in units so small (values within {reach[j]:.3g} of its mean) that the inverse of "
            "their covariance overflows. Remedy: rescale the column (sklearn.preprocessing.StandardScaler)"
        )
        raise ValueError(msg)
    return reach, flat


def column_label(names: Sequence[object] | None) -> Any:
    """How a message calls column j: by its name, or by its position."""
    return lambda j: repr(j) if names is None else repr(str(names[j]))


def require_variation(varying: Mask) -> None:
    """Refuse a table that is constant in every column."""
    if not varying.any():
        msg = (
            f"X has no variation: all {len(varying)} columns are constant (or the given covariance is zero), and a "
            "score needs a spread. Remedy: other columns"
        )
        raise ValueError(msg)


def warn_flat(varying: Mask, names: Sequence[object] | None, stacklevel: int = 5) -> None:
    """Name the columns whose score is zero."""
    flat = np.flatnonzero(~varying)
    if flat.size:
        shown = ", ".join(column_label(names)(int(j)) for j in flat[:5]) + (", ..." if flat.size > 5 else "")
        warnings.warn(
            f"{flat.size} constant column(s) get a score of zero: {shown}. Drop them to silence this",
            ConstantColumnWarning,
            stacklevel=stacklevel,
        )


def singular_ridge(correlation: Array) -> float:
    """The smallest ridge, in correlation units, that makes a correlation matrix safe to invert; 0 if it is.

    A matrix counts as singular where a squared pivot of its Cholesky factor is under 1e-13.

    Examples
    --------
    >>> import numpy as np
    >>> singular_ridge(np.eye(2)), singular_ridge(np.ones((2, 2)))
    (0.0, 1e-08)
    """
    return SINGULAR_RIDGE if _pivots(correlation) is None else 0.0


def _pivots(correlation: Array) -> Array | None:
    """Lower Cholesky factor, or None where the matrix is singular to working precision."""
    try:
        factor = np.asarray(cholesky(correlation, lower=True, check_finite=False))
    except LinAlgError:
        return None
    return None if np.diag(factor).min() ** 2 < _SMALLEST_PIVOT else factor


def ridged(correlation: Array, ridge: float) -> Array:
    """R + ridge I; the identity for an infinite ridge."""
    if np.isinf(ridge):
        return np.eye(len(correlation))
    return correlation + ridge * np.eye(len(correlation))


def lower_factor(correlation: Array) -> Array:
    """Lower Cholesky factor of a correlation matrix that is known to be positive definite."""
    return np.asarray(cholesky(correlation, lower=True, check_finite=False))


def warn_singular(ridge: float, count: int, p: int, remedy: str, stacklevel: int = 6) -> None:
    """Say that a ridge was added."""
    why = (
        f"{count} rows are too few for {p} columns"
        if count <= p
        else "some column is a combination of others"
    )
    warnings.warn(
        f"the covariance is singular ({why}), so {ridge:g} times the variances was added to its diagonal, the smallest "
        f"ridge that the numbers allow. {remedy}",
        SingularCovarianceWarning,
        stacklevel=stacklevel,
    )
