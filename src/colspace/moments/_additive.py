"""Statistics that merge by adding their fields."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Self

import numpy as np


@dataclass(frozen=True)
class Additive:
    """Frozen dataclass whose ``+`` adds every field, arrays and dicts of arrays entry by entry.

    Fields named in ``_shared`` (a shift, a layout) are not added: both sides must have the same.
    ``-`` takes away a part that was added before.
    """

    _shared: ClassVar[tuple[str, ...]] = ()

    def __add__(self, other: Self) -> Self:
        return self._merge(other, operator.add)

    def __sub__(self, other: Self) -> Self:
        return self._merge(other, operator.sub)

    def absorb(self, other: Self) -> Self:
        """``self + other`` in the arrays of ``self``, which must be a sum that nobody else holds."""
        return self._merge(other, _add_into)

    def _merge(self, other: Self, combine: Callable[[Any, Any], Any]) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        merged = {}
        for name in (f.name for f in fields(self)):
            mine, theirs = getattr(self, name), getattr(other, name)
            if name in self._shared:
                if mine is not theirs and not np.array_equal(mine, theirs):
                    msg = f"statistics with different {name} cannot be merged; use one plan for all chunks"
                    raise ValueError(msg)
                merged[name] = mine
            elif isinstance(mine, dict):
                merged[name] = {key: _same_shape(combine, mine[key], theirs[key], name) for key in mine}
            else:
                merged[name] = _same_shape(combine, mine, theirs, name)
        return type(self)(**merged)


def _same_shape(combine: Callable[[Any, Any], Any], mine: Any, theirs: Any, name: str) -> Any:
    """Combine without broadcasting."""
    if np.shape(mine) != np.shape(theirs):
        msg = f"statistics whose {name} have shapes {np.shape(mine)} and {np.shape(theirs)} cannot be merged"
        raise ValueError(msg)
    return combine(mine, theirs)


def all_finite(statistic: Any) -> bool:
    """Whether every number of a statistic (an array, a dataclass or a tuple of them) is finite."""
    if isinstance(statistic, dict):
        return all(map(all_finite, statistic.values()))
    if isinstance(statistic, tuple | list):
        return all(map(all_finite, statistic))
    if is_dataclass(statistic):
        return all(all_finite(getattr(statistic, f.name)) for f in fields(statistic))
    values = np.asarray(statistic)
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def _add_into(mine: Any, theirs: Any) -> Any:
    if isinstance(mine, Additive):
        return mine.absorb(theirs)
    if isinstance(mine, np.ndarray) and np.result_type(mine, theirs) == mine.dtype:
        return np.add(mine, theirs, out=mine)
    return mine + theirs
