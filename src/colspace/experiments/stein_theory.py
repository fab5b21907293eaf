"""Stein's method, lemmas and theorems: moments, rates with the known score, and what labels and no labels give.

Bounded links (sine, cosine, hyperbolic tangent, arc tangent and the logistic function of the paper), for which the theorems
hold. ``value`` is the mean over repetitions; what it is relative to is said by ``check``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from ..datasets import make_multiple_response
from ..datasets._stein import LINKS
from ..displays._style import COLOURS, ink
from ..metrics import nsee, procrustes_distance
from ..reduction import SteinReduction
from ..scores import GaussianScore, HyperbolicScore, KernelScore, StudentScore
from . import stein_mnist
from ._claims import read_paper
from ._core import Result, Row, cpu_seconds, power_slope, slope_error, standard_error, stated, working, write
from ._figures import bars, opened

Array = NDArray[np.float64]
PAPER = read_paper("001").settings
RANK: int = PAPER["rank"]
DF = float(PAPER["degrees_of_freedom"])
BOUNDED = (0, 2, 3, 4, 7)  # sine, cosine, hyperbolic and arc tangent, logistic function
FEW = 200  # labelled rows
PLAIN: dict[str, Any] = {"whiten": False, "whiten_response": False, "standardize": False, "n_groups": None}


@dataclass(frozen=True)
class Size:
    """How much is done."""

    repetitions: int
    rows: tuple[int, int]  # between which rates in rows are taken
    columns: tuple[int, int]
    lemma: int  # rows of a draw for the lemmas


SIZES = {
    True: Size(6, (4_000, 16_000), (10, 20), 20_000),
    False: Size(30, (8_000, 32_000), (15, 45), 40_000),
}


def law(name: Any, n: int, p: int, rng: Any) -> tuple[Array, Array, Any]:
    """Rows of a law, its directions and its own score, parameters known."""
    data = make_multiple_response(n, p, 2, RANK, law=name, df=DF, rng=rng)
    centre, Sigma = np.zeros(p), data.dispersion
    scores = {
        "gaussian": GaussianScore(location=centre, covariance=Sigma),
        "student": StudentScore(df=DF, location=centre, covariance=Sigma),
        "hyperbolic": HyperbolicScore(chi=2 * p + 1, psi=p, location=centre, dispersion=Sigma),
    }
    return data.X, data.directions, scores[name]


def bounded(Z: Array, rng: Any, offset: float) -> Array:
    """Responses a_j' m_j(z) with the bounded links of the paper, noise as there; a = |N(0, 1)| + offset, or N(0, 1) without.

    Coefficients around zero keep the first order's matrix of mean gradients well conditioned (Assumption 3.4), the paper's
    offset the second order's average of second derivatives (Assumption 3.12).
    """
    draws = rng.standard_normal((PAPER["responses"], Z.shape[1]))
    coefficients = np.abs(draws) + offset if offset else draws
    columns = [LINKS[BOUNDED[j % len(BOUNDED)]](Z) @ a for j, a in enumerate(coefficients)]
    Y: Array = np.column_stack(columns)
    return Y + PAPER["noise"] * rng.standard_normal(Y.shape)


def _fit(X: Array, Y: Any, **given: Any) -> Array:
    """Directions (columns) of the printed estimator."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no gap after component", UserWarning)
        warnings.filterwarnings("ignore", "without labels the scores prefer no direction", UserWarning)
        components: Array = SteinReduction(RANK, **PLAIN, **given).fit(X, Y).components_.T
    return components


# ---------------------------------------------------------------------- statements of one data set


def lemma_checks(size: Size, seed: Any) -> dict[tuple[str, str], float]:
    """b'E[s y]/E f' and b'E[y T]b/E f'' for y = sin(b'x - 1), by law."""
    found = {}
    for name in ("gaussian", "hyperbolic", "student"):
        X, B, score = law(name, size.lemma, 6, np.random.default_rng(seed))
        b = B[:, 0]
        angle = X @ b - 1
        y, n = np.sin(angle), len(X)
        model = score.fit(X)
        first = b @ model.first_moment(X, y[:, None]).ravel() / n
        second = b @ model.second_moment(X, y) @ b / n
        found["Lemma 2.2", name] = float(first / np.mean(np.cos(angle)))
        found["Lemma 2.3", name] = float(second / np.mean(-np.sin(angle)))
    return found


def space_checks(size: Size, seed: Any) -> dict[tuple[str, str], float]:
    """What the printed estimator gives without labels, with few, and beside least squares (distance / sqrt(r))."""
    rng = np.random.default_rng(seed)
    n, p = size.rows[0], 12
    X, B, score = law("gaussian", n, p, rng)
    X = X / X.std(axis=0)
    leading = PCA(RANK).fit(X).components_.T
    centred = X - X.mean(axis=0)
    S = centred.T @ centred / n
    identity = np.linalg.svd(np.linalg.pinv(S) @ S)[0][:, :RANK]
    found = {
        ("Theorem 2.4", "as printed"): nsee(leading, identity),
        ("Theorem 2.4", "with a ridge"): nsee(leading, _fit(X, None, score_model=GaussianScore(ridge=0.1))),
    }
    L = np.linalg.qr(rng.standard_normal((p, RANK)))[0]
    spread = np.sqrt((DF - 2) / rng.chisquare(DF, n))[:, None]
    T = spread * (2 * rng.standard_normal((n, RANK)) @ L.T + rng.standard_normal((n, p)))
    exact = StudentScore(df=DF, location=np.zeros(p), covariance=4 * L @ L.T + np.eye(p))
    found["without labels", "exact score"] = nsee(L, _fit(T, None, score_model=exact))
    found["without labels", "PCA"] = nsee(L, PCA(RANK).fit(T).components_.T)
    X, B, score = law("gaussian", n, p, rng)
    Y = bounded(X @ B, rng, 0.0)
    some = np.where(np.arange(n)[:, None] < FEW, Y, np.nan)
    semi = _fit(X, some, score_model=score, unlabeled_weight="paper")
    found["few labels", "semi-supervised"] = nsee(B, semi)
    found["few labels", "supervised"] = nsee(B, _fit(X[:FEW], Y[:FEW], score_model=score))
    fitted = np.linalg.lstsq(X - X.mean(axis=0), Y - Y.mean(axis=0), rcond=None)[0]
    squares = np.linalg.svd(fitted)[0][:, :RANK]
    found["Remark I.1", "gaussian"] = nsee(squares, _fit(X, Y, score_model=GaussianScore()))
    return found


