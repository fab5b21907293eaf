import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from colspace import (
    HeavyTailWarning,
    JointReduction,
    NumericLabelsWarning,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
    tail_index,
)
from colspace._response import check_varies, far_rows, make_encoder, rank_transform, warn_heavy_tails


def test_numbers_labels_and_several_responses():
    assert make_encoder([1.0, 2.0], None)([3.0, 4.0]).tolist() == [[3.0], [4.0]]
    assert make_encoder(np.ones((3, 2)), None).n_responses == 2
    binary = make_encoder(np.array([True, False]), None)
    assert binary(np.array([False, True])).tolist() == [[0.0], [1.0]]
    three = make_encoder(np.array(["b", "a", "c"]), None)
    assert three.labels
    assert three(["c", "a"]).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert make_encoder(pd.Series(["u", "v"], dtype="category"), None).labels
    assert make_encoder(pd.Series(["u", "v"]), None).labels
    assert not make_encoder(np.array([1, 2, 3], dtype=object), None).labels
    assert make_encoder(np.array([1, 2, 3]), "labels").n_responses == 3


def test_rank_transform_matches_order_and_is_bounded():
    y = np.random.default_rng(0).standard_cauchy(500)
    ranks = rank_transform(y)
    assert (np.argsort(ranks) == np.argsort(y)).all()
    assert ranks.min() == pytest.approx(0.5 / 500)
    assert ranks.max() == pytest.approx(1 - 0.5 / 500)


@pytest.mark.parametrize(
    ("y", "response", "message"),
    [
        (None, None, "requires y to be passed, but the target y is None"),
        ([1.0, np.nan], None, r"Input y contains NaN\. Leave those rows out, or let SteinReduction"),
        ([1.0, np.inf], None, "Input y contains infinity"),
        (["a", "a"], None, "y has one class only"),
        (["a", None], None, "missing labels"),
        (np.array([["a", "b"]] * 3), None, "must be one column"),
        (["a", "b"], "rank", "y holds class labels"),
        ([1.0, 2.0], np.log1p, None),
        ([-1.0, 2.0], lambda y: np.where(y > 0, y, np.nan), "returned NaN or infinity"),
        ([1.0, 2.0], np.sum, "one value per row: 2 rows in"),
    ],
)
def test_bad_responses(y, response, message):
    if message is None:
        make_encoder(y, response)
        return
    with pytest.raises(ValueError, match=message):
        make_encoder(y, response)


def test_streaming_needs_what_it_cannot_see():
    with pytest.raises(ValueError, match="all of y at once"):
        make_encoder([1.0, 2.0], "rank", streaming=True)
    with pytest.raises(ValueError, match=r"partial_fit\(X, y, classes="):
        make_encoder(["a", "b"], None, streaming=True)
    encoder = make_encoder(["a", "a"], None, streaming=True, classes=["a", "b"])
    with pytest.raises(ValueError, match="label 'apple' was not among the classes"):
        encoder(["a", "apple"])  # longer than any class: must not be cut to 'a'


def test_constant_response():
    with pytest.raises(ValueError, match="column 1 of y is constant"):
        check_varies(np.array([1.0, 0.0]))


@pytest.mark.parametrize("degrees", [1.0, 2.0])
def test_tail_index_estimates_one_over_the_tail_exponent(degrees):
    # standard error about sqrt(1 + g^2)/sqrt(k), k = 2 sqrt(m): four of them
    m, g = 100_000, 1 / degrees
    y = np.random.default_rng(0).standard_t(degrees, m)
    band = 4 * np.sqrt(1 + g**2) / np.sqrt(2 * np.sqrt(m))
    assert abs(tail_index(y) - g) < band


def test_heavy_tails_warn_and_light_tails_do_not():
    rng = np.random.default_rng(0)
    light = [
        rng.standard_normal(5000),
        rng.standard_exponential(5000),
        rng.random(5000),
        rng.integers(0, 2, 5000).astype(float),
        rng.poisson(4, 5000).astype(float),
        np.sum(rng.standard_normal((2, 5000, 5)).prod(axis=0), axis=1),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in light:
            warn_heavy_tails(y[:, None])
    with pytest.warns(HeavyTailWarning, match=r"tail index .*response='rank'"):
        warn_heavy_tails(rng.standard_cauchy((5000, 1)))


@pytest.mark.parametrize("rows", [60, 240, 5000])
def test_few_values_far_from_all_others_are_told_in_tables_of_any_length(rows):
    rng = np.random.default_rng(0)
    y = rng.standard_normal(rows)
    y[:2] = -999.0
    with pytest.warns(
        HeavyTailWarning, match=rf"^2 of {rows} rows hold values of y far .*\(-999\): 9\d %|\(-999\): 100 %"
    ):
        warn_heavy_tails(y[:, None])
    y[1] = 0.0
    with pytest.warns(
        HeavyTailWarning, match=rf"^1 of {rows} rows holds a value of column 1 of y .*response='rank'"
    ):
        warn_heavy_tails(np.column_stack([np.arange(rows), y]))


def test_rare_events_and_even_values_are_not_far_from_others():
    rng = np.random.default_rng(0)
    for y in (
        (np.arange(200) < 5).astype(float),
        np.r_[np.zeros(180), rng.exponential(size=20)],
        rng.standard_cauchy(200),
        rng.exponential(size=60),
    ):
        assert not far_rows(y).size
    assert far_rows(np.r_[rng.standard_normal(50), 1e200]).tolist() == [50]
    assert not far_rows(np.r_[rng.standard_normal(1000), 12.0, 12.5, -13.0]).size  # a third of the variance


# ---------------------------------------------------------------------- codes of classes

SUPERVISED = [
    JointReduction(1),
    JointReduction(1, solver="randomized", random_state=0),
    SteinReduction(1),
    SteinReductionCV(1, ridges=(0.0, 1.0), cv=3),
    PrincipalHessian(1),
    SlicedInverse(1, n_slices=2),
    SlicedAverage(1, n_slices=2),
    StructuredOLS(1),
]


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).standard_normal((90, 4))
    return X, np.searchsorted([-0.5, 0.6], X[:, 0] + X[:, 1] ** 2 - 0.5)


