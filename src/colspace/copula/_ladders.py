"""Columns of few levels, all at once: which level a latent value is, and what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ._marginals import STEPPED
from ._values import Array, Column

MOST = 16  # levels of such a column
_FEWEST = 2  # such columns, below which they are taken one by one


@dataclass(frozen=True)
class Ladders:
    """Columns of at most ``MOST`` levels: their places, edges (minus infinity first, infinity from the last on) and levels, one row each."""

    columns: NDArray[np.intp]
    edges: Array
    levels: Array

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Ladders | None:
        """Of a table's columns; None where there are hardly any."""
        few = [j for j, c in enumerate(columns) if c.kind in STEPPED and len(c.levels) <= MOST]
        if len(few) < _FEWEST:
            return None
        most = max(len(columns[j].levels) for j in few)
        edges, levels = np.full((len(few), most + 1), np.inf), np.zeros((len(few), most))
        for i, j in enumerate(few):
            column = columns[j]
            edges[i, 0] = -np.inf
            edges[i, 1 : len(column.z) + 1] = column.z
            levels[i, : len(column.levels)] = column.levels
        return cls(np.array(few), edges, levels)

    @property
    def every(self) -> Any:
        """Their places, as a slice if they are consecutive."""
        first, last = int(self.columns[0]), int(self.columns[-1]) + 1
        return slice(first, last) if last - first == len(self.columns) else self.columns

    def level(self, z: Array) -> NDArray[np.uint8]:
        """Level of latent values, columns x rows: how many edges are below."""
        out = np.zeros(z.shape, np.uint8)
        for edge in self.edges.T[1:-1]:
            out += z > edge[:, None]
        return out

    def _pick(self, table: Array, level: NDArray[np.uint8], after: int = 0) -> Array:
        at = level + (np.arange(len(table)) * table.shape[1] + after)[:, None]
        return np.asarray(table.ravel().take(at))

    def values(self, z: Array) -> Array:
        """g(z), columns x rows."""
        return self._pick(self.levels, self.level(z))

    def certainty(self, mean: Array, sd: Array) -> Array:
        """Probability of the level of the mean under N(mean, sd^2)."""
        level = self.level(mean)
        low, high = self._pick(self.edges, level), self._pick(self.edges, level, 1)
        for end in (low, high):
            end -= mean
            end /= sd
            ndtr(end, out=end)
        high -= low
        return high
