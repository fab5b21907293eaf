"""From the latent scale to values and back, column by column."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ._lookup import Lookup
from ._marginals import STEPPED, Chain
from ._residual_law import ResidualLaw
from ._tails import StudentLaw, log_density, log_steepness, normal_scores, student_scores

Array = NDArray[np.float64]

_ROOT = float(np.sqrt(2 * np.pi))
_TAIL, _FEWEST = 1.5, 8  # knots beyond this |z|, at least so many, tell how a tail goes on
_LARGEST = 1e305  # of a value that goes on beyond those seen, so that differences stay finite
_FARTHEST = 1e100  # latent value, whose square is finite
_TINY = float(np.finfo(float).tiny)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_AT_ONCE = 1 << 14  # values at nodes of cells
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Tail:
    """|x - middle| = scale |z|^power: how the values go on beyond the last knot, at ``end`` on the latent scale."""

    side: float
    end: float
    middle: float
    scale: float
    power: float
    fitted: bool

    def law(self, z: Array) -> Array:
        """The power law at |z|."""
        return self.middle + self.side * self.scale * np.abs(z) ** self.power

    def value(self, z: Array, end_x: float) -> Array:
        """Values beyond the last knot, which has the value ``end_x``."""
        with np.errstate(over="ignore"):
            reach = np.maximum(self.side * z, self.end) ** self.power - self.end**self.power
            return np.clip(end_x + self.side * self.scale * reach, -_LARGEST, _LARGEST)

    def latent(self, x: Array, end_x: float) -> Array:
        """Latent values of x beyond the last knot."""
        with np.errstate(over="ignore"):
            reach = np.maximum(self.side * (x - end_x), 0.0) / self.scale + self.end**self.power
            return self.side * np.minimum(reach ** (1.0 / self.power), _FARTHEST)


@dataclass(frozen=True)
class Column:
    """g of one column: values at nodes, levels, and the variance of a node's place times its density.

    z is on the scale of Student's t with ``df`` degrees of freedom, infinite: normal.
    """

    kind: str
    z: Array
    x: Array
    levels: Array
    wobble: float
    df: float = field(default=np.inf, kw_only=True)

    @cached_property
    def tails(self) -> tuple[Tail | None, Tail | None]:
        """How the values go on below and above those seen (None: a limit ends them)."""
        middle = float(np.interp(0.0, self.z, self.x))
        lower = None if self.kind in ("lower", "two-sided") else _tail(self.z, self.x, middle, -1.0)
        upper = None if self.kind in ("upper", "two-sided") else _tail(self.z, self.x, middle, 1.0)
        return lower, upper

    @cached_property
    def curve(self) -> Array:
        """Values at the nodes, the far ones drawn to the power law of their tail as far as they differ by chance."""
        x = self.x.copy()
        for tail in self.tails:
            if tail is not None and tail.fitted and self.wobble > 0:
                far = _far(self.z, tail.side)
                reach = tail.side * self.z[far]
                law = tail.law(reach)
                off = law - x[far]
                slope = np.maximum(tail.power * np.abs(law - tail.middle) / reach, _TINY)
                # cells that hardly weigh, or are far beyond a law
                with np.errstate(over="ignore", invalid="ignore"):
                    chance = self.wobble * self.looseness(reach)
                    lack = float(np.nansum((off / slope) ** 2 / chance)) / len(off)
                x[far] += np.minimum(reach - _TAIL, 1.0) * (off / max(lack, 1.0))
        return np.maximum.accumulate(x)

    def looseness(self, z: Array) -> Array:
        """Variance of the place of a node at z, in units of ``wobble``: 1 over the normal density, times the squared slope of z."""
        if np.isinf(self.df):
            out = np.clip(z, -37.0, 37.0)
            out *= out
            out *= 0.5
            np.exp(out, out=out)
            out *= _ROOT
            return out
        return np.asarray(np.exp(np.minimum(log_steepness(z, self.df) - log_density(z, self.df), 700.0)))

    def with_tails(self, df: float) -> Column:
        """The column on the scale of Student's t."""
        return replace(self, z=student_scores(self.z, df), df=df)

    @property
    def span(self) -> float:
        """From the first to the last node on the normal scale."""
        ends = self.z[[0, -1]]
        low, high = ends if np.isinf(self.df) else normal_scores(ends, self.df)
        return float(high - low)

    @cached_property
    def edges(self) -> Array:
        """Ends of the levels on the latent scale."""
        return np.concatenate([[-np.inf], self.z, [np.inf]])

    @cached_property
    def _lookup(self) -> Lookup:
        """``curve`` between the nodes."""
        return Lookup(self.z, self.curve)

    @cached_property
    def _latent_lookup(self) -> Lookup:
        """z between the values of the nodes."""
        return Lookup(self.x, self.z)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if not isinstance(value, Lookup)}
        kept.pop("edges", None)
        return kept

    def values(self, z: Array) -> Array:
        """g(z)."""
        if self.kind in STEPPED:
            return self.levels[np.searchsorted(self.z, z, side="left")]
        out = self._lookup(z)
        for side, beyond in enumerate((z < self.z[0], z > self.z[-1])):
            if beyond.any() and (tail := self.tails[side]) is not None:
                out[beyond] = tail.value(z[beyond], float(self.curve[-side]))
        return out

    def latent(self, x: Array, *, smooth: bool = False) -> Array:
        """g^-1(x); ``smooth``: of the curve that ``values`` follows, else of the knots themselves."""
        knots = self.curve if smooth else self.x
        tiny = max(abs(knots[0]), abs(knots[-1])) < 1e-200
        with np.errstate(over="ignore"):  # slopes between values as small as float64 has overflow
            if smooth or tiny:
                lift = 2.0**600 if tiny else 1.0
                out = np.interp(x * lift, knots * lift, self.z)
            else:
                out = self._latent_lookup(x)
        for side, beyond in enumerate((x < knots[0], x > knots[-1])):
            if beyond.any() and (tail := self.tails[side]) is not None:
                out[beyond] = tail.latent(x[beyond], float(knots[-side]))
        return out

    def log_slope(self, x: Array) -> Array:
        """log dz/dx of values that are known exactly, from the knots about them."""
        last = len(self.x) - 1
        if last < 1:
            return np.zeros(len(x))
        below = np.clip(np.searchsorted(self.x, x, side="left") - 1, 0, last - 1)
        above = np.clip(np.searchsorted(self.x, x, side="right"), 1, last)
        rise, run = self.z[above] - self.z[below], self.x[above] - self.x[below]
        slope = np.log(np.maximum(rise, _TINY)) - np.log(run)
        for side, beyond in enumerate((x < self.x[0], x > self.x[-1])):
            if beyond.any() and (tail := self.tails[side]) is not None:
                reach = np.abs(tail.latent(x[beyond], float(self.x[-side])))
                slope[beyond] = -np.log(tail.scale * tail.power) - (tail.power - 1.0) * np.log(reach)
        return slope

    def around(self, x: Array, d: float) -> tuple[Array, Array]:
        """Ends on the latent scale of the values within d of x = g(z)."""
        low, high = self.latent(x - d, smooth=True), self.latent(x + d, smooth=True)
        if self.tails[0] is None:
            low = np.where(x - d <= self.x[0], -np.inf, low)
        if self.tails[1] is None:
            high = np.where(x + d >= self.x[-1], np.inf, high)
        return low, high

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

    def expectation(
        self,
        mean: Array,
        sd: Array,
        clip: tuple[float, float] | None,
        law: ResidualLaw | StudentLaw | None = None,
    ) -> Array:
        """E[g(z)] under N(mean, sd^2), or a ``law`` of that size: exact for levels, by Gauss-Hermite nodes otherwise."""
        if self.kind in STEPPED:
            return self.probabilities(mean, sd) @ self.levels
        nodes: NDArray[Any] = _NODES
        weights = _WEIGHTS
        if law is not None:
            nodes = law.nodes
            weights = np.full(len(nodes), 1.0 / len(nodes))
        nodes = nodes.reshape(len(nodes), -1)  # of every cell, or of all
        out = np.empty(len(mean))
        size = max(1, _AT_ONCE // len(nodes))
        for start in range(0, len(mean), size):
            some = slice(start, start + size)
            own = nodes if nodes.shape[1] == 1 else nodes[:, some]
            z = mean[some] + own * sd[some]
            x = self.values(z.ravel()).reshape(z.shape)
            out[some] = weights @ (x if clip is None else np.clip(x, *clip))
        return out


def column_of(chain: Chain, j: int, wobble: float = 0.0) -> Column:
    """g of column j."""
    nodes = chain.nodes(j)
    return Column(chain.kinds[j], chain.z[nodes], chain.x[nodes], chain.level_value[chain.levels(j)], wobble)


def _far(z: Array, side: float) -> slice:
    """Nodes far out on one side."""
    if side > 0:
        return slice(int(z.searchsorted(_TAIL, "right")), None)
    return slice(0, int(z.searchsorted(-_TAIL)))


def _tail(z: Array, x: Array, middle: float, side: float) -> Tail:
    """A power law by least squares of logarithms, or the slope of all knots where few are far out."""
    end, far = float(z[-1] if side > 0 else z[0]), _far(z, side)
    far_z, far_x = side * z[far], side * (x[far] - middle)
    if len(far_z) >= _FEWEST and far_x.min() > 0:
        log_z, log_x = np.log(far_z), np.log(far_x)
        centre = log_z.sum() / len(log_z)
        centred = log_z - centre
        power = min(max(float(centred @ log_x / (centred @ centred)), 0.1), 10.0)
        scale = float(np.exp(log_x.sum() / len(log_x) - power * centre))
        return Tail(side, abs(end), middle, scale, power, True)
    spread = float(z[-1] - z[0])
    slope = float(x[-1] - x[0]) / spread if spread > 0 else 1.0
    return Tail(side, max(side * end, 0.0), middle, max(slope, _TINY), 1.0, False)


@dataclass(frozen=True)
class EmpiricalColumn(Column):
    """g of the paper: the empirical quantile of Phi(z), ``at`` being reached at shares ``position``."""

    position: Array
    at: Array

    def values(self, z: Array) -> Array:
        """g(z)."""
        return np.interp(ndtr(z), self.position, self.at)

    def around(self, x: Array, d: float) -> tuple[Array, Array]:
        """Ends on the latent scale of the values within d of x: all of a value's share, nothing beyond those seen."""
        low = -np.interp(d - x, -self.at[::-1], -self.position[::-1])
        high = np.interp(x + d, self.at, self.position)
        return ndtri(low), ndtri(high)


def empirical_column(chain: Chain, j: int, x: Array, count: Array) -> Column:
    """g of column j from its distinct values and their counts, or sums of weights."""
    plain = column_of(chain, j)
    if plain.kind in STEPPED:
        return plain
    after = np.cumsum(count)
    last = min(1.0, float(count.min()))  # the last of the rows with a value
    position = np.column_stack([after - count, after - last]).ravel() / max(float(after[-1]) - last, last)
    return EmpiricalColumn(plain.kind, plain.z, plain.x, plain.levels, 0.0, position, np.repeat(x, 2))
