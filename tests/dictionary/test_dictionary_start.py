"""Starts: against dense decompositions, scikit-learn's NMF, and rows that are repeated instead of weighted."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

from colspace.dictionary._objective import make_problem
from colspace.dictionary._start import leading_directions, nonnegative_factors


def problem(X, weight=None, **options):
    return make_problem(X, np.zeros((X.shape[0], 1)), weight=weight, **options)


@pytest.mark.parametrize("r", [2, 5])
def test_leading_directions_are_the_weighted_singular_vectors(rng_table, r):
    X, w = rng_table
    V, values = leading_directions(problem(X, w), r, np.random.default_rng(1))
    _, s, Vt = np.linalg.svd(np.sqrt(w)[:, None] * X, full_matrices=False)
    np.testing.assert_allclose(values, s[:r] ** 2, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.svd(Vt[:r] @ V)[1], 1.0, atol=1e-6)


@pytest.fixture
def rng_table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30)) * np.geomspace(10, 0.1, 30)
    return X, rng.integers(0, 4, 60).astype(float)


def error(X, W, H):
    return np.sum((X - H @ W.T) ** 2) / np.sum(X**2)


@pytest.mark.parametrize("r", [3, 10])
def test_nonnegative_factors_are_as_good_as_those_of_scikit_learn(r):
    X = load_digits().data[:500]
    W, H = nonnegative_factors(problem(X), r, np.random.default_rng(0))
    assert W.min() >= 0
    assert H.min() >= 0
    peer = NMF(r, init="nndsvda", max_iter=200, tol=1e-3).fit(X)
    assert error(X, W, H) < 1.03 * peer.reconstruction_err_**2 / np.sum(X**2)
    np.testing.assert_allclose(np.linalg.norm(W, axis=0), np.linalg.norm(H, axis=0))


def test_weights_count_as_repetitions_and_sparse_equals_dense():
    X = np.where((A := load_digits().data[:80]) > 8, A, 0.0)
    w = np.random.default_rng(3).integers(0, 4, 80)
    W, _ = nonnegative_factors(problem(X, w.astype(float)), 4, np.random.default_rng(0))
    again, _ = nonnegative_factors(problem(np.repeat(X, w, axis=0)), 4, np.random.default_rng(0))
    np.testing.assert_allclose(W, again, atol=1e-9)
    thin, _ = nonnegative_factors(problem(sparse.csr_array(X), w.astype(float)), 4, np.random.default_rng(0))
    np.testing.assert_allclose(W, thin, atol=1e-9)


def test_a_table_of_zeros_has_a_start():
    W, H = nonnegative_factors(problem(np.zeros((5, 4))), 2, np.random.default_rng(0))
    np.testing.assert_array_equal(H @ W.T, 0.0)
