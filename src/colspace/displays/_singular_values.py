"""Singular values beside those of permuted data."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._style import COLOURS, GREY, open_axes, pandas, tidy

Array = NDArray[np.float64]


class SingularValuesDisplay:
    """Observed singular values of the moments, with the band that data without any signal would give.

    The band answers "is there a direction at all". How many there are is the sequential test's answer
    (dotted line): strong directions lift the values behind them, which may then lie above the band too.

    Parameters
    ----------
    spectrum : ndarray (k,)
        Observed values, root sum of squares over blocks.
    null_spectrum : ndarray (permutations, k)
        The same with the rows of y permuted.
    n_components : int
        Directions found by the sequential test.
    p_values : ndarray
        p-value of "at most k directions", k = 0, 1, ...
    alpha : float
        Level of the test.

    Examples
    --------
    >>> from colspace import JointReduction
    >>> from colspace.datasets import make_bilinear
    >>> from colspace.displays import SingularValuesDisplay
    >>> X, y, blocks, _ = make_bilinear(2000, 5, 2, rng=0)
    >>> test = JointReduction(blocks=blocks).rank_test(X, y, n_permutations=39, random_state=0)
    >>> display = SingularValuesDisplay(test.spectrum, test.null_spectrum, test.n_components, test.p_values)
    >>> display.frame()["found"].tolist()
    [True, True, False, False, False]
    """

    def __init__(
        self, spectrum: Array, null_spectrum: Array, n_components: int, p_values: Array, alpha: float = 0.05
    ) -> None:
        self.spectrum = spectrum
        self.null_spectrum = null_spectrum
        self.n_components = n_components
        self.p_values = p_values
        self.alpha = alpha

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_permutations: int = 199,
        alpha: float = 0.05,
        max_components: int | None = None,
        random_state: Any = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Run ``estimator.rank_test(X, y)`` and draw it; ``kw`` goes to `plot`."""
        test = estimator.rank_test(
            X,
            y,
            n_permutations=n_permutations,
            alpha=alpha,
            max_components=max_components,
            random_state=random_state,
        )
        display = cls(test.spectrum, test.null_spectrum, test.n_components, test.p_values, test.alpha)
        return display.plot(ax=ax, **kw)

    def _band(self) -> tuple[Array, Array]:
        median, upper = np.quantile(self.null_spectrum, [0.5, 0.95], axis=0)
        return median, upper

    def frame(self) -> Any:
        """The numbers: component, observed value, median and 95 % quantile under permutation, test."""
        median, upper = self._band()
        p_values = np.full(len(self.spectrum), np.nan)
        p_values[: len(self.p_values)] = self.p_values
        return pandas().DataFrame(
            {
                "component": np.arange(1, len(self.spectrum) + 1),
                "observed": self.spectrum,
                "null_median": median,
                "null_95": upper,
                "found": np.arange(len(self.spectrum)) < self.n_components,
                "p_value": p_values,
            }
        )

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``kw`` goes to the line of observed values."""
        ax = open_axes(ax, (6.4, 4.0))
        median, upper = self._band()
        place = np.arange(1, len(self.spectrum) + 1)
        style: dict[str, Any] = {
            "color": COLOURS[0],
            "marker": "o",
            "markersize": 5.5,
            "linewidth": 1.2,
            "zorder": 3,
            "label": "observed",
        }
        ax.plot(place, self.spectrum, **{**style, **kw})
        ax.fill_between(place, median, upper, color=COLOURS[4], alpha=0.35, linewidth=0)
        ax.plot(place, median, color=GREY, linestyle="--", linewidth=1.2, label="y permuted: median")
        ax.plot(place, upper, color=COLOURS[1], linewidth=1.2, label="y permuted: 95 % quantile")
        k = self.n_components
        if 0 < k < len(place):
            ax.axvline(k + 0.5, color=GREY, linewidth=0.9, linestyle=":")
        found = "no direction" if k == 0 else f"{k} direction{'s' if k > 1 else ''}"
        ax.set_title(f"Permutation test: {found} (level {self.alpha:g})", fontsize="medium")
        ax.set_xlabel("component")
        ax.set_ylabel("singular value of the moments")
        ax.set_ylim(bottom=0)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False)
        tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
