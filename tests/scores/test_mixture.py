"""EM for variance mixtures."""

import warnings

import numpy as np
import pytest
from score_laws import CHI, PSI, draw, parameters
from sklearn.exceptions import ConvergenceWarning

from colspace.scores import HyperbolicScore, StudentScore
from colspace.scores._hyperbolic import HyperbolicShape
from colspace.scores._student import StudentShape


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


def test_a_likelihood_without_maximum_is_refused():
    """Most rows share one value of a column."""
    X = np.random.default_rng(0).standard_normal((300, 2))
    X[:290, 0] = 1.0
    with pytest.raises(ValueError, match=r"collapsed.*Remedies"):
        StudentScore(df=2.5).fit(X)


def test_a_given_matrix_that_is_singular_is_named():
    X = np.random.default_rng(0).standard_normal((30, 3))
    singular = np.diag([1.0, 1.0, 0.0])
    for model in (StudentScore(covariance=singular), HyperbolicScore(dispersion=singular)):
        with pytest.raises(ValueError, match=r"given matrix is singular: rank 2 of 3.*None to estimate"):
            model.fit(X)


def test_a_given_number_stays_to_the_last_digit():
    X = draw("student", 100, 3, np.random.default_rng(0))
    for df in (9.3, 2.7, 1234.1):
        assert StudentScore(df=df).fit(X).df_ == df
