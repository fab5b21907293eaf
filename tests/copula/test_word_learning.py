"""What is learned of words is learned from cells that the odds have not seen, by their weights."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from colspace import CopulaImputer
from colspace.copula import _corrections
from colspace.copula import _word_learning as learning
from colspace.copula._columns import group_of, steps_of
from colspace.copula._marginals import Distinct
from colspace.copula._passes import LocalRows


def mute(model):
    """The copula with loadings of nothing, whose odds are the same in all rows."""
    f = model.factors
    factors = replace(f, W=np.zeros_like(f.W), C=np.zeros_like(f.C), noise=np.ones_like(f.noise))
    return replace(model, state=replace(model.state, factors=factors))


def test_odds_are_those_of_fits_without_the_cells(tables, model, monkeypatch):
    """Every word is hidden from one fit of four, whole; what that fit says are its odds, and its weight is that of its row."""
    X = model._part(model._encode(tables[0])[0])
    group = model._columns.groups[0]
    weight = np.where(X[:, group.start] == 1, 3.0, 1.0)  # of rows of the first class
    parts, heard = [], []

    def refit(whole, rows):
        parts.append(rows.X)
        return mute(whole)

    def learn(on, w, odds, rest, *_, **__):
        heard.append((on, w, odds, rest))
        return learning.Words()

    monkeypatch.setattr(learning, "learn_group", learn)
    learning.learn_words(LocalRows(X, weight), model._odds, model._columns, refit, 0, forests=[True])
    whole = learning.distinct_rows(X, weight)[0]
    gone = np.array([np.isnan(part) & ~np.isnan(whole) for part in parts])
    assert len(gone) == learning.FOLDS
    assert_array_equal(gone.sum(axis=0)[:, group.latents], ~np.isnan(whole[:, group.latents]))
    assert not np.delete(gone, np.arange(group.start, group.latents.stop), axis=2).any()
    assert gone[:, :, group.start].sum(axis=1).min() >= (~np.isnan(whole[:, group.start])).sum() // 4
    on, w, odds, rest = heard[0]
    assert_array_equal(w, np.where(on[:, 0] == 1, 3.0, 1.0))
    assert_allclose(odds, np.tile(odds[0], (len(odds), 1)), atol=1e-12)  # those of the fits that say nothing
    assert rest.std(axis=0).min() > 0.1  # the table's own


def test_slopes_are_where_the_penalised_likelihood_is_flat():
    rng = np.random.default_rng(0)
    n, w = 60, np.r_[np.full(20, 9.0), np.full(40, 0.5)]
    told, rest = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    y = np.eye(3)[np.r_[np.zeros(20, int), rng.integers(3, size=40)]]
    for penalty in (3.0, 30.0):
        found = learning.slopes_of(told, rest, y, w, penalty)
        pull = w[:, None] * (y - softmax(told + found[0] + rest @ found[1:], axis=1))
        assert_allclose(found[0], pull.sum(axis=0), atol=2e-2)  # the constant has a penalty of one
        assert_allclose(penalty * found[1:], rest.T @ pull, atol=2e-2)
        assert abs(found).max() > 0.1


def test_the_power_of_the_odds_counts_rows():
    rng = np.random.default_rng(3)
    odds, w = rng.standard_normal((200, 3)), np.repeat([1, 6], 100)
    y = np.eye(3)[np.where(w == 6, odds.argmax(axis=1), rng.integers(3, size=200))]
    group = group_of(0, 0, Distinct(np.arange(3.0), y.sum(axis=0)))
    found = learning.likeliest_power(odds, y, w.astype(float), group)
    again = learning.likeliest_power(odds.repeat(w, axis=0), y.repeat(w, axis=0), np.ones(700), group)
    assert abs(found - again) < 5e-3
    assert found > 1.3 * learning.likeliest_power(odds, y, np.ones(200), group)


@pytest.mark.parametrize("heavy", [0, 1])
def test_penalties_are_chosen_by_the_weights_of_rows(heavy):
    """Slopes that tell half of the rows are far wrong for the others, where numbers are large; the half that counts decides."""
    rng = np.random.default_rng(2)
    n = 300
    rest = rng.standard_normal((n, 1))
    first = np.where(rest[:, 0] + rng.standard_normal(n) > 0, 1, 0)
    other = rng.integers(2, size=n)  # nothing to learn
    y = np.eye(2)[np.r_[first, other]]
    group = group_of(0, 0, Distinct(np.arange(2.0), y.sum(axis=0)))
    w = np.repeat([1.0, 1e-6] if heavy == 0 else [1e-6, 1.0], n)
    found = learning.best_penalty(np.zeros((2 * n, 2)), np.r_[rest, 30 * rest], y, w, group, rng)
    assert (found is None) == (heavy == 1)


def test_slopes_stand_beside_the_power_of_the_odds():
    """Odds that say twice what they know: the law with its power and slopes is flat in the constants, as its likelihood has it."""
    rng = np.random.default_rng(1)
    n, w = 900, np.ones(900)
    odds, rest = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    told = odds + rest @ np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]) + [0.5, 0.0, 0.0]
    y = np.eye(3)[(told + rng.gumbel(size=told.shape)).argmax(axis=1)]
    group = group_of(0, 0, Distinct(np.arange(3.0), y.sum(axis=0)))
    found = learning.learn_group(y, w, 2 * odds, rest, group, rng, forests=False)
    assert 0.2 < found.power < 0.7
    law = softmax(found.power * 2 * odds + found.slopes[0] + rest @ found.slopes[1:], axis=1)
    assert_allclose(found.slopes[0], (y - law).sum(axis=0), atol=0.1)  # a penalty of one
    assert np.abs(found.slopes[1:]).max() > 0.5


@pytest.fixture
def forests_say(monkeypatch):
    """Forests that say what they are told to, of all rows."""
    said = {}
    monkeypatch.setattr(learning, "grow", lambda *_, **__: ("forest", said["outside"]))
    return said


def test_forests_get_the_share_that_errs_least(forests_say):
    rng = np.random.default_rng(0)
    y = np.eye(3)[rng.integers(3, size=400)]
    group = group_of(0, 0, Distinct(np.arange(3.0), y.sum(axis=0)))
    off = [0.3 * (np.eye(3)[rng.integers(3, size=400)] - 1 / 3) for _ in range(2)]  # as wrong as each other
    law, forests_say["outside"] = (0.6 * y + 0.4 / 3 + error for error in off)
    law = np.log(law)
    forest, share, gain = learning.forest_of(law, np.zeros((400, 1)), y, np.ones(400), group, rng)
    assert (forest, share) == ("forest", 0.5)
    old, new = (
        learning.brier(learning.mixed(group, law, forests_say["outside"], s), y).sum() for s in (0, 0.5)
    )
    assert_allclose(gain, 1 - new / old)
    late = np.where(
        np.arange(400) < 200, 1.0, 0.01
    )  # where rows that count little are the only ones it tells
    forests_say["outside"] = np.where(late[:, None] == 1, np.exp(law) + 0.05 * off[0], y)
    assert learning.forest_of(law, np.zeros((400, 1)), y, np.ones(400), group, rng) is not None
    assert learning.forest_of(law, np.zeros((400, 1)), y, late, group, rng) is None


def test_forests_of_levels_in_order_must_not_harm_the_median(forests_say):
    """A smaller Brier score, but one cell in five further off: taken for words, refused for levels."""
    y, bad = np.tile([0.0, 1.0, 0.0], (400, 1)), np.arange(400) % 5 == 0
    forests_say["outside"] = np.where(bad[:, None], [0.0, 0.0, 1.0], y)
    law = np.log(np.tile([0.3, 0.4, 0.3], (400, 1)))
    distinct = Distinct(np.arange(3.0), np.array([130.0, 140.0, 130.0]))
    given = law, np.zeros((400, 1)), y, np.ones(400)
    rng = np.random.default_rng(0)
    assert learning.forest_of(*given, group_of(0, 0, distinct), rng) is not None
    assert learning.forest_of(*given, steps_of(0, 0, distinct), rng) is None


def test_weights_of_levels_in_order_are_those_of_their_rows(model, tables, monkeypatch):
    X = model._part(model._encode(tables[0])[0])
    step = next(group for group in model._columns.steps)
    weight = np.where(X[:, step.start] == step.levels[0], 3.0, 1.0)
    heard = []
    monkeypatch.setattr(learning, "forest_of", lambda law, rest, y, w, *_: heard.append((y, w)))
    learning.learn_steps(LocalRows(X, weight), model._point, [step], 0)
    y, w = heard[0]
    assert_array_equal(w, np.where(y[:, 0] == 1, 3.0, 1.0))
    assert set(w) == {1.0, 3.0}


def test_tables_that_do_not_bend_have_forests_for_two_words_alone(tables, monkeypatch):
    X = tables[0].drop(columns="word")
    X["stars"] = pd.cut(X["a"], 4, labels=False)
    asked = []
    monkeypatch.setattr(_corrections, "learn_steps", lambda rows, point, tried, _: asked.append(tried) or ())
    model = CopulaImputer(random_state=0).fit(X)
    assert [[group.column for group in tried] for tried in asked] == [[2]]
    assert {group.column for group in model._columns.steps} == {2, 4}
    monkeypatch.setattr(_corrections, "bent", lambda rows, point, *_, **__: (point, True))
    CopulaImputer(random_state=0).fit(X)
    assert {group.column for group in asked[1]} == {2, 4}


def test_fits_without_some_cells_move_their_cuts(model, tables):
    X = model._part(model._encode(tables[0])[0])
    first = model._columns.groups[0].start
    gone = (X[:, first] == 1) & (np.arange(len(X)) % 4 > 0)  # the first class is rare now
    part = np.where(gone[:, None] & (np.arange(X.shape[1]) == first), np.nan, X)
    found = _corrections.Refit(1e-3, common=False)(model._odds, LocalRows(part))
    assert found.columns[first].z[0] > model._odds.columns[first].z[0] + 0.3
    chain = found.state.chain
    assert_array_equal(found.columns[first].z, chain.z[chain.nodes(first)])


@pytest.mark.parametrize("common", [False, True])
def test_fits_without_some_cells_have_the_noise_that_was_asked_for(common):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 1)) + np.array([0.2, 0.2, 0.2, 2, 2, 2]) * rng.standard_normal((150, 6))
    whole = CopulaImputer(1, nonlinear=False, correlation="factors", random_state=0).fit(X)._model
    found = _corrections.Refit(1e-3, common)(whole, LocalRows(np.where(rng.random(X.shape) < 0.1, np.nan, X)))
    spread = np.ptp(found.factors.noise)
    assert spread < 1e-12 if common else spread > 0.3


def test_penalties_of_many_rows_are_told_by_half_of_them(monkeypatch):
    """Of rows that are enough two parts of four are left out, each once, and without slopes the same rows are judged."""
    rng = np.random.default_rng(2)
    rest = rng.standard_normal((400, 1))
    y = np.eye(2)[(rest[:, 0] + 0.5 * rng.standard_normal(400) > 0).astype(int)]
    group = group_of(0, 0, Distinct(np.arange(2.0), y.sum(axis=0)))
    sizes = []
    slopes_of = learning.slopes_of
    monkeypatch.setattr(
        learning, "slopes_of", lambda *given: sizes.append(len(given[0])) or slopes_of(*given)
    )
    for enough, parts in ((1000, 4), (400, 2)):
        monkeypatch.setattr(learning, "ENOUGH", enough)
        sizes.clear()
        assert (
            learning.best_penalty(np.zeros((400, 2)), rest, y, np.ones(400), group, rng) in learning.PENALTIES
        )
        assert sizes == [300] * parts * len(learning.PENALTIES)
    noise = rng.standard_normal((400, 1))
    even = np.eye(2)[rng.integers(2, size=400)]
    w = np.ones(400)
    assert learning.best_penalty(np.zeros((400, 2)), 30 * noise, even, w, group, rng) is None
