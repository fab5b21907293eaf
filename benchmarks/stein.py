"""Stein's method: accuracy on the paper's simulations, and time beside the bare products.

python benchmarks/stein.py [--quick]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from colspace import ReducedRank, SteinReduction
from colspace.datasets import make_multiple_response
from colspace.metrics import procrustes_distance
from colspace.scores import GaussianScore, HyperbolicScore, KernelScore, StudentScore

LAWS: dict[str, Callable[[], Any]] = {
    "gaussian": GaussianScore,
    "hyperbolic": HyperbolicScore,
    "student": StudentScore,
}
PUBLISHED = {"whiten": False, "whiten_response": False}


def cpu(f: Callable[[], Any], repeat: int = 3) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        f()
        times.append(time.process_time() - start)
    return min(times)


def accuracy(n: int, repeat: int) -> None:
    print(f"\nDistance (3.1), p=30, q=20, r=3, n={n}, median of {repeat}")
    print(f"{'method':34} {'gaussian':>9} {'hyperbolic':>11} {'student':>8}")
    table: dict[str, list[float]] = {}
    for law, score in LAWS.items():
        errors: dict[str, list[float]] = {}
        for seed in range(repeat):
            for links in ("cyclic", "linear"):
                X, Y, B = make_multiple_response(n, law=law, links=links, rng=seed)
                fitted = score().fit(X)
                models: dict[str, Any] = {
                    "reduced-rank regression": ReducedRank(3),
                    "first order, default": SteinReduction(3, score_model=score()),
                    "first order, published": SteinReduction(3, score_model=score(), **PUBLISHED),
                }
                if links == "cyclic":
                    second: dict[str, Any] = {"order": 2, "score_model": score()}
                    models["second order on ranks, default"] = SteinReduction(3, response="rank", **second)
                    models["second order, published"] = SteinReduction(
                        3, combine="mean", **second, **PUBLISHED
                    )
                for name, model in models.items():
                    model.fit(X, Y)
                    label = name if links == "cyclic" else f"linear links: {name}"
                    errors.setdefault(label, []).append(procrustes_distance(B, model.components_.T))
                if law == "student" and links == "cyclic":
                    errors.setdefault("estimated df", []).append(fitted.df_)
        for name, values in errors.items():
            table.setdefault(name, []).append(float(np.median(values)))
    for name, row in table.items():
        print(f"{name:34} " + " ".join(f"{v:9.3f}" for v in row), flush=True)


def gaussian_speed(n: int, p: int, q: int) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))

    def products() -> None:
        total: Any = 0.0
        cross: Any = 0.0
        for i in range(0, n, 4096):
            A = X[i : i + 4096]
            total = total + A.T @ A
            cross = cross + A.T @ Y[i : i + 4096]

    model = SteinReduction(3, score_model=GaussianScore())
    fit, bare = cpu(partial(model.fit, X, Y)), cpu(products)
    print(
        f"\nGaussian first order, n={n}, p={p}, q={q}: {fit:.2f} s, products {bare:.2f} s, ratio {fit / bare:.2f}"
    )


def kernel_speed(n: int, widths: tuple[int, ...]) -> None:
    print(f"\nKernel score (curl-free IMQ, nu-method), n={n}")
    for p in widths:
        X = np.random.default_rng(0).standard_normal((n, p))
        model = KernelScore(regularization=np.exp(-5.0))
        seconds = cpu(partial(model.fit, X), 1)
        tracemalloc.start()
        model.fit(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"p={p:5d}: {seconds:6.2f} s, peak {peak / 1e6:6.1f} MB", flush=True)


def tensor_form(n: int, p: int) -> None:
    """One application of the curl-free kernel: three matrix products against the n x n x p tensor."""
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((n, p)), rng.standard_normal((n, p))
    squared = np.sum((X[:, None] - X[None]) ** 2, axis=2) if n * n * p < 3e8 else None
    assert squared is not None
    G1, G2 = -0.5 * (1 + squared) ** -1.5, 0.75 * (1 + squared) ** -2.5

    def products() -> np.ndarray:
        D = (X @ Z.T - np.sum(X * Z, axis=1)) * (-4 * G2)
        return D.sum(axis=1)[:, None] * X - D @ X - 2 * G1 @ Z

    def tensor() -> np.ndarray:
        out = np.zeros_like(Z)
        for i in range(n):
            d = X[i] - X
            out[i] = -4 * (G2[i] * np.sum(d * Z, axis=1)) @ d - 2 * G1[i] @ Z
        return out

    assert np.allclose(products(), tensor())
    fast, slow = cpu(products), cpu(tensor, 1)
    print(
        f"\nOne application, n={n}, p={p}: products {fast:.3f} s, tensor form {slow:.3f} s, ratio {slow / fast:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller tables")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")  # heavy tails of exp and fifth powers, fits at a bound
    with threadpool_limits(1):
        gaussian_speed(20_000 if quick else 100_000, 200, 20)
        kernel_speed(300 if quick else 1000, (50, 200) if quick else (50, 200, 1000))
        tensor_form(300 if quick else 1000, 50)
        for n in (300,) if quick else (300, 3000, 9000):
            accuracy(n, 5 if quick else 30)


if __name__ == "__main__":
    main()
