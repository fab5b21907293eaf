r"""The delete-one-group jackknife: errors of directions from fits without each group of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._blocks import Blocks
from ..factor import svd
from ..moments import TripleMoments
from ._groups import GROUP_BYTES, GroupSums, rows_of, too_much, with_cross
from ._span import Span

Array = NDArray[np.float64]

# squared error of directions over the square of the lower bound of doubt from which halves of the rows are looked at, and
# between which errors they take over
_WEAK = 1.2
_DOUBT = (0.5, 0.7)
_SPLITS = 10


@dataclass(frozen=True)
class LeftOut:
    """Directions of every block without each group, turned to those of all rows: groups x columns x directions.

    ``weights`` are the jackknife's, (1/share - 1)/K: se^2 = sum of weights times squared deviations. ``halves``, where
    the directions are badly known: those of halves of the groups, each half followed by the other. ``jumps``: what a
    choice made anew without each group (of columns) adds to the directions. ``doubt``: between which errors of the
    jackknife the halves take over. ``silent``: of each block, whether nothing in y speaks for its directions.
    """

    directions: tuple[Array, ...] = ()
    weights: Array | None = None
    halves: tuple[Array, ...] = ()
    note: str = ""
    jumps: tuple[Array, ...] = ()
    doubt: tuple[float, float] = _DOUBT
    silent: tuple[bool, ...] = ()

    def mapped(self, lift: Callable[[int, Array], Array], widths: Sequence[int]) -> LeftOut:
        """The same after a linear map of directions to so many columns, ``lift(block, columns x directions)``."""
        if self.note:
            return self
        k, _, r = self.directions[0].shape
        size = 8 * k * r * sum(widths) * (2 if self.halves else 1)
        if size > GROUP_BYTES:
            return LeftOut(note=too_much(f"directions without each of {k} groups", size))

        def whole(b: int, D: Array) -> Array:
            n, p, _ = D.shape
            return lift(b, D.transpose(1, 0, 2).reshape(p, n * r)).reshape(-1, n, r).transpose(1, 0, 2)

        found, halves = (
            tuple(whole(b, D) for b, D in enumerate(stacks)) for stacks in (self.directions, self.halves)
        )
        return replace(self, directions=found, halves=halves)

    def lifted(self, span: Span) -> LeftOut:
        """The same for the original columns, from coordinates of the rows' span."""
        return self.mapped(span.loadings, span.original.widths)

    def squares(self, D: Array, jumps: Array | None) -> Array:
        r"""Jackknife sum of squares of quantities without each group (groups x ...), cell by cell.

        A jump counts by :math:`1/\sqrt{K - 1}`: leaving out a group moves a margin by :math:`1/\sqrt{K - 1}` of its own
        deviation, so that a choice changes that much less often than the jackknife's weight of :math:`K - 1` supposes.
        """
        weights = self.weights
        assert weights is not None

        def sum_of(stack: Array) -> Array:
            return np.tensordot(weights, (stack - stack.mean(axis=0)) ** 2, 1)

        return sum_of(D) if jumps is None else sum_of(D) + sum_of(jumps) / np.sqrt(max(len(D) - 1, 1))


