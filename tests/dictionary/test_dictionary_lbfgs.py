from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression

from colspace.dictionary import _losses as losses
from colspace.dictionary import _objective as obj
from colspace.dictionary._codes import nonnegative_codes
from colspace.dictionary._lbfgs import fit_coefficients, solve_eliminated, solve_jointly, start_nmf, start_svd


def counts(rng, n=120, p=15, r=3, K=2):
    """Nonnegative rows of rank r with noise, labels from the codes, two covariates."""
    H, W = rng.gamma(1.0, size=(n, r)), rng.gamma(0.5, size=(p, r))
    X = H @ W.T + 0.1 * rng.random((n, p))
    Z = rng.standard_normal((n, 2))
    a = H[:, :K] - H.mean() + Z[:, :1]
    y = (a + rng.gumbel(size=a.shape) > rng.gumbel(size=(n, 1))) @ np.arange(1, K + 1)
    return X, losses.one_hot(np.minimum(y, K), K + 1), Z


def test_coefficients_are_logistic_regression():
    rng = np.random.default_rng(0)
    X, Y, Z = counts(rng, K=1)
    problem = obj.make_problem(X, Y, Z, model="feature", l2=0.5)
    H = np.linalg.qr(rng.standard_normal((len(X), 3)))[0]  # ||H B|| = ||B||
    state = fit_coefficients(problem, rng.random((15, 3)), H, tol=1e-15, max_iter=2000)
    lr = LogisticRegression(C=1 / (2 * 0.5), tol=1e-12, max_iter=5000).fit(np.hstack([H, Z]), Y[:, 0])
    np.testing.assert_allclose(np.r_[state.B[:, 0], state.G[:, 0]], lr.coef_[0], atol=1e-5)
    np.testing.assert_allclose(state.intercept, lr.intercept_, atol=1e-5)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Squared()])
def test_eliminated_reaches_a_stationary_point(loss):
    X, Y, Z = counts(np.random.default_rng(1))
    problem = obj.make_problem(X, Y, Z, loss=loss, xi=0.1, l2=0.5)
    start = start_svd(problem, 3, np.random.default_rng(0))
    found = solve_eliminated(problem, start, tol=1e-14, max_iter=3000)
    assert found.converged
    assert "tol" in found.reason
    value, gradient = obj.value_and_gradient(problem, found.state)
    assert value == pytest.approx(found.history[-1], rel=1e-10)
    assert value < obj.objective(problem, start)
    assert np.all(np.diff(found.history) <= 0)
    assert max(np.abs(g).max() for g in gradient) < 1e-3


def test_both_ways_agree():
    X, Y, Z = counts(np.random.default_rng(2), K=1)
    problem = obj.make_problem(X, Y, Z, xi=0.5, l2=1.0)
    start = start_svd(problem, 2, np.random.default_rng(0))
    one = solve_eliminated(problem, start, tol=1e-14, max_iter=3000)
    two = solve_jointly(problem, start, positive=False, tol=1e-14, max_iter=5000)
    assert one.history[-1] == pytest.approx(two.history[-1], rel=1e-7)
    np.testing.assert_allclose(one.state.W @ one.state.B, two.state.W @ two.state.B, atol=1e-3)


def test_without_labels_the_dictionary_is_the_svd():
    X, Y, _ = counts(np.random.default_rng(3))
    problem = obj.make_problem(X, Y, label_weight=np.zeros(len(X)))
    rng = np.random.default_rng(0)
    start = start_svd(problem, 3, rng)
    start = start._replace(W=rng.standard_normal(start.W.shape))
    found = solve_eliminated(problem, start, tol=1e-15, max_iter=3000)
    values = np.linalg.svd(X, compute_uv=False)
    assert found.history[-1] == pytest.approx(np.sum(values[3:] ** 2), rel=1e-6)


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("csr", [False, True])
def test_nonnegative(model, csr):
    X, Y, Z = counts(np.random.default_rng(4))
    X[X < 0.3] = 0.0
    problem = obj.make_problem(sparse.csr_array(X) if csr else X, Y, Z, model=model, xi=0.2, l2=0.1)
    start = start_nmf(problem, 3, np.random.default_rng(0))
    found = solve_jointly(problem, start, positive=True, tol=1e-9)
    assert found.state.W.min() >= 0
    assert found.state.H.min() >= 0
    assert obj.objective(problem, found.state) == pytest.approx(found.history[-1], rel=1e-10)
    assert found.history[-1] < obj.objective(problem, start)


