"""Threads over blocks of rows, and none inside their products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")


def count_jobs(n_jobs: int | None) -> int:
    """Threads: None is one, -1 all cores, -2 all but one."""
    if n_jobs == 0:
        msg = "n_jobs=0 must be a number of threads: at least 1, None for one, or -1 for all cores"
        raise ValueError(msg)
    return 1 if n_jobs is None else n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)


def thread_pool(n_jobs: int) -> ThreadPoolExecutor | None:
    """Threads for blocks, None for the caller's own; they end when the pool is no longer in use."""
    return None if n_jobs == 1 else ThreadPoolExecutor(n_jobs, thread_name_prefix="colspace")


def in_threads(
    pool: ThreadPoolExecutor, function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[tuple[Any, Any]]:
    """Items with what the function makes of them, in order; a few are ahead of what is asked for."""
    ahead = 2 * pool._max_workers
    waiting = [pool.submit(function, item) for item in items[:ahead]]
    for i, item in enumerate(items):
        found = waiting[i].result()
        waiting[i] = None  # type: ignore[call-overload]
        if i + ahead < len(items):
            waiting.append(pool.submit(function, items[i + ahead]))
        yield item, found


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def plain_products(function: Callable[P, T]) -> Callable[P, T]:
    """The function with one thread inside matrix products: those of blocks are too small to be shared, and waiting is not free."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone
