"""Algorithm 3: block coordinate descent with diminishing radius."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ._losses import Array
from ._objective import Problem, Solution, State, projections, transposed, value_and_gradient
from ._regions import Radius, Region, Regions, nearest

_ENOUGH = 1e-4  # of the decrease that a quadratic model promises
_HALVINGS = 40

Restricted = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True)
class Block:
    """Where a block may go: its set, the centre and radius of this sweep, and the L1 price of its entries."""

    region: Region
    centre: Array
    radius: float
    thrift: Array | float = 0.0

    def price(self, x: Array) -> float:
        """sum thrift |x|."""
        return float(np.sum(self.thrift * np.abs(x))) if np.any(self.thrift) else 0.0

    def step(self, x: Array, step: float) -> Array:
        """Minimum of ||z - x||^2 / (2 step) + price(z) where the block may go."""
        return nearest(x, self.region, self.centre, self.radius, step * self.thrift)


def descend(f: Restricted, block: Block, step: float | None, n_inner: int) -> tuple[Array, float | None]:
    """Projected-gradient steps from the centre: Barzilai-Borwein lengths, halved until the value falls enough."""
    x = block.centre
    if x.size == 0:
        return x, step
    value, gradient = f(x)
    value += block.price(x)
    if step is None:
        step = _first_step(f, x, gradient)
    for _ in range(n_inner):
        for _ in range(_HALVINGS):
            new = block.step(x - step * gradient, step)
            d = new - x
            moved = float(np.sum(d * d))
            if moved == 0.0:
                return x, step
            level, slope = f(new)
            level += block.price(new)
            if level <= value - _ENOUGH * moved / step:
                break
            step /= 2.0
        else:
            return x, step
        bend = float(np.sum(d * (slope - gradient)))
        x, value, gradient = new, level, slope
        step = moved / bend if bend > 0 else 2.0 * step
    return x, step


def _first_step(f: Restricted, x: Array, gradient: Array) -> float:
    """1 / curvature along the gradient."""
    size = float(np.linalg.norm(gradient))
    if size == 0.0:
        return 1.0
    little = 1e-4 * (1.0 + float(np.linalg.norm(x))) / size
    change = float(np.linalg.norm(f(x - little * gradient)[1] - gradient))
    return little * size / change if change > 0 else 1.0 / size


@dataclass(frozen=True)
class Sweep:
    """A state with X W; one block changes at a time."""

    problem: Problem
    state: State
    xw: Array

    def _labels(self, a: Array) -> tuple[float, Array]:
        """sum v loss and v loss' at activations."""
        p = self.problem
        return float(p.label_weight @ p.loss.value(a, p.Y)), p.label_weight[:, None] * p.loss.slope(a, p.Y)

    @property
    def source(self) -> Array:
        """What B multiplies: X W or H."""
        return self.xw if self.problem.model == "filter" else self.state.H

    def value(self) -> float:
        """L."""
        p, (W, H, B, G, c) = self.problem, self.state
        wh = p.weight[:, None] * H
        gram, inner = H.T @ wh, W.T @ W
        rebuilt = p.energy - 2.0 * float(np.sum(wh * self.xw)) + float(np.sum(gram * inner))
        ridge = float(np.sum(B * ((inner if p.model == "filter" else gram) @ B)) + np.sum(G * G))
        label = self._labels(self.source @ B + p.Z @ G + c)[0]
        return label + p.xi * rebuilt + p.l1 * float(np.abs(wh).sum()) + p.l2 * ridge

    def dictionary(self) -> Restricted:
        """L in W, up to a constant; X is multiplied by K columns alone."""
        p, (_, H, B, G, c) = self.problem, self.state
        wh = p.weight[:, None] * H
        gram, xh = H.T @ wh, transposed(p, wh)
        rest = p.Z @ G + c

        def f(W: Array) -> tuple[float, Array]:
            wg = W @ gram
            value = p.xi * float(np.sum(W * (wg - 2.0 * xh)))
            gradient = 2.0 * p.xi * (wg - xh)
            if p.model == "filter":
                A = W @ B
                label, k = self._labels(projections(p, A) + rest)
                value += label + p.l2 * float(np.sum(A * A))
                gradient += (transposed(p, k) + 2.0 * p.l2 * A) @ B.T
            return value, gradient

        return f

    def codes(self) -> Restricted:
        """L in H without its L1 term, up to a constant."""
        p, (W, _, B, G, c) = self.problem, self.state
        w, inner, rest = p.weight[:, None], W.T @ W, p.Z @ G + c

        def f(H: Array) -> tuple[float, Array]:
            hg = H @ inner
            value = p.xi * float(np.sum(w * H * (hg - 2.0 * self.xw)))
            gradient = 2.0 * p.xi * w * (hg - self.xw)
            if p.model == "feature":
                s = H @ B
                label, k = self._labels(s + rest)
                value += label + p.l2 * float(np.sum(w * s * s))
                gradient += (k + 2.0 * p.l2 * w * s) @ B.T
            return value, gradient

        return f

    def coefficients(self) -> Restricted:
        """L in B, up to a constant."""
        p, (W, H, _, G, c) = self.problem, self.state
        s, rest = self.source, p.Z @ G + c
        inner = W.T @ W if p.model == "filter" else H.T @ (p.weight[:, None] * H)

        def f(B: Array) -> tuple[float, Array]:
            label, k = self._labels(s @ B + rest)
            ridge = inner @ B
            return label + p.l2 * float(np.sum(B * ridge)), s.T @ k + 2.0 * p.l2 * ridge

        return f

    def covariates(self) -> Restricted:
        """L in G and, below it, the intercept, up to a constant."""
        p, rest, q = self.problem, self.source @ self.state.B, self.problem.Z.shape[1]

        def f(x: Array) -> tuple[float, Array]:
            G = x[:q]
            a = rest + p.Z @ G
            label, k = self._labels(a + x[q] if p.fit_intercept else a + self.state.intercept)
            dG = p.Z.T @ k + 2.0 * p.l2 * G
            gradient = np.vstack([dG, k.sum(axis=0)]) if p.fit_intercept else dG
            return label + p.l2 * float(np.sum(G * G)), gradient

        return f


