"""Mixed digits and two atoms: every method on one draw of rows, with converged solvers and squared errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import NMF

from ..datasets import SemisyntheticData, make_semisynthetic
from ..dictionary import SupervisedDictionaryClassifier
from ..dictionary._codes import nonnegative_codes
from ..dictionary._lbfgs import fit_coefficients, solve_eliminated, start_nmf
from ..dictionary._losses import one_hot
from ..dictionary._objective import make_problem
from ._core import Row, averaged, unfinished
from ._sdl import cosine, logistic, measures, squared_error
from ._sdl_published import Published, published_filter, youden

Array = NDArray[np.float64]

ATOMS = 2
#: Chosen on draws 101 to 106.
OURS: Mapping[str, Mapping[str, Any]] = {
    "filter": {"xi": 0.003, "l2": 10.0},
    "filter, nonnegative": {"xi": 0.003, "l2": 10.0, "positive": True},
    "feature": {"model": "feature", "xi": 1e-4, "l2": 0.01},
    "feature, nonnegative": {"model": "feature", "xi": 1e-4, "l2": 0.01, "positive": True},
}
NONNEGATIVE = {"xi": 0.003, "l2": 10.0}  # for rows as drawn
LAMBDA = 1000.0  # weight of labels in ssnmf, the best of 1, 10, ..., 10,000 on draws 101 to 106


def blank_row(part: str, method: str, xi: float | None, runs: int) -> Row:
    """A row of the tables with nothing measured yet."""
    measured = ("accuracy", "sensitivity", "specificity", "F", "AUC", "accuracy_tuned", "F_tuned")
    errors = ("squared_error", "squared_error_drawn", "error_column", "atoms_cosine")
    columns = [name for key in (*measured, *errors) for name in (key, f"{key}_se")]
    columns += ["published_accuracy", "published_F", "published_error_column"]
    return {"part": part, "method": method, "xi": xi, "runs": runs, **dict.fromkeys(columns)}


def draw_rows(images: Any, labels: Any, seed: int) -> SemisyntheticData:
    """Rows of the published generator; seed 1 has the published table."""
    return make_semisynthetic(images, labels, rng=np.random.RandomState(seed))


@dataclass(frozen=True)
class Fit:
    """Log odds of training and test rows, atoms (rows) with coefficients, and squared errors of the test rows.

    ``error`` is of the rows that the method was given, ``drawn`` of those with all their noise.
    """

    train: Array
    test: Array
    error: float
    drawn: float
    atoms: Array | None = None
    coef: Array | None = None


def honest_fits(data: SemisyntheticData, seed: int) -> dict[str, Fit]:
    """Name -> fit of every method on one draw."""
    X, T, y, _ = data
    X_plus, T_plus = np.maximum(X, 0.0), np.maximum(T, 0.0)
    right = np.linalg.svd(X, full_matrices=False)[2][:ATOMS]
    nmf = NMF(ATOMS, init="nndsvda", max_iter=2000, tol=1e-6, random_state=seed)
    with unfinished():
        nmf.fit(X_plus)
    pls = PLSRegression(ATOMS, scale=False).fit(X, y)
    found = {
        "LR": _on_codes(X, T, y, 1.0, scaled=False),
        "SVD + LR": _on_codes(X @ right.T, T @ right.T, y, squared_error(T, T @ right.T @ right), right),
        "NMF + LR": _nonnegative(nmf.components_.T, X_plus, T, y),
        "PLS + LR": _on_codes(
            pls.transform(X),
            pls.transform(T),
            y,
            squared_error(T, pls.inverse_transform(pls.transform(T))),
            pls.x_loadings_.T,
        ),
    }
    if find_spec("ssnmf") is not None:
        found["ssnmf + LR"] = _nonnegative(ssnmf_atoms(X_plus, y, LAMBDA, seed), X_plus, T, y)
    for xi in (0.01, 1.0):
        model = published_filter(X, y, xi, ATOMS, np.random.default_rng(seed))
        found[f"published filter, xi = {xi:g}"] = _sweeps(model, X, T)
    for name, parameters in OURS.items():
        left, held = (X_plus, T_plus) if parameters.get("positive") else (X, T)
        model = SupervisedDictionaryClassifier(
            ATOMS, solver="lbfgs", tol=1e-7, random_state=seed, **parameters
        ).fit(left, y)
        odds = model.decision_function(left), model.decision_function(held)
        error = squared_error(held, model.reconstruct(held))
        drawn = nonnegative_error(model.components_.T, T) if parameters.get("positive") else error
        found[name] = Fit(*odds, error, drawn, model.components_, model.coef_[0])
    found["filter, nonnegative, rows as drawn"] = signed_rows(X, T, y, seed, **NONNEGATIVE)
    return found


def signed_rows(X: Array, T: Array, y: Any, seed: int, *, xi: float, l2: float) -> Fit:
    """Nonnegative atoms and codes for rows that keep their negative noise, which the estimator refuses."""
    Y = one_hot(y, 2)
    clipped, problem = (make_problem(A, Y, xi=xi, l2=l2) for A in (np.maximum(X, 0.0), X))
    start = start_nmf(clipped, ATOMS, np.random.default_rng(seed))
    W, _, B, _, c = solve_eliminated(
        problem, fit_coefficients(problem, start.W, start.H), positive=True
    ).state
    error = nonnegative_error(W, T)
    train, test = ((A @ W @ B)[:, 0] + c[0] for A in (X, T))
    return Fit(train, test, error, error, W.T, B[:, 0])


def ssnmf_atoms(X: Array, y: Any, weight: float, seed: int) -> Array:
    """Atoms of ||X - AS||^2 + weight ||Y - BS||^2 (package ssnmf), pixels x atoms."""
    rng = np.random.default_rng(seed)
    (n, p), labels = X.shape, np.stack([1.0 - y, y]).astype(float)
    start = {"A": rng.random((p, ATOMS)), "S": rng.random((ATOMS, n)), "B": rng.random((2, ATOMS))}
    model = import_module("ssnmf").SSNMF(X.T.copy(), ATOMS, modelNum=3, Y=labels, lam=weight, **start)
    model.mult(numiters=1000, saveerrs=False)
    return np.asarray(model.A)


def _on_codes(
    Z: Array, Z_test: Array, y: Any, error: float, atoms: Array | None = None, scaled: bool = True
) -> Fit:
    classifier = (logistic(C=1e3) if scaled else logistic(scale=False)).fit(Z, y)
    coef = classifier[-1].coef_[0] if atoms is not None else None
    odds = classifier.decision_function(Z), classifier.decision_function(Z_test)
    return Fit(*odds, error, error, atoms, coef)


def nonnegative_error(W: Array, T: Array) -> float:
    """Squared relative error of rows rebuilt with nonnegative codes."""
    return squared_error(T, nonnegative_codes(T @ W, W.T @ W)[0] @ W.T)


def _nonnegative(W: Array, X: Array, T: Array, y: Any) -> Fit:
    T_plus = np.maximum(T, 0.0)
    Z, Z_test = (nonnegative_codes(A @ W, W.T @ W)[0] for A in (X, T_plus))
    fit = _on_codes(Z, Z_test, y, nonnegative_error(W, T_plus), W.T)
    return replace(fit, drawn=nonnegative_error(W, T))


def _sweeps(model: Published, X: Array, T: Array) -> Fit:
    error = model.relative_error(T) ** 2
    return Fit(model.activation(X), model.activation(T), error, error, model.W.T, model.coef)


def honest_rows(draws: list[tuple[SemisyntheticData, dict[str, Fit]]]) -> list[Row]:
    """Means over draws, with standard errors."""
    rows = []
    for name in draws[0][1]:
        found = []
        for data, fits in draws:
            fit = fits[name]
            tuned = measures(data.y_test, fit.test, youden(data.y_train, fit.train))
            one = {
                **measures(data.y_test, fit.test),
                "accuracy_tuned": tuned["accuracy"],
                "F_tuned": tuned["F"],
                "squared_error": fit.error,
                "squared_error_drawn": fit.drawn,
            }
            if fit.atoms is not None:
                one["atoms_cosine"] = cosine(fit.atoms)
            found.append(one)
        xi = OURS.get(name, {}).get("xi")
        rows.append({**blank_row("honest", name, xi, len(draws)), **averaged(found)})
    return rows
