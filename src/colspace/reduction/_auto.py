"""Directions for any table: a ridge's, the residual's gradients and second moments, stacked by what each explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._blocks import Blocks
from .._rows import sum_parts
from .._validation import warn_constant
from ..factor import break_ties, eigh
from ._auto_errors import auto_left_out
from ._auto_groups import choose_deal, group_bytes
from ._auto_kernel import KernelGradients
from ._auto_linear import BlockPlan, Ridges, Start, first_pass, linear_parts
from ._auto_parts import Residuals, kernel_part, moments_part, parts_pass
from ._auto_rows import RowKeys, RowSample, SamplePlan
from ._auto_tiles import FOLDS
from ._determined import Known, warn_known
from ._jackknife import LeftOut
from ._joint_fit import Solution
from ._ridge import LooPaths, LooPlan, Ridge
from ._source import Source
from ._span import Span
from ._tiles import pass_rows, tiles

Array = NDArray[np.float64]

# directions that weigh less than this share of the strongest are noise: the order of PCA is the better guess
_FILL = 0.01
# what is tried where it may matter: steps of the ridge's grid, and how far blocks follow each other
_STEPS = (0, 2)
_ALPHAS = (0.0, 0.5, 2.0)
_CHOICE_ROWS = 400


def fit_auto(source: Source, blocks: Blocks, r: int, seed: int = 0, n_groups: int | None = None) -> Solution:
    r"""Directions per block from two to four passes over the rows and a kernel regression on a sample of them.

    With :math:`a = (S + \lambda)^{-1/2} x` per block, :math:`\lambda` the ridge of least leave-one-out error, the directions are
    the leading eigenvectors of ``stack``: the ridge's own (``linear_parts``), and those in which its leave-one-out
    residual bends, by gradients of a kernel regression (``kernel_part``) and by second moments (``moments_part``).
    With ``n_groups`` the same passes keep the sums of groups of rows for errors of the directions.
    """
    start = first_pass(source, blocks)
    keys = row_keys(source, blocks, start, seed)
    found = source.reduce(SecondPlan(start.plan, SamplePlan(keys)), pass_rows(source.X, len(start.mean)))
    loo, sample = found.loo, found.sample
    ridges = start.choose(loo)
    steps, alpha = choose_variant(source, blocks, ridges, sample, r)
    if steps:
        ridges = start.choose(loo, steps)
    rows = Residuals(ridges.blocks, ridges.joint, ridges.response)
    bends = rows.size <= ridges.count / 4
    deal, note = choose_deal(
        n_groups, group_bytes(rows.size, ridges.n_responses, second=bends), source, sample
    )
    gradients, v_kernel, kernel = kernel_part(
        sample, ridges.blocks, ridges.joint, ridges.response, ridges.widths, keep_inverse=deal is not None
    )
    sums, residuals = parts_pass(source, ridges, rows, keys, blocks=len(blocks) > 1, second=bends, deal=deal)
    linear = linear_parts(ridges, sums, r, alpha)
    moments, v_moments = None, 0.0
    if residuals is not None and bends:
        moments, v_moments = moments_part(
            source, ridges.blocks, ridges.joint, ridges.response, keys, r, residuals
        )
    loadings, values, fill = [], [], []
    for b, ridge in enumerate(ridges.blocks):
        G = weighed(
            linear[b],
            None if gradients is None else gradients[b],
            v_kernel,
            None if moments is None else moments[b],
            v_moments,
        )
        fill.append(fill_weight(G))
        L, found = leading_loadings(filled(G, fill[-1], ridge.axes.values), ridge, r)
        loadings.append(L)
        values.append(found)
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
            noise=None if moments is None else residuals.noise,
            seconds=moments,
            fill=fill,
            sampled=rows.coordinates(sample.X),
            weights=sample.weights,
        )
    q = ridges.n_responses
    spoken = float(np.maximum(eigh(ridges.joint.agreement)[0], 0.0).sum())
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
        known=Known(ridges.cross, ridges.response, source.encoder.labels, ridges.count),
        parts={"linear": spoken / q, "gradients": float(v_kernel) / q, "moments": v_moments / q},
        left=left,
    )


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


def block_sums(source: Source, ridges: Ridges) -> Any:
    """How the blocks' predictions go together; None for one block."""
    return (
        source.reduce(BlockPlan(ridges), pass_rows(source.X, len(ridges.mean)))
        if len(ridges.blocks) > 1
        else None
    )


def leading_loadings(G: Array, ridge: Ridge, r: int) -> tuple[Array, Array]:
    """Directions for the block's columns and roots of the eigenvalues, from a matrix in whitened coordinates."""
    found, U = eigh(G)
    U = break_ties(found[::-1], U[:, ::-1], r, np.diag(ridge.axes.values))
    return ridge.axes.map @ (U / ridge.root[:, None]), np.sqrt(np.maximum(found[::-1][:r], 0.0))


