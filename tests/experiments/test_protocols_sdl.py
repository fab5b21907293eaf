"""Test rows and their labels must not move what is fitted, chosen or cut: both are poisoned, and what reaches the scores is compared."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from colspace.datasets import JobsData, make_semisynthetic
from colspace.experiments import (
    _sdl_mixed,
    _sdl_path,
    _sdl_published,
    sdl_estimation,
    sdl_jobs,
    sdl_mnist,
    sdl_xray,
)

SIZE = sdl_mnist.Size((1.0,), 1, 1, 100, 4)


@pytest.fixture(scope="module")
def mixed():
    digits = load_digits()
    return make_semisynthetic(digits.images, digits.target, n_samples=120, rng=0)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(_sdl_published, "SWEEPS", 4)
    monkeypatch.setattr(_sdl_mixed, "find_spec", lambda name: None)
    monkeypatch.setattr(_sdl_path, "XIS", (1.0,))
    monkeypatch.setattr(sdl_mnist, "SHARES", (0.3, 1.0))
    monkeypatch.setattr(sdl_xray, "BOOTSTRAP", 2)
    short = {name: (fit, values[:2]) for name, (fit, values) in sdl_xray.METHODS.items()}
    monkeypatch.setattr(sdl_xray, "METHODS", short)


def watched(monkeypatch, module, name, keep):
    """What ``keep`` takes of every call of a function of a module."""
    seen, original = [], getattr(module, name)

    def spy(*args, **given):
        found = original(*args, **given)
        seen.append(keep(found, *args, **given))
        return found

    monkeypatch.setattr(module, name, spy)
    return seen


# ----------------------------------------------------------------- mixed digits


def test_labels_of_test_rows_move_neither_level_nor_odds(mixed, monkeypatch):
    seen = []
    for labels in (mixed.y_test, 1 - mixed.y_test):
        calls = watched(
            monkeypatch, sdl_mnist, "measures", lambda found, t, odds, level: (np.array(odds), level)
        )
        sdl_mnist.published_rows(replace(mixed, y_test=labels), SIZE, 0, lambda: None)
        monkeypatch.undo()
        monkeypatch.setattr(_sdl_published, "SWEEPS", 4)
        seen.append(calls)
    assert len(seen[0]) == len(seen[1]) == 2 + 4
    for (odds, level), (same, again) in zip(*seen, strict=True):
        assert_array_equal(odds, same)
        assert level == again


def test_test_rows_move_no_fit(mixed):
    honest = _sdl_mixed.honest_fits(mixed, 0)
    spoilt = _sdl_mixed.honest_fits(
        replace(mixed, X_test=100.0 * mixed.X_test[::-1], y_test=1 - mixed.y_test), 0
    )
    for name, fit in honest.items():
        assert_array_equal(fit.train, spoilt[name].train, err_msg=name)
        if fit.atoms is not None:
            assert_array_equal(fit.atoms, spoilt[name].atoms, err_msg=name)


def test_xi_of_ten_classes_is_chosen_on_training_images():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    labels = np.random.default_rng(0).permutation(y[300:400])
    rows = [sdl_mnist.ten_class_rows((X[:300], y[:300], X[300:400], t), 4, 0) for t in (y[300:400], labels)]
    for honest, spoilt in zip(*rows, strict=True):
        assert honest["xi"] == spoilt["xi"]
        assert honest["squared_error"] == spoilt["squared_error"]
        assert honest["accuracy"] > spoilt["accuracy"]  # permuted labels are guessed
        assert spoilt["accuracy"] < 0.3


@pytest.mark.parametrize("quick", [True, False])
def test_parameters_were_chosen_on_other_draws(quick, monkeypatch):
    """xi, l2 and lambda come from draws 101 to 106; the published rows are draw 1, the honest ones 1, 2, ..."""
    X = np.zeros((4, 2, 2))
    mnist = SimpleNamespace(x_train=X, y_train=np.arange(4), x_test=X, y_test=np.arange(4))
    drawn = []
    empty = {"published_rows": [], "honest_fits": {}, "honest_rows": []}
    empty["ten_class_rows"] = [_sdl_mixed.blank_row("ten classes", "a", None, 1)]
    for name, value in empty.items():
        monkeypatch.setattr(sdl_mnist, name, lambda *args, value=value: value)
    monkeypatch.setattr(sdl_mnist, "load_mnist", lambda fetch: mnist)
    monkeypatch.setattr(sdl_mnist, "draw_rows", lambda images, labels, seed: drawn.append(seed))
    sdl_mnist.run(quick=quick)
    assert drawn == [1, *range(1, sdl_mnist.SIZES[quick].draws + 1)]
    assert not set(drawn) & set(range(101, 107))


# ----------------------------------------------------------------- postings


def postings(n=90):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    vocabulary = {
        0: ["team", "client", "software", "project", "website"],
        1: ["earn", "money", "home", "link", "cash"],
    }
    shared = ["work", "job", "new", "day", "time", "office", "phone"]
    text = np.array(
        [
            " ".join([*rng.choice(vocabulary[k], 4), *rng.choice(shared, 6), f"word{i}"])
            for i, k in enumerate(y)
        ],
        dtype=object,
    )
    covariates = np.column_stack([1.0 - y, rng.random(n)])
    return JobsData(
        text=text, covariates=covariates, covariate_names=("logo", "noise"), y=y, group=np.arange(n)
    )


def spoiled(data, rows):
    text, covariates, y = data.text.copy(), data.covariates.copy(), data.y.copy()
    text[rows], covariates[rows], y[rows] = "earn earn spoilt nonsense", 50.0, 1 - y[rows]
    return replace(data, text=text, covariates=covariates, y=y)


def test_test_postings_move_no_level_of_the_path(monkeypatch):
    data = postings()
    train, test = np.arange(70), np.arange(70, 90)
    plain = {"LR": sdl_jobs.fit_logistic, "NMF + LR": sdl_jobs.fit_nmf}
    monkeypatch.setattr(sdl_jobs, "TOPICS", 2)
    seen = watched(monkeypatch, _sdl_path, "youden", lambda level, y, odds: (level, np.array(odds)))
    for one in (data, spoiled(data, test)):
        size = _sdl_path.PathSize(90, 1, 5)
        _sdl_path.one_split(one, one.covariates, train, test, size, 2, plain, 0, lambda: None)
    half = len(seen) // 2
    assert half == 2 + 4
    for (level, odds), (again, same) in zip(seen[:half], seen[half:], strict=True):
        assert level == again
        assert_array_equal(odds, same)


def test_test_postings_move_no_choice_of_a_fold(monkeypatch):
    data = postings()
    monkeypatch.setattr(sdl_jobs, "TOPICS", 2)
    folds = sdl_jobs.GroupKFold(5, shuffle=True, random_state=0).split(data.text, groups=data.group)
    _, held = next(folds)
    seen = watched(monkeypatch, sdl_jobs, "choose", lambda found, *args, **given: found)
    for one in (data, spoiled(data, held)):
        sdl_jobs.cross_validate("x", one, 1, ("LR", "filter, nonnegative"), 0, lambda: None)
    half = len(seen) // 2
    assert half == 4
    assert seen[:half] == seen[half:]


# ----------------------------------------------------------------- X-rays


def test_test_images_move_neither_choice_nor_level(monkeypatch):
    images, labels = load_digits(return_X_y=True)
    images, labels = (images.reshape(-1, 8, 8) * 15).astype(np.uint8), (labels > 4).astype(int)
    monkeypatch.setattr(sdl_xray, "ATOMS", 4)
    seen = watched(
        monkeypatch, sdl_xray, "scored", lambda found, fit, T, t, level, tuned, seed: (level, tuned)
    )
    results = []
    for spoil in (False, True):
        parts = {"train": slice(0, 150), "val": slice(150, 250), "test": slice(250, 330)}
        data = {}
        for part, place in parts.items():
            flip = spoil and part == "test"
            data[f"{part}_images"] = images[place][:, ::-1] if flip else images[place]
            data[f"{part}_labels"] = 1 - labels[place] if flip else labels[place]
        monkeypatch.setattr(sdl_xray, "load_pneumonia", lambda data=data: sdl_xray.PneumoniaData(**data))
        results.append(sdl_xray.run(quick=True).rows)
    half = len(seen) // 2
    assert half == len(sdl_xray.METHODS) + len(sdl_xray.PUBLISHED)
    assert_allclose(seen[:half], seen[half:], rtol=0, atol=0)
    assert [row["chosen"] for row in results[0]] == [row["chosen"] for row in results[1]]
    assert [row["contrast"] for row in results[0]] == [row["contrast"] for row in results[1]]


# ----------------------------------------------------------------- estimation


def test_every_table_is_drawn_once(monkeypatch):
    monkeypatch.setattr(sdl_estimation, "ROWS", {True: (40, 80)})
    monkeypatch.setattr(sdl_estimation, "REPETITIONS", {True: 2})
    seen = watched(
        monkeypatch, sdl_estimation, "make_dictionary", lambda found, *args, **given: found.X[0].tobytes()
    )
    sdl_estimation.run(quick=True)
    assert len(set(seen)) == len(seen) == 3 * 2 * 2
