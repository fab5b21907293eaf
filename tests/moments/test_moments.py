import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from colspace import reduce_rows
from colspace.moments import (
    TriplePlan,
    add_gram,
    centre,
    column_moments,
    fourth_norms,
    mirrored,
    weighted_gram,
)

OWN = ((0, 0), (1, 1))
ALL = ((0, 0), (0, 1), (1, 1))


def data(m=200, q=2, seed=0, mean=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 5)) @ rng.standard_normal((5, 5)) + mean
    return X, np.column_stack([X[:, 0] * X[:, 3] / (1 + abs(mean)), X[:, 1] ** 2][:q]) + rng.standard_normal(
        (m, q)
    )


def plan(shift_x, shift_y, plain=ALL, weighted=ALL, order=None, **options):
    slices = (slice(0, 3), slice(3, 5))
    return TriplePlan(slices, order, np.asarray(shift_x), np.asarray(shift_y), plain, weighted, **options)


def brute_force(X, Y):
    """Central moments row by row, extended precision."""
    X, Y = X.astype(np.longdouble), Y.astype(np.longdouble)
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    y = y / y.std(axis=0)
    triple = np.array(
        [sum(v * np.outer(r, r) for v, r in zip(y[:, k], x, strict=True)) for k in range(y.shape[1])]
    )
    return x.T @ x / len(x), x.T @ y / len(x), triple / len(x)


