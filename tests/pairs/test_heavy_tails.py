"""Kernels with heavy tails: their formula, and the choice between them and Gaussian ones."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from colspace import KernelPairRegressor
from colspace.datasets import make_pairs
from colspace.metrics import recall_at_k
from colspace.pairs._ridge_tune import held_out
from colspace.pairs._similarity import TAILS, base_kernel

POWERS = {"multiquadric": 1 / 2, "root-multiquadric": 1 / 4}


def multiquadric(X, Z=None, h=0.4, power=1 / 2):
    """(1 + d^2 / (h median)^2)^-power of standardised features."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    V = (X - mean) / scale
    W = V if Z is None else (Z - mean) / scale
    return (1 + cdist(W, V) ** 2 / (h * np.median(pdist(V))) ** 2) ** -power


@pytest.fixture(scope="module")
def pairs():
    A, B, Y, _ = make_pairs(40, 25, 4, 2, rng=0)
    return A, B, Y


@pytest.mark.parametrize("metric", POWERS)
def test_predictions_are_those_of_the_formula(pairs, metric):
    A, B, Y = pairs
    found = KernelPairRegressor(metric=metric, bandwidth=0.4, alpha=(0.7, 0.3), reduction=None)
    found.fit(A, B, Y)
    K, L = (multiquadric(X, power=POWERS[metric]) for X in (A, B))
    left = np.linalg.solve(K + 0.7 * np.eye(40), Y.toarray())
    W = np.linalg.solve(L + 0.3 * np.eye(25), left.T).T
    new = A[:3] + 0.3
    k = multiquadric(A, new, power=POWERS[metric])
    np.testing.assert_allclose(found.predict(new, B[:5]), k @ W @ L[:, :5], rtol=1e-9)
    assert found.metric_ == {"left": [metric], "right": [metric]}
    assert np.linalg.eigvalsh(K).min() > 0


@pytest.mark.parametrize("metric", POWERS)
def test_leaving_out_is_a_fit_without_the_entity(pairs, metric):
    """On the side of new entities, with weights as they are."""
    A, B, Y = pairs
    fit = KernelPairRegressor(metric=metric, bandwidth=0.4, alpha=(0.7, 0.3), reduction=None).fit(A, B, Y)
    problem, point = fit._choice.best()
    (held,) = held_out(problem, point)
    K, L = (multiquadric(X, power=POWERS[metric]) for X in (A, B))
    smooth = np.linalg.solve(L + 0.3 * np.eye(25), L)
    for place, i in enumerate(held.entities):
        rest = np.delete(np.arange(40), i)
        left = np.linalg.solve(K[np.ix_(rest, rest)] + 0.7 * np.eye(39), Y[rest].toarray())
        np.testing.assert_allclose(held.scores[place], K[i, rest] @ left @ smooth, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("heavy", [0, 1, 2])
def test_auto_is_one_of_the_three(heavy):
    """Distances with the tails that a side's settings ask for."""
    X = np.random.default_rng(0).standard_normal((9, 3))
    auto = base_kernel(X, "auto")
    named = base_kernel(X, TAILS[heavy])
    raw = auto.raw(auto.values)
    np.testing.assert_array_equal(auto.kernel(raw, 0.3, heavy), named.kernel(named.raw(named.values), 0.3))


@pytest.mark.parametrize("target", ["new-left", "new-right", "entries"])
def test_what_auto_finds_is_a_fit_with_its_names(pairs, target):
    """All kernels were tried on both sides."""
    A, B, Y = pairs
    given = {"reduction": None, "profile": 0.0, "positive": False, "n_top": 10}
    auto = KernelPairRegressor(target, **given).fit(A, B, Y)
    assert {name for names in auto.metric_.values() for name in names} <= set(TAILS)
    same = KernelPairRegressor(
        target,
        metric={side: names[0] for side, names in auto.metric_.items()},
        bandwidth=tuple(auto.bandwidth_.values()),
        alpha=tuple(auto.alpha_.values()),
        **given,
    ).fit(A, B, Y)
    np.testing.assert_allclose(auto.predict(A[:4], B), same.predict(A[:4], B), rtol=1e-10, atol=1e-12)
    best = int(np.argmax(auto.cv_results_["mean_score"]))
    for side, names in auto.metric_.items():
        assert auto.cv_results_[f"heavy_{side}"][best] == TAILS.index(names[0])
        assert set(auto.cv_results_[f"heavy_{side}"]) == {0, 1, 2}
        begins = auto.cv_results_[f"heavy_{side}"][0], auto.cv_results_[f"bandwidth_{side}"][0]
        assert begins == ((0, 0.707) if target == f"new-{side}" else (2, 0.0312))


def test_a_given_bandwidth_is_of_gaussian_kernels(pairs):
    A, B, Y = pairs
    found = KernelPairRegressor(bandwidth=0.5, reduction=None, n_top=10).fit(A, B, Y)
    assert found.metric_ == {"left": ["gaussian"], "right": ["gaussian"]}
    assert not found.cv_results_["heavy_right"].any()


def test_heavy_tails_where_they_help():
    """Generated links of five tables: kernels of joint directions with heavy tails find more of what is held out."""
    gains = []
    for seed in range(30, 35):
        A, B, Y, _ = make_pairs(160, 80, 8, 2, rng=seed)
        recalls = []
        for metric in ("gaussian", "auto"):
            model = KernelPairRegressor(
                metric=metric, reduction="joint", n_components=4, shrinkage=0.1, n_top=20
            )
            recalls.append(recall_at_k(Y[120:], model.fit(A[:120], B, Y[:120]).predict(A[120:]), 20))
        gains.append(recalls[1] - recalls[0])
    assert np.mean(gains) > 0


def test_directions_have_the_first_two_kernels(pairs):
    """Kernels of directions that links made are tuned by folds: fewer tails, no narrow widths."""
    A, B, Y = pairs
    found = KernelPairRegressor(reduction="joint", n_components=2, shrinkage=0.1, n_top=10).fit(A, B, Y)
    for side in ("left", "right"):
        assert set(found.cv_results_[f"heavy_{side}"]) <= {0, 1}
        assert min(found.cv_results_[f"bandwidth_{side}"]) >= 0.0884
    links = KernelPairRegressor("entries", reduction="joint", n_components=2, shrinkage=0.1, n_top=10)
    links.fit(A, B, Y)
    assert [links.cv_results_[f"{name}_left"][0] for name in ("heavy", "bandwidth", "alpha")] == [
        1,
        0.125,
        1.0,
    ]
