"""Two-step kernel ridge on a table of pairs: smoothers of each side, what they say of entities left out, gaps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ..factor import eigh

Array = NDArray[np.float64]
Index = NDArray[np.intp]

TARGETS = ("new-left", "new-right", "new-both", "entries")
_NEGLIGIBLE = 1e-10  # eigenvalues of a landmarks' kernel up to this share of the largest are rounding
_MOST_ROUNDS = 500
_BLOCK = 512


@dataclass(frozen=True)
class Ridge:
    """H = K (K + alpha I)^-1 of one side, by the inverse; ``positive``: its negative weights are zero."""

    inverse: Any
    alpha: float
    positive: bool = False

    @cached_property
    def slack(self) -> Any:
        """1 - diag H = alpha diag (K + alpha I)^-1."""
        return self.alpha * np.diagonal(self.inverse)

    def rows(self, index: Index) -> Any:
        """Some rows of H."""
        out = self.inverse[index] * -self.alpha
        out[np.arange(len(index)), index] += 1
        return _signed(out, self.positive)

    def apply(self, X: Any) -> Any:
        """X H = X - alpha X (K + alpha I)^-1."""
        if self.positive:
            return X @ self.rows(np.arange(len(self.inverse))).T
        return X - self.alpha * (X @ self.inverse)

    def dual(self, X: Any) -> Any:
        """(K + alpha I)^-1 X: what a row of kernels is multiplied with."""
        return self.inverse @ X

    @property
    def matrix(self) -> Any:
        """What a row of kernels is multiplied with to have the weights of the training entities."""
        return self.inverse

    def weights(self, K: Any) -> Any:
        """Weights of all training entities in predictions with some rows of kernels."""
        return _signed(K @ self.inverse, self.positive)


@dataclass(frozen=True)
class LowRankRidge:
    """The same for K = P P', P (entities x landmarks), of which k(x, landmarks) ``root`` are the rows."""

    P: Any
    root: Any
    alpha: float
    positive: bool = False

    @cached_property
    def inverse(self) -> Any:
        """(P'P + alpha I)^-1."""
        return inverse_plus(self.P.T @ self.P, self.alpha)

    @cached_property
    def slack(self) -> Any:
        """1 - diag H."""
        return 1 - np.einsum("ij,ij->i", self.P @ self.inverse, self.P)

    def rows(self, index: Index) -> Any:
        """Some rows of H = P (P'P + alpha I)^-1 P'."""
        out = (self.P[index] @ self.inverse) @ self.P.T
        return _signed(out, self.positive)

    def apply(self, X: Any) -> Any:
        """X H."""
        if self.positive:
            return X @ self.rows(np.arange(len(self.P))).T
        return ((X @ self.P) @ self.inverse) @ self.P.T

    def dual(self, X: Any) -> Any:
        """Coefficients of the landmarks' kernels."""
        return self.root @ (self.inverse @ (self.P.T @ X))

    @property
    def matrix(self) -> Any:
        """What a row of the landmarks' kernels is multiplied with to have the weights of the training entities."""
        return (self.root @ self.inverse) @ self.P.T

    def weights(self, K: Any) -> Any:
        """Weights of all training entities in predictions with some rows of the landmarks' kernels."""
        return _signed(((K @ self.root) @ self.inverse) @ self.P.T, self.positive)


def _signed(W: Any, positive: bool) -> Any:
    """Weights, in place without the negative ones if only the others count."""
    return np.maximum(W, 0, out=W) if positive else W


