"""What bends: gradients and second moments of the ridge's leave-one-out residual."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._rows import workspace
from ..factor import eigh
from ..moments import TripleMoments, centre
from ._auto_cells import CellTotals
from ._auto_groups import GroupParts
from ._auto_linear import BlockPlan, BlockSums, Ridges
from ._auto_rows import RowKeys, RowSample
from ._auto_tiles import FOLDS, RowDeal, Whitener, folded_tiles
from ._gradient import KernelFit, same_kernel
from ._ridge import ResponseMap, Ridge
from ._source import Source
from ._tiles import pass_rows, rows_along

Array = NDArray[np.float64]


def kernel_part(
    sample: RowSample,
    ridges: Sequence[Ridge],
    joint: Ridge,
    response: ResponseMap,
    widths: Sequence[int],
    *,
    keep_inverse: bool = False,
) -> tuple[list[Array] | None, float, KernelFit | None]:
    """Gradient products of the residual's kernel regression per block (trace one in all), what it explains, and it."""
    X, w = sample.X, sample.weights
    R = joint.path.loo(X, response(sample.Y))[0][:, 0]
    R = R - w @ R / w.sum()
    ends = np.cumsum([0, *(len(ridge.axes.values) for ridge in ridges)]).tolist()
    blocks = [slice(i, j) for i, j in pairwise(ends)]
    A = np.empty((len(X), ends[-1]))
    for ridge, width, block in zip(ridges, widths, blocks, strict=True):
        np.divide(ridge.axes.coordinates(X), np.sqrt(width), out=A[:, block])
    fit = same_kernel(A, R, w, keep_inverse=keep_inverse)
    if fit is None:
        return None, 0.0, None
    q = R.shape[1]
    explained = float(q) * max(float(np.sum(w[:, None] * R**2)) / (w.sum() * q) - fit.error, 0.0)
    if explained == 0.0:
        return None, 0.0, None
    products = fit.gradient_products(w)
    if keep_inverse:
        fit.products.update({(s.start, s.stop): products[s, s].copy() for s in blocks})
    found = [
        products[block, block] / width * ridge.root * ridge.root[:, None]
        for ridge, width, block in zip(ridges, widths, blocks, strict=True)
    ]
    trace = sum(np.trace(G) for G in found)
    return ([G / trace for G in found], explained, fit) if trace > 0 else (None, 0.0, None)


@dataclass(frozen=True)
class Residuals:
    """Whitened coordinates of all blocks and leave-one-out residuals of rows."""

    ridges: tuple[Ridge, ...]
    joint: Ridge
    response: ResponseMap

    def __call__(self, X: Any, Y: Array) -> tuple[Array, Array]:
        """Coordinates (rows x all) and residuals (rows x responses)."""
        white = Whitener.of(self.ridges)
        found = []
        for rows in folded_tiles(X, Y, None, self.joint, self.response, None):
            A = white(rows.Z)
            found.append((A.copy(), self.of_rows(rows.Z, A, rows.V)))
        return np.vstack([A for A, _ in found]), np.vstack([R for _, R in found])

    @property
    def sizes(self) -> list[int]:
        """Number of coordinates of every block."""
        return [len(ridge.axes.values) for ridge in self.ridges]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(self.sizes)

    def coordinates(self, X: Any) -> Array:
        """Whitened coordinates alone."""
        return np.hstack([ridge.axes.coordinates(X) / ridge.root for ridge in self.ridges])

    def of_rows(self, Z: Any, A: Array, V: Array) -> Array:
        """Residuals of a tile; one block's coordinates are those of all."""
        if len(self.ridges) == 1:
            return self.joint.held_out(A, self.ridges[0].root, V)
        axes = self.joint.axes
        out = workspace("auto.axes", (len(A), axes.map.shape[1]))
        rows_along(Z, slice(0, Z.shape[1]), axes.mean, axes.map, out)
        return self.joint.held_out(out, np.ones(out.shape[1]), V)


