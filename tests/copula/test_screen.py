"""The screen for curved dependence: its level on Gaussian tables, its power, its parts."""

from itertools import permutations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

from colspace import CopulaImputer
from colspace.copula._screen import (
    Screen,
    dependence_chance,
    draw_between,
    joint_chance,
    kernel_chance,
    product_chance,
    residuals,
    screen_table,
    shuffled_moments,
    straight,
)


def table(rng, n=150, p=6, levels=False):
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + rng.standard_normal((n, p))
    if levels:
        Z[:, ::2] = np.digitize(Z[:, ::2], [-1.0, 0.5])
    return np.where(rng.random(Z.shape) < 0.2, np.nan, Z)


def test_gaussian_tables_pass():
    """40 tables: alarms at the stated levels are rare, and chances are no smaller than they should be."""
    found = []
    for seed in range(40):
        X = table(np.random.default_rng(seed), levels=seed % 2 == 1)
        model = CopulaImputer(2, nonlinear=False, tol=0.01, random_state=0).fit(X)._model
        found.append(screen_table(X, model, None, np.random.default_rng(0)))
    assert sum(screen.curved for screen in found) <= 1
    assert np.mean([screen.products < 0.2 for screen in found]) < 0.3
    assert np.mean([screen.kernels < 0.2 for screen in found]) < 0.35


@pytest.mark.parametrize("kind", ["square", "product", "wave"])
def test_bends_are_found(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    y = {
        "square": x[:, 0] ** 2,
        "product": x[:, 0] * x[:, 1],
        "wave": np.sin(3 * x[:, 0]),
    }[kind] + 0.2 * rng.standard_normal(300)
    X = np.column_stack([x, y])
    X[rng.random(X.shape) < 0.1] = np.nan
    model = CopulaImputer(1, nonlinear=False, random_state=0).fit(X)._model
    assert screen_table(X, model, None, rng).curved


def test_products_are_self_normalised():
    """T by hand for one triple; a constant weight changes nothing."""
    rng = np.random.default_rng(0)
    r, z = rng.standard_normal((200, 2)), rng.standard_normal((200, 2))
    r[:, 0] = np.nan
    h = z[:, 0] ** 2 - np.mean(z[:, 0] ** 2)
    T = (r[:, 1] * h).sum() / np.sqrt((r[:, 1] ** 2 * h**2).sum())
    found = product_chance(r, z)  # j = 1, a = b = 0 alone: the other residual is not observed
    assert found == pytest.approx(2 * ndtr(-abs(T)))
    assert product_chance(r, z, np.full(200, 3.0)) == pytest.approx(found)
    assert product_chance(r[:, :1], z[:, :1]) == 1.0


def test_chance_of_dependence_is_that_over_all_orders():
    rng = np.random.default_rng(0)
    n = 40
    x, y = rng.standard_normal(n), rng.standard_normal((n, 2))
    y[:, 0] += 0.5 * x
    one = (x[:, None] - x) ** 2
    other = ((y[:, None] - y) ** 2).sum(axis=2) / 4
    H = np.eye(n) - 1.0 / n
    L = H @ np.exp(-other) @ H

    def statistic(order):
        return np.vdot(np.exp(-one[np.ix_(order, order)]), L)

    found = statistic(np.arange(n))
    shuffled = [statistic(rng.permutation(n)) for _ in range(4000)]
    assert dependence_chance(one, other) == pytest.approx(np.mean(np.array(shuffled) >= found), abs=0.02)
    assert dependence_chance(np.zeros((n, n)), other) == 1.0


def test_moments_over_all_orders():
    """All 720 of six rows, one by one."""
    rng = np.random.default_rng(0)
    H = np.eye(6) - 1.0 / 6
    A, B = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    K, L = H @ A @ A.T @ H, H @ B @ B.T @ H
    found = [np.vdot(K[np.ix_(order, order)], L) for order in map(list, permutations(range(6)))]
    np.testing.assert_allclose(shuffled_moments(K, L), [np.mean(found), np.var(found)], rtol=1e-10)


def test_draws_between_two_ends():
    rng = np.random.default_rng(0)
    n = 4000
    low, high = np.full(n, 0.5), np.full(n, 2.0)
    z = draw_between(low, high, rng)
    share = (ndtr(z) - ndtr(0.5)) / (ndtr(2.0) - ndtr(0.5))
    assert kstest(share, "uniform").pvalue > 0.01
    far = draw_between(np.array([9.0, -np.inf]), np.array([np.inf, -9.0]), rng)
    assert far[0] >= 9.0 >= -9.0 >= far[1]
    assert np.isfinite(far).all()


def test_chances_combine():
    rng = np.random.default_rng(0)
    one = [joint_chance(rng.random(5)) for _ in range(3000)]
    assert kstest(one, "uniform").pvalue > 0.01
    assert joint_chance(np.array([1e-12, 0.5, 0.5])) == pytest.approx(3e-12, rel=0.01)
    assert joint_chance(np.array([0.3])) == pytest.approx(0.3)
    assert 0 < joint_chance(np.array([0.0, 1.0])) < 1e-200


def test_what_is_linear_is_not_a_bend():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((400, 3))
    r = z[:, 1] + 0.01 * rng.standard_normal(400)
    r[5] = np.nan
    seen = np.nan_to_num(r)
    found = straight(z.T @ z, z.T @ seen, 399 / 400, 0)
    np.testing.assert_allclose(found, [0.0, 1.0, 0.0], atol=0.02)
    assert kernel_chance(np.column_stack([r, rng.standard_normal((400, 2))]), z) > 1e-3


def test_residuals_are_standard_and_levels_have_their_own_mean():
    X = table(np.random.default_rng(3), 600, levels=True)
    model = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)._model
    off, normal, z = residuals(X, model, np.arange(6), np.random.default_rng(0))
    for found in (off, normal, z):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(X))
    seen = normal[:, 0][~np.isnan(X[:, 0])]
    assert kstest(seen, "norm").pvalue > 0.01
    assert len(np.unique(z[:, 0][~np.isnan(X[:, 0])])) == 3
    assert np.nanstd(off[:, 1]) == pytest.approx(1.0, abs=0.1)


def test_either_chance_raises_the_alarm():
    assert Screen(0.009, 1.0).curved
    assert Screen(1.0, 0.0009).curved
    assert not Screen(0.011, 0.0011).curved
