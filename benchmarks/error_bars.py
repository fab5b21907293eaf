"""Do the errors of directions tell the truth? Coverage of loadings and expected over true NSEE, on simulations.

    python benchmarks/error_bars.py [--quick] [--only NAME] [--law skewed] [--rows 1000] [--runs 160] [--first 1000]

For every estimator, 1,000, 4,000 and 16,000 rows, normal and skewed columns: the share of 95 % intervals (loading +-
t x error, K - 1 degrees of freedom) that hold the loading of the law, turned to the fit as the jackknife turns its
directions, and the root mean square of ``expected_error_`` over that of the error itself, both with their standard errors
over runs. What the estimator finds in a
million rows stands for the law where the columns are skewed, since SIR, SAVE and pHd then mean other directions
than those of the link; for the default of JointReduction, whose gradients come from 1,500 rows however many there are, the
mean of what it finds in 20 tables of 50,000 rows. Last, the expected error of a response that depends on nothing. One BLAS thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from threadpoolctl import threadpool_limits

from colspace import (
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    StructuredOLS,
)
from colspace.metrics import nsee

Array = NDArray[np.float64]
HALF = 10  # columns a block
TWO = {"a": slice(0, HALF), "b": slice(HALF, 2 * HALF)}


def columns(m: int, p: int, law: str, rng: np.random.Generator) -> Array:
    """Independent columns of mean zero and variance one."""
    return rng.standard_normal((m, p)) if law == "normal" else rng.exponential(size=(m, p)) - 1.0


def directions(p: int, r: int, active: int | None = None) -> Array:
    U = np.zeros((p, r))
    U[: active or p] = np.linalg.qr(np.random.default_rng(7).standard_normal((active or p, r)))[0]
    return U


def bilinear(X: Array, rng: np.random.Generator, active: int | None = None) -> Array:
    U = directions(HALF, 2, active)
    A, B = X[:, :HALF] @ U, X[:, HALF:] @ U
    return np.sum(A * B, axis=1) + 0.5 * rng.standard_normal(len(X))


def monotone(X: Array, rng: np.random.Generator) -> Array:
    u = X @ directions(X.shape[1], 2)
    return np.exp(0.7 * u[:, 0]) + np.tanh(u[:, 0] - 2 * u[:, 1]) + 0.3 * rng.standard_normal(len(X))


def quadratic(X: Array, rng: np.random.Generator) -> Array:
    u = X @ directions(X.shape[1], 2)
    return u[:, 0] ** 2 - u[:, 1] ** 2 + 0.5 * rng.standard_normal(len(X))


def two_regressions(X: Array, rng: np.random.Generator) -> Array:
    u = X @ directions(X.shape[1], 2)
    return u @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.7]]) + rng.standard_normal((len(X), 3))


def additive(X: Array, rng: np.random.Generator) -> Array:
    u, v = X[:, :HALF] @ directions(HALF, 1), X[:, HALF:] @ directions(HALF, 1)
    return (np.tanh(u) + v)[:, 0] + 0.5 * rng.standard_normal(len(X))


def curved(X: Array, rng: np.random.Generator) -> Array:
    u = X @ directions(X.shape[1], 2)
    return u[:, 0] + 0.5 * u[:, 1] ** 2 + 0.7 * rng.standard_normal(len(X))


@dataclass(frozen=True)
class Case:
    """An estimator, a response that it can find, and the number of columns."""

    model: Any
    response: Callable[..., Any]
    p: int = 2 * HALF


def cases() -> dict[str, Case]:
    sparse = {"blocks": TWO, "whiten": "diagonal", "n_selected": 4}
    return {
        "default, bilinear": Case(JointReduction(2, blocks=TWO), bilinear),
        "default, linear": Case(JointReduction(2), two_regressions, HALF),
        "default, additive": Case(JointReduction(1, blocks=TWO), additive),
        "default, quadratic": Case(JointReduction(2), quadratic, HALF),
        "default, curved": Case(JointReduction(2), curved, HALF),
        "JointReduction": Case(JointReduction(2, blocks=TWO, moments="all"), bilinear),
        "JointReduction, joint": Case(JointReduction(2, blocks=TWO, moments="joint"), bilinear),
        "JointReduction, selected": Case(
            JointReduction(2, moments="all", **sparse), lambda X, rng: bilinear(X, rng, 4)
        ),
        "SteinReduction": Case(SteinReduction(2), two_regressions, HALF),
        "SteinReduction, order 2": Case(SteinReduction(2, order=2), quadratic, HALF),
        "PrincipalHessian": Case(PrincipalHessian(2), quadratic, HALF),
        "SlicedInverse": Case(SlicedInverse(2), monotone, HALF),
        "SlicedAverage": Case(SlicedAverage(2, n_slices=5), quadratic, HALF),
        "StructuredOLS": Case(StructuredOLS(1, blocks=TWO), additive),
        "StructuredOLS, slices": Case(StructuredOLS(2, n_slices=4), monotone, HALF),
        "ReducedRank": Case(ReducedRank(2), two_regressions, HALF),
    }


def loadings(model: Any) -> dict[str, Array]:
    return model.loadings_ if hasattr(model, "loadings_") else {"x": model.components_.T}


def errors(model: Any) -> dict[str, Array]:
    return model.loadings_error_ if hasattr(model, "loadings_error_") else {"x": model.components_error_.T}


def expected(model: Any) -> dict[str, float]:
    found = model.expected_error_
    return found if isinstance(found, dict) else {"x": found}


def turned(truth: Array, L: Array) -> Array:
    U, _, Vt = np.linalg.svd(truth.T @ L)
    return truth @ (U @ Vt)


@dataclass(frozen=True)
class Verdict:
    """Per run (mean over blocks): share of loadings that are covered, squared true and squared expected NSEE."""

    held: Array
    true: Array
    claimed: Array

    def __str__(self) -> str:
        """Coverage, root mean squares of both NSEE, their ratio; standard errors from runs left out in turn."""
        n = len(self.held)
        root = [float(np.sqrt(np.mean(x))) for x in (self.true, self.claimed)]
        without = [(np.sum(x) - x) for x in (self.claimed, self.true)]
        ratios = np.sqrt(without[0] / without[1])
        errors = self.held.std(ddof=1) / np.sqrt(n), ratios.std() * np.sqrt(n - 1)
        return (
            f"{self.held.mean():6.3f} +- {errors[0]:.3f} {root[0]:6.3f} {root[1]:8.3f} "
            f"{root[1] / root[0]:6.2f} +- {errors[1]:.2f}"
        )


def judge(case: Case, law: str, m: int, runs: range, truth: dict[str, Array]) -> Verdict:
    """Errors and what is said of them in fits of m rows, one for each seed."""
    found = []
    for seed in runs:
        rng = np.random.default_rng([m, seed])
        X = columns(m, case.p, law, rng)
        model = case.model.fit(X, case.response(X, rng))
        t = stats.t.ppf(0.975, model.n_groups_ - 1)
        blocks = []
        for block, L in loadings(model).items():
            kept = np.abs(L).max(axis=1) > 0  # a column left out is left out
            off = np.abs(turned(truth[block], L) - L) <= t * errors(model)[block]
            blocks.append((off[kept].mean(), nsee(truth[block], L) ** 2, expected(model)[block] ** 2))
        found.append(np.mean(blocks, axis=0))
    return Verdict(*np.array(found).T)


def law_of(case: Case, law: str, rows: int) -> dict[str, Array]:
    """What the estimator means: its loadings in very many rows."""
    rng = np.random.default_rng(12345)
    if getattr(case.model, "moments", None) == "auto":
        products: dict[str, Any] = {}
        for _ in range(20):
            X = columns(rows // 20, case.p, law, rng)
            for block, L in loadings(case.model.fit(X, case.response(X, rng))).items():
                products[block] = products.get(block, 0.0) + L @ L.T / 20
        r = case.model.n_components
        found = {block: np.linalg.eigh(G) for block, G in products.items()}
        return {block: (U * np.sqrt(np.maximum(e, 0.0)))[:, -r:] for block, (e, U) in found.items()}
    X = columns(rows, case.p, law, rng)
    return loadings(case.model.fit(X, case.response(X, rng)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the runs")
    parser.add_argument("--only", default="", help="estimators whose name holds this")
    parser.add_argument("--law", choices=("normal", "skewed"), help="one law of the columns alone")
    parser.add_argument("--rows", type=int, choices=(1000, 4000, 16_000), help="one number of rows alone")
    parser.add_argument("--runs", type=int, help="runs of every cell, in place of 40, 40 and 20")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    runs = {1000: 40, 4000: 40, 16_000: 20}
    if options.quick:
        runs = {m: n // 5 for m, n in runs.items()}
    runs = {m: options.runs or n for m, n in runs.items() if options.rows in (None, m)}
    laws = [law for law in ("normal", "skewed") if options.law in (None, law)]
    warnings.simplefilter("ignore")
    start = time.process_time()
    with threadpool_limits(1):
        print(
            f"{'':26} {'columns':8} {'rows':>6} {'cover':>6} {'':8} {'true':>6} {'expected':>8} {'ratio':>6}"
        )
        for name, case in cases().items():
            if options.only not in name:
                continue
            for law in laws:
                truth = law_of(case, law, 200_000 if options.quick else 1_000_000)
                for m, n in runs.items():
                    verdict = judge(case, law, m, range(options.first, options.first + n), truth)
                    print(f"{name:26} {law:8} {m:6d} {verdict}", flush=True)
        if options.rows or options.law:
            return
        print("\nNo signal, 2,000 rows: mean expected NSEE, and its least over 20 runs")
        for name, case in cases().items():
            if options.only not in name:
                continue
            found = []
            for seed in range(20):
                rng = np.random.default_rng(seed)
                X = columns(2000, case.p, "normal", rng)
                q = np.shape(case.response(X[:2], rng))[1:]
                model = case.model.fit(X, rng.standard_normal((2000, *q)))
                found += list(expected(model).values())
            print(f"{name:26} {np.mean(found):6.3f} {min(found):6.3f}", flush=True)
    print(f"\n{time.process_time() - start:.0f} s")


if __name__ == "__main__":
    main()
