"""The kernel in which entities are like themselves alone: formulas, leaving out, and what similarities of low rank need."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from colspace import KernelPairRegressor
from colspace._ranking import recall_at_k
from colspace.pairs._ridge_search import OWN, _own, with_values
from colspace.pairs._ridge_tune import Source, held_out
from colspace.pairs._rivals import nearest

GIVEN = {"metric": "precomputed", "alpha": (2.0, 0.5), "reduction": None, "positive": False, "profile": 0.0}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    S, T = (X @ X.T for X in (rng.standard_normal((14, 20)), rng.standard_normal((9, 3))))
    S, T = S / np.diagonal(S).mean(), T / np.diagonal(T).mean()
    return S, T, (rng.random((14, 9)) < 0.3) * 1.0


def smooth(S, alpha, own):
    K = (1 - own) * S + own * np.eye(len(S))
    return K @ np.linalg.inv(K + alpha * np.eye(len(S)))


@pytest.mark.parametrize(
    ("target", "shares"), [("new-left", (0.0, 0.4)), ("new-right", (0.4, 0.0)), ("entries", (0.4, 0.4))]
)
def test_known_sides_have_a_share_of_themselves(table, target, shares):
    S, T, Y = table
    model = KernelPairRegressor(target, own=0.4, **GIVEN).fit(S, T, Y)
    assert tuple(model.own_.values()) == shares
    expected = smooth(S, 2.0, shares[0]) @ Y @ smooth(T, 0.5, shares[1])
    np.testing.assert_allclose(model.predict(), expected, atol=1e-12)


def test_the_share_mixes_what_entities_have_with_a_smoother_of_a_longer_ridge(table):
    S, T, Y = table
    own, alpha = 0.4, 0.5
    model = KernelPairRegressor(own=own, **GIVEN).fit(S, T, Y)
    weight, ridge = own / (own + alpha), (own + alpha) / (1 - own)
    G = weight * np.eye(9) + (1 - weight) * T @ np.linalg.inv(T + ridge * np.eye(9))
    np.testing.assert_allclose(model.predict(), smooth(S, 2.0, 0.0) @ Y @ G, atol=1e-12)


def test_what_is_left_out_is_a_fit_without(table):
    S, T, Y = table
    model = KernelPairRegressor(own=0.4, **GIVEN).fit(S, T, Y)
    (held,) = held_out(*model._choice.best())
    for i, scores in zip(held.entities, held.scores, strict=True):
        others = np.delete(np.arange(len(S)), i)
        unit = np.diagonal(S)[others].mean()  # of the fit without, which its ridge is relative to
        fit = KernelPairRegressor(own=0.4, **{**GIVEN, "alpha": (2.0 / unit, 0.5)})
        fit.fit(S[np.ix_(others, others)], T, Y[others])
        np.testing.assert_allclose(scores, fit.predict(S[[i]][:, others])[0], atol=1e-12)


@pytest.mark.parametrize("own", [0.0, 0.4])
def test_kernels_without_weight_leave_the_share_alone(table, own):
    S, T, Y = table
    problem, point = KernelPairRegressor(own=own, **GIVEN).fit(S, [T, T], Y)._choice.best()
    (alone,) = held_out(problem, with_values(point, {"right.weights.0": 0.0, "right.weights.1": 0.0}))
    (held,) = held_out(problem, with_values(point, {"right.alpha": 1e-12, "right.own": 0.9}))  # the identity
    np.testing.assert_allclose(alone.scores, own / (own + 0.5) * held.scores, atol=1e-9)


def test_entities_are_those_of_fit_by_name(table):
    S, T, Y = table
    names = [f"drug{j}" for j in range(9)]
    frame = pd.DataFrame(T, index=names, columns=names)
    model = KernelPairRegressor(own=0.4, **GIVEN).fit(S, frame, Y)
    np.testing.assert_allclose(
        model.predict(None, frame.iloc[[4, 1]]), model.predict()[:, [4, 1]], atol=1e-12
    )
    new = frame.iloc[[4]].rename(index={"drug4": "a new one"})
    L = 0.6 * T + 0.4 * np.eye(9)
    expected = smooth(S, 2.0, 0.0) @ Y @ np.linalg.inv(L + 0.5 * np.eye(9)) @ (0.6 * T[:, [4]])
    np.testing.assert_allclose(model.predict(None, new), expected, atol=1e-12)


def of_low_rank(seed):
    """Links by four hidden factors, features of the left side, correlations of few binary features of the right one."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((200, 4)), rng.standard_normal((140, 4))
    X = A @ rng.standard_normal((4, 18)) + 0.6 * rng.standard_normal((200, 18))
    marks = B @ rng.standard_normal((4, 30)) + 0.8 * rng.standard_normal((140, 30)) > 0.5
    score = A @ B.T + 0.8 * rng.standard_normal((200, 140))
    return X, np.corrcoef(marks), (score > np.quantile(score, 0.965)) * 1.0


