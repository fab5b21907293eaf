from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from colspace.dictionary import _losses as losses
from colspace.dictionary import _objective as obj
from colspace.dictionary._lbfgs import solve_eliminated, solve_jointly, start_svd
from colspace.dictionary._lpgd import Stepped, distance, gradient_step, lifted, solve_lpgd, theory

MODELS = ["filter", "feature"]


def make(seed=0, n=40, p=6, K=1, scale=1.0, csr=False, q=2, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.7) * scale
    Z = rng.standard_normal((n, q)) * scale
    a = X[:, :1] / scale + 0.5 * rng.standard_normal((n, 1))
    Y = losses.one_hot(np.clip(np.round(a[:, 0]) + K // 2 + 0.5, 0, K).astype(int), K + 1)
    return obj.make_problem(sparse.csr_array(X) if csr else X, Y, Z, **options)


def random_state(problem, r, seed=0):
    rng, K = np.random.default_rng(seed), problem.n_outputs
    (n, p), q = problem.X.shape, problem.Z.shape[1]
    return obj.State(*(rng.standard_normal(s) for s in [(p, r), (n, r), (r, K), (q, K)]), np.zeros(K))


def matrix(problem, state):
    left, right = lifted(problem, state)
    return left @ right.T


def test_full_rank_is_logistic_regression():
    problem = make(xi=0.5, l2=0.5)
    found = solve_lpgd(problem, random_state(problem, 6), tol=0.0, max_iter=5000)
    lr = LogisticRegression(C=1 / (2 * problem.l2), tol=1e-12, max_iter=10000)
    lr.fit(np.hstack([problem.X, problem.Z]), problem.Y[:, 0])
    coef = np.r_[(found.state.W @ found.state.B)[:, 0], found.state.G[:, 0]]
    np.testing.assert_allclose(coef, lr.coef_[0], atol=1e-6)
    np.testing.assert_allclose(found.state.intercept, lr.intercept_, atol=1e-6)
    np.testing.assert_allclose(found.state.H @ found.state.W.T, problem.X, atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("csr", [False, True])
def test_step_is_gradient_then_svd(model, K, csr):
    problem = make(model=model, K=K, csr=csr, xi=0.3, l2=0.2, weight=np.linspace(0.5, 2, 40), chunk=17)
    state, step, r = random_state(problem, 3), 0.01, 3
    X = problem.X.toarray() if csr else problem.X
    w = problem.weight[:, None]
    a = obj.activations(problem, state)
    k = w * problem.loss.slope(a, problem.Y)
    rebuilt = state.H @ state.W.T
    rebuilt = rebuilt - step * 2 * problem.xi * w * (rebuilt - X)
    if model == "filter":
        A = state.W @ state.B
        M = np.vstack([(A - step * (X.T @ k + 2 * problem.l2 * A)).T, rebuilt])
    else:
        A = state.H @ state.B
        M = np.hstack([A - step * (k + 2 * problem.l2 * w * A), rebuilt])
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    new = gradient_step(problem, state)(step)
    np.testing.assert_allclose(matrix(problem, new), (U[:, :r] * s[:r]) @ Vt[:r], atol=1e-9)
    left, right = lifted(problem, new)
    np.testing.assert_allclose(left.T @ left, np.diag(s[:r]), atol=1e-9)
    np.testing.assert_allclose(right.T @ right, np.diag(s[:r]), atol=1e-9)
    G = state.G - step * (problem.Z.T @ k + 2 * problem.l2 * state.G)
    np.testing.assert_allclose(new.G, G, atol=1e-12)
    outside = 0.25 * np.linalg.norm(np.vstack([G, new.intercept]))
    held = gradient_step(problem, state, 0.5 * np.linalg.norm(M), outside=outside)(step)
    np.testing.assert_allclose(matrix(problem, held), 0.5 * matrix(problem, new), atol=1e-9)
    np.testing.assert_allclose(held.G, 0.25 * G, atol=1e-12)
    np.testing.assert_allclose(held.intercept, 0.25 * new.intercept, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("K", [1, 2])
def test_contraction_is_the_theorems(model, K):
    problem = make(model=model, K=K, scale=0.15, xi=0.5, l2=0.5, fit_intercept=False)
    known = theory(problem)
    assert known.L / known.mu < 3
    slowest = max(abs(1 - known.step * known.mu), abs(1 - known.step * known.L))
    assert known.rate == pytest.approx(2 * slowest)
    rank = 6 + K  # the rank of the optimum is at most the smaller side
    state = random_state(problem, rank)
    best = solve_lpgd(problem, state, tol=0.0, max_iter=400)
    assert "step of the theorem" in best.reason
    start = distance(problem, state, best.state)
    for t in range(1, 12):
        state = gradient_step(problem, state)(known.step)
        assert distance(problem, state, best.state) <= known.rate**t * start + 1e-6


@pytest.mark.parametrize("model", MODELS)
def test_optimum_is_that_of_a_long_gradient_run(model):
    problem = make(model=model, scale=0.15, xi=0.5, l2=0.5, fit_intercept=False)
    found = solve_lpgd(problem, random_state(problem, 7), tol=0.0, max_iter=400)
    assert "step of the theorem" in found.reason
    X, Z = problem.X, problem.Z
    A, R, G = np.zeros((6, 1) if model == "filter" else (40, 1)), np.zeros(X.shape), np.zeros((2, 1))
    for _ in range(3000):
        k = problem.loss.slope((X @ A if model == "filter" else A) + Z @ G, problem.Y)
        dA = (X.T @ k if model == "filter" else k) + 2 * problem.l2 * A
        A, R = A - 0.2 * dA, R - 0.2 * 2 * problem.xi * (R - X)
        G = G - 0.2 * (Z.T @ k + 2 * problem.l2 * G)
    M = np.vstack([A.T, R]) if model == "filter" else np.hstack([A, R])
    np.testing.assert_allclose(matrix(problem, found.state), M, atol=1e-6)
    np.testing.assert_allclose(found.state.G, G, atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("csr", [False, True])
def test_far_from_the_theorem_it_still_finds_the_optimum(model, csr):
    rng = np.random.default_rng(2)
    H, W = rng.gamma(1.0, size=(120, 4)), rng.gamma(0.5, size=(80, 4))
    X = 10 * (H @ W.T + 0.3 * rng.random((120, 80)))
    Z = 50 + 10 * rng.standard_normal((120, 2))
    Y = losses.one_hot((H[:, 0] - H[:, 1] + 0.3 * rng.standard_normal(120) > 0).astype(int), 2)
    options = {"model": model, "xi": 1e-4, "l2": 0.01, "weight": rng.random(120) + 0.5}
    problem = obj.make_problem(sparse.csr_array(X) if csr else X, Y, Z, **options)
    assert 1e4 * problem.l2 < theory(problem).L
    start = start_svd(problem, 2, np.random.default_rng(0))
    best = solve_jointly(problem, start, positive=False, tol=1e-12, max_iter=3000).history[-1]
    found = solve_lpgd(problem, start, tol=1e-9, max_iter=1500)
    assert best < (1 - 1e-3) * found.history[0]
    assert found.history[-1] <= best * (1 + 1e-4)


@pytest.mark.parametrize("rank", [2, 9])
def test_projection_from_a_guess_is_the_svd(rank):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 120)) * np.linspace(1, 5, 120)
    problem = obj.make_problem(X, losses.one_hot(rng.integers(0, 2, 150), 2))
    s = np.full(150, 0.7)
    moved = Stepped(
        problem,
        rng.standard_normal((1, 120)),
        rng.standard_normal((150, rank)),
        rng.standard_normal((120, rank)),
        s,
        rng.standard_normal((120, rank)),
    )
    M = np.vstack([moved.plain, moved.left @ moved.right.T + 0.7 * X])
    assert moved.square() == pytest.approx(np.sum(M**2))
    U, values, Vt = np.linalg.svd(M, full_matrices=False)
    left, right = moved.factors(rank)
    np.testing.assert_allclose(left @ right.T, (U[:, :rank] * values[:rank]) @ Vt[:rank], atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_curvature_bounds_hold(model):
    problem = make(model=model, K=2, xi=0.5, l2=0.4, fit_intercept=False)
    known, rng = theory(problem), np.random.default_rng(1)
    one = random_state(problem, 8, 1)
    for _ in range(20):
        two = random_state(problem, 8, rng.integers(1000))
        gradients = [(s, gradient_step(problem, s)(1e-3)) for s in (one, two)]
        pulls = [
            np.r_[((matrix(problem, s) - matrix(problem, t)) / 1e-3).ravel(), ((s.G - t.G) / 1e-3).ravel()]
            for s, t in gradients
        ]
        apart = np.r_[(matrix(problem, one) - matrix(problem, two)).ravel(), (one.G - two.G).ravel()]
        bend = (pulls[0] - pulls[1]) @ apart / (apart @ apart)
        assert known.mu * (1 - 1e-6) <= bend <= known.L * (1 + 1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_back_tracking_descends(model):
    problem = make(model=model, K=2, csr=True, xi=0.3, l2=0.1)
    start = start_svd(problem, 2, np.random.default_rng(0))
    found = solve_lpgd(problem, start, tol=1e-7)
    assert np.all(np.diff(found.history) < 0)
    assert found.history[-1] == pytest.approx(obj.objective(problem, found.state))
    assert "back-tracked step: an intercept" in found.reason


def test_agrees_with_quasi_newton():
    problem = make(xi=0.5, l2=0.5)
    start = start_svd(problem, 2, np.random.default_rng(0))
    best = solve_eliminated(problem, start, tol=1e-14, max_iter=3000)
    found = solve_lpgd(problem, start, tol=1e-12, max_iter=5000)
    assert found.history[-1] == pytest.approx(best.history[-1], rel=1e-6)


def test_theory_says_why_not():
    assert "is not below 3" in theory(make(l2=0.1, fit_intercept=False)).why
    assert "intercept" in theory(make(l2=0.1)).why
    free = losses.Multinomial(np.exp, np.exp, np.exp)
    assert "no bound" in theory(make(loss=free)).why
    problem = make(l1=1.0)
    with pytest.raises(ValueError, match="no function of the lifted matrix"):
        solve_lpgd(problem, random_state(problem, 2))
