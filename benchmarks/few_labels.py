"""Few labels, many rows: SteinReduction with unlabelled rows beside methods that see the labelled rows or no labels.

    python benchmarks/few_labels.py --simulated
    python benchmarks/few_labels.py [--tables design|aside|fresh-aside|NAME ...] [--methods NAME ...]

10 to 100 rows of a table keep their response, the others lose it. A reducer of h directions is fitted, a reader (ridge with
leave-one-out, or logistic regression) learns from the labelled rows' embedding, and is scored on the true responses of the
others: R2, at least -1, or accuracy. Every class keeps a row at least; columns are standardised over all rows, gaps filled with medians.
Choices were made on ``design``; ``aside`` are tables of ``real_tables.py`` that no default was chosen on, ``fresh-aside`` tables drawn at random.
``--simulated``: distance to the true directions, laws of x as in the paper, 3,000 rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product

import numpy as np
from _fresh_tables import ASIDE as FRESH_ASIDE
from real_tables import load, prepare
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colspace import JointReduction, SteinReduction, SteinReductionCV
from colspace.datasets import make_multiple_response
from colspace.metrics import procrustes_distance
from colspace.quality import PlsDirections, RidgeDirections

COUNTS, WIDTHS, ROWS = (10, 20, 50, 100), (1, 2, 3), 1000
DESIGN = {
    "sk": "digits diabetes",
    "ISLR": "Auto Hitters",
    "MASS": "biopsy",
    "Stat2Data": "Hawks",
    "DAAG": "spam7",
    "openintro": "email",
    "ggplot2": "midwest diamonds",
    "modeldata": "concrete cells ad_data meats biomass chem_proc_yield Sacramento mlc_churn",
}
ASIDE = {
    "sk": "breast_cancer wine",
    "MASS": "Boston crabs fgl cpus",
    "ISLR": "OJ",
    "modeldata": "hpc_data",
    "mosaicData": "SaratogaHouses",
    "wooldridge": "mlb1",
    "AER": "CASchools",
}
SETS = {
    "design": [f"{source}:{name}" for source, names in DESIGN.items() for name in names.split()],
    "aside": [f"{source}:{name}" for source, names in ASIDE.items() for name in names.split()],
    "fresh-aside": [*FRESH_ASIDE],
}


def table(name):
    """Standardised columns of at most 1,000 rows, and the response."""
    if name == "sk:digits":
        X, y = load_digits(return_X_y=True, as_frame=True)
        rows = np.random.default_rng(0).choice(len(X), ROWS, replace=False)
        X, y = X.iloc[rows], y.to_numpy()[rows].astype(str)
    else:
        X, y = load(name, ROWS)
    return prepare(X, X)[0], y


def draw(y, count, seed):
    """Which rows keep their labels: one of every class, the others at random."""
    order = np.random.default_rng(seed).permutation(len(y))
    first = []
    if y.dtype.kind != "f":
        first = [order[np.flatnonzero(y[order] == c)[0]] for c in np.unique(y)]
    chosen = [*first, *np.setdiff1d(order, first, assume_unique=True)][: max(count, len(first))]
    return np.isin(np.arange(len(y)), chosen)


def embed(method, h, X, y, known):
    """Every row along h directions."""
    if method == "PCA, all rows":
        return PCA(h).fit_transform(X)
    if method.startswith("Stein"):
        partly = y.astype(object) if y.dtype.kind != "f" else y.copy()
        partly[~known] = None if partly.dtype == object else np.nan
        models = {
            "Stein": SteinReduction(h, n_groups=None),
            "Stein, gaussian": SteinReduction(h, score_model="gaussian", n_groups=None),
            "Stein, cross-validated": SteinReductionCV(h),
        }
        return models[method].fit(X, partly).transform(X)
    makers = {"joint": lambda: JointReduction(h, n_groups=None), "ridge": lambda: RidgeDirections(h)}
    model = makers.get(method, lambda: PlsDirections(h))()
    return model.fit(X[known], y[known]).transform(X)


METHODS = ("Stein", "Stein, gaussian", "Stein, cross-validated", "joint", "ridge", "PLS", "PCA, all rows")


def score(Z, y, known):
    """Of a reader of the embedding on rows without labels."""
    reader = RidgeCV(np.logspace(-3, 3, 13)) if y.dtype.kind == "f" else LogisticRegression(max_iter=300)
    reader = make_pipeline(StandardScaler(), reader).fit(Z[known], y[known])
    return max(float(reader.score(Z[~known], y[~known])), -1.0)


def table_scores(name, methods, seeds):
    """Mean scores over draws, (method, count, width) -> score, and CPU seconds of each method's fits."""
    X, y = table(name)
    found, spent = {}, dict.fromkeys(methods, 0.0)
    for method in methods:
        for count in COUNTS:
            if count > 0.6 * len(y):
                continue
            for h in WIDTHS:
                if h > X.shape[1]:
                    continue
                scores = []
                for seed in range(seeds):
                    known = draw(y, count, seed)
                    start = time.process_time()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        Z = embed(method, h, X, y, known)
                        spent[method] += time.process_time() - start
                        scores.append(score(Z, y, known))
                found[f"{method}|{count}|{h}"] = float(np.mean(scores))
    return found, spent


