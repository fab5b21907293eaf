"""Gaussian, Student and hyperbolic scores against finite differences, quadrature and direct maximisation."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, optimize, stats
from scipy.special import kv
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from colspace.scores import (
    GaussianScore,
    HyperbolicScore,
    StudentScore,
    choose_score,
    gaussian_from_moments,
)
from colspace.scores._hyperbolic import HyperbolicShape, scaled_bessel
from colspace.scores._student import StudentShape

LAWS = ["gaussian", "student", "hyperbolic"]
MODELS = [GaussianScore, StudentScore, HyperbolicScore]
DF, CHI, PSI = 9.0, 1.7, 2.9


def parameters(p, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((p, p)) + 2 * np.eye(p)
    return rng.standard_normal(p), A


def known(law, p):
    """A law with every parameter given; fit has nothing to learn."""
    mu, A = parameters(p)
    C = A @ A.T
    model = {
        "gaussian": lambda: GaussianScore(location=mu, covariance=C),
        "student": lambda: StudentScore(df=DF, location=mu, covariance=C),
        "hyperbolic": lambda: HyperbolicScore(chi=CHI, psi=PSI, location=mu, dispersion=C),
    }[law]()
    return model.fit(np.random.default_rng(1).standard_normal((2, p)))


def mixing(law, n, rng, p, df=DF, chi=CHI, psi=PSI):
    """w of x = mu + sqrt(w) A z; A A' is the covariance (Gaussian, t) or the dispersion (hyperbolic)."""
    if law == "gaussian":
        return np.ones(n)
    if law == "student":
        return (df - 2) / rng.chisquare(df, n)
    law = stats.geninvgauss((p + 1) / 2, np.sqrt(chi * psi), scale=np.sqrt(chi / psi))
    return law.rvs(n, random_state=rng)


def draw(law, n, p, rng, mu=None, A=None, **shape):
    if mu is None:
        mu, A = parameters(p)
    w = mixing(law, n, rng, p, **shape)
    return mu + np.sqrt(w)[:, None] * (rng.standard_normal((n, p)) @ A.T)


def per_row_T(model, X):
    return np.stack([model.second_moment(x[None], np.ones(1)) for x in X])


def z_scores(terms):
    """Means of terms over rows in units of their standard errors."""
    return terms.mean(axis=0) / (terms.std(axis=0) / np.sqrt(len(terms)))


# --- scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("p", [1, 3])
def test_scores_are_derivatives_of_the_log_density(law, p):
    model = known(law, p)
    X = draw(law, 6, p, np.random.default_rng(2))
    h = 1e-5
    gradient = np.stack(
        [(model.log_density(X + h * e) - model.log_density(X - h * e)) / (2 * h) for e in np.eye(p)], axis=1
    )
    s = model.score_function(X)
    np.testing.assert_allclose(s, -gradient, atol=1e-8)
    jacobian = np.stack(
        [(model.score_function(X + h * e) - model.score_function(X - h * e)) / (2 * h) for e in np.eye(p)],
        axis=2,
    )
    np.testing.assert_allclose(per_row_T(model, X), s[:, :, None] * s[:, None, :] - jacobian, atol=1e-8)


