"""Parameters of the generative models of supervised dictionaries, estimated from n rows: errors over n.

Rows come from `make_dictionary`; p = 20, r = 2, two covariates, two classes. Errors are relative, ||estimate - truth||_F
/ ||truth||_F, of what the models can identify: A (coefficients of x, or activations in the feature model), B (the mean
of X) and G (coefficients of the covariates).

- filter, (30), and feature, (34): the minimum of (31) and its counterpart with xi = 1 / (2 noise^2) and no ridge, at a
  noise that falls as 1 / sqrt(n), which Theorems 4.7 and 4.8 ask for; logistic regression on x itself beside.
- common, (36): the minimum of (37), where all rows share one code, at a fixed noise, with ridge nu. The bound of Theorem
  4.9 has a part 2 nu ||truth|| that does not fall with n: with nu > 0 the errors level off.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from ..datasets import DictionaryData, make_dictionary
from ..dictionary._lbfgs import solve_eliminated, solve_jointly, start_svd
from ..dictionary._losses import one_hot
from ..dictionary._objective import make_problem
from ..displays._style import ink, tidy
from ._core import Result, Row, power_slope, slope_error, working, write
from ._figures import below, line_of, log_axes, opened
from ._stein_sim import median_error

Array = NDArray[np.float64]
Errors = dict[str, float]

NAME = "sdl-estimation"
FEATURES, ATOMS, COVARIATES = 20, 2, 2
ROWS = {True: (200, 800, 3200), False: (100, 200, 400, 800, 1600, 3200, 6400)}
REPETITIONS = {True: 5, False: 30}
COMMON_NOISE = 0.5
RIDGES = (0.0, 0.01)
RATE = -0.5


def relative(estimate: Array, truth: Array) -> float:
    """||estimate - truth|| / ||truth||."""
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def per_row_code(model: Literal["filter", "feature"]) -> Callable[[int, Any], dict[str, Errors]]:
    """Errors of the filter or the feature model, and of logistic regression, on one table."""

    def errors(n: int, seed: Any) -> dict[str, Errors]:
        noise = 1.0 / np.sqrt(n)
        data = make_dictionary(
            n, FEATURES, ATOMS, COVARIATES, model=model, noise=noise, rng=np.random.default_rng(seed)
        )
        X, Z = data.X[:, :FEATURES], data.X[:, data.covariates]
        problem = make_problem(X, one_hot(data.y, 2), Z, model=model, xi=0.5 / noise**2, fit_intercept=False)
        start = start_svd(problem, ATOMS, np.random.default_rng(0))
        if model == "filter":
            W, H, B, G, _ = solve_eliminated(problem, start, tol=1e-12).state
            A, truth = W @ B, data.components.T @ data.coef
        else:
            W, H, B, G, _ = solve_jointly(problem, start, positive=False, tol=1e-12).state
            A, truth = H @ B, data.codes @ data.coef
        plain = LogisticRegression(C=np.inf, fit_intercept=False, max_iter=10_000).fit(data.X, data.y)
        own = plain.coef_[:, :FEATURES].T
        return {
            model: {
                "A": relative(A, truth),
                "B": relative(H @ W.T, data.codes @ data.components),
                "G": relative(G, data.covariate_coef),
            },
            f"LR on x, {model} rows": {
                "A": relative(own if model == "filter" else X @ own, truth),
                "G": relative(plain.coef_[:, FEATURES:].T, data.covariate_coef),
            },
        }

    return errors


def fit_common(data: DictionaryData, noise: float, nu: float, seed: Any) -> tuple[Array, Array, Array]:
    """A = W b, the mean W h and G of the minimum of (37) per row."""
    X, Z, y = data.X[:, :FEATURES], data.X[:, data.covariates], data.y
    n, mean = len(y), X.mean(axis=0)
    p, r, q = FEATURES, ATOMS, COVARIATES

    def parts(v: Array) -> tuple[Array, Array, Array, Array]:
        return v[: p * r].reshape(p, r), v[p * r : p * r + r], v[p * r + r : p * r + 2 * r], v[-q:]

    def value(v: Array) -> tuple[float, Array]:
        W, h, b, g = parts(v)
        a = X @ (W @ b) + Z @ g
        k = (expit(a) - y) / n
        away = (W @ h - mean) / noise**2
        slope = X.T @ k
        level = float(np.mean(np.logaddexp(0.0, a) - y * a) + 0.5 * noise**2 * (away @ away) + nu * (v @ v))
        gradient = [np.outer(slope, b) + np.outer(away, h), W.T @ away, W.T @ slope, Z.T @ k]
        return level, np.concatenate([part.ravel() for part in gradient]) + 2.0 * nu * v

    start = np.random.default_rng(seed).standard_normal(p * r + 2 * r + q)
    found = minimize(
        value, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9}
    )
    W, h, b, g = parts(found.x)
    return W @ b, W @ h, g


def common_code(n: int, seed: Any) -> dict[str, Errors]:
    """Errors of (37) at each ridge on one table."""
    data = make_dictionary(
        n, FEATURES, ATOMS, COVARIATES, model="common", noise=COMMON_NOISE, rng=np.random.default_rng(seed)
    )
    out = {}
    for nu in RIDGES:
        A, mean, G = fit_common(data, COMMON_NOISE, nu, 0)
        out[f"common, nu = {nu:g}"] = {
            "A": relative(A, data.components.T @ data.coef[:, 0]),
            "B": relative(mean, data.codes[0] @ data.components),
            "G": relative(G, data.covariate_coef[:, 0]),
        }
    return out


STUDIES: dict[str, Callable[[int, Any], dict[str, Errors]]] = {
    "filter": per_row_code("filter"),
    "feature": per_row_code("feature"),
    "common": common_code,
}


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Medians over tables; three sizes and five tables each when quick."""
    sizes, repetitions = ROWS[quick], REPETITIONS[quick]
    found: dict[tuple[str, str], list[list[float]]] = {}
    children = np.random.SeedSequence(rng).spawn(len(STUDIES))
    with working(len(STUDIES) * len(sizes) * repetitions, NAME, progress) as advance:
        for errors, child in zip(STUDIES.values(), children, strict=True):
            for i, (n, seed) in enumerate(zip(sizes, child.spawn(len(sizes)), strict=True)):
                for one in seed.spawn(repetitions):
                    for method, parts in errors(n, one).items():
                        for part, value in parts.items():
                            lines = found.setdefault((method, part), [[] for _ in sizes])
                            lines[i].append(value)
                    advance()
    rows: list[Row] = []
    summary: list[Row] = []
    for (method, part), lines in found.items():
        median = [float(np.median(values)) for values in lines]
        spread = [median_error(values) for values in lines]
        slope, slope_se = power_slope(sizes, median), slope_error(sizes, median, spread)
        curve = {"method": method, "parameter": part, "slope": slope, "slope_se": slope_se}
        for n, m, se in zip(sizes, median, spread, strict=True):
            rows.append({**curve, "what": "point", "n": n, "error": m, "se": se, "repetitions": repetitions})
        rows.append({**rows[-1], "what": "curve"})
        rows.append({**rows[-1], "what": "last"})
        summary.append(
            {
                "method": method,
                "parameter": part,
                "relative error, n = " + ", ".join(map(str, sizes)): " ".join(f"{m:.3f}" for m in median),
                "slope": f"{slope:+.2f} ± {slope_se:.2f}",
            }
        )
    title = "Paper 004, Theorems 4.7 to 4.9: relative errors of the generative models' parameters"
    notes = (
        f"Medians of {repetitions} tables, errors Maritz and Jarrett's, slopes of the medians; the theorems' rate is {RATE:+.1f} up to logarithms.",
        "filter and feature: noise 1 / sqrt(n); common: noise 0.5 and ridge nu.",
    )
    size = f"{repetitions} tables of {', '.join(map(str, sizes))} rows"
    return write(Result(NAME, title, rows, summary, notes, lambda: draw(title, rows), size=size), out)


