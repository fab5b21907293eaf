"""Colours and axes shared by the displays."""

from __future__ import annotations

from typing import Any

from ..io import require

#: Okabe and Ito's palette, told apart with any common form of colour blindness; grey-black last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#6b6b6b"


def pyplot() -> Any:
    """``matplotlib.pyplot``, or an ImportError that names the extra."""
    return require("matplotlib.pyplot", "plot", "drawing")


def pandas() -> Any:
    """``pandas``, or an ImportError that names the extra."""
    return require("pandas", "cli", "frame()")


def open_axes(ax: Any, figsize: tuple[float, float]) -> Any:
    """``ax``, or the axes of a new figure."""
    if ax is not None:
        return ax
    _, ax = pyplot().subplots(figsize=figsize, layout="constrained")
    return ax


def tidy(ax: Any, *, grid: str = "both") -> None:
    """Light grid behind the data, no box around it."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color="#e3e3e3", linewidth=0.7)
    ax.set_axisbelow(True)


def class_colours(n_classes: int) -> list[Any]:
    """One colour per class."""
    if n_classes <= len(COLOURS):
        return list(COLOURS[:n_classes])
    colormap = pyplot().get_cmap("viridis")
    return [colormap(i / (n_classes - 1)) for i in range(n_classes)]
