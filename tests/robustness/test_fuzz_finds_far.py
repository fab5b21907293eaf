"""Inputs that fuzzing found: values and weights far from one, rows that do not differ, labels without an order."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from colspace import KernelPairRegressor, SupervisedDictionaryClassifier, SupervisedDictionaryRegressor
from colspace.dictionary._products import backward, forward, second_moment
from colspace.dictionary._units import seen_energy
from colspace.reduction._rank_products import _weighted_gram

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("size", [1e100, 1e-100])
def test_products_in_single_precision_keep_units_far_from_one(size):
    X = RNG.standard_normal((7, 4)).astype(np.float32)
    W, R, w = RNG.standard_normal((4, 2)), RNG.standard_normal((7, 2)), RNG.random(7)
    assert_allclose(forward(X, size * W), size * (X.astype(float) @ W), rtol=1e-4, atol=1e-6 * size)
    assert_allclose(backward(X, size * R), size * (X.T.astype(float) @ R), rtol=1e-4, atol=1e-6 * size)
    full = size * (X.T.astype(float) * w) @ X
    assert_allclose(second_moment(X, None, None, size * w, None), full, rtol=1e-4, atol=1e-6 * size)


def test_a_sum_beyond_single_precision():
    Z = (1e15 * RNG.standard_normal((6, 3))).astype(np.float32)
    v = (1e12 * RNG.standard_normal(6)).astype(np.float32)
    assert_allclose(_weighted_gram(Z, v), (Z.T.astype(float) * v) @ Z.astype(float), rtol=1e-5)


@pytest.mark.parametrize(("intercept", "energy"), [(True, 5e-6), (False, 5.0)])
def test_rows_that_do_not_differ_have_a_ridge(intercept, energy):
    problem = SimpleNamespace(weight=np.ones(3), fit_intercept=intercept)
    columns = SimpleNamespace(square=np.full(5, 3.0), total=np.full(5, 3.0))  # three rows of ones
    assert_allclose(seen_energy(problem, columns), energy)


def test_labels_of_several_types_are_named():
    y = pd.Series(pd.Categorical(["a", 1, 2.5] * 4))
    with pytest.raises(ValueError, match=r"several types \(float, int, str\).*make them all text"):
        SupervisedDictionaryClassifier(1).fit(RNG.random((12, 3)), y)


def test_entities_beyond_all_others_have_finite_scores():
    A, B = 1e-300 * RNG.standard_normal((10, 3)), RNG.standard_normal((8, 2))
    model = KernelPairRegressor(reduction=None, random_state=0).fit(
        A, B, (RNG.random((10, 8)) < 0.3).astype(float)
    )
    far = np.array([[1e300, -1e300, 0.0], [1e-300, 1e150, 1.0]])
    assert np.isfinite(model.predict(far)).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_atoms_that_have_grown_beyond_single_precision():  # they were infinite
    rng = np.random.default_rng(0)
    X = (100 * rng.standard_normal((13, 12))).astype(np.float32)
    with pytest.raises(ValueError, match=r"atoms have grown to .*e\+\d+, which float32 does not hold"):
        SupervisedDictionaryRegressor(2, solver="lpgd", positive=False, step=0.01, max_iter=24).fit(
            X, X[:, 0]
        )
