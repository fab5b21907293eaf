"""Joint reduction, Fig. 5: odd, even and additive links, with joint, Hessian and all moments.

Li, Cheng, Wen and Bresler, "Joint Dimensionality Reduction for Separable Embedding Estimation". The additive link, the
curve with all moments, SIR and SAVE of each block, and pHd and SAVE of the two blocks side by side (2r directions, of
which each block takes the r of largest singular value) are not in the figure; the papers speak of them in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reduction import PrincipalHessian, SlicedAverage, SlicedInverse
from ._claims import read_paper
from ._core import Estimators, Fit, Panel, Point, Result, finish, measure

Array = NDArray[np.float64]

PAPER = read_paper("000").settings
WIDTH = 50
ROWS = {True: (2_000, 8_000, 32_000), False: (2_000, 4_000, 8_000, 16_000, 32_000, 64_000)}
REPETITIONS = {True: 6, False: 60}

#: Panel -> generator and rank.
LINKS = {
    "odd link (bilinear)": ("make_bilinear", PAPER["rank"]),
    "even link (squares)": ("make_even", PAPER["rank"]),
    "additive link": ("make_additive", 1),
}
JOINT, HESSIAN = "joint (JDR)", "Hessian (pHd per block)"


def per_block(reduction: type) -> Fit:
    """A reduction of each block by itself."""

    def fit(X: Array, y: Array, blocks: Mapping[str, Any], rank: int) -> dict[str, Array]:
        model = reduction(rank, shrinkage=None, n_groups=None)
        return {name: model.fit(X[:, columns], y).components_.T for name, columns in blocks.items()}

    return fit


def side_by_side(reduction: type) -> Fit:
    """A reduction of all columns to 2r directions; each block's part has rank r up to noise."""

    def fit(X: Array, y: Array, blocks: Mapping[str, Any], rank: int) -> dict[str, Array]:
        W = reduction(2 * rank, shrinkage=None, n_groups=None).fit(X, y).components_.T
        return {
            name: np.linalg.svd(W[columns], full_matrices=False)[0][:, :rank]
            for name, columns in blocks.items()
        }

    return fit


ESTIMATORS: Estimators = {
    JOINT: ({}, {"moments": "joint"}),
    HESSIAN: ({}, {"moments": "hessian"}),
    "SIR per block": ({}, per_block(SlicedInverse)),
    "SAVE per block": ({}, per_block(SlicedAverage)),
    "pHd of both blocks": ({}, side_by_side(PrincipalHessian)),
    "SAVE of both blocks": ({}, side_by_side(SlicedAverage)),
    "all moments": ({}, {"moments": "all"}),
}


def panels(rows: tuple[int, ...]) -> list[Panel]:
    """One panel per link."""
    return [
        Panel(
            title,
            "rows m",
            [
                Point(m, make, {"n_samples": m, "n_features": WIDTH, "n_components": rank}, ESTIMATORS)
                for m in rows
            ],
        )
        for title, (make, rank) in LINKS.items()
    ]


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all three panels."""
    rows, repetitions = ROWS[quick], REPETITIONS[quick]
    found = panels(rows)
    title = f"Paper 000, Fig. 5 (002, Fig. 3): odd and even links, and an additive one (n = {WIDTH})"
    size = f"{repetitions} repetitions, n = {WIDTH}, {rows[0]:,} to {rows[-1]:,} rows"
    curves = measure(found, repetitions, rng, title="jdr-fig5", progress=progress)
    return finish("jdr-fig5", title, found, curves, columns=3, share=True, out=out, size=size)
