"""The classics alike: pHd, SIR, SAVE, sOLS and reduced-rank regression."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from classics_tables import assert_same_span, correlated_table
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from colspace import (
    ConstantColumnWarning,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    StructuredOLS,
)

ALL = [PrincipalHessian, SlicedInverse, SlicedAverage, StructuredOLS, ReducedRank]
TRANSFORMERS = ALL[:4]
ids = lambda e: type(e).__name__ if not isinstance(e, type) else e.__name__


@pytest.fixture(scope="module")
def data():
    return correlated_table()


# ---------------------------------------------------------------- scikit-learn's contract


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",  # as they come: tests/contract
    [
        PrincipalHessian(residuals=True, n_groups=3),
        StructuredOLS(n_slices=3, n_groups=3),
        ReducedRank(alpha=0.1, weighting="inverse", n_groups=3),
    ],
    ids=str,
)
def test_estimator_checks(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert not [r["check_name"] for r in results if r["status"] == "failed"]
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_pandas_in_pandas_out(estimator, data):
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(6)], index=np.arange(400) * 2)
    model = estimator(n_components=1).set_output(transform="pandas")
    out = model.fit(frame, Y[:, 0]).transform(frame)
    assert list(out.columns) == [f"{estimator.__name__.lower()}0"]
    assert out.index.equals(frame.index)
    np.testing.assert_array_equal(model.get_feature_names_out(), out.columns)
    np.testing.assert_allclose(out, estimator(n_components=1).fit(X, Y[:, 0]).transform(X), atol=1e-12)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_float32_stays(estimator, data):
    X, Y = data
    wide, narrow = (estimator(n_components=1).fit(X.astype(t), Y[:, 0]) for t in (np.float64, np.float32))
    assert narrow.components_.dtype == np.float32
    assert narrow.transform(X.astype(np.float32)).dtype == np.float32
    assert wide.transform(X).dtype == np.float64
    assert_same_span(narrow.components_.T, wide.components_.T, atol=1e-4)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_csr_equals_dense(estimator, data):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.3, (300, 5)) * rng.uniform(0.5, 1.5, (300, 5))
    y = np.tanh(X[:, 0]) + np.cos(2 * X[:, 1]) + 0.1 * rng.standard_normal(300)
    dense, csr = estimator(n_components=1).fit(X, y), estimator(n_components=1).fit(sparse.csr_array(X), y)
    assert_same_span(dense.components_.T, csr.components_.T, atol=1e-9)
    np.testing.assert_allclose(csr.transform(sparse.csr_array(X)), dense.transform(X), atol=1e-9)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_chunks_do_not_matter(estimator, data, monkeypatch):
    X, Y = data
    whole = (
        estimator(n_components=2).fit(X, Y)
        if estimator is not StructuredOLS
        else estimator(2, n_slices=4).fit(X, Y)
    )
    monkeypatch.setattr("colspace.reduction._sliced.CHUNK_BYTES", 1)
    monkeypatch.setattr("colspace.reduction._source.CHUNK_BYTES", 1)
    parts = clone(whole).fit(X, Y)
    np.testing.assert_allclose(parts.components_, whole.components_, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_equivariant(estimator, data):
    """Columns in other units and mixed: the embedding is the same up to sign."""
    X, Y = data
    A = np.random.default_rng(1).standard_normal((6, 6))
    exact = {} if estimator is ReducedRank else {"shrinkage": None}
    plain = estimator(n_components=1, **exact).fit(X, Y[:, 1])
    mixed = estimator(n_components=1, **exact).fit(X @ A + 7.0, 100.0 * Y[:, 1] - 3.0)
    cosine = np.sum(plain.transform(X) * mixed.transform(X @ A + 7.0)) / 400
    np.testing.assert_allclose(abs(cosine), 1.0, atol=1e-8)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_pickle_and_pipeline(estimator, data):
    X, Y = data
    model = estimator(n_components=1).fit(X, Y[:, 0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))
    assert make_pipeline(estimator(n_components=1), LinearRegression()).fit(X, Y[:, 0]).score(X, Y[:, 0]) > -1


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("estimator", ALL, ids=ids)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (np.where(X[3, 2] == X, np.nan, X), y), "NaN"),
        (lambda X, y: (X, np.where(y == y[5], np.nan, y)), "NaN"),
        (lambda X, y: (X, np.ones_like(y)), "constant"),
        (lambda X, y: (X[:1], y[:1]), "1 sample"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, None), "requires y"),
        (lambda X, y: (X[:5], y[:5]), "more rows than columns.*Remedies"),
        (lambda X, y: (np.column_stack([X, np.full(len(X), 0.1)]), y), r"constant column.*\[6\].*Remedies"),
        (lambda X, y: (np.column_stack([X, X[:, 0] - X[:, 1]]), y), "combination of others.*Remedies"),
        (lambda X, y: ([X, X], y), "stack_blocks"),
    ],
    ids=[
        "nan",
        "nan in y",
        "constant y",
        "one row",
        "lengths",
        "no y",
        "wide",
        "constant",
        "dependent",
        "list",
    ],
)
@pytest.mark.filterwarnings("ignore:5 rows in 5 slices", "ignore::colspace.ConstantColumnWarning")
def test_bad_input(estimator, change, message, data):
    X, Y = data
    exact = {"alpha": 0.0} if estimator is ReducedRank else {"shrinkage": 0.0}
    with pytest.raises((ValueError, TypeError), match=message):
        estimator(n_components=1, **exact).fit(*change(X.copy(), Y[:, 0].copy()))


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_too_many_components(estimator, data):
    X, Y = data
    with pytest.raises(ValueError, match=r"n_components=7 is more than .*lower n_components"):
        estimator(n_components=7).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="n_components"):
        estimator(n_components=0).fit(X, Y[:, 0])


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=ids)
def test_shrinkage_takes_wide_and_constant(estimator):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((40, 50)), np.ones(40)])
    y = X[:, 0] + 0.1 * rng.standard_normal(40)
    with pytest.warns(ConstantColumnWarning, match="50"):
        model = estimator(n_components=1, shrinkage="auto").fit(X, y)
    assert 0 < model.shrinkage_ <= 1
    assert abs(model.components_[0, -1]) < 1e-10


def test_groups_refuse_dask(data):
    da = pytest.importorskip("dask.array")
    X, Y = data
    with pytest.raises(TypeError, match=r"with groups needs all rows in memory.*load it"):
        StructuredOLS().fit(da.from_array(X, chunks=(100, 6)), Y[:, 0], groups=X[:, 0] > 0)


@pytest.mark.parametrize(
    "model",
    [
        PrincipalHessian(1),
        PrincipalHessian(1, residuals=True, shrinkage="auto"),
        SlicedInverse(2, n_slices=7, shrinkage="auto"),
        SlicedAverage(2, n_slices=7),
        StructuredOLS(2, n_slices=5),
        StructuredOLS(blocks={"a": [3, 1], "b": [0, 5], "drop": "*"}),
        ReducedRank(2),
        ReducedRank(1, alpha=0.3, weighting="inverse"),
    ],
    ids=str,
)
def test_dask_equals_memory(model, data):
    da = pytest.importorskip("dask.array")
    X, Y = data
    lazy = da.from_array(X, chunks=(90, 4))
    near, far = clone(model).fit(X, Y), clone(model).fit(lazy, da.from_array(Y, chunks=(90, 2)))
    np.testing.assert_allclose(far.components_, near.components_, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(far.transform(lazy).compute(), near.transform(X), atol=1e-9)
    if hasattr(model, "predict"):
        np.testing.assert_allclose(far.predict(lazy).compute(), near.predict(X), atol=1e-9)


@pytest.mark.parametrize("model", [PrincipalHessian(1), StructuredOLS(), ReducedRank()], ids=ids)
def test_dask_constant_response(model, data):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(data[0], chunks=(90, 6))
    with pytest.raises(ValueError, match="y is constant"):
        model.fit(lazy, da.full(400, 0.1, chunks=90))
