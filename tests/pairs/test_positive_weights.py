"""Positive parts of the weights of training entities: what is left out against refits, and where they are used."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist, pdist

from colspace import KernelPairRegressor
from colspace.datasets import make_pairs
from colspace.metrics import recall_at_k
from colspace.pairs._kernel_tables import read_tables
from colspace.pairs._links import Links
from colspace.pairs._ridge import Ridge, inverse_plus, left_out
from colspace.pairs._ridge_search import search
from colspace.pairs._ridge_tune import Point, SidePoint, held_out

ALPHA, BETA = 0.05, 0.03
GIVEN = {"bandwidth": 0.8, "alpha": (ALPHA, BETA), "reduction": None, "positive": True}


def kernel(X, Z=None):
    mean, scale = X.mean(axis=0), X.std(axis=0)
    V = (X - mean) / scale
    W = V if Z is None else (Z - mean) / scale
    return np.exp(-(cdist(W, V) ** 2) / (2 * (0.8 * np.median(pdist(V))) ** 2))


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((12, 3)), rng.standard_normal((9, 2))
    return A, B, np.where(rng.random((12, 9)) < 0.4, rng.random((12, 9)), 0.0)


def weights(k, K, alpha, positive):
    """Of the training entities, in predictions for entities with kernels k."""
    W = np.linalg.solve(K + alpha * np.eye(len(K)), k.T).T
    assert W.min() < -0.01  # there is something to leave out
    return np.maximum(W, 0) if positive else W


@pytest.mark.parametrize("target", ["new-left", "new-both"])
def test_what_is_left_out_is_a_refit_with_positive_weights(table, target):
    A, B, Y = table
    K, L = kernel(A), kernel(B)
    both = target == "new-both"
    ridges = Ridge(inverse_plus(K, ALPHA), ALPHA, True), Ridge(inverse_plus(L, BETA), BETA, both)
    found = left_out(*ridges, Y, np.arange(12), target)
    for i in range(12):
        p = np.delete(np.arange(12), i)
        w = weights(K[[i]][:, p], K[np.ix_(p, p)], ALPHA, True)
        if not both:
            np.testing.assert_allclose(found[i], (w @ Y[p] @ weights(L, L, BETA, False).T)[0], atol=1e-9)
            continue
        for j in range(9):
            q = np.delete(np.arange(9), j)
            v = weights(L[[j]][:, q], L[np.ix_(q, q)], BETA, True)
            assert found[i, j] == pytest.approx((w @ Y[np.ix_(p, q)] @ v.T).item(), abs=1e-9)


@pytest.mark.parametrize("target", ["new-left", "new-right", "new-both"])
@pytest.mark.parametrize("marks", [None, "all"])
def test_predictions_have_positive_weights_on_the_sides_that_are_new(table, target, marks):
    A, B, Y = table
    rng = np.random.default_rng(3)
    new_A, new_B = rng.standard_normal((4, 3)), rng.standard_normal((5, 2))
    landmarks = None if marks is None else 11  # of the left side; the right one has fewer
    model = KernelPairRegressor(target, **GIVEN, n_landmarks=landmarks).fit(A, B, Y)
    new = {"new-left": (True, False), "new-right": (False, True), "new-both": (True, True)}[target]
    assert (model.positive_["left"], model.positive_["right"]) == new
    K, L = kernel(A), kernel(B)
    if marks is not None:
        C = K[:, model.basis_["left"]]
        root = np.linalg.solve(C[model.basis_["left"]], C.T)
        near, k = C @ root, kernel(A, new_A)[:, model.basis_["left"]] @ root
    else:
        near, k = K, kernel(A, new_A)
    u = weights(k, near, ALPHA, new[0])
    v = weights(kernel(B, new_B), L, BETA, new[1])
    np.testing.assert_allclose(model.predict(new_A, new_B), u @ Y @ v.T, atol=1e-8)
    np.testing.assert_allclose(
        model.predict(), weights(near, near, ALPHA, new[0]) @ Y @ weights(L, L, BETA, new[1]).T, atol=1e-8
    )


def test_folds_predict_as_a_fit_to_their_entities_does(table):
    A, B, Y = table
    model = KernelPairRegressor("new-both", **GIVEN, cv=3)
    left, right = (read_tables(X, side, "gaussian", False)[0] for X, side in ((A, "left"), (B, "right")))
    problem, _ = model._problem(left, right, Links(sparse.csr_array(Y)))
    problem = replace(problem, by_folds=True)
    point = Point(*(SidePoint(0.8, a, (1.0,), 0.0, True) for a in (ALPHA, BETA)))
    K, L = kernel(A), kernel(B)
    for fold, held in zip(problem.folds, held_out(problem, point), strict=True):
        (p, q), (i, j) = fold.train, fold.test
        u = np.maximum(np.linalg.solve(K[np.ix_(p, p)] + ALPHA * np.eye(len(p)), K[np.ix_(i, p)].T).T, 0)
        v = np.maximum(np.linalg.solve(L[np.ix_(q, q)] + BETA * np.eye(len(q)), L[np.ix_(j, q)].T).T, 0)
        np.testing.assert_allclose(held.scores, u @ Y[np.ix_(p, q)] @ v.T, atol=1e-9)


def crowded(seed, n=900):
    """Groups of entities with the same likings, of which most have a few links and some nearly all, and others besides."""
    rng = np.random.default_rng(seed)
    centres, group = rng.standard_normal((60, 40)), rng.integers(0, 60, n)
    A = centres[group] + rng.standard_normal((n, 40))
    liked = rng.random((60, 300)) < 0.05
    share = np.minimum(1, 0.08 * (1 + rng.pareto(1.0, n)))[:, None]
    links = (liked[group] & (rng.random((n, 300)) < share)) | (
        rng.random((n, 300)) < 0.1 * share * (share > 0.5)
    )
    return A, rng.standard_normal((300, 3)), links.astype(float)


def test_they_find_more_partners_where_some_entities_have_very_many():
    gains = []
    for seed in range(4):
        A, B, Y = crowded(seed)
        recalls = []
        for positive in (True, False):
            given = {**GIVEN, "bandwidth": (1.0, 0.1), "alpha": (1.0, 0.1), "positive": positive}
            model = KernelPairRegressor(**given).fit(A[:400], B, Y[:400])
            recalls.append(recall_at_k(Y[400:], model.predict(A[400:]), 20))
        gains.append(recalls[0] - recalls[1])
    assert min(gains) > 0
    assert np.mean(gains) > 0.008


def test_the_search_takes_the_better_of_both_by_what_is_left_out():
    A, B, Y = crowded(1, 400)
    left, right = (read_tables(X, side, "gaussian", False)[0] for X, side in ((A, "left"), (B, "right")))
    problem, _ = KernelPairRegressor(n_top=20)._problem(left, right, Links(sparse.csr_array(Y)))
    start = Point(SidePoint(1.0, 1.0, (1.0,), 0.0), SidePoint(0.1, 0.1, (1.0,), 0.0))
    found = search(problem, {"left.positive": (False, True)}, start)
    assert len(found.entities) == 2
    assert found.best().left.positive
    assert found.score(found.best()) > found.score(start) + 0.01


def test_auto_takes_negative_weights_where_opposites_repel():
    A, B, Y, _ = make_pairs(200, 100, 3, 1, rng=0)
    model = KernelPairRegressor(reduction=None, n_top=20, metric="linear", own=0.0).fit(A, B, Y)
    assert not model.positive_["left"]


def test_given_settings_search_nothing_and_take_signed_weights(table):
    model = KernelPairRegressor(**{**GIVEN, "positive": "auto"}).fit(*table)
    assert not any(model.positive_.values())
    assert not hasattr(model, "cv_results_")


@pytest.mark.parametrize(
    ("kw", "fit", "what"),
    [
        ({"target": "entries"}, {}, "positive=True is of entities without links"),
        ({}, {"mask": np.ones((12, 9), dtype=bool)}, "here are gaps, weights or negative scores"),
        ({}, {"sample_weight": np.arange(108.0).reshape(12, 9)}, "here are gaps, weights or negative scores"),
        ({}, {"negative": True}, "here are gaps, weights or negative scores"),
    ],
)
def test_positive_weights_are_refused_where_they_mean_nothing(table, kw, fit, what):
    A, B, Y = table
    if fit.pop("negative", False):
        Y = Y - 0.1
    with pytest.raises(ValueError, match=what):
        KernelPairRegressor(**{**GIVEN, **kw}).fit(A, B, Y, **fit)
    assert not any(
        KernelPairRegressor(**{**GIVEN, **kw, "positive": False}).fit(A, B, Y, **fit).positive_.values()
    )
