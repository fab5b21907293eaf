"""From a problem to fitted atoms: the choice of a solver, its start, and one form of what has many equal forms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..factor import eigh, fix_signs
from ._bcd import into_regions, solve_bcd
from ._codes import nonnegative_codes
from ._eliminated import with_moment
from ._lbfgs import (
    fit_coefficients,
    remote_start,
    solve_eliminated,
    solve_jointly,
    start_nmf,
    start_svd,
)
from ._losses import Array
from ._lpgd import Theory, solve_lpgd, theory
from ._objective import Problem, Solution, State, inverse_gram, projections
from ._regions import BOUNDED, PRODUCTS, Radius, Region, Regions
from ._remote import code_sums

_LARGE = 100_000  # entries of a sparse table from which blocks are quicker
_INNER = 3  # projected-gradient steps of a block within a sweep


@dataclass(frozen=True)
class Options:
    """How a problem is to be solved."""

    n_components: int
    positive: bool
    solver: str
    tol: float
    max_iter: int
    bounds: Mapping[str, float] = field(default_factory=dict)
    radius: Radius | None = None
    step: float | None = None


def bounds_of(problem: Problem, options: Options) -> dict[str, float]:
    """Bounds on norms of the blocks: as given, and sqrt(r) for the dictionary when an L1 price needs one."""
    least = {"dictionary": float(np.sqrt(options.n_components))} if problem.l1 > 0 else {}
    return {**least, **options.bounds}


def choose_solver(problem: Problem, options: Options) -> str:
    """The solver that "auto" stands for; refuses one that cannot do what is asked."""
    bounds = bounds_of(problem, options)
    _check_covariates(problem, bounds)
    lifted = PRODUCTS in bounds or options.step is not None
    name = options.solver
    if name == "auto":
        blocks = bounds or options.radius is not None or _quicker_by_blocks(problem, options)
        name = "lpgd" if lifted else "bcd" if blocks else "lbfgs"
    shown = ", ".join(f"{key!r}: {value:g}" for key, value in bounds.items())
    if name == "lbfgs" and bounds:
        msg = (
            f"solver='lbfgs' takes no bounds ({{{shown}}}, l1={problem.l1:g}). Remedies: solver='bcd' or 'auto', or l1=0 "
            "without bounds"
        )
        raise ValueError(msg)
    if name == "lpgd" and (options.positive or set(bounds) & {"dictionary", "codes", "coefficients"}):
        what = "positive=True" if options.positive else f"l1={problem.l1:g} or a bound of {{{shown}}}"
        msg = (
            f"solver='lpgd' works on products of atoms and codes, where {what} cannot be asked for. Remedies: positive=False "
            f"without l1, bounds of {PRODUCTS!r} and 'covariates' alone, or solver='auto' without step"
        )
        raise ValueError(msg)
    if options.radius is not None and name != "bcd":
        msg = f"radius is a setting of solver='bcd', but solver={name!r}; drop radius, or use solver='bcd'"
        raise ValueError(msg)
    if options.step is not None and name != "lpgd":
        msg = f"step={options.step:g} is a setting of solver='lpgd', but solver={name!r}; drop step, or use solver='lpgd'"
        raise ValueError(msg)
    if PRODUCTS in bounds and name != "lpgd":
        msg = (
            f"bounds of {PRODUCTS!r}, of atoms with codes and coefficients, are for solver='lpgd', but solver={name!r}; "
            "use solver='lpgd', or bound 'dictionary', 'codes' and 'coefficients'"
        )
        raise ValueError(msg)
    return name


def _check_covariates(problem: Problem, bounds: Mapping[str, float]) -> None:
    if "covariates" in bounds and problem.Z.shape[1] == 0 and not problem.fit_intercept:
        msg = (
            f"bounds of 'covariates' is {bounds['covariates']:g}, but there are neither covariates nor an intercept; leave it "
            "out, or name columns in covariates="
        )
        raise ValueError(msg)


def _quicker_by_blocks(problem: Problem, options: Options) -> bool:
    """Nonnegative atoms and large sparse tables in memory; without rebuilding codes have no curvature of their own."""
    large = sparse.issparse(problem.X) and problem.X.nnz >= _LARGE
    return problem.rows is None and problem.xi > 0 and (options.positive or large)


def solve(
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    start: State | None = None,
    tick: Callable[[], None] = lambda: None,
) -> tuple[Solution, str]:
    """Solution in its canonical form, and the solver's name."""
    name = choose_solver(problem, options)
    problem = with_moment(problem, options.n_components)
    if problem.rows is not None:
        return _solve_remote(problem, options, rng, start, tick), name
    if start is None:
        start = (start_nmf if options.positive else start_svd)(problem, options.n_components, rng)
    limits: dict[str, Any] = {"tol": options.tol, "max_iter": options.max_iter, "tick": tick}
    bounds = bounds_of(problem, options)
    if name == "bcd":
        norms = {block: bounds.get(block, np.inf) for block in BOUNDED}
        signs = dict.fromkeys(("dictionary", "codes"), options.positive)
        regions = Regions(**{block: Region(signs.get(block, False), norms[block]) for block in BOUNDED})
        begin = into_regions(problem, start, regions)
        found = solve_bcd(problem, begin, regions=regions, radius=options.radius, n_inner=_INNER, **limits)
    elif name == "lpgd":
        _warn_theory(theory(problem), options.step)
        balls: dict[str, Any] = {
            "norm": bounds.get(PRODUCTS, np.inf),
            "outside": bounds.get("covariates", np.inf),
        }
        found = solve_lpgd(problem, start, step=options.step, **balls, **limits)
    elif problem.model == "filter" and problem.xi > 0:
        found = solve_eliminated(problem, start, positive=options.positive, **limits)
    else:
        found = solve_jointly(problem, start, positive=options.positive, **limits)
    published = bounds or options.step is not None or (options.radius is not None and options.radius.absolute)
    state = found.state if published else canonical(problem, found.state, options.positive)
    return Solution(state, found.history, found.reason, found.converged), name


