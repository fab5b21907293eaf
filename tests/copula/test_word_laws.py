"""Laws of words: their formulas, and what is learned of them."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from colspace.copula._columns import columns_of, group_of
from colspace.copula._estep import Rows
from colspace.copula._forest import grow
from colspace.copula._marginals import Distinct
from colspace.copula._nominal import Levels, class_law, log_odds, mixed
from colspace.copula._rank import together
from colspace.copula._word_learning import best_penalty, brier, likeliest_power, slopes_of


def one_on(P):
    """Law of independent indicators given that just one is on, by counting all of them."""
    k = len(P)
    every = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    chance = np.prod(np.where(every, P, 1 - P), axis=1)
    single = every.sum(axis=1) == 1
    return chance[single][every[single].argmax(axis=1).argsort()] / chance[single].sum()


def test_law_of_classes_is_that_of_one_indicator_on(tables, model):
    group = model._columns.groups[0]
    rng = np.random.default_rng(1)
    mean, sd = rng.standard_normal((5, 4)), rng.uniform(0.3, 1.2, (5, 4))
    law = np.exp(class_law(1.0, log_odds(group, model._point, mean, sd)))
    cuts = np.array([model._point.columns[j].z[0] for j in range(group.start, group.start + 4)])
    for i in range(5):
        # by quadrature of the latent law above the cut
        on = [
            quad(norm.pdf, c, max(c, m) + 12 * v, (m, v))[0]
            for m, v, c in zip(mean[i], sd[i], cuts, strict=True)
        ]
        assert_allclose(law[i], one_on(np.array(on)), rtol=1e-6)


def test_two_classes_have_one_latent_column():
    counts = np.array([1.0, 1.0, 9.0, 2.0])
    group = group_of(0, 0, Distinct(np.arange(4.0), counts))
    assert (group.classes, group.width) == (2, 1)
    assert_array_equal(group.kind, [1, 1, 0, 1])
    assert_allclose(group.share, [0.25, 0.25, 1.0, 0.5])
    assert_array_equal(group.indicators(np.array([0, np.nan, 2, 3])), [[1], [np.nan], [0], [1]])
    assert_array_equal(group.distinct()[0].counts, [9, 4])


def test_rare_levels_are_one_class_and_common_ones_fifty_at_most():
    counts = np.r_[np.full(60, 5.0), 1.0, 40.0]
    group = group_of(3, 2, Distinct(np.arange(62.0), counts))
    assert group.classes == 51
    assert group.kind[61] == 49  # the commonest has its own
    assert (group.kind[49:61] == 50).all()
    assert_allclose(np.bincount(group.kind, group.share), 1.0)
    law = np.full((1, 51), 1 / 51)
    assert_allclose((law[:, group.kind] * group.share).sum(), 1.0)


def test_power_is_the_likeliest():
    rng = np.random.default_rng(0)
    odds = 3 * rng.standard_normal((4000, 3))
    law = np.exp(class_law(0.6, odds))
    y = np.eye(3)[(np.cumsum(law, axis=1) < rng.random((4000, 1))).sum(axis=1)]
    group = group_of(0, 0, Distinct(np.arange(3.0), y.sum(axis=0)))
    found = likeliest_power(odds, y, np.ones(4000), group)
    assert abs(found - 0.6) < 0.04
    losses = [
        -np.log((mixed(group, class_law(p, odds), None, 0.0) * y).sum(axis=1)).sum()
        for p in (found - 0.1, found, found + 0.1)
    ]
    assert losses[1] == min(losses)


def test_slopes_are_the_likeliest():
    """Against scikit-learn's logistic regression, where the copula says nothing."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    Z = rng.standard_normal((500, 2))
    y = np.eye(3)[(Z @ rng.standard_normal((2, 3)) + rng.gumbel(size=(500, 3))).argmax(axis=1)]
    w = rng.uniform(0.5, 2.0, 500)
    found = slopes_of(np.zeros((500, 3)), Z, y, w, 3.0)
    law = np.exp(class_law(1.0, np.zeros((500, 3)), Z, found))
    peer = LogisticRegression(C=1 / 3.0, tol=1e-10).fit(Z, y.argmax(axis=1), w)
    assert_allclose(law, peer.predict_proba(Z), atol=5e-3)  # there the intercept is not penalised
    assert_allclose(found[1:], peer.coef_.T, atol=2e-2)
    told = rng.standard_normal((500, 3))  # a law that is right needs no slopes
    right = np.eye(3)[(told + rng.gumbel(size=(500, 3))).argmax(axis=1)]
    group = group_of(0, 0, Distinct(np.arange(3.0), right.sum(axis=0)))
    assert best_penalty(told, Z, right, np.ones(500), group, rng) is None
    assert best_penalty(np.zeros((500, 3)), Z, y, w, group, rng) is not None


