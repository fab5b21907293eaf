"""The words of each atom, large where they weigh much."""

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
    shorten,
    sign_colour,
)
from ._style import class_colours, grey, ink, pandas, pyplot, wrapped

Array = NDArray[np.float64]

_SMALLEST = 0.3  # height of the least word, that of the first is 1
_WIDTH, _HEIGHT = 2.5, 1.6  # inches of a panel


@dataclass(eq=False, repr=False)
class TopicsDisplay:
    """The leading words of each atom as a cloud, with its coefficient; atoms are sorted by coefficient.

    The area of a word goes with its weight. Its colour is that of the coefficient's sign, or with more than two
    classes that of the class it speaks for most. A word with negative weight (atoms of ``positive=False``) has
    a minus before it and is paler. An atom none of whose coefficients is a twentieth of the largest is titled neutral.

    Parameters
    ----------
    atoms : ndarray (atoms, words)
    words : list of str
    coefficients : ndarray (atoms, targets)
    targets : tuple of str
        Classes or responses of the coefficients; one for two classes.
    against : str
        The other one of two classes.
    standardised : bool
        Whether coefficients were multiplied by the standard deviation of what they multiply.
    n_words : int
        Words per atom.
    components : sequence of int or None
        Which atoms are drawn, in order.
    stability : ndarray (atoms,) or None
        Mean cosine with the atoms of fits to rows drawn anew (``n_bootstraps`` of the estimator).

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays import TopicsDisplay
    >>> display = TopicsDisplay(np.array([[0.2, 0.0, 0.9]]), ["sea", "sky", "salt"], np.array([[1.5]]))
    >>> display.frame()["word"].tolist()
    ['salt', 'sea']
    """

    atoms: Array
    words: list[str]
    coefficients: Array
    targets: tuple[str, ...] = ("",)
    against: str = ""
    standardised: bool = False
    n_words: int = 12
    components: Sequence[int] | None = None
    stability: Array | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        names: Sequence[str] | None = None,
        n_words: int = 12,
        components: Sequence[int] | None = None,
        ax: Any = None,
        **kw: Any,
    ) -> Self:
        """Draw the topics of a fitted estimator; ``kw`` goes to `plot`.

        Parameters
        ----------
        X : rows; with them a coefficient is times the standard deviation of what it multiplies, so atoms compare.
        names : one for each column of X, such as ``vectorizer.get_feature_names_out()``; by default those of the
            DataFrame that the estimator was fitted on.
        components : atoms to draw, in this order; all by coefficient by default.
        """
        if n_words < 1:
            msg = f"n_words={n_words} must be at least 1"
            raise ValueError(msg)
        found = dictionary_of(estimator, X, names)
        check_atoms(components, found.coefficients)
        said = found.coefficients, found.targets, found.against, found.standardised
        return cls(found.atoms, found.names, *said, n_words, components, found.stability).plot(ax=ax, **kw)

    def _leading(self, k: int) -> NDArray[np.intp]:
        weights = np.abs(self.atoms[k])
        order = np.argsort(-weights, kind="stable")[: self.n_words]
        return order[weights[order] > 0]

    def frame(self) -> Any:
        """The words as drawn: component, target it speaks for most (or "neutral"), its coefficient, rank, word, weight.

        A last column, stability, if it was measured.
        """
        rows = []
        neutral = neutral_atoms(self.coefficients)
        for k in check_atoms(self.components, self.coefficients):
            best = int(self.coefficients[k].argmax())
            target = "neutral" if neutral[k] else self.targets[best]
            stable = () if self.stability is None else (float(self.stability[k]),)
            for rank, j in enumerate(self._leading(k)):
                word = rank, self.words[j], float(self.atoms[k, j])
                rows.append((int(k), target, float(self.coefficients[k, best]), *word, *stable))
        columns = ["component", "target", "coefficient", "rank", "word", "weight"]
        columns += [] if self.stability is None else ["stability"]
        return pandas().DataFrame(rows, columns=columns)

    def plot(self, ax: Any = None, *, columns: int = 4, **kw: Any) -> Self:
        """Draw; at most ``columns`` atoms side by side, ``kw`` goes to the words, which are patches."""
        order = check_atoms(self.components, self.coefficients)
        figure, grid, _ = grid_of(ax, len(order), columns, (_WIDTH, _HEIGHT + 0.3))
        panels = []
        several = len(self.targets) > 1
        colours, neutral = class_colours(len(self.targets)), neutral_atoms(self.coefficients)
        for place, k in enumerate(order):
            panel = figure.add_subplot(grid[place // grid.ncols, place % grid.ncols])
            best = int(self.coefficients[k].argmax())
            value = float(self.coefficients[k, best])
            colour = grey() if neutral[k] else colours[best] if several else sign_colour(value)
            self._cloud(panel, k, colour, kw)
            about = f"{plain(shorten(self.targets[best], 14))} " if several else ""
            title = atom_title(k, f"{about}{value:+.3g}", bool(neutral[k]), self.stability)
            panel.set_title(title, fontsize="medium", color=colour)
            panels.append(panel)
        if ax is None:
            title = coefficient_title(self.targets, self.against, self.standardised)
            figure.suptitle(wrapped(title, figure.get_size_inches()[0]), fontsize="medium")
        self.ax_, self.figure_ = np.array(panels, dtype=object), figure
        return self

    def _cloud(self, panel: Any, k: int, colour: Any, kw: dict[str, Any]) -> None:
        chosen = self._leading(k)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.spines[:].set(color=ink(0.17), linewidth=0.8)
        if not chosen.size:
            panel.text(
                0.5, 0.5, "no words", ha="center", va="center", color=grey(), transform=panel.transAxes
            )
            return
        weights = self.atoms[k, chosen]
        sizes = np.maximum(np.sqrt(np.abs(weights) / np.abs(weights).max()), _SMALLEST)
        texts = [
            ("\N{MINUS SIGN}" if w < 0 else "") + shorten(self.words[j], 24)
            for j, w in zip(chosen, weights, strict=True)
        ]
        outlines = [_outline(text, size) for text, size in zip(texts, sizes, strict=True)]
        extents = np.array(
            [[path.get_extents().width, 1.15 * size] for path, size in zip(outlines, sizes, strict=True)]
        )
        centres = pack(extents + np.array([0.35, 0.0]), _WIDTH / _HEIGHT)
        from matplotlib.patches import PathPatch
        from matplotlib.transforms import Affine2D

        for path, (x, y), size, weight in zip(outlines, centres, sizes, weights, strict=True):
            box = path.get_extents()
            move = Affine2D().translate(x - box.x0 - box.width / 2, y - 0.35 * size)
            style = {"facecolor": colour, "alpha": 0.95 if weight > 0 else 0.5, "linewidth": 0, **kw}
            panel.add_patch(PathPatch(path.transformed(move), **style))
        low, high = (centres - extents / 2).min(axis=0), (centres + extents / 2).max(axis=0)
        middle, room = (low + high) / 2, 1.08 * (high - low)
        height = max(room[1], room[0] * _HEIGHT / _WIDTH, 2.0)
        panel.set_xlim(middle[0] - height * _WIDTH / _HEIGHT / 2, middle[0] + height * _WIDTH / _HEIGHT / 2)
        panel.set_ylim(middle[1] - height / 2, middle[1] + height / 2)
        panel.set_aspect("equal", adjustable="box")


def _outline(text: str, size: float) -> Any:
    """The letters as a path in units of the height of the first word."""
    pyplot()
    from matplotlib.textpath import TextPath

    return TextPath((0.0, 0.0), plain(text), size=float(size))


def pack(extents: Array, aspect: float) -> Array:
    """Centres of boxes (width, height) that do not overlap: each as near to the first as it finds room on a spiral.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays._topics import pack
    >>> pack(np.array([[2.0, 1.0], [2.0, 1.0]]), 1.0).shape
    (2, 2)
    """
    turns = np.arange(4000)
    angle, radius = 0.35 * turns, 0.02 * turns
    spiral = np.column_stack([radius * np.cos(angle) * aspect, radius * np.sin(angle)])
    centres = np.zeros_like(extents)
    for i in range(1, len(extents)):
        reach = 1.02 * (extents[:i] + extents[i]) / 2
        gaps = np.abs(spiral[:, None, :] - centres[None, :i, :]) >= reach
        free = gaps.any(axis=2).all(axis=1)
        # the last turn is wider than all boxes together unless they are very many
        centres[i] = (
            spiral[int(free.argmax())] if free.any() else [0.0, centres[:i, 1].min() - reach[:, 1].max()]
        )
    return centres
