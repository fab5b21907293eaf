"""The ridge's own directions, for one block or several that share the response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._blocks import Blocks
from .._rows import sum_parts
from ..factor import eigh
from ..moments import Additive, centre
from ._auto_tiles import Whitener, folded_tiles
from ._ridge import (
    LooPaths,
    LooPlan,
    ResponseMap,
    Ridge,
    RidgePath,
    choose_ridge,
    principal_axes,
    ridge_paths,
    triple_responses,
)
from ._source import Source
from ._tiles import pass_rows

Array = NDArray[np.float64]

# how much of what the other blocks say is taken off the response before a block chooses its directions
_COMPLEMENT = 0.6


@dataclass(frozen=True)
class Ridges:
    """Ridge regressions on each block and on all, with the responses as they see them."""

    mean: Array
    scale: Array
    response: ResponseMap
    blocks: tuple[Ridge, ...]
    joint: Ridge
    cross: Array
    widths: tuple[int, ...]
    count: float

    @property
    def n_responses(self) -> int:
        """Number of mapped responses."""
        return self.response.map.shape[1]

    def joint_parts(self) -> list[Array]:
        r"""Coefficients of the ridge on all columns, for the whitened coordinates of every block.

        Its coefficients b of a block's columns are those of coordinates :math:`a = (S + \lambda)^{-1/2} T^\top x` times
        :math:`(S + \lambda)^{1/2} T^{-1}`, with :math:`T = D^{-1} V` and so :math:`T^{-1} = T^\top D^2`.
        """
        joint = self.joint
        whole = joint.axes.map @ (joint.cross / (joint.axes.values + joint.ridge)[:, None])
        ends = np.cumsum([len(ridge.axes.columns) for ridge in self.blocks])[:-1]
        found = []
        for ridge, own in zip(self.blocks, np.split(whole, ends), strict=True):
            T = ridge.axes.map
            squares = np.einsum("ij,ij->i", T, T)  # of 1/D; zero of constant columns, which have no part
            lifted = own / np.where(squares > 0, squares, 1.0)[:, None]
            found.append(ridge.root[:, None] * (T.T @ lifted))
        return found


def all_pairs(n: int) -> tuple[tuple[int, int], ...]:
    """Pairs of blocks (i, j), i <= j."""
    return tuple((i, j) for i in range(n) for j in range(i, n))


@dataclass(frozen=True)
class Start:
    """What the first pass says: paths of ridges on each block and, last, on all, with the responses as they see them."""

    mean: Array
    scale: Array
    response: ResponseMap
    paths: tuple[RidgePath, ...]
    cross: Array
    widths: tuple[int, ...]
    count: float

    @property
    def plan(self) -> LooPlan:
        """Leave-one-out sums of all paths."""
        return LooPlan(self.paths, self.response)

    def choose(self, found: LooPaths, steps: int = 0, *, held_back: bool = True) -> Ridges:
        """Ridges of least error, or ``steps`` of the grid more; ``held_back``: next to nothing where little is linear."""
        size, loo = len(self.widths), found.paths
        widths = self.widths if held_back else (None,) * size
        return Ridges(
            mean=self.mean,
            scale=self.scale,
            response=self.response,
            blocks=tuple(choose_ridge(self.paths[b], loo[b], widths[b], steps) for b in range(size)),
            joint=choose_ridge(self.paths[-1], loo[-1]),
            cross=self.cross,
            widths=self.widths,
            count=self.count,
        )


def first_pass(source: Source, blocks: Blocks) -> Start:
    """Principal axes and covariances with the responses, in one pass."""
    total = source.moments(blocks, all_pairs(len(blocks)), ())
    n, c = total.count, centre(total)
    cross, response = triple_responses(total, labels=source.encoder.labels)
    size = len(blocks)
    axes = [
        principal_axes(c.covariance[b, b], blocks.columns[b], c.mean[s], unit=source.unit)
        for b, s in enumerate(blocks.slices)
    ]
    crosses = [a.map.T @ cross[s] for a, s in zip(axes, blocks.slices, strict=True)]
    if size > 1:
        pairs = c.covariance
        whole = np.block(
            [[pairs[i, j] if i <= j else pairs[j, i].T for j in range(size)] for i in range(size)]
        )
        axes.append(principal_axes(whole, np.concatenate(blocks.columns), c.mean, unit=source.unit))
        crosses.append(axes[-1].map.T @ cross)
    variances = [np.diag(c.covariance[b, b]) for b in range(size)]
    return Start(
        mean=c.mean,
        scale=np.sqrt(np.maximum(np.concatenate(variances), 0.0)),
        response=response,
        cross=cross,
        paths=ridge_paths(axes, crosses, n),
        widths=source.n_columns or tuple(max(1, int(np.count_nonzero(v > 0))) for v in variances),
        count=n,
    )


def learn_ridges(source: Source, blocks: Blocks) -> Ridges:
    """Leave-one-out ridges in two passes."""
    start = first_pass(source, blocks)
    return start.choose(source.reduce(start.plan, pass_rows(source.X, len(start.mean))))


def linear_part(cross: Array, agreement: Array) -> Array:
    r"""G_L = sum of max(rho_k, 0) t_k t_k', with t_k = T u_k / |T u_k|.

    ``agreement`` = sum of rho_k u_k u_k' is the symmetric held-out covariance of y and predictions, ``cross`` T = E[a y'] of
    whitened coordinates. For one response it is the ridge's direction, weighted by its held-out covariance.
    """
    rho, U = eigh(agreement)
    T = cross @ U
    norms = np.linalg.norm(T, axis=0)
    T = T / np.where(norms > 0, norms, 1.0)
    return (T * np.maximum(rho, 0.0)) @ T.T


@dataclass(frozen=True)
class BlockSums(Additive):
    """Products of [Y, F_1, F_2, ...], F_b the leave-one-out predictions of block b, and of a_b with the others' mean F."""

    gram: Array
    toward: dict[int, Array]


