"""Chunks of rows with gaps: filled by what a sample of them teaches, and reduced from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from .._containers import as_table
from .._random import generator
from .._rows import chunk_rows
from ._joint import JointReduction
from ._joint_options import check_options
from ._one_hot import summed_to_one
from ._spool import spool

#: Rows that the imputer learns from, and those of its fits without a group of them, at most.
LEARNED, REFITTED = 100_000, 30_000


def drawn_rows(n: int, most: int, random_state: Any) -> NDArray[np.intp]:
    """All of n rows, or so many drawn at random, in order."""
    return np.arange(n) if n <= most else np.sort(generator(random_state).choice(n, most, replace=False))


def filled_by(imputer: Any, X: Any, one_hot: Sequence[slice] = ()) -> Any:
    """The table with its gaps filled by means, where the imputer has them; rows of ``one_hot`` columns sum to one."""
    fill = getattr(imputer, "mean", None)
    filled = summed_to_one(fill(X) if callable(fill) else imputer.transform(X), X, one_hot)
    return filled.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else filled


def filled_in_pieces(imputer: Any, X: Any, one_hot: Sequence[slice] = ()) -> Any:
    """The same a piece of the rows at a time: filling takes several times the memory of what is filled."""
    size = chunk_rows(extra=X.shape[1])
    if X.shape[0] <= size:
        return filled_by(imputer, X, one_hot)
    filled = np.empty(X.shape, np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)
    for start in range(0, len(filled), size):
        rows = np.arange(start, min(start + size, len(filled)))
        filled[rows] = filled_by(imputer, _safe_indexing(X, rows), one_hot)
    return table_like(X)(filled)


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
            first = X if is_first else first
            gaps += int(np.count_nonzero(check(X, is_first)))
            values = as_table(X).values
            return values if values.dtype == np.float32 else values.astype(np.float64, copy=False)

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
    """A function that makes of an array what the first chunk was: a frame with its names, or an array where names are numbers."""
    frame = nw.from_native(first, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame) or not all(isinstance(name, str) for name in frame.columns):
        return lambda X: X
    names, backend = list(frame.columns), frame.implementation
    return lambda X: nw.from_numpy(X, schema=names, backend=backend).to_native()


def chunk_reducer(reducer: Any) -> JointReduction:
    """The reducer, if it takes rows from disk."""
    if not isinstance(reducer, JointReduction):
        msg = (
            f"chunks of rows are reduced by JointReduction alone, but reducer is {type(reducer).__name__}; give the table "
            "as a whole"
        )
        raise TypeError(msg)
    reducer._validate_params()
    check_options(reducer)
    return reducer
