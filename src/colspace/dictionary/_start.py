"""Where solvers begin: leading directions of the rows, or nonnegative factors; a row of weight 2 counts as two rows."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from .._rows import is_dask
from ..factor import eigh, fix_signs
from ._codes import nonnegative_codes
from ._descent import sweep
from ._losses import Array
from ._objective import Problem, image, projections, rebuilding, transposed
from ._remote import RemoteCodes, halves

_POWER = 40  # subspace iterations at most
_NEAR = 1e-8  # relative accuracy of eigenvalues
_RESIDUAL = 1e-6  # of an eigenvector, in units of the largest eigenvalue
_EXTRA = 10  # directions beyond those asked for
_SWEEPS = 200
_TOL = 1e-5
_SMALL = 1e-16


def leading_directions(problem: Problem, r: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The r leading eigenvectors (p x r) and eigenvalues of X' diag(w) X, to convergence: atoms do not depend on the seed."""
    p = problem.X.shape[1]
    M = problem.moment
    if M is None and p <= r + _EXTRA:
        M = image(problem, np.eye(p))
    if M is not None:
        values, vectors = eigh(M, r)
        return fix_signs(vectors[:, ::-1]), np.maximum(values[::-1], 0.0)
    start = rng.standard_normal((p, r + _EXTRA))
    if problem.rows is None and not is_dask(problem.X):
        with suppress(ArpackError):
            return _lanczos(problem, r, start[:, 0])
    return _subspace(problem, r, start)


def _lanczos(problem: Problem, r: int, start: Array) -> tuple[Array, Array]:
    p = problem.X.shape[1]
    square = LinearOperator((p, p), matvec=lambda x: image(problem, x.reshape(p, 1))[:, 0], dtype=np.float64)
    values, vectors = eigsh(square, r, v0=start, tol=_NEAR)
    order = np.argsort(-values)
    return fix_signs(vectors[:, order]), np.maximum(values[order], 0.0)


def _subspace(problem: Problem, r: int, start: Array) -> tuple[Array, Array]:
    """By subspace iteration, for rows that are dear to read one vector at a time."""
    Q = np.linalg.qr(start)[0]
    for _ in range(_POWER):
        Y = image(problem, Q)
        values, vectors = eigh(Q.T @ Y)
        top = vectors[:, ::-1][:, :r]
        lead, values = Q @ top, values[::-1][:r]
        off = np.linalg.norm(Y @ top - lead * values, axis=0)
        if off.max() <= _RESIDUAL * values[0]:
            break
        Q = np.linalg.qr(Y)[0]
    return fix_signs(lead), np.maximum(values, 0.0)


def nonnegative_factors(problem: Problem, r: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """W, H >= 0 that nearly minimise sum_i w_i ||x_i - W h_i||^2, with columns of equal norms.

    Starts at the larger of the positive and negative parts of the leading directions (Boutsidis and Gallopoulos 2008),
    then sweeps over columns (Cichocki and Phan 2009).
    """
    w = problem.weight[:, None]
    V, values = leading_directions(problem, r, rng)
    XV = projections(problem, V)
    above, below = (problem.weight @ np.maximum(side, 0.0) ** 2 for side in (XV, -XV))
    entries = float(problem.weight @ projections(problem, np.ones((V.shape[0], 1)))[:, 0])
    W = _first_atoms(problem, V, values, above, below, entries)
    H = nonnegative_codes(projections(problem, W), W.T @ W)[0]
    last = np.inf
    for _ in range(_SWEEPS):
        wh = w * H
        W = sweep(W, transposed(problem, wh), H.T @ wh)
        xw, gram = projections(problem, W), W.T @ W
        H = sweep(H, xw, gram)
        wh = w * H
        left = rebuilding(problem, float(np.vdot(wh, xw)), H.T @ wh, gram)
        if _settled(problem, last, left):
            break
        last = left
    share = _balance(W, problem.weight @ (H * H))
    return W * share, H / share


def remote_factors(problem: Problem, r: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The same W, and sum w h h' of the same codes, where rows stay where they are."""
    V, values = leading_directions(problem, r, rng)
    sides = halves(problem, V)
    W = _first_atoms(problem, V, values, sides.above, sides.below, sides.entries)
    codes = RemoteCodes(problem)
    sums, last = codes(W), np.inf
    for _ in range(_SWEEPS):
        W = sweep(W, sums.xh, sums.gram)
        sums = codes(W)
        left = rebuilding(problem, sums.cross, sums.gram, W.T @ W)
        if _settled(problem, last, left):
            break
        last = left
    share = _balance(W, np.diag(sums.gram))
    return W * share, sums.gram / np.outer(share, share)


def _settled(problem: Problem, last: float, left: float) -> bool:
    return last - left <= _TOL * max(left, _SMALL * problem.energy)


def _first_atoms(
    problem: Problem, V: Array, values: Array, above: Array, below: Array, entries: float
) -> Array:
    """The larger of the positive and negative parts of directions V, given sums of w (x'V)^2 on both sides and of w x."""
    plus, minus = (np.linalg.norm(np.maximum(side, 0.0), axis=0) for side in (V, -V))
    sign = np.where(np.sqrt(above) * plus >= np.sqrt(below) * minus, 1.0, -1.0)
    W = np.maximum(sign * V, 0.0)
    mass = float(problem.weight.sum())
    floor = entries / max(mass * V.shape[0], _SMALL)
    scale = np.sqrt(values[0] / max(mass, _SMALL)) if values[0] > 0 else 1.0
    return np.where(W > 1e-8, W, floor / max(scale, _SMALL))  # no entry is stuck at 0


def _balance(W: Array, square: Array) -> Array:
    """What makes norms of the columns of W and of codes with these sums of squares equal."""
    tall, wide = np.sqrt(square), np.linalg.norm(W, axis=0)
    used = (tall > 0) & (wide > 0)
    return np.asarray(np.sqrt(np.divide(tall, wide, out=np.ones(len(tall)), where=used)))
