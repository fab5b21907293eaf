"""Factors of rows given what is observed of them: solved once for all that is asked of one table."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from ._encode import rows_per_block
from ._estep import Posterior
from ._fit import CopulaModel
from ._passes import in_threads, thread_pool
from ._step import State

_LEAST = 1 << 12  # cells of a table that is worth remembering
_MOST = 1 << 26  # bytes of what is remembered
_TOGETHER = 1 << 18  # cells of blocks that are given out at once


class Solved:
    """Posterior factors of the rows of the last table, under one state of a model: found again by what the table holds, not by its name."""

    def __init__(self) -> None:
        self.last: tuple[weakref.ref[State], bytes, Posterior] | None = None

    def find(self, model: CopulaModel, key: bytes) -> Posterior | None:
        """What is remembered of this table and this model."""
        last = self.last
        return last[2] if last is not None and last[0]() is model.state and last[1] == key else None

    def keep(self, model: CopulaModel, key: bytes, parts: list[Posterior]) -> None:
        """Remember, in place of what was."""
        t, V = np.concatenate([q.t for q in parts]), np.concatenate([q.V for q in parts])
        t.flags.writeable = V.flags.writeable = False
        self.last = (weakref.ref(model.state, self._forget), key, Posterior(t, V))

    def _forget(self, gone: Any) -> None:
        last = self.last
        if last is not None and last[0] is gone:
            self.last = None


SOLVED = Solved()


def fingerprint(X: Any) -> bytes:
    """A digest of all that a table holds."""
    digest = blake2b(repr((X.shape, str(X.dtype), hasattr(X, "indptr"))).encode(), digest_size=32)
    for part in (X.data, X.indices, X.indptr) if hasattr(X, "indptr") else (X,):
        digest.update(np.ascontiguousarray(part).data.cast("B") if part.size else b"")
    return digest.digest()


def remembered(
    X: Any, model: CopulaModel, solve: Callable[[slice], Posterior]
) -> Iterator[tuple[slice, Posterior]]:
    """Rows and their posterior factors, block by block: those of the last table if it was this one, or by ``solve(rows)``."""
    n, k, p = X.shape[0], model.factors.rank, len(model.columns)
    size = rows_per_block(p, k)
    some = max(
        1, _TOGETHER // max(size * p, 1)
    )  # blocks that are given out together: each has its price in calls
    worth = n * p >= _LEAST and (4 * n * k * (k + 3) if model.joint is None else 16 * n * p) <= _MOST
    key = fingerprint(X) if worth else b""
    old = SOLVED.find(model, key) if worth else None
    chunks = [slice(a, min(a + some * size, n)) for a in range(0, n, some * size)]
    if old is not None:
        for rows in chunks:
            yield rows, Posterior(old.t[rows], old.V[rows])
        return
    pool = thread_pool(min(model.n_jobs, -(-n // size) or 1))
    parts: list[Posterior] = []
    for rows in chunks:
        blocks = [slice(a, min(a + size, rows.stop)) for a in range(rows.start, rows.stop, size)]
        found = map(solve, blocks) if pool is None else (q for _, q in in_threads(pool, solve, blocks))
        q = _joined(list(found))
        if worth:
            parts.append(q)
        yield rows, q
    if parts:
        SOLVED.keep(model, key, parts)


def _joined(parts: list[Posterior]) -> Posterior:
    if len(parts) == 1:
        return parts[0]
    return Posterior(np.concatenate([q.t for q in parts]), np.concatenate([q.V for q in parts]))