def report(results, methods):
    """Means over tables, and Stein minus each, with standard errors over tables."""
    cells = [f"{count}|{h}" for count in COUNTS for h in WIDTHS]
    found = {
        m: np.array([[t.get(f"{m}|{cell}", np.nan) for cell in cells] for t in results.values()])
        for m in methods
    }
    if {"ridge", "PCA, all rows"} <= found.keys():
        found["better of ridge and PCA"] = np.fmax(found["ridge"], found["PCA, all rows"])
    print(f"\n{len(results)} tables, mean score; labels|directions, and the mean of all")
    print(f"{'':24}" + "".join(f"{cell:>8}" for cell in [*cells, "all"]))
    for m, scores in found.items():
        means = np.nanmean(scores, axis=0)
        print(f"{m:24}" + "".join(f"{v:8.3f}" for v in [*means, means.mean()]))
    print("Stein minus each, and its standard error")
    for m in [name for name in found if name != "Stein" and "Stein" in found]:
        gaps = found["Stein"] - found[m]
        gaps = np.column_stack([gaps, np.nanmean(gaps, axis=1)])
        print(f"{m:24}" + "".join(f"{v:+8.3f}" for v in np.nanmean(gaps, axis=0)))
        error = np.nanstd(gaps, axis=0, ddof=1) / np.sqrt(len(gaps))
        print(f"{'':24}" + "".join(f"{v:8.3f}" for v in error), flush=True)


def simulated(seeds=6):
    """Distance to three true directions of 30 columns, 20 responses, by the number of labels."""
    counts = (50, 100, 300, 1000)
    print(f"{'':30}{'default':>24}{'gaussian':>24}{'labelled rows alone':>24}   for {counts} labels")
    for law in ("gaussian", "hyperbolic", "student"):
        for links in ("cyclic", "linear"):
            found = np.zeros((seeds, len(counts), 3))
            for seed, (i, count) in product(range(seeds), enumerate(counts)):
                X, Y, B = make_multiple_response(3000, 30, 20, 3, law=law, links=links, rng=seed)
                partly = np.where(np.arange(len(Y))[:, None] < count, Y, np.nan)
                models = [
                    SteinReduction(3, score_model=s, n_groups=None) for s in ("ridge", "gaussian", "ridge")
                ]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fits = [m.fit(X, partly) for m in models[:2]] + [models[2].fit(X[:count], Y[:count])]
                found[seed, i] = [procrustes_distance(B, m.components_.T) for m in fits]
            cells = ["".join(f"{v:6.2f}" for v in column) for column in found.mean(axis=0).T]
            print(f"{law + ', ' + links:30}" + "".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="*", default=["design"])
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--simulated", action="store_true")
    options = parser.parse_args()
    if options.simulated:
        simulated()
        return
    results = {}
    for name in (n for t in options.tables for n in SETS.get(t, (t,))):
        results[name], spent = table_scores(name, options.methods, options.draws)
        print(f"{name:28}" + " ".join(f"{m} {s:.1f} s" for m, s in spent.items()), flush=True)
    report(results, options.methods)


if __name__ == "__main__":
    main()
