"""Copula imputer, theorems of the supplement: intervals, bounds on levels and on the squared error, under the true law.

Every statement is measured on tables whose law is known, so nothing but the statement is tested. Theorem 1: share of missing cells in the
95 % interval. Theorems 2 and 4: how often a level is within d of the truth, less the bound, over cells of like bounds. Theorem 3 and
Lemma 2: how often the squared error (a quadratic form) passes its bound, promised at most exp(-t). Corollary 1: the same with the bound (9)
and t = log |O|, promised at most 1/|O|, and the exponent at which the error's excess falls in log |O| / |O|. The formulas for moments are
compared with conditioning by brute force.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri
from scipy.stats import truncnorm

from ..copula import error_bound
from ..copula._truncated import truncated_moments
from ..datasets import CopulaTruth, make_copula
from ..displays._style import ink, tidy
from ._copula_sim import Array, latent_moments
from ._core import Result, Row, mean_and_se, power_slope, working, write
from ._figures import below, line_of, log_axes, opened

NAME = "copula-bounds"
REPETITIONS = {True: 3, False: 10}
SIZE: dict[bool, dict[str, int]] = {
    True: {"n_samples": 150, "n_features": 80},
    False: {"n_samples": 500, "n_features": 200},
}
SWEEPS = {True: 120, False: 400}
OBSERVED = {True: (100, 200, 400, 800), False: (100, 200, 400, 800, 1600, 3200)}  # |O| of Corollary 1
ROWS = {True: 4000, False: 20_000}  # of Corollary 1, for each |O|
FACTORS, NOISE = 10, 0.1  # Corollary 1 with |M| = |O|
EDGES = (-np.inf, 0.0, 0.25, 0.5, 0.75, 0.9, 1.0)  # bins of the bound
TAILS = (1.0, 2.0, 3.0)


def interval_coverage(link: Literal["identity", "cube"], size: Mapping[str, Any], seed: Any) -> float:
    """Share of missing cells in g(E -/+ 1.96 sd), Theorem 1."""
    X, complete, truth = make_copula(
        **{**size, "n_components": 5}, link=link, rng=np.random.default_rng(seed)
    )
    mean, variance = latent_moments(X, truth)
    half, gaps = ndtri(0.975) * np.sqrt(variance), np.isnan(X)
    low, high = truth.values(mean - half), truth.values(mean + half)
    return float(np.mean(((low <= complete) & (complete <= high))[gaps]))


def level_bound(mean: Array, variance: Array, truth: CopulaTruth, d: int) -> Array:
    """1 - Var / d_j^2 of Theorem 4, d_j the distance from the mean to the cuts d levels further than the imputed one's."""
    assert truth.cuts is not None
    ends = np.full((len(truth.cuts), 1), np.inf)
    edges = np.hstack([-ends, truth.cuts, ends])
    level = np.count_nonzero(mean[..., None] > truth.cuts, axis=-1)
    column, last = np.arange(len(edges)), edges.shape[1] - 1
    low = edges[column, np.maximum(level - d, 0)]
    high = edges[column, np.minimum(level + 1 + d, last)]
    distance = np.minimum(mean - low, high - mean)
    with np.errstate(divide="ignore"):
        return 1.0 - variance / distance**2


def level_gaps(size: Mapping[str, Any], sweeps: int, seed: Any) -> dict[tuple[int, int], tuple[float, float]]:
    """(d, bin of the bound) -> share within d, mean bound (never below 0)."""
    setting: dict[str, Any] = {"kind": "ordinal", "n_components": 5, "missing": 0.6, **size}
    X, complete, truth = make_copula(**setting, rng=np.random.default_rng(seed))
    mean, variance = latent_moments(X, truth, rng=0, sweeps=sweeps)
    gaps = np.isnan(X)
    off = np.abs(truth.values(mean) - complete)[gaps]
    found = {}
    for d in (0, 1, 2):
        bound = level_bound(mean, variance, truth, d)[gaps]
        place = np.clip(np.searchsorted(EDGES, bound) - 1, 0, len(EDGES) - 2)
        for i in range(len(EDGES) - 1):
            here = place == i
            if np.count_nonzero(here) >= 50:
                found[d, i] = float(np.mean(off[here] <= d)), float(np.maximum(bound[here], 0).mean())
    return found


