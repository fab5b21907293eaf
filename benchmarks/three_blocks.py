"""Three blocks: the published tensor against pairwise proxies side by side.

python benchmarks/three_blocks.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from colspace import HeavyTailWarning, JointReduction, stack_blocks
from colspace.metrics import nsee

LINKS: dict[str, Callable[..., np.ndarray]] = {
    "uv + vw + uw": lambda u, v, w: u * v + v * w + u * w,
    "6 exp(-|u-v|^2 - |v-w|^2)": lambda u, v, w: (
        6 * np.exp(-np.sum((u - v) ** 2 + (v - w) ** 2, axis=1, keepdims=True)) / u.shape[1]
    ),
    "uvw": lambda u, v, w: u * v * w,
}


def simulate(link: Callable[..., np.ndarray], m: int, seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    truth = {name: np.linalg.qr(rng.standard_normal((12, 2)))[0] for name in "abc"}
    tables = {name: rng.standard_normal((m, 12)) for name in "abc"}
    X, blocks = stack_blocks(tables)
    mu = link(*(tables[name] @ truth[name] for name in "abc")) * np.ones((1, 2))
    return X, mu.sum(axis=1) + rng.standard_normal(m), blocks, truth


def main() -> None:
    print(f"{'link':28} {'rows':>7} {'tensor':>7} {'joint':>7} {'all':>7}   mean NSEE of 5")
    for name, link in LINKS.items():
        for m in (2000, 8000, 32_000):
            errors = []
            for moments in ("tensor", "joint", "all"):
                runs = []
                for seed in range(5):
                    X, y, blocks, truth = simulate(link, m, seed)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", HeavyTailWarning)
                        model = JointReduction(2, blocks=blocks, moments=moments).fit(X, y)
                    runs.append(nsee(truth, model.loadings_))
                errors.append(np.mean(runs))
            print(f"{name:28} {m:7d} " + " ".join(f"{e:7.2f}" for e in errors), flush=True)


if __name__ == "__main__":
    main()
