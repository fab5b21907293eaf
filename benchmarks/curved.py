"""Tables whose columns bend: CopulaImputer as it comes beside the straight copula and a forest, and tables that do not bend.

    python benchmarks/curved.py [--quick] [--masks 6]

First: SMAE (1 is the column's median) with a fifth of the cells hidden, the share of hidden cells in 95 % intervals, and seconds.
Then: false alarms of the screen on Gaussian copulas of many shapes, and what it costs beside their fit.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from _curved_tables import SIMULATED, Array, hide, real_tables, smae

from colspace import CopulaImputer
from colspace.copula._bend import distinct_rows
from colspace.copula._screen import screen_table
from colspace.datasets import COPULA_SETTINGS, make_copula


def forest_fill(X: Array, trees: int, rounds: int = 4) -> Array:
    """Columns predicted by random forests from the others in turn, as missForest does."""
    from sklearn.ensemble import RandomForestRegressor

    gone = np.isnan(X)
    filled = np.where(gone, np.nanmedian(X, axis=0), X)
    share = 1.0 if X.shape[1] <= 12 else 1 / 3
    for _ in range(rounds):
        for j in np.argsort(gone.sum(axis=0)):
            at = gone[:, j]
            if at.any():
                others = np.delete(filled, j, axis=1)
                model = RandomForestRegressor(trees, max_features=share, random_state=0)
                filled[at, j] = model.fit(others[~at], X[~at, j]).predict(others[at])
    return filled


def tables(masks: int, trees: int) -> None:
    print(
        "table           shape      copula  default  forest | cover (copula) | columns  seconds: copula default forest"
    )
    real = real_tables()
    for name in [*SIMULATED, *real]:
        found = []
        for seed in range(masks):
            rng = np.random.default_rng(seed)
            truth = SIMULATED[name](rng) if name in SIMULATED else real[name]
            X = hide(truth, rng)
            gone = np.isnan(X)
            row, seconds, cover = [], [], []
            for how in (False, "auto"):
                start = time.perf_counter()
                model = CopulaImputer(nonlinear=how, random_state=0).fit(X)
                row.append(smae(model.transform(X), truth, X))
                seconds.append(time.perf_counter() - start)
                lower, upper = model.interval(X)
                cover.append(((lower <= truth) & (truth <= upper))[gone].mean())
            start = time.perf_counter()
            row.append(smae(forest_fill(X, trees), truth, X))
            seconds.append(time.perf_counter() - start)
            found.append([*row, *cover[::-1], (model.nonlinear_gain_ > 0).sum(), *seconds])
        c, d, f, own, plain, used, *seconds = np.mean(found, axis=0)
        notes = [
            *(["worse than the copula"] if d > c + 0.01 else []),
            *(["far from the forest"] if d > (1.4 if name == "spiral" else 1.2) * f else []),
            *(["cover"] if not 0.93 <= own <= 0.975 else []),
        ]
        print(
            f"{name:14s} {truth.shape[0]:5d} x {truth.shape[1]:<3d} {c:7.3f} {d:8.3f} {f:7.3f} |  {own:.3f} ({plain:.3f}) | "
            f"{used:6.1f}  {seconds[0]:8.2f} {seconds[1]:7.2f} {seconds[2]:6.1f}  {', '.join(notes)}",
            flush=True,
        )


def gaussian_copula(seed: int) -> Array:
    """One of many shapes: rows, columns, factors, skew, levels, limits, share of gaps."""
    rng = np.random.default_rng(1000 + seed)
    n, p, kind = (100, 200, 500, 1000)[seed % 4], (5, 8, 12, 30)[seed // 4 % 4], seed // 16 % 5
    k = p if kind == 0 else (2, 4)[kind > 2]
    Z = rng.standard_normal((n, k)) @ rng.standard_normal((k, p))
    Z += (0.0, 1.0, 1.0, 0.5, 2.0)[kind] * rng.standard_normal((n, p))
    Z /= Z.std(axis=0)
    if kind == 2:
        Z[:, ::2] = np.exp(Z[:, ::2])
    elif kind == 3:
        Z[:, ::2] = np.digitize(Z[:, ::2], [-1.0, 0.0, 0.7])
    elif kind == 4:
        Z[:, ::3] = Z[:, ::3] > 0.5
        Z[:, 1] = np.maximum(Z[:, 1], -0.5)
    return hide(Z, rng, (0.1, 0.2, 0.4)[seed % 3])


def screened(X: Array, n_components: int | str = "auto") -> tuple[bool, float, float]:
    """Whether the screen raises an alarm, CPU seconds of the fit and of the screen."""
    start = time.process_time()
    model = CopulaImputer(n_components, nonlinear=False, random_state=0).fit(X)
    middle = time.process_time()
    found = screen_table(
        *distinct_rows(model._part(X), None)[:1], model._model, None, np.random.default_rng(0)
    )
    return found.curved, middle - start, time.process_time() - middle


def screen(quick: bool) -> None:
    found = np.array([screened(gaussian_copula(seed)) for seed in range(0, 80, 4 if quick else 1)])
    full = np.array([seed // 16 % 5 == 0 for seed in range(0, 80, 4 if quick else 1)])
    print(
        f"\nGaussian copulas: {int(found[:, 0].sum())} alarms of {len(found)} "
        f"({int(found[full, 0].sum())} of {int(full.sum())} without noise, where the factors are too few); "
        f"screen {found[:, 2].sum() / found[:, 1].sum():.3f} of the fit, median {np.median(found[:, 2] / found[:, 1]):.3f}"
    )
    for name, setting in COPULA_SETTINGS.items():
        X = make_copula(**setting, rng=0).X
        alarm, fit, cost = np.array(
            [screened(X, setting["n_components"]) for _ in range(1 if quick else 5)]
        ).min(axis=0)
        print(f"{name:28s} alarm {bool(alarm)!s:5s} fit {fit:.3f} s, screen {cost:.3f} s ({cost / fit:.2f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer masks, trees and tables")
    parser.add_argument("--masks", type=int, help="masks of each table (6, quick: 2)")
    options = parser.parse_args()
    quick, masks = options.quick, options.masks
    warnings.simplefilter("ignore")
    tables(masks or (2 if quick else 6), 30 if quick else 100)
    screen(quick)
