"""Rows that are made lazily, on one process and on two worker processes: seconds and peak memory.

    python benchmarks/dask_scale.py [--quick] [--keep-memory] [--joint 1e5 1e6 ...] [--auto 1e6 ...] [--copula 1e5 ...]

"joint" is JointReduction with published moments (one pass), "auto" its default (four).

Each line is measured in processes of its own. "One process" is Dask's synchronous scheduler, "two" a LocalCluster of two
workers of one thread each, both with the same chunks and after a small fit that imports everything. Making the numbers is
part of the time of both. "Two apart" are two processes without a cluster that have half of the rows each and start together:
their ratio is the least that the machine allows. Memory is the growth of the largest resident size over that before the fit: of the one process, of the
client, and of the larger worker; a chunk of half a million rows of 20 columns has 80 MB. One BLAS thread throughout.
With --keep-memory workers keep what they free (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_), as a process of its own does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

CHUNK = 500_000
COLUMNS = 20
KEPT = {"MALLOC_TRIM_THRESHOLD_": 2_000_000_000, "MALLOC_MMAP_THRESHOLD_": 1_000_000_000}


def rows_of(number: int, n: int, gaps: bool) -> np.ndarray:
    """A chunk: four factors behind 20 columns, a response in the last, or a fifth of the cells missing."""
    rng = np.random.default_rng([7, number])
    X = rng.standard_normal((n, COLUMNS + 1))
    if gaps:
        X = X[:, :COLUMNS]
        X += rng.standard_normal((n, 4)) @ np.random.default_rng(1).standard_normal((4, COLUMNS))
        X[rng.random(X.shape) < 0.2] = np.nan
        return X
    X[:, COLUMNS] *= 0.5
    X[:, COLUMNS] += X[:, 0] * X[:, 10] + X[:, 1]
    return X


def table(n: int, gaps: bool) -> Any:
    """n lazy rows in chunks of half a million, and at least four of them."""
    import dask
    import dask.array as da

    size = min(CHUNK, -(-n // 4))
    lengths = [min(size, n - i) for i in range(0, n, size)]
    make, width = dask.delayed(rows_of, pure=True), COLUMNS + (not gaps)
    blocks = [da.from_delayed(make(i, k, gaps), (k, width), dtype=float) for i, k in enumerate(lengths)]
    return da.concatenate(blocks)


def fit(kind: str, n: int) -> None:
    """One fit."""
    from colspace import CopulaImputer, JointReduction

    rows = table(n, gaps=kind == "copula")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "copula":
            CopulaImputer(n_components=4, max_iter=10).fit(rows)
        else:
            blocks = {"a": slice(0, 10), "b": slice(10, COLUMNS)}
            moments = "all" if kind == "joint" else "auto"
            JointReduction(2, blocks=blocks, moments=moments, n_groups=None).fit(
                rows[:, :COLUMNS], rows[:, COLUMNS]
            )


def peak() -> float:
    """Largest resident size of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(kind: str, n: int) -> dict[str, float]:
    """In this process."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        fit(kind, 2000)
        before, start = peak(), time.perf_counter()
        fit(kind, n)
        return {"one": time.perf_counter() - start, "one_mb": peak() - before}


def two(kind: str, n: int) -> dict[str, float]:
    """On two worker processes."""
    import dask
    from distributed import Client, LocalCluster

    if os.environ.get("KEEP_MEMORY"):
        environment = "distributed.nanny.pre-spawn-environ"
        dask.config.set({f"{environment}.{name}": value for name, value in KEPT.items()})
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        fit(kind, 2000)
        before, workers, start = peak(), client.run(peak), time.perf_counter()
        fit(kind, n)
        seconds = time.perf_counter() - start
        grown = [after - workers[address] for address, after in client.run(peak).items()]
        return {"two": seconds, "client_mb": peak() - before, "worker_mb": max(grown)}


def children(how: str, kind: str, n: int, times: int = 1) -> list[dict[str, float]]:
    """Fits in processes of their own, started together."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--child", how, kind, str(n)]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "env": {**os.environ, **threads}}
    started = [subprocess.Popen(command, **options) for _ in range(times)]
    return [json.loads(child.communicate()[0].splitlines()[-1]) for child in started]


def measured(kind: str, n: int) -> dict[str, float]:
    """One process, two workers, and two processes apart that have half of the rows each: what the machine allows."""
    found = children("one", kind, n)[0] | children("two", kind, n)[0]
    return found | {"apart": max(half["one"] for half in children("one", kind, n // 2, 2))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small tables alone")
    parser.add_argument("--joint", nargs="*", type=float, default=[1e5, 1e6, 1e7, 1e8])
    parser.add_argument("--auto", nargs="*", type=float, default=[1e6])
    parser.add_argument("--copula", nargs="*", type=float, default=[1e5, 1e6])
    parser.add_argument("--keep-memory", action="store_true", help="workers keep the memory they free")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        how, kind, n = options.child
        print(json.dumps({"one": one, "two": two}[how](kind, int(n))))
        return
    if options.keep_memory:
        os.environ["KEEP_MEMORY"] = "1"  # read by the processes that measure
    sizes = {"joint": options.joint, "auto": options.auto, "copula": options.copula}
    if options.quick:
        sizes = {"joint": [1e5, 1e6], "auto": [1e5], "copula": [2e4]}
    print(
        "| fit | rows | one process, s | two workers, s | ratio | two apart, ratio | one process, MB | client, MB | worker, MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind, rows in sizes.items():
        for n in map(int, rows):
            m = measured(kind, n)
            print(
                f"| {kind} | {n:,} | {m['one']:.1f} | {m['two']:.1f} | {m['two'] / m['one']:.2f} | {m['apart'] / m['one']:.2f} | "
                f"{m['one_mb']:.0f} | {m['client_mb']:.0f} | {m['worker_mb']:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
