"""Fits as a user meets them, with as many threads as the machine has, beside one thread: seconds on the clock.

    python benchmarks/threads.py [--runs 3]

"Left alone" is the same fit with products of matrices left to their threads, as any other code has them: numpy's and SciPy's own pools wait
for each other, and products of small matrices are done before threads have met. Ours holds products to one thread where they are small,
and gives the threads chunks of rows where there are many.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from unittest import mock

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from threadpoolctl import threadpool_info, threadpool_limits

import colspace
from colspace import _threads
from colspace.datasets import make_pairs


def fits() -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(0)
    digits, cancer, pairs = load_digits(), load_breast_cancer(), make_pairs(rng=0)
    X = rng.standard_normal((1_000_000, 50))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    Y = X[:3000, :3] @ rng.standard_normal((3, 10)) + rng.standard_normal((3000, 10))
    wide = rng.standard_normal((300, 3000))
    joint, atoms = colspace.JointReduction(random_state=0), colspace.SupervisedDictionaryClassifier
    return {
        "joint 569 x 30": lambda: joint.fit(cancer.data, cancer.target == 0),
        "joint 20,000 x 100": lambda: joint.fit(X.reshape(-1, 100)[:20_000], y[:20_000]),
        "joint 5,000 x 500": lambda: joint.fit(X.reshape(-1, 500)[:5000], y[:5000]),
        "joint 300 x 3,000": lambda: joint.fit(wide, wide[:, 0]),
        "joint 1,000,000 x 50": lambda: joint.fit(X, y),
        "stein 3,000 x 50, 10 responses": lambda: colspace.SteinReduction().fit(X[:3000], Y),
        "sir 3,000 x 50": lambda: colspace.SlicedInverse().fit(X[:3000], y[:3000]),
        "atoms of digits": lambda: atoms(10, random_state=0).fit(digits.data, digits.target),
        "atoms of digits, feature": lambda: atoms(10, model="feature", random_state=0).fit(
            digits.data, digits.target
        ),
        "pairs 500 x 400": lambda: colspace.PairRegressor(random_state=0).fit(pairs.A, pairs.B, pairs.Y),
        "kernel pairs 500 x 400": lambda: colspace.KernelPairRegressor(random_state=0).fit(
            pairs.A, pairs.B, pairs.Y
        ),
    }


def seconds(fit: Callable[[], object], runs: int) -> float:
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        fit()
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    many = max(library["num_threads"] for library in threadpool_info())
    print(f"{many} threads; seconds on the clock, least of {runs}")
    print(f"{'':32} {'left alone':>10} {'one thread':>10} {'ours':>8} {'ratio':>6}")
    for name, fit in fits().items():
        with mock.patch.object(_threads._Held, "__call__", return_value=nullcontext()):
            alone = seconds(fit, runs)
            with threadpool_limits(1, "blas"):
                one = seconds(fit, runs)
        ours = seconds(fit, runs)
        print(f"{name:32} {alone:10.3f} {one:10.3f} {ours:8.3f} {ours / alone:6.2f}")


if __name__ == "__main__":
    main()
