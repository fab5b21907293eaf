"""Codes of rows under each label they might have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ._fit import plain_codes
from ._lbfgs import minimise
from ._losses import Array, one_hot
from ._objective import Problem, State, codes_gradient, projections
from ._products import square_lengths

_TOL = 1e-13
_MAX_ITER = 2000


def label_codes(problem: Problem, state: State, positive: bool) -> tuple[Array, Array]:
    """Codes (n x classes x r) that minimise a row's share of L under each label, and that share (n x classes)."""
    W, (n, classes) = state.W, (problem.Y.shape[0], problem.n_outputs + 1)
    xw = projections(problem, W)
    plain = plain_codes(problem, W, positive, xw)
    squares = square_lengths(problem.X)
    codes, shares = np.empty((n, classes, W.shape[1])), np.empty((n, classes))
    for j in range(classes):
        at = replace(problem, Y=one_hot(np.full(n, j), classes))
        codes[:, j] = _codes(at, state._replace(H=plain), xw, positive)
        shares[:, j] = problem.xi * squares + _shares(at, state._replace(H=codes[:, j]), xw)
    return codes, shares


def _shares(problem: Problem, state: State, xw: Array) -> Array:
    """What rows of weight 1 add to L, without xi ||x||^2."""
    W, H, B, G, c = state
    s = H @ B
    share = problem.loss.value(s + problem.Z @ G + c, problem.Y)
    share += problem.l2 * np.sum(H * (H @ problem.paired(B @ B.T)), axis=1)
    share += problem.xi * np.sum(H * (H @ (W.T @ W) - 2.0 * xw), axis=1)
    return np.asarray(share + problem.l1 * np.abs(H).sum(axis=1))


def _codes(problem: Problem, state: State, xw: Array, positive: bool) -> Array:
    """L-BFGS on all rows; with a price of both signs H is the difference of two nonnegative parts."""
    split = problem.l1 > 0 and not positive

    def value(parts: list[Array]) -> tuple[float, list[Array]]:
        H = parts[0] - parts[1] if split else parts[0]
        at = state._replace(H=H)
        slope = codes_gradient(problem, at, xw)
        level = float(_shares(problem, at, xw).sum())
        if not split:
            return level, [slope + problem.l1]
        both = float(parts[0].sum() + parts[1].sum() - np.abs(H).sum())
        return level + problem.l1 * both, [slope + problem.l1, problem.l1 - slope]

    H = state.H
    start = [np.maximum(H, 0.0), np.maximum(-H, 0.0)] if split else [H]
    lower = [0.0] * len(start) if split or positive else None
    parts, *_ = minimise(value, start, tol=_TOL, max_iter=_MAX_ITER, lower=lower)
    return parts[0] - parts[1] if split else parts[0]
