"""Probabilities of a link from scores of pairs that were left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.validation import check_is_fitted

Array = NDArray[np.float64]


def calibration(held: Iterable[Any], observed: bool) -> dict[str, Array]:
    """Scores and the shares of links at them, isotonic: over all pairs of held-out entities, or the observed ones."""
    scores, links = [], []
    for part in held:
        if observed:
            scores.append(np.asarray(part.scores[part.rows, part.columns], dtype=np.float64))
            links.append(part.truth > 0)
            continue
        positive = np.zeros(part.scores.shape, dtype=bool)
        positive[part.rows, part.columns] = part.truth > 0
        finite = np.isfinite(part.scores)  # pairs whose link is known are no candidates
        scores.append(np.asarray(part.scores[finite], dtype=np.float64))
        links.append(positive[finite])
    x, y = np.concatenate(scores), np.concatenate(links)
    if y.all() or not y.any():
        what = "a score above zero" if y.any() else "a score of zero or less"
        msg = f"calibrate=True needs pairs with and without a link, and all {len(y)} held-out pairs have {what}; use calibrate=False"
        raise ValueError(msg)
    found = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(x, y.astype(np.float64))
    return {"score": found.X_thresholds_, "probability": found.y_thresholds_}


def require_calibration(model: Any) -> dict[str, Array]:
    """What a fit has learnt of probabilities; a fit that has learnt nothing is refused."""
    check_is_fitted(model)
    if not hasattr(model, "calibration_"):
        msg = (
            "probabilities are learnt with calibrate=True, which this fit did not have; set it and fit again"
        )
        raise AttributeError(msg)
    found: dict[str, Array] = model.calibration_
    return found


def probabilities(found: dict[str, Array], scores: Any) -> Any:
    """Probabilities at some scores: linear between thresholds, constant beyond them."""
    return np.interp(scores, found["score"], found["probability"])