@dataclass(frozen=True)
class ResidualSums:
    """Moments of residuals with whitened coordinates, by fold, the sum of |r|^2 |a|^2 a a' within blocks, and sums of groups.

    Groups that lie within folds stand for these, and ``folds`` is empty.
    """

    folds: tuple[TripleMoments, ...]
    noise: Array
    groups: GroupParts = field(default_factory=lambda: GroupParts({}))

    def __add__(self, other: ResidualSums) -> ResidualSums:
        folds = tuple(a + b for a, b in zip(self.folds, other.folds, strict=True))
        return ResidualSums(folds, self.noise + other.noise, self.groups + other.groups)

    def absorb(self, other: ResidualSums) -> ResidualSums:
        """``self + other`` in the arrays of ``self``."""
        folds = tuple(a.absorb(b) for a, b in zip(self.folds, other.folds, strict=True))
        noise = np.add(self.noise, other.noise, out=self.noise)
        return ResidualSums(folds, noise, self.groups.absorb(other.groups))

    def by_fold(self) -> list[TripleMoments]:
        """Moments of the folds."""
        if self.folds:
            return list(self.folds)
        groups = self.groups.parts
        some = next(iter(groups.values())).moments
        inside = [[groups[i].moments for i in sorted(groups) if i % FOLDS == k] for k in range(FOLDS)]
        return [reduce(add, parts) if parts else some - some for parts in inside]


@dataclass(frozen=True)
class PartSums:
    """What the third pass adds up, as far as it is asked for."""

    blocks: BlockSums | None
    residuals: ResidualSums | None

    def __add__(self, other: PartSums) -> PartSums:
        return self._merged(other, operator.add)

    def absorb(self, other: PartSums) -> PartSums:
        """``self + other`` in the arrays of ``self``."""
        return self._merged(other, lambda a, b: a.absorb(b))

    def _merged(self, other: PartSums, combine: Callable[[Any, Any], Any]) -> PartSums:
        mine, theirs = (self.blocks, self.residuals), (other.blocks, other.residuals)
        return PartSums(*(None if a is None else combine(a, b) for a, b in zip(mine, theirs, strict=True)))


@dataclass(frozen=True)
class PartsPlan:
    """``plan(X, Y, weights)``: how blocks go together, and moments of residuals, from the same whitened rows.

    ``deal``: of groups of rows too; ``second`` false: of groups alone, without residuals.
    """

    rows: Residuals
    keys: RowKeys | None  # None: no moments of residuals
    blocks: BlockPlan | None
    deal: RowDeal | None = None
    second: bool = True

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> PartSums:
        """Statistic of one chunk."""
        white = Whitener.of(self.rows.ridges)
        p, q = white.parts[-1].stop, self.rows.response.map.shape[1]
        deal = self.deal
        nested = deal is not None and deal.nested
        cells, groups = None, None
        size = (p, q if self.second else 0)
        noisy, none = (white.parts, ()) if self.second else ((), ())
        if self.keys is not None and (self.second or nested):
            count = deal.k if deal is not None and nested else FOLDS
            own = noisy if nested or deal is None else none
            cells = CellTotals(count, *size, q if nested else 0, weights is not None, own)
        if deal is not None and not nested:
            groups = CellTotals(deal.k, *size, q, weights is not None, noisy)
        blocks: BlockSums | None = None
        for tile in folded_tiles(X, Y, weights, self.rows.joint, self.rows.response, self.keys, deal):
            A = white(tile.Z)
            if self.blocks is not None:
                found = self.blocks.of_rows(white, A, tile.V, tile.w)
                blocks = found if blocks is None else blocks.absorb(found)
            if self.keys is None:
                continue
            R = self.rows.of_rows(tile.Z, A, tile.V) if self.second else tile.V[:, :0]
            if cells is not None:
                cells.add(A, R, tile.V, tile.w, tile.ends)
            if groups is not None and tile.group is not None:
                groups.add_unsorted(A, R, tile.V, tile.w, tile.group)
        if self.keys is None:
            return PartSums(blocks, None)
        folds = cells.moments() if cells is not None and not nested else ()
        dealt = cells if nested else groups
        found_groups = GroupParts({}) if dealt is None else dealt.groups()
        noise = dealt or cells
        return PartSums(
            blocks,
            ResidualSums(folds, np.zeros((0, 0)) if noise is None else noise.noise_sums(), found_groups),
        )


@dataclass(frozen=True)
class FormPlan:
    """Sums over rows of f^2 for quadratic forms f learned without the row's fold."""

    rows: Residuals
    keys: RowKeys
    directions: tuple[Array, ...]  # fold -> columns x (responses, forms)
    values: tuple[Array, ...]  # fold -> responses x forms
    constants: tuple[Array, ...]  # fold -> responses

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        """Statistic of one chunk: a number per response."""
        joint = self.rows.joint
        q, k = self.values[0].shape
        total = np.zeros(q)
        for tile in folded_tiles(X, Y, weights, joint, self.rows.response, self.keys):
            start = 0
            for end, D, values, constants in zip(
                tile.ends, self.directions, self.values, self.constants, strict=True
            ):
                Z, w = tile.Z[start:end], tile.w[start:end]
                start = end
                out = workspace("auto.forms", (Z.shape[0], q * k))
                S = rows_along(Z, slice(0, Z.shape[1]), joint.axes.mean, D, out).reshape(-1, q, k)
                np.multiply(S, S, out=S)
                for j in range(q):
                    f = S[:, j] @ values[j] - constants[j]
                    total[j] += w @ (f * f)
        return total


