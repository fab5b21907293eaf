"""What the two simulations of the multiple-response paper share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .._progress import track
from .._response import HeavyTailWarning
from ..datasets import make_multiple_response
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ..metrics import procrustes_distance
from ..reduction import ReducedRank, SteinReduction
from ..scores import GaussianScore, HyperbolicScore, StudentScore
from ._core import Result, Row, _log_axes, power_slope, write

Array = NDArray[np.float64]
Law = Literal["gaussian", "hyperbolic", "student"]
Links = Literal["linear", "cyclic", "random"]

RESPONSES, RANK = 20, 3
LAWS: tuple[Law, ...] = ("gaussian", "hyperbolic", "student")
RATE = -0.5  # of the theorems, in n
FIRST, SECOND, NETWORK = "first order", "second order", "network"
HIDDEN, EPOCHS, BATCHES = 32, 200, 200  # of the published network: batches are 0.5 % of the rows


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
    """Distances of one method over n: median and quartiles, and the fitted rate."""

    setting: Setting
    method: str
    n: tuple[int, ...]
    quartiles: Array  # 3 x len(n)
    rate: float
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
    published = {"score_model": score, "whiten": False, "whiten_response": False, "standardize": False}
    found = {
        "reduced-rank regression": ReducedRank(RANK, weighting="identity"),
        f"{FIRST}, published": SteinReduction(RANK, **published),
        f"{FIRST}, default": SteinReduction(RANK, score_model=score),
    }
    if links != "linear":
        found[f"{SECOND}, published"] = SteinReduction(RANK, order=2, combine="mean", **published)
        found[f"{SECOND}, ranks"] = SteinReduction(RANK, order=2, response="rank", score_model=score)
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


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread for a while: small networks are slower on several."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def network_directions(X: Array, Y: Array, rank: int, seed: int, epochs: int) -> Array:
    """The paper's network y = O' relu(A' relu(B'x)) on many data sets of one shape at once: B of each, orthonormal.

    Adam and the start of its weights have PyTorch's default parameters.

    Parameters
    ----------
    X, Y : arrays (data sets, n, p) and (data sets, n, q).
    """
    import torch

    tables, n, p = X.shape
    source = torch.Generator().manual_seed(seed)
    shapes = ((p, rank), (rank, HIDDEN), (HIDDEN, Y.shape[2]))
    weights = [
        ((2 * torch.rand(tables, *shape, generator=source) - 1) / shape[0] ** 0.5).requires_grad_()
        for shape in shapes
    ]
    x, y = (torch.tensor(A, dtype=torch.float32) for A in (X, Y))
    optimiser = torch.optim.Adam(weights, fused=True)
    with one_thread():
        for _ in range(epochs):
            for rows in torch.randperm(n, generator=source).split(-(-n // BATCHES)):
                fitted = ((x[:, rows] @ weights[0]).relu() @ weights[1]).relu() @ weights[2]
                optimiser.zero_grad()
                (((fitted - y[:, rows]) ** 2).sum() / len(rows)).backward()
                optimiser.step()
    bases: Array = np.linalg.qr(weights[0].detach().double().numpy())[0]
    return bases


def network_distances(settings: Sequence[Setting], n: int, seeds: Sequence[Sequence[Any]]) -> Array:
    """Distance (3.1) of the network (settings x seeds), all data sets trained side by side."""
    data = [
        simulate(setting, n, seed) for setting, mine in zip(settings, seeds, strict=True) for seed in mine
    ]
    X, Y, truth = (np.stack(arrays) for arrays in zip(*data, strict=True))
    bases = network_directions(X, Y, RANK, n, EPOCHS)
    found = [procrustes_distance(B, basis) for B, basis in zip(truth, bases, strict=True)]
    return np.reshape(found, (len(settings), -1))


def measure(
    settings: Sequence[Setting],
    rows: Sequence[int],
    repetitions: int,
    rng: int,
    *,
    title: str,
    progress: bool,
    networks: int = 0,
) -> list[Line]:
    """Every line of every panel; each repetition has its own seed.

    ``networks`` is the number of repetitions on which the network is trained too; the settings then share one width.
    """
    seeds = [
        [seed.spawn(repetitions) for seed in panel.spawn(len(rows))]
        for panel in np.random.SeedSequence(rng).spawn(len(settings))
    ]
    total = len(settings) * len(rows) * repetitions + (len(rows) if networks else 0)
    found: dict[tuple[Setting, str], list[Any]] = {}
    with threadpool_limits(1), track(total, title, show=progress) as advance:
        for setting, panel in zip(settings, seeds, strict=True):
            for n, children in zip(rows, panel, strict=True):
                here: dict[str, list[float]] = {}
                for child in children:
                    for name, value in distances(setting, n, child).items():
                        here.setdefault(name, []).append(value)
                    advance()
                for name, values in here.items():
                    found.setdefault((setting, name), []).append(values)
        for i, n in enumerate(rows if networks else ()):
            children_of = [panel[i][:networks] for panel in seeds]
            for setting, values in zip(settings, network_distances(settings, n, children_of), strict=True):
                found.setdefault((setting, NETWORK), []).append(values)
            advance()
    lines = []
    for (setting, name), table in sorted(found.items(), key=lambda item: settings.index(item[0][0])):
        quartiles = np.quantile(table, [0.25, 0.5, 0.75], axis=1)
        rate = power_slope(rows, quartiles[1])
        lines.append(Line(setting, name, tuple(rows), quartiles, rate, len(table[0])))
    return lines


def draw(title: str, settings: Sequence[Setting], lines: Sequence[Line], columns: int) -> Any:
    """Log-log figure, one Axes per panel, medians with quartiles, the theorems' rate dotted."""
    plt = pyplot()
    rows = -(-len(settings) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.7 * columns, 3.3 * rows + 0.4), layout="constrained", squeeze=False
    )
    figure.suptitle(title, fontsize="large")
    for ax in axes.flat[len(settings) :]:
        ax.set_axis_off()
    for place, (ax, setting) in enumerate(zip(axes.flat, settings, strict=False)):
        for i, line in enumerate(line for line in lines if line.setting == setting):
            low, middle, high = line.quartiles
            style = {
                "color": COLOURS[i],
                "marker": MARKERS[i],
                "markersize": 4,
                "linewidth": 1.3,
                "capsize": 2,
            }
            label = f"{line.method}: {line.rate:+.2f}"
            ax.errorbar(line.n, middle, yerr=[middle - low, high - middle], label=label, **style)
            if line.method == f"{FIRST}, default":
                n = np.array(line.n, dtype=float)
                ax.plot(n, middle[-1] * (n / n[-1]) ** RATE, "k:", linewidth=1.2, label=f"rate {RATE:+.2f}")
        ax.set_title(setting.title, fontsize="medium")
        ax.set_xlabel("rows n")
        if place % columns == 0:
            ax.set_ylabel("distance (3.1)")
        ax.legend(frameon=False, fontsize="xx-small")
        tidy(ax)
        _log_axes(ax, [float(n) for n in lines[0].n])
    return figure


