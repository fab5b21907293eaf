"""What the two simulations of the multiple-response paper share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats.mstats import mjci

from .._response import HeavyTailWarning
from ..datasets import make_multiple_response
from ..displays._style import ink, tidy
from ..metrics import procrustes_distance
from ..reduction import ReducedRank, SteinReduction
from ..scores import GaussianScore, HyperbolicScore, StudentScore
from ._claims import read_paper
from ._core import Result, Row, power_slope, slope_error, standard_error, working, write
from ._figures import below, columns_of, log_axes, look, opened
from ._stein_network import Networks, network_directions

Array = NDArray[np.float64]
Law = Literal["gaussian", "hyperbolic", "student"]
Links = Literal["linear", "cyclic", "random"]

PAPER = read_paper("001").settings
RESPONSES: int = PAPER["responses"]
RANK: int = PAPER["rank"]
LAWS: tuple[Law, ...] = ("gaussian", "hyperbolic", "student")
LINKS: tuple[Links, ...] = ("linear", "cyclic", "random")
RATE: float = PAPER["rates"]["rows"]
FIRST, SECOND, NETWORK, LINEAR = "first order", "second order", "network", "reduced-rank regression"
MANY = 9  # panels; more share one legend


@dataclass(frozen=True)
class Setting:
    """One panel: law of x, links and number of columns."""

    law: Law
    links: Links
    width: int

    @property
    def title(self) -> str:
        """Title of the panel."""
        return f"{self.links} links, {self.law}, p = {self.width}"


@dataclass(frozen=True)
class Line:
    """Distances of one method over n: median and quartiles, and the fitted rate; errors of medians are Maritz and Jarrett's."""

    setting: Setting
    method: str
    n: tuple[int, ...]
    quartiles: Array  # 3 x len(n)
    error: Array  # of the medians
    rate: float
    rate_error: float
    repetitions: int


def fitted_score(law: str, X: Array) -> Any:
    """The score of the right law with its parameters estimated once, for all methods."""
    if law == "gaussian":
        return GaussianScore()  # estimated from the moments that SteinReduction takes anyway
    if law == "student":
        t = StudentScore().fit(X)
        return StudentScore(df=t.df_, location=t.location_, covariance=t.covariance_)
    h = HyperbolicScore().fit(X)
    return HyperbolicScore(chi=h.chi_, psi=h.psi_, location=h.location_, dispersion=h.dispersion_)


def methods(score: Any, links: str) -> dict[str, Any]:
    """Name -> estimator; linear links have no second derivatives, so only first order there."""
    ours = {"score_model": score, "n_groups": None}
    published = {**ours, "whiten": False, "whiten_response": False, "standardize": False}
    found = {
        LINEAR: ReducedRank(RANK, weighting="identity", n_groups=None),
        f"{FIRST}, published": SteinReduction(RANK, **published),
        f"{FIRST}, default": SteinReduction(RANK, **ours),
    }
    if links != "linear":
        found[f"{SECOND}, published"] = SteinReduction(RANK, order=2, combine="mean", **published)
        found[f"{SECOND}, ranks"] = SteinReduction(RANK, order=2, response="rank", **ours)
    return found


def simulate(setting: Setting, n: int, seed: Any) -> tuple[Array, Array, Array]:
    """X, Y and the true directions of one fresh data set."""
    X, Y, B = make_multiple_response(
        n,
        setting.width,
        RESPONSES,
        RANK,
        law=setting.law,
        links=setting.links,
        df=PAPER["degrees_of_freedom"],
        noise=PAPER["noise"],
        rng=np.random.default_rng(seed),
    )
    return X, Y, B


def distances(setting: Setting, n: int, seed: Any) -> dict[str, float]:
    """Distance (3.1) of every method on one fresh data set."""
    X, Y, B = simulate(setting, n, seed)
    with warnings.catch_warnings():
        # fifth powers of t variables are heavy-tailed by design, and at small n nothing is determined
        warnings.simplefilter("ignore", HeavyTailWarning)
        warnings.filterwarnings("ignore", "no gap after component", UserWarning)
        warnings.filterwarnings("ignore", ".* the data look Gaussian", UserWarning)
        score = fitted_score(setting.law, X)
        return {
            name: procrustes_distance(B, model.fit(X, Y).components_.T)
            for name, model in methods(score, setting.links).items()
        }


def network_distances(
    settings: Sequence[Setting], n: int, seeds: Sequence[Sequence[Any]], epochs: int
) -> Array:
    """Distance (3.1) of the network (settings x seeds), all data sets trained side by side."""
    data = [
        simulate(setting, n, seed) for setting, mine in zip(settings, seeds, strict=True) for seed in mine
    ]
    X, Y, truth = (np.stack(arrays) for arrays in zip(*data, strict=True))
    bases = network_directions(X, Y, RANK, n, epochs)
    found = [procrustes_distance(B, basis) for B, basis in zip(truth, bases, strict=True)]
    return np.reshape(found, (len(settings), -1))


