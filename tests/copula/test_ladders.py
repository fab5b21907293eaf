"""Columns of few levels, all at once, against one by one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

from colspace import CopulaImputer
from colspace.copula import _ladders, _solved
from colspace.copula._ladders import Ladders
from colspace.copula._predict import gap_blocks, gaps_beside
from colspace.copula._values import Column


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
    for side in (-40.0, 40.0):
        far = np.full(mean.shape, side)
        np.testing.assert_allclose(ladders.certainty(far, np.ones(mean.shape)), 1.0)


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


def test_neighbours_are_a_slice(monkeypatch):
    X = np.random.default_rng(0).integers(0, 3, (60, 4)).astype(float)
    X[::7, 1] = np.nan
    model = CopulaImputer(1, nonlinear=False, random_state=0).fit(X)
    assert Ladders.of(model._point.columns).every == slice(0, 4)
    found = model.transform(X)
    np.testing.assert_array_equal(np.isnan(model.reliability(X)), ~np.isnan(X))
    monkeypatch.setattr(_ladders, "_FEWEST", 10**9)
    np.testing.assert_array_equal(found, model.transform(X))


def test_blocks_of_rows(mixed, monkeypatch):
    X, model = mixed
    found = model.transform(X), model.reliability(X), *model.interval(X)
    for name, few in (("_TOGETHER", 1), ("_ROWS", 1), ("rows_per_block", lambda *_: 32)):
        monkeypatch.setattr(_solved, name, few)
    assert len(list(gap_blocks(X, model._point))) == 10
    for old, new in zip(found, (model.transform(X), model.reliability(X), *model.interval(X)), strict=True):
        np.testing.assert_allclose(old, new, rtol=1e-9)


def test_the_rest_is_one_by_one(mixed):
    X, model = mixed
    point, done = model._point, []
    ladders = Ladders.of(point.columns)
    rest = {gap.column for gap in gaps_beside(X, point, lambda block, _: done.append(block))}
    assert len(done) == 1
    assert rest == set(range(9)) - set(map(int, ladders.columns))


def test_bends_come_first(mixed):
    X, model = mixed
    curved = SimpleNamespace(gaps=lambda *_, **__: iter(["corrected"]))
    assert list(gaps_beside(X, replace(model._point, curved=curved), pytest.fail)) == ["corrected"]


@pytest.mark.parametrize("most", [_ladders.MOST, _ladders.MOST + 1])
def test_few_levels(most):
    steps = [np.arange(n, dtype=float) for n in (2, 3, most)]
    columns = [Column("ordinal", s[1:] - 0.5, np.full(len(s) - 1, np.nan), s, 0.0) for s in steps]
    assert len(Ladders.of(columns).columns) == (3 if most == 16 else 2)
