"""The rank test of moments="auto": level on skewed columns, formulas, wide tables, containers, single precision."""

import time

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom

from colspace import JointReduction
from colspace._blocks import parse_blocks
from colspace.reduction._auto_linear import learn_ridges
from colspace.reduction._rank import centred_matrices, zero_plan
from colspace.reduction._rank_auto import ridged_passes, ridged_rows
from colspace.reduction._rank_products import permuted_matrices
from colspace.reduction._source import Source

BLOCKS = {"a": slice(0, 3), "b": slice(3, 6)}


def skewed(seed, n, *, linear):
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, 6))
    signal = X @ np.array([1.0, 1, 0, 1, 0, 0])
    return X, linear * signal + rng.exponential(size=n)


def rejections(k, n, times, form=np.asarray, **options):
    """How often "at most k" is rejected at 10 %, y being linear in k directions per block of skewed columns."""
    found = 0
    for seed in range(times):
        X, y = skewed(seed, n, linear=k > 0)
        test = JointReduction(**options).rank_test(
            form(X), y, n_permutations=39, alpha=0.1, max_components=k + 1, random_state=seed
        )
        found += test.n_components > k
    return found


@pytest.mark.parametrize("blocks", [None, BLOCKS])
@pytest.mark.parametrize("k", [0, 1])
def test_level_on_skewed_columns(k, blocks):
    # 60 tables at level 10 %: no more rejections than the 99.9 % quantile, and without signal no fewer than the .1 %
    found = rejections(k, 120, 60, blocks=blocks)
    assert found <= binom.ppf(0.999, 60, 0.1)
    assert k or found >= binom.ppf(0.001, 60, 0.1)


def test_published_moments_take_skewed_columns_for_curvature():
    assert rejections(1, 300, 10, moments="all") >= 8


def test_level_of_rows_that_stay_where_they_are():
    assert rejections(1, 120, 30, form=sparse.csr_array) <= binom.ppf(0.999, 30, 0.1)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(60, 5)) * [1, 10, 100, 1, 2]
    Y = np.column_stack([X[:, 0] + X[:, 1] ** 2 / 50, X[:, 2] / 50 + X[:, 3] * X[:, 0]])
    return X, Y + rng.standard_normal((60, 2))


def left_out_residuals(Z, V, penalty):
    """v less its prediction from all rows but itself, the mean free, the penalty as for all rows."""
    n = len(Z)
    D = np.column_stack([np.ones(n), Z])
    P = np.zeros((D.shape[1], D.shape[1]))
    P[1:, 1:] = n * penalty
    found = np.zeros_like(V)
    for i in range(n):
        rest = np.arange(n) != i
        B = np.linalg.solve(D[rest].T @ D[rest] + P, D[rest].T @ V[rest])
        found[i] = V[i] - D[i] @ B
    return found


def by_formula(Z, slices, linear, R):
    R = (R - R.mean(axis=0)) / R.std(axis=0)
    H = np.einsum("nk,ni,nj->kij", R, Z, Z) / len(Z)
    return [np.hstack([linear[s], *(h[s, c] for c in slices for h in H)]) for s in slices]


@pytest.mark.parametrize("blocks", [None, {"b": [4, 1], "a": [0, 3, 2]}])
def test_moments_by_their_formula(small, blocks):
    X, Y = small
    parsed = parse_blocks(blocks, 5)
    source = Source.of(X, Y, None, "test")
    rows = ridged_rows(source, parsed)
    ridges = learn_ridges(source, parsed)
    V = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    Z, linear = [], []
    for ridge in ridges.blocks:
        A = (X[:, ridge.axes.columns] - ridge.axes.mean) @ ridge.axes.map
        Z.append(A / np.sqrt(ridge.axes.values + ridge.ridge))
        F = V - left_out_residuals(A, V, ridge.ridge * np.eye(A.shape[1]))
        rho, U = np.linalg.eigh((V.T @ F + F.T @ V) / 120)
        T = Z[-1].T @ V @ U
        linear.append(T / np.linalg.norm(T, axis=0) * np.sqrt(np.maximum(rho, 0)))
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    R = left_out_residuals(standard, V, ridges.joint.ridge * np.eye(5))
    Z, linear = np.hstack(Z), np.vstack(linear)
    for found, expected in zip(rows.observed(), by_formula(Z, parsed.slices, linear, R), strict=True):
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=1e-4, atol=1e-6)
    bases = [np.linalg.qr(np.random.default_rng(1).standard_normal((w, w)))[0] for w in parsed.widths]
    turned = rows.rotate(bases)
    Zt = np.hstack([Z[:, s] @ U for s, U in zip(parsed.slices, bases, strict=True)])
    # as they are, and with the first coordinates and y permuted against the rest
    order = np.random.default_rng(2).permutation(60)
    for one in (np.arange(60), order):
        Zs = Zt.copy()
        lead = [s.start for s in parsed.slices]
        Zs[:, lead] = Zt[np.ix_(one, lead)]
        R = left_out_residuals(Zs, V[one], turned.penalty)
        expected = by_formula(Zs, parsed.slices, Zs.T @ V[one] / 60, R)
        for M, E in zip(turned._off(1, one), expected, strict=True):
            np.testing.assert_allclose(M, E[1:], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("wanted", [("linear", "hessian"), ("joint",), ("linear", "joint", "hessian")])
def test_single_precision_is_enough(wanted):
    rng = np.random.default_rng(0)
    Z, V = rng.standard_normal((700, 7)), rng.standard_normal((700, 2))
    slices, names = (slice(0, 3), slice(3, 7)), frozenset(wanted)
    double = centred_matrices(zero_plan(slices, 2, names)(Z, V), names)
    for M, N in zip(permuted_matrices(Z.astype(np.float32), V, slices, names), double, strict=True):
        np.testing.assert_allclose(M, N, atol=1e-6)


def test_a_wide_table_is_tested_on_the_span_of_its_rows():
    rng = np.random.default_rng(0)
    F = rng.standard_normal((64, 5))
    X = F @ rng.standard_normal((5, 3116)) + 2 * rng.standard_normal((64, 3116))
    Y = F @ rng.standard_normal((5, 10)) + 0.5 * rng.standard_normal((64, 10))
    start = time.process_time()
    test = JointReduction().rank_test(X, Y, random_state=0)
    assert time.process_time() - start < 10
    assert test.p_values[0] == 0.005
    assert JointReduction().rank_test(X, rng.standard_normal(64), random_state=0).n_components == 0


def test_containers_and_labels():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    y = X[:, 0] * X[:, 3] + X[:, 1] + 0.3 * rng.standard_normal(400)
    dense = ridged_rows(Source.of(X, y, None, "test"), parse_blocks(BLOCKS, 6)).observed()
    for table in (sparse.csr_array(X), da.from_array(X, chunks=(150, 6))):
        passes = ridged_passes(Source.of(table, y, None, "test"), parse_blocks(BLOCKS, 6))
        for M, N in zip(passes.observed(), dense, strict=True):
            np.testing.assert_allclose(M[:, 1:], N[:, 1:], atol=1e-5)
        test = JointReduction(blocks=BLOCKS).rank_test(table, y, n_permutations=39, random_state=0)
        assert test.n_components == 2
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.5])]
    assert JointReduction(blocks=BLOCKS).rank_test(X, labels, n_permutations=39, random_state=0).n_components


def test_a_linear_response_has_no_residual_to_bend():
    X, _ = skewed(0, 200, linear=False)
    test = JointReduction().rank_test(X, X @ np.arange(6.0), n_permutations=39, random_state=0)
    assert test.n_components == 1
