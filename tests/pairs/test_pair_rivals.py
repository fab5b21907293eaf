"""Bilinear regression and the other reductions against brute force."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime, minimize
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from colspace import BilinearPairRegressor, ConstantColumnWarning, PairRegressor, PrincipalHessian
from colspace.datasets import make_pairs
from colspace.metrics import recall_at_k
from colspace.pairs import _bilinear_fit, _reduce
from colspace.pairs._links import Links


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((9, 3)) + 1, rng.standard_normal((8, 4))
    Y = np.where(rng.random((9, 8)) < 0.5, rng.random((9, 8)), 0.0)
    mask = rng.random((9, 8)) < 0.7
    return A, B, Y, mask


def test_half_step_is_the_ridge_regression_on_products_of_features(small):
    A, B, Y, _ = small
    V = np.random.default_rng(1).standard_normal((4, 2))
    C = B @ V
    # vec(A U C') = (A kron C) vec(U), row by row
    design = np.kron(A, C)
    expected = np.linalg.solve(design.T @ design + 0.7 * np.eye(6), design.T @ Y.ravel()).reshape(3, 2)
    found = _bilinear_fit.ridge_half(np.linalg.eigh(A.T @ A), A.T @ Y @ C, C.T @ C, 0.7)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_alternating_ridge_ends_where_no_other_search_gets_lower(small):
    A, B, Y, _ = small
    S = sparse.csr_array(Y)
    found = _bilinear_fit.alternating_ridge(A, B, S, 2, 0.3, 2000, 1e-14)
    objective = _bilinear_fit.Objective(A, B, Links(S), "squared", 0.3, 2)
    theta = np.vstack([found.U, found.V]).ravel()
    value, gradient = objective(theta)
    np.testing.assert_allclose(value, found.objective, rtol=1e-10)
    np.testing.assert_allclose(gradient, 0, atol=1e-4)
    rng = np.random.default_rng(2)
    others = [minimize(objective, rng.standard_normal(len(theta)), jac=True).fun for _ in range(5)]
    assert found.objective <= min(others) + 1e-6


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("masked", [False, True])
def test_objective_against_loops_and_differences(small, loss, masked, monkeypatch):
    A, B, Y, mask = small
    monkeypatch.setattr(_bilinear_fit, "CHUNK", 100)  # three rows at a time
    Y = Y * mask if masked else Y
    links = Links(sparse.csr_array(Y), sparse.csr_array(mask.astype(float)) if masked else None)
    objective = _bilinear_fit.Objective(A, B, links, loss, 0.2, 2)
    theta = np.random.default_rng(3).standard_normal(14)
    U, V = theta.reshape(-1, 2)[:3], theta.reshape(-1, 2)[3:]
    expected = 0.1 * np.sum(theta**2)
    for i in range(9):
        for j in range(8):
            if masked and not mask[i, j]:
                continue
            z = A[i] @ U @ V.T @ B[j]
            expected += 0.5 * (z - Y[i, j]) ** 2 if loss == "squared" else np.log1p(np.exp(z)) - Y[i, j] * z
    value, gradient = objective(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(
        gradient, approx_fprime(theta, lambda t: objective(t)[0], 1e-7), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("mask", [None, "observed"])
def test_bilinear_fit_is_stationary(small, loss, mask):
    A, B, Y, _ = small
    # all pairs observed, as zeros that count and as values that do
    model = BilinearPairRegressor(2, alpha=0.2, loss=loss, tol=1e-13, max_iter=5000).fit(A, B, Y, mask)
    Z = [np.hstack([np.ones((len(X), 1)), (X - X.mean(0)) / X.std(0)]) for X in (A, B)]
    assert model.alpha_ == pytest.approx(0.2 * np.linalg.norm(Z[0][:, 1:].T @ Y @ Z[1][:, 1:], 2))
    objective = _bilinear_fit.Objective(*Z, Links(sparse.csr_array(Y)), loss, model.alpha_, 2)
    value, gradient = objective(np.vstack(list(model.factors_.values())).ravel())
    np.testing.assert_allclose(value, model.objective_, rtol=1e-9)
    np.testing.assert_allclose(gradient, 0, atol=1e-3)
    scores = Z[0] @ model.factors_["left"] @ model.factors_["right"].T @ Z[1].T
    if loss == "logistic":
        scores = 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose(model.predict(A, B), scores, rtol=1e-10)
    np.testing.assert_allclose(model.predict(), scores, rtol=1e-10)
    top = model.rank(A, k=3)
    np.testing.assert_array_equal(
        top["right"].to_numpy().reshape(-1, 3), np.argsort(-scores, axis=1, kind="stable")[:, :3]
    )


def test_bilinear_says_when_it_did_not_converge(small):
    A, B, Y, _ = small
    with pytest.warns(ConvergenceWarning, match="larger max_iter or tol"):
        BilinearPairRegressor(2, alpha=0.01, max_iter=1, tol=0.0).fit(A, B, Y)


def test_bilinear_predicts_nothing_from_nothing():
    # features and scores without any relation: the spectral start is zero
    with pytest.warns(ConstantColumnWarning):
        model = BilinearPairRegressor(1).fit(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[1, -1], [-1, 1]]))
    np.testing.assert_allclose(model.predict(), 0.0, atol=1e-12)


def test_logistic_takes_probabilities_only(small):
    A, B, Y, _ = small
    with pytest.raises(ValueError, match=r"between 0 and 1, got .* use Y > 0"):
        BilinearPairRegressor(2, loss="logistic").fit(A, B, 3 * Y)


# ---------------------------------------------------------------------- reductions


def table_of_pairs(A, B, Y, mask=None):
    i, j = np.nonzero(np.ones_like(Y) if mask is None else mask)
    return A[i], B[j], Y[i, j]


def same_span_and_order(found, expected):
    signs = np.sign(np.sum(found * expected, axis=0))
    np.testing.assert_allclose(found * signs, expected, rtol=1e-6, atol=1e-8)


def test_pca_is_that_of_the_entities(small):
    A, B, Y, _ = small
    model = PairRegressor(2, reduction="pca", bandwidth=0.5).fit(A, B, Y)
    for side, X in (("left", A), ("right", B)):
        pca = PCA(2).fit(X)
        same_span_and_order(model.loadings_[side], pca.components_.T)
        same_span_and_order(model.embedding_[side], pca.transform(X))


@pytest.mark.parametrize("masked", [False, True])
def test_phd_is_that_of_each_side_of_the_table_of_pairs(small, masked):
    A, B, Y, mask = small
    mask = mask if masked else None
    a, b, y = table_of_pairs(A, B, Y, mask)
    model = PairRegressor(2, reduction="phd", shrinkage=0.1, bandwidth=0.5).fit(A, B, Y, mask)
    for side, x in (("left", a), ("right", b)):
        hessian = PrincipalHessian(2, shrinkage=0.1).fit(x, y)
        same_span_and_order(model.loadings_[side], hessian.components_.T)
        np.testing.assert_allclose(model.singular_values_[side] * y.std(), hessian.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("masked", [False, True])
def test_cphd_is_that_of_the_features_side_by_side(small, masked):
    A, B, Y, mask = small
    mask = mask if masked else None
    a, b, y = table_of_pairs(A, B, Y, mask)
    model = PairRegressor(2, reduction="cphd", shrinkage=0.1, bandwidth=0.5).fit(A, B, Y, mask)
    hessian = PrincipalHessian(4, shrinkage=0.1).fit(np.hstack([a, b]), y)
    same_span_and_order(np.vstack(list(model.loadings_.values())), hessian.components_.T)
    np.testing.assert_allclose(model.singular_values_["left"] * y.std(), hessian.eigenvalues_, rtol=1e-8)
    mean = a.mean(axis=0)
    root = np.sqrt(np.abs(hessian.eigenvalues_) / y.std())
    same_span_and_order(model.embedding_["left"], (A - mean) @ hessian.components_.T[:3] * root)


@pytest.mark.parametrize("masked", [False, True])
def test_sols_regressions_within_groups_against_loops(small, masked, monkeypatch):
    A, B, Y, mask = small
    groups = np.arange(9) % 3
    Ym = Y * mask if masked else Y
    links = Links(sparse.csr_array(Ym), sparse.csr_array(mask.astype(float)) if masked else None)
    expected = np.zeros((3, 3))
    for g in range(3):
        pairs = [(i, j) for i in range(9) for j in range(8) if groups[i] == g and (not masked or mask[i, j])]
        mean = np.mean([A[i] for i, _ in pairs], axis=0)
        level = np.mean([Y[i, j] for i, j in pairs])
        expected[:, g] = sum((A[i] - mean) * (Y[i, j] - level) for i, j in pairs)
    found = _reduce.group_regressions(A, groups, *_reduce._row_totals(links)[0])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # groups of three: directions are those of Cov^-1/2 times the sums over pairs
    monkeypatch.setattr(_reduce, "_groups", lambda C, *_: np.arange(len(C)) % 3)
    model = PairRegressor(3, reduction="sols", shrinkage=0.0, bandwidth=0.5)
    model.fit(A, B, Y, mask if masked else None)
    a, _, y = table_of_pairs(A, B, Y, mask if masked else None)
    W = np.linalg.inv(np.linalg.cholesky(np.cov(a.T, bias=True)))
    U, s, _ = np.linalg.svd(W @ expected / (len(y) * y.std()))
    np.testing.assert_allclose(model.singular_values_["left"], s, rtol=1e-8)
    same_span_and_order(model.embedding_["left"], (A - a.mean(axis=0)) @ W.T @ U * np.sqrt(s))
    assert np.isfinite(model.predict()).all()


def test_rivals_rank_generated_pairs_less_well():
    A, B, Y, _ = make_pairs(500, 300, 20, 3, rng=5)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for reduction in ("joint", "pca", "phd", "sols", "cphd"):
            shrinkage = "auto" if reduction == "pca" else 0.1
            model = PairRegressor(3, reduction=reduction, shrinkage=shrinkage, bandwidth=0.2).fit(
                A[:400], B, Y[:400]
            )
            found[reduction] = recall_at_k(Y[400:], model.predict(A[400:]), 20)
        bilinear = BilinearPairRegressor(3, alpha=0.03).fit(A[:400], B, Y[:400])
    found["bilinear"] = recall_at_k(Y[400:], bilinear.predict(A[400:]), 20)
    assert found["joint"] > 0.6
    assert found["joint"] > max(found[name] for name in ("pca", "phd", "sols", "bilinear")) + 0.1
