"""Accuracy of JointReduction on the papers' simulations, and the level and power of its rank test.

    python benchmarks/accuracy.py [--quick] [--default]

NSEE is the mean over repetitions; "reference" is a plain NumPy implementation measured before on other seeds.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import binom

from colspace import HeavyTailWarning, JointReduction
from colspace.datasets import JointData, make_additive, make_bilinear, make_even, make_rbf
from colspace.metrics import nsee


def mean_nsee(make: Callable[..., JointData], r: int, repeat: int, fit: dict[str, Any], **data: Any) -> float:
    errors = []
    for seed in range(repeat):
        X, y, blocks, truth = make(n_components=r, rng=10_000 + seed, **data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HeavyTailWarning)  # the even link is a little heavy
            errors.append(nsee(truth, JointReduction(r, blocks=blocks, **fit).fit(X, y).loadings_))
    return float(np.mean(errors))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def row(name: str, ours: float, reference: float | None) -> None:
    beside = "" if reference is None else f"{reference:9.3f} {ours / reference:7.3f}"
    print(f"{name:58} {ours:7.4f} {beside}", flush=True)


def grid(
    title: str,
    make: Callable[..., JointData],
    sizes: Sequence[int],
    references: Sequence[float | None],
    repeat: int,
    fit: dict[str, Any],
    key: str = "n_samples",
    **data: Any,
) -> None:
    errors = []
    for size, reference in zip(sizes, references, strict=True):
        errors.append(mean_nsee(make, 5, repeat, fit, **{key: size, **data}))
        row(f"{title}, {key}={size}", errors[-1], reference)
    print(f"{'':30} slope {slope(sizes, errors):+.3f}")


def accuracy(repeat: int, quick: bool) -> None:
    joint = {"moments": "joint"}
    chosen = {"moments": "joint", "whiten": "diagonal", "n_selected": 10}
    print(f"{'NSEE, mean of ' + str(repeat):58} {'ours':>7} {'reference':>9} {'ratio':>7}")
    m = [2000, 8000, 32_000, 64_000]
    grid("bilinear, n=50", make_bilinear, m, [0.41, 0.205, 0.102, 0.077], repeat, joint, n_features=50)
    n = [20, 40, 80, 120]
    grid("bilinear", make_bilinear, n, [None] * 4, repeat, joint, key="n_features", n_samples=32_000)
    m = [2000, 4000, 8000, 16_000, 32_000, 64_000]
    reference = [0.183, 0.128, 0.085, 0.063, 0.043, 0.030]
    grid("selection, n=100, s=10", make_bilinear, m, reference, repeat, chosen, n_features=100, n_active=10)
    errors = []
    sparsity = (7, 8, 10, 12)  # at s = r = 5 the error is nil, so the curve is steeper just above
    for s in sparsity:
        fit = {**chosen, "n_selected": s}
        errors.append(mean_nsee(make_bilinear, 5, repeat, fit, n_samples=16_000, n_features=100, n_active=s))
        row(f"selection, n=100, n_samples=16000, s={s}", errors[-1], None)
    print(f"{'':30} slope {slope(sparsity, errors):+.3f}")
    m = [32_000, 64_000, 128_000] if quick else [32_000, 64_000, 128_000, 256_000, 512_000]
    reference = [0.537, 0.330, 0.219, 0.154, 0.107][: len(m)]
    grid("RBF, n=30", make_rbf, m, reference, repeat, joint, n_features=30)
    grid("RBF, n=30, moments='all'", make_rbf, m, reference, repeat, {"moments": "all"}, n_features=30)
    for make, r, reference in ((make_bilinear, 5, 0.109), (make_even, 5, 0.169), (make_additive, 1, 0.094)):
        for moments in ("all", "joint", "hessian"):
            ours = mean_nsee(make, r, repeat, {"moments": moments}, n_samples=32_000, n_features=50)
            shown = reference if moments == "all" else None
            row(f"{make.__name__}, n=50, m=32000, moments={moments!r}", ours, shown)
    exact = mean_nsee(make_bilinear, 5, repeat, joint, n_samples=16_000, n_features=200)
    row("bilinear, n=200, m=16000, exact", exact, None)
    for solver in ("randomized", "countsketch"):
        for n_power in (0, 1, 2):
            fit = {**joint, "solver": solver, "n_power": n_power, "random_state": 0}
            ours = mean_nsee(make_bilinear, 5, repeat, fit, n_samples=16_000, n_features=200)
            row(f"   {solver}, n_power={n_power} (reference: exact)", ours, exact)


def default_over_published(repeat: int, quick: bool) -> None:
    """The default's error beside that of moments="all", on the same tables."""
    for m in (2000, 8000) if quick else (2000, 8000, 32_000):
        for make, r in ((make_bilinear, 5), (make_even, 5), (make_additive, 1)):
            size = {"n_samples": m, "n_features": 50}
            ours, published = (
                mean_nsee(make, r, repeat, {"moments": moments, "n_groups": None}, **size)
                for moments in ("auto", "all")
            )
            row(f"{make.__name__}, n=50, m={m}, default (reference: 'all')", ours, published)


def rank_test(repeat: int) -> None:
    for moments in ("joint", "all"):
        rejected = 0
        for seed in range(repeat):
            rng = np.random.default_rng(seed)
            X, y = rng.standard_normal((300, 20)), rng.standard_exponential(300)
            model = JointReduction(blocks={"a": slice(0, 10), "b": slice(10, 20)}, moments=moments)
            rejected += model.rank_test(X, y, max_components=1, random_state=seed).n_components > 0
        low, high = binom.interval(0.95, repeat, 0.05)
        print(
            f"rank_test, moments={moments!r}: {rejected} of {repeat} null data sets rejected at 5 % "
            f"(95 % band {low:.0f} to {high:.0f})"
        )
        found = 0
        for seed in range(repeat):
            X, y, blocks, _ = make_bilinear(3000, 10, 3, rng=seed)
            model = JointReduction(blocks=blocks, moments=moments)
            found += model.rank_test(X, y, n_permutations=99, random_state=seed).n_components == 3
        print(
            f"rank_test, moments={moments!r}: rank 3 found in {found} of {repeat} easy data sets", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 repetitions, 40 rank tests")
    parser.add_argument("--default", action="store_true", help="the default beside moments='all' alone")
    options = parser.parse_args()
    quick = options.quick
    default_over_published(5 if quick else 20, quick)
    if options.default:
        return
    accuracy(5 if quick else 20, quick)
    rank_test(40 if quick else 200)


if __name__ == "__main__":
    main()
