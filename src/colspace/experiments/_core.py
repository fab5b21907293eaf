"""Repeated simulation, power laws and log-log figures: what the experiments share."""

from __future__ import annotations

import csv
import io
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from .. import datasets
from .._progress import Advance, track
from .._response import HeavyTailWarning
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ..io._files import directory, write_picture, write_text
from ..metrics import nsee
from ..reduction import JointReduction
from ._figures import below, log_axes, opened

Array = NDArray[np.float64]
Row = dict[str, Any]
#: (X, y, blocks, directions per block) -> block -> directions
Fit = Callable[[Array, Array, Mapping[str, Any], int], Mapping[str, Array]]
Estimators = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any] | Fit]]


@dataclass(frozen=True)
class Result:
    """Outcome of an experiment.

    Attributes
    ----------
    name, title : what was run.
    rows : every number of the figure, one dict per point (the CSV).
    summary : a few rows to print.
    notes : remarks for the reader.
    figure : draws and returns the matplotlib figure.
    path : where the figure was saved, or None.
    size : how much was run, in a few words.
    stand_in : whether generated or other data took the place of the published.
    """

    name: str
    title: str
    rows: list[Row]
    summary: list[Row]
    notes: tuple[str, ...] = ()
    figure: Callable[[], Any] | None = None
    path: Path | None = None
    size: str = ""
    stand_in: bool = False


@dataclass(frozen=True)
class Point:
    """One place on the horizontal axis: a generator with its arguments, and the estimators to fit there.

    ``estimators`` maps curve -> (arguments of the generator on top, arguments of JointReduction or a function that
    fits); curves with the same generator arguments share their data.
    """

    x: float
    make: str
    data: Mapping[str, Any]
    estimators: Estimators


@dataclass(frozen=True)
class Panel:
    """One panel of a figure; ``slopes`` holds the expected exponent of each curve that has one."""

    title: str
    xlabel: str
    points: Sequence[Point]
    slopes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """Errors over the horizontal axis: x, mean, standard error, and the fitted exponent with its standard error."""

    panel: str
    label: str
    x: Array
    mean: Array
    error: Array
    slope: float
    slope_error: float
    expected: float | None
    repetitions: int


def power_slope(x: Any, y: Any) -> float:
    """Exponent of the least-squares power law through positive points.

    Examples
    --------
    >>> from colspace.experiments._core import power_slope
    >>> round(power_slope([1, 2, 4], [8, 4, 2]), 12)
    -1.0
    """
    x, y = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    if len(x) < 2 or np.ptp(x) == 0:
        return float("nan")
    return float(np.polyfit(x, y, 1)[0])


def mean_and_se(values: Any) -> tuple[float, float]:
    """Mean over repetitions and its standard error (NaN for one).

    Examples
    --------
    >>> from colspace.experiments._core import mean_and_se
    >>> mean_and_se([1.0, 3.0])
    (2.0, 1.0)
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return float(values.mean()), float("nan")
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def standard_error(values: Any) -> float:
    """Standard error of a mean; 0 for one value.

    Examples
    --------
    >>> from colspace.experiments._core import standard_error
    >>> standard_error([1.0, 3.0]), standard_error([5.0])
    (1.0, 0.0)
    """
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def averaged(found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means of every key over repetitions, and their standard errors as ``<key>_se``."""
    return spread_of(**{key: [one[key] for one in found] for key in found[0]})


def spread_of(**columns: Any) -> dict[str, float]:
    """Mean of each column, and its standard error as ``<key>_se``.

    Examples
    --------
    >>> from colspace.experiments._core import spread_of
    >>> spread_of(error=[1.0, 3.0])
    {'error': 2.0, 'error_se': 1.0}
    """
    out = {}
    for key, values in columns.items():
        out[key], out[f"{key}_se"] = mean_and_se(values)
    return out


def cpu_seconds(work: Callable[[], Any], times: int = 1) -> float:
    """CPU time of a piece of work, the best of several."""
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