@pytest.mark.parametrize("price", [0.0, 0.5])
@pytest.mark.parametrize("warm", [False, True])
def test_nonnegative_codes_are_nnls(price, warm):
    rng = np.random.default_rng(8)
    W, X = rng.standard_normal((9, 6)), 3 * rng.standard_normal((300, 9))
    passive = rng.random((300, 6)) < 0.5 if warm else None
    H, free = nonnegative_codes(X @ W, W.T @ W, price, passive)
    assert np.array_equal(free, H > 0)
    dual = H @ (W.T @ W) - X @ W + price
    assert np.abs(dual[free]).max() < 1e-8
    assert dual[~free].min() > -1e-8
    if price == 0.0:
        np.testing.assert_allclose(H, [nnls(W, x)[0] for x in X], atol=1e-8)


def test_nonnegative_codes_of_a_dictionary_with_twins():
    rng = np.random.default_rng(9)
    W = rng.random((9, 3))[:, [0, 1, 2, 0]]
    X = rng.random((50, 9))
    H, _ = nonnegative_codes(X @ W, W.T @ W)
    best = [nnls(W, x)[1] for x in X]
    np.testing.assert_allclose(np.linalg.norm(X - H @ W.T, axis=1), best, rtol=1e-6)


@pytest.mark.parametrize("csr", [False, True])
def test_nonnegative_codes_eliminated(csr):
    X, Y, Z = counts(np.random.default_rng(4))
    X[X < 0.3] = 0.0
    problem = obj.make_problem(sparse.csr_array(X) if csr else X, Y, Z, xi=0.2, l2=0.1)
    start = start_nmf(problem, 3, np.random.default_rng(0))
    one = solve_eliminated(problem, start, positive=True, tol=1e-9, max_iter=2000)
    assert one.state.W.min() >= 0
    assert one.state.H.min() >= 0
    assert obj.objective(problem, one.state) == pytest.approx(one.history[-1], rel=1e-10)
    two = solve_jointly(problem, one.state, positive=True, tol=1e-10, max_iter=2000)
    assert two.history[-1] >= one.history[-1] * (1 - 1e-3)


@pytest.mark.parametrize("csr", [False, True])
def test_nonnegative_start_rebuilds_like_nmf(csr):
    X, Y, Z = counts(np.random.default_rng(11))
    X[X < 0.3] = 0.0
    theirs = NMF(3, init="nndsvda", max_iter=5000, random_state=0).fit(X)
    start = start_nmf(obj.make_problem(sparse.csr_array(X) if csr else X, Y, Z), 3, np.random.default_rng(0))
    assert min(start.W.min(), start.H.min()) >= 0
    np.testing.assert_allclose(np.linalg.norm(start.W, axis=0), np.linalg.norm(start.H, axis=0), rtol=1e-10)
    assert np.linalg.norm(X - start.H @ start.W.T) < 1.02 * theirs.reconstruction_err_


def test_stops_at_max_iter():
    X, Y, Z = counts(np.random.default_rng(5))
    problem = obj.make_problem(X, Y, Z)
    found = solve_eliminated(problem, start_svd(problem, 2, np.random.default_rng(0)), tol=0.0, max_iter=3)
    assert not found.converged
    assert found.reason == "max_iter=3 reached"
    assert len(found.history) == 3


def test_refusals():
    X, Y, Z = counts(np.random.default_rng(6))
    rng = np.random.default_rng(0)
    feature = obj.make_problem(X, Y, Z, model="feature")
    sparse_codes = obj.make_problem(X, Y, Z, l1=1.0)
    start = start_svd(feature, 2, rng)
    with pytest.raises(ValueError, match="codes can be eliminated"):
        solve_eliminated(feature, start)
    with pytest.raises(ValueError, match="no minimum"):
        solve_jointly(sparse_codes, start, positive=False)
    with pytest.raises(ValueError, match="no minimum"):
        solve_eliminated(sparse_codes, start, positive=True)
    with pytest.raises(ValueError, match="negative atoms or codes"):
        solve_jointly(feature, start, positive=True)
    with pytest.raises(ValueError, match="Negative values in data"):
        start_nmf(obj.make_problem(X - 1, Y), 2, rng)
