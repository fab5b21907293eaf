"""The leave-one-out ridge of the classics and of Stein's method: brute force, containers, what stays as published."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf

from colspace import (
    PrincipalHessian,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    StructuredOLS,
)
from colspace.factor import SingularCovarianceError, full_whitener, ridge_whitener
from colspace.reduction._loo import in_rows, rows_left_out_of
from colspace.reduction._ridge import GRID, Axes, ridge_paths
from colspace.reduction._source import all_classes

ALL = [
    SlicedInverse(2, n_slices=4),
    SlicedAverage(2, n_slices=4),
    PrincipalHessian(1),
    PrincipalHessian(1, residuals=True),
    StructuredOLS(1, blocks={"b": [3, 1], "a": [0, 4, 2]}),
    StructuredOLS(2, n_slices=3),
    SteinReduction(1),
    SteinReduction(1, order=2, standardize=False),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = (
        rng.standard_normal((40, 5))
        @ (np.eye(5) + 0.6 * rng.standard_normal((5, 5)))
        * 10.0 ** np.arange(-2, 3)
    )
    y = X[:, 0] * 50 + X[:, 4] / 40 + 3 * rng.standard_normal(40)
    return X, y


def white_indicators(numbers):
    D = (numbers[:, None] == np.unique(numbers)) * 1.0
    D -= D.mean(axis=0)
    U, s, _ = np.linalg.svd(D, full_matrices=False)
    return U[:, s > 1e-9 * s[0]] * np.sqrt(len(D))


def refits(Z, V, groups=None):
    """Ridge of least error when every row is left out in turn, the penalty n lambda kept, means of groups unpenalised."""
    n, p = Z.shape
    means = np.ones((n, 1)) if groups is None else (groups[:, None] == np.unique(groups)) * 1.0
    M = means @ np.linalg.pinv(means)
    R = (Z - M @ Z).T @ (Z - M @ Z) / n
    values = np.linalg.eigvalsh(R)
    ridges = GRID * values.sum() / np.count_nonzero(values > 1e-10 * values[-1])
    D = np.hstack([means, Z])
    penalty = np.diag(np.r_[np.zeros(means.shape[1]), np.ones(p)])
    errors = []
    for ridge in ridges:
        total = 0.0
        for i in range(n):
            rest = np.arange(n) != i
            B = np.linalg.lstsq(D[rest].T @ D[rest] + n * ridge * penalty, D[rest].T @ V[rest], rcond=None)[0]
            total += np.sum((V[i] - D[i] @ B) ** 2)
        errors.append(total / n / V.shape[1])
    r2 = 1 - np.array(errors)
    best = 0 if r2.max() < 1 / np.sqrt(n) and n > 5 * p else int(np.argmax(r2))
    return ridges[best]


def standard(A):
    A = A.reshape(len(A), -1)
    return (A - A.mean(axis=0)) / A.std(axis=0)


def test_ridges_are_those_of_refits(data):
    X, y = data
    Z, V = standard(X), standard(y)
    rank = np.argsort(np.argsort(y)) // 10
    expected = refits(Z, V)
    assert GRID[0] < expected < GRID[-1]
    for model in (PrincipalHessian(1), StructuredOLS(1), StructuredOLS(2, n_slices=3), SteinReduction(1)):
        assert model.fit(X, y).ridge_ == pytest.approx(expected)
    assert SlicedInverse(2, n_slices=4).fit(X, y).ridge_ == pytest.approx(
        refits(Z, standard(rank.astype(float)))
    )
    save = SlicedAverage(2, n_slices=4).fit(X, y)
    assert save.ridge_ == pytest.approx(refits(Z, white_indicators(rank)))
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.3, 0.8]))]
    for model in (PrincipalHessian(1), StructuredOLS(1), SteinReduction(1), SlicedInverse(1)):
        assert model.fit(X, labels).ridge_ == pytest.approx(refits(Z, white_indicators(labels)))


def test_ridges_within_groups_are_those_of_refits(data):
    X, y = data
    groups = np.repeat([0, 1, 2], [15, 20, 5])
    shifted = X + groups[:, None] * X.std(axis=0)
    response = y + 100.0 * groups
    model = StructuredOLS(1).fit(shifted, response, groups=groups)
    centred = shifted - np.array([shifted[groups == g].mean(axis=0) for g in range(3)])[groups]
    left = response - np.array([response[groups == g].mean() for g in range(3)])[groups]
    assert model.ridge_ == pytest.approx(
        refits(centred / centred.std(axis=0), left[:, None] / left.std(), groups)
    )
    weighted = StructuredOLS(1).fit(shifted, response, groups=groups, sample_weight=np.full(40, 0.025))
    assert weighted.ridge_ == pytest.approx(model.ridge_)
    alone = np.r_[groups[:-1], 3]
    assert np.isfinite(StructuredOLS(1).fit(shifted, response, groups=alone).components_).all()


def test_ridges_of_a_wide_table_are_those_of_refits(data):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((14, 20))
    y = X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(14)
    expected = refits(standard(X), standard(y))
    for model in (PrincipalHessian(1), StructuredOLS(1), SteinReduction(1)):
        assert model.fit(X, y).ridge_ == pytest.approx(expected)
    sliced = SlicedInverse(1, n_slices=4).fit(X, y)
    assert 0 < sliced.eigenvalues_[0] < 1


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_one_ridge_from_every_kind_of_table(estimator, data, tmp_path, monkeypatch):
    X, y = data
    model = clone(estimator).fit(X, y)
    np.save(tmp_path / "x.npy", X)
    w = np.r_[np.full(10, 2.0), np.ones(30)]
    monkeypatch.setattr("colspace.reduction._loo.CHUNK_BYTES", 1)
    others = {
        "csr": clone(estimator).fit(sparse.csr_array(X), y),
        "memmap": clone(estimator).fit(np.load(tmp_path / "x.npy", mmap_mode="r"), y),
        "dask": clone(estimator).fit(da.from_array(X, chunks=(13, 5)), da.from_array(y, chunks=13)),
        "fractions": clone(estimator).fit(X, y, sample_weight=np.full(40, 1 / 40)),
    }
    for name, other in others.items():
        assert other.ridge_ == pytest.approx(model.ridge_), name
        np.testing.assert_allclose(other.components_, model.components_, rtol=1e-6, atol=1e-9, err_msg=name)
    weighted = clone(estimator).fit(X, y, sample_weight=w)
    copies = clone(estimator).fit(np.vstack([X, X[:10]]), np.r_[y, y[:10]])
    assert weighted.ridge_ == pytest.approx(copies.ridge_)
    np.testing.assert_allclose(weighted.components_, copies.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("estimator", [*ALL[:3], *ALL[4:6]], ids=str)
def test_a_number_gives_the_same_directions(estimator, data):
    X, y = data
    model = clone(estimator).fit(X, y)
    assert model.shrinkage_ == pytest.approx(model.ridge_ / (1 + model.ridge_))
    number = clone(estimator).set_params(shrinkage=model.shrinkage_).fit(X, y)
    assert number.ridge_ == pytest.approx(model.ridge_)
    ratio = number.transform(X) / model.transform(X)
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape), rtol=1e-5)


def test_exact_inverses_stay(data):
    X, y = data
    for estimator in (*ALL[:4], StructuredOLS(2, n_slices=3)):
        exact, least = (clone(estimator).set_params(shrinkage=s).fit(X, y) for s in (0.0, None))
        np.testing.assert_array_equal(exact.components_, least.components_)
        assert (exact.ridge_, exact.shrinkage_) == (0.0, 0.0)
        with pytest.raises(SingularCovarianceError):
            clone(estimator).set_params(shrinkage=0.0).fit(np.hstack([X, X]), y)
    beta = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    found = StructuredOLS(1, shrinkage=None).fit(X, y).components_[0]
    np.testing.assert_allclose(found / np.linalg.norm(found), beta / np.linalg.norm(beta), rtol=1e-8)


def test_nothing_linear_leaves_next_to_no_ridge():
    X = np.random.default_rng(0).standard_normal((400, 4))
    for model in (PrincipalHessian(1), SlicedAverage(1), SteinReduction(1, order=2)):
        assert model.fit(X, X[:, 0] ** 2).ridge_ < 2e-7


def test_ranks_alone_count_for_slices(data):
    X, y = data
    for model in (SlicedInverse(1), SlicedAverage(1)):
        plain = clone(model).fit(X, y)
        np.testing.assert_array_equal(clone(model).fit(X, np.exp(y / 50)).components_, plain.components_)


def test_groups_of_rows_keep_the_ridge(data):
    X, y = data
    w = ridge_whitener(np.cov(X.T), 0.3)
    again = w.again(np.cov(X[:30].T), 30)
    assert again.ridge == 0.3
    R = np.corrcoef(X[:30].T)
    np.testing.assert_allclose(again.cholesky @ again.cholesky.T, R + 0.3 * np.eye(5), atol=1e-12)
    assert w.mix == (1.0, 0.3)
    assert full_whitener(np.cov(X.T), 40, 0.2).mix == (0.8, 0.2)
    for estimator in ALL:
        assert np.isfinite(clone(estimator).set_params(n_groups=8).fit(X, y).components_error_).all()


def test_a_ridge_too_small_for_the_numbers_is_raised():
    w = ridge_whitener(np.ones((3, 3)), 1e-15)
    assert 1e-14 < w.ridge <= 1e-12


def test_weights_say_how_many_rows_there_are():
    assert rows_left_out_of(None, 7) == 7
    assert rows_left_out_of(np.array([2.0, 1.0, 3.0]), 6.0) == 6.0
    assert rows_left_out_of(np.full(9, 0.1), 0.9) == pytest.approx(9.0)
    assert rows_left_out_of(np.array([1.5, 4.5]), 6.0) == pytest.approx(4.0)
    assert rows_left_out_of(np.array([1.5, 4.0]), 5.5) == pytest.approx(5.5**2 / 18.25)
    assert rows_left_out_of(np.array([2.0, 3.0, 3.0]), 8.0) == 8.0  # whole numbers, if no multiples of two
    assert in_rows(None) is None
    assert_allclose(in_rows(np.array([0.5, 1.0, 1.5])), [1.0, 2.0, 3.0])
    assert_allclose(in_rows(np.array([2.0, 3.0])), [2.0, 3.0])
    assert_allclose(in_rows(np.array([1.5, 4.0])).sum(), 5.5**2 / 18.25)


def test_ridges_of_huge_variances_are_numbers():
    axes = Axes(np.arange(2), np.zeros(2), np.eye(2), np.array([1e307, 1e307]))
    (path,) = ridge_paths([axes], [np.ones((2, 1))], 10.0)
    assert np.isfinite(path.ridges).all()
    assert_allclose(path.ridges / 1e300, GRID)


def test_without_labels_the_ridge_is_that_of_ledoit_and_wolf(data):
    X, _ = data
    with pytest.warns(UserWarning, match="without labels"):
        model = SteinReduction(2).fit(X)
    weight = ledoit_wolf(standard(X), assume_centered=True)[1]
    assert model.ridge_ == pytest.approx(weight / (1 - weight))


@pytest.mark.parametrize("kind", [SlicedInverse, SlicedAverage])
def test_few_numbers_are_sliced_as_their_labels(kind):
    """One slice for each value: numbers and labels are one thing, ridge included; more values than slices are not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    y = np.clip(np.round(1.5 * X[:, 0] + 0.5 * rng.standard_normal(300)) + 3, 0, 6)
    Y = np.column_stack([y, X[:, 1] + 0.1 * rng.standard_normal(300)])
    numbers = kind(2, response="numbers").fit(X, y)
    labels = kind(2).fit(X, y.astype(str))
    assert numbers.ridge_ == labels.ridge_
    assert_allclose(np.abs(numbers.components_), np.abs(labels.components_), rtol=1e-8, atol=1e-12)
    lazy = kind(2, response="numbers").fit(da.from_array(X, chunks=(100, 6)), da.from_array(y, chunks=100))
    assert lazy.ridge_ == pytest.approx(numbers.ridge_)
    both = kind(2, response="numbers").fit(X, Y)  # seven slices and ten
    assert both.n_slices_.tolist() == [7, 10]


def test_classes_of_a_column_with_gaps():
    column = np.array([["b"], [None], ["a"], [np.nan], ["b"]], dtype=object)
    assert all_classes(column, gaps=True) == ["a", "b"]
    assert all_classes(column, np.array([0.0, 1.0, 1.0, 1.0, 0.0]), gaps=True) == ["a"]
