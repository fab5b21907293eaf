"""Stein's method, Figs. S1-S4: the simulations of Fig. 2 with 30, 50, 80 and 100 columns.

The network rival is in `stein-fig2` only.
"""

from __future__ import annotations

from pathlib import Path

from ._core import Result
from ._stein_sim import LAWS, Links, Setting, finish, measure

WIDTHS = (30, 50, 80, 100)
LINKS: dict[bool, tuple[Links, ...]] = {True: ("cyclic",), False: ("linear", "cyclic", "random")}
ROWS = {True: (1_000, 3_000, 9_000), False: (300, 500, 1_000, 3_000, 5_000, 7_000, 9_000)}
REPETITIONS = {True: 5, False: 100}

NOTES = (
    "Medians; the dotted line has the theorems' rate -1/2 through the last point of the first order's default.",
    "More columns move every line to the right; the default of the first order keeps its rate from n = 10 p on.",
)


def settings(quick: bool) -> list[Setting]:
    """Twelve panels when quick, thirty-six otherwise."""
    return [Setting(law, links, width) for links in LINKS[quick] for width in WIDTHS for law in LAWS]


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all panels; five repetitions when quick, one hundred otherwise."""
    found = settings(quick)
    title = "Stein's method: distance (3.1) against rows and columns (q = 20, r = 3)"
    lines = measure(found, ROWS[quick], REPETITIONS[quick], rng, title="stein-s", progress=progress)
    return finish("stein-s", title, found, lines, 3, out, NOTES)