def stack(problem: Problem, state: State) -> Array:
    """G with the intercept below it, if there is one."""
    return np.vstack([state.G, state.intercept]) if problem.fit_intercept else state.G


def _unstack(problem: Problem, state: State, x: Array) -> State:
    q = problem.Z.shape[1]
    return state._replace(G=x[:q], intercept=x[q] if problem.fit_intercept else state.intercept)


def into_regions(problem: Problem, state: State, regions: Regions) -> State:
    """A start made feasible: a dictionary too large is scaled, codes and coefficients making up for it."""
    W = np.maximum(state.W, 0.0) if regions.dictionary.positive else state.W
    part = min(1.0, regions.dictionary.norm / max(float(np.linalg.norm(W)), 1e-300))
    B = state.B / part if problem.model == "filter" else state.B * part
    moved = State(regions.dictionary.project(W * part), state.H / part, B, state.G, state.intercept)
    moved = moved._replace(H=regions.codes.project(moved.H), B=regions.coefficients.project(B))
    return _unstack(problem, moved, regions.covariates.project(stack(problem, moved)))


def stationarity(problem: Problem, state: State, regions: Regions) -> float:
    """The measure (17): how fast L falls along the best unit feasible direction."""
    gradient = value_and_gradient(problem, state)[1]
    thrift = problem.l1 * problem.weight[:, None]
    parts = (
        regions.dictionary.descent(state.W, gradient.W),
        regions.codes.descent(state.H, gradient.H, thrift),
        regions.coefficients.descent(state.B, gradient.B),
        regions.covariates.descent(stack(problem, state), stack(problem, gradient)),
    )
    return float(np.linalg.norm(parts))


def _check_start(problem: Problem, state: State, regions: Regions) -> None:
    if problem.l1 > 0 and not np.isfinite(regions.dictionary.norm):
        msg = (
            f"l1={problem.l1:g} has no minimum while the dictionary may grow and the codes shrink. "
            "Remedy: a norm bound on the dictionary, such as Region(norm=1.0)"
        )
        raise ValueError(msg)
    blocks = {
        "dictionary": state.W,
        "codes": state.H,
        "coefficients": state.B,
        "covariates": stack(problem, state),
    }
    for name, block in blocks.items():
        if not getattr(regions, name).contains(block):
            msg = f"the start of the {name} lies outside its set {getattr(regions, name)}; use into_regions"
            raise ValueError(msg)


def solve_bcd(
    problem: Problem,
    start: State,
    *,
    regions: Regions,
    radius: Radius | None,
    n_inner: int = 10,
    tol: float = 1e-6,
    max_iter: int = 500,
    tick: Callable[[], None] = lambda: None,
) -> Solution:
    """Sweeps over W, B, G (with the intercept) and H, each block by ``n_inner`` projected-gradient steps.

    In sweep k a block moves at most r_k times its norm at the start (``radius`` None: freely). Ends when L falls by less
    than ``tol`` of itself and no block was held by its radius.
    """
    _check_start(problem, start, regions)
    sweep = Sweep(problem, start, projections(problem, start.W))
    sizes = [max(1.0, float(np.linalg.norm(x))) for x in (start.W, start.B, stack(problem, start), start.H)]
    steps: list[float | None] = [None] * 4
    thrift = problem.l1 * problem.weight[:, None]
    history = [sweep.value()]
    for k in range(1, max_iter + 1):
        reach = radius(k) if radius is not None else np.inf
        held = False

        def move(
            index: int,
            f: Restricted,
            x: Array,
            region: Region,
            price: Array | float = 0.0,
            reach: float = reach,
        ) -> Array:
            nonlocal held
            limit = reach * sizes[index]
            new, steps[index] = descend(f, Block(region, x, limit, price), steps[index], n_inner)
            held = held or float(np.linalg.norm(new - x)) > 0.999 * limit
            return new

        W = move(0, sweep.dictionary(), sweep.state.W, regions.dictionary)
        sweep = Sweep(problem, sweep.state._replace(W=W), projections(problem, W))
        B = move(1, sweep.coefficients(), sweep.state.B, regions.coefficients)
        sweep = replace(sweep, state=sweep.state._replace(B=B))
        x = move(2, sweep.covariates(), stack(problem, sweep.state), regions.covariates)
        sweep = replace(sweep, state=_unstack(problem, sweep.state, x))
        H = move(3, sweep.codes(), sweep.state.H, regions.codes, thrift)
        sweep = replace(sweep, state=sweep.state._replace(H=H))
        history.append(sweep.value())
        tick()
        if not held and history[-2] - history[-1] <= tol * abs(history[-1]):
            return Solution(
                sweep.state, tuple(history), f"objective fell by less than tol={tol:g} of itself", True
            )
    return Solution(sweep.state, tuple(history), f"max_iter={max_iter} reached", False)
