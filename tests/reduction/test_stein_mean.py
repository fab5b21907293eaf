"""combine="mean" in second order: one weighted sum, equal to the mean of the responses' matrices."""

import tracemalloc

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from colspace import SteinReduction
from colspace.datasets import make_multiple_response
from colspace.reduction import _stein, _stein_mean
from colspace.scores import StudentScore


@pytest.fixture(scope="module")
def data():
    X, Y, _ = make_multiple_response(400, 6, 6, 2, rng=0)
    Y = np.arctan(Y)
    return X * 10.0 ** np.arange(-2, 4), Y * [1, 10, 1e4, 1, 1e-3, 1] + [0, 5, 0, -3, 0, 1]


def captured(monkeypatch, model, *arguments, **options):
    """The second-order moments that a fit uses."""
    found = []
    plain = _stein.solve_stein

    def solve(options, m, frame, r, *, exact):
        found.append((m, frame))
        return plain(options, m, frame, r, exact=exact)

    monkeypatch.setattr(_stein, "solve_stein", solve)
    model.fit(*arguments, **options)
    return found[0]


@pytest.mark.parametrize("score", ["ridge", "gaussian", StudentScore(df=8.0)], ids=str)
@pytest.mark.parametrize("whiten_response", [True, False, "auto"])
@pytest.mark.parametrize("kind", ["all", "gaps", "weights", "labels"])
def test_it_is_the_mean_of_the_matrices(score, whiten_response, kind, data, monkeypatch):
    X, Y = data
    w = np.random.default_rng(0).integers(0, 3, 400) if kind == "weights" else None
    if kind == "gaps":
        Y = np.where(np.arange(400)[:, None] % 4 == 0, np.nan, Y)
    if kind == "labels":
        Y = np.array(["a", "b", "c", "d"])[np.digitize(Y[:, 0], np.quantile(Y[:, 0], [0.2, 0.5, 0.8]))]
    options = {"order": 2, "score_model": score, "whiten_response": whiten_response, "n_groups": None}
    one, _ = captured(monkeypatch, SteinReduction(1, combine="mean", **options), X, Y, sample_weight=w)
    each, frame = captured(monkeypatch, SteinReduction(1, **options), X, Y, sample_weight=w)
    assert one.averaged
    assert one.second.shape == (1, 6, 6)
    stack = each.second if frame.transform is None else np.einsum("jab,jk->kab", each.second, frame.transform)
    terms = np.abs(stack).mean(axis=0)
    np.testing.assert_allclose(one.second[0], stack.mean(axis=0), rtol=0, atol=1e-12 * terms.max())


def test_containers_streams_and_both_orders(data, monkeypatch):
    X, Y = data
    for options in ({"order": 2}, {"order": "both"}, {"order": 2, "whiten_response": False}):
        model = SteinReduction(2, combine="mean", score_model="gaussian", **options)
        expected = model.fit(X, Y).components_.copy()
        for table in (sparse.csr_array(X), da.from_array(X, chunks=(150, 6))):
            y = da.from_array(Y, chunks=(150, 6)) if hasattr(table, "chunks") else Y
            np.testing.assert_allclose(model.fit(table, y).components_, expected, rtol=1e-6, atol=1e-12)
        stream = SteinReduction(2, combine="mean", score_model="gaussian", **options)
        for i in range(0, 400, 100):
            stream.partial_fit(X[i : i + 100], Y[i : i + 100])
        np.testing.assert_allclose(stream.components_, expected, rtol=1e-6, atol=1e-12)
        assert np.isfinite(model.fit(X, Y).components_error_).all()
        monkeypatch.setattr(_stein, "averaged", lambda plan, *rest: plan)
        each = SteinReduction(2, combine="mean", score_model="gaussian", **options).fit(X, Y)
        np.testing.assert_allclose(each.components_, expected, rtol=1e-6, atol=1e-12)
        monkeypatch.setattr(_stein, "averaged", _stein_mean.averaged)
    assert SteinReduction("auto", order=2, combine="mean").fit(X, Y).n_components_ >= 1


def test_memory_does_not_grow_with_responses():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 120))
    peaks = []
    for q in (2, 60):
        Y = X[:, :q] ** 2 + X[:, :q]
        model = SteinReduction(1, order=2, combine="mean", n_groups=None, response="numbers")
        tracemalloc.start()
        model.fit(X, Y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 20 * 8 * 120**2  # 58 more matrices would be three times that
