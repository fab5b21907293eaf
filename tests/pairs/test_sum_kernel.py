"""cpHd with the kernel of the paper, one Gaussian of e + f, against loops over every pair."""

import numpy as np
import pytest
from scipy import sparse

from colspace import PairRegressor
from colspace.pairs import _sum_kernel
from colspace.pairs._links import Links
from colspace.pairs._sum_kernel import SumSmoother


def table(seed=0, m=9, n=7, p=4, q=3):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((m, p)) + 1.0, rng.standard_normal((n, q)) - 2.0
    Y = np.where(rng.random((m, n)) < 0.4, rng.random((m, n)) + 0.2, 0.0)
    return A, B, Y, rng


def loops(E, F, left, right, Y, weight, width):
    """One exponential for each training pair and score."""
    out = np.empty((len(E), len(F)))
    for i, e in enumerate(E):
        for j, f in enumerate(F):
            top = bottom = 0.0
            for p, e_p in enumerate(left):
                for q, f_q in enumerate(right):
                    k = weight[p, q] * np.exp(-np.sum((e + f - e_p - f_q) ** 2) / (2 * width**2))
                    top, bottom = top + k * Y[p, q], bottom + k
            out[i, j] = top / bottom
    return out


def median(E):
    return np.median([np.linalg.norm(E[i] - E[j]) for i in range(len(E)) for j in range(i)])


@pytest.mark.parametrize("pairs", ["all", "observed", "weighted"])
@pytest.mark.parametrize("near", [_sum_kernel._NEAR, 0.0], ids=["factors", "exponents"])
def test_scores_are_those_of_loops_over_all_pairs(pairs, near, monkeypatch):
    monkeypatch.setattr(_sum_kernel, "_NEAR", near)
    A, B, Y, rng = table()
    A_new, B_new = rng.standard_normal((3, 4)) + 1, rng.standard_normal((4, 3)) - 2
    weight, given = np.ones_like(Y), {}
    if pairs == "observed":
        weight = ((rng.random(Y.shape) < 0.5) | (Y > 0)).astype(float)
        given = {"mask": weight > 0}
    elif pairs == "weighted":
        weight = rng.integers(0, 4, Y.shape).astype(float)
        given = {"sample_weight": weight}
    model = PairRegressor(2, reduction="cphd", kernel="sum", shrinkage=0.3, bandwidth=(0.5, 0.7)).fit(
        A, B, Y, **given
    )
    left, right = model.embedding_["left"], model.embedding_["right"]
    width = np.hypot(0.5 * median(left), 0.7 * median(right))
    E, F = model.transform(A_new), model.transform(B_new, "right")
    expected = loops(E, F, left, right, Y, weight, width)
    np.testing.assert_allclose(model.predict(A_new, B_new), expected, rtol=1e-11)
    small = SumSmoother(left, right, model._smoother().links, float(width), chunk=16)
    np.testing.assert_allclose(np.vstack([s for _, _, s in small.blocks(E, F)]), expected, rtol=1e-11)
    # and no two products can be told apart: the product kernel scores otherwise
    product = PairRegressor(2, reduction="cphd", shrinkage=0.3, bandwidth=(0.5, 0.7)).fit(A, B, Y, **given)
    assert np.abs(product.predict(A_new, B_new) - expected).max() > 1e-3


def test_ranking_explaining_and_probabilities_use_the_same_kernel():
    A, B, Y, _ = table(1, 30, 12)
    model = PairRegressor(
        2, reduction="cphd", kernel="sum", shrinkage=0.3, bandwidth=0.5, calibrate=True, cv=3
    ).fit(A, B, Y)
    scores = model.predict()
    top = model.rank(k=12)
    assert scores[top["left"], top["right"]] == pytest.approx(top["score"].to_numpy())
    parts = model.explain(4, 5, k=None)
    assert parts["contribution"].sum() == pytest.approx(scores[4, 5], rel=1e-10)
    assert 0 < parts["weight"].sum() < 1
    product = PairRegressor(2, reduction="cphd", shrinkage=0.3, bandwidth=0.5, calibrate=True, cv=3).fit(
        A, B, Y
    )
    assert not np.array_equal(model.calibration_["score"], product.calibration_["score"])


def test_entities_far_away_take_the_pairs_in_their_direction():
    """A thousand widths away all weights underflow; their ratios do not."""
    left, right = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [0.5]])
    Y = sparse.csr_array(np.arange(1.0, 7.0).reshape(3, 2))
    smoother = SumSmoother(left, right, Links(Y), 0.5)
    ((_, _, scores),) = smoother.blocks(np.array([[500.0]]), np.array([[0.0], [-1e6]]))
    assert scores[0, 0] == pytest.approx(6.0)  # the last of both sides
    assert scores[0, 1] == pytest.approx(1.0)  # the first of both


def test_where_no_kernel_of_a_sum_is_there_it_is_refused():
    A, B, Y, _ = table()
    with pytest.raises(ValueError, match="reduction='joint' does not give; use reduction='cphd'"):
        PairRegressor(2, kernel="sum").fit(A, B, Y)
    with pytest.raises(ValueError, match=r"tol=0\.1 drops weights of separable kernels"):
        PairRegressor(2, reduction="cphd", kernel="sum", tol=0.1).fit(A, B, Y)
