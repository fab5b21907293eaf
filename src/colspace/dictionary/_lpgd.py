"""Algorithms 1, 2 and 4: projected gradient on low-rank matrices in the lifted space.

The lifted matrix of rank r is M = [B'; H] W' ((K + n) x p, filter) or M = H [B', W'] with B' on the left (n x (K + p),
feature). It is kept as its factors, so a state is a point of the lifted space and L there is L of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import svd
from scipy.sparse.linalg import LinearOperator, svds

from ._losses import Array
from ._objective import Problem, Solution, State, activations, objective, projections, transposed

_DENSE = 64  # smaller side up to which a dense lifted matrix is decomposed whole
_ENOUGH = 1e-4
_GROWTH = 1.5  # of a step that was taken at once
_HALVINGS = 60


@dataclass(frozen=True)
class Theory:
    """Curvature of L in the lifted space between ``mu`` and ``L``; with L / mu < 3 the step 2 / (mu + L) contracts.

    ``step`` and ``rate`` = 2 (L - mu) / (L + mu) are None when the theorem does not apply; ``why`` says so.
    """

    mu: float
    L: float
    step: float | None
    rate: float | None
    why: str


def theory(problem: Problem) -> Theory:
    """Theorems 4.4 and 4.5 with the curvature of the loss bounded below by 0 alone."""
    w, v = problem.weight, problem.label_weight
    bound = problem.loss.curvature(problem.n_outputs)
    if bound is None:
        return Theory(0.0, np.inf, None, None, "the loss has no bound on its curvature")
    rebuilt = 2.0 * problem.xi * float(w.min()), 2.0 * problem.xi * float(w.max())
    ridge = 2.0 * problem.l2
    columns = [problem.Z, np.ones((len(w), int(problem.fit_intercept)))]
    if problem.model == "filter":
        least, most = ridge, ridge
        largest = _largest(problem.X, np.hstack(columns), v)
    else:
        least, most = ridge * min(1.0, float(w.min())), ridge * max(1.0, float(w.max()))
        largest = float(v.max()) + _largest(None, np.hstack(columns), v)
    L = max(rebuilt[1], most + bound * largest)
    if problem.fit_intercept:
        return Theory(0.0, L, None, None, "an intercept has no penalty, so mu = 0")
    mu = min(rebuilt[0], least)
    if not 3.0 * mu > L:
        return Theory(mu, L, None, None, f"L / mu = {L / mu if mu > 0 else np.inf:.3g} is not below 3")
    return Theory(mu, L, 2.0 / (mu + L), 2.0 * (L - mu) / (L + mu), f"L / mu = {L / mu:.3g} is below 3")


def _largest(X: Any, Z: Array, v: Array) -> float:
    """Largest eigenvalue of [X, Z]' diag(v) [X, Z]."""
    p = X.shape[1] if X is not None else 0
    size = p + Z.shape[1]
    if size == 0:
        return 0.0

    def product(x: Array) -> Array:
        left = np.asarray(Z @ x[p:])
        if X is not None:
            left = left + X @ x[:p]
        left = v * left
        return np.concatenate([X.T @ left if X is not None else np.zeros(0), Z.T @ left])

    if size <= 3:
        return float(np.linalg.eigvalsh(np.column_stack([product(e) for e in np.eye(size)])).max())
    operator = LinearOperator((size, size), matvec=lambda x: product(np.ravel(x)), dtype=np.float64)
    value = sparse.linalg.eigsh(operator, k=1, v0=np.ones(size), return_eigenvectors=False)
    return float(value[0]) * (1.0 + 1e-8)


