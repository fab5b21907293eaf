"""Dask tables fitted by sums over their partitions: the same as in memory, and nothing of them on the client."""

from __future__ import annotations

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from colspace import SupervisedDictionaryClassifier, SupervisedDictionaryRegressor
from colspace.dictionary import _tables as tables


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def table(n=150, p=20):
    rng = np.random.default_rng(0)
    H, W = rng.gamma(1.0, size=(n, 3)), rng.gamma(0.5, size=(p, 3))
    X = H @ W.T + 0.1 * rng.random((n, p))
    X[X < 0.3] = 0.0
    classes = np.array(["low", "mid", "top"])[(H[:, 0] > 0.8).astype(int) + (H[:, 1] > 1.5)]
    numbers = H @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(n)
    return X, classes, numbers, rng.integers(0, 3, n).astype(float)


def same(here, there, atol=1e-8):
    for name in (
        "components_",
        "coef_",
        "covariate_coef_",
        "intercept_",
        "history_",
        "reconstruction_error_",
    ):
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), rtol=1e-7, atol=atol)
    assert here.solver_ == there.solver_ == "lbfgs"


OPTIONS = [
    {},
    {"covariates": [3, 7], "class_weight": "balanced"},
    {"fit_intercept": False, "xi": 0.5, "l2": 0.1, "class_weight": {"low": 2.0}},
    {"positive": True, "covariates": [0], "solver": "lbfgs"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_classifier(options, weighted):
    X, y, _, weight = table()
    w = weight if weighted else None
    model = SupervisedDictionaryClassifier(2, random_state=0, tol=1e-6, **options)
    here = model.fit(X, y, w)
    expected = {name: getattr(here, name)(X) for name in METHODS}
    kept = dict(vars(here))
    there = SupervisedDictionaryClassifier(2, random_state=0, tol=1e-6, **options).fit(
        da.from_array(X, chunks=(70, 15)),
        da.from_array(y, chunks=40),
        None if w is None else da.from_array(w),
    )
    assert kept["classes_"].tolist() == there.classes_.tolist()
    same(here, there)
    lazy = da.from_array(X, chunks=(40, 20))
    for name, values in expected.items():
        found = getattr(there, name)(lazy)
        assert isinstance(found, da.Array)
        assert found.shape == values.shape
        if values.dtype.kind == "f":
            np.testing.assert_allclose(found, values, rtol=1e-6, atol=1e-8)
        else:
            assert found.compute().tolist() == values.tolist()
    assert there.score(lazy, y, w) == pytest.approx(here.score(X, y, w), abs=1e-12)


METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "reconstruct",
)


@pytest.mark.parametrize("options", [{}, {"covariates": [1]}, {"fit_intercept": False}])
def test_regressor(options):
    X, _, y, w = table()
    model = SupervisedDictionaryRegressor(2, random_state=0, tol=1e-6, **options)
    two = np.column_stack([y, X[:, 0]])
    for target, weight in ((y, None), (two, w)):
        here = SupervisedDictionaryRegressor(2, random_state=0, tol=1e-6, **options).fit(X, target, weight)
        lazy = da.from_array(X, chunks=(70, 20))
        there = model.fit(lazy, da.from_array(target, chunks=50), weight)
        same(here, there)
        np.testing.assert_allclose(there.predict(lazy), here.predict(X), rtol=1e-6, atol=1e-8)
        assert there.score(lazy, target, weight) == pytest.approx(here.score(X, target, weight), abs=1e-9)


def test_frames_of_a_parquet_folder_and_sparse_blocks(tmp_path):
    X, y, numbers, w = table()
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names).assign(y=y, number=numbers, w=w)
    for i, (start, stop) in enumerate([(0, 60), (60, 61), (61, 150)]):
        frame[start:stop].to_parquet(tmp_path / f"{i}.parquet")
    d = dd.read_parquet(tmp_path)
    model = SupervisedDictionaryClassifier(2, covariates=["x4"], random_state=0, tol=1e-3)
    here = model.fit(frame[names], y, w)
    probability = here.predict_proba(frame[names])
    there = SupervisedDictionaryClassifier(2, covariates=["x4"], random_state=0, tol=1e-3).fit(
        d[names], d["y"], d["w"]
    )
    same(here, there)
    np.testing.assert_allclose(there.predict_proba(d[names]), probability, rtol=1e-7)
    blocks = da.from_array(X, chunks=(50, 12)).map_blocks(sparse.csr_array)
    csr = SupervisedDictionaryClassifier(2, covariates=[4], random_state=0, tol=1e-3).fit(
        blocks, pd.Series(y), w
    )
    same(here, csr)
    np.testing.assert_allclose(csr.predict_proba(blocks), probability, rtol=1e-7)
    fits = [
        SupervisedDictionaryRegressor(2, random_state=0, tol=1e-3).fit(*rows)
        for rows in ((X, numbers), (d[names], d["number"]), (d[names], numbers))
    ]
    for other in fits[1:]:
        same(fits[0], other)


