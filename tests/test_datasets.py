import doctest
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from scipy.special import kve

from colspace import datasets
from colspace.datasets import (
    load_mnist,
    load_patchseq,
    make_additive,
    make_bilinear,
    make_even,
    make_multiple_response,
    make_rbf,
)

API = Path(__file__).parents[1] / "docs" / "api.md"


@pytest.mark.parametrize("make", [make_bilinear, make_rbf, make_even, make_additive])
def test_shapes_truth_and_seed(make):
    data = make(50, (6, 4), 2, rng=3)
    assert data.X.shape == (50, 10)
    assert data.blocks == {"a": slice(0, 6), "b": slice(6, 10)}
    for U in data.loadings.values():
        np.testing.assert_allclose(U.T @ U, np.eye(2), atol=1e-12)
    again = make(50, (6, 4), 2, rng=3)
    np.testing.assert_array_equal(data.X, again.X)
    np.testing.assert_array_equal(data.y, again.y)


def signals(data):
    return [data.X[:, data.blocks[b]] @ data.loadings[b] for b in "ab"]


def test_links():
    data = make_bilinear(4000, 5, 2, rng=0)
    u, v = signals(data)
    residual = data.y - np.sum(u * v, axis=1)
    assert abs(residual.var() - 1) < 4 * np.sqrt(2 / 4000)
    data = make_even(4000, 5, 2, rng=0)
    u, v = signals(data)
    assert abs((data.y - np.sum(u**2 * v**2, axis=1)).var() - 1) < 4 * np.sqrt(2 / 4000)
    data = make_additive(4000, 5, 1, rng=0)
    u, v = signals(data)
    residual = data.y - ((u - 1) ** 3 / 6 + 3 * np.tanh(v)).sum(axis=1)
    assert abs(residual.var() - 1) < 4 * np.sqrt(2 / 4000)
    data = make_rbf(20_000, 5, 2, rng=0)
    u, v = signals(data)
    mu = np.exp(-np.sum((u - v) ** 2, axis=1))
    assert set(np.unique(data.y)) == {0.0, 1.0}
    assert abs(np.mean(data.y - mu)) < 4 * 0.5 / np.sqrt(20_000)
    assert np.corrcoef(data.y, mu)[0, 1] > 0.3


@pytest.mark.parametrize(
    ("law", "low", "high"), [("uniform", -np.sqrt(3), np.sqrt(3)), ("poisson", -2, np.inf)]
)
def test_laws_have_mean_zero_and_variance_one(law, low, high):
    X = make_bilinear(40_000, 3, 1, law=law, rng=0).X
    assert np.abs(X.mean(axis=0)).max() < 5 / np.sqrt(40_000)
    assert np.abs(X.var(axis=0) - 1).max() < 0.05
    assert X.min() >= low
    assert X.max() <= high


def test_sparse_embeddings_and_correlation():
    data = make_bilinear(20_000, 10, 2, n_active=4, correlation=0.3, rng=0)
    assert {np.count_nonzero(U.any(axis=1)) for U in data.loadings.values()} == {4}
    A, B = data.X[:, :10], data.X[:, 10:]
    cross = A.T @ B / len(A)
    np.testing.assert_allclose(cross, 0.3 * np.eye(10), atol=5 / np.sqrt(20_000))


def test_errors():
    with pytest.raises(ValueError, match="law='cauchy' is unknown"):
        make_bilinear(10, 3, 1, law="cauchy")
    with pytest.raises(ValueError, match="n_components <= n_active <= features, got 3, 2, 5"):
        make_bilinear(10, 5, 3, n_active=2)
    with pytest.raises(ValueError, match="needs law='gaussian'"):
        make_bilinear(10, 5, 3, law="uniform", correlation=0.5)


@pytest.mark.parametrize("law", ["gaussian", "student", "hyperbolic"])
def test_multiple_response_laws(law):
    data = make_multiple_response(60_000, 4, 4, 2, law=law, rng=0)
    scale = 1.0
    if law == "hyperbolic":  # E[w] of GIG((p+1)/2, chi, psi), chi = 2p + 1, psi = p
        order, chi, psi = 2.5, 9.0, 4.0
        root = np.sqrt(chi * psi)
        scale = np.sqrt(chi / psi) * kve(order + 1, root) / kve(order, root)
    C = np.cov(data.X.T, bias=True)
    np.testing.assert_allclose(C, scale * data.dispersion, atol=0.06 * np.trace(C))
    kurtosis = np.mean(data.X[:, 0] ** 4) / np.mean(data.X[:, 0] ** 2) ** 2
    expected = {"gaussian": 3.0, "student": 4.0, "hyperbolic": None}[law]
    if expected is not None:  # t with 10 degrees of freedom: 3 (df - 2)/(df - 4)
        assert kurtosis == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("links", ["linear", "cyclic", "random"])
