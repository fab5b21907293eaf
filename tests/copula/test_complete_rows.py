"""Rows without gaps are not solved, and everything else is as if they were."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from colspace import CopulaImputer
from colspace.copula import _predict


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 6)) + 0.5 * rng.standard_normal((400, 6))
    X = Z.copy()
    X[:, 4:] = np.digitize(Z[:, 4:], [-1.0, 0.0, 1.0])
    X[:, 0] = np.exp(X[:, 0])
    X[rng.choice(400, 90, replace=False)[:, None], rng.integers(0, 6, (90, 2))] = np.nan
    return CopulaImputer(2, random_state=0).fit(X), X


ASKED = {
    "transform": lambda m, X: [m.transform(X)],
    "mean": lambda m, X: [m.mean(X)],
    "interval": lambda m, X: list(m.interval(X)),
    "within": lambda m, X: [m.probability_within(X, 1)],
    "bound": lambda m, X: [m.probability_within(X, 1, bound=True)],
    "reliability": lambda m, X: [m.reliability(X)],
    "explained": lambda m, X: [m.reliability(X, "variance")],
}


@pytest.mark.parametrize("asked", ASKED)
def test_only_rows_with_gaps_are_solved(fitted, monkeypatch, asked):
    model, X = fitted
    monkeypatch.setattr(_predict, "HOLEY", -1.0)
    expected = ASKED[asked](model, X)
    monkeypatch.undo()
    seen, solve = [], _predict.solved_rows
    monkeypatch.setattr(_predict, "solved_rows", lambda X, m: seen.append(X) or solve(X, m))
    found = ASKED[asked](model, X)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert all(len(rows) == np.isnan(X).any(axis=1).sum() for rows in seen)
    assert seen


@pytest.mark.parametrize("asked", ASKED)
def test_tables_without_gaps(fitted, monkeypatch, asked):
    model, X = fitted
    whole = X[~np.isnan(X).any(axis=1)]
    found = ASKED[asked](model, whole)
    monkeypatch.setattr(_predict, "HOLEY", -1.0)
    for one, other in zip(found, ASKED[asked](model, whole), strict=True):
        np.testing.assert_array_equal(one, other)


def test_draws_are_of_the_same_law(fitted):
    """Means of draws of the gaps, within five standard errors of their conditional means."""
    model, X = fitted
    gone = np.isnan(X[:, 1])
    few = X[gone | np.isnan(X).any(axis=1)]
    gone = np.isnan(few[:, 1])
    tables = _predict.draws(X, model._point, 400, np.random.default_rng(0), clip=True)
    own = np.array([table[np.isnan(X[:, 1]), 1] for table in tables])
    alone = np.array(
        [t[gone, 1] for t in _predict.draws(few, model._point, 400, np.random.default_rng(1), clip=True)]
    )
    error = np.sqrt((own.var(axis=0) + alone.var(axis=0)) / 400)
    assert np.abs((own.mean(axis=0) - alone.mean(axis=0)) / error).max() < 5
    seen = ~np.isnan(X)
    assert all(np.array_equal(table[seen], X[seen]) and not np.isnan(table).any() for table in tables)


def test_sparse_tables_are_asked_as_they_are(fitted):
    model, X = fitted
    rows = sparse.coo_array((X[~np.isnan(X)], np.nonzero(~np.isnan(X))), X.shape).tocsr()
    found = _predict.impute(rows, model._point, clip=True)
    np.testing.assert_allclose(found, _predict.impute(X, model._point, clip=True), rtol=1e-9, atol=1e-12)


def test_cells_of_a_column_are_gathered(fitted, monkeypatch):
    model, X = fitted
    for size in (1, 7, 1 << 16):
        monkeypatch.setattr(_predict, "_TOGETHER", size)
        blocks = [X[a : a + 50] for a in range(0, 400, 50)]
        alone = [(gap, 50 * i) for i, part in enumerate(blocks) for gap in _predict.gaps(part, model._point)]
        cells = [replace(gap, rows=gap.rows + start) for gap, start in alone]
        found = list(_predict.gathered(iter(cells)))
        assert len(found) == (6 if size == 1 << 16 else len(found))
        assert len(found) < len(cells) or size == 1
        told = np.full((3, *X.shape), np.nan)
        for gap in found:
            told[:, gap.rows, gap.column] = gap.rows, gap.mean, gap.sd
        assert np.array_equal(np.isnan(told[0]), ~np.isnan(X))
        for gap in cells:
            assert np.array_equal(told[:, gap.rows, gap.column], [gap.rows, gap.mean, gap.sd])


def test_cells_with_a_law_of_their_own_are_not_gathered(fitted):
    model, X = fitted
    cells = [replace(gap, law=object()) for gap in _predict.gaps(X, model._point)]
    assert [id(gap) for gap in _predict.gathered(iter(cells * 2))] == [id(gap) for gap in cells * 2]
