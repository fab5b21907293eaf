"""Labels of two classes beside what was predicted; `colspace.metrics` has the public names."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_EVEN = 1e-12  # sums of rates that differ by rounding alone


class _Counts(NamedTuple):
    """Rows by weight: positive or not, and whether that was found."""

    hits: float
    missed: float
    false: float
    rest: float


def _positive(y: Any, pos_label: Any, what: str) -> NDArray[np.bool_]:
    """Which rows are of the positive class."""
    labels = np.asarray(y)
    if labels.ndim != 1 or not labels.size:
        msg = f"{what} takes one label a row, got shape {labels.shape}"
        raise ValueError(msg)
    found = set(labels.tolist())
    if pos_label is None and not (found <= {0, 1} or found <= {-1, 1}):
        msg = f"{what}: y holds {_some(found)}, which says not what is positive; give pos_label="
        raise ValueError(msg)
    if pos_label is not None and len(found - {pos_label}) > 1:
        msg = (
            f"{what} is for two classes, but y holds {_some(found)} beside pos_label={pos_label!r}. Remedy: one class against "
            "the rest, e.g. y == label"
        )
        raise ValueError(msg)
    return np.asarray(labels == (1 if pos_label is None else pos_label))


def _some(labels: set[Any]) -> str:
    return ", ".join(sorted(map(repr, labels))[:4])


def _weights(sample_weight: Any, n: int, what: str) -> Array:
    w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if w.shape != (n,) or not np.all(np.isfinite(w) & (w >= 0)):
        msg = f"{what}: sample_weight must be {n} finite numbers >= 0, one per row"
        raise ValueError(msg)
    return w


def _counts(y_true: Any, y_pred: Any, pos_label: Any, sample_weight: Any, what: str) -> _Counts:
    truth, found = (_positive(y, pos_label, what) for y in (y_true, y_pred))
    if truth.shape != found.shape:
        msg = f"{what} compares labels of the same rows, got {len(truth)} and {len(found)}"
        raise ValueError(msg)
    w = _weights(sample_weight, len(truth), what)
    return _Counts(*(float(w @ (a & b)) for a in (truth, ~truth) for b in (found, ~found)))


def _share(part: float, whole: float, what: str, lacks: str) -> float:
    if not whole > 0:
        msg = f"{what} is not defined: no row of y_true is {lacks}"
        raise ValueError(msg)
    return part / whole


def sensitivity(y_true: Any, y_pred: Any, *, pos_label: Any = None, sample_weight: Any = None) -> float:
    """Share of the positive rows that are found.

    Parameters
    ----------
    y_true, y_pred : labels of two classes.
    pos_label : the positive class; None is 1 of labels 0 and 1, or -1 and 1.
    sample_weight : how often each row counts.

    Examples
    --------
    >>> sensitivity([1, 1, 1, 0], [1, 1, 0, 0])
    0.6666666666666666
    """
    n = _counts(y_true, y_pred, pos_label, sample_weight, "sensitivity")
    return _share(n.hits, n.hits + n.missed, "sensitivity", "positive")


def specificity(y_true: Any, y_pred: Any, *, pos_label: Any = None, sample_weight: Any = None) -> float:
    """Share of the other rows that are not taken for positive ones. Parameters as for `sensitivity`.

    Examples
    --------
    >>> specificity(["ill", "well", "well"], ["ill", "ill", "well"], pos_label="ill")
    0.5
    """
    n = _counts(y_true, y_pred, pos_label, sample_weight, "specificity")
    return _share(n.rest, n.rest + n.false, "specificity", "negative")


def f_score(y_true: Any, y_pred: Any, *, pos_label: Any = None, sample_weight: Any = None) -> float:
    """Harmonic mean of sensitivity and of the share of right ones among the rows taken for positive.

    0 where none is found. Parameters as for `sensitivity`.

    Examples
    --------
    >>> f_score([1, 1, 0, 0], [1, 0, 1, 0])
    0.5
    """
    n = _counts(y_true, y_pred, pos_label, sample_weight, "f_score")
    return _share(2.0 * n.hits, 2.0 * n.hits + n.missed + n.false, "f_score", "positive, nor any of y_pred")


def youden_threshold(y_true: Any, score: Any, *, pos_label: Any = None, sample_weight: Any = None) -> float:
    """The score t for which sensitivity + specificity of ``score >= t`` is largest (Youden 1950).

    The largest of several; always one of ``score``. It is a choice, so take it from rows that are not judged by it.

    Parameters
    ----------
    y_true : labels of two classes.
    score : numbers that are larger for rows more likely positive.
    pos_label, sample_weight : as for `sensitivity`.

    Examples
    --------
    >>> youden_threshold([0, 0, 1, 0, 1], [0.1, 0.2, 0.4, 0.5, 0.9])
    0.4
    """
    from sklearn.metrics import roc_curve

    what = "youden_threshold"
    truth, s = _positive(y_true, pos_label, what), np.asarray(score, dtype=np.float64)
    if s.shape != truth.shape or not np.isfinite(s).all():
        msg = f"{what} takes {len(truth)} finite scores, one per row; got shape {s.shape}"
        raise ValueError(msg)
    w = _weights(sample_weight, len(truth), what)
    if not (w @ truth > 0 and w @ ~truth > 0):
        msg = f"{what} needs rows of both classes, with weights > 0"
        raise ValueError(msg)
    false, true, cuts = roc_curve(truth, s, sample_weight=w, drop_intermediate=False)
    gain = (true - false)[1:]  # the first lies above all
    return float(cuts[1:][np.argmax(gain >= gain.max() - _EVEN)])
