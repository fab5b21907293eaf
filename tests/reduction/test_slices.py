"""Slices, SIR and SAVE."""

from __future__ import annotations

import numpy as np
import pytest
from classics_tables import assert_same_span, correlated_table, stored_reference, whitened
from scipy.linalg import eigh

from colspace import (
    PrincipalHessian,
    SlicedAverage,
    SlicedInverse,
)
from colspace._blocks import parse_blocks
from colspace.factor import full_whitener
from colspace.metrics import nsee, principal_angles
from colspace.reduction._sliced import (
    average_kernel,
    collect_slices,
    inverse_kernel,
    make_slicer,
    slice_edges,
)
from colspace.reduction._source import Source


@pytest.fixture(scope="module")
def reference():
    return stored_reference()


@pytest.fixture(scope="module")
def data():
    return correlated_table()


def slice_numbers(y, n_slices, weights=None):
    values, inverse = np.unique(y, return_inverse=True)
    edges = slice_edges(values, np.bincount(inverse, weights).astype(float), n_slices)
    return np.searchsorted(edges, y), len(edges) + 1


def test_slices_are_equal_parts_of_the_order():
    y = np.random.default_rng(0).standard_normal(103)
    numbers, count = slice_numbers(y, 10)
    assert count == 10
    assert sorted(np.bincount(numbers)) == [10] * 7 + [11] * 3
    numbers, _ = slice_numbers(y[:100], 10)
    for h, part in enumerate(np.array_split(np.argsort(y[:100]), 10)):
        assert set(np.flatnonzero(numbers == h)) == set(part)


@pytest.mark.parametrize("seed", range(10))
def test_slices_of_weighted_rows_are_those_of_repeated_ones(seed):
    rng = np.random.default_rng(seed)
    y = np.round(rng.standard_normal(50), int(rng.integers(0, 3)))
    weights = rng.integers(1, 4, size=50)
    whole, _ = slice_numbers(np.repeat(y, weights), 7)
    np.testing.assert_array_equal(np.repeat(slice_numbers(y, 7, weights)[0], weights), whole)
    np.testing.assert_array_equal(slice_numbers(y, 7, 0.1 * weights)[0], slice_numbers(y, 7, weights)[0])


@pytest.mark.parametrize("seed", range(20))
def test_slices_keep_ties_and_order(seed):
    rng = np.random.default_rng(seed)
    y = np.round(rng.standard_normal(60) * rng.choice([0.5, 2, 10]))
    n_slices = int(rng.integers(2, 12))
    numbers, count = slice_numbers(y, n_slices)
    assert sorted(set(numbers)) == list(range(count))
    assert count <= max(n_slices, 1)
    order = np.argsort(y)
    assert (np.diff(numbers[order]) >= 0).all()
    assert all(len(set(numbers[y == v])) == 1 for v in y)
    if len(np.unique(y)) <= n_slices:
        assert count == len(np.unique(y))
    elif len(np.unique(y)) > 1:
        assert count >= 2


def test_labels_are_slices(data):
    X, Y = data
    codes = np.digitize(Y[:, 0], [-0.5, 0.5])
    by_name = SlicedInverse(2).fit(X, np.array(["a", "b", "c"])[codes])
    by_label = SlicedInverse(2, response="labels").fit(X, codes)
    by_number = SlicedInverse(2).fit(X, codes)
    assert by_name.n_slices_ == by_label.n_slices_ == by_number.n_slices_ == 3
    np.testing.assert_allclose(by_name.components_, by_number.components_, atol=1e-12)
    np.testing.assert_allclose(by_label.components_, by_number.components_, atol=1e-12)


def test_few_slices_carry_few_directions(data):
    X, Y = data
    with pytest.warns(UserWarning, match="n_components=2, but 2 slices carry at most 1"):
        model = SlicedInverse(2).fit(X, Y[:, 0] > 0)
    assert model.n_components_ == 1
    assert model.transform(X).shape == (400, 1)
    assert SlicedAverage(2).fit(X, Y[:, 0] > 0).n_components_ == 2


def test_thin_slices_warn(data):
    X, Y = data
    with pytest.warns(UserWarning, match="20 rows in 15 slices"):
        SlicedAverage(1, n_slices=15).fit(X[:20], Y[:20, 0])


