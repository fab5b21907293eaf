"""Copula imputer, tables 1 and 2 of the supplement: error and seconds on the six simulated settings.

n = 500, p = 200. The oracle knows the law: g(E[z | observed]) with the true loadings, noise and marginals; exact
for continuous columns, by Gibbs sampling for levels (the supplement has it for continuous columns only). PPCA and
"published EM" are given the true rank, soft-impute a penalty chosen on held-out cells (not in its seconds), "default" finds the
rank by itself. Published numbers stand beside; the authors' seconds are those of their R code.

``over_oracle`` and ``over_published`` are what the error has above those of the oracle and of the published EM on the same tables, and
``excess`` the share (error / oracle)^2 - 1 that estimation adds to the squared error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..copula import CopulaImputer
from ..datasets import COPULA_SETTINGS, make_copula
from ..displays._style import COLOURS, MARKERS, ink, pyplot, tidy
from ._claims import numbers, read_paper
from ._copula_sim import Array, best_alpha, imputation_error, oracle, ppca, soft_fill, tables_of, to_levels
from ._core import Result, Row, mean_and_se, spread_of, unfinished, working, write

NAME = "copula-synthetic"
REPETITIONS = {True: 2, False: 20}
SWEEPS = {True: 100, False: 400}  # of the oracle's Gibbs sampler
SIZE: dict[str, int] = {}  # n_samples and n_features, where they are not the published ones
DEFAULT, MEAN, PAPER, ORACLE = "default, median", "default, mean", "published EM", "oracle"

NOTES = (
    "NRMSE for continuous settings, mean absolute error for the others, on the missing cells.",
    "Published seconds are of other machines and other code (R); seconds here are CPU time on one thread.",
)


def measures(name: str, seed: Any, sweeps: int) -> dict[str, tuple[float, float]]:
    """Error and CPU seconds of every method on one table."""
    setting = COPULA_SETTINGS[name]
    rank = setting["n_components"]
    X, complete, truth = make_copula(**{**setting, **SIZE}, rng=np.random.default_rng(seed))
    mask = np.isnan(X)
    model, alpha = CopulaImputer(random_state=0), best_alpha(X)
    runs: dict[str, Callable[[], Array]] = {
        DEFAULT: lambda: np.asarray(model.fit(X).transform(X)),
        PAPER: lambda: np.asarray(CopulaImputer(rank, method="paper", random_state=0).fit_transform(X)),
        ORACLE: lambda: oracle(X, truth, rng=0, sweeps=sweeps),
        "PPCA": lambda: to_levels(name, ppca(X, rank), X),
        "soft-impute": lambda: to_levels(name, soft_fill(X, alpha), X),
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
    """Measure every method on every setting; two tables each when quick, twenty otherwise."""
    repetitions, rows = REPETITIONS[quick], list[Row]()
    paper = read_paper("003")
    known_error = numbers(paper, NAME, "error", "setting", "method")
    known_seconds = numbers(paper, NAME, "seconds", "setting", "method")
    seeds = np.random.SeedSequence(rng).spawn(len(COPULA_SETTINGS))
    with unfinished(), working(len(COPULA_SETTINGS) * repetitions, NAME, progress) as advance:
        for name, seed in zip(COPULA_SETTINGS, seeds, strict=True):
            found: dict[str, list[tuple[float, float]]] = {}
            for child in seed.spawn(repetitions):
                for label, pair in measures(name, child, SWEEPS[quick]).items():
                    found.setdefault(label, []).append(pair)
                advance()
            rows += [
                {
                    "setting": name,
                    **row,
                    "published_error": known_error.get((name, row["method"])),
                    "published_seconds": known_seconds.get((name, row["method"])),
                    "repetitions": repetitions,
                }
                for row in compared(found)
            ]
    summary: list[Row] = [
        {
            "setting": row["setting"],
            "method": row["method"],
            "error": f"{row['error']:.4f} ± {row['se']:.4f}",
            "published": "" if row["published_error"] is None else f"{row['published_error']:g}",
            "CPU s": f"{row['seconds']:.2f}",
            "published s": "" if row["published_seconds"] is None else f"{row['published_seconds']:g}",
        }
        for row in rows
    ]
    title = "Paper 003, Tables 1 and 2: error on the missing cells of six simulated settings"
    size = tables_of(repetitions, SIZE)
    return write(Result(NAME, title, rows, summary, NOTES, lambda: draw(title, rows), size=size), out)


def compared(found: Mapping[str, Sequence[tuple[float, float]]]) -> list[Row]:
    """Means and standard errors of every method; comparisons are paired by table."""
    errors = {label: np.array([error for error, _ in pairs]) for label, pairs in found.items()}
    rows = []
    for label, pairs in found.items():
        error, se = mean_and_se(errors[label])
        others = spread_of(
            seconds=[second for _, second in pairs],
            over_oracle=errors[label] - errors[ORACLE],
            over_published=errors[label] - errors[PAPER],
            excess=(errors[label] / errors[ORACLE]) ** 2 - 1.0,
        )
        rows.append({"method": label, "error": error, "se": se, **others})
    return rows


def draw(title: str, rows: list[Row]) -> Any:
    """Errors relative to the oracle's, one line of points per setting."""
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(8.5, 4.6), layout="constrained")
    settings = list(COPULA_SETTINGS)
    base = {row["setting"]: row["error"] for row in rows if row["method"] == ORACLE}
    methods = list(dict.fromkeys(row["method"] for row in rows if row["method"] != ORACLE))
    for i, method in enumerate(methods):
        here = [row for row in rows if row["method"] == method]
        place = [settings.index(row["setting"]) + 0.12 * (i - len(methods) / 2) for row in here]
        ratio = [row["error"] / base[row["setting"]] for row in here]
        error = [row["se"] / base[row["setting"]] for row in here]
        ax.errorbar(ratio, place, xerr=error, fmt=MARKERS[i], color=COLOURS[i], label=method)
    known = [row for row in rows if row["published_error"] is not None and row["method"] == PAPER]
    ratio = [row["published_error"] / base[row["setting"]] for row in known]
    place = [settings.index(row["setting"]) + 0.3 for row in known]
    ax.plot(ratio, place, "x", color=ink(), label="published")
    ax.axvline(1.0, color=ink(), linewidth=1)  # the oracle
    ax.set_yticks(range(len(settings)), settings)
    ax.invert_yaxis()
    ax.set_xlabel("error relative to the oracle's")
    ax.set_title(title, fontsize="medium")
    figure.legend(loc="outside lower center", ncols=len(methods) + 1, frameon=False, fontsize="small")
    tidy(ax, grid="x")
    return figure
