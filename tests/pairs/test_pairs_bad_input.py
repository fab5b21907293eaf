"""Each kind of bad input has its own message."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from colspace import BilinearPairRegressor, ConstantColumnWarning, PairRegressor
from colspace.datasets import make_pairs
from colspace.pairs import DisconnectedGraphWarning, link_matrix, spectral_features


def fixed(r=2, **kw):
    return PairRegressor(r, **{"shrinkage": 0.1, "bandwidth": 0.3, **kw})


@pytest.fixture
def data():
    A, B, Y, _ = make_pairs(30, 20, 5, 2, rng=0)
    return A, B, Y


BOTH = pytest.mark.parametrize("model", [fixed(), BilinearPairRegressor(2)], ids=["kernel", "bilinear"])


@BOTH
def test_nan_in_features_names_the_imputer(model, data):
    A, B, Y = data
    A[3, 2] = np.nan
    A[7, :2] = np.nan
    with pytest.raises(
        ValueError, match=r"A contains NaN: 3 values of 2 entities, e.g. 3, 7\. .*CopulaImputer"
    ):
        model.fit(A, B, Y)
    frame = pd.DataFrame(B, index=[f"g{i}" for i in range(20)])
    frame.loc["g4", 1] = np.nan
    with pytest.raises(ValueError, match=r"B contains NaN: 1 values of 1 entities, e.g. 104\."):
        model.fit(data[1][:, :], frame.set_axis(np.arange(100, 120)), Y[:20])
    with pytest.raises(ValueError, match=r"B contains NaN: 1 values of 1 entities, e.g. 'g4'.*CopulaImputer"):
        model.fit(data[1][:, :], frame, Y[:20])


@BOTH
def test_entities_without_features(model, data):
    A, B, Y = data
    B = pd.DataFrame(B, index=[f"g{i}" for i in range(20)])
    B.loc[["g4", "g9"]] = np.nan
    with pytest.raises(ValueError, match=r"2 entities of B have no features at all: 'g4', 'g9'"):
        model.fit(A, B, Y)


@BOTH
def test_all_zero_scores(model, data):
    A, B, Y = data
    for empty in (np.zeros((30, 20)), sparse.csr_array((30, 20)), Y * 0.0):
        with pytest.raises(ValueError, match="all scores in Y are zero"):
            model.fit(A, B, empty)


def test_scores_that_tell_nothing_apart(data):
    A, B, Y = data
    Y.data[:] = 2.0
    with pytest.raises(
        ValueError, match=r"all observed pairs have the score 2.*without mask absent pairs count as zeros"
    ):
        fixed().fit(A, B, Y, "observed")
    with pytest.raises(ValueError, match="no pair is observed"):
        fixed().fit(A, B, Y, np.zeros((30, 20), dtype=bool))


@pytest.mark.parametrize(
    ("reduction", "limit"), [("joint", 5), ("phd", 5), ("cphd", 5), ("sols", 5), ("pca", 5)]
)
def test_more_directions_than_features(data, reduction, limit):
    shrinkage = "auto" if reduction == "pca" else 0.1
    with pytest.raises(ValueError, match=rf"n_components=6 .*A has 5 features and B 5; use at most {limit}"):
        fixed(6, reduction=reduction, shrinkage=shrinkage).fit(*data)


@pytest.mark.parametrize(("reduction", "count"), [("joint", 5), ("pca", 5), ("cphd", 5), ("sols", 5)])
def test_ten_directions_or_as_many_as_features_give(data, reduction, count):
    A, B, Y = data
    shrinkage = "auto" if reduction == "pca" else 0.1
    model = PairRegressor(reduction=reduction, shrinkage=shrinkage, bandwidth=0.3).fit(A, B, Y)
    assert model.n_components_ == count
    assert_allclose(
        model.predict(), fixed(count, reduction=reduction, shrinkage=shrinkage).fit(A, B, Y).predict()
    )


def test_bilinear_rank_is_ten_or_as_many_as_features_give(data):
    A, B, Y = data
    assert BilinearPairRegressor().fit(A, B, Y).factors_["left"].shape[1] == 5
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((30, 12)), rng.standard_normal((20, 12))
    assert BilinearPairRegressor().fit(*wide, Y).factors_["left"].shape[1] == 10


def test_widths_of_cphd_are_those_of_both_sides_together(data):
    A, _, Y = data
    wide = np.random.default_rng(0).standard_normal((20, 9))
    assert fixed(7, reduction="cphd").fit(A, wide, Y).transform(A).shape == (30, 14)
    with pytest.raises(ValueError, match="A has 5 features and B 9; use at most 7"):
        fixed(8, reduction="cphd").fit(A, wide, Y)


def test_entities_that_are_not_observed_do_not_count_against_singular_covariances(data):
    A, B, Y = data
    mask = np.zeros((30, 20), dtype=bool)
    mask[:5] = True
    with pytest.raises(ValueError, match=r"more rows than columns are needed: 5 rows.*A has 5 columns"):
        fixed(shrinkage=0.0).fit(A, B, Y, mask)
    few = fixed(2, reduction="cphd", shrinkage=0.0).fit(A[:9], B, Y[:9])  # 29 entities, 10 features
    assert np.isfinite(few.predict()).all()


def test_bilinear_rank_above_features(data):
    with pytest.raises(ValueError, match="use at most 5"):
        BilinearPairRegressor(6).fit(*data)


def test_more_features_than_entities_need_shrinkage(data):
    _, B, Y = data
    wide = np.random.default_rng(0).standard_normal((30, 40))
    with pytest.raises(ValueError, match=r"A has 40 columns.*shrinkage='auto'"):
        fixed(shrinkage=0.0).fit(wide, B, Y)
    assert fixed(shrinkage=0.5).fit(wide, B, Y).predict(wide[:2]).shape == (2, 20)


@BOTH
def test_shapes_and_kinds(model, data):
    A, B, Y = data
    with pytest.raises(
        ValueError, match=r"Y has shape \(20, 30\), but A has 30 entities and B 20 \(Y.T has it"
    ):
        model.fit(A, B, Y.T)
    with pytest.raises(ValueError, match=r"Y has shape \(29, 20\), but A has 30"):
        model.fit(A, B, Y[:29])
    with pytest.raises(ValueError, match="got 1D array instead: Y must"):
        model.fit(A, B, np.ones(30))
    dense = Y.toarray()
    dense[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"NaN \(1 of 600 pairs\).*mask='observed'"):
        model.fit(A, B, dense)
    bad = Y.copy()
    bad.data[0] = np.nan
    with pytest.raises(ValueError, match="among its stored scores"):
        model.fit(A, B, bad)
    with pytest.raises(ValueError, match="mask='seen' must be None, 'observed'"):
        model.fit(A, B, Y, "seen")
    with pytest.raises(ValueError, match=r"mask has shape \(3, 3\)"):
        model.fit(A, B, Y, np.ones((3, 3)))
    with pytest.raises(TypeError, match="A is sparse, but features are centred"):
        model.fit(sparse.csr_array(A), B, Y)
    with pytest.raises(ValueError, match="B contains infinity, first for entity 2"):
        model.fit(A, np.where(np.arange(20)[:, None] == 2, np.inf, B), Y)
    with pytest.raises(ValueError, match="columns that are not numbers: 'kind'"):
        model.fit(pd.DataFrame(A).assign(kind="x").rename(columns=str), B, Y)


def test_masks_that_contradict_the_scores(data):
    A, B, Y = data
    dense = np.where(Y.toarray() > 0, Y.toarray(), np.nan)
    mask = ~np.isnan(dense)
    scores = fixed().fit(A, B, dense, mask).predict()
    np.testing.assert_array_equal(scores, fixed().fit(A, B, Y, "observed").predict())
    mask[0] = True
    gaps = int(np.isnan(dense[0]).sum())
    with pytest.raises(ValueError, match=rf"Y is NaN at {gaps} pairs that mask calls observed"):
        fixed().fit(A, B, dense, mask)
    with pytest.raises(ValueError, match="mask contains NaN"):
        fixed().fit(A, B, Y, dense)


def test_the_same_pair_twice_is_the_sum_in_scores_and_once_in_masks(data):
    A, B, Y = data
    twice = (np.repeat(Y.indices, 2), 2 * Y.indptr)
    halves = sparse.csr_array((np.repeat(Y.data / 2, 2), *twice), shape=Y.shape)
    whole = sparse.csr_array((np.ones(2 * Y.nnz), *twice), shape=Y.shape)
    for mask, same in ((None, None), ("observed", "observed"), (whole, "observed")):
        expected = fixed().fit(A, B, Y, same).predict()
        np.testing.assert_allclose(fixed().fit(A, B, halves, mask).predict(), expected, rtol=1e-12)
        np.testing.assert_allclose(fixed().fit(A, B, halves.tocoo(), mask).predict(), expected, rtol=1e-12)
    assert halves.nnz == 2 * Y.nnz
    i, j = Y.tocoo().coords
    small = sparse.coo_array((np.full(2 * Y.nnz, 100, np.int8), (np.r_[i, i], np.r_[j, j])), shape=Y.shape)
    np.testing.assert_array_equal(fixed().fit(A, B, small).Y_.data, 200.0)


def test_gaps_of_pandas_in_scores(data):
    A, B, Y = data
    frame = pd.DataFrame(Y.toarray()).where(Y.toarray() > 0)
    expected = fixed().fit(A, B, Y, "observed").predict()
    np.testing.assert_array_equal(fixed().fit(A, B, frame.astype("Float64"), "observed").predict(), expected)


def test_names_that_do_not_fit(data):
    A, B, Y = data
    left, right = [f"d{i}" for i in range(30)], [f"g{i}" for i in range(20)]
    A, B = pd.DataFrame(A, index=left), pd.DataFrame(B, index=right)
    scores = pd.DataFrame(Y.toarray(), index=left, columns=right)
    assert fixed().fit(A, B, scores).predict().shape == (30, 20)
    with pytest.raises(
        ValueError, match=r"rows of Y and A name the same entities in another order; use Y.loc"
    ):
        fixed().fit(A, B, scores[::-1])
    with pytest.raises(ValueError, match=r"columns of Y and B name different entities, e.g. 'h'"):
        fixed().fit(A, B, scores.rename(columns={"g3": "h"}))
    with pytest.raises(ValueError, match=r"rows of mask and A name the same entities.*use mask.loc"):
        fixed().fit(A, B, scores, (scores > 0)[::-1])
    with pytest.raises(ValueError, match=r"rows of Y and A name the same entities in another order"):
        fixed().fit(A.reset_index(drop=True), B, scores.reset_index(drop=True)[::-1])
    # labels that only count name nothing
    expected = fixed().fit(A, B, scores).predict()
    np.testing.assert_array_equal(fixed().fit(A, B, pd.DataFrame(Y.toarray())).predict(), expected)
    np.testing.assert_array_equal(fixed().fit(A.to_numpy(), B, scores[::-1][::-1]).predict(), expected)
    with pytest.raises(ValueError, match="1 entities stand twice in A: 'd0'"):
        fixed().fit(A.rename(index={"d1": "d0"}), B, Y)


def test_predicting_with_other_features(data):
    A, B, Y = data
    A = pd.DataFrame(A, columns=list("abcde"))
    model = fixed().fit(A, B, Y)
    with pytest.raises(ValueError, match="A has 4 features, but 5 were given to fit"):
        model.predict(A[list("abcd")])
    with pytest.raises(ValueError, match="column 0 is 'b', in fit it was 'a'"):
        model.predict(A[list("bacde")])
    with pytest.raises(ValueError, match="B contains NaN"):
        model.predict(A, np.where(np.arange(5), B, np.nan))
    with pytest.raises(ValueError, match="side='top'"):
        model.transform(A, "top")
    for k in (0, 21, 2.5):
        with pytest.raises(ValueError, match=r"k=.* between 1 and the 20 entities"):
            model.rank(A, k=k)
    with pytest.raises(ValueError, match="30 is no position of an entity of A: whole numbers from 0 to 29"):
        model.explain(30, 0)
    named = fixed().fit(A.set_axis([f"d{i}" for i in range(30)]), B, Y)
    with pytest.raises(ValueError, match="no entity of A is called 3; names look like 'd0'"):
        named.explain(3, 0)
    for k in (0, -2, 1.5):
        with pytest.raises(ValueError, match="must be a whole number at least 1"):
            model.explain(0, 0, k=k)


def test_settings_that_make_no_sense(data):
    for wrong in ((1.0,), (1.0, 2.0, 3.0), (0.1, -1.0), ("a", 1.0), (np.inf, 1.0)):
        with pytest.raises(ValueError, match="must be 'auto', a positive number, or two of them"):
            fixed(bandwidth=wrong).fit(*data)
    with pytest.raises(ValueError, match=r"shrinkage=0.1 belongs to whitened features"):
        fixed(reduction="pca").fit(*data)
    A, B, Y = data
    with pytest.raises(ValueError, match="2 folds need as many left entities with links, and there are 1"):
        PairRegressor(2, cv=2).fit(A, B, np.where(np.arange(30)[:, None] == 4, Y.toarray(), 0.0))
    with pytest.raises(ValueError, match="too few for that; use n_components=4 or less"):
        fixed(5, reduction="sols").fit(A[:9], B, Y[:9])


def test_constant_features_are_named(data):
    A, B, Y = data
    A[:, 1] = 3.0
    with pytest.warns(ConstantColumnWarning, match=r"1 constant column\(s\) get loadings of zero: 1"):
        model = fixed().fit(A, B, Y)
    np.testing.assert_allclose(model.loadings_["left"][1], 0, atol=1e-12)
    A[20:, 1] = 4.0  # of entities without a single observed pair
    mask = np.arange(30)[:, None] + np.zeros(20) < 20
    with pytest.warns(ConstantColumnWarning, match="1 constant"):
        model = fixed().fit(A, B, Y, mask)
    np.testing.assert_allclose(model.loadings_["left"][1], 0, atol=1e-12)


@pytest.mark.parametrize("mask", [None, "observed"])
@pytest.mark.parametrize(
    "model",
    [
        *(fixed(reduction=name) for name in ("joint", "phd", "cphd", "sols")),
        fixed(reduction="pca", shrinkage="auto"),
        BilinearPairRegressor(2),
    ],
    ids=repr,
)
def test_constant_features_change_nothing_whatever_their_rounding(data, model, mask):
    A, B, Y = data
    plain = model.fit(A, B, Y, mask).predict(A[:4])
    for value in (0.1, 1e6 + 0.1):  # the mean of thirty of them is another number
        wide = np.c_[A, np.full(30, value)]
        with pytest.warns(ConstantColumnWarning):
            model.fit(wide, B, Y, mask)
        new = wide[:4] + np.r_[np.zeros(5), 0.5]
        np.testing.assert_allclose(model.predict(new), plain, rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------------- links by name


def test_links_by_name():
    Y = link_matrix(["x", "y", "x"], [3, 3, 4], [1, 2, 3], left_ids=["y", "x"], right_ids=[4, 3])
    np.testing.assert_array_equal(Y.toarray(), [[0, 2], [3, 1]])


def test_unknown_ids_are_counted_and_listed():
    ids = {"left_ids": ["x"], "right_ids": ["p"]}
    links = ["x", "a", "b", "c", "d", "e", "f", "a"], ["p", "p", "p", "q", "p", "p", "p", "p"]
    text = r"7 of 8 links name 6 left id\(s\) that no table has: 'a', 'b', 'c', 'd', 'e' and 1 more and 1 right id\(s\)"
    with pytest.raises(ValueError, match=text + r".*'q'.*unknown='drop'"):
        link_matrix(*links, **ids)
    with pytest.warns(UserWarning, match="these links are left out"):
        Y = link_matrix(*links, unknown="drop", **ids)
    np.testing.assert_array_equal(Y.toarray(), [[1.0]])


def test_duplicate_links_and_ids():
    links = (["x", "y", "x"], ["p", "p", "p"], [1.0, 2.0, 4.0])
    ids = {"left_ids": ["x", "y"], "right_ids": ["p"]}
    with pytest.raises(ValueError, match=r"1 link\(s\) stand twice or more: \('x', 'p'\)"):
        link_matrix(*links, **ids)
    for how, expected in (("sum", 5.0), ("max", 4.0), ("mean", 2.5)):
        np.testing.assert_array_equal(
            link_matrix(*links, duplicates=how, **ids).toarray(), [[expected], [2.0]]
        )
    with pytest.raises(ValueError, match=r"1 id\(s\) stand twice in the right table: 'p'"):
        link_matrix(*links, left_ids=["x", "y"], right_ids=["p", "p"])
    with pytest.raises(ValueError, match=r"score of link 1 \('y', 'p'\) is nan"):
        link_matrix(["x", "y"], ["p", "p"], [1.0, np.nan], **ids)
    with pytest.raises(ValueError, match="2 left ids, 1 right ids"):
        link_matrix(["x", "y"], ["p"], **ids)
    for name in ("unknown", "duplicates"):
        with pytest.raises(ValueError, match=f"{name}='keep'"):
            link_matrix(*links, **{name: "keep"}, **ids)


# ---------------------------------------------------------------------- similarities


def test_disconnected_graphs():
    S = np.kron(np.eye(3), np.ones((2, 2)))
    with pytest.warns(
        DisconnectedGraphWarning, match=r"3 parts of 2, 2, 2 entities.*3 parts take up 3 of the 4"
    ):
        spectral_features(S, 4)
    with pytest.warns(DisconnectedGraphWarning, match=r"more than n_components=2"):
        spectral_features(sparse.csr_array(S), 2)
    S[0] = S[:, 0] = 0
    with pytest.raises(ValueError, match=r"1 entities have no similarity to any other.*: 0"):
        spectral_features(S, 2)


@pytest.mark.parametrize(
    ("S", "message"),
    [
        (np.ones((3, 2)), "square matrix"),
        (-np.ones((3, 3)), "negative numbers"),
        (np.full((3, 3), np.nan), "NaN"),
        (np.triu(np.ones((3, 3))), "not symmetric"),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_bad_similarities(S, message, kind):
    with pytest.raises(ValueError, match=message):
        spectral_features(kind(S), 2)
    with pytest.raises(ValueError, match="n_components=4 must lie between 1 and the 3"):
        spectral_features(np.ones((3, 3)), 4)