@dataclass(frozen=True)
class Stepped:
    """A lifted matrix after a gradient step, never formed: ``plain`` beside (above, filter) left right' + diag(s) X."""

    problem: Problem
    plain: Array
    left: Array
    right: Array
    s: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Of the lifted matrix."""
        (n, p), K = self.problem.X.shape, self.problem.n_outputs
        return (K + n, p) if self.problem.model == "filter" else (n, K + p)

    def times(self, Q: Array) -> Array:
        """Matrix times Q."""
        if self.problem.model == "filter":
            return np.vstack([self.plain @ Q, self._rebuilt(Q)])
        K = self.plain.shape[1]
        return self.plain @ Q[:K] + self._rebuilt(Q[K:])

    def back(self, P: Array) -> Array:
        """Its transpose times P."""
        if self.problem.model == "filter":
            K = len(self.plain)
            return self.plain.T @ P[:K] + self._rebuilt_back(P[K:])
        return np.vstack([self.plain.T @ P, self._rebuilt_back(P)])

    def _rebuilt(self, Q: Array) -> Array:
        return self.left @ (self.right.T @ Q) + self.s[:, None] * projections(self.problem, Q)

    def _rebuilt_back(self, P: Array) -> Array:
        return self.right @ (self.left.T @ P) + transposed(self.problem, self.s[:, None] * P)

    def square(self) -> float:
        """Squared Frobenius norm."""
        X = self.problem.X
        squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
        cross = np.sum(self.left * (self.s[:, None] * projections(self.problem, self.right)))
        own = np.sum((self.left.T @ self.left) * (self.right.T @ self.right))
        return float(np.sum(self.plain**2) + own + 2.0 * cross + self.s**2 @ np.ravel(squares))

    def factors(self, r: int) -> tuple[Array, Array]:
        """Rank-r projection as U S^1/2 and V S^1/2."""
        rows, columns = self.shape
        least = min(rows, columns)
        if r >= least or (max(_DENSE, 4 * r) >= least and not sparse.issparse(self.problem.X)):
            U, values, Vt = svd(self.times(np.eye(columns)), full_matrices=False)
        else:
            operator = LinearOperator(
                self.shape,
                matvec=lambda x: self.times(x.reshape(-1, 1)).ravel(),
                rmatvec=lambda x: self.back(x.reshape(-1, 1)).ravel(),
                matmat=self.times,
                rmatmat=self.back,
                dtype=np.float64,
            )
            U, values, Vt = svds(operator, k=r, v0=np.ones(least))
            U, values, Vt = U[:, ::-1], values[::-1], Vt[::-1]
        root = np.sqrt(np.maximum(values[:r], 0.0))
        left, right = np.zeros((rows, r)), np.zeros((columns, r))
        k = len(root)
        left[:, :k], right[:, :k] = U[:, :r] * root, Vt[:r].T * root
        return left, right


def lifted(problem: Problem, state: State) -> tuple[Array, Array]:
    """Left and right factors of the lifted matrix."""
    if problem.model == "filter":
        return np.vstack([state.B.T, state.H]), state.W
    return state.H, np.vstack([state.B.T, state.W])


def distance(problem: Problem, one: State, two: State) -> float:
    """Distance of two states in the lifted space, covariates and intercept included."""
    (a, b), (c, d) = lifted(problem, one), lifted(problem, two)
    square = (
        np.sum((a.T @ a) * (b.T @ b)) + np.sum((c.T @ c) * (d.T @ d)) - 2.0 * np.sum((a.T @ c) * (b.T @ d))
    )
    rest = np.sum((one.G - two.G) ** 2) + np.sum((one.intercept - two.intercept) ** 2)
    return float(np.sqrt(max(float(square), 0.0) + rest))


def gradient_step(problem: Problem, state: State, norm: float = np.inf) -> Callable[[float], State]:
    """``take(step)``: a gradient step in the lifted space, projected on ||(M, G)||_F <= norm and on rank r."""
    W, H, B, G, c = state
    w, r, K = problem.weight, W.shape[1], problem.n_outputs
    k = problem.label_weight[:, None] * problem.loss.slope(activations(problem, state), problem.Y)
    dG = problem.Z.T @ k + 2.0 * problem.l2 * G
    dc = k.sum(axis=0) if problem.fit_intercept else np.zeros(K)
    if problem.model == "filter":
        A = (W @ B).T
        dA = transposed(problem, k).T + 2.0 * problem.l2 * A
    else:
        A = H @ B
        dA = k + 2.0 * problem.l2 * w[:, None] * A

    def take(step: float) -> State:
        s = 2.0 * step * problem.xi * w
        moved = Stepped(problem, A - step * dA, (1.0 - s)[:, None] * H, W, s)
        new = G - step * dG
        part = 1.0
        if np.isfinite(norm):
            part = min(1.0, norm / max(float(np.sqrt(moved.square() + np.sum(new**2))), 1e-300))
        left, right = (np.sqrt(part) * f for f in moved.factors(r))
        if problem.model == "filter":
            return State(right, left[K:], left[:K].T, part * new, c - step * dc)
        return State(right[K:], left, right[:K].T, part * new, c - step * dc)

    return take


def solve_lpgd(
    problem: Problem,
    start: State,
    *,
    norm: float = np.inf,
    step: float | None = None,
    tol: float = 1e-8,
    max_iter: int = 1000,
    tick: Callable[[], None] = lambda: None,
) -> Solution:
    """Low-rank projected gradient from the lifted point of ``start``, whose dictionary gives the rank.

    The step is ``step``, or that of the theorem where it applies, or found by back-tracking; the reason says which.
    """
    if problem.l1 > 0:
        msg = f"l1={problem.l1:g} on the codes is no function of the lifted matrix; use block coordinate descent"
        raise ValueError(msg)
    known = theory(problem)
    fixed = step if step is not None else known.step
    how = "given step" if step is not None else f"step of the theorem: {known.why}"
    if fixed is None:
        how = f"back-tracked step: {known.why}"
    length = fixed if fixed is not None else (1.0 / known.L if np.isfinite(known.L) else 1.0)
    state, history = start, [objective(problem, start)]
    for _ in range(max_iter):
        take = gradient_step(problem, state, norm)
        if fixed is not None:
            new = take(fixed)
            value = objective(problem, new)
        else:
            found = _back_track(problem, state, history[-1], take, length)
            if found is None:
                return Solution(state, tuple(history), f"no step lowers the objective ({how})", True)
            new, value, length = found
        fall = history[-1] - value
        state = new
        history.append(value)
        tick()
        if abs(fall) <= tol * abs(value):
            return Solution(
                state, tuple(history), f"objective changed by less than tol={tol:g} of itself ({how})", True
            )
    return Solution(state, tuple(history), f"max_iter={max_iter} reached ({how})", False)


def _back_track(
    problem: Problem, state: State, before: float, take: Callable[[float], State], length: float
) -> tuple[State, float, float] | None:
    """A step that lowers L by enough, L there, and the length to try next."""
    for halvings in range(_HALVINGS):
        new = take(length)
        value = objective(problem, new)
        if value < before - _ENOUGH / length * distance(problem, state, new) ** 2:
            return new, value, length if halvings else _GROWTH * length
        length /= 2.0
    return None