def draw(title: str, rows: list[Row]) -> Any:
    """One Axes per parameter, log-log, the rate dotted."""
    figure, grid = opened(title, 1, 3, (12.6, 5.0))
    axes = grid[0]
    names = {"A": "A: coefficients of x, or activations", "B": "B: mean of X", "G": "G: covariates"}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    for ax, (part, name) in zip(axes, names.items(), strict=True):
        for i, method in enumerate(methods):
            place = (method, part, "point")
            here = [row for row in rows if (row["method"], row["parameter"], row["what"]) == place]
            if here:
                line_of(ax, here, "n", "error", "se", i, label=f"{method}: {here[0]['slope']:+.2f}")
        ax.set_title(name, fontsize="medium")
        ax.set_xlabel("rows n")
        size = np.array(sorted({row["n"] for row in rows}), dtype=float)
        top = max(row["error"] for row in rows if row["parameter"] == part)
        style = {"color": ink(), "linewidth": 1.2, "label": f"rate {RATE:+.1f}"}
        ax.plot(size, top * (size / size[0]) ** RATE, ":", **style)
        below(ax, gap=0.16, columns=2)
        tidy(ax)
        log_axes(ax, sorted({float(row["n"]) for row in rows}))
    axes[0].set_ylabel("relative error")
    return figure
