"""An exact change of variables after which the curvatures of all blocks are near 1, whatever the units of the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse

from .._rows import reduce_rows
from ._losses import Array
from ._objective import Coefficients, Problem, State, over_rows, projections, transposed

_WIDE = 1000  # covariates from which their matrix is scaled, not whitened
_LEAST = 1e-3  # of the largest scale of a block that any scale is
_SMALL = 1e-12


def scales(squares: Array) -> Array:
    """Square roots, none below a thousandth of the largest; ones when all are 0."""
    root = np.sqrt(np.maximum(squares, 0.0))
    largest = float(root.max(initial=0.0))
    return np.maximum(root, _LEAST * largest) if largest > 0 else np.ones_like(root)


def curvature(problem: Problem) -> float:
    """Bound on the curvature of the labels' loss, or 1."""
    return problem.loss.curvature(problem.n_outputs) or 1.0


def column_means(problem: Problem) -> Array:
    """Means of the columns of X by the labels' weights; zeros without an intercept to make up for them."""
    total = float(problem.label_weight.sum())
    if not problem.fit_intercept or total == 0.0:
        return np.zeros(problem.X.shape[1])
    if problem.opening is not None:
        return np.asarray(problem.opening.column / total)
    return transposed(problem, problem.label_weight[:, None])[:, 0] / total


def second_moments(Z: Any, v: Array) -> Array:
    """Sums of v z z' (of v z^2 alone, with many covariates), and of v z below them."""
    if Z.shape[1] > _WIDE:
        squares = Z.multiply(Z) if sparse.issparse(Z) else np.square(Z)
        return np.vstack([np.asarray(squares.T @ v), np.asarray(Z.T @ v)])
    weighted = Z.multiply(v[:, None]).tocsr() if sparse.issparse(Z) else v[:, None] * Z
    whole = Z.T @ weighted
    whole = whole.toarray() if sparse.issparse(whole) else whole
    return np.vstack([whole, np.ravel(weighted.sum(axis=0))])


@dataclass(frozen=True)
class Whitener:
    """G = R^-1 G~ and c = c~ / s - mean'G: covariates that are centred and as curved as 1 each."""

    mean: Array
    R: Array
    s: float

    def out(self, G: Array, c: Array) -> tuple[Array, Array]:
        """G and the intercept of the labels from whitened ones."""
        G = self.inverse[:, None] * G if self.R.ndim == 1 else self.inverse @ G
        return G, c / self.s - self.mean @ G

    def into(self, G: Array, c: Array) -> tuple[Array, Array]:
        """The way back."""
        return (self.R @ G if self.R.ndim == 2 else self.R[:, None] * G), self.s * (c + self.mean @ G)

    def pull(self, dG: Array, dc: Array) -> tuple[Array, Array]:
        """Gradients by the whitened ones."""
        dG = dG - self.mean[:, None] * dc
        return self.inverse[:, None] * dG if self.R.ndim == 1 else self.inverse.T @ dG, dc / self.s

    @cached_property
    def inverse(self) -> Array:
        """R^-1."""
        return np.asarray(1.0 / self.R if self.R.ndim == 1 else np.linalg.inv(self.R), dtype=np.float64)


def whitener(problem: Problem) -> Whitener:
    """From v-weighted moments of Z, the curvature bound b and the ridge: R'R = b Z'V Z + 2 l2 I, centred."""
    v, q = problem.label_weight, problem.Z.shape[1]
    total, bound = float(v.sum()), curvature(problem)
    s = float(np.sqrt(bound * total)) if total > 0 else 1.0
    if q == 0:
        return Whitener(np.zeros(0), np.zeros((0, 0)), s)
    if problem.opening is not None:
        sums = problem.opening.second
    elif q > _WIDE:
        sums = second_moments(problem.Z, v)
    else:
        sums = reduce_rows(second_moments, problem.Z, v, chunk=problem.chunk)
    if q > _WIDE:
        return _scaler(problem, sums, s)
    mean = sums[q] / total if problem.fit_intercept and total > 0 else np.zeros(q)
    M = bound * (sums[:q] - total * np.outer(mean, mean)) + 2.0 * problem.l2 * np.eye(q)
    root = np.sqrt(np.maximum(np.diag(M), 0.0))
    root = np.where(root > 0, root, 1.0)
    correlation = M / np.outer(root, root)
    correlation[np.diag_indices(q)] = 1.0 + 1e-6
    return Whitener(mean, np.linalg.cholesky(correlation).T * root, s)


