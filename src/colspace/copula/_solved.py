"""Factors of rows given what is observed of them: solved once for all that is asked of one table."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .._threads import in_threads
from ._encode import rows_per_block
from ._estep import Posterior
from ._fit import CopulaModel
from ._step import State
from ._threads import thread_pool

_LEAST = 1 << 12  # cells of a table that is worth remembering
_MOST = 1 << 26  # bytes of what is remembered
_TOGETHER = 1 << 17  # cells of blocks that are given out at once; without levels they are solved at once too
_ROWS, _WIDEST = 512, 1 << 21  # rows that are given out at once in wide tables, and their cells at most


class Kept(NamedTuple):
    """Posterior factors of the rows of a table, by what the table holds, under one state of a model."""

    state: weakref.ref[State]
    key: bytes
    found: Posterior

    @property
    def size(self) -> int:
        """Bytes."""
        return self.found.t.nbytes + self.found.V.nbytes


class Solved:
    """The last table that each model was asked about, found again by what it holds, not by its name; the latest ``_MOST`` bytes."""

    def __init__(self) -> None:
        self.tables: tuple[Kept, ...] = ()

    def find(self, model: CopulaModel, key: bytes) -> Posterior | None:
        """What is remembered of this table and this model."""
        return next((t.found for t in self.tables if t.key == key and t.state() is model.state), None)

    def keep(self, model: CopulaModel, key: bytes, found: Posterior) -> None:
        """Remember, in place of what was."""
        t, V = found.t, found.V
        t.flags.writeable = V.flags.writeable = False
        kept = [table for table in self.tables if table.state() is not model.state]
        kept.append(Kept(weakref.ref(model.state, self._forget), key, Posterior(t, V)))
        while sum(table.size for table in kept) > _MOST:
            kept.pop(0)
        self.tables = tuple(kept)

    def _forget(self, gone: Any) -> None:
        self.tables = tuple(table for table in self.tables if table.state is not gone)


SOLVED = Solved()


def fingerprint(X: Any) -> bytes:
    """A digest of all that a table holds."""
    digest = sha256(repr((X.shape, str(X.dtype), hasattr(X, "indptr"))).encode(), usedforsecurity=False)
    for part in (X.data, X.indices, X.indptr) if hasattr(X, "indptr") else (X,):
        digest.update(np.ascontiguousarray(part).data.cast("B") if part.size else b"")
    return digest.digest()


def remembered(
    X: Any, model: CopulaModel, solve: Callable[[slice], Posterior]
) -> Iterator[tuple[slice, Posterior]]:
    """Rows and their posterior factors, block by block: those of its last table if it was this one, or by ``solve(rows)``."""
    n, k, p = X.shape[0], model.factors.rank, len(model.columns)
    size = rows_per_block(p, k)
    together = max(_TOGETHER, min(_ROWS * p, _WIDEST)) // max(p, 1)
    many = size * max(1, together // size)  # rows that are given out at once: each time has its price
    chunks = [slice(a, min(a + many, n)) for a in range(0, n, many)]
    if not len(model.state.chain.level_value):
        size = many  # nothing is swept, so that one block is as good as several
    worth = n * p >= _LEAST and (4 * n * k * (k + 3) if not model.by_cell else 16 * n * p) <= _MOST
    key = fingerprint(X) if worth else b""
    old = SOLVED.find(model, key) if worth else None
    if old is not None:
        for rows in chunks:
            yield rows, Posterior(old.t[rows], old.V[rows])
        return
    blocks = [
        slice(a, min(a + size, rows.stop)) for rows in chunks for a in range(rows.start, rows.stop, size)
    ]
    pool = thread_pool(min(model.n_jobs, len(blocks) or 1))
    found = map(solve, blocks) if pool is None else (q for _, q in in_threads(pool, solve, blocks))
    whole: Posterior | None = None
    for rows in chunks:
        q = _joined(list(islice(found, -(-(rows.stop - rows.start) // size))))
        if worth:
            if whole is None:
                whole = Posterior(np.empty((n, q.t.shape[1])), np.empty((n, q.V.shape[1])))
            whole.t[rows], whole.V[rows] = q.t, q.V
        yield rows, q
    if whole is not None:
        SOLVED.keep(model, key, whole)


def _joined(parts: list[Posterior]) -> Posterior:
    if len(parts) == 1:
        return parts[0]
    return Posterior(np.concatenate([q.t for q in parts]), np.concatenate([q.V for q in parts]))
