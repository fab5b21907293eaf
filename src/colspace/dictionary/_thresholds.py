"""Probabilities from which a row counts as the second class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_curve

from ..metrics import youden_threshold
from ._losses import Array


def best_threshold(rule: str, truth: NDArray[Any], probability: Array, weight: Array | None = None) -> float:
    """Where sensitivity + specificity ("youden") or F1 ("f1") of ``probability >= threshold`` is largest.

    Midway to the next lower probability, so that rounding does not turn a row over.

    Examples
    --------
    >>> import numpy as np
    >>> best_threshold("youden", np.array([0, 0, 1, 1]), np.array([0.125, 0.25, 0.5, 0.75]))
    0.375
    """
    if rule == "youden":
        best = youden_threshold(truth, probability, sample_weight=weight)
    else:
        precision, recall, cuts = precision_recall_curve(truth, probability, sample_weight=weight)
        f1 = 2.0 * precision * recall / np.maximum(precision + recall, 1e-300)
        best = cuts[np.argmax(f1[:-1])]
    values = np.unique(probability if weight is None else probability[weight > 0])
    lower = values[values < best]
    return (float(best) + (float(lower[-1]) if len(lower) else 0.0)) / 2.0
