"""Columns before and after their gaps are filled."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..copula._predict import dense
from ..copula._table import encode_table, learn_layout
from ._gaps import LEVELS, chosen_columns, floats, open_panels
from ._style import COLOURS, hang, legend_below, pandas, tidy

Array = NDArray[np.float64]

_MOST_BARS = 20  # distinct values that are drawn as bars


@dataclass(frozen=True)
class Marginal:
    """Observed and filled cells of a column; names of its levels, none for numbers."""

    observed: Array
    filled: Array
    stepped: bool
    levels: tuple[Any, ...]


@dataclass(eq=False, repr=False)
class MarginalDisplay:
    """Distribution of columns before and after imputation: curves for numbers, bars for levels.

    The single best guess of each gap varies less than the values do, so a column narrows when many cells are
    filled; draws (``draw=True``) keep its spread.

    Parameters
    ----------
    marginals : dict of column to Marginal
    style : "ecdf" or "histogram"
        How numbers are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import MarginalDisplay
    >>> X = np.column_stack([np.r_[np.arange(30.0), np.nan], np.r_[np.zeros(15), np.ones(15), np.nan]])
    >>> filled = np.where(np.isnan(X), 1.0, X)
    >>> frame = MarginalDisplay.from_tables(X, filled).frame()
    >>> frame["cells"].value_counts().to_dict()
    {'observed': 60, 'filled': 2}
    """

    marginals: dict[Hashable, Marginal]
    style: str = "ecdf"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        columns: Any = None,
        style: str = "ecdf",
        draw: bool = False,
        random_state: Any = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Fill X with a fitted `CopulaImputer` and draw columns; ``kw`` goes to `plot`.

        Parameters
        ----------
        columns : names or positions; by default the six with most gaps.
        style : "ecdf" or "histogram".
        draw : fill with a random draw from the conditional law instead of the best guess.
        """
        table = estimator.sample(X, 1, random_state)[0] if draw else estimator.transform(X)
        before, after, layout = floats(estimator, X), floats(estimator, table), estimator._layout
        stepped = [kind in (*LEVELS, "constant") for kind in estimator.kinds_]
        found = _marginals(before, after, layout, stepped, columns)
        return cls(found, _style(style)).plot(ax=ax, **kw)

    @classmethod
    def from_tables(
        cls, before: Any, after: Any, *, columns: Any = None, style: str = "ecdf", ax: Any = None, **kw: Any
    ) -> Self:
        """Draw columns of a table before and after any imputation; text columns are not drawn."""
        layout = learn_layout(before)
        first, second = (dense(encode_table(table, layout)) for table in (before, after))
        if first.shape != second.shape:
            msg = f"before has shape {first.shape} and after {second.shape}; give the same rows and columns"
            raise ValueError(msg)
        stepped = [
            bool(codec.levels) or len(np.unique(column[~np.isnan(column)])) <= _MOST_BARS
            for codec, column in zip(layout.codecs, first.T, strict=True)
        ]
        return cls(_marginals(first, second, layout, stepped, columns), _style(style)).plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The cells: column, value (levels by name), cells ("observed" or "filled")."""
        pd, parts = pandas(), []
        for name, m in self.marginals.items():
            for word, values in (("observed", m.observed), ("filled", m.filled)):
                shown = [m.levels[int(v)] for v in values] if m.levels else values
                parts.append(pd.DataFrame({"column": name, "value": shown, "cells": word}))
        return pd.concat(parts, ignore_index=True)

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``kw`` goes to the lines and bars."""
        panels = open_panels(ax, len(self.marginals), (4.8, 3.8))
        for panel, (name, marginal) in zip(panels, self.marginals.items(), strict=True):
            draw = _bars if marginal.stepped else _histogram if self.style == "histogram" else _ecdf
            draw(panel, marginal, kw)
            share = 100 * len(marginal.filled) / (len(marginal.filled) + len(marginal.observed))
            panel.set_title(f"{name} ({share:.0f} % filled)", fontsize="medium")
            tidy(panel, grid="y")
        legend_below(panels[0], ax is None)
        return hang(self, panels)


def _style(style: str) -> str:
    if style not in ("ecdf", "histogram"):
        msg = f"style={style!r} must be 'ecdf' or 'histogram'"
        raise ValueError(msg)
    return style


def _marginals(
    before: Array, after: Array, layout: Any, stepped: list[bool], columns: Any
) -> dict[Hashable, Marginal]:
    gaps = np.isnan(before)
    if columns is None:
        order = np.argsort(-(gaps & ~gaps.all(axis=0)).sum(axis=0), kind="stable")[:6]
        positions = sorted(int(j) for j in order if gaps[:, j].any() and not gaps[:, j].all())
        if not positions:
            msg = "the table has no gaps; name the columns to draw with columns="
            raise ValueError(msg)
    else:
        positions = chosen_columns(columns, layout.labels)
    return {
        layout.labels[j]: Marginal(
            before[~gaps[:, j], j], after[gaps[:, j], j], stepped[j], layout.codecs[j].levels
        )
        for j in positions
    }


def _series(m: Marginal) -> list[tuple[str, Array, str, dict[str, Any]]]:
    both = np.concatenate([m.observed, m.filled])
    return [
        ("before: observed", m.observed, COLOURS[0], {}),
        ("after: all", both, COLOURS[1], {"linestyle": "--"}),
    ]


def _ecdf(ax: Any, m: Marginal, kw: dict[str, Any]) -> None:
    for label, values, colour, look in _series(m):
        ax.ecdf(values, **{"label": label, "color": colour, "linewidth": 1.8, **look, **kw})
    ax.locator_params(axis="x", nbins=5)
    ax.set_ylabel("share at most")
    ax.set_ylim(0, 1.02)


def _histogram(ax: Any, m: Marginal, kw: dict[str, Any]) -> None:
    edges = np.histogram_bin_edges(m.observed, bins=int(np.clip(np.sqrt(len(m.observed)), 8, 40)))
    everything = np.concatenate([m.observed, m.filled])
    edges[0], edges[-1] = min(edges[0], everything.min()), max(edges[-1], everything.max())
    for label, values, colour, look in _series(m):
        height = np.histogram(values, edges)[0] / len(values)
        fill = {} if look else {"fill": True, "alpha": 0.3}
        ax.stairs(height, edges, **{"label": label, "color": colour, "linewidth": 1.6, **look, **fill, **kw})
    ax.locator_params(axis="x", nbins=5)
    ax.set_ylabel("share of cells")


def _bars(ax: Any, m: Marginal, kw: dict[str, Any]) -> None:
    values = np.unique(np.concatenate([m.observed, m.filled]))
    for i, (label, cells, colour, _) in enumerate(_series(m)):
        height = np.array([np.mean(cells == value) for value in values])
        place = np.arange(len(values)) + (i - 0.5) * 0.4
        ax.bar(place, height, **{"label": label, "color": colour, "width": 0.38, **kw})
    words = [str(m.levels[int(v)]) if m.levels else f"{v:g}" for v in values]
    long = max(map(len, words)) * len(words) > 44
    ax.set_xticks(np.arange(len(values)), words, rotation=90 if long else 0, fontsize="small")
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel("share of cells")
