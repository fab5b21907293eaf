"""The parts of ``moments="auto"`` stacked by what each explains, and the directions that lead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..factor import break_ties, eigh
from ._ridge import Ridge

Array = NDArray[np.float64]

# directions that weigh less than this share of the strongest are noise: the order of PCA is the better guess
_FILL = 0.01


def leading_loadings(G: Array, ridge: Ridge, r: int) -> tuple[Array, Array]:
    """Directions for the block's columns and roots of the eigenvalues, from a matrix in whitened coordinates."""
    found, U = eigh(G)
    U = break_ties(found[::-1], U[:, ::-1], r, np.diag(ridge.axes.values))
    return ridge.axes.map @ (U / ridge.root[:, None]), np.sqrt(np.maximum(found[::-1][:r], 0.0))


def stack(
    linear: Array,
    gradients: Array | None,
    v_kernel: float,
    moments: Array | None,
    v_moments: float,
    spread: Array,
) -> Array:
    r"""G = G_L + 2 (v_K^2 G_K + v_H^2 G_H)/(v_K + v_H), plus |G|/100 diag(eigenvalues / largest).

    A component of degree k under a Gaussian law has k times its variance as gradient energy: hence the 2. The last
    term fills with the order of PCA where nothing speaks.
    """
    G = weighed(linear, gradients, v_kernel, moments, v_moments)
    return filled(G, fill_weight(G), spread)


def weighed(
    linear: Array, gradients: Array | None, v_kernel: float, moments: Array | None, v_moments: float
) -> Array:
    """``stack`` without its last term."""
    G = linear.copy()
    both = v_kernel + v_moments
    if both > 0:
        if gradients is not None:
            G += 2 * v_kernel**2 / both * gradients
        if moments is not None:
            G += 2 * v_moments**2 / both * moments
    return G


def fill_weight(G: Array) -> float:
    """|G|/100, or 1/100 where G is zero."""
    strongest = float(eigh(G, 1)[0][-1])
    return _FILL * (strongest if strongest > 0 else 1.0)


def filled(G: Array, weight: float, spread: Array) -> Array:
    """``stack`` from what ``weighed`` gives."""
    return G + weight * np.diag(spread / spread.max())
