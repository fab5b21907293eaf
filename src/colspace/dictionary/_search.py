"""Held-out loss over a grid of atoms, xi and l2: fits of as many atoms begin at the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._eliminated import with_moment
from ._fit import Options, plain_codes, refitted, solve
from ._losses import Array
from ._objective import Problem, State, projections, rows_of
from ._start import leading_directions

_ROUGH = 100.0  # times tol within a path: the fit that is kept is finished
_FLAT = 1e-10  # of the largest energy: a direction below it is rounding
_EVEN = 1e-3  # of the loss of a constant prediction
_REFIT = 1e-6  # tolerance of coefficients fitted anew


@dataclass(frozen=True)
class Grid:
    """Numbers of atoms, and the xi and l2 of a problem."""

    n_components: tuple[int, ...]
    xi: tuple[float, ...]
    l2: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many of each."""
        return len(self.n_components), len(self.xi), len(self.l2)

    def walk(self) -> list[tuple[int, int, int]]:
        """All places, each a step from the one before while the number of atoms stays; largest xi and l2 first."""
        orders = [
            np.argsort(-np.asarray(axis), kind="stable").tolist()
            for axis in (self.n_components, self.xi, self.l2)
        ]
        path = []
        for i in orders[0]:
            back = False
            for j in orders[1]:
                path += [(i, j, k) for k in (orders[2][::-1] if back else orders[2])]
                back = not back
        return path


def fold_losses(
    problem: Problem,
    train: Any,
    held: Any,
    grid: Grid,
    options: Options,
    coding: str,
    rng: np.random.Generator,
    tick: Callable[[], None] = lambda: None,
) -> Array:
    """Mean loss of the held-out labels, weighted as in the fit, at every place of the grid.

    Infinite for more atoms than the rows that are fitted have dimensions, unless they are the fewest of the grid.
    """
    inner = with_moment(rows_of(problem, train), max(grid.n_components))
    energies = leading_directions(inner, max(grid.n_components), rng)[1]
    reach = max(int(np.sum(energies > _FLAT * energies[0])), min(grid.n_components))
    outer = rows_of(problem, held)
    mass = max(float(outer.label_weight.sum()), 1e-300)
    losses = np.full(grid.shape, np.inf)
    state: State | None = None
    for i, j, k in grid.walk():
        r = grid.n_components[i]
        tick()
        if r > reach:
            continue
        if state is not None and state.W.shape[1] != r:
            state = None
        at = replace(inner, xi=grid.xi[j], l2=grid.l2[k])
        rough = replace(options, n_components=r, tol=_ROUGH * options.tol)
        found, _ = solve(at, rough, rng, state)
        state = found.state
        a = _activations(at, replace(outer, xi=at.xi, l2=at.l2), state, options.positive, coding)
        losses[i, j, k] = float(outer.label_weight @ problem.loss.value(a, outer.Y)) / mass
    return losses


def _activations(inner: Problem, outer: Problem, state: State, positive: bool, coding: str) -> Array:
    if inner.model == "filter":
        s = projections(outer, state.W)
    else:
        if coding == "refit":
            state = refitted(inner, state, positive, tol=_REFIT)
        s = plain_codes(outer, state.W, positive)
    return s @ state.B + outer.Z @ state.G + state.intercept


def choose(losses: Array, grid: Grid, rule: str, null: float = 0.0) -> tuple[int, int, int]:
    """The place of least mean loss (..., folds), or the simplest one whose loss is no more than one standard error of it above.

    Simple is fewer atoms, then a larger xi, then a larger l2; the error is that of the least mean over its folds, and at least a
    thousandth of ``null``, the loss of a constant prediction: less is not worth an atom.
    """
    mean = losses.mean(axis=-1)
    best = np.unravel_index(int(np.argmin(mean)), mean.shape)
    if rule == "best":
        return int(best[0]), int(best[1]), int(best[2])
    folds = losses.shape[-1]
    unit = float(np.abs(losses[best]).max()) or 1.0  # squares of losses may leave float64
    error = unit * float((losses[best] / unit).std(ddof=1)) / np.sqrt(folds) if folds > 1 else 0.0
    near = np.argwhere(mean <= mean[best] + max(error, _EVEN * null))
    simple = min(near.tolist(), key=lambda at: (grid.n_components[at[0]], -grid.xi[at[1]], -grid.l2[at[2]]))
    return simple[0], simple[1], simple[2]


def candidates(given: Sequence[int], most: int) -> tuple[int, ...]:
    """The numbers of atoms that rows and columns allow."""
    return tuple(int(r) for r in given if r <= most)


def check_numbers(name: str, given: Any, least: float, whole: bool) -> NDArray[Any]:
    """A list of distinct numbers above ``least``."""
    values = np.asarray(given)
    right = values.ndim == 1 and values.size > 0 and values.dtype.kind in ("iu" if whole else "iuf")
    if (
        not right
        or not np.all(np.isfinite(values) & (values > least))
        or len(np.unique(values)) < values.size
    ):
        kind = "whole numbers" if whole else "numbers"
        shown = given.tolist() if isinstance(given, np.ndarray) else given
        msg = f"{name}={shown!r} must be a list of distinct {kind} above {least:g}"
        raise ValueError(msg)
    return values