def leave_out(
    sums: GroupSums,
    solve: Callable[[Any], Sequence[Array]],
    full: Sequence[Array],
    metrics: Sequence[Callable[[Array], Array]],
    choose: Callable[[Any], Sequence[Array]] | None = None,
    splits: int = _SPLITS,
    doubt: tuple[float, float] = _DOUBT,
) -> LeftOut:
    """Solve without each group in turn, and turn what is found to the directions of all rows.

    ``solve`` gives directions (columns x directions) of every block from sums; ``metrics[b](L)`` is G L for the
    matrix G in which the directions of block b are orthonormal. ``choose`` gives them when a choice that ``solve``
    takes from all rows is made anew. ``splits``: ways to halve the groups where directions are badly known.
    """
    if sums.note:
        return LeftOut(note=sums.note)
    sums = sums.weighty
    if len(sums.parts) < 2:
        return LeftOut(note="the rows did not fill two groups")
    if rows_of(sums.total) - max(map(rows_of, sums.parts.values())) < 2:
        return LeftOut(note="without some group of the rows fewer than two rows are left, which do not vary")
    targets = [metric(L) for metric, L in zip(metrics, full, strict=True)]
    found: list[list[Array]] = []
    jumped: list[list[Array]] = []
    halves: tuple[Array, ...] = ()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # said of all rows already
        try:
            for part in sums.parts.values():
                total = with_cross(sums.total, part) if isinstance(part, TripleMoments) else sums.total
                rest = total - part
                found.append([turn(L, target) for L, target in zip(solve(rest), targets, strict=True)])
                if choose is not None:
                    anew = [turn(L, target) for L, target in zip(choose(rest), targets, strict=True)]
                    jumped.append([a - b for a, b in zip(anew, found[-1], strict=True)])
            directions = tuple(np.stack(block) for block in zip(*found, strict=True))
            weights = (1.0 / sums.shares - 1.0) / len(sums.parts)
            if any(
                _spread(D, weights, metric) > _WEAK * doubt[0] ** 2
                for D, metric in zip(directions, metrics, strict=True)
            ):
                halves = _half_fits(list(sums.parts.values()), choose or solve, splits)
        except (ValueError, ArithmeticError) as reason:
            return LeftOut(note=f"without some group of the rows there is no fit: {reason}")
    if not all(np.isfinite(D).all() for D in (*directions, *halves)):
        return LeftOut(note="without some group of the rows the directions are not finite")
    jumps = tuple(np.stack(b) for b in zip(*jumped, strict=True))
    return LeftOut(directions, weights, halves, jumps=jumps, doubt=doubt)


def _spread(D: Array, weights: Array, metric: Callable[[Array], Array]) -> float:
    """The jackknife's squared error of directions (groups x columns x directions) that have length one, per direction."""
    deviations = D - D.mean(axis=0)
    return (
        float(sum(w * np.sum(d * metric(d)) for w, d in zip(weights, deviations, strict=True))) / D.shape[2]
    )


def _half_fits(parts: list[Any], solve: Callable[[Any], Sequence[Array]], splits: int) -> tuple[Array, ...]:
    """Directions of every block from halves of the groups, several ways to split them."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(splits):
        order = rng.permutation(len(parts))
        for half in np.array_split(order, 2):
            found.append(list(solve(reduce(add, [parts[i] for i in half]))))
    return tuple(np.stack(block) for block in zip(*found, strict=True))


def turn(L: Array, target: Array) -> Array:
    """L Q with the orthogonal Q that brings it nearest: Q = U V' for L' target = U S V'."""
    U, _, Vt = svd(L.T @ target)
    return L @ (U @ Vt)


def standard_errors(left: LeftOut, b: int = 0) -> Array:
    """Jackknife standard errors of the directions of block b (columns x directions)."""
    return np.sqrt(left.squares(left.directions[b], left.jumps[b] if left.jumps else None))


def space_error(L: Array, left: LeftOut, b: int = 0) -> float:
    r"""Expected NSEE of the space of L, the directions of block b.

    With orthonormal bases V of L and :math:`V_{-k}` of the others, turned to V, the part outside the space is
    :math:`E_k = (I - VV^\top) V_{-k}`, and :math:`t = \sum_k w_k |E_k - \bar E|^2 / r` estimates the squared tangent of
    the angle to the true space. Its squared sine, at most the c = 1 - r/p of a space drawn at random, is
    :math:`t c / (t + c)`. Where that is large, the jackknife sees too little: without signal the directions of all
    rows stay near those of most rows. Halves of the rows then tell, see ``half_error``. A block in which nothing speaks
    has the error of a space drawn at random, whatever other rule its directions have.
    """
    p, r = L.shape
    if r == p:
        return 0.0
    if left.silent and left.silent[b]:
        return float(np.sqrt(1.0 - r / p))
    V = basis(L)

    def outside(stack: Array) -> Array:
        bases = [turn(basis(M), V) for M in stack]
        return np.stack([B - V @ (V.T @ B) for B in bases])

    E = outside(left.directions[b])
    jumps = outside(left.directions[b] + left.jumps[b]) - E if left.jumps else None
    t = float(left.squares(E, jumps).sum()) / r
    found = np.sqrt(squared_sine(t, 1.0 - r / p))
    if left.halves:
        low, high = left.doubt
        share = min(max((found - low) / (high - low), 0.0), 1.0)
        found += share * max(half_error(left.halves[b]) - found, 0.0)
    return float(found)