def inverse_plus(K: Any, alpha: float) -> Any:
    """(K + alpha I)^-1 by Cholesky, in the precision of K where that holds out."""
    potrf, potri = linalg.get_lapack_funcs(("potrf", "potri"), (K,))
    M = np.array(K, order="F")
    M[np.diag_indices_from(M)] += alpha
    found, failed = potrf(M, lower=1, overwrite_a=1, clean=0)
    if not failed:
        found, failed = potri(found, lower=1, overwrite_c=1)
    if failed:
        if K.dtype == np.float32:
            return inverse_plus(K.astype(np.float64), alpha).astype(np.float32)
        values, vectors = eigh(K)
        return (vectors / (np.maximum(values, 0.0) + alpha)) @ vectors.T
    for start in range(0, len(found), _BLOCK):  # the other triangle, without a second matrix
        end = start + _BLOCK
        found[start:end, end:] = found[end:, start:end].T
        corner = np.tril(found[start:end, start:end])
        found[start:end, start:end] = corner + np.tril(corner, -1).T
    return found.T  # symmetric; rows are contiguous


def nystroem(columns: Any, landmarks: Index) -> tuple[Any, Any, float]:
    """P, root and the share of the trace that is lost, for the kernel's columns of some landmarks (diagonal one)."""
    W = columns[landmarks].astype(np.float64)
    values, vectors = eigh((W + W.T) / 2)
    kept = values > _NEGLIGIBLE * values[-1]
    root = (vectors[:, kept] / np.sqrt(values[kept])).astype(columns.dtype)
    P = columns @ root
    return P, root, float(1 - np.einsum("ij,ij->", P, P, dtype=np.float64) / len(P))


def left_out(left: Any, right: Any, Y: Any, rows: Index, target: str) -> Any:
    r"""Predictions for the pairs of some left entities with what they ask about left out, exact.

    With H and G of both sides, h and g their diagonals, and H\i = (H_i - h_i e_i) / (1 - h_i):

    - "new-left": :math:`H\backslash i\, Y G`, the prediction of row i by a fit without left entity i;
    - "new-both": the same with G\j as well, by a fit without i and j for each j;
    - "entries": (H Y G)_ij - h_i g_j y_ij, by a fit to the table with y_ij = 0.

    All of it holds for the positive parts of H and G as well: diagonals are positive, and row i of H\i are the weights
    of the others in a fit without i, whose negative ones are those of H_i.
    """
    smoothed = left.rows(rows) @ Y
    own = _dense(Y[rows]).astype(smoothed.dtype, copy=False)
    slack = left.slack[rows, None]
    if target == "entries":
        return right.apply(smoothed) - (1 - slack) * (1 - right.slack) * own
    smoothed = (smoothed - (1 - slack) * own) / slack
    found = right.apply(smoothed)
    if target == "new-left":
        return found
    return (found - smoothed * (1 - right.slack)) / right.slack


def complete(left: Any, right: Any, Y: Array, weight: Array, tol: float = 1e-10) -> Array:
    """The table T whose smoothing H T G is the fit F to pairs that count ``weight`` times: T = F + weight (Y - F).

    F minimises sum weight (y - f)^2 + f' (S^-1 - I) f, S = H x G: conjugate gradients with S as the preconditioner, so
    that neither its inverse nor its root is needed; T = Y where all weights are one.
    """

    def smooth(X: Array) -> Array:
        return np.asarray(right.apply(left.apply(X.T).T))

    residual = weight * Y
    fit, limit = np.zeros_like(residual), tol * float(np.linalg.norm(residual))
    z = smooth(residual)
    step, lifted = z, residual  # lifted = S^-1 step
    size = float(np.vdot(residual, z))
    for _ in range(_MOST_ROUNDS):
        if np.linalg.norm(residual) <= limit:
            break
        image = (weight - 1) * step + lifted
        bend = float(np.vdot(step, image))
        if not bend > 0:  # what is left smooths to nothing
            break
        length = size / bend
        fit = fit + length * step
        residual = residual - length * image
        z = smooth(residual)
        size, old = float(np.vdot(residual, z)), size
        step, lifted = z + size / old * step, residual + size / old * lifted
    return np.asarray(fit + weight * (Y - fit))


def _dense(Y: Any) -> Any:
    return Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)
