"""Supervised dictionaries on mixed MNIST digits: the published table, the same methods without its choices, ten classes.

Rows mix images of 2 and 5 and are labelled by whether they are more like a 4 than like a 7 (`make_semisynthetic`); two
atoms have to rebuild and to classify.

- "published": the rows behind the published table, and its choices: its unconverged solvers re-created, thresholds of
  Youden on the training rows, logistic regression stopped at 100 iterations, and an error column that divides an
  unsquared relative error by the squared one of NMF.
- "honest": ten draws of rows, converged solvers, squared errors of held-out rows, thresholds 0.5 and Youden's; PLS and
  ssnmf (if it is installed: pip install ssnmf) beside. Methods that need X >= 0 get rows with negative noise set to 0
  and are measured on those; "as drawn" is the error of the rows with all their noise, and
  one row has nonnegative atoms fitted to them. xi and l2 were chosen on draws 101 to 106, which are not among the ten.
- "ten classes": all digits, 25 atoms, beside NMF and logistic regression on its codes; xi by held-out training images.

Data: ``mnist.npz`` in the folder that COLSPACE_DATA names, else OpenML's copy, see `colspace.datasets.load_mnist`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF
from sklearn.model_selection import train_test_split

from ..datasets import SemisyntheticData, load_mnist
from ..dictionary import SupervisedDictionaryClassifier
from ..dictionary._codes import nonnegative_codes
from ..displays._style import grey, pyplot, tidy
from ._claims import numbers, read_paper
from ._core import Result, Row, averaged, unfinished, working, write
from ._figures import below, look
from ._sdl import cosine, logistic, measures, show_image, squared_error
from ._sdl_mixed import ATOMS, Fit, blank_row, draw_rows, honest_fits, honest_rows
from ._sdl_published import (
    published_convex,
    published_feature,
    published_filter,
    published_nmf,
    quick_logistic,
    youden,
)

Array = NDArray[np.float64]

NAME = "sdl-mnist"
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
    True: Size((0.01, 0.1, 1.0, 5.0, 10.0), 1, 2, 1_000, 10),
    False: Size((0.01, 0.1, 1.0, 5.0, 10.0), 5, 10, 20_000, 25),
}


# --------------------------------------------------------------------------- published


def published_rows(data: SemisyntheticData, size: Size, seed: int, advance: Callable[[], None]) -> list[Row]:
    """Table 3 with its choices."""
    X, T, y, t = data
    generators = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(size.starts)]

    paper = read_paper("004")
    known = {
        key: {
            **numbers(paper, NAME, key, "part", "method"),
            **numbers(paper, NAME, key, "part", "method", "xi"),
        }
        for key in ("accuracy", "F", "error_column")
    }

    def row(method: str, xi: float | None, runs: list[tuple[Array, Array, float, Any]], unit: float) -> Row:
        found = []
        for train, test, error, model in runs:
            one = {**measures(t, test, youden(y, train)), "error_column": error / unit}
            found.append(one if model is None else {**one, "atoms_cosine": cosine(model.W.T)})
        place: tuple[Any, ...] = ("published", method) if xi is None else ("published", method, xi)
        published = {f"published_{key}": numbers_of.get(place) for key, numbers_of in known.items()}
        return {**blank_row("published", method, xi, len(runs)), **averaged(found), **published}

    def applied(model: Any) -> tuple[Array, Array, float, Any]:
        return model.activation(X), model.activation(T), model.relative_error(T), model

    b, c = quick_logistic(X, y)
    plain = [published_nmf(X, y, ATOMS, rng) for rng in generators]
    unit = float(np.mean([model.relative_error(T) ** 2 for model in plain]))
    rows = [row("LR", None, [(X @ b + c, T @ b + c, 1.0, None)], 1.0)]
    rows.append(row("NMF + LR", None, [(*applied(m)[:2], m.relative_error(T) ** 2, m) for m in plain], unit))
    solvers: dict[str, Callable[..., Any]] = {
        "filter": published_filter,
        "feature": published_feature,
        "filter, convex": partial(published_convex, model="filter"),
        "feature, convex": partial(published_convex, model="feature"),
    }
    for method, solver in solvers.items():
        for xi in size.xis:
            rows.append(row(method, xi, [applied(solver(X, y, xi, ATOMS, rng)) for rng in generators], unit))
            advance()
    return rows


# --------------------------------------------------------------------------- ten classes


def ten_class_rows(images: tuple[Array, Any, Array, Any], atoms: int, seed: int) -> list[Row]:
    """Accuracy and squared error of test images: NMF + LR, and filter models whose xi was chosen on training images."""
    X, y, T, t = images
    nmf = NMF(atoms, init="nndsvda", max_iter=400, random_state=seed)
    with unfinished():
        W = nmf.fit(X).components_.T
    Z, Z_test = (nonnegative_codes(A @ W, W.T @ W)[0] for A in (X, T))
    rivals: dict[str, tuple[float, float, float | None]] = {
        "NMF + LR": (float(logistic().fit(Z, y).score(Z_test, t)), squared_error(T, Z_test @ W.T), None),
    }
    fit, held, labels, held_labels = train_test_split(X, y, test_size=0.25, random_state=seed)
    for name, positive in (("filter", False), ("filter, nonnegative", True)):
        square = float(np.mean(np.sum(X * X, axis=1)))
        model = SupervisedDictionaryClassifier(
            atoms,
            solver="lbfgs",
            positive=positive,
            l2=0.01 * square,
            max_iter=300,
            tol=1e-7,
            random_state=seed,
        )
        with unfinished():
            auto = float(np.log(10) / square)
            few = slice(0, min(len(fit), 4000))
            scores = [
                model.set_params(xi=share * auto).fit(fit[few], labels[few]).score(held, held_labels)
                for share in SHARES
            ]
            xi = auto * SHARES[int(np.argmax(scores))]
            model.set_params(xi=xi).fit(X, y)
        rivals[name] = (float(model.score(T, t)), squared_error(T, model.reconstruct(T)), xi)
    return [
        {**blank_row("ten classes", name, xi, 1), "accuracy": accuracy, "squared_error": error}
        for name, (accuracy, error, xi) in rivals.items()
    ]


# --------------------------------------------------------------------------- run


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """All three tables; one start, two draws, 1,000 images and 10 of the atoms when quick."""
    size = SIZES[quick]
    mnist = load_mnist(fetch=True)
    images = np.concatenate([mnist.x_train, mnist.x_test])
    labels = np.concatenate([mnist.y_train, mnist.y_test])
    total = 4 * len(size.xis) + size.draws + 1
    draws = []
    with working(total, NAME, progress) as advance:
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
    title = "Paper 004, Table 3 and Figs. 5 to 7: two atoms rebuild mixed digits and classify them"
    notes: tuple[str, ...] = (
        f"published: the published rows, {size.starts} starts; honest: draws 1 to {size.draws}.",
        f"ten classes: {len(X):,} training images, {size.atoms} atoms.",
        "Methods with X >= 0 (NMF, ssnmf, nonnegative) are fitted to, and their error is of, rows with negative noise set to 0.",
        "Thresholds: probability 0.5, and Youden's of the training rows ('tuned'; 'published' uses it alone).",
    )
    if find_spec("ssnmf") is None:
        notes = (*notes, "Without ssnmf (pip install ssnmf) its row is left out.")
    text = f"{size.starts} starts of the published rows, {size.draws} draws, {len(X)} images of ten classes"
    figure = partial(draw, title, rows, draws[0])
    return write(Result(NAME, title, rows, [_shown(row) for row in rows], notes, figure, size=text), out)


def _shown(row: Row) -> Row:
    def number(key: str, digits: int = 3) -> str:
        return "" if row[key] is None else f"{row[key]:.{digits}f}"

    return {
        "part": row["part"],
        "method": row["method"],
        "xi": "" if row["xi"] is None else f"{row['xi']:.3g}",
        "accuracy": number("accuracy")
        + ("" if row["accuracy_se"] is None else f" ± {row['accuracy_se']:.3f}"),
        "F": number("F"),
        "AUC": number("AUC"),
        "tuned": number("accuracy_tuned"),
        "squared error": number("squared_error", 4),
        "as drawn": number("squared_error_drawn", 4),
        "error column": number("error_column", 2),
        "paper: accuracy": number("published_accuracy"),
        "F ": number("published_F"),
        "error column ": number("published_error_column", 2),
    }


def draw(title: str, rows: list[Row], first: tuple[SemisyntheticData, dict[str, Fit]]) -> Any:
    """Pareto plot of the honest table, and the atoms of the first draw with their coefficients."""
    plt = pyplot()
    data, fits = first
    shown = {name: fit for name, fit in fits.items() if fit.atoms is not None}
    figure = plt.figure(figsize=(13, 7.4), layout="constrained")
    figure.suptitle(title, fontsize="large")
    left, right = figure.subfigures(1, 2, width_ratios=(1.1, 1.6))
    ax = left.subplots()
    for i, row in enumerate(row for row in rows if row["part"] == "honest"):
        if row["method"] == "LR":  # rebuilds nothing: its error of 1 would squeeze the others
            ax.axhline(row["accuracy"], color=grey(), linestyle="--", label="LR on all pixels, no atoms")
            continue
        style = {**look(i), "linestyle": "none", "label": row["method"]}
        ax.errorbar(row["squared_error"], row["accuracy"], yerr=row["accuracy_se"], **style)
    ax.set_xlabel("squared relative error of held-out rows")
    ax.set_ylabel("accuracy, threshold 0.5")
    below(ax, gap=0.12, columns=2)
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
            show_image(place, atom, name.replace(", ", ",\n") + f"\n{coef:+.2g}")
    return figure
