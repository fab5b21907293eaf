"""Words of two values: forests beside the copula where they pay, and draws of what is learned of words."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from colspace import CopulaImputer
from colspace.copula._columns import columns_of, steps_of
from colspace.copula._marginals import Distinct
from colspace.copula._nominal import Levels, Words, class_law, drawn_odds, drawn_words
from colspace.copula._word_learning import doubt_of, slopes_of


def crossed(n=400, seed=0, missing=0.15):
    """A word that a product of two numbers tells, which no normal law does; with gaps, and complete."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    full = pd.DataFrame(x, columns=["a", "b"]).assign(sex=np.where(x[:, 0] * x[:, 1] > 0, "m", "f"))
    return full.mask(rng.random(full.shape) < missing), full


@pytest.fixture(scope="module")
def both():
    X, _ = crossed()
    return [CopulaImputer(nonlinear=how, random_state=0).fit(X) for how in (False, "auto")]


def test_two_words_that_a_product_tells(both):
    X, full = crossed()
    plain, bent = both
    gone = X["sex"].isna() & X[["a", "b"]].notna().all(axis=1)
    brier = []
    for model in (plain, bent):
        law = model.probabilities(X)["sex"]["m"][gone]
        brier.append(((law - (full["sex"] == "m")[gone]) ** 2).mean())
    assert plain._steps == ()
    assert bent.nonlinear_gain_[2] > 0.3
    assert brier[0] > 0.2  # the copula knows nothing
    assert brier[1] < 0.1
    filled = bent.transform(X)
    assert (filled["sex"] == full["sex"])[gone].mean() > 0.85


def test_all_that_is_asked_follows_from_the_probabilities(both):
    X, _ = crossed()
    bent = both[1]
    law, gone = bent.probabilities(X)["sex"], X["sex"].isna()
    top = law.max(axis=1)[gone]
    assert_allclose(law.sum(axis=1), 1.0)
    assert (law.idxmax(axis=1) == bent.transform(X)["sex"]).all()
    assert_allclose(bent.mean(X)["sex"][gone], law["m"][gone])  # levels count 0, 1
    assert_allclose(bent.probability_within(X)["sex"][gone], top)
    assert_allclose(bent.probability_within(X, 1)["sex"][gone], 1.0)
    assert bent.probability_within(X, 1, bound=True)["sex"].notna().all()
    assert_allclose(bent.reliability(X)["sex"][gone], top)
    lower, upper = bent.interval(X, 0.8)
    assert_array_equal(lower["sex"][gone] == "m", law["m"][gone] > 0.9)
    assert_array_equal(upper["sex"][gone] == "m", law["m"][gone] > 0.1)
    draws = bent.sample(X, 40, random_state=0)
    here = gone & X[["a", "b"]].notna().all(axis=1)
    share = sum((draw["sex"] == "m")[here].astype(float) for draw in draws) / 40
    error = np.sqrt(law["m"][here] * (1 - law["m"][here]) / 40)
    assert (np.abs(share - law["m"][here]) < 5 * error + 1e-9).all()
    assert (draws[0]["sex"][~gone] == X["sex"][~gone]).all()


def test_two_words_that_the_copula_tells_stay_its_own():
    """To the last bit: nothing pays where the normal law is right."""
    rng = np.random.default_rng(1)
    t = rng.standard_normal((300, 1))
    Z = t + 0.6 * rng.standard_normal((300, 4))
    X = pd.DataFrame(Z, columns=list("abcd")).assign(d=np.where(Z[:, 3] > 0.2, "yes", "no"))
    X = X.mask(rng.random(X.shape) < 0.2)
    plain, auto = (CopulaImputer(nonlinear=how, random_state=0).fit(X) for how in (False, "auto"))
    assert auto._steps == ()
    assert plain.probabilities(X)["d"].equals(auto.probabilities(X)["d"])
    assert plain.transform(X).equals(auto.transform(X))


def test_numbers_of_two_values_have_a_forest_where_the_table_bends():
    X, full = crossed()
    coded = X.assign(sex=(X["sex"] == "m").astype(float).where(X["sex"].notna()))
    bent = CopulaImputer(random_state=0).fit(coded)
    assert [group.column for group, _ in bent._steps] == [2]
    gone = X["sex"].isna()
    assert ((bent.transform(coded)["sex"] == 1) == (full["sex"] == "m"))[gone].mean() > 0.8
    assert bent._columns.two_words == ()


def test_words_that_bend_make_the_other_columns_looked_at(monkeypatch):
    """Without the test: a forest has found more in a word than the copula."""
    from colspace.copula import _bend

    asked = []
    monkeypatch.setattr(_bend, "screen_table", lambda *_: asked.append(1))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2))
    X = pd.DataFrame(x, columns=["a", "b"])
    X["word"] = np.array(["u", "v", "w"])[np.digitize(np.abs(x[:, 0]), [0.4, 1.0])]
    X["c"] = x[:, 1] ** 2 + 0.1 * rng.standard_normal(300)
    model = CopulaImputer(random_state=0).fit(X.mask(rng.random(X.shape) < 0.15))
    assert not asked
    assert model.nonlinear_gain_[2] > 0.2
    assert model.nonlinear_gain_[3] > 0.2


