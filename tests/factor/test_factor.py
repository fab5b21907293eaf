from itertools import combinations

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage as sklearn_ledoit_wolf

from colspace.factor import (
    SingularCovarianceWarning,
    Whitener,
    count_sketch,
    diagonal_whitener,
    factor_by_products,
    full_whitener,
    gaussian_sketch,
    hosvd,
    keep_largest_in_columns,
    ledoit_wolf_shrinkage,
    left_singular,
    select_rows,
    sparse_proxy,
    unfold,
)
from colspace.factor import _select as select_module
from colspace.factor import _svd as svd_module
from colspace.metrics import subspace_distance


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_full_whitening_gives_identity_covariance(rng):
    X = rng.standard_normal((100, 4)) @ rng.standard_normal((4, 4)) * [1e-3, 1, 50, 1e4]
    X -= X.mean(axis=0)
    w = full_whitener(X.T @ X / 100, 100)
    Z = w.apply(X.T).T
    np.testing.assert_allclose(Z.T @ Z / 100, np.eye(4), atol=1e-10)
    U = rng.standard_normal((4, 2))
    np.testing.assert_allclose(X @ w.loadings(U), Z @ U, atol=1e-10)


def test_both_sides_is_W_T_W(rng):
    A = rng.standard_normal((50, 3))
    B = rng.standard_normal((50, 4))
    wa, wb = full_whitener(A.T @ A / 50, 50), diagonal_whitener((B**2).mean(axis=0))
    T = rng.standard_normal((2, 3, 4))
    Wa, Wb = wa.apply(np.eye(3)), wb.apply(np.eye(4))
    np.testing.assert_allclose(wa.both_sides(T, wb), np.stack([Wa @ t @ Wb.T for t in T]))


def test_shrinkage_is_towards_the_diagonal(rng):
    X = rng.standard_normal((20, 3)) * [1, 100, 1e-4]
    S = np.cov(X.T, bias=True)
    W = full_whitener(S, 20, shrinkage=0.3).apply(np.eye(3))
    target = 0.7 * S + 0.3 * np.diag(np.diag(S))
    np.testing.assert_allclose(W @ target @ W.T, np.eye(3), atol=1e-12)


def test_ledoit_wolf_equals_scikit_learn(rng):
    X = rng.standard_normal((40, 6)) @ rng.standard_normal((6, 6))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    fourth = np.sum(np.sum(Z**2, axis=1) ** 2)
    ours = ledoit_wolf_shrinkage(Z.T @ Z / 40, fourth, 40)
    assert ours == pytest.approx(sklearn_ledoit_wolf(Z, assume_centered=True), rel=1e-10)


def test_whitening_errors(rng):
    X = rng.standard_normal((30, 3))
    with pytest.raises(
        ValueError, match=r"more rows than columns are needed: 3 rows.*block 'g' has 3 columns.*shrinkage"
    ):
        full_whitener(np.eye(3), 3, 0.0, what="block 'g'")
    with pytest.raises(ValueError, match=r"1 constant column\(s\).*\['b'\].*VarianceThreshold"):
        full_whitener(np.diag([1.0, 0.0, 2.0]), 30, 0.0, columns=["a", "b", "c"])
    X = np.column_stack([X, X @ [1.0, 2.0, -1.0]])
    with pytest.raises(ValueError, match=r"singular: rank 3 of 4 columns.*shrinkage='auto'"):
        full_whitener(np.cov(X.T, bias=True), 30, 0.0)
    with pytest.warns(SingularCovarianceWarning, match="rank 3 of 4.*least that the numbers allow"):
        w = full_whitener(np.cov(X.T, bias=True), 30)
    assert 0 < w.shrinkage < 1e-8
    W = w.apply(np.eye(4))
    keep = np.linalg.eigvalsh(W @ np.cov(X.T, bias=True) @ W.T)
    np.testing.assert_allclose(keep, [0, 1, 1, 1], atol=1e-6)
    nearly = np.column_stack([X[:, :3], X[:, 3] + 1e-4 * rng.standard_normal(30)])
    assert full_whitener(np.cov(nearly.T, bias=True), 30).cholesky is not None
    assert full_whitener(np.cov(X.T, bias=True), 30, shrinkage=0.1).cholesky is not None
    assert full_whitener(np.diag([1.0, 0.0]), 2, shrinkage=0.1).scale.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("threshold", [600, 0])
def test_left_singular_by_both_routes(rng, monkeypatch, threshold):
    monkeypatch.setattr(svd_module, "_GRAM_FROM", threshold)
    M = rng.standard_normal((8, 20))
    U, s = left_singular(M, 3)
    expected_U, expected_s, _ = np.linalg.svd(M)
    np.testing.assert_allclose(s, expected_s[:3])
    np.testing.assert_allclose(U @ U.T, expected_U[:, :3] @ expected_U[:, :3].T, atol=1e-10)
    assert (U[np.argmax(np.abs(U), axis=0), range(3)] > 0).all()


def test_left_singular_completes_a_thin_matrix(rng):
    a = rng.standard_normal((5, 1))
    U, s = left_singular(a, 3)
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(s, [np.linalg.norm(a), 0, 0])


