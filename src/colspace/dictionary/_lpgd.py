"""Algorithms 1, 2 and 4: projected gradient on low-rank matrices in the lifted space.

The lifted matrix of rank r is M = [B'; H] W' ((K + n) x p, filter) or M = H [B', W'] with B' on the left (n x (K + p),
feature). It is kept as its factors, so a state is a point of the lifted space and L there is L of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

from ..factor import eigh, svd
from ._losses import Array
from ._objective import Problem, Solution, State, activations, energy, objective, projections, transposed
from ._scaling import Whitener, column_means, curvature, whitener

_DENSE = 64  # smaller side up to which a dense lifted matrix is decomposed whole
_ENOUGH = 1e-4
_GROWTH = 1.5  # of a step that was taken at once
_HALVINGS = 60
_SHARE = 0.1  # of the labels' curvature that their length in the lifted space makes up for
_WIDER, _POWERS, _SETTLED = 6, 30, 1e-9  # subspace iterations: more columns, how many, and when they end
_ROUGHLY = 6  # iterations at most where a step must prove itself
_NEAR = 1e-2  # angle that is enough where a step must prove itself
_SMALL = 1e-12


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
        largest = _largest(problem, np.hstack(columns))
    else:
        least, most = ridge * min(1.0, float(w.min())), ridge * max(1.0, float(w.max()))
        largest = float(v.max()) + _largest(problem, np.hstack(columns), features=False)
    L = max(rebuilt[1], most + bound * largest)
    if problem.fit_intercept:
        return Theory(0.0, L, None, None, "an intercept has no penalty, so mu = 0")
    mu = min(rebuilt[0], least)
    if not 3.0 * mu > L:
        return Theory(mu, L, None, None, f"L / mu = {L / mu if mu > 0 else np.inf:.3g} is not below 3")
    return Theory(mu, L, 2.0 / (mu + L), 2.0 * (L - mu) / (L + mu), f"L / mu = {L / mu:.3g} is below 3")


def _largest(problem: Problem, Z: Array, features: bool = True, mean: Array | None = None) -> float:
    """Largest eigenvalue of [X, Z]' diag(v) [X, Z], X less its ``mean`` or left out."""
    p, v = problem.X.shape[1] if features else 0, problem.label_weight
    size = p + Z.shape[1]
    if size == 0:
        return 0.0

    def product(x: Array) -> Array:
        left = np.asarray(Z @ x[p:])
        if features:
            left = left + projections(problem, x[:p, None])[:, 0]
            left = left if mean is None else left - mean @ x[:p]
        left = v * left
        top = transposed(problem, left[:, None])[:, 0] if features else np.zeros(0)
        return np.concatenate([top if mean is None else top - mean * left.sum(), Z.T @ left])

    if size <= 3:
        return float(eigh(np.column_stack([product(e) for e in np.eye(size)]))[0][-1])
    operator = LinearOperator((size, size), matvec=lambda x: product(np.ravel(x)), dtype=np.float64)
    start = np.cos(np.arange(size))
    if not product(start).any():  # nothing but zeros
        return 0.0
    value = sparse.linalg.eigsh(operator, k=1, v0=start, return_eigenvectors=False)
    return float(value[0]) * (1.0 + 1e-8)


@dataclass(frozen=True)
class Metric:
    """Lengths in the lifted space: samples times ``rows``, the labels' part also times ``label``.

    Covariates are whitened, the intercept is that of centred columns, and both are worth ``outside`` of a step.
    """

    label: float
    rows: Array
    mean: Array
    white: Whitener
    outside: float


def plain_metric(problem: Problem) -> Metric:
    """Frobenius' norm, as the theorems have it."""
    (n, p), q = problem.X.shape, problem.Z.shape[1]
    return Metric(1.0, np.ones(n), np.zeros(p), Whitener(np.zeros(q), np.ones(q), 1.0), 1.0)


def even_metric(problem: Problem) -> Metric:
    """Lengths after which the reconstruction has the curvature 2 xi and the labels' part at most ``1 / _SHARE`` times it."""
    w, bound = problem.weight, curvature(problem)
    rows = np.sqrt(np.maximum(w, _SMALL * (float(w.max(initial=0.0)) or 1.0)))
    if problem.model == "filter":
        mean = column_means(problem)
        curved = bound * _largest(problem, np.zeros((len(w), 0)), mean=mean) + 2.0 * problem.l2
    else:
        mean = np.zeros(problem.X.shape[1])
        curved = bound * float(np.max(problem.label_weight / rows**2)) + 2.0 * problem.l2
    label = float(np.sqrt(_SHARE * curved / (2.0 * problem.xi))) or 1.0  # one: labels see nothing but zeros
    return Metric(label, rows, mean, whitener(problem), 2.0 * problem.xi)


