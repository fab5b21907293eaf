"""Joint reduction, Fig. 1: error against rows, columns and sparsity, for a bilinear and an RBF link.

Li, Cheng, Wen and Bresler, "Joint Dimensionality Reduction for Separable Embedding Estimation", and Fig. 1 of its earlier version. The
papers print no grid, so the places are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._claims import read_paper
from ._core import Panel, Point, Result, finish, measure

PAPER = read_paper("000").settings
RANK: int = PAPER["rank"]
SLOPES: dict[str, float] = PAPER["slopes"]


@dataclass(frozen=True)
class Grid:
    """Where one model is measured: the four horizontal axes and what is held fixed on each."""

    make: str
    label: str
    rows: tuple[int, ...]
    rows_width: int
    widths: tuple[int, ...]
    widths_rows: int
    selection_rows: tuple[int, ...]
    selection_width: int
    selection_size: int
    sizes: tuple[int, ...]
    sizes_rows: int


FULL = (
    Grid(
        make="make_bilinear",
        label="bilinear",
        rows=(2_000, 4_000, 8_000, 16_000, 32_000, 64_000),
        rows_width=50,
        widths=(40, 60, 80, 100, 120),
        widths_rows=32_000,
        selection_rows=(2_000, 4_000, 8_000, 16_000, 32_000, 64_000),
        selection_width=100,
        selection_size=10,
        sizes=(6, 8, 10, 12, 14, 16),
        sizes_rows=16_000,
    ),
    Grid(
        make="make_rbf",
        label="RBF",
        rows=(32_000, 64_000, 128_000, 256_000, 512_000),
        rows_width=30,
        widths=(20, 30, 40, 60),
        widths_rows=512_000,
        selection_rows=(64_000, 128_000, 256_000, 512_000),
        selection_width=50,
        selection_size=10,
        sizes=(6, 8, 10, 12, 14, 16),
        sizes_rows=256_000,
    ),
)
QUICK = (
    Grid(
        make="make_bilinear",
        label="bilinear",
        rows=(2_000, 8_000, 32_000),
        rows_width=50,
        widths=(40, 80, 120),
        widths_rows=16_000,
        selection_rows=(2_000, 4_000, 8_000, 16_000),
        selection_width=60,
        selection_size=10,
        sizes=(6, 10, 16),
        sizes_rows=16_000,
    ),
    Grid(
        make="make_rbf",
        label="RBF",
        rows=(64_000, 128_000, 256_000),
        rows_width=30,
        widths=(20, 40, 60),
        widths_rows=128_000,
        selection_rows=(64_000, 128_000, 256_000),
        selection_width=30,
        selection_size=10,
        sizes=(6, 10, 16),
        sizes_rows=128_000,
    ),
)
REPETITIONS = {True: 6, False: 20}

NOTES = (
    "Selection: 'paper' factors the thinned proxy of the published algorithm, 'refit' the whole moments there.",
)


def panels(grid: Grid) -> list[Panel]:
    """The four experiments of one model."""
    plain = {"Algorithm 1": {"whiten": None, "moments": "joint"}}
    return [
        Panel(
            f"{grid.label}: rows",
            f"rows m (n = {grid.rows_width})",
            [_point(grid, m, m, grid.rows_width, None, plain) for m in grid.rows],
            {"Algorithm 1": SLOPES["rows"]},
        ),
        Panel(
            f"{grid.label}: columns",
            f"columns per block n (m = {grid.widths_rows // 1000}k)",
            [_point(grid, n, grid.widths_rows, n, None, plain) for n in grid.widths],
            {"Algorithm 1": SLOPES["columns"]},
        ),
        Panel(
            f"{grid.label}: rows, with selection",
            f"rows m (n = {grid.selection_width}, s = {grid.selection_size})",
            [
                _point(
                    grid, m, m, grid.selection_width, grid.selection_size, _selections(grid.selection_size)
                )
                for m in grid.selection_rows
            ],
            {"paper": SLOPES["rows"]},
        ),
        Panel(
            f"{grid.label}: sparsity, with selection",
            f"active columns s (n = {grid.selection_width}, m = {grid.sizes_rows // 1000}k)",
            [_point(grid, s, grid.sizes_rows, grid.selection_width, s, _selections(s)) for s in grid.sizes],
            {"paper": SLOPES["sparsity"]},
        ),
    ]


def _selections(size: int) -> dict[str, Mapping[str, Any]]:
    common = {"whiten": "diagonal", "moments": "joint", "n_selected": size}
    return {"paper": {**common, "selection": "paper"}, "refit": {**common, "selection": "refit"}}


def _point(
    grid: Grid, x: int, rows: int, width: int, active: int | None, estimators: Mapping[str, Mapping[str, Any]]
) -> Point:
    data = {"n_samples": rows, "n_features": width, "n_components": RANK, "n_active": active}
    return Point(x, grid.make, data, {label: ({}, params) for label, params in estimators.items()})


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all eight panels."""
    grids, repetitions = QUICK if quick else FULL, REPETITIONS[quick]
    found = [panel for grid in grids for panel in panels(grid)]
    title = f"Papers 000 and 002, Fig. 1: error against rows, columns and sparsity (r = {RANK})"
    size = f"{repetitions} repetitions, rows up to " + " and ".join(
        f"{max((*g.rows, *g.selection_rows)):,} ({g.label})" for g in grids
    )
    curves = measure(found, repetitions, rng, title="jdr-fig1", progress=progress)
    return finish("jdr-fig1", title, found, curves, columns=4, out=out, size=size, notes=NOTES)
