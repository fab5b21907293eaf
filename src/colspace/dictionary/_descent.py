"""Projected-gradient steps for one block: a quadratic plus the labels' loss of activations linear in the block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from ._losses import Array
from ._regions import Region, nearest

_ENOUGH = 1e-4  # of the decrease that the slope promises
_WORTH = 0.1  # of the first step's decrease: a smaller one ends the block's turn
_ROWS = 2048  # of a nonnegative block that are updated at once
_HALVINGS = 40
_LONGEST = 1e8
_SMALL = 1e-12

Linear = Callable[[Array], Array]


@dataclass(slots=True)
class Labels:
    """Activations a, their loss sum v loss(a), and its slopes k = v loss'(a), moved by the blocks in turn."""

    of: Callable[[Array], tuple[float, Array]]
    a: Array
    value: float
    k: Array


def _weights(rows: Array | None) -> Array | None:
    """Weights to divide by: rows without any do not move."""
    return None if rows is None else np.maximum(rows, np.finfo(np.float64).tiny)


class Free:
    """d = -step gradient M^-1 for a block without bounds: M is r x r and stands right of it, or left of it."""

    def __init__(self, M: Array, left: bool = False, rows: Array | None = None) -> None:
        self.left = left
        self.rows = _weights(rows)
        M = M.copy()
        M.flat[:: len(M) + 1] += _SMALL * (float(M.diagonal().max(initial=0.0)) or 1.0)
        self.inverse = np.linalg.inv(M)

    def solve(self, gradient: Array) -> Array:
        """gradient M^-1."""
        if self.rows is not None:
            gradient = gradient / self.rows
        return self.inverse @ gradient if self.left else gradient @ self.inverse

    def __call__(self, x: Array, gradient: Array, step: float) -> Array:
        """d."""
        return -step * self.solve(gradient)

    def size(self, d: Array, gradient: Array, step: float) -> float:
        """d'M d."""
        return -step * dot(gradient, d)


