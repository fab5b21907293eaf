"""Chunks that can be read once, kept on disk for the passes that follow."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from tempfile import TemporaryFile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import CHUNK_BYTES
from .._validation import check_table

_MOST = 4 * CHUNK_BYTES  # of rows that are read at once


class _Descriptor:
    """A second descriptor of a file, closed when nobody holds it."""

    def __init__(self, file: Any) -> None:
        self.number = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.number)


class RowsOnDisk(np.memmap):
    """A table in a file: chunks of rows are read into memory of their own, so that a pass holds a chunk and not the file.

    Pages of a mapped file that a pass has touched count as memory of the process until others need them.
    """

    _file: _Descriptor | None = None
    _start = 0

    def __array_finalize__(self, obj: Any) -> None:
        """Views know the file; copies and results do not lie in it."""
        super().__array_finalize__(obj)
        if getattr(self, "_mmap", None) is not None:
            self._file, self._start = getattr(obj, "_file", None), getattr(obj, "_start", 0)

    def read_from(self, file: Any) -> Self:
        """Keep the file open."""
        self._file, self._start = _Descriptor(file), self.ctypes.data
        return self

    def __getitem__(self, index: Any) -> Any:
        """A chunk of rows as an array; more, or less, as a mapped file has it."""
        if self._file is None or self.ndim != 2 or not self.flags.c_contiguous or not hasattr(os, "preadv"):
            return super().__getitem__(index)
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            rows = np.arange(first, last, step)
        elif isinstance(index, np.ndarray) and index.ndim == 1 and index.dtype.kind in "bi":
            rows = (
                np.flatnonzero(index)
                if index.dtype == bool
                else np.where(index < 0, index + len(self), index)
            )
        else:
            return super().__getitem__(index)
        outside = len(rows) and (rows.min() < 0 or rows.max() >= len(self))
        if outside or len(rows) * self.strides[0] > _MOST:
            return super().__getitem__(index)
        return self._read(rows)

    def _read(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        assert self._file is not None
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        begin, width = self.ctypes.data - self._start, self.strides[0]
        ends = np.flatnonzero(np.diff(rows, append=-2) != 1) + 1  # of rows that stand together
        first, number = 0, self._file.number
        for end in ends.tolist():
            at, left = begin + int(rows[first]) * width, memoryview(out[first:end].data).cast("B")
            while len(left):
                count = os.preadv(number, [left], at)
                if not count:
                    msg = "the temporary file of the rows is shorter than they are"
                    raise OSError(msg)
                at, left = at + count, left[count:]
            first = end
        return out


def kept_rows(estimator: Any, chunks: Iterable[Any]) -> tuple[Any, Any, Any]:
    """X, y and weights of chunks for an estimator, which learns their names."""
    return spool(chunks, lambda X, first: check_table(estimator, X, reset=first))


def spool(chunks: Iterable[Any], check: Callable[[Any, bool], Any]) -> tuple[Any, Any, Any]:
    """X, y and weights of an iterator of chunks (X, y) or (X, y, weights); ``check(X, first)`` validates each X.

    Dense rows go to a temporary file, which vanishes with the result; sparse rows stay sparse.
    """
    with TemporaryFile() as file:  # a map of it, and a second descriptor, live on
        return _spool(chunks, check, file)


def _spool(chunks: Iterable[Any], check: Callable[[Any, bool], Any], file: Any) -> tuple[Any, Any, Any]:
    rows, width, dtype = 0, 0, None
    thin: list[Any] = []
    responses: list[Any] = []
    weights: list[Any] = []
    for chunk in chunks:
        if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
            msg = "an iterator of chunks must yield pairs (X, y) or triples (X, y, sample_weight)"
            raise TypeError(msg)
        X = check(chunk[0], not responses)
        if sparse.issparse(X):
            thin.append(X)
        else:
            dtype = dtype or (np.float32 if X.dtype == np.float32 else np.float64)
            if dtype == np.float32 != X.dtype:
                msg = (
                    f"chunk {len(responses)} is of {X.dtype} numbers, and the first was of float32; make all of one type, as in "
                    "X.astype(np.float32)"
                )
                raise TypeError(msg)
            np.ascontiguousarray(X, dtype=dtype).tofile(file)
        rows, width = rows + X.shape[0], X.shape[1]
        responses.append(np.asarray(chunk[1]))
        weights.append(np.asarray(chunk[2], dtype=np.float64) if len(chunk) == 3 else np.ones(X.shape[0]))
        if len(responses[-1]) != X.shape[0]:
            msg = f"y has {len(responses[-1])} rows, but X has {X.shape[0]} rows in chunk {len(responses) - 1}; they must agree"
            raise ValueError(msg)
    if not responses:
        msg = "no rows: the iterator of chunks was empty (or was read before)"
        raise ValueError(msg)
    w = np.concatenate(weights)
    y = np.concatenate(responses)
    if thin and dtype is not None:
        msg = "some chunks are sparse and some are dense; make them of one kind"
        raise TypeError(msg)
    if thin:
        return sparse.vstack(thin, format="csr"), y, None if (w == 1).all() else w
    file.flush()
    assert dtype is not None
    X = RowsOnDisk(file, dtype=dtype, mode="r", shape=(rows, width)).read_from(file)
    return X, y, None if (w == 1).all() else w
