"""From the latent scale to values and back, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ._marginals import STEPPED, Chain

Array = NDArray[np.float64]

_TAIL, _FEWEST = 1.5, 8  # knots beyond this |z|, at least so many, tell how a tail goes on
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Tail:
    """x = end_x + side * scale * (|z|^power - |end_z|^power) beyond the last knot."""

    side: float
    end_x: float
    end_z: float
    scale: float
    power: float

    def value(self, z: Array) -> Array:
        """Values beyond the last knot."""
        reach = np.maximum(self.side * z, abs(self.end_z)) ** self.power - abs(self.end_z) ** self.power
        return self.end_x + self.side * self.scale * reach

    def latent(self, x: Array) -> Array:
        """Latent values of x beyond the last knot."""
        reach = np.maximum(self.side * (x - self.end_x), 0.0) / self.scale + abs(self.end_z) ** self.power
        return self.side * reach ** (1.0 / self.power)


@dataclass(frozen=True)
class Column:
    """g of one column: values at nodes, and levels."""

    kind: str
    z: Array
    x: Array
    levels: Array

    @cached_property
    def tails(self) -> tuple[Tail | None, Tail | None]:
        """How the values go on below and above those seen (None: a limit ends them)."""
        lower = None if self.kind in ("lower", "two-sided") else _tail(self.z, self.x, -1.0)
        upper = None if self.kind in ("upper", "two-sided") else _tail(self.z, self.x, 1.0)
        return lower, upper

    def values(self, z: Array) -> Array:
        """g(z)."""
        if self.kind in STEPPED:
            return self.levels[np.searchsorted(self.z, z, side="left")]
        out = np.interp(z, self.z, self.x)
        for side, beyond in enumerate((z < self.z[0], z > self.z[-1])):
            if beyond.any() and (tail := self.tails[side]) is not None:
                out[beyond] = tail.value(z[beyond])
        return out

    def latent(self, x: Array) -> Array:
        """g^-1(x) of values that are known exactly."""
        out = np.interp(x, self.x, self.z)
        for side, beyond in enumerate((x < self.x[0], x > self.x[-1])):
            if beyond.any() and (tail := self.tails[side]) is not None:
                out[beyond] = tail.latent(x[beyond])
        return out

    def log_slope(self, x: Array) -> Array:
        """log dz/dx of values that are known exactly, from the knots about them."""
        last = len(self.x) - 1
        if last < 1:
            return np.zeros(len(x))
        below = np.clip(np.searchsorted(self.x, x, side="left") - 1, 0, last - 1)
        above = np.clip(np.searchsorted(self.x, x, side="right"), 1, last)
        slope = (self.z[above] - self.z[below]) / (self.x[above] - self.x[below])
        for side, beyond in enumerate((x < self.x[0], x > self.x[-1])):
            if beyond.any() and (tail := self.tails[side]) is not None:
                reach = np.abs(tail.latent(x[beyond]))
                slope[beyond] = 1.0 / (tail.scale * tail.power * reach ** (tail.power - 1.0))
        return np.log(np.maximum(slope, np.finfo(float).tiny))

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest value seen."""
        seen = np.concatenate([self.x[~np.isnan(self.x)], self.levels])
        return float(seen.min()), float(seen.max())

    def probabilities(self, mean: Array, sd: Array) -> Array:
        """Probability of every level under N(mean, sd^2)."""
        inner = ndtr((self.z - mean[:, None]) / sd[:, None])
        edges = np.column_stack([np.zeros(len(mean)), inner, np.ones(len(mean))])
        return np.diff(edges, axis=1)

    def expectation(self, mean: Array, sd: Array, clip: tuple[float, float] | None) -> Array:
        """E[g(z)] under N(mean, sd^2): exact for levels, by Gauss-Hermite nodes otherwise."""
        if self.kind in STEPPED:
            return self.probabilities(mean, sd) @ self.levels
        out = np.zeros(len(mean))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            x = self.values(mean + node * sd)
            out += weight * (x if clip is None else np.clip(x, *clip))
        return out


def column_of(chain: Chain, j: int) -> Column:
    """g of column j."""
    nodes = chain.nodes(j)
    return Column(chain.kinds[j], chain.z[nodes], chain.x[nodes], chain.level_value[chain.levels(j)])


def _tail(z: Array, x: Array, side: float) -> Tail:
    """|x - median| = scale |z|^power by least squares of logarithms, else the slope of all knots."""
    end = -1 if side > 0 else 0
    middle = float(np.interp(0.0, z, x))
    far = (
        slice(int(z.searchsorted(_TAIL, "right")), None)
        if side > 0
        else slice(0, int(z.searchsorted(-_TAIL)))
    )
    far_z, far_x = side * z[far], side * (x[far] - middle)
    if len(far_z) >= _FEWEST and far_x.min() > 0:
        log_z, log_x = np.log(far_z), np.log(far_x)
        centre = log_z.sum() / len(log_z)
        centred = log_z - centre
        power = min(max(float(centred @ log_x / (centred @ centred)), 0.1), 10.0)
        scale = float(np.exp(log_x.sum() / len(log_x) - power * centre))
        return Tail(side, float(x[end]), float(z[end]), scale, power)
    spread = float(z[-1] - z[0])
    slope = float(x[-1] - x[0]) / spread if spread > 0 else 1.0
    # linear: power one, about an end on the right side of zero
    return Tail(side, float(x[end]), float(z[end]) if side * z[end] > 0 else 0.0, max(slope, 1e-300), 1.0)


@dataclass(frozen=True)
class EmpiricalColumn(Column):
    """g of the paper: the empirical quantile of Phi(z), ``at`` being reached at shares ``position``."""

    position: Array
    at: Array

    def values(self, z: Array) -> Array:
        """g(z)."""
        return np.interp(ndtr(z), self.position, self.at)


def empirical_column(chain: Chain, j: int, x: Array, count: Array) -> Column:
    """g of column j from its distinct values and counts."""
    plain = column_of(chain, j)
    if plain.kind in STEPPED:
        return plain
    after = np.cumsum(count)
    position = np.column_stack([after - count, after - 1]).ravel() / max(float(after[-1] - 1), 1.0)
    return EmpiricalColumn(plain.kind, plain.z, plain.x, plain.levels, position, np.repeat(x, 2))
