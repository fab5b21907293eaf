"""One pass over the rows: chunks in, one small additive statistic out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from scipy import sparse

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


def reduce_rows(statistic: Callable[..., S], *arrays: Any, chunk: int | None = None) -> S:
    """Sum ``statistic(*chunks)`` over aligned chunks of rows, in one pass.

    Parameters
    ----------
    statistic : callable
        Takes one chunk of rows of each array and returns something small that merges by ``+``.
        On a distributed scheduler it must pickle: a module-level function or a partial of one.
    *arrays : ndarray, memmap, CSR matrix, Dask array or dataframe, or one iterator of chunks
        Aligned along their rows. An iterator yields a chunk, or a tuple of aligned chunks.
    chunk : int, optional
        Rows per chunk; by default about 4 MB of float64.

    Returns
    -------
    The sum of the statistics. Dask collections are reduced by a tree on the scheduler in force and
    never loaded into memory.

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
    if any(is_dask(a) for a in arrays):
        return _reduce_dask(statistic, arrays, chunk)
    if is_chunk_iterator(arrays[0]):
        if len(arrays) > 1:
            msg = "an iterator of chunks stands alone: let it yield tuples of aligned chunks"
            raise TypeError(msg)
        return _sum(statistic(*(c if isinstance(c, tuple) else (c,))) for c in arrays[0])
    return _reduce_local(statistic, arrays, chunk)


def _sum(parts: Iterable[S]) -> S:
    iterator = iter(parts)
    try:
        first = next(iterator)
    except StopIteration:
        msg = "no rows: the iterator of chunks was empty (or was read before)"
        raise ValueError(msg) from None
    return reduce(operator.add, iterator, first)


def _reduce_local(statistic: Callable[..., S], arrays: tuple[Any, ...], chunk: int | None) -> S:
    lengths = {a.shape[0] for a in arrays}
    if len(lengths) > 1:
        msg = f"arrays have different numbers of rows: {[a.shape[0] for a in arrays]}; align them first"
        raise ValueError(msg)
    n_rows = lengths.pop()
    if n_rows == 0:
        msg = "no rows: the arrays have 0 rows, at least 1 is needed"
        raise ValueError(msg)
    step = chunk or chunk_rows(*arrays)
    return _sum(statistic(*(a[i : i + step] for a in arrays)) for i in range(0, n_rows, step))


def _reduce_dask(statistic: Callable[..., S], arrays: tuple[Any, ...], chunk: int | None) -> S:
    import dask

    parts = zip(*dask_partitions(*arrays), strict=True)
    tasks = [dask.delayed(_partition, pure=False)(statistic, chunk, *part) for part in parts]
    while len(tasks) > 1:
        groups = [tasks[i : i + _FAN_IN] for i in range(0, len(tasks), _FAN_IN)]
        tasks = [dask.delayed(_sum_kept, pure=False)(group) for group in groups]
    total = tasks[0].compute()
    if total is None:
        msg = "no rows: every partition is empty"
        raise ValueError(msg)
    return total


def _partition(statistic: Callable[..., S], chunk: int | None, *parts: Any) -> S | None:
    """The statistic of one partition, itself taken in chunks; None when it has no rows."""
    local = tuple(as_array(p) for p in parts)
    if all(p.shape[0] == 0 for p in local):
        return None
    return _reduce_local(statistic, local, chunk)


def as_array(part: Any) -> Any:
    """A partition as an ndarray (nullable numbers as floats), or a sparse matrix as it is."""
    if sparse.issparse(part):
        return part
    array = np.asarray(part)
    if array.dtype == object and hasattr(part, "to_numpy"):
        kinds = {t.kind for t in (part.dtypes if array.ndim == 2 else [part.dtype])}
        if kinds <= set("biuf"):
            return part.to_numpy(dtype=np.float64, na_value=np.nan)
    return array


def _sum_kept(parts: list[S | None]) -> S | None:
    kept = [p for p in parts if p is not None]
    return _sum(kept) if kept else None


def dask_partitions(*arrays: Any) -> list[list[Any]]:
    """Aligned lists of delayed row partitions, one list per collection."""
    import dask.array as da

    lead = next(a for a in arrays if is_dask(a))
    if hasattr(lead, "to_delayed") and not hasattr(lead, "chunks"):
        return [_frame_partitions(a, lead.npartitions) for a in arrays]
    if any(np.isnan(size) for a in arrays if hasattr(a, "chunks") for size in a.chunks[0]):
        msg = (
            "a Dask array has unknown chunk sizes, so rows of X and y cannot be aligned. Remedies: "
            "call X.compute_chunk_sizes(), build it with df.to_dask_array(lengths=True), "
            "or pass the Dask DataFrame itself together with y as a Dask Series of the same partitions"
        )
        raise ValueError(msg)
    rows = lead.chunks[0]
    n_rows = sum(rows)
    lists = []
    for a in arrays:
        if hasattr(a, "to_dask_array"):
            a = a.to_dask_array(lengths=True)
        elif not is_dask(a):
            a = np.asarray(a)
        if a.shape[0] != n_rows:
            msg = f"arrays have different numbers of rows: {n_rows} and {a.shape[0]}; align them first"
            raise ValueError(msg)
        if not is_dask(a):
            a = da.from_array(a, chunks=(rows, *(-1,) * (a.ndim - 1)))
        whole = a.rechunk((rows, *(-1,) * (a.ndim - 1)))
        lists.append(list(whole.to_delayed().ravel()))
    return lists


def _frame_partitions(a: Any, n_partitions: int) -> list[Any]:
    if not is_dask(a) or hasattr(a, "chunks") or a.npartitions != n_partitions:
        got = f"{a.npartitions} partitions" if hasattr(a, "npartitions") else type(a).__name__
        msg = (
            f"a Dask DataFrame of {n_partitions} partitions needs y as a Dask Series or DataFrame with the "
            f"same partitions, got {got}. Remedies: take y as a column of the same DataFrame, or convert "
            "X with X.to_dask_array(lengths=True)"
        )
        raise ValueError(msg)
    return list(a.to_delayed())
