import numpy as np
import pytest
from scipy import stats
from scipy.special import kv
from score_laws import CHI, PSI, direct_maximum, draw

from colspace.scores import GaussianScore, HyperbolicScore
from colspace.scores._hyperbolic import HyperbolicShape, scaled_bessel


def hyperbolic_density(X, mu, L, rest):
    """chi = psi = omega: the dispersion carries the scale."""
    p, omega = X.shape[1], np.exp(rest[0])
    Q = np.sum(np.linalg.solve(L, (X - mu).T) ** 2, axis=0)
    constant = -0.5 * p * np.log(2 * np.pi) + 0.5 * np.log(np.pi / 2) - 0.5 * np.log(omega)
    return constant - np.log(kv((p + 1) / 2, omega)) - np.log(np.diag(L)).sum() - np.sqrt(omega * (omega + Q))


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 5.0, 10.5])
@pytest.mark.parametrize("x", [0.03, 1.0, 40.0])
def test_bessel_functions_agree_with_scipy(order, x):
    log, excess = scaled_bessel(order, x)
    assert log == pytest.approx(np.log(kv(order, x)) + x, rel=1e-12, abs=1e-12)
    assert 1 + excess / x == pytest.approx(kv(order + 1, x) / kv(order, x), rel=1e-12)


@pytest.mark.parametrize("order", [0.5, 1.0, 10.5, 50.0])
def test_bessel_functions_of_large_arguments(order):
    """Both sides of the change to the expansion, and arguments at which scipy gives up."""
    below, above = (scaled_bessel(order, x) for x in (1e4 * (1 - 1e-12), 1e4))
    assert above == pytest.approx(below, rel=1e-10)
    for x in (1e11, 1e200):
        log, excess = scaled_bessel(order, x)
        expected = 0.5 * np.log(np.pi / 2) - 0.5 * np.log(x) + (4 * order**2 - 1) / (8 * x)
        assert log == pytest.approx(expected, rel=1e-13)
        assert excess == pytest.approx(order + 0.5, rel=1e-9)


def omega(model):
    return np.sqrt(model.chi_ * model.psi_)


def test_hyperbolic_mixing_mean_is_scipys():
    w_law = stats.geninvgauss(3.0, np.sqrt(CHI * PSI), scale=np.sqrt(CHI / PSI))
    assert HyperbolicShape(5, CHI, PSI).mean == pytest.approx(w_law.mean(), rel=1e-6)


def test_hyperbolic_fit_is_the_maximum_of_the_likelihood():
    X = draw("hyperbolic", 400, 2, np.random.default_rng(0))
    model = HyperbolicScore().fit(X)
    assert model.log_density(X).mean() >= direct_maximum(X, hyperbolic_density, [[0.0], [2.0]]) - 1e-7
    fixed = HyperbolicScore(chi=2.0, psi=4.5).fit(X)
    direct = direct_maximum(X, lambda X, mu, L, rest: hyperbolic_density(X, mu, L, [np.log(3)]), [[]])
    assert abs(fixed.log_density(X).mean() - direct) < 1e-7
    assert (fixed.chi_, fixed.psi_) == pytest.approx((2.0, 4.5))


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


def papers_law(n, p, seed):
    """chi = 2p + 1, psi = p, dispersion I."""
    rng = np.random.default_rng(seed)
    return draw("hyperbolic", n, p, rng, np.zeros(p), np.eye(p), chi=2 * p + 1, psi=p)


@pytest.mark.parametrize(("n", "p"), [(4000, 5), (9000, 30)])
def test_the_papers_law_is_recovered(n, p):
    """log omega within 4 standard errors, from the curvature of its profile likelihood; the covariance too."""
    X, truth = papers_law(n, p, 0), np.sqrt((2 * p + 1) * p)
    model = HyperbolicScore().fit(X)
    h = 0.2
    low, mid, high = (
        HyperbolicScore(chi=v, psi=v, tol=1e-12).fit(X).log_likelihoods_[-1]
        for v in omega(model) * np.exp([-h, 0, h])
    )
    error = 1 / np.sqrt(n * (2 * mid - low - high) / h**2)
    assert error < 0.15
    assert abs(np.log(omega(model) / truth)) < 4 * error
    mean = HyperbolicShape(p, 2 * p + 1, p).mean
    assert np.abs(model.covariance_ / mean - np.eye(p)).max() < 5 * np.sqrt(3 / n)


def test_few_rows_hide_the_tails_of_the_papers_law():
    """Var(w)/E[w]^2 = .0066 is 2/n at n = 300: the likelihood rises to the Gaussian end and is flat there.

    Nothing but the estimated dispersion hides them: given it, fits find the law. And little is lost: the
    scores are those of the truth with the same moments.
    """
    n, p = 300, 100
    X, truth = papers_law(n, p, 0), np.sqrt(201 * 100)
    with pytest.warns(UserWarning, match=r"upper end.*2/n_samples"):
        model = HyperbolicScore().fit(X)
    path = [
        HyperbolicScore(chi=v, psi=v).fit(X).log_likelihoods_[-1] for v in truth * np.array([1, 4, 16, 64])
    ]
    assert (np.diff([*path, model.log_likelihoods_[-1]]) > 0).all()
    assert n * (model.log_likelihoods_[-1] - path[-1]) < 0.5
    logs = []
    for seed in range(6):
        rows = papers_law(n, p, seed)
        logs.append(
            np.log(omega(HyperbolicScore(location=np.zeros(p), dispersion=np.eye(p)).fit(rows)) / truth)
        )
    assert abs(np.mean(logs)) < 0.6  # three standard errors
    mean = HyperbolicShape(p, truth, truth).mean
    same = HyperbolicScore(
        chi=truth / mean, psi=truth * mean, location=model.location_, dispersion=model.covariance_
    ).fit(X)
    s, t = model.score_function(X), same.score_function(X)
    assert np.linalg.norm(s - t) < 0.06 * np.linalg.norm(t)


@pytest.mark.parametrize("value", [1e-3, 1.0, 1e3, 1e9])
def test_one_number_and_a_dispersion_leave_the_scale_free(value):
    """With chi and the dispersion given, psi alone carries the scale: the best one, however far away."""
    X = np.random.default_rng(0).standard_normal((80, 3))
    for name, other in (("chi", "psi_"), ("psi", "chi_")):
        model = HyperbolicScore(**{name: value}, dispersion=np.eye(3), location=np.zeros(3)).fit(X)
        best = getattr(model, other)
        for factor in (0.9, 1.1):
            near = {"chi": model.chi_, "psi": model.psi_, other[:3]: best * factor}
            worse = HyperbolicScore(**near, dispersion=np.eye(3), location=np.zeros(3)).fit(X)
            assert worse.log_likelihoods_[-1] <= model.log_likelihoods_[-1] + 1e-9


@pytest.mark.parametrize("value", [1e-8, 1e6, 1e12, 1e200])
def test_shapes_far_from_the_search_are_borne(value):
    X = np.random.default_rng(0).standard_normal((200, 3))
    model = HyperbolicScore(chi=value, psi=value).fit(X)
    assert (model.chi_, model.psi_) == pytest.approx((value, value))
    assert np.isfinite(model.second_moment(X, X[:, 0])).all()
    if value > 1:  # a Gaussian
        assert model.log_density(X).mean() == pytest.approx(
            GaussianScore().fit(X).log_density(X).mean(), abs=1e-5
        )
        np.testing.assert_allclose(model.covariance_, np.cov(X.T, bias=True), atol=1e-4)
