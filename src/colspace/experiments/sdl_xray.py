"""Supervised atoms of chest X-rays: PneumoniaMNIST, 28 x 28, beside logistic regression and NMF.

25 atoms. "chosen": every parameter (xi, C) and the second threshold are chosen on the validation images; scores are of the test
images. "published": the paper's settings, feature with xi = 50 and filter with xi = .01 and 20 atoms, both with l1 = 5 on nonnegative codes
and ||W||_F <= 1, cut at Youden's level of the training images. The paper has the same X-rays at 180 x 180. Standard errors are over bootstrap samples of the test images.
``contrast`` is the largest absolute coefficient over the median one.

Data: ``pneumoniamnist.npz`` in the folder that COLSPACE_DATA names, see `colspace.datasets.load_pneumonia`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF

from ..datasets import PneumoniaData, load_pneumonia
from ..dictionary import SupervisedDictionaryClassifier
from ._core import Result, Row, unfinished, working, write
from ._figures import opened
from ._sdl import logistic, measures, short, show_image, squared_error
from ._sdl_published import youden

Array = NDArray[np.float64]

NAME = "sdl-xray"
ATOMS = 25
BOOTSTRAP = 100
STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # C
SHARES = (0.1, 1.0, 10.0)  # of the automatic xi
RIDGE = 0.01  # l2 of the feature model; of the filter model in units of the mean ||x||^2
DRAWN = 9  # atoms of each method in the figure


@dataclass(frozen=True)
class Fitted:
    """Log odds of images, their rebuilding, and atoms (rows) with coefficients."""

    odds: Callable[[Array], Array]
    rebuild: Callable[[Array], Array] | None = None
    atoms: Array | None = None
    coef: Array | None = None


def fit_logistic(X: Array, y: Any, C: float, seed: int) -> Fitted:
    """All pixels."""
    return Fitted(logistic(C=C).fit(X, y).decision_function)


def fit_nmf(X: Array, y: Any, C: float, seed: int) -> Fitted:
    """Atoms first, then logistic regression on their codes."""
    nmf = NMF(ATOMS, init="nndsvda", max_iter=500, random_state=seed)
    with unfinished():
        model = logistic(C=C).fit(nmf.fit_transform(X), y)

    def codes(A: Array) -> Array:
        with unfinished():
            return np.asarray(nmf.transform(A))

    return Fitted(
        lambda A: model.decision_function(codes(A)),
        lambda A: codes(A) @ nmf.components_,
        nmf.components_,
        model[-1].coef_[0],
    )


def fit_dictionary(**parameters: Any) -> Callable[..., Fitted]:
    """Supervised dictionary with a share of the automatic xi."""

    def fit(X: Array, y: Any, share: float, seed: int) -> Fitted:
        square = float(np.mean(np.sum(X * X, axis=1)))
        model = SupervisedDictionaryClassifier(
            ATOMS,
            solver="lbfgs",
            xi=share * np.log(2) / square,
            l2=RIDGE if parameters.get("model") == "feature" else RIDGE * square,
            max_iter=300,
            tol=1e-6,
            random_state=seed,
            **parameters,
        )
        with unfinished():
            model.fit(X, y)
        return Fitted(model.decision_function, model.reconstruct, model.components_, model.coef_[0])

    return fit


#: Method -> how it is fitted, and what is tried on the validation images.
METHODS: Mapping[str, tuple[Callable[..., Fitted], tuple[float, ...]]] = {
    "LR": (fit_logistic, STRENGTHS),
    "NMF + LR": (fit_nmf, STRENGTHS),
    "filter, nonnegative": (fit_dictionary(positive=True), SHARES),
    "feature, nonnegative": (fit_dictionary(positive=True, model="feature"), SHARES),
    "filter": (fit_dictionary(), SHARES),
}


def fit_published(model: str, atoms: int, xi: float) -> Callable[..., Fitted]:
    """Nonnegative atoms with ||W||_F <= 1 and l1 = 5 on the codes."""

    def fit(X: Array, y: Any, max_iter: int, seed: int) -> Fitted:
        found = SupervisedDictionaryClassifier(
            atoms,
            model=model,
            solver="bcd",
            xi=xi,
            positive=True,
            l1=5.0,
            l2=0.0,
            class_weight=None,
            threshold=0.5,
            bounds={"dictionary": 1.0},
            max_iter=max_iter,
            tol=1e-6,
            random_state=seed,
        )
        with unfinished():
            found.fit(X, y)
        return Fitted(found.decision_function, found.reconstruct, found.components_, found.coef_[0])

    return fit


#: Method -> how it is fitted as published, and its parameter: C, or the sweeps (100 in the paper).
PUBLISHED: Mapping[str, tuple[Callable[..., Fitted], float]] = {
    "LR": (fit_logistic, 1.0),
    "NMF + LR": (fit_nmf, 1.0),
    "feature, xi = 50, l1 = 5": (fit_published("feature", 25, 50.0), 100),
    "filter, xi = 0.01, l1 = 5, 20 atoms": (fit_published("filter", 20, 0.01), 100),
}


def resampled(y: Any, odds: Array, level: float, seed: int) -> dict[str, float]:
    """Measures, with standard errors over bootstrap samples of the rows."""
    rng, y = np.random.default_rng(seed), np.asarray(y)
    found = measures(y, odds, level)
    draws = []
    for _ in range(BOOTSTRAP):
        rows = rng.integers(len(y), size=len(y))
        draws.append(measures(y[rows], odds[rows], level))
    errors = {f"{key}_se": float(np.std([one[key] for one in draws], ddof=1)) for key in found}
    return {**found, **errors}


def scored(fit: Fitted, T: Array, t: Any, level: float, tuned: float, seed: int) -> Row:
    """Scores of the test images at two levels, the error of their rebuilding, and the contrast of coefficients."""
    odds = fit.odds(T)
    at_tuned = measures(t, odds, tuned)
    coef = None if fit.coef is None else np.abs(fit.coef)
    return {
        **resampled(t, odds, level, seed),
        "accuracy_tuned": at_tuned["accuracy"],
        "F_tuned": at_tuned["F"],
        "squared_error": None if fit.rebuild is None else squared_error(T, fit.rebuild(T)),
        "contrast": None if coef is None else float(coef.max() / np.median(coef)),
    }


def pixels(data: PneumoniaData) -> dict[str, tuple[Array, Any]]:
    """Part -> rows of pixels in 0..1, and labels."""
    return {
        part: (
            getattr(data, f"{part}_images").reshape(len(getattr(data, f"{part}_labels")), -1) / 255.0,
            getattr(data, f"{part}_labels"),
        )
        for part in ("train", "val", "test")
    }


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """All training images; 600 of them when quick."""
    parts = pixels(load_pneumonia())
    X, y = parts["train"]
    if quick:
        X, y = X[:600], y[:600]
    (V, v), (T, t) = parts["val"], parts["test"]
    rows: list[Row] = []
    fits: dict[str, Fitted] = {}
    with working(len(METHODS) + len(PUBLISHED), NAME, progress) as advance:
        asked = [("chosen", name, *given) for name, given in METHODS.items()]
        asked += [("published", name, fit, (value,)) for name, (fit, value) in PUBLISHED.items()]
        for part, name, fit, candidates in asked:
            start = time.process_time()
            tried = [(value, fit(X, y, value, rng)) for value in candidates]
            value, best = max(tried, key=lambda pair: measures(v, pair[1].odds(V))["AUC"])
            level = 0.0 if part == "chosen" else youden(y, best.odds(X))
            score = scored(best, T, t, level, youden(v, best.odds(V)), rng)
            place = {"part": part, "method": name, "chosen": value}
            rows.append({**place, **score, "seconds": time.process_time() - start})
            if part == "chosen" or "xi" in name:
                fits[name] = best
            advance()
    summary: list[Row] = [
        {
            "part": row["part"],
            "method": row["method"],
            "C, share of xi or sweeps": f"{row['chosen']:g}",
            **{key: f"{row[key]:.3f}" for key in ("accuracy", "F", "AUC")},
            "accuracy, tuned": f"{row['accuracy_tuned']:.3f}",
            "F, tuned": f"{row['F_tuned']:.3f}",
            "squared error": "" if row["squared_error"] is None else f"{row['squared_error']:.4f}",
        }
        for row in rows
    ]
    notes = (
        f"{len(X):,} training, {len(V):,} validation and {len(T):,} test images; class 1 is pneumonia.",
        "Parameters by AUC and the 'tuned' threshold by Youden's index, both on the validation images.",
        f"Pneumonia: {np.mean(y):.0%} of training, {np.mean(t):.0%} of test images.",
        "Accuracy and F: probability 0.5 where parameters are chosen, Youden's level of training images where they are published.",
    )
    title = "Paper 004, Fig. 12: atoms of chest X-rays with the largest and smallest coefficients"
    size = f"{len(X):,} training and {len(T):,} test images of 28 x 28"
    return write(Result(NAME, title, rows, summary, notes, lambda: draw(title, fits), size=size), out)


def draw(title: str, fits: Mapping[str, Fitted]) -> Any:
    """Atoms with the largest and smallest coefficients, one row per method."""
    shown = {name: fit for name, fit in fits.items() if fit.atoms is not None}
    figure, axes = opened(title, len(shown), DRAWN, (1.35 * DRAWN, 1.6 * len(shown)))
    for line, (name, fit) in zip(axes, shown.items(), strict=True):
        assert fit.atoms is not None
        assert fit.coef is not None
        order = np.argsort(-fit.coef)
        half = DRAWN // 2
        picked = np.concatenate([order[: DRAWN - half], order[len(order) - half :]])
        for ax, i in zip(line, picked, strict=True):
            show_image(ax, fit.atoms[i], short(fit.coef[i]))
        line[0].set_ylabel(name.replace(", ", ",\n"), fontsize="x-small")
    return figure
