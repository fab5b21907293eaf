"""What holds for every elliptical law, against finite differences, quadrature and scipy."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, sparse, stats
from score_laws import CHI, DF, LAWS, MODELS, PSI, draw, known, parameters, per_row_T, z_scores
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from colspace.scores import (
    GaussianScore,
    HyperbolicScore,
    KernelScore,
    ScoreModel,
    SingularCovarianceWarning,
    StudentScore,
)


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


@pytest.mark.parametrize("E", MODELS)
def test_units_do_not_matter(E):
    X = draw("student", 600, 3, np.random.default_rng(8), df=5)
    M, shift = np.diag([1e8, 1.0, 1e-8]) @ parameters(3, 9)[1], np.array([1e8, 0.0, 1e-8])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, moved = E().fit(X), E().fit(X @ M.T + shift)
    jacobian = np.log(abs(np.linalg.det(M)))
    np.testing.assert_allclose(moved.log_density(X @ M.T + shift), plain.log_density(X) - jacobian, atol=1e-4)
    np.testing.assert_allclose(
        moved.score_function(X @ M.T + shift) @ M, plain.score_function(X), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("E", MODELS)
def test_bad_input(E):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    with pytest.raises(ValueError, match=r"no variation.*3 columns.*Remedy"):
        E().fit(np.full((5, 3), 0.1))
    with pytest.raises(ValueError, match=r"sample_weight of row 1 is -1"):
        E().fit(X, sample_weight=np.where(np.arange(60) == 1, -1.0, 1.0))
    with pytest.raises(ValueError, match=r"1 row\(s\) have a positive sample_weight"):
        E().fit(X, sample_weight=np.arange(60) == 1)
    with pytest.raises(TypeError, match=r"sparse.*toarray"):
        E().fit(sparse.csr_array(X))
    with pytest.raises(ValueError, match="not numbers: 'b'"):
        E().fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        E().fit(X)
    own = [w for w in caught if w.category is SingularCovarianceWarning]
    assert len(own) == 1
    assert "4 rows are too few for 4 columns" in str(own[0].message)
    assert own[0].filename == __file__


@pytest.mark.parametrize("law", LAWS)
def test_a_law_that_is_given_needs_one_row(law):
    model = known(law, 3)
    assert model.is_given
    assert not clone(model).set_params(location=None).is_given
    assert not type(model)().is_given
    one = clone(model).fit(np.zeros((1, 3)))
    X = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_array_equal(one.score_function(X), model.score_function(X))


@pytest.mark.parametrize("E", MODELS)
def test_extreme_units_are_borne_or_refused(E):
    X = draw("student", 200, 3, np.random.default_rng(8), df=5)
    w = np.random.default_rng(9).standard_normal(200)
    plain = E().fit(X)
    for unit in (1e-90, 1e90):
        model = E().fit(unit * X)
        np.testing.assert_allclose(unit * model.score_function(unit * X), plain.score_function(X), rtol=1e-6)
        np.testing.assert_allclose(
            unit**2 * model.second_moment(unit * X, w), plain.second_moment(X, w), rtol=1e-6
        )
    with pytest.raises(ValueError, match=r"covariance overflows.*Remedy: rescale"):
        E().fit(1e160 * X)
    with pytest.raises(ValueError, match=r"inverse of their covariance overflows.*Remedy: rescale"):
        E().fit(1e-158 * X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.loc[3, "b"] = -1e200
    with pytest.raises(ValueError, match=r"overflows: column 'b' has the value -1e\+200"):
        E().fit(frame)


def test_a_score_model_has_three_methods():
    class Half(ScoreModel):
        def fit(self, X, y=None):
            return self

    with pytest.raises(TypeError, match=r"abstract.*score_function"):
        Half()


def test_dask_collections_are_not_loaded_silently():
    array = pytest.importorskip("dask.array")
    X = array.ones((60, 3))
    with pytest.raises(
        TypeError, match=r"Dask.*KernelScore.*every row is compared.*X.compute\(\).*GaussianScore"
    ):
        KernelScore().fit(X)
    model = GaussianScore().fit(np.random.default_rng(0).standard_normal((60, 3)))
    with pytest.raises(TypeError, match="Dask"):
        model.score_function(X)
