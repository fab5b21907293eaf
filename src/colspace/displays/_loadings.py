"""The columns that matter most, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..reduction._loadings import block_errors, block_loadings, largest
from ._compute import check_block, check_components, deviations
from ._dictionary import shorten
from ._style import COLOURS, divided, grey, hang, ink, pandas, tidy

Array = NDArray[np.float64]

PALE = 0.3  # opacity of bars within two errors of zero


@dataclass(eq=False, repr=False)
class LoadingsDisplay:
    """Bars of the largest loadings: one panel per block, one row of panels per component.

    Where the errors of the loadings are known (``components_error_``), a line of two errors to either side crosses
    the end of each bar, and bars whose line reaches zero are pale.

    Parameters
    ----------
    names : dict of str to list of str
        Column names of each block.
    loadings : dict of str to ndarray (columns of the block, components)
    components : tuple of int
        Which components are drawn.
    n_features : int
        Bars per panel, largest absolute loading first.
    standardised : bool
        Whether loadings were multiplied by the columns' standard deviation.
    errors : dict of str to ndarray (columns of the block, components), optional
        Standard errors of the loadings, in the same units.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import LoadingsDisplay
    >>> display = LoadingsDisplay({"a": ["u", "v"]}, {"a": np.array([[0.1], [-0.9]])}, (0,), 10)
    >>> display.frame()["feature"].tolist()
    ['v', 'u']
    """

    names: dict[str, list[str]]
    loadings: dict[str, Array]
    components: tuple[int, ...]
    n_features: int
    standardised: bool = False
    errors: dict[str, Array] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        components: int | Sequence[int] = 0,
        blocks: Sequence[str] | None = None,
        n_features: int = 12,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Draw the loadings of a fitted estimator; ``kw`` goes to `plot`.

        Each loading is multiplied by the standard deviation of its column, so that columns in different units
        compare: the deviation in ``X``, or the one that the estimator saw in fit (``scale_``). Without either the
        loadings are drawn as they are.
        """
        deviation = deviations(estimator, X)
        found = block_loadings(estimator, deviation)
        chosen = list(found) if blocks is None else [check_block(estimator, b) for b in blocks]
        errors = block_errors(estimator, deviation)
        display = cls(
            {b: found[b][0] for b in chosen},
            {b: found[b][1] for b in chosen},
            check_components(components, next(iter(found.values()))[1].shape[1]),
            n_features,
            deviation is not None,
            None if errors is None else {b: errors[b] for b in chosen},
        )
        return display.plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The bars: block, component, feature, loading, and its error (NaN where that is not known)."""
        rows = [
            {
                "block": block,
                "component": k,
                "feature": self.names[block][i],
                "loading": float(L[i, k]),
                "error": np.nan if self.errors is None else float(self.errors[block][i, k]),
            }
            for block, L in self.loadings.items()
            for k in self.components
            for i in largest(L[:, k], self.n_features)
        ]
        return pandas().DataFrame(rows, columns=["block", "component", "feature", "loading", "error"])

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``ax`` is one Axes (divided when there are several panels), ``kw`` goes to the bars."""
        shape = (len(self.components), len(self.loadings))
        panels = self._panels(ax, shape)
        for i, k in enumerate(self.components):
            for panel, block in zip(panels[i], self.loadings, strict=True):
                self._bars(panel, block, k, kw)
                panel.set_title(
                    block if len(self.components) == 1 else f"{block}, component {k}", fontsize="medium"
                )
                if i == shape[0] - 1:
                    what = "loading times std" if self.standardised else "loading"
                    panel.set_xlabel(what if self.errors is None else f"{what}\n(lines: ± 2 standard errors)")
        return hang(self, panels)

    def _panels(self, ax: Any, shape: tuple[int, int]) -> NDArray[Any]:
        bars = max(min(self.n_features, len(L)) for L in self.loadings.values())
        size = (max(4.6, 3.7 * shape[1]), (1.1 + 0.21 * bars) * shape[0] + 0.4)
        return np.asarray(divided(ax, shape, size))

    def _bars(self, panel: Any, block: str, k: int, kw: dict[str, Any]) -> None:
        loading = self.loadings[block][:, k]
        order = largest(loading, self.n_features)[::-1]
        values = loading[order]
        places = np.arange(len(order))
        colours: list[Any] = [COLOURS[0] if v > 0 else COLOURS[1] for v in values]
        if self.errors is not None:
            spread = 2.0 * self.errors[block][order, k]
            pale = np.abs(values) < spread
            colours = [(c, PALE) if p else c for c, p in zip(colours, pale, strict=True)]
            panel.errorbar(
                values, places, xerr=spread, fmt="none", ecolor=ink(0.87), elinewidth=1.1, capsize=0, zorder=3
            )
        panel.barh(places, values, **{"color": colours, "height": 0.72, **kw})
        size = "small" if len(order) <= 20 else "x-small"
        panel.set_yticks(
            np.arange(len(order)),
            [shorten(self.names[block][i].removeprefix(f"{block}__")) for i in order],
            fontsize=size,
        )
        panel.set_ylim(-0.6, max(len(order), 1) - 0.4)
        panel.axvline(0.0, color=grey(), linewidth=0.8)
        panel.locator_params(axis="x", nbins=5)
        tidy(panel, grid="x")
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
