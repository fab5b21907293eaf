"""Is CopulaImputer as sure as it is right? Claimed against true shares on joined surveys and hidden cells of real tables.

    python benchmarks/certainty.py [--seeds 5] [--masks 3] [--choice]

First, pairs of surveys that are joined, a level never seen beside its predictors (as in draws.py). Then gss2014 and mice_boys
(COLSPACE_DATA names their folder): a fifth of the known cells hidden, probabilities of imputed levels by bins, and intervals of numbers.
--choice: instead, the copula alone with correlation="factors" and "auto" on tables of scikit-learn and statsmodels.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _curved_tables import SIMULATED, hide, real_tables, smae
from draws import surveys
from threadpoolctl import threadpool_limits

from colspace import CopulaImputer

BINS = np.array([0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])


def joined(seeds: int) -> None:
    """Surveys: claimed less true."""
    found = np.array([surveys(seed) for seed in range(seeds)])
    over = found[:, 0] - found[:, 1]
    for seed, (claimed, right, common) in enumerate(found):
        print(f"surveys {seed}: claimed {claimed:.3f} true {right:.3f} commonest {common:.3f}")
    print(
        f"surveys, mean of {seeds}: claimed {found[:, 0].mean():.3f} true {found[:, 1].mean():.3f}, claimed less true "
        f"{over.mean():+.3f}, from {over.min():+.3f} to {over.max():+.3f}"
    )


def table_of(path: Path) -> pd.DataFrame:
    """Its columns with an order or numbers."""
    frame = pd.read_parquet(path)
    kept = {}
    for name, column in frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype) or column.dtype == object:
            levels = sorted(column.dropna().astype(str).unique())
            if name in ("gen", "phb"):
                kept[name] = (
                    column.astype(str).where(column.notna()).map({v: i for i, v in enumerate(levels)})
                )
        else:
            kept[name] = column.astype(float)
    return pd.DataFrame(kept)


def calibration_error(claimed: Any, right: Any) -> float:
    """Mean over bins of at least 20 cells, by their cells, of |claimed - right|."""
    which = np.clip(np.searchsorted(BINS, claimed, "right") - 1, 0, len(BINS) - 2)
    parts = [which == b for b in range(len(BINS) - 1)]
    return sum(on.mean() * abs(claimed[on].mean() - right[on].mean()) for on in parts if on.sum() >= 20)


def by_chance(claimed: Any, cell: Any, draws: int = 400) -> Any:
    """The calibration error, at 5, 50 and 95 % of the draws, had every claim been right; a cell hidden twice is right in both or neither."""
    rng = np.random.default_rng(0)
    which = np.unique(cell, return_inverse=True)[1]
    found = [calibration_error(claimed, (rng.random(which.max() + 1)[which] < claimed)) for _ in range(draws)]
    return np.quantile(found, [0.05, 0.5, 0.95])


def hidden(path: Path, masks: int) -> None:
    """Levels by bins of their claimed probability, numbers by the cover of their intervals."""
    frame = table_of(path)
    X = frame.to_numpy(dtype=float)
    known = ~np.isnan(X)
    claims: list[Any] = []
    rights: list[Any] = []
    cells: list[Any] = []
    inside: dict[float, list[Any]] = {0.5: [], 0.8: [], 0.95: []}
    for seed in range(masks):
        gone = known & (np.random.default_rng(seed).random(X.shape) < 0.2)
        model = CopulaImputer(random_state=0).fit(holes := np.where(gone, np.nan, X))
        levels = np.array([kind in ("ordinal", "binary", "count") for kind in model.kinds_])
        at = gone & levels
        claims.append(model.probability_within(holes, 0)[at])
        rights.append((model.transform(holes) == X)[at])
        cells.append(np.flatnonzero(at))
        at = gone & ~levels
        for share, found in inside.items():
            lower, upper = model.interval(holes, share)
            found.append(((lower <= X) & (upper >= X))[at])
    claimed, right = np.concatenate(claims), np.concatenate(rights)
    print(
        f"{path.stem}: {X.shape[0]} x {X.shape[1]}, {masks} masks; levels: claimed {claimed.mean():.3f} true {right.mean():.3f}"
    )
    which = np.clip(np.searchsorted(BINS, claimed, "right") - 1, 0, len(BINS) - 2)
    for b in range(len(BINS) - 1):
        on = which == b
        if on.sum() >= 20:
            print(
                f"  {BINS[b]:.1f}-{BINS[b + 1]:.1f}: claimed {claimed[on].mean():.3f} true {right[on].mean():.3f} ({on.sum()} cells)"
            )
    shares = ", ".join(
        f"{share:.2f} {np.concatenate(found).mean():.3f}"
        for share, found in inside.items()
        if len(np.concatenate(found))
    )
    low, middle, high = by_chance(claimed, np.concatenate(cells))
    print(
        f"  expected calibration error {calibration_error(claimed, right):.3f} (were all claims right, by chance {middle:.3f}, "
        f"{low:.3f} to {high:.3f}); cover of numbers: {shares or 'no numbers'}",
        flush=True,
    )


def choice(masks: int) -> None:
    """SMAE and cover of both correlations, and how far "auto" goes to the full one."""
    real = real_tables()
    print("table           SMAE: factors  auto | cover: factors  auto")
    for name in ["gaussian", *real]:
        rows = []
        for seed in range(masks):
            rng = np.random.default_rng(seed)
            truth = SIMULATED[name](rng) if name in SIMULATED else real[name]
            X = hide(truth, rng)
            gone = np.isnan(X)
            row = []
            for kind in ("factors", "auto"):
                model = CopulaImputer(correlation=kind, nonlinear=False, random_state=0).fit(X)
                lower, upper = model.interval(X)
                row += [
                    smae(model.transform(X), truth, X),
                    ((lower <= truth) & (truth <= upper))[gone].mean(),
                ]
            rows.append(row)
        a, b, c, d = np.mean(rows, axis=0)
        print(f"{name:14s} {a:13.3f} {c:6.3f} | {b:13.3f} {d:6.3f}", flush=True)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--masks", type=int, default=3)
    parser.add_argument("--choice", action="store_true")
    given = parser.parse_args()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if given.choice:
            choice(given.masks)
            return
        joined(given.seeds)
        folder = os.environ.get("COLSPACE_DATA")
        for name in ("gss2014", "mice_boys"):
            path = Path(folder or ".") / f"{name}.parquet"
            if path.exists():
                hidden(path, given.masks)
            else:
                print(f"{name}: not here (COLSPACE_DATA names its folder)")


if __name__ == "__main__":
    main()
