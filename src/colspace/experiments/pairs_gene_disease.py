"""Genes for diseases never seen: joint reduction and kernel regression beside its rivals (recall at k).

Protocol. Diseases and genes with a DisGeNET score; 200 spectral coordinates of each (100 when quick) from the similarity graph of
diseases and the network of genes (whole graphs, no association is used). A partition holds out a tenth of the diseases
with all their scores; absent scores of the others are zero. Recall at k is over the held-out diseases, of all genes with
a score and of significant ones. Partition k of seed s is drawn by default_rng([s, k]); every method, joint reduction
alike, is tuned on one partition of its own (k = 1,000,000), over a grid of its own settings, by recall at 100 with
r = 80, and evaluated with those settings for every r on the others. Kernel regression has shrinkage and both
bandwidths to tune (principal components the bandwidths), inductive matrix completion its penalty; kernel ridge in two
steps, on joint directions, or as one Kronecker system (with and without a kernel of the genes' links), and nearest
neighbours climb along their settings one at a time. Factorisations without features (alternating least squares) say
nothing of a disease without links.

Differences from the paper: its disease similarities are a full matrix, its genes come from HumanNet, and its scores
below 0.2 are absent here, so "significant" is above 0.25 instead of 0.01. The paper's cpHd has one kernel on the sum of
both sides' coordinates, which takes as many operations per score as there are training pairs; here its directions
enter the separable kernel of the others, and the cost of one score with the paper's kernel (``kernel="sum"``) is measured.

Data: ``gene_disease.npz`` in the folder that COLSPACE_DATA names, see `colspace.datasets`; else generated pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..datasets import load_gene_disease, make_pairs
from ..displays._style import tidy
from ..metrics import recall_at_k
from ..pairs import BilinearPairRegressor, DisconnectedGraphWarning, PairRegressor, spectral_features
from ..pairs._links import Links
from ..pairs._reduce import embeddings, pair_moments
from ..pairs._tune import Grid, Settings, grid_scores
from ._core import Result, Row, cpu_seconds, mean_and_se, working, write
from ._figures import columns_of, look, opened
from ._pair_rivals import RIVALS, Memory, tuned_rival

Array = NDArray[np.float64]
Index = NDArray[np.intp]

FEATURES = {True: 100, False: 200}
LISTS = tuple(range(10, 101, 10))
PARTITIONS = {True: 2, False: 20}
TUNING = 1_000_000
GRID = {
    True: Grid((0.3,), (0.1, 0.2, 0.3), (0.06, 0.1, 0.2)),
    False: Grid((0.1, 0.3, 0.5, 0.8), (0.06, 0.1, 0.15, 0.2, 0.3, 0.5), (0.03, 0.06, 0.1, 0.2, 0.3, 0.5)),
}
PENALTIES = {True: (0.01, 0.1), False: (0.003, 0.01, 0.03, 0.06, 0.1, 0.2)}
REDUCTIONS = {"JDR": "joint", "PCA": "pca", "pHd": "phd", "cpHd": "cphd", "sOLS": "sols"}
IMC, POPULAR = "IMC", "popularity"


@dataclass(frozen=True)
class Study:
    """Features of both sides, scores, the numbers of directions to try, and the score above which one is significant."""

    A: Array
    B: Array
    Y: Any
    dimensions: tuple[int, ...]
    main: int
    significant: float
    real: bool


def gene_disease(quick: bool) -> Study:
    """The associated diseases and genes with spectral coordinates."""
    data = load_gene_disease()
    d = np.flatnonzero(np.diff(data.scores.indptr))
    g = np.flatnonzero(np.diff(data.scores.tocsc().indptr))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedGraphWarning)  # a few pairs of proteins stand apart
        A, B = (spectral_features(S, FEATURES[quick]) for S in (data.disease_similarity, data.gene_network))
    dimensions = (80,) if quick else (20, 40, 60, 80, 100)
    return Study(A[d], B[g], data.scores[d][:, g].tocsr(), dimensions, 80, 0.25, True)


def generated(quick: bool) -> Study:
    """Simulated pairs in the place of the data."""
    A, B, Y, _ = make_pairs(600, 400, 40, 6, rng=0)
    return Study(A, B, Y, (6,) if quick else (2, 4, 6, 8, 10), 6, float(np.median(Y.data)), False)


def partition(n: int, seed: int, k: int) -> tuple[Index, Index]:
    """Training and held-out diseases, a tenth."""
    order = np.random.default_rng([seed, k]).permutation(n)
    return np.sort(order[n // 10 :]), np.sort(order[: n // 10])


def recalls(Y: Any, scores: Array, significant: float) -> dict[tuple[str, int], float]:
    """(which positives, k) -> recall."""
    strong = significant < Y
    return {
        (which, k): recall_at_k(truth, scores, min(k, scores.shape[1]))
        for which, truth in (("all", Y), ("significant", strong))
        for k in LISTS
    }


def grid_recalls(
    study: Study, reduction: str, train: Index, test: Index, grid: Grid, k: int = 100
) -> dict[Settings, float]:
    """Recall at k of every setting of a grid with one reduction."""
    seen, r = Links(study.Y[train]), study.main
    moments = pair_moments(study.A[train], study.B, seen, reduction, r)
    truth = study.Y[test].toarray()
    found = {}
    for shrinkage in grid.shrinkage if reduction != "pca" else (0.0,):
        left, right = embeddings(moments, reduction, r, shrinkage)
        sides = left(study.A[test]), left(study.A[train]), right(study.B)
        for (h, g), scores in grid_scores(*sides, np.arange(len(study.B)), seen, grid):
            found[Settings(shrinkage, h, g)] = recall_at_k(truth, scores, min(k, scores.shape[1]))
    return found


def regressor(name: str, r: int, settings: Any) -> Any:
    """A method with its settings."""
    if name == IMC:
        return BilinearPairRegressor(r, alpha=settings, max_iter=500)
    shrinkage = "auto" if REDUCTIONS[name] == "pca" else settings.shrinkage
    bandwidth = settings.left, settings.right
    return PairRegressor(r, reduction=REDUCTIONS[name], shrinkage=shrinkage, bandwidth=bandwidth)


def tuned(study: Study, seed: int, quick: bool, advance: Callable[[], Any]) -> dict[str, Any]:
    """Each method's best settings on the tuning partition."""
    train, test = partition(len(study.A), seed, TUNING)
    best: dict[str, Any] = {}
    for name, reduction in REDUCTIONS.items():
        found = grid_recalls(study, reduction, train, test, GRID[quick])
        best[name] = max(found, key=lambda s: found[s])
        advance()
    k = min(100, len(study.B))
    scores = {
        alpha: recall_at_k(
            study.Y[test],
            regressor(IMC, study.main, alpha)
            .fit(study.A[train], study.B, study.Y[train])
            .predict(study.A[test]),
            k,
        )
        for alpha in PENALTIES[quick]
    }
    best[IMC] = max(scores, key=lambda a: scores[a])
    advance()
    return best


