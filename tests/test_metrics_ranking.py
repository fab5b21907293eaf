from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import average_precision_score, roc_auc_score

from colspace.metrics import auc_by_entity, average_precision_by_entity, precision_at_k, recall_at_k


@pytest.fixture
def tied():
    rng = np.random.default_rng(0)
    return rng.random((8, 7)) < 0.4, rng.integers(0, 3, (8, 7)).astype(float)


def brute_hits(p, s, k):
    """Mean over all orders of tied partners."""
    hits = []
    for order in permutations(range(len(s))):
        if all(s[a] >= s[b] for a, b in pairwise(order)):
            hits.append(sum(p[i] for i in order[:k]))
    return np.mean(hits)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_recall_and_precision_are_expectations_over_ties(tied, k):
    P, S = tied
    P[2] = False
    recall, precision = (f(P, S, k, per_entity=True) for f in (recall_at_k, precision_at_k))
    for i in range(8):
        if i == 2:
            assert np.isnan(recall[i])
            assert np.isnan(precision[i])
            continue
        hits = brute_hits(P[i], S[i], k)
        assert recall[i] == pytest.approx(hits / P[i].sum())
        assert precision[i] == pytest.approx(hits / k)
    assert recall_at_k(P, S, k) == pytest.approx(np.nanmean(recall))
    assert recall_at_k(sparse.csr_array(P * 0.3), S, k) == pytest.approx(np.nanmean(recall))


def test_average_precision_and_auc_are_scikit_learns(tied):
    P, S = tied
    P[:, 0], P[:, 1] = True, False
    expected = [average_precision_score(p, s) for p, s in zip(P, S, strict=True)]
    np.testing.assert_allclose(average_precision_by_entity(P, S, per_entity=True), expected)
    expected = [roc_auc_score(p, s) for p, s in zip(P, S, strict=True)]
    np.testing.assert_allclose(auc_by_entity(P, S, per_entity=True), expected)
    P[3], P[4] = False, True
    found = auc_by_entity(P, S, per_entity=True)
    assert np.isnan(found[[3, 4]]).all()
    assert auc_by_entity(P, S) == pytest.approx(np.mean(np.delete(expected, [3, 4])))


def test_bad_input(tied):
    P, S = tied
    for metric in (recall_at_k, precision_at_k):
        for k in (0, 8, 1.5):
            with pytest.raises(ValueError, match="between 1 and the 7 partners"):
                metric(P, S, k)
    for metric in (recall_at_k, precision_at_k, average_precision_by_entity, auc_by_entity):
        kw = {"k": 2} if metric in (recall_at_k, precision_at_k) else {}
        with pytest.raises(ValueError, match="no entity has"):
            metric(np.zeros_like(P), S, **kw)
        with pytest.raises(ValueError, match="not defined for NaN"):
            metric(P, S * np.nan, **kw)
        with pytest.raises(ValueError, match="one shape"):
            metric(P[:3], S, **kw)
        assert np.isfinite(metric(P[0], S[0], **kw))
