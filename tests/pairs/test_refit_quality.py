"""Held-out quality of joint reduction and kernel regression, by refits, beside rivals."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from colspace import PairRegressor
from colspace.datasets import make_pairs
from colspace.metrics import average_precision_by_entity, recall_at_k
from colspace.pairs import HeldOutEntities, PairTable
from colspace.pairs._refit_quality import refit_quality

GIVEN = {"n_components": 2, "shrinkage": 0.1, "bandwidth": 0.3}


@pytest.fixture
def data():
    A, B, Y, _ = make_pairs(60, 40, 5, 2, n_links=5, rng=0)
    return pd.DataFrame(A), pd.DataFrame(B), sparse.csr_array(Y)


def test_rows_are_refits_and_rivals_by_hand(data):
    A, B, Y = data
    rows = {row["method"]: row for row in refit_quality(PairRegressor(**GIVEN), A, B, Y, None, 5)}
    assert list(rows) == ["joint reduction", "popularity", "nearest neighbours"]
    own, popular, near = [], [], {n: [] for n in (1, 3, 10, 30)}
    Z = ((A - A.mean()) / A.std(ddof=0)).to_numpy()
    D = np.linalg.norm(Z[:, None] - Z[None], axis=2)
    S = np.exp(-((D / np.median(D[np.triu_indices(60, 1)])) ** 2) / (2 * 0.5**2))
    for train, test in HeldOutEntities(3, random_state=0).split(PairTable(A, B, Y)):
        truth = Y[test].toarray()
        scores = PairRegressor(**GIVEN).fit(A.iloc[train], B, Y[train]).predict(A.iloc[test])
        own.append((recall_at_k(truth, scores, 5), average_precision_by_entity(truth, scores)))
        counts = np.tile(np.asarray(Y[train].sum(axis=0)).ravel(), (len(test), 1))
        popular.append(recall_at_k(truth, counts, 5))
        for n, values in near.items():
            order = [train[np.argsort(-S[i, train])[:n]] for i in test]
            means = np.array(
                [S[i, o] @ Y[o].toarray() / S[i, o].sum() for i, o in zip(test, order, strict=True)]
            )
            values.append(recall_at_k(truth, means, 5))
    assert rows["joint reduction"]["recall"] == pytest.approx(np.mean(own, axis=0)[0])
    assert rows["joint reduction"]["average precision"] == pytest.approx(np.mean(own, axis=0)[1])
    assert rows["popularity"]["recall"] == pytest.approx(np.mean(popular))
    table = np.array(list(near.values()))
    best = [np.delete(table, f, axis=1).mean(axis=1).argmax() for f in range(3)]
    assert rows["nearest neighbours"]["recall"] == pytest.approx(
        np.mean([table[b, f] for f, b in enumerate(best)])
    )


def test_similarities_gaps_and_observed_pairs(data):
    A, B, Y = data
    S, T = (pd.DataFrame(X.to_numpy() @ X.to_numpy().T + np.eye(len(X))) for X in (A, B))
    model = PairRegressor(**GIVEN, metric="precomputed")
    assert refit_quality(model, S, T, Y, None, 5)[0]["recall"] > 0.1
    holes = A.mask(np.random.default_rng(0).random(A.shape) < 0.05)
    filled = refit_quality(PairRegressor(**GIVEN, impute=True), holes, B, Y, None, 5)
    assert [row["method"] for row in filled][-1] == "nearest neighbours"
    Y.data[:] = np.random.default_rng(1).random(Y.nnz)
    rows = refit_quality(PairRegressor(**GIVEN), A, B, Y, "observed", 5)
    assert [row["method"] for row in rows] == ["joint reduction", "mean"]
    assert rows[1]["error"] == pytest.approx(Y.data.std(), rel=0.1)


def test_too_few_entities_with_links_say_nothing(data):
    A, B, _ = data
    two = sparse.csr_array(([1.0, 1.0], ([0, 1], [2, 3])), shape=(60, 40))
    assert refit_quality(PairRegressor(**GIVEN), A, B, two, None, 5) == []
