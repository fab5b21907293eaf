"""Kernel operators and their inverses against explicit matrices."""

import numpy as np
import pytest
from kernel_reference import dense_reference, explicit_kernel, finite_gradient, table
from scipy.linalg import eigh
from scipy.special import eval_jacobi
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from colspace.scores import KernelScore
from colspace.scores import _kernel as kernel_module
from colspace.scores import _kernel_solvers as solvers
from colspace.scores._kernel_fields import Radial, median_distance, squared_distances
from colspace.scores._kernel_system import System, largest_eigenvalue

METHODS = ["nu", "tikhonov", "landweber", "spectral", "stein", "ssge"]


@pytest.mark.parametrize("name", ["imq", "rbf"])
def test_derivatives_of_the_kernels(name):
    kernel, r, h = Radial(name, 1.7), np.linspace(0.1, 9, 40), 1e-5
    for k in range(4):
        (up,) = kernel.derivatives(r + h, k)
        (down,) = kernel.derivatives(r - h, k)
        (slope,) = kernel.derivatives(r, k + 1)
        np.testing.assert_allclose((up - down) / (2 * h), slope, rtol=1e-7, atol=1e-10)
    at_zero = kernel.derivatives(np.zeros(1), 0, 1)
    assert at_zero[0] == 1
    np.testing.assert_allclose(at_zero[1], -0.5 / 1.7**2)


@pytest.mark.parametrize("name", ["imq", "rbf"])
def test_explicit_kernels_are_derivatives_of_the_radial_function(name):
    """The test's own matrices, by finite differences: -grad grad' phi and its divergence."""
    X, kernel, h = table(4, 3), Radial(name, 1.3), 1e-4

    def phi(d):
        return float(kernel.derivatives(np.array(d @ d), 0)[0])

    K, divergence = explicit_kernel(X, kernel, curl_free=True)
    K = K.reshape(4, 3, 4, 3)
    d, E = X[0] - X[1], h * np.eye(3)
    hessian = [
        [(phi(d + a + b) - phi(d + a - b) - phi(d - a + b) + phi(d - a - b)) / (4 * h * h) for b in E]
        for a in E
    ]
    np.testing.assert_allclose(K[0, :, 1], -np.array(hessian), atol=1e-6)

    def first_row_at(x):
        Y = X.copy()
        Y[0] = x
        return explicit_kernel(Y, kernel, curl_free=True)[0].reshape(4, 3, 4, 3)[0, :, 1]

    numeric = sum((first_row_at(X[0] + E[a])[a] - first_row_at(X[0] - E[a])[a]) / (2 * h) for a in range(3))
    np.testing.assert_allclose(divergence[0, 1], numeric, atol=1e-6)


@pytest.mark.parametrize("route", ["plain", "span", "rotated"])
@pytest.mark.parametrize("curl_free", [True, False])
@pytest.mark.parametrize("name", ["imq", "rbf"])
def test_products_equal_the_explicit_matrix(name, curl_free, route):
    n, p = (9, 4) if route == "plain" else (7, 9)
    X = table(n, p)
    kernel = Radial(name, median_distance(X, np.random.default_rng(0)))
    K, divergence = explicit_kernel(X, kernel, curl_free=curl_free)
    system = System(X, kernel, curl_free=curl_free, route=route)
    Z = np.random.default_rng(1).standard_normal(system.zeta.shape)
    expected = (K @ system.expand(Z).ravel() / n).reshape(n, p)
    np.testing.assert_allclose(system.expand(system.apply(Z)), expected, atol=1e-14)
    np.testing.assert_allclose(system.expand(system.zeta), divergence.mean(axis=0), atol=1e-14)
    inner = (system.image(Z) * system.zeta).sum()
    np.testing.assert_allclose(inner, (system.expand(Z) * system.expand(system.zeta)).sum(), rtol=1e-12)
    assert system.lambda_max == pytest.approx(eigh(K, eigvals_only=True)[-1] / n, rel=5e-3)
    assert system.lambda_max <= eigh(K, eigvals_only=True)[-1] / n * (1 + 1e-10)


