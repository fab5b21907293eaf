"""Rows in the space of two directions, coloured by the response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._compute import colour_response, embedding_columns
from ._style import MARKERS, class_colours, open_axes, pandas, tidy

Array = NDArray[np.float64]


class EmbeddingDisplay:
    """Scatter of two columns of an embedding: a colour bar for numbers, a legend for classes.

    Parameters
    ----------
    embedding : ndarray (rows, 2)
    y : ndarray (rows,)
    names : pair of str
        Names of the two columns.
    classes : bool
        Whether y is drawn as classes.
    response_name : str
        Title of the colour bar or legend.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import EmbeddingDisplay
    >>> EmbeddingDisplay(np.eye(2), np.array([0.5, 1.5]), ("a__0", "a__1"), False).frame().columns.tolist()
    ['a__0', 'a__1', 'y']
    """

    def __init__(
        self,
        embedding: Array,
        y: NDArray[Any],
        names: tuple[str, str],
        classes: bool,
        response_name: str = "y",
    ) -> None:
        self.embedding = embedding
        self.y = y
        self.names = names
        self.classes = classes
        self.response_name = response_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        block: str | None = None,
        components: Sequence[int | str] | None = None,
        response_name: str | None = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Embed X with a fitted estimator and draw it; ``kw`` goes to `plot`.

        Parameters
        ----------
        block : the block whose components are drawn; the first by default.
        components : two numbers within the block, or two names of embedding columns (``"a__0"``) of any
            blocks. By default the first two; with one component per block, those of the first two blocks.
        response_name : title of the colours; by default the name of y.
        """
        embedding = np.asarray(estimator.transform(X), dtype=np.float64)
        positions, names = embedding_columns(estimator, block, components)
        values, classes = colour_response(y, len(embedding))
        title = response_name or str(getattr(y, "name", None) or "y")
        display = cls(embedding[:, positions], values, (names[0], names[1]), classes, title)
        return display.plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The points: the two columns and y."""
        first, second = self.names
        return pandas().DataFrame(
            {first: self.embedding[:, 0], second: self.embedding[:, 1], self.response_name: self.y}
        )

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``kw`` goes to ``Axes.scatter``."""
        ax = open_axes(ax, (6.0, 4.6))
        crowd = float(np.clip(900.0 / np.sqrt(len(self.y)), 6.0, 36.0))
        style = {"s": crowd, "alpha": 0.75, "linewidths": 0.3, "edgecolors": "white", **kw}
        if self.classes:
            self._scatter_classes(ax, style)
        else:
            values = self.y.astype(float)
            low, high = np.quantile(values, [0.01, 0.99])  # a few extreme rows must not take all the colours
            points = ax.scatter(
                *self.embedding.T, c=values, **{"cmap": "viridis", "vmin": low, "vmax": high, **style}
            )
            bar = ax.figure.colorbar(points, ax=ax, label=self.response_name, extend="both")
            bar.outline.set_visible(False)
            bar.solids.set_alpha(1.0)
        ax.set_xlabel(self.names[0])
        ax.set_ylabel(self.names[1])
        tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _scatter_classes(self, ax: Any, style: dict[str, Any]) -> None:
        labels = sorted(dict.fromkeys(self.y.tolist()), key=lambda v: (str(type(v)), v))
        for i, (label, colour) in enumerate(zip(labels, class_colours(len(labels)), strict=True)):
            rows = self.y == label
            marker = MARKERS[i % len(MARKERS)]
            ax.scatter(
                *self.embedding[rows].T, **{"color": colour, "marker": marker, "label": label, **style}
            )
        beside = len(labels) > 6
        ax.legend(
            title=self.response_name,
            frameon=False,
            loc="upper left" if beside else "best",
            bbox_to_anchor=(1.0, 1.0) if beside else None,
            markerscale=max(1.0, 4.0 / np.sqrt(style["s"])),
        )
