"""How many directions ``n_components="auto"`` keeps: on simulated tables of known rank, and on real ones.

    python benchmarks/component_count.py [--quick]

Simulated: 100 tables (10 with --quick) of 500 rows and 10 to 20 columns for each rank and link, those of rank 0 being pure noise. Real: half of the
rows chooses, the other half is read by the same two readers (a linear and a quadratic ridge) from h = 1, ..., 10 directions fitted on the first
half; "best" is the h of the largest R2 there (for labels: R2 of their indicators), "lost" what the choice gives away against it. The
rule "moments" (the cross-validated rank of the moments) stands beside. Tables that cannot be had are named.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
import real_tables
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from colspace import JointReduction
from colspace.reduction._count import reader_losses

Table = tuple[np.ndarray, np.ndarray]
MOST = 10
REAL = (
    "sk:diabetes",
    "sk:linnerud",
    "sk:digits",
    "sk:iris",
    "ISLR:Auto",
    "MASS:biopsy",
    "Stat2Data:Hawks",
    "ISLR:Hitters",
    "modeldata:concrete",
    "modeldata:meats",
    "DAAG:spam7",
    "modeldata:biomass",
)


def columns(rng: np.random.Generator, rank: int) -> Table:
    """500 normal rows of 10 to 20 columns, and ``rank`` orthonormal directions of them."""
    p = int(rng.integers(10, 21))
    X = rng.standard_normal((500, p))
    return X, X @ np.linalg.qr(rng.standard_normal((p, max(rank, 1))))[0][:, :rank]


def noise(rng: np.random.Generator, rank: int) -> Table:
    """y has nothing to do with X."""
    return columns(rng, 0)[0], rng.standard_normal(500)


def linear(rng: np.random.Generator, rank: int) -> Table:
    """As many responses as directions, half of their variance noise."""
    X, Z = columns(rng, rank)
    Y = Z @ np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    return X, Y + rng.standard_normal(Y.shape)


def quadratic(rng: np.random.Generator, rank: int) -> Table:
    """Sum of squares, a fifth of the variance noise."""
    X, Z = columns(rng, rank)
    return X, (Z**2 - 1).sum(axis=1) / np.sqrt(2 * rank) + 0.5 * rng.standard_normal(500)


def mixed(rng: np.random.Generator, rank: int) -> Table:
    """One direction enters as it is, the others squared; a third of the variance noise."""
    X, Z = columns(rng, rank)
    f = Z[:, 0] + (Z[:, 1:] ** 2 - 1).sum(axis=1) / np.sqrt(2)
    return X, f + np.sqrt(rank / 2) * rng.standard_normal(500)


SIMULATED: tuple[tuple[Callable[[np.random.Generator, int], Table], int], ...] = (
    (noise, 0),
    (linear, 1),
    (quadratic, 1),
    (linear, 3),
    (quadratic, 3),
    (mixed, 3),
)


def count(X: np.ndarray, y: np.ndarray, rule: str) -> tuple[int, bool]:
    """The number of directions, and whether a warning says that nothing speaks."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = JointReduction(rule).fit(X, y).n_components_
    return found, any("no direction" in str(w.message) or "nothing stands" in str(w.message) for w in seen)


def simulated(n: int) -> None:
    print(f"| link | rank | said: nothing | kept 1 | 2 | 3 | 4+ | seconds a fit |  ({n} tables each)")
    print("|---|---|---|---|---|---|---|---|")
    for link, rank in SIMULATED:
        start = time.process_time()
        found = [count(*link(np.random.default_rng(7000 + i), rank), "auto") for i in range(n)]
        seconds = (time.process_time() - start) / n
        kept = Counter(min(r, 4) for r, _ in found)
        said = sum(w for _, w in found)
        print(
            f"| {link.__name__} | {rank} | {said} | " + " | ".join(str(kept[k]) for k in (1, 2, 3, 4)),
            f"| {seconds:.2f} |",
            flush=True,
        )


def load(name: str) -> tuple[pd.DataFrame, np.ndarray] | None:
    """A table and its response; None where it cannot be had."""
    if name not in ("sk:digits", "sk:iris"):
        return real_tables.load(name)
    X, y = getattr(datasets, f"load_{name.split(':')[1]}")(return_X_y=True, as_frame=True)
    rows = np.random.default_rng(0).permutation(len(X))[:500]
    return X.iloc[rows].reset_index(drop=True), y.to_numpy()[rows].astype(str)


def held_out(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    """R2 on the test rows of the better reader, for h = 1, ..., each fitted by itself."""
    if y.dtype.kind in "UO":
        classes = np.unique(y)
        Y, Y_test = ((v[:, None] == classes).astype(float) for v in (y, y_test))
    else:
        Y, Y_test = y.reshape(len(y), -1), y_test.reshape(len(y_test), -1)
        scale = Y.std(axis=0)
        Y, Y_test = Y / scale, Y_test / scale
    spread = np.sum((Y_test - Y_test.mean(axis=0)) ** 2)
    scores = []
    for h in range(1, min(MOST, X.shape[1]) + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = JointReduction(h).fit(X, y)
            except ValueError:  # more than the rows span
                break
        losses = reader_losses([model.transform(X)], Y, np.ones(len(Y)), [model.transform(X_test)], Y_test, h)
        scores.append(1 - losses[:, h - 1].sum(axis=1).min() / spread)
    return np.array(scores)


def real(names: tuple[str, ...]) -> None:
    print("\n| table | rows | columns | auto | moments | best | R2 auto | R2 best | lost |")
    print("|---|---|---|---|---|---|---|---|---|")
    lost = []
    for name in names:
        loaded = load(name)
        if loaded is None:
            print(f"| {name} | not to be had |")
            continue
        frame, y = loaded
        frame = frame.fillna(frame.median())
        labels = y if y.dtype.kind in "UO" else None
        X, X_test, y, y_test = train_test_split(
            frame.to_numpy(dtype=float), y, test_size=0.5, random_state=0, stratify=labels
        )
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
        chosen, none = count(X, y, "auto")
        scores = held_out(X, y, X_test, y_test)
        best = int(np.argmax(scores)) + 1
        lost.append(scores[best - 1] - scores[chosen - 1])
        print(
            f"| {name} | {len(X)} | {X.shape[1]} | {chosen}{' (nothing)' if none else ''} | {count(X, y, 'moments')[0]} "
            f"| {best} | {scores[chosen - 1]:.3f} | {scores[best - 1]:.3f} | {lost[-1]:.3f} |",
            flush=True,
        )
    print(f"\nlost: mean {np.mean(lost):.4f}, largest {np.max(lost):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10 tables of each kind, four real ones")
    quick = parser.parse_args().quick
    simulated(10 if quick else 100)
    real(REAL[:4] if quick else REAL)
