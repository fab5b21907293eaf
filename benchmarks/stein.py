"""Stein's method: accuracy on the paper's simulations, and time beside the bare products.

python benchmarks/stein.py [--quick] [--accuracy --rows 9000 --repetitions 150]
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
from colspace.experiments._stein_sim import LAWS, fitted_score
from colspace.metrics import procrustes_distance
from colspace.scores import GaussianScore, KernelScore

PUBLISHED = {"whiten": False, "whiten_response": False, "standardize": False}


def cpu(f: Callable[[], Any], repeat: int = 3) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        f()
        times.append(time.process_time() - start)
    return min(times)


def distances(law: str, links: str, n: int, seed: int) -> dict[str, float]:
    """Distance (3.1) of every method on one data set; scores have the right law and estimated parameters."""
    X, Y, B = make_multiple_response(n, law=law, links=links, rng=seed)
    score = fitted_score(law, X)
    models: dict[str, Any] = {
        "reduced-rank regression": ReducedRank(3, weighting="identity"),
        "SteinReduction(3)": SteinReduction(3),
        "right law, default": SteinReduction(3, score_model=score),
        "right law, published": SteinReduction(3, score_model=score, **PUBLISHED),
    }
    if links == "cyclic":
        second: dict[str, Any] = {"order": 2, "score_model": score}
        models["second order on ranks, default"] = SteinReduction(3, response="rank", **second)
        models["second order, published"] = SteinReduction(3, combine="mean", **second, **PUBLISHED)
    found = {name: procrustes_distance(B, model.fit(X, Y).components_.T) for name, model in models.items()}
    if law == "student" and links == "cyclic":
        found["estimated df"] = score.df
    return found


def median_and_error(values: list[float]) -> tuple[float, float]:
    """The median and its bootstrap standard error."""
    rows = np.random.default_rng(0).integers(0, len(values), (2000, len(values)))
    return float(np.median(values)), float(np.median(np.array(values)[rows], axis=1).std())


def accuracy(n: int, repeat: int) -> None:
    print(f"\nDistance (3.1), p=30, q=20, r=3, n={n}: median of {repeat} (bootstrap standard error)")
    for links, name in (("cyclic", "cyclic links (mechanism 1)"), ("linear", "linear links")):
        print(f"{name:34}" + "".join(f"{law:>18}" for law in LAWS))
        columns: dict[str, dict[str, list[float]]] = {law: {} for law in LAWS}
        for law, errors in columns.items():
            for seed in range(repeat):
                for method, value in distances(law, links, n, seed).items():
                    errors.setdefault(method, []).append(value)
        for method in columns["student"]:
            cells = []
            for errors in columns.values():
                value, error = median_and_error(errors[method]) if method in errors else (np.nan, np.nan)
                cells.append(f"{value:.4f} ({error:.4f})" if np.isfinite(value) else "")
            print(f"  {method:32}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
        if links == "linear":
            efficiency(columns)


def efficiency(columns: dict[str, dict[str, list[float]]], df: float = 10.0, p: int = 30) -> None:
    """Linear links: ratios to reduced-rank regression beside what theory says of a score.

    The noise of E[s y'] has covariance E[ss'] sigma^2 / n and that of least squares Cov(x)^-1 sigma^2 / n, and
    E[ss'] >= Cov(x)^-1 with equality for the Gaussian law alone. For t, E[ss'] = df/(df - 2) (p + df)/(p + df + 2) Cov(x)^-1.
    """
    theory = np.sqrt(df / (df - 2) * (p + df) / (p + df + 2))
    for method in ("SteinReduction(3)", "right law, default", "right law, published"):
        ratios = [
            np.median(errors[method]) / np.median(errors["reduced-rank regression"])
            for errors in columns.values()
        ]
        print(f"  {f'{method} / RRR':32}" + "".join(f"{ratio:18.3f}" for ratio in ratios))
    print(f"  {'theory, right law':32}{1:18.3f}{'':18}{theory:18.3f}")


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
        model = KernelScore(regularization=np.exp(-5.0), standardize=False)
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
    parser.add_argument("--repetitions", type=int, default=30, help="data sets for each median")
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 3000, 9000], help="n of the simulations")
    parser.add_argument("--accuracy", action="store_true", help="only the simulations")
    given = parser.parse_args()
    quick = given.quick
    warnings.simplefilter("ignore")  # heavy tails of exp and fifth powers, fits at a bound
    with threadpool_limits(1):
        if not given.accuracy:
            gaussian_speed(20_000 if quick else 100_000, 200, 20)
            kernel_speed(300 if quick else 1000, (50, 200) if quick else (50, 200, 1000))
            tensor_form(300 if quick else 1000, 50)
        for n in [300] if quick else given.rows:
            accuracy(n, 5 if quick else given.repetitions)


if __name__ == "__main__":
    main()
