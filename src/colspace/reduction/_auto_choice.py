"""What is tried where it may matter, and chosen by held-out error: the ridge, how blocks follow each other, leading axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._blocks import Blocks
from ._auto_linear import BlockPlan, Ridges, Start, first_pass, linear_parts
from ._auto_rows import RowSample
from ._auto_stack import leading_loadings, stack
from ._auto_tiles import FOLDS
from ._determined import Known
from ._joint_fit import Solution
from ._source import Source
from ._tiles import pass_rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# steps of the ridge's grid, and how far blocks follow each other
_STEPS = (0, 2)
_ALPHAS: tuple[float | None, ...] = (0.0, 0.5, 2.0)
_ROWS = 400


@dataclass(frozen=True)
class Variant:
    """Steps of the ridge's grid, how far blocks follow each other (None: they share one ridge), and whether wide blocks keep leading axes alone."""

    steps: int = 0
    alpha: float | None = 0.0
    leading: bool = False


def wide_blocks(source: Source, blocks: Blocks) -> list[bool]:
    """Which of several blocks are in coordinates of the span of the rows."""
    several = len(blocks) > 1
    return [several and width >= source.X.shape[0] for width in source.n_columns or [0] * len(blocks)]


@dataclass(frozen=True)
class LeadingAxes:
    r"""Wide blocks by coordinates :math:`s_j^{-1/4} v_j^\top (x - \mu)`, half whitened, along their leading principal axes.

    Those with eigenvalues :math:`s_j` above the mean of all that are not zero lead: where columns outnumber rows the others
    are as many noises as there are rows, along which every response can be fitted.
    """

    columns: tuple[Index, ...]
    means: tuple[Array, ...]
    maps: tuple[Array | None, ...]  # None: the block stays as it is

    @classmethod
    def of(cls, start: Start, wide: Sequence[bool], r: int) -> LeadingAxes:
        """Of the blocks' axes in the first pass; at least r of each."""
        maps: list[Array | None] = []
        paths = start.paths[: len(wide)]
        for path, is_wide in zip(paths, wide, strict=True):
            values = path.axes.values
            k = min(max(r, leading_count(values)), len(values))
            root = np.sqrt(np.sqrt(np.maximum(values[:k], 1e-10 * values[0])))
            maps.append(path.axes.map[:, :k] / root if is_wide else None)
        return cls(tuple(p.axes.columns for p in paths), tuple(p.axes.mean for p in paths), tuple(maps))

    def source(self, source: Source) -> Source:
        """The table in these coordinates, blocks side by side."""
        parts = [
            source.X[:, c] if M is None else (source.X[:, c] - mean) @ M
            for c, mean, M in zip(self.columns, self.means, self.maps, strict=True)
        ]
        return replace(source, X=np.hstack(parts), start=None)

    def blocks(self, blocks: Blocks) -> Blocks:
        """The blocks of that table."""
        widths = [len(c) if M is None else M.shape[1] for c, M in zip(self.columns, self.maps, strict=True)]
        ends = np.cumsum(widths)
        places = np.split(np.arange(ends[-1]), ends[:-1])
        return Blocks(blocks.names, tuple(places), int(ends[-1]))

    def loadings(self, b: int, L: Array) -> Array:
        """Directions for the columns of block b from those in its coordinates."""
        M = self.maps[b]
        return L if M is None else M @ L

    def lifted(self, inner: Solution, mean: Array, scale: Array, known: Known) -> Solution:
        """The solution in these coordinates as one of the table that they come from."""
        widths = [len(c) for c in self.columns]
        return replace(
            inner,
            mean=mean,
            scale=scale,
            known=known,
            loadings=[self.loadings(b, L) for b, L in enumerate(inner.loadings)],
            supports=[np.arange(w) for w in widths],
            left=inner.left.mapped(self.loadings, widths),
        )


def leading_count(values: Array) -> int:
    """How many eigenvalues are above the mean of those that are not zero."""
    some = values[values > 1e-10 * values.max()]
    return int(np.count_nonzero(some > (1.0 + 1e-9) * some.mean()))