@contextmanager
def unfinished() -> Iterator[None]:
    """No warnings of solvers that a study stops after a set number of sweeps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@contextmanager
def working(total: int, name: str, progress: bool) -> Iterator[Advance]:
    """A count of steps on one thread: products are small, and threads that wait for a busy core cost more than they save."""
    with threadpool_limits(1), track(total, name, show=progress) as advance:
        yield advance


def slope_error(x: Any, y: Any, error: Any) -> float:
    """Standard error of `power_slope` from independent standard errors of y: that of log y is error / y.

    Examples
    --------
    >>> from colspace.experiments._core import slope_error
    >>> round(slope_error([1, 2.718281828459045], [1.0, 5.0], [0.3, 2.0]), 6)
    0.5
    """
    x = np.log(np.asarray(x, dtype=float))
    if len(x) < 2 or np.ptp(x) == 0:
        return float("nan")
    weights = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    return float(np.linalg.norm(weights * np.asarray(error) / np.asarray(y)))


def point_errors(point: Point, seed: np.random.SeedSequence) -> dict[str, float]:
    """NSEE of every estimator of a point on one fresh data set (one per variant of the generator)."""
    make = getattr(datasets, point.make)
    drawn: dict[tuple[tuple[str, Any], ...], Any] = {}
    errors = {}
    for label, (variant, params) in point.estimators.items():
        key = tuple(sorted(variant.items()))
        if key not in drawn:
            drawn[key] = make(**{**point.data, **variant, "rng": np.random.default_rng(seed)})
        X, y, blocks, truth = drawn[key]
        fit = params if callable(params) else joint(**params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HeavyTailWarning)  # the even link is heavy-tailed by design
            errors[label] = nsee(truth, dict(fit(X, y, blocks, point.data["n_components"])))
    return errors


def joint(**params: Any) -> Fit:
    """JointReduction with these arguments, without errors of its directions, as a function that fits."""

    def fit(X: Array, y: Array, blocks: Mapping[str, Any], rank: int) -> Mapping[str, Array]:
        loadings: Mapping[str, Array] = (
            JointReduction(rank, blocks=blocks, n_groups=None, **params).fit(X, y).loadings_
        )
        return loadings

    return fit


def measure(
    panels: Sequence[Panel], repetitions: int, rng: int, *, title: str, progress: bool = False
) -> list[Curve]:
    """Every curve of every panel, with an independent child seed for each repetition of each point."""
    total = sum(len(panel.points) for panel in panels) * repetitions
    curves = []
    with working(total, title, progress) as advance:
        for panel, panel_seed in zip(panels, np.random.SeedSequence(rng).spawn(len(panels)), strict=True):
            found: dict[str, list[list[float]]] = {label: [] for label in panel.points[0].estimators}
            for point, seed in zip(panel.points, panel_seed.spawn(len(panel.points)), strict=True):
                for values in found.values():
                    values.append([])
                for child in seed.spawn(repetitions):
                    for label, error in point_errors(point, child).items():
                        found[label][-1].append(error)
                    advance()
            x = np.array([point.x for point in panel.points])
            curves += [
                _curve(panel, label, x, np.array(values), repetitions) for label, values in found.items()
            ]
    return curves


def _curve(panel: Panel, label: str, x: Array, values: Array, repetitions: int) -> Curve:
    mean = values.mean(axis=1)
    spread = values.std(axis=1, ddof=1) / np.sqrt(repetitions) if repetitions > 1 else np.zeros(len(x))
    slope, error = power_slope(x, mean), slope_error(x, mean, spread)
    return Curve(panel.title, label, x, mean, spread, slope, error, panel.slopes.get(label), repetitions)


def rows_of(curves: Sequence[Curve]) -> list[Row]:
    """One row per point."""
    return [
        {
            "panel": c.panel,
            "curve": c.label,
            "x": float(x),
            "nsee": float(mean),
            "se": float(error),
            "repetitions": c.repetitions,
            "slope": c.slope,
            "slope_se": c.slope_error,
            "expected_slope": c.expected,
        }
        for c in curves
        for x, mean, error in zip(c.x, c.mean, c.error, strict=True)
    ]


def summary_of(curves: Sequence[Curve]) -> list[Row]:
    """One row per curve: where it runs and how steep it is."""
    return [
        {
            "panel": c.panel,
            "curve": c.label,
            "x": f"{c.x[0]:,.0f} … {c.x[-1]:,.0f}",
            "NSEE": " ".join(f"{v:.3f}" for v in c.mean),
            "slope": f"{c.slope:+.2f} ± {c.slope_error:.2f}",
            "expected": "" if c.expected is None else f"{c.expected:+.2f}",
        }
        for c in curves
    ]


def stated(row: Row) -> Row:
    """What a row of a theory's table says, to be printed."""
    value = f"{row['value']:.4g} ± {row['se']:.2g}"
    return {"statement": row["check"], "model": row["model"], "value": value}


