"""Rows that were read once, kept in a file: what a chunk of them holds, and what it costs."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from colspace.reduction import _spool
from colspace.reduction._spool import RowsOnDisk, spool


@pytest.fixture
def rows():
    A = np.random.default_rng(0).normal(size=(1000, 7))
    X, _, _ = spool(iter([(A[:300], A[:300, 0]), (A[300:], A[300:, 0])]), lambda X, _: X)
    assert isinstance(X, RowsOnDisk)
    return X, A


@pytest.mark.parametrize(
    "index",
    [
        slice(3, 9),
        slice(None, None, 7),
        slice(9, 3, -1),
        slice(None),
        slice(10, 5),
        slice(900, 2000),
        np.array([5, 2, -1, 900, 901]),
        np.arange(1000) % 3 == 0,
        np.array([], dtype=int),
        5,
        (5, 2),
        (slice(2, 8), 3),
        [1, 2],
    ],
    ids=str,
)
@pytest.mark.parametrize("most", [0, 1 << 20], ids=["mapped", "read"])
def test_rows_are_those_of_an_array(rows, monkeypatch, index, most):
    X, A = rows
    monkeypatch.setattr(_spool, "_MOST", most)
    assert_array_equal(X[index], A[index])


def test_parts_of_parts_and_results(rows, monkeypatch):
    X, A = rows
    monkeypatch.setattr(_spool, "_MOST", 0)
    part = X[100:800]
    assert isinstance(part, RowsOnDisk)
    monkeypatch.setattr(_spool, "_MOST", 1 << 20)
    assert type(part[3:9]) is np.ndarray
    assert_array_equal(part[3:9], A[103:109])
    assert_array_equal(part[::9], A[100:800:9])
    assert_array_equal((X - 1.0)[3:9], A[3:9] - 1.0)
    assert_array_equal(X.copy()[3:9], A[3:9])
    with pytest.raises(IndexError):
        X[np.array([1000])]
