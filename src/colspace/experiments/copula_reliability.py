"""Copula imputer, Fig. 1 of the supplement: error on the m % most reliable cells.

Left, the figure of the supplement: the error on the most reliable cells over the error on all, for low-rank
continuous columns and for 5, 8 and 10 levels (high SNR). Right, the six settings with the authors' errors at
100, 50, 25, 10 and 1 % as crosses.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from .._progress import track
from ..copula import CopulaImputer
from ..datasets import COPULA_SETTINGS, make_copula
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ._copula_sim import error_curve
from ._core import Result, Row, write

REPETITIONS = {True: 2, False: 5}
SIZE: dict[str, int] = {}
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1, 0.05, 0.01)
LEVELS = (8, 10)

#: the authors' errors at 100, 50, 25, 10 and 1 %
AUTHORS_AT = (1.0, 0.5, 0.25, 0.1, 0.01)
AUTHORS: Mapping[str, tuple[float, ...]] = {
    "continuous, low rank": (0.347, 0.266, 0.221, 0.189, 0.167),
    "continuous, high rank": (0.517, 0.486, 0.482, 0.482, 0.472),
    "ordinal, high SNR": (0.357, 0.127, 0.029, 0.001, 0.0),
    "ordinal, low SNR": (0.788, 0.582, 0.414, 0.243, 0.042),
    "binary, high SNR": (0.103, 0.004, 0.0, 0.0, 0.0),
    "binary, low SNR": (0.205, 0.075, 0.029, 0.010, 0.001),
}
NOTES = (
    "Reliable cells: by the probability of the imputed level, or for continuous columns by the interval's length.",
    "NRMSE divides by the size of the values of the same cells, so it falls more slowly than MAE.",
)


def settings() -> dict[str, dict[str, Any]]:
    """Name -> arguments of `make_copula`: the six settings and more levels."""
    found = {name: dict(arguments) for name, arguments in COPULA_SETTINGS.items()}
    for levels in LEVELS:
        found[f"ordinal, high SNR, {levels} levels"] = {
            **COPULA_SETTINGS["ordinal, high SNR"],
            "n_levels": levels,
        }
    return found


def curve(name: str, arguments: Mapping[str, Any], seed: Any) -> list[float]:
    """Errors over `SHARES` on one table."""
    X, complete, _ = make_copula(**{**arguments, **SIZE}, rng=np.random.default_rng(seed))
    model = CopulaImputer(random_state=0, kinds="auto" if name.startswith("continuous") else "ordinal").fit(X)
    filled, reliability = np.asarray(model.transform(X)), np.asarray(model.reliability(X))
    return error_curve(name, complete, filled, reliability, np.isnan(X), SHARES)


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every curve; two tables each when quick, five otherwise."""
    repetitions, rows, summary = REPETITIONS[quick], list[Row](), list[Row]()
    every = settings()
    seeds = np.random.SeedSequence(rng).spawn(len(every))
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        track(len(every) * repetitions, "copula-reliability", show=progress) as advance,
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        for (name, arguments), seed in zip(every.items(), seeds, strict=True):
            found = []
            for child in seed.spawn(repetitions):
                found.append(curve(name, arguments, child))
                advance()
            mean = np.mean(found, axis=0)
            for share, error in zip(SHARES, mean, strict=True):
                known = dict(zip(AUTHORS_AT, AUTHORS.get(name, ()), strict=False))
                rows.append(
                    {
                        "setting": name,
                        "share": share,
                        "error": float(error),
                        "ratio": float(error / mean[0]),
                        "authors": known.get(share),
                        "repetitions": repetitions,
                    }
                )
            at = [SHARES.index(share) for share in AUTHORS_AT]
            summary.append(
                {
                    "setting": name,
                    "error at 100, 50, 25, 10, 1 %": " ".join(f"{mean[i]:.3f}" for i in at),
                    "authors": " ".join(f"{value:.3f}" for value in AUTHORS.get(name, ())),
                }
            )
    title = "Copula imputer: error on the m % most reliable cells"
    return write(Result("copula-reliability", title, rows, summary, NOTES, lambda: draw(title, rows)), out)


def draw(title: str, rows: list[Row]) -> Any:
    """Ratios of the supplement's figure, and the six settings with the authors' numbers."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    figure.suptitle(title, fontsize="large")
    first = [
        name for name in settings() if name == "continuous, low rank" or name.startswith("ordinal, high")
    ]
    for ax, names, key in ((left, first, "ratio"), (right, list(AUTHORS), "error")):
        for i, name in enumerate(names):
            here = [row for row in rows if row["setting"] == name]
            share = [100 * row["share"] for row in here]
            ax.plot(
                share,
                [row[key] for row in here],
                color=COLOURS[i],
                marker=MARKERS[i],
                markersize=3,
                label=name,
            )
            if key == "error":
                known = [row for row in here if row["authors"] is not None]
                ax.plot(
                    [100 * row["share"] for row in known],
                    [row["authors"] for row in known],
                    "kx",
                    markersize=5,
                )
        ax.set_xlabel("most reliable cells, %")
        ax.set_ylabel("error over that of all cells" if key == "ratio" else "error (crosses: the authors')")
        ax.legend(frameon=False, fontsize="x-small")
        tidy(ax)
    return figure
