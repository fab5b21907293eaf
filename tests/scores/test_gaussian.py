import numpy as np
import pytest
from scipy import stats
from score_laws import draw, per_row_T

from colspace.scores import (
    GaussianScore,
    SingularCovarianceWarning,
    gaussian_from_moments,
    singular_ridge,
)


def test_gaussian_ridge_and_moments():
    X = draw("gaussian", 60, 5, np.random.default_rng(12))
    C = np.cov(X.T, bias=True)
    model = GaussianScore(ridge=0.7).fit(X)
    np.testing.assert_allclose(model.covariance_, C)
    assert model.ridge_ == 0.7
    ridged = C + 0.7 * np.diag(np.diag(C))
    np.testing.assert_allclose(model.precision_, np.linalg.inv(ridged))
    np.testing.assert_allclose(
        model.log_density(X), stats.multivariate_normal(X.mean(axis=0), ridged).logpdf(X)
    )
    again = gaussian_from_moments(X.mean(axis=0), C, 0.7, False, 60)
    np.testing.assert_allclose(again.score_function(X), model.score_function(X), rtol=1e-9, atol=1e-12)
    assert again.ridge_ == pytest.approx(model.ridge_)
    infinite = GaussianScore(ridge=np.inf).fit(X)
    np.testing.assert_allclose(infinite.precision_, np.diag(1 / np.diag(C)))
    assert infinite.ridge_ == np.inf
    np.testing.assert_allclose(
        gaussian_from_moments(X.mean(axis=0), C, np.inf).precision_, infinite.precision_
    )
    # the plug-in score meets both identities on its own rows
    plain = GaussianScore().fit(X)
    np.testing.assert_allclose(plain.first_moment(X, X) / 60, np.eye(5), atol=1e-10)
    np.testing.assert_allclose(plain.second_moment(X, np.ones(60)) / 60, 0, atol=1e-10)


def test_gaussian_pseudo_inverse():
    """D^-1 R^+ D^-1: standardised columns are inverted, whatever their units."""
    rng = np.random.default_rng(13)
    unit = 10.0 ** rng.uniform(-8, 8, 30)
    wide = (rng.standard_normal((12, 30)) + 5) * unit
    model = GaussianScore(pseudo_inverse=True).fit(wide)
    C, D = np.cov(wide.T, bias=True), wide.std(axis=0)
    assert model.rank_ == 11
    inverse = np.linalg.pinv(C / np.outer(D, D), rcond=1e-10, hermitian=True)
    np.testing.assert_allclose(model.precision_ * np.outer(D, D), inverse, atol=1e-9)
    standardised = stats.multivariate_normal(np.zeros(30), C / np.outer(D, D), allow_singular=True)
    density = standardised.logpdf((wide - wide.mean(axis=0)) / D) - np.log(D).sum()
    np.testing.assert_allclose(model.log_density(wide), density, rtol=1e-8)
    w = rng.standard_normal(12)
    brute = np.einsum("i,iab->ab", w, per_row_T(model, wide))
    np.testing.assert_allclose(
        model.second_moment(wide, w) * np.outer(D, D), brute * np.outer(D, D), atol=1e-9
    )
    full = GaussianScore(pseudo_inverse=True).fit(rng.standard_normal((50, 3)))
    assert full.rank_ == 3
    np.testing.assert_allclose(full.precision_ @ full.covariance_, np.eye(3), atol=1e-10)
    assert gaussian_from_moments(wide.mean(axis=0), C, pseudo_inverse=True, count=12).rank_ == 11


def test_an_exact_inverse_is_refused_where_there_is_none():
    X = np.random.default_rng(0).standard_normal((60, 3))
    exact = GaussianScore(ridge=0.0)
    np.testing.assert_allclose(exact.fit(X).precision_, np.linalg.inv(np.cov(X.T, bias=True)))
    with pytest.raises(ValueError, match=r"n_samples=3.*Remedies.*ridge"):
        exact.fit(X[:3])
    with pytest.raises(ValueError, match=r"rank 2 of 3.*Remedies"):
        exact.fit(np.column_stack([X[:, :2], X[:, 0] + X[:, 1]]))


def test_a_singular_covariance_gets_the_smallest_ridge():
    X = np.random.default_rng(0).standard_normal((60, 3))
    table = np.column_stack([X, X[:, 0] + X[:, 1]]) * [1e6, 1.0, 1e-6, 1.0]
    with pytest.warns(
        SingularCovarianceWarning, match="combination of others.*1e-08 times the variances"
    ) as caught:
        model = GaussianScore().fit(table)
    assert caught[0].filename == __file__
    assert model.ridge_ == 1e-8
    np.testing.assert_allclose(model.precision_, GaussianScore(ridge=1e-8).fit(table).precision_, rtol=1e-10)
    with pytest.warns(SingularCovarianceWarning, match="3 rows are too few for 4 columns"):
        GaussianScore().fit(table[:3])
    C = np.cov(table.T, bias=True)
    with pytest.warns(SingularCovarianceWarning, match="combination of others"):
        again = gaussian_from_moments(table.mean(axis=0), C, count=60)
    D = table.std(axis=0)
    np.testing.assert_allclose(
        again.precision_ * np.outer(D, D), model.precision_ * np.outer(D, D), rtol=1e-5
    )
    with pytest.warns(SingularCovarianceWarning):
        GaussianScore(covariance=C).fit(table)


def test_singular_ridge():
    rng = np.random.default_rng(0)
    assert singular_ridge(np.eye(4)) == 0.0
    assert singular_ridge(np.array([[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]])) == 0.0
    assert singular_ridge(np.corrcoef(rng.standard_normal((20, 30)).T)) == 1e-8
    assert singular_ridge(np.array([[1.0, 1 - 1e-15], [1 - 1e-15, 1.0]])) == 1e-8


def test_impossible_moments_are_refused():
    for model in (GaussianScore(ridge=1.0), GaussianScore(covariance=np.zeros((2, 2)))):
        with pytest.raises(ValueError, match=r"no variation.*2 columns.*Remedy"):
            model.fit(np.full((5, 2), 0.1))
    with pytest.raises(ValueError, match=r"n_samples=3.*pseudo_inverse=True"):
        gaussian_from_moments(np.zeros(3), np.eye(3), 0.0, count=3)
    with pytest.raises(ValueError, match="one number per column"):
        gaussian_from_moments(np.zeros((3, 1)), np.eye(3))
    with pytest.raises(ValueError, match="both needed"):
        gaussian_from_moments(np.zeros(3), None)
    with pytest.raises(ValueError, match="ridge"):
        gaussian_from_moments(np.zeros(3), np.eye(3), ridge=-1.0)
