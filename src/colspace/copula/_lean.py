"""Between the median and the mean: how far the squared errors of known cells ask to go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._residual_law import ResidualLaw
from ._values import Column

Array = NDArray[np.float64]

_PRIOR = 4.0  # squared standard errors that speak for the mean


def lean_of(off: Array, told: Array, weight: Array, prior: float = 1.0) -> float:
    """How far to go from the median to the mean: from squares of ``off``, x less the median, and ``told``, the mean less it.

    The regression of off on told in units of the errors, with the weight of four squared standard errors at ``prior``; 0 to 1.
    """
    unit = float(weight @ off**2) / max(float(weight.sum()), 1e-300)
    if not 0 < unit < np.inf:
        return prior
    up, down = float(weight @ (off * told)) / unit, float(weight @ told**2) / unit
    return float(np.clip((up + _PRIOR * prior) / (down + _PRIOR), 0.0, 1.0))


def beside_median(
    column: Column, mean: Array, sd: Array, x: Array, law: ResidualLaw | None = None
) -> tuple[Array, Array]:
    """Of cells with their latent laws: x less the median, and the mean less the median."""
    median = column.values(mean)
    return x - median, column.expectation(mean, sd, None, law) - median