def test_mixture_keeps_every_level_possible():
    group = group_of(0, 0, Distinct(np.arange(3.0), np.array([6.0, 3.0, 3.0])))
    law = np.log(np.array([[0.5, 0.3, 0.2]]))
    told = np.array([[0.0, 0.0, 1.0]])
    assert_allclose(
        mixed(group, law, told, 0.75),
        0.999 * np.array([[0.125, 0.075, 0.8]]) + 1e-3 * np.array([[0.5, 0.25, 0.25]]),
    )
    assert_allclose(brier(told, np.array([[1.0, 0.0, 0.0]])), [2.0])


def test_explained_share_of_the_indicators_variance():
    group = group_of(0, 0, Distinct(np.arange(3.0), np.array([50.0, 30.0, 20.0])))
    own = np.array([0.5, 0.3, 0.2])
    law = np.array([own, [1.0, 0.0, 0.0], [0.7, 0.2, 0.1]])
    found = Levels(group, np.arange(3), law)
    variance = [sum(p * (1 - p) for p in row) for row in law]  # of indicators, one by one
    assert_allclose(found.explained, 1 - np.array(variance) / variance[0], atol=1e-12)
    assert_array_equal(found.ends(0.7)[0], [np.nan, 0.0, 0.0])
    assert_allclose(found.top, [0.5, 1.0, 0.7])


def test_forests_of_several_columns_are_means_of_their_trees():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.eye(3)[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]
    forest, outside = grow(X, y, None, np.random.default_rng(1))
    assert_allclose(forest(X).sum(axis=1), 1.0)
    assert_allclose(outside.sum(axis=1), 1.0)
    assert (forest(X).argmax(axis=1) == y.argmax(axis=1)).mean() > 0.95
    for c in range(3):  # a column of trees that are the same, in their splits and leaves
        alone = type(forest)(
            forest.feature, forest.threshold, forest.left, forest.right, forest.value[:, c], forest.roots
        )
        assert_allclose(alone(X), forest(X)[:, c])


def test_columns_of_the_model_are_those_of_the_table_without_words():
    kinds = ("continuous", "constant", "binary")
    distinct = [Distinct(np.arange(3.0), np.ones(3))] * 3
    found = columns_of(kinds, distinct)
    assert not found.whole
    assert_array_equal(found.active, [True, False, True])
    assert columns_of(("binary", "count"), distinct[:2]).whole
    assert_allclose(log_ndtr(-1.0), np.log(ndtr(-1.0)))


def test_levels_of_a_word_are_hidden_together_when_a_correlation_is_chosen():
    rows = Rows(3, 5, np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3))
    gone = np.zeros(15, dtype=bool)
    gone[[1, 7, 10]] = True  # the group's first column of row 0, its second of row 1, another column of row 2
    found = together(rows, gone, [slice(1, 4)]).reshape(3, 5)
    np.testing.assert_array_equal(found, [[0, 1, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])
