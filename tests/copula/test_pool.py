"""Rubin's rules and the published bound."""

import numpy as np
import pytest

from colspace.copula import error_bound, pool


def test_pool_by_hand():
    found = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    assert found.estimate == 2.0
    assert found.standard_error == pytest.approx(np.sqrt(0.5 + 4 / 3))
    assert found.df == pytest.approx(2 * (1 + 0.5 / (4 / 3)) ** 2)
    same = pool([1.0, 1.0], [0.25, 0.25])
    assert same.standard_error == 0.5
    assert np.isinf(same.df)
    assert pool([1.0, 2.0, 3.0], [0.5] * 3, complete_df=20).df < found.df
    with pytest.raises(ValueError, match="at least two"):
        pool([1.0], [1.0])


def test_pool_with_few_degrees_of_freedom():
    found = pool([1.0, 2.0, 3.0], [0.5] * 3, complete_df=20)
    share = (4 / 3) / (0.5 + 4 / 3)
    seen = 21 / 23 * 20 * (1 - share)
    assert found.df == pytest.approx(1 / (share**2 / 2 + 1 / seen))


def test_error_bound_by_hand():
    W = np.array([[0.6, 0.3], [0.2, -0.7], [0.5, 0.5], [-0.4, 0.6]])
    s2, t = 0.4, -np.log(0.1)
    smallest = np.linalg.svd(W[:2])[1][-1] ** 2
    largest = np.linalg.svd(W[2:])[1][0] ** 2
    root = np.sqrt(1 + 0.6 / (s2 + smallest)) + np.sqrt((1 + largest / (s2 + smallest)) * 2 * t / 2)
    assert error_bound(W, s2, [1, 1, 0, 0], probability=0.9) == pytest.approx(s2 * root**2)


def test_error_bound_holds():
    """Theorem 3 with the true model: at most 5 % of rows may exceed the 95 % bound."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((30, 2))
    W *= np.sqrt(0.8) / np.linalg.norm(W, axis=1, keepdims=True)
    seen = np.arange(30) < 15
    t = rng.standard_normal((2000, 2))
    Z = t @ W.T + np.sqrt(0.2) * rng.standard_normal((2000, 30))
    A = W[~seen] @ np.linalg.solve(0.2 * np.eye(2) + W[seen].T @ W[seen], W[seen].T)
    error = np.mean((Z[:, ~seen] - Z[:, seen] @ A.T) ** 2, axis=1)
    bound = error_bound(W, 0.2, seen)
    assert np.mean(error > bound) <= 0.05
    assert bound < 10 * error.mean()
    assert error_bound(W, 0.2, seen, lipschitz=3.0) == pytest.approx(9 * bound)
    assert error_bound(W, 0.2, np.ones(30, dtype=bool)) == 0.0
    with pytest.raises(ValueError, match="between 0 and 1"):
        error_bound(W, 1.2, seen)
