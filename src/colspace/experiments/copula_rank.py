"""Copula imputer, Fig. 2 of the supplement: error over the rank, against PPCA and soft-impute.

Ranks 6 to 14 for continuous columns and 3 to 11 for levels; soft-impute over its penalty, nine points from
lambda_0 to lambda_0 / 100. The line across is the rank that the imputer finds by itself.

Rows whose ``what`` is "curve" judge a whole curve: ``edge_low`` and ``edge_high`` are what the error at either end has above the best
inside (positive: the best lies inside), ``rise`` what the error at the highest rank (the least penalty) has above the best, as a share of
it, and ``finer`` what a path of twenty penalties gains over nine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..copula import CopulaImputer
from ..datasets import COPULA_SETTINGS, make_copula
from ..displays._style import ink, tidy
from ._copula_sim import (
    ALPHAS,
    imputation_error,
    observed_cells,
    ppca,
    soft_impute_path,
    tables_of,
    to_levels,
)
from ._core import Result, Row, mean_and_se, spread_of, unfinished, working, write
from ._figures import line_of, opened

NAME = "copula-rank"
REPETITIONS = {True: 2, False: 4}
SIZE: dict[bool, dict[str, int]] = {True: {"n_samples": 250, "n_features": 100}, False: {}}
RANKS = {True: range(6, 15), False: range(3, 12)}  # continuous or not
STEP = {True: 4, False: 1}  # of the ranks, when quick and not
OURS, PAPER, PPCA, SOFT, AUTO = "copula", "copula, published EM", "PPCA", "soft-impute", "copula, rank found"
FINER, N_FINER = "soft-impute, twenty penalties", 20
MEASURES = ("edge_low", "edge_high", "rise", "finer")
EMPTY: Mapping[str, Any] = {
    "setting": "",
    "method": "",
    "what": "",
    "parameter": None,
    "error": None,
    "se": None,
    **{name: None for measure in MEASURES for name in (measure, f"{measure}_se")},
}
NOTES = (
    "NRMSE for continuous settings, mean absolute error for the others, on the missing cells.",
    "Soft-impute is drawn over log10(lambda / lambda_0), upper axis.",
)


def curves(name: str, seed: Any, step: int, size: Mapping[str, int]) -> dict[tuple[str, float], float]:
    """(method, tuning parameter) -> error on one table; the rank found has its own method."""
    continuous = name.startswith("continuous")
    X, complete, _ = make_copula(**{**COPULA_SETTINGS[name], **size}, rng=np.random.default_rng(seed))
    mask = np.isnan(X)

    def error(filled: Any) -> float:
        return imputation_error(name, complete, to_levels(name, np.asarray(filled), X), mask)

    found: dict[tuple[str, float], float] = {}
    for rank in RANKS[continuous][::step]:
        found[OURS, rank] = error(CopulaImputer(rank, random_state=0).fit_transform(X))
        found[PAPER, rank] = error(CopulaImputer(rank, method="paper", random_state=0).fit_transform(X))
        found[PPCA, rank] = error(ppca(X, rank))
    cells = observed_cells(X)
    for alpha, fill in zip(ALPHAS, soft_impute_path(cells), strict=True):
        found[SOFT, float(np.log10(alpha))] = error(fill.table())
    finer = np.exp(np.linspace(0.0, np.log(0.01), N_FINER)).tolist()
    found[FINER, np.nan] = min(error(fill.table()) for fill in soft_impute_path(cells, finer))
    auto = CopulaImputer(random_state=0).fit(X)
    found[AUTO, np.nan] = error(auto.transform(X))
    return found


def curve_row(name: str, method: str, line: Mapping[float, Sequence[float]], finer: Sequence[float]) -> Row:
    """What a whole curve shows; differences are paired by table."""
    places = sorted(line)
    errors = np.array([line[place] for place in places])  # places x tables
    mean = errors.mean(axis=1)
    inside = 1 + int(np.argmin(mean[1:-1]))
    best = int(np.argmin(mean))
    last = 0 if method == SOFT else -1  # the least penalty is first in order
    found = {
        "edge_low": errors[0] - errors[inside],
        "edge_high": errors[-1] - errors[inside],
        "rise": (errors[last] - errors[best]) / errors[best],
    }
    if method == SOFT:
        found["finer"] = errors.min(axis=0) - np.asarray(finer)
    error, se = mean_and_se(errors[best])
    row: Row = {**EMPTY, "setting": name, "method": method, "what": "curve", "parameter": places[best]}
    return {**row, "error": error, "se": se, "repetitions": errors.shape[1], **spread_of(**found)}


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every curve; two small tables and every fourth rank when quick, else ten and every rank."""
    repetitions, rows, summary = REPETITIONS[quick], list[Row](), list[Row]()
    seeds = np.random.SeedSequence(rng).spawn(len(COPULA_SETTINGS))
    with unfinished(), working(len(COPULA_SETTINGS) * repetitions, NAME, progress) as advance:
        for name, seed in zip(COPULA_SETTINGS, seeds, strict=True):
            found: dict[tuple[str, float], list[float]] = {}
            for child in seed.spawn(repetitions):
                for key, value in curves(name, child, STEP[quick], SIZE[quick]).items():
                    found.setdefault(key, []).append(value)
                advance()
            for (method, parameter), values in found.items():
                error, se = mean_and_se(values)
                row = {**EMPTY, "setting": name, "method": method, "what": "point", "error": error, "se": se}
                row |= {"parameter": None if np.isnan(parameter) else parameter, "repetitions": repetitions}
                rows.append(row)
            finer = next(values for (method, _), values in found.items() if method == FINER)
            for method in (OURS, PAPER, PPCA, SOFT):
                line = {place: values for (label, place), values in found.items() if label == method}
                best = curve_row(name, method, line, finer)
                rows.append(best)
                summary.append(
                    {
                        "setting": name,
                        "method": method,
                        "errors": " ".join(f"{np.mean(line[place]):.3f}" for place in sorted(line)),
                        "best": f"{best['error']:.4f} ± {best['se']:.4f}",
                        "at": f"{best['parameter']:g}",
                    }
                )
            alone = next(row for row in rows if row["setting"] == name and row["method"] == AUTO)
            text = f"{alone['error']:.4f} ± {alone['se']:.4f}"
            summary.append({"setting": name, "method": AUTO, "errors": "", "best": text, "at": ""})
    title = "Paper 003, Fig. 2: error over the rank or the penalty"
    size = f"{tables_of(repetitions, SIZE[quick])}, every {STEP[quick]}. rank"
    return write(Result(NAME, title, rows, summary, NOTES, lambda: draw(title, rows), size=size), out)


