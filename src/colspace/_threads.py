"""Threads over pieces of work, and none inside products of small matrices."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_LARGE = 2e10  # multiplications from which products are left to as many threads as there are


def in_threads(
    pool: ThreadPoolExecutor, function: Callable[[S], T], items: Iterable[S], most: int = 0
) -> Iterator[tuple[S, T]]:
    """Items with what the function makes of them, in order and in the caller's context; a few, or ``most``, are ahead of what is asked for."""
    ahead: deque[tuple[S, Future[T]]] = deque()
    for item in items:
        ahead.append((item, pool.submit(copy_context().run, function, item)))
        if len(ahead) > max(most, 2 * pool._max_workers):
            first, found = ahead.popleft()
            yield first, found.result()
    while ahead:
        first, found = ahead.popleft()
        yield first, found.result()


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


class _Held:
    """Products are held to one thread by the first that asks, as often as it asks; for others meanwhile nothing changes.

    Limits are those of the process: what two set and gave back in turn might stay with it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner: int | None = None
        self.times, self.before = 0, 1
        self.limit: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        me = threading.get_ident()
        with self.lock:
            mine = self.owner in (None, me)
            if self.owner is None:
                found = _libraries().select(user_api="blas")
                self.before = max((library["num_threads"] for library in found.info()), default=1)
                self.owner, self.limit = me, found.limit(limits=1)
            self.times += mine
        try:
            yield
        finally:
            with self.lock:
                self.times -= mine
                if mine and not self.times:
                    self.limit.restore_original_limits()
                    self.owner = None

    @property
    def spare(self) -> int:
        """Threads that the caller has taken from products."""
        return self.before if self.owner == threading.get_ident() else 1


one_thread = _Held()


def both(first: Callable[[], S], second: Callable[[], T]) -> tuple[S, T]:
    """What two functions give; the first has a thread of its own where products have left one."""
    if one_thread.spare == 1:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(copy_context().run, first)
        other = second()
        return found.result(), other


def plain_products(function: Callable[P, T]) -> Callable[P, T]:
    """The function with one thread inside matrix products: those of blocks are too small to be shared, and waiting is not free."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        with one_thread():
            return function(*args, **kwargs)

    return alone


def small_products(work: Callable[..., float]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """``plain_products`` for a method where ``work(*arguments)``, about its multiplications, is not large."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def chosen(*args: P.args, **kwargs: P.kwargs) -> T:
            with one_thread() if work(*args, **kwargs) < _LARGE else nullcontext():
                return function(*args, **kwargs)

        return chosen

    return decorate


def table_work(model: Any, X: Any, *rest: Any, **named: Any) -> float:
    """Of products of the columns of a table, or of its rows if they are fewer; none of rows that come in chunks.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace._threads import table_work
    >>> table_work(None, np.zeros((100, 3))), table_work(None, np.zeros((3, 100))), table_work(None, iter([]))
    (900.0, 900.0, 0.0)
    """
    shape = getattr(X, "shape", ())
    if len(shape) != 2 or hasattr(X, "__dask_graph__"):
        return 0.0
    return float(getattr(X, "nnz", math.prod(shape)) * min(shape))


def entity_work(model: Any, A: Any, B: Any = None, *rest: Any, **named: Any) -> float:
    """Of products of similarities of entities."""
    return float(max(len(getattr(side, "shape", ())) and side.shape[0] for side in (A, B)) ** 3)
