import operator
import threading
import tracemalloc
from functools import partial, reduce

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from colspace import reduce_rows
from colspace._rows import CHUNK_BYTES, as_array, chunk_rows, dask_partitions, workspace
from colspace.moments import TriplePlan


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


@pytest.fixture
def folder(table, tmp_path):
    """A Parquet folder of files and row groups of unequal sizes, with weights and a column nobody asks for."""
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, w=np.arange(101.0), other="text")
    for i, (start, stop) in enumerate([(0, 13), (13, 14), (14, 60), (60, 61), (61, 90), (90, 101)]):
        frame[start:stop].to_parquet(tmp_path / f"{i}.parquet", row_group_size=10)
    return tmp_path


def weighted(X, y, w):
    y = np.asarray(y).reshape(len(X), -1)
    return X.T @ (X * (w * y.sum(axis=1))[:, None])


@pytest.mark.parametrize("options", [{}, {"split_row_groups": True}, {"filesystem": "arrow"}])
def test_a_parquet_folder_projected_into_features_response_and_weights(table, folder, options):
    X, y = table
    w = np.arange(101.0)
    path = f"file://{folder}" if options.get("filesystem") else folder
    frame = dd.read_parquet(path, **options)
    features = frame[list("abcd")]
    for response in (frame["y"], frame[["y"]]):
        np.testing.assert_allclose(reduce_rows(gram, features, frame["y"]), gram(X, y))
        np.testing.assert_allclose(
            reduce_rows(weighted, features, response, frame["w"]), weighted(X, y, w), atol=1e-10
        )
    for kept, rows in ((frame[frame["y"] > 0.5], y > 0.5), (frame[frame["w"] > 60], w > 60)):
        found = reduce_rows(weighted, kept[list("abcd")], kept["y"], kept["w"])
        np.testing.assert_allclose(found, weighted(X[rows], y[rows], w[rows]), atol=1e-10)
    filtered = dd.read_parquet(path, filters=[("w", ">", 60)], **options)
    found = reduce_rows(gram, filtered.drop(columns=["y", "w", "other"]), filtered["y"])
    np.testing.assert_allclose(found, gram(X[w > 60], y[w > 60]))


def test_partitions_of_a_folder_are_those_that_its_reader_sees(folder):
    frame = dd.read_parquet(folder)
    parts = dask_partitions(frame[["a", "b"]], frame["y"])
    assert [len(p) for p in parts] == [frame.npartitions] * 2
    read = {str(key) for key in parts[0][0].dask if "read" in str(key)}
    assert len(read) == frame.npartitions  # once for both


def test_collections_beside_arrays_in_memory(table, folder):
    pl = pytest.importorskip("polars")
    X, y = table
    w = np.arange(101.0)
    lazy = da.from_array(X, chunks=(30, 3))
    frame = dd.read_parquet(folder)
    mixed = [
        (frame[list("abcd")], y, w),
        (frame[list("abcd")], pd.Series(y, index=np.arange(101)[::-1]), da.from_array(w, chunks=40)),
        (frame[list("abcd")], pl.Series(y), frame["w"]),
        (frame[list("abcd")], frame["y"], w),
        (lazy, pd.Series(y), w),
        (lazy, pl.Series(y), w),
        (lazy, pl.DataFrame({"y": y}), pd.Series(w, dtype="Float64")),
        (lazy, frame["y"], frame["w"]),
        (X, da.from_array(y, chunks=50), w),
    ]
    for arrays in mixed:
        np.testing.assert_allclose(reduce_rows(weighted, *arrays), weighted(X, y, w), atol=1e-10)


def _csr(block):
    return sparse.csr_array(np.where(block > 0, block, 0.0))


def _twice(block):
    """Every entry in two halves: a format that is not canonical, and no CSR."""
    half = sparse.coo_array(_csr(block) / 2)
    rows, columns = half.coords
    return sparse.coo_array(
        (np.tile(half.data, 2), (np.tile(rows, 2), np.tile(columns, 2))), shape=half.shape
    )


