"""Low-rank bilinear models of pairs: alternating ridge in closed form, and quasi-Newton for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from ..factor import eigh, svd
from ._kernel import CHUNK
from ._links import Links

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Factors:
    """U and V with the objective reached, the iterations used, and whether they were enough."""

    U: Array
    V: Array
    objective: float
    n_iter: int
    converged: bool


def start(N: Array, r: int) -> tuple[Array, Array]:
    """Leading singular vectors of A'YB, each side with the root of the singular value relative to the first."""
    U, s, Vt = svd(N, what="A'YB")
    root = np.sqrt(s[:r] / s[0]) if s[0] > 0 else np.zeros(r)
    return U[:, :r] * root, Vt[:r].T * root


def ridge_half(gram: tuple[Array, Array], R: Array, G: Array, alpha: float) -> Array:
    """The U that minimises 1/2 ||Y - A U C'||^2 + alpha/2 ||U||^2.

    It solves (A'A) U (C'C) + alpha U = A'Y C = R, G = C'C; ``gram`` are the eigenvalues and vectors of A'A.
    """
    d, P = gram
    e, Q = eigh(G)
    return P @ ((P.T @ R @ Q) / (np.outer(d, np.maximum(e, 0.0)) + alpha)) @ Q.T


def alternating_ridge(A: Array, B: Array, Y: Any, r: int, alpha: float, max_iter: int, tol: float) -> Factors:
    """min 1/2 sum over all pairs (y - a'U V'b)^2 + alpha/2 (||U||^2 + ||V||^2), one side at a time.

    After A'A, B'B and A'YB nothing depends on the number of entities any more.
    """
    SA, SB, N = A.T @ A, B.T @ B, A.T @ (Y @ B)
    gram_left, gram_right = eigh(SA), eigh(SB)
    square = float(np.sum(Y.data**2))
    U, V = start(N, r)
    last = np.inf
    for iteration in range(1, max_iter + 1):
        U = ridge_half(gram_left, N @ V, V.T @ SB @ V, alpha)
        V = ridge_half(gram_right, N.T @ U, U.T @ SA @ U, alpha)
        fit = 0.5 * (square - 2.0 * np.sum((N.T @ U) * V) + np.sum((U.T @ SA @ U) * (V.T @ SB @ V)))
        value = float(fit + 0.5 * alpha * (np.sum(U**2) + np.sum(V**2)))
        if last - value <= tol * abs(value):
            return Factors(U, V, value, iteration, True)
        last = value
    return Factors(U, V, last, max_iter, False)


@dataclass(frozen=True)
class Objective:
    """Loss over observed pairs plus alpha/2 (||U||^2 + ||V||^2), with its gradient, for stacked factors."""

    A: Array
    B: Array
    links: Links
    loss: str
    alpha: float
    r: int

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Value and gradient."""
        n = self.A.shape[1]
        stacked = theta.reshape(-1, self.r)
        U, V = stacked[:n], stacked[n:]
        AU, BV = self.A @ U, self.B @ V
        value, left, right = self._of_pairs(AU, BV)
        gradient = np.vstack([self.A.T @ left + self.alpha * U, self.B.T @ right + self.alpha * V])
        return value + 0.5 * self.alpha * float(theta @ theta), gradient.ravel()

    def _of_pairs(self, AU: Array, BV: Array) -> tuple[float, Array, Array]:
        """Loss, and its derivatives in AU and BV."""
        Y, mask = self.links.Y, self.links.mask
        if mask is not None:
            owner = np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))
            truth = np.asarray(Y[owner, mask.indices]).ravel()
            value, slope = self._loss(np.einsum("ij,ij->i", AU[owner], BV[mask.indices]), truth, mask.data)
            D = sparse.csr_array((slope, mask.indices, mask.indptr), shape=mask.shape)
            return value, D @ BV, D.T @ AU
        total, left, right = 0.0, np.empty_like(AU), np.zeros_like(BV)
        step = max(1, CHUNK // (4 * len(BV)))
        for i in range(0, len(AU), step):
            rows = slice(i, i + step)
            weight = None if self.links.extra is None else 1.0 + self.links.extra[rows].toarray()
            value, slope = self._loss(AU[rows] @ BV.T, Y[rows].toarray(), weight)
            total += value
            left[rows] = slope @ BV
            right += slope.T @ AU[rows]
        return total, left, right

    def _loss(self, z: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        """Sum of the losses of pairs, each as often as it counts, and its derivatives in z."""
        if self.loss == "squared":
            slope = z - y
            each = 0.5 * slope**2
        else:
            slope = expit(z) - y
            each = np.logaddexp(0.0, z) - y * z
        return (
            (float(each.sum()), slope) if weight is None else (float((weight * each).sum()), weight * slope)
        )


def quasi_newton(objective: Objective, max_iter: int, tol: float) -> Factors:
    """L-BFGS on both factors at once, from the spectral start."""
    A, B, r = objective.A, objective.B, objective.r
    U, V = start(A.T @ (objective.links.scores @ B), r)
    scale = 0.1 / max(float(np.sqrt(np.mean((A @ U) ** 2) * np.mean((B @ V) ** 2))), 1e-12) ** 0.5
    first = np.vstack([U, V]).ravel() * scale
    found = minimize(
        objective, first, jac=True, method="L-BFGS-B", options={"maxiter": max_iter, "ftol": tol, "gtol": 0.0}
    )
    stacked = found.x.reshape(-1, r)
    n = A.shape[1]
    return Factors(stacked[:n], stacked[n:], float(found.fun), int(found.nit), bool(found.success))
