"""JointReduction beside its bare matrix products and beside its peers, in one process.

    python benchmarks/joint.py [--quick]

Prints ratios (the estimator's time over the time of the products it cannot avoid), peak memory over the
input, the growth of time with the number of rows (the last point read from a memmap), and a table of peers
on one data set. One BLAS thread throughout.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from colspace import JointReduction, SlicedAverage, SlicedInverse
from colspace.datasets import make_bilinear
from colspace.metrics import nsee


def best_time(f: Callable[[], Any], repeat: int) -> float:
    """Shortest of several runs, CPU seconds."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        f()
        times.append(time.process_time() - start)
    return min(times)


def peak_memory(f: Callable[[], Any]) -> int:
    """Largest number of bytes allocated during a run."""
    tracemalloc.start()
    f()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def bare_products(X: np.ndarray, y: np.ndarray, n: int, kind: str) -> None:
    """The products of central moments, blocked over rows as any one-pass program must."""
    y = y - y.mean()
    total: list[Any] = [0.0] * 5
    step = 4096
    for i in range(0, len(X), step):
        A, B, w = X[i : i + step, :n], X[i : i + step, n:], y[i : i + step, None]
        wB = w * B
        total[0] = total[0] + A.T @ wB
        total[1] = total[1] + A.T @ A
        total[2] = total[2] + B.T @ B
        if kind == "all":
            total[3] = total[3] + A.T @ (w * A)
            total[4] = total[4] + B.T @ wB


def bare_auto_products(X: np.ndarray, y: np.ndarray, n: int, axes: tuple[np.ndarray, ...]) -> None:
    """The products of the four passes of moments="auto", blocked over rows.

    First X'X. Second the coordinates of rows along the principal axes of each block and of both, which leave-one-out errors
    of ridges are made of. Third the coordinates again, and with whitened ones A and residuals r: A'A, A'(rA), and per block
    A'(r^2 |a|^2 A). The fourth has thin products alone.
    """
    both, first, second = axes
    total: list[Any] = [0.0] * 5
    step = 4096
    for i in range(0, len(X), step):
        Z = X[i : i + step]
        total[0] = total[0] + Z.T @ Z
    for i in range(0, len(X), step):
        Z = X[i : i + step]
        (Z @ both, Z[:, :n] @ first, Z[:, n:] @ second)
    for i in range(0, len(X), step):
        Z, w = X[i : i + step], y[i : i + step, None]
        _, A, B = Z @ both, Z[:, :n] @ first, Z[:, n:] @ second
        Z = np.hstack([A, B])
        total[1] = total[1] + Z.T @ Z
        total[2] = total[2] + Z.T @ (w * Z)
        total[3] = total[3] + A.T @ (w * A)
        total[4] = total[4] + B.T @ (w * B)


def against_products(m: int, n: int, repeat: int) -> None:
    X, y, blocks, _ = make_bilinear(m, n, 5, rng=0)
    print(f"\nAgainst the bare products, m={m}, n={n} a block")
    print(f"{'moments':8} {'fit s':>8} {'products s':>11} {'ratio':>6} {'peak MB':>8} {'of input':>9}")
    print(
        "(auto: X'X, rows along axes twice, A'A, A'(rA), A'(r^2 |a|^2 A) of its passes; others: of one pass)"
    )
    axes = tuple(np.linalg.qr(np.random.default_rng(0).standard_normal((k, k)))[0] for k in (2 * n, n, n))
    for kind in ("joint", "all", "auto"):
        bare = (
            partial(bare_auto_products, X, y, n, axes)
            if kind == "auto"
            else partial(bare_products, X, y, n, kind)
        )
        model = JointReduction(5, blocks=blocks, moments=kind, n_groups=None)
        fit = products = np.inf
        for _ in range(repeat):  # alternate, so that a slow spell of the machine hits both
            fit = min(fit, best_time(partial(model.fit, X, y), 1))
            products = min(products, best_time(bare, 1))
        peak = peak_memory(partial(model.fit, X, y))
        print(
            f"{kind:8} {fit:8.2f} {products:11.2f} {fit / products:6.2f} {peak / 1e6:8.1f} {peak / X.nbytes:9.1%}"
        )


