from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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


@pytest.mark.parametrize("options", [{}, {"positive": True}, {"model": "feature", "positive": True}])
def test_the_classifier_never_holds_the_table(options):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.gamma(1.0, size=(120, 12)), columns=[f"x{j}" for j in range(12)])
    y = np.where(X["x0"] > X["x1"], "more", "less")
    dd = pytest.importorskip("dask.dataframe")
    model = SupervisedDictionaryClassifier(3, covariates=["x11"], random_state=0, **options)
    here = model.fit(X, y)
    local = here.predict_proba(X), here.transform(X), here.reconstruct(X)
    remote = dd.from_pandas(X, npartitions=4)
    there = model.fit(remote, dd.from_pandas(pd.Series(y), npartitions=4))
    for a, b in zip(
        local, (there.predict_proba(remote), there.transform(remote), there.reconstruct(remote)), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-2)
    array = da.from_array(X.to_numpy(), chunks=(50, 5))
    numbers = SupervisedDictionaryRegressor(2, random_state=0).fit(array, X["x0"].to_numpy())
    assert numbers.score(array, X["x0"]) > 0.9
    holes = da.where(array > 4.0, np.nan, array)
    with pytest.raises(ValueError, match="X contains NaN"):
        model.fit(holes, y)
