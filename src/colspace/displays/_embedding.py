"""Rows in the space of one or two directions, with the response."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._compute import colour_response, embedding_columns
from ._style import COLOURS, MARKERS, class_colours, ink, open_axes, pandas, tidy

Array = NDArray[np.float64]

_FEW_CLASSES = 6  # more are also named where they lie


@dataclass(eq=False, repr=False)
class EmbeddingDisplay:
    """Scatter of two columns of an embedding: a colour bar for numbers, a legend for classes.

    One column is drawn against y: a scatter for numbers, a strip for each class.

    Parameters
    ----------
    embedding : ndarray (rows, 1 or 2)
    y : ndarray (rows,)
    names : one or two str
        Names of the columns.
    classes : bool
        Whether y is drawn as classes.
    response_name : str
        Title of the colour bar, the legend or the axis of y.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import EmbeddingDisplay
    >>> EmbeddingDisplay(np.eye(2), np.array([0.5, 1.5]), ("a__0", "a__1"), False).frame().columns.tolist()
    ['a__0', 'a__1', 'y']
    """

    embedding: Array
    y: NDArray[Any]
    names: tuple[str, ...]
    classes: bool
    response_name: str = "y"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        block: str | None = None,
        components: int | str | Sequence[int | str] | None = None,
        response_name: str | None = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Embed X with a fitted estimator and draw it; ``kw`` goes to `plot`.

        Parameters
        ----------
        block : the block whose components are drawn; the first by default.
        components : one or two numbers within the block, or names of embedding columns (``"a__0"``) of any
            blocks. By default the first two; with one component per block, those of the first two blocks;
            with one component in all, that one.
        response_name : title of y; by default the name of y.
        """
        embedding = np.asarray(estimator.transform(X), dtype=np.float64)
        positions, names = embedding_columns(estimator, block, components)
        values, classes = colour_response(y, len(embedding))
        title = response_name or str(getattr(y, "name", None) or "y")
        return cls(embedding[:, positions], values, tuple(names), classes, title).plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The points: the columns of the embedding and y."""
        columns = dict(zip(self.names, self.embedding.T, strict=True))
        return pandas().DataFrame({**columns, self.response_name: self.y})

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``kw`` goes to ``Axes.scatter``."""
        ax = open_axes(ax, (6.0, 4.6))
        crowd = float(np.clip(900.0 / np.sqrt(len(self.y)), 6.0, 36.0))
        style = {"s": crowd, "alpha": 0.75, "linewidths": 0.3, "edgecolors": ink(0.0), **kw}
        single = len(self.names) == 1
        if self.classes:
            (self._strips if single else self._scatter_classes)(ax, style)
        elif single:
            ax.scatter(self.embedding[:, 0], self.y.astype(float), **{"color": COLOURS[0], **style})
        else:
            self._scatter_numbers(ax, style)
        ax.set_xlabel(self.names[0])
        ax.set_ylabel(self.response_name if single else self.names[1])
        tidy(ax, grid="x" if single and self.classes else "both")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _scatter_numbers(self, ax: Any, style: dict[str, Any]) -> None:
        values = self.y.astype(float)
        low, high = np.quantile(values, [0.01, 0.99])  # a few extreme rows must not take all the colours
        points = ax.scatter(
            *self.embedding.T, c=values, **{"cmap": "viridis", "vmin": low, "vmax": high, **style}
        )
        bar = ax.figure.colorbar(points, ax=ax, label=self.response_name, extend="both")
        bar.outline.set_visible(False)
        bar.solids.set_alpha(1.0)

    def _by_class(self) -> Iterator[tuple[Any, NDArray[np.bool_], dict[str, Any]]]:
        """Label, rows and style of each class, in order."""
        labels = sorted(dict.fromkeys(self.y.tolist()), key=lambda v: (str(type(v)), v))
        for i, (label, colour) in enumerate(zip(labels, class_colours(len(labels)), strict=True)):
            yield label, self.y == label, {"color": colour, "marker": MARKERS[i % len(MARKERS)]}

    def _strips(self, ax: Any, style: dict[str, Any]) -> None:
        """One strip of points per class, with a bar at its median."""
        labels = []
        for i, (label, rows, look) in enumerate(self._by_class()):
            values = self.embedding[rows, 0]
            spread = (np.arange(len(values)) * 0.618034) % 1.0 - 0.5  # even, and the same in every picture
            ax.scatter(values, i + 0.6 * spread, **{**look, "label": label, **style})
            ax.vlines(np.median(values), i - 0.38, i + 0.38, color=ink(), linewidth=1.8, zorder=3)
            labels.append(str(label))
        ax.set_yticks(range(len(labels)), labels)

    def _scatter_classes(self, ax: Any, style: dict[str, Any]) -> None:
        groups = list(self._by_class())
        for label, rows, look in groups:
            ax.scatter(*self.embedding[rows].T, **{**look, "label": label, **style})
        if len(groups) > _FEW_CLASSES:
            _name_places(ax, {str(c): np.median(self.embedding[rows], axis=0) for c, rows, _ in groups})
        ax.legend(
            title=self.response_name,
            frameon=False,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            markerscale=max(1.0, 4.0 / np.sqrt(style["s"])),
        )


def _name_places(ax: Any, places: dict[str, NDArray[np.float64]]) -> None:
    """Write names at places, but for those that would cover one that stands already."""
    from matplotlib.patheffects import withStroke

    halo = withStroke(linewidth=2.5, foreground=ink(0.0))
    ax.get_xlim()  # settles the axes, which the sizes of texts depend on
    taken: list[Any] = []
    for name, place in places.items():
        text = ax.text(*place, name, ha="center", va="center", weight="bold", path_effects=[halo])
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)