def _scaler(problem: Problem, sums: Array, s: float) -> Whitener:
    total = float(problem.label_weight.sum())
    mean = sums[1] / total if problem.fit_intercept and total > 0 else np.zeros(sums.shape[1])
    M = curvature(problem) * (sums[0] - total * mean**2) + 2.0 * problem.l2
    return Whitener(mean, np.where(M > 0, np.sqrt(np.maximum(M, 0.0)), 1.0), s)


@dataclass(frozen=True)
class Scaling:
    """W = W~ / w, B = B~ / b, H = H~ / h by columns, covariates whitened, and an intercept of centred columns.

    The labels see X less its means (filter), or codes less their means at the start (feature): c = c~ - mean'(W B) or
    c~ - mean'B. Signs of W and H stay what they are.
    """

    problem: Problem
    w: Array
    b: Array
    h: Array
    mean: Array
    white: Whitener

    def out(self, at: Coefficients) -> Coefficients:
        """The problem's own variables."""
        W, B = at.W / self.w, at.B / self.b
        G, c = self.white.out(at.G, at.intercept)
        return Coefficients(W, B, G, c - self._shift(W) @ B)

    def into(self, at: Coefficients) -> Coefficients:
        """The scaled variables."""
        G, c = self.white.into(at.G, at.intercept + self._shift(at.W) @ at.B)
        return Coefficients(at.W * self.w, at.B * self.b, G, c)

    def pull(self, at: Coefficients, d: Coefficients) -> Coefficients:
        """Gradients by the scaled variables from those by the problem's own, at ``at``, a point in its own."""
        dc = d.intercept
        dW = d.W - self.mean[:, None] * (at.B @ dc) if self.problem.model == "filter" else d.W
        dB = d.B - self._shift(at.W)[:, None] * dc
        dG, dc = self.white.pull(d.G, dc)
        return Coefficients(dW / self.w, dB / self.b, dG, dc)

    def _shift(self, W: Array) -> Array:
        return self.mean @ W if self.problem.model == "filter" else self.mean


def remote_scaling(problem: Problem, W: Array, B: Array, gram: Array) -> Scaling:
    """Scales of a filter model whose rows stay where they are, from sum w h h' of the codes at the start."""
    mean = column_means(problem)
    square = over_rows(problem, partial(_seen, W=W, shift=mean @ W))
    none, diagonal = np.ones((1, W.shape[1])), np.diag(gram)
    return Scaling(
        problem, *_filter_scales(problem, W, B, diagonal, mean, square), none, mean, whitener(problem)
    )


def _seen(X: Any, Y: Any, Z: Any, w: Array, v: Array, *, W: Array, shift: Array) -> Array:
    return np.asarray(v @ (X @ W - shift) ** 2)


def _filter_scales(
    problem: Problem, W: Array, B: Array, gram: Array, mean: Array, square: Array
) -> tuple[Array, Array]:
    """Of W and B, from the diagonal of sum w h h' and sums of v s^2, s the centred X W."""
    bound, total = curvature(problem), float(problem.label_weight.sum())
    spread = bound * (problem.energy - total * float(mean @ mean)) / problem.X.shape[1]
    of_w = 2.0 * problem.xi * gram + (max(spread, 0.0) + 2.0 * problem.l2) * np.sum(B * B, axis=1)
    of_b = bound * square + 2.0 * problem.l2 * np.sum(W * W, axis=0)
    return scales(of_w), scales(of_b)[:, None]


def scaling(problem: Problem, start: State) -> Scaling:
    """Scales from the curvatures of L at the start."""
    W, H, B, _, _ = start
    v, w, bound = problem.label_weight, problem.weight, curvature(problem)
    total = float(v.sum())
    gram = np.einsum("ij,ij,i->j", H, H, w)
    atoms, slopes = np.sum(W * W, axis=0), np.sum(B * B, axis=1)
    if problem.model == "filter":
        mean = column_means(problem)
        s = projections(problem, W) - mean @ W
        square = np.einsum("ij,ij,i->j", s, s, v)
        scale_w, scale_b = _filter_scales(problem, W, B, gram, mean, square)
        of_h = 2.0 * problem.xi * atoms
    else:
        mean = v @ H / total if problem.fit_intercept and total > 0 else np.zeros(H.shape[1])
        s = H - mean
        scale_w = scales(2.0 * problem.xi * gram)
        scale_b = scales(bound * np.einsum("ij,ij,i->j", s, s, v) + 2.0 * problem.l2 * gram)[:, None]
        of_h = (
            2.0 * problem.xi * atoms
            + (bound * total / max(float(w.sum()), 1e-300) + 2.0 * problem.l2) * slopes
        )
    rows = np.sqrt(np.maximum(w, _SMALL * float(w.max(initial=1.0))))
    return Scaling(problem, scale_w, scale_b, rows[:, None] * scales(of_h), mean, whitener(problem))
