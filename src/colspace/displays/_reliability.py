"""Errors of the most reliable imputations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._gaps import LEVELS, floats, held_out, open_panels
from ._style import COLOURS, grey, hang, legend_below, pandas, tidy

Array = NDArray[np.float64]

_FEWEST = 10  # cells whose mean is drawn


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    """Mean error on the m % most reliable cells, m from 1 to 100: a measure that can be trusted rises all the way.

    Parameters
    ----------
    errors : dict of str to ndarray (cells,)
        Errors of each group of cells; each is a panel.
    reliability : dict of str to ndarray (cells,)
        More is more reliable.
    units : dict of str to str
        Units of the errors.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import ReliabilityDisplay
    >>> display = ReliabilityDisplay({"": np.array([3.0, 1.0])}, {"": np.array([0.1, 0.9])}, {"": ""})
    >>> display.frame()["error"].tolist()[0], display.frame()["error"].tolist()[-1]
    (1.0, 2.0)
    """

    errors: dict[str, Array]
    reliability: dict[str, Array]
    units: dict[str, str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, complete: Any, *, measure: str = "auto", ax: Any = None, **kw: Any
    ) -> Self:
        """Fill X with a fitted `CopulaImputer` and draw the errors of cells known in ``complete``.

        Numbers (counts too) and levels are panels of their own. ``measure`` is that of `CopulaImputer.reliability`; "auto" takes
        "variance" for numbers, whose columns may differ in units, and "paper", the probability, for levels.
        """
        if measure not in ("auto", "paper", "variance"):
            msg = f"measure={measure!r} must be 'auto', 'paper' or 'variance'"
            raise ValueError(msg)
        found = held_out(estimator, X, complete)
        off = np.abs(floats(estimator, estimator.transform(X)) - found.true)
        stepped = np.array([kind in LEVELS for kind in found.kinds])
        alive = np.array([kind != "constant" for kind in found.kinds])
        errors, reliability, units = {}, {}, {}
        for group, columns in (("numbers", ~stepped & alive), ("levels", stepped)):
            cells = found.cells & columns
            if not cells.any():
                continue
            how = {"numbers": "variance", "levels": "paper"}[group] if measure == "auto" else measure
            reliability[group] = np.asarray(estimator.reliability(X, how), dtype=float)[cells]
            errors[group] = (off if group == "levels" else off / found.spread)[cells]
            units[group] = "levels" if group == "levels" else "standard deviations of the column"
        return cls(errors, reliability, units).plot(ax=ax, **kw)

    @classmethod
    def from_predictions(
        cls, true: Any, imputed: Any, reliability: Any, *, ax: Any = None, **kw: Any
    ) -> Self:
        """Draw |true - imputed| of any method over its own measure of reliability."""
        a, b, c = (np.ravel(np.asarray(values, dtype=float)) for values in (true, imputed, reliability))
        if not len(a) == len(b) == len(c) or not len(a) or np.isnan([a, b, c]).any():
            msg = f"true, imputed and reliability need one number for each cell, got lengths {len(a)}, {len(b)}, {len(c)}"
            raise ValueError(msg)
        return cls({"": np.abs(a - b)}, {"": c}, {"": ""}).plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The curves: group, percent of cells, their number, error and their smallest reliability."""
        rows = []
        for group, error in self.errors.items():
            order = np.argsort(-self.reliability[group], kind="stable")
            means = np.cumsum(error[order]) / np.arange(1, len(error) + 1)
            for percent in range(1, 101):
                cells = max(1, round(len(error) * percent / 100))
                least = float(self.reliability[group][order[cells - 1]])
                rows.append((group, percent, cells, float(means[cells - 1]), least))
        return pandas().DataFrame(rows, columns=["group", "percent", "cells", "error", "reliability"])

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``kw`` goes to the lines."""
        panels, frame = open_panels(ax, len(self.errors), (5.6, 4.9)), self.frame()
        for panel, (group, error) in zip(panels, self.errors.items(), strict=True):
            curve = frame[frame["group"] == group]
            every = float(error.mean())
            panel.axhline(every, color=grey(), linestyle="--", linewidth=1.1, label="all cells")
            style = {"color": COLOURS[0], "linewidth": 2.0, "label": "most reliable cells", **kw}
            curve = curve[curve["cells"] >= min(_FEWEST, len(error))]
            panel.plot(curve["percent"], curve["error"], **style)
            panel.set_xlim(0, 101)
            panel.set_ylim(0, 1.08 * max(every, float(curve["error"].max())) or 1.0)
            panel.set_xlabel("most reliable cells (%)")
            panel.set_ylabel(
                "mean absolute error" + (f"\n({self.units[group]})" if self.units[group] else "")
            )
            panel.set_title(
                f"{group}: {len(error)} cells" if group else f"{len(error)} cells", fontsize="medium"
            )
            tidy(panel)
        legend_below(panels[0], ax is None)
        return hang(self, panels)