def choose_variant(
    source: Source, blocks: Blocks, ridges: Ridges, sample: RowSample, r: int
) -> tuple[int, float]:
    """Steps of the ridge's grid and alpha of least held-out error of a linear reader, where there is a choice.

    Scores of the rows a ridge has seen are overfit when columns outnumber rows, and a reader learns from them; several
    blocks may follow each other. Five folds of at most 400 rows of the sample.
    """
    wide = max(ridges.widths) > 0.8 * ridges.count
    alphas: Sequence[float] = _ALPHAS if len(blocks) > 1 else (0.0,)
    steps = _STEPS if wide else (0,)
    if len(alphas) * len(steps) == 1 or len(sample.keys) < 2 * FOLDS:
        return 0, 0.0
    few = slice(0, _CHOICE_ROWS)
    X, Y, w, fold = sample.X[few], sample.Y[few], sample.weights[few], sample.keys[few] % np.uint64(FOLDS)
    V = ridges.response(Y)
    errors = np.zeros((len(steps), len(alphas)))
    for k in range(FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(train) < 3 or not len(test) or not np.ptp(V[train], axis=0).all():
            continue
        rows = replace(source, X=X[train], y=Y[train], weights=w[train], start=None)
        start = first_pass(rows, blocks)
        loo = rows.reduce(start.plan)
        for i, step in enumerate(steps):
            learned = start.choose(loo, step)
            sums = block_sums(rows, learned)
            for j, alpha in enumerate(alphas):
                parts = linear_parts(learned, sums, r, alpha)
                Z, Z_test = embeddings(learned, parts, r, (X[train], X[test]))
                errors[i, j] += reader_error(Z, V[train], w[train], Z_test, V[test], w[test])
    best = np.unravel_index(np.argmin(errors), errors.shape)
    return steps[int(best[0])], alphas[int(best[1])]


def embeddings(ridges: Ridges, parts: Sequence[Array], r: int, tables: tuple[Any, ...]) -> list[Array]:
    """The linear parts' embeddings of tables, blocks side by side."""
    found = []
    for ridge, G in zip(ridges.blocks, parts, strict=True):
        L = leading_loadings(stack(G, None, 0.0, None, 0.0, ridge.axes.values), ridge, min(r, len(G)))[0]
        found.append((ridge.axes, L))
    return [np.hstack([(X[:, axes.columns] - axes.mean) @ L for axes, L in found]) for X in tables]


def reader_error(Z: Array, V: Array, w: Array, Z_test: Array, V_test: Array, w_test: Array) -> float:
    """Squared error on further rows of least squares on standardised scores, with next to no ridge."""
    share = w / w.sum()
    mean, target = share @ Z, share @ V
    A = Z - mean
    scale = np.sqrt(share @ (A * A))
    A = A / np.where(scale > 0, scale, 1.0)
    B = np.linalg.solve((A.T * share) @ A + 1e-3 * np.eye(A.shape[1]), (A.T * share) @ (V - target))
    guess = (Z_test - mean) / np.where(scale > 0, scale, 1.0) @ B + target
    return float(np.sum(w_test[:, None] * (V_test - guess) ** 2))


def stack(
    linear: Array,
    gradients: Array | None,
    v_kernel: float,
    moments: Array | None,
    v_moments: float,
    spread: Array,
) -> Array:
    r"""G = G_L + 2 (v_K^2 G_K + v_H^2 G_H)/(v_K + v_H), plus |G|/100 diag(eigenvalues / largest).

    A component of degree k under a Gaussian law has k times its variance as gradient energy: hence the 2. The last
    term fills with the order of PCA where nothing speaks.
    """
    G = weighed(linear, gradients, v_kernel, moments, v_moments)
    return filled(G, fill_weight(G), spread)


def weighed(
    linear: Array, gradients: Array | None, v_kernel: float, moments: Array | None, v_moments: float
) -> Array:
    """``stack`` without its last term."""
    G = linear.copy()
    both = v_kernel + v_moments
    if both > 0:
        if gradients is not None:
            G += 2 * v_kernel**2 / both * gradients
        if moments is not None:
            G += 2 * v_moments**2 / both * moments
    return G


def fill_weight(G: Array) -> float:
    """|G|/100, or 1/100 where G is zero."""
    strongest = float(eigh(G, 1)[0][-1])
    return _FILL * (strongest if strongest > 0 else 1.0)


def filled(G: Array, weight: float, spread: Array) -> Array:
    """``stack`` from what ``weighed`` gives."""
    return G + weight * np.diag(spread / spread.max())
