"""Distances between subspaces, never by sign or column order, and what theory allows them to be; errors of
reconstructions, predictions and fills; how well two classes are told apart and partners are ranked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orth, subspace_angles

from ._binary import f_score, sensitivity, specificity, youden_threshold
from ._ranking import auc_by_entity, average_precision_by_entity, precision_at_k, recall_at_k

__all__ = [
    "auc_by_entity",
    "average_precision_by_entity",
    "calibration_error",
    "coverage",
    "f_score",
    "nrmse",
    "nrse",
    "nsee",
    "precision_at_k",
    "prediction_mse",
    "principal_angles",
    "procrustes_distance",
    "proxy_nsee_bound",
    "proxy_variance",
    "recall_at_k",
    "sensitivity",
    "smae",
    "specificity",
    "ssim",
    "subspace_distance",
    "youden_threshold",
]

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


def proxy_variance(
    n_samples: int,
    widths: tuple[int, int],
    n_components: int,
    *,
    noise: float = 0.0,
    link: tuple[float, float, float, float] | None = None,
) -> float:
    r"""Mean squared error of the proxy (1/m) sum a y b' of two independent standard normal blocks: theorem 1 of joint reduction.

    .. math:: E\|\hat X - UQV^\top\|_F^2 = \tfrac1m\bigl[n_1 n_2 \sigma_y^2 + \sigma^2 + (n_1-r)(n_2-r)\tau_0^2 + (n_2-r)\tau_1^2 +
        (n_1-r)\tau_2^2\bigr]

    with the variance :math:`\sigma_y^2` of y given the blocks (``noise``; an upper bound of it gives an upper bound) and, for
    :math:`\bar a = U^\top a, \bar b = V^\top b`, ``link`` = :math:`E\|\bar a f \bar b^\top - Q\|^2, E f^2, E\|\bar a f\|^2,
    E\|\bar b f\|^2`. None: the bilinear link :math:`f = \bar a^\top \bar b`, r(r+2)^2 - r, r, r(r+2) and r(r+2).

    Examples
    --------
    >>> proxy_variance(100, (2, 3), 1, noise=1.0)  # (6 + 8 + 2 + 6 + 3) / 100
    0.25
    """
    (n1, n2), r = widths, n_components
    if not (n_samples >= 1 and 1 <= r <= min(n1, n2) and noise >= 0):
        msg = (
            f"n_samples={n_samples} must be at least 1, n_components={r} between 1 and the fewer columns of widths={widths}, "
            f"and noise={noise} not negative"
        )
        raise ValueError(msg)
    spread, tau0, tau1, tau2 = link or (r * (r + 2) ** 2 - r, r, r * (r + 2), r * (r + 2))
    total = n1 * n2 * noise + spread + (n1 - r) * (n2 - r) * tau0 + (n2 - r) * tau1 + (n1 - r) * tau2
    return float(total / n_samples)


def proxy_nsee_bound(
    n_samples: int,
    widths: tuple[int, int],
    n_components: int,
    *,
    noise: float = 0.0,
    link: tuple[float, float, float, float] | None = None,
    least: float = 1.0,
) -> float:
    r"""What the mean :func:`nsee` of the published estimator is at most: :math:`2 \sqrt{E\|\hat X - X\|_F^2 / r} / \sigma_r`.

    ``least`` is :math:`\sigma_r`, the smallest singular value of Q, one for the bilinear link; see :func:`proxy_variance`.

    Examples
    --------
    >>> proxy_nsee_bound(10_000, (2, 3), 1, noise=1.0)
    0.1
    """
    if not least > 0:
        msg = f"least={least} must be positive: without signal there is nothing to be near to"
        raise ValueError(msg)
    variance = proxy_variance(n_samples, widths, n_components, noise=noise, link=link)
    return float(2.0 * np.sqrt(variance / n_components) / least)


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


def _cells(mask: Any, shape: tuple[int, ...], what: str) -> Any:
    """Which cells count: all of them, or those where ``mask`` is true."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    cells = np.asarray(mask)
    if cells.dtype != bool or cells.shape != shape:
        msg = f"{what}: mask must be boolean of shape {shape}, got {cells.dtype} of shape {cells.shape}"
        raise ValueError(msg)
    return cells


def _masked(true: Any, estimated: Any, mask: Any, what: str) -> tuple[Array, Array]:
    A, B = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if A.shape != B.shape:
        msg = f"{what} compares arrays of one shape, got {A.shape} and {B.shape}"
        raise ValueError(msg)
    cells = _cells(mask, A.shape, what)
    if not cells.any():
        msg = f"{what} needs at least one cell"
        raise ValueError(msg)
    return _pair(A[cells], B[cells], what)


