"""Atoms as images with their coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._dictionary import (
    atom_title,
    check_atoms,
    coefficient_title,
    dictionary_of,
    grid_of,
    neutral_atoms,
    plain,
    sign_colour,
)
from ._style import class_colours, dark, grey, ink, pandas, wrapped

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class AtomsDisplay:
    """Atoms as images, sorted by coefficient.

    With two classes or one response the coefficient stands above its atom; with more classes bars below it show
    one coefficient for each class. Nonnegative atoms are drawn from white to black (in a dark style from black to white), signed ones from red
    (negative) to blue; every atom has its own scale. An atom none of whose coefficients is a twentieth of the largest is titled neutral.

    Parameters
    ----------
    images : ndarray (atoms, height, width)
    coefficients : ndarray (atoms, targets)
    targets : tuple of str
        Classes or responses of the coefficients; one for two classes.
    against : str
        The other one of two classes.
    standardised : bool
        Whether coefficients were multiplied by the standard deviation of what they multiply.
    components : tuple of int or None
        Which atoms are drawn, in order.
    stability : ndarray (atoms,) or None
        Mean cosine with the atoms of fits to rows drawn anew (``n_bootstraps`` of the estimator).

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import AtomsDisplay
    >>> AtomsDisplay(np.ones((2, 3, 3)), np.array([[-1.0], [2.0]]), ("ill",)).frame()["component"].tolist()
    [1, 0]
    """

    images: Array
    coefficients: Array
    targets: tuple[str, ...] = ("",)
    against: str = ""
    standardised: bool = False
    components: Sequence[int] | None = None
    stability: Array | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        image_shape: tuple[int, int] | None = None,
        components: Sequence[int] | None = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Draw the atoms of a fitted estimator without its covariates; ``kw`` goes to `plot`.

        Parameters
        ----------
        X : rows; with them a coefficient is times the standard deviation of what it multiplies, so atoms compare.
        image_shape : height and width; a square by default.
        components : atoms to draw, in this order; all by coefficient by default.
        """
        found = dictionary_of(estimator, X)
        images = found.atoms.reshape(len(found.atoms), *_shape(image_shape, found.atoms.shape[1]))
        check_atoms(components, found.coefficients)
        said = found.coefficients, found.targets, found.against, found.standardised
        return cls(images, *said, components, found.stability).plot(ax=ax, **kw)

    def frame(self) -> Any:
        """The coefficients as drawn: component, target, coefficient; a last column, stability, if it was measured."""
        rows = [
            {
                "component": int(k),
                "target": target,
                "coefficient": float(value),
                **({} if self.stability is None else {"stability": float(self.stability[k])}),
            }
            for k in check_atoms(self.components, self.coefficients)
            for target, value in zip(self.targets, self.coefficients[k], strict=True)
        ]
        return pandas().DataFrame(rows)

    def plot(self, ax: Any = None, *, columns: int = 5, **kw: Any) -> Self:
        """Draw; at most ``columns`` atoms side by side, ``kw`` goes to ``Axes.imshow``."""
        order = check_atoms(self.components, self.coefficients)
        several = len(self.targets) > 1
        aspect = float(np.clip(self.images.shape[1] / self.images.shape[2], 0.3, 3.0))
        cell = (1.55, 1.35 * aspect + (0.75 if several else 0.35) + (0.0 if self.stability is None else 0.15))
        figure, grid, _ = grid_of(ax, len(order), columns, cell)
        signed = bool((self.images < 0).any())
        look: dict[str, Any] = {
            "cmap": "RdBu" if signed else "gray" if dark() else "Greys",
            "interpolation": "nearest",
        }
        panels = []
        neutral = neutral_atoms(self.coefficients)
        for place, k in enumerate(order):
            spot = grid[place // grid.ncols, place % grid.ncols]
            halves = spot.subgridspec(2, 1, height_ratios=(4.0 * aspect, 1.2)) if several else None
            panel = figure.add_subplot(spot if halves is None else halves[0])
            top = float(np.abs(self.images[k]).max()) or 1.0
            panel.imshow(self.images[k], **{**look, "vmin": -top if signed else 0.0, "vmax": top, **kw})
            panel.set_xticks([])
            panel.set_yticks([])
            panel.spines[:].set(color=ink(0.2), linewidth=0.8)
            if halves is None:
                value = float(self.coefficients[k, 0])
                title = atom_title(k, f"{value:+.3g}", bool(neutral[k]), self.stability)
                panel.set_title(title, fontsize="small", color=grey() if neutral[k] else sign_colour(value))
            else:
                title = atom_title(k, "", bool(neutral[k]), self.stability)
                panel.set_title(title, fontsize="small")
                self._bars(figure.add_subplot(halves[1]), k)
            panels.append(panel)
        self._legend(figure, panels, ax is None)
        self.ax_, self.figure_ = np.array(panels, dtype=object), figure
        return self

    def _bars(self, panel: Any, k: int) -> None:
        most = 1.08 * float(np.abs(self.coefficients).max()) or 1.0
        values = self.coefficients[k]
        panel.bar(np.arange(len(values)), values, color=class_colours(len(values)), width=0.8)
        panel.axhline(0.0, color=grey(), linewidth=0.7)
        panel.set_ylim(-most, most)
        panel.set_axis_off()

    def _legend(self, figure: Any, panels: list[Any], own: bool) -> None:
        title = coefficient_title(self.targets, self.against, self.standardised)
        if not own:
            return
        if len(self.targets) == 1:
            figure.suptitle(wrapped(title, figure.get_size_inches()[0]), fontsize="medium")
            return
        from matplotlib.patches import Patch

        colours = class_colours(len(self.targets))
        handles = [Patch(color=c, label=plain(t)) for c, t in zip(colours, self.targets, strict=True)]
        across = min(len(handles), max(3, round(1.6 * figure.get_size_inches()[0])))
        look = {"frameon": False, "ncols": across, "handlelength": 1.0, "columnspacing": 1.2}
        figure.legend(handles=handles, title=title, loc="outside lower center", **look)


def _shape(image_shape: tuple[int, int] | None, size: int) -> tuple[int, int]:
    if image_shape is None:
        side = round(size**0.5)
        if side * side != size:
            msg = f"atoms have {size} entries, which are no square; give image_shape=(height, width)"
            raise ValueError(msg)
        return side, side
    height, width = image_shape
    if height < 1 or height * width != size:
        msg = (
            f"image_shape={tuple(image_shape)} has {height * width} pixels, but atoms have {size} entries (columns of X "
            "without covariates); give height and width whose product is that"
        )
        raise ValueError(msg)
    return int(height), int(width)
