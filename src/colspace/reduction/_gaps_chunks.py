"""Chunks of rows with gaps: filled by what a sample of them teaches, and reduced from disk."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from .._random import generator
from .._rows import chunk_rows
from .._validation import ConstantColumnWarning
from ._joint import JointReduction
from ._joint_options import check_options
from ._spool import kept_rows, spool

#: Rows that the imputer learns from, at most.
SAMPLE_ROWS = 30_000
#: Rows whose directions tell how much the imputer's own error moves them, at most.
ERROR_ROWS = 100_000


@dataclass(frozen=True)
class HoleyRows:
    """Rows with gaps on disk, their responses and weights, and how a table of some of them is made."""

    X: Any
    y: Any
    weights: Any
    gaps: int
    table: Callable[[NDArray[Any]], Any]

    @classmethod
    def of(cls, chunks: Any, check: Callable[[Any, bool], NDArray[np.bool_]]) -> HoleyRows:
        """Read the chunks; ``check(X, first)`` refuses what is no table, and says where the gaps are."""
        gaps, first = 0, None

        def checked(X: Any, is_first: bool) -> Any:
            nonlocal gaps, first
            if not hasattr(X, "shape") or not hasattr(X, "__array__"):
                X = np.asarray(X)
            if is_first:
                first = X
            gaps += int(np.count_nonzero(check(X, is_first)))
            return np.asarray(X, dtype=np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)

        X, y, weights = spool(chunks, checked)
        return cls(X, y, weights, gaps, table_like(first))

    def some(self, rows: NDArray[np.intp]) -> tuple[Any, Any, Any]:
        """A table of some rows, with their responses and weights."""
        size = chunk_rows(self.X)  # more at once would map the file
        X = np.concatenate([self.X[rows[i : i + size]] for i in range(0, len(rows), size)])
        return (
            self.table(np.asarray(X)),
            self.y[rows],
            None if self.weights is None else self.weights[rows],
        )

    def sample(self, most: int, random_state: Any) -> NDArray[np.intp]:
        """All rows, or so many drawn at random."""
        n = len(self.X)
        return np.arange(n) if n <= most else np.sort(generator(random_state).choice(n, most, replace=False))

    def filled(self, fill: Callable[[Any], Any]) -> Iterator[tuple[Any, ...]]:
        """Chunks without gaps; rows that have none stay as they are."""
        size = chunk_rows(self.X)
        for start in range(0, len(self.X), size):
            rows = slice(start, start + size)
            X = np.array(self.X[rows])
            holey = np.isnan(X).any(axis=1)
            if holey.any():
                X[holey] = np.asarray(fill(self.table(X[holey])))
            weights = () if self.weights is None else (self.weights[rows],)
            yield self.table(X), self.y[rows], *weights


def table_like(first: Any) -> Callable[[NDArray[Any]], Any]:
    """A function that makes of an array what the first chunk was: a frame with its names, or an array."""
    frame = nw.from_native(first, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return lambda X: X
    names, backend = list(frame.columns), frame.implementation
    return lambda X: nw.from_numpy(X, schema=names, backend=backend).to_native()


def fit_parts(
    imputer: Any, reducer: Any, rows: HoleyRows, sample: NDArray[np.intp], fill: Callable[[Any, Any], Any]
) -> None:
    """Fit the imputer to the sample and the reducer to all rows as it fills them with ``fill(imputer, table)``."""
    if not isinstance(reducer, JointReduction):
        msg = (
            f"chunks of rows are reduced by JointReduction alone, but reducer is {type(reducer).__name__}; give the table "
            "as a whole"
        )
        raise TypeError(msg)
    reducer._validate_params()
    check_options(reducer)
    X, _, weights = rows.some(sample)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantColumnWarning)  # the reducer says so, too
        imputer.fit(X, **({} if weights is None else {"sample_weight": weights}))
    reducer._forget_stream()
    reducer._fit_table(*kept_rows(reducer, rows.filled(lambda table: fill(imputer, table))))
