import numpy as np
import pytest
from scipy.stats import binom

from colspace import JointReduction
from colspace.datasets import make_bilinear


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
    model = JointReduction(1, blocks=blocks).fit(X, y)
    result = JointReduction(1, blocks=blocks).rank_test(X, y, n_permutations=9, random_state=0)
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
