"""Supervised dictionaries on mixed MNIST digits: the published table, the same methods without its choices, ten classes.

Rows mix images of 2 and 5 and are labelled by whether they are more like a 4 than like a 7 (`make_semisynthetic`); two
atoms have to rebuild and to classify.

- "published": the rows behind the published table, and its choices: its unconverged solvers re-created, thresholds of
  Youden on the training rows, logistic regression stopped at 100 iterations, and an error column that divides an
  unsquared relative error by the squared one of NMF.
- "honest": ten draws of rows, converged solvers, squared errors of held-out rows, thresholds 0.5 and Youden's; PLS and
  ssnmf (if it is installed: pip install ssnmf) beside. Methods that need X >= 0 get rows with negative noise set to 0
  and are measured on those. xi and l2 were chosen on draws 101 to 106, which are not among the ten.
- "ten classes": all digits, 25 atoms, beside NMF and logistic regression on its codes; xi by held-out training images.

Data: ``mnist.npz`` in the folder that COLSPACE_DATA names, else OpenML's copy, see `colspace.datasets.load_mnist`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import NMF
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from .._progress import track
from ..datasets import SemisyntheticData, load_mnist, make_semisynthetic
from ..dictionary import SupervisedDictionaryClassifier
from ..dictionary._codes import nonnegative_codes
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ._core import Result, Row
from ._sdl import logistic, measures, show_image, squared_error, unfinished
from ._sdl_published import (
    Published,
    published_convex,
    published_feature,
    published_filter,
    published_nmf,
    quick_logistic,
    youden,
)
from ._stein_sim import write

Array = NDArray[np.float64]

ATOMS = 2
#: Published accuracies of Table 3 by model and xi.
PUBLISHED: Mapping[tuple[str, float | None], float] = {
    ("LR", None): 0.720,
    ("NMF + LR", None): 0.552,
    **{
        (name, xi): value
        for name, values in {
            "filter": (0.822, 0.788, 0.756, 0.752, 0.744),
            "feature": (0.646, 0.736, 0.746, 0.736, 0.732),
            "filter, convex": (0.780, 0.712, 0.706, 0.764, 0.694),
            "feature, convex": (0.680, 0.616, 0.604, 0.726, 0.728),
        }.items()
        for xi, value in zip((0.01, 0.1, 1.0, 5.0, 10.0), values, strict=True)
    },
}
#: Chosen on draws 101 to 106.
OURS: Mapping[str, Mapping[str, Any]] = {
    "filter": {"xi": 0.003, "l2": 10.0},
    "filter, nonnegative": {"xi": 0.003, "l2": 10.0, "positive": True},
    "feature": {"model": "feature", "xi": 1e-4},
    "feature, nonnegative": {"model": "feature", "xi": 1e-4, "positive": True},
}
LAMBDA = 100.0  # weight of labels in ssnmf, the best of 1, 10, 100, 1000 on draws 101 to 106
SHARES = (0.3, 1.0, 3.0)  # of the automatic xi, for ten classes


@dataclass(frozen=True)
class Size:
    """How much is done."""

    xis: tuple[float, ...]
    starts: int  # of each published solver
    draws: int  # of honest rows
    images: int  # for ten classes
    atoms: int


SIZES = {
    True: Size((0.1, 1.0), 2, 3, 2_000, 25),
    False: Size((0.01, 0.1, 1.0, 5.0, 10.0), 5, 10, 20_000, 25),
}


def draw_rows(images: Any, labels: Any, seed: int) -> SemisyntheticData:
    """Rows of the published generator; seed 1 has the published table."""
    return make_semisynthetic(images, labels, rng=np.random.RandomState(seed))


# --------------------------------------------------------------------------- published


def published_rows(data: SemisyntheticData, size: Size, seed: int, advance: Callable[[], None]) -> list[Row]:
    """Table 3 with its choices."""
    X, T, y, t = data
    generators = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(size.starts)]

    def row(method: str, xi: float | None, runs: list[tuple[Array, Array, float]], unit: float) -> Row:
        found = [measures(t, test, youden(y, train)) for train, test, _ in runs]
        accuracy = [m["accuracy"] for m in found]
        return {
            **_row("published", method, xi, len(runs)),
            "accuracy": float(np.mean(accuracy)),
            "accuracy_sd": float(np.std(accuracy)),
            "F": float(np.mean([m["F"] for m in found])),
            "published_accuracy": PUBLISHED.get((method, xi)),
            "published_error": float(np.mean([error for *_, error in runs])) / unit,
        }

    def applied(model: Any) -> tuple[Array, Array, float]:
        return model.activation(X), model.activation(T), model.relative_error(T)

    b, c = quick_logistic(X, y)
    plain = [published_nmf(X, y, ATOMS, rng) for rng in generators]
    unit = float(np.mean([model.relative_error(T) ** 2 for model in plain]))
    rows = [row("LR", None, [(X @ b + c, T @ b + c, 1.0)], 1.0)]
    rows.append(row("NMF + LR", None, [(*applied(m)[:2], m.relative_error(T) ** 2) for m in plain], unit))
    solvers: dict[str, Callable[..., Any]] = {
        "filter": published_filter,
        "feature": published_feature,
        "filter, convex": lambda *a: published_convex(*a, model="filter"),
        "feature, convex": lambda *a: published_convex(*a, model="feature"),
    }
    for method, solver in solvers.items():
        for xi in size.xis:
            rows.append(row(method, xi, [applied(solver(X, y, xi, ATOMS, rng)) for rng in generators], unit))
            advance()
    return rows


# --------------------------------------------------------------------------- honest


@dataclass(frozen=True)
class Fit:
    """Log odds of training and test rows, the squared error of the test rows, and atoms (rows) with coefficients."""

    train: Array
    test: Array
    error: float
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
        "NMF + LR": _nonnegative(nmf.components_.T, X_plus, T_plus, y),
        "PLS + LR": _on_codes(
            pls.transform(X),
            pls.transform(T),
            y,
            squared_error(T, pls.inverse_transform(pls.transform(T))),
            pls.x_loadings_.T,
        ),
    }
    if find_spec("ssnmf") is not None:
        found["ssnmf + LR"] = _nonnegative(ssnmf_atoms(X_plus, y, LAMBDA, seed), X_plus, T_plus, y)
    for xi in (0.01, 1.0):
        model = published_filter(X, y, xi, ATOMS, np.random.default_rng(seed))
        found[f"published filter, xi = {xi:g}"] = _sweeps(model, X, T)
    for name, parameters in OURS.items():
        left, held = (X_plus, T_plus) if parameters.get("positive") else (X, T)
        model = SupervisedDictionaryClassifier(ATOMS, random_state=seed, **parameters).fit(left, y)
        odds = model.decision_function(left), model.decision_function(held)
        error = squared_error(held, model.reconstruct(held))
        found[name] = Fit(*odds, error, model.components_, model.coef_[0])
    return found


def ssnmf_atoms(X: Array, y: Any, weight: float, seed: int) -> Array:
    """Atoms of ||X - AS||^2 + weight ||Y - BS||^2 (package ssnmf), pixels x atoms."""
    from ssnmf import SSNMF

    rng = np.random.default_rng(seed)
    (n, p), one_hot = X.shape, np.stack([1.0 - y, y]).astype(float)
    start = {"A": rng.random((p, ATOMS)), "S": rng.random((ATOMS, n)), "B": rng.random((2, ATOMS))}
    model = SSNMF(X.T.copy(), ATOMS, modelNum=3, Y=one_hot, lam=weight, **start)
    model.mult(numiters=1000, saveerrs=False)
    return np.asarray(model.A)


def _on_codes(
    Z: Array, Z_test: Array, y: Any, error: float, atoms: Array | None = None, scaled: bool = True
) -> Fit:
    classifier = (logistic(C=1e3) if scaled else logistic(scale=False)).fit(Z, y)
    coef = classifier[-1].coef_[0] if atoms is not None else None
    return Fit(classifier.decision_function(Z), classifier.decision_function(Z_test), error, atoms, coef)


def _nonnegative(W: Array, X: Array, T: Array, y: Any) -> Fit:
    gram = W.T @ W
    Z, Z_test = (nonnegative_codes(A @ W, gram)[0] for A in (X, T))
    return _on_codes(Z, Z_test, y, squared_error(T, Z_test @ W.T), W.T)


def _sweeps(model: Published, X: Array, T: Array) -> Fit:
    return Fit(model.activation(X), model.activation(T), model.relative_error(T) ** 2, model.W.T, model.coef)


def honest_rows(draws: list[tuple[SemisyntheticData, dict[str, Fit]]]) -> list[Row]:
    """Means over draws."""
    rows = []
    for name in draws[0][1]:
        at_half, tuned, errors = [], [], []
        for data, fits in draws:
            fit = fits[name]
            at_half.append(measures(data.y_test, fit.test))
            tuned.append(measures(data.y_test, fit.test, youden(data.y_train, fit.train)))
            errors.append(fit.error)
        accuracy = [m["accuracy"] for m in at_half]
        rows.append(
            {
                **_row("honest", name, OURS.get(name, {}).get("xi"), len(draws)),
                "accuracy": float(np.mean(accuracy)),
                "accuracy_sd": float(np.std(accuracy)),
                "F": float(np.mean([m["F"] for m in at_half])),
                "AUC": float(np.mean([m["AUC"] for m in at_half])),
                "accuracy_tuned": float(np.mean([m["accuracy"] for m in tuned])),
                "F_tuned": float(np.mean([m["F"] for m in tuned])),
                "squared_error": float(np.mean(errors)),
            }
        )
    return rows


# --------------------------------------------------------------------------- ten classes


def ten_class_rows(images: tuple[Array, Any, Array, Any], atoms: int, seed: int) -> list[Row]:
    """Accuracy and squared error of test images: NMF + LR, and filter models whose xi was chosen on training images."""
    X, y, T, t = images
    nmf = NMF(atoms, init="nndsvda", max_iter=400, random_state=seed)
    with unfinished():
        W = nmf.fit(X).components_.T
    Z, Z_test = (nonnegative_codes(A @ W, W.T @ W)[0] for A in (X, T))
    rivals = {
        "NMF + LR": (float(logistic().fit(Z, y).score(Z_test, t)), squared_error(T, Z_test @ W.T), None),
    }
    fit, held, labels, held_labels = train_test_split(X, y, test_size=0.25, random_state=seed)
    for name, positive in (("filter", False), ("filter, nonnegative", True)):
        model = SupervisedDictionaryClassifier(atoms, positive=positive, max_iter=300, random_state=seed)
        with unfinished():
            auto = float(np.log(10) / np.mean(np.sum(X * X, axis=1)))
            few = slice(0, min(len(fit), 4000))
            scores = [
                model.set_params(xi=share * auto).fit(fit[few], labels[few]).score(held, held_labels)
                for share in SHARES
            ]
            xi = auto * SHARES[int(np.argmax(scores))]
            model.set_params(xi=xi).fit(X, y)
        rivals[name] = (float(model.score(T, t)), squared_error(T, model.reconstruct(T)), xi)
    return [
        {**_row("ten classes", name, xi, 1), "accuracy": accuracy, "squared_error": error}
        for name, (accuracy, error, xi) in rivals.items()
    ]


def _row(part: str, method: str, xi: float | None, runs: int) -> Row:
    columns = (
        "accuracy",
        "accuracy_sd",
        "F",
        "AUC",
        "accuracy_tuned",
        "F_tuned",
        "squared_error",
        "published_accuracy",
        "published_error",
    )
    return {"part": part, "method": method, "xi": xi, "runs": runs, **dict.fromkeys(columns)}


# --------------------------------------------------------------------------- run


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """All three tables; two values of xi, three draws and 2,000 images when quick."""
    size = SIZES[quick]
    mnist = load_mnist(fetch=True)
    images = np.concatenate([mnist.x_train, mnist.x_test])
    labels = np.concatenate([mnist.y_train, mnist.y_test])
    total = 4 * len(size.xis) + size.draws + 1
    draws = []
    with threadpool_limits(1), track(total, "sdl-mnist", show=progress) as advance:
        rows = published_rows(draw_rows(images, labels, 1), size, rng, advance)
        for seed in range(1, size.draws + 1):
            data = draw_rows(images, labels, seed)
            draws.append((data, honest_fits(data, rng)))
            advance()
        rows += honest_rows(draws)
        picked = np.random.default_rng(rng).permutation(len(mnist.x_train))[: size.images]
        X, T = (A.reshape(len(A), -1) / 255.0 for A in (mnist.x_train[picked], mnist.x_test))
        rows += ten_class_rows((X, mnist.y_train[picked], T, mnist.y_test), size.atoms, rng)
        advance()
    title = "Two atoms that rebuild mixed digits and say which digit they are more like"

    def figure() -> Any:
        return draw(title, rows, draws[0])

    notes = (
        f"published: the published rows, {size.starts} starts; honest: draws 1 to {size.draws}.",
        f"ten classes: {len(X):,} training images, {size.atoms} atoms.",
        "Methods with X >= 0 (NMF, ssnmf, nonnegative) are fitted to, and their error is of, rows with negative noise set to 0.",
        "Thresholds: probability 0.5, and Youden's of the training rows ('tuned'; 'published' uses it alone).",
    )
    if find_spec("ssnmf") is None:
        notes = (*notes, "Without ssnmf (pip install ssnmf) its row is left out.")
    return write(Result("sdl-mnist", title, rows, [_shown(row) for row in rows], notes, figure), out)


def _shown(row: Row) -> Row:
    def number(key: str, digits: int = 3) -> str:
        return "" if row[key] is None else f"{row[key]:.{digits}f}"

    return {
        "part": row["part"],
        "method": row["method"],
        "xi": "" if row["xi"] is None else f"{row['xi']:.3g}",
        "accuracy": number("accuracy")
        + ("" if row["accuracy_sd"] is None else f" ({row['accuracy_sd']:.3f})"),
        "F": number("F"),
        "AUC": number("AUC"),
        "tuned": number("accuracy_tuned"),
        "squared error": number("squared_error", 4),
        "in the paper": number("published_accuracy"),
        "its error column": number("published_error", 2),
    }


def draw(title: str, rows: list[Row], first: tuple[SemisyntheticData, dict[str, Fit]]) -> Any:
    """Pareto plot of the honest table, and the atoms of the first draw with their coefficients."""
    plt = pyplot()
    data, fits = first
    shown = {name: fit for name, fit in fits.items() if fit.atoms is not None}
    figure = plt.figure(figsize=(12.6, 6.2), layout="constrained")
    figure.suptitle(title, fontsize="large")
    left, right = figure.subfigures(1, 2, width_ratios=(1.1, 1.6))
    ax = left.subplots()
    for i, row in enumerate(row for row in rows if row["part"] == "honest"):
        style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linestyle": "none"}
        ax.plot(row["squared_error"], row["accuracy"], label=row["method"], **style)
    ax.set_xscale("log")
    ax.set_xlabel("squared relative error of held-out rows")
    ax.set_ylabel("accuracy, threshold 0.5")
    ax.legend(frameon=False, fontsize="x-small")
    tidy(ax)
    axes = right.subplots(4, 2 * -(-(len(shown) + 2) // 4), squeeze=False)
    places = axes.reshape(-1, 2)
    for pair in places:
        for place in pair:
            place.set_axis_off()
    truth = {"mixed images": data.atoms, "label images": data.label_atoms}
    for pair, (name, atoms) in zip(places, truth.items(), strict=False):
        for place, atom in zip(pair, (atoms[0], atoms[-1]), strict=True):
            place.set_axis_on()
            show_image(place, atom, name)
    for pair, (name, fit) in zip(places[len(truth) :], shown.items(), strict=False):
        assert fit.atoms is not None
        assert fit.coef is not None
        for place, atom, coef in zip(pair, fit.atoms, fit.coef, strict=True):
            place.set_axis_on()
            show_image(place, atom, f"{name}\n{coef:+.2g}")
    return figure
