"""The automatic ridge where columns are many beside the rows."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss, r2_score

from colspace import SupervisedDictionaryClassifier, SupervisedDictionaryRegressor
from colspace.dictionary import _left_out
from colspace.dictionary._left_out import asked_ridge
from colspace.dictionary._losses import Logistic, Squared, one_hot
from colspace.dictionary._objective import make_problem


def problem_of(X, y, loss, **options):
    Z = options.pop("Z", np.zeros((X.shape[0], 0)))
    return make_problem(X, y, Z, loss=loss, model="filter", xi=1.0, l1=0.0, **options)


def counts(rng, n, p, length):
    """Rows of words from six topics, of which the first two tell the label."""
    topics, weights = rng.dirichlet(np.full(p, 0.1), 6), rng.dirichlet(np.full(6, 0.3), n)
    X = np.vstack([rng.multinomial(length, w @ topics) for w in weights]).astype(float)
    return X, (4 * (weights[:, 0] - weights[:, 1]) + rng.logistic(size=n) > 0).astype(int)


def brute(X, Y, ridge, weight):
    """Generalised cross-validation error by the smoother itself, intercept unpenalised, rows as often as they weigh."""
    rows = np.repeat(np.arange(len(X)), weight)
    X, Y = X[rows], Y[rows]
    n = len(X)
    centre = np.eye(n) - 1.0 / n
    A = centre @ X
    S = 1.0 / n + A @ np.linalg.solve(A.T @ A + ridge * np.eye(X.shape[1]), A.T)
    return np.sum((Y - S @ Y) ** 2) / (n - np.trace(S)) ** 2


def test_the_ridge_of_numbers_has_the_least_error_of_all_on_the_ladder():
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((40, 15)), rng.integers(1, 4, 40)
    Y = X[:, :2] @ rng.standard_normal((2, 2)) + 2.0 * rng.standard_normal((40, 2))
    found = asked_ridge(problem_of(X, Y, Squared(), weight=weight.astype(float)))
    best = brute(X, Y, found, weight)
    assert all(best <= brute(X, Y, found * factor, weight) for factor in (0.1, 0.5, 2.0, 10.0))
    again = np.repeat(np.arange(40), weight)
    assert_allclose(asked_ridge(problem_of(X[again], Y[again], Squared())), found)
    assert_allclose(asked_ridge(problem_of(7.0 * X, Y, Squared(), weight=weight.astype(float))), 49.0 * found)
    Z = X[:, 10:]
    assert_allclose(asked_ridge(problem_of(X[:, :10], Y, Squared(), Z=Z, weight=weight.astype(float))), found)


@pytest.mark.parametrize("told", [False, True])
def test_labels_ask_for_a_part_of_the_ridge_of_their_indicators(told):
    """Times p (1 - p) / 2, and a third, or the share of the variance that is left where that is less; whatever the means of the columns."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 10))
    codes = (rng.random(60) < 0.3).astype(int)
    X[:, 0] += 4.0 * told * codes
    Y = one_hot(codes, 2)
    ridge = asked_ridge(problem_of(X, Y, Squared()))
    total, p = 59, codes.mean()
    left = brute(X, Y, ridge, np.ones(60, dtype=int)) * total**2 / np.sum((Y - Y.mean(axis=0)) ** 2)
    assert (left < 0.3) == told
    found = asked_ridge(problem_of(X, Y, Logistic()))
    assert_allclose(found, ridge * p * (1 - p) / 2 * min(left, 1 / 3), rtol=1e-6)
    assert_allclose(asked_ridge(problem_of(X + 5.0, Y, Logistic())), found, rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 4])
def test_sparse_and_dense_rows_ask_the_same(classes):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.3, (90, 40)).astype(float)
    codes = (X[:, 0] + rng.integers(0, classes, 90)).astype(int) % classes
    loss = Logistic()
    Y = one_hot(codes, classes)
    dense, thin = (asked_ridge(problem_of(part, Y, loss)) for part in (X, sparse.csr_array(X)))
    assert dense > 0
    assert_allclose(dense, thin)


def test_nothing_is_asked_of_tall_tables_and_of_labels_that_nothing_tells():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 5))
    y = one_hot((X[:, 0] > 0).astype(int), 2)
    assert asked_ridge(problem_of(X, y, Logistic())) == 0.0
    assert asked_ridge(problem_of(X[:99], np.zeros((99, 1)), Squared())) == 0.0
    assert asked_ridge(problem_of(X[:99], X[:99, :1], Squared(), weight=np.full(99, 1e-3))) == 0.0


def test_a_sample_of_many_rows_asks_about_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 60))
    Y = X[:, :1] + 3.0 * rng.standard_normal((900, 1))
    all_rows = asked_ridge(problem_of(X, Y, Squared()))
    monkeypatch.setattr(_left_out, "_ROWS", 450)
    assert 0.2 < asked_ridge(problem_of(X, Y, Squared())) / all_rows < 5.0


def test_labels_of_short_texts_are_not_told_worse_than_by_no_words():
    lost, base = [], []
    for seed in range(5):
        X, y = counts(np.random.default_rng(seed), 600, 200, 6)
        model = SupervisedDictionaryClassifier(5, positive=True, random_state=0).fit(X[:400], y[:400])
        lost.append(log_loss(y[400:], model.predict_proba(X[400:])))
        base.append(log_loss(y[400:], np.full(200, y[:400].mean())))
    assert np.mean(lost) < np.mean(base)


def test_numbers_of_wide_tables_are_told_about_as_by_ridge():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 200))
    y = X[:, :5].sum(axis=1) + 2.0 * rng.standard_normal(300)
    found = SupervisedDictionaryRegressor(5, random_state=0).fit(X[:200], y[:200]).predict(X[200:])
    ridge = RidgeCV(np.logspace(-2, 5, 29)).fit(X[:200], y[:200]).predict(X[200:])
    assert r2_score(y[200:], found) > r2_score(y[200:], ridge) - 0.05


@pytest.mark.parametrize("options", [{}, {"solver": "bcd"}])
def test_dask_takes_the_ridge_of_memory(options):
    X, y = counts(np.random.default_rng(0), 160, 60, 20)
    model = SupervisedDictionaryClassifier(3, random_state=0, max_iter=500, **options)
    here, there = model.fit(X, y).l2_, model.fit(da.from_array(X, chunks=(60, 60)), y).l2_
    assert here > 0.011 * np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1))
    assert_allclose(here, there)
