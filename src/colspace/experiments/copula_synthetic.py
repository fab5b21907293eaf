"""Copula imputer, tables 1 and 2 of the supplement: error and seconds on the six simulated settings.

n = 500, p = 200. The oracle knows the law: g(E[z | observed]) with the true loadings, noise and marginals; exact
for continuous columns, by Gibbs sampling for levels (the supplement has it for continuous columns only). PPCA and
"published EM" are given the true rank, soft-impute chooses its penalty on held-out cells, "default" finds the
rank by itself. Published numbers stand beside; the authors' seconds are those of their R code.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from .._progress import track
from ..copula import CopulaImputer
from ..datasets import COPULA_SETTINGS, make_copula
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ._copula_sim import Array, imputation_error, oracle, ppca, soft_impute, to_levels
from ._core import Result, Row, write

REPETITIONS = {True: 3, False: 20}
SIZE: dict[str, int] = {}  # n_samples and n_features, where they are not the published ones
DEFAULT, MEAN, PAPER, ORACLE = "default, median", "default, mean", "published EM", "oracle"

#: what the authors report: (setting, method) -> error, and seconds below
PUBLISHED_ERROR = {
    ("continuous, low rank", PAPER): 0.347,
    ("continuous, high rank", PAPER): 0.517,
    ("ordinal, high SNR", PAPER): 0.357,
    ("ordinal, low SNR", PAPER): 0.788,
    ("binary, high SNR", PAPER): 0.1025,
    ("binary, low SNR", PAPER): 0.205,
    ("continuous, low rank", ORACLE): 0.330,
    ("continuous, high rank", ORACLE): 0.433,
}
_SECONDS = {
    PAPER: (5.7, 6.5, 27.2, 19.8, 66.7, 52.0),
    "PPCA": (2.9, 0.3, 1.0, 0.3, 0.9, 0.3),
    "soft-impute": (0.7, 1.1, 1.2, 1.3, 1.4, 1.5),
}
PUBLISHED_SECONDS = {
    (setting, method): seconds
    for method, row in _SECONDS.items()
    for setting, seconds in zip(COPULA_SETTINGS, row, strict=True)
}
NOTES = (
    "NRMSE for continuous settings, mean absolute error for the others, on the missing cells.",
    "Published seconds are of other machines and other code (R); seconds here are CPU time on one thread.",
)


def measures(name: str, seed: Any) -> dict[str, tuple[float, float]]:
    """Error and CPU seconds of every method on one table."""
    setting = COPULA_SETTINGS[name]
    rank = setting["n_components"]
    X, complete, truth = make_copula(**{**setting, **SIZE}, rng=np.random.default_rng(seed))
    mask = np.isnan(X)
    model = CopulaImputer(random_state=0)
    runs: dict[str, Callable[[], Array]] = {
        DEFAULT: lambda: np.asarray(model.fit(X).transform(X)),
        PAPER: lambda: np.asarray(CopulaImputer(rank, method="paper", random_state=0).fit_transform(X)),
        ORACLE: lambda: oracle(X, truth, rng=0),
        "PPCA": lambda: to_levels(name, ppca(X, rank), X),
        "soft-impute": lambda: to_levels(name, soft_impute(X), X),
    }
    found = {}
    for label, fill in runs.items():
        start = time.process_time()
        filled = fill()
        seconds = time.process_time() - start
        found[label] = imputation_error(name, complete, filled, mask), seconds
        if label == DEFAULT and name.startswith("continuous"):
            found[MEAN] = imputation_error(name, complete, np.asarray(model.mean(X)), mask), seconds
    return found


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every method on every setting; three tables each when quick, twenty otherwise."""
    repetitions, rows = REPETITIONS[quick], list[Row]()
    seeds = np.random.SeedSequence(rng).spawn(len(COPULA_SETTINGS))
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        track(len(COPULA_SETTINGS) * repetitions, "copula-synthetic", show=progress) as advance,
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, seed in zip(COPULA_SETTINGS, seeds, strict=True):
            found: dict[str, list[tuple[float, float]]] = {}
            for child in seed.spawn(repetitions):
                for label, pair in measures(name, child).items():
                    found.setdefault(label, []).append(pair)
                advance()
            for label, pairs in found.items():
                errors, seconds = np.array(pairs).T
                rows.append(
                    {
                        "setting": name,
                        "method": label,
                        "error": float(errors.mean()),
                        "sd": float(errors.std(ddof=1)) if repetitions > 1 else float("nan"),
                        "se": float(errors.std(ddof=1) / np.sqrt(repetitions))
                        if repetitions > 1
                        else float("nan"),
                        "published_error": PUBLISHED_ERROR.get((name, label)),
                        "seconds": float(np.median(seconds)),
                        "published_seconds": PUBLISHED_SECONDS.get((name, label)),
                        "repetitions": repetitions,
                    }
                )
    summary: list[Row] = [
        {
            "setting": row["setting"],
            "method": row["method"],
            "error": f"{row['error']:.4f} ({row['sd']:.4f})",
            "published": "" if row["published_error"] is None else f"{row['published_error']:g}",
            "CPU s": f"{row['seconds']:.2f}",
            "published s": "" if row["published_seconds"] is None else f"{row['published_seconds']:g}",
        }
        for row in rows
    ]
    title = "Copula imputer: error on the missing cells of six simulated settings"
    return write(Result("copula-synthetic", title, rows, summary, NOTES, lambda: draw(title, rows)), out)


def draw(title: str, rows: list[Row]) -> Any:
    """Errors relative to the oracle's, one line of points per setting."""
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    settings = list(COPULA_SETTINGS)
    base = {row["setting"]: row["error"] for row in rows if row["method"] == ORACLE}
    methods = list(dict.fromkeys(row["method"] for row in rows if row["method"] != ORACLE))
    for i, method in enumerate(methods):
        here = [row for row in rows if row["method"] == method]
        place = [settings.index(row["setting"]) + 0.12 * (i - len(methods) / 2) for row in here]
        ratio = [row["error"] / base[row["setting"]] for row in here]
        ax.plot(ratio, place, MARKERS[i], color=COLOURS[i], label=method)
    ax.axvline(1.0, color="k", linewidth=1)
    ax.set_yticks(range(len(settings)), settings)
    ax.invert_yaxis()
    ax.set_xlabel("error relative to the oracle's")
    ax.set_title(title, fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    tidy(ax, grid="x")
    return figure
