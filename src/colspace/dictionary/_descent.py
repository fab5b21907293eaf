"""Projected-gradient steps for one block: a quadratic plus the labels' loss of activations linear in the block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._losses import Array
from ._regions import Region, nearest

_ENOUGH = 1e-4  # of the decrease that the slope promises
_WORTH = 0.1  # of the first step's decrease: a smaller one ends the block's turn
_HALVINGS = 40
_LONGEST = 1e8

Linear = Callable[[Array], Array]


@dataclass
class Labels:
    """Activations a, their loss sum v loss(a), and its slopes k = v loss'(a), moved by the blocks in turn."""

    of: Callable[[Array], tuple[float, Array]]
    a: Array
    value: float
    k: Array

    def move(self, a: Array) -> None:
        """To other activations."""
        self.a = a
        self.value, self.k = self.of(a)


def _ignore(_: float) -> None:
    return


@dataclass(frozen=True)
class Block:
    """Where a block is and may go, and how L depends on it.

    ``slope`` is the gradient of the quadratic part at x, ``bend(d)`` its Hessian times d; ``forward(d)`` is the change of
    the activations and ``adjoint(k)`` its transpose (None: the labels do not see the block). ``metric`` is what gradients
    are divided by, or (free blocks) a function that solves for the step; ``thrift`` the price of |x|; ``taken(t)`` hears of
    a step t d after each ``forward(d)``.
    """

    x: Array
    slope: Array
    bend: Linear
    forward: Linear | None
    adjoint: Linear | None
    region: Region
    metric: Array | float | Linear
    radius: float = np.inf
    thrift: Array | None = None
    taken: Callable[[float], None] = _ignore

    @property
    def exact(self) -> bool:
        """Whether one step ends at the minimum."""
        return callable(self.metric) and self.forward is None

    def direction(self, x: Array, gradient: Array, step: float) -> tuple[Array, float]:
        """d to the minimum of gradient'd + d'M d / (2 step) + price where the block may go, and d'M d."""
        if callable(self.metric):
            d = -step * self.metric(gradient)
            return d, -step * _dot(gradient, d)
        length = step / self.metric
        threshold = 0.0 if self.thrift is None else length * self.thrift
        d = nearest(x - length * gradient, self.region, self.x, self.radius, threshold) - x
        return d, _dot(self.metric * d, d)

    def price(self, x: Array) -> float:
        """sum thrift |x|."""
        return 0.0 if self.thrift is None else float(np.sum(self.thrift * np.abs(x)))


def beside(one: Block, two: Block) -> Block:
    """Two free blocks that the labels see, one above the other, as one block."""
    r, (ahead, back, also, below) = len(one.x), (one.forward, one.adjoint, two.forward, two.adjoint)
    assert ahead is not None and back is not None and also is not None and below is not None
    upper, lower = one.metric, two.metric
    return Block(
        np.vstack([one.x, two.x]),
        np.vstack([one.slope, two.slope]),
        lambda d: np.vstack([one.bend(d[:r]), two.bend(d[r:])]),
        lambda d: ahead(d[:r]) + also(d[r:]),
        lambda k: np.vstack([back(k), below(k)]),
        one.region,
        lambda g: np.vstack([_solve(upper, g[:r]), _solve(lower, g[r:])]),
    )


def _solve(metric: Array | float | Linear, gradient: Array) -> Array:
    return metric(gradient) if callable(metric) else gradient / metric


def _dot(a: Array, b: Array) -> float:
    return float(np.vdot(a, b))


def descend(block: Block, labels: Labels, step: float, n_inner: int) -> tuple[Array, float]:
    """At most ``n_inner`` steps of Barzilai-Borwein lengths, each shortened until L falls enough; ``labels`` move along.

    Between two points of the set L is a quadratic plus the loss on a line, so shortening needs no product with the data.
    """
    x, slope, first = block.x, block.slope, 0.0
    for i in range(1 if block.exact else n_inner):
        gradient = slope if block.adjoint is None else slope + block.adjoint(labels.k)
        d, size = block.direction(x, gradient, step)
        paid = block.price(x)
        steep = _dot(gradient, d) + (0.0 if block.thrift is None else block.price(x + d) - paid)
        if not steep < 0.0:
            break
        bent = block.bend(d)
        tilt, bend = _dot(slope, d), _dot(d, bent)
        ahead = None if block.forward is None else block.forward(d)
        t = 1.0 if ahead is not None or block.thrift is not None else min(1.0, -steep / bend)
        for _ in range(_HALVINGS):
            change = t * (tilt + 0.5 * t * bend)
            if ahead is not None:
                a = labels.a + (ahead if t == 1.0 else t * ahead)
                level, k = labels.of(a)
                change += level - labels.value
            if block.thrift is not None:
                change += block.price(x + t * d) - paid
            if change <= _ENOUGH * t * steep:
                break
            t *= min(max(-0.5 * steep * t / (change - steep * t), 0.1), 0.5)
        else:
            break
        x = x + t * d if callable(block.metric) else block.region.project(x + t * d)
        slope = slope + t * bent
        block.taken(t)
        if ahead is not None:
            bend += _dot(ahead, k - labels.k) / t
            labels.a, labels.value, labels.k = a, level, k
        step = min(size / bend, _LONGEST) if bend > 0 else 2.0 * step
        if i == 0:
            first = change
        elif change > _WORTH * first:
            break
    return x, step
