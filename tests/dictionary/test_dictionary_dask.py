from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from colspace import SupervisedDictionaryClassifier, SupervisedDictionaryRegressor
from colspace.dictionary import _losses as losses
from colspace.dictionary import _objective as obj
from colspace.dictionary._bcd import solve_bcd
from colspace.dictionary._lbfgs import solve_eliminated, solve_jointly, start_nmf, start_svd
from colspace.dictionary._lpgd import solve_lpgd
from colspace.dictionary._regions import NONNEGATIVE, Regions

da = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def one_thread():
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


def pair(model="filter", **options):
    """The same problem in memory and on a Dask array cut in rows and columns."""
    rng = np.random.default_rng(0)
    H, W = rng.gamma(1.0, size=(90, 3)), rng.gamma(0.5, size=(70, 3))
    X = H @ W.T + 0.1 * rng.random((90, 70))
    Y, Z = losses.one_hot((H[:, 0] > 0.8).astype(int), 2), rng.standard_normal((90, 2))
    options = {"model": model, "xi": 0.2, "l2": 0.3, "weight": rng.random(90) + 0.5, **options}
    remote = da.from_array(X, chunks=(25, 40))
    return obj.make_problem(X, Y, Z, **options), obj.make_problem(remote, Y, da.from_array(Z), **options)


def close(one, two):
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def test_products():
    local, remote = pair()
    W, H = (
        np.random.default_rng(1).standard_normal((70, 3)),
        np.random.default_rng(2).standard_normal((90, 2)),
    )
    np.testing.assert_allclose(obj.projections(remote, W), local.X @ W, rtol=1e-12)
    np.testing.assert_allclose(obj.transposed(remote, H), local.X.T @ H, rtol=1e-12, atol=1e-12)
    assert remote.energy == pytest.approx(local.energy, rel=1e-12)


@pytest.mark.parametrize("model", ["filter", "feature"])
def test_solvers_agree_with_memory(model):
    local, remote = pair(model)
    start = start_svd(local, 2, np.random.default_rng(0))
    positive = start_nmf(local, 2, np.random.default_rng(0))
    runs = {
        "free": lambda p: solve_bcd(p, start, regions=Regions(), radius=None, max_iter=4),
        "nonnegative": lambda p: solve_bcd(p, positive, regions=NONNEGATIVE, radius=None, max_iter=4),
        "lpgd": lambda p: solve_lpgd(p, start, max_iter=3),
        "jointly": lambda p: solve_jointly(p, positive, positive=True, max_iter=4),
    }
    if model == "filter":
        runs["eliminated"] = lambda p: solve_eliminated(p, positive, positive=True, max_iter=4)
    for run in runs.values():
        here, there = run(local), run(remote)
        close(here.state, there.state)
        np.testing.assert_allclose(here.history, there.history, rtol=1e-10)


def test_norm_in_the_lifted_space():
    local, remote = pair(fit_intercept=False)
    start = start_svd(local, 2, np.random.default_rng(0))
    close(*(solve_lpgd(p, start, norm=5.0, max_iter=2).state for p in (local, remote)))


def test_starts():
    local, remote = pair()
    for start in (start_svd, start_nmf):
        close(*(start(p, 3, np.random.default_rng(3)) for p in (local, remote)))
    with pytest.raises(ValueError, match="Negative values in data"):
        start_nmf(obj.make_problem(-remote.X, local.Y), 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    "options", [{"model": "feature", "positive": True}, {"solver": "bcd"}, {"solver": "bcd", "l1": 0.01}]
)
def test_solvers_that_keep_codes_take_a_table_whose_codes_are_no_more_than_a_partition(options):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.gamma(1.0, size=(120, 40)), columns=[f"x{j}" for j in range(40)])
    y = np.where(X["x0"] > X["x1"], "more", "less")
    dd = pytest.importorskip("dask.dataframe")
    model = SupervisedDictionaryClassifier(3, covariates=["x11"], random_state=0, max_iter=5, **options)
    remote = dd.from_pandas(X, npartitions=4)
    with pytest.warns(ConvergenceWarning):
        here = clone(model).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        there = clone(model).fit(remote, dd.from_pandas(pd.Series(y), npartitions=4))
    for method in ("predict_proba", "transform", "reconstruct", "decision_function", "predict_log_proba"):
        lazy = getattr(there, method)(remote)
        assert isinstance(lazy, da.Array)
        np.testing.assert_allclose(lazy, getattr(here, method)(X), rtol=1e-6, atol=1e-8)
    with pytest.raises(
        ValueError, match=r"keeps codes of all rows: 7 numbers for each of 120 rows.*Remedies"
    ):
        clone(model).fit(dd.from_pandas(X[["x0", "x1", "x2", "x11"]], npartitions=4), y)
    regressor = SupervisedDictionaryRegressor(3, random_state=0, solver="bcd")
    with pytest.raises(ValueError, match=r"keeps codes of all rows.*solver='lbfgs'"):
        regressor.fit(da.from_array(X.to_numpy(), chunks=(5, 40)), X["x0"])
    sparse_blocks = da.from_array(X.to_numpy(), chunks=(60, 40)).map_blocks(sparse.csr_array)
    names = {"covariates": [11], "max_iter": 3}
    with pytest.warns(ConvergenceWarning):
        dense = clone(model).set_params(**names).fit(X.to_numpy(), y)
    with pytest.warns(ConvergenceWarning):
        spread = clone(model).set_params(**names).fit(sparse_blocks, y)
    np.testing.assert_allclose(spread.components_, dense.components_, rtol=1e-6, atol=1e-8)