def test_multiple_responses_depend_on_the_directions_only(links):
    data = make_multiple_response(300, 6, 8, 2, links=links, noise=0.0, rng=1)
    np.testing.assert_allclose(data.directions.T @ data.directions, np.eye(2), atol=1e-12)
    U = data.X @ data.directions
    if links == "linear":
        assert np.linalg.matrix_rank(data.Y) == 2
    else:  # the first response is a_1' sin(u - 1)
        coefficients = np.linalg.lstsq(np.sin(U - 1), data.Y[:, 0], rcond=None)[0]
        np.testing.assert_allclose(np.sin(U - 1) @ coefficients, data.Y[:, 0], atol=1e-9)
        assert (coefficients >= 3).all()
    again = make_multiple_response(300, 6, 8, 2, links=links, noise=0.0, rng=1)
    np.testing.assert_array_equal(data.Y, again.Y)


def test_multiple_response_errors():
    with pytest.raises(ValueError, match="n_responses=5 must be even"):
        make_multiple_response(10, 4, 5)
    with pytest.raises(ValueError, match="law='cauchy' is unknown"):
        make_multiple_response(10, 4, 4, law="cauchy")
    with pytest.raises(ValueError, match="links='odd' is unknown"):
        make_multiple_response(10, 4, 4, links="odd")


@pytest.mark.parametrize("name", datasets.__all__)
def test_public_names_are_documented(name):
    member = getattr(datasets, name)
    assert inspect.getdoc(member)
    assert re.search(rf"(^   |`){name}(`|$)", API.read_text(), re.MULTILINE)
    if name.startswith("load_"):
        assert doctest.DocTestFinder().find(member, name)[0].examples


@pytest.fixture
def mnist(tmp_path):
    images = np.arange(3 * 16, dtype=np.uint8).reshape(3, 4, 4)
    labels = np.array([1, 2, 3])
    arrays = {"x_train": images, "y_train": labels, "x_test": images[:2], "y_test": labels[:2]}
    np.savez(tmp_path / "mnist.npz", **arrays)
    return arrays


@pytest.fixture
def patchseq(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "counts": rng.poisson(3.0, (6, 4)),
        "gene_var_rank": rng.permutation(4),
        "ephys": rng.standard_normal((6, 3)),
        "ephys_names": np.array(["a", "b", "c"]),
        "ephys_in16": np.array([True, False, True]),
    }
    np.savez(tmp_path / "m1_patchseq.npz", **arrays)
    return arrays


@pytest.mark.parametrize(("load", "which"), [(load_mnist, "mnist"), (load_patchseq, "patchseq")])
def test_loaders_read_the_folder(load, which, tmp_path, monkeypatch, request):
    arrays = request.getfixturevalue(which)
    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    found = [load(tmp_path), load(str(tmp_path))]
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    for data in (*found, load()):
        for name, values in arrays.items():
            np.testing.assert_array_equal(getattr(data, name), values)


@pytest.mark.parametrize(
    ("load", "file", "source"),
    [
        (load_mnist, "mnist.npz", r"fetch=True.*Keras"),
        (load_patchseq, "m1_patchseq.npz", r"Scala.*counts \(cells, genes\)"),
    ],
)
def test_missing_data_says_what_to_do(tmp_path, monkeypatch, load, file, source):
    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=f"{file}.*COLSPACE_DATA is not set.*{source}"):
        load()
    with pytest.raises(FileNotFoundError, match=f"{file} does not exist.*{source}.*folder="):
        load(tmp_path)
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"{file} does not exist"):
        load()
    np.savez(tmp_path / file, other=np.zeros(2))
    with pytest.raises(ValueError, match="has no array"):
        load()


def test_data_of_the_wrong_shape(mnist, patchseq, tmp_path):
    np.savez(tmp_path / "mnist.npz", **{**mnist, "y_test": mnist["y_test"][1:]})
    with pytest.raises(ValueError, match="x_test"):
        load_mnist(tmp_path)
    np.savez(tmp_path / "m1_patchseq.npz", **{**patchseq, "ephys": patchseq["ephys"][1:]})
    with pytest.raises(ValueError, match="one another's rows"):
        load_patchseq(tmp_path)


def test_mnist_is_fetched_only_when_asked_and_missing(mnist, tmp_path, monkeypatch):
    calls = []

    def fetch(name, **options):
        calls.append((name, options["data_home"]))
        data = np.zeros((70_000, 784), dtype=np.uint8)
        data[0, 28], data[60_000, 0] = 255, 7
        return SimpleNamespace(data=data, target=np.repeat(["5", "7"], [60_000, 10_000]))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    assert len(load_mnist(fetch=True).x_train) == 3
    assert not calls
    data = load_mnist(tmp_path / "elsewhere", fetch=True, data_home="cache")
    assert calls == [("mnist_784", "cache")]
    assert (data.x_train.shape, data.x_test.shape) == ((60_000, 28, 28), (10_000, 28, 28))
    assert (data.x_train[0, 1, 0], data.x_test[0, 0, 0], data.x_train.dtype) == (255, 7, np.uint8)
    assert set(data.y_train) == {5}
    assert set(data.y_test) == {7}


def test_failed_fetch_says_what_to_do(tmp_path, monkeypatch):
    def fetch(name, **options):
        msg = "no route"
        raise URLError(msg)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"mnist.npz.*not set.*could not be had.*no route.*folder="):
        load_mnist(fetch=True)
    with pytest.raises(FileNotFoundError, match=r"mnist.npz does not exist.*could not be had"):
        load_mnist(tmp_path, fetch=True)
