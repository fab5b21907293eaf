"""How many threads share blocks of rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from joblib import cpu_count


def count_jobs(n_jobs: int | None) -> int:
    """Threads: None is one, -1 all cores, -2 all but one."""
    if n_jobs == 0:
        msg = "n_jobs=0 must be a number of threads: at least 1, None for one, or -1 for all cores"
        raise ValueError(msg)
    return 1 if n_jobs is None else n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)


def thread_pool(n_jobs: int) -> ThreadPoolExecutor | None:
    """Threads for blocks, None for the caller's own; they end when the pool is no longer in use."""
    return None if n_jobs == 1 else ThreadPoolExecutor(n_jobs, thread_name_prefix="colspace")
