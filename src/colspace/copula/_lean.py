"""Between the median and the mean: how far the squared errors of known cells ask to go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._residual_law import ResidualLaw
from ._tails import StudentLaw
from ._values import Column

Array = NDArray[np.float64]

_PRIOR = 4.0  # squared standard errors that speak for the mean


def in_units(off: Array, told: Array, weight: Array) -> tuple[Array, Array] | None:
    """Both over the root mean square of ``off``, at whatever size squares stay finite; None where there are no errors."""
    most = max(float(np.abs(off).max(initial=0.0)), float(np.abs(told).max(initial=0.0)))
    if not 0 < most < np.inf:
        return None
    off, told = off / most, told / most
    unit = float(np.sqrt((weight @ off**2) / max(float(weight.sum()), 1e-300)))
    return (off / unit, told / unit) if unit > 1e-100 else None


def lean_of(off: Array, told: Array, weight: Array, prior: float = 1.0) -> float:
    """How far to go from the median to the mean: from squares of ``off``, x less the median, and ``told``, the mean less it.

    The regression of off on told in units of the errors, with the weight of four squared standard errors at ``prior``; 0 to 1.
    """
    found = in_units(off, told, weight)
    if found is None:
        return prior
    off, told = found
    up, down = float(weight @ (off * told)), float(weight @ told**2)
    return float(np.clip((up + _PRIOR * prior) / (down + _PRIOR), 0.0, 1.0))


def beside_median(
    column: Column, mean: Array, sd: Array, x: Array, law: ResidualLaw | StudentLaw | None = None
) -> tuple[Array, Array]:
    """Of cells with their latent laws: x less the median, and the mean less the median."""
    median = column.values(mean)
    return x - median, column.expectation(mean, sd, None, law) - median
