import numpy as np
import pytest
from scipy.stats import binom

from colspace import JointReduction
from colspace.datasets import make_bilinear
from colspace.reduction._proxies import held_out_gain


@pytest.mark.parametrize("moments", ["joint", "all"])
def test_level_without_signal(moments):
    # 60 null data sets at level 10 %: the number of rejections stays in its 99.9 % binomial band
    rejections = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((80, 6)), rng.standard_exponential(80)
        result = JointReduction(blocks={"a": slice(0, 3), "b": slice(3, 6)}, moments=moments).rank_test(
            X, y, n_permutations=39, alpha=0.1, max_components=1, random_state=seed
        )
        rejections += result.n_components > 0
    low, high = binom.interval(0.999, 60, 0.1)
    assert low <= rejections <= high


def test_finds_the_rank_and_reports_each_step():
    X, y, blocks, _ = make_bilinear(3000, 6, 3, rng=0)
    result = JointReduction(blocks=blocks).rank_test(X, y, n_permutations=99, random_state=0)
    assert result.n_components == 3
    assert (result.p_values[:3] == 0.01).all()
    assert result.p_values[3] > 0.05
    assert len(result.statistics) == 4
    assert result.null_spectrum.shape == (99, 6)
    assert (result.spectrum[:3] > np.quantile(result.null_spectrum, 0.95, axis=0)[:3]).all()


def test_first_statistic_is_the_squared_top_singular_value():
    X, y, blocks, _ = make_bilinear(500, 4, 1, rng=0)
    model = JointReduction(1, blocks=blocks, moments="all").fit(X, y)
    result = JointReduction(1, blocks=blocks, moments="all").rank_test(X, y, n_permutations=9, random_state=0)
    expected = sum(s[0] ** 2 for s in model.singular_values_.values())
    assert result.statistics[0] == pytest.approx(expected, rel=1e-9)


def test_same_seed_same_answer_and_labels_work():
    X, y, blocks, _ = make_bilinear(800, 4, 1, rng=0)
    labels = np.where(y > np.median(y), "high", "low")
    results = [
        JointReduction(blocks=blocks).rank_test(X, labels, n_permutations=49, random_state=3)
        for _ in range(2)
    ]
    assert results[0].p_values.tolist() == results[1].p_values.tolist()
    assert results[0].n_components >= 1


def test_level_beyond_the_first_direction():
    # true rank 1 with y far from independent of its direction: "at most 1" is rejected no more often than 10 %
    rejections = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((250, 6))
        y = X[:, 0] * X[:, 3] + 0.1 * rng.standard_normal(250)
        result = JointReduction(blocks={"a": slice(0, 3), "b": slice(3, 6)}, moments="joint").rank_test(
            X, y, n_permutations=39, alpha=0.1, max_components=2, random_state=seed
        )
        assert result.n_components >= 1
        rejections += result.n_components > 1
    assert rejections <= binom.ppf(0.999, 60, 0.1)


def test_permutations_keep_y_with_the_leading_direction():
    # y = a_1 b_1 and one direction is left per block: off it, m times the sum of squares has mean
    # 2 (E[y^2 b_1^2] + E[y^2]) = 2 (3 + 1); permuting y alone would give 2 (1 + 1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 4))
    result = JointReduction(blocks={"a": [0, 1], "b": [2, 3]}, moments="joint").rank_test(
        X, X[:, 0] * X[:, 2], n_permutations=199, max_components=1, random_state=0
    )
    assert result.null_statistics.shape == (2, 199)
    assert 4000 * result.null_statistics[1].mean() == pytest.approx(8, rel=0.25)


def test_held_out_gain_is_the_difference_of_squared_errors():
    rng = np.random.default_rng(0)
    M, out = rng.standard_normal((2, 5, 7))
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    expected = [
        np.linalg.norm(out - (U[:, :r] * s[:r]) @ Vt[:r]) ** 2 - np.linalg.norm(out) ** 2 for r in (1, 2, 3)
    ]
    np.testing.assert_allclose(held_out_gain([M], [out], 3), expected)
    np.testing.assert_allclose(held_out_gain([M, M], [out, out], 3), np.multiply(2, expected))


def test_linear_moments_have_one_direction_per_response():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    Y = np.column_stack([X[:, 0], X[:, 1]]) + rng.standard_normal((300, 2))
    for y, expected in ((Y[:, 0], 1), (Y, 2)):
        result = JointReduction(moments="linear").rank_test(X, y, n_permutations=49, random_state=0)
        assert result.n_components == expected
        assert result.spectrum.shape == (expected,)