def _warn_theory(known: Theory, step: float | None) -> None:
    """Say that a fit in the lifted space may not be the best one, and why."""
    why, how = known.why, "steps are found by back-tracking"
    if known.step is not None:
        low, high = 0.5 / known.mu, 1.5 / known.L
        if step is None or low < step < high:
            return
        why = f"step={step:g} is not between 1 / (2 mu) = {low:.3g} and 3 / (2 L) = {high:.3g}"
    if step is not None:
        how = f"all steps are {step:g}"
    warnings.warn(
        f"solver='lpgd' is not sure to reach the best fit: {why} (Theorems 4.4 and 4.5 of the paper ask for "
        f"L / mu < 3, which l2 near xi and fit_intercept=False bring about); {how}",
        UserWarning,
        stacklevel=8,
    )


def _solve_remote(
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    start: State | None,
    tick: Callable[[], None],
) -> Solution:
    """By passes over rows that stay where they are."""
    positive, gram = options.positive, None
    if start is None:
        start, gram = remote_start(problem, options.n_components, rng, positive)
    limits: dict[str, Any] = {"tol": options.tol, "max_iter": options.max_iter, "tick": tick}
    found = solve_eliminated(problem, start, positive=positive, gram=gram, **limits)
    gram = code_sums(problem, found.state.W, positive).gram
    state = canonical(problem, found.state, positive, gram)
    return Solution(state, found.history, found.reason, found.converged)


def canonical(problem: Problem, state: State, positive: bool, gram: Array | None = None) -> State:
    """The same fit with unit atoms by decreasing energy of their codes; free atoms are made orthonormal.

    ``gram`` is sum w h h', for codes that are not at hand.
    """
    W, H, B, G, c = state
    gram = H.T @ (problem.weight[:, None] * H) if gram is None else gram
    if positive:
        scale = np.linalg.norm(W, axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        order = np.argsort(-np.diag(gram) * scale**2, kind="stable")
        turn = np.diag(1.0 / scale)[:, order]
        back = (np.diag(scale)[:, order]).T
    else:
        Q, R = np.linalg.qr(W)
        if np.min(np.abs(np.diag(R))) <= 1e-12 * np.max(np.abs(np.diag(R))):
            return state
        values, V = eigh(R @ gram @ R.T)
        V = V[:, np.argsort(-values)]
        V = V * np.sign(np.sum(fix_signs(Q @ V) * (Q @ V), axis=0))
        turn, back = np.linalg.solve(R, V), V.T @ R
    codes = H @ back.T
    return State(W @ turn, codes, back @ B if problem.model == "filter" else turn.T @ B, G, c)


def plain_codes(problem: Problem, W: Array, positive: bool, xw: Array | None = None) -> Array:
    """Codes that rebuild rows at the least cost, labels unknown: min xi ||x - W h||^2 + l1 |h|_1."""
    xw = projections(problem, W) if xw is None else xw
    gram = W.T @ W
    price = problem.l1 / (2.0 * problem.xi) if problem.xi > 0 else 0.0
    if positive:
        return nonnegative_codes(xw, gram, price)[0]
    if price > 0:
        return _shrunken_codes(xw, gram, price)
    return xw @ inverse_gram(W)


def _shrunken_codes(xw: Array, gram: Array, price: float) -> Array:
    """min over h of h'gram h - 2 h'xw + 2 price |h|_1, row by row: h = plus - minus, both nonnegative."""
    r = gram.shape[0]
    both = np.block([[gram, -gram], [-gram, gram]])
    split = nonnegative_codes(np.hstack([xw, -xw]), both, price)[0]
    return split[:, :r] - split[:, r:]


def refitted(problem: Problem, state: State, positive: bool, tol: float = 1e-10) -> State:
    """Coefficients fitted to codes that were made without labels, as those of new rows are."""
    codes = plain_codes(problem, state.W, positive)
    return fit_coefficients(problem, state.W, codes, tol=tol)._replace(H=state.H)
