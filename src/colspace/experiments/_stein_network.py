"""The network that rivals Stein's method in the simulations of the multiple-response paper; needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._claims import read_paper

Array = NDArray[np.float64]

PAPER = read_paper("001").settings["network"]
HIDDEN: int = PAPER["hidden"]
EPOCHS: int = PAPER["epochs"]
BATCHES = round(1 / PAPER["batch_share"])


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread for a while: small networks are slower on several."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def network_directions(X: Array, Y: Array, rank: int, seed: int, epochs: int) -> Array:
    """The paper's network y = O' relu(A' relu(B'x)) on many data sets of one shape at once: B of each, orthonormal.

    Adam and the start of its weights have PyTorch's default parameters.

    Parameters
    ----------
    X, Y : arrays (data sets, n, p) and (data sets, n, q).
    """
    import torch

    tables, n, p = X.shape
    source = torch.Generator().manual_seed(seed)
    shapes = ((p, rank), (rank, HIDDEN), (HIDDEN, Y.shape[2]))
    weights = [
        ((2 * torch.rand(tables, *shape, generator=source) - 1) / shape[0] ** 0.5).requires_grad_()
        for shape in shapes
    ]
    x, y = (torch.tensor(A, dtype=torch.float32) for A in (X, Y))
    optimiser = torch.optim.Adam(weights, fused=True)
    with one_thread():
        for _ in range(epochs):
            for rows in torch.randperm(n, generator=source).split(-(-n // BATCHES)):
                fitted = ((x[:, rows] @ weights[0]).relu() @ weights[1]).relu() @ weights[2]
                optimiser.zero_grad()
                (((fitted - y[:, rows]) ** 2).sum() / len(rows)).backward()
                optimiser.step()
    bases: Array = np.linalg.qr(weights[0].detach().double().numpy())[0]
    return bases


@dataclass(frozen=True)
class Networks:
    """How much the network is trained: on the first repetitions, with these numbers of rows, for so many epochs."""

    repetitions: int
    rows: tuple[int, ...]
    epochs: int = EPOCHS

    def note(self) -> str:
        """In words."""
        if not self.repetitions:
            return "Without torch (pip install torch) the network is left out."
        return f"The network is trained on the first {self.repetitions} repetitions, {self.epochs} epochs."
