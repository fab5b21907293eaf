"""The one door to LAPACK: finite numbers of moderate size in, a second and a third driver when one fails.

The first driver is numpy's, which lets other threads run meanwhile; SciPy's do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array = NDArray[np.float64]

# entries under this share of the largest are far below rounding, and their squares are no longer numbers
_NEGLIGIBLE = 1e-140


class FactorizationError(np.linalg.LinAlgError):
    """A matrix that LAPACK cannot factor."""


def _gate(M: Any, what: str) -> tuple[Array, float]:
    """The matrix divided by a power of two near its largest entry, and that power; refuses what is not finite."""
    M = np.asarray(M, dtype=np.float64)
    largest = float(np.abs(M).max(initial=0.0))
    if not np.isfinite(largest):
        msg = (
            f"{what} has entries that are not finite: the data overflow float64 somewhere on the way. Remedy: "
            "rescale the columns, or look for a cell that is out of all proportion"
        )
        raise FactorizationError(msg)
    if 1e-100 < largest < 1e100:
        scale = 1.0
    else:
        scale = float(2.0 ** np.frexp(largest)[1]) if largest < 8e307 else 2.0**1023
        M = M / (scale or 1.0)
    small = np.abs(M) < _NEGLIGIBLE * (largest / (scale or 1.0))
    if small.any() and M[small].any():
        M = np.where(small, 0.0, M)
    return M, scale or 1.0


def _first_that_works(attempts: list[Callable[[], Any]], shape: tuple[int, ...], what: str) -> Any:
    for attempt in attempts:
        try:
            return attempt()
        except np.linalg.LinAlgError:
            continue
    msg = (
        f"{what} ({shape[0]} x {shape[1]}) could not be factored by any of LAPACK's drivers. Remedies: a little "
        "shrinkage, fewer columns, or rows without near copies"
    )
    raise FactorizationError(msg)


def svd(M: Any, *, full_matrices: bool = False, what: str = "a matrix") -> tuple[Array, Array, Array]:
    """U, s, V' with M = U diag(s) V': gesdd, then gesdd of the transpose, then gesvd.

    Examples
    --------
    >>> import numpy as np
    >>> svd(np.diag([1e-200, 3e-200]))[1]
    array([3.e-200, 1.e-200])
    """
    A, scale = _gate(M, what)

    def transposed() -> tuple[Array, Array, Array]:
        V, s, Ut = np.linalg.svd(A.T, full_matrices)
        return Ut.T, s, V.T

    attempts = [
        lambda: np.linalg.svd(A, full_matrices),
        transposed,
        lambda: linalg.svd(A, full_matrices, check_finite=False, lapack_driver="gesvd"),
    ]
    U, s, Vt = _first_that_works(attempts, A.shape, what)
    return U, s * scale, Vt


def singular_values(M: Any, *, what: str = "a matrix") -> Array:
    """The singular values of M, the largest first."""
    A, scale = _gate(M, what)
    attempts = [
        lambda: np.linalg.svd(A, compute_uv=False),
        lambda: np.linalg.svd(A.T, compute_uv=False),
        lambda: linalg.svd(A, compute_uv=False, check_finite=False, lapack_driver="gesvd"),
    ]
    return _first_that_works(attempts, A.shape, what) * scale


def spectral_norm(M: Any) -> float:
    """The largest singular value (0 of an empty matrix)."""
    return float(singular_values(M)[0]) if np.size(M) else 0.0


def eigh(M: Any, k: int | None = None, *, what: str = "a matrix") -> tuple[Array, Array]:
    """Eigenvalues (ascending) and eigenvectors of a symmetric matrix, or only the ``k`` largest of them.

    Examples
    --------
    >>> import numpy as np
    >>> eigh(np.diag([1.0, 3.0, 2.0]), 2)[0]
    array([2., 3.])
    """
    A, scale = _gate(M, what)
    n = len(A)
    first = 0 if k is None else n - k

    def driven(driver: str) -> tuple[Array, Array]:
        if driver == "evr" and first:
            return linalg.eigh(A, subset_by_index=[first, n - 1], driver="evr", check_finite=False)
        if driver == "evd":
            values, vectors = np.linalg.eigh(A)
        else:
            values, vectors = linalg.eigh(A, driver=driver, check_finite=False)
        return values[first:], vectors[:, first:]

    drivers = ("evr", "evd", "ev") if first else ("evd", "evr", "ev")
    values, vectors = _first_that_works([partial(driven, d) for d in drivers], A.shape, what)
    return values * scale, vectors


def matrix_rank(M: Any, tol: float | None = None) -> int:
    """Number of singular values above ``tol`` (numpy's rule) relative to the largest."""
    values = singular_values(M) if np.size(M) else np.zeros(0)
    if not values.size or values[0] == 0:
        return 0
    if tol is None:
        tol = max(np.shape(M)) * np.finfo(np.float64).eps
    return int(np.sum(values > tol * values[0]))
