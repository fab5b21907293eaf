"""Responses: numbers, several numbers or class labels, as one matrix; and how heavy their tails are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.utils.validation import check_array

from ._containers import as_column

Array = NDArray[np.float64]


_MOST_CODES = 20  # distinct whole numbers that may be codes of classes
_PER_CODE = 10  # rows that each of them has on average
_FAR = 5.0  # interquartile ranges beyond the quartiles
_FEWEST = 50  # rows from which one is far from others
_THEIRS = 0.75  # share of the variance with which rows decide alone


class HeavyTailWarning(UserWarning):
    """The response has heavier tails than the theory of the estimator allows."""


class DeterminedResponseWarning(UserWarning):
    """A column determines the response: most often it is the response in other words."""


class NumericLabelsWarning(UserWarning):
    """The response looks like class codes, and is taken as numbers."""


class ConstantResponseError(ValueError):
    """The response is the same in every row."""


@dataclass(frozen=True)
class ResponseEncoder:
    """Turns y into a float matrix (rows x responses), the same way for every chunk.

    Labels become indicators (one column for two classes, one per class otherwise).
    """

    classes: NDArray[Any] | None = None
    function: Callable[[Any], Any] | None = None
    n_responses: int = 1

    def __call__(self, y: Any) -> Array:
        """Encode one chunk."""
        if self.classes is not None:
            return self._indicators(as_column(y).values.ravel())
        given = as_column(y).values
        with np.errstate(over="ignore", invalid="ignore"):  # sums of what is finite may not be
            try:
                values = check_array(given, ensure_2d=False, dtype=None, input_name="y", ensure_min_samples=1)
            except ValueError as reason:
                if "y contains NaN" not in str(reason):
                    raise
                msg = f"{reason} Leave those rows out, or let SteinReduction take them as rows without labels"
                raise ValueError(msg) from None
        if self.function is not None:
            with np.errstate(all="ignore"):  # what is not finite is refused
                values = np.asarray(self.function(values))
            if values.ndim == 0 or values.shape[0] != len(given):
                msg = (
                    f"response= must return one value per row: {len(given)} rows in, shape {values.shape} out"
                )
                raise ValueError(msg)
            if not np.isfinite(values).all():
                msg = "response= returned NaN or infinity; choose a transform that is finite on this y"
                raise ValueError(msg)
        values = values.astype(np.float64, copy=False)
        return values.reshape(values.shape[0], -1)

    def _indicators(self, y: NDArray[Any]) -> Array:
        assert self.classes is not None
        _check_no_gaps(y)
        found, inverse = np.unique(y, return_inverse=True)
        place = {label: i for i, label in enumerate(self.classes.tolist())}
        unknown = [label for label in found.tolist() if label not in place]
        if unknown:
            msg = f"label {unknown[0]!r} was not among the classes {self.classes.tolist()}; name all in classes="
            raise ValueError(msg)
        codes = np.array([place[label] for label in found.tolist()])[inverse]
        if len(self.classes) == 2:
            return (codes == 1).astype(np.float64)[:, None]
        return np.eye(len(self.classes))[codes]

    @property
    def labels(self) -> bool:
        """Whether y holds class labels."""
        return self.classes is not None


def read_response(y: Any, response: Any = None) -> tuple[Any, Any]:
    """y of any container as an array with gaps, and ``response``, which is "labels" where y holds categories."""
    values, categories = as_column(y)
    return values, "labels" if categories and response is None else response


def make_encoder(
    y: Any,
    response: Any,
    *,
    classes: Any = None,
    streaming: bool = False,
    caller: str = "This",
    codes: int | None = 3,
    weights: Array | None = None,
) -> ResponseEncoder:
    """The encoder for a y (or its first chunk) under ``response=``; ``weights`` of its rows count in ranks.

    Whole numbers of at least ``codes`` values that look like classes get a warning; with fewer, numbers and classes
    give the caller the same directions. None: it takes numbers alone.
    """
    if y is None:
        msg = (
            f"{caller} requires y to be passed, but the target y is None: it looks for directions "
            "that matter for a response"
        )
        raise ValueError(msg)
    values, response = read_response(y, response)
    if classes is not None or holds_labels(values, response):
        if response not in (None, "labels"):
            msg = f"response={response!r} needs numbers, but y holds class labels; use response=None"
            raise ValueError(msg)
        return _label_encoder(values, classes, streaming)
    if response is None and codes is not None:
        _warn_class_codes(values, codes)
    if isinstance(response, str) and response == "rank" and streaming:
        msg = (
            "response='rank' needs all of y at once, so it does not work in chunks. Remedy: a function of "
            "single values, e.g. response=np.arctan"
        )
        raise ValueError(msg)
    if isinstance(response, str):
        function: Any = {"rank": partial(rank_transform, weights=weights), "numbers": None}[response]
    else:
        function = response
    encoder = ResponseEncoder(function=function)
    return ResponseEncoder(function=function, n_responses=encoder(values).shape[1])


def _warn_class_codes(values: NDArray[Any], least: int) -> None:
    """Warn of whole numbers that are few (at most 20) and repeated (ten times on average)."""
    if values.dtype.kind not in "iuf" or values.ndim == 0 or values.size != values.shape[0]:
        return
    if values.size > 10 * _MOST_CODES and len(np.unique(values[: 10 * _MOST_CODES])) > _MOST_CODES:
        return
    distinct = np.unique(values)
    few = least <= len(distinct) <= min(_MOST_CODES, values.size // _PER_CODE)
    if few and bool(np.all(np.isfinite(distinct) & (distinct == np.rint(distinct)))):
        warnings.warn(
            f"y holds {len(distinct)} different whole numbers, each many times, and is taken as numbers. If they are "
            "codes of classes, use response='labels'; if they are numbers, response='numbers' silences this",
            NumericLabelsWarning,
            stacklevel=4,
        )


def holds_labels(values: Any, response: Any) -> bool:
    """Whether a y (or a chunk of it) is to be taken as class labels."""
    if isinstance(response, str) and response == "labels":
        return True
    if values.dtype == object:
        return any(issubclass(t, str | bool | np.bool_) for t in set(map(type, values.ravel().tolist())))
    return values.dtype.kind in "USTb"


def is_gap(value: Any) -> bool:
    """Whether a value stands for a missing one: None, NaN, or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)  # noqa: PLR0124