def squared_sine(t: float, c: float) -> float:
    """Squared sine of an angle of squared tangent t, at most c."""
    return t * c / (t + c) if t > 0 else 0.0


def half_error(halves: Array) -> float:
    r"""Expected NSEE from spaces A and B of disjoint halves of the rows, each followed by the other.

    If a half's squared cosine with the truth is :math:`\gamma`, independent halves overlap by :math:`|A^\top B|^2 / r =
    \gamma^2 + (1 - \gamma)^2 r / (p - r)`, which is r/p without signal. Less half a standard deviation of
    what chance gives, it is solved for :math:`\gamma`; twice the rows halve the squared tangent.
    """
    p, r = halves.shape[1:]
    a, c = r / (p - r), 1.0 - r / p
    overlap = float(
        np.mean(
            [np.sum((basis(A).T @ basis(B)) ** 2) for A, B in zip(halves[::2], halves[1::2], strict=True)]
        )
    )
    overlap = overlap / r - np.sqrt(0.5) / p
    root = a**2 - (1.0 + a) * (a - overlap)
    sine = c - (np.sqrt(root) / (1.0 + a) if root > 0 else 0.0)
    if sine >= c:
        return float(np.sqrt(c))
    t = max(sine, 0.0) * c / (c - sine) / 2.0
    return float(np.sqrt(squared_sine(t, c)))


def basis(L: Array) -> Array:
    """Orthonormal columns that span those of L."""
    return svd(L / max(np.abs(L).max(initial=0.0), np.finfo(float).tiny))[0]


def store_block_errors(estimator: Any, left: LeftOut, blocks: Blocks, loadings: Sequence[Array]) -> None:
    """Set the errors of an estimator that keeps directions block by block; ``loadings`` in block order."""
    _store_note(estimator, left)
    estimator.loadings_error_ = estimator.components_error_ = estimator.expected_error_ = None
    if left.note:
        return
    dtype = estimator.components_.dtype
    errors = [standard_errors(left, b) for b in range(len(blocks))]
    estimator.loadings_error_ = {n: e.astype(dtype) for n, e in zip(blocks.names, errors, strict=True)}
    estimator.components_error_ = np.zeros_like(estimator.components_)
    r = errors[0].shape[1]
    for b, (columns, e) in enumerate(zip(blocks.columns, errors, strict=True)):
        estimator.components_error_[b * r : (b + 1) * r, columns] = e.T
    estimator.expected_error_ = {
        name: space_error(L, left, b) for b, (name, L) in enumerate(zip(blocks.names, loadings, strict=True))
    }


def store_errors(estimator: Any, left: LeftOut, loadings: Array) -> None:
    """Set the errors of an estimator of one table; ``loadings`` (columns x directions) before any rounding."""
    _store_note(estimator, left)
    estimator.components_error_ = estimator.expected_error_ = None
    if left.note:
        return
    estimator.components_error_ = standard_errors(left).T.astype(estimator.components_.dtype)
    estimator.expected_error_ = space_error(loadings, left)


def _store_note(estimator: Any, left: LeftOut) -> None:
    estimator.errors_note_ = left.note
    estimator.n_groups_ = 0 if left.note else len(left.directions[0])
