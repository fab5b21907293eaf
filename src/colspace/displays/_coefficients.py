"""Coefficients of atoms and covariates side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._dictionary import atom_order, coefficient_title, dictionary_of, plain, shorten
from ._style import COLOURS, divided, grey, hang, pandas, tidy

Array = NDArray[np.float64]

_KINDS = ("atom", "covariate")


@dataclass(eq=False, repr=False)
class CoefficientsDisplay:
    """Bars of the coefficients of covariates and atoms; with more than two classes one panel for each.

    Parameters
    ----------
    names : list of str
        What each coefficient belongs to, as written beside its bar.
    kinds : list of str
        "atom" or "covariate" of each.
    coefficients : ndarray (bars, targets)
    targets : tuple of str
        Classes or responses of the coefficients; one for two classes.
    against : str
        The other one of two classes.
    standardised : bool
        Whether coefficients were multiplied by the standard deviation of what they multiply.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import CoefficientsDisplay
    >>> display = CoefficientsDisplay(["atom 0", "age"], ["atom", "covariate"], np.array([[0.4], [-1.0]]))
    >>> display.frame()["coefficient"].tolist()
    [0.4, -1.0]
    """

    names: list[str]
    kinds: list[str]
    coefficients: Array
    targets: tuple[str, ...] = ("",)
    against: str = ""
    standardised: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        names: Sequence[str] | None = None,
        n_words: int = 0,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Draw the coefficients of a fitted estimator; ``kw`` goes to `plot`.

        Parameters
        ----------
        X : rows; with them a coefficient is times the standard deviation of what it multiplies, so atoms and
            covariates in different units compare.
        names : one for each column of X; by default those of the DataFrame that the estimator was fitted on.
        n_words : names of so many of an atom's largest entries stand beside its number, for topics.
        """
        found = dictionary_of(estimator, X, names)
        labels = []
        for k, atom in enumerate(found.atoms):
            top = np.argsort(-np.abs(atom), kind="stable")[:n_words]
            words = ", ".join(found.names[j] for j in top if atom[j] != 0)
            labels.append(f"atom {k}: {words}" if words else f"atom {k}")
        by_atom, by_covariate = atom_order(found.coefficients), atom_order(found.covariates)
        display = cls(
            [*(labels[k] for k in by_atom), *(found.covariate_names[j] for j in by_covariate)],
            [*("atom" for _ in by_atom), *("covariate" for _ in by_covariate)],
            np.concatenate([found.coefficients[by_atom], found.covariates[by_covariate]]),
            found.targets,
            found.against,
            found.standardised,
        )
        return display.plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The bars: kind, name, target, coefficient."""
        rows = [
            {"kind": kind, "name": name, "target": target, "coefficient": float(value)}
            for kind, name, values in zip(self.kinds, self.names, self.coefficients, strict=True)
            for target, value in zip(self.targets, values, strict=True)
        ]
        return pandas().DataFrame(rows, columns=["kind", "name", "target", "coefficient"])

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw; ``ax`` is one Axes (divided when there are several targets), ``kw`` goes to the bars."""
        bars, panels = len(self.names), len(self.targets)
        both = len(set(self.kinds)) > 1
        place = np.arange(bars, dtype=float) + 0.6 * (np.array(self.kinds) == "covariate") * both
        axes = self._panels(ax, panels, bars)
        for panel, target, values in zip(axes, self.targets, self.coefficients.T, strict=True):
            for kind, colour in zip(_KINDS, (COLOURS[0], COLOURS[4]), strict=True):
                here = np.array([k == kind for k in self.kinds])
                style = {"color": colour, "height": 0.72, "label": f"{kind}s", **kw}
                panel.barh(place[here], values[here], **style)
            panel.axvline(0.0, color=grey(), linewidth=0.8)
            panel.locator_params(axis="x", nbins=5 if panels < 4 else 3)
            tidy(panel, grid="x")
            panel.tick_params(axis="y", length=0)
            panel.spines["left"].set_visible(False)
            if panels > 1:
                panel.set_title(plain(shorten(target, 20)), fontsize="medium")
        size = "small" if bars <= 30 else "x-small"
        axes[0].set_yticks(place, [plain(shorten(name, 40)) for name in self.names], fontsize=size)
        axes[0].set_ylim(place[-1] + 0.6, -0.6)
        figure = axes[0].figure
        if panels > 1 and ax is None:
            title = coefficient_title(self.targets, self.against, self.standardised)
            figure.supxlabel(title, fontsize="medium")
        else:
            axes[0].set_xlabel(self._label())
        if both:
            handles = axes[0].get_legend_handles_labels()
            if ax is None:
                figure.legend(*handles, frameon=False, ncols=2, loc="outside upper right")
            else:
                axes[0].legend(*handles, frameon=False)
        return hang(self, axes)

    def _label(self) -> str:
        """What the bars are, and for which class those to the left and to the right speak."""
        what = coefficient_title(self.targets, "", self.standardised)
        ends = [plain(shorten(name, 20)) for name in (self.against, self.targets[0])]
        return f"{what}\n← {ends[0]}  |  {ends[1]} →" if self.against else what

    def _panels(self, ax: Any, panels: int, bars: int) -> list[Any]:
        room = 0.07 * max(len(shorten(name, 40)) for name in self.names)
        size = (max(6.2, 4.0 + room, 2.0 + room + 1.5 * panels), float(np.clip(1.5 + 0.22 * bars, 2.6, 40.0)))
        return list(divided(ax, (1, panels), size, sharex=True, sharey=True)[0])
