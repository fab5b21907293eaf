"""Leading left singular vectors of small dense matrices and tensors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._linalg import eigh, svd

Array = NDArray[np.float64]

# beyond this many rows the Gram matrix is much faster, and its r leading vectors are as good
_GRAM_FROM = 600


def left_singular(M: Array, r: int) -> tuple[Array, Array]:
    """The r leading left singular vectors and singular values of M (n x anything).

    Examples
    --------
    >>> import numpy as np
    >>> U, s = left_singular(np.diag([1.0, 3.0, 2.0]), 2)
    >>> s
    array([3., 2.])
    """
    n = M.shape[0]
    if n <= _GRAM_FROM:
        U, s, _ = svd(M)
        if len(s) < r:  # fewer columns than directions: complete with zero singular values
            U = np.linalg.qr(np.hstack([U, np.eye(n)]))[0]
            s = np.concatenate([s, np.zeros(r - len(s))])
        return fix_signs(U[:, :r]), s[:r]
    values, vectors = eigh(M @ M.T, r)
    return fix_signs(vectors[:, ::-1]), np.sqrt(np.maximum(values[::-1], 0.0))


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
