"""Levels of columns and their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._threads import plain_products
from ._columns import Columns, Group
from ._estep import Array
from ._fit import CopulaModel
from ._nominal import Levels, Words, draw_levels, drawn_odds, level_laws, missing_levels, stepped_laws
from ._table import Layout, level_table, levels_of


class LevelsMixin:
    """What a fitted imputer says of levels."""

    _columns: Columns
    _words: Sequence[Words]
    _steps: Sequence[tuple[Group, Words]]
    _point: CopulaModel
    _odds: CopulaModel
    _layout: Layout
    _seen: tuple[Array, ...]
    kinds_: tuple[str, ...]

    def _encode(self, X: Any) -> tuple[Any, Layout]:
        raise NotImplementedError

    @plain_products
    def probabilities(self, X: Any) -> dict[Any, Any]:
        """Of every column with levels (nominal, ordinal, binary) the probability of each, rows x levels; 1 where observed.

        The levels are those of ``levels_``, in that order: columns of a DataFrame where X is one (text in polars), else of an array.
        """
        values, layout = self._encode(X)
        found = stepped_laws(values, self._point, self._columns)
        found |= {law.group.column: (law.rows, law.probability) for law in self._levels(values)}
        out = {}
        for j, levels in self._level_positions():
            table = (values[:, [j]] == self._seen[j]).astype(np.float64)
            rows, law = found.get(j, (slice(0), 0.0))
            table[rows] = law
            out[layout.labels[j]] = level_table(table, levels, X)
        return out

    def _levels(self, values: Any) -> list[Levels]:
        """Probabilities of levels at the gaps of nominal columns, and of levels in order that have a forest."""
        own = level_laws(values, self._odds, self._columns, self._columns.groups, self._words)
        steps, words = [group for group, _ in self._steps], [known for _, known in self._steps]
        return own + level_laws(values, self._point, self._columns, steps, words)

    def _level_positions(self) -> list[tuple[int, tuple[Any, ...]]]:
        """Columns with levels, and these."""
        found = []
        for j, kind in enumerate(self.kinds_):
            if kind in ("ordinal", "binary", "nominal"):
                codec = self._layout.codecs[j]
                found.append((j, levels_of(codec, self._seen[j])))
        return found

    @property
    def levels_(self) -> dict[Any, tuple[Any, ...]]:
        """Levels of the columns that have them, in the order of their probabilities."""
        return {self._layout.labels[j]: levels for j, levels in self._level_positions()}

    @property
    def latent_names_(self) -> tuple[Any, ...]:
        """The column of each row of ``loadings_``."""
        return tuple(self._layout.labels[j] for j in self._columns.latents)

    def _part(self, values: Any) -> Any:
        """The columns of the model."""
        return self._columns.expand(values)

    def _whole(self, found: Array, values: Any, constant: float | None = None) -> Array:
        """All columns: those of the model as found, constant ones with their value, or ``constant``; NaN at gaps of words."""
        kinds = zip(self.kinds_, self._seen, strict=True)
        fill = [(s[0] if constant is None else constant) if k == "constant" else np.nan for k, s in kinds]
        out = self._columns.collapse(found, fill)
        for group in self._columns.groups:
            own = values[:, group.column]
            out[:, group.column] = own if constant is None else np.where(np.isnan(own), np.nan, constant)
        return out

    def _draw_levels(self, tables: list[Array], values: Any, rng: np.random.Generator) -> list[list[Array]]:
        """Drawn levels of the gaps of nominal columns, for each drawn table of the model's columns; levels in order change in place."""
        groups, steps = self._columns.groups, [group for group, _ in self._steps]
        gone, both = missing_levels(values, groups), missing_levels(values, steps)
        out = []
        for table in tables:
            odds = drawn_odds(self._odds, rng) if groups else self._odds
            out.append(draw_levels(table, gone, odds, groups, self._words, rng))
            draw_levels(table, both, self._point, steps, [known for _, known in self._steps], rng)
        return out

    def _with_levels(self, tables: list[Array], values: Any, drawn: list[list[Array]]) -> list[Array]:
        """Tables with the drawn levels in place."""
        groups = self._columns.groups
        gone = missing_levels(values, groups)
        for table, levels in zip(tables, drawn, strict=True):
            for group, rows, x in zip(groups, gone, levels, strict=True):
                table[rows, group.column] = x
        return tables
