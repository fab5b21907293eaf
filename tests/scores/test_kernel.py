import tracemalloc

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.special import eval_jacobi
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from colspace.scores import KernelScore
from colspace.scores import _kernel as kernel_module
from colspace.scores import _kernel_fields as fields
from colspace.scores import _kernel_solvers as solvers
from colspace.scores._kernel_fields import Radial, median_distance, squared_distances
from colspace.scores._kernel_system import MARGIN, System, largest_eigenvalue

METHODS = ["nu", "tikhonov", "landweber", "spectral", "stein", "ssge"]


def table(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) @ np.diag(np.linspace(0.7, 1.6, p)) + rng.standard_normal(p)


def explicit_kernel(X, kernel, *, curl_free):
    """The np x np matrix, and div_x K(x_i, x_j), block by block."""
    n, p = X.shape
    K, divergence = np.zeros((n, p, n, p)), np.zeros((n, n, p))
    for i in range(n):
        for j in range(n):
            d = X[i] - X[j]
            r = np.array(d @ d)
            d0, d1, d2, d3 = kernel.derivatives(r, 0, 1, 2, 3)
            if curl_free:
                K[i, :, j] = -2 * d1 * np.eye(p) - 4 * d2 * np.outer(d, d)
                divergence[i, j] = -d * (4 * (p + 2) * d2 + 8 * r * d3)
            else:
                K[i, :, j] = d0 * np.eye(p)
                divergence[i, j] = 2 * d1 * d
    return K.reshape(n * p, n * p), divergence


def finite_gradient(function, X, h=1e-5):
    """Derivatives of a function of rows: result[..., a] is that in column a."""
    steps = h * np.eye(X.shape[1])
    return np.stack([(function(X + e) - function(X - e)) / (2 * h) for e in steps], axis=-1)


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


def dense_reference(X, rows, model):
    """g at rows through the np x np matrix and the filter on its eigenvalues: -R(L) zeta, extended to new rows."""
    n, p = X.shape
    kernel = Radial(model.kernel, model.bandwidth_)
    curl_free = model.curl_free and model.method not in ("stein", "ssge")
    both = np.vstack([X, rows])
    K, divergence = explicit_kernel(both, kernel, curl_free=curl_free)
    K = K.reshape(len(both), p, len(both), p)
    zeta = divergence[:n].mean(axis=0)
    scale = model.lambda_max_ * MARGIN if model.normalize else 1.0
    M = K[:n, :, :n].reshape(n * p, n * p) / (n * scale)
    values, vectors = eigh(M)
    inside = vectors.T @ zeta[:n].ravel() / scale
    lam = model.regularization_
    if model.method == "stein" and not model.normalize:
        lam = lam / n
    if model.method in ("tikhonov", "stein"):
        filtered = 1 / (values + lam)
    elif model.method == "landweber":
        filtered = (1 - (1 - values) ** model.n_iter_) / values
    elif model.method == "nu":
        f = last = np.zeros_like(values)
        for t in range(1, model.n_iter_ + 1):
            u, w = solvers._nu_weights(t, model.nu)
            f, last = f + u * (f - last) + w * (1 - values * f), f
        filtered = f
    elif model.method == "spectral":
        filtered = np.where(values >= lam, 1 / values, 0)
    else:  # every eigenvalue of the n x n matrix stands p times here
        once = np.sort(values)[::-1][::p]
        kept = np.searchsorted(np.cumsum(once), (1 - lam) * once.sum()) + 1
        filtered = np.where(values >= once[kept - 1] * (1 - 1e-9), 1 / values, 0)
    on_sample = -(vectors @ (filtered * inside)).reshape(n, p)
    # R(L) zeta = R(0) zeta + (R(L) - R(0)) / L . L zeta: the part in the kernel's span has coefficients
    at_zero = {
        "tikhonov": 1 / lam,
        "stein": 1 / lam,
        "landweber": model.n_iter_,
        "spectral": 0.0,
        "ssge": 0.0,
    }
    if model.method == "nu":
        f = last = 0.0
        for t in range(1, model.n_iter_ + 1):
            u, w = solvers._nu_weights(t, model.nu)
            f, last = f + u * (f - last) + w, f
        at_zero["nu"] = f
    a = at_zero[model.method]
    coef = -vectors @ ((filtered - a) / values * inside)
    away = K[n:, :, :n].reshape(len(rows) * p, n * p) @ coef / (n * scale)
    return on_sample, -a * zeta[n:] / scale + away.reshape(len(rows), p)


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
    ).fit(X)
    on_sample, away = dense_reference(X, rows, model)
    np.testing.assert_allclose(-model.score_function(X), on_sample, atol=2e-7 * np.abs(on_sample).max())
    np.testing.assert_allclose(-model.score_function(rows), away, atol=2e-7 * np.abs(away).max())


