"""Objective of supervised dictionaries against sweeps and time: block descent, lifted gradient, quasi-Newton, published sweeps.

All solvers minimise one objective, with an intercept and the same ridge, from the same start; the published sweeps
(nonnegative filter model without covariates) start at random and are measured by that objective. Shown is how far each is above the best value that any reached
(nonnegative and free atoms apart, as their minima differ). Data: the mixed digits of `sdl-mnist`, the published rows,
and the case-control job postings with their covariates (see `sdl-jobs`) when they are at hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .._progress import track
from ..datasets import load_jobs, load_mnist
from ..dictionary._bcd import into_regions, solve_bcd
from ..dictionary._lbfgs import solve_eliminated, solve_jointly, start_nmf, start_svd
from ..dictionary._losses import one_hot
from ..dictionary._lpgd import solve_lpgd
from ..dictionary._objective import Problem, Solution, State, make_problem, objective
from ..dictionary._regions import NONNEGATIVE, Radius, Regions
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ._core import Result, Row, write
from ._sdl_mixed import draw_rows
from ._sdl_published import published_filter
from .sdl_jobs import words

Array = NDArray[np.float64]

XIS = (0.01, 1.0)
RIDGE = 2.0  # nu of the published figures
SWEEPS = {True: 60, False: 300}
PUBLISHED = "published sweeps"
SOLVERS = ("quasi-Newton", "block descent", "block descent, radius", "lifted gradient", PUBLISHED)


@dataclass(frozen=True)
class Trace:
    """Seconds and objective after each iteration."""

    seconds: Array
    values: Array
    reason: str


def solvers(problem: Problem, positive: bool, sweeps: int) -> dict[str, Callable[[State, Any], Solution]]:
    """Name -> solver of a start and a tick."""
    regions = NONNEGATIVE if positive else Regions()
    limits: dict[str, Any] = {"max_iter": sweeps, "tol": 1e-12}

    def quasi(start: State, tick: Any) -> Solution:
        if problem.model == "filter":
            return solve_eliminated(problem, start, positive=positive, tick=tick, **limits)
        return solve_jointly(problem, start, positive=positive, tick=tick, **limits)

    def descent(radius: Radius | None) -> Callable[[State, Any], Solution]:
        def solve(start: State, tick: Any) -> Solution:
            begin = into_regions(problem, start, regions)
            return solve_bcd(problem, begin, regions=regions, radius=radius, n_inner=3, tick=tick, **limits)

        return solve

    found = {
        "quasi-Newton": quasi,
        "block descent": descent(None),
        "block descent, radius": descent(Radius()),
    }
    if not positive:
        found["lifted gradient"] = lambda start, tick: solve_lpgd(problem, start, tick=tick, **limits)
    return found


def traced(solve: Callable[[State, Any], Solution], start: State) -> Trace:
    """A run with its clock (processor seconds)."""
    ticks: list[float] = []
    begin = time.process_time()
    found = solve(start, lambda: ticks.append(time.process_time() - begin))
    values = np.asarray(found.history)
    seconds = np.asarray(ticks)
    if len(values) > len(seconds):  # the value of the start comes first
        seconds = np.concatenate([np.zeros(len(values) - len(seconds)), seconds])
    return Trace(seconds[: len(values)], values, found.reason)


def published(problem: Problem, atoms: int, seed: int) -> Trace:
    """The published sweeps under the objective of the others; the clock stands still while it is measured."""
    seconds, values, spent = [], [], 0.0
    begin = time.process_time()

    def watch(W: Array, H: Array, b: Array, c: float) -> None:
        nonlocal spent
        now = time.process_time()
        seconds.append(now - begin - spent)
        values.append(
            objective(problem, State(W, H, b[:, None], np.zeros((problem.Z.shape[1], 1)), np.array([c])))
        )
        spent += time.process_time() - now

    published_filter(problem.X, problem.Y[:, 0], problem.xi, atoms, np.random.default_rng(seed), watch=watch)
    return Trace(np.asarray(seconds), np.asarray(values), "200 sweeps")


def problems() -> dict[str, tuple[Callable[..., Problem], int]]:
    """Data -> a problem of model and xi, and its number of atoms."""
    mnist = load_mnist(fetch=True)
    images = np.concatenate([mnist.x_train, mnist.x_test])
    labels = np.concatenate([mnist.y_train, mnist.y_test])
    rows = draw_rows(images, labels, 1)
    X = np.maximum(rows.X_train, 0.0)

    def digits(model: Any, xi: float) -> Problem:
        return make_problem(X, one_hot(rows.y_train, 2), model=model, xi=xi, l2=RIDGE)

    found: dict[str, tuple[Callable[..., Problem], int]] = {"mixed digits": (digits, 2)}
    try:
        jobs = load_jobs(table="case-control")
    except FileNotFoundError:
        return found
    T = words(jobs.text).transform(jobs.text)

    def postings(model: Any, xi: float) -> Problem:
        return make_problem(T, one_hot(jobs.y, 2), jobs.covariates, model=model, xi=xi, l2=RIDGE)

    return {**found, "job postings": (postings, 20)}


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Both models and signs at two values of xi; digits, the filter model and one xi when quick."""
    models: tuple[str, ...] = ("filter",) if quick else ("filter", "feature")
    xis = XIS[:1] if quick else XIS
    found = problems()
    if quick:
        found = {"mixed digits": found["mixed digits"]}
    panels: dict[tuple[str, str, bool, float], dict[str, Trace]] = {}
    with (
        threadpool_limits(1),
        track(2 * len(models) * len(xis) * len(found), "sdl-convergence", show=progress) as advance,
    ):
        for data, (make, atoms) in found.items():
            for model in models:
                for positive in (False, True):
                    for xi in xis:
                        problem = make(model, xi)
                        begin = (start_nmf if positive else start_svd)(
                            problem, atoms, np.random.default_rng(rng)
                        )
                        panels[data, model, positive, xi] = {
                            name: traced(solve, begin)
                            for name, solve in solvers(problem, positive, SWEEPS[quick]).items()
                        }
                        if positive and model == "filter" and not problem.Z.shape[1]:
                            panels[data, model, positive, xi][PUBLISHED] = published(problem, atoms, rng)
                        advance()
    rows, summary = tabulate(panels)
    title = "Objective above the best value that any solver reached"
    notes = (
        f"At most {SWEEPS[quick]} iterations each, no other reason to stop than a relative change of 1e-12; ridge {RIDGE:g}.",
        "'radius' is the diminishing radius of Algorithm 3; the lifted gradient (Algorithms 1, 2) has no sign constraint.",
    )

    def figure() -> Any:
        return draw(title, panels)

    return write(Result("sdl-convergence", title, rows, summary, notes, figure), out)