class Nonnegative:
    """d that lowers gradient'd + d M d' / (2 step) + thrift'd on x + d >= 0, M r x r, column by column in a few passes."""

    def __init__(
        self, M: Array, rows: Array | None = None, thrift: Array | None = None, passes: int = 1
    ) -> None:
        self.M, self.rows, self.thrift = M, _weights(rows), thrift
        diagonal = M.diagonal()
        diagonal = np.maximum(diagonal, _SMALL * (float(diagonal.max(initial=0.0)) or 1.0))
        self.others = M / diagonal[:, None]
        self.others.flat[:: len(M) + 1] = 0.0
        self.inverse = -1.0 / diagonal
        self.passes = min(passes, (len(M) + 1) // 2)

    def __call__(self, x: Array, gradient: Array, step: float) -> Array:
        """d."""
        if self.thrift is not None:
            gradient = gradient + self.thrift
        if self.rows is not None:
            gradient = gradient / self.rows
        scale = step * self.inverse
        if len(x) <= _ROWS:
            return self._cycle(x, gradient, scale)
        d = np.empty_like(x)
        for i in range(0, len(x), _ROWS):
            part = slice(i, i + _ROWS)
            d[part] = self._cycle(x[part], gradient[part], scale)
        return d

    def size(self, d: Array, gradient: Array, step: float) -> float:
        """d'M d."""
        bent = d @ self.M
        return dot(bent if self.rows is None else self.rows * bent, d)

    def _cycle(self, x: Array, gradient: Array, scale: Array) -> Array:
        """Passes over the columns of a few rows, which stay in the cache."""
        pull, least, d = np.empty(x.shape[::-1]), np.empty(x.shape[::-1]), np.zeros(x.shape[::-1])
        np.multiply(gradient.T, scale[:, None], out=pull)
        np.negative(x.T, out=least)
        for _ in range(self.passes):
            for j, row in enumerate(self.others):
                other = row @ d
                np.subtract(pull[j], other, out=other)
                np.maximum(least[j], other, out=d[j])
        return np.ascontiguousarray(d.T)


class Bounded:
    """d to the nearest point of the set within ``radius`` of the centre from x - step gradient / curved."""

    def __init__(
        self, curved: float, region: Region, centre: Array, radius: float, thrift: Array | None = None
    ) -> None:
        self.curved, self.region, self.centre, self.radius, self.thrift = (
            curved or 1.0,
            region,
            centre,
            radius,
            thrift,
        )

    def __call__(self, x: Array, gradient: Array, step: float) -> Array:
        """d."""
        length = step / self.curved
        threshold = 0.0 if self.thrift is None else length * self.thrift
        return nearest(x - length * gradient, self.region, self.centre, self.radius, threshold) - x

    def size(self, d: Array, gradient: Array, step: float) -> float:
        """d'd times the curvature."""
        return self.curved * dot(d, d)


Direction = Free | Nonnegative | Bounded


def direction(
    M: Array,
    region: Region,
    centre: Array,
    radius: float,
    *,
    left: bool = False,
    rows: Array | None = None,
    thrift: Array | None = None,
    passes: int = 1,
) -> Direction:
    """The finest of the three that the bounds of the block allow, for a curvature M times the weights of the rows.

    ``passes`` are over the columns of a nonnegative block: more pay off where the labels see it.
    """
    if isfinite(radius) or isfinite(region.norm) or (thrift is not None and not region.positive):
        size = float(np.trace(M)) * (1.0 if rows is None else float(rows.max()))
        return Bounded(size, region, centre, radius, thrift)
    return Nonnegative(M, rows, thrift, passes) if region.positive else Free(M, left, rows)


def _ignore(_: float) -> None:
    return


@dataclass(slots=True)
class Block:
    """Where a block is, how it may move, and how L depends on it.

    ``slope`` is the gradient of the quadratic part at x, ``bend(d)`` its Hessian times d; ``forward(d)`` is the change of
    the activations and ``adjoint(k)`` its transpose (None: the labels do not see the block); ``thrift`` the price of |x|;
    ``taken(t)`` hears of a step t d after each ``forward(d)``.
    """

    x: Array
    slope: Array
    bend: Linear
    forward: Linear | None
    adjoint: Linear | None
    direction: Direction
    region: Region
    thrift: Array | None = None
    taken: Callable[[float], None] = _ignore

    def price(self, x: Array) -> float:
        """sum thrift |x|."""
        return 0.0 if self.thrift is None else float(np.sum(self.thrift * np.abs(x)))


def dot(a: Array, b: Array) -> float:
    """Sum of the products of the entries."""
    return float(np.vdot(a, b))


def _minimise(block: Block, n_inner: int) -> Array:
    """Steps of a block that the labels do not see: each goes to the minimum, or towards it column by column."""
    x, slope = block.x, block.slope
    for left in range(1 if isinstance(block.direction, Free) else n_inner, 0, -1):
        d = block.direction(x, slope, 1.0)
        x = x + d
        if left > 1:
            slope = slope + block.bend(d)
    return x


def descend(block: Block, labels: Labels, step: float, n_inner: int) -> tuple[Array, float]:
    """At most ``n_inner`` steps of Barzilai-Borwein lengths, each shortened until L falls enough; ``labels`` move along.

    Between two points of the set L is a quadratic plus the loss on a line, so shortening needs no product with the data.
    """
    x, slope, first, labelled = block.x, block.slope, 0.0, block.forward is not None
    if not labelled and not isinstance(block.direction, Bounded):
        return _minimise(block, n_inner), step
    arc = isfinite(
        block.region.norm
    )  # between two points of a sphere one leaves it: project shorter steps anew
    for i in range(n_inner):
        gradient = slope + block.adjoint(labels.k) if block.adjoint is not None else slope
        paid, t, aim = block.price(x), 0.0, True
        for _ in range(_HALVINGS):
            if aim:
                d = block.direction(x, gradient, step)
                steep = dot(gradient, d)
                if block.thrift is not None:
                    steep += block.price(x + d) - paid
                if not steep < 0.0:
                    return x, step
                bent = block.bend(d)
                tilt, bend = dot(slope, d), dot(d, bent)
                ahead = block.forward(d) if block.forward is not None else None
                t = 1.0 if labelled or arc or block.thrift is not None else min(1.0, -steep / bend)
            change = t * (tilt + 0.5 * t * bend)
            if ahead is not None:
                a = labels.a + (ahead if t == 1.0 else t * ahead)
                level, k = labels.of(a)
                change += level - labels.value
            if block.thrift is not None:
                change += block.price(x + t * d) - paid
            if change <= _ENOUGH * t * steep:
                break
            part = min(max(-0.5 * steep * t / (change - steep * t), 0.1), 0.5)
            aim = arc
            step, t = (step * part, t) if arc else (step, t * part)
        else:
            break
        x = x + (d if t == 1.0 else t * d)
        if t < 1.0 or isinstance(block.direction, Bounded):
            x = block.region.project(x)
        block.taken(t)
        if ahead is not None:
            bend += dot(ahead, k - labels.k) / t
            labels.a, labels.value, labels.k = a, level, k
        step = min(block.direction.size(d, gradient, step) / bend, _LONGEST) if bend > 0 else 2.0 * step
        if i == 0:
            first = change
        elif change > _WORTH * first:
            break
        if i + 1 < n_inner:
            slope = slope + t * bent
    return x, step


def sweep(F: Array, cross: Array, gram: Array) -> Array:
    """One pass over the columns of F >= 0, each at its best for ||. - F G'||^2 with G'G = ``gram``."""
    return F + Nonnegative(gram)(F, F @ gram - cross, 1.0)