def error_over(size: Mapping[str, Any], seed: Any) -> dict[float, float]:
    """t -> share of rows whose squared error passes Theorem 3's bound."""
    X, complete, truth = make_copula(**size, n_components=FACTORS, rng=np.random.default_rng(seed))
    mean, _ = latent_moments(X, truth)
    gaps = np.isnan(X)
    error = np.sum(np.where(gaps, complete - mean, 0.0) ** 2, axis=1) / np.maximum(gaps.sum(axis=1), 1)
    found = {}
    for t in TAILS:
        bounds = [
            error_bound(truth.loadings, truth.noise, ~row, probability=float(-np.expm1(-t))) for row in gaps
        ]
        found[t] = float(np.mean(error > bounds))
    return found


def form_over(seed: Any) -> dict[float, float]:
    """t -> share of draws whose quadratic form passes Lemma 2's bound; eigenvalues 1, 1/2, ..., 1/20."""
    values = 1.0 / np.arange(1.0, 21.0)
    form = np.random.default_rng(seed).standard_normal((20_000, 20)) ** 2 @ values
    return {
        t: float(np.mean(form > (np.sqrt(values.sum()) + np.sqrt(2 * values[0] * t)) ** 2)) for t in TAILS
    }


def corollary(n_observed: int, n_rows: int, seed: Any) -> tuple[float, float]:
    """Share of errors over the bound (9) at t = log |O|, and the excess of their 1 - 1/|O| quantile, sigma^2 = 1 unit.

    One draw of loadings on the sphere; epsilon is the least for which (8) holds there. Errors given z_O are N(0, Cov[z_M | z_O]), whose
    square length has the eigenvalues of s2 (I + W_M M^-1 W_M').
    """
    rng = np.random.default_rng(seed)
    n_missing = n_observed
    W = rng.standard_normal((n_observed + n_missing, FACTORS))
    W *= np.sqrt(1 - NOISE) / np.linalg.norm(W, axis=1, keepdims=True)
    seen, hidden = W[:n_observed].T @ W[:n_observed], W[n_observed:].T @ W[n_observed:]
    unit = (1 - NOISE) / FACTORS
    epsilon = max(
        1 - np.linalg.eigvalsh(seen)[0] / (unit * n_observed),
        np.linalg.eigvalsh(hidden)[-1] / (unit * n_missing) - 1,
    )
    t, odds = np.log(n_observed), NOISE / (1 - NOISE)
    first = 1 / (odds + (1 - epsilon) * n_observed / FACTORS)
    second = 2 * t / n_missing + 2 * (1 + epsilon) * t / (FACTORS * odds + (1 - epsilon) * n_observed)
    bound = (np.sqrt(1 + first) + np.sqrt(second)) ** 2
    extra = np.linalg.eigvals(np.linalg.solve(NOISE * np.eye(FACTORS) + seen, hidden)).real
    draws = rng.standard_normal((n_rows, FACTORS)) ** 2 @ (1 + extra)
    error = (draws + rng.chisquare(n_missing - FACTORS, n_rows)) / n_missing
    return float(np.mean(error > bound)), float(np.quantile(error, 1 - 1 / n_observed) - 1)


