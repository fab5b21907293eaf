"""What is hidden from an imputer must not move its fills: values of the missing cells are poisoned, fills compared."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from colspace import experiments
from colspace.datasets import COPULA_SETTINGS, CopulaData, make_copula, make_ratings
from colspace.experiments import (
    _copula_sim,
    copula_rank,
    copula_ratings,
    copula_reliability,
    copula_synthetic,
)

SMALL = {"n_samples": 60, "n_features": 10}


@pytest.fixture
def small(monkeypatch):
    few = {
        name: {**COPULA_SETTINGS[name], "n_components": 2}
        for name in ("continuous, low rank", "ordinal, high SNR")
    }
    for module in (copula_synthetic, copula_reliability, copula_rank):
        monkeypatch.setattr(module, "SIZE", {True: SMALL} if module is copula_rank else SMALL)
        monkeypatch.setattr(module, "REPETITIONS", {True: 2})
        monkeypatch.setattr(module, "COPULA_SETTINGS", few)
    monkeypatch.setattr(copula_synthetic, "SWEEPS", {True: 8})
    monkeypatch.setattr(copula_reliability, "LEVELS", (6,))
    monkeypatch.setattr(copula_rank, "RANKS", {True: range(1, 4), False: range(1, 4)})
    monkeypatch.setattr(copula_rank, "STEP", {True: 1})


def seen(monkeypatch, module, *, poison):
    """Fills that a run scored, and the tables that it drew."""
    fills, tables = [], []
    name = "error_curve" if module is copula_reliability else "imputation_error"
    score = getattr(module, name)

    def make(*args, **given):
        X, complete, truth = make_copula(*args, **given)
        tables.append(X)
        return CopulaData(X, np.where(np.isnan(X), 1.0 - complete, complete) if poison else complete, truth)

    def spy(kind, complete, filled, *rest):
        fills.append(np.array(filled))
        if name == "error_curve":  # the order of the cells belongs to the fit as well
            fills.append(np.array(rest[0]))
        return score(kind, complete, filled, *rest)

    monkeypatch.setattr(module, "make_copula", make)
    monkeypatch.setattr(module, name, spy)
    experiments.run(module.NAME, quick=True, rng=3)
    monkeypatch.setattr(module, name, score)
    return fills, tables


@pytest.mark.parametrize("module", [copula_synthetic, copula_reliability, copula_rank])
def test_missing_cells_do_not_reach_a_fill_nor_a_choice(small, monkeypatch, module):
    honest, tables = seen(monkeypatch, module, poison=False)
    poisoned, _ = seen(monkeypatch, module, poison=True)
    assert len(honest) == len(poisoned) > 5
    for a, b in zip(honest, poisoned, strict=True):
        assert_array_equal(a, b)
    shown = [table[~np.isnan(table)].tobytes() for table in tables]
    per_table = 2 if module is copula_reliability else 1  # two methods read each table
    assert len(set(shown)) * per_table == len(shown)


def test_held_out_ratings_do_not_reach_a_prediction():
    """If predictions stay, moving all held-out values by a constant moves their absolute errors by it."""
    data = make_ratings(120, 60, density=0.2, rng=0)
    far, further = (
        copula_ratings.measures(type(data)(data.X, data.rows, data.columns, data.values + shift))
        for shift in (1000.0, 2000.0)
    )
    for name in far:
        assert further[name][0] - far[name][0] == pytest.approx(1000.0, abs=1e-9), name


def test_the_penalty_is_chosen_on_cells_that_are_hidden():
    """Noise has nothing to find: a large penalty predicts hidden cells best, the least one those that are shown."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 20)) < 0.1, np.nan, rng.standard_normal((60, 20)))
    assert _copula_sim.best_alpha(X) > np.median(_copula_sim.ALPHAS)