def test_similarities_of_low_rank_are_ahead_of_neighbours():
    gains = []
    for seed in range(3):
        X, T, Y = of_low_rank(seed)
        seen, asked = sparse.csr_array(Y[:80]), Y[80:]
        kept = asked.sum(axis=1) > 0
        metric = {"left": "auto", "right": "precomputed"}
        ours, smooth_only = (
            KernelPairRegressor(metric=metric, n_top=10, own=own).fit(X[:80], T, seen)
            for own in ("auto", 0.0)
        )
        assert ours.own_["left"] == 0
        assert ours.own_["right"] > 0
        far = -((X[80:, None] - X[:80]) ** 2).sum(axis=2)
        near = (nearest(np.exp(far / 20), 10, itself=True) @ seen).toarray()
        ways = (ours.predict(X[80:]), smooth_only.predict(X[80:]), near)
        gains.append([recall_at_k(asked[kept], scores[kept], 5) for scores in ways])
    best, smoothed, neighbours = np.mean(gains, axis=0)
    assert best > smoothed + 0.05
    assert best > neighbours + 0.03


def test_partners_with_the_same_features_are_ahead_of_neighbours():
    """Kernels of distances cannot tell them apart, however narrow."""
    gains = []
    for seed in range(3):
        X, _, Y = of_low_rank(seed)
        B = np.random.default_rng(seed).integers(0, 2, (140, 5)) * 1.0
        seen, asked = sparse.csr_array(Y[:80]), Y[80:]
        kept = asked.sum(axis=1) > 0
        ours, smooth_only = (
            KernelPairRegressor(n_top=10, own=own).fit(X[:80], B, seen) for own in ("auto", 0.0)
        )
        assert ours.own_["right"] > 0
        far = -((X[80:, None] - X[:80]) ** 2).sum(axis=2)
        near = (nearest(np.exp(far / 20), 10, itself=True) @ seen).toarray()
        ways = (ours.predict(X[80:]), smooth_only.predict(X[80:]), near)
        gains.append([recall_at_k(asked[kept], scores[kept], 5) for scores in ways])
    best, smoothed, neighbours = np.mean(gains, axis=0)
    assert best > smoothed + 0.2
    assert best > neighbours - 0.02


def test_twins_are_counted_over_all_tables():
    rng = np.random.default_rng(0)
    marks = np.array([[0.0, 1], [-0.0, 1], [1, 1], [1, 0], [0, 0]])
    assert Source((marks,), ("auto",)).twins == pytest.approx(0.4)
    assert Source((marks, rng.standard_normal((5, 1))), ("auto", "auto")).twins == 0


@pytest.mark.parametrize(("twins", "tried"), [(0, (0.0,)), (2, (0.0,)), (4, OWN)])
def test_a_share_is_tried_from_twins_of_one_in_twenty(twins, tried):
    B = np.random.default_rng(0).standard_normal((50, 2))
    B[:twins] = 1.0
    source = Source((B,), ("gaussian",))
    problem = SimpleNamespace(left=source, right=source, landmarks=(None, None), target="new-left")
    assert _own(problem, SimpleNamespace(own=None, alpha=(None, None)), 1) == tried


@pytest.mark.parametrize(
    "given", [{"alpha": 0.5}, {"target": "entries"}, {"target": "new-both"}, {"n_landmarks": 5}]
)
def test_nothing_is_tuned_where_it_says_nothing(table, given):
    S, T, Y = table
    model = KernelPairRegressor(metric="precomputed", **given).fit(S, T, Y)
    assert model.own_ == {"left": 0.0, "right": 0.0}


def test_kernels_of_distances_have_no_share(table):
    S, _, Y = table
    model = KernelPairRegressor(metric={"left": "precomputed", "right": "auto"})
    assert model.fit(S, np.random.default_rng(1).standard_normal((9, 2)), Y).own_["right"] == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"target": "new-both"},
            "own=0.4 is of each entity of the fit by itself, and target='new-both' asks",
        ),
        ({"n_landmarks": 5}, "landmarks stand for them: n_landmarks=None"),
        ({"own": 1.0}, "own"),
    ],
)
def test_shares_that_do_nothing_are_refused(table, given, message):
    with pytest.raises(ValueError, match=message):
        KernelPairRegressor(**{**GIVEN, "own": 0.4, **given}).fit(*table)
