"""PairRegressor beside its bare matrix products, and what "auto" loses against the best of its grid.

    python benchmarks/pairs.py [--quick] [--auto N]

20,000 x 20,000 entities with 200 features a side and a million links: seconds to fit and to find the 20 best partners of
1,000 new entities, those of the products that cannot be avoided, and the peak memory of the process. ``--auto N`` looks at
N partitions of the gene-disease data instead (COLSPACE_DATA): recall at 100 of the defaults, and of every setting of the
grid. One BLAS thread throughout, wall-clock and CPU seconds.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from colspace import BilinearPairRegressor, PairRegressor
from colspace.metrics import recall_at_k


def timed(f: Callable[[], Any]) -> tuple[Any, float]:
    """Result and CPU seconds."""
    start = time.process_time()
    found = f()
    return found, time.process_time() - start


def peak() -> float:
    """Peak memory of the process so far, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def random_pairs(n: int, p: int, links: int) -> tuple[Any, Any, Any]:
    """Normal features, links at random."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((n, p)), rng.standard_normal((n, p))
    where = np.unique(rng.integers(0, n * n, links))
    Y = sparse.csr_array((rng.random(len(where)), (where // n, where % n)), shape=(n, n))
    return A, B, Y


def fit_products(A: Any, B: Any, Y: Any) -> None:
    """Covariances and the proxy."""
    _ = A.T @ A, B.T @ B
    np.linalg.svd(A.T @ (Y @ B))


def rank_products(E: Any, model: PairRegressor, step: int = 1000) -> None:
    """Distances of both sides and both smoothing products, without the exponentials."""
    left, right = model.embedding_["left"], model.embedding_["right"]
    W = (E @ left.T) @ model.Y_
    for j in range(0, len(right), step):
        _ = W @ (right[j : j + step] @ right.T).T


def large(n: int, p: int, links: int, new: int) -> None:
    """Fit and rank at full size."""
    A, B, Y = random_pairs(n, p, links)
    A_new = np.random.default_rng(1).standard_normal((new, p))
    print(
        f"{n:,} x {n:,} entities, {p} features a side, {Y.nnz:,} links, r = 50; data take {peak():.2f} GB",
        flush=True,
    )
    print(f"{'step':36} {'CPU s':>8} {'products s':>11} {'ratio':>6} {'peak GB':>8}", flush=True)
    model, seconds = timed(lambda: PairRegressor(50, shrinkage=0.3, bandwidth=0.3).fit(A, B, Y))
    _, bare = timed(lambda: fit_products(A, B, Y))
    print(
        f"{'fit, settings given':36} {seconds:8.2f} {bare:11.2f} {seconds / bare:6.2f} {peak():8.2f}",
        flush=True,
    )
    _, seconds = timed(lambda: model.rank(A_new, k=20))
    E = model.transform(A_new)
    _, bare = timed(lambda: rank_products(E, model))
    print(
        f"{f'20 best partners of {new:,} new':36} {seconds:8.2f} {bare:11.2f} {seconds / bare:6.2f} {peak():8.2f}",
        flush=True,
    )
    _, seconds = timed(
        lambda: BilinearPairRegressor(50, max_iter=20, tol=1e-3).fit(A, B, Y).rank(A_new, k=20)
    )
    print(f"{'bilinear: fit and 20 best':36} {seconds:8.2f} {'':11} {'':6} {peak():8.2f}", flush=True)
    _, seconds = timed(lambda: PairRegressor(50).fit(A, B, Y))
    print(f"{'fit, settings found (auto)':36} {seconds:8.2f} {'':11} {'':6} {peak():8.2f}", flush=True)


def regret(partitions: int, seed: int = 1) -> None:
    """What "auto" loses against the best single setting of the grid, over partitions of the gene-disease data."""
    from colspace.experiments.pairs_gene_disease import gene_disease, grid_recalls, partition

    study = gene_disease(quick=True)
    total: dict[Any, float] = {}
    autos = []
    for k in range(partitions):
        train, test = partition(len(study.A), seed, k)
        for settings, value in grid_recalls(study, "joint", train, test).items():
            total[settings] = total.get(settings, 0.0) + value / partitions
        model, seconds = timed(lambda: PairRegressor(study.main).fit(study.A[train], study.B, study.Y[train]))  # noqa: B023
        autos.append(recall_at_k(study.Y[test], model.predict(study.A[test]), 100))
        best = max(total, key=lambda s: total[s])
        print(
            f"partition {k}: auto {autos[-1]:.4f} in {seconds:.0f} CPU s (shrinkage {model.shrinkage_:g}, bandwidths "
            f"{model.bandwidth_['left']:g}, {model.bandwidth_['right']:g}); means so far: auto {np.mean(autos):.4f}, "
            f"best of the grid {total[best] * partitions / (k + 1):.4f} {best}",
            flush=True,
        )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the entities and links")
    parser.add_argument("--auto", type=int, metavar="N", help="partitions of the gene-disease data")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.auto:
            regret(arguments.auto)
        elif arguments.quick:
            large(2_000, 200, 100_000, 100)
        else:
            large(20_000, 200, 1_000_000, 1_000)


if __name__ == "__main__":
    main()
