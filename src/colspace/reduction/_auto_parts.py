"""What bends: gradients and second moments of the ridge's leave-one-out residual."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._rows import workspace
from ..factor import eigh
from ..moments import TripleMoments, add_gram, centre, mirrored
from ._auto_linear import BlockPlan, BlockSums, Ridges
from ._auto_rows import RowKeys, RowSample
from ._auto_tiles import FOLDS, Whitener, folded_tiles
from ._gradient import fit_kernel
from ._ridge import ResponseMap, Ridge
from ._source import Source
from ._tiles import pass_rows, rows_along

Array = NDArray[np.float64]


def kernel_part(
    sample: RowSample, ridges: Sequence[Ridge], joint: Ridge, response: ResponseMap, widths: Sequence[int]
) -> tuple[list[Array] | None, float]:
    """Gradient products of the residual's kernel regression per block (trace one in all), and what it explains."""
    X, w = sample.X, sample.weights
    R = joint.path.loo(X, response(sample.Y))[0][:, 0]
    R = R - w @ R / w.sum()
    ends = np.cumsum([0, *(len(ridge.axes.values) for ridge in ridges)]).tolist()
    blocks = [slice(i, j) for i, j in pairwise(ends)]
    A = np.empty((len(X), ends[-1]))
    for ridge, width, block in zip(ridges, widths, blocks, strict=True):
        np.divide(ridge.axes.coordinates(X), np.sqrt(width), out=A[:, block])
    fit = fit_kernel(A, R, w)
    if fit is None:
        return None, 0.0
    q = R.shape[1]
    explained = float(q) * max(float(np.sum(w[:, None] * R**2)) / (w.sum() * q) - fit.error, 0.0)
    if explained == 0.0:
        return None, 0.0
    products = fit.gradient_products(w)
    found = [
        products[block, block] / width * ridge.root * ridge.root[:, None]
        for ridge, width, block in zip(ridges, widths, blocks, strict=True)
    ]
    trace = sum(np.trace(G) for G in found)
    return ([G / trace for G in found], explained) if trace > 0 else (None, 0.0)


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
    """Moments of residuals with whitened coordinates, by fold, and the sum of |r|^2 |a|^2 a a' within blocks."""

    folds: tuple[TripleMoments, ...]
    noise: Array

    def __add__(self, other: ResidualSums) -> ResidualSums:
        folds = tuple(a + b for a, b in zip(self.folds, other.folds, strict=True))
        return ResidualSums(folds, self.noise + other.noise)

    def absorb(self, other: ResidualSums) -> ResidualSums:
        """``self + other`` in the arrays of ``self``."""
        folds = tuple(a.absorb(b) for a, b in zip(self.folds, other.folds, strict=True))
        return ResidualSums(folds, np.add(self.noise, other.noise, out=self.noise))


class ResidualTotals:
    """Where the sums of residuals grow, tile by tile."""

    def __init__(self, parts: tuple[slice, ...], q: int) -> None:
        p = parts[-1].stop
        self.parts = parts
        self.rows = [0] * FOLDS
        self.count, self.x, self.y = np.zeros(FOLDS), np.zeros((FOLDS, p)), np.zeros((FOLDS, q))
        self.yy, self.xy = np.zeros((FOLDS, q, q)), np.zeros((FOLDS, p, q))
        self.xx, self.xyx = np.zeros((FOLDS, p, p)), np.zeros((FOLDS, q, p, p))
        self.noise = [np.zeros((s.stop - s.start, s.stop - s.start)) for s in parts]

    def add(self, A: Array, R: Array, w: Array, ends: tuple[int, ...], *, weighted: bool) -> None:
        """Rows of a tile, those of a fold together."""
        W = R * w[:, None]
        start = 0
        for k, end in enumerate(ends):
            s = slice(start, end)
            start = end
            a, r, v = A[s], R[s], w[s]
            self.rows[k] += int(np.count_nonzero(v))
            self.count[k] += v.sum()
            self.x[k] += v @ a
            self.y[k] += W[s].sum(axis=0)
            self.yy[k] += r.T @ W[s]
            self.xy[k] += a.T @ W[s]
            add_gram(self.xx[k], a, v if weighted else None)
            for j in range(R.shape[1]):
                add_gram(self.xyx[k, j], a, W[s, j])
        noise = np.sqrt(w * np.einsum("ij,ij->i", R, R) * np.einsum("ij,ij->i", A, A))[:, None]
        for b, part in enumerate(self.parts):
            width = part.stop - part.start
            scaled = np.multiply(A[:, part], noise, out=workspace("scaled", (len(A), width)))
            add_gram(self.noise[b], scaled)

    def sums(self) -> ResidualSums:
        """What was added."""
        p, q = self.xy.shape[1:]
        for g in self.xyx.reshape(-1, p, p):
            mirrored(g)
        noise = np.zeros((p, p))
        for s, found in zip(self.parts, self.noise, strict=True):
            noise[s, s] = mirrored(found)
        folds = tuple(
            TripleMoments(
                shift_x=np.zeros(p),
                shift_y=np.zeros(q),
                scale_y=1.0,
                slices=(slice(0, p),),
                rows=self.rows[k],
                count=float(self.count[k]),
                x=self.x[k],
                y=self.y[k],
                yy=self.yy[k],
                xy=self.xy[k],
                xx={(0, 0): mirrored(self.xx[k])},
                xyx={(0, 0): self.xyx[k]},
            )
            for k in range(FOLDS)
        )
        return ResidualSums(folds, noise)


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
    """``plan(X, Y, weights)``: how blocks go together, and moments of residuals, from the same whitened rows."""

    rows: Residuals
    keys: RowKeys | None  # None: no moments of residuals
    blocks: BlockPlan | None

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> PartSums:
        """Statistic of one chunk."""
        white = Whitener.of(self.rows.ridges)
        totals = (
            ResidualTotals(white.parts, self.rows.response.map.shape[1]) if self.keys is not None else None
        )
        blocks: BlockSums | None = None
        for tile in folded_tiles(X, Y, weights, self.rows.joint, self.rows.response, self.keys):
            A = white(tile.Z)
            if self.blocks is not None:
                found = self.blocks.of_rows(white, A, tile.V, tile.w)
                blocks = found if blocks is None else blocks.absorb(found)
            if totals is not None:
                R = self.rows.of_rows(tile.Z, A, tile.V)
                totals.add(A, R, tile.w, tile.ends, weighted=weights is not None)
        return PartSums(blocks, totals.sums() if totals is not None else None)


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
    source: Source, ridges: Ridges, keys: RowKeys | None, *, blocks: bool
) -> tuple[BlockSums | None, ResidualSums | None]:
    """One pass for what is asked for: how blocks go together, moments of residuals (with keys)."""
    if keys is None and not blocks:
        return None, None
    rows = Residuals(ridges.blocks, ridges.joint, ridges.response)
    plan = PartsPlan(rows, keys, BlockPlan(ridges) if blocks else None)
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
    total = sums.folds[0]
    for part in sums.folds[1:]:
        total = total + part
    q = len(total.y)
    ones = np.ones(q)
    H = centre(total, y_scale=ones).triple[0, 0]
    n = total.count
    white = Whitener.of(rows.ridges)
    directions, values, constants, cross = [], [], [], np.zeros(q)
    for part in sums.folds:
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
