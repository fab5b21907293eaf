"""Joint reduction, Fig. 5: odd, even and additive links, with joint, Hessian and all moments.

Li, Cheng, Wen and Bresler, "Joint Dimensionality Reduction for Separable Embedding Estimation". The
additive link and the curve with all moments are not in the paper.
"""

from __future__ import annotations

from pathlib import Path

from ._core import Estimators, Panel, Point, Result, finish, measure

WIDTH = 50
ROWS = {True: (2_000, 8_000, 32_000), False: (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)}
REPETITIONS = {True: 6, False: 100}

#: Panel -> generator and rank.
LINKS = {
    "odd link (bilinear)": ("make_bilinear", 5),
    "even link (squares)": ("make_even", 5),
    "additive link": ("make_additive", 1),
}
#: Curve -> moments of JointReduction.
MOMENTS = {"joint (JDR)": "joint", "Hessian (pHd per block)": "hessian", "all (default)": "all"}

NOTES = (
    "One estimator, all moments, is good on every link; joint moments alone miss even and additive links.",
)


def panels(rows: tuple[int, ...]) -> list[Panel]:
    """One panel per link."""
    estimators: Estimators = {label: ({}, {"moments": moments}) for label, moments in MOMENTS.items()}
    return [
        Panel(
            title,
            "rows m",
            [
                Point(m, make, {"n_samples": m, "n_features": WIDTH, "n_components": rank}, estimators)
                for m in rows
            ],
        )
        for title, (make, rank) in LINKS.items()
    ]


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all three panels; six repetitions when quick, one hundred otherwise."""
    found = panels(ROWS[quick])
    title = "Odd, even and additive links (n = 50 columns per block)"
    curves = measure(found, REPETITIONS[quick], rng, title="jdr-fig5", progress=progress)
    return finish("jdr-fig5", title, found, curves, columns=3, share=True, out=out, notes=NOTES)
