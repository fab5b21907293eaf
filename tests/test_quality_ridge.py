"""Ridge regression whose ridge is chosen by leaving rows out."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.utils.estimator_checks import check_estimator

from colspace.quality import LooRidge

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 3))
Y = X[:, 0] + RNG.standard_normal(20)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "p", "q"), [(50, 4, 1), (50, 4, 3), (30, 30, 2), (20, 60, 1), (20, 60, 2)])
def test_ridge_of_least_error_is_that_of_scikit_learn(n, p, q, weighted):
    rng = np.random.default_rng(n + p + q)
    Z = rng.standard_normal((n, p)) * np.geomspace(1, 100, p) + 3
    V = (Z / np.geomspace(1, 100, p)) @ rng.standard_normal((p, q)) + 0.5 * rng.standard_normal((n, q))
    V = V[:, 0] if q == 1 else V
    w = rng.random(n) + 0.1 if weighted else None
    alphas = np.logspace(-2, 5, 12)
    ours, theirs = (ridge.fit(Z, V, w) for ridge in (LooRidge(alphas), RidgeCV(alphas)))
    assert alphas[0] <= ours.alpha_ == theirs.alpha_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-8)
    np.testing.assert_allclose(ours.predict(Z[:3] + 1), theirs.predict(Z[:3] + 1), atol=1e-8)


def test_ridge_keeps_the_contract_of_scikit_learn():
    apart = "check_sample_weight_equivalence_on_dense_data"
    left = {apart: "a row of weight two is left out as one"}
    results = check_estimator(LooRidge(), expected_failed_checks=left, on_fail=None, on_skip=None)
    odd = {r["check_name"]: r["status"] for r in results if r["status"] != "passed"}
    assert odd == {apart: "xfail", "check_array_api_input": "skipped"}


@pytest.mark.parametrize("alphas", [(0.0, 1.0), (-1.0,), (), 1.0, (np.inf,), (np.nan, 1.0)])
def test_ridges_are_numbers_above_zero(alphas):
    with pytest.raises(ValueError, match="must be one or more finite numbers above 0, as in"):
        LooRidge(alphas).fit(X, Y)


@pytest.mark.parametrize("weight", [-1.0, np.nan])
def test_weights_of_a_ridge_are_checked(weight):
    with pytest.raises(ValueError, match="sample_weight"):
        LooRidge().fit(X, Y, np.full(len(X), weight))


def left_out(Z, V, w, alpha):
    """Squared errors of fits without a row, of every row in turn."""
    total = 0.0
    for i in range(len(Z)):
        A, B, root = (np.delete(part, i, axis=0) for part in (Z, V, np.sqrt(w)[:, None]))
        centre, level = (np.average(part, axis=0, weights=np.delete(w, i)) for part in (A, B))
        S, cross = (((A - centre) * root).T @ (part * root) for part in (A - centre, B - level))
        guess = level + (Z[i] - centre) @ np.linalg.solve(S + alpha * np.eye(len(S)), cross)
        total += w[i] * np.sum((guess - V[i]) ** 2)
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [3, 14, 15, 40])
def test_the_error_is_that_of_fits_without_a_row(p, weighted):
    rng = np.random.default_rng(p + 5)
    Z, w = rng.standard_normal((15, p)), rng.exponential(size=15) ** 2 + 0.05 if weighted else np.ones(15)
    V = Z[:, :2] @ np.ones((2, 2)) + rng.standard_normal((15, 2))
    alphas = np.geomspace(1e-2, 1e4, 201)
    best = alphas[np.argmin([left_out(Z, V, w, alpha) for alpha in alphas])]
    assert alphas[0] < best < alphas[-1]
    assert LooRidge(alphas).fit(Z, V, w).alpha_ == best


def test_ridges_next_to_nothing_are_no_better_for_rounding():
    rng = np.random.default_rng(0)
    Z, V = rng.standard_normal((20, 60)), rng.standard_normal(20)
    assert LooRidge(np.geomspace(1e-14, 1e4, 37)).fit(Z, V).alpha_ == 1e4


def test_a_row_that_alone_has_a_column_tells_nothing():
    Z = X.copy()
    Z[:, 2] = 0.0
    Z[0, 2] = 1e9
    found = LooRidge((1e-3, 1.0, 10.0)).fit(Z, Y)
    assert np.isfinite(found.coef_).all()
    assert found.alpha_ == LooRidge((1e-3, 1.0, 10.0)).fit(Z[1:, :2], Y[1:]).alpha_


def test_one_row_is_too_few():
    with pytest.raises(ValueError, match="minimum of 2 is required by LooRidge"):
        LooRidge().fit(X[:1], Y[:1])
