"""Imputed values beside those that were hidden."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..copula._marginals import STEPPED
from ..metrics import coverage
from ._gaps import chosen_columns, floats, held_out, open_panels
from ._style import COLOURS, grey, hang, ink, pandas, tidy

Array = NDArray[np.float64]


class ImputationDisplay:
    """Imputed against held-out values with their intervals; the title says how many intervals hold the value.

    Parameters
    ----------
    true, imputed : ndarray (cells,)
    lower, upper : ndarray (cells,) or None
        Ends of the intervals.
    column : ndarray (cells,) or None
        Column of each cell; each is a panel.
    level : float
        Probability of the intervals.
    units : str
        Units of all values, for the axes.
    steps : dict of column to names of its levels
        Columns that hold levels (no names: numbers); their points are spread a little, to be told apart.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import ImputationDisplay
    >>> display = ImputationDisplay(np.array([1.0, 2.0]), np.array([1.1, 1.5]), np.zeros(2), np.full(2, 1.8))
    >>> display.frame()["inside"].tolist()
    [True, False]
    """

    def __init__(
        self,
        true: Array,
        imputed: Array,
        lower: Array | None = None,
        upper: Array | None = None,
        column: NDArray[Any] | None = None,
        level: float = 0.95,
        units: str = "",
        steps: dict[Any, tuple[Any, ...]] | None = None,
    ) -> None:
        self.true = true
        self.imputed = imputed
        self.lower = lower
        self.upper = upper
        self.column = column
        self.level = level
        self.units = units
        self.steps = steps or {}

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        complete: Any,
        *,
        columns: Any = None,
        level: float = 0.95,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Fill X with a fitted `CopulaImputer` and draw the cells known in ``complete``; ``kw`` goes to `plot`.

        Without ``columns`` all cells are in one panel, in standard deviations from the median of their column;
        with columns (names or positions) each is a panel in its own units.
        """
        found = held_out(estimator, X, complete)
        tables = [
            found.true,
            *(floats(estimator, t) for t in (estimator.transform(X), *estimator.interval(X, level))),
        ]
        if columns is None:
            true, imputed, lower, upper = (found.scaled(table)[found.cells] for table in tables)
            return cls(
                true, imputed, lower, upper, None, level, "standard deviations from the column's median"
            ).plot(ax=ax, **kw)
        positions = chosen_columns(columns, found.labels)
        for j in positions:
            if found.kinds[j] in ("nominal", "id"):
                msg = f"column {found.labels[j]!r} is {found.kinds[j]}, and words have no order to draw; choose other columns"
                raise ValueError(msg)
        empty = [found.labels[j] for j in positions if not found.cells[:, j].any()]
        if empty:
            msg = (
                f"no cell of column {empty[0]!r} is missing in X and known in complete; choose other columns"
            )
            raise ValueError(msg)
        true, imputed, lower, upper = (
            np.concatenate([table[found.cells[:, j], j] for j in positions]) for table in tables
        )
        counts = found.cells.sum(axis=0)
        labels = np.concatenate([np.full(counts[j], found.labels[j], dtype=object) for j in positions])
        codecs = estimator._layout.codecs
        steps = {found.labels[j]: codecs[j].levels for j in positions if found.kinds[j] in STEPPED}
        return cls(true, imputed, lower, upper, labels, level, "", steps).plot(ax=ax, **kw)

    @classmethod
    def from_predictions(
        cls,
        true: Any,
        imputed: Any,
        lower: Any = None,
        upper: Any = None,
        *,
        column: Any = None,
        level: float = 0.95,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Draw held-out and imputed values of any method, with or without intervals; ``kw`` goes to `plot`."""
        a, b = (np.ravel(np.asarray(values, dtype=float)) for values in (true, imputed))
        low, high = (None if e is None else np.ravel(np.asarray(e, dtype=float)) for e in (lower, upper))
        labels = None if column is None else np.ravel(np.asarray(column, dtype=object))
        lengths = {len(values) for values in (a, b, low, high, labels) if values is not None}
        if len(lengths) > 1 or lengths == {0} or (lower is None) != (upper is None):
            msg = f"one value for each cell is needed, got lengths {sorted(lengths)}; give both ends of intervals, or none"
            raise ValueError(msg)
        return cls(a, b, low, high, labels, level).plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The cells: column (where known), true, imputed, and lower, upper, inside where there are intervals."""
        found: dict[str, Any] = {} if self.column is None else {"column": self.column}
        found |= {"true": self.true, "imputed": self.imputed}
        if self.lower is not None and self.upper is not None:
            found |= {"lower": self.lower, "upper": self.upper}
            found["inside"] = (self.lower <= self.true) & (self.true <= self.upper)
        return pandas().DataFrame(found)

    def plot(self, ax: Any = None, *, max_points: int = 250, **kw: Any) -> Self:
        """Draw; at most ``max_points`` cells a panel, evenly chosen, ``kw`` goes to ``Axes.scatter``."""
        names: list[Any] = [None] if self.column is None else list(dict.fromkeys(self.column.tolist()))
        panels = open_panels(ax, len(names), (5.4, 5.0 if len(names) == 1 else 6.4))
        for i, (panel, name) in enumerate(zip(panels, names, strict=True)):
            cells = np.arange(len(self.true)) if name is None else np.flatnonzero(self.column == name)
            self._panel(panel, name, cells, max_points, kw)
            across = panel.get_subplotspec()
            if len(panels) == 1 or across.is_first_col():
                panel.set_ylabel("imputed" + (f" ({self.units})" if self.units else ""))
            if len(panels) == 1 or i + across.get_gridspec().ncols >= len(panels):
                panel.set_xlabel("held out" + (f" ({self.units})" if self.units else ""))
        if self.lower is not None:
            figure = panels[0].figure
            where = (
                {"loc": "outside lower center"} if ax is None else {"loc": "upper left", "fontsize": "small"}
            )
            handles, labels = panels[0].get_legend_handles_labels()
            (figure if ax is None else panels[0]).legend(handles, labels, frameon=False, ncols=2, **where)
        if ax is None:  # square panels settle in a second layout, when they are shown
            panels[0].figure.draw_without_rendering()
        return hang(self, panels)

    def _panel(self, ax: Any, name: Any, cells: NDArray[np.intp], most: int, kw: dict[str, Any]) -> None:
        shown = cells[np.linspace(0, len(cells) - 1, min(most, len(cells))).round().astype(np.intp)]
        true, imputed = self.true[shown], self.imputed[shown]
        x = true + (0.5 * ((np.arange(len(shown)) * 0.618034) % 1.0 - 0.5) if name in self.steps else 0.0)
        y = imputed + (0.36 * ((np.arange(len(shown)) * 0.754878) % 1.0 - 0.5) if name in self.steps else 0.0)
        ends = np.quantile(
            np.concatenate([true, imputed]), [0.002, 0.998]
        )  # a few cells must not take the room
        margin = 0.08 * (ends[1] - ends[0]) or 1.0
        limits = (ends[0] - margin, ends[1] + margin)
        ax.plot(limits, limits, color=grey(), linewidth=1.0, linestyle="--", zorder=1)
        style = {"s": float(np.clip(500.0 / np.sqrt(len(shown)), 7.0, 30.0)), "linewidths": 0.3, **kw}
        style = {"edgecolors": ink(0.0), "zorder": 3, **style}
        if self.lower is None or self.upper is None:
            ax.scatter(x, y, **{"color": COLOURS[0], **style})
            title = f"{len(cells)} held-out cells"
        else:
            lower, upper = self.lower[shown], self.upper[shown]
            inside = (lower <= true) & (true <= upper)
            for hit, colour, label in (
                (inside, COLOURS[0], "in the interval"),
                (~inside, COLOURS[1], "outside"),
            ):
                fade = 0.28 if hit is inside else 0.75
                ax.vlines(x[hit], lower[hit], upper[hit], color=colour, alpha=fade, linewidth=0.9, zorder=2)
                ax.scatter(x[hit], y[hit], **{"color": colour, "label": label, **style})
            share = coverage(self.lower[cells], self.upper[cells], self.true[cells])
            title = f"{100 * share:.1f} % of {len(cells)} in their {100 * self.level:g} % interval"
        ax.set_title(title if name is None else f"{name}\n{title}", fontsize="medium")
        names = self.steps.get(name, ())
        for axis in (ax.xaxis, ax.yaxis):
            axis.get_major_locator().set_params(integer=name in self.steps, nbins=5)
        if names:
            ax.set_xticks(range(len(names)), names, rotation=90 if max(map(len, map(str, names))) > 4 else 0)
            ax.set_yticks(range(len(names)), names)
        ax.set_xlim(limits)
        ax.set_ylim(limits)
        ax.set_aspect("equal", adjustable="box")
        tidy(ax)
