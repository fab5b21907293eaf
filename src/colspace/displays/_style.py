"""Colours and axes shared by the displays."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np

from ..io import require

#: Okabe and Ito's palette, told apart with any common form of colour blindness, without its black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


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


def divided(ax: Any, shape: tuple[int, int], figsize: tuple[float, float], **shared: Any) -> Any:
    """An array of axes: of a new figure, or in the place of ``ax``."""
    if ax is None:
        return pyplot().subplots(*shape, figsize=figsize, layout="constrained", squeeze=False, **shared)[1]
    if shape == (1, 1):
        return np.array([[ax]], dtype=object)
    ax.set_axis_off()
    return ax.get_subplotspec().subgridspec(*shape).subplots(squeeze=False, **shared)


def hang(display: Any, panels: Any) -> Any:
    """The display with ``ax_``, one Axes or an array of them, and ``figure_``."""
    several = np.asarray(panels, dtype=object)
    display.ax_ = several.flat[0] if several.size == 1 else several
    display.figure_ = several.flat[0].figure
    return display


def ink(share: float = 1.0) -> str:
    """The colour of text, ``share`` of it mixed with the background, so that pictures follow a dark style.

    Examples
    --------
    >>> from colspace.displays._style import ink
    >>> ink(), ink(0.0)
    ('#000000', '#ffffff')
    """
    colours, now = pyplot().matplotlib.colors, pyplot().rcParams
    text, paper = (np.array(colours.to_rgb(now[key])) for key in ("text.color", "axes.facecolor"))
    return str(colours.to_hex(share * text + (1.0 - share) * paper))


def grey() -> str:
    """Lines and words that stand back."""
    return ink(0.58)


def dark() -> bool:
    """Whether text is lighter than what it stands on."""
    rgb = pyplot().matplotlib.colors.to_rgb
    return sum(rgb(ink())) > sum(rgb(ink(0.0)))


def tidy(ax: Any, *, grid: str = "both") -> None:
    """Light grid behind the data, no box around it."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color=ink(0.11), linewidth=0.7)
    ax.set_axisbelow(True)


def legend_below(ax: Any, own: bool, columns: int = 3) -> None:
    """The legend of ``ax`` under a figure of our own, where it covers nothing; else where ``ax`` has most room."""
    handles, labels = ax.get_legend_handles_labels()
    if own:
        across = min(columns, max(len(labels), 1))
        ax.figure.legend(handles, labels, frameon=False, ncols=across, loc="outside lower center")
    else:
        ax.legend(handles, labels, frameon=False, fontsize="small")


def wrapped(text: str, inches: float) -> str:
    """Lines of text of medium size that are no wider than ``inches``."""
    return fill(text, max(12, int(inches / 0.078)))


def class_colours(n_classes: int) -> list[Any]:
    """One colour per class; the eighth is that of text."""
    if n_classes <= len(COLOURS) + 1:
        return [*COLOURS, ink()][:n_classes]
    colormap = pyplot().get_cmap("viridis")
    low, high = (0.25, 1.0) if dark() else (0.0, 0.95)  # none near the background
    return [colormap(low + (high - low) * i / (n_classes - 1)) for i in range(n_classes)]