def test_lanczos_finds_the_largest_eigenvalue():
    A = np.diag([3.0, 2.0, 1.0, 0.5, 0.1, 0.0, 0.0, 0.0])
    start = np.random.default_rng(0).standard_normal((8, 1))
    assert largest_eigenvalue(lambda v, _: A @ v, lambda v: v, start) == pytest.approx(3)
    assert largest_eigenvalue(lambda v, _: A @ v, lambda v: v, start * 0) == 0
    assert largest_eigenvalue(lambda v, _: 2 * v, lambda v: v, start) == pytest.approx(2)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("curl_free", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_every_estimator_is_its_filter_of_the_explicit_operator(method, curl_free, normalize):
    X, rows = table(10, 2), table(4, 2, seed=3)
    lam = {"landweber": 0.08, "ssge": 0.1}.get(method, 0.02)
    model = KernelScore(
        method=method,
        curl_free=curl_free,
        normalize=normalize,
        regularization=lam,
        kernel="rbf",
        bandwidth=2.0,
        standardize=False,
    ).fit(X)
    on_sample, away = dense_reference(X, rows, model)
    np.testing.assert_allclose(-model.score_function(X), on_sample, atol=2e-7 * np.abs(on_sample).max())
    np.testing.assert_allclose(-model.score_function(rows), away, atol=2e-7 * np.abs(away).max())


def test_stein_solves_its_linear_system():
    """Li and Turner: (K + eta I) G = -<grad, K>, on the raw kernel."""
    X, eta = table(12, 3), 0.05
    model = KernelScore(
        method="stein", kernel="rbf", normalize=False, regularization=eta, standardize=False
    ).fit(X)
    r = squared_distances(X, X)
    K, slope = Radial("rbf", model.bandwidth_).derivatives(r, 0, 1)
    grad = 2 * np.einsum("ij,ijp->jp", slope, X[:, None] - X[None])
    G = -model.score_function(X)
    np.testing.assert_allclose((K + eta * np.eye(12)) @ G, -grad, atol=1e-10)


def test_ssge_expands_in_nystrom_eigenfunctions():
    """Shi et al.: g = sum_j b_j psi_j, psi_j(x) = sqrt(n)/l_j sum_m u_jm k(x, x_m), b_j = -mean grad psi_j."""
    X, rows = table(15, 2), table(5, 2, seed=4)
    model = KernelScore(method="ssge", kernel="rbf", regularization=0.05, standardize=False).fit(X)
    kernel = Radial("rbf", model.bandwidth_)
    values, U = eigh(kernel.derivatives(squared_distances(X, X), 0)[0])
    values, U = values[::-1][: model.n_iter_], U[:, ::-1][:, : model.n_iter_]

    def psi(Y):
        return np.sqrt(15) * kernel.derivatives(squared_distances(Y, X), 0)[0] @ U / values

    b = -finite_gradient(psi, X).mean(axis=0)
    np.testing.assert_allclose(-model.score_function(rows), psi(rows) @ b, rtol=1e-6, atol=1e-7)
    spectrum = eigh(kernel.derivatives(squared_distances(X, X), 0)[0], eigvals_only=True)
    assert values.sum() >= 0.95 * spectrum.sum() > values[:-1].sum()


@pytest.mark.parametrize("nu", [0.5, 1.0, 2.5])
def test_nu_residuals_are_jacobi_polynomials(nu):
    """Brakhage: 1 - v f_t(v) = P_t(1 - 2v) / P_t(1), P_t the Jacobi polynomial of (2 nu - 1/2, -1/2)."""
    v = np.linspace(0, 1, 11)
    f = last = np.zeros_like(v)
    for t in range(1, 8):
        u, w = solvers._nu_weights(t, nu)
        f, last = f + u * (f - last) + w * (1 - v * f), f
        P = eval_jacobi(t, 2 * nu - 0.5, -0.5, 1 - 2 * v)
        np.testing.assert_allclose(1 - v * f, P / P[0], atol=1e-12)


def test_conjugate_gradients_say_when_they_stop_early():
    X = table(30, 3)
    system = System(X, Radial("imq", 2.0), curl_free=True)
    system.normalize()
    with pytest.warns(ConvergenceWarning, match="relative residual"):
        next(solvers._tikhonov_cg(system, [1e-8], 1e-12, max_steps=3))


@pytest.mark.parametrize("low_rank", [False, True])
@pytest.mark.parametrize("curl_free", [True, False])
@pytest.mark.parametrize("method", ["nu", "tikhonov", "landweber", "spectral", "stein"])
def test_rows_span_equals_the_plain_route(method, curl_free, low_rank, monkeypatch):
    X = table(40, 60)
    if low_rank:
        X = X[:, :5] @ np.random.default_rng(2).standard_normal((5, 60))
    lam = {"landweber": 0.01, "spectral": 0.1, "tikhonov": 0.01}.get(method, 1e-4)
    model = KernelScore(method=method, curl_free=curl_free, regularization=lam, standardize=False)
    inside = model.fit(X).score_function(X)
    monkeypatch.setattr(
        kernel_module,
        "System",
        lambda X, kernel, *, curl_free, route, share: System(X, kernel, curl_free=curl_free, share=share),
    )
    plain = clone(model).fit(X)
    assert plain.lambda_max_ == pytest.approx(model.lambda_max_, rel=1e-10)
    np.testing.assert_allclose(inside, plain.score_function(X), atol=1e-8 * np.abs(inside).max())
    if low_rank:  # the score stays in the rows' span
        Q = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:5]
        np.testing.assert_allclose(inside @ Q.T @ Q, inside, atol=1e-8 * np.abs(inside).max())


def test_iterative_eigenvectors_equal_the_dense_ones(monkeypatch):
    X = table(40, 2)
    model = KernelScore(method="spectral", regularization=0.05).fit(X)
    monkeypatch.setattr(solvers, "_DENSE", 10)
    again = clone(model).fit(X)
    assert again.n_iter_ == model.n_iter_
    np.testing.assert_allclose(again.score_function(X), model.score_function(X), atol=1e-7)
    monkeypatch.setattr(solvers, "_LANCZOS", 400)  # five eigenvectors
    with pytest.raises(ValueError, match=r"more than 5 eigenvalues .* method='nu'"):
        clone(model).fit(X)
    monkeypatch.setattr(solvers, "_LANCZOS", 1000)
    path = KernelScore(method="spectral", random_state=0).fit(X)
    assert np.isinf(path.losses_[-1])
    assert np.isfinite(path.losses_[0])
