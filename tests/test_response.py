import warnings

import numpy as np
import pandas as pd
import pytest

from colspace import HeavyTailWarning, tail_index
from colspace._response import check_varies, make_encoder, rank_transform, warn_heavy_tails


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
        ([1.0, np.nan], None, "Input y contains NaN"),
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
