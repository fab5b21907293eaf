"""Rows that stay where Dask keeps them: the filter model is fitted by sums over partitions, its codes eliminated.

Nothing as long as the table comes to the client: labels, covariates and weights are made within the tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._rows import Partitions, as_array, dask_partitions, named_partition, sum_delayed
from .._validation import assert_finite, check_weights
from ..moments import Additive
from ._codes import nonnegative_codes
from ._descent import sweep
from ._losses import Array, Loss
from ._objective import (
    Problem,
    inverse_gram,
    make_problem,
    over_rows,
    projections,
    transposed,
)
from ._products import backward, check_nonnegative, forward, square_lengths
from ._scaling import second_moments
from ._tables import check_range, finite_rows, split_columns
from ._units import Columns, sum_columns

Target = Callable[[Any, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Outline:
    """What the client knows of an array that lives elsewhere: its shape and, of weights, their sum."""

    shape: tuple[int, ...]
    total: float = np.nan

    def sum(self) -> float:
        """Of weights."""
        return self.total


@dataclass(frozen=True)
class Opening(Additive):
    """Sums of a first pass: of rows, w, v, w ||x||^2, v x, what ``second_moments`` sums up, and by column."""

    n: int
    w: float
    v: float
    energy: float
    column: Array
    second: Array
    columns: Columns


@dataclass(frozen=True)
class CodeSums(Additive):
    """Sums over rows of w h'W'x, w h h' and w x h'."""

    cross: float
    gram: Array
    xh: Array


def beside(X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
    """What a pass over a Dask table takes: X and y, and weights if there are any."""
    weight = check_weights(sample_weight, X)
    return (X, y) if weight is None else (X, y, weight)


@dataclass(frozen=True)
class Prepare:
    """Arrays of a partition as statistics of a problem take them: X, Y, Z, w, v. ``target(y, w)`` gives Y and v."""

    columns: NDArray[np.intp]
    skipped: NDArray[np.intp]
    target: Target

    def __call__(self, X: Any, y: Any, *weight: Any) -> tuple[Any, ...]:
        """Split the columns, encode the target, check the weights."""
        w = chunk_weights(weight[0]) if weight else np.ones(X.shape[0])
        Y, v = self.target(y, w)
        X, Z = split_columns(X, self.columns, self.skipped)
        return X, Y, Z, w, v


def chunk_weights(weight: Any) -> Array:
    """Weights of some rows; refuses what is no number >= 0."""
    w = np.asarray(weight, dtype=np.float64).ravel()
    assert_finite(w, "sample_weight")
    if (w < 0).any():
        msg = f"sample_weight holds {w.min():g}; weights must be at least 0"
        raise ValueError(msg)
    return w


def remote_problem(
    arrays: tuple[Any, ...], prepare: Prepare, n_outputs: int, *, loss: Loss, positive: bool, **terms: Any
) -> Problem:
    """The problem of X, y and weights, of which some are Dask collections; one pass checks X and sums up."""
    rows = Partitions.of(*arrays, prepare=prepare)
    p, q = len(prepare.columns), len(prepare.skipped)
    blank = Outline((0,))
    shell = Problem(
        X=Outline((0, p)),
        Y=Outline((0, n_outputs)),
        Z=Outline((0, q)),
        weight=blank,
        label_weight=blank,
        loss=loss,
        model="filter",
        chunk=None,
        rows=rows,
        **terms,
    )
    opening: Opening = over_rows(shell, partial(_open, positive=positive))
    if not opening.w > 0:
        msg = "sample_weight is zero in every row, so no row is left; give some row a positive weight"
        raise ValueError(msg)
    n = opening.n
    return replace(
        shell,
        X=Outline((n, p)),
        Y=Outline((n, n_outputs)),
        Z=Outline((n, q)),
        weight=Outline((n,), opening.w),
        label_weight=Outline((n,), opening.v),
        opening=opening,
    )


def _open(X: Any, Y: Any, Z: Array, w: Array, v: Array, *, positive: bool) -> Opening:
    for part in (X, Z):
        assert_finite(part)
        check_range(part)
    if positive:
        check_nonnegative(X)
    return Opening(
        X.shape[0],
        float(w.sum()),
        float(v.sum()),
        float(w @ square_lengths(X)),
        np.asarray(X.T @ v, dtype=np.float64),
        second_moments(Z, v),
        sum_columns(X, w),
    )


def code_sums(problem: Problem, W: Array, positive: bool) -> CodeSums:
    """The sums of the best codes of a dictionary."""
    inverse = None if positive else inverse_gram(W)
    total: CodeSums = over_rows(problem, partial(_code_sums, W=W, inverse=inverse))
    return total


def _code_sums(X: Any, Y: Any, Z: Any, w: Array, v: Array, *, W: Array, inverse: Array | None) -> CodeSums:
    xw = forward(X, W)
    H = nonnegative_codes(xw, W.T @ W)[0] if inverse is None else xw @ inverse
    wh = w[:, None] * H
    return CodeSums(float(np.vdot(wh, xw)), H.T @ wh, backward(X, wh))


# ---------------------------------------------------------------------- nonnegative factors


@dataclass(frozen=True)
class Halves(Additive):
    """Sums over rows of w (x'V)^2 where it is positive and where it is negative, and of w x'1."""

    above: Array
    below: Array
    entries: float


def halves(problem: Problem, V: Array) -> Halves:
    """How large the positive and the negative parts of X V are."""
    return over_rows(problem, partial(_halves, V=V))


def _halves(X: Any, Y: Any, Z: Any, w: Array, v: Array, *, V: Array) -> Halves:
    xv = forward(X, V)
    entries = float(w @ np.asarray(X.sum(axis=1), dtype=np.float64).ravel())
    return Halves(w @ np.maximum(xv, 0.0) ** 2, w @ np.maximum(-xv, 0.0) ** 2, entries)


class RemoteCodes:
    """Codes that sweeps improve, kept beside their partitions; the client sees their sums alone."""

    def __init__(self, problem: Problem) -> None:
        self.rows = problem.rows
        self.kept: list[Any] | None = None

    def __call__(self, W: Array) -> CodeSums:
        """The sums after a step of the codes at this dictionary: the best ones at first, a sweep over columns later."""
        import dask

        once = dask.delayed(W, pure=False, traverse=False)
        if self.kept is None:
            steps = self.rows.map(_first_codes, once)
        else:
            steps = self.rows.map(_swept_codes, once, each=self.kept)
        steps = list(dask.persist(*steps))
        self.kept = [step[0] for step in steps]
        total: CodeSums = sum_delayed([step[1] for step in steps])
        return total


def _first_codes(W: Array, X: Any, Y: Any, Z: Any, w: Array, v: Array) -> tuple[Array, CodeSums]:
    local = make_problem(X, Y, weight=w)
    xw = projections(local, W)
    return _with_sums(local, nonnegative_codes(xw, W.T @ W)[0], xw)


def _swept_codes(W: Array, H: Array, X: Any, Y: Any, Z: Any, w: Array, v: Array) -> tuple[Array, CodeSums]:
    local = make_problem(X, Y, weight=w)
    xw = projections(local, W)
    return _with_sums(local, sweep(H, xw, W.T @ W), xw)


def _with_sums(local: Problem, H: Array, xw: Array) -> tuple[Array, CodeSums]:
    wh = local.weight[:, None] * H
    return H, CodeSums(float(np.vdot(wh, xw)), H.T @ wh, transposed(local, wh))


# ---------------------------------------------------------------------- rows in, rows out


def lazily(model: Any, name: str, X: Any, width: int | None, dtype: Any) -> Any:
    """``model.name(rows)`` of every partition as one Dask array; ``width`` is None for one number per row."""
    import dask
    import dask.array as da

    once = dask.delayed(model, pure=False, traverse=False)
    task = dask.delayed(_of_rows, pure=False)
    parts = dask_partitions(X)[0]
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(parts)
    tail = () if width is None else (width,)
    blocks = [
        da.from_delayed(task(i, once, name, part), shape=(size, *tail), dtype=dtype)
        for i, (part, size) in enumerate(zip(parts, sizes, strict=True))
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _of_rows(number: int, model: Any, name: str, part: Any) -> Any:
    with named_partition(number):
        X = as_array(part)
        assert_finite(X)
        return finite_rows(model, name, X)