def spied(sizes):
    """A scheduler that notes how many numbers each of its answers brings to the client."""

    def count(answer):
        if isinstance(answer, list | tuple):
            return sum(map(count, answer))
        if hasattr(answer, "__dataclass_fields__"):
            return sum(count(getattr(answer, name)) for name in answer.__dataclass_fields__)
        return int(np.size(answer))

    def get(graph, keys, **options):
        answer = dask.get(graph, keys, **options)
        sizes.append(count(answer))
        return answer

    return get


def test_nothing_as_long_as_the_table_comes_to_the_client():
    X, y, numbers, w = table(n=600, p=4)
    lazy, sizes = da.from_array(X, chunks=(50, 4)), []
    with dask.config.set(scheduler=spied(sizes)):
        for model, target in (
            (SupervisedDictionaryClassifier(2, covariates=[3], random_state=0), y),
            (SupervisedDictionaryRegressor(2, random_state=0), numbers),
        ):
            chunked = da.from_array(target, chunks=100)
            model.set_params(tol=0.5).fit(lazy, chunked, da.from_array(w, chunks=70))
            model.score(lazy, chunked)
    assert len(sizes) > 20
    assert max(sizes) < 50 * 4


def test_the_path_over_xi():
    X, y, numbers, _ = table()
    lazy = da.from_array(X, chunks=(70, 20))
    for model, target in (
        (SupervisedDictionaryClassifier(2, random_state=0, tol=1e-5), y),
        (SupervisedDictionaryRegressor(2, random_state=0, tol=1e-5), numbers),
    ):
        here, there = (
            model.xi_path(X, target, [0.1, 1.0]),
            model.xi_path(lazy, da.from_array(target), [0.1, 1.0]),
        )
        for name in ("reconstruction_error", "label_loss", "score"):
            np.testing.assert_allclose(getattr(here, name), getattr(there, name), rtol=1e-3)


def test_errors():
    X, y, numbers, w = table()
    lazy = da.from_array(X, chunks=(70, 20))
    model = SupervisedDictionaryClassifier(2, random_state=0)
    holes = X.copy()
    holes[100, 3] = np.nan
    with pytest.raises(ValueError, match=r"in partition 1 of the Dask collection: .*X contains NaN"):
        model.fit(da.from_array(holes, chunks=(70, 20)), y)
    with pytest.raises(ValueError, match=r"in partition 1.*X contains NaN"):
        model.fit(lazy, y).predict(da.from_array(holes, chunks=(70, 20))).compute()
    with pytest.raises(ValueError, match=r"in partition \d.*Negative values in data"):
        SupervisedDictionaryClassifier(2, positive=True).fit(-lazy, y)
    with pytest.raises(ValueError, match=r"in partition 2.*sample_weight holds -1"):
        model.fit(lazy, y, da.from_array(np.where(np.arange(150) == 140, -1.0, w), chunks=70))
    with pytest.raises(ValueError, match="zero in every row"):
        model.fit(lazy, y, da.zeros(150, chunks=70))
    with pytest.raises(ValueError, match="y has 1 class, 'low'"):
        model.fit(lazy, np.full(150, "low"))
    with pytest.raises(ValueError, match="continuous"):
        model.fit(lazy, da.from_array(numbers, chunks=70))
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(lazy, da.from_array(np.where(np.arange(150) == 3, np.nan, 1.0), chunks=70))
    with pytest.raises(ValueError, match="requires y"):
        model.fit(lazy, None)
    with pytest.raises(ValueError, match="sorts the probabilities of all rows"):
        SupervisedDictionaryClassifier(2, threshold="youden").fit(lazy, y == "low")
    with pytest.raises(ValueError, match="n_components=30 is more than 150 sample"):
        SupervisedDictionaryRegressor(30).fit(lazy, numbers)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        SupervisedDictionaryRegressor(2).fit(lazy, da.from_array(np.full(150, np.nan), chunks=70))
    feature = SupervisedDictionaryClassifier(2, model="feature", random_state=0, tol=1e-2).fit(X, y)
    with pytest.raises(TypeError, match="one partition at a time"):
        feature.label_codes(lazy)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, da.from_array])
def test_copies_of_covariates(make):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 5)).astype(float)
    Z = np.column_stack([X[:, 2], rng.random(60), np.ones(60)])
    X[:, 4] = 1.0
    copies = tables.copied_columns(make(X), Z)
    assert np.argwhere(copies).tolist() == [[0, 2]]
    counted = tables.count_unequal(sparse.csr_array(X), None, Z, None, None).count
    np.testing.assert_array_equal(counted, [[np.sum(x != z) for x in X.T] for z in Z.T])
    array = np.column_stack([X, X[:, 2]])
    with pytest.warns(UserWarning, match="covariate 5 is a copy of column 2"):
        SupervisedDictionaryClassifier(1, covariates=[5]).fit(
            da.from_array(array, chunks=(30, 6)), (X[:, 0] > 0).astype(int)
        )