def rate_errors(n: int, p: int, seed: Any) -> dict[str, float]:
    """Distance (3.1) with the known score, and between estimated and known."""
    rng = np.random.default_rng(seed)
    X, B, score = law("gaussian", n, p, rng)
    Y, curved = (bounded(X @ B, rng, offset) for offset in (0.0, PAPER["nonlinear_offset"]))
    first = _fit(X, Y, score_model=score)
    second = _fit(X, curved, score_model=score, order=2, combine="mean")
    plugged = _fit(X, Y, score_model=GaussianScore())
    return {
        "first order": procrustes_distance(B, first),
        "second order": procrustes_distance(B, second),
        "first order, estimated against known score": procrustes_distance(first, plugged),
    }


def relative_costs() -> dict[str, float]:
    """CPU time of the encoder over that of the paper's autoencoder on scikit-learn's digits, best of three each."""
    X, y = load_digits(return_X_y=True)
    images = stein_mnist.Images(X / 16.0, y, X[:2] / 16.0, y[:2])
    h = PAPER["mnist"]["dimensions"][0]
    scores = {
        "Gaussian score": GaussianScore(ridge=0.1),
        "kernel score": KernelScore(standardize=False, max_samples=1_000, random_state=0),
    }

    def encoder(score: Any) -> Any:
        return stein_mnist.directions(
            SteinReduction(h, score_model=score, standardize=False, n_groups=None), images.X
        )

    rival = cpu_seconds(lambda: stein_mnist.autoencode(images, h, PAPER["mnist"]["epochs"], 0), 3)
    return {name: cpu_seconds(partial(encoder, score), 3) / rival for name, score in scores.items()}


# ---------------------------------------------------------------------- the run


def _row(check: str, model: str, value: float, se: float, repetitions: int) -> Row:
    row: Row = {"check": check, "model": model, "value": float(value), "se": float(se)}
    return {**row, "repetitions": repetitions}


def _rates(check: str, places: Sequence[int], errors: Sequence[Sequence[dict[str, float]]]) -> list[Row]:
    """Exponents between places."""
    found = []
    for name in errors[0][0]:
        values = [np.array([one[name] for one in here]) for here in errors]
        mean, se = [v.mean() for v in values], [standard_error(v) for v in values]
        rate = power_slope(places, mean), slope_error(places, mean, se)
        found.append(_row(check, name, *rate, len(values[0])))
    return found


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every statement."""
    size = SIZES[quick]
    (few, many), (narrow, wide) = size.rows, size.columns
    places = ((few, narrow), (many, narrow), (many, wide))
    once, *groups = np.random.SeedSequence(rng).spawn(1 + len(places))
    single: list[dict[tuple[str, str], float]] = []
    repeated: list[list[dict[str, float]]] = []
    total = (1 + len(places)) * size.repetitions
    with working(total, "stein-theory", progress) as advance:
        for seed in once.spawn(size.repetitions):
            single.append(lemma_checks(size, seed) | space_checks(size, seed))
            advance()
        for (n, p), group in zip(places, groups, strict=True):
            here = []
            for seed in group.spawn(size.repetitions):
                here.append(rate_errors(n, p, seed))
                advance()
            repeated.append(here)
        costs = relative_costs() if find_spec("torch") is not None else {}
    rows = []
    for check, model in single[0]:
        values = [one[check, model] for one in single]
        rows.append(_row(check, model, float(np.mean(values)), standard_error(values), len(values)))
    rows += _rates("rate in rows", (few, many), repeated[:2])
    rows += _rates("rate in columns", (narrow, wide), repeated[1:])
    rows += [_row("CPU relative to the autoencoder", name, cost, 0.0, 3) for name, cost in costs.items()]
    title = "Paper 001: lemmas, theorems and remarks"
    summary = [stated(row) for row in rows]
    what = f"{size.repetitions} repetitions, {few:,} and {many:,} rows, {narrow} and {wide} columns"
    return write(Result("stein-theory", title, rows, summary, (), lambda: draw(title, rows), size=what), out)


def draw(title: str, rows: list[Row]) -> Any:
    """One bar a statement: moments relative to the lemmas, distances, rates."""
    figure, axes = opened(title, 1, 3, (12.6, 4.0))
    kinds = {
        "moment relative to the lemma (dotted: 1)": (
            [row for row in rows if "Lemma" in row["check"]],
            (1.0,),
        ),
        "distance / sqrt(r)": (
            [row for row in rows if row["check"] in ("Theorem 2.4", "without labels", "few labels")],
            (),
        ),
        "exponent (dotted: the theorems')": (
            [row for row in rows if row["check"].startswith("rate")],
            tuple(PAPER["rates"].values()),
        ),
    }
    for ax, (label, (some, lines)) in zip(axes.flat, kinds.items(), strict=True):
        bars(ax, some, "value", label, COLOURS[0], errors=True)
        for x in lines:
            ax.axvline(x, color=ink(), linestyle=":", linewidth=1.2)
    return figure
