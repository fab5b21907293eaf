"""Where the small-matrix functions draw their lines: what counts as zero, as equal and as singular."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.covariance import ledoit_wolf_shrinkage as sklearn_ledoit_wolf

from colspace.factor import (
    SingularCovarianceWarning,
    diagonal_whitener,
    eigh,
    factor_by_products,
    full_whitener,
    ledoit_wolf_shrinkage,
    left_singular,
    matrix_rank,
    select_rows,
    singular_values,
    smallest_ridge,
    svd,
)
from colspace.factor import _svd as svd_module


def test_small_entries_beside_large_ones_are_kept():
    values = [1.0, 1e-20, 1e-100]
    np.testing.assert_allclose(singular_values(np.diag(values)), values)
    np.testing.assert_allclose(eigh(np.diag(values))[0], values[::-1])


@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
def test_a_matrix_is_put_together_again(scale):
    M = np.random.default_rng(0).standard_normal((4, 3))
    U, s, Vt = svd(scale * M)
    np.testing.assert_allclose(U @ np.diag(s / scale) @ Vt, M, atol=1e-12)


def test_rank_is_relative_and_that_of_numpy():
    rng = np.random.default_rng(1)
    for size in (1e-13, 1e-17):
        M = np.linalg.qr(rng.standard_normal((6, 6)))[0] * [1.0, 1.0, 1.0, 1.0, 1.0, size]
        assert matrix_rank(M) == np.linalg.matrix_rank(M) == (6 if size > 1e-15 else 5)
        assert matrix_rank(1e-30 * M) == matrix_rank(1e30 * M) == matrix_rank(M)
    assert matrix_rank(np.diag([1e6, 1.0]), 1e-4) == 1
    assert matrix_rank(np.diag([1e-6, 1e-8]), 1e-4) == 2
    assert matrix_rank(np.zeros((2, 3))) == matrix_rank(np.zeros((0, 3))) == 0


@pytest.mark.parametrize("gram", [False, True])
def test_singular_values_are_equal_up_to_the_rounding_of_their_squares(gram, monkeypatch):
    if gram:
        monkeypatch.setattr(svd_module, "_GRAM_FROM", 1)
    last = np.diag([1.0, 2.0, 9.0])

    def leading(values, r):
        return np.argmax(np.abs(left_singular(np.diag(values), r, last)[0][:, -1]))

    assert leading([1.0, 0.5, 1.0 - 1e-12], 1) == 2
    assert leading([1.0, 0.5, 1.0 - 1e-7], 1) == 0
    assert leading([1.0, 1e-6, 0.0], 2) == 2
    assert leading([1.0, 1e-4, 0.0], 2) == 1


def test_all_equal_directions_are_looked_at(monkeypatch):
    monkeypatch.setattr(svd_module, "_GRAM_FROM", 1)
    for best in range(1, 6):
        tie = np.eye(6)
        tie[best, best] = 3.0
        U, s = left_singular(np.diag([2.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 2, tie)
        np.testing.assert_allclose(s, [2.0, 1.0])
        assert np.argmax(np.abs(U[:, 1])) == best


def test_passes_of_power_iterations():
    M = np.diag([3.0, 2.0, 1.0, 0.5])
    calls = []

    def forward(S):
        calls.append("forward")
        return [M @ s for s in S]

    for n_power in (0, 1, 3):
        calls.clear()
        factor_by_products(forward, lambda Q: [M.T @ q for q in Q], [np.eye(4)[:, :2]], 1, n_power, 2)
        assert len(calls) == 1 + n_power


def test_rows_are_kept_by_their_norm():
    M = np.array([[3.0, 0.0, 0.0], [1.6, 1.6, 1.6]])
    _, kept = select_rows([M], [np.full(3, -1)], [np.zeros(3, dtype=np.intp)], [1])
    assert kept[0].tolist() == [0]


def test_what_is_singular():
    def covariance(gap):
        return np.array([[4.0, 2.0 * (1.0 - gap)], [2.0 * (1.0 - gap), 1.0]])

    regular = full_whitener(covariance(1e-11), 100)
    assert regular.shrinkage == 0
    W = regular.apply(np.eye(2))
    np.testing.assert_allclose(W @ covariance(1e-11) @ W.T, np.eye(2), atol=1e-4)
    with pytest.warns(SingularCovarianceWarning, match="ridge of 4e-10"):
        ridged = full_whitener(covariance(1e-14), 100)
    assert ridged.shrinkage == smallest_ridge(2) == pytest.approx(4e-10)
    with pytest.warns(SingularCovarianceWarning):
        # a ridge that was asked for is the least there is
        assert full_whitener(np.ones((2, 2)), 100, 1e-14).shrinkage == pytest.approx(4e-10)
    assert smallest_ridge(10**8) == 1e-3


def test_ties_go_to_the_principal_components():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 4)) * [1e-3, 1.0, 10.0, 1e4]
    covariance, correlation = np.cov(X.T, bias=True), np.corrcoef(X.T)
    whitener = full_whitener(covariance, 50)
    loadings = whitener.loadings(np.linalg.eigh(whitener.tie(covariance))[1]) * X.std(axis=0)[:, None]
    loadings /= np.linalg.norm(loadings, axis=0)
    np.testing.assert_allclose(np.abs(np.linalg.eigh(correlation)[1].T @ loadings), np.eye(4), atol=1e-7)
    np.testing.assert_allclose(diagonal_whitener(np.diag(covariance)).tie(covariance), correlation)


def test_ledoit_wolf_with_a_constant_column():
    Z = np.random.default_rng(3).standard_normal((40, 5))
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    Z[:, 2] = 0.0
    found = ledoit_wolf_shrinkage(Z.T @ Z / 40, float(np.sum(np.sum(Z**2, axis=1) ** 2)), 40)
    np.testing.assert_allclose(found, sklearn_ledoit_wolf(Z, assume_centered=True))


def equal_singular_values():
    """600 x 300 of rank 214, singular values equal but for rounding."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, 214)))[0] for n in (600, 300))
    return left * (1 + 1e-13 * rng.standard_normal(214)) @ right.T


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_drivers_of_the_svd_stand_in_for_each_other(failing, monkeypatch):
    """The divide-and-conquer driver fails on some finite matrices; that of the transpose or gesvd does not."""
    M, calls = equal_singular_values(), []

    def unwilling(module, own):
        original = module.svd

        def called(A, *given, **options):
            calls.append((A.shape, options.get("lapack_driver", own)))
            if len(calls) <= failing:
                msg = "SVD did not converge"
                raise np.linalg.LinAlgError(msg)
            return original(A, *given, **options)

        monkeypatch.setattr(module, "svd", called)

    unwilling(np.linalg, "gesdd")
    unwilling(scipy.linalg, "")
    U, s, Vt = svd(M)
    assert calls == [((600, 300), "gesdd"), ((300, 600), "gesdd"), ((600, 300), "gesvd")][: failing + 1]
    np.testing.assert_allclose((U * s) @ Vt, M, atol=1e-12)
    np.testing.assert_allclose(s, np.r_[np.ones(214), np.zeros(86)], atol=1e-10)