@pytest.mark.parametrize("law", LAWS)
def test_second_moment_is_the_sum_of_row_terms(law):
    model = known(law, 4)
    rng = np.random.default_rng(3)
    X = draw(law, 50, 4, rng)
    weights = rng.standard_normal((50, 3))
    T = per_row_T(model, X)
    brute = np.einsum("ik,iab->kab", weights, T)
    np.testing.assert_allclose(model.second_moment(X, weights), brute, rtol=1e-10, atol=1e-10)
    one = model.second_moment(X, weights[:, 0])
    assert one.shape == (4, 4)
    np.testing.assert_allclose(one, brute[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(one, one.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_first_moment_is_the_sum_of_row_terms(law):
    model = known(law, 4)
    rng = np.random.default_rng(3)
    X, Y = draw(law, 50, 4, rng), rng.standard_normal((50, 2))
    s = model.score_function(X)
    np.testing.assert_allclose(model.first_moment(X, Y), s.T @ Y, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(model.first_moment(X, Y[:, 0]), s.T @ Y[:, 0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("law", LAWS)
def test_steins_identities_hold_on_average(law):
    """E[s d'] = I, E[s] = 0, E[T] = 0 and E[T dd'] = 2 sym, each within 5 standard errors."""
    p, n = 3, 60_000
    model = known(law, p)
    X = draw(law, n, p, np.random.default_rng(4))
    d = X - model.location_
    s = model.score_function(X)
    first = s[:, :, None] * d[:, None, :]
    assert np.abs(z_scores(first - np.eye(p))).max() < 5
    assert np.abs(z_scores(s)).max() < 5
    Q = np.einsum("ij,jk,ik->i", d, model.precision_, d)
    a, b = model._factors(Q)
    Pd = d @ model.precision_
    T = b[:, None, None] * Pd[:, :, None] * Pd[:, None, :] - a[:, None, None] * model.precision_
    np.testing.assert_allclose(T.sum(axis=0), model.second_moment(X, np.ones(n)), atol=1e-6)
    assert np.abs(z_scores(T)).max() < 5
    # the second identity with f(x) = (x_0)^2: E[f T] = E[f''] = 2 e_0 e_0'
    target = np.zeros((p, p))
    target[0, 0] = 2.0
    assert np.abs(z_scores(d[:, 0, None, None] ** 2 * T - target)).max() < 5


# --- densities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_densities_integrate_to_one(law):
    one = known(law, 1)
    mu, sd = one.location_[0], 1 / np.sqrt(one.precision_[0, 0])
    total = integrate.quad(lambda x: np.exp(one.log_density([[mu + sd * x]])[0]) * sd, -np.inf, np.inf)[0]
    assert total == pytest.approx(1, abs=1e-7)
    two = known(law, 2)
    root = np.linalg.cholesky(np.linalg.inv(two.precision_))

    def ring(r):
        return 2 * np.pi * r * np.exp(two.log_density([two.location_ + root @ [r, 0]])[0])

    total = integrate.quad(ring, 0, np.inf)[0] * np.linalg.det(root)
    assert total == pytest.approx(1, abs=1e-7)


def test_log_densities_agree_with_scipy():
    p = 4
    mu, A = parameters(p)
    X = np.random.default_rng(0).standard_normal((8, p)) * 3
    gaussian = stats.multivariate_normal(mu, A @ A.T).logpdf(X)
    np.testing.assert_allclose(known("gaussian", p).log_density(X), gaussian, rtol=1e-10)
    student = stats.multivariate_t(mu, A @ A.T * (DF - 2) / DF, DF).logpdf(X)
    np.testing.assert_allclose(known("student", p).log_density(X), student, rtol=1e-10)
    w_law = stats.geninvgauss((p + 1) / 2, np.sqrt(CHI * PSI), scale=np.sqrt(CHI / PSI))
    mixture = [
        integrate.quad(
            lambda w, x=x: w_law.pdf(w) * np.exp(stats.multivariate_normal.logpdf(x, mu, w * A @ A.T)),
            *(0, 60),
            epsabs=0,
        )[0]
        for x in X
    ]
    np.testing.assert_allclose(known("hyperbolic", p).log_density(X), np.log(mixture), rtol=1e-6)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 5.0, 10.5])
@pytest.mark.parametrize("x", [0.03, 1.0, 40.0])
def test_bessel_functions_agree_with_scipy(order, x):
    log, ratio = scaled_bessel(order, x)
    assert log == pytest.approx(np.log(kv(order, x)) + x, rel=1e-12, abs=1e-12)
    assert ratio == pytest.approx(kv(order + 1, x) / kv(order, x), rel=1e-12)


@pytest.mark.parametrize(
    ("make", "coordinates"),
    [
        (
            lambda u: StudentShape(5, np.exp(u[0]) + 2, np.exp(u[0] + u[1]), free_df=True, free_scale=True),
            (1.3, 0.2),
        ),
        (lambda u: HyperbolicShape(5, np.exp(u[0]), np.exp(u[1])), (0.4, -0.3)),
    ],
)
def test_slopes_of_the_likelihood_in_the_shape(make, coordinates):
    Q = np.random.default_rng(0).chisquare(5, 40)
    u, h = np.array(coordinates), 1e-6
    numeric = [
        (make(u + h * e).log_radial(Q).mean() - make(u - h * e).log_radial(Q).mean()) / (2 * h)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(make(u).slope(Q), numeric, atol=1e-8)


@pytest.mark.parametrize(
    "shape", [StudentShape(5, 4.0, 3.0, free_df=False, free_scale=False), HyperbolicShape(5, CHI, PSI)]
)
def test_e_step_weights_are_slopes_in_the_squared_distance(shape):
    Q, h = np.array([0.1, 1.0, 20.0]), 1e-5
    numeric = -(shape.log_radial(Q + h) - shape.log_radial(Q - h)) / h
    np.testing.assert_allclose(shape.weights(Q), numeric, rtol=1e-7)


def test_hyperbolic_mixing_mean_is_scipys():
    w_law = stats.geninvgauss(3.0, np.sqrt(CHI * PSI), scale=np.sqrt(CHI / PSI))
    assert HyperbolicShape(5, CHI, PSI).mean == pytest.approx(w_law.mean(), rel=1e-6)


def test_many_columns_do_not_overflow():
    p, n = 200, 450
    rng = np.random.default_rng(0)
    X = draw("hyperbolic", n, p, rng, np.zeros(p), np.eye(p), chi=2 * p + 1, psi=p)
    for chi, psi in ((1e-4, 1e-3), (2 * p + 1, p), (1e4, 1e4)):
        model = HyperbolicScore(chi=chi, psi=psi, location=np.zeros(p), dispersion=np.eye(p)).fit(X)
        assert np.isfinite(model.log_density(X)).all()
        assert np.isfinite(model.score_function(X)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [HyperbolicScore().fit(X), StudentScore().fit(X)]
    for fit in fits:
        assert np.isfinite(fit.log_density(X)).all()
        assert np.isfinite(fit.second_moment(X, np.ones(n))).all()
        assert fit.converged_


# --- maximum likelihood ------------------------------------------------------------------------------


def unpack(theta, p):
    L = np.zeros((p, p))
    L[np.tril_indices(p)] = theta[p : p + p * (p + 1) // 2]
    L[np.diag_indices(p)] = np.exp(np.diag(L))
    return theta[:p], L, theta[p + p * (p + 1) // 2 :]


def direct_maximum(X, log_density, extra):
    """Largest mean log-likelihood that a general optimiser finds from a few starts."""
    p = X.shape[1]
    best = -np.inf
    for first in extra:
        start = np.concatenate([X.mean(axis=0), np.zeros(p * (p + 1) // 2), first])
        found = optimize.minimize(lambda t: -log_density(X, *unpack(t, p)).mean(), start, method="BFGS")
        best = max(best, -found.fun)
    return best


def student_density(X, mu, L, rest):
    return stats.multivariate_t.logpdf(X, mu, L @ L.T, np.exp(rest[0]))


def hyperbolic_density(X, mu, L, rest):
    """chi = psi = omega: the dispersion carries the scale."""
    p, omega = X.shape[1], np.exp(rest[0])
    Q = np.sum(np.linalg.solve(L, (X - mu).T) ** 2, axis=0)
    constant = -0.5 * p * np.log(2 * np.pi) + 0.5 * np.log(np.pi / 2) - 0.5 * np.log(omega)
    return constant - np.log(kv((p + 1) / 2, omega)) - np.log(np.diag(L)).sum() - np.sqrt(omega * (omega + Q))


def test_student_fit_is_the_maximum_of_the_likelihood():
    X = draw("student", 400, 2, np.random.default_rng(0), df=4)
    model = StudentScore().fit(X)
    assert model.log_density(X).mean() >= direct_maximum(X, student_density, [[1.0], [2.0]]) - 1e-7
    fixed = StudentScore(df=6.0).fit(X)
    direct = direct_maximum(X, lambda X, mu, L, rest: student_density(X, mu, L, [np.log(6)]), [[]])
    assert abs(fixed.log_density(X).mean() - direct) < 1e-7
    assert fixed.df_ == 6.0


def test_hyperbolic_fit_is_the_maximum_of_the_likelihood():
    X = draw("hyperbolic", 400, 2, np.random.default_rng(0))
    model = HyperbolicScore().fit(X)
    assert model.log_density(X).mean() >= direct_maximum(X, hyperbolic_density, [[0.0], [2.0]]) - 1e-7
    fixed = HyperbolicScore(chi=2.0, psi=4.5).fit(X)
    direct = direct_maximum(X, lambda X, mu, L, rest: hyperbolic_density(X, mu, L, [np.log(3)]), [[]])
    assert abs(fixed.log_density(X).mean() - direct) < 1e-7
    assert (fixed.chi_, fixed.psi_) == pytest.approx((2.0, 4.5))


def test_degrees_of_freedom_are_found():
    p = 30
    X = draw("student", 9000, p, np.random.default_rng(0), df=10)
    model = StudentScore().fit(X)
    assert model.df_ == pytest.approx(10, rel=0.1)
    mu, A = parameters(p)
    np.testing.assert_allclose(model.location_, mu, atol=5 * np.sqrt(np.max(np.sum(A**2, 1)) / 9000))
    scale = np.sqrt(np.sum(A**2, axis=1))
    assert np.abs((model.covariance_ - A @ A.T) / np.outer(scale, scale)).max() < 5 * np.sqrt(3 / 9000)
    np.testing.assert_allclose(model.scatter_, (1 - 2 / model.df_) * model.covariance_)
    np.testing.assert_allclose(model.precision_ @ model.covariance_, np.eye(p), atol=1e-8)


@pytest.mark.parametrize("E", [StudentScore, HyperbolicScore])
@pytest.mark.parametrize("contaminated", [False, True])
def test_em_never_loses_likelihood(E, contaminated):
    rng = np.random.default_rng(5)
    X = draw("student", 300, 4, rng, df=5)
    if contaminated:
        X[:30] += rng.standard_normal((30, 4)) * [200, 1, 0, 50] + 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = E(tol=1e-13).fit(X)
        rough = E(tol=1e-8).fit(X)
    path = model.log_likelihoods_
    assert len(path) == model.n_iter_ + 1
    assert model.n_iter_ > 2
    assert np.diff(path).min() > -1e-11
    assert path[-1] == pytest.approx(model.log_density(X).mean(), abs=1e-9)
    assert rough.log_likelihoods_[-1] == pytest.approx(path[-1], abs=1e-6)


def test_choice_of_scale_does_not_matter_to_hyperbolic_scores():
    X = draw("hyperbolic", 500, 3, np.random.default_rng(6))
    weights = np.random.default_rng(7).standard_normal(500)
    auto, chi, psi = (HyperbolicScore(**k).fit(X) for k in ({}, {"chi": 3.0}, {"psi": 0.5}))
    assert chi.chi_ == pytest.approx(3.0)
    assert psi.psi_ == pytest.approx(0.5)
    np.testing.assert_allclose(auto.dispersion_, auto.covariance_)
    assert abs(chi.dispersion_[0, 0] / auto.dispersion_[0, 0] - 1) > 0.1
    for other in (chi, psi):
        np.testing.assert_allclose(other.covariance_, auto.covariance_, rtol=1e-9)
        np.testing.assert_allclose(other.log_density(X), auto.log_density(X), rtol=1e-9)
        np.testing.assert_allclose(other.score_function(X), auto.score_function(X), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            other.second_moment(X, weights), auto.second_moment(X, weights), rtol=1e-8, atol=1e-9
        )


def test_hyperbolic_covariance_is_the_samples():
    p = 3
    X = draw("hyperbolic", 20_000, p, np.random.default_rng(6))
    model = HyperbolicScore().fit(X)
    np.testing.assert_allclose(model.covariance_, np.cov(X.T), rtol=0.05, atol=0.2)
    np.testing.assert_allclose(np.sqrt(model.chi_ * model.psi_), np.sqrt(CHI * PSI), rtol=0.25)


@pytest.mark.parametrize("E", MODELS)
def test_units_do_not_matter(E):
    X = draw("student", 600, 3, np.random.default_rng(8), df=5)
    M, shift = np.diag([1e6, 1.0, 1e-6]) @ parameters(3, 9)[1], np.array([1e6, 0.0, 1e-6])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, moved = E().fit(X), E().fit(X @ M.T + shift)
    jacobian = np.log(abs(np.linalg.det(M)))
    np.testing.assert_allclose(moved.log_density(X @ M.T + shift), plain.log_density(X) - jacobian, atol=1e-4)
    np.testing.assert_allclose(
        moved.score_function(X @ M.T + shift) @ M, plain.score_function(X), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("known_location", [False, True])
def test_given_parameters_stay_and_the_rest_is_estimated(known_location):
    mu, A = parameters(4)
    given = {"location": mu} if known_location else {}
    X = draw("student", 4000, 4, np.random.default_rng(10), df=6)
    student = StudentScore(covariance=A @ A.T, **given).fit(X)
    np.testing.assert_allclose(student.covariance_, A @ A.T)
    assert 5 < student.df_ < 7.2
    scale = np.sqrt(np.sum(A**2, axis=1))
    assert np.abs((student.location_ - mu) / scale).max() < 5 / np.sqrt(4000)
    assert np.array_equal(student.location_, mu) == known_location
    truth = StudentScore(df=6.0, location=mu, covariance=A @ A.T).fit(X)
    assert student.log_density(X).mean() >= truth.log_density(X).mean() - 1e-12
    X = draw("hyperbolic", 4000, 4, np.random.default_rng(10))
    best = -np.inf
    for fixed in ({"chi": CHI, "psi": PSI}, {"chi": CHI}, {"psi": PSI}, {}):
        model = HyperbolicScore(dispersion=A @ A.T, **fixed, **given).fit(X)
        np.testing.assert_allclose(model.dispersion_, A @ A.T)
        assert {k: getattr(model, k + "_") for k in fixed} == pytest.approx(fixed)
        if len(fixed) != 1:  # two free parameters beat none
            assert model.log_likelihoods_[-1] >= best - 1e-12
            best = model.log_likelihoods_[-1]
    assert model.chi_ == pytest.approx(CHI, rel=0.5)
    assert model.psi_ == pytest.approx(PSI, rel=0.3)
    location_only = StudentScore(location=mu).fit(X)
    np.testing.assert_array_equal(location_only.location_, mu)


def test_bounds_and_slow_fits_are_reported():
    rng = np.random.default_rng(11)
    uniform = rng.uniform(size=(500, 4))
    with pytest.warns(UserWarning, match=r"df_=200 .*look Gaussian"):
        assert StudentScore().fit(uniform).df_ == pytest.approx(200)
    with pytest.warns(UserWarning, match="look Gaussian"):
        HyperbolicScore().fit(uniform)
    cauchy = rng.standard_normal((500, 4)) / np.sqrt(rng.chisquare(1, (500, 1)))
    with pytest.warns(UserWarning, match="covariance may not exist.*Remedies"):
        assert StudentScore().fit(cauchy).df_ == pytest.approx(2.05)
    with pytest.warns(UserWarning, match="StudentScore"):
        HyperbolicScore().fit(cauchy)
    X = draw("student", 200, 4, rng, df=4)
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-12.*max_iter") as caught:
        model = StudentScore(tol=1e-12, max_iter=1).fit(X)
    assert caught[0].filename == __file__
    assert (model.n_iter_, model.converged_) == (1, False)


# --- Gaussian ----------------------------------------------------------------------------------------


def test_gaussian_ridge_and_moments():
    X = draw("gaussian", 60, 5, np.random.default_rng(12))
    C = np.cov(X.T, bias=True)
    model = GaussianScore(ridge=0.7).fit(X)
    np.testing.assert_allclose(model.covariance_, C)
    assert model.ridge_ == pytest.approx(0.7 * np.trace(C) / 5)
    ridged = C + model.ridge_ * np.eye(5)
    np.testing.assert_allclose(model.precision_, np.linalg.inv(ridged))
    np.testing.assert_allclose(
        model.log_density(X), stats.multivariate_normal(X.mean(axis=0), ridged).logpdf(X)
    )
    again = gaussian_from_moments(X.mean(axis=0), C, 0.7, False, 60)
    np.testing.assert_allclose(again.score_function(X), model.score_function(X), rtol=1e-9, atol=1e-12)
    assert again.ridge_ == pytest.approx(model.ridge_)
    # the plug-in score meets both identities on its own rows
    plain = GaussianScore().fit(X)
    np.testing.assert_allclose(plain.first_moment(X, X) / 60, np.eye(5), atol=1e-10)
    np.testing.assert_allclose(plain.second_moment(X, np.ones(60)) / 60, 0, atol=1e-10)


def test_gaussian_pseudo_inverse():
    rng = np.random.default_rng(13)
    wide = rng.standard_normal((12, 30)) + 5
    model = GaussianScore(pseudo_inverse=True).fit(wide)
    C = np.cov(wide.T, bias=True)
    assert model.rank_ == 11
    np.testing.assert_allclose(model.precision_, np.linalg.pinv(C, rcond=1e-10, hermitian=True), atol=1e-9)
    np.testing.assert_allclose(model.log_density(wide), _singular_gaussian(wide, C), rtol=1e-8)
    w = rng.standard_normal(12)
    brute = np.einsum("i,iab->ab", w, per_row_T(model, wide))
    np.testing.assert_allclose(model.second_moment(wide, w), brute, atol=1e-9)
    full = GaussianScore(pseudo_inverse=True).fit(rng.standard_normal((50, 3)))
    assert full.rank_ == 3
    np.testing.assert_allclose(full.precision_ @ full.covariance_, np.eye(3), atol=1e-10)
    assert gaussian_from_moments(wide.mean(axis=0), C, pseudo_inverse=True, count=12).rank_ == 11


def _singular_gaussian(X, C):
    return stats.multivariate_normal(X.mean(axis=0), C, allow_singular=True).logpdf(X)


# --- choice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_right_law_is_chosen(law, seed):
    X = draw(law, 2000, 10, np.random.default_rng(seed), df=6, chi=1.0, psi=1.0)
    model, table = choose_score(X, rng=seed)
    assert type(model) is dict(zip(LAWS, MODELS, strict=True))[law]
    assert list(table) == LAWS
    again, same = choose_score(X, rng=seed)
    assert same == table
    np.testing.assert_array_equal(again.location_, model.location_)
    np.testing.assert_array_equal(model.location_, clone(model).fit(X).location_)


def test_choice_among_models_and_failures():
    X = np.random.default_rng(0).standard_normal((30, 25))
    model, table = choose_score(X, ("student", GaussianScore(ridge=1.0)), rng=0)
    assert isinstance(model, GaussianScore)
    assert table["student"] == -np.inf
    with pytest.raises(ValueError, match=r"no candidate .*parts of the rows.*n_samples=24"):
        choose_score(X, rng=0)
    with pytest.raises(ValueError, match="none of"):
        choose_score(X, ("laplace",))
    with pytest.raises(ValueError, match="list of names"):
        choose_score(X, "gaussian")
    with pytest.raises(ValueError, match="list of names"):
        choose_score(X, ())
    with pytest.raises(TypeError, match="neither a name"):
        choose_score(X, (3,))


def test_choice_keeps_column_names():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 2)), columns=["a", "b"])
    assert list(choose_score(X, rng=0)[0].feature_names_in_) == ["a", "b"]


# --- contract and bad input --------------------------------------------------------------------------


@pytest.mark.parametrize("E", MODELS)
def test_scikit_learn_checks(E):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(E(), on_fail=None)
    assert len(results) > 30
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


@pytest.mark.parametrize("E", MODELS)
def test_bad_input(E):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    with pytest.raises(ValueError, match=r"n_samples=3.*Remedies.*ridge"):
        E().fit(X[:3])
    with pytest.raises(ValueError, match=r"1 constant column.*\[1\].*Remedies"):
        E().fit(X * [1, 0, 1] + 0.1)
    with pytest.raises(ValueError, match=r"rank 2 of 3.*Remedies"):
        E().fit(np.column_stack([X[:, :2], X[:, 0] + X[:, 1]]))
    with pytest.raises(ValueError, match="NaN"):
        E().fit(np.where(X > 2, np.nan, X))
    with pytest.raises(NotFittedError):
        E().log_density(X)
    matrix = "dispersion" if E is HyperbolicScore else "covariance"
    with pytest.raises(ValueError, match=r"location has shape \(2,\)"):
        E(location=np.zeros(2)).fit(X)
    with pytest.raises(ValueError, match=rf"{matrix} has shape \(2, 2\)"):
        E(**{matrix: np.eye(2)}).fit(X)
    with pytest.raises(ValueError, match="not symmetric"):
        E(**{matrix: np.triu(np.ones((3, 3)))}).fit(X)
    with pytest.raises(ValueError, match="negative eigenvalue"):
        E(**{matrix: np.diag([1.0, 1.0, -1.0])}).fit(X)
    with pytest.raises(ValueError, match="location contains NaN"):
        E(location=[0, np.nan, 0]).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = E().fit(X.astype(np.float32))
    with pytest.raises(ValueError, match=r"weights has shape \(59,\).*60 rows"):
        model.second_moment(X, np.ones(59))
    with pytest.raises(ValueError, match=r"Y has shape \(59, 2\)"):
        model.first_moment(X, np.ones((59, 2)))
    with pytest.raises(ValueError, match="features"):
        model.score_function(X[:, :2])
    assert model.score_function(X.astype(np.float32)).dtype == np.float64
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.log_density(X), model.log_density(X))
    for name, rule in E._parameter_constraints.items():
        assert rule
        with pytest.raises((ValueError, TypeError), match=name):
            E(**{name: type("Nonsense", (), {})()}).fit(X)


@pytest.mark.parametrize(
    "model",
    [
        StudentScore(df=2.0),
        StudentScore(df="many"),
        HyperbolicScore(chi=0.0),
        HyperbolicScore(psi=-1.0),
        GaussianScore(ridge=-1.0),
        StudentScore(max_iter=0),
        HyperbolicScore(tol=-1.0),
    ],
)
def test_bad_parameters(model):
    with pytest.raises(ValueError, match="parameter of"):
        model.fit(np.random.default_rng(0).standard_normal((20, 2)))


@pytest.mark.parametrize("E", MODELS)
def test_a_known_location_saves_a_row(E):
    X = np.random.default_rng(0).standard_normal((4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(E(location=np.zeros(4)).fit(X).log_density(X)).all()
    with pytest.raises(ValueError, match="n_samples=4"):
        E().fit(X)


def test_one_wild_row_does_not_spoil_the_others():
    X = np.random.default_rng(0).standard_normal((300, 4))
    X[0, 0] = 1e8
    model = StudentScore(df=4.0).fit(X)
    assert np.abs(model.location_).max() < 0.4
    assert model.scatter_.max() < 1.5
    assert model.log_likelihoods_[-1] == pytest.approx(model.log_density(X).mean(), abs=1e-8)


def test_more_bad_input():
    with pytest.raises(ValueError, match="no variation"):
        GaussianScore(ridge=1.0).fit(np.full((5, 2), 0.1))
    with pytest.raises(ValueError, match=r"n_samples=3.*pseudo_inverse=True"):
        gaussian_from_moments(np.zeros(3), np.eye(3), count=3)
    with pytest.raises(ValueError, match="one number per column"):
        gaussian_from_moments(np.zeros((3, 1)), np.eye(3))
    with pytest.raises(ValueError, match="both needed"):
        gaussian_from_moments(np.zeros(3), None)
    with pytest.raises(ValueError, match="ridge"):
        gaussian_from_moments(np.zeros(3), np.eye(3), ridge=-1.0)
    # most rows share one value of a column: no maximum of the likelihood
    X = np.random.default_rng(0).standard_normal((300, 2))
    X[:290, 0] = 1.0
    with pytest.raises(ValueError, match=r"collapsed.*Remedies"):
        StudentScore(df=2.5).fit(X)
