"""Quasi-Newton fits: codes eliminated for the free filter model, everything at once (with bounds) otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ._codes import Mask, nonnegative_codes
from ._eliminated import eliminated
from ._losses import Array
from ._objective import (
    Coefficients,
    Problem,
    Solution,
    State,
    best_codes,
    gradient_of,
    projections,
    row_sums,
    value_and_gradient,
    value_of,
    without_codes,
)
from ._products import check_nonnegative
from ._remote import code_sums
from ._scaling import remote_scaling, scaling
from ._start import leading_directions, nonnegative_factors, remote_factors

_MEMORY = 20  # pairs that L-BFGS keeps
_STUCK = 2  # status of a failed line search
_START = 1e-5  # tolerance of the coefficients that a fit begins with
_IDLE = 3  # iterations that fall too little and end it

Tick = Callable[[], None]


def _pack(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.ravel(part) for part in parts])


def _unpack(x: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    parts, begin = [], 0
    for shape in shapes:
        end = begin + prod(shape)
        parts.append(x[begin:end].reshape(shape))
        begin = end
    return parts


def minimise(
    value: Callable[[list[Array]], tuple[float, Sequence[Array]]],
    start: Sequence[Array],
    *,
    tol: float,
    max_iter: int,
    lower: Sequence[float] | None = None,
    tick: Tick = lambda: None,
) -> tuple[list[Array], list[float], str, bool]:
    """L-BFGS(-B) until a few iterations lower the objective by less than ``tol`` each, relatively; ``lower`` bounds parts."""
    shapes = [np.shape(part) for part in start]
    history: list[float] = []

    def packed(x: Array) -> tuple[float, Array]:
        level, gradient = value(_unpack(x, shapes))
        return level, _pack(gradient)

    def record(intermediate_result: Any) -> None:
        history.append(float(intermediate_result.fun))
        tick()
        if len(history) > _IDLE and history[-1 - _IDLE] - history[-1] <= _IDLE * tol * abs(history[-1]):
            raise StopIteration

    bounds = None
    if lower is not None:
        low = _pack([np.full(shape, bound) for shape, bound in zip(shapes, lower, strict=True)])
        bounds = np.column_stack([low, np.full(len(low), np.inf)])
    x, level, left = _pack(start), np.inf, max_iter
    while True:
        options = {"maxiter": left, "maxfun": 20 * left, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
        found = minimize(
            packed, x, jac=True, method="L-BFGS-B", bounds=bounds, callback=record, options=options
        )
        left = max_iter - len(history)
        fell = level - float(found.fun) > tol * abs(float(found.fun))
        if found.status != _STUCK or not fell or left < 1:
            break
        x, level = found.x, float(found.fun)  # a line search failed: once more without the memory
    return _unpack(found.x, shapes), history or [float(found.fun)], *_reason(found, tol, max_iter)


def _reason(found: Any, tol: float, max_iter: int) -> tuple[str, bool]:
    if found.status in (0, 99):  # 99: the callback ended it
        return f"objective fell by less than tol={tol:g} of itself", True
    if found.status == _STUCK:
        return f"no step lowers the objective by tol={tol:g} of itself", True
    return f"max_iter={max_iter} reached", False


def fit_coefficients(
    problem: Problem,
    W: Array,
    H: Array,
    *,
    tol: float = 1e-10,
    max_iter: int = 200,
    gram: Array | None = None,
) -> State:
    """B, G and the intercept that minimise L with W and H as they are (a convex problem).

    Of rows that stay where they are ``gram``, sum w h h', is all that is known of H.
    """
    K, q, r = problem.n_outputs, problem.Z.shape[1], W.shape[1]
    zero = State(W, H, np.zeros((r, K)), np.zeros((q, K)), np.zeros(K))
    feature = problem.model == "feature"
    inner = problem.paired(H.T @ (problem.weight[:, None] * H) if feature else W.T @ W)
    labels: Callable[[Coefficients], tuple[float, Array, Array, Array]]
    if gram is None:
        s = H if feature else projections(problem, W)
        scaled = scaling(problem, zero)

        def labels(at: Coefficients) -> tuple[float, Array, Array, Array]:
            a = s @ at.B + problem.Z @ at.G + at.intercept
            k = problem.label_weight[:, None] * problem.loss.slope(a, problem.Y)
            level = float(problem.label_weight @ problem.loss.value(a, problem.Y))
            return level, s.T @ k, problem.Z.T @ k, k.sum(axis=0)
    else:
        scaled = remote_scaling(problem, W, zero.B, gram)

        def labels(at: Coefficients) -> tuple[float, Array, Array, Array]:
            sums = row_sums(problem, at, None, atoms=False)
            return sums.label, sums.sk, sums.zk, sums.k

    def value(parts: list[Array]) -> tuple[float, list[Array]]:
        at = scaled.out(Coefficients(fixed, *parts))
        level, sk, zk, k = labels(at)
        level += problem.l2 * float(np.sum(at.B * (inner @ at.B)) + np.sum(at.G * at.G))
        dB = sk + 2.0 * problem.l2 * (inner @ at.B)
        dc = k if problem.fit_intercept else np.zeros(K)
        gradient = scaled.pull(at, Coefficients(nothing, dB, zk + 2.0 * problem.l2 * at.G, dc))
        return level, list(gradient[1:])

    fixed, nothing = W * scaled.w, np.zeros_like(W)
    parts, *_ = minimise(value, list(zero[2:]), tol=tol, max_iter=max_iter)
    at = scaled.out(Coefficients(fixed, *parts))
    return State(W, H, at.B, at.G, at.intercept)


def start_svd(problem: Problem, r: int, rng: np.random.Generator) -> State:
    """Leading directions of the rows, their codes, and coefficients fitted to both."""
    return start_at(problem, leading_directions(problem, r, rng)[0])


def start_at(problem: Problem, W: Array) -> State:
    """Given atoms, their codes, and coefficients fitted to both."""
    return fit_coefficients(problem, W, best_codes(problem, W), tol=_START)


def start_nmf(problem: Problem, r: int, rng: np.random.Generator) -> State:
    """Nonnegative factors of X with columns of W and H of equal norms, and coefficients fitted to them."""
    check_nonnegative(problem.X)
    return fit_coefficients(problem, *nonnegative_factors(problem, r, rng), tol=_START)


def remote_start(problem: Problem, r: int, rng: np.random.Generator, positive: bool) -> tuple[State, Array]:
    """The same starts where rows stay where they are: a state without codes, and sum w h h' of them."""
    if positive:
        W, gram = remote_factors(problem, r, rng)
    else:
        W, _ = leading_directions(problem, r, rng)
        gram = code_sums(problem, W, positive).gram
    return fit_coefficients(problem, W, np.zeros((0, r)), gram=gram, tol=_START), gram


