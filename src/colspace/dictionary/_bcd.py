"""Algorithm 3: block coordinate descent with diminishing radius."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np

from ._descent import Block, Bounded, Labels, descend, direction
from ._losses import Array
from ._objective import (
    Problem,
    Solution,
    State,
    assemble,
    projections,
    transposed,
    value_and_gradient,
)
from ._products import row_energy
from ._regions import Radius, Region, Regions
from ._scaling import Whitener, column_means, curvature, whitener

_SMALL = 1e-12
_PASSES_OF_ATOMS, _PASSES_OF_CODES = 6, 2  # of nonnegative blocks that the labels see


class Sweeps:
    """A state with what its blocks share: X W, activations, Gram matrices; one block moves at a time.

    Inside, the labels see centred columns and whitened covariates where the covariates' set is the whole space, unless ``plain``.
    """

    def __init__(self, problem: Problem, start: State, regions: Regions, plain: bool = False) -> None:
        self.problem, self.regions = problem, regions
        self.W, self.H, self.B = (np.ascontiguousarray(x) for x in start[:3])
        q, total = problem.Z.shape[1], float(problem.label_weight.sum())
        self.uniform = bool(np.all(problem.weight == 1.0))
        self.unweighted = bool(np.all(problem.label_weight == 1.0))
        self.filter = problem.model == "filter"
        self.free = free = regions.covariates == Region() and not plain
        self.white = whitener(problem) if free else Whitener(np.zeros(q), np.ones(q), 1.0)
        if self.filter:
            self.mean = column_means(problem) if free else np.zeros(problem.X.shape[1])
        else:
            centred = free and problem.fit_intercept and total > 0
            self.mean = problem.label_weight @ self.H / total if centred else np.zeros(self.H.shape[1])
        self.bound = curvature(problem)
        variance = problem.energy - total * float(self.mean @ self.mean) if self.filter else 0.0
        self.spread = self.bound * max(variance, 0.0) / problem.X.shape[1]
        self.shift = self.mean @ self.W if self.filter else self.mean
        self.xw = projections(problem, self.W)
        self.inner, self.gram = self.W.T @ self.W, self.H.T @ self.weighed(self.H)
        G, c = self.white.into(start.G, start.intercept + self.shift @ self.B)
        self.x = np.vstack([G, c]) if problem.fit_intercept else G
        self.fixed = start.intercept
        a = self.source @ self.B + self._covariate_part(self.x)
        if not problem.fit_intercept:
            a = a + start.intercept
        self.labels = Labels(self._loss, a, *self._loss(a))

    def _loss(self, a: Array) -> tuple[float, Array]:
        p = self.problem
        value, slope = p.loss.value(a, p.Y), p.loss.slope(a, p.Y)
        if self.unweighted:
            return float(value.sum()), slope
        return float(p.label_weight @ value), p.label_weight[:, None] * slope

    def weighed(self, H: Array) -> Array:
        """Rows times their weights."""
        return H if self.uniform else self.problem.weight[:, None] * H

    @property
    def source(self) -> Array:
        """What B multiplies: X W or H, centred."""
        return (self.xw if self.filter else self.H) - self.shift

    @property
    def state(self) -> State:
        """In the problem's own variables."""
        q = self.problem.Z.shape[1]
        if not self.problem.fit_intercept:
            return State(self.W, self.H, self.B, self.white.out(self.x, self.fixed)[0], self.fixed)
        G, c = self.white.out(self.x[:q], self.x[q])
        return State(self.W, self.H, self.B, G, c - self.shift @ self.B)

    def _covariate_part(self, x: Array) -> Array:
        """Z G + c of whitened ones."""
        q = self.problem.Z.shape[1]
        if len(x) == 1 and not q:
            return np.broadcast_to(x / self.white.s, self.problem.Y.shape)
        if not self.problem.fit_intercept:
            return np.asarray(self.problem.Z @ self.white.out(x, np.zeros(1))[0])
        G, c = self.white.out(x[:q], x[q])
        return np.asarray(self.problem.Z @ G) + c

    @property
    def _few(self) -> bool:
        """Whether X is multiplied by steps in W, not by steps in W B."""
        return self.W.shape[1] <= 2 * self.problem.n_outputs

    def value(self) -> float:
        """L."""
        p, wh = self.problem, self.weighed(self.H)
        G = self.state.G if p.l2 and p.Z.shape[1] else self.x[:0]
        cross = float(np.vdot(wh, self.xw))
        smooth = assemble(p, self.labels.value, cross, self.gram, self.inner, self.B, G)
        return smooth + (p.l1 * float(np.abs(wh).sum()) if p.l1 else 0.0)

    def dictionary(self, radius: float = np.inf) -> Block:
        """L in W."""
        p, B, xi, l2 = self.problem, self.B, self.problem.xi, self.problem.l2
        wh = self.weighed(self.H)
        region, gram = self.regions.dictionary, self.gram
        if not self.filter:
            slope = 2.0 * xi * (self.W @ gram - transposed(p, wh))
            way = direction(2.0 * xi * gram, region, self.W, radius)
            return Block(self.W, slope, lambda d: 2.0 * xi * (d @ gram), None, None, way, region)
        xh = transposed(p, wh)
        outer = B @ B.T
        quadratic = 2.0 * xi * gram + 2.0 * l2 * p.paired(outer)
        few = self._few
        moved = np.zeros(0)

        def forward(d: Array) -> Array:
            nonlocal moved
            if few:
                moved = projections(p, d)
                return (moved - self.mean @ d) @ B
            A = d @ B
            return projections(p, A) - self.mean @ A

        def taken(t: float) -> None:
            if few:
                self.xw = self.xw + t * moved

        def adjoint(slopes: Array) -> Array:
            return (transposed(p, slopes) - self.mean[:, None] * slopes.sum(axis=0)) @ B.T

        return Block(
            self.W,
            self.W @ quadratic - 2.0 * xi * xh,
            lambda d: d @ quadratic,
            forward,
            adjoint,
            direction(quadratic + self.spread * outer, region, self.W, radius, passes=_PASSES_OF_ATOMS),
            region,
            taken=taken,
        )

    def place_dictionary(self, W: Array) -> None:
        """W with what depends on it."""
        self.W, self.inner = W, W.T @ W
        if self.filter:
            self.shift = self.mean @ W
        if not self.filter or not self._few:
            self.xw = projections(self.problem, W)

    def place_codes(self, H: Array) -> None:
        """H with what depends on it."""
        self.H = H
        self.gram = H.T @ self.weighed(H)

    def coefficients(self, radius: float = np.inf) -> Block:
        """L in B; with an intercept alone beside it, and nothing that bounds either, in both."""
        x, s, region = self.B, self.source, self.regions.coefficients
        ridge = 2.0 * self.problem.l2 * self.problem.paired(self.inner if self.filter else self.gram)
        if self.joined(radius):
            r = len(x)
            x, s = np.vstack([x, self.x]), np.hstack([s, np.full((len(s), 1), 1.0 / self.white.s)])
            ridge, inside = np.zeros((r + 1, r + 1)), ridge
            ridge[:r, :r] = inside
        vs = s if self.unweighted else self.problem.label_weight[:, None] * s
        way = direction(self.bound * (s.T @ vs) + ridge, region, x, radius, left=True)
        return Block(x, ridge @ x, lambda d: ridge @ d, lambda d: s @ d, lambda k: s.T @ k, way, region)

    def joined(self, radius: float) -> bool:
        """Whether the intercept moves with B."""
        alone = self.problem.fit_intercept and self.problem.Z.shape[1] == 0
        return alone and self.free and self.regions.coefficients == Region() and not isfinite(radius)

    def place_coefficients(self, x: Array) -> None:
        """B, and the intercept if it came along."""
        r = len(self.B)
        self.B = x[:r]
        if len(x) > r:
            self.x = x[r:]

    def covariates(self, radius: float = np.inf) -> Block:
        """L in whitened G and, below it, the intercept."""
        p, q = self.problem, self.problem.Z.shape[1]
        none = np.zeros(p.n_outputs)

        def bend(d: Array) -> Array:
            if not q:
                return np.zeros_like(d)
            G = self.white.out(d[:q], none)[0]
            dG = self.white.pull(2.0 * p.l2 * G, none)[0]
            return np.vstack([dG, none]) if p.fit_intercept else dG

        def adjoint(k: Array) -> Array:
            if not q:
                return k.sum(axis=0, keepdims=True)[: len(self.x)] / self.white.s
            dG, dc = self.white.pull(p.Z.T @ k, k.sum(axis=0))
            return np.vstack([dG, dc]) if p.fit_intercept else dG

        region = self.regions.covariates
        way = Bounded(1.0 if self.free else self._covariate_size(), region, self.x, radius)
        return Block(self.x, bend(self.x), bend, self._covariate_part, adjoint, way, region)

    def _covariate_size(self) -> float:
        p = self.problem
        size = float(row_energy(p.Z, p.label_weight)) + float(p.label_weight.sum())
        return self.bound * size + 2.0 * p.l2

    def codes(self, radius: float = np.inf) -> Block:
        """L in H."""
        p, B, region = self.problem, self.B, self.regions.codes
        thrift = p.l1 * p.weight[:, None] if p.l1 else None
        quadratic = 2.0 * p.xi * self.inner
        if not self.filter:
            quadratic = quadratic + 2.0 * p.l2 * p.paired(B @ B.T)
        curved = quadratic
        if not self.filter:
            most = self.bound * float(np.max(p.label_weight / np.maximum(p.weight, 1e-300)))
            curved = quadratic + most * (B @ B.T)
        passes = 1 if self.filter else _PASSES_OF_CODES
        slope = self.H @ quadratic
        slope -= (2.0 * p.xi) * self.xw
        rows = None if self.uniform else np.maximum(p.weight, _SMALL * float(p.weight.max()))[:, None]
        return Block(
            self.H,
            self.weighed(slope),
            lambda d: self.weighed(d @ quadratic),
            None if self.filter else lambda d: d @ B,
            None if self.filter else lambda k: k @ B.T,
            direction(curved, region, self.H, radius, rows=rows, thrift=thrift, passes=passes),
            region,
            thrift,
        )


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
    n_inner: int = 1,
    tol: float = 1e-6,
    max_iter: int = 500,
    tick: Callable[[], None] = lambda: None,
) -> Solution:
    """Sweeps over W, B, G (with the intercept) and H, each block by ``n_inner`` projected-gradient steps.

    In sweep k a block moves at most r_k times its norm at the start, or r_k if that is absolute (``radius`` None: freely).
    Ends when L falls by less than ``tol`` of itself and no block was held by its radius.
    """
    _check_start(problem, start, regions)
    absolute = radius is not None and radius.absolute
    sweeps = Sweeps(problem, start, regions, plain=absolute)
    blocks = sweeps.W, sweeps.B, sweeps.x, sweeps.H
    sizes = [1.0 if absolute else max(1.0, float(np.linalg.norm(x))) for x in blocks]
    steps = [1.0] * 4
    history = [sweeps.value()]
    for k in range(1, max_iter + 1):
        reach = radius(k) if radius is not None else np.inf
        held = False

        def move(index: int, make: Callable[[float], Block], reach: float = reach) -> Array:
            nonlocal held
            limit = reach * sizes[index]
            block = make(limit)
            if block.x.size == 0:
                return block.x
            new, steps[index] = descend(block, sweeps.labels, steps[index], n_inner)
            if isfinite(reach):
                held = held or float(np.linalg.norm(new - block.x)) > 0.999 * limit
            return new

        sweeps.place_dictionary(move(0, sweeps.dictionary))
        sweeps.place_coefficients(move(1, sweeps.coefficients))
        if not sweeps.joined(reach):
            sweeps.x = move(2, sweeps.covariates)
        sweeps.place_codes(move(3, sweeps.codes))
        history.append(sweeps.value())
        tick()
        if not held and history[-2] - history[-1] <= tol * abs(history[-1]):
            return Solution(
                sweeps.state, tuple(history), f"objective fell by less than tol={tol:g} of itself", True
            )
    return Solution(sweeps.state, tuple(history), f"max_iter={max_iter} reached", False)
