"""Distances between subspaces, never by sign or column order; errors of reconstructions and predictions."""

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


def _pair(true: Any, estimated: Any, what: str) -> tuple[Array, Array]:
    A, B = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if A.shape != B.shape:
        msg = f"{what} compares arrays of one shape, got {A.shape} and {B.shape}"
        raise ValueError(msg)
    if A.size == 0 or A.ndim == 0:
        msg = f"{what} needs at least one row, got shape {A.shape}"
        raise ValueError(msg)
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        msg = f"{what} is not defined for NaN or infinity; drop those rows first"
        raise ValueError(msg)
    return A, B


def nrse(X: Any, X_hat: Any) -> float:
    """Normalised root squared error: the mean over rows of ||x_hat - x|| / ||x||.

    Rows may be vectors or images: everything but the first axis is one row.

    Examples
    --------
    >>> nrse([[3.0, 4.0], [0.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]])
    0.25
    """
    A, B = _pair(X, X_hat, "nrse")
    A, B = A.reshape(len(A), -1), B.reshape(len(B), -1)
    size = np.linalg.norm(A, axis=1)
    if not size.all():
        msg = f"row {int(np.argmin(size))} of X is zero, and an error relative to it is not defined; leave it out"
        raise ValueError(msg)
    return float(np.mean(np.linalg.norm(B - A, axis=1) / size))


def ssim(image: Any, other: Any, *, data_range: float | None = None) -> float:
    r"""Structural similarity of two images from their means, variances and covariance, at most 1.

    .. math:: \frac{(2\mu_x\mu_y + c_1)(2\sigma_{xy} + c_2)}{(\mu_x^2 + \mu_y^2 + c_1)(\sigma_x^2 + \sigma_y^2 + c_2)},
        \qquad c_1 = (0.01 R)^2, \; c_2 = (0.03 R)^2 .

    Moments are over the whole image with divisor N, without a sliding window. (The Stein paper prints
    :math:`c_2` for the :math:`c_1` of the denominator; then an image would differ from itself.)

    Parameters
    ----------
    image, other : arrays (height, width), or (n, height, width) for the mean over n pairs.
    data_range : R, the range that pixels can take, e.g. 255; None is the range of the pixels of ``image``.

    Examples
    --------
    >>> import numpy as np
    >>> checks = np.indices((4, 4)).sum(axis=0) % 2
    >>> ssim(checks, checks)
    1.0
    >>> round(ssim(checks, 1 - checks), 3)
    -0.996
    """
    A, B = _pair(image, other, "ssim")
    if A.ndim not in (2, 3):
        msg = f"ssim takes an image (height, width) or a stack (n, height, width), got shape {A.shape}"
        raise ValueError(msg)
    R = float(np.ptp(A)) if data_range is None else float(data_range)
    if not R > 0:
        msg = f"data_range={R:g} must be positive; give the range that pixels can take, e.g. data_range=255"
        raise ValueError(msg)
    c1, c2 = (0.01 * R) ** 2, (0.03 * R) ** 2
    pixels = A.shape[-2] * A.shape[-1]
    A, B = A.reshape(-1, pixels), B.reshape(-1, pixels)
    ma, mb = A.mean(axis=1), B.mean(axis=1)
    covariance = np.mean((A - ma[:, None]) * (B - mb[:, None]), axis=1)
    luminance = (2 * ma * mb + c1) / (ma**2 + mb**2 + c1)
    return float(np.mean(luminance * (2 * covariance + c2) / (A.var(axis=1) + B.var(axis=1) + c2)))


def prediction_mse(Y: Any, Y_hat: Any) -> float:
    """Prediction mean squared error: the mean over rows of ||y - y_hat||^2, summed over responses.

    Examples
    --------
    >>> prediction_mse([[1.0, 2.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 1.0]])
    3.0
    """
    A, B = _pair(Y, Y_hat, "prediction_mse")
    return float(np.mean(np.sum((A - B).reshape(len(A), -1) ** 2, axis=1)))