def test_heavy_tails_do_not_matter(data):
    """Slices see only the order of y."""
    X, Y = data
    for estimator in (SlicedInverse, SlicedAverage):
        plain = estimator().fit(X, Y[:, 0])
        np.testing.assert_array_equal(estimator().fit(X, np.exp(20 * Y[:, 0])).components_, plain.components_)


def test_sir_equals_statsmodels(reference):
    X, y, stored = reference
    known = stored["sir"]
    for r in (1, 2, 3):
        model = SlicedInverse(r, n_slices=stored["n_slices"], shrinkage=None).fit(X, y)
        assert_same_span(model.components_.T, np.array(known["directions"])[:, :r])
    np.testing.assert_allclose(model.eigenvalues_, known["eigenvalues"][:3], rtol=1e-9)


def test_save_equals_statsmodels(reference):
    """statsmodels divides slice covariances by n_h - 1: equal once that is put right."""
    X, y, stored = reference
    known = stored["save"]
    source = Source.of(X, y, None, "test")
    m = collect_slices(
        source, parse_blocks(None, 5), make_slicer(source, stored["n_slices"]), second=True
    ).total
    w = full_whitener(m.covariance, m.rows)
    kernel = average_kernel(m.weights, np.eye(5), w.both_sides(m.slice_covariances * 20 / 19, w))
    values, vectors = eigh(kernel)
    assert_same_span(w.loadings(vectors[:, ::-1][:, :2]), np.array(known["directions"])[:, :2])
    np.testing.assert_allclose(values[::-1] * 20, known["eigenvalues"], rtol=1e-9)
    # with our divisor the plane is nearly the same
    model = SlicedAverage(2, n_slices=stored["n_slices"], shrinkage=None).fit(X, y)
    assert principal_angles(np.array(known["directions"])[:, :2], model.components_.T).max() < 0.1


@pytest.mark.parametrize("q", [1, 2])
def test_sliced_by_hand(q, data):
    """The kernels as sums over slices of whitened rows, responses pooled."""
    X, Y = data
    Z, root = whitened(X)
    Z = Z @ root
    inverse, average = np.zeros((6, 6)), np.zeros((6, 6))
    for y in Y.T[:q]:
        place = np.ceil((np.argsort(np.argsort(y)) + 0.5) / 400 * 7)
        for part in (np.flatnonzero(place == h) for h in range(1, 8)):
            mean = Z[part].mean(axis=0)
            spread = np.eye(6) - np.cov(Z[part].T, bias=True)
            inverse += len(part) / 400 * np.outer(mean, mean)
            average += len(part) / 400 * spread @ spread
    for estimator, kernel in ((SlicedInverse, inverse), (SlicedAverage, average)):
        values, vectors = eigh(kernel)
        model = estimator(2, n_slices=7, shrinkage=None).fit(X, Y[:, :q])
        np.testing.assert_allclose(model.eigenvalues_, values[::-1][:2], rtol=1e-10)
        assert_same_span(model.components_.T, root @ vectors[:, -2:], atol=1e-10)


def test_inverse_kernel_on_one_slice():
    np.testing.assert_allclose(inverse_kernel(np.array([0.5]), np.array([[2.0], [0.0]])), [[2, 0], [0, 0]])


@pytest.mark.parametrize(
    ("estimator", "link", "band"),
    [
        (SlicedInverse, lambda a, b: np.exp(a / 2) + 3 * np.tanh(b), 0.17),
        (SlicedAverage, lambda a, b: a**2 + 2 * b**2, 0.08),
        (PrincipalHessian, lambda a, b: a**2 - b**2, 0.1),
    ],
    ids=["sir", "save", "phd"],
)
def test_recovery(estimator, link, band):
    """5000 rows, 8 columns, two directions: the error stays within a band about twice its mean."""
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        U = np.linalg.qr(rng.standard_normal((8, 2)))[0]
        X = rng.standard_normal((5000, 8))
        y = link(*(X @ U).T) + 0.2 * rng.standard_normal(5000)
        errors.append(nsee(U, estimator(2).fit(X, y).components_.T))
    assert np.mean(errors) < band
