import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.manifold import spectral_embedding

from colspace.pairs import _spectral, spectral_features


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    S = rng.random((60, 60)) * (rng.random((60, 60)) < 0.3)
    S = np.maximum(S, S.T) + 1e-3
    np.fill_diagonal(S, 0)
    return S


def test_against_eigenvectors_of_the_normalised_matrix(graph):
    D = np.diag(1 / np.sqrt(graph.sum(axis=1)))
    values, V = np.linalg.eigh(D @ graph @ D)
    V = V[:, np.argsort(-values)[:5]]
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    found = spectral_features(graph, 5)
    np.testing.assert_allclose(np.abs(found), np.abs(V), atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)


def test_against_scikit_learn_before_rows_are_scaled(graph):
    V = spectral_features(graph, 4, normalize=False)
    degree = graph.sum(axis=1)
    # scikit-learn gives D^-1/2 times the same eigenvectors, up to signs and scale
    theirs = spectral_embedding(graph, n_components=4, drop_first=False, random_state=0)
    ours = V / np.sqrt(degree)[:, None]
    for a, b in zip(ours.T, theirs.T, strict=True):
        assert abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b) == pytest.approx(1.0, abs=1e-6)


def test_sparse_solver_agrees_with_the_dense_one(graph, monkeypatch):
    dense = spectral_features(graph, 5)
    np.testing.assert_allclose(spectral_features(sparse.coo_matrix(graph), 5), dense, atol=1e-8)
    monkeypatch.setattr(_spectral, "_DENSE", 10)
    np.testing.assert_allclose(spectral_features(sparse.csr_array(graph), 5), dense, atol=1e-6)


def test_names(graph):
    names = [f"d{i}" for i in range(60)]
    found = spectral_features(pd.DataFrame(graph, index=names, columns=names), 3)
    assert list(found.index) == names
    np.testing.assert_allclose(found, spectral_features(graph, 3))
