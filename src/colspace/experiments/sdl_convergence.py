"""Objective of supervised dictionaries against sweeps and time: block descent, lifted gradient, quasi-Newton, published sweeps.

All solvers minimise one objective, with an intercept and the same ridge, from the same start; the published sweeps
(nonnegative filter model without covariates) start at random and are measured by that objective. Shown is how far each is above the best value that any reached
(nonnegative and free atoms apart, as their minima differ). Data: the mixed digits of `sdl-mnist`, the published rows,
and the case-control job postings with their covariates (see `sdl-jobs`) when they are at hand.

Rows of kind "run" judge a whole run by what its objective has above its own end: ``factor`` an iteration (geometric fit of the second half),
``power`` of the iteration (power law), and ``rises``, the sweeps that raised it. Rows of kind "theorem" come from small generated problems. Theorems
4.4 and 4.5, where L / mu < 3: the largest ratio of the distance from the optimum to rho^t times that of the start. Theorem 4.6: the
stationarity measure (17) times the sum of radii after T sweeps over that after one, the largest of several T.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..datasets import load_jobs, load_mnist
from ..dictionary._bcd import into_regions, solve_bcd, stationarity
from ..dictionary._lbfgs import solve_eliminated, solve_jointly, start_nmf, start_svd
from ..dictionary._losses import one_hot
from ..dictionary._lpgd import distance, gradient_step, solve_lpgd, theory
from ..dictionary._objective import Problem, Solution, State, make_problem, objective
from ..dictionary._regions import NONNEGATIVE, Radius, Region, Regions
from ..displays._style import COLOURS, MARKERS, tidy
from ._core import Result, Row, mean_and_se, working, write
from ._figures import opened
from ._sdl_mixed import draw_rows
from ._sdl_path import words
from ._sdl_published import published_filter

Array = NDArray[np.float64]

NAME = "sdl-convergence"
XIS = (0.1, 1.0)
REPETITIONS = {True: 3, False: 10}  # of the theorems
RIDGE = 2.0  # nu of the published figures
SWEEPS = {True: 60, False: 300}
PUBLISHED = "published sweeps"
SOLVERS = ("quasi-Newton", "block descent", "block descent, radius", "lifted gradient", PUBLISHED)


COLUMNS = ("kind", "data", "model", "nonnegative", "xi", "solver", "iteration", "seconds", "objective")
BLANK: Mapping[str, Any] = dict.fromkeys((*COLUMNS, "value", "se", "factor", "power", "rises"))


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
    with working(2 * len(models) * len(xis) * len(found), NAME, progress) as advance:
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
    rows += theorem_rows(REPETITIONS[quick], rng)
    title = "Paper 004, Figs. 2 and 3: objective above the best value that any solver reached"
    notes = (
        f"At most {SWEEPS[quick]} iterations each, no other reason to stop than a relative change of 1e-12; ridge {RIDGE:g}.",
        "'radius' is the diminishing radius of Algorithm 3; the lifted gradient (Algorithms 1, 2) has no sign constraint.",
    )
    size = f"{', '.join(found)}; {SWEEPS[quick]} iterations, xi {', '.join(f'{xi:g}' for xi in xis)}; theorems on {REPETITIONS[quick]} problems"
    return write(Result(NAME, title, rows, summary, notes, lambda: draw(title, panels), size=size), out)


# --------------------------------------------------------------------------- theorems


def small_problem(model: Any, seed: Any) -> tuple[Problem, State]:
    """40 rows, 6 columns, two covariates and two classes, of a scale at which L / mu < 3; and a start of full rank."""
    rng = np.random.default_rng(seed)
    X, Z = 0.15 * rng.standard_normal((40, 6)), 0.15 * rng.standard_normal((40, 2))
    Y = one_hot((X[:, 0] / 0.15 + 0.5 * rng.standard_normal(40) > 0).astype(int), 2)
    problem = make_problem(X, Y, Z, model=model, xi=0.5, l2=0.5, fit_intercept=False)
    W, H, B, G = (rng.standard_normal(shape) for shape in ((6, 7), (40, 7), (7, 1), (2, 1)))
    return problem, State(W, H, B, G, np.zeros(1))


def contraction(problem: Problem, state: State, steps: int = 12) -> float:
    """max over t of ||Z_t - Z*|| / (rho^t ||Z_0 - Z*||) at the step of the theorem."""
    known = theory(problem)
    assert known.step is not None
    assert known.rate is not None
    best = solve_lpgd(problem, state, tol=0.0, max_iter=400).state
    first = distance(problem, state, best)
    ratios = []
    for t in range(1, steps + 1):
        state = gradient_step(problem, state)(known.step)
        ratios.append(max(distance(problem, state, best) - 1e-6, 0.0) / (known.rate**t * first))
    return max(ratios)


def settling(problem: Problem, state: State, sweeps: Sequence[int] = (4, 16, 64)) -> float:
    """Largest (17) times the sum of radii after some sweeps, over that after one; dictionary and codes are nonnegative and bounded."""
    regions = Regions(
        Region(positive=True, norm=1.0),
        Region(positive=True, norm=10.0),
        Region(norm=10.0),
        Region(norm=10.0),
    )
    start, radius, found = into_regions(problem, state, regions), Radius(), list[float]()
    least = np.inf
    for T in (1, *sweeps):
        end = solve_bcd(problem, start, regions=regions, radius=radius, n_inner=3, max_iter=T, tol=0.0).state
        least = min(least, stationarity(problem, end, regions))
        found.append(least * sum(radius(k) for k in range(1, T + 1)))
    return max(found[1:]) / found[0]


def theorem_rows(repetitions: int, seed: int) -> list[Row]:
    """Means over generated problems."""
    rows: list[Row] = []
    children = np.random.SeedSequence(seed).spawn(repetitions)
    for solver, measure in (("lifted gradient", contraction), ("block descent, radius", settling)):
        for model in ("filter", "feature"):
            value, se = mean_and_se([measure(*small_problem(model, child)) for child in children])
            place = {"kind": "theorem", "data": "generated", "model": model, "solver": solver}
            rows.append({**BLANK, **place, "value": value, "se": se})
    return rows


def judged(values: Array) -> Row:
    """Factor an iteration and power of the iteration at which a run comes to its end, and how often it rose."""
    above = values - values[-1]
    t = np.arange(len(values))
    use = (t >= 0.1 * len(t)) & (t <= 0.8 * len(t)) & (t > 0) & (above > 1e-12 * np.abs(values[-1]))
    rises = int(np.count_nonzero(np.diff(values) > 1e-10 * np.abs(values[:-1])))
    if np.count_nonzero(use) < 3:
        return {"factor": 0.0, "power": -np.inf, "rises": rises}
    x, y = t[use].astype(float), np.log(above[use])
    return {
        "factor": float(np.exp(np.polyfit(x, y, 1)[0])),
        "power": float(np.polyfit(np.log(x), y, 1)[0]),
        "rises": rises,
    }


def tabulate(panels: Any) -> tuple[list[Row], list[Row]]:
    """Every point, and for each run its end and how soon it is within 1e-3 of the best value."""
    rows: list[Row] = []
    summary: list[Row] = []
    for (data, model, positive, xi), traces in panels.items():
        best = min(float(trace.values.min()) for trace in traces.values())
        key = {"data": data, "model": model, "nonnegative": positive, "xi": xi}
        for name, trace in traces.items():
            place = {**BLANK, **key, "solver": name}
            rows += [
                {**place, "kind": "point", "iteration": i, "seconds": float(s), "objective": float(v)}
                for i, (s, v) in enumerate(zip(trace.seconds, trace.values, strict=True))
            ]
            end = {"objective": float(trace.values[-1]), "seconds": float(trace.seconds[-1])}
            rows.append({**place, "kind": "run", **end, **judged(trace.values)})
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
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = opened(title, lines, columns, (3.6 * columns, 3.1 * lines + 0.4), panels=len(panels))
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
