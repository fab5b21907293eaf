"""Chunks that can be read once, kept on disk for the passes that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from scipy import sparse


def spool(chunks: Iterable[Any], check: Callable[[Any, bool], Any]) -> tuple[Any, Any, Any]:
    """X, y and weights of an iterator of chunks (X, y) or (X, y, weights); ``check(X, first)`` validates each X.

    Dense rows go to a temporary file, which is mapped into memory and vanishes with the result; sparse rows stay sparse.
    """
    with TemporaryFile() as file:  # a map of it lives on
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
    X = np.memmap(file, dtype=dtype, mode="r", shape=(rows, width))
    return X, y, None if (w == 1).all() else w
