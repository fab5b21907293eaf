from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from colspace.dictionary import _losses as losses
from colspace.dictionary import _objective as obj
from colspace.dictionary._bcd import solve_bcd
from colspace.dictionary._lbfgs import fit_coefficients, solve_eliminated, solve_jointly, start_nmf, start_svd
from colspace.dictionary._lpgd import solve_lpgd
from colspace.dictionary._regions import NONNEGATIVE, Regions
from colspace.dictionary._scaling import scaling, whitener

UNITS = np.array([1e-3, 1.0, 1e4])


def rows():
    rng = np.random.default_rng(0)
    H, W = rng.gamma(1.0, size=(150, 3)), rng.gamma(0.5, size=(20, 3))
    X, Z = H @ W.T + 0.3 * rng.random((150, 20)), rng.standard_normal((150, 3))
    y = H[:, 0] - H[:, 1] + Z @ [0.5, -0.5, 0.2] + rng.logistic(size=150) > 0
    return X, Z, losses.one_hot(y.astype(int), 2)


def problem_in(unit, units, shift, **options):
    """The same problem with X in other units, covariates in others and shifted: xi makes up for the first."""
    X, Z, Y = rows()
    return obj.make_problem(unit * X, Y, units * (Z + shift), xi=0.1 / unit**2, **options)


def state_in(state, unit, units, shift):
    G = state.G / units[:, None]
    return obj.State(
        state.W, state.H * unit, state.B / unit, G, state.intercept - shift * state.G.sum(axis=0)
    )


SOLVERS = {
    "eliminated": lambda p, s, plus: solve_eliminated(p, s, positive=plus, max_iter=8, tol=0.0),
    "jointly": lambda p, s, plus: solve_jointly(p, s, positive=plus, max_iter=8, tol=0.0),
    "bcd": lambda p, s, plus: solve_bcd(
        p, s, regions=NONNEGATIVE if plus else Regions(), radius=None, max_iter=8, tol=0.0
    ),
    "lpgd": lambda p, s, plus: solve_lpgd(p, s, max_iter=8, tol=0.0),
}


CASES = [
    (solver, model, positive)
    for solver in SOLVERS
    for model in ("filter", "feature")
    for positive in (False, True)
    if not (solver == "eliminated" and model == "feature") and not (solver == "lpgd" and positive)
]


@pytest.mark.parametrize(("solver", "model", "positive"), CASES)
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_units_change_nothing(solver, model, positive, unit):
    plain = problem_in(1.0, np.ones(3), 0.0, model=model)
    start = (start_nmf if positive else start_svd)(plain, 3, np.random.default_rng(0))
    start = start._replace(B=0.5 * start.B, G=0.5 * start.G)
    other = problem_in(unit, UNITS, 10.0, model=model)
    moved = state_in(start, unit, UNITS, 10.0)
    assert obj.objective(other, moved) == pytest.approx(obj.objective(plain, start), rel=1e-9)
    here, there = SOLVERS[solver](plain, start, positive), SOLVERS[solver](other, moved, positive)
    assert here.history[-1] < obj.objective(plain, start) * (1 - 1e-4)
    np.testing.assert_allclose(there.history, here.history, rtol=1e-4)


@pytest.mark.parametrize("start", [start_svd, start_nmf])
def test_starts_in_other_units(start):
    values = []
    for unit, units, shift in ((1.0, np.ones(3), 0.0), (1e-3, UNITS, 10.0), (1e3, UNITS[::-1], -10.0)):
        problem = problem_in(unit, units, shift)
        values.append(obj.objective(problem, start(problem, 3, np.random.default_rng(0))))
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_scaled_variables_are_a_change_of_variables(model, fit_intercept):
    X, Z, Y = rows()
    problem = obj.make_problem(X, Y, Z + 5.0, model=model, l2=0.2, fit_intercept=fit_intercept)
    rng = np.random.default_rng(1)
    state = obj.State(*(rng.standard_normal(s) for s in [(20, 2), (150, 2), (2, 1), (3, 1), (1,)]))
    scaled, at = scaling(problem, state), obj.without_codes(state)
    inside = scaled.into(at)
    for a, b in zip(scaled.out(inside), at, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    gradient = scaled.pull(at, obj.without_codes(obj.value_and_gradient(problem, state)[1]))

    def level(parts):
        own = scaled.out(parts)
        return obj.objective(problem, obj.State(own.W, state.H, *own[1:]))

    for name in obj.Coefficients._fields:
        if name == "intercept" and not fit_intercept:
            continue
        part = getattr(inside, name)
        d = rng.standard_normal(part.shape)
        ends = [level(inside._replace(**{name: part + t * d})) for t in (1e-5, -1e-5)]
        assert np.sum(getattr(gradient, name) * d) == pytest.approx(
            (ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5
        )


@pytest.mark.parametrize("kind", ["dense", "csr", "wide"])
def test_whitened_covariates_have_unit_curvature(kind, monkeypatch):
    X, Z, Y = rows()
    if kind == "wide":
        monkeypatch.setattr("colspace.dictionary._scaling._WIDE", 2)
    problem = obj.make_problem(X, Y, sparse.csr_array(Z) if kind == "csr" else Z * UNITS + 7.0, l2=0.1)
    white = whitener(problem)
    hessian = np.zeros((3, 3))
    for j, e in enumerate(np.eye(3)):
        G, c = white.out(e[:, None], np.zeros(1))
        a = problem.Z @ G + c
        hessian[:, j] = white.pull(problem.Z.T @ a / 4 + 0.2 * G, a.sum(axis=0) / 4)[0][:, 0]
    np.testing.assert_allclose(np.diag(hessian), 1.0, rtol=1e-5)
    if kind != "wide":
        np.testing.assert_allclose(hessian, np.eye(3), atol=1e-5)


def test_constant_and_equal_covariates():
    X, Z, Y = rows()
    Z = np.column_stack([Z[:, 0], Z[:, 0], np.ones(150), np.zeros(150)])
    problem = obj.make_problem(X, Y, Z)
    start = start_svd(problem, 2, np.random.default_rng(0))
    found = solve_bcd(problem, start, regions=Regions(), radius=None, max_iter=20)
    assert np.all(np.isfinite(found.state.G))
    state = fit_coefficients(problem, start.W, start.H)
    alone = obj.make_problem(X, Y, Z[:, :1])
    assert obj.objective(problem, state) == pytest.approx(
        obj.objective(alone, fit_coefficients(alone, start.W, start.H)), rel=1e-5
    )
