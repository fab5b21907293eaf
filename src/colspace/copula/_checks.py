"""Small checks and choices of the imputer."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def tolerance(method: str, kinds: Sequence[str], rank: int | None) -> float:
    """When EM may stop, if nothing is asked for."""
    if method == "paper":
        return 1e-2
    words = sum(kind == "nominal" for kind in kinds)
    if 2 * words > len(kinds):
        return 1e-2
    levels = sum(kind != "continuous" for kind in kinds)
    return 4e-3 if 2 * levels >= len(kinds) else 2e-3


def is_number(value: Any) -> bool:
    """Whether comparisons with numbers make sense."""
    return isinstance(value, Real)


def check_share(name: str, value: float) -> None:
    """Refuse what is not between 0 and 1."""
    if not (is_number(value) and 0 < value < 1):
        msg = f"{name}={value!r} must lie between 0 and 1, e.g. 0.95"
        raise ValueError(msg)


def check_rank(imputer: Any, width: int) -> int | None:
    """The number of factors of ``width`` columns that vary; None where it is to be found."""
    if isinstance(imputer.n_components, str):
        if imputer.method == "paper" and width > 1:
            msg = (
                "n_components='auto' cannot be had with method='paper': the paper has no rule for the number of factors, and compares "
                "some on hidden cells. Remedies: a number (GridSearchCV compares numbers by score), or method='ep', which finds one"
            )
            raise ValueError(msg)
        if imputer.warm_start:
            msg = (
                "warm_start=True starts from the loadings of the last fit, but n_components='auto' starts from many factors anew. "
                "Remedies: the number found, n_components=model.n_components_, or warm_start=False"
            )
            raise ValueError(msg)
        return None
    if imputer.n_components >= width:
        most = (
            "use 'auto'"
            if width <= 1
            else f"use at most {width - 1}" + ", or 'auto'" * (imputer.method == "ep")
        )
        msg = f"n_components={imputer.n_components} must be less than the columns that vary, n_features={width}; {most}"
        raise ValueError(msg)
    return int(imputer.n_components)


def check_two_rows(weight: NDArray[np.float64] | None) -> None:
    """Refuse weights that leave less than two rows."""
    if weight is not None and weight.sum() < 2 and np.count_nonzero(weight) < 2:
        msg = (
            f"X has n_samples={len(weight)}, but one of a positive sample_weight ({weight.sum():g}): at least 2 rows "
            "are needed to learn from; give more rows, or larger weights"
        )
        raise ValueError(msg)
