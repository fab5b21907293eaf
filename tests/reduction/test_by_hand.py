"""Stein's method and sOLS against their formulas on full matrices, for wide and tall tables."""

import warnings

import numpy as np
import pytest

from colspace import SteinReduction, SteinReductionCV, StructuredOLS
from colspace.reduction._rrr import response_root
from colspace.reduction._stein_fit import inverse_root
from colspace.scores import GaussianScore


def table(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns)) @ (
        np.eye(columns) + 0.5 * rng.standard_normal((columns, columns))
    )
    X *= 10.0 ** rng.uniform(-1, 1, columns)
    Y = np.column_stack([X[:, 0] / X[:, 0].std(), X[:, 1] / X[:, 1].std()]) + rng.standard_normal((rows, 2))
    return X, Y


def root(C, power):
    values, vectors = np.linalg.eigh(C)
    return (vectors * values**power) @ vectors.T


@pytest.mark.parametrize("columns", [4, 50])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("ridge", [2.0, np.inf])
@pytest.mark.parametrize("whiten", [True, False])
def test_first_order_by_hand(columns, standardize, ridge, whiten):
    X, Y = table(40, columns)
    model = SteinReduction(
        1,
        score_model=GaussianScore(ridge=ridge),
        standardize=standardize,
        whiten=whiten,
        whiten_response=False,
    ).fit(X, Y)
    scale = X.std(axis=0) if standardize else np.ones(columns)
    Z = (X - X.mean(axis=0)) / scale
    C = Z.T @ Z / 40
    unit = np.diag(C).mean()  # one for standardised columns
    law = unit * np.eye(columns) if np.isinf(ridge) else C + ridge * unit * np.eye(columns)
    first = np.linalg.solve(law, Z.T @ (Y - Y.mean(axis=0)) / 40)
    if whiten and np.isinf(ridge):
        if columns == 50:
            return  # the metric is singular, and is inverted on its range
        law = C
    metric = root(law, 0.5) if whiten else np.eye(columns)
    U, s, _ = np.linalg.svd(metric @ first)
    direction = (np.linalg.solve(metric, U[:, 0])) / scale
    np.testing.assert_allclose(model.singular_values_, s[:1], rtol=1e-8)
    sign = np.sign(direction @ model.components_[0])
    np.testing.assert_allclose(model.components_[0], sign * direction, atol=1e-8 * np.abs(direction).max())


def test_ridges_of_folds_are_in_units_of_the_columns():
    X, Y = table(60, 4)
    options = {"standardize": False, "whiten": False, "unlabeled_weight": 0.0}
    folds = [(np.arange(40), np.arange(40, 60))]
    found = SteinReductionCV(1, ridges=(0.5,), cv=folds, standardize=False).fit(X, Y[:, 0])
    y = np.where(np.arange(60) < 40, Y[:, 0], np.nan)
    Z = SteinReduction(1, score_model=GaussianScore(ridge=0.5), **options).fit(X, y).transform(X)
    line = np.polyfit(Z[:40, 0], Y[:40, 0], 1)
    error = np.mean((Y[40:, 0] - np.polyval(line, Z[40:, 0])) ** 2) / Y[:, 0].var()
    np.testing.assert_allclose(found.cv_errors_, [[error]], rtol=1e-8)


def test_weight_of_the_unlabelled_rows_and_map_of_the_responses():
    X, Y = table(80, 3)
    for labelled, weight in ((9, 1.0), (10, 0.3)):
        y = np.where(np.arange(80)[:, None] < labelled, Y, np.nan)
        assert SteinReduction(1, score_model="gaussian").fit(X, y).unlabeled_weight_ == weight
    for rows, same in ((29, False), (30, True)):
        plain, whitened = (
            SteinReduction(2, whiten_response=w).fit(X[:rows], Y[:rows]).singular_values_
            for w in ("auto", True)
        )
        assert np.allclose(plain, whitened) == same


def test_roots_are_taken_on_the_range():
    np.testing.assert_allclose(inverse_root(np.diag([1.0, 1e-8])), np.diag([1.0, 1e4]))
    np.testing.assert_allclose(inverse_root(np.diag([1.0, 1e-14])), np.diag([1.0, 0.0]))
    near = 1.0 - 1e-14
    with pytest.raises(ValueError, match="which is singular"):
        response_root(np.array([[1.0, near], [near, 1.0]]))
    near = 1.0 - 1e-9
    L = response_root(np.array([[4.0, 2.0 * near], [2.0 * near, 1.0]]))
    np.testing.assert_allclose(L @ L.T, [[4.0, 2.0 * near], [2.0 * near, 1.0]])


@pytest.mark.parametrize("columns", [6, 50])
@pytest.mark.parametrize("grouped", [False, True])
def test_structured_least_squares_by_hand(columns, grouped):
    X, Y = table(40, columns, seed=1)
    half = columns // 2
    blocks = {"b": slice(half, columns), "a": slice(0, half)}
    groups = np.repeat([0, 1], 20)
    model = StructuredOLS(1, blocks=blocks, shrinkage=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y, groups=groups if grouped else None)
    V = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    Z = X - X.mean(axis=0)
    cross = Z.T @ V / 40
    if grouped:
        means = np.repeat([X[:20].mean(axis=0), X[20:].mean(axis=0)], 20, axis=0)
        Z = X - means
        parts = [(Z[g].T @ (V[g] - V[g].mean(axis=0))) / 40 for g in (slice(0, 20), slice(20, 40))]
        cross = np.hstack(parts)
    # the span divides by deviations of all rows, the table by those within groups
    scale = X.std(axis=0) if columns == 50 else Z.std(axis=0)
    R = 0.7 * (Z / scale).T @ (Z / scale) / 40 + 0.3 * np.eye(columns)
    beta = np.linalg.solve(R, cross / scale[:, None])
    for name, s in blocks.items():
        values = np.linalg.eigvalsh(beta[s].T @ R[s, s] @ beta[s])
        np.testing.assert_allclose(model.singular_values_[name], np.sqrt(values[-1:]), rtol=1e-8)