def growth(sizes: list[int], n: int) -> None:
    print(f"\nGrowth with rows, moments='joint', n={n} a block; the last from a memmap")
    times = []
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for m in sizes:
            last = m == sizes[-1]
            if last:
                X: Any = np.lib.format.open_memmap(
                    Path(folder) / "x.npy", mode="w+", dtype=np.float64, shape=(m, 2 * n)
                )
            else:
                X = np.empty((m, 2 * n))
            for i in range(0, m, 100_000):
                X[i : i + 100_000] = rng.standard_normal(X[i : i + 100_000].shape)
            y = X[:, 0] * X[:, n] + rng.standard_normal(m)
            blocks = {"a": slice(0, n), "b": slice(n, 2 * n)}
            model = JointReduction(1, blocks=blocks, moments="joint", n_groups=None)
            times.append(best_time(partial(model.fit, X, y), 1 if last else 5))
            where = "memmap" if last else "array"
            print(f"m={m:9,d} {where:7} {times[-1]:8.3f} s  {1e6 * times[-1] / m:6.2f} us a row")
            del X, y
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"slope of log time on log m: {slope:.3f}")


def peers(m: int, n: int) -> None:
    from sklearn.cross_decomposition import CCA, PLSRegression
    from statsmodels.regression import dimred

    X, y, blocks, truth = make_bilinear(m, n, 5, rng=0)
    stacked = np.zeros((2 * n, 10))
    stacked[:n, :5], stacked[n:, 5:] = truth["a"], truth["b"]
    A, B = X[:, blocks["a"]], X[:, blocks["b"]]

    def joint(**options: Any) -> float:
        return nsee(truth, JointReduction(5, blocks=blocks, **options).fit(X, y).loadings_)

    def whole(directions: np.ndarray) -> float:
        return nsee(stacked, directions[:, :10])

    def cca() -> float:
        model = CCA(5, scale=False).fit(A, B)
        return nsee(truth, {"a": model.x_rotations_, "b": model.y_rotations_})

    def statsmodels(name: str) -> float:
        fitted = getattr(dimred, name)(y, X).fit()
        return whole(np.asarray(fitted.params))

    runs: dict[str, Callable[[], float]] = {
        "colspace joint": lambda: joint(moments="joint"),
        "colspace all": lambda: joint(moments="all"),
        "colspace joint, randomized": lambda: joint(moments="joint", solver="randomized", random_state=0),
        "colspace SlicedInverse": lambda: whole(SlicedInverse(10, n_slices=20).fit(X, y).components_.T),
        "colspace SlicedAverage": lambda: whole(SlicedAverage(10, n_slices=20).fit(X, y).components_.T),
        "statsmodels SIR": lambda: statsmodels("SlicedInverseReg"),
        "statsmodels SAVE": lambda: statsmodels("SlicedAverageVarianceEstimation"),
        "statsmodels PHD": lambda: statsmodels("PrincipalHessianDirections"),
        "scikit-learn CCA(A, B)": cca,
        "scikit-learn PLS": lambda: whole(PLSRegression(10).fit(X, y).x_rotations_),
    }
    print(f"\nPeers, bilinear link, r=5, m={m}, {n} columns a block")
    print(f"{'method':28} {'NSEE':>6} {'CPU s':>7} {'peak MB over input':>19}")
    for name, run in runs.items():
        start = time.process_time()
        error = run()
        seconds = time.process_time() - start
        print(f"{name:28} {error:6.3f} {seconds:7.2f} {peak_memory(run) / 1e6:19.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")  # peers warn about convergence; the table shows what that costs
    with threadpool_limits(1):
        against_products(20_000 if quick else 200_000, 200, 3)
        sizes = [20_000, 63_000, 200_000, 630_000, 2_000_000]
        growth(sizes[:3] if quick else sizes, 50 if quick else 100)
        peers(10_000 if quick else 100_000, 100)


if __name__ == "__main__":
    main()