@dataclass(frozen=True)
class Stepped:
    """A lifted matrix after a gradient step, never formed: ``plain`` beside (above, filter) left right' + diag(s) X.

    ``guess`` is near the right factor of its leading part.
    """

    problem: Problem
    plain: Array
    left: Array
    right: Array
    s: Array
    guess: Array
    settled: float = _SETTLED

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
        cross = np.sum(self.left * (self.s[:, None] * projections(self.problem, self.right)))
        own = np.sum((self.left.T @ self.left) * (self.right.T @ self.right))
        return float(np.sum(self.plain**2) + own + 2.0 * cross) + energy(self.problem, self.s**2)

    def factors(self, r: int) -> tuple[Array, Array]:
        """Rank-r projection as U S^1/2 and V S^1/2."""
        rows, columns = self.shape
        least = min(rows, columns)
        if max(_DENSE, 2 * r) >= least:
            U, values, Vt = svd(self.times(np.eye(columns)))
        else:
            U, values, Vt = self._leading(r) or self._lanczos(r)
        root = np.sqrt(np.maximum(values[:r], 0.0))
        left, right = np.zeros((rows, r)), np.zeros((columns, r))
        k = len(root)
        left[:, :k], right[:, :k] = U[:, :r] * root, Vt[:r].T * root
        return left, right

    def _leading(self, r: int) -> tuple[Array, Array, Array] | None:
        """Subspace iterations from the guess, wider by a few columns; None when they do not settle."""
        columns = self.shape[1]
        more = np.cos(np.outer(np.arange(1.0, columns + 1.0), np.arange(1.0, _WIDER + 1.0)))
        old = np.linalg.qr(np.hstack([self.guess, more]))[0]
        rough = self.settled > _SETTLED
        for i in range(_ROUGHLY if rough else _POWERS):
            P = np.linalg.qr(self.times(old))[0]
            Q, values, Vt = svd(self.back(P))
            ahead = Q[:, :r] - old[:, :r] @ (old[:, :r].T @ Q[:, :r])
            if np.linalg.norm(ahead) <= self.settled or (rough and i == _ROUGHLY - 1):
                return P @ Vt.T, values, Q.T
            old = Q
        return None

    def _lanczos(self, r: int) -> tuple[Array, Array, Array]:
        operator = LinearOperator(
            self.shape,
            matvec=lambda x: self.times(x.reshape(-1, 1)).ravel(),
            rmatvec=lambda x: self.back(x.reshape(-1, 1)).ravel(),
            matmat=self.times,
            rmatmat=self.back,
            dtype=np.float64,
        )
        U, values, Vt = svds(operator, k=r, v0=np.cos(np.arange(min(self.shape))))
        return U[:, ::-1], values[::-1], Vt[::-1]


def lifted(problem: Problem, state: State, metric: Metric | None = None) -> tuple[Array, Array]:
    """Left and right factors of the lifted matrix, in the lengths of the metric."""
    label, rows = (metric.label, metric.rows[:, None]) if metric is not None else (1.0, 1.0)
    if problem.model == "filter":
        return np.vstack([label * state.B.T, rows * state.H]), state.W
    return rows * state.H, np.vstack([label * state.B.T, state.W])


def distance(problem: Problem, one: State, two: State, metric: Metric | None = None) -> float:
    """Distance of two states in the lifted space; without a metric, covariates and intercept count too."""
    (a, b), (c, d) = lifted(problem, one, metric), lifted(problem, two, metric)
    square = (
        np.sum((a.T @ a) * (b.T @ b)) + np.sum((c.T @ c) * (d.T @ d)) - 2.0 * np.sum((a.T @ c) * (b.T @ d))
    )
    if metric is None:
        square += np.sum((one.G - two.G) ** 2) + np.sum((one.intercept - two.intercept) ** 2)
    return float(np.sqrt(max(float(square), 0.0)))


def gradient_step(
    problem: Problem,
    state: State,
    norm: float = np.inf,
    metric: Metric | None = None,
    xw: Array | None = None,
    settled: float = _SETTLED,
    outside: float = np.inf,
) -> Callable[[float], State]:
    """``take(step)``: a gradient step in the lifted space, projected on ||M||_F <= norm, ||(G, c)||_F <= outside and on rank r.

    The leading subspace is found to an angle of ``settled``.
    """
    metric = metric or plain_metric(problem)
    W, H, B, G, c = state
    w, r, K = problem.weight, W.shape[1], problem.n_outputs
    k = problem.label_weight[:, None] * problem.loss.slope(activations(problem, state, xw), problem.Y)
    dc = k.sum(axis=0) if problem.fit_intercept else np.zeros(K)
    if problem.model == "filter":
        A, length = (W @ B).T, np.full((1, 1), metric.label)
        dA = transposed(problem, k).T + 2.0 * problem.l2 * A - np.outer(dc, metric.mean)
        c = c + A @ metric.mean
    else:
        A, length = H @ B, metric.label * metric.rows[:, None]
        dA = k + 2.0 * problem.l2 * w[:, None] * A
    white = metric.white
    (outer, inner), (dG, dc) = white.into(G, c), white.pull(problem.Z.T @ k + 2.0 * problem.l2 * G, dc)
    guess = lifted(problem, state, metric)[1]

    def take(step: float) -> State:
        s = 2.0 * step * problem.xi * w / metric.rows**2
        labels = length * A - step / length * dA
        left = ((1.0 - s) * metric.rows)[:, None] * H
        moved = Stepped(problem, labels, left, W, s * metric.rows, guess, settled)
        new, level = white.out(outer - step * metric.outside * dG, inner - step * metric.outside * dc)
        part = 1.0
        if isfinite(norm):
            part = min(1.0, norm / max(float(np.sqrt(moved.square())), 1e-300))
        if isfinite(outside):
            kept = _share_of(outside, new, level)
            new, level = kept * new, kept * level
        left, right = (np.sqrt(part) * f for f in moved.factors(r))
        if problem.model == "filter":
            W_new, B_new = right, left[:K].T / metric.label
            level = level - metric.mean @ W_new @ B_new
            return State(W_new, left[K:] / metric.rows[:, None], B_new, new, level)
        return State(right[K:], left / metric.rows[:, None], right[:K].T / metric.label, new, level)

    return take


