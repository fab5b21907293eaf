"""Distances between subspaces: never by sign or column order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orth, subspace_angles

Array = NDArray[np.float64]


def _basis(U: Any) -> Array:
    U = np.asarray(U, dtype=np.float64)
    if U.ndim == 1:
        U = U[:, None]
    if U.ndim != 2:
        msg = f"a subspace is given by a 2-D matrix (features x directions), got shape {U.shape}"
        raise ValueError(msg)
    if not np.isfinite(U).all():
        msg = "the matrix that spans the subspace contains NaN or infinity"
        raise ValueError(msg)
    Q = orth(U / max(np.abs(U).max(), np.finfo(float).tiny))
    if Q.shape[1] == 0:
        msg = "the matrix that spans the subspace is zero"
        raise ValueError(msg)
    return Q


def _bases(true: Any, estimated: Any) -> tuple[Array, Array]:
    U, V = _basis(true), _basis(estimated)
    if U.shape[0] != V.shape[0]:
        msg = f"subspaces live in different spaces: {U.shape[0]} and {V.shape[0]} features"
        raise ValueError(msg)
    return U, V


def subspace_distance(true: Any, estimated: Any) -> float:
    """d(U, V) = ||V - P_U V||_F with V orthonormal: 0 when span(V) lies in span(U), sqrt(r) when orthogonal.

    Examples
    --------
    >>> import numpy as np
    >>> round(subspace_distance(np.eye(3)[:, :2], np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]])), 12)
    0.0
    """
    U, V = _bases(true, estimated)
    return float(np.linalg.norm(V - U @ (U.T @ V)))


def nsee(true: Any, estimated: Any) -> float:
    """Normalised subspace estimation error: the largest d(U_b, V_b)/sqrt(r) over blocks, between 0 and 1.

    Takes two matrices, two sequences of matrices, or two mappings block -> matrix.

    Examples
    --------
    >>> import numpy as np
    >>> nsee({"a": np.eye(4)[:, :1]}, {"a": np.eye(4)[:, 1:2]})
    1.0
    """
    if isinstance(true, dict):
        if set(true) != set(estimated):
            msg = f"blocks differ: {sorted(true)} and {sorted(estimated)}"
            raise ValueError(msg)
        return max(nsee(true[name], estimated[name]) for name in true)
    if isinstance(true, list | tuple) and np.ndim(true[0]) == 2:
        return max(nsee(u, v) for u, v in zip(true, estimated, strict=True))
    rank = _basis(estimated).shape[1]
    return subspace_distance(true, estimated) / float(np.sqrt(rank))


def procrustes_distance(true: Any, estimated: Any) -> float:
    """min over rotations R of ||U - V R||_F for orthonormal bases U and V of the two subspaces.

    Equals sqrt(2 sum (1 - cos theta_i)) with the principal angles theta_i.

    Examples
    --------
    >>> import numpy as np
    >>> round(procrustes_distance([[1.0], [0.0]], [[0.0], [2.0]]) ** 2, 12)
    2.0
    """
    U, V = _bases(true, estimated)
    if U.shape[1] != V.shape[1]:
        msg = f"procrustes_distance needs equal dimensions, got {U.shape[1]} and {V.shape[1]}"
        raise ValueError(msg)
    # 1 - cos = 2 sin^2(theta/2) keeps the digits of small angles
    return float(np.sqrt(np.sum(4.0 * np.sin(principal_angles(U, V) / 2.0) ** 2)))


def principal_angles(true: Any, estimated: Any) -> Array:
    """Angles between two subspaces in radians, largest first.

    Examples
    --------
    >>> import numpy as np
    >>> principal_angles(np.eye(3)[:, :2], np.eye(3)[:, 1:]).round(6)
    array([1.570796, 0.      ])
    """
    U, V = _bases(true, estimated)
    return subspace_angles(U, V)
