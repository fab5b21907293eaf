"""Weights, units, singular tables and partitions: what every law bears."""

import warnings

import numpy as np
import pandas as pd
import pytest
from score_laws import DF, LAWS, MODELS, draw, known

from colspace import ConstantColumnWarning
from colspace.scores import GaussianScore, HyperbolicScore, SingularCovarianceWarning, StudentScore
from colspace.scores._mixture_rows import _chunk_sums, node_places, node_weights, spread
from colspace.scores._standard import deviations, standard
from colspace.scores._student import StudentShape


def quiet(model, X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, **options)


def parts_of(model):
    names = ("location_", "covariance_", "precision_", "df_", "chi_", "psi_")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


@pytest.fixture
def heavy(request):
    """Rows of heavy tails with weights; a law at the end of its range would leave its shape undetermined."""
    E = getattr(request.node, "callspec", None) and request.node.callspec.params.get("E")
    law, shape = ("hyperbolic", {}) if E is HyperbolicScore else ("student", {"df": 5})
    X = draw(law, 300, 4, np.random.default_rng(1), **shape)
    return X, np.random.default_rng(2).integers(0, 4, 300).astype(float)


@pytest.mark.parametrize("known_location", [False, True])
def test_standard_moments_against_numpy(heavy, known_location):
    X, w = heavy
    X = np.column_stack([X * [1e-8, 1.0, 1e8, 1e3], np.full(300, 0.1)])
    location = np.arange(5.0) if known_location else None
    found = standard(X, w, location)
    centre = np.average(X, weights=w, axis=0) if location is None else location
    C = (w[:, None] * (X - centre)).T @ (X - centre) / w.sum()
    np.testing.assert_allclose(found.location, centre, rtol=1e-12)
    assert found.count == (w > 0).sum()
    D = np.sqrt(np.diag(C))
    assert found.varying.tolist() == [True, True, True, True, known_location]
    np.testing.assert_allclose(
        found.covariance[:4, :4] / np.outer(D, D)[:4, :4], (C / np.outer(D, D))[:4, :4]
    )
    mean, deviation = deviations(X, w)
    np.testing.assert_allclose(deviation, np.sqrt(np.cov(X.T, aweights=w, bias=True).diagonal()), atol=1e-15)
    np.testing.assert_allclose(mean, np.average(X, weights=w, axis=0), rtol=1e-12)


def test_a_large_offset_costs_no_digits(heavy):
    shifted = heavy[0] + 1e12
    exact = shifted - 1e12
    found, plain = standard(shifted, heavy[1]), standard(exact, heavy[1])
    np.testing.assert_allclose(found.correlation, plain.correlation, atol=1e-13)
    np.testing.assert_allclose(found.deviation, plain.deviation, rtol=1e-13)
    np.testing.assert_allclose(found.location - 1e12, plain.location, atol=2e-4)


def test_one_step_of_em_by_hand(heavy):
    """The weighted mean, then the weighted covariance about it."""
    X, w = np.exp(heavy[0] / 4), heavy[1]  # skewed: the first step moves the location
    table = standard(X, w)
    d = X - table.location
    Q = np.einsum("ij,jk,ik->i", d, np.linalg.inv(table.covariance), d)
    a = w * StudentShape(4, 5.0, 3.0, free_df=False, free_scale=True).update(Q, w / w.sum()).weights(Q)
    location = a @ X / a.sum()
    assert np.abs((location - table.location) / table.deviation).max() > 0.05
    model = quiet(StudentScore(df=5.0, max_iter=1), X, sample_weight=w)
    np.testing.assert_allclose(model.location_, location, rtol=1e-9)
    expected = (a * (X - location).T) @ (X - location)
    np.testing.assert_allclose(
        model.covariance_ / np.trace(model.covariance_), expected / np.trace(expected), rtol=1e-8
    )  # the scale has a step of its own


