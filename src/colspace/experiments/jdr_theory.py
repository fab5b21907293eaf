"""Joint reduction, theorems and remarks: bounds against what happens, the printed algorithms, their cost.

Every row is one statement of the papers: ``value`` is the mean over repetitions, ``bound`` what the paper has for it and
``ratio`` their quotient. Statements without a bound are compared among themselves (error of variants on the same data).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._response import HeavyTailWarning
from ..datasets import make_bilinear, make_rbf
from ..displays._style import COLOURS, ink
from ..factor._select import keep_largest_in_columns, sparse_proxy
from ..metrics import nsee, subspace_distance
from ..reduction import JointReduction
from . import _jdr_bounds as bounds
from ._claims import read_paper
from ._core import Result, Row, cpu_seconds, power_slope, slope_error, standard_error, stated, working, write
from ._figures import bars, opened

Array = NDArray[np.float64]
Measured = dict[tuple[str, str], tuple[float, float | None]]  # (check, model) -> value and bound

PAPER = read_paper("000").settings
RANK: int = PAPER["rank"]


@dataclass(frozen=True)
class Size:
    """How much is done: columns per block and rows of the bounds, of the fast algorithms and of the extensions."""

    repetitions: int
    width: int
    rows: int
    active: int
    fast: tuple[int, int]
    doubling: tuple[int, int]  # rows between which exponents are taken
    clock: tuple[tuple[int, int], tuple[int, int]]  # rows, and columns, of the CPU exponents


SIZES = {
    True: Size(20, 20, 4_000, 8, (60, 16_000), (4_000, 16_000), ((16_000, 64_000), (100, 200))),
    False: Size(40, 40, 16_000, 10, (200, 64_000), (8_000, 64_000), ((16_000, 64_000), (150, 300))),
}


# ---------------------------------------------------------------------- bounds


def proxy(a: Array, y: Array, b: Array) -> Array:
    """(1/m) sum y a b'."""
    X0: Array = a.T @ (y[:, None] * b) / len(y)
    return X0


