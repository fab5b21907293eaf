"""The demo's section on supervised dictionaries: digits that are easily confused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..dictionary import SupervisedDictionaryClassifier
from ..displays import AtomsDisplay, ParetoDisplay
from ..displays._dictionary import reconstruction_error, relative_error
from ._core import Row
from ._demo_report import beside, print_table, save_displays

DIGITS = (3, 5, 8)
ATOMS = 10


def digits() -> tuple[Any, Any]:
    """Images of 3, 5 and 8 with 8 x 8 pixels from 0 to 1, and which digit each is."""
    X, y = load_digits(return_X_y=True)
    rows = np.isin(y, DIGITS)
    return X[rows] / 16, y[rows]


def atoms(*, positive: bool = True) -> SupervisedDictionaryClassifier:
    """The model with its defaults."""
    return SupervisedDictionaryClassifier(ATOMS, positive=positive, random_state=0)


def _dictionary(X: Any, y: Any, X_test: Any, y_test: Any, *, positive: bool = True) -> tuple[float, float]:
    model = atoms(positive=positive).fit(X, y)
    return float(model.score(X_test, y_test)), reconstruction_error(model, X_test)


def _logistic(Z: Any, y: Any, Z_test: Any, y_test: Any) -> float:
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return float(classifier.fit(Z, y).score(Z_test, y_test))


def _nmf(X: Any, y: Any, X_test: Any, y_test: Any) -> tuple[float, float]:
    nmf = NMF(ATOMS, init="nndsvda", max_iter=5000, random_state=0)
    Z = nmf.fit_transform(X)
    Z_test = nmf.transform(X_test)
    return _logistic(Z, y, Z_test, y_test), relative_error(X_test, Z_test, nmf.components_)


def _pls(X: Any, y: Any, X_test: Any, y_test: Any) -> tuple[float, float]:
    pls = PLSRegression(ATOMS, scale=False).fit(X, (y[:, None] == np.unique(y)).astype(float))
    Z, Z_test = pls.transform(X), pls.transform(X_test)
    rebuilt = pls.inverse_transform(Z_test)
    return _logistic(Z, y, Z_test, y_test), float(((X_test - rebuilt) ** 2).sum() / (X_test**2).sum())


METHODS: dict[str, Callable[..., tuple[float, float]]] = {
    "supervised dictionary": _dictionary,
    "NMF + logistic regression": _nmf,
    "supervised dictionary, free atoms": partial(_dictionary, positive=False),
    "PLS + logistic regression": _pls,
}


def compare(X: Any, y: Any, *, splits: int = 10) -> list[Row]:
    """Accuracy and squared relative reconstruction error on the held-out half of several splits."""
    drawn = list(StratifiedShuffleSplit(splits, test_size=0.5, random_state=0).split(X, y))
    rows: list[Row] = []
    for name, method in METHODS.items():
        scores = np.array([method(X[train], y[train], X[test], y[test]) for train, test in drawn])
        mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(splits)
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
        rows.append({"method": name, "atoms": ATOMS, "accuracy": cells[0], "reconstruction error": cells[1]})
    return rows


def atoms_section(out: Path, console: Any, *, splits: int = 10) -> Row:
    """Atoms that rebuild images and tell them apart, beside those that do one after the other."""
    X, y = digits()
    named = ", ".join(map(str, DIGITS[:-1])) + f" and {DIGITS[-1]}"
    console.print(
        f"[bold]Atoms that rebuild and predict[/]: {len(y)} handwritten digits {named}, {ATOMS} atoms of "
        f"{X.shape[1]} pixels. Accuracy and squared relative reconstruction error on the held-out half; {splits} splits, "
        "mean ± standard error. The first two have nonnegative atoms, the others free ones."
    )
    rows = compare(X, y, splits=splits)
    print_table(console, rows)
    train, test = next(StratifiedShuffleSplit(1, test_size=0.5, random_state=0).split(X, y))
    model = atoms().fit(X[train], y[train])
    front = ParetoDisplay.from_estimator(atoms(), X[train], y[train], X_test=X[test], y_test=y[test])
    save_displays({"atoms": AtomsDisplay.from_estimator(model, X[train]), "pareto": front}, out, console)
    return beside("atoms that rebuild and predict", rows, "accuracy")