@pytest.mark.parametrize("E", MODELS)
def test_a_weight_of_two_is_a_row_twice_and_zero_a_row_absent(E, heavy):
    X, w = heavy
    weighted, repeated = quiet(E(), X, sample_weight=w), quiet(E(), np.repeat(X, w.astype(int), axis=0))
    scaled = quiet(E(), X, sample_weight=1e-3 * w)
    wild = np.where(w[:, None] > 0, X, 1e9)  # rows of weight zero hold anything
    absent = quiet(E(), wild, sample_weight=w)
    for name, value in parts_of(repeated).items():
        for other in (weighted, scaled, absent):
            np.testing.assert_allclose(getattr(other, name), value, rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(weighted.location_, absent.location_, rtol=1e-12)
    assert np.abs(quiet(E(), X).location_ - weighted.location_).max() > 1e-3


@pytest.mark.parametrize("E", [StudentScore, HyperbolicScore])
def test_em_with_weights_never_loses_likelihood(E, heavy):
    X, w = heavy
    model = quiet(E(tol=1e-12), X, sample_weight=w)
    assert np.diff(model.log_likelihoods_).min() > -1e-11
    assert model.log_likelihoods_[-1] == pytest.approx(np.average(model.log_density(X), weights=w), abs=1e-9)


@pytest.mark.parametrize(("E", "options"), [*((E, {}) for E in MODELS), (GaussianScore, {"ridge": 0.3})])
def test_columns_in_any_units_give_the_same_scores(E, options, heavy):
    X = heavy[0]
    plain = quiet(E(**options), X)
    for unit in (np.array([1e-8, 1.0, 1e8, 1e4]), np.full(4, 1e-100), np.full(4, 1e100)):
        moved = quiet(E(**options), X * unit)
        np.testing.assert_allclose(moved.score_function(X * unit) * unit, plain.score_function(X), rtol=1e-6)
        w = heavy[1]
        T = moved.second_moment(X * unit, w) * np.outer(unit, unit)
        np.testing.assert_allclose(T, plain.second_moment(X, w), rtol=1e-6, atol=1e-6)
        Y = X[:, :2]
        np.testing.assert_allclose(
            moved.first_moment(X * unit, Y) * unit[:, None], plain.first_moment(X, Y), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("E", MODELS)
def test_constant_columns_get_a_score_of_zero(E, heavy):
    X = heavy[0]
    frame = pd.DataFrame(np.insert(X, 2, 0.1, axis=1), columns=list("abcde"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = E().fit(frame)
    (own,) = [w for w in caught if w.category is ConstantColumnWarning]
    assert "1 constant column(s) get a score of zero: 'c'" in str(own.message)
    assert own.filename == __file__
    without, rest = quiet(E(), X), [0, 1, 3, 4]
    s = model.score_function(frame)
    np.testing.assert_allclose(s[:, rest], without.score_function(X), rtol=1e-8)
    assert not s[:, 2].any()
    np.testing.assert_allclose(model.log_density(frame), without.log_density(X), rtol=1e-9)
    T = model.second_moment(frame, np.ones(300))
    np.testing.assert_allclose(T[np.ix_(rest, rest)], without.second_moment(X, np.ones(300)), atol=1e-6)
    assert not T[2].any()


@pytest.mark.parametrize("E", MODELS)
@pytest.mark.parametrize("case", ["collinear", "few"])
def test_singular_tables_are_fitted_in_any_units(E, case, heavy):
    X = np.column_stack([heavy[0], heavy[0] @ [1.0, -1.0, 0.5, 2.0]])
    X = X[:5] if case == "few" else X
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = E().fit(X)
    said = [str(w.message) for w in caught if w.category is SingularCovarianceWarning]
    assert len(said) == 1
    assert "1e-08 times the variances" in said[0]
    s = model.score_function(X)
    assert np.isfinite(s).all()
    unit = np.array([1e-8, 1.0, 1e8, 1e4, 1.0])
    moved = quiet(E(), X * unit)
    np.testing.assert_allclose(
        moved.score_function(X * unit) * unit, s, atol=1e-4 * np.abs(s).max()
    )  # half of the digits are the ridge's
    assert np.diff(getattr(model, "log_likelihoods_", np.zeros(2))).min() > -1e-9


def test_a_ridge_of_the_mixture_is_its_penalty(heavy):
    """With a ridge a EM ends where the dispersion is its weighted covariance plus a D^2."""
    X = np.column_stack([heavy[0], heavy[0] @ [1.0, -1.0, 0.5, 2.0]])
    for model in (
        StudentScore(df=5.0, tol=0.0, max_iter=60),
        HyperbolicScore(chi=2.0, psi=3.0, tol=0.0, max_iter=60),
    ):
        fit = quiet(model, X)
        d = X - fit.location_
        Q = np.einsum("ij,jk,ik->i", d, fit.precision_, d)
        a = fit._factors(Q)[0]
        matrix = fit.covariance_ if isinstance(fit, StudentScore) else fit.dispersion_
        right = (a[:, None] * d).T @ d / len(d) + 1e-8 * np.diag(X.var(axis=0))
        D = X.std(axis=0)
        np.testing.assert_allclose(matrix / np.outer(D, D), right / np.outer(D, D), atol=1e-6)
        small = np.linalg.svd(X - X.mean(axis=0))[2][-1]  # the direction without variation
        assert small @ fit.covariance_ @ small == pytest.approx(1e-8 * small**2 @ X.var(axis=0), rel=1e-2)


@pytest.mark.parametrize("law", LAWS)
def test_nodes_give_means_over_all_distances(law):
    Q = np.concatenate([[0.0, 1e-13], 10.0 ** np.random.default_rng(0).uniform(-11, 29, 500)])
    w = np.random.default_rng(1).random(502)
    nodes = spread(Q, w)
    used = np.flatnonzero(nodes.any(axis=1))
    at, share = node_places(used).ravel(), nodes[used].ravel()
    assert share.sum() == pytest.approx(w.sum(), rel=1e-12)
    model = known(law, 4)
    if law == "gaussian":
        np.testing.assert_allclose(np.sqrt(at) @ share, np.sqrt(Q) @ w, rtol=1e-9)
        return
    np.testing.assert_allclose(model._log_radial(at) @ share, model._log_radial(Q) @ w, rtol=1e-9)
    X = draw(law, 200, 4, np.random.default_rng(0))
    halves = [node_weights(rows, location=model.location_, root=model._root) for rows in (X[:77], X[77:], X)]
    np.testing.assert_allclose(halves[0] + halves[1], halves[2], atol=1e-12)


def test_sums_of_the_m_step_by_a_loop():
    model = known("student", 3)
    X, w = draw("student", 20, 3, np.random.default_rng(0)), np.random.default_rng(1).random(20)

    class Shape:
        def weights(self, Q):
            return (DF + 3) / (DF - 2 + Q)

    found = _chunk_sums(X, w, location=model.location_, root=model._root, shape=Shape())
    total, first, second = 0.0, np.zeros(3), np.zeros((3, 3))
    for x, v in zip(X, w, strict=True):
        z = model._root @ (x - model.location_)
        a = v * (DF + 3) / (DF - 2 + z @ z)
        total, first, second = total + a, first + a * z, second + a * np.outer(z, z)
    np.testing.assert_allclose(found.total, total)
    np.testing.assert_allclose(found.first, first)
    np.testing.assert_allclose(found.second, second)


@pytest.mark.parametrize("E", MODELS)
@pytest.mark.parametrize("kind", ["array", "frame", "weights"])
def test_partitions_give_the_same_law(E, kind, heavy):
    dask_array = pytest.importorskip("dask.array")
    dask_frame = pytest.importorskip("dask.dataframe")
    X, w = heavy
    X, options = X * [1e-8, 1.0, 1e8, 1.0], {}
    data = dask_array.from_array(X, chunks=(70, 2))
    local = quiet(E(), X, sample_weight=w if kind == "weights" else None)
    if kind == "frame":
        data = dask_frame.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3)
    if kind == "weights":
        options = {"sample_weight": dask_array.from_array(w, chunks=70)}
    model = quiet(E(), data, **options)
    if kind == "frame":
        assert list(model.feature_names_in_) == list("abcd")
        X = pd.DataFrame(X, columns=list("abcd"))
    for name, value in parts_of(local).items():
        np.testing.assert_allclose(getattr(model, name), value, rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(model.score_function(X), local.score_function(np.asarray(X)), rtol=1e-8)


def test_bad_partitions_are_refused(heavy):
    array = pytest.importorskip("dask.array")
    X = heavy[0].copy()
    data = array.from_array(X, chunks=(70, 4))
    with pytest.raises(ValueError, match="weights must be at least 0"):
        GaussianScore().fit(data, sample_weight=array.from_array(np.linspace(-1, 1, 300), chunks=70))
    with pytest.raises(ValueError, match="zero in every row"):
        GaussianScore().fit(data, sample_weight=array.zeros(300, chunks=70))
    X[5, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        GaussianScore().fit(array.from_array(X, chunks=(70, 4)))
    X[5, 1] = 1e200
    with pytest.raises(ValueError, match=r"overflows: column 1 has the value 1e\+200"):
        StudentScore().fit(array.from_array(X, chunks=(70, 4)))


def test_a_dask_collection_is_never_loaded_whole(heavy, monkeypatch):
    array = pytest.importorskip("dask.array")
    data = array.from_array(heavy[0], chunks=(60, 4))
    monkeypatch.setattr(type(data), "compute", None)
    monkeypatch.setattr(type(data), "__array__", None, raising=False)
    assert quiet(StudentScore(max_iter=3), data).covariance_.shape == (4, 4)