@pytest.mark.parametrize("make", [_csr, _twice])
@pytest.mark.parametrize("chunks", [(40, 4), (40, 3)])
def test_dask_arrays_of_sparse_blocks(table, make, chunks):
    X, y = table
    lazy = da.from_array(X, chunks=chunks).map_blocks(make)
    positive = np.where(X > 0, X, 0.0)
    for response in (y, da.from_array(y, chunks=25)):
        np.testing.assert_allclose(reduce_rows(_sparse_gram, lazy, response), gram(positive, y))
    doubled = sparse.csr_array(([1.0, 2.0, 4.0], [1, 1, 0], [0, 2, 3]), shape=(2, 3))
    assert as_array(doubled).toarray().tolist() == [[0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]
    assert as_array(doubled).nnz == 2
    assert doubled.nnz == 3  # as it was


def _sparse_gram(X, y):
    assert sparse.issparse(X)
    assert X.format == "csr"
    return gram(X, y)


class _TwoPartsError(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


def _refuse(X, *, limit, error):
    if X.max() > limit:
        raise error
    return X.sum(axis=0)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_errors_name_the_partition(kind):
    X = np.zeros((60, 2))
    X[45] = 7.0
    lazy = (
        da.from_array(X, chunks=(20, 2))
        if kind == "array"
        else dd.from_pandas(pd.DataFrame(X), npartitions=3)
    )
    cause = OverflowError("7 is too large")
    with pytest.raises(
        OverflowError, match="in partition 2 of the Dask collection: 7 is too large"
    ) as caught:
        reduce_rows(partial(_refuse, limit=5.0, error=cause), lazy)
    assert isinstance(caught.value.__cause__, OverflowError)
    with pytest.raises(_TwoPartsError) as caught:
        reduce_rows(partial(_refuse, limit=5.0, error=_TwoPartsError("a", "b")), lazy)
    assert any("in partition 2" in note for note in caught.value.__notes__)


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


def test_a_workspace_is_taken_again():
    first = workspace("here", (10, 4))
    assert np.shares_memory(first, workspace("here", (8, 5)))
    assert not np.shares_memory(first, workspace("there", (10, 4)))
    assert workspace("here", (3, 2)).shape == (3, 2)
    huge = (4 * CHUNK_BYTES // 8 + 1,)
    assert not np.shares_memory(workspace("here", huge), workspace("here", huge))
    others = []
    thread = threading.Thread(target=lambda: others.append(workspace("here", (10, 4))))
    thread.start()
    thread.join()
    assert not np.shares_memory(first, others[0])


def test_sums_leave_what_statistics_return_as_it_was():
    X = np.arange(12.0).reshape(6, 2)
    kept = X.copy()
    assert reduce_rows(lambda rows: rows[0], X, chunk=1).tolist() == [30.0, 36.0]
    np.testing.assert_array_equal(X, kept)
    parts = [np.ones(2, dtype=int), np.full(2, 0.5), np.full(2, 0.25), np.ones(1)]
    np.testing.assert_allclose(reduce_rows(lambda rows: parts[int(rows[0])], np.arange(4.0), chunk=1), 2.75)
    np.testing.assert_array_equal(parts[0], 1)


def test_statistics_outlive_the_workspace_they_were_made_in(table):
    X, y = table
    pairs = ((0, 0), (0, 1), (1, 1))
    for weighted_pairs in (pairs, ((0, 1),)):
        plan = TriplePlan((slice(0, 2), slice(2, 4)), None, X[0], y[:1], pairs, weighted_pairs)
        stored = [plan(X[i : i + 7], y[i : i + 7]) for i in range(0, 101, 7)]
        whole, chunked = plan(X, y), reduce_rows(plan, X, y, chunk=7)
        for total in (chunked, reduce(operator.add, stored)):
            assert total.count == whole.count
            np.testing.assert_allclose(total.xy, whole.xy, atol=1e-11)
            for pair in pairs:
                np.testing.assert_allclose(total.xx[pair], whole.xx[pair], atol=1e-11)
            for pair in weighted_pairs:
                np.testing.assert_allclose(total.xyx[pair], whole.xyx[pair], atol=1e-11)


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
    with pytest.raises(ValueError, match=r"unknown chunk sizes.*compute_chunk_sizes"):
        reduce_rows(gram, unknown, y)
    np.testing.assert_allclose(reduce_rows(gram, unknown), gram(X[X[:, 0] > 0]))
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    other = dd.from_pandas(pd.Series(y), npartitions=2)
    with pytest.raises(ValueError, match=r"different numbers of partitions, \[3, 2\].*Remedies"):
        reduce_rows(gram, frame, other)
    with pytest.raises(ValueError, match="different numbers of rows: 101 and 100"):
        reduce_rows(gram, frame, y[:-1])
    with pytest.raises(ValueError, match="every partition is empty"):
        reduce_rows(gram, frame[frame[0] > 1e9])
