"""Where solvers begin: leading directions of the rows, or nonnegative factors; a row of weight 2 counts as two rows."""

from __future__ import annotations

import numpy as np

from ..factor import eigh
from ._codes import nonnegative_codes
from ._descent import Nonnegative
from ._losses import Array
from ._objective import Problem, projections, rebuilding, transposed

_POWER = 6  # subspace iterations
_EXTRA = 10  # directions beyond those asked for
_SWEEPS = 200
_TOL = 1e-5
_SMALL = 1e-16


def leading_directions(problem: Problem, r: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The r leading eigenvectors (p x r) and eigenvalues of X' diag(w) X, by subspace iteration."""
    p = problem.X.shape[1]
    width = min(p, r + _EXTRA)
    Q = np.eye(p) if width == p else np.linalg.qr(rng.standard_normal((p, width)))[0]
    w = problem.weight[:, None]
    for _ in range(1 if width == p else _POWER):
        image = transposed(problem, w * projections(problem, Q))
        if width < p:
            Q = np.linalg.qr(image)[0]
    if width < p:
        image = transposed(problem, w * projections(problem, Q))
    values, vectors = eigh(Q.T @ image)
    return Q @ vectors[:, ::-1][:, :r], np.maximum(values[::-1][:r], 0.0)


def nonnegative_factors(problem: Problem, r: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """W, H >= 0 that nearly minimise sum_i w_i ||x_i - W h_i||^2, with columns of equal norms.

    Starts at the larger of the positive and negative parts of the leading directions (Boutsidis and Gallopoulos 2008),
    then sweeps over columns (Cichocki and Phan 2009).
    """
    w = problem.weight[:, None]
    V, values = leading_directions(problem, r, rng)
    XV = projections(problem, V)
    W = np.empty_like(V)
    for k in range(r):
        sign = 1.0 if _part(XV[:, k], w, V[:, k]) >= _part(-XV[:, k], w, -V[:, k]) else -1.0
        W[:, k] = np.maximum(sign * V[:, k], 0.0)
    floor = float(problem.weight @ projections(problem, np.ones((V.shape[0], 1)))[:, 0])
    floor /= max(float(problem.weight.sum()) * V.shape[0], _SMALL)
    scale = np.sqrt(values[0] / max(float(problem.weight.sum()), _SMALL)) if values[0] > 0 else 1.0
    W = np.where(W > 1e-8, W, floor / max(scale, _SMALL))  # no entry is stuck at 0
    xw, gram = projections(problem, W), W.T @ W
    H = nonnegative_codes(xw, gram)[0]
    last = np.inf
    for _ in range(_SWEEPS):
        wh = w * H
        W = _sweep(W, transposed(problem, wh), H.T @ wh)
        xw, gram = projections(problem, W), W.T @ W
        H = _sweep(H, xw, gram)
        wh = w * H
        left = rebuilding(problem, float(np.vdot(wh, xw)), H.T @ wh, gram)
        if last - left <= _TOL * max(left, _SMALL * problem.energy):
            break
        last = left
    return _balance(W, H, problem.weight)


def _part(x: Array, w: Array, v: Array) -> float:
    """Size of the positive parts of both singular vectors."""
    return float(np.sqrt(w[:, 0] @ np.maximum(x, 0.0) ** 2) * np.linalg.norm(np.maximum(v, 0.0)))


def _sweep(F: Array, cross: Array, gram: Array) -> Array:
    """One pass over the columns of F >= 0, each at its best for ||. - F G'||^2 with G'G = ``gram``."""
    return F + Nonnegative(gram)(F, F @ gram - cross, 1.0)


def _balance(W: Array, H: Array, weight: Array) -> tuple[Array, Array]:
    """The same product with columns of equal norms."""
    tall, wide = np.sqrt(weight @ (H * H)), np.linalg.norm(W, axis=0)
    used = (tall > 0) & (wide > 0)
    share = np.sqrt(np.divide(tall, wide, out=np.ones(len(tall)), where=used))
    return W * share, H / share