def test_pairs_are_direct_columns():
    distinct = [Distinct(np.array([0.0, 2.0]), np.array([9.0, 4.0])), Distinct(np.arange(3.0), np.ones(3))]
    found = columns_of(("binary", "nominal"), distinct, [True, True])
    assert [group.column for group in found.steps] == [0]
    assert_array_equal(found.apart, [True, *[True] * (len(found.grouped) - 1)])
    pair = found.steps[0]
    assert_array_equal(pair.latent_cells(np.array([2.0, np.nan])), [[2.0], [np.nan]])
    assert columns_of(("binary",), distinct[:1], [False]).two_words == ()
    levels = Levels(
        steps_of(0, 0, distinct[0]), np.arange(3), np.array([[0.97, 0.03], [0.5, 0.5], [0.01, 0.99]])
    )
    assert_allclose(levels.mean, [0.06, 1.0, 1.98])
    lower, upper = levels.ends(0.9)
    assert_array_equal(lower, [0, 0, 2])
    assert_array_equal(upper, [0, 2, 2])


# ---------------------------------------------------------------------- parameters of words, drawn


def logit_cells(n=150, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2))
    odds = rng.standard_normal((n, 3))
    told = 0.8 * odds + Z @ np.array([[0.5, 0.0, -0.5], [0.0, 0.7, 0.0]])
    y = np.eye(3)[(told + rng.gumbel(size=(n, 3))).argmax(axis=1)]
    return odds, Z, y, rng.uniform(0.5, 2.0, n)


def test_doubt_is_the_inverse_of_the_curvature():
    """Against second differences of the penalised likelihood."""
    odds, Z, y, w = logit_cells()
    power, penalty = 0.8, 3.0
    slopes = slopes_of(power * odds, Z, y, w, penalty)
    root = doubt_of(power, odds, Z, w, slopes, penalty)
    ridge = np.r_[0.0, np.ones(3), np.full(6, penalty)]

    def loss(theta):
        law = class_law(theta[0], odds, Z, theta[1:].reshape(3, 3))
        return -float(w @ (law * y).sum(axis=1)) + 0.5 * float(ridge @ theta**2)

    at, h = np.r_[power, slopes.ravel()], 1e-3
    steps = h * np.eye(len(at))
    curve = [
        [
            (loss(at + a + b) - loss(at + a - b) - loss(at - a + b) + loss(at - a - b)) / (4 * h * h)
            for b in steps
        ]
        for a in steps
    ]
    assert_allclose(root @ root.T, np.linalg.inv(curve), rtol=1e-3, atol=1e-6)
    alone = doubt_of(power, odds, Z, w, None, None)
    assert alone.shape == (1, 1)
    plain = [-float(w @ (class_law(power + d, odds) * y).sum(axis=1)) for d in (-h, 0.0, h)]
    assert_allclose(alone[0, 0] ** -2, (plain[0] - 2 * plain[1] + plain[2]) / h**2, rtol=1e-4)


def test_drawn_words_have_that_law():
    rng = np.random.default_rng(0)
    root = np.tril(rng.standard_normal((4, 4))) * 0.1
    words = Words(1.0, np.zeros((1, 3)), doubt=root)
    found = [drawn_words(words, rng) for _ in range(4000)]
    theta = np.array([np.r_[each.power, each.slopes.ravel()] for each in found])
    assert_allclose(theta.mean(axis=0), [1, 0, 0, 0], atol=0.02)
    assert_allclose(np.cov(theta.T), root @ root.T, atol=4e-3)
    assert drawn_words(replace(words, doubt=None), rng).power == 1.0


def test_drawn_loadings_have_unit_variance_and_their_own_law():
    X, _ = crossed(200)
    model = (
        CopulaImputer(1, nonlinear=False, random_state=0).fit(X[["a", "b"]].assign(c=X["a"] + X["b"]))._model
    )
    f, rng = model.factors, np.random.default_rng(0)
    drawn = [drawn_odds(model, rng).factors for _ in range(500)]
    for each in drawn[:3]:
        assert_allclose((each.W**2).sum(axis=1) + each.noise, 1.0)
        assert not each.C.any()
    ratio = np.array([each.W[:, 0] / np.sqrt(each.noise) for each in drawn])  # the scale falls out
    assert_allclose(ratio.mean(axis=0), f.W[:, 0] / np.sqrt(f.noise), rtol=0.05)
    assert_allclose(ratio.std(axis=0), np.sqrt(f.C[:, 0, 0] / f.noise), rtol=0.15)
