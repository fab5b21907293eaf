"""Joint reduction, Fig. 3: what happens when the assumptions of the theory do not hold.

Li, Cheng, Wen and Bresler, "Joint Dimensionality Reduction for Separable Embedding Estimation".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._claims import read_paper
from ._core import Panel, Point, Result, finish, measure

PAPER = read_paper("000").settings
RANK: int = PAPER["rank"]
WIDTH = 50
ROWS = {True: (2_000, 8_000, 32_000), False: (2_000, 4_000, 8_000, 16_000, 32_000, 64_000)}
REPETITIONS = {True: 6, False: 100}

MET = "assumptions met"
#: Panel -> (arguments of the generator, arguments of JointReduction) of the curve beside "assumptions met".
DEPARTURES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sample normalisation": ({}, {"whiten": "full"}),
    "uniform columns": ({"law": "uniform"}, {"whiten": None}),
    "Poisson(4) columns": ({"law": "poisson"}, {"whiten": None}),
    "correlated blocks (0.1)": ({"correlation": 0.1}, {"whiten": None}),
}

NOTES = (
    "'assumptions met': Gaussian columns with known covariance I; every other curve departs in one way.",
)


def panels(rows: tuple[int, ...]) -> list[Panel]:
    """One panel per departure."""
    found = []
    for title, (variant, params) in DEPARTURES.items():
        estimators = {
            MET: ({}, {"whiten": None, "moments": "joint"}),
            title: (variant, {**params, "moments": "joint"}),
        }
        data = {"n_features": WIDTH, "n_components": RANK}
        points = [Point(m, "make_bilinear", {**data, "n_samples": m}, estimators) for m in rows]
        found.append(Panel(title, "rows m", points, {MET: PAPER["slopes"]["rows"]}))
    return found


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all four panels."""
    rows, repetitions = ROWS[quick], REPETITIONS[quick]
    found = panels(rows)
    title = f"Paper 000, Fig. 3 (002, Fig. 2): assumptions that fail (bilinear link, n = {WIDTH}, r = {RANK})"
    size = f"{repetitions} repetitions, n = {WIDTH}, {rows[0]:,} to {rows[-1]:,} rows"
    curves = measure(found, repetitions, rng, title="jdr-fig3", progress=progress)
    return finish("jdr-fig3", title, found, curves, columns=2, share=True, out=out, size=size, notes=NOTES)
