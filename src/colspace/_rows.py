"""One pass over the rows: chunks in, one small additive statistic out."""

from __future__ import annotations

import math
import operator
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._threads import in_threads

#: Bytes of float64 that one chunk of rows takes: large enough for BLAS-3, small beside any table.
CHUNK_BYTES = 4 << 20
_FAN_IN = 8


class SupportsAdd(Protocol):
    """Anything that merges with another of its kind by ``+``."""

    def __add__(self, other: Self, /) -> Self: ...


S = TypeVar("S", bound=SupportsAdd)


def is_dask(x: object) -> bool:
    """Whether ``x`` is a Dask collection (asked before anything that would load it)."""
    return hasattr(x, "__dask_graph__")


def is_chunk_iterator(x: object) -> bool:
    """Whether ``x`` yields chunks of rows and can be read only once."""
    return isinstance(x, Iterator)


def chunk_rows(*arrays: Any, extra: int = 0) -> int:
    """Rows per chunk so that the chunks of all arrays, and ``extra`` columns, take about ``CHUNK_BYTES``."""
    row_bytes = 8 * extra
    for array in arrays:
        if sparse.issparse(array):
            row_bytes += 12 * max(1, array.nnz // max(1, array.shape[0]))
        else:
            row_bytes += 8 * (array.shape[1] if getattr(array, "ndim", 1) > 1 else 1)
    return max(256, CHUNK_BYTES // max(1, row_bytes))


_kept = threading.local()


def workspace(name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An uninitialised float64 array that this thread keeps: the next call of the same name takes it again.

    For what a statistic makes of a chunk and forgets. Memory that is asked for and given back with every chunk is new
    each time in the workers of a cluster (Dask's MALLOC_TRIM_THRESHOLD_ has them return it at once), and the first
    touch of its pages costs more than the arithmetic. Arrays far beyond a chunk are not kept.
    """
    size = math.prod(shape)
    if 8 * size > 4 * CHUNK_BYTES:
        return np.empty(shape)
    buffers = _kept.__dict__
    if name not in buffers or buffers[name].size < size:
        buffers[name] = np.empty(size)
    return buffers[name][:size].reshape(shape)


def is_workspace(array: NDArray[Any]) -> bool:
    """Whether an array lies in a workspace of this thread, so that who is given it may write into it."""
    return any(array.base is buffer for buffer in _kept.__dict__.values())


def reduce_rows(statistic: Callable[..., S], *arrays: Any, chunk: int | None = None, threads: int = 1) -> S:
    """Sum ``statistic(*chunks)`` over aligned chunks of rows, in one pass.

    Parameters
    ----------
    statistic : callable
        Takes one chunk of rows of each array and returns something small that merges by ``+``.
        On a distributed scheduler it must pickle: a module-level function or a partial of one.
    *arrays : ndarray, memmap, CSR matrix, Dask array (also of CSR blocks) or dataframe, or one iterator of chunks
        Aligned along their rows, by position. An iterator yields a chunk, or a tuple of aligned chunks. Beside a
        Dask collection the others may be in memory: arrays, or Series and frames of pandas and polars.
    chunk : int, optional
        Rows per chunk; by default about 4 MB of float64.
    threads : int, default=1
        How many share the chunks of arrays in memory. The sum is the same, to the last bit; the statistic must not change
        what it shares. Dask has threads of its own, and an iterator is read by one.

    Returns
    -------
    The sum of the statistics. Dask collections are reduced by a tree on the scheduler in force and
    never loaded into memory; an error says in which partition it arose.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import reduce_rows
    >>> X = np.arange(10.0).reshape(5, 2)
    >>> reduce_rows(lambda rows: rows.sum(axis=0), X, chunk=2)
    array([20., 25.])
    """
    if not arrays:
        msg = "reduce_rows needs at least one array of rows"
        raise TypeError(msg)
    if chunk is not None and chunk < 1:
        msg = f"chunk={chunk} must be at least 1 row, or None for about 4 MB"
        raise ValueError(msg)
    if isinstance(arrays[0], Partitions) or any(is_dask(a) for a in arrays):
        return _reduce_dask(statistic, arrays, chunk)
    if is_chunk_iterator(arrays[0]):
        if len(arrays) > 1:
            msg = "an iterator of chunks stands alone: let it yield tuples of aligned chunks"
            raise TypeError(msg)
        return sum_parts(statistic(*(c if isinstance(c, tuple) else (c,))) for c in arrays[0])
    return _reduce_local(statistic, arrays, chunk, threads)


def sum_parts(parts: Iterable[S]) -> S:
    """The sum of at least one statistic, in the memory of the first sum."""
    iterator = iter(parts)
    try:
        first = next(iterator)
    except StopIteration:
        msg = "no rows: the iterator of chunks was empty (or was read before)"
        raise ValueError(msg) from None
    second = next(iterator, None)
    return first if second is None else reduce(_absorb, iterator, first + second)


def _absorb(total: Any, part: Any) -> Any:
    """total + part, in place where ``total``, a sum already, has room for it."""
    if isinstance(total, np.ndarray) and isinstance(part, np.ndarray):
        if total.shape == part.shape and total.dtype == part.dtype:
            return np.add(total, part, out=total)
    elif hasattr(total, "absorb"):
        return total.absorb(part)
    return total + part


def _reduce_local(
    statistic: Callable[..., S], arrays: tuple[Any, ...], chunk: int | None, threads: int = 1
) -> S:
    lengths = {a.shape[0] for a in arrays}
    if len(lengths) > 1:
        msg = f"arrays have different numbers of rows: {[a.shape[0] for a in arrays]}; align them first"
        raise ValueError(msg)
    n_rows = lengths.pop()
    if n_rows == 0:
        msg = "no rows: the arrays have 0 rows, at least 1 is needed"
        raise ValueError(msg)
    step = chunk or chunk_rows(*arrays)
    starts = range(0, n_rows, step)

    def part(i: int) -> S:
        return statistic(*(a[i : i + step] for a in arrays))

    if min(threads, len(starts)) < 2:
        return sum_parts(map(part, starts))
    with ThreadPoolExecutor(min(threads, len(starts))) as pool:
        return sum_parts(found for _, found in in_threads(pool, part, starts))


def _reduce_dask(statistic: Callable[..., S], arrays: tuple[Any, ...], chunk: int | None) -> S:
    import dask

    once = dask.delayed(statistic, pure=False, traverse=False)  # one copy per worker, not per task
    rows = arrays[0] if isinstance(arrays[0], Partitions) else Partitions.of(*arrays)
    total = sum_delayed(rows.map(_partition, once, chunk))
    if total is None:
        msg = "no rows: every partition is empty"
        raise ValueError(msg)
    return total


def sum_delayed(tasks: Sequence[Any]) -> Any:
    """The sum of delayed statistics, added up by a tree where they are; those that are None are left out."""
    import dask

    while len(tasks) > 1:
        groups = [tasks[i : i + _FAN_IN] for i in range(0, len(tasks), _FAN_IN)]
        tasks = [dask.delayed(_sum_kept, pure=False)(*group) for group in groups]
    # arrays in memory travel with the tasks, so that those of a lost worker can be done again
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        return tasks[0].compute()


@dataclass(frozen=True)
class Partitions:
    """Aligned rows of Dask collections, ready for many passes: a tuple of delayed arrays per partition.

    ``prepare``, delayed too, makes of them the arrays that a statistic takes, within its task.
    """

    parts: tuple[tuple[Any, ...], ...]
    prepare: Any = None

    @classmethod
    def of(cls, *arrays: Any, prepare: Callable[..., tuple[Any, ...]] | None = None) -> Self:
        """Rows of collections and of arrays in memory."""
        import dask

        once = dask.delayed(prepare, pure=False, traverse=False) if prepare is not None else None
        return cls(tuple(zip(*dask_partitions(*arrays), strict=True)), once)

    def map(
        self, function: Callable[..., Any], *arguments: Any, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """Delayed ``function(*arguments, *arrays)`` of every partition, whose number stands in its errors.

        ``each``, one per partition, stands between the arguments and the arrays.
        """
        import dask

        task = dask.delayed(_in_partition, pure=False)
        own: Sequence[tuple[Any, ...]] = [()] * len(self.parts) if each is None else [(e,) for e in each]
        n = len(arguments) + (each is not None)
        first = (self.prepare, function, n, *arguments)
        return [
            task(i, *first, *mine, *part) for i, (mine, part) in enumerate(zip(own, self.parts, strict=True))
        ]


def _in_partition(number: int, prepare: Any, function: Callable[..., Any], n: int, *rest: Any) -> Any:
    """The first ``n`` of the rest are arguments, the others arrays."""
    with named_partition(number):
        local = tuple(as_array(part) for part in rest[n:])
        return function(*rest[:n], *(local if prepare is None else prepare(*local)))


def _partition(statistic: Callable[..., S], chunk: int | None, *local: Any) -> S | None:
    """The statistic of one partition, itself taken in chunks; None when it has no rows."""
    if all(part.shape[0] == 0 for part in local):
        return None
    return _reduce_local(statistic, local, chunk)


@contextmanager
def named_partition(number: int) -> Iterator[None]:
    """Errors raised within name the partition; their type stays, and the first error is their cause."""
    try:
        yield
    except Exception as error:
        text = f"in partition {number} of the Dask collection: {error}"
        named = None
        with suppress(TypeError):  # a type that takes more than a message
            named = type(error)(text)
        if named is None:
            error.add_note(text)
            raise
        raise named from error


def _sum_kept(*parts: S | None) -> S | None:
    kept = [p for p in parts if p is not None]
    return sum_parts(kept) if kept else None


def as_array(part: Any) -> Any:
    """A partition as an ndarray (nullable numbers as floats), or as a canonical CSR matrix if it is sparse."""
    if sparse.issparse(part):
        part = part.tocsr()
        if not part.has_canonical_format:
            part = part.copy()
            part.sum_duplicates()
        return part
    array = np.asarray(part)
    if array.dtype == object and hasattr(part, "to_numpy"):
        kinds = {getattr(t, "kind", "O") for t in (part.dtypes if array.ndim == 2 else [part.dtype])}
        if kinds <= set("biuf"):
            return part.to_numpy(dtype=np.float64, na_value=np.nan)
    return array


def dask_partitions(*arrays: Any) -> list[list[Any]]:
    """Aligned lists of delayed row partitions, one list per array.

    The first Dask collection says where rows are cut: partitions of a dataframe as they are (all dataframes are
    read together, so that a Parquet file is opened once for all its columns), or chunks of an array. Other
    collections follow it, and arrays in memory are cut to its lengths, which a dataframe counts in a pass.
    """
    lead = next(a for a in arrays if is_dask(a))
    frames = [i for i, a in enumerate(arrays) if _is_frame(a)]
    lists: dict[int, list[Any]] = {}
    if _is_frame(lead):
        lists.update(zip(frames, _frame_partitions([arrays[i] for i in frames]), strict=True))
        rows = _lengths(lists[frames[0]]) if len(frames) < len(arrays) else ()
    else:
        if len(arrays) == 1:
            return [_row_blocks(lead)]
        rows = _known_chunks(arrays)
    for i, a in enumerate(arrays):
        if i not in lists:
            lists[i] = _array_partitions(a, rows)
    return [lists[i] for i in range(len(arrays))]


def _is_frame(a: Any) -> bool:
    return is_dask(a) and hasattr(a, "npartitions") and not hasattr(a, "chunks")


def _frame_partitions(frames: list[Any]) -> list[list[Any]]:
    """Delayed partitions of dataframes that are cut alike, from one graph.

    Optimised one by one, projections of a Parquet folder would merge its files differently; simplified together
    they keep the partitions that the user sees, and share what is read.
    """
    import dask
    import dask.dataframe as dd

    counts = [a.npartitions for a in frames]
    if len(set(counts)) > 1:
        msg = (
            f"Dask dataframes with different numbers of partitions, {counts}, cannot be aligned. Remedies: take y (and "
            "weights) as columns of the same dataframe as X, or make arrays of all: d.to_dask_array().compute_chunk_sizes()"
        )
        raise ValueError(msg)
    if len(frames) == 1:
        return [frames[0].simplify().to_delayed(optimize_graph=False)]
    together = dd.map_partitions(
        _bundle, *frames, meta=(None, object), align_dataframes=False, enforce_metadata=False
    )
    bundles = together.simplify().to_delayed(optimize_graph=False)
    pick = dask.delayed(operator.getitem, pure=True)
    return [[pick(bundle, i) for bundle in bundles] for i in range(len(frames))]


def _bundle(*parts: Any) -> tuple[Any, ...]:
    return parts


def _lengths(parts: list[Any]) -> Sequence[int]:
    """Rows of each partition, counted where it lives."""
    import dask

    return list(dask.compute(*(dask.delayed(len, pure=False)(part) for part in parts)))


def frame_array(frame: Any) -> Any:
    """A Dask dataframe or Series as a Dask array of known chunks, which takes a pass to count its rows."""
    import dask
    import dask.array as da

    (parts,) = _frame_partitions([frame])
    shape, dtype = frame.shape[1:], as_array(frame._meta).dtype
    blocks = [
        da.from_delayed(dask.delayed(as_array)(part), shape=(n, *shape), dtype=dtype)
        for part, n in zip(parts, _lengths(parts), strict=True)
    ]
    return da.concatenate(blocks)


def _known_chunks(arrays: tuple[Any, ...]) -> Sequence[int]:
    """Row chunks of the first Dask array; refuses unknown ones, which nothing can be aligned with."""
    if any(np.isnan(size) for a in arrays if hasattr(a, "chunks") for size in a.chunks[0]):
        msg = (
            "a Dask array has unknown chunk sizes, so rows of X and y cannot be aligned. Remedies: "
            "call X.compute_chunk_sizes(), "
            "or pass the Dask DataFrame itself together with y as a Dask Series of the same partitions"
        )
        raise ValueError(msg)
    return next(a for a in arrays if is_dask(a)).chunks[0]


def _array_partitions(a: Any, rows: Sequence[int]) -> list[Any]:
    """Delayed partitions of an array, in memory or of Dask, cut into these numbers of rows."""
    import dask

    if _is_frame(a):
        a = frame_array(a)
    elif not is_dask(a) and not sparse.issparse(a):
        a = as_array(a)
    elif hasattr(a, "chunks") and np.isnan(a.shape[0]):
        a = a.compute_chunk_sizes()
    if a.shape[0] != sum(rows):
        msg = f"arrays have different numbers of rows: {sum(rows)} and {a.shape[0]}; align them first"
        raise ValueError(msg)
    if not is_dask(a):
        ends = np.cumsum([0, *rows])
        return [dask.delayed(a[i:j], pure=False, traverse=False) for i, j in pairwise(ends.tolist())]
    return _row_blocks(a if tuple(a.chunks[0]) == tuple(rows) else a.rechunk({0: tuple(rows)}))


def _row_blocks(a: Any) -> list[Any]:
    """Delayed blocks of rows of a Dask array, with all its columns."""
    import dask

    blocks = a.to_delayed(optimize_graph=False)  # what columns and response share is made once
    if a.ndim == 1 or blocks.shape[1] == 1:
        return list(blocks.ravel())
    return [dask.delayed(_beside, pure=False)(list(row)) for row in blocks]


def _beside(blocks: list[Any]) -> Any:
    """Blocks of columns as one table."""
    if any(sparse.issparse(b) for b in blocks):
        return sparse.hstack(blocks, format="csr")
    return np.hstack(blocks)