def median_error(values: Any) -> float:
    """Standard error of a median, Maritz and Jarrett's; of fewer than four values that of a mean times sqrt(pi/2).

    Examples
    --------
    >>> from colspace.experiments._stein_sim import median_error
    >>> median_error([3.0, 3.0, 3.0, 3.0]), round(median_error([1.0, 3.0]), 3)
    (0.0, 1.253)
    """
    if len(values) < 4:
        return standard_error(values) * float(np.sqrt(np.pi / 2))
    return float(mjci(np.asarray(values, dtype=float), prob=[0.5])[0])


def overtaking(n: Sequence[int], ours: Any, other: Any, error: Any) -> tuple[float, float]:
    """The number of rows from which on ours is below the other, and its standard error; infinity if it never is.

    Logarithms are interpolated between places of the grid; ``error`` is that of log(other / ours) at each place.

    Examples
    --------
    >>> from colspace.experiments._stein_sim import overtaking
    >>> overtaking([100, 400], [2.0, 0.5], [1.0, 1.0], [0.1, 0.1])
    (200.0, 20.0)
    """
    ahead = np.log(np.asarray(other, dtype=float) / np.asarray(ours, dtype=float))
    behind = np.flatnonzero(ahead <= 0)
    if len(behind) == 0:
        return float(n[0]), 0.0
    i = int(behind[-1])
    if i == len(n) - 1:
        return float("inf"), 0.0
    slope = (ahead[i + 1] - ahead[i]) / np.log(n[i + 1] / n[i])
    place = float(n[i] * np.exp(-ahead[i] / slope))
    return round(place, 6), round(float(place * max(error[i], error[i + 1]) / slope), 6)


def measure(
    settings: Sequence[Setting],
    rows: Sequence[int],
    repetitions: int,
    rng: int,
    *,
    title: str,
    progress: bool,
    networks: Networks,
) -> list[Line]:
    """Every line of every panel; each repetition has its own seed; networks of one width are trained at once."""
    seeds = [
        [seed.spawn(repetitions) for seed in panel.spawn(len(rows))]
        for panel in np.random.SeedSequence(rng).spawn(len(settings))
    ]
    trained = list(
        product(
            sorted({setting.width for setting in settings}), networks.rows if networks.repetitions else ()
        )
    )
    total = len(settings) * len(rows) * repetitions + len(trained)
    found: dict[tuple[Setting, str], list[Any]] = {}
    with working(total, title, progress) as advance:
        for setting, panel in zip(settings, seeds, strict=True):
            for n, children in zip(rows, panel, strict=True):
                here: dict[str, list[float]] = {}
                for child in children:
                    for name, value in distances(setting, n, child).items():
                        here.setdefault(name, []).append(value)
                    advance()
                for name, values in here.items():
                    found.setdefault((setting, name), []).append(values)
        for width, n in trained:
            mine = [j for j, setting in enumerate(settings) if setting.width == width]
            here_too = [settings[j] for j in mine]
            children_of = [seeds[j][rows.index(n)][: networks.repetitions] for j in mine]
            errors = network_distances(here_too, n, children_of, networks.epochs)
            for setting, values in zip(here_too, errors, strict=True):
                found.setdefault((setting, NETWORK), []).append(values)
            advance()
    lines = []
    for (setting, name), table in sorted(found.items(), key=lambda item: settings.index(item[0][0])):
        quartiles = np.quantile(table, [0.25, 0.5, 0.75], axis=1)
        error = np.array([median_error(values) for values in table])
        n_of = tuple(networks.rows if name == NETWORK else rows)
        rate = power_slope(n_of, quartiles[1]), slope_error(n_of, quartiles[1], error)
        lines.append(Line(setting, name, n_of, quartiles, error, *rate, len(table[0])))
    return lines


def draw(title: str, settings: Sequence[Setting], rows: Sequence[Row], columns: int) -> Any:
    """Log-log figure, one Axes per panel, medians with quartiles, the theorems' rate dotted; rates in the legends of few panels."""
    few = len(settings) <= MANY
    height, width = (3.9, 3.7) if few else (2.4, 2.7)
    lines = -(-len(settings) // columns)
    size = width * columns, height * lines + 0.6
    figure, axes = opened(title, lines, columns, size, panels=len(settings))
    names = list(dict.fromkeys(row["method"] for row in reversed(rows)))  # links with all methods come last
    shown: dict[str, Any] = {}
    for place, (ax, setting) in enumerate(zip(axes.flat, settings, strict=False)):
        panel = setting.law, setting.links, setting.width
        here = [row for row in rows if (row["law"], row["links"], row["p"]) == panel]
        for name in dict.fromkeys(row["method"] for row in here):
            mine = [row for row in here if row["method"] == name]
            shown |= _draw_line(ax, names.index(name), mine, rates=few)
        ax.set_title(setting.title, fontsize="medium" if few else "small")
        if few or place >= len(settings) - columns:
            ax.set_xlabel("rows n")
        if place % columns == 0:
            ax.set_ylabel("distance (3.1)")
        if few:
            below(ax, "xx-small")
        tidy(ax)
        places = sorted({float(row["n"]) for row in here})
        log_axes(ax, places if few or len(places) < 4 else places[::2])
    if not few:
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=7, frameon=False)
    return figure