def formulas(seed: Any) -> dict[str, float]:
    """The largest distance of each formula from conditioning by brute force."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((12, 3))
    W *= np.sqrt(1 - NOISE) / np.linalg.norm(W, axis=1, keepdims=True)
    S, o, m = W @ W.T + NOISE * np.eye(12), slice(0, 7), slice(7, 12)
    M = NOISE * np.eye(3) + W[o].T @ W[o]
    slope = S[m, o] @ np.linalg.inv(S[o, o])
    mean = W[m] @ np.linalg.solve(M, W[o].T)
    cov = NOISE * np.eye(5) + NOISE * W[m] @ np.linalg.solve(M, W[m].T)
    low = rng.uniform(-2, 1, 50)
    high = low + rng.uniform(0.1, 2, 50)
    law, ours = truncnorm(low, high), truncated_moments(low, high)
    return {
        "mean given observed, Eq. (2)": float(np.abs(mean - slope).max()),
        "covariance given observed, Eq. (3)": float(np.abs(cov - (S[m, m] - slope @ S[o, m])).max()),
        "truncated mean, Lemma 4": float(np.abs(ours.mean - law.mean()).max()),
        "truncated variance, Lemma 4": float(np.abs(ours.variance - law.var()).max()),
        "truncated mean as in Eq. (14)": float(np.abs(-ours.mean - law.mean()).max()),
    }


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every statement; three small tables when quick, ten of the published size otherwise."""
    repetitions, size = REPETITIONS[quick], SIZE[quick]
    found: dict[tuple[str, str, float], list[float]] = {}
    excess: list[list[float]] = []

    def add(statement: str, case: str, x: float, value: float) -> None:
        found.setdefault((statement, case, x), []).append(value)

    with working(repetitions, NAME, progress) as advance:
        for child in np.random.SeedSequence(rng).spawn(repetitions):
            seeds = child.spawn(6 + len(OBSERVED[quick]))
            add("Theorem 1", "g = identity", 0.95, interval_coverage("identity", size, seeds[0]))
            add("Theorem 1", "g = cube", 0.95, interval_coverage("cube", size, seeds[1]))
            for (d, i), (share, bound) in level_gaps(size, SWEEPS[quick], seeds[2]).items():
                add("Theorem 4", f"d = {d}", EDGES[i + 1], share - bound)
            for statement, tails in (
                ("Theorem 3", error_over(size, seeds[3])),
                ("Lemma 2", form_over(seeds[4])),
            ):
                for t, share in tails.items():
                    add(statement, f"t = {t:g}", t, share - np.exp(-t))
            tops = []
            for n_observed, seed in zip(OBSERVED[quick], seeds[6:], strict=True):
                share, top = corollary(n_observed, ROWS[quick], seed)
                add("Corollary 1", "over the bound (9)", n_observed, share - 1 / n_observed)
                add("Corollary 1", "excess", n_observed, top)
                tops.append(top)
            excess.append(tops)
            for case, value in formulas(seeds[5]).items():
                add("formula", case, 0.0, value)
            advance()
    sizes = np.array(OBSERVED[quick], dtype=float)
    for tops in excess:
        add("Corollary 1", "exponent", 0.0, power_slope(np.log(sizes) / sizes, tops))
    rows: list[Row] = []
    for (statement, case, x), values in found.items():
        value, se = mean_and_se(values)
        rows.append(
            {"statement": statement, "case": case, "x": x, "value": value, "se": se, "tables": len(values)}
        )
    summary: list[Row] = [
        {
            "statement": row["statement"],
            "case": row["case"],
            "at": f"{row['x']:g}",
            "value": f"{row['value']:.4g} ± {row['se']:.2g}",
        }
        for row in rows
    ]
    title = "Paper 003, Theorems 1 to 4 and Corollary 1: bounds under the true law"
    notes = (
        "Theorem 1: coverage. Theorem 4: share within d less the bound, promised to be positive.",
        "Theorem 3, Lemma 2, Corollary 1: share over the bound less what is promised, promised to be negative.",
    )
    text = f"{repetitions} tables of {size['n_samples']} x {size['n_features']}; Corollary 1 with |O| up to {OBSERVED[quick][-1]}"
    return write(Result(NAME, title, rows, summary, notes, lambda: draw(title, rows), size=text), out)


def draw(title: str, rows: list[Row]) -> Any:
    """Level bounds, tails, and the excess of Corollary 1 with the promised power."""
    figure, grid = opened(title, 1, 3, (12, 4.2))
    axes = grid[0]

    def lines(ax: Any, chosen: Mapping[str, list[Row]]) -> None:
        for i, (label, here) in enumerate(chosen.items()):
            line_of(ax, sorted(here, key=lambda row: row["x"]), "x", "value", "se", i, label=label)
        tidy(ax)

    def of(statement: str, case: str | None = None) -> list[Row]:
        return [row for row in rows if row["statement"] == statement and case in (None, row["case"])]

    lines(axes[0], {f"d = {d}": of("Theorem 4", f"d = {d}") for d in (0, 1, 2)})
    axes[0].set_title("Theorem 4: share within d less the bound", fontsize="medium")
    axes[0].set_xlabel("upper end of the bin of the bound")
    lines(axes[1], {name: of(name) for name in ("Theorem 3", "Lemma 2")})
    axes[1].set_title("share over the bound less exp(-t)", fontsize="medium")
    axes[1].set_xlabel("t")
    for ax in axes[:2]:
        ax.axhline(0.0, color=ink(), linewidth=1, linestyle=":")
    excess = of("Corollary 1", "excess")
    lines(axes[2], {"1 - 1/|O| quantile of MSE / s2, less 1": excess})
    x = np.array([row["x"] for row in excess])
    root = np.sqrt(np.log(x) / x)
    axes[2].plot(x, root * excess[0]["value"] / root[0], ":", color=ink(), label="sqrt(log |O| / |O|)")
    log_axes(axes[2], list(x))
    axes[2].set_title("Corollary 1", fontsize="medium")
    axes[2].set_xlabel("|O|")
    for ax in axes:
        below(ax, gap=0.16, columns=3)
    return figure
