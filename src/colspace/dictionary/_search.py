"""Held-out loss over a grid of atoms, xi and l2: what cannot win is given up, fits of as many atoms begin at the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._eliminated import with_moment
from ._fit import Options, plain_codes, refitted, solve
from ._lbfgs import start_at
from ._losses import Array
from ._objective import Problem, State, projections, rows_of
from ._start import leading_directions

_ROUGH = 300.0  # times tol within a path: the fit that is kept is finished
_FLAT = 1e-10  # of the largest energy: a direction below it is rounding
_EVEN = 1e-3  # of the loss of a constant prediction
_SPARE = 0.15  # of a standard error, for each fold to come per fold done
_REFIT = 1e-6  # tolerance of coefficients fitted anew

Place = tuple[int, int, int]  # in the numbers of atoms, xi and l2 of a grid


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

    def simplest_first(self) -> list[Place]:
        """All places: fewest atoms first, then the largest xi, then the largest l2."""
        atoms, xis, l2s = self.shape
        places = product(range(atoms), range(xis), range(l2s))
        return sorted(places, key=lambda at: (self.n_components[at[0]], -self.xi[at[1]], -self.l2[at[2]]))

    def ladders(self) -> tuple[list[int], ...]:
        """Places of each axis by the size of its numbers."""
        return tuple(
            np.argsort(axis, kind="stable").tolist() for axis in (self.n_components, self.xi, self.l2)
        )


class Fold:
    """Rows that are fitted and held out: losses of the held-out labels, each fit begun at the last of as many atoms."""

    def __init__(
        self,
        problem: Problem,
        rows: tuple[Any, Any],
        grid: Grid,
        options: Options,
        coding: str,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.rows = (
            problem,
            rows,
        )  # rows are taken anew for each fit: folds together are several tables
        self.grid, self.options, self.coding, self.rng = grid, options, coding, rng
        inner = with_moment(rows_of(problem, rows[0]), max(grid.n_components))
        self.moment = inner.moment
        self.directions, energies = leading_directions(inner, max(grid.n_components), rng)
        self.reach = max(int(np.sum(energies > _FLAT * energies[0])), min(grid.n_components))
        self.states: dict[int, State] = {}

    def loss(self, place: Place) -> float:
        """Mean loss of the held-out labels, weighted as in the fit; infinite for more atoms than the rows that are fitted have
        dimensions, unless they are the fewest of the grid."""
        r = self.grid.n_components[place[0]]
        if r > self.reach:
            return np.inf
        xi, l2 = self.grid.xi[place[1]], self.grid.l2[place[2]]
        inner, outer = (replace(rows_of(self.problem, rows), xi=xi, l2=l2) for rows in self.rows)
        inner = replace(inner, moment=self.moment)
        start = self.states.get(r)
        if start is None and not self.options.positive:
            start = start_at(inner, self.directions[:, :r])
        rough = replace(self.options, n_components=r, tol=_ROUGH * self.options.tol)
        found, _ = solve(inner, rough, self.rng, start)
        self.states[r] = found.state
        a = _activations(inner, outer, found.state, self.options.positive, self.coding)
        mass = max(float(outer.label_weight.sum()), 1e-300)
        return float(outer.label_weight @ outer.loss.value(a, outer.Y)) / mass


def race(
    fits: Sequence[Callable[[Place], float]],
    grid: Grid,
    rule: str,
    null: float = 0.0,
    tick: Callable[[], None] = lambda: None,
) -> Array:
    """Losses (..., folds) of the settings that were tried, NaN where a fold was not fitted.

    From the middle of the grid on the search climbs to the least mean loss along one axis at a time; then, for the rule of one
    standard error, it tries settings from the simplest on until one is near enough. A setting is given up when the folds so far
    leave it behind the best by more than it may be in the end and a share of an error for each fold to come per fold done.
    """
    losses = np.full((*grid.shape, len(fits)), np.nan)

    def mean(place: Place, best: Place, allowed: float, error: float) -> float:
        for fold, fit in enumerate(fits):
            if np.isnan(losses[place][fold]):
                losses[place][fold] = fit(place)
                tick()
            if place == best or fold == len(fits) - 1:
                continue
            with np.errstate(invalid="ignore"):
                behind = float(np.mean(losses[place][: fold + 1] - losses[best][: fold + 1]))
            if not behind <= allowed + _SPARE * error * (len(fits) / (fold + 1) - 1):
                return np.inf
        return float(losses[place].mean())

    ladders = grid.ladders()
    steps = [len(axis) // 2 for axis in ladders]

    def at(steps: Sequence[int]) -> Place:
        i, j, k = (axis[step] for axis, step in zip(ladders, steps, strict=True))
        return i, j, k

    best = at(steps)
    least, moved = mean(best, best, 0.0, 0.0), True
    while moved:
        moved = False
        for axis, sign in product(range(3), (1, -1)):
            while 0 <= steps[axis] + sign < len(ladders[axis]):
                there = [step + sign * (a == axis) for a, step in enumerate(steps)]
                level = mean(at(there), best, 0.0, _error(losses[best], null))
                if not level < least:
                    break
                best, least, steps, moved = at(there), level, there, True
    if rule != "best":
        error = _error(losses[best], null)
        for place in grid.simplest_first():
            if mean(place, best, error, error) <= least + error:
                break
    return losses


def _activations(inner: Problem, outer: Problem, state: State, positive: bool, coding: str) -> Array:
    if inner.model == "filter":
        s = projections(outer, state.W)
    else:
        if coding == "refit":
            state = refitted(inner, state, positive, tol=_REFIT)
        s = plain_codes(outer, state.W, positive)
    return s @ state.B + outer.Z @ state.G + state.intercept


def _error(losses: Array, null: float) -> float:
    """Standard error of a mean over folds, at least a thousandth of ``null``, the loss of a constant prediction."""
    folds, unit = len(losses), float(np.abs(losses).max()) or 1.0  # squares of losses may leave float64
    if not np.isfinite(unit):
        return np.inf
    error = unit * float((losses / unit).std(ddof=1)) / np.sqrt(folds) if folds > 1 else 0.0
    return max(error, _EVEN * null)


def choose(losses: Array, grid: Grid, rule: str, null: float = 0.0) -> Place:
    """The place of least mean loss (..., folds), or the simplest one whose loss is no more than one standard error of it above.

    Simple is fewer atoms, then a larger xi, then a larger l2; the error is that of the least mean over its folds, and at least a
    thousandth of ``null``, the loss of a constant prediction: less is not worth an atom. NaN: not tried to the end.
    """
    mean = np.nan_to_num(losses.mean(axis=-1), nan=np.inf, posinf=np.inf)
    i, j, k = (int(axis) for axis in np.unravel_index(int(np.argmin(mean)), mean.shape))
    if rule == "best":
        return i, j, k
    limit = mean[i, j, k] + _error(losses[i, j, k], null)
    return next(place for place in grid.simplest_first() if mean[place] <= limit)


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
