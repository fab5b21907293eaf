"""Leading left singular vectors of small dense matrices and tensors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._linalg import eigh, svd

Array = NDArray[np.float64]

# beyond this many rows the Gram matrix is much faster, and its r leading vectors are as good
_GRAM_FROM = 600
# a start is of use from so many rows on, and for so many iterations
_WARM_FROM = 30
_MOST_POWERS = 8
# squared singular values that differ by less than this share of the largest are equal but for rounding
_TIE = 1e-10


def left_singular(
    M: Array, r: int, tie: Array | None = None, start: Array | None = None
) -> tuple[Array, Array]:
    """The r leading left singular vectors and singular values of M (n x anything).

    Where singular values are equal, or zero, ``tie`` (n x n, symmetric) orders the directions: largest first.
    ``start`` (n x r) is near what is sought: then a few products do, unless they do not converge fast.

    Examples
    --------
    >>> import numpy as np
    >>> U, s = left_singular(np.diag([1.0, 3.0, 2.0]), 2)
    >>> s
    array([3., 2.])
    >>> left_singular(np.diag([0.0, 3.0, 0.0]), 2, tie=np.diag([1.0, 1.0, 5.0]))[0]
    array([[0., 0.],
           [1., 0.],
           [0., 1.]])
    """
    n = M.shape[0]
    if start is not None and n >= _WARM_FROM:
        found = refined(M, start)
        if found is not None:
            return found
    if n <= _GRAM_FROM:
        U, s, _ = svd(M)
        if len(s) < n and (len(s) < r or tie is not None):  # complete with zero singular values
            U = np.linalg.qr(np.hstack([U, np.eye(n)]))[0]
        values = np.concatenate([s, np.zeros(max(n - len(s), 0))])[: U.shape[1]]
    else:
        gram = M @ M.T
        values, U = eigh(gram, min(r + 1, n))
        if tie is not None and len(values) > r and _tied(values[1], values[0], values[-1]):
            values, U = eigh(gram)
        values, U = np.sqrt(np.maximum(values[::-1], 0.0)), U[:, ::-1]
    if tie is not None:
        U = break_ties((values / (values.max(initial=0.0) or 1.0)) ** 2, U, r, tie)
    return fix_signs(U[:, :r]), values[:r]


def refined(M: Array, start: Array) -> tuple[Array, Array] | None:
    """Leading left singular vectors and values by power iterations from nearby ones; None if they are slow.

    An iteration that moves the space by less than a hundredth of the way from the start is the last.
    """
    begin = np.linalg.qr(start)[0]
    B = begin
    for _ in range(_MOST_POWERS):
        new, R = np.linalg.qr(M @ (M.T @ B))
        size = np.abs(np.diag(R))
        if not size.min() > 1e-6 * size.max():
            return None
        step, way = (float(np.linalg.norm(new - old @ (old.T @ new))) for old in (B, begin))
        B = new
        if step <= 0.01 * way + 1e-12:
            U, s, _ = svd(B.T @ M)
            return fix_signs(B @ U), s
    return None


def _tied(one: float, other: float, largest: float) -> bool:
    return bool(abs(one - other) <= _TIE * largest)


def break_ties(values: Array, vectors: Array, r: int, tie: Array) -> Array:
    """The r leading of eigenvectors (largest eigenvalue first), those of equal values turned to the axes of ``tie``."""
    out = vectors.copy()
    start = 0
    while start < min(r, len(values)):
        end = start + 1
        while end < len(values) and _tied(values[start], values[end], values[0]):
            end += 1
        if end - start > 1:
            Q = vectors[:, start:end]
            out[:, start:end] = Q @ eigh(Q.T @ tie @ Q)[1][:, ::-1]
        start = end
    return out[:, :r]


def fix_signs(U: Array) -> Array:
    """Make the entry of largest modulus in each column positive."""
    top = np.argmax(np.abs(U), axis=0)
    signs = np.sign(U[top, np.arange(U.shape[1])])
    return U * np.where(signs == 0, 1.0, signs)


def unfold(T: Array, mode: int) -> Array:
    """The mode-``mode`` unfolding of a tensor: that mode's index in rows, all others in columns."""
    return np.moveaxis(T, mode, 0).reshape(T.shape[mode], -1)


def hosvd(T: Array, ranks: dict[int, int]) -> dict[int, tuple[Array, Array]]:
    """Higher-order SVD: factors and singular values of the chosen modes' unfoldings."""
    return {mode: left_singular(unfold(T, mode), r) for mode, r in ranks.items()}
