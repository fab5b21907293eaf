"""Stein's method, Figs. S1-S4: the simulations of Fig. 2 with 30, 50, 80 and 100 columns, and the rate in the columns."""

from __future__ import annotations

from pathlib import Path

from ._core import Result
from ._stein_network import Networks
from ._stein_sim import LAWS, LINKS, PAPER, RANK, RATE, RESPONSES, Setting, study

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
    title = f"Paper 001, Figs. S1-S4: distance (3.1) against rows and columns (q = {RESPONSES}, r = {RANK})"
    sizes = ROWS[quick], REPETITIONS[quick], NETWORKS[quick]
    return study("stein-s", title, settings(), *sizes, NOTES, columns=6, rng=rng, out=out, progress=progress)
