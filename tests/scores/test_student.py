import numpy as np
import pytest
from scipy import stats
from score_laws import direct_maximum, draw, parameters

from colspace.scores import StudentScore


def student_density(X, mu, L, rest):
    return stats.multivariate_t.logpdf(X, mu, L @ L.T, np.exp(rest[0]))


def test_student_fit_is_the_maximum_of_the_likelihood():
    X = draw("student", 400, 2, np.random.default_rng(0), df=4)
    model = StudentScore().fit(X)
    assert model.log_density(X).mean() >= direct_maximum(X, student_density, [[1.0], [2.0]]) - 1e-7
    fixed = StudentScore(df=6.0).fit(X)
    direct = direct_maximum(X, lambda X, mu, L, rest: student_density(X, mu, L, [np.log(6)]), [[]])
    assert abs(fixed.log_density(X).mean() - direct) < 1e-7
    assert fixed.df_ == 6.0


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


def test_one_wild_row_does_not_spoil_the_others():
    X = np.random.default_rng(0).standard_normal((300, 4))
    X[0, 0] = 1e8
    model = StudentScore(df=4.0).fit(X)
    assert np.abs(model.location_).max() < 0.4
    assert model.scatter_.max() < 1.5
    assert model.log_likelihoods_[-1] == pytest.approx(model.log_density(X).mean(), abs=1e-8)
