"""Straight lines between knots, found by a table of where knots lie instead of a search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CELLS = 4096  # equal parts of the way from the first knot to the last
_CROWDED = 8  # knots in one of them, above which a search is as fast
_FEWEST = 256  # values for which a table is worth looking at
_ASKED = 4096  # values, of all that were asked, for which it is worth making


class Lookup:
    """``numpy.interp(x, knots, values)`` to the last bit, for many x.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.copula._lookup import Lookup
    >>> x = np.linspace(-1, 4, 5000)
    >>> knots, values = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 3.0])
    >>> bool((Lookup(knots, values)(x) == np.interp(x, knots, values)).all())
    True
    """

    def __init__(self, knots: Array, values: Array) -> None:
        self.knots, self.values = knots, values
        self.made, self.asked = False, 0
        self.first: NDArray[np.int32] | None = None

    def __call__(self, x: Array) -> Array:
        self.asked += len(x)
        if not self.made and self.asked >= _ASKED:
            self._make()
        if self.first is None or len(x) < _FEWEST:
            return np.interp(x, self.knots, self.values)
        near = np.clip(x, self.knots[0], self.knots[-1])
        at = near - self.knots[0]
        at *= self.scale
        with np.errstate(invalid="ignore"):
            place = self.first.take(at.astype(np.int32), mode="clip")
        for _ in range(self.crowd):
            place += self.after.take(place, mode="clip") <= near
        near -= self.knots.take(place, mode="clip")
        near *= self.slope.take(place, mode="clip")
        near += self.values.take(place, mode="clip")
        return near

    def _make(self) -> None:
        """A table, unless knots are crowded, or so near or far that differences are not finite."""
        self.made = True
        knots, values = self.knots, self.values
        if len(knots) < 2:
            return
        with np.errstate(all="ignore"):
            self.scale = _CELLS / (knots[-1] - knots[0])
            self.slope = np.append(np.diff(values) / np.diff(knots), 0.0)
            at = (knots - knots[0]) * self.scale
        if not (0 < self.scale < np.inf and np.isfinite(self.slope).all() and np.isfinite(at).all()):
            return
        cell = at.astype(np.int32)  # as for x, so that no rounding can put one of them before the other
        self.crowd = int(np.bincount(cell).max())
        if self.crowd > _CROWDED:
            return
        self.after = np.append(knots[1:], np.inf)
        before = np.searchsorted(cell, np.arange(cell[-1] + 1)) - 1
        self.first = np.maximum(before, 0).astype(np.int32)
