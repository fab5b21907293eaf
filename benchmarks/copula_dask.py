"""CopulaImputer on Dask: one worker process, two, and the same chunks in this process.

    python benchmarks/copula_dask.py [--rows 1000000] [--columns 20] [--blocks 16] [--levels] [--iterations 5]

Rows are generated where they are used. Prints wall time, processor time of the workers, and peak memory of the client and of the
largest worker. One BLAS thread throughout.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from typing import Any

import dask
import dask.array as da
import numpy as np

from colspace import CopulaImputer


def block(levels: bool, columns: int, block_info: Any = None) -> np.ndarray:
    """Rows of three factors, a fifth missing; every second column has levels if asked for."""
    (start, stop), number = block_info[None]["array-location"][0], block_info[None]["chunk-location"][0]
    rng = np.random.default_rng(number)
    W = np.random.default_rng(10**6).standard_normal((3, columns))
    Z = rng.standard_normal((stop - start, 3)) @ W + 0.5 * rng.standard_normal((stop - start, columns))
    X = np.exp(0.3 * Z)
    if levels:
        X[:, ::2] = np.digitize(Z[:, ::2], [-1, 0, 1, 2])
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def rows(n: int, columns: int, blocks: int, levels: bool) -> da.Array:
    """A table of n rows, generated block by block."""
    sizes = [n // blocks + (i < n % blocks) for i in range(blocks)]
    return da.map_blocks(
        block, levels, columns, chunks=(tuple(sizes), (columns,)), dtype=float, meta=np.empty((0, 0))
    )


def usage() -> tuple[float, float]:
    """Processor seconds and peak megabytes of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def fit(X: da.Array, iterations: int) -> tuple[float, CopulaImputer]:
    """Wall seconds of a fit of three factors, and the model."""
    model = CopulaImputer(3, max_iter=iterations, tol=1e-9, random_state=0)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    return time.perf_counter() - start, model


def main() -> None:
    """Print one line per way to run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("rows", 1_000_000), ("columns", 20), ("blocks", 16), ("iterations", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--levels", action="store_true")
    options = parser.parse_args()
    X = rows(options.rows, options.columns, options.blocks, options.levels)
    from distributed import Client, LocalCluster

    walls: dict[int, float] = {}
    loadings: dict[int, np.ndarray] = {}
    for workers in (1, 2):
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0
            ) as cluster,
            Client(cluster) as client,
        ):
            fit(rows(1000, options.columns, 2, options.levels), 1)  # imports
            before = client.run(usage)
            walls[workers], model = fit(X, options.iterations)
            after = client.run(usage)
        loadings[workers] = model.correlation_
        spent = [after[w][0] - before[w][0] for w in after]
        print(
            f"{workers} worker process(es): wall {walls[workers]:6.2f} s, processor time of a worker {max(spent):6.2f} s, "
            f"its peak {max(peak for _, peak in after.values()):.0f} MB, the client's {usage()[1]:.0f} MB, "
            f"{model.n_iter_} iterations",
            flush=True,
        )
    print(
        f"two over one: {walls[2] / walls[1]:.2f}; correlations differ by {np.abs(loadings[1] - loadings[2]).max():.1g}"
    )
    before = usage()[0]
    with dask.config.set(scheduler="sync"):
        wall, _ = fit(X, options.iterations)
    print(f"this process, no scheduler: wall {wall:6.2f} s, processor time {usage()[0] - before:6.2f} s")


if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    main()
