"""A law learned from residuals: quantiles, shares and means in place of those of the normal law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_KEPT = 400  # quantiles that are kept
_BAND = 0.3  # about each residual, of a unit variance
_LEAST = 1e-12  # density of what no residual is near
_ROOT = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class ResidualLaw:
    """Standardised residuals at shares of the cells, both increasing."""

    share: Array
    at: Array

    def quantile(self, share: Array | float) -> Array:
        """The residual below which a share lies."""
        return np.asarray(np.interp(share, self.share, self.at))

    def below(self, at: Array) -> Array:
        """Share below a residual."""
        return np.asarray(np.interp(at, self.at, self.share, left=0.0, right=1.0))

    def some(self, _: Any) -> ResidualLaw:
        """That of some of the cells: all have the same."""
        return self

    def log_density(self, at: Array) -> Array:
        """Of a mixture about the residuals, of their variance."""
        nodes = self.nodes * np.sqrt(1.0 - _BAND**2)
        told = np.mean(np.exp(-0.5 * ((at[:, None] - nodes) / _BAND) ** 2), axis=1)
        return np.asarray(np.log(np.maximum(told, _LEAST)) - np.log(_BAND) - _ROOT)

    @property
    def nodes(self) -> Array:
        """Residuals of equal weight."""
        return self.quantile((np.arange(64) + 0.5) / 64)

    @property
    def variance(self) -> float:
        """That of standardised residuals."""
        return 1.0


def residual_law(residual: Array, weight: Array) -> tuple[ResidualLaw, float]:
    """The law of residuals over their root mean square, and that root.

    The i-th of m has the share i / (m + 1): a new residual is beyond the largest once in m + 1.
    """
    scale = float(np.sqrt(np.average(residual**2, weights=weight))) or 1.0
    order = np.argsort(residual, kind="stable")
    at, after = residual[order] / scale, np.cumsum(weight[order])
    m = len(at)
    share = (after - 0.5 * weight[order]) / after[-1]
    share = 0.5 + (share - 0.5) * (m / (m + 1.0))
    if m > _KEPT:
        grid = 0.5 * (1.0 - np.cos(np.pi * (np.arange(_KEPT) + 0.5) / _KEPT))
        at, share = np.interp(grid, share, at), grid
    return ResidualLaw(share, at), scale
