"""Reconstruction against classification along the weight xi."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._dictionary import reconstruction_error
from ._style import COLOURS, grey, ink, legend_below, open_axes, pandas, tidy

Array = NDArray[np.float64]

_LABELS = {
    "loss": "mean loss of the labels",
    "error": "share of wrong labels",
    "unexplained": "1 - R² of the response",
}


@dataclass(eq=False, repr=False)
class ParetoDisplay:
    """Reconstruction error against the loss of the labels, one point for each xi; down and left is better.

    The line goes from the least xi to the largest. Filled points are on the front: none is better in one and as good
    in the other.

    Parameters
    ----------
    xi : ndarray (points,)
    reconstruction_error : ndarray (points,)
        Squared relative error ||X - H W'||² / ||X||².
    label_error : ndarray (points,)
        What ``measure`` says, small is good.
    measure : "loss", "error" or "unexplained"
    where : str
        The rows that it was measured on.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import ParetoDisplay
    >>> display = ParetoDisplay(np.array([0.1, 1.0, 9.0]), np.array([0.5, 0.3, 0.4]), np.array([0.1, 0.2, 0.3]))
    >>> display.frame()["front"].tolist()
    [True, True, False]
    """

    xi: Array
    reconstruction_error: Array
    label_error: Array
    measure: str = "loss"
    where: str = "training rows"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        xis: Any = None,
        X_test: Any = None,
        y_test: Any = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Run ``estimator.xi_path(X, y, xis)`` and draw it; see `from_path` for the test rows."""
        return cls.from_path(estimator.xi_path(X, y, xis), X_test, y_test, ax=ax, **kw)

    @classmethod
    def from_path(cls, path: Any, X: Any = None, y: Any = None, *, ax: Any = None, **kw: Any) -> Self:
        """Draw a path; ``kw`` goes to `plot`.

        Without rows: mean loss and reconstruction on the training rows. With rows X and their y (best those that
        were held out): the share of wrong labels, or 1 - R² of a regressor, and the reconstruction of X.
        """
        if (X is None) != (y is None):
            msg = "rows X and their labels y go together; give both, or none for the training rows"
            raise ValueError(msg)
        xi = np.asarray(path.xi, dtype=np.float64)
        if X is None:
            display = cls(xi, np.asarray(path.reconstruction_error), np.asarray(path.label_loss))
        else:
            errors = np.array([reconstruction_error(model, X) for model in path.models])
            wrong = np.array([1.0 - model.score(X, y) for model in path.models])
            measure = "error" if hasattr(path.models[0], "classes_") else "unexplained"
            display = cls(xi, errors, wrong, measure, f"{np.shape(X)[0]} other rows")
        return display.plot(ax=ax, **kw)

    def _front(self) -> NDArray[np.bool_]:
        both = np.column_stack([self.reconstruction_error, self.label_error])
        no_worse = np.all(both[None] <= both[:, None], axis=2)
        better = np.any(both[None] < both[:, None], axis=2)
        return np.asarray(~np.any(no_worse & better, axis=1))

    def frame(self) -> Any:
        """The points: xi, reconstruction_error, label_error, and whether a point is on the front."""
        return pandas().DataFrame(
            {
                "xi": self.xi,
                "reconstruction_error": self.reconstruction_error,
                "label_error": self.label_error,
                "front": self._front(),
            }
        )

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``kw`` goes to the points."""
        own, ax = ax is None, open_axes(ax, (6.2, 4.4))
        front = self._front()
        x, y = self.reconstruction_error, self.label_error
        path = np.argsort(self.xi, kind="stable")
        ax.plot(x[path], y[path], color=ink(0.35), linewidth=1.0, zorder=1)
        style = {"s": 40, "linewidths": 1.3, **kw}
        filled = {
            "color": COLOURS[0],
            "edgecolors": COLOURS[0],
            "label": "on the front",
            "zorder": 3,
            **style,
        }
        ax.scatter(x[front], y[front], **filled)
        if not front.all():
            hollow = {"facecolors": ink(0.0), "edgecolors": grey(), "label": "beaten", "zorder": 2, **style}
            ax.scatter(x[~front], y[~front], **hollow)
            legend_below(ax, own)
        ax.margins(x=0.1, y=0.12)
        ax.set_xlabel("squared relative reconstruction error")
        ax.set_ylabel(_LABELS[self.measure])
        ax.set_title(f"Reconstruction and labels, {self.where}", fontsize="medium")
        tidy(ax)
        if own:
            ax.figure.draw_without_rendering()  # the layout decides what room there is
        texts = [f"ξ={value:.2g}" for value in self.xi]
        label_points(ax, np.column_stack([x, y]), path, texts, path[np.argsort(~front[path], kind="stable")])
        self.ax_, self.figure_ = ax, ax.figure
        return self


_AROUND = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]
_SIDES = [(6, 5), (-6, 5), (6, -5), (-6, -5), (0, 8), (0, -8), (9, 0), (-9, 0)]  # points from the marker


def label_points(
    ax: Any, points: Array, path: NDArray[np.intp], texts: Sequence[str], order: NDArray[np.intp]
) -> None:
    """Write texts beside points, first come first served, wherever they cover no point, text or line of the path.

    A text that finds no room is left out.
    """
    ax.get_xlim()  # limits are settled when they are asked for
    figure = ax.figure
    scale = figure.dpi / 72.0
    places = ax.transData.transform(points)
    ends = places[path]
    steps = np.linspace(0.0, 1.0, 60)[:, None, None]
    along = (ends[:-1] + steps * (ends[1:] - ends[:-1])).reshape(-1, 2) if len(ends) > 1 else ends
    marks = np.vstack([along, *(places + 4.0 * scale * np.array(side) for side in _AROUND)])
    inside = ax.get_window_extent()
    taken: list[Any] = []
    for i in order:
        for side in _SIDES:
            note = ax.annotate(
                texts[i],
                points[i],
                xytext=side,
                textcoords="offset points",
                ha=("center", "left", "right")[int(np.sign(side[0]))],
                va=("center", "bottom", "top")[int(np.sign(side[1]))],
                fontsize="small",
            )
            box = note.get_window_extent(figure.canvas.get_renderer()).padded(1.5 * scale)
            low, high = box.get_points()
            covers = ((marks >= low) & (marks <= high)).all(axis=1).any() or any(map(box.overlaps, taken))
            if not covers and (low >= inside.min).all() and (high <= inside.max).all():
                taken.append(box)
                break
            note.remove()
