"""Figures of the experiments: what they all share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..displays._style import COLOURS, MARKERS, pyplot, tidy


def opened(
    title: str,
    rows: int,
    columns: int,
    size: tuple[float, float],
    *,
    panels: int | None = None,
    **options: Any,
) -> tuple[Any, Any]:
    """A titled figure and its array of Axes, those beyond the first ``panels`` left blank."""
    figure, axes = pyplot().subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, **options
    )
    figure.suptitle(title, fontsize="large")
    for ax in axes.flat[panels:] if panels is not None else ():
        ax.set_axis_off()
    return figure, axes


def look(i: int) -> dict[str, Any]:
    """Colour, marker and line of the i-th curve; where colours begin anew lines are dashed."""
    again = i >= len(COLOURS)
    style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "markersize": 4}
    return {**style, "linewidth": 1.3, "linestyle": "--" if again else "-"}


def columns_of(rows: Sequence[Any], *keys: str) -> list[list[Any]]:
    """The values of each key over the rows."""
    return [[row[key] for row in rows] for key in keys]


def line_of(ax: Any, rows: Sequence[Any], x: str, y: str, error: str, i: int, **style: Any) -> Any:
    """Points of ``y`` over ``x`` with their errors, as the i-th curve."""
    across, up, spread = columns_of(rows, x, y, error)
    return ax.errorbar(across, up, yerr=spread, **{**look(i), **style})


def below(ax: Any, fontsize: str = "x-small", *, gap: float = 0.2, columns: int = 1) -> None:
    """The legend under the axis, away from the curves."""
    ax.legend(frameon=False, fontsize=fontsize, loc="upper center", bbox_to_anchor=(0.5, -gap), ncols=columns)


def below_all(figure: Any, ax: Any, columns: int = 3, fontsize: str = "small") -> None:
    """One legend for all axes, under them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=fontsize
    )


def bars(ax: Any, rows: Sequence[Any], key: str, label: str, colour: str, *, errors: bool = False) -> None:
    """One bar a statement, from the top down."""
    names = [f"{row['check']}: {row['model']}" for row in rows]
    values, spread = columns_of(rows, key, "se")
    ax.barh(names, values, xerr=spread if errors else None, color=colour)
    ax.invert_yaxis()
    ax.tick_params(axis="y", labelsize="x-small")
    ax.set_xlabel(label)
    tidy(ax, grid="x")


def log_axes(ax: Any, places: list[float]) -> None:
    """Logarithmic axes with ticks at the places and at round numbers."""
    from matplotlib.ticker import NullLocator

    ax.set_xscale("log")
    ax.set_yscale("log")
    step = -(-len(places) // 6)
    ax.set_xticks(places[::step], [f"{p / 1000:g}k" if p >= 1000 else f"{p:g}" for p in places[::step]])
    low, high = ax.get_ylim()
    if high / low < 4:  # room for at least two labels
        middle = (low * high) ** 0.5
        low, high = min(low, middle / 2), max(high, middle * 2)
    steps = (1, 2, 5) if high / low > 20 else (1, 1.5, 2, 3, 5, 7)
    ticks = [t for t in (s * 10.0**e for e in range(-6, 4) for s in steps) if low <= t <= high]
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.set_ylim(low, high)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