def top(X: Array, r: int) -> tuple[Array, Array, Array]:
    """Leading singular triplets."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    return U[:, :r], s[:r], Vt[:r].T


def bound_checks(size: Size, seed: Any) -> Measured:
    """One data set of each model: errors of the proxy and of the embeddings beside their bounds."""
    n, m = size.width, size.rows
    found: Measured = {}
    for model, make, c in (
        ("bilinear", make_bilinear, bounds.bilinear(RANK)),
        ("RBF", make_rbf, bounds.rbf(RANK)),
    ):
        X, y, blocks, truth = make(m, n, RANK, rng=np.random.default_rng(seed))
        U, V = truth["a"], truth["b"]
        X0 = proxy(X[:, blocks["a"]], y, X[:, blocks["b"]])
        mean = c.q * U @ V.T
        Uh, s, Vh = top(X0, RANK)
        off = X0 - mean
        fitted = np.linalg.norm((Uh * s) @ Vh.T - mean)
        distance = max(subspace_distance(U, Uh), subspace_distance(V, Vh))
        sigma = np.linalg.svd(off, compute_uv=False)
        polar = float(np.linalg.norm(sigma[: 2 * RANK]))
        found |= {
            ("mean of the proxy", model): (float(np.trace(U.T @ X0 @ V)) / RANK, c.q),
            ("variance of the proxy", model): (float(np.sum(off**2)), bounds.theorem_one(c, n, n, m)),
            ("Lemma 4", model): (distance, float(fitted) / c.q),
            ("Lemma 6", model): (float(fitted), 2 * polar),
            ("Lemma 7", model): (
                polar,
                min(float(np.linalg.norm(off)), float(np.sqrt(2 * RANK) * sigma[0])),
            ),
        }
        if model == "bilinear":
            found["error of the embeddings", model] = distance, bounds.bilinear_error(c, n, n, m)
            found["error under light tails", model] = float(fitted), bounds.light_tail_error(c, n, n, m)
            large, rate = bounds.light_tails(c)
            t = float(np.log(2 * large * m) / (rate * np.log(m)))  # the bound of Lemma 9 is then 1/2
            found["Lemma 9", model] = float(np.abs(y).max() > t * np.log(m)), large * m ** (1 - rate * t)
            u = np.random.default_rng(seed).standard_normal((200, n))
            weights = y[:200] ** 2
            found["Lemma 13", model] = (
                float(np.sqrt(weights @ u**2).max()),
                float(np.sqrt((3 * np.log(n) + 2) * weights.sum())),
            )
    return found | selection_check(size, seed) | threshold_checks(seed) | constant_checks(seed)


def constant_checks(seed: Any) -> Measured:
    """The constants of the bilinear link, by drawing from it."""
    rng, c = np.random.default_rng(seed), bounds.bilinear(RANK)
    u, v = rng.standard_normal((2, 50_000, RANK))
    f, u2, v2 = np.sum(u * v, axis=1), np.sum(u**2, axis=1), np.sum(v**2, axis=1)
    drawn = {
        "sigma^2": (np.mean(f**2 * u2 * v2) - RANK, c.sigma2),
        "tau_0^2": (np.mean(f**2), c.tau02),
        "tau_1^2": (np.mean(f**2 * u2), c.tau12),
        "tau_2^2": (np.mean(f**2 * v2), c.tau12),
    }
    return {("constants", name): (float(value), formula) for name, (value, formula) in drawn.items()}


def selection_check(size: Size, seed: Any) -> Measured:
    """The thinned proxy beside its bound."""
    n, m, s = size.width, size.rows, size.active
    c = bounds.bilinear(RANK)
    X, y, blocks, truth = make_bilinear(m, n, RANK, n_active=s, rng=np.random.default_rng(seed))
    X0 = proxy(X[:, blocks["a"]], y, X[:, blocks["b"]])
    columns = sparse_proxy(X0, s, s)[2]
    X2 = np.zeros_like(X0)
    X2[:, columns] = keep_largest_in_columns(X0, s)[:, columns]
    off = float(np.linalg.norm(X2 - truth["a"] @ truth["b"].T))
    return {("error after selection", "bilinear"): (off, bounds.selection_error(c, n, n, s, s, m))}


def threshold_checks(seed: Any) -> Measured:
    """Rank and active columns by counting above eta/2, where the proxy is within eta/3 of its mean."""
    n, s, m = 10, 4, 100_000
    rng = np.random.default_rng(seed)
    u = np.zeros(n)
    u[:s] = 1 / np.sqrt(
        s
    )  # r = 1: all entries of X on its support are eta = 1/s, and the singular value is 1
    a, b = rng.standard_normal((m, n)), rng.standard_normal((m, n))
    y = (a @ u) * (b @ u) + rng.standard_normal(m)
    eta, blocks = 1 / s, {"a": slice(0, n), "b": slice(n, 2 * n)}
    model = JointReduction(
        "threshold",
        blocks=blocks,
        whiten="diagonal",
        moments="joint",
        n_selected="threshold",
        eta=eta,
        mean=dict.fromkeys(blocks, np.zeros(n)),
        covariance=dict.fromkeys(blocks, np.eye(n)),
        n_groups=None,
    ).fit(np.hstack([a, b]), y)
    kept = all(
        np.array_equal(columns, blocks[name].start + np.arange(s))
        for name, columns in model.selected_.items()
    )
    return {
        ("premise of eta/2", "bilinear"): (float(np.linalg.norm(proxy(a, y, b) - np.outer(u, u))), eta / 3),
        ("rank by eta/2", "bilinear"): (float(model.n_components_ == 1), 1.0),
        ("active columns by eta/2", "bilinear"): (float(kept), 1.0),
    }


# ---------------------------------------------------------------------- variants on the same data


def _joint(X: Array, y: Array, blocks: Any, rank: int, **params: Any) -> Any:
    given = {"moments": "joint", "n_groups": None, **params}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeavyTailWarning)  # one response is heavy-tailed on purpose
        return JointReduction(rank, blocks=blocks, **given).fit(X, y).loadings_


SOLVERS: dict[str, dict[str, Any]] = {
    "Algorithm 1": {"solver": "exact"},
    "Algorithm 2, printed": {"solver": "randomized", "n_power": 0},
    "Algorithm 2, two power iterations": {"solver": "randomized", "n_power": 2},
    "CountSketch, printed": {"solver": "countsketch", "n_power": 0},
    "CountSketch, two power iterations": {"solver": "countsketch", "n_power": 2},
}


def variant_checks(size: Size, seed: Any) -> Measured:
    """Errors of variants that the papers speak of, each on one data set for all of its variants."""
    n, m = size.fast
    X, y, blocks, truth = make_bilinear(m, n, RANK, rng=np.random.default_rng(seed))
    found: Measured = {
        ("fast algorithms", name): (
            nsee(truth, _joint(X, y, blocks, RANK, whiten="diagonal", random_state=0, **params)),
            None,
        )
        for name, params in SOLVERS.items()
    }
    X, y, blocks, truth = make_bilinear(size.rows, size.width, RANK, rng=np.random.default_rng(seed))
    heavy = np.sign(y) * np.expm1(np.abs(y))
    for name, response in (("as it is", None), ("ranks", "rank")):
        found["heavy-tailed response", name] = (
            nsee(truth, _joint(X, heavy, blocks, RANK, whiten=None, response=response)),
            None,
        )
    return found | known_moments(size, seed)


def known_moments(size: Size, seed: Any) -> Measured:
    """Correlated columns with a mean: whitened by the true or by the sample's mean and covariance."""
    rng = np.random.default_rng(seed)
    Z, y, blocks, inner = make_bilinear(size.rows, size.width, RANK, rng=rng)
    n = size.width
    Sigma = 0.5 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    C = np.linalg.cholesky(Sigma)
    X = np.hstack([Z[:, columns] @ C.T + 1.0 for columns in blocks.values()])
    truth = {name: np.linalg.solve(C.T, U) for name, U in inner.items()}
    law = {"mean": dict.fromkeys(blocks, np.ones(n)), "covariance": dict.fromkeys(blocks, Sigma)}
    known = _joint(X, y, blocks, RANK, whiten="full", **law)
    sample = _joint(X, y, blocks, RANK, whiten="full")
    return {
        ("normalisation", "known mean and covariance"): (nsee(truth, known), None),
        ("normalisation", "of the sample"): (nsee(truth, sample), None),
    }