def draw(
    title: str, panels: Sequence[Panel], curves: Sequence[Curve], columns: int, *, share: bool = False
) -> Any:
    """Log-log figure, one Axes per panel, slopes in the legends and expected slopes as dotted lines.

    ``share`` gives all panels the same vertical axis.
    """
    lines = -(-len(panels) // columns)
    size = (3.7 * columns, 3.9 * lines + 0.4)
    figure, axes = opened(title, lines, columns, size, panels=len(panels), sharey=share)
    for place, (ax, panel) in enumerate(zip(axes.flat, panels, strict=False)):
        for i, c in enumerate(curve for curve in curves if curve.panel == panel.title):
            _draw_curve(ax, c, COLOURS[i], MARKERS[i])
        ax.set_title(panel.title, fontsize="medium")
        ax.set_xlabel(panel.xlabel)
        if place % columns == 0:
            ax.set_ylabel("NSEE")
        below(ax)
        tidy(ax)
    for ax, panel in zip(axes.flat, panels, strict=False):  # once the limits are known
        log_axes(ax, [point.x for point in panel.points])
    return figure


def _draw_curve(ax: Any, c: Curve, colour: str, marker: str) -> None:
    label = f"{c.label}: {c.slope:+.2f}" + ("" if c.expected is None else f" (expected {c.expected:+.2g})")
    style = {"color": colour, "marker": marker, "markersize": 4.5, "linewidth": 1.3, "capsize": 2}
    ax.errorbar(c.x, c.mean, yerr=c.error, label=label, **style)
    if c.expected is not None:
        middle = np.exp(np.mean(np.log(c.x))), np.exp(np.mean(np.log(c.mean)))
        ax.plot(c.x, middle[1] * (c.x / middle[0]) ** c.expected, color=colour, linestyle=":", linewidth=1.2)


def finish(
    name: str,
    title: str,
    panels: Sequence[Panel],
    curves: Sequence[Curve],
    *,
    columns: int,
    out: Path | None,
    size: str,
    share: bool = False,
    notes: tuple[str, ...] = (),
) -> Result:
    """Gather the result; with ``out`` write ``<name>.csv`` and ``<name>.png`` there."""
    figure = partial(draw, title, panels, curves, columns, share=share)
    return write(Result(name, title, rows_of(curves), summary_of(curves), notes, figure, size=size), out)


def write(result: Result, out: Path | None) -> Result:
    """The result with its CSV and figure written to ``out`` (None: nothing is written)."""
    if out is None:
        return result
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(result.rows[0]))
    writer.writeheader()
    writer.writerows(result.rows)
    path = out / f"{result.name}.png"
    assert result.figure is not None
    with directory(out):
        write_text(text.getvalue(), out / f"{result.name}.csv")
        drawn = result.figure()
        write_picture(drawn, path)
        pyplot().close(drawn)
    return replace(result, path=path)