@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize(("plain", "weighted"), [(ALL, ALL), (OWN, ((0, 1),)), (OWN, OWN), (OWN, ALL)])
def test_central_moments_against_brute_force(mean, plain, weighted):
    X, Y = data(mean=mean)
    covariance, linear, triple = brute_force(X, Y)
    c = centre(reduce_rows(plan(X[:50].mean(axis=0), Y.mean(axis=0), plain, weighted), X, Y, chunk=33))
    s = c.slices
    np.testing.assert_allclose(c.mean, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(c.linear, linear.astype(float), atol=1e-10)
    for i, j in plain:
        np.testing.assert_allclose(c.covariance[i, j], covariance[s[i], s[j]].astype(float), atol=1e-9)
    for i, j in weighted:
        np.testing.assert_allclose(c.triple[i, j], triple[:, s[i], s[j]].astype(float), atol=1e-9)


def test_y_need_not_be_centred_when_cross_products_are_kept():
    X, Y = data()
    a = centre(plan(np.zeros(5), Y.mean(axis=0))(X, Y))
    b = centre(plan(np.zeros(5), [17.0, -3.0])(X, Y))
    for pair in ALL:
        np.testing.assert_allclose(a.triple[pair], b.triple[pair], atol=1e-11)


def test_columns_in_any_order():
    X, Y = data()
    order = np.array([4, 2, 0, 1, 3])
    a = plan(np.ones(5), [0, 0], order=order)(X, Y)
    b = plan(np.ones(5), [0, 0])(X[:, order], Y)
    np.testing.assert_allclose(a.xyx[0, 1], b.xyx[0, 1])
    np.testing.assert_allclose(a.xy, b.xy)


@pytest.mark.parametrize("keep_sparse", [True, False])
def test_sparse_chunks(keep_sparse):
    X, Y = data()
    X[np.abs(X) < 1] = 0
    shift = np.zeros(5) if keep_sparse else np.ones(5)
    a = plan(shift, [0, 0], keep_sparse=keep_sparse)(sparse.csr_array(X), Y)
    b = plan(shift, [0, 0])(X, Y)
    for pair in ALL:
        np.testing.assert_allclose(a.xyx[pair], b.xyx[pair], atol=1e-12)
        np.testing.assert_allclose(a.xx[pair], b.xx[pair], atol=1e-12)
    np.testing.assert_allclose(a.x, b.x, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.permutations(range(4)), st.integers(0, 2))
def test_merging_is_commutative_and_associative(order, split):
    X, Y = data()
    statistic = plan(np.zeros(5), [0.0, 0.0])
    parts = [statistic(X[i::4], Y[i::4]) for i in order]
    left = (parts[0] + parts[1]) + (parts[2] + parts[3])
    right = parts[0] + (parts[1] + (parts[2] + parts[3]))
    whole = statistic(X, Y)
    for merged in (left, right):
        np.testing.assert_allclose(merged.xyx[0, 1], whole.xyx[0, 1], rtol=1e-9, atol=1e-9)
        assert merged.count == whole.count
    np.testing.assert_allclose((whole - parts[split]).xx[0, 0], (left - parts[split]).xx[0, 0], atol=1e-9)


def test_statistics_of_different_shifts_do_not_merge():
    X, Y = data()
    with pytest.raises(ValueError, match="different shift_x"):
        plan(np.zeros(5), [0, 0])(X, Y) + plan(np.ones(5), [0, 0])(X, Y)
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(1,\) cannot be merged"):
        plan(np.zeros(5), np.zeros(1))(X, Y) + plan(np.zeros(5), np.zeros(1))(X, Y[:, :1])


def test_centring_without_cross_products_needs_a_centred_y():
    X, Y = data()
    with pytest.raises(ValueError, match="need their cross products"):
        centre(plan(np.zeros(5), [17.0, 0.0], OWN, ((0, 1),))(X, Y))


@pytest.mark.parametrize("weights", [[1.0, -2.0, 0.0, 3.0], [0.0] * 4, [-1.0] * 4])
def test_weighted_gram(weights):
    Z = np.random.default_rng(0).standard_normal((4, 3))
    w = np.array(weights)
    expected = Z.T @ np.diag(w) @ Z
    np.testing.assert_allclose(weighted_gram(Z, w), expected, atol=1e-14)
    np.testing.assert_allclose(weighted_gram(sparse.csr_array(Z), w), expected, atol=1e-14)
    np.testing.assert_allclose(weighted_gram(Z), Z.T @ Z)


def test_constant_columns_have_exactly_no_variance():
    X = np.column_stack([np.full(1000, 0.1), np.full(1000, 1e9 / 3), np.linspace(0, 1, 1000)])
    near = X[:7].mean(axis=0) * (1 + 1e-15)
    for table, shift in ((X, near), (sparse.csr_array(X), near), (sparse.csr_array(X), np.zeros(3))):
        moments = column_moments(table, shift=shift)
        assert (moments.variance[:2] == 0).all()
        assert moments.variance[2] == pytest.approx(X[:, 2].var(), rel=1e-9)


def test_fourth_norms_sparse_and_dense():
    X, Y = data()
    X[np.abs(X) < 1] = 0
    mean, scale = X.mean(axis=0), X.std(axis=0)
    columns = (np.array([0, 1, 2]), np.array([3, 4]))
    Z = (X - mean) / scale
    expected = [np.sum(np.sum(Z[:, c] ** 2, axis=1) ** 2) for c in columns]
    for table in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(fourth_norms(table, Y, mean=mean, scale=scale, columns=columns), expected)


def test_a_column_far_from_zero_still_varies():
    X = 1e5 + np.random.default_rng(0).standard_normal((400, 1))
    found = column_moments(X, shift=np.zeros(1))
    np.testing.assert_allclose(found.variance, X.var(axis=0), rtol=1e-4)
    assert column_moments(X * 0 + 1e5, shift=np.zeros(1)).variance == 0


def test_weighted_columns_sparse_and_dense_by_hand():
    rng = np.random.default_rng(1)
    X = np.where(rng.random((30, 4)) < 0.4, rng.standard_normal((30, 4)), 0.0)
    weights = np.arange(30.0) % 4
    for table in (X, sparse.csr_array(X)):
        found = column_moments(table, weights, shift=np.array([0.5, -1.0, 0.0, 2.0]))
        assert (found.rows, found.count) == (np.count_nonzero(weights), weights.sum())
        mean = np.average(X, axis=0, weights=weights)
        np.testing.assert_allclose(found.mean, mean)
        np.testing.assert_allclose(found.variance, np.average((X - mean) ** 2, axis=0, weights=weights))


def test_grams_grow_in_place():
    """Sum of Z' diag(w) Z over parts, weights of both signs and none, in the lower half alone until it is mirrored."""
    rng = np.random.default_rng(0)
    Z, w = rng.standard_normal((40, 5)), rng.integers(-2, 3, 40).astype(float)
    total = np.zeros((5, 5))
    for s in (slice(0, 7), slice(7, 7), slice(7, 40)):
        add_gram(total, Z[s], w[s])
        add_gram(total, Z[s])
    assert not np.triu(total, 1).any()
    np.testing.assert_allclose(mirrored(total), (Z.T * (w + 1)) @ Z, atol=1e-12)
