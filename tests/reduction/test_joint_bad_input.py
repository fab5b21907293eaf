"""Every bad input gets its own message: the value, the rule, the remedy."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from colspace import ConstantColumnWarning, JointReduction
from colspace.datasets import make_bilinear
from colspace.factor import SingularCovarianceWarning


@pytest.fixture(scope="module")
def data():
    X, y, blocks, _ = make_bilinear(300, 4, 1, rng=0)
    return X, y, blocks


def test_values_that_are_not_numbers(data):
    X, y, _ = data
    for bad, message in ((np.nan, "Input X contains NaN"), (np.inf, "Input X contains infinity")):
        broken = X.copy()
        broken[5, 2] = bad
        for table in (broken, sparse.csr_array(broken), da.from_array(broken, chunks=(100, 8))):
            with pytest.raises(ValueError, match=message):
                JointReduction().fit(table, y)
        with pytest.raises(ValueError, match=message):
            JointReduction(moments="all").partial_fit(broken, y)
    frame = pd.DataFrame(X).rename(columns=str).assign(city="Rome")
    for table in (frame, pl.from_pandas(frame), dd.from_pandas(frame, npartitions=2)):
        with pytest.raises(ValueError, match=r"columns that are not numbers: .*city.*encode"):
            JointReduction().fit(table, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_response_that_is_not_a_number(data, bad):
    X, y, _ = data
    broken = y.copy()
    broken[3] = bad
    with pytest.raises(ValueError, match="Input y contains"):
        JointReduction().fit(X, broken)
    with pytest.raises(ValueError, match="Input y contains"):
        JointReduction().fit(da.from_array(X, chunks=(100, 8)), da.from_array(broken, chunks=100))


def test_constant_response_everywhere(data):
    X, y, _blocks = data
    flat = np.ones_like(y)
    with pytest.raises(ValueError, match="y is constant: no direction"):
        JointReduction(moments="all").fit(X, flat)
    for options in ({}, {"solver": "randomized"}):
        with pytest.raises(ValueError, match="y is constant"):
            JointReduction(**options, moments="all").fit(
                da.from_array(X, chunks=(100, 8)), da.from_array(flat, chunks=100)
            )
    with pytest.raises(ValueError, match="y is constant"):
        JointReduction(moments="all").fit(iter([(X, flat)]))
    with pytest.raises(ValueError, match="column 1 of y is constant"):
        JointReduction(moments="all").fit(X, np.column_stack([y, flat]))


def test_rows(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="1 sample"):
        JointReduction(moments="all").fit(X[:1], y[:1])
    with pytest.raises(
        ValueError, match=r"more rows than columns are needed: 8 rows.*X has 8 columns.*Remedies: shrinkage"
    ):
        JointReduction(shrinkage=0.0).fit(X[:8], y[:8])
    with pytest.warns(SingularCovarianceWarning, match="8 rows and 8 columns"):
        assert np.isfinite(JointReduction(moments="all").fit(X[:8], y[:8]).components_).all()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        JointReduction(moments="all").fit(X, y[:-1])
    with pytest.raises(ValueError, match="different numbers of rows: 300 and 299"):
        JointReduction(moments="all").fit(da.from_array(X, chunks=(100, 8)), y[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        JointReduction(moments="all").fit(X)
    with pytest.raises(ValueError, match="requires y to be passed"):
        JointReduction(moments="all").fit(da.from_array(X, chunks=(100, 8)))


def test_columns(data):
    X, y, _blocks = data
    flat = np.column_stack([X, np.full(len(X), 7.0)])
    with pytest.raises(ValueError, match=r"1 constant column\(s\).*\[8\].*VarianceThreshold"):
        JointReduction(shrinkage=0.0).fit(flat, y)
    frame = pd.DataFrame(flat, columns=list("abcdefghi"))
    with pytest.raises(ValueError, match=r"constant column\(s\).*\['i'\]"):
        JointReduction(shrinkage=0.0).fit(frame, y)
    for options in (
        {"moments": "all"},
        {},
        {"whiten": "diagonal"},
        {"shrinkage": 0.1},
        {"whiten": None, "solver": "randomized"},
    ):
        with pytest.warns(ConstantColumnWarning, match=r"1 constant column\(s\) get loadings of zero: 'i'"):
            model = JointReduction(1, **options).fit(frame, y)
        np.testing.assert_allclose(model.components_[:, 8], 0, atol=1e-12)
    twice = np.column_stack([X, X[:, 0] + X[:, 1]])
    with pytest.raises(ValueError, match=r"singular: rank 8 of 9 columns.*shrinkage='auto'"):
        JointReduction(shrinkage=0.0).fit(twice, y)
    with pytest.warns(SingularCovarianceWarning, match="rank 8 of 9: some column is a combination"):
        model = JointReduction(1, moments="all").fit(twice, y)
    Z = JointReduction(1, moments="all").fit(X, y).transform(X)
    assert abs(np.corrcoef(model.transform(twice).T, Z.T)[0, 1]) > 1 - 1e-6


def test_blocks(data):
    X, y, _blocks = data
    with pytest.raises(TypeError, match=r"list of 2 tables.*stack_blocks"):
        JointReduction().fit([X[:, :4], X[:, 4:]], y)
    with pytest.raises(ValueError, match="overlap"):
        JointReduction(blocks={"a": slice(0, 5), "b": slice(4, 8)}).fit(X, y)
    with pytest.raises(ValueError, match="1 of 8 columns are in no block: 7"):
        JointReduction(blocks={"a": slice(0, 4), "b": slice(4, 7)}).fit(X, y)
    with pytest.raises(ValueError, match="matches no column"):
        JointReduction(blocks={"a": slice(0, 8), "b": []}).fit(X, y)
    with pytest.raises(ValueError, match="X has none"):
        JointReduction(blocks="prefix").fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 5}, "n_components=5 is more than the 4 columns of block 'a'"),
        ({"n_components": 0}, "'n_components' parameter .* Got 0"),
        ({"n_components": "many"}, "'n_components' parameter .* Got 'many'"),
        ({"whiten": "zca"}, "'whiten' parameter"),
        ({"shrinkage": 1.5}, "'shrinkage' parameter .* Got 1.5"),
        ({"solver": "magic"}, "'solver' parameter"),
        ({"n_power": -1}, "'n_power' parameter"),
        ({"response": "sqrt"}, "'response' parameter"),
        ({"moments": "cubic"}, "moments='cubic': choose 'auto', 'all'"),
        ({"moments": ()}, "choose 'auto', 'all'"),
        ({"moments": ("tensor", "linear")}, "stands alone"),
        ({"moments": "tensor", "n_components": "moments"}, "takes a number of components"),
        ({"n_selected": 3}, "which whiten='full' mixes; use whiten='diagonal'"),
        (
            {"n_selected": 5, "whiten": "diagonal"},
            "n_selected=5 must be a whole number between 1 and the 4 columns of block 'a'",
        ),
        ({"n_selected": 1, "whiten": None}, "n_selected=1 of block 'a' is less than n_components=2"),
        ({"n_selected": {"a": 2}, "whiten": None}, "n_selected names blocks"),
        (
            {"n_selected": 3, "whiten": None, "selection": "paper"},
            "selection='paper' is defined for two blocks",
        ),
        ({"n_components": "moments", "solver": "randomized"}, "never forms"),
        ({"n_selected": 3, "whiten": None, "solver": "countsketch"}, "never forms"),
    ],
)
def test_parameters(data, options, message):
    X, y, blocks = data
    with pytest.raises(ValueError, match=message):
        JointReduction(**{"n_components": 2, "blocks": blocks, **options}).fit(X, y)


def test_unknown_parameter():
    with pytest.raises(TypeError, match="n_component"):
        JointReduction(n_component=3)


def test_too_wide_for_a_full_covariance():
    S = sparse.random_array((16_100, 16_000), density=1e-5, rng=np.random.default_rng(0), format="csr")
    with pytest.raises(ValueError, match=r"16000 x 16000 covariance \(2.0 GB\); use whiten='diagonal'"):
        JointReduction().fit(S, np.arange(16_100.0))


def test_too_large_a_tensor():
    X, y, _, _ = make_bilinear(410, 600, 1, rng=0)
    blocks = {"a": slice(0, 400), "b": slice(400, 800), "c": slice(800, 1200)}
    with pytest.raises(ValueError, match=r"tensor of shape \(1, 400, 400, 400\).*moments='joint'"):
        JointReduction(1, blocks=blocks, whiten="diagonal", moments="tensor").fit(X, y)


def test_dask_with_unknown_chunks(data):
    X, y, _ = data
    lazy = da.from_array(X, chunks=(100, 8))
    with pytest.raises(ValueError, match=r"unknown chunk sizes.*compute_chunk_sizes"):
        JointReduction(moments="all").fit(lazy[lazy[:, 0] > 0], y)
    with pytest.raises(TypeError, match="give a Dask collection to fit"):
        JointReduction(moments="all").partial_fit(lazy, y)
    with pytest.raises(ValueError, match="2-D"):
        JointReduction(moments="all").fit(lazy[:, 0], y)
    model = JointReduction(moments="all").fit(lazy, y)
    with pytest.raises(ValueError, match="X has 7 features, but JointReduction is expecting 8"):
        model.transform(lazy[:, :7])
    with pytest.raises(ValueError, match="all of y at once"):
        JointReduction(response="rank", moments="all").fit(lazy, da.from_array(y, chunks=100))


def test_partial_fit(data):
    X, y, _ = data
    model = JointReduction(moments="all").partial_fit(X, y)
    with pytest.raises(ValueError, match="X has 7 features, but JointReduction is expecting 8"):
        model.partial_fit(X[:, :7], y)
    with pytest.raises(ValueError, match=r"y has 299 rows and 1 response\(s\), but X has 300 rows"):
        model.partial_fit(X, y[:-1])
    for options in (
        {"solver": "randomized"},
        {"shrinkage": "auto"},
        {"n_components": "auto"},
        {"n_components": "auto", "moments": "auto"},
        {"n_components": "moments"},
        {"n_selected": "auto", "whiten": None},
        {"moments": "tensor"},
    ):
        with pytest.raises(ValueError, match="more than once, so it does not work in chunks"):
            JointReduction(**{"moments": "all", **options}).partial_fit(X, y)
    with pytest.raises(ValueError, match="'n_power' parameter"):
        JointReduction(n_power=-1, moments="all").partial_fit(X, y)


def test_partial_fit_waits_for_enough_rows(data):
    X, y, _ = data
    model = JointReduction(moments="all")
    model.partial_fit(X[:5], y[:5])
    with pytest.raises(
        NotFittedError, match=r"keeps its rows and waits for more .*columns are needed: 5 rows"
    ):
        model.transform(X)
    model.partial_fit(X[5:], y[5:])
    assert model.transform(X).shape == (300, 2)


def test_partial_fit_after_fit_says_that_it_starts_afresh(data):
    X, y, _ = data
    model = JointReduction(moments="all").fit(X, y)
    with pytest.warns(UserWarning, match="starts afresh"):
        model.partial_fit(X[:100], y[:100])
    assert model.n_samples_seen_ == 100


def test_partial_fit_of_labels(data):
    X, y, _ = data
    labels = np.where(y > 0, "up", "down")
    with pytest.raises(ValueError, match=r"partial_fit\(X, y, classes="):
        JointReduction(moments="all").partial_fit(X, labels)
    model = JointReduction(moments="all").partial_fit(X[:200], labels[:200], classes=["down", "up"])
    model.partial_fit(X[200:], labels[200:])
    whole = JointReduction(moments="all").fit(X, labels)
    np.testing.assert_allclose(np.abs(model.components_), np.abs(whole.components_), atol=1e-9)


def test_chunks(data):
    X, y, _ = data
    with pytest.raises(TypeError, match="must yield pairs"):
        JointReduction(moments="all").fit(iter([X]))
    with pytest.raises(ValueError, match="was empty"):
        JointReduction(moments="all").fit(iter([]))
    with pytest.raises(ValueError, match="more rows than columns"):
        JointReduction(moments="all").fit(iter([(X[:5], y[:5])]))


def test_chunks_are_not_rounded_silently(data):
    X, y, _ = data
    single = X.astype(np.float32)
    with pytest.raises(TypeError, match=r"chunk 1 is of float64 numbers, and the first was of float32; make"):
        JointReduction().fit(iter([(single[:150], y[:150]), (X[150:], y[150:])]))
    fits = [
        JointReduction().fit(iter([(first, y[:150]), (second, y[150:])])).components_
        for first, second in ((single[:150], single[150:]), (X[:150], single[150:]))
    ]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-3)  # a wider type takes what is narrower


def test_not_fitted(data):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        JointReduction(moments="all").transform(data[0])


def test_rank_test_has_no_tensor_form(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="use moments='joint'"):
        JointReduction(moments="tensor", blocks={"a": slice(0, 4), "b": slice(4, 8)}).rank_test(X, y)


def test_options_that_contradict_each_other(data):
    X, y, blocks = data
    cases = {
        "belongs to whiten='full'": {"shrinkage": 0.5, "whiten": "diagonal"},
        "has no tensor form": {"moments": "tensor", "solver": "randomized"},
        "noise of unit-variance columns": {"n_components": "threshold", "whiten": None},
        "must be a whole number": {"n_selected": {"a": 2.9, "b": 2}, "whiten": "diagonal"},
        "one direction per response and y has 1": {"moments": "linear"},
    }
    for message, options in cases.items():
        with pytest.raises(ValueError, match=message):
            JointReduction(**{"n_components": 2, "blocks": blocks, **options}).fit(X, y)
    with pytest.raises(TypeError, match=r"call fit\(chunks\) alone"):
        JointReduction().fit(iter([(X, y)]), y)


@pytest.mark.parametrize(
    "options", [{"alpha": 5}, {"max_components": -1}, {"n_permutations": 0}, {"alpha": 0.0}]
)
def test_rank_test_arguments(data, options):
    X, y, _ = data
    with pytest.raises(ValueError, match="at least 1, alpha="):
        JointReduction().rank_test(X, y, **options)


def test_a_chunk_that_fails_changes_nothing(data):
    X, y, _ = data
    fitted = JointReduction(moments="all").fit(X, y)
    before = fitted.components_.copy()
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fitted.partial_fit(X[:, :5], np.full(300, np.nan))
    np.testing.assert_array_equal(fitted.transform(X), (X - fitted.mean_) @ before.T)
    stream = JointReduction(moments="all").partial_fit(X, y)
    with pytest.raises(ValueError, match=r"2 response\(s\), but"):
        stream.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="requires y to be passed"):
        stream.partial_fit(X, None)
    assert stream.n_samples_seen_ == stream._stream.total.count == 300
    stream.set_params(moments="joint", blocks={"a": slice(0, 4), "b": slice(4, 8)})
    with pytest.raises(ValueError, match="blocks or moments changed"):
        stream.partial_fit(X, y)


def test_stream_waits_for_columns_and_classes_to_show_themselves(data):
    X, y, _ = data
    X = X.copy()
    X[:100, 2] = 1.0  # constant in the first chunk only
    labels = np.where(y > 0, "up", "down").astype(object)
    labels[250:] = "late"
    stream = JointReduction(moments="all")
    stream.partial_fit(X[:100], labels[:100], classes=["down", "late", "up"])
    with pytest.raises(NotFittedError, match=r"not shown every class yet .*'late'"):
        stream.transform(X)
    stream.partial_fit(X[100:], labels[100:])
    whole = JointReduction(moments="all").fit(X, labels)
    np.testing.assert_allclose(np.abs(stream.components_), np.abs(whole.components_), atol=1e-9)
    flat = JointReduction(shrinkage=0.0).partial_fit(X[:100], y[:100])
    with pytest.raises(NotFittedError, match=r"1 constant column\(s\)"):
        flat.transform(X)
    assert flat.partial_fit(X[100:], y[100:]).transform(X).shape == (300, 2)
    with pytest.raises(ValueError, match="classes has duplicates"):
        JointReduction(moments="all").partial_fit(X, labels, classes=["down", "down", "up"])


def test_dask_names_gaps_and_unknown_chunks_of_y(data):
    X, y, _ = data
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefgh")).assign(y=y), npartitions=3)
    columns = list("abcdefgh")
    model = JointReduction().fit(frame[columns], frame["y"])
    with pytest.raises(ValueError, match="column 0 is 'h', in fit it was 'a'"):
        model.transform(frame[columns[::-1]])
    broken = X.copy()
    broken[5, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.transform(da.from_array(broken, chunks=(100, 8))).compute()
    lazy = da.from_array(y, chunks=100)
    with pytest.raises(ValueError, match="unknown chunk sizes"):
        JointReduction().fit(da.from_array(X, chunks=(100, 8)), lazy[lazy < 1e9])


def test_messy_tables(data):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    twice = frame.set_axis(list("abcdefga"), axis=1)
    with pytest.raises(ValueError, match="names that stand twice: 'a'"):
        JointReduction().fit(twice, y)
    reference = JointReduction().fit(frame.round(2), y).components_
    nullable = frame.round(2).astype("Float64")
    np.testing.assert_allclose(JointReduction().fit(nullable, y).components_, reference)
    lazy = dd.from_pandas(nullable.assign(y=y), npartitions=2)
    np.testing.assert_allclose(
        np.abs(JointReduction().fit(lazy[list("abcdefgh")], lazy["y"]).components_),
        np.abs(reference),
        atol=1e-9,
    )
    thin = frame.where(frame > 1, 0.0)
    np.testing.assert_allclose(
        JointReduction().fit(thin.astype(pd.SparseDtype("float64", 0.0)), y).components_,
        JointReduction().fit(thin, y).components_,
    )


def test_labels_that_are_not_what_they_seem(data):
    X, y, _ = data
    text = np.array([f"{v:.3f}" for v in y])
    text[3] = "n/d"
    with pytest.warns(UserWarning, match=r"different labels in 300 rows.*pandas.to_numeric"):
        JointReduction(moments="all").fit(X, text)
    gaps = pd.Series(np.where(y > 0, "up", "down"), dtype="string")
    gaps[7] = pd.NA
    with pytest.raises(ValueError, match="missing labels"):
        JointReduction(moments="all").fit(X, gaps)
    with pytest.raises(ValueError, match="y holds dates"):
        JointReduction(moments="all").fit(X, pd.date_range("2020-01-01", periods=300))
    codes = (y > 0).astype(int) + (y > 1)
    by_class = JointReduction(moments="all").partial_fit(X, codes, classes=[0, 1, 2])
    np.testing.assert_allclose(
        np.abs(by_class.components_),
        np.abs(JointReduction(response="labels", moments="all").fit(X, codes).components_),
        atol=1e-9,
    )
