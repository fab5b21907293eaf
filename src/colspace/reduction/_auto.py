"""Directions for any table: a ridge's, the residual's gradients and second moments, stacked by what each explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._blocks import Blocks
from .._rows import sum_parts
from .._threads import both
from .._validation import warn_constant
from ..factor import eigh
from ._auto_choice import LeadingAxes, Variant, choose_variant, wide_blocks
from ._auto_errors import auto_left_out
from ._auto_groups import choose_deal, group_bytes
from ._auto_kernel import KernelGradients
from ._auto_linear import Ridges, Start, first_pass, linear_parts
from ._auto_parts import Residuals, kernel_part, moments_part, parts_pass
from ._auto_rows import RowKeys, RowSample, SamplePlan
from ._auto_stack import fill_weight, filled, leading_loadings, weighed
from ._determined import Known, warn_known
from ._jackknife import LeftOut
from ._joint_fit import Solution
from ._ridge import Axes, LooPaths, LooPlan
from ._source import Source
from ._span import Span
from ._tiles import pass_rows, tiles

Array = NDArray[np.float64]

_CHANCE = 4.0  # over the rows: a squared correlation of two standard errors


def fit_auto(
    source: Source,
    blocks: Blocks,
    r: int,
    seed: int = 0,
    n_groups: int | None = None,
    variant: Variant | None = None,
) -> Solution:
    r"""Directions per block from two to four passes over the rows and a kernel regression on a sample of them.

    With :math:`a = (S + \lambda)^{-1/2} x` per block, :math:`\lambda` the ridge of least leave-one-out error, the directions are
    the leading eigenvectors of ``stack``: the ridge's own (``linear_parts``), and those in which its leave-one-out
    residual bends, by gradients of a kernel regression (``kernel_part``) and by second moments (``moments_part``).
    Where little is linear (see ``least_ridge``) the columns are whitened with next to no ridge, for what bends; where nothing does, the fit is
    made again with the ridge of least error. With ``n_groups`` the same passes keep the sums of groups of rows for errors of the directions. ``variant``: what
    ``choose_variant`` is to find.
    """
    start = first_pass(source, blocks)
    keys = row_keys(source, blocks, start, seed)
    found = source.reduce(SecondPlan(start.plan, SamplePlan(keys)), pass_rows(source.X, len(start.mean)))
    ridges = start.choose(found.loo)
    variant = variant or choose_variant(source, blocks, ridges, found.sample, r)
    if variant.leading:
        return _on_leading_axes(source, blocks, start, r, seed, n_groups, replace(variant, leading=False))
    if variant.steps:
        ridges = start.choose(found.loo, variant.steps)
    solution = _fit_ridges(source, blocks, ridges, keys, found.sample, r, n_groups, variant.alpha)
    least = start.choose(found.loo, variant.steps, held_back=False)
    same = all(a.ridge == b.ridge for a, b in zip(least.blocks, ridges.blocks, strict=True))
    if same or bends_more(solution, ridges.count):
        return solution
    return _fit_ridges(source, blocks, least, keys, found.sample, r, n_groups, variant.alpha)


def bends_more(solution: Solution, count: float) -> bool:
    """Whether more of the response bends than is linear, and than chance would have it: then columns are whitened whatever they say linearly."""
    parts = solution.parts or {}
    return max(parts["gradients"], parts["moments"]) >= max(parts["linear"], _CHANCE / count)


def _on_leading_axes(
    source: Source, blocks: Blocks, start: Start, r: int, seed: int, n_groups: int | None, variant: Variant
) -> Solution:
    """``fit_auto`` on the leading principal axes of wide blocks, for their columns."""
    axes = LeadingAxes.of(start, wide_blocks(source, blocks), r)
    inner = fit_auto(axes.source(source), axes.blocks(blocks), r, seed, n_groups, variant)
    known = Known(start.cross, start.response, source.encoder.labels, start.count)
    lifted = axes.lifted(inner, start.mean, start.scale, known)
    own = [path.axes for path in start.paths[: len(blocks)]]
    return replace(lifted, spreads=_spreads(source, own, blocks, lifted.loadings, start.scale))


def _fit_ridges(
    source: Source,
    blocks: Blocks,
    ridges: Ridges,
    keys: RowKeys,
    sample: RowSample,
    r: int,
    n_groups: int | None,
    alpha: float | None,
) -> Solution:
    """``fit_auto`` from the ridges on: what bends, the parts stacked, their directions and errors."""
    rows = Residuals(ridges.blocks, ridges.joint, ridges.response)
    bends = rows.size <= ridges.count / 4
    deal, note = choose_deal(
        n_groups, group_bytes(rows.sizes, ridges.n_responses, second=bends), source, sample
    )
    (gradients, v_kernel, kernel), (sums, residuals) = both(
        lambda: kernel_part(
            sample, ridges.blocks, ridges.joint, ridges.response, ridges.widths, keep_inverse=deal is not None
        ),
        lambda: parts_pass(source, ridges, rows, keys, blocks=len(blocks) > 1, second=bends, deal=deal),
    )
    linear = linear_parts(ridges, sums, r, alpha)
    moments, v_moments = None, 0.0
    if residuals is not None and bends:
        moments, v_moments = moments_part(
            source, ridges.blocks, ridges.joint, ridges.response, keys, r, residuals
        )
    none = [None] * len(blocks)
    stacks = [
        weighed(L, G, v_kernel, M, v_moments)
        for L, G, M in zip(linear, gradients or none, moments or none, strict=True)
    ]
    fill = [fill_weight(G) for G in stacks]
    directions = [
        leading_loadings(filled(G, weight, ridge.axes.values), ridge, r)
        for G, weight, ridge in zip(stacks, fill, ridges.blocks, strict=True)
    ]
    loadings = [L for L, _ in directions]
    left = LeftOut(note=note)
    if deal is not None and residuals is not None:
        left = auto_left_out(
            residuals.groups,
            deal,
            sample,
            loadings,
            ridges=ridges,
            unit=source.unit,
            r=r,
            alpha=alpha,
            blocks=sums,
            kernel=None if kernel is None else KernelGradients(kernel, sample.weights),
            v_kernel=v_kernel,
            v_moments=v_moments,
            seconds=moments,
            fill=fill,
            sampled=rows.coordinates(sample.X),
            weights=sample.weights,
        )
    parts = _explained(ridges, v_kernel, v_moments)
    return _solution(source, blocks, ridges, loadings, [values for _, values in directions], parts, left)


def _explained(ridges: Ridges, v_kernel: float, v_moments: float) -> dict[str, float]:
    """What each part explains of a response, on average."""
    q = ridges.n_responses
    linear = float(np.maximum(eigh(ridges.joint.agreement)[0], 0.0).sum())
    return {"linear": linear / q, "gradients": float(v_kernel) / q, "moments": v_moments / q}


def _solution(
    source: Source,
    blocks: Blocks,
    ridges: Ridges,
    loadings: list[Array],
    values: list[Array],
    parts: dict[str, float],
    left: LeftOut,
) -> Solution:
    return Solution(
        mean=ridges.mean,
        loadings=loadings,
        values=values,
        supports=[np.arange(w) for w in blocks.widths],
        shrinkage=[0.0] * len(blocks),
        scale=ridges.scale,
        count=ridges.count,
        solver="exact",
        ridges=[ridge.ridge for ridge in ridges.blocks],
        axes=[len(ridge.axes.values) for ridge in ridges.blocks],
        known=Known(ridges.cross, ridges.response, source.encoder.labels, ridges.count),
        parts=parts,
        spreads=_spreads(source, [ridge.axes for ridge in ridges.blocks], blocks, loadings, ridges.scale),
        left=left,
    )


def _spreads(
    source: Source, axes: Sequence[Axes], blocks: Blocks, loadings: Sequence[Array], scale: Array
) -> list[Array]:
    """Covariances of the columns of each block with its embedding."""
    return [
        own.covariances(L, np.ones(len(L)) if source.unit else scale[s])
        for own, L, s in zip(axes, loadings, blocks.slices, strict=True)
    ]


def finished(solution: Solution, span: Span | None, names: Sequence[object]) -> Solution:
    """The solution for the original columns; those that are constant or know the response are named."""
    if span is None:
        warn_constant(solution.scale, names)
    else:
        solution = solution.lifted(span)
    if solution.known is not None:
        warn_known(solution.known, solution.scale, names)
    return solution


@dataclass(frozen=True)
class SecondSums:
    """Leave-one-out sums of ridges, and a sample of rows."""

    loo: LooPaths
    sample: RowSample

    def __add__(self, other: SecondSums) -> SecondSums:
        return SecondSums(self.loo + other.loo, self.sample + other.sample)


@dataclass(frozen=True)
class SecondPlan:
    """``plan(X, Y, weights)``: the sums of ``LooPlan`` and the sample of ``SamplePlan`` from the same centred rows."""

    loo: LooPlan
    sample: SamplePlan

    def __call__(self, X: Any, Y: Array, weights: Array | None = None) -> SecondSums:
        """Statistic of one chunk."""
        keys = np.empty(len(Y), dtype=np.uint64)
        joint = self.loo.paths[-1].axes

        def sums(rows: slice, Z: Any) -> LooPaths:
            V = self.loo.response(Y[rows])
            keys[rows] = self.sample.keys.of_rows(Z, V)
            return self.loo.of_rows(Z, V, None if weights is None else weights[rows])

        loo = sum_parts(sums(rows, Z) for rows, Z in tiles(X, joint.columns, joint.mean))
        return SecondSums(loo, self.sample.chosen(keys, X, Y, weights))


def row_keys(source: Source, blocks: Blocks, ridges: Ridges | Start, seed: int) -> RowKeys:
    """Keys of rows in the units of standardised columns."""
    scale = ridges.scale
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    if source.unit:
        inverse = np.ones_like(scale)
    return RowKeys(np.concatenate(blocks.columns), ridges.mean, inverse, ridges.response, seed)
