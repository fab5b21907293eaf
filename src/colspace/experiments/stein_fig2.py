"""Stein's method, Fig. 2: distance to the true directions against rows, three links, three laws (p = 30).

The simulations of the multiple-response paper (q = 20, r = 3). "published" is the plain moment of the right
law's score with parameters estimated; "default" is what SteinReduction does by itself with that score. The
paper's network rival is left out.
"""

from __future__ import annotations

from pathlib import Path

from ._core import Result
from ._stein_sim import LAWS, Links, Setting, finish, measure

WIDTH = 30
LINKS: tuple[Links, ...] = ("linear", "cyclic", "random")
ROWS = {True: (300, 1_000, 3_000, 9_000), False: (300, 500, 1_000, 3_000, 5_000, 7_000, 9_000)}
REPETITIONS = {True: 11, False: 100}

NOTES = (
    "Medians; the dotted line has the theorems' rate -1/2 through the last point of the first order's default.",
    "Steeper rates are the way out of the range where nothing is found: distances cannot exceed sqrt(2 r) = 2.45.",
    "Linear links have no second derivatives, so the second order has nothing to find there.",
)


def settings() -> list[Setting]:
    """The nine panels."""
    return [Setting(law, links, WIDTH) for links in LINKS for law in LAWS]


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all nine panels; eleven repetitions when quick, one hundred otherwise."""
    title = f"Stein's method: distance (3.1) against rows (p = {WIDTH}, q = 20, r = 3)"
    lines = measure(settings(), ROWS[quick], REPETITIONS[quick], rng, title="stein-fig2", progress=progress)
    return finish("stein-fig2", title, settings(), lines, 3, out, NOTES, REPETITIONS[quick])