def draw(title: str, rows: list[Row]) -> Any:
    """One panel a setting: methods over the rank below, soft-impute over its penalty above."""
    figure, axes = opened(title, 2, 3, (11, 6.8))
    handles: list[Any] = []
    points = [row for row in rows if row["what"] == "point"]
    for ax, name in zip(axes.T.flat, COPULA_SETTINGS, strict=False):
        above = ax.twiny()
        handles = []
        for i, method in enumerate((OURS, PAPER, PPCA, SOFT)):
            here = [row for row in points if row["setting"] == name and row["method"] == method]
            axis = above if method == SOFT else ax
            handles.append(line_of(axis, here, "parameter", "error", "se", i, label=method))
        auto = next(row["error"] for row in points if row["setting"] == name and row["method"] == AUTO)
        handles.append(ax.axhline(auto, color=ink(), linestyle=":", linewidth=1.2, label=AUTO))
        best = min(row["error"] for row in points if row["setting"] == name and row["method"] == SOFT)
        low = min(row["error"] for row in points if row["setting"] == name)
        ax.set_ylim(low - 0.15 * (best - low), best + 1.2 * (best - low))
        ax.set_title(name, fontsize="medium")
        ax.set_xlabel("rank")
        above.set_xlabel("log10(lambda / lambda_0)", fontsize="small")
        tidy(ax)
        above.spines["right"].set_visible(False)
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize="small")
    return figure
