"""Two classes told apart: against scikit-learn, and thresholds against all others."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, recall_score

from colspace.metrics import f_score, sensitivity, specificity, youden_threshold


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True), ("ill", "well")])
@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_scikit_learns(labels, weighted):
    rng = np.random.default_rng(0)
    low, high = labels
    names = np.array(labels)
    truth, found = names[rng.integers(0, 2, 60)], names[(rng.random(60) < 0.7).astype(int)]
    w = rng.integers(0, 4, 60).astype(float) if weighted else None
    given = {"sample_weight": w} | ({"pos_label": "ill"} if low == "ill" else {})
    yes, no = ("ill", "well") if low == "ill" else (high, low)
    peers = [recall_score(truth, found, pos_label=label, sample_weight=w) for label in (yes, no)]
    peers.append(f1_score(truth, found, pos_label=yes, sample_weight=w))
    ours = [f(truth, found, **given) for f in (sensitivity, specificity, f_score)]
    np.testing.assert_allclose(ours, peers, rtol=1e-12)
    assert len(set(np.round(ours, 6))) == 3


def test_counts_by_hand():
    truth, found = [1, 1, 1, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0, 0]
    assert sensitivity(truth, found) == pytest.approx(2 / 3)
    assert specificity(truth, found) == pytest.approx(3 / 4)
    assert f_score(truth, found) == pytest.approx(4 / 6)
    assert f_score([1, 0], [0, 0]) == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_youdens_threshold_is_the_best_of_all_scores(seed):
    rng = np.random.default_rng(seed)
    truth = (rng.random(30) < 0.4).astype(int)
    score = np.round(rng.normal(size=30) + truth, 1)  # with ties
    w = rng.integers(0, 3, 30).astype(float)

    def merit(t):
        cut = (score >= t).astype(int)
        return sum(f(truth, cut, sample_weight=w) for f in (sensitivity, specificity))

    found = youden_threshold(truth, score, sample_weight=w)
    merits = {t: merit(t) for t in score}
    assert found in merits
    best = max(merits.values())
    assert merits[found] == pytest.approx(best)
    # rows without weight have no say in which of several it is
    assert all(t <= found for t, m in merits.items() if m > best - 1e-12 and w[score == t].sum() > 0)


def test_of_equal_thresholds_the_largest_is_taken():
    truth = [1, 1, 1, 0, 1] + [0] * 9 + [1] * 6  # .3 - 0 after three rows, .4 - .1 after five
    score = -np.arange(20.0)
    assert 0.4 - 0.1 > 0.3  # by rounding
    assert youden_threshold(truth, score) == -2.0


def test_scores_the_wrong_way_round_take_all_rows():
    assert youden_threshold([1, 1, 0, 0], [0.1, 0.2, 0.3, 0.4]) == 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sensitivity(["a", "b"], ["a", "a"]), "y holds 'a', 'b'.*give pos_label="),
        (lambda: sensitivity([1, 2, 3], [1, 2, 3], pos_label=1), "two classes, but y holds 1, 2, 3"),
        (lambda: sensitivity([1, 0, -1], [1, 0, 1]), "y holds -1, 0, 1"),
        (lambda: sensitivity([0, 0], [1, 0]), "sensitivity is not defined: no row of y_true is positive"),
        (lambda: specificity([1, 1], [1, 0]), "specificity is not defined: no row of y_true is negative"),
        (lambda: f_score([0, 0], [0, 0]), "f_score is not defined"),
        (lambda: f_score([0, 1], [0, 0, 1]), "labels of the same rows, got 2 and 3"),
        (lambda: f_score([0, 1], [0, 1], sample_weight=[1, -1]), "2 finite numbers >= 0"),
        (lambda: f_score([[0, 1]], [[0, 1]]), r"one label a row, got shape \(1, 2\)"),
        (lambda: youden_threshold([0, 1], [0.1, np.nan]), "2 finite scores"),
        (lambda: youden_threshold([1, 1], [0.1, 0.2]), "rows of both classes"),
        (lambda: youden_threshold([1, 0], [0.1, 0.2], sample_weight=[1, 0]), "weights > 0"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
