"""A worker that dies while partitions are slow changes no result."""

from __future__ import annotations

import numpy as np
import pytest
from killed_worker import one_is_killed, slowly, two_workers

from colspace import JointReduction, SteinReduction, SupervisedDictionaryRegressor

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")


def joint():
    return JointReduction(2, blocks={"a": slice(0, 3), "b": slice(3, 6)})


def stein():
    return SteinReduction(1)


def dictionary():
    return SupervisedDictionaryRegressor(1, random_state=0, tol=0.1)


def nonnegative_dictionary():
    return SupervisedDictionaryRegressor(1, positive=True, random_state=0, tol=0.1)


SECONDS = {
    joint: 0.3,
    stein: 0.3,
    dictionary: 0.05,
    nonnegative_dictionary: 0.05,
}  # many passes: shorter naps


@pytest.fixture
def client():
    """Of two new workers: one that was killed is not always started again."""
    with two_workers() as client:
        yield client


@pytest.mark.parametrize("make", SECONDS)
def test_the_result_is_the_same(make, client):
    rng = np.random.default_rng(0)
    h = rng.gamma(2.0, size=(240, 1))
    X = h * np.arange(1.0, 7.0) + rng.random((240, 6))
    y = X[:, 0] * X[:, 3] + X[:, 1] + 0.1 * rng.standard_normal(240)
    plain, response = da.from_array(X, chunks=(80, 6)), da.from_array(y, chunks=80)
    with dask.config.set(scheduler="synchronous"):
        before = make().fit(plain, response)
    slow = plain.map_blocks(slowly, dtype=float, seconds=SECONDS[make])
    client.wait_for_workers(2, timeout=120)
    with one_is_killed(client):
        after = make().fit(slow, response)
    np.testing.assert_allclose(after.components_, before.components_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(after.transform(X), before.transform(X), rtol=1e-10, atol=1e-10)
