"""The filter model with its codes eliminated: its value and gradient, by passes over rows or from X'X."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._rows import chunk_rows, is_dask, reduce_rows
from ..moments import Additive
from ._losses import Array, Loss
from ._objective import (
    Coefficients,
    Problem,
    Sums,
    gradient_of,
    inverse_gram,
    over_rows,
    row_sums,
    value_of,
)
from ._products import backward, forward, second_moment

_TALL = 2  # rows per column from which X'X is made
_WIDEST = 4096  # columns of it at most
_ROWS = 2048  # of a chunk that it is made of, at least
_PER_ATOM = 100  # columns per atom at most: fewer atoms are as quick without it


def eliminated(problem: Problem, at: Coefficients, positive: bool = False) -> tuple[float, Coefficients]:
    """min over H (>= 0 if ``positive``) of L of the filter model without L1, and its gradient: no chain rule is needed."""
    if positive:
        sums = row_sums(problem, at, None, positive=True)
    elif problem.moment is not None:
        sums = _moment_sums(problem, problem.moment, at)
    else:
        sums = row_sums(problem, at, None, inverse_gram(at.W))
    return value_of(problem, at, sums), gradient_of(problem, at, sums)


# ---------------------------------------------------------------------- the Gram form


def with_moment(problem: Problem, n_components: int) -> Problem:
    """The problem with M = X' diag(w) X, where rows outnumber columns enough to pay for it."""
    n, p = problem.X.shape
    pays = n >= _TALL * p and p <= min(_WIDEST, _PER_ATOM * n_components)
    if problem.moment is not None or sparse.issparse(problem.X) or not pays:
        return problem
    if problem.rows is not None:
        return replace(problem, moment=over_rows(problem, second_moment))
    arrays = problem.X, problem.Y, problem.Z, problem.weight, problem.label_weight
    chunk = problem.chunk or (None if is_dask(problem.X) else max(_ROWS, chunk_rows(problem.X)))
    return replace(problem, moment=reduce_rows(second_moment, *arrays, chunk=chunk))


@dataclass(frozen=True)
class LabelSums(Additive):
    """Sums over rows of v loss, x k', z k' and k."""

    label: float
    xk: Array
    zk: Array
    k: Array


@dataclass(frozen=True)
class LabelPass:
    """``LabelPass(...)(X, Y, Z, w, v)``: the sums of a chunk at activations X A + Z G + c; X meets K columns alone."""

    loss: Loss
    A: Array
    G: Array
    intercept: Array

    def __call__(self, X: Any, Y: Any, Z: Any, w: Array, v: Array) -> LabelSums:
        """Sums of one chunk."""
        a = forward(X, self.A) + Z @ self.G + self.intercept
        k = v[:, None] * self.loss.slope(a, Y)
        return LabelSums(float(v @ self.loss.value(a, Y)), backward(X, k), Z.T @ k, k.sum(axis=0))


def _moment_sums(problem: Problem, M: Array, at: Coefficients) -> Sums:
    """The sums at H = X W P, P = (W'W)^-1: w h'W'x is tr(P W'M W), w h h' is P W'M W P and w x h' is M W P."""
    W, B, G, c = at
    step = LabelPass(problem.loss, W @ B, G, c)
    if problem.rows is not None:
        seen: LabelSums = over_rows(problem, step)
    else:
        arrays = problem.X, problem.Y, problem.Z, problem.weight, problem.label_weight
        seen = reduce_rows(step, *arrays, chunk=problem.chunk)
    P, MW = inverse_gram(W), M @ W
    inner = W.T @ MW
    cross, gram = float(np.vdot(inner, P)), P @ inner @ P
    return Sums(seen.label, cross, gram, 0.0, MW @ P, seen.xk, W.T @ seen.xk, seen.zk, seen.k)
