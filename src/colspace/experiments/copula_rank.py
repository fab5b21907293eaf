"""Copula imputer, Fig. 2 of the supplement: error over the rank, against PPCA and soft-impute.

Ranks 6 to 14 for continuous columns and 3 to 11 for levels; soft-impute over its penalty, nine points from
lambda_0 to lambda_0 / 100. The line across is the rank that the imputer finds by itself.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from .._progress import track
from ..copula import CopulaImputer
from ..datasets import COPULA_SETTINGS, make_copula
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ._copula_sim import ALPHAS, imputation_error, observed_cells, ppca, soft_impute_path, to_levels
from ._core import Result, Row, write

REPETITIONS = {True: 1, False: 20}
SIZE: dict[str, int] = {}
RANKS = {True: range(6, 15), False: range(3, 12)}  # continuous or not
STEP = {True: 2, False: 1}  # of the ranks, when quick and not
OURS, PAPER, PPCA, SOFT, AUTO = "copula", "copula, published EM", "PPCA", "soft-impute", "copula, rank found"
NOTES = (
    "NRMSE for continuous settings, mean absolute error for the others, on the missing cells.",
    "Soft-impute is drawn over log10(lambda / lambda_0), upper axis.",
)


def curves(name: str, seed: Any, step: int) -> dict[tuple[str, float], float]:
    """(method, tuning parameter) -> error on one table; the rank found has its own method."""
    continuous = name.startswith("continuous")
    X, complete, _ = make_copula(**{**COPULA_SETTINGS[name], **SIZE}, rng=np.random.default_rng(seed))
    mask = np.isnan(X)

    def error(filled: Any) -> float:
        return imputation_error(name, complete, to_levels(name, np.asarray(filled), X), mask)

    found: dict[tuple[str, float], float] = {}
    for rank in RANKS[continuous][::step]:
        found[OURS, rank] = error(CopulaImputer(rank, random_state=0).fit_transform(X))
        found[PAPER, rank] = error(CopulaImputer(rank, method="paper", random_state=0).fit_transform(X))
        found[PPCA, rank] = error(ppca(X, rank))
    for alpha, fill in zip(ALPHAS, soft_impute_path(observed_cells(X)), strict=True):
        found[SOFT, float(np.log10(alpha))] = error(fill.table())
    auto = CopulaImputer(random_state=0).fit(X)
    found[AUTO, np.nan] = error(auto.transform(X))
    return found


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every curve; one table and every other rank when quick, else twenty and every rank."""
    repetitions, rows, summary = REPETITIONS[quick], list[Row](), list[Row]()
    seeds = np.random.SeedSequence(rng).spawn(len(COPULA_SETTINGS))
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        track(len(COPULA_SETTINGS) * repetitions, "copula-rank", show=progress) as advance,
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, seed in zip(COPULA_SETTINGS, seeds, strict=True):
            found: dict[tuple[str, float], list[float]] = {}
            for child in seed.spawn(repetitions):
                for key, value in curves(name, child, STEP[quick]).items():
                    found.setdefault(key, []).append(value)
                advance()
            here: list[Row] = [
                {
                    "setting": name,
                    "method": method,
                    "parameter": None if np.isnan(parameter) else parameter,
                    "error": float(np.mean(values)),
                    "repetitions": repetitions,
                }
                for (method, parameter), values in found.items()
            ]
            rows += here
            for method in dict.fromkeys(row["method"] for row in here):
                line = [row for row in here if row["method"] == method]
                best = min(line, key=lambda row: row["error"])
                summary.append(
                    {
                        "setting": name,
                        "method": method,
                        "errors": " ".join(f"{row['error']:.3f}" for row in line),
                        "best": f"{best['error']:.4f}",
                        "at": "" if best["parameter"] is None else f"{best['parameter']:g}",
                    }
                )
    title = "Copula imputer: error over the rank"
    return write(Result("copula-rank", title, rows, summary, NOTES, lambda: draw(title, rows)), out)


def draw(title: str, rows: list[Row]) -> Any:
    """One panel a setting: methods over the rank below, soft-impute over its penalty above."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.8), layout="constrained")
    figure.suptitle(title, fontsize="large")
    handles: list[Any] = []
    for ax, name in zip(axes.T.flat, COPULA_SETTINGS, strict=False):
        above = ax.twiny()
        handles = []
        for i, method in enumerate((OURS, PAPER, PPCA, SOFT)):
            here = [row for row in rows if row["setting"] == name and row["method"] == method]
            axis = above if method == SOFT else ax
            handles += axis.plot(
                [row["parameter"] for row in here],
                [row["error"] for row in here],
                color=COLOURS[i],
                marker=MARKERS[i],
                markersize=4,
                label=method,
            )
        auto = next(row["error"] for row in rows if row["setting"] == name and row["method"] == AUTO)
        handles.append(ax.axhline(auto, color="k", linestyle=":", linewidth=1.2, label=AUTO))
        best = min(row["error"] for row in rows if row["setting"] == name and row["method"] == SOFT)
        low = min(row["error"] for row in rows if row["setting"] == name)
        ax.set_ylim(low - 0.15 * (best - low), best + 1.2 * (best - low))
        ax.set_title(name, fontsize="medium")
        ax.set_xlabel("rank")
        above.set_xlabel("log10(lambda / lambda_0)", fontsize="small")
        tidy(ax)
        above.spines["right"].set_visible(False)
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize="small")
    return figure