def components(model, X, y, **parameters):
    return clone(model).set_params(**parameters).fit(X, y).components_


def messages(model, X, y):
    """Warnings of a fit about codes of classes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clone(model).fit(X, y)
    return [str(w.message) for w in caught if w.category is NumericLabelsWarning]


@pytest.mark.parametrize("model", SUPERVISED)
def test_codes_of_classes_are_asked_about_once(model, rows):
    X, y = rows
    for codes in (y, 10.0 * y, y.tolist(), pd.Series(y), y[:, None], y - 1):
        found = messages(model, X, codes)
        assert len(found) == 1
        assert "3 different whole numbers" in found[0]
        assert "response='labels'" in found[0]
        assert "response='numbers'" in found[0]
    three = {"n_slices": 3} if isinstance(model, SlicedInverse | SlicedAverage) else {}
    labels = components(model, X, y, response="labels", **three)
    np.testing.assert_allclose(components(model, X, np.array(list("abc"))[y], **three), labels, rtol=1e-9)
    numbers = components(model, X, y, response="numbers")
    with pytest.warns(NumericLabelsWarning):
        np.testing.assert_array_equal(components(model, X, y), numbers)
    assert np.abs(numbers - labels).max() > 1e-3  # else there would be nothing to ask


def test_dask_and_chunks_ask_as_well(rows):
    X, y = rows
    with pytest.warns(NumericLabelsWarning):
        JointReduction(1).fit(da.from_array(X, chunks=(45, 4)), da.from_array(y, chunks=45))
    with pytest.warns(NumericLabelsWarning):
        JointReduction(1, moments="all").partial_fit(X, y)


@pytest.mark.parametrize(
    ("model", "values"),
    [
        *((model, 2) for model in SUPERVISED if not isinstance(model, SteinReductionCV)),
        (SlicedInverse(1, n_slices=3, shrinkage=None), 3),
        (SlicedAverage(1), 3),
    ],
)
def test_nothing_is_said_where_both_readings_agree(model, values, rows):
    X, y = rows
    y = np.minimum(y, values - 1)
    numbers = components(model, X, y)  # a warning would be an error here
    np.testing.assert_allclose(components(model, X, y, response="labels"), numbers, rtol=1e-9)
    if values == 2:
        np.testing.assert_allclose(components(model, X, y == 1), numbers, rtol=1e-9)


def test_two_codes_matter_where_rows_are_unlabelled_or_folds_are_drawn(rows):
    X, y = rows
    two = np.where(np.arange(len(y)) % 3, np.minimum(y, 1.0), np.nan)
    for model, matters in ((SteinReduction(1), False), (SteinReduction(1, score_model="gaussian"), True)):
        assert len(messages(model, X, two)) == matters
        both = [components(model, X, two, response=r) for r in ("labels", "numbers")]
        assert (np.abs(both[0] - both[1]).max() > 1e-3) == matters
    fixed = SteinReduction(1, unlabeled_weight=0.5)
    np.testing.assert_allclose(
        components(fixed, X, two), components(fixed, X, two, response="labels"), rtol=1e-9
    )
    model = SteinReductionCV(1, ridges=(0.0, 1.0), cv=3)
    assert len(messages(model, X, np.minimum(y, 1))) == 1
    errors = [
        clone(model).set_params(response=r).fit(X, np.minimum(y, 1)).cv_errors_ for r in ("labels", "numbers")
    ]
    assert np.abs(errors[0] - errors[1]).max() > 1e-6


def test_which_numbers_look_like_codes():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(20), 10)
    warned = [codes, codes - 7, codes.astype("f4"), codes.astype(object), codes.astype("u1")]
    for y in warned:
        with pytest.warns(NumericLabelsWarning):
            make_encoder(y, None)
    for y in (
        np.repeat(np.arange(21), 10),  # too many
        codes[1:],  # fewer than ten of each
        codes / 2,  # not whole
        np.column_stack([codes, codes]),  # several responses
        rng.standard_normal(200),
        np.zeros(50),
        np.repeat([0, 1], 50),
    ):
        make_encoder(y, None)
    for response in ("numbers", "labels", "rank", np.arctan):
        make_encoder(codes, response)
    make_encoder(codes, None, codes=None)


def test_a_regressor_takes_numbers_as_they_are(rows):
    X, y = rows
    ReducedRank(1).fit(X, y)


def test_response_numbers_refuses_labels(rows):
    X, y = rows
    with pytest.raises(ValueError, match="response='numbers' needs numbers, but y holds class labels"):
        JointReduction(1, response="numbers").fit(X, y.astype(str))
