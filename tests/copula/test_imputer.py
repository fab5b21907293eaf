"""CopulaImputer: the contract of an imputer, what it says about gaps, and bad input."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from copula_tables import KINDS
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colspace import CopulaImputer
from colspace.copula import _passes


def test_kinds_are_found(fitted):
    kinds = fitted.kinds_
    assert kinds[:4] == ("continuous",) * 4
    assert kinds[4:8] == ("ordinal", "ordinal", "binary", "binary")
    assert kinds[10:] == ("lower", "lower")


def test_observed_cells_stay_bit_identical(mixed, fitted):
    X = mixed[1]
    before = X.copy()
    filled = fitted.transform(X)
    seen = ~np.isnan(X)
    assert (filled[seen] == X[seen]).all()
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("method", ["ep", "paper"])
def test_rows_do_not_know_of_each_other(mixed, method):
    X = mixed[1]
    model = CopulaImputer(2, method=method, random_state=0).fit(X)
    whole = model.transform(X[:40])
    single = np.vstack([model.transform(X[[i]]) for i in range(40)])
    np.testing.assert_allclose(single, whole, rtol=1e-9, atol=1e-9)
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_allclose(model.transform(X[order]), whole[order], rtol=1e-9, atol=1e-9)
    lower, upper = model.interval(X[:40])
    np.testing.assert_allclose(model.interval(X[[3]])[0][0], lower[3], rtol=1e-9, atol=1e-9)
    assert (lower <= upper).all()


def test_levels_are_kept(mixed, fitted):
    X, filled = mixed[1], fitted.transform(mixed[1])
    for j in range(4, 10):
        assert set(np.unique(filled[:, j])) <= set(np.unique(X[~np.isnan(X[:, j]), j]))
    assert filled[:, 10:].min() >= 0.0


def test_a_frame_of_every_type_round_trips(frame):
    model = CopulaImputer(2, kinds=KINDS, random_state=0).fit(frame)
    copy = frame.copy()
    filled = model.transform(frame)
    pd.testing.assert_frame_equal(frame, copy)
    assert list(filled.columns) == list(frame.columns)
    assert filled.index.equals(frame.index)
    assert (filled.dtypes == frame.dtypes).all()
    assert not filled.isna().any().any()
    for name in frame:
        seen = frame[name].notna()
        assert filled[name][seen].equals(frame[name][seen])
    assert dict(zip(frame.columns, model.kinds_, strict=True))["word"] == "ordinal"
    new = model.transform(frame.iloc[5:8])
    pd.testing.assert_frame_equal(new, filled.iloc[5:8])
    lower, upper = model.interval(frame)
    assert (lower["often"] <= upper["often"]).all()
    assert list(model.get_feature_names_out()) == list(frame.columns)
    draws = model.sample(frame, 2, random_state=0)
    assert (draws[0].dtypes == frame.dtypes).all()
    mean = model.mean(frame)
    assert mean["often"].between(0, 3).all()


def test_a_polars_frame_comes_back_as_one(mixed):
    table = pl.DataFrame({f"c{j}": mixed[1][:, j] for j in range(6)}).fill_nan(None)
    filled = CopulaImputer(2).fit_transform(table)
    assert isinstance(filled, pl.DataFrame)
    assert filled.null_count().sum_horizontal()[0] == 0
    assert filled.schema == table.schema


def test_sparse_equals_dense_and_is_never_densified_in_fit(mixed, monkeypatch):
    X = mixed[1][:, 4:6]
    X = np.hstack([X, mixed[1][:, 5:8]]) + 1
    row, column = np.nonzero(~np.isnan(X))
    table = sparse.csr_array((X[row, column], (row, column)), shape=X.shape)
    dense = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)
    with monkeypatch.context() as patch:
        for name in ("toarray", "todense"):
            patch.setattr(sparse.csr_array, name, lambda self: pytest.fail("densified"))
        model = CopulaImputer(2, nonlinear=False, random_state=0).fit(table)
    np.testing.assert_allclose(model.correlation_, dense.correlation_, atol=1e-10)
    np.testing.assert_allclose(model.transform(table), dense.transform(X), atol=1e-10)


@pytest.mark.parametrize("method", ["ep", "paper"])
def test_dask_equals_local(mixed, method):
    X = mixed[1]
    local = CopulaImputer(2, method=method, random_state=0).fit(X)
    for table in (
        da.from_array(X, chunks=(110, -1)),
        dd.from_pandas(pd.DataFrame(X, columns=[f"c{j}" for j in range(12)]), npartitions=3),
    ):
        model = CopulaImputer(2, method=method, random_state=0).fit(table)
        np.testing.assert_allclose(model.correlation_, local.correlation_, atol=1e-8)
        rows = X if table.__class__.__module__.startswith("dask.array") else table.compute()
        np.testing.assert_allclose(np.asarray(model.transform(rows)), local.transform(X), atol=1e-6)
    with pytest.raises(TypeError, match="map_partitions"):
        local.transform(da.from_array(X))


def test_blocks_of_rows_do_not_matter(mixed, fitted, monkeypatch):
    monkeypatch.setattr(_passes, "rows_per_block", lambda p, k, thin: 37)
    model = clone(fitted).fit(mixed[1])
    np.testing.assert_allclose(model.correlation_, fitted.correlation_, atol=1e-9)


def test_units_and_order_of_columns_do_not_matter(mixed, fitted):
    X = mixed[1][:, :6]
    one = CopulaImputer(2, random_state=0, tol=1e-6).fit(X)
    scaled = CopulaImputer(2, random_state=0, tol=1e-6).fit(X * [1, 1e6, 1, 1, 1, 1])
    np.testing.assert_allclose(
        scaled.transform(X * [1, 1e6, 1, 1, 1, 1])[:, 1], one.transform(X)[:, 1] * 1e6, rtol=1e-6
    )
    turned = CopulaImputer(2, random_state=0, tol=1e-6).fit(X[:, ::-1])
    np.testing.assert_allclose(turned.correlation_[::-1, ::-1], one.correlation_, atol=1e-3)


def test_pipelines_clone_and_refit(mixed):
    X = mixed[1][:, :5]
    pipe = make_pipeline(CopulaImputer(2, random_state=0), StandardScaler()).fit(X)
    np.testing.assert_allclose(clone(pipe).fit(X).transform(X), pipe.transform(X))
    table = CopulaImputer(2).set_output(transform="pandas").fit_transform(X)
    assert list(table.columns) == [f"x{j}" for j in range(5)]