# ---------------------------------------------------------------------- exponents


def extension_errors(rows: int, seed: Any) -> dict[str, float]:
    """Three blocks by HOSVD, and two responses, on one data set each."""
    n, r = 8, 2
    rng = np.random.default_rng(seed)
    loadings = {name: np.linalg.qr(rng.standard_normal((n, r)))[0] for name in "abc"}
    parts = {name: rng.standard_normal((rows, n)) for name in "abc"}
    u, v, w = (parts[name] @ loadings[name] for name in "abc")
    blocks = {name: slice(i * n, (i + 1) * n) for i, name in enumerate("abc")}
    X = np.hstack(list(parts.values()))
    y = np.sum(u * v * w, axis=1) + rng.standard_normal(rows)
    both = np.column_stack([u[:, 0] * v[:, 0], u[:, 1] * v[:, 1]]) + rng.standard_normal((rows, 2))
    pair = {name: blocks[name] for name in "ab"}
    return {
        "three blocks": nsee(loadings, _joint(X, y, blocks, r, moments="tensor")),
        "two responses": nsee({name: loadings[name] for name in "ab"}, _joint(X[:, : 2 * n], both, pair, r)),
    }


def extension_rows(size: Size, errors: dict[int, dict[str, list[float]]]) -> list[Row]:
    """Exponents in the rows of the extensions."""
    found = []
    for name in errors[size.doubling[0]]:
        values = [np.array(errors[m][name]) for m in size.doubling]
        mean, se = ([f(v) for v in values] for f in (np.mean, standard_error))
        slope, error = power_slope(size.doubling, mean), slope_error(size.doubling, mean, se)
        found.append(_row("exponent in the rows", name, slope, error, None, len(values[0])))
    return found


def cpu_rows(size: Size) -> list[Row]:
    """Exponents of CPU time in rows and columns, best of three."""
    (few, many), (narrow, wide) = size.clock
    found = []
    timed: dict[str, dict[str, Any]] = {
        "Algorithm 1": {"solver": "exact", "whiten": "full"},
        "Algorithm 2": {"solver": "randomized", "whiten": "diagonal", "n_power": 0},
        "CountSketch": {"solver": "countsketch", "whiten": "diagonal", "n_power": 0},
    }
    for name, params in timed.items():
        for check, places in (
            ("CPU exponent in rows", ((few, narrow), (many, narrow))),
            ("CPU exponent in columns", ((few, narrow), (few, wide))),
        ):
            seconds = [_seconds(m, n, params) for m, n in places]
            x = [m * n for m, n in places]
            found.append(_row(check, name, power_slope(x, seconds), 0.0, None, 3))
    return found


