"""How the values of a column sit on the latent normal scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dptsv
from scipy.special import ndtri

from ..moments import Additive

Array = NDArray[np.float64]
Index = NDArray[np.intp]

#: Columns with more distinct values than this get so many knots, values between them by interpolation.
MAX_KNOTS = 400
STEPPED = ("ordinal", "binary", "count")
LIMITED = ("lower", "upper", "two-sided")
KINDS = ("continuous", *STEPPED, *LIMITED)
_CLOSEST = 1e-12  # distance of two nodes that counts
_HELD = 1e13


class Distinct(NamedTuple):
    """Distinct observed values of a column in order, and how often each occurs (or its weight).

    Not ``exact``: a summary of more values than are kept.
    """

    values: Array
    counts: Array
    exact: bool = True


@dataclass(frozen=True)
class Chain:
    """Nodes of all columns, in order of their values within a column: knots and cuts.

    A knot ties an observed value ``x`` to its latent ``z``; a cut is where one level ends and the next begins (``x``:
    the limit of a truncated column, else NaN). Between neighbours of weight ``gap`` > 0 the density is that
    of their distance. ``level_*`` describe values that stand for an interval of z: column by column their values,
    counts and the nodes that bound them (N: minus infinity, N + 1: infinity).
    """

    kinds: tuple[str, ...]
    start: Index
    x: Array
    z: Array
    cut: NDArray[np.bool_]
    gap: Array
    weight: Array
    level_start: Index
    level_value: Array
    level_count: Array
    level_low: Index
    level_high: Index

    @cached_property
    def continuous(self) -> NDArray[np.bool_]:
        """Columns without levels."""
        return np.array([kind == "continuous" for kind in self.kinds], dtype=bool)

    @cached_property
    def limited(self) -> NDArray[np.bool_]:
        """Columns with a limit."""
        return np.array([kind in LIMITED for kind in self.kinds], dtype=bool)

    @cached_property
    def column(self) -> Index:
        """Column of each node."""
        return np.repeat(np.arange(len(self.kinds)), np.diff(self.start))

    @cached_property
    def bounds(self) -> Array:
        """z of all nodes, minus infinity and infinity."""
        return np.concatenate([self.z, [-np.inf, np.inf]])

    def nodes(self, j: int) -> slice:
        """Nodes of column j."""
        return slice(int(self.start[j]), int(self.start[j + 1]))

    def levels(self, j: int) -> slice:
        """Levels of column j."""
        return slice(int(self.level_start[j]), int(self.level_start[j + 1]))


def build_chain(values: Sequence[Distinct | tuple[Array, Array]], kinds: Sequence[str]) -> Chain:
    """Nodes at their start, Phi^-1 of empirical shares.

    ``values`` are the distinct values of each column, in order, and their counts.
    """
    parts: dict[str, list[Array]] = {
        k: [] for k in ("x", "z", "cut", "gap", "weight", "value", "count", "low", "high")
    }
    start, level_start = [0], [0]
    for (x, count, *_), kind in zip(values, kinds, strict=True):
        base = start[-1]
        total = count.sum()
        after = np.cumsum(count)
        if kind in STEPPED:
            z = ndtri(after[:-1] / total)
            column = {
                "x": np.full(len(z), np.nan),
                "z": z,
                "cut": np.ones(len(z), dtype=bool),
                "gap": np.zeros(len(z)),
                "weight": np.zeros(len(z)),
                "value": x,
                "count": count,
                "low": np.concatenate([[-1], base + np.arange(len(z))]),
                "high": np.concatenate([base + np.arange(len(z)), [-2]]),
            }
        else:
            column = _with_knots(x, count, kind, base)
        for key, part in column.items():
            parts[key].append(part)
        start.append(base + len(column["x"]))
        level_start.append(level_start[-1] + len(column["value"]))
    n = start[-1]
    joined = {key: np.concatenate([np.empty(0), *part]) for key, part in parts.items()}
    for key in ("low", "high"):
        ends = joined[key].astype(np.intp)
        joined[key] = np.where(ends == -1, n, np.where(ends == -2, n + 1, ends))
    return Chain(
        kinds=tuple(kinds),
        start=np.array(start),
        x=joined["x"],
        z=joined["z"],
        cut=joined["cut"].astype(bool),
        gap=joined["gap"],
        weight=joined["weight"],
        level_start=np.array(level_start),
        level_value=joined["value"],
        level_count=joined["count"].astype(np.float64),
        level_low=joined["low"],
        level_high=joined["high"],
    )


def _with_knots(x: Array, count: Array, kind: str, base: int) -> dict[str, Array]:
    """A column whose values, all but those at its limits, are known exactly."""
    total = count.sum()
    share = (np.cumsum(count) - 0.5 * count) / total
    if kind == "continuous" and len(x) <= MAX_KNOTS:
        none = np.zeros(0)
        gap = np.append(0.5 * (count[1:] + count[:-1]), 0.0)
        knots = {"x": x, "z": ndtri(share), "cut": np.zeros(len(x), dtype=bool), "gap": gap, "weight": count}
        return {**knots, "value": none, "count": none, "low": none, "high": none}
    lower, upper = kind in ("lower", "two-sided"), kind in ("upper", "two-sided")
    inner = slice(int(lower), len(x) - int(upper))
    knots_x, knots_z, weight = x[inner], ndtri(share[inner]), count[inner].astype(np.float64)
    if len(knots_x) > MAX_KNOTS:
        ranks = np.linspace(0, weight.sum(), MAX_KNOTS)
        chosen = np.unique(np.searchsorted(np.cumsum(weight), ranks, side="left").clip(0, len(knots_x) - 1))
        chosen = np.unique(np.concatenate([[0], chosen, [len(knots_x) - 1]]))
        node, part = place(knots_x, knots_x[chosen])
        after = np.minimum(node + 1, len(chosen) - 1)
        spread = np.bincount(node, (1 - part) * weight, len(chosen)) + np.bincount(
            after, part * weight, len(chosen)
        )
        weight = np.asarray(spread, dtype=np.float64)
        knots_x, knots_z = knots_x[chosen], knots_z[chosen]
    m = len(knots_x)
    cut = np.zeros(m, dtype=bool)
    z, low, high, value, counts = knots_z, [], [], [], []
    if lower:
        knots_x, z = np.insert(knots_x, 0, x[0]), np.insert(z, 0, ndtri(count[0] / total))
        cut, weight = np.insert(cut, 0, True), np.insert(weight, 0, weight[0])
        low.append(-1)
        high.append(base)
        value.append(x[0])
        counts.append(count[0])
    if upper:
        knots_x, z = np.append(knots_x, x[-1]), np.append(z, ndtri(1 - count[-1] / total))
        cut, weight = np.append(cut, True), np.append(weight, weight[-1])
        low.append(base + len(z) - 1)
        high.append(-2)
        value.append(x[-1])
        counts.append(count[-1])
    return {
        "x": knots_x,
        "z": z,
        "cut": cut,
        "gap": np.append(0.5 * (weight[1:] + weight[:-1]), 0.0),
        "weight": np.where(cut, 0.0, weight),
        "value": np.array(value, dtype=np.float64),
        "count": np.array(counts, dtype=np.float64),
        "low": np.array(low, dtype=np.float64),
        "high": np.array(high, dtype=np.float64),
    }


def place(x: Array, knots: Array) -> tuple[Index, Array]:
    """The knot at or below each value, and how far on to the next it lies (0 to 1)."""
    node = np.searchsorted(knots, x, side="right")
    node -= 1
    np.maximum(node, 0, out=node)
    if (knots[node] == x).all() or len(knots) == 1:
        return node, np.zeros(len(x))
    np.minimum(node, len(knots) - 2, out=node)
    part = (x - knots[node]) / (knots[node + 1] - knots[node])
    return node, np.clip(part, 0.0, 1.0)


@dataclass(frozen=True)
class NodeSums(Additive):
    """A quadratic in the nodes, -z'Dz/2 + h'z, with D tridiagonal: its diagonal, the next one, and h."""

    diagonal: Array
    beside: Array
    linear: Array


def move(chain: Chain, sums: NodeSums, *, knots: bool, steps: int = 12, tol: float = 0.05) -> Array:
    r"""z of the nodes that maximise the quadratic plus the log spacings.

    .. math:: -\tfrac12 z^\top D z + h^\top z + \sum_u c_u \log(z_{u+1} - z_u)

    Concave with a tridiagonal Hessian: damped Newton steps for all columns at once. ``knots=False`` moves cuts only.
    """
    n = len(chain.z)
    z = chain.z.copy()
    if not n:
        return z
    column = chain.column
    same = np.append(column[1:] == column[:-1], False)
    gap = np.where(same, chain.gap, 0.0)
    held = ~chain.cut if not knots else np.zeros(n, dtype=bool)
    diagonal, linear = np.where(held, _HELD, sums.diagonal), np.where(held, _HELD * z, sums.linear)
    diagonal = np.where(
        chain.cut, diagonal + 1.0, diagonal
    )  # a unit of information pulls a cut to where it was
    linear = np.where(chain.cut, linear + z, linear)
    beside = np.where(same & ~held & ~np.roll(held, -1), sums.beside, 0.0)
    lengths = np.diff(chain.start)
    filled = lengths > 0
    starts, lengths = chain.start[:-1][filled], lengths[filled]
    barrier = np.maximum.reduceat(gap, starts) > 0
    for _ in range(steps if knots else 1):
        distance = np.ones(n)
        np.subtract(z[1:], z[:-1], out=distance[:-1], where=same[:-1])
        np.maximum(distance, _CLOSEST, out=distance)
        pull = gap / distance
        stiff = pull / distance
        slope = linear - diagonal * z
        slope[:-1] -= beside[:-1] * z[1:]
        slope[1:] -= beside[:-1] * z[:-1]
        slope[1:] += pull[:-1]
        slope -= pull
        main = diagonal + stiff
        main[1:] += stiff[:-1]
        _, _, step, info = dptsv(main, beside[:-1] - stiff[:-1] if n > 1 else np.zeros(1), slope)
        if info != 0:  # neighbours so close that rounding hides the curvature: positions are good as they are
            break
        step[held] = 0.0
        decrement = np.sqrt(np.maximum(np.add.reduceat(slope * step, starts), 0.0))
        # neighbours never meet: each distance keeps a tenth of itself
        closing = np.zeros(n)
        np.subtract(step[:-1], step[1:], out=closing[:-1])
        closing *= same
        closing /= distance
        worst = np.maximum.reduceat(closing, starts)
        size = np.minimum(np.where(barrier, 1.0 / (1.0 + decrement), 1.0), 0.9 / np.maximum(worst, 0.9))
        z += step * np.repeat(size, lengths)
        if decrement.max() < tol:
            break
    return z


def rescaled(chain: Chain, z: Array) -> Chain:
    """The chain at new positions, those of continuous columns by one factor to unit mean square."""
    whole = np.array([kind == "continuous" for kind in chain.kinds])
    here = np.repeat(whole, np.diff(chain.start))
    if here.any():
        square = float(np.average(z[here] ** 2, weights=chain.weight[here]))
        z = np.where(here, z / np.sqrt(square), z)
    return replace(chain, z=z)
