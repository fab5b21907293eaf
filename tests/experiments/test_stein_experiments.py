import csv
import importlib
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rich.console import Console
from sklearn.datasets import load_digits

from colspace import SteinReduction, experiments
from colspace._response import HeavyTailWarning
from colspace.datasets import load_patchseq
from colspace.experiments import _stein_sim, demo, stein_fig2, stein_mnist, stein_patchseq, stein_s
from colspace.metrics import subspace_distance

SIMULATIONS = ("stein-fig2", "stein-s")
REAL = {"stein-mnist": 5, "stein-patchseq": 9}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Tiny files of the same keys, and tiny sizes of the experiments that read them."""
    rng = np.random.default_rng(0)
    cells, genes, features = 130, 40, 5
    hidden = rng.standard_normal((cells, 3))
    rates = np.exp(
        2 + hidden @ rng.standard_normal((3, genes)) / 2 + 0.3 * rng.standard_normal((cells, genes))
    )
    ephys = hidden @ rng.standard_normal((3, features)) + 0.5 * rng.standard_normal((cells, features))
    np.savez(
        tmp_path / "m1_patchseq.npz",
        counts=rng.poisson(rates),
        gene_var_rank=rng.permutation(genes),
        ephys=ephys.astype(np.float32),
        ephys_names=[f"e{i}" for i in range(features)],
        ephys_in16=np.array([True, True, True, True, False]),
    )
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8) * 15).astype(np.uint8)
    parts = {
        "x_train": images[:300],
        "y_train": labels[:300],
        "x_test": images[300:400],
        "y_test": labels[300:400],
    }
    np.savez(tmp_path / "mnist.npz", **parts)
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    monkeypatch.setattr(stein_mnist, "SIZES", {True: stein_mnist.Size((4, 5), 200, 80, 5, 1, 2)})
    monkeypatch.setattr(stein_mnist, "find_spec", lambda name: None)
    for name, value in {
        "GENES": 30,
        "TEST": 30,
        "LABELS": (10, 15, 20),
        "DIMENSIONS": {True: (2, 3)},
        "REPETITIONS": {True: 2},
        "TUNED": {True: 1},
    }.items():
        monkeypatch.setattr(stein_patchseq, name, value)
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(stein_fig2, "WIDTH", 6)
    monkeypatch.setattr(stein_fig2, "LINKS", ("linear", "cyclic"))
    monkeypatch.setattr(stein_fig2, "REPETITIONS", {True: 2})
    monkeypatch.setattr(stein_s, "WIDTHS", (5, 8))
    monkeypatch.setattr(stein_s, "LINKS", ("cyclic",))
    monkeypatch.setattr(stein_s, "REPETITIONS", {True: 2})
    for module in (stein_fig2, stein_s):
        monkeypatch.setattr(module, "ROWS", {True: (200, 800)})
    monkeypatch.setattr(_stein_sim, "find_spec", lambda name: None)
    monkeypatch.setattr(stein_fig2, "LAWS", ("gaussian", "student"))


def written(folder, name):
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_experiment_is_registered_and_described():
    for name in (*SIMULATIONS, *REAL):
        assert importlib.import_module(experiments.EXPERIMENTS[name]).run
        assert "Stein" in experiments.describe(name)


@pytest.mark.parametrize("name", sorted(SIMULATIONS))
def test_simulations_write_what_they_return(small, tmp_path, name):
    result = experiments.run(name, quick=True, out=tmp_path, rng=1)
    lines = {"stein-fig2": 2 * 3 + 2 * 5, "stein-s": 2 * 3 * 5}[name]
    assert len(result.summary) == lines
    assert len(result.rows) == 2 * lines
    for row in result.rows:
        assert 0 < row["lower_quartile"] <= row["median"] <= row["upper_quartile"] <= np.sqrt(6)
        assert row["se"] >= 0
        assert row["rate_se"] >= 0
        assert ("rate_in_p" in row) == (name == "stein-s")
    assert result.size.startswith("2 repetitions")
    assert result.path.read_bytes()[:4] == b"\x89PNG"
    medians = [float(row["median"]) for row in written(tmp_path, name)]
    assert_allclose(medians, [row["median"] for row in result.rows])
    again = experiments.run(name, quick=True, rng=1)
    assert again.rows == result.rows
    assert again.path is None


def test_published_sizes_of_the_simulations():
    assert len(stein_fig2.settings()) == 9
    assert len(stein_s.settings()) == 36


def test_error_of_a_median_is_that_of_repeated_draws():
    draws = np.random.default_rng(0).exponential(size=(300, 41))
    errors = [_stein_sim.median_error(values) for values in draws]
    assert_allclose(np.mean(errors), np.median(draws, axis=1).std(), rtol=0.15)
    assert _stein_sim.median_error([2.0]) == 0


def test_where_one_method_overtakes_another():
    n, one = (100, 400, 1600), np.ones(3)
    assert _stein_sim.overtaking(n, [0.5, 0.4, 0.3], one, one)[0] == 100
    assert _stein_sim.overtaking(n, [2, 1.5, 1.2], one, one)[0] == np.inf
    assert _stein_sim.overtaking(n, [0.5, 2.0, 0.5], one, one)[0] == 800  # for good
    assert _stein_sim.overtaking(n, [1, 1, 0.5], one, one)[0] == 400
    rng, error = np.random.default_rng(0), 0.05
    drawn = [
        _stein_sim.overtaking(n[:2], np.exp([0.7, -0.7] + error * rng.standard_normal(2)), one[:2], one[:2])[
            0
        ]
        for _ in range(2000)
    ]
    stated = _stein_sim.overtaking(n[:2], np.exp([0.7, -0.7]), one[:2], [error, error])[1]
    assert 1 <= stated / np.std(drawn) <= 1.6  # the larger error at both ends: not too small


def test_rates_in_columns(monkeypatch):
    settings = [_stein_sim.Setting("gaussian", "linear", p) for p in (4, 8)]
    none = _stein_sim.Networks(0, ())
    lines = _stein_sim.measure(settings, (300, 600), 3, 0, title="x", progress=False, networks=none)
    rows = _stein_sim.rows_of(lines)
    for row in rows:
        here = {r["p"]: r["median"] for r in rows if (r["method"], r["n"]) == (row["method"], row["n"])}
        assert_allclose(row["rate_in_p"], np.log2(here[8] / here[4]))


def test_default_first_order_beats_the_published_one():
    setting = _stein_sim.Setting("student", "cyclic", 10)
    found = [_stein_sim.distances(setting, 2_000, seed) for seed in range(5)]
    median = {name: np.median([f[name] for f in found]) for name in found[0]}
    assert median["first order, default"] < 0.5 * median["first order, published"]
    assert median["second order, ranks"] < median["second order, published"]


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_data_experiments_write_what_they_return(data, tmp_path, name):
    with warnings.catch_warnings():
        # too few cells, and too few passes, for anything to be determined
        warnings.filterwarnings("ignore", "no gap after component", UserWarning)
        result = experiments.run(name, quick=True, out=tmp_path / "new", rng=3)
        again = experiments.run(name, quick=True, rng=3)
    methods = {row["method"] for row in result.rows}
    assert len(methods) == REAL[name]
    per_method = {"stein-mnist": 2, "stein-patchseq": 3 * 2}[name]
    assert result.size
    assert len(result.rows) == per_method * REAL[name]
    assert result.path.read_bytes()[:4] == b"\x89PNG"
    measure = {"stein-mnist": "nrse", "stein-patchseq": "pmse"}[name]
    assert all(row[measure] > 0 for row in result.rows)
    assert_allclose(
        [float(row[measure]) for row in written(tmp_path / "new", name)],
        [row[measure] for row in result.rows],
    )
    assert again.rows == result.rows
    if name == "stein-mnist":
        assert any("Without torch" in note for note in result.notes)
        assert any("held-out training images" in note for note in result.notes)
        pca = [row for row in result.rows if row["method"] == stein_mnist.BASE]
        assert [(row["nrse_minus_pca"], row["runs"]) for row in pca] == [(0.0, 2), (0.0, 2)]


def test_published_sizes_on_real_data():
    assert stein_mnist.SIZES[False].dimensions == (10, 14, 18)
    assert stein_mnist.SIZES[True].train == stein_mnist.SIZES[False].train == 10_000
    assert stein_patchseq.DIMENSIONS[False] == (4, 5, 6, 7, 8)
    assert stein_patchseq.LABELS == (50, 75, 100)
    assert stein_patchseq.TEST == 213


def test_patchseq_kernel_directions_are_those_of_the_estimator(data):
    X, Y = stein_patchseq.prepare(load_patchseq())
    assert X.shape == (130, 30)
    assert_allclose([X.mean(), Y.mean(), X.std(), Y.std()], [0, 0, 1, 1], atol=1e-10)
    labelled = np.arange(len(X)) >= 30
    partial = np.where(labelled[:, None], Y, np.nan)
    plain = {"score_model": stein_patchseq._kernel(), "whiten": False, "whiten_response": False}
    plain["standardize"] = False
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*times the kernel's largest eigenvalue", UserWarning)
        warnings.filterwarnings("ignore", "no gap after component", UserWarning)
        warnings.simplefilter("ignore", HeavyTailWarning)
        found = stein_patchseq.kernel_directions(X, Y, labelled, 3)
        expected = {
            "unsupervised": SteinReduction(3, **plain).fit(X),
            "supervised": SteinReduction(3, **plain).fit(X[labelled], Y[labelled]),
            "semi-supervised, printed": SteinReduction(3, unlabeled_weight="paper", **plain).fit(X, partial),
            "semi-supervised, weight 0.3": SteinReduction(3, unlabeled_weight=0.3, **plain).fit(X, partial),
        }
    assert set(found) == set(expected)
    for name, model in expected.items():
        assert subspace_distance(model.components_.T, found[name]) < 1e-6, name


def test_differences_are_taken_split_by_split():
    table = {("PCA", 50, 4): [4.0, 6.0, 9.0], ("unsupervised", 50, 4): [3.0, 6.0, 7.0]}
    table |= {("supervised", 50, 4): [1.0, 1.0, 1.0], ("few", 50, 4): [5.0, 5.0]}
    rows = {row["method"]: row for row in stein_patchseq.tabulate(table)}
    assert (rows["unsupervised"]["pmse"], rows["unsupervised"]["minus_PCA"]) == (6.0, -1.0)
    assert_allclose(rows["unsupervised"]["minus_PCA_se"], 1 / np.sqrt(3))
    assert (rows["few"]["minus_PCA"], rows["few"]["minus_PCA_se"], rows["few"]["splits"]) == (0.0, 1.0, 2)
    assert rows["PCA"]["minus_supervised"] == 16 / 3


def test_mnist_differences_are_from_both_decoders():
    values = np.array([[0.5, 0.8, 0.9], [0.7, 0.6, 0.9]])
    bases = {stein_mnist.BASE: values - [[0.1, 0.1, 0.0], [0.3, 0.1, 0.0]], stein_mnist.LINEAR: values + 0.25}
    row = stein_mnist.tabulate(10, "x", values, bases)
    assert_allclose([row["nrse"], row["ssim"], row["accuracy"]], [0.6, 0.7, 0.9])
    assert_allclose([row["nrse_minus_pca"], row["nrse_minus_pca_se"]], [0.2, 0.1])
    assert_allclose([row["ssim_minus_linear"], row["ssim_minus_linear_se"]], [-0.25, 0], atol=1e-12)


def test_mnist_directions_are_nested(data):
    size = stein_mnist.SIZES[True]
    images = stein_mnist.draw_images(size, 0)
    assert images.side == 8
    many = stein_mnist.encoders(images, size, 0, 1.0, 10.0)
    few = stein_mnist.encoders(images, replace(size, dimensions=(4,)), 0, 1.0, 10.0)
    for name, components in few.items():
        assert subspace_distance(components.T, many[name][:4].T) < 1e-6, name
    smooth = many["first order, kernel, validated"]
    assert subspace_distance(smooth[:4].T, many["PCA"][:4].T) < 0.3


def test_mnist_choices_see_training_images_only(data, monkeypatch):
    size = stein_mnist.SIZES[True]
    images = stein_mnist.draw_images(size, 0)
    blind = replace(images, X_test=np.full_like(images.X_test, np.nan), y_test=None)
    assert stein_mnist.validated(blind, size, 0) == stein_mnist.validated(images, size, 0)
    target = {0.1: 1.0, 100.0: 1.0}  # the one candidate that decodes perfectly is taken
    monkeypatch.setattr(
        stein_mnist, "kernel_directions", lambda X, size, value, seed: np.full((5, 64), value)
    )
    monkeypatch.setattr(stein_mnist, "second_directions", lambda X, size, value: np.full((5, 64), value))
    monkeypatch.setattr(stein_mnist, "decode", lambda Z, X, Z_new, h, epochs, seed: Z_new)
    errors = iter([target.get(value, 2.0) for value in (*stein_mnist.REGULARIZATIONS, *stein_mnist.RIDGES)])
    monkeypatch.setattr(stein_mnist, "nrse", lambda X, decoded: next(errors))
    assert stein_mnist.validated(images, size, 0) == (0.1, 100.0)


def test_network_rival_finds_directions_and_trains_tables_apart():
    pytest.importorskip("torch")
    setting = _stein_sim.Setting("gaussian", "linear", 5)
    data = [_stein_sim.simulate(setting, 400, seed) for seed in (0, 1)]
    X, Y, B = (np.stack(arrays) for arrays in zip(*data, strict=True))
    start, found = (_stein_sim.network_directions(X, Y, 3, 0, epochs) for epochs in (0, 10))
    for i in range(2):
        assert_allclose(found[i].T @ found[i], np.eye(3), atol=1e-10)
        assert subspace_distance(B[i], found[i]) < 0.6 * subspace_distance(B[i], start[i])
    changed = _stein_sim.network_directions(X, np.stack([Y[0], -Y[1]]), 3, 0, 10)
    assert_allclose(changed[0], found[0], atol=1e-4)
    assert not np.allclose(changed[1], found[1], atol=1e-2)


def test_network_line_of_fig2():
    pytest.importorskip("torch")
    settings = [_stein_sim.Setting("gaussian", links, p) for links in ("linear", "cyclic") for p in (4, 5)]
    rows = (100, 300)
    plain, more, last = (
        _stein_sim.measure(
            settings,
            rows,
            2,
            0,
            title="x",
            progress=False,
            networks=_stein_sim.Networks(repetitions, places, 1),
        )
        for repetitions, places in ((0, ()), (1, rows), (2, (300,)))
    )
    assert len(more) == len(plain) + 4
    rival = [line for line in more if line.method == _stein_sim.NETWORK]
    assert [(line.setting, line.n, line.repetitions) for line in rival] == [(s, rows, 1) for s in settings]
    rest = [line for line in more if line.method != _stein_sim.NETWORK]
    for ours, theirs in zip(rest, plain, strict=True):
        assert (ours.setting, ours.method) == (theirs.setting, theirs.method)
        assert_allclose(ours.quartiles, theirs.quartiles)
    few = [row for row in _stein_sim.rows_of(last) if row["method"] == _stein_sim.NETWORK]
    assert [(row["n"], row["repetitions"]) for row in few] == [(300, 2)] * 4


def test_mnist_autoencoder_learns(data):
    pytest.importorskip("torch")
    images = stein_mnist.draw_images(stein_mnist.SIZES[True], 0)
    untrained, trained = (
        stein_mnist.measures(images, *stein_mnist.autoencode(images, 4, epochs, 0))[0] for epochs in (1, 60)
    )
    assert trained < 0.9 * untrained


def test_demo_with_few_labels(tmp_path, monkeypatch):
    X, y = load_digits(return_X_y=True)
    rows = demo.few_labels(X, y, dimensions=(5, 10), splits=3)
    found = {(row["reduction"].split(",")[-1].strip(), row["components"]): row["accuracy"] for row in rows}
    accuracy = {key: float(text.split()[0]) for key, text in found.items()}
    assert accuracy["cross-validated", 10] > max(accuracy["PLS", 10], accuracy["PCA", 10])
    assert ("LDA", 5) in accuracy
    assert ("LDA", 10) not in accuracy
    console = Console(record=True, width=120)
    monkeypatch.setattr(demo, "few_labels", lambda X, y, splits: rows)
    demo.labels_section(tmp_path, console)
    assert "200 labelled" in console.export_text()
