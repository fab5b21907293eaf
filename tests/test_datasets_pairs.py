import numpy as np
import pytest

from colspace.datasets import _pairs as module
from colspace.datasets import load_gene_disease, make_pairs


def test_make_pairs_links_what_agrees(monkeypatch):
    A, B, Y, truth = make_pairs(400, 300, 8, 2, n_links=6, rng=0)
    assert (A.shape, B.shape, Y.shape) == ((400, 8), (300, 8), (400, 300))
    counts = np.diff(Y.indptr)
    assert counts.min() >= 1
    assert counts.mean() == pytest.approx(6, abs=0.5)
    spectrum = 3 / np.sqrt(np.arange(7, 9))
    u, v = A @ truth["left"] / spectrum, B @ truth["right"] / spectrum
    i, j = Y.tocoo().coords
    affinity = np.exp(-np.sum((u[i] - v[j]) ** 2, axis=1) / (2 * 0.5**2))
    np.testing.assert_allclose(Y.tocoo().data, affinity + 0.1, rtol=1e-8)
    everywhere = np.exp(-np.sum((u[:, None] - v) ** 2, axis=2) / 0.5)
    assert affinity.mean() > 4 * everywhere.mean()
    np.testing.assert_allclose(truth["left"].T @ truth["left"], np.eye(2), atol=1e-12)
    monkeypatch.setattr(module, "_CHUNK", 7 * 300)  # seven rows at a time
    again = make_pairs(400, 300, 8, 2, n_links=6, rng=0)
    np.testing.assert_array_equal(again.Y.indptr, Y.indptr)
    np.testing.assert_array_equal(again.Y.indices, Y.indices)
    with pytest.raises(ValueError, match="more than n_features"):
        make_pairs(10, 10, 2, 3)


def test_make_pairs_draws_by_agreement_and_popularity():
    def share_of_ten(**kw):
        """Of the links, those of the ten right entities that have most."""
        Y = make_pairs(500, 100, 4, 2, n_links=5, rng=0, **kw).Y
        return np.sort(np.bincount(Y.indices, minlength=100))[-10:].sum() / Y.nnz

    # a very wide kernel draws at random, a very narrow one the nearest
    assert share_of_ten(width=1e6, popularity=0.0) < 0.2
    assert share_of_ten(width=1e6, popularity=2.0) > 0.4
    spectrum = 3 / np.sqrt(np.arange(3, 5))
    for width in (1e6, 1e-3):
        A, B, Y, truth = make_pairs(200, 40, 4, 2, width=width, popularity=0.0, n_links=1, rng=0)
        u, v = A @ truth["left"] / spectrum, B @ truth["right"] / spectrum
        nearest = np.argmin(np.sum((u[:, None] - v) ** 2, axis=2), axis=1)
        if width > 1:
            assert np.mean(Y.indices == nearest) < 0.2
        else:
            np.testing.assert_array_equal(Y.indices, nearest)


@pytest.fixture
def arrays():
    return {
        "disease_id": ["1", "2", "3"],
        "disease_name": ["x", "y", "z"],
        "dsim_i": [0, 1],
        "dsim_j": [1, 2],
        "dsim_w": [0.5, 0.25],
        "gene_symbol": ["p", "q"],
        "ppi_i": [0],
        "ppi_j": [1],
        "assoc_d": [0, 2, 1],
        "assoc_g": [1, 0, 0],
        "assoc_disgenet_score": [0.3, np.nan, 0.9],
        "assoc_omim": [True, True, False],
    }


def test_load_gene_disease(arrays, tmp_path, monkeypatch):
    np.savez(tmp_path / "gene_disease.npz", **arrays)
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    data = load_gene_disease()
    np.testing.assert_array_equal(data.scores.toarray(), [[0, 0.3], [0.9, 0], [0, 0]])
    np.testing.assert_array_equal(data.omim.toarray(), [[0, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(
        data.disease_similarity.toarray(), [[0, 0.5, 0], [0.5, 0, 0.25], [0, 0.25, 0]]
    )
    np.testing.assert_array_equal(data.gene_network.toarray(), [[0, 1], [1, 0]])
    assert list(data.gene_symbol) == ["p", "q"]


def test_load_gene_disease_says_what_is_missing(arrays, tmp_path, monkeypatch):
    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"COLSPACE_DATA is not set.*dhimmel/disgenet"):
        load_gene_disease()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_gene_disease(tmp_path)
    np.savez(tmp_path / "gene_disease.npz", **{**arrays, "assoc_g": [1, 0, 7]})
    with pytest.raises(ValueError, match="assoc_g runs from 0 to 7, but there are 2"):
        load_gene_disease(tmp_path)
    arrays.pop("ppi_i")
    np.savez(tmp_path / "gene_disease.npz", **arrays)
    with pytest.raises(ValueError, match="no array 'ppi_i'"):
        load_gene_disease(tmp_path)
    assert set(module._ARRAYS) - set(arrays) == {"ppi_i"}
