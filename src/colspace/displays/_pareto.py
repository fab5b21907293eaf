"""Reconstruction against classification along the weight xi."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._dictionary import reconstruction_error
from ._style import COLOURS, GREY, open_axes, pandas, tidy

Array = NDArray[np.float64]

_LABELS = {
    "loss": "mean loss of the labels",
    "error": "share of wrong labels",
    "unexplained": "1 - R² of the response",
}


class ParetoDisplay:
    """Reconstruction error against the loss of the labels, one point for each xi; down and left is better.

    Filled points are on the front: none is better in one and as good in the other.

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

    def __init__(
        self,
        xi: Array,
        reconstruction_error: Array,
        label_error: Array,
        measure: str = "loss",
        where: str = "training rows",
    ) -> None:
        self.xi = xi
        self.reconstruction_error = reconstruction_error
        self.label_error = label_error
        self.measure = measure
        self.where = where

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
        ax = open_axes(ax, (5.8, 4.2))
        front = self._front()
        x, y = self.reconstruction_error, self.label_error
        order = np.flatnonzero(front)[np.argsort(x[front], kind="stable")]
        ax.plot(x[order], y[order], color=COLOURS[0], linewidth=1.2, alpha=0.7, zorder=1)
        style = {"s": 40, "edgecolors": COLOURS[0], "linewidths": 1.3, "zorder": 3, **kw}
        ax.scatter(x[front], y[front], **{"color": COLOURS[0], "label": "front", **style})
        if not front.all():
            hollow = {"facecolors": "white", "label": "beaten", **style}
            ax.scatter(x[~front], y[~front], **{**hollow, "edgecolors": GREY})
            ax.legend(frameon=False, loc="upper right")
        for i in spread_out(x, y, front):
            ax.annotate(
                f"ξ={self.xi[i]:.2g}",
                (x[i], y[i]),
                xytext=(6, 5),
                textcoords="offset points",
                fontsize="small",
                color="#303030",
            )
        ax.margins(x=0.18, y=0.12)
        ax.set_xlabel("squared relative reconstruction error")
        ax.set_ylabel(_LABELS[self.measure])
        ax.set_title(f"Reconstruction and labels, {self.where}", fontsize="medium")
        tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def spread_out(
    x: Array, y: Array, first: NDArray[np.bool_], apart: tuple[float, float] = (0.13, 0.06)
) -> list[int]:
    """Points whose labels have room, ``apart`` shares of the picture from each other; those of ``first`` first.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays._pareto import spread_out
    >>> spread_out(np.array([0.0, 0.01, 1.0]), np.array([0.0, 0.0, 1.0]), np.array([True, True, True]))
    [0, 2]
    """
    places = np.column_stack([x, y]) - [np.min(x), np.min(y)]
    places /= np.where(places.max(axis=0) > 0, places.max(axis=0), 1.0)
    kept: list[int] = []
    for i in [*np.flatnonzero(first), *np.flatnonzero(~first)]:
        if all((np.abs(places[i] - places[j]) >= apart).any() for j in kept):
            kept.append(int(i))
    return kept