def tabulate(panels: Any) -> tuple[list[Row], list[Row]]:
    """Every point, and for each run its end and how soon it is within 1e-3 of the best value."""
    rows: list[Row] = []
    summary: list[Row] = []
    for (data, model, positive, xi), traces in panels.items():
        best = min(float(trace.values.min()) for trace in traces.values())
        key = {"data": data, "model": model, "nonnegative": positive, "xi": xi}
        for name, trace in traces.items():
            rows += [
                {**key, "solver": name, "iteration": i, "seconds": float(s), "objective": float(v)}
                for i, (s, v) in enumerate(zip(trace.seconds, trace.values, strict=True))
            ]
            near = np.flatnonzero(trace.values <= best * (1 + 1e-3))
            summary.append(
                {
                    "data": data,
                    "model": model + (", nonnegative" if positive else ""),
                    "xi": f"{xi:g}",
                    "solver": name,
                    "objective": f"{trace.values[-1]:.6g}",
                    "above best": f"{trace.values[-1] / best - 1:.1e}",
                    "iterations": len(trace.values),
                    "seconds": f"{trace.seconds[-1]:.2f}",
                    "to 1e-3": f"{trace.seconds[near[0]]:.2f} s" if len(near) else "not reached",
                }
            )
    return rows, summary


def draw(title: str, panels: Any) -> Any:
    """One Axes per problem, log of the excess over seconds."""
    plt = pyplot()
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(3.6 * columns, 3.1 * lines + 0.4), layout="constrained", squeeze=False
    )
    figure.suptitle(title, fontsize="large")
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, ((data, model, positive, xi), traces) in zip(axes.flat, panels.items(), strict=False):
        best = min(float(trace.values.min()) for trace in traces.values())
        for name, trace in traces.items():
            i = SOLVERS.index(name)
            excess = np.maximum(trace.values / best - 1.0, 1e-8)
            every = max(1, len(excess) // 8)
            style = {"color": COLOURS[i], "marker": MARKERS[i], "markevery": every, "markersize": 4}
            ax.plot(trace.seconds, excess, label=name, **style)
        ax.set_yscale("log")
        ax.set_title(f"{data}: {model}{', nonnegative' if positive else ''}, xi = {xi:g}", fontsize="small")
        ax.set_xlabel("seconds")
        tidy(ax)
    axes[0, 0].set_ylabel("relative excess")
    lines_of = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
    style = {"ncols": 5, "frameon": False, "fontsize": "x-small"}
    figure.legend(lines_of.values(), lines_of.keys(), loc="outside lower center", **style)
    return figure
