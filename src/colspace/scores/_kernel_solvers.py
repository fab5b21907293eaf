"""Regularised inverses of a kernel's operator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

from ..factor import eigh
from ._base import Array
from ._kernel_system import System

_DENSE = 1_000  # order up to which a curl-free kernel's matrix is decomposed as it is
_LANCZOS = 32_000_000  # entries of a basis of eigenvectors


@dataclass(frozen=True)
class Solution:
    """A regularised inverse of L at zeta: zeta_coef * zeta + K coef / n, coef a block of the system."""

    zeta_coef: float
    coef: Array
    n_iter: int


def solve_path(
    system: System, method: str, strengths: Sequence[float], *, nu: float = 1.0, tol: float = 1e-10
) -> Iterator[Solution]:
    """The regularised inverse at zeta for regularisations in falling order.

    A path may end early where an iterative eigensolver would need too many eigenvectors.
    """
    if method in ("nu", "landweber"):
        yield from _iterate(system, [_steps(method, v) for v in strengths], nu if method == "nu" else None)
    elif method in ("spectral", "ssge"):
        yield from _cut_off(system, strengths, share=method == "ssge")
    elif system.curl_free:
        yield from _tikhonov_cg(system, strengths, tol)
    else:
        yield from _tikhonov(system, strengths)


def _steps(method: str, strength: float) -> int:
    """Steps that stand for a regularisation."""
    return max(1, int(np.ceil((strength ** (-0.5) if method == "nu" else 1 / strength) - 1e-9)))


def _iterate(system: System, stops: Sequence[int], nu: float | None) -> Iterator[Solution]:
    """Landweber steps, or the nu-method's accelerated ones."""
    a, a_last = 0.0, 0.0
    c = c_last = np.zeros_like(system.zeta)
    done = 0
    for stop in stops:
        for t in range(done + 1, stop + 1):
            u, w = (0.0, 1.0) if nu is None else _nu_weights(t, nu)
            step = a * system.zeta
            if t > 1:
                step += system.apply(c)
                step *= -w
                step += (1.0 + u) * c
                step -= u * c_last
            a, a_last = a + u * (a - a_last) + w, a
            c, c_last = step, c
        done = max(done, stop)
        yield Solution(a, c, stop)


def _nu_weights(t: int, nu: float) -> tuple[float, float]:
    below = (t + 2 * nu - 1) * (2 * t + 4 * nu - 1)
    u = (t - 1) * (2 * t - 3) * (2 * t + 2 * nu - 1) / (below * (2 * t + 2 * nu - 3)) if t > 1 else 0.0
    return u, 4 * (2 * t + 2 * nu - 1) * (t + nu - 1) / below


def _tikhonov(system: System, strengths: Sequence[float]) -> Iterator[Solution]:
    """(L + lambda)^-1 zeta by a factorisation of the n x n matrix."""
    for strength in strengths:
        A = system.K.copy()
        A[np.diag_indices(len(A))] += strength
        f = cho_solve(cho_factor(A, overwrite_a=True, check_finite=False), system.zeta, check_finite=False)
        yield Solution(1.0 / strength, f / -strength, 1)


def _tikhonov_cg(
    system: System, strengths: Sequence[float], tol: float, max_steps: int = 2000
) -> Iterator[Solution]:
    """(L + lambda)^-1 zeta by conjugate gradients, each started at the one before."""
    z = system.zeta
    goal = tol**2 * float((z * z).sum())
    x = np.zeros_like(z)
    for number, strength in enumerate(strengths):
        rest = z - system.apply(x) - strength * x if number else z.copy()
        size = float((rest * rest).sum())
        q, x, step = rest.copy(), x.copy(), 0
        while size > goal and step < max_steps:
            Aq = system.apply(q)
            Aq += strength * q
            length = size / float((q * Aq).sum())
            x += length * q
            rest -= length * Aq
            size, before = float((rest * rest).sum()), size
            q *= size / before
            q += rest
            step += 1
        if size > goal:
            left = float(np.sqrt(size / goal) * tol)
            warnings.warn(
                f"conjugate gradients stopped after {max_steps} steps with a relative residual of {left:.1e}, "
                f"goal {tol:.0e}; use a larger regularization= (now {strength:.1e})",
                ConvergenceWarning,
                stacklevel=5,
            )
        yield Solution(1.0 / strength, x / -strength, step)


def _cut_off(system: System, strengths: Sequence[float], *, share: bool) -> Iterator[Solution]:
    """The inverse on eigenvectors above a floor, or (``share``) on those that carry all but a share of the trace."""
    if system.curl_free:
        values, vectors, floor = _curl_free_eigenpairs(system, strengths[-1])
    else:
        values, vectors = eigh(system.K)
        values, vectors, floor = values[::-1], vectors[:, ::-1], 0.0
    flat = system.zeta.reshape(len(vectors), -1)
    inside = vectors.T @ flat
    sound = values > len(values) * np.finfo(float).eps * values[0]
    for number, strength in enumerate(strengths):
        if share:
            mass = np.cumsum(np.maximum(values, 0.0))
            keep = sound & (np.r_[0.0, mass[:-1]] < (1.0 - strength) * mass[-1])
        else:
            keep = sound & (values >= strength)
        if strength < floor and not share:
            if number:
                return
            msg = (
                f"more than {len(values)} eigenvalues of the curl-free kernel lie above regularization={strength:.3g} "
                f"(the last one found is {floor:.3g}), too many to compute. Remedies: a larger regularization, "
                "method='nu' or 'tikhonov', or curl_free=False"
            )
            raise ValueError(msg)
        if not keep.any():
            msg = f"regularization={strength:.3g} is above the largest eigenvalue {values[0]:.3g}; use a smaller one"
            raise ValueError(msg)
        V = vectors[:, keep] / values[keep] ** 2
        yield Solution(0.0, (V @ inside[keep]).reshape(system.zeta.shape), int(keep.sum()))


def _curl_free_eigenpairs(system: System, strength: float) -> tuple[Array, Array, float]:
    """Leading eigenpairs, largest first, and the value down to which they are complete."""
    shape = system.zeta.shape
    order = system.zeta.size

    def product(v: Array) -> Array:
        return system.apply(v.reshape(shape)).ravel()

    if order <= _DENSE:
        matrix = np.stack([product(e) for e in np.eye(order)], axis=1)
        values, vectors = eigh((matrix + matrix.T) / 2)
        return values[::-1], vectors[:, ::-1], 0.0
    limit = int(max(1, min(order // 3, _LANCZOS // order)))
    count = min(limit, shape[1] + 16)
    start = np.random.default_rng(0).standard_normal(order)
    operator = LinearOperator((order, order), matvec=product, dtype=np.float64)
    while True:
        values, vectors = eigsh(operator, count, which="LA", v0=start)
        if values[0] < strength or count == limit:
            break
        count = min(limit, 2 * count)
    return values[::-1], vectors[:, ::-1], float(values[0])