def parts_pass(
    source: Source,
    ridges: Ridges,
    rows: Residuals,
    keys: RowKeys,
    *,
    blocks: bool,
    second: bool,
    deal: RowDeal | None = None,
) -> tuple[BlockSums | None, ResidualSums | None]:
    """One pass for what is asked for: how blocks go together, moments of residuals (``second``), sums of groups."""
    wanted = second or deal is not None
    if not wanted and not blocks:
        return None, None
    plan = PartsPlan(rows, keys if wanted else None, BlockPlan(ridges) if blocks else None, deal, second)
    found = source.reduce(plan, pass_rows(source.X, len(ridges.mean)))
    return found.blocks, found.residuals


def moments_part(
    source: Source,
    ridges: Sequence[Ridge],
    joint: Ridge,
    response: ResponseMap,
    keys: RowKeys,
    r: int,
    sums: ResidualSums | None = None,
) -> tuple[list[Array] | None, float]:
    """Second moments of the residual per block (debiased, trace one in all), and what their forms explain.

    ``sums``: those of ``PartsPlan``, if they are there already.
    """
    rows = Residuals(tuple(ridges), joint, response)
    chunk = pass_rows(source.X, len(joint.axes.mean))
    if sums is None:
        sums = source.reduce(PartsPlan(rows, keys, None), chunk).residuals
    assert sums is not None
    folds = sums.by_fold()
    total = reduce(add, folds)
    q = len(total.y)
    ones = np.ones(q)
    H = centre(total, y_scale=ones).triple[0, 0]
    n = total.count
    white = Whitener.of(rows.ridges)
    directions, values, constants, cross = [], [], [], np.zeros(q)
    for part in folds:
        if not 0.01 * n < n - part.count:  # copies of a row share a fold: the others may have none
            return None, 0.0
        train = centre(total - part, y_scale=ones)
        found = [_leading_forms(h, train.covariance[0, 0], 2 * r) for h in train.triple[0, 0]]
        constant = np.array([v @ m for _, v, m in found])
        for j, (U, v, _) in enumerate(found):  # sum of (r - mean) f over the rows of the fold
            centred = part.xyx[0, 0][j] - total.y[j] / n * part.xx[0, 0]
            cross[j] += np.einsum("ij,ij->j", U, centred @ U) @ v
            cross[j] -= constant[j] * (part.y[j] - total.y[j] / n * part.count)
        together = np.hstack([U for U, _, _ in found])
        directions.append(
            np.vstack([to_axes @ together[s] for to_axes, s in zip(white.maps, white.parts, strict=True)])
        )
        values.append(np.stack([v for _, v, _ in found]))
        constants.append(constant)
    plan = FormPlan(rows, keys, tuple(directions), tuple(values), tuple(constants))
    cross, square = cross / n, source.reduce(plan, chunk) / n
    explained = float(np.sum(np.maximum(cross, 0.0) ** 2 / np.where(square > 0, square, 1.0)))
    if explained == 0.0:
        return None, 0.0
    parts, start = [], 0
    for ridge in ridges:
        s = slice(start, start + len(ridge.axes.values))
        start = s.stop
        G = sum(h[s] @ h[s].T for h in H) - sums.noise[s, s] / n**2
        e, U = eigh((G + G.T) / 2)
        parts.append((U * np.maximum(e, 0.0)) @ U.T)
    trace = [float(np.trace(G)) for G in parts]
    return (
        ([G / t if t > 0 else G for G, t in zip(parts, trace, strict=True)], explained)
        if any(trace)
        else (None, 0.0)
    )


def _leading_forms(H: Array, covariance: Array, k: int) -> tuple[Array, Array, Array]:
    """The k eigenpairs of H of largest modulus, and the mean squares along them."""
    values, U = eigh((H + H.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")[:k]
    U = U[:, order]
    return U, values[order], np.einsum("ij,ik,kj->j", U, covariance, U)
