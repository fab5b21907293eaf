"""Stein's method, Fig. 2: distance to the true directions against rows, three links, three laws (p = 30).

The simulations of the multiple-response paper (q = 20, r = 3). "published" is the plain moment of the right
law's score with parameters estimated; "default" is what SteinReduction does by itself with that score. "network"
is the paper's rival y = O' relu(A' relu(B'x)) with 32 hidden units (Adam, 200 epochs of 200 batches), on the first
repetitions only; it needs torch.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ._core import Result
from ._stein_sim import LAWS, Links, Setting, finish, measure

WIDTH = 30
LINKS: tuple[Links, ...] = ("linear", "cyclic", "random")
ROWS = {True: (300, 1_000, 3_000, 9_000), False: (300, 500, 1_000, 3_000, 5_000, 7_000, 9_000)}
REPETITIONS = {True: 11, False: 100}
NETWORKS = {True: 3, False: 20}

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
    networks = NETWORKS[quick] if find_spec("torch") is not None else 0
    lines = measure(
        settings(),
        ROWS[quick],
        REPETITIONS[quick],
        rng,
        title="stein-fig2",
        progress=progress,
        networks=networks,
    )
    last = (
        f"The network is trained on the first {networks} repetitions."
        if networks
        else "Without torch (pip install torch) the network is left out."
    )
    return finish("stein-fig2", title, settings(), lines, 3, out, (*NOTES, last))