def _check_no_gaps(labels: NDArray[Any]) -> None:
    if any(map(is_gap, set(labels.tolist()))):
        msg = "y contains missing labels (None or NaN); drop those rows first"
        raise ValueError(msg)


@dataclass(frozen=True)
class LabelSet:
    """Labels seen so far; merges by ``+``."""

    labels: frozenset[Any]

    def __add__(self, other: LabelSet) -> LabelSet:
        return LabelSet(self.labels | other.labels)


def label_set(y: Any) -> LabelSet:
    """The labels of a chunk of y."""
    values = as_column(y).values.ravel()
    _check_no_gaps(values)
    return LabelSet(frozenset(values.tolist()))


def _label_encoder(values: NDArray[Any], classes: Any, streaming: bool) -> ResponseEncoder:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values.ravel()
    if values.ndim != 1:
        msg = f"class labels must be one column, got shape {values.shape}; encode several label columns yourself"
        raise ValueError(msg)
    _check_no_gaps(values)
    if classes is None:
        if streaming:
            msg = (
                "class labels in chunks: give all classes at the first call, partial_fit(X, y, classes=[...])"
            )
            raise ValueError(msg)
        classes = np.unique(values)
        if len(classes) > max(20, len(values) // 5) and classes.dtype.kind in "OUS":
            warnings.warn(
                f"y has {len(classes)} different labels in {len(values)} rows. If they are numbers stored as text, "
                "convert them (pandas.to_numeric) so that y is not taken as classes",
                UserWarning,
                stacklevel=5,
            )
    classes = np.asarray(classes)
    if len(set(classes.tolist())) < len(classes):
        msg = f"classes has duplicates: {classes.tolist()}; name each class once"
        raise ValueError(msg)
    if not len(classes):
        msg = "y is empty: no class is there; give one label per row"
        raise ValueError(msg)
    if len(classes) < 2:
        msg = f"y has one class only ({classes.tolist()[0]!r}); at least two are needed to find directions"
        raise ValueError(msg)
    return ResponseEncoder(classes=classes, n_responses=1 if len(classes) == 2 else len(classes))


def rank_transform(y: Any, weights: Array | None = None) -> Array:
    """(rank - 1/2)/m column by column, ties averaged: bounded, so any y becomes light-tailed.

    With weights: the share of the weight below a value and half of that at it.

    Examples
    --------
    >>> rank_transform([10.0, -3.0, 1e9, 10.0])
    array([0.5  , 0.125, 0.875, 0.5  ])
    """
    y = np.asarray(y)
    if y.dtype == object and any(map(is_gap, y.ravel().tolist())):
        msg = "y contains missing values (None or NaN), which have no rank; drop those rows first"
        raise ValueError(msg)
    if weights is None:
        return (rankdata(y, axis=0) - 0.5) / y.shape[0]
    ranks = np.empty((len(y), y.size // len(y)))
    for k, column in enumerate(y.reshape(len(y), -1).T):
        _, inverse = np.unique(column, return_inverse=True)
        at = np.bincount(inverse, weights)
        ranks[:, k] = ((np.cumsum(at) - at / 2) / at.sum())[inverse]
    return ranks.reshape(y.shape)


def check_varies(variance: Array) -> None:
    """Refuse a response that is the same everywhere."""
    flat = np.flatnonzero(variance <= 0)
    if flat.size:
        which = f"column {flat[0]} of y" if len(variance) > 1 else "y"
        msg = f"{which} is constant: no direction can matter for it; check that it is the right column"
        raise ConstantResponseError(msg)


def tail_index(y: Any) -> float:
    """Extreme-value index of |y - median|: 0 for exponential tails, 1/a for tails like t^-a.

    The moment estimator of Dekkers, Einmahl and de Haan on the k = 2 sqrt(m) largest values; negative for
    bounded responses.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> tail_index(rng.standard_normal(10_000)) < 0.1, tail_index(rng.standard_cauchy(10_000)) > 0.8
    (True, True)
    """
    y = np.asarray(y, dtype=np.float64).ravel()
    k = int(min(2 * np.sqrt(len(y)), len(y) // 10))
    if k < 10:
        return 0.0
    top = np.sort(np.partition(np.abs(y - np.median(y)), -k - 1)[-k - 1 :])
    if top[0] <= 0 or len(np.unique(top)) < k / 4:  # a few repeated values: counts or scores, no tail to see
        return 0.0
    logs = np.log(top[1:] / top[0])
    first, second = logs.mean(), np.mean(logs**2)
    return float(first + 1.0 - 0.5 / (1.0 - first**2 / second))


def far_rows(y: Array) -> NDArray[np.intp]:
    """Rows more than five interquartile ranges beyond the quartiles, where they carry three quarters of the variance; else none.

    They are a fiftieth of all rows at most, or few values again and again, as mistakes and codes are: the rows of a long tail are more.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace._response import far_rows
    >>> far_rows(np.r_[np.arange(60.0), -999.0, -999.0])
    array([60, 61])
    """
    low, high = np.quantile(y, (0.25, 0.75))
    far = np.flatnonzero(np.maximum(low - y, y - high) > _FAR * (high - low))
    few = len(far) <= max(1, len(y) // 50) or 2 * len(np.unique(y[far])) <= len(far)
    few = few and len(y) >= _FEWEST
    return far if high > low and few and _share(y, far) > _THEIRS else far[:0]


def _share(y: Array, rows: NDArray[np.intp]) -> float:
    """What rows carry of the variance."""
    off = y - y.mean()
    off = off / max(float(np.abs(off).max()), np.finfo(float).tiny)
    return float(np.sum(off[rows] ** 2) / max(float(np.sum(off**2)), np.finfo(float).tiny))


def _warn_far(y: Array, far: NDArray[np.intp], name: str) -> None:
    ends = " to ".join(dict.fromkeys(f"{value:g}" for value in (y[far].min(), y[far].max())))
    hold = "rows holds a value" if len(far) == 1 else "rows hold values"
    warnings.warn(
        f"{len(far)} of {len(y)} {hold} of {name} far from most others ({ends}): {100 * _share(y, far):.0f} % of the variance is theirs, so "
        "they decide the directions. Where they are mistakes or stand for gaps, leave those rows out; otherwise response='rank' lets "
        "all rows count alike",
        HeavyTailWarning,
        stacklevel=4,
    )


def warn_heavy_tails(Y: Array) -> None:
    """Warn of rows that lie far off and carry the variance, or of a tail index clearly above the light-tailed range."""
    k = min(2 * np.sqrt(Y.shape[0]), Y.shape[0] // 10)
    worst = max(tail_index(column) for column in Y.T) if k >= 25 else 0.0
    heavy = k >= 25 and worst > 0.15 + 2.5 / np.sqrt(k)
    for j, column in enumerate(Y.T):
        if (far := far_rows(column)).size:
            _warn_far(column, far, f"column {j} of y" if Y.shape[1] > 1 else "y")
            return
    if heavy:
        warnings.warn(
            f"the response is heavy-tailed (tail index {worst:.2f}, light tails have 0 or less), so a few rows "
            "dominate the moments. Remedies: response='rank', or a bounded function such as response=np.arctan",
            HeavyTailWarning,
            stacklevel=3,
        )