def choose_variant(source: Source, blocks: Blocks, ridges: Ridges, sample: RowSample, r: int) -> Variant:
    """The variant of least held-out error of a linear reader, where there is a choice.

    Scores of the rows a ridge has seen are overfit when columns outnumber rows, and a reader learns from them: a heavier
    ridge may do better. Several blocks may follow each other; they share one ridge (numbers as response, no wide block) or keep
    leading axes (wide blocks) if that is better by more than a standard error. Five folds of at most 400 rows of the sample.
    """
    wide = wide_blocks(source, blocks)
    alphas = _ALPHAS if len(blocks) > 1 else (0.0,)
    if len(blocks) > 1 and not (any(wide) or source.encoder.labels):
        alphas = (*alphas, None)
    steps = _STEPS if max(ridges.widths) > 0.8 * ridges.count else (0,)
    variants = [Variant(step, alpha) for step in steps for alpha in alphas]
    plain = len(variants)
    if any(wide):
        variants += [Variant(0, alpha, leading=True) for alpha in alphas]
    if len(variants) == 1 or len(sample.keys) < 2 * FOLDS:
        return Variant()
    few = slice(0, _ROWS)
    Y, w, fold = sample.Y[few], sample.weights[few], sample.keys[few] % np.uint64(FOLDS)
    table = replace(source, X=sample.X[few], y=Y, weights=w, start=None)
    V = ridges.response(Y)
    errors = np.zeros((len(variants), len(V)))
    for k in range(FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(train) < 3 or not len(test):
            continue
        varies = np.ptp(Y[train], axis=0) > 0  # a class that no other fold has is no response there
        if not varies.any():
            continue
        rows = HeldOut(replace(table, y=Y[:, varies]), blocks, V, train, test)
        start = first_pass(rows.train_rows, blocks)
        errors[:plain, test] = rows.errors(start, steps, alphas, r)
        if any(wide):
            axes = LeadingAxes.of(start, wide, r)
            rows = replace(rows, table=axes.source(rows.table), blocks=axes.blocks(blocks))
            errors[plain:, test] = rows.errors(first_pass(rows.train_rows, rows.blocks), (0,), alphas, r)
    total, apart = errors.sum(axis=1), np.array([v.leading or v.alpha is None for v in variants])
    best = int(np.argmin(np.where(apart, np.inf, total)))
    if apart.any():
        other = int(np.argmin(np.where(apart, total, np.inf)))
        gain = errors[best] - errors[other]
        if gain.sum() > np.sqrt(len(gain)) * gain.std():
            best = other
    return variants[best]


@dataclass(frozen=True)
class HeldOut:
    """A small table in memory, rows of it to learn from and rows left out, and the responses V of all."""

    table: Source
    blocks: Blocks
    V: Array
    train: Index
    test: Index

    @property
    def train_rows(self) -> Source:
        """The rows to learn from."""
        t, rows = self.table, self.train
        return replace(t, X=t.X[rows], y=t.y[rows], weights=t.weights[rows])

    def errors(self, start: Start, steps: Sequence[int], alphas: Sequence[float | None], r: int) -> Array:
        """Squared errors of the rows left out (variants x rows), for the first pass over the others."""
        rows, X, w = self.train_rows, self.table.X, self.table.weights
        loo = rows.reduce(start.plan)
        found = []
        for step in steps:
            ridges = start.choose(loo, step)
            sums = block_sums(rows, ridges)
            for alpha in alphas:
                parts = linear_parts(ridges, sums, r, alpha)
                Z, Z_test = embeddings(ridges, parts, r, (rows.X, X[self.test]))
                train, test = (self.V[self.train], rows.weights), (self.V[self.test], w[self.test])
                found.append(reader_errors(Z, *train, Z_test, *test))
        return np.stack(found)


def block_sums(source: Source, ridges: Ridges) -> Any:
    """How the blocks' predictions go together; None for one block."""
    return (
        source.reduce(BlockPlan(ridges), pass_rows(source.X, len(ridges.mean)))
        if len(ridges.blocks) > 1
        else None
    )


def embeddings(ridges: Ridges, parts: Sequence[Array], r: int, tables: tuple[Any, ...]) -> list[Array]:
    """The linear parts' embeddings of tables, blocks side by side."""
    found = []
    for ridge, G in zip(ridges.blocks, parts, strict=True):
        L = leading_loadings(stack(G, None, 0.0, None, 0.0, ridge.axes.values), ridge, min(r, len(G)))[0]
        found.append((ridge.axes, L))
    return [np.hstack([(X[:, axes.columns] - axes.mean) @ L for axes, L in found]) for X in tables]


def reader_errors(Z: Array, V: Array, w: Array, Z_test: Array, V_test: Array, w_test: Array) -> Array:
    """Squared errors (times weights) of further rows of least squares on standardised scores, with next to no ridge."""
    share = w / w.sum()
    mean, target = share @ Z, share @ V
    A = Z - mean
    scale = np.sqrt(share @ (A * A))
    A = A / np.where(scale > 0, scale, 1.0)
    B = np.linalg.solve((A.T * share) @ A + 1e-3 * np.eye(A.shape[1]), (A.T * share) @ (V - target))
    guess = (Z_test - mean) / np.where(scale > 0, scale, 1.0) @ B + target
    return np.asarray(w_test * np.sum((V_test - guess) ** 2, axis=1))
