"""Protocols of the experiments: what is tested never reaches training, labels that say nothing give chance, draws are apart."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from colspace import datasets, experiments
from colspace.experiments import (
    _core,
    _stein_sim,
    copula_reliability,
    copula_synthetic,
    jdr_fig1,
    stein_fig2,
    stein_mnist,
    stein_patchseq,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SETTINGS = ("continuous, low rank", "ordinal, high SNR")


# ---------------------------------------------------------------- joint reduction: no truth, no shared draws


def _point(**estimators):
    return _core.Point(
        1.0, "make_bilinear", {"n_samples": 1000, "n_features": 8, "n_components": 2}, estimators
    )


def _planted(monkeypatch, change):
    """The generator with its answer (X, y, blocks, truth) changed; gives what was drawn."""
    drawn, plain = [], datasets.make_bilinear

    def make(*arguments, **options):
        found = change(*plain(*arguments, **options))
        drawn.append(found)
        return found

    monkeypatch.setattr(datasets, "make_bilinear", make)
    return drawn


def test_joint_estimators_do_not_see_the_truth(monkeypatch):
    """With another truth given out the directions stay as they are: they are compared, and nothing else."""
    seen, seed = [], np.random.SeedSequence(0)
    point = _point(plain=({}, {"moments": "joint"}))
    monkeypatch.setattr(_core, "nsee", lambda truth, found: seen.append(found) or 0.0)
    _core.point_errors(point, seed)
    _planted(monkeypatch, lambda X, y, blocks, truth: (X, y, blocks, {b: -U[::-1] for b, U in truth.items()}))
    _core.point_errors(point, seed)
    for block in seen[0]:
        np.testing.assert_array_equal(seen[0][block], seen[1][block])


def test_a_permuted_response_gives_chance(monkeypatch):
    """Directions of noise are random: two of eight, so that E[d^2]/r = 1 - 2/8."""
    estimators = {"plain": ({}, {"moments": "joint"}), "auto": ({}, {})}
    honest = _core.point_errors(_point(**estimators), np.random.SeedSequence(1))
    _planted(
        monkeypatch, lambda X, y, blocks, truth: (X, np.random.default_rng(7).permutation(y), blocks, truth)
    )
    found = [_core.point_errors(_point(**estimators), np.random.SeedSequence(s)) for s in range(2)]
    for name in estimators:
        assert np.mean([errors[name] for errors in found]) > 0.75
        assert honest[name] < 0.35


def test_every_point_and_repetition_of_a_figure_has_rows_of_its_own(monkeypatch):
    drawn = _planted(monkeypatch, lambda *found: found)
    grid = replace(
        jdr_fig1.QUICK[0], rows=(300, 600), rows_width=7, widths=(7, 9), widths_rows=300, selection_rows=(300, 600),
        selection_width=9, selection_size=6, sizes=(6, 7), sizes_rows=300,
    )  # fmt: skip
    monkeypatch.setattr(jdr_fig1, "QUICK", (grid,))
    monkeypatch.setattr(jdr_fig1, "REPETITIONS", {True: 2})
    experiments.run("jdr-fig1", quick=True, rng=5)
    first = {found[0][0, 0] for found in drawn}
    assert len(first) == len(drawn) == 4 * 2 * 2
    drawn.clear()
    experiments.run("jdr-fig1", quick=True, rng=6)
    assert not first & {found[0][0, 0] for found in drawn}


# ---------------------------------------------------------------- Stein


def test_stein_simulations_compare_with_the_truth_alone(monkeypatch):
    seen, plain = [], _stein_sim.simulate
    setting = _stein_sim.Setting("gaussian", "cyclic", 6)
    monkeypatch.setattr(_stein_sim, "procrustes_distance", lambda B, found: seen.append(found) or 0.0)
    names = list(_stein_sim.distances(setting, 300, 0))
    monkeypatch.setattr(
        _stein_sim, "simulate", lambda *a: (*plain(*a)[:2], np.random.default_rng(7).standard_normal((6, 3)))
    )
    _stein_sim.distances(setting, 300, 0)
    for one, other in zip(seen[: len(names)], seen[len(names) :], strict=True):
        np.testing.assert_array_equal(one, other)


def test_draws_of_the_stein_figure_are_apart(monkeypatch):
    drawn, plain = [], _stein_sim.make_multiple_response

    def make(*arguments, **options):
        found = plain(*arguments, **options)
        drawn.append(next(iter(found))[0, 0])
        return found

    monkeypatch.setattr(_stein_sim, "make_multiple_response", make)
    for name, value in {"WIDTH": 5, "LINKS": ("linear", "cyclic"), "LAWS": ("gaussian",)}.items():
        monkeypatch.setattr(stein_fig2, name, value)
    monkeypatch.setattr(_stein_sim, "find_spec", lambda name: None)
    for name, value in {"REPETITIONS": {True: 2}, "ROWS": {True: (200, 400)}}.items():
        monkeypatch.setattr(stein_fig2, name, value)
    experiments.run("stein-fig2", quick=True, rng=0)
    assert len(drawn) == len(set(drawn)) == 2 * 2 * 2


@pytest.fixture
def cells(monkeypatch):
    """Standardised genes and features of made-up cells, and small sizes."""
    monkeypatch.setattr(stein_patchseq, "TEST", 40)
    monkeypatch.setattr(stein_patchseq, "LABELS", (20, 30))
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((240, 3))
    X = hidden @ rng.standard_normal((3, 15)) + 0.5 * rng.standard_normal((240, 15))
    Y = hidden @ rng.standard_normal((3, 4)) + 0.5 * rng.standard_normal((240, 4))
    return tuple((A - A.mean(axis=0)) / A.std(axis=0) for A in (X, Y))


def _splits(monkeypatch, X, Y):
    """Errors of one split, and the directions behind them."""
    kept, plain = [], stein_patchseq.directions
    monkeypatch.setattr(
        stein_patchseq, "directions", lambda *a, **kw: kept.append(plain(*a, **kw)) or kept[-1]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        errors = stein_patchseq.split_errors(X, Y, (2,), 0)
    monkeypatch.setattr(stein_patchseq, "directions", plain)
    return errors, {name: by_width[2] for name, by_width in kept[0].items()}


def test_cells_tested_and_read_out_do_not_reach_the_directions(cells, monkeypatch):
    """Tested cells poisoned: no direction moves. Features of read-out cells poisoned: none does either, but every error."""
    X, Y = cells
    errors, found = _splits(monkeypatch, X, Y)
    order = np.random.default_rng(0).permutation(len(X))
    test, read = order[:40], order[40 : 40 + 30]
    poisoned, strange = X.copy(), Y.copy()
    poisoned[test], strange[test] = 1e3 * np.random.default_rng(7).standard_normal((40, 15)), 1e3
    moved, again = _splits(monkeypatch, poisoned, strange)
    for name in found:
        np.testing.assert_array_equal(found[name], again[name])
    assert all(moved[key] > 10 * errors[key] for key in errors)
    strange = Y.copy()
    strange[read] = 1e3
    moved, again = _splits(monkeypatch, X, strange)
    for name in found:
        np.testing.assert_array_equal(found[name], again[name])
    assert all(moved[key] > 10 * errors[key] for key in errors)


def test_splits_of_cells_are_apart_over_repetitions_and_seeds(cells, monkeypatch):
    """Seeds 0 and 1 share no split: their medians are independent."""
    drawn = []

    def split(X, Y, dimensions, seed, ours, tuned):
        drawn.append(tuple(np.random.default_rng(seed).permutation(len(X))))
        return {(name, 20, 2): float(len(drawn)) for name in stein_patchseq.RIVALS}

    monkeypatch.setattr(stein_patchseq, "load_patchseq", lambda: None)
    monkeypatch.setattr(stein_patchseq, "prepare", lambda data: cells)
    monkeypatch.setattr(stein_patchseq, "split_errors", split)
    monkeypatch.setattr(stein_patchseq, "REPETITIONS", {True: 4})
    for seed in (0, 1):
        experiments.run("stein-patchseq", quick=True, rng=seed)
    assert len(set(drawn)) == len(drawn) == 2 * 4


def test_permuted_features_of_cells_give_chance(cells, monkeypatch):
    X, Y = cells
    honest, _ = _splits(monkeypatch, X, Y)
    errors, _ = _splits(monkeypatch, X, np.random.default_rng(7).permutation(Y))
    assert min(errors.values()) > 0.85 * 4  # four features of unit variance
    assert np.median(list(honest.values())) < 0.75 * 4


@pytest.fixture
def digits():
    pixels, labels = load_digits(return_X_y=True)
    return stein_mnist.Images(pixels[:300] / 16, labels[:300], pixels[300:500] / 16, labels[300:500])


def test_digits_tested_do_not_reach_directions_choices_or_decoders(digits, monkeypatch):
    monkeypatch.setattr(stein_mnist, "find_spec", lambda name: None)
    size = stein_mnist.Size((4,), 300, 80, 3, 1, 1)
    blind = replace(
        digits,
        X_test=np.random.default_rng(7).random(digits.X_test.shape),
        y_test=np.random.default_rng(7).permutation(digits.y_test),
    )
    one, other = (stein_mnist.encoders(images, size, 0, 1.0, 10.0) for images in (digits, blind))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    decoded, plain = [], stein_mnist.decode
    monkeypatch.setattr(
        stein_mnist, "decode", lambda Z, X, Z_new, *a: decoded.append((Z, X)) or plain(Z, X, Z_new, *a)
    )
    for images in (digits, blind):
        stein_mnist.one_width(images, {"PCA": one["PCA"]}, 4, 2, 0)
    for mine, theirs in zip(*decoded, strict=True):  # what the decoder learned from
        np.testing.assert_array_equal(mine, theirs)
        assert len(mine) == 300


def test_choices_are_made_on_training_digits(digits):
    size = stein_mnist.Size((4,), 300, 60, 4, 1, 1)
    gone = replace(digits, X_test=np.full_like(digits.X_test, np.nan), y_test=None)
    assert stein_mnist.validated(gone, size, 0) == stein_mnist.validated(digits, size, 0)


def test_permuted_digits_give_chance(digits, monkeypatch):
    monkeypatch.setattr(stein_mnist, "find_spec", lambda name: None)
    size = stein_mnist.Size((8,), 300, 80, 2, 1, 1)
    found = {"PCA": stein_mnist.encoders(digits, size, 0, 1.0, 10.0)["PCA"]}
    honest = stein_mnist.one_width(digits, found, 8, 2, 0)["PCA, linear decoder"][2]
    blind = replace(digits, y=np.random.default_rng(7).permutation(digits.y))
    chance = stein_mnist.one_width(blind, found, 8, 2, 0)["PCA, linear decoder"][2]
    assert chance < 0.25
    assert honest > 0.7


# ---------------------------------------------------------------- copula


@pytest.fixture
def small(monkeypatch):
    few = {name: {**datasets.COPULA_SETTINGS[name], "n_components": 2} for name in SETTINGS}
    for module in (copula_synthetic, copula_reliability):
        monkeypatch.setattr(module, "SIZE", {"n_samples": 100, "n_features": 12})
        monkeypatch.setattr(module, "COPULA_SETTINGS", few)
        monkeypatch.setattr(module, "REPETITIONS", {True: 2})
    monkeypatch.setattr(copula_reliability, "LEVELS", ())


def _copula(module, monkeypatch, change):
    """The generator of a module with its answer (table, complete, truth) changed, and the tables it has drawn."""
    drawn = []

    def make(*arguments, **options):
        found = change(*datasets.make_copula(*arguments, **options))
        drawn.append(found[1].tobytes())
        return found

    monkeypatch.setattr(module, "make_copula", make)
    return drawn


@pytest.mark.parametrize("setting", SETTINGS)
def test_errors_are_those_of_hidden_cells_alone(setting, small, monkeypatch):
    """Known cells poisoned in the complete table: no error moves. Hidden ones: every error does."""

    def errors():
        return [error for error, _ in copula_synthetic.measures(setting, 0, 5).values()]

    honest = errors()
    for hidden in (True, False):
        _copula(
            copula_synthetic,
            monkeypatch,
            lambda X, complete, truth, hidden=hidden: (X, complete + 50.0 * (np.isnan(X) == hidden), truth),
        )
        found = errors()
        if hidden:
            assert not np.isclose(found, honest).any()
        else:
            np.testing.assert_array_equal(found, honest)


def test_columns_that_have_nothing_to_do_with_one_another_give_chance(small, monkeypatch):
    """Values of every column permuted: no method beats a constant."""

    def change(X, complete, truth):
        mixed = np.random.default_rng(7).permuted(complete, axis=0)
        return np.where(np.isnan(X), np.nan, mixed), mixed, truth

    honest = copula_synthetic.measures("continuous, low rank", 1, 5)
    _copula(copula_synthetic, monkeypatch, change)
    found = copula_synthetic.measures("continuous, low rank", 1, 5)
    assert min(error for error, _ in found.values()) > 0.97
    assert honest[copula_synthetic.DEFAULT][0] < 0.8


@pytest.mark.parametrize("name", ["copula-synthetic", "copula-reliability"])
def test_tables_of_settings_repetitions_and_seeds_are_apart(name, small, monkeypatch):
    module = copula_synthetic if name == "copula-synthetic" else copula_reliability
    drawn = _copula(module, monkeypatch, lambda *found: found)
    for seed in (0, 1):
        experiments.run(name, quick=True, rng=seed)
    assert len(set(drawn)) == 2 * 2 * 2  # some methods see the table of others
