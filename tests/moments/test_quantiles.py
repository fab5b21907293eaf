import operator
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colspace import reduce_rows
from colspace.moments import _quantiles, column_quantiles, quantile_summary


def brute_cdf(x, w, at):
    """Shares of the weight at or below each point, value by value."""
    return np.array([w[x <= a].sum() for a in at]) / w.sum()


def balanced(parts):
    while len(parts) > 1:
        parts = [reduce(operator.add, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def nested(parts):
    """Later parts into earlier ones, and every second pair the other way round."""
    total = parts[-1]
    for i, part in enumerate(parts[-2::-1]):
        total = part + total if i % 2 else total + part
    return total


ORDERS = {
    "left": lambda parts: reduce(operator.add, parts),
    "right": lambda parts: reduce(lambda a, b: b + a, reversed(parts)),
    "tree": balanced,
    "nested": nested,
    "small into large": lambda parts: parts[0] + balanced(parts[1:]),
}
LAWS = {
    "sorted": lambda rng, n: np.sort(rng.standard_normal(n)),
    "reversed": lambda rng, n: np.sort(rng.standard_normal(n))[::-1],
    "zigzag": lambda rng, n: np.where(np.arange(n) % 2, 1.0, -1.0) * np.arange(n),
    "heavy": lambda rng, n: rng.standard_cauchy(n) ** 3,
    "atoms": lambda rng, n: np.where(rng.random(n) < 0.4, np.rint(rng.normal(0, 2, n)), rng.normal(0, 2, n)),
}


@pytest.fixture
def small(monkeypatch):
    """A capacity of 64 points, so that a few thousand rows are compressed many times."""
    monkeypatch.setattr(_quantiles, "CAPACITY", 64)
    return 64


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_rank_error_is_within_the_bound_in_every_order_of_merging(small, order, law, weighted):
    rng = np.random.default_rng(3)
    n = 20_000
    x = LAWS[law](rng, n)
    w = rng.lognormal(0, 3, n) * (rng.random(n) < 0.9) if weighted else np.ones(n)
    cuts = np.sort(rng.integers(0, n, 300))
    chunks = [(a, b) for a, b in zip(np.split(x, cuts), np.split(w, cuts), strict=True) if len(a)]
    found = ORDERS[order]([column_quantiles(a, b if weighted else None) for a, b in chunks])
    at = np.concatenate([rng.choice(x, 300), [x.min() - 1, x.min(), x.max()]])
    off = np.abs(found.cdf(at) - brute_cdf(x, w, at)).max()
    stated = (1 + np.log2(n / small)) / (2 * (small - 2))
    assert off <= found.error + 1e-12
    assert 0 < found.error <= stated
    assert not found.exact
    assert len(found.parts) <= 2 + np.log2(n / small)
    assert all(len(part.values) <= small for part in found.parts)
    assert found.weights.sum() == pytest.approx(w.sum(), rel=1e-12)
    seen = x[w > 0]  # ends are exact, and values are values that were there
    for end, extreme in ((0, seen.min()), (-1, seen.max())):
        assert found.values[end] == extreme
        assert found.weights[end] == pytest.approx(w[x == extreme].sum(), rel=1e-12)
    assert np.isin(found.values, seen).all()


def test_a_million_rows_keep_the_stated_error():
    x = np.random.default_rng(0).permutation(1_000_000).astype(float)
    found = reduce_rows(quantile_summary, x, chunk=50_000)
    probabilities = np.linspace(0.001, 0.999, 777)
    shares = (found.quantiles(probabilities)[:, 0] + 1) / 1e6
    assert np.abs(shares - probabilities).max() <= found.error[0] + 1e-6 <= 0.0004


@pytest.mark.parametrize("order", ORDERS)
def test_ten_thousand_distinct_values_are_kept_exactly(order):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.permutation(10_000), rng.integers(0, 10_000, 20_000)]).astype(float)
    found = ORDERS[order]([column_quantiles(part) for part in np.array_split(x, 13)])
    values, counts = np.unique(x, return_counts=True)
    assert found.exact
    assert found.error == 0
    np.testing.assert_array_equal(found.values, values)
    np.testing.assert_array_equal(found.weights, counts)
    assert not (found + column_quantiles([0.5])).exact


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.one_of(st.integers(-4, 4).map(float), st.just(np.nan)), st.integers(0, 3)), min_size=1
    ),
    st.integers(1, 7),
)
def test_weights_are_repetitions_and_quantiles_invert_the_cdf(rows, chunk):
    x, w = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    found = reduce_rows(quantile_summary, x, w, chunk=chunk)[0]
    again = np.repeat(x, w.astype(int))
    again = again[~np.isnan(again)]
    values, counts = np.unique(again, return_counts=True)
    np.testing.assert_array_equal(found.values, values)
    np.testing.assert_array_equal(found.weights, counts)
    probabilities = [0.0, 0.1, 0.25, 0.5, 2 / 3, 0.9, 1.0]
    if len(again):
        wanted = np.quantile(again, probabilities, method="inverted_cdf")
        np.testing.assert_array_equal(found.quantiles(probabilities), wanted)
        np.testing.assert_allclose(found.cdf(values), np.cumsum(counts) / len(again), rtol=1e-15)
    else:
        assert np.isnan(found.quantiles(probabilities)).all()
        assert np.isnan(found.cdf([0.0])).all()


def test_compact_summaries_are_one_set_of_points_and_say_what_that_cost(small):
    x = np.random.default_rng(0).standard_normal((7000, 2))
    found = reduce_rows(quantile_summary, x, chunk=500)
    one = found.compact()
    for j, column in enumerate(one.columns):
        assert len(found[j].parts) > 1
        assert len(column.parts) == 1
        assert len(column.values) <= small
        assert found[j].error < column.error <= found[j].error + 0.5 / (small - 2)
        off = np.abs(column.cdf(x[:200, j]) - brute_cdf(x[:, j], np.ones(7000), x[:200, j])).max()
        assert off <= column.error
    again = quantile_summary(x[:50]).compact()
    assert again.exact.all()
    np.testing.assert_array_equal(again[0].values, np.sort(x[:50, 0]))


def test_columns_have_their_own_gaps_and_summaries_of_other_widths_do_not_merge():
    X = np.array([[1.0, np.nan], [2.0, 5.0], [np.nan, 4.0]])
    found = quantile_summary(X)
    assert len(found) == 2
    np.testing.assert_array_equal(found.quantiles([0.5, 1.0]), [[1.0, 4.0], [2.0, 5.0]])
    np.testing.assert_array_equal(found.cdf([1.0, 4.5]), [0.5, 0.5])
    np.testing.assert_array_equal(found.cdf([[0.0, 4.0], [2.0, 9.0]]), [[0.0, 0.5], [1.0, 1.0]])
    np.testing.assert_array_equal(found.exact, [True, True])
    with pytest.raises(ValueError, match="2 and 1 columns"):
        found + quantile_summary(X[:, 0])