def nrmse(true: Any, estimated: Any, mask: Any = None) -> float:
    """Normalised root mean squared error: sqrt(sum (x - x_hat)^2 / sum x^2) over cells.

    Parameters
    ----------
    true, estimated : arrays of one shape.
    mask : boolean array, true for the cells that count (those that were imputed); None takes all.

    Examples
    --------
    >>> nrmse([[3.0, 4.0], [9.0, 9.0]], [[0.0, 4.0], [9.0, 8.0]], mask=[[True, True], [False, False]])
    0.6
    """
    A, B = _masked(true, estimated, mask, "nrmse")
    size = float(np.sum(A**2))
    if not size > 0:
        msg = "nrmse is not defined where all true values are zero"
        raise ValueError(msg)
    return float(np.sqrt(np.sum((A - B) ** 2) / size))


def smae(true: Any, estimated: Any, observed: Any, *, per_column: bool = False) -> Any:
    """Scaled mean absolute error: sum |x - x_hat| / sum |x - median| in each column, averaged over columns.

    Cells that are NaN in ``observed`` and known in ``true`` count; the median is that of the column's
    observed cells, so 1 is no better than the median. Columns without such cells are left out.

    Parameters
    ----------
    true : table with the hidden values, NaN where unknown.
    estimated : the imputed table.
    observed : the table that was imputed, NaN where missing.
    per_column : return the errors of the columns (NaN where left out) instead of their mean.

    Examples
    --------
    >>> nan = float("nan")
    >>> smae([[1.0], [2.0], [3.0], [9.0]], [[1.0], [2.0], [3.0], [6.0]], [[1.0], [2.0], [3.0], [nan]])
    0.42857142857142855
    """
    A, B, C = (np.asarray(table, dtype=np.float64) for table in (true, estimated, observed))
    if not (A.ndim == 2 and A.shape == B.shape == C.shape):
        msg = f"smae compares tables of one shape, got {A.shape}, {B.shape} and {C.shape}"
        raise ValueError(msg)
    errors = np.full(A.shape[1], np.nan)
    for j, (a, b, c) in enumerate(zip(A.T, B.T, C.T, strict=True)):
        hidden, known = np.isnan(c) & ~np.isnan(a), ~np.isnan(c)
        if not hidden.any():
            continue
        if not known.any() or np.isnan(b[hidden]).any():
            msg = f"smae: column {j} has no observed cell, or a hidden one that was not imputed"
            raise ValueError(msg)
        base = float(np.abs(a[hidden] - np.median(c[known])).sum())
        if base == 0:
            msg = f"smae: the median of column {j} is never wrong, and an error relative to it is not defined"
            raise ValueError(msg)
        errors[j] = np.abs(a[hidden] - b[hidden]).sum() / base
    if np.isnan(errors).all():
        msg = "smae needs at least one cell that is NaN in observed and known in true"
        raise ValueError(msg)
    return errors if per_column else float(np.nanmean(errors))


def coverage(lower: Any, upper: Any, true: Any, mask: Any = None) -> float:
    """Share of cells with lower <= x <= upper.

    Parameters
    ----------
    lower, upper, true : arrays of one shape; infinite limits are allowed.
    mask : boolean array, true for the cells that count; None takes all.

    Examples
    --------
    >>> coverage([0.0, 0.0], [1.0, 1.0], [0.5, 2.0])
    0.5
    """
    low, high, x = (np.asarray(a, dtype=np.float64) for a in (lower, upper, true))
    if not low.shape == high.shape == x.shape:
        msg = f"coverage compares arrays of one shape, got {low.shape}, {high.shape} and {x.shape}"
        raise ValueError(msg)
    cells = _cells(mask, x.shape, "coverage")
    low, high, x = low[cells], high[cells], x[cells]
    if not x.size:
        msg = "coverage needs at least one cell"
        raise ValueError(msg)
    if np.isnan(low).any() or np.isnan(high).any() or np.isnan(x).any():
        msg = "coverage is not defined for NaN; choose the cells with mask="
        raise ValueError(msg)
    return float(np.mean((low <= x) & (x <= high)))


def calibration_error(probability: Any, outcome: Any, *, n_bins: int = 10) -> float:
    r"""Expected calibration error over bins of equal width.

    .. math:: \sum_b \frac{n_b}{N} \left| \frac1{n_b} \sum_{i \in b} y_i - \frac1{n_b} \sum_{i \in b} p_i \right|

    Parameters
    ----------
    probability : array of probabilities p.
    outcome : array of the same shape, 1 (true) where the event happened, else 0.
    n_bins : number of bins of [0, 1].

    Examples
    --------
    >>> round(calibration_error([0.9, 0.9, 0.2], [1, 0, 0]), 12)
    0.333333333333
    """
    p, y = _pair(probability, outcome, "calibration_error")
    p, y = p.ravel(), y.ravel()
    if p.min() < 0 or p.max() > 1 or not np.isin(y, (0.0, 1.0)).all():
        msg = "calibration_error takes probabilities between 0 and 1, and outcomes 0 or 1"
        raise ValueError(msg)
    if n_bins < 1:
        msg = f"n_bins={n_bins} must be at least 1"
        raise ValueError(msg)
    place = np.minimum((p * n_bins).astype(np.intp), n_bins - 1)
    return float(np.abs(np.bincount(place, weights=y - p, minlength=n_bins)).sum() / len(p))
