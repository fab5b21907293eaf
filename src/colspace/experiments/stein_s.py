"""Stein's method, Figs. S1-S4: the simulations of Fig. 2 with 30, 50, 80 and 100 columns, and the rate in the columns."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ._core import Result
from ._stein_sim import (
    LAWS,
    LINKS,
    PAPER,
    RANK,
    RATE,
    RESPONSES,
    Networks,
    Setting,
    finish,
    measure,
)

WIDTHS: tuple[int, ...] = tuple(PAPER["columns"])
ROWS = {True: (1_000, 9_000), False: tuple(PAPER["rows"])}
REPETITIONS = {True: 2, False: 5}
NETWORKS = {True: Networks(1, (9_000,), 5), False: Networks(1, (9_000,))}

NOTES = (
    f"Medians; the dotted line has the theorems' rate {RATE:g} through the last point of the first order's default.",
)


def settings() -> list[Setting]:
    """Thirty-six panels."""
    return [Setting(law, links, width) for links in LINKS for width in WIDTHS for law in LAWS]


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all panels."""
    found = settings()
    title = f"Paper 001, Figs. S1-S4: distance (3.1) against rows and columns (q = {RESPONSES}, r = {RANK})"
    networks = NETWORKS[quick] if find_spec("torch") is not None else Networks(0, ())
    rows, repetitions = ROWS[quick], REPETITIONS[quick]
    size = (
        f"{repetitions} repetitions ({networks.repetitions} of the network), {rows[0]:,} to {rows[-1]:,} rows"
    )
    lines = measure(found, rows, repetitions, rng, title="stein-s", progress=progress, networks=networks)
    return finish("stein-s", title, found, lines, 6, out, (*NOTES, networks.note()), size)