def _seconds(m: int, n: int, params: dict[str, Any]) -> float:
    X, y, blocks, _ = make_bilinear(m, n, RANK, rng=0)
    return cpu_seconds(partial(_joint, X, y, blocks, RANK, random_state=0, **params), 3)


# ---------------------------------------------------------------------- the run


def _row(check: str, model: str, value: float, se: float, bound: float | None, repetitions: int) -> Row:
    scale = float("nan") if bound is None else 1 / bound
    row: Row = {"check": check, "model": model, "value": float(value), "se": float(se)}
    row |= {"bound": float("nan") if bound is None else float(bound)}
    return {**row, "ratio": value * scale, "ratio_se": se * scale, "repetitions": repetitions}


#: Statements of every data set, not of the mean: the worst repetition is shown.
WORST = ("Lemma 4", "Lemma 6", "Lemma 7", "premise of eta/2")


def summarise(found: list[Measured]) -> list[Row]:
    """One row a statement: mean over repetitions, or the repetition nearest to its bound."""
    rows = []
    for check, model in found[0]:
        values = np.array([one[check, model][0] for one in found])
        limits = [one[check, model][1] for one in found]
        if limits[0] is None:
            rows.append(_row(check, model, values.mean(), standard_error(values), None, len(values)))
            continue
        limit = np.array(limits, dtype=float)
        if check in WORST:
            i = int(np.argmax(values / limit))
            rows.append(_row(check, model, values[i], 0.0, limit[i], len(values)))
        else:
            rows.append(_row(check, model, values.mean(), standard_error(values), limit.mean(), len(values)))
    return rows


def _steps(size: Size, rng: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Independent pieces of work."""
    kinds = np.random.SeedSequence(rng).spawn(3)
    for seed in kinds[0].spawn(size.repetitions):
        yield "bounds", partial(bound_checks, size, seed)
    for seed in kinds[1].spawn(max(2, size.repetitions // 4)):
        yield "variants", partial(variant_checks, size, seed)
    for m, place in zip(size.doubling, kinds[2].spawn(2), strict=True):
        for seed in place.spawn(size.repetitions):
            yield f"extensions {m}", partial(extension_errors, m, seed)


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every statement."""
    size = SIZES[quick]
    steps = list(_steps(size, rng))
    table: dict[str, list[Any]] = {}
    with working(len(steps), "jdr-theory", progress) as advance:
        for kind, step in steps:
            table.setdefault(kind, []).append(step())
            advance()
        clock = cpu_rows(size)
    errors = {
        m: {name: [one[name] for one in table[f"extensions {m}"]] for name in table[f"extensions {m}"][0]}
        for m in size.doubling
    }
    rows = summarise(table["bounds"]) + summarise(table["variants"]) + extension_rows(size, errors) + clock
    title = "Papers 000 and 002: theorems and remarks"
    summary = [
        {**stated(row), "bound": "" if np.isnan(row["bound"]) else f"{row['bound']:.4g}"} for row in rows
    ]
    what = f"{size.repetitions} repetitions, n = {size.width}, {size.rows:,} rows; fast algorithms n = {size.fast[0]}, {size.fast[1]:,} rows"
    return write(Result("jdr-theory", title, rows, summary, (), lambda: draw(title, rows), size=what), out)


def draw(title: str, rows: list[Row]) -> Any:
    """Values relative to their bounds, and errors of the variants."""
    figure, ((left, right),) = opened(title, 1, 2, (11, 4.6))
    bound = [row for row in rows if row["ratio"] > 0]
    bars(left, bound, "ratio", "value relative to the paper's (dotted: 1)", COLOURS[0])
    left.axvline(1.0, color=ink(), linestyle=":", linewidth=1.2)
    left.set_xscale("log")
    others = [row for row in rows if np.isnan(row["bound"]) and "exponent" not in row["check"]]
    bars(right, others, "value", "NSEE", COLOURS[1], errors=True)
    return figure
