"""Statistics that merge by adding their fields."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np


def shared(**options: Any) -> Any:
    """A dataclass field that both sides of ``+`` must have in common (a shift, a layout)."""
    return field(metadata={"shared": True}, **options)


@dataclass(frozen=True)
class Additive:
    """Frozen dataclass whose ``+`` adds every field, arrays and dicts of arrays entry by entry."""

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        merged = {}
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if f.metadata.get("shared"):
                if mine is not theirs and not np.array_equal(mine, theirs):
                    msg = f"statistics with different {f.name} cannot be added"
                    raise ValueError(msg)
                merged[f.name] = mine
            elif isinstance(mine, dict):
                merged[f.name] = {key: mine[key] + theirs[key] for key in mine}
            else:
                merged[f.name] = mine + theirs
        return type(self)(**merged)

    def __sub__(self, other: Self) -> Self:
        """Take away a part that was added before (leave-one-fold-out)."""
        merged = {}
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if f.metadata.get("shared"):
                merged[f.name] = mine
            elif isinstance(mine, dict):
                merged[f.name] = {key: mine[key] - theirs[key] for key in mine}
            else:
                merged[f.name] = mine - theirs
        return type(self)(**merged)
