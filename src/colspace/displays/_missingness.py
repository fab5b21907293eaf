"""Where the gaps of a table are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._dictionary import shorten
from ._gaps import gap_shares
from ._style import COLOURS, ink, open_axes, pandas, pyplot, tidy

Array = NDArray[np.float64]

_MOST_NAMES = 60  # columns whose names are written


@dataclass(eq=False, repr=False)
class MissingnessDisplay:
    """Map of gaps, rows down and columns across, with the share of gaps of each column above.

    Parameters
    ----------
    names : list of str
        Columns.
    rows : ndarray (bins,)
        First row of each bin of rows.
    shares : ndarray (bins, columns)
        Share of gaps in each bin and column.
    n_rows : int
        Rows of the table.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import MissingnessDisplay
    >>> X = np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, 4.0]])
    >>> MissingnessDisplay.from_table(X).frame()["gaps"].tolist()
    [1, 2]
    """

    names: list[str]
    rows: Array
    shares: Array
    n_rows: int

    @classmethod
    def from_table(
        cls, X: Any, *, sort: bool = False, max_rows: int = 250, ax: Any = None, **kw: Any
    ) -> Self:
        """Draw the gaps of an array, DataFrame or sparse matrix (absent: missing); ``kw`` goes to `plot`.

        Parameters
        ----------
        sort : columns with most gaps first; otherwise as in the table.
        max_rows : longer tables are drawn in so many bins of rows, each as dark as its share of gaps.
        """
        if max_rows < 1:
            msg = f"max_rows={max_rows} must be at least 1"
            raise ValueError(msg)
        names, rows, shares = gap_shares(X, max_rows)
        display = cls(names, rows, shares, int(X.shape[0] if hasattr(X, "shape") else len(X)))
        if sort:
            order = np.argsort(-display._of_columns(), kind="stable")
            display.names, display.shares = [names[j] for j in order], shares[:, order]
        return display.plot(ax=ax, **kw)

    def _sizes(self) -> Array:
        return np.diff(np.append(self.rows, self.n_rows))

    def _of_columns(self) -> Array:
        sizes = self._sizes()
        return np.asarray(sizes @ self.shares / sizes.sum(), dtype=np.float64)

    def frame(self) -> Any:
        """The columns as drawn: column, gaps, share."""
        share = self._of_columns()
        gaps = np.rint(share * self.n_rows).astype(int)
        return pandas().DataFrame({"column": self.names, "gaps": gaps, "share": share})

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``kw`` goes to ``Axes.imshow``."""
        count = len(self.names)
        named = count <= _MOST_NAMES
        given, ax = ax, open_axes(ax, (float(np.clip(2.6 + 0.24 * count, 5.0, 13.0)), 5.4))
        colours = pyplot().matplotlib.colors
        shade = colours.LinearSegmentedColormap.from_list("gaps", [ink(0.06), COLOURS[0]])
        style = {"cmap": shade, "vmin": 0.0, "vmax": 1.0, "aspect": "auto", "interpolation": "nearest", **kw}
        binned = len(self.rows) < self.n_rows
        image = ax.imshow(self.shares, extent=(-0.5, count - 0.5, self.n_rows, 0), **style)
        share = self._of_columns()
        bars = ax.inset_axes((0.0, 1.02, 1.0, 0.16), sharex=ax)
        bars.bar(np.arange(count), 100 * share, color=COLOURS[0], width=0.8 if named else 1.0)
        bars.tick_params(axis="x", bottom=False, labelbottom=False)
        bars.set_ylabel("gaps (%)", fontsize="small")
        bars.set_ylim(0, max(1.15 * 100 * share.max(), 1.0))
        bars.tick_params(axis="y", labelsize="small")
        bars.yaxis.set_major_locator(pyplot().MaxNLocator(3, prune="lower"))
        tidy(bars, grid="y")
        sizes = self._sizes()
        total = round(float((sizes @ self.shares).sum()))
        percent = 100 * total / (self.n_rows * count)
        ax.set_title(
            f"{self.n_rows:,} rows, {count:,} columns: {total:,} gaps ({percent:.1f} %)",
            fontsize="medium",
            y=1.2,
        )
        if named:
            shorter = [shorten(name, 24) for name in self.names]
            wide = 0.07 * max(map(len, shorter)) * count > 0.7 * ax.figure.get_size_inches()[0]
            ax.set_xticks(np.arange(count), shorter, rotation=90 if wide else 0, fontsize="small")
            if count <= 40:
                for edge in np.arange(count - 1) + 0.5:
                    ax.axvline(edge, color=ink(0.0), linewidth=0.8)
        else:
            ax.set_xlabel("column")
        ax.set_ylabel("row")
        ax.spines[:].set_visible(False)
        if binned:
            bar = ax.figure.colorbar(
                image, ax=ax, label=f"share of gaps in {round(sizes.mean()):,} rows", shrink=0.7
            )
            bar.outline.set_visible(False)
        if given is None:  # room for what stands about the bars
            ax.figure.get_layout_engine().set(h_pad=0.12, w_pad=0.12)
        self.ax_, self.figure_ = ax, ax.figure
        return self