def _draw_line(ax: Any, i: int, rows: Sequence[Row], *, rates: bool) -> dict[str, Any]:
    """One method of a panel; label -> what is drawn."""
    name, rate = rows[0]["method"], rows[0]["rate"]
    found_in = columns_of(rows, "n", "lower_quartile", "median", "upper_quartile")
    n, low, middle, high = (np.array(values, dtype=float) for values in found_in)
    label = f"{name}: {rate:+.2f}" if rates and len(n) > 1 else name
    found = {
        label: ax.errorbar(n, middle, yerr=[middle - low, high - middle], label=label, capsize=2, **look(i))
    }
    if name == f"{FIRST}, default":
        label = f"rate {RATE:+.2f}"
        (found[label],) = ax.plot(n, middle[-1] * (n / n[-1]) ** RATE, ":", color=ink(), label=label)
    return found


def rows_of(lines: Sequence[Line]) -> list[Row]:
    """One row a point: median with its error, rates in rows and columns, and where the second order overtakes reduced-rank regression."""
    known = {(line.setting, line.method): line for line in lines}
    found: list[Row] = []
    for line in lines:
        law, links = line.setting.law, line.setting.links
        wide = [
            other
            for other in lines
            if (other.method, other.setting.law, other.setting.links) == (line.method, law, links)
        ]
        widths = [other.setting.width for other in wide]
        linear = known[line.setting, LINEAR]
        at = [linear.n.index(n) for n in line.n]
        rival = linear.quartiles[1, at]
        spread = np.hypot(line.error / line.quartiles[1], linear.error[at] / rival)
        place, place_error = overtaking(line.n, line.quartiles[1], rival, spread)
        for i, n in enumerate(line.n):
            row: Row = {
                "law": law,
                "links": links,
                "p": line.setting.width,
                "method": line.method,
                "n": n,
                "median": float(line.quartiles[1, i]),
                "se": float(line.error[i]),
                "lower_quartile": float(line.quartiles[0, i]),
                "upper_quartile": float(line.quartiles[2, i]),
                "repetitions": line.repetitions,
                "rate": line.rate,
                "rate_se": line.rate_error,
                "overtakes": place,
                "overtakes_se": place_error,
            }
            if len(wide) > 1:
                medians = [other.quartiles[1, i] for other in wide]
                error = slope_error(widths, medians, [other.error[i] for other in wide])
                row |= {"rate_in_p": power_slope(widths, medians), "rate_in_p_se": error}
            found.append(row)
    return found


def study(
    name: str,
    title: str,
    settings: Sequence[Setting],
    rows: Sequence[int],
    repetitions: int,
    networks: Networks,
    notes: tuple[str, ...],
    *,
    columns: int,
    rng: int,
    out: Path | None,
    progress: bool,
) -> Result:
    """Measure all panels and gather the result; networks are trained where torch is installed."""
    if find_spec("torch") is None:
        networks = Networks(0, ())
    lines = measure(settings, rows, repetitions, rng, title=name, progress=progress, networks=networks)
    size = (
        f"{repetitions} repetitions ({networks.repetitions} of the network), {rows[0]:,} to {rows[-1]:,} rows"
    )
    return finish(name, title, settings, lines, columns, out, (*notes, networks.note()), size)


def finish(
    name: str,
    title: str,
    settings: Sequence[Setting],
    lines: Sequence[Line],
    columns: int,
    out: Path | None,
    notes: tuple[str, ...],
    size: str,
) -> Result:
    """Gather the result; with ``out`` write ``<name>.csv`` and ``<name>.png`` there."""
    rows = rows_of(lines)
    summary: list[Row] = [
        {
            "links, law": f"{line.setting.links}, {line.setting.law}",
            "p": line.setting.width,
            "method": line.method,
            "median distance, n = " + ", ".join(map(str, line.n)): " ".join(
                f"{v:.3f}" for v in line.quartiles[1]
            ),
            "rate": f"{line.rate:+.2f} ± {line.rate_error:.2f}" if len(line.n) > 1 else "",
            "theory": f"{RATE:+.2f}",
        }
        for line in lines
    ]
    figure = partial(draw, title, settings, rows, columns)
    return write(Result(name, title, rows, summary, notes, figure, size=size), out)
