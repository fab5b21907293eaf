"""What a fit is worth on entities left out, and probabilities from them, against loops over halves and entities."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.isotonic import IsotonicRegression

from colspace import KernelPairRegressor
from colspace.datasets import make_pairs
from colspace.metrics import recall_at_k
from colspace.pairs._calibrate import calibration
from colspace.pairs._quality import NEIGHBOURS, WIDTH, _measured
from colspace.pairs._ridge import LowRankRidge
from colspace.pairs._ridge_search import Choice, Search, gains
from colspace.pairs._ridge_tune import Point, SidePoint
from colspace.pairs._rivals import neighbours
from colspace.pairs._similarity import base_kernel
from colspace.pairs._tune import Held

GIVEN = {"bandwidth": 0.7, "alpha": 1.0, "reduction": None}


def halves(model, n):
    """As the fit draws them."""
    seed = model._choice.ways[0][0].seed
    half = np.random.default_rng(seed).permutation(n) % 2 == 0
    return half, ~half


def test_neighbours_are_as_many_as_serve_the_other_half():
    A, B, Y, _ = make_pairs(60, 30, 5, 2, rng=2)
    k = 5
    model = KernelPairRegressor(**GIVEN).fit(A, B, Y)
    S, T = (
        base.kernel(base.raw(base.values), WIDTH) for base in (base_kernel(X, "gaussian") for X in (A, B))
    )
    each = [
        recall_at_k(Y, neighbours(S, T, Y, np.arange(60), "new-left", n), k, per_entity=True)
        for n in NEIGHBOURS
    ]
    found = {}
    for whose in ("other", "own"):
        chosen = np.full(60, np.nan)
        for part in halves(model, 60):
            judges = ~part if whose == "other" else part
            best = int(np.argmax([np.nanmean(values[judges]) for values in each]))
            chosen[part] = each[best][part]
        found[whose] = float(np.nanmean(chosen))
    assert abs(found["other"] - found["own"]) > 1e-6  # the halves do not agree
    table = model.held_out_quality(k).set_index("method")
    assert table.loc["nearest neighbours", "recall"] == pytest.approx(found["other"], abs=1e-12)


def test_ways_of_a_half_are_judged_by_the_other():
    """A way that is better for some entities and worse for all."""
    point = Point(SidePoint(1.0, 1.0, (1.0,), 0.0), SidePoint(1.0, 1.0, (1.0,), 0.0))
    everyone, ones = np.arange(4), np.ones(4)
    judged = [Search({point: (everyone, np.array(g), ones)}) for g in ([1.0, 1, 1, 1], [0.0, 0, 2, 1])]
    choice = Choice([("plain", judged[0]), ("joint", judged[1])], tuple(judged))
    assert choice.best()[0] == "plain"
    assert choice.best(np.array([False, False, True, True]))[0] == "joint"
    assert choice.best(np.array([True, True, False, False]))[0] == "plain"


def test_lists_are_as_long_as_the_share_of_candidates():
    """Six of thirty right entities are two of ten."""
    problem = SimpleNamespace(links=SimpleNamespace(mask=None), right=range(30), n_top=6)
    scores = np.tile(np.arange(10.0)[::-1], (2, 1))
    rows, columns = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 9])
    held = Held(np.array([4, 7]), scores, rows, columns, np.ones(4), np.ones(4))
    found = _measured(iter([held]), np.ones(8, dtype=bool), 6, problem)
    assert found["recall"][[4, 7]].tolist() == [0.5, 0.5]
    assert np.isnan(found["recall"][0])
    assert gains(problem, held)[1].tolist() == [0.5, 0.25]  # recall at one and at two
    held = Held(np.array([4, 7]), scores, rows[:2], columns[:2], np.ones(2), np.ones(2))
    assert np.isnan(_measured(iter([held]), np.ones(8, dtype=bool), 6, problem)["recall"][7])  # nothing asked


def test_errors_are_weighted_within_entities_and_rooted_over_them():
    A, B, Y, _ = make_pairs(30, 12, 3, 2, rng=0)
    rng = np.random.default_rng(0)
    mask = rng.random(Y.shape) < 0.5
    weight = np.where(mask, rng.integers(1, 5, Y.shape), 0.0)
    model = KernelPairRegressor(**GIVEN).fit(A, B, Y.toarray(), mask, weight)
    unit = np.sort(weight[weight > 0])[(np.count_nonzero(weight) - 1) // 2]
    w = weight / unit
    mean = (w * Y.toarray()).sum() / w.sum()
    errors = [
        (w[i] * (Y.toarray()[i] - mean) ** 2).sum() / w[i].sum() for i in np.flatnonzero(mask.any(axis=1))
    ]
    table = model.held_out_quality(5).set_index("method")
    assert table.loc["mean", "error"] == pytest.approx(np.sqrt(np.mean(errors)), rel=1e-10)


def test_probabilities_are_of_pairs_that_are_asked_about():
    """A link that is known stands for no candidate: its score is minus infinity."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((6, 20))
    truth = rng.random((6, 20)) < 1 / (1 + np.exp(-scores))
    known = rng.random((6, 20)) < 0.2
    asked = np.nonzero(truth & ~known)
    held = Held(np.arange(6), np.where(known, -np.inf, scores), *asked, np.ones(len(asked[0])), None)
    found = calibration([held], observed=False)
    expected = IsotonicRegression(y_min=0, y_max=1).fit(scores[~known], truth[~known].astype(float))
    np.testing.assert_allclose(found["score"], expected.X_thresholds_)
    np.testing.assert_allclose(found["probability"], expected.y_thresholds_)
    A, B, Y, _ = make_pairs(30, 20, 4, 2, rng=1)
    model = KernelPairRegressor("entries", profile=0.0, calibrate=True, **GIVEN).fit(A, B, Y)
    assert np.isfinite(model.calibration_["score"]).all()
    assert ((model.predict_proba() >= 0) & (model.predict_proba() <= 1)).all()


@pytest.mark.parametrize("positive", [False, True])
def test_weights_by_landmarks(positive):
    rng = np.random.default_rng(0)
    P, root, K = rng.standard_normal((9, 4)), rng.standard_normal((5, 4)), rng.standard_normal((3, 5))
    ridge = LowRankRidge(P, root, 0.7, positive)
    expected = K @ root @ np.linalg.solve(P.T @ P + 0.7 * np.eye(4), P.T)
    assert (expected < 0).any()
    np.testing.assert_allclose(
        ridge.weights(K), np.maximum(expected, 0) if positive else expected, atol=1e-12
    )
    H = P @ np.linalg.solve(P.T @ P + 0.7 * np.eye(4), P.T)
    X = sparse.random_array((2, 9), density=0.5, rng=rng).toarray()
    np.testing.assert_allclose(ridge.apply(X), X @ (np.maximum(H, 0) if positive else H), atol=1e-12)


def test_nothing_to_judge_by():
    """Scores below zero are no partners to be found."""
    A, B, Y, _ = make_pairs(20, 10, 3, 2, rng=0)
    model = KernelPairRegressor(**GIVEN).fit(A, B, -Y)
    table = model.held_out_quality(3)
    assert len(table) == 0
    assert list(table.columns) == ["method", "recall", "average precision"]
    with pytest.raises(ValueError, match=r"no score in Y is above zero, and settings are tuned"):
        KernelPairRegressor().fit(A, B, -Y)
