"""Weights of rows, all reducers alike."""

import dask.array as da
import numpy as np
import pytest
from reducers_tables import BLOCKS, REDUCERS, VARIANTS, embedding, quiet, small_table
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from colspace import (
    JointReduction,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
)
from colspace.moments import TriplePlan, centre

ids = lambda e: type(e).__name__


@pytest.fixture(scope="module")
def data():
    return small_table()


@pytest.mark.parametrize("estimator", [*REDUCERS, *VARIANTS], ids=str)
@pytest.mark.parametrize("kind", ["numbers", "two", "labels"])
def test_a_weight_is_a_number_of_rows(estimator, kind, data):
    X, y = data
    if kind == "two":
        y = np.column_stack([y, X[:, 3] + y])
    if kind == "labels":
        y = np.array(["low", "mid", "top"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
        if isinstance(estimator, ReducedRank) or estimator.get_params().get("n_slices") == 4:
            pytest.skip("regressions take no labels")
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, size=150)
    if isinstance(estimator, SteinReductionCV):
        weights[75:] = 1
        estimator = clone(estimator).set_params(cv=[(np.arange(75), np.arange(75, 150))])
    weighted = quiet(estimator, X, y, sample_weight=weights)
    if isinstance(estimator, SteinReductionCV):
        n = weights[:75].sum()
        estimator.set_params(cv=[(np.arange(n), np.arange(n, n + 75))])
    repeated = quiet(estimator, np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0))
    scale = np.abs(embedding(repeated, X)).max()
    np.testing.assert_allclose(embedding(weighted, X), embedding(repeated, X), atol=1e-6 * scale)
    for name in ("shrinkage_", "ridge_", "unlabeled_weight_"):
        assert getattr(weighted, name, None) == pytest.approx(getattr(repeated, name, None))


@pytest.mark.parametrize("estimator", [JointReduction(2, moments="all"), *REDUCERS[1:], VARIANTS[2]], ids=str)
def test_a_constant_weight_changes_nothing(estimator, data):
    X, y = data
    plain, weighted = quiet(estimator, X, y), quiet(estimator, X, y, sample_weight=np.full(150, 0.3))
    np.testing.assert_allclose(embedding(weighted, X), embedding(plain, X), atol=1e-8)
    whole = quiet(estimator, X, y, sample_weight=np.ones(150))
    np.testing.assert_allclose(embedding(whole, X), embedding(plain, X), atol=1e-10)


def test_weighted_moments_by_brute_force(data):
    X, y = data
    rng = np.random.default_rng(0)
    w = rng.uniform(0, 3, 150)
    w[::7] = 0
    plan = TriplePlan((slice(0, 6),), None, X[0], np.array([0.2]), ((0, 0),), ((0, 0),), scale_y=4.0)
    total = plan(X[:70], y[:70], w[:70]) + plan(X[70:], y[70:], w[70:])
    assert total.rows == np.count_nonzero(w)
    c = centre(total)
    p = w / w.sum()
    mean, y_mean = p @ X, p @ y
    Z, v = X - mean, (y - y_mean) / np.sqrt(p @ (y - y_mean) ** 2)
    np.testing.assert_allclose(c.mean, mean)
    np.testing.assert_allclose(c.y_mean, [y_mean])
    np.testing.assert_allclose(c.covariance[0, 0], (Z.T * p) @ Z, atol=1e-12)
    np.testing.assert_allclose(c.linear[:, 0], Z.T @ (p * v), atol=1e-12)
    np.testing.assert_allclose(c.triple[0, 0][0], (Z.T * (p * v)) @ Z, atol=1e-11)


def test_streams_and_lazy_tables_take_weights(data):
    X, y = data
    w = np.random.default_rng(3).uniform(0, 2, 150)
    w[:5] = 0
    whole = JointReduction(2, blocks=BLOCKS).fit(X, y, sample_weight=w)
    chunks = [(X[i : i + 50], y[i : i + 50], w[i : i + 50]) for i in (0, 50, 100)]
    published = JointReduction(2, blocks=BLOCKS, moments="all").fit(X, y, sample_weight=w)
    stream = JointReduction(2, blocks=BLOCKS, moments="all")
    for X_, y_, w_ in chunks:
        stream.partial_fit(X_, y_, sample_weight=w_)
    lazy = [da.from_array(a, chunks=(40, *(-1,) * (a.ndim - 1))) for a in (X, y, w)]
    np.testing.assert_allclose(embedding(stream, X), embedding(published, X), atol=1e-8)
    others = [
        JointReduction(2, blocks=BLOCKS).fit(iter(chunks)),
        JointReduction(2, blocks=BLOCKS).fit(*lazy[:2], sample_weight=lazy[2]),
        JointReduction(2, blocks=BLOCKS).fit(lazy[0], y, sample_weight=w),
        JointReduction(2, blocks=BLOCKS).fit(sparse.csr_array(X), y, sample_weight=w),
    ]
    for other in others:
        np.testing.assert_allclose(embedding(other, X), embedding(whole, X), atol=1e-8)
    stein = SteinReduction(1, score_model="gaussian").fit(X, y, sample_weight=w)
    parts = SteinReduction(1, score_model="gaussian")
    for X_, y_, w_ in chunks:
        parts.partial_fit(X_, y_, sample_weight=w_)
    np.testing.assert_allclose(embedding(parts, X), embedding(stein, X), atol=1e-8)
    for estimator in (SlicedInverse(2, n_slices=5), SlicedAverage(1, n_slices=5), ReducedRank()):
        near = estimator.fit(X, y, sample_weight=w).components_
        far = clone(estimator).fit(*lazy[:2], sample_weight=lazy[2]).components_
        np.testing.assert_allclose(far, near, atol=1e-8)


@pytest.mark.parametrize("unit", [1e-6, 0.3, 2.0, 1e5])
@pytest.mark.parametrize("copies", [True, False], ids=["multiples of one", "any numbers"])
@pytest.mark.parametrize("estimator", REDUCERS, ids=ids)
def test_the_unit_of_weights_does_not_matter(estimator, copies, unit, data):
    X, y = data
    rng = np.random.default_rng(3)
    w = rng.integers(1, 4, len(X)).astype(float) if copies else rng.uniform(0.5, 2, len(X))
    one = clone(estimator).fit(X, y, sample_weight=w)
    other = clone(estimator).fit(X, y, sample_weight=unit * w)
    np.testing.assert_allclose(embedding(other, X), embedding(one, X), atol=1e-7)


@pytest.mark.parametrize("estimator", REDUCERS, ids=ids)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(150), "row 0 is -1; weights must be at least 0"),
        (np.zeros(150), "zero in every row|at least one non-zero"),
        (np.full(150, np.nan), "sample_weight contains NaN"),
        (np.ones(149), "sample_weight.shape"),
    ],
)
def test_bad_weights(estimator, weights, message, data):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(*data, sample_weight=weights)


def test_weights_are_routed(data):
    X, y = data
    w = np.random.default_rng(0).integers(1, 4, 150).astype(float)
    with config_context(enable_metadata_routing=True):
        reducer = SlicedInverse(1, n_slices=5).set_fit_request(sample_weight=True)
        reader = LinearRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(reducer, reader).fit(X, y, sample_weight=w)
        direct = clone(reducer).fit(X, y, sample_weight=w)
        np.testing.assert_allclose(pipeline[0].components_, direct.components_)
        search = GridSearchCV(make_pipeline(reducer, reader), {"slicedinverse__n_slices": [3, 5]}, cv=3)
        assert search.fit(X, y, sample_weight=w).best_score_ > 0.2