@dataclass(frozen=True)
class BlockPlan:
    """``plan(X, Y, weights)``: how the predictions of several blocks go together."""

    ridges: Ridges

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> BlockSums:
        """Statistic of one chunk."""
        ridges = self.ridges
        white = Whitener.of(ridges.blocks)
        return sum_parts(
            self.of_rows(white, white(rows.Z), rows.V, rows.w)
            for rows in folded_tiles(X, Y, weights, ridges.joint, ridges.response, None)
        )

    def of_rows(self, white: Whitener, A: Array, V: Array, w: Array) -> BlockSums:
        """Statistic of a tile of whitened rows."""
        F = [
            V - ridge.held_out(A[:, part], ridge.root, V)
            for ridge, part in zip(white.ridges, white.parts, strict=True)
        ]
        together = np.hstack([V, *F])
        total = np.sum(F, axis=0)
        toward = {}
        for b, part in enumerate(white.parts):
            others = (total - F[b]) / (len(F) - 1)
            toward[b] = A[:, part].T @ (others * w[:, None])
        return BlockSums(together.T @ (together * w[:, None]), toward)


def linear_parts(ridges: Ridges, sums: BlockSums | None, r: int, alpha: float | None) -> list[Array]:
    r"""G_L of every block.

    Several blocks complement each other: with the others' leave-one-out scores :math:`O = [F_c U_c]` the agreement of
    block b is that of its predictions with :math:`Y - 0.6\, O (O^\top O + \epsilon)^{-1} O^\top Y`, so that blocks share the
    directions of the response among them. They also agree: directions follow Y + alpha times the mean prediction of
    the other blocks. With ``alpha`` None directions are the block's part of the ridge on all columns, for which what the other blocks
    say of the response is no noise.
    """
    agreements = block_agreements(ridges, sums, r)
    if sums is None:
        return [
            linear_part(ridge.whitened_cross, a) for ridge, a in zip(ridges.blocks, agreements, strict=True)
        ]
    if alpha is None:
        return [linear_part(T, a) for T, a in zip(ridges.joint_parts(), agreements, strict=True)]
    n = ridges.count
    return [
        linear_part(ridge.whitened_cross + alpha * sums.toward[b] / n, agreements[b])
        for b, ridge in enumerate(ridges.blocks)
    ]


def block_agreements(ridges: Ridges, sums: BlockSums | None, r: int) -> list[Array]:
    """Held-out covariance of the response, less what the other blocks say of it, and each block's predictions."""
    if sums is None:
        return [ridge.agreement for ridge in ridges.blocks]
    q, n = ridges.n_responses, ridges.count
    G = sums.gram / n
    part = [slice(k * q, (k + 1) * q) for k in range(len(ridges.blocks) + 1)]
    top = [eigh(ridge.agreement, min(r, q))[1] for ridge in ridges.blocks]
    agreements = [ridge.agreement for ridge in ridges.blocks]
    for _ in range(2):
        for b in range(len(ridges.blocks)):
            others = [c for c in range(len(ridges.blocks)) if c != b]
            place = np.concatenate([np.arange(q) + (c + 1) * q for c in others])
            mix = np.zeros((len(place), sum(top[c].shape[1] for c in others)))
            start = 0
            for k, c in enumerate(others):
                mix[k * q : (k + 1) * q, start : start + top[c].shape[1]] = top[c]
                start += top[c].shape[1]
            OO = mix.T @ G[np.ix_(place, place)] @ mix
            ridge = 0.1 * np.trace(OO) / len(OO) + np.finfo(float).tiny
            solved = np.linalg.solve(OO + ridge * np.eye(len(OO)), mix.T @ G[place][:, part[b + 1]])
            left = G[part[0], part[b + 1]] - _COMPLEMENT * G[part[0]][:, place] @ mix @ solved
            agreements[b] = (left + left.T) / 2
            top[b] = eigh(agreements[b], min(r, q))[1]
    return agreements