def test_unfold_and_hosvd_of_an_exact_tucker_tensor(rng):
    factors = [np.linalg.qr(rng.standard_normal((n, 2)))[0] for n in (4, 5, 6)]
    core = rng.standard_normal((2, 2, 2))
    T = np.einsum("abc,ia,jb,kc->ijk", core, *factors)
    assert unfold(T, 1).shape == (5, 24)
    np.testing.assert_allclose(unfold(T, 2)[3], T[:, :, 3].ravel())
    found = hosvd(T, {0: 2, 2: 2})
    assert set(found) == {0, 2}
    for mode in found:
        assert subspace_distance(factors[mode], found[mode][0]) < 1e-10


def test_keep_largest_in_columns():
    M = np.array([[1.0, -5.0], [-3.0, 4.0], [2.0, 0.5]])
    np.testing.assert_array_equal(keep_largest_in_columns(M, 1), [[0, -5.0], [-3.0, 0], [0, 0]])
    np.testing.assert_array_equal(keep_largest_in_columns(M, 3), M)


def test_sparse_proxy_follows_the_three_projections(rng):
    X0 = rng.standard_normal((6, 5))
    s1, s2 = 3, 2
    X1 = np.zeros_like(X0)
    for k in range(5):
        rows = np.argsort(-np.abs(X0[:, k]))[:s1]
        X1[rows, k] = X0[rows, k]
    columns = sorted(np.argsort(-np.linalg.norm(X1, axis=0))[:s2])
    X2 = np.zeros_like(X1)
    X2[:, columns] = X1[:, columns]
    rows = sorted(np.argsort(-np.linalg.norm(X2, axis=1))[:s1])
    X3 = np.zeros_like(X2)
    X3[rows] = X2[rows]
    ours, our_rows, our_columns = sparse_proxy(X0, s1, s2)
    np.testing.assert_array_equal(ours, X3)
    assert our_rows.tolist() == rows
    assert our_columns.tolist() == columns


def test_select_rows_finds_the_best_submatrix(rng):
    hits = 0
    for _ in range(30):
        X0 = 0.3 * rng.standard_normal((6, 6))
        X0[np.ix_([1, 4], [0, 5])] += 2.0
        masked, (rows, columns) = select_rows(
            [X0, X0.T], [np.full(6, 1), np.full(6, 0)], [np.arange(6)] * 2, [2, 2]
        )
        best = max(
            (np.sum(X0[np.ix_(r, c)] ** 2), r, c)
            for r in combinations(range(6), 2)
            for c in combinations(range(6), 2)
        )
        hits += (tuple(rows), tuple(columns)) == best[1:]
        np.testing.assert_array_equal(masked[0][np.ix_(rows, columns)], X0[np.ix_(rows, columns)])
        assert np.count_nonzero(masked[0]) == 4
    assert hits == 30  # the planted block stands far above the noise


def test_alternation_never_loses_and_often_gains(rng, monkeypatch):
    def kept_energy(X0):
        owners, features = [np.full(8, 1), np.full(8, 0)], [np.arange(8)] * 2
        _, (rows, columns) = select_rows([X0, X0.T], owners, features, [3, 3])
        return np.sum(X0[np.ix_(rows, columns)] ** 2)

    matrices = [rng.standard_normal((8, 8)) for _ in range(40)]
    settled = [kept_energy(X0) for X0 in matrices]
    monkeypatch.setattr(select_module, "_SWEEPS", 1)
    once = [kept_energy(X0) for X0 in matrices]
    monkeypatch.setattr(select_module, "_SWEEPS", 0)
    guess = [kept_energy(X0) for X0 in matrices]
    assert all(a >= b - 1e-12 for a, b in zip(settled, once, strict=True))
    assert np.mean(settled) > np.mean(once) > 1.05 * np.mean(guess)


@pytest.mark.parametrize("make", [gaussian_sketch, count_sketch])
def test_range_finder_recovers_low_rank_exactly(rng, make):
    U = np.linalg.qr(rng.standard_normal((30, 3)))[0]
    V = np.linalg.qr(rng.standard_normal((40, 3)))[0]
    M = U @ np.diag([3.0, 2.0, 1.0]) @ V.T
    factors = factor_by_products(
        lambda S: [np.asarray(M @ S[0])], lambda Q: [M.T @ Q[0]], [make(40, 12, rng)], 3, 0, 8
    )
    (found_U, s, found_V) = factors[0]
    np.testing.assert_allclose(s, [3, 2, 1], atol=1e-10)
    np.testing.assert_allclose(found_U @ np.diag(s) @ found_V.T, M, atol=1e-10)


def test_power_iterations_sharpen_the_range(rng):
    U = np.linalg.qr(rng.standard_normal((200, 2)))[0]
    M = 4 * U @ rng.standard_normal((2, 200)) / np.sqrt(200) + rng.standard_normal((200, 200)) / np.sqrt(200)
    exact = np.linalg.svd(M)[0][:, :2]
    errors = []
    for n_power in (0, 2, 6):
        S = gaussian_sketch(200, 12, np.random.default_rng(1))
        found = factor_by_products(lambda S: [M @ S[0]], lambda Q: [M.T @ Q[0]], [S], 2, n_power, 12)
        errors.append(subspace_distance(exact, found[0][0]))
    assert errors[0] > 3 * errors[1] > 3 * errors[2]


def test_count_sketch_has_one_sign_per_row(rng):
    S = count_sketch(50, 7, rng)
    assert S.nnz == 50
    assert set(np.abs(S.data)) == {1.0}


def test_identity_whitener_changes_nothing(rng):
    M = rng.standard_normal((3, 2))
    w = Whitener(np.ones(3))
    np.testing.assert_array_equal(w.apply(M), M)
    np.testing.assert_array_equal(w.loadings(M), M)
