"""Joint reduction, Fig. 3: what happens when the assumptions of the theory do not hold.

Li, Cheng, Wen and Bresler, "Joint Dimensionality Reduction for Separable Embedding Estimation".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._core import Panel, Point, Result, finish, measure

RANK = 5
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
        found.append(Panel(title, "rows m", points, {MET: -0.5}))
    return found


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all four panels; six repetitions when quick, one hundred otherwise."""
    found = panels(ROWS[quick])
    title = "Joint reduction when assumptions fail (bilinear link, n = 50, r = 5)"
    curves = measure(found, REPETITIONS[quick], rng, title="jdr-fig3", progress=progress)
    return finish("jdr-fig3", title, found, curves, columns=2, share=True, out=out, notes=NOTES)
