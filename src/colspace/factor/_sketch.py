"""Range finding for matrices known only through products (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._linalg import svd
from ._svd import fix_signs

Array = NDArray[np.float64]


def gaussian_sketch(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """A Gaussian test matrix."""
    return rng.standard_normal((rows, columns))


def count_sketch(rows: int, columns: int, rng: np.random.Generator) -> sparse.csr_array:
    """One random sign per row in a random column: applying it costs one addition per entry."""
    bucket = rng.integers(columns, size=rows)
    sign = rng.choice([-1.0, 1.0], size=rows)
    return sparse.csr_array((sign, (np.arange(rows), bucket)), shape=(rows, columns))


def factor_by_products(
    forward: Callable[[list[Any]], list[Array]],
    adjoint: Callable[[list[Array]], list[Array]],
    sketches: Sequence[Any],
    r: int,
    n_power: int,
    width: int,
) -> list[tuple[Array, Array, Array]]:
    """Rank-r factors (U, s, V) of several matrices M_b at once, each seen only through products.

    ``forward(list of S_b)`` gives M_b S_b and ``adjoint(list of Q_b)`` gives M_b' Q_b; each call is one
    pass over the data, however many matrices there are. ``n_power`` power iterations,
    re-orthonormalised on both sides, sharpen the range; 0 is the algorithm as printed. A sketch wider
    than ``width`` (a count sketch needs more columns) is cut to its leading directions first.
    """
    Q = [_leading(Z, width) for Z in forward(list(sketches))]
    for _ in range(n_power):
        P = [np.linalg.qr(Z)[0] for Z in adjoint(Q)]
        Q = [np.linalg.qr(Z)[0] for Z in forward(list(P))]
    factors = []
    for basis, small in zip(Q, adjoint(Q), strict=True):
        V, s, Ut = svd(small)
        U = basis @ Ut[:r].T
        signs = np.sign(np.sum(fix_signs(U) * U, axis=0))
        factors.append((U * signs, s[:r], V[:, :r] * signs))
    return factors


def _leading(Z: Array, width: int) -> Array:
    """Orthonormal basis of the range of Z, or of its ``width`` leading directions."""
    if Z.shape[1] <= width:
        return np.linalg.qr(Z)[0]
    return svd(Z)[0][:, :width]
