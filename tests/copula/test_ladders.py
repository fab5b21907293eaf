"""Columns of few levels, all at once, against one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

from colspace import CopulaImputer
from colspace.copula import _ladders
from colspace.copula._ladders import Ladders


@pytest.fixture(scope="module")
def mixed():
    """Two- to seven-level columns beside numbers, with gaps."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 9)) + 0.5 * rng.standard_normal((300, 9))
    for j in (1, 2, 4, 5, 6, 8):
        cuts = np.quantile(Z[:, j], np.linspace(0, 1, j + 2)[1:-1])
        Z[:, j] = 10.0 * np.digitize(Z[:, j], cuts[: max(j - 1, 1)])
    Z[rng.random(Z.shape) < 0.3] = np.nan
    return Z, CopulaImputer(2, nonlinear=False, correlation="factors", random_state=0).fit(Z)


def test_levels_and_values(mixed):
    _, model = mixed
    ladders = Ladders.of(model._point.columns)
    z = np.random.default_rng(1).standard_normal((len(ladders.columns), 50))
    z[:, 0] = ladders.edges[:, 1]  # on an edge it is the level below
    found = ladders.values(z)
    for row, at, j in zip(found, z, ladders.columns, strict=True):
        np.testing.assert_array_equal(row, model._point.columns[j].values(at))


def test_certainty_is_the_probability_of_the_level(mixed):
    _, model = mixed
    ladders = Ladders.of(model._point.columns)
    rng = np.random.default_rng(2)
    mean, sd = rng.standard_normal((len(ladders.columns), 20)), 0.2 + rng.random((len(ladders.columns), 20))
    found = ladders.certainty(mean, sd)
    for i, j in enumerate(ladders.columns):
        edges = model._point.columns[j].edges
        level = np.searchsorted(edges, mean[i], side="left")
        exact = norm.cdf(edges[level], mean[i], sd[i]) - norm.cdf(edges[level - 1], mean[i], sd[i])
        np.testing.assert_allclose(found[i], exact, atol=1e-12)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_all_at_once_as_one_by_one(mixed, monkeypatch, as_sparse):
    X, model = mixed
    if as_sparse:
        seen = ~np.isnan(X)
        X = sparse.csr_array((X[seen], np.nonzero(seen)), shape=X.shape)
    questions = (model.transform, model.reliability, lambda X: np.stack(model.interval(X, 0.8)))
    found = [ask(X) for ask in questions]
    monkeypatch.setattr(_ladders, "_FEWEST", 10**9)
    assert Ladders.of(model._point.columns) is None
    for old, ask in zip(found, questions, strict=True):
        np.testing.assert_allclose(old, ask(X), rtol=1e-12, atol=1e-14)


def test_neighbours_are_a_slice():
    X = np.random.default_rng(0).integers(0, 3, (60, 4)).astype(float)
    X[::7, 1] = np.nan
    model = CopulaImputer(1, nonlinear=False, random_state=0).fit(X)
    assert Ladders.of(model._point.columns).every == slice(0, 4)
