"""Small checks and choices of the imputer."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any


def tolerance(method: str, kinds: Sequence[str], rank: int | None) -> float:
    """When EM may stop, if nothing is asked for."""
    if method == "paper":
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
