"""Columns of real tables dealt to two blocks: are the blocks' directions as good as a ridge on all columns?

    COLSPACE_DATA=folder python benchmarks/dealt_blocks.py [--tables design aside] [--rows 150 600]

Columns of a table are dealt to two blocks at random (three deals), at most so many rows of it are taken; five folds, R2 or accuracy of
a linear reader on one and two directions a block, beside PLS per block and a ridge (logistic regression) on all columns. The rule was
chosen on the design tables. PYTHONPATH=another/checkout/src has the same figures of another version. One BLAS thread.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from real_tables import load, prepare
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from colspace import JointReduction

TABLES = {
    "design": (
        *("sk:diabetes", "sk:wine", "sk:breast_cancer", "MASS:Boston", "MASS:fgl", "MASS:crabs"),
        *("modeldata:concrete", "modeldata:biomass", "modeldata:meats", "ISLR:Hitters", "openintro:esi"),
    ),
    "aside": (
        *("MASS:cpus", "ISLR:Auto", "AER:CASchools", "modeldata:chem_proc_yield", "modeldata:Sacramento"),
        *("wooldridge:mlb1", "modeldata:hpc_data", "mosaicData:SaratogaHouses", "DAAG:spam7"),
        *("ggplot2:midwest", "modeldata:cells", "Stat2Data:Hawks"),
    ),
}


def reader(labels: bool):
    """Ridge or logistic regression on standardised columns."""
    found = LogisticRegression(max_iter=2000) if labels else RidgeCV(10.0 ** np.linspace(-3, 3, 13))
    return make_pipeline(StandardScaler(), found)


def pls(X, y, test, h):
    """PLS of a block."""
    Y = OneHotEncoder(sparse_output=False).fit_transform(y[:, None]) if y.dtype.kind in "UO" else y
    model = PLSRegression(min(h, X.shape[1])).fit(X, Y)
    return model.transform(X), model.transform(test)


def fold_scores(X, y, test, y_test, halves) -> list[float]:
    """Ours and PLS at one and two directions a block, then all columns."""
    labels = y.dtype.kind in "UO"
    tables = []
    for h in (1, 2):
        model = JointReduction(h, blocks={"a": halves[0], "b": halves[1]}, n_groups=None).fit(X, y)
        tables.append((model.transform(X), model.transform(test)))
    for h in (1, 2):
        parts = [pls(X[:, half], y, test[:, half], h) for half in halves]
        tables.append(tuple(np.hstack(part) for part in zip(*parts, strict=True)))
    tables.append((X, test))
    return [reader(labels).fit(Z, y).score(Z_test, y_test) for Z, Z_test in tables]


def table_scores(name: str, rows: int) -> np.ndarray | None:
    found = load(name, rows)
    if found is None:
        return None
    frame, y = found
    y = y[:, 0] if y.ndim > 1 else y
    folds = StratifiedKFold if y.dtype.kind in "UO" else KFold
    scores = []
    for seed in range(3):
        for train, test in folds(5, shuffle=True, random_state=seed).split(frame, y):
            X, X_test = prepare(frame.iloc[train], frame.iloc[test])
            places = np.random.default_rng(seed).permutation(X.shape[1])
            halves = places[: len(places) // 2], places[len(places) // 2 :]
            scores.append(fold_scores(X, y[train], X_test, y[test], halves))
    return np.clip(scores, -1.0, 1.0).mean(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=["design"])
    parser.add_argument("--rows", nargs="+", type=int, default=[150, 600])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for rows in arguments.rows:
            for group in arguments.tables:
                print(f"\n{group}, at most {rows} rows: ours h=1, h=2, PLS h=1, h=2, all columns")
                found = []
                for name in TABLES[group]:
                    scores = table_scores(name, rows)
                    if scores is not None:
                        print(f"{name:28} " + " ".join(f"{s:7.3f}" for s in scores), flush=True)
                        found.append(scores)
                print(f"{'mean':28} " + " ".join(f"{s:7.3f}" for s in np.mean(found, axis=0)))


if __name__ == "__main__":
    main()