def tuned_rivals(
    study: Study, memory: Memory, seed: int, quick: bool, advance: Callable[[], Any]
) -> dict[str, Any]:
    """The same of methods without directions; when quick the settings where they begin to climb."""
    best = {}
    for name, rival in RIVALS.items():
        if quick:
            best[name] = rival.at(rival.start)
        else:
            best[name], _ = tuned_rival(rival, memory, *partition(len(study.A), seed, TUNING))
        advance()
    return best


def evaluate_rivals(
    study: Study, memory: Memory, best: dict[str, Any], train: Index, test: Index
) -> dict[tuple[str, int, str, int], float]:
    """(method, r, which positives, k) -> recall on one partition, the same for every r."""
    found: dict[tuple[str, int, str, int], float] = {}
    for name, values in best.items():
        scores = np.asarray(RIVALS[name].scores(memory, train, test, values))
        for (which, k), value in recalls(study.Y[test], scores, study.significant).items():
            found |= {(name, r, which, k): value for r in study.dimensions}
    return found


def evaluate(
    study: Study, best: dict[str, Any], train: Index, test: Index
) -> dict[tuple[str, int, str, int], float]:
    """(method, r, which positives, k) -> recall on one partition."""
    found: dict[tuple[str, int, str, int], float] = {}
    popular = np.asarray(study.Y[train].sum(axis=0)).ravel()
    flat = np.broadcast_to(popular, (len(test), len(popular)))
    for (which, k), value in recalls(study.Y[test], flat, study.significant).items():
        found |= {(POPULAR, r, which, k): value for r in study.dimensions}
    for name, settings in best.items():
        for r in study.dimensions:
            model = regressor(name, r, settings).fit(study.A[train], study.B, study.Y[train])
            scores = model.predict(study.A[test])
            for (which, k), value in recalls(study.Y[test], scores, study.significant).items():
                found[name, r, which, k] = value
    return found


