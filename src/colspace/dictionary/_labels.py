"""Labels: checked, counted, encoded and weighted, in memory or by chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .._containers import as_column
from .._rows import is_dask
from .._validation import assert_finite
from ._losses import Array
from ._remote import chunk_weights


def no_labels(estimator: Any) -> str:
    """What a fit without y is told."""
    return f"{type(estimator).__name__} requires y to be passed, but the target y is None"


def checked_labels(estimator: Any, X: Any, y: Any) -> NDArray[Any]:
    """Labels of all rows in memory, none missing, as many as rows of X (unless that is None)."""
    if y is None:
        raise ValueError(no_labels(estimator))
    y = _whole_labels(column_or_1d(np.asarray(y) if is_dask(y) else as_column(y).values, warn=True))
    check_discrete(y)
    if X is not None:
        check_consistent_length(X, y)
    return y


def check_discrete(labels: NDArray[Any]) -> None:
    """Refuse numbers that are no classes."""
    try:
        with np.errstate(invalid="ignore"):  # of numbers that no integer holds
            check_classification_targets(labels)
    except TypeError as reason:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        msg = f"y holds labels of several types ({', '.join(kinds)}), which have no order; make them all text, e.g. y.astype(str)"
        raise ValueError(msg) from reason
    except ValueError as reason:
        msg = f"{reason} Remedies: SupervisedDictionaryRegressor, or classes of y (e.g. y > its median)"
        raise ValueError(msg) from None


def _whole_labels(y: NDArray[Any]) -> NDArray[Any]:
    if y.dtype == object and (gaps := sum(map(_missing, y))):
        msg = f"Input y contains NaN: {gaps} of {len(y)} labels are missing; drop those rows"
        raise ValueError(msg)
    assert_finite(y, "y")
    return y


@dataclass(frozen=True)
class LabelCounts:
    """Different labels and the weight of the rows that have them."""

    labels: NDArray[Any]
    weight: Array

    def __add__(self, other: LabelCounts) -> LabelCounts:
        labels, at = np.unique(np.concatenate([self.labels, other.labels]), return_inverse=True)
        return LabelCounts(labels, _sums(at, np.concatenate([self.weight, other.weight])))


def _sums(at: NDArray[np.intp], weight: Array) -> Array:
    return np.bincount(at, weight).astype(np.float64, copy=False)


def count_labels(y: Any, weight: Any = None) -> LabelCounts:
    """The statistic of some rows of y, and of weights."""
    y = _whole_labels(column_or_1d(y))
    if y.dtype.kind == "f" and (y != np.floor(y)).any():
        check_discrete(y)
    labels, at = np.unique(y, return_inverse=True)
    return LabelCounts(labels, _sums(at, np.ones(len(y)) if weight is None else chunk_weights(weight)))


@dataclass(frozen=True)
class LabelTarget:
    """Labels as the problem takes them: one column per class but the first, and weights times those of their classes."""

    classes: NDArray[Any]
    each: Array | None

    def __call__(self, y: Any, w: Array) -> tuple[Array, Array]:
        """Y and v of some rows."""
        codes = np.searchsorted(self.classes, column_or_1d(y))
        Y = (codes[:, None] == np.arange(1, len(self.classes))).astype(np.float64)
        return Y, w if self.each is None else w * self.each[codes]


def hits(model: Any, X: Any, y: Any, weight: Any = None) -> Array:
    """Weight of the rows whose label is right, and of all."""
    w = np.ones(X.shape[0]) if weight is None else chunk_weights(weight)
    return np.array([w @ (model._likeliest(X) == column_or_1d(y)), w.sum()])


def lost(model: Any, X: Any, y: Any) -> Array:
    """Sum of -log of the probabilities of the labels, and rows."""
    column = np.searchsorted(model.classes_, column_or_1d(y))
    return np.array([-model._log_probability(X)[np.arange(len(column)), column].sum(), len(column)])


def _missing(label: Any) -> bool:
    return label is None or type(label).__name__ == "NAType" or (isinstance(label, float) and np.isnan(label))


def class_weights(
    rule: Any, classes: NDArray[Any], codes: NDArray[np.intp], weight: Array | None
) -> Array | None:
    """Weight of each row's label."""
    each = each_class(rule, classes, np.bincount(codes, weight, minlength=len(classes)))
    return None if each is None else each[codes]


def each_class(rule: Any, classes: NDArray[Any], count: NDArray[Any]) -> Array | None:
    """Weight of each class; ``count`` is that of its rows."""
    if rule is None:
        return None
    if isinstance(rule, Mapping):
        unknown = [label for label in rule if label not in set(classes.tolist())]
        if unknown:
            msg = f"class_weight names {unknown[0]!r}, which is no class of y: {classes.tolist()[:10]}"
            raise ValueError(msg)
        wrong = [label for label, value in rule.items() if not (np.isfinite(value) and value >= 0)]
        if wrong:
            msg = f"class_weight of {wrong[0]!r} is {rule[wrong[0]]!r}; give a finite number >= 0"
            raise ValueError(msg)
        return np.array([float(rule.get(label, 1.0)) for label in classes.tolist()])
    return np.asarray(count.sum() / (len(classes) * np.maximum(count, 1e-300)))
