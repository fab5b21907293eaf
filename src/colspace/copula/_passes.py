"""Passes over blocks of rows, in memory or on the workers of a Dask scheduler."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from .._rows import dask_partitions, named_partition
from .._threads import in_threads
from .._validation import assert_finite, checked_weights
from ..moments import Additive, QuantileSummary
from ._encode import cell_quantiles, distinct_values, is_thin, rows_per_block
from ._estep import Array, Factors, Index, Work
from ._marginals import Chain, Distinct
from ._packed import Packed, packed_blocks
from ._step import Block, State
from ._table import Layout, encode_table
from ._threads import thread_pool

_FAN_IN = 8  # sums that are added at once


class Passes:
    """Passes over blocks of rows, whose sites change from one pass to the next."""

    def __init__(self, blocks: Sequence[Block | Packed], work: Work | None = None, pool: Any = None) -> None:
        self.blocks = list(blocks)
        self.work = work or Work()
        self.pool = pool

    def fork(self) -> Passes:
        """Passes over the same blocks, whose changes these do not see."""
        return Passes(self.blocks, self.work, self.pool)

    def thinned(self, step: int) -> Passes:
        """Passes over every so many of the blocks, whose changes these do not see."""
        return Passes(self.blocks[::step], self.work, self.pool)

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args, work)``."""
        return _sum([found for _, found in self._each(_applied, (function, *args))])

    def update(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args, work)[1]``; the blocks become what comes first."""
        total = None
        for i, (block, sums) in self._each(_updated, (function, *args)):
            self.blocks[i] = block
            total = (
                sums if total is None else total.absorb(sums) if isinstance(total, Additive) else total + sums
            )
        return total

    def _each(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[tuple[int, Any]]:
        """What comes of each block, in their order, whatever thread did it."""
        if self.pool is None:
            for i, block in enumerate(self.blocks):
                yield i, function(block, *args, self.work)
            return
        yield from in_threads(
            self.pool, lambda i: function(self.blocks[i], *args, _work()), range(len(self.blocks))
        )


def _applied(block: Block | Packed, function: Callable[..., Any], *args: Any) -> Any:
    """``function(block, *args)`` of a block that may be packed; the last of ``args`` is where arrays are taken from."""
    return function(block.opened(args[-1]) if isinstance(block, Packed) else block, *args)


def _updated(block: Block | Packed, function: Callable[..., Any], *args: Any) -> tuple[Block | Packed, Any]:
    if not isinstance(block, Packed):
        return function(block, *args)
    opened = block.opened(args[-1])
    new, sums = function(opened, *args)
    return block.closed(new, opened), sums


class Blocks(list[Block | Packed]):
    """Blocks of a partition, whose size the scheduler knows, and the sums of their last pass."""

    def __init__(self, blocks: Iterable[Block | Packed] = (), sums: Any = None) -> None:
        super().__init__(blocks)
        self.sums = sums

    def __sizeof__(self) -> int:
        return sum(map(_bytes, self))


class DaskPasses(Passes):
    """The same on a Dask scheduler: the blocks of a partition stay where they are.

    Every pass is a graph of the same size: its tasks take the blocks of the pass before, which are held by their keys. A
    scheduler that loses them with a worker does the passes of that partition again, with the states that were sent then.
    """

    def __init__(self, parts: Sequence[Any], chain: Chain) -> None:
        self.parts = _spread(parts)
        self.chain = chain

    def fork(self) -> DaskPasses:
        """Passes over the same blocks, whose changes these do not see."""
        return copy(self)

    def thinned(self, step: int) -> DaskPasses:
        """Passes over every so many of the blocks of each partition."""
        import dask

        found = self.fork()
        found.parts = [dask.delayed(_thinned)(part, step) for part in self.parts]
        return found

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args, work)``."""
        import dask

        sent, chain = _once(tuple(map(_slim, args))), self._chain()
        return _tree([dask.delayed(_total)(part, chain, function, sent) for part in self.parts]).compute()

    def update(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of ``function(block, *args, work)[1]``; the blocks become what comes first."""
        import dask

        sent, chain = _once(tuple(map(_slim, args))), self._chain()
        after, sums = dask.delayed(_update), dask.delayed(_sums)
        parts = [after(part, chain, function, sent) for part in self.parts]
        *self.parts, total = _persist(*parts, _tree([sums(part) for part in parts]))
        return total.compute()

    def _chain(self) -> Any:
        """The chain without what changes, one copy per worker for the whole fit."""
        if isinstance(self.chain, Chain):
            (self.chain,) = _persist(_once(self.chain))
        return self.chain


def _bytes(value: Any) -> int:
    """Size of the arrays of a block."""
    if is_dataclass(value):
        return sum(_bytes(getattr(value, field.name)) for field in fields(value))
    return int(getattr(value, "nbytes", 0))


def _sum(parts: Sequence[Any]) -> Any:
    """Sum of what there is; None of nothing."""
    kept = [part for part in parts if part is not None]
    return reduce(add, kept) if kept else None


def _once(value: Any) -> Any:
    """A value in the graph, one copy for all tasks."""
    import dask

    return dask.delayed(value, pure=False, traverse=False)


def _persist(*values: Any) -> Any:
    import dask

    with warnings.catch_warnings():  # arrays in memory travel with the tasks, which can then be done again
        warnings.filterwarnings("ignore", message="Sending large graph")
        return dask.persist(*values)


def _spread(parts: Sequence[Any]) -> list[Any]:
    """Persisted parts, as many of them on each worker of a cluster as it has threads for.

    The passes that follow are done where the parts are: a worker that has three of four does three quarters of all the work.
    """
    import dask

    client: Any = getattr(dask.base.get_scheduler(), "__self__", None)
    threads = client.nthreads() if hasattr(client, "nthreads") else {}
    if len(threads) < 2:
        return list(_persist(*parts))
    ends = np.rint(np.cumsum(list(threads.values())) / sum(threads.values()) * len(parts)).astype(int)
    kept: list[Any] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        for address, end in zip(threads, ends, strict=True):
            if end > len(kept):
                some = list(parts[len(kept) : end])
                kept += client.persist(some, workers=[address], allow_other_workers=True)
    return kept


def _tree(tasks: list[Any]) -> Any:
    import dask

    total = dask.delayed(_sum)
    while len(tasks) > 1:
        tasks = [total(tasks[i : i + _FAN_IN]) for i in range(0, len(tasks), _FAN_IN)]
    return tasks[0]


@dataclass(frozen=True)
class _Slim:
    """What changes of a state, or of a chain."""

    factors: Factors | None
    z: Array

    def whole(self, chain: Chain) -> State | Chain:
        """The state, or the chain, as it was."""
        moved = replace(chain, z=self.z)
        return moved if self.factors is None else State(self.factors, moved)


def _slim(value: Any) -> Any:
    if isinstance(value, State):
        return _Slim(value.factors, value.chain.z)
    return _Slim(None, value.z) if isinstance(value, Chain) else value


def _whole(values: tuple[Any, ...], chain: Chain) -> list[Any]:
    return [value.whole(chain) if isinstance(value, _Slim) else value for value in values]


_kept = threading.local()


def _work() -> Work:
    """Arrays that this thread keeps: Dask has workers give memory back at once, and new memory is slow."""
    if not hasattr(_kept, "work"):
        _kept.work = Work()
    return _kept.work


def _total(blocks: Blocks, chain: Chain, function: Callable[..., Any], sent: tuple[Any, ...]) -> Any:
    return Passes(blocks, _work()).total(function, *_whole(sent, chain))


def _update(blocks: Blocks, chain: Chain, function: Callable[..., Any], sent: tuple[Any, ...]) -> Blocks:
    passes = Passes(blocks, _work())
    total = passes.update(function, *_whole(sent, chain))
    return Blocks(passes.blocks, total)


def _thinned(blocks: Blocks, step: int) -> Blocks:
    return Blocks(blocks[::step])


def _sums(blocks: Blocks) -> Any:
    return blocks.sums


# ---------------------------------------------------------------------- tables


@dataclass(frozen=True)
class LocalRows:
    """Rows in memory, each of a positive weight (None: all count once)."""

    X: Any
    weight: Array | None = None
    n_jobs: int = 1

    def columns(self, kept: Index) -> LocalRows:
        """Some of the columns."""
        return replace(self, X=self.X[:, kept])

    def changed(self, function: Callable[[Any], Any]) -> LocalRows:
        """The table as the function makes it."""
        return replace(self, X=function(self.X))

    def values(self) -> list[Distinct]:
        """Distinct values of every column and their counts, or sums of weights."""
        return distinct_values(self.X, self.weight)

    def blocks(self, chain: Chain, k: int) -> Blocks:
        """Blocks of rows small enough for the cache."""
        size = rows_per_block(len(chain.kinds), k, thin=is_thin(self.X))
        return Blocks(packed_blocks(self.X, chain, self.weight, size))

    def passes(self, chain: Chain, k: int) -> Passes:
        """Passes over them."""
        return Passes(self.blocks(chain, k), pool=thread_pool(self.n_jobs))


@dataclass(frozen=True)
class DaskRows:
    """Rows in delayed pieces, each a LocalRows."""

    pieces: tuple[Any, ...]

    def columns(self, kept: Index) -> DaskRows:
        """Some of the columns."""
        import dask

        return DaskRows(tuple(dask.delayed(LocalRows.columns)(piece, kept) for piece in self.pieces))

    def changed(self, function: Callable[[Any], Any]) -> DaskRows:
        """The table as the function makes it."""
        import dask

        return DaskRows(tuple(dask.delayed(LocalRows.changed)(piece, function) for piece in self.pieces))

    def values(self) -> list[Distinct]:
        """Distinct values of every column and their counts, or (beyond 10,000) a summary of them."""
        import dask

        found = dask.delayed(_compact)(_tree([dask.delayed(_summary)(piece) for piece in self.pieces]))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            summary: QuantileSummary | None = found.compute()
        if summary is None:
            msg = "no rows: every partition is empty, or of rows of weight zero"
            raise ValueError(msg)
        return [Distinct(column.values, column.weights, column.exact) for column in summary.columns]

    def passes(self, chain: Chain, k: int) -> Passes:
        """Blocks of rows on the workers."""
        import dask

        once = _once(chain)
        return DaskPasses([dask.delayed(LocalRows.blocks)(piece, once, k) for piece in self.pieces], chain)


def _summary(rows: LocalRows) -> QuantileSummary | None:
    return cell_quantiles(rows.X, rows.weight) if rows.X.shape[0] else None


def _compact(summary: QuantileSummary | None) -> QuantileSummary | None:
    return None if summary is None else summary.compact()


def weighted_rows(X: Any, weight: Array | None, n_jobs: int = 1) -> LocalRows:
    """Rows without those of weight zero."""
    if weight is None or weight.all():
        return LocalRows(X, weight, n_jobs)
    kept = np.flatnonzero(weight)
    return LocalRows(X[kept], weight[kept], n_jobs)


def dask_rows(X: Any, weight: Any, layout: Layout) -> DaskRows:
    """A Dask collection in pieces of encoded rows; errors name the partition."""
    import dask

    encode, once = dask.delayed(_encode), _once(layout)
    lists = dask_partitions(*((X,) if weight is None else (X, weight)))
    pieces = zip(*lists, strict=True)
    return DaskRows(tuple(encode(number, once, *piece) for number, piece in enumerate(pieces)))


def _encode(number: int, layout: Layout, part: Any, weight: Any = None) -> LocalRows:
    with named_partition(number):
        X = encode_table(part, layout)
        if weight is None:
            return LocalRows(X)
        weight = np.asarray(weight, dtype=np.float64)
        assert_finite(weight, "sample_weight")
        if weight.any():
            checked_weights(weight)
        return weighted_rows(X, weight)
