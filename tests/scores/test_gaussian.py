import numpy as np
import pytest
from scipy import stats
from score_laws import draw, per_row_T

from colspace.scores import GaussianScore, gaussian_from_moments


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


def test_impossible_moments_are_refused():
    for model in (GaussianScore(ridge=1.0), GaussianScore(covariance=np.zeros((2, 2)))):
        with pytest.raises(ValueError, match=r"no variation.*2 columns.*Remedy"):
            model.fit(np.full((5, 2), 0.1))
    with pytest.raises(ValueError, match=r"n_samples=3.*pseudo_inverse=True"):
        gaussian_from_moments(np.zeros(3), np.eye(3), count=3)
    with pytest.raises(ValueError, match="one number per column"):
        gaussian_from_moments(np.zeros((3, 1)), np.eye(3))
    with pytest.raises(ValueError, match="both needed"):
        gaussian_from_moments(np.zeros(3), None)
    with pytest.raises(ValueError, match="ridge"):
        gaussian_from_moments(np.zeros(3), np.eye(3), ridge=-1.0)
