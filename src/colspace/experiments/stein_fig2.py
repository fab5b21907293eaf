"""Stein's method, Fig. 2: distance to the true directions against rows, three links, three laws (p = 30).

The simulations of the multiple-response paper (q = 20, r = 3). "published" is the plain moment of the right
law's score with parameters estimated; "default" is what SteinReduction does by itself with that score. "network"
is the paper's rival y = O' relu(A' relu(B'x)) with 32 hidden units (Adam, 200 epochs of 200 batches, fewer epochs when
quick), on the first repetitions only; it needs torch.
"""

from __future__ import annotations

from pathlib import Path

from ._core import Result
from ._stein_network import Networks
from ._stein_sim import LAWS, LINKS, PAPER, RANK, RATE, RESPONSES, Setting, study

WIDTH: int = PAPER["columns"][0]
ROWS = {True: (300, 1_000, 3_000, 9_000), False: tuple(PAPER["rows"])}
REPETITIONS = {True: 11, False: 25}
NETWORKS = {True: Networks(2, (300, 9_000), 15), False: Networks(2, (300, 3_000, 9_000))}

NOTES = (
    f"Medians; the dotted line has the theorems' rate {RATE:g} through the last point of the first order's default.",
    f"Distances cannot exceed sqrt(2 r) = {(2 * RANK) ** 0.5:.2f}.",
    "Linear links have no second derivatives: the second order is left out there.",
)


def settings() -> list[Setting]:
    """The nine panels."""
    return [Setting(law, links, WIDTH) for links in LINKS for law in LAWS]


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure all nine panels."""
    title = f"Paper 001, Fig. 2: distance (3.1) against rows (p = {WIDTH}, q = {RESPONSES}, r = {RANK})"
    sizes = ROWS[quick], REPETITIONS[quick], NETWORKS[quick]
    return study(
        "stein-fig2", title, settings(), *sizes, NOTES, columns=3, rng=rng, out=out, progress=progress
    )
