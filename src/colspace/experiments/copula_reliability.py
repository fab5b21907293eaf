"""Copula imputer, Fig. 1 of the supplement: error on the m % most reliable cells.

Left, the figure of the supplement: the error on the most reliable cells over the error on all, for low-rank
continuous columns and for 5, 8 and 10 levels (high SNR). Right, the six settings with the authors' errors at
100, 50, 25, 10 and 1 % as crosses. The published EM is given the true rank and orders levels by the bound of
Theorem 2; the default finds the rank and orders by its own probability. ``apart`` is the distance of a ratio from that of the
low-rank continuous columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..copula import CopulaImputer
from ..copula._predict import gaps
from ..datasets import COPULA_SETTINGS, make_copula
from ..displays._style import ink, tidy
from ._claims import numbers, read_paper
from ._copula_sim import Array, error_curve, tables_of
from ._core import Result, Row, mean_and_se, spread_of, unfinished, working, write
from ._figures import below, columns_of, line_of, opened

NAME = "copula-reliability"
REPETITIONS = {True: 2, False: 5}
SIZE: dict[str, int] = {}
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1, 0.05, 0.01)
LEVELS = (8, 10)
PAPER, OURS = "published EM", "default"
METHODS = (PAPER, OURS)
LOW_RANK = "continuous, low rank"

AUTHORS_AT = (1.0, 0.5, 0.25, 0.1, 0.01)
NOTES = (
    "Reliable cells: of levels by the bound of Theorem 2 (published EM) or the probability (default), of numbers by the interval's length.",
    "NRMSE divides by the size of the values of the same cells, the mean absolute error does not.",
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


def level_bounds(model: CopulaImputer, X: Array) -> Array:
    """1 - Var[z] / d^2 of the gaps of stepped columns, d the distance of E[z] from the nearest cut; below zero, too, which still orders."""
    found = np.full(X.shape, np.nan)
    for gap in gaps(X, model._point):
        cuts = model._point.columns[gap.column].z
        distance = np.abs(gap.mean[:, None] - cuts).min(axis=1)
        found[gap.rows, gap.column] = 1.0 - (gap.sd / np.maximum(distance, 1e-9)) ** 2
    return found


def curve(method: str, name: str, arguments: Mapping[str, Any], seed: Any) -> list[float]:
    """Errors over `SHARES` on one table."""
    X, complete, _ = make_copula(**{**arguments, **SIZE}, rng=np.random.default_rng(seed))
    continuous = name.startswith("continuous")
    kinds = "auto" if continuous else "ordinal"
    if method == PAPER:
        rank = arguments["n_components"]
        model = CopulaImputer(rank, method="paper", kinds=kinds, random_state=0).fit(X)
    else:
        model = CopulaImputer(random_state=0, kinds=kinds).fit(X)
    if method == PAPER and not continuous:
        reliability = level_bounds(model, X)
    else:
        reliability = np.asarray(model.reliability(X))
    return error_curve(name, complete, np.asarray(model.transform(X)), reliability, np.isnan(X), SHARES)


def curve_rows(method: str, name: str, errors: Array, known: Mapping[Any, float]) -> list[Row]:
    """A row for each share of the cells; ``errors`` is tables x `SHARES`."""
    rows: list[Row] = []
    for i, share in enumerate(SHARES):
        error, se = mean_and_se(errors[:, i])
        row: Row = {"method": method, "setting": name, "share": share, "error": error, "se": se}
        row |= spread_of(ratio=errors[:, i] / errors[:, 0])
        rows.append({**row, "authors": known.get((method, name, share)), "repetitions": len(errors)})
    return rows


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every curve; two tables each when quick, five otherwise."""
    repetitions, rows, summary = REPETITIONS[quick], list[Row](), list[Row]()
    every = settings()
    known = numbers(read_paper("003"), NAME, "error", "method", "setting", "share")
    seeds = np.random.SeedSequence(rng).spawn(len(every))
    with unfinished(), working(len(every) * repetitions * len(METHODS), NAME, progress) as advance:
        for (name, arguments), seed in zip(every.items(), seeds, strict=True):
            children = seed.spawn(repetitions)
            for method in METHODS:
                found = []
                for child in children:
                    found.append(curve(method, name, arguments, child))
                    advance()
                here = curve_rows(method, name, np.array(found), known)
                rows += here
                at = [here[SHARES.index(share)] for share in AUTHORS_AT]
                theirs = [row["authors"] for row in at if row["authors"] is not None]
                line = {"setting": name, "method": method}
                line["error at 100, 50, 25, 10, 1 %"] = " ".join(f"{row['error']:.3f}" for row in at)
                summary.append({**line, "authors": " ".join(f"{error:.3f}" for error in theirs)})
    shape = {(row["method"], row["share"]): row for row in rows if row["setting"] == LOW_RANK}
    for row in rows:
        other = shape[row["method"], row["share"]]
        row["apart"] = abs(row["ratio"] - other["ratio"])
        row["apart_se"] = float(np.hypot(row["ratio_se"], other["ratio_se"]))
    title = "Paper 003, Fig. 1: error on the m % most reliable cells"
    size = tables_of(repetitions, SIZE)
    return write(Result(NAME, title, rows, summary, NOTES, lambda: draw(title, rows), size=size), out)


def draw(title: str, rows: list[Row]) -> Any:
    """Ratios of the supplement's figure, and the six settings with the authors' numbers, all by the published EM."""
    figure, axes = opened(title, 1, 2, (11, 5.0))
    every = list(dict.fromkeys(row["setting"] for row in rows))
    first = [name for name in every if name == LOW_RANK or name.startswith("ordinal, high")]
    six = [name for name in every if "levels" not in name]
    for ax, names, key in ((axes[0, 0], first, "ratio"), (axes[0, 1], six, "error")):
        for i, name in enumerate(names):
            here = [row for row in rows if row["setting"] == name and row["method"] == PAPER]
            here = [{**row, "percent": 100 * row["share"]} for row in here]
            line_of(ax, here, "percent", key, "ratio_se" if key == "ratio" else "se", i, label=name)
            if key == "error":
                known = [row for row in here if row["authors"] is not None]
                label = "authors" if i == len(names) - 1 else None
                ax.plot(*columns_of(known, "percent", "authors"), "x", color=ink(), markersize=5, label=label)
        ax.set_xlabel("most reliable cells, %")
        ax.set_ylabel("error over that of all cells" if key == "ratio" else "error")
        below(ax, gap=0.14, columns=3)
        tidy(ax)
    return figure