def _share_of(norm: float, G: Array, c: Array) -> float:
    """What brings covariates with the intercept into a ball."""
    return min(1.0, norm / max(float(np.hypot(np.linalg.norm(G), np.linalg.norm(c))), 1e-300))


def into_balls(problem: Problem, state: State, norm: float, outside: float) -> State:
    """A start made feasible: the lifted matrix, and covariates with the intercept, as long as they may be at most."""
    left, right = lifted(problem, state)
    size = float(np.sqrt(np.sum((left.T @ left) * (right.T @ right))))
    part = np.sqrt(min(1.0, norm / max(size, 1e-300)))
    W, H, B, G, c = state
    kept = _share_of(outside, G, c)
    return State(part * W, part * H, part * B, kept * G, kept * c)


def _check_lifted(problem: Problem) -> None:
    """Refuse terms that are no functions of the lifted matrix."""
    if problem.apart:
        msg = f"apart={problem.apart:g}: an atom's own share of the ridge is no function of the lifted matrix; use 0"
        raise ValueError(msg)
    if problem.l1 > 0:
        msg = f"l1={problem.l1:g} on the codes is no function of the lifted matrix; use block coordinate descent"
        raise ValueError(msg)


def _first_step(
    problem: Problem, known: Theory, step: float | None, bounded: bool
) -> tuple[str, Metric | None, float]:
    """How steps are found, in words, the lengths that they are measured in, and the first."""
    if step is not None:
        return "given step", None, step
    if known.step is not None:
        return f"step of the theorem: {known.why}", None, known.step
    how = f"back-tracked step: {known.why}"
    if not bounded and problem.xi > 0:
        return how, even_metric(problem), 1.0 / (2.0 * problem.xi)
    return how, None, 1.0 / known.L if isfinite(known.L) else 1.0


def solve_lpgd(
    problem: Problem,
    start: State,
    *,
    norm: float = np.inf,
    outside: float = np.inf,
    step: float | None = None,
    tol: float = 1e-8,
    max_iter: int = 1000,
    tick: Callable[[], None] = lambda: None,
) -> Solution:
    """Low-rank projected gradient from the lifted point of ``start``, whose dictionary gives the rank.

    The step is ``step``, or that of the theorem where it applies; otherwise it is back-tracked, in lengths that even out
    the curvatures (with bounds in plain ones). The reason says which. ``norm`` bounds the lifted matrix, ``outside`` G with the intercept.
    """
    _check_lifted(problem)
    known = theory(problem)
    fixed = step if step is not None else known.step
    how, metric, length = _first_step(problem, known, step, isfinite(min(norm, outside)))
    near = _SETTLED if fixed is not None else _NEAR
    state = into_balls(problem, start, norm, outside)
    xw = projections(problem, state.W)
    history = [objective(problem, state, xw)]
    for _ in range(max_iter):
        take = gradient_step(problem, state, norm, metric, xw, near, outside)
        first = length
        for _ in range(_HALVINGS):
            with np.errstate(over="ignore", invalid="ignore"):  # of a step that is too long
                new = take(length)
                xw = projections(problem, new.W)
                value = objective(problem, new, xw)
            if fixed is not None:
                break
            if value < history[-1] - _ENOUGH / length * distance(problem, state, new, metric) ** 2:
                break
            length /= 2.0
        else:
            if near > _SETTLED:  # the projection may have been too rough
                near, length = _SETTLED, first
                xw = projections(problem, state.W)
                continue
            return Solution(state, tuple(history), f"no step lowers the objective ({how})", True)
        if fixed is None and length == first:
            length *= _GROWTH
        if not isfinite(value):
            msg = (
                f"the objective is not finite after {len(history)} iteration(s): step={step} is too long for curvatures up to "
                f"{known.L:.3g}. Remedies: a step below {2.0 / known.L:.2g}, or step=None"
            )
            raise ValueError(msg)
        fall, state = history[-1] - value, new
        history.append(value)
        tick()
        if abs(fall) <= tol * abs(value):
            why = f"objective changed by less than tol={tol:g} of itself ({how})"
            return Solution(state, tuple(history), why, True)
    return Solution(state, tuple(history), f"max_iter={max_iter} reached ({how})", False)