def test_stein_solves_its_linear_system():
    """Li and Turner: (K + eta I) G = -<grad, K>, on the raw kernel."""
    X, eta = table(12, 3), 0.05
    model = KernelScore(method="stein", kernel="rbf", normalize=False, regularization=eta).fit(X)
    r = squared_distances(X, X)
    K, slope = Radial("rbf", model.bandwidth_).derivatives(r, 0, 1)
    grad = 2 * np.einsum("ij,ijp->jp", slope, X[:, None] - X[None])
    G = -model.score_function(X)
    np.testing.assert_allclose((K + eta * np.eye(12)) @ G, -grad, atol=1e-10)


def test_ssge_expands_in_nystrom_eigenfunctions():
    """Shi et al.: g = sum_j b_j psi_j, psi_j(x) = sqrt(n)/l_j sum_m u_jm k(x, x_m), b_j = -mean grad psi_j."""
    X, rows = table(15, 2), table(5, 2, seed=4)
    model = KernelScore(method="ssge", kernel="rbf", regularization=0.05).fit(X)
    kernel = Radial("rbf", model.bandwidth_)
    values, U = eigh(kernel.derivatives(squared_distances(X, X), 0)[0])
    values, U = values[::-1][: model.n_iter_], U[:, ::-1][:, : model.n_iter_]

    def psi(Y):
        return np.sqrt(15) * kernel.derivatives(squared_distances(Y, X), 0)[0] @ U / values

    b = -finite_gradient(psi, X).mean(axis=0)
    np.testing.assert_allclose(-model.score_function(rows), psi(rows) @ b, rtol=1e-6, atol=1e-7)
    spectrum = eigh(kernel.derivatives(squared_distances(X, X), 0)[0], eigvals_only=True)
    assert values.sum() >= 0.95 * spectrum.sum() > values[:-1].sum()


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
@pytest.mark.parametrize("method", ["nu", "tikhonov", "spectral"])
def test_field_is_the_gradient_of_its_potential(method, kernel):
    X, rows = table(40, 3), table(6, 3, seed=5)
    model = KernelScore(method=method, kernel=kernel, regularization=0.05).fit(X)
    np.testing.assert_allclose(
        finite_gradient(model.potential, rows), -model.score_function(rows), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
@pytest.mark.parametrize(
    ("method", "curl_free"), [("nu", True), ("nu", False), ("spectral", True), ("ssge", True)]
)
def test_divergence_and_second_moment_by_finite_differences(method, curl_free, kernel, monkeypatch):
    monkeypatch.setattr(fields, "_CHUNK", 100)  # several chunks of rows
    X, rows = table(30, 3), table(8, 3, seed=6)
    model = KernelScore(method=method, curl_free=curl_free, kernel=kernel, regularization=0.05).fit(X)
    g = -model.score_function(rows)
    J = -finite_gradient(model.score_function, rows)
    np.testing.assert_allclose(model.divergence(rows), np.trace(J, axis1=1, axis2=2), rtol=1e-6, atol=1e-6)
    if curl_free and method != "ssge":
        np.testing.assert_allclose(J, J.transpose(0, 2, 1), atol=1e-6)
    T = g[:, :, None] * g[:, None] + (J + J.transpose(0, 2, 1)) / 2
    weights = np.random.default_rng(0).standard_normal((8, 2))
    moment = model.second_moment(rows, weights)
    np.testing.assert_allclose(moment, np.einsum("ik,iab->kab", weights, T), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(moment, moment.transpose(0, 2, 1))
    np.testing.assert_allclose(model.second_moment(rows, weights[:, 1]), moment[1], atol=1e-12)
    loss = 0.5 * (g**2).sum(axis=1).mean() + np.trace(J, axis1=1, axis2=2).mean()
    assert model.score_matching_loss(rows) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(
        model.first_moment(rows, weights), model.score_function(rows).T @ weights, atol=1e-12
    )


@pytest.mark.parametrize("low_rank", [False, True])
@pytest.mark.parametrize("curl_free", [True, False])
@pytest.mark.parametrize("method", ["nu", "tikhonov", "landweber", "spectral", "stein"])
def test_rows_span_equals_the_plain_route(method, curl_free, low_rank, monkeypatch):
    X = table(40, 60)
    if low_rank:
        X = X[:, :5] @ np.random.default_rng(2).standard_normal((5, 60))
    lam = {"landweber": 0.01, "spectral": 0.1, "tikhonov": 0.01}.get(method, 1e-4)
    model = KernelScore(method=method, curl_free=curl_free, regularization=lam)
    inside = model.fit(X).score_function(X)
    monkeypatch.setattr(
        kernel_module, "System", lambda X, kernel, *, curl_free, route: System(X, kernel, curl_free=curl_free)
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


@pytest.mark.parametrize("method", ["nu", "tikhonov"])
def test_strong_regularisation_and_a_wide_kernel_point_away_from_the_mean(method):
    """s tends to a positive multiple of x - mean: the heavily smoothed score is PCA's."""
    X = table(200, 4)
    model = KernelScore(method=method, regularization=1.0, bandwidth=300.0).fit(X)
    s, d = model.score_function(X), X - X.mean(axis=0)
    c = (s * d).sum() / (d * d).sum()
    assert c > 0
    assert np.linalg.norm(s - c * d) < 1e-3 * np.linalg.norm(s)


@pytest.mark.parametrize(
    ("method", "curl_free", "band"),
    [
        ("nu", True, 0.2),
        ("nu", False, 0.15),
        ("tikhonov", False, 0.15),
        ("landweber", True, 0.2),
        ("spectral", False, 0.2),
        ("ssge", True, 0.25),
        ("stein", True, 0.15),
    ],
)
def test_gaussian_scores_are_found(method, curl_free, band):
    """Mean squared error on new rows; the scores themselves have mean square 1."""
    rng = np.random.default_rng(0)
    fresh = rng.standard_normal((1000, 2))
    errors = []
    for n in (100, 800):
        model = KernelScore(method=method, curl_free=curl_free, random_state=0)
        model.fit(rng.standard_normal((n, 2)))
        errors.append(np.mean((model.score_function(fresh) - fresh) ** 2))
    assert errors[1] < band
    assert errors[1] < errors[0]


def test_second_moment_follows_steins_identity():
    """E[y T(x)] is the mean Hessian of the link; y = x1 x2 has [[0, 1], [1, 0]]."""
    X = np.random.default_rng(3).standard_normal((800, 2))
    model = KernelScore(curl_free=False, method="tikhonov", random_state=0).fit(X)
    M = model.second_moment(X, X[:, 0] * X[:, 1]) / 800
    assert 0.6 < M[0, 1] < 1.4
    assert abs(M[0, 0]) < 0.3
    assert abs(M[1, 1]) < 0.3


@pytest.mark.parametrize(("method", "curl_free"), [("nu", True), ("tikhonov", False)])
def test_auto_beats_both_ends_of_the_grid_on_a_mixture(method, curl_free):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((700, 2)) + np.where(rng.random(700) < 0.5, 2.0, -2.0)[:, None]
    X, fresh = X[:350], X[350:]
    model = KernelScore(method=method, curl_free=curl_free, random_state=0).fit(X)
    assert model.regularization_ == model.grid_[np.argmin(model.losses_)]
    assert model.grid_[0] > model.regularization_ > model.grid_[-1]
    best = model.score_matching_loss(fresh)
    for end in (model.grid_[0], model.grid_[-1]):
        other = clone(model).set_params(regularization=float(end)).fit(X)
        assert not hasattr(other, "grid_")
        assert best < other.score_matching_loss(fresh)
    assert not hasattr(model.set_params(regularization=0.1).fit(X), "losses_")


def test_normalised_regularisation_is_free_of_scale():
    X = table(60, 3)
    s = KernelScore(regularization=0.02).fit(X).score_function(X)
    big = KernelScore(regularization=0.02).fit(100 * X).score_function(100 * X)
    np.testing.assert_allclose(100 * big, s, rtol=1e-8, atol=1e-10)


def test_parameters_set_after_fit_wait_for_the_next_fit():
    X = table(30, 2)
    model = KernelScore(regularization=0.1).fit(X)
    s = model.score_function(X)
    np.testing.assert_array_equal(model.set_params(kernel="rbf", curl_free=False).score_function(X), s)


def test_steps_follow_the_regularisation():
    X = table(30, 2)
    assert KernelScore(regularization=float(np.exp(-5))).fit(X).n_iter_ == 13
    assert KernelScore(regularization=1.0).fit(X).n_iter_ == 1
    assert KernelScore(method="landweber", regularization=0.01).fit(X).n_iter_ == 100


def test_many_steps_do_not_diverge():
    X = table(60, 80)
    model = KernelScore(regularization=1e-6).fit(X)
    assert model.n_iter_ == 1000
    close = KernelScore(method="tikhonov", regularization=1e-6).fit(X)
    assert np.abs(model.score_function(X)).max() < 10 * np.abs(close.score_function(X)).max()


def test_memory_stays_at_a_few_matrices():
    n, p = 600, 400
    X = table(n, p)
    for method in ("nu", "tikhonov"):
        model = KernelScore(method=method, regularization=0.05, bandwidth=30.0)
        tracemalloc.start()
        model.fit(X)
        model.score_function(X)
        peak = tracemalloc.get_traced_memory()[1]
        model.second_moment(X, X[:, 0])
        moment_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * (6 * n * n + 10 * n * p)
        assert moment_peak < 8 * (9 * n * n + 10 * n * p + 4 * p * p)


def test_max_samples_takes_a_random_sample():
    X = table(300, 2)
    model = KernelScore(max_samples=50, regularization=0.05, random_state=0).fit(X)
    assert model.centres_.shape == (50, 2)
    assert {tuple(row) for row in model.centres_} <= {tuple(row) for row in X}
    assert KernelScore(max_samples=500, regularization=0.05).fit(X).centres_.shape == (300, 2)
    np.testing.assert_array_equal(clone(model).fit(X).coef_, model.coef_)


def test_too_many_rows_name_the_memory_and_the_remedy(monkeypatch):
    with pytest.raises(ValueError, match=r"25000 rows.*20 GB.*max_samples"):
        KernelScore().fit(np.zeros((25000, 1)))
    monkeypatch.setattr(kernel_module, "_MAX_ROWS", 10)
    with pytest.raises(ValueError, match="max_samples"):
        KernelScore().fit(table(11, 2))


def test_inert_regularisation_warns():
    X = table(50, 20)
    top = KernelScore(regularization=0.1).fit(X).lambda_max_
    with pytest.warns(UserWarning, match=r"times the kernel's largest eigenvalue .* normalize=True"):
        KernelScore(normalize=False, regularization=20 * top).fit(X)
    with pytest.warns(UserWarning, match="a value below 1"):
        KernelScore(method="tikhonov", regularization=30.0).fit(X)


def test_impossible_requests_are_refused():
    X = table(20, 2)
    with pytest.raises(ValueError, match="needs normalize=True"):
        KernelScore(normalize=False).fit(X)
    with pytest.raises(ValueError, match="diverges on the raw kernel"):
        KernelScore(normalize=False, regularization=0.1, bandwidth=0.01).fit(X / 1000)
    with pytest.raises(ValueError, match="share of the kernel's trace"):
        KernelScore(method="ssge", regularization=1.5).fit(X)
    with pytest.raises(ValueError, match="above the largest eigenvalue"):
        KernelScore(method="spectral", curl_free=False, regularization=3.0).fit(X)
    with pytest.raises(ValueError, match="all rows are equal"):
        KernelScore(regularization=0.1).fit(np.ones((5, 3)))
    with pytest.raises(ValueError, match="curl_free=True"):
        KernelScore(curl_free=False, regularization=0.1).fit(X).potential(X)
    with pytest.raises(ValueError, match=r"weights has shape \(3,\)"):
        KernelScore(regularization=0.1).fit(X).second_moment(X, np.ones(3))
    with pytest.raises(ValueError, match="'method' parameter"):
        KernelScore(method="other").fit(X)
    with pytest.raises(NotFittedError):
        KernelScore().score_function(X)


def test_conjugate_gradients_say_when_they_stop_early():
    X = table(30, 3)
    system = System(X, Radial("imq", 2.0), curl_free=True)
    system.normalize()
    with pytest.warns(ConvergenceWarning, match="relative residual"):
        next(solvers._tikhonov_cg(system, [1e-8], 1e-12, max_steps=3))


def test_few_rows_and_repeated_rows():
    for n in (2, 3, 5):
        model = KernelScore(random_state=0).fit(table(n, 2))
        assert np.isfinite(model.score_function(table(4, 2))).all()
    X = np.repeat(table(6, 2), 20, axis=0)  # most distances are zero
    assert np.isfinite(KernelScore(random_state=0).fit(X).score_function(X)).all()


def test_two_rows_leave_nothing_to_judge_on():
    model = KernelScore(random_state=0).fit(table(2, 2))
    assert np.isinf(model.losses_).all()
    assert model.regularization_ == model.grid_[0]


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


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_extreme_units_are_borne_or_refused(kernel):
    X = table(40, 2)
    model = KernelScore(kernel=kernel, regularization=0.05)
    T = clone(model).fit(X).second_moment(X, np.ones(40))
    for unit in (1e-29, 1e29):
        again = clone(model).fit(unit * X).second_moment(unit * X, np.ones(40))
        np.testing.assert_allclose(unit**2 * again, T, rtol=1e-8, atol=1e-8)
    for unit in (1e-40, 1e40):
        with pytest.raises(ValueError, match=r"bandwidth of .*e.40.*Remedy: rescale"):
            clone(model).fit(unit * X)


def test_weights_and_responses_are_checked():
    X = table(20, 2)
    model = KernelScore(regularization=0.1).fit(X)
    with pytest.raises(ValueError, match=r"Y has shape \(3,\).*20 rows"):
        model.first_moment(X, np.ones(3))
    with pytest.raises(ValueError, match="Y contains NaN"):
        model.first_moment(X, np.full(20, np.nan))
    with pytest.raises(ValueError, match="weights contains NaN"):
        model.second_moment(X, np.full(20, np.nan))


@pytest.mark.parametrize("method", METHODS)
def test_scikit_learn_checks(method):
    results = check_estimator(KernelScore(method=method), on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