def finish(
    name: str,
    title: str,
    settings: Sequence[Setting],
    lines: Sequence[Line],
    columns: int,
    out: Path | None,
    notes: tuple[str, ...],
) -> Result:
    """Gather the result; with ``out`` write ``<name>.csv`` and ``<name>.png`` there."""
    rows: list[Row] = [
        {
            "law": line.setting.law,
            "links": line.setting.links,
            "p": line.setting.width,
            "method": line.method,
            "n": n,
            "median": float(line.quartiles[1, i]),
            "lower_quartile": float(line.quartiles[0, i]),
            "upper_quartile": float(line.quartiles[2, i]),
            "repetitions": line.repetitions,
            "rate": line.rate,
        }
        for line in lines
        for i, n in enumerate(line.n)
    ]
    summary: list[Row] = [
        {
            "links, law": f"{line.setting.links}, {line.setting.law}",
            "p": line.setting.width,
            "method": line.method,
            "median distance, n = " + ", ".join(map(str, line.n)): " ".join(
                f"{v:.3f}" for v in line.quartiles[1]
            ),
            "rate": f"{line.rate:+.2f}",
            "theory": f"{RATE:+.2f}",
        }
        for line in lines
    ]

    def figure() -> Any:
        return draw(title, settings, lines, columns)

    return write(Result(name, title, rows, summary, notes, figure), out)
