"""Reduced-rank regression."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from classics_tables import assert_same_span, whitened
from scipy.optimize import minimize
from sklearn.cross_decomposition import CCA
from sklearn.linear_model import LinearRegression, Ridge

from colspace import (
    ConstantColumnWarning,
    ReducedRank,
)
from colspace.metrics import nsee


@pytest.fixture(scope="module")
def several():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((150, 5)) @ (np.eye(5) + 0.4 * rng.standard_normal((5, 5))) + 1.0
    B = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4))
    return X, X @ B + rng.standard_normal((150, 4)) @ np.diag([1, 2, 0.5, 3]) - 2.0


@pytest.mark.parametrize("weighting", ["unit", "identity", "inverse"])
def test_full_rank_is_least_squares(weighting, several):
    X, Y = several
    model, other = ReducedRank(4, weighting=weighting).fit(X, Y), LinearRegression().fit(X, Y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, other.intercept_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-10)


@pytest.mark.parametrize("weighting", ["unit", "identity", "inverse"])
def test_full_rank_is_ridge_on_standardised_columns(weighting, several):
    X, Y = several
    alpha, D = 0.3, X.std(axis=0)
    model = ReducedRank(4, alpha=alpha, weighting=weighting).fit(X, Y)
    other = Ridge(alpha * len(X)).fit(X / D, Y)
    np.testing.assert_allclose(model.coef_ * D, other.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X), other.predict(X / D), atol=1e-10)


def test_one_response(several):
    X, Y = several
    model, other = ReducedRank().fit(X, Y[:, 0]), LinearRegression().fit(X, Y[:, 0])
    assert model.coef_.shape == (5,)
    assert isinstance(model.intercept_, float)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-10)
    column = ReducedRank().fit(X, Y[:, :1])
    assert column.coef_.shape == (1, 5)
    assert column.predict(X).shape == (150, 1)
    with pytest.raises(ValueError, match=r"n_components=2 .* 1 response\(s\)"):
        ReducedRank(2).fit(X, Y[:, 0])


def loss(X, Y, B, penalty, gamma):
    R = Y - X @ B
    return np.trace(R @ gamma @ R.T) / len(X) + np.trace(B.T @ penalty @ B @ gamma)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("weighting", ["unit", "identity", "inverse"])
@pytest.mark.parametrize("r", [1, 2])
def test_rank_r_minimises(alpha, weighting, r, several):
    """No rank-r coefficients do better: descent from random starts and from the solution."""
    X, Y = several
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    S = X.T @ X / len(X)
    penalty = alpha * np.diag(np.diag(S))
    gamma = {
        "unit": np.diag(1 / Y.var(axis=0)),
        "identity": np.eye(4),
        "inverse": np.linalg.inv(Y.T @ Y / len(Y)),
    }[weighting]
    C = X.T @ Y / len(X)

    def objective(v):
        P, Q = v[: 5 * r].reshape(5, r), v[5 * r :].reshape(r, 4)
        gradient = 2 * ((S + penalty) @ P @ Q - C) @ gamma
        return loss(X, Y, P @ Q, penalty, gamma), np.concatenate(
            [(gradient @ Q.T).ravel(), (P.T @ gradient).ravel()]
        )

    model = ReducedRank(r, alpha=alpha, weighting=weighting).fit(X, Y)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == r
    ours = loss(X, Y, model.coef_.T, penalty, gamma)
    rng = np.random.default_rng(0)
    starts = [rng.standard_normal(9 * r) for _ in range(6)]
    found = [minimize(objective, s, jac=True, method="BFGS", options={"gtol": 1e-9}) for s in starts]
    best = min(found, key=lambda f: f.fun)
    np.testing.assert_allclose(ours, best.fun, rtol=1e-8)
    B = best.x[: 5 * r].reshape(5, r) @ best.x[5 * r :].reshape(r, 4)
    np.testing.assert_allclose(model.coef_.T, B, atol=1e-4)


def test_ridge_is_augmented_data(several):
    """Rank-r ridge is rank-r least squares on the data with sqrt(m penalty) D beneath."""
    X, Y = several
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    ridge = np.sqrt(0.2 * len(X)) * np.diag(X.std(axis=0))
    XX, YY = np.vstack([X, ridge]), np.vstack([Y, np.zeros((5, 4))])
    full = np.linalg.lstsq(XX, YY, rcond=None)[0]
    V = np.linalg.svd(XX @ full, full_matrices=False)[2][:2].T
    model = ReducedRank(2, alpha=0.2, weighting="identity").fit(X, Y)
    np.testing.assert_allclose(model.coef_.T, full @ V @ V.T, atol=1e-10)


def test_singular_values_in_the_units_of_the_weighting(several):
    X, Y = several
    Z, W = whitened(X)
    cross = Z.T @ (Y - Y.mean(axis=0)) / len(X)
    for weighting, scaled in (("identity", cross), ("unit", cross / Y.std(axis=0))):
        model = ReducedRank(3, weighting=weighting).fit(X, Y)
        np.testing.assert_allclose(model.singular_values_, np.linalg.svd(W @ scaled)[1][:3], rtol=1e-10)


def test_units_of_responses_do_not_matter_by_default(several):
    X, Y = several
    units = np.array([1e-6, 1.0, 1e40, 1e-40])
    model, scaled = (ReducedRank(2, alpha=0.1).fit(X, t) for t in (Y, Y * units))
    np.testing.assert_allclose(scaled.predict(X) / units, model.predict(X), rtol=1e-9)


def test_inverse_weighting_is_cca(several):
    X, Y = several
    Zx, Wx = whitened(X)
    Zy, Wy = whitened(Y)
    U, s, _ = np.linalg.svd(Wx @ (Zx.T @ Zy / len(X)) @ Wy)
    model = ReducedRank(2, weighting="inverse").fit(X, Y)
    np.testing.assert_allclose(model.singular_values_, s[:2], rtol=1e-10)
    assert_same_span(model.components_.T, Wx @ U[:, :2], atol=1e-9)
    other = CCA(2, scale=False, tol=1e-12, max_iter=5000).fit(X, Y)
    assert_same_span(model.components_.T, other.x_rotations_, atol=1e-5)
    scaled = ReducedRank(2, weighting="inverse").fit(X, Y * [1, 10, 100, 0.1])
    np.testing.assert_allclose(scaled.predict(X) / [1, 10, 100, 0.1], model.predict(X), atol=1e-9)


def test_rrr_parts_fit_together(several):
    X, Y = several
    model = ReducedRank(2, alpha=0.1, weighting="inverse").fit(X, Y)
    np.testing.assert_allclose(model.coef_, model.y_loadings_ @ model.components_, atol=1e-12)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_.T + model.intercept_, atol=1e-10)
    np.testing.assert_allclose(
        model.predict(X), model.transform(X) @ model.y_loadings_.T + Y.mean(axis=0), atol=1e-10
    )


def test_rrr_wide_with_ridge():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((30, 60)), np.ones(30)])
    Y = X[:, :3] + 0.1 * rng.standard_normal((30, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConstantColumnWarning)
        model = ReducedRank(3, alpha=0.5).fit(X, Y)
    D = np.append(X[:, :60].std(axis=0), 1.0)
    np.testing.assert_allclose(model.coef_ * D, Ridge(0.5 * 30).fit(X / D, Y).coef_, atol=1e-9)


def test_rrr_bad_responses(several):
    X, Y = several
    with pytest.raises(ValueError, match=r"class labels.*Remedies"):
        ReducedRank().fit(X, np.where(Y[:, 0] > 0, "a", "b"))
    with pytest.raises(ValueError, match=r"weighting='inverse'.*Remedies: weighting='identity'"):
        ReducedRank(weighting="inverse").fit(X, np.column_stack([Y, Y[:, 0] + Y[:, 1]]))
    with pytest.raises(ValueError, match="'alpha' parameter"):
        ReducedRank(alpha=-1.0).fit(X, Y)


def test_rrr_recovery():
    """Rank 2 of 6 responses, little noise in 10 columns: the plane is found, and beats full rank on new rows."""
    rng = np.random.default_rng(0)
    A, C = rng.standard_normal((10, 2)), rng.standard_normal((2, 6))
    X, new = rng.standard_normal((150, 10)), rng.standard_normal((2000, 10))
    Y = X @ A @ C + 3 * rng.standard_normal((150, 6))
    model, full = ReducedRank(2, weighting="identity").fit(X, Y), ReducedRank(6).fit(X, Y)
    assert nsee(A, model.components_.T) < 0.2
    error = [np.mean((m.predict(new) - new @ A @ C) ** 2) for m in (model, full)]
    assert error[0] < 0.7 * error[1]
