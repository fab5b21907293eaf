import tracemalloc
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from colspace import reduce_rows
from colspace._rows import CHUNK_BYTES, chunk_rows


def gram(X, y=None):
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return X.T @ X if y is None else X.T @ (X * np.asarray(y)[:, None])


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return rng.standard_normal((101, 4)), rng.standard_normal(101)


@pytest.mark.parametrize("chunk", [1, 7, 50, 101, 1000, None])
def test_every_chunking_gives_the_same_sum(table, chunk):
    X, y = table
    np.testing.assert_allclose(reduce_rows(gram, X, y, chunk=chunk), gram(X, y), rtol=1e-12)


def test_memmap_csr_and_iterator(table, tmp_path):
    X, y = table
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_allclose(
        reduce_rows(gram, np.load(tmp_path / "x.npy", mmap_mode="r"), y, chunk=9), gram(X, y)
    )
    np.testing.assert_allclose(reduce_rows(gram, sparse.csr_array(X), y, chunk=9), gram(X, y))
    np.testing.assert_allclose(reduce_rows(gram, iter([X[:40], X[40:]])), gram(X))
    np.testing.assert_allclose(reduce_rows(gram, iter([(X[:40], y[:40]), (X[40:], y[40:])])), gram(X, y))


@pytest.mark.parametrize("chunks", [(10, 4), (101, 2), (33, 1)])
def test_dask_arrays_are_aligned_and_rechunked(table, chunks):
    X, y = table
    lazy = da.from_array(X, chunks=chunks)
    for response in (y, da.from_array(y, chunks=25)):
        np.testing.assert_allclose(reduce_rows(gram, lazy, response), gram(X, y))


def test_dask_frames_with_empty_partitions(table):
    X, y = table
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(y=y), npartitions=5)
    kept = frame[frame["y"] > 1.0]
    expected = gram(X[y > 1.0], y[y > 1.0])
    np.testing.assert_allclose(reduce_rows(gram, kept[list("abcd")], kept["y"]), expected)


def _count_rows(X, limit):
    assert len(X) <= limit
    return len(X)


def test_dask_partitions_are_taken_one_at_a_time():
    lazy = da.zeros((1000, 3), chunks=(100, 3))
    assert reduce_rows(partial(_count_rows, limit=100), lazy) == 1000
    assert reduce_rows(partial(_count_rows, limit=10), lazy, chunk=10) == 1000


def test_default_chunk_is_about_four_megabytes():
    X = np.empty((100_000, 50))
    assert chunk_rows(X) * 50 * 8 == pytest.approx(CHUNK_BYTES, rel=0.01)
    assert chunk_rows(sparse.csr_array((1000, 10**6))) > 10_000


def test_memory_is_one_chunk_not_a_copy():
    X = np.zeros((400_000, 50))
    y = np.zeros(len(X))
    tracemalloc.start()
    reduce_rows(gram, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * CHUNK_BYTES < X.nbytes / 5


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_any_partition_of_the_rows_adds_up(sizes):
    X = np.random.default_rng(1).standard_normal((sum(sizes), 3))
    ends = np.cumsum(sizes)
    parts = (X[e - s : e] for e, s in zip(ends, sizes, strict=True))
    np.testing.assert_allclose(reduce_rows(gram, parts), gram(X), rtol=1e-10, atol=1e-12)


def test_errors(table):
    X, y = table
    with pytest.raises(TypeError, match="at least one array"):
        reduce_rows(gram)
    with pytest.raises(ValueError, match="chunk=0 must be at least 1 row"):
        reduce_rows(gram, X, chunk=0)
    with pytest.raises(ValueError, match="different numbers of rows"):
        reduce_rows(gram, X, y[:-1])
    with pytest.raises(ValueError, match="0 rows"):
        reduce_rows(gram, X[:0])
    with pytest.raises(ValueError, match="empty"):
        reduce_rows(gram, iter([]))
    with pytest.raises(TypeError, match="stands alone"):
        reduce_rows(gram, iter([X]), y)
    lazy = da.from_array(X, chunks=(10, 4))
    with pytest.raises(ValueError, match="different numbers of rows"):
        reduce_rows(gram, lazy, y[:-1])
    unknown = lazy[lazy[:, 0] > 0]
    with pytest.raises(ValueError, match=r"unknown chunk sizes.*compute_chunk_sizes.*lengths=True"):
        reduce_rows(gram, unknown)
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    with pytest.raises(ValueError, match=r"3 partitions needs y as a Dask Series.*Remedies"):
        reduce_rows(gram, frame, y)
    with pytest.raises(ValueError, match="every partition is empty"):
        reduce_rows(gram, frame[frame[0] > 1e9])
