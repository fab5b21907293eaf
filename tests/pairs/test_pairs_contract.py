"""What scikit-learn expects of estimators that take two tables: parameters, clones, searches, files."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from colspace import BilinearPairRegressor, KernelPairRegressor, PairRegressor
from colspace.datasets import make_pairs
from colspace.io import load, save
from colspace.metrics import auc_by_entity, average_precision_by_entity, precision_at_k, recall_at_k
from colspace.pairs import HeldOutEntities, PairTable, pair_scorer

FIXED = PairRegressor(2, shrinkage=0.1, bandwidth=0.3)
RIDGE = KernelPairRegressor(bandwidth=0.5, alpha=1.0, reduction=None)
MODELS = [
    FIXED,
    PairRegressor(2),
    BilinearPairRegressor(2),
    RIDGE,
    KernelPairRegressor("entries", reduction="joint", n_components=2, calibrate=True, cv=2),
]


@pytest.fixture(scope="module")
def data():
    A, B, Y, _ = make_pairs(60, 40, 6, 2, rng=0)
    return A, B, Y


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_clones_refit_to_the_same_and_inputs_stay_as_they_are(model, data):
    A, B, Y = data
    kept = A.copy(), B.copy(), Y.copy()
    first = clone(model).fit(A, B, Y)
    second = clone(first).fit(A, B, Y)
    np.testing.assert_array_equal(first.predict(A), second.predict(A))
    assert first.get_params() == model.get_params()
    np.testing.assert_array_equal(A, kept[0])
    np.testing.assert_array_equal(B, kept[1])
    assert (kept[2] != Y).nnz == 0
    with pytest.raises(NotFittedError):
        clone(model).predict(A)


def test_a_fitted_model_shares_nothing_with_its_input(data):
    A, B, Y = data
    Y, mask = Y.copy(), (Y + sparse.eye_array(60, 40)).tocsr()
    mask.data[:] = np.linspace(-1, 1, mask.nnz)
    kept = mask.copy()
    model = clone(FIXED).fit(A, B, Y, mask)
    np.testing.assert_array_equal(mask.data, kept.data)
    before = model.predict()
    Y.data[:] = 9.0
    mask.data[:] = 0.0
    np.testing.assert_array_equal(model.predict(), before)
    zero_filled = [
        clone(FIXED).fit(A, B, Y),
        clone(RIDGE).set_params(target="entries", profile=0.5).fit(A, B, Y),
    ]
    before = [one.predict() for one in zero_filled]
    Y.data[:] = 0.0
    for one, kept in zip(zero_filled, before, strict=True):
        np.testing.assert_array_equal(one.predict(), kept)


@pytest.mark.parametrize("E", [PairRegressor, BilinearPairRegressor, KernelPairRegressor])
def test_every_parameter_is_checked(E, data):
    assert set(E._parameter_constraints) == set(E().get_params())
    for name in E._parameter_constraints:
        with pytest.raises((ValueError, TypeError), match=name):
            E(**{name: type("Nonsense", (), {})()}).fit(*data)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("mask", [None, "observed"])
def test_saved_and_loaded(model, mask, data, tmp_path):
    A, B, Y = data
    A = pd.DataFrame(A, index=[f"d{i}" for i in range(60)])
    if mask is not None and getattr(model, "calibrate", False):
        mask = Y.toarray() >= 0  # pairs without a link, too
    model = clone(model).fit(A, B, Y, mask)
    save(model, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")
    pd.testing.assert_frame_equal(again.predict(A), model.predict(A))
    pd.testing.assert_frame_equal(again.rank(k=2), model.rank(k=2))
    if isinstance(model, PairRegressor):
        pd.testing.assert_frame_equal(again.explain("d3", 2), model.explain("d3", 2))


def test_refit_forgets_the_search(data):
    model = PairRegressor(2, bandwidth=0.3).fit(*data)
    tried = model.cv_results_["shrinkage"].tolist()
    assert tried[0] == 0.3
    assert len(tried) == len(set(tried)) > 2
    assert not hasattr(model.set_params(shrinkage=0.2).fit(*data), "cv_results_")
    assert model.shrinkage_ == 0.2


@pytest.mark.parametrize("frames", [False, True])
def test_grid_search_over_held_out_entities(data, frames):
    A, B, Y = data
    if frames:
        A = pd.DataFrame(A, index=[f"d{i}" for i in range(60)])
    table, splitter = PairTable(A, B, Y), HeldOutEntities(3, random_state=0)
    search = GridSearchCV(
        FIXED, {"n_components": [1, 2]}, cv=splitter, scoring=pair_scorer("recall", 5), error_score="raise"
    ).fit(table)
    for place, r in enumerate((1, 2)):
        by_hand = []
        for train, test in splitter.split(table):
            model = clone(FIXED).set_params(n_components=r).fit(_rows(A, train), B, Y[train])
            by_hand.append(recall_at_k(Y[test], model.predict(_rows(A, test)), 5))
        assert search.cv_results_["mean_test_score"][place] == pytest.approx(np.mean(by_hand))
    assert search.best_params_ == {"n_components": 2}
    np.testing.assert_array_equal(search.predict(table), clone(FIXED).fit(A, B, Y).predict(A))


def _rows(A, index):
    return A.iloc[index] if hasattr(A, "iloc") else A[index]


def test_bilinear_search_and_plain_folds(data):
    search = GridSearchCV(
        BilinearPairRegressor(2),
        {"alpha": [0.03, 3.0]},
        cv=KFold(3),
        scoring=pair_scorer("auc"),
        error_score="raise",
    ).fit(PairTable(*data))
    assert search.best_params_ == {"alpha": 0.03}


def test_every_scorer(data):
    A, B, Y = data
    model = clone(FIXED).fit(A, B, Y)
    scores = model.predict()
    table = PairTable(A, B, Y)
    assert pair_scorer("recall", 3)(model, table) == recall_at_k(Y, scores, 3)
    assert pair_scorer("precision", 3)(model, table) == precision_at_k(Y, scores, 3)
    assert pair_scorer("average_precision")(model, table) == average_precision_by_entity(Y, scores)
    assert pair_scorer("auc")(model, table) == auc_by_entity(Y, scores)
    dense = Y.toarray()
    error = pair_scorer("neg_mean_squared_error")
    assert error(model, table) == pytest.approx(-np.mean((dense - scores) ** 2))
    at_links = -np.mean((dense - scores)[dense > 0] ** 2)
    assert error(model, PairTable(A, B, Y, "observed")) == pytest.approx(at_links)
    gaps = np.where(dense > 0, dense, np.nan)
    assert error(model, PairTable(A, B, gaps, "observed")) == pytest.approx(at_links)
    assert error(model, PairTable(A, B, Y, sparse.csr_array(dense > 0))) == pytest.approx(at_links)
    alone = PairTable(A[:1], B, np.ones((1, 40)), "observed")  # scores that one could not learn from
    assert error(model, alone) == pytest.approx(-np.mean((1 - scores[0]) ** 2))
    new = model.rank(table, k=2)  # without names nobody is known
    assert not new["known"].any()
    pd.testing.assert_frame_equal(new.drop(columns="known"), model.rank(k=2).drop(columns="known"))
    with pytest.raises(TypeError, match="holds B itself"):
        model.predict(table, B)
    observed = cross_val_score(
        FIXED, PairTable(A, B, dense, dense > 0), cv=HeldOutEntities(3, random_state=0), scoring=error
    )
    assert np.isfinite(observed).all()


def test_splitter_holds_out_linked_entities_once():
    Y = np.zeros((20, 3))
    Y[::2, 0] = 1
    table = PairTable(np.zeros((20, 2)), np.zeros((3, 2)), Y)
    splitter = HeldOutEntities(4, random_state=1)
    assert splitter.get_n_splits(table) == 4
    parts = list(splitter.split(table))
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(0, 20, 2))
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(20))
    stored = sparse.csr_array(Y + 1)  # every pair is stored
    stored.data[:] = Y.ravel()
    again = list(splitter.split(PairTable(table.A, table.B, stored)))
    assert [test.tolist() for _, test in again] == [test.tolist() for _, test in parts]
    with pytest.raises(ValueError, match="11 folds need as many left entities with links, and there are 10"):
        list(HeldOutEntities(11).split(table))
    with pytest.raises(TypeError, match="splits a PairTable"):
        list(splitter.split(Y))
    with pytest.raises(ValueError, match="at least 2"):
        HeldOutEntities(1)


def test_wrong_scorers_and_tables(data):
    A, B, Y = data
    with pytest.raises(ValueError, match="must be one of recall"):
        pair_scorer("rmse")
    with pytest.raises(ValueError, match="k=0"):
        pair_scorer("recall", 0)
    with pytest.raises(ValueError, match="A has 59 entities, but Y has 60 rows"):
        PairTable(A[:59], B, Y)
    with pytest.raises(TypeError, match="holds B, Y, mask and sample_weight itself"):
        FIXED.fit(PairTable(A, B, Y), B, Y)
    with pytest.raises(TypeError, match="features of both sides and the scores"):
        FIXED.fit(A, B)