def _refuse_l1(problem: Problem) -> None:
    if problem.l1 > 0:
        msg = (
            f"l1={problem.l1:g} has no minimum while the dictionary may grow and the codes shrink. "
            "Remedy: block coordinate descent with a norm bound on the dictionary"
        )
        raise ValueError(msg)


def _check_positive(start: State) -> None:
    if start.W.min() < 0 or start.H.min() < 0:
        msg = "the start has negative atoms or codes; use start_nmf, or clip it at 0"
        raise ValueError(msg)


def solve_eliminated(
    problem: Problem,
    start: State,
    *,
    positive: bool = False,
    tol: float = 1e-7,
    max_iter: int = 500,
    tick: Tick = lambda: None,
    gram: Array | None = None,
) -> Solution:
    """The filter model: L-BFGS on W, B, G and the intercept of min over H of L.

    With ``positive`` W and H are nonnegative, and H solves its quadratic programmes. Where rows stay where they are the
    state has no codes, and ``gram`` is sum w h h' of those at the start (by default the best ones).
    """
    _refuse_l1(problem)
    if problem.model != "filter" or problem.xi == 0:
        msg = (
            "codes can be eliminated in the filter model with xi > 0, not for "
            f"model={problem.model!r}, xi={problem.xi:g}. Remedies: solve_jointly, or block coordinate descent"
        )
        raise ValueError(msg)
    remote = problem.rows is not None
    if positive and not remote:
        _check_positive(start)
    codes = _NonnegativeCodes(problem) if positive and not remote else None
    if remote:
        gram = code_sums(problem, start.W, positive).gram if gram is None else gram
        scaled = remote_scaling(problem, start.W, start.B, gram)
    else:
        scaled = scaling(problem, start)

    def value(parts: list[Array]) -> tuple[float, Coefficients]:
        at = scaled.out(Coefficients(*parts))
        if codes is None:
            level, gradient = eliminated(problem, at, positive)
        else:
            H, xw = codes(at.W)
            sums = row_sums(problem, at, H, xw=xw)
            level, gradient = value_of(problem, at, sums), gradient_of(problem, at, sums)
        return level, scaled.pull(at, gradient)

    lower = [0.0, -np.inf, -np.inf, -np.inf] if positive else None
    parts, history, reason, converged = minimise(
        value, scaled.into(without_codes(start)), tol=tol, max_iter=max_iter, lower=lower, tick=tick
    )
    W, B, G, c = scaled.out(Coefficients(*parts))
    H = np.zeros((0, W.shape[1]))
    if not remote:
        H = best_codes(problem, W) if codes is None else codes(W)[0]
    return Solution(State(W, H, B, G, c), tuple(history), reason, converged)


class _NonnegativeCodes:
    """H and X W for a dictionary; each call starts at the free entries of the last."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.passive: Mask | None = None

    def __call__(self, W: Array) -> tuple[Array, Array]:
        xw = projections(self.problem, W)
        H, self.passive = nonnegative_codes(xw, W.T @ W, passive=self.passive)
        return H, xw


def solve_jointly(
    problem: Problem,
    start: State,
    *,
    positive: bool,
    tol: float = 1e-7,
    max_iter: int = 1000,
    tick: Tick = lambda: None,
) -> Solution:
    """Either model: L-BFGS-B on everything, with W and H >= 0 when ``positive``."""
    _refuse_l1(problem)
    if positive:
        _check_positive(start)

    scaled = scaling(problem, start)

    def value(parts: list[Array]) -> tuple[float, list[Array]]:
        state = own(parts)
        level, d = value_and_gradient(problem, state)
        dW, *rest = scaled.pull(without_codes(state), without_codes(d))
        return level, [dW, d.H / scaled.h, *rest]

    def own(parts: list[Array]) -> State:
        W, B, G, c = scaled.out(Coefficients(parts[0], *parts[2:]))
        return State(W, parts[1] / scaled.h, B, G, c)

    free = -np.inf
    lower = [0.0, 0.0, free, free, free] if positive else None
    W, *rest = scaled.into(without_codes(start))
    parts, history, reason, converged = minimise(
        value, [W, start.H * scaled.h, *rest], tol=tol, max_iter=max_iter, lower=lower, tick=tick
    )
    return Solution(own(parts), tuple(history), reason, converged)