def costs(study: Study, best: dict[str, Any]) -> list[Row]:
    """Table 1, measured: CPU seconds to fit, to embed all entities, and microseconds for one score."""
    rows: list[Row] = []
    some = study.A[:50]
    for name, settings in best.items():
        model = regressor(name, study.main, settings)
        fit = cpu_seconds(partial(model.fit, study.A, study.B, study.Y))
        sides = (study.A, "left"), (study.B, "right")
        embed = sum(cpu_seconds(partial(model._embed, *side)) for side in sides)
        one = cpu_seconds(partial(model.predict, some)) / (len(some) * len(study.B))
        row: Row = {"method": name, "fit s": f"{fit:.2f}", "features s": f"{embed:.3f}"}
        rows.append({**row, "one score, us": f"{1e6 * one:.2f}"})
        if name == "cpHd":
            own, few = model.set_params(kernel="sum"), study.B[:20]
            one = cpu_seconds(partial(own.predict, some[:1], few)) / len(few)
            rows.append({**row, "method": "cpHd, its own kernel", "one score, us": f"{1e6 * one:,.0f}"})
    return rows


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Recall over twenty partitions and five numbers of directions; two and one, on small grids, when quick."""
    notes: list[str] = []
    try:
        study = gene_disease(quick)
    except FileNotFoundError as error:
        study = generated(quick)
        notes.append(f"Pairs are generated: {error}")
    n = PARTITIONS[quick]
    table: dict[tuple[str, int, str, int], list[float]] = {}
    with working(n + len(REDUCTIONS) + len(RIVALS) + 1, "pairs-gene-disease", progress) as advance:
        best, memory = tuned(study, rng, quick, advance), Memory(study.A, study.B, study.Y)
        others = tuned_rivals(study, memory, rng, quick, advance)
        for k in range(n):
            parts = partition(len(study.A), rng, k)
            found = evaluate(study, best, *parts) | evaluate_rivals(study, memory, others, *parts)
            for key, value in found.items():
                table.setdefault(key, []).append(value)
            advance()
        table1 = costs(study, best)
    rows: list[Row] = [
        {
            "method": name,
            "r": r,
            "positives": which,
            "k": k,
            "recall": float(np.mean(values)),
            "sd": float(np.std(values, ddof=1)),
            **_lead(table["JDR", r, which, k], values),
            "partitions": n,
        }
        for (name, r, which, k), values in table.items()
    ]
    notes += [f"{name}: {_words(settings)}" for name, settings in (best | others).items()]
    notes += ["Costs, CPU time on one thread (Table 1):"]
    notes += ["  ".join(f"{key} {value}" for key, value in row.items()) for row in table1]
    title = f"Paper 000, Figs. 2 and 4: {'genes for unseen diseases' if study.real else 'generated pairs'}, {n} partitions"
    parts_of = rows, summary(rows, study.main), tuple(notes), partial(draw, title, rows, study.main)
    size = f"{n} partitions"
    return write(Result("pairs-gene-disease", title, *parts_of, size=size, stand_in=not study.real), out)


def _lead(first: list[float], values: list[float]) -> Row:
    """How far joint reduction is ahead on the same partitions, with the standard error of the mean difference."""
    return dict(zip(("behind", "behind_error"), mean_and_se(np.subtract(first, values)), strict=True))


def _words(settings: Any) -> str:
    if isinstance(settings, Settings):
        return f"shrinkage {settings.shrinkage:g}, bandwidths {settings.left:g} and {settings.right:g}"
    return f"penalty {settings:g}" if isinstance(settings, float) else f"settings {settings}"


def summary(rows: list[Row], main: int) -> list[Row]:
    """One row per method: recall at some k with its standard deviation over partitions."""
    found: dict[str, Row] = {}
    for row in rows:
        if row["r"] == main and row["k"] in (10, 50, 100) and (row["k"] == 100 or row["positives"] == "all"):
            line = found.setdefault(row["method"], {"method": row["method"], "r": main})
            what = f"recall at {row['k']}" + (", significant" if row["positives"] != "all" else "")
            line[what] = f"{row['recall']:.3f} ± {row['sd']:.3f}"
            if (row["k"], row["positives"]) == (100, "all"):
                line["behind JDR ± standard error"] = f"{row['behind']:.3f} ± {row['behind_error']:.3f}"
    return sorted(found.values(), key=lambda line: line["recall at 100"], reverse=True)


def draw(title: str, rows: list[Row], main: int) -> Any:
    """Recall over k for one r, and bars over r at k = 100; above all positives, below significant ones."""
    figure, axes = opened(title, 2, 2, (10, 7), sharey="row")
    names = [*REDUCTIONS, *RIVALS, IMC, POPULAR]
    for (curves, bars), which in zip(axes, ("all", "significant"), strict=True):
        for i, name in enumerate(names):
            own = [row for row in rows if row["method"] == name and row["positives"] == which]
            style = look(i)
            curves.plot(
                *columns_of([row for row in own if row["r"] == main], "k", "recall"), label=name, **style
            )
            last = [row for row in own if row["k"] == max(LISTS)]
            place = np.arange(len(last)) + (i - (len(names) - 1) / 2) * 0.8 / len(names)
            heights, spread, directions = columns_of(last, "recall", "sd", "r")
            hatch = "////" if style["linestyle"] == "--" else None  # where colours begin anew
            filled = {"color": style["color"], "hatch": hatch, "edgecolor": "white", "linewidth": 0}
            bars.bar(place, heights, 0.8 / len(names), yerr=spread, error_kw={"linewidth": 0.8}, **filled)
            bars.set_xticks(range(len(last)), list(map(str, directions)))
        curves.set_xlabel("k")
        curves.set_ylabel("recall" + ("" if which == "all" else ", significant scores"))
        curves.set_title(f"r = {main}", fontsize="medium")
        bars.set_xlabel("r")
        bars.set_title(f"k = {max(LISTS)}", fontsize="medium")
        tidy(curves)
        tidy(bars, grid="y")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure
