"""Singular values beside those of permuted data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._style import COLOURS, grey, ink, legend_below, open_axes, pandas, tidy

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class SingularValuesDisplay:
    """The sequential permutation test: singular values of the moments, each beside what chance alone would give.

    The k-th value is that of the moments off the k - 1 leading directions, and its bar runs from the median to the
    critical value of the same statistic after the rest was permuted against y and these directions. Directions are
    counted up to the first value that is not above its bar. Values behind it were not tested and are drawn hollow.

    Parameters
    ----------
    test : RankTest
        What ``JointReduction.rank_test`` returns.

    Examples
    --------
    >>> from colspace import JointReduction
    >>> from colspace.datasets import make_bilinear
    >>> from colspace.displays import SingularValuesDisplay
    >>> X, y, blocks, _ = make_bilinear(2000, 5, 2, rng=0)
    >>> test = JointReduction(blocks=blocks).rank_test(X, y, n_permutations=39, random_state=0)
    >>> SingularValuesDisplay(test).frame()["found"].tolist()
    [True, True, False, False, False]
    """

    test: Any

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
        return cls(test).plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The numbers: component, observed value, median and critical value of chance, test."""
        test, count = self.test, len(self.test.spectrum)
        observed, median, critical, p_values = (np.full(count, np.nan) for _ in range(4))
        tried = len(test.p_values)
        observed[:] = test.spectrum
        observed[:tried] = np.sqrt(test.statistics)
        null = np.sqrt(np.asarray(test.null_statistics))
        median[:tried] = np.median(null, axis=1)
        critical[:tried] = critical_values(null, test.alpha)
        p_values[:tried] = test.p_values
        return pandas().DataFrame(
            {
                "component": np.arange(1, count + 1),
                "observed": observed,
                "null_median": median,
                "critical": critical,
                "found": np.arange(count) < test.n_components,
                "p_value": p_values,
            }
        )

    def _title(self) -> str:
        k, p_values, alpha = self.test.n_components, self.test.p_values, self.test.alpha
        more = "at least " if k < len(p_values) and p_values[k] <= alpha else ""
        found = "no direction" if k == 0 else f"{more}{k} direction{'s' if k > 1 else ''}"
        return f"Permutation test: {found} (level {alpha:g})"

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``kw`` goes to the line of observed values."""
        own, ax = ax is None, open_axes(ax, (6.4, 4.0))
        frame, tried, k = self.frame(), len(self.test.p_values), self.test.n_components
        place, observed = frame["component"].to_numpy(), frame["observed"].to_numpy()
        style: dict[str, Any] = {"color": COLOURS[0], "marker": "o", "markersize": 5.5, "linewidth": 1.2}
        ax.plot(place[:tried], observed[:tried], **{**style, "zorder": 4, "label": "observed", **kw})
        if tried < len(place):
            hollow = {"markerfacecolor": ink(0.0), "linestyle": ":", "zorder": 3, "label": "not tested"}
            ax.plot(place[tried - 1 :], observed[tried - 1 :], **{**style, **hollow})
        chance = frame.iloc[:tried]
        finite = np.isfinite(chance["critical"])
        heights = (chance["critical"] - chance["null_median"])[finite]
        bars = {"width": 0.5, "color": COLOURS[4], "alpha": 0.5, "zorder": 2}
        label = f"chance: median to {100 * (1 - self.test.alpha):g} %"
        ax.bar(place[:tried][finite], heights, bottom=chance["null_median"][finite], **bars, label=label)
        if 0 < k < len(place):
            ax.axvline(k + 0.5, color=grey(), linewidth=0.9, linestyle=":")
        ax.set_title(self._title(), fontsize="medium")
        ax.set_xlabel("component")
        ax.set_ylabel("singular value of the moments")
        ax.set_ylim(bottom=0)
        ax.xaxis.get_major_locator().set_params(integer=True)
        legend_below(ax, own)
        tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def critical_values(null: Array, alpha: float) -> Array:
    """The value that an observed one must exceed, row by row, for (1 + number of null values not below it) / (1 + their
    number) to be at most ``alpha``; infinite where permutations are too few for any.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays._singular_values import critical_values
    >>> critical_values(np.arange(1.0, 20.0)[None], 0.1), critical_values(np.arange(1.0, 20.0)[None], 0.01)
    (array([18.]), array([inf]))
    """
    count = null.shape[1]
    above = int(np.floor(alpha * (count + 1) * (1 + 1e-12))) - 1  # null values that may lie at or above it
    if above < 0:
        return np.full(len(null), np.inf)
    return np.asarray(np.sort(null, axis=1)[:, count - 1 - above])
