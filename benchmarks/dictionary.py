"""Supervised dictionaries: time of a sweep in bare products with the data, and time to the optimum, on one thread.

python benchmarks/dictionary.py [--quick] [--only sweeps optimum rank]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from colspace.dictionary._bcd import solve_bcd
from colspace.dictionary._lbfgs import solve_eliminated, solve_jointly, start_nmf, start_svd
from colspace.dictionary._losses import one_hot
from colspace.dictionary._lpgd import solve_lpgd
from colspace.dictionary._objective import Problem, Solution, State, make_problem, objective
from colspace.dictionary._regions import NONNEGATIVE, Regions

Array = NDArray[np.float64]
WITHIN = 1e-3


@dataclass(frozen=True)
class Table:
    """Rows with labels and covariates, the rank that is fitted, and the goal for a sweep in bare products."""

    name: str
    X: Any
    Y: Array
    Z: Array | None
    rank: int
    goal: float

    def problem(self, model: Any) -> Problem:
        K = self.Y.shape[1]
        energy = float((self.X.multiply(self.X) if sparse.issparse(self.X) else np.square(self.X)).sum())
        xi = self.X.shape[0] * np.log(K + 1) / energy
        return make_problem(self.X, self.Y, self.Z, model=model, xi=xi, l2=1.0)


def labels(a: Array, rng: np.random.Generator) -> Array:
    return one_hot((rng.random(len(a)) < 1.0 / (1.0 + np.exp(-a))).astype(int), 2)


def images(n: int, rank: int, rng: np.random.Generator, goal: float = np.inf) -> Table:
    """Pictures of 28 x 28 from 20 blurred shapes and noise; labels from 20 other shapes seen in the noiseless pictures."""
    down, across = np.mgrid[:28, :28]
    centre, width = rng.uniform(7, 21, (40, 4, 2)), rng.uniform(1, 3, (40, 4, 2))
    shapes = np.exp(
        -(((across - centre[..., 0, None, None]) / width[..., 0, None, None]) ** 2)
        - ((down - centre[..., 1, None, None]) / width[..., 1, None, None]) ** 2
    )
    atoms = np.minimum(shapes.sum(axis=1), 1.0).reshape(40, 784)
    clean = rng.random((n, 20)) @ atoms[:20]
    a = clean @ atoms[20:].T @ np.repeat([1.0, -1.0], 10)
    X = clean + np.abs(rng.normal(0.0, 0.5, clean.shape))
    return Table(f"784 x {n}", X, labels(3 * (a - a.mean()) / a.std(), rng), None, rank, goal)


def text(n: int, p: int, rank: int, q: int, rng: np.random.Generator, goal: float = np.inf) -> Table:
    """TF-IDF of words from 20 topics, 2 % of the cells, with q binary covariates; labels from both."""
    topics, shares = rng.dirichlet(np.full(p, 0.05), size=20), rng.dirichlet(np.full(20, 0.15), size=n)
    common = 1.0 / (np.arange(p) + 20.0)
    words = 0.6 * shares @ topics + 0.4 * common / common.sum()
    X = sparse.csr_array(rng.poisson(0.0204 * p * words).astype(np.float64))
    seen = np.asarray((X > 0).sum(axis=0)).ravel()
    X = sparse.csr_array(X.multiply(np.log((1 + n) / (1 + seen)) + 1))
    size = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sparse.csr_array(sparse.diags_array(1 / np.maximum(size, 1e-12)) @ X)
    Z = (rng.random((n, q)) < rng.uniform(0.02, 0.5, q)).astype(np.float64)
    a = (
        4 * (shares[:, :5].sum(axis=1) - shares[:, 5:10].sum(axis=1))
        + Z[:, :10] @ rng.normal(0, 0.5, 10)
        - 1.5
    )
    return Table(f"{p} x {n} CSR, {X.nnz / n / p:.1%}", X, labels(a, rng), Z, rank, goal)


def typical(spent: Any) -> float:
    """The 20 % quantile: what it takes when nothing else disturbs."""
    return float(np.quantile(spent, 0.2))


def typical_time(f: Callable[[], Any], seconds: float = 0.5) -> float:
    spent: list[float] = []
    while len(spent) < 5 or sum(spent) < seconds:
        start = time.process_time()
        f()
        spent.append(time.process_time() - start)
    return typical(spent)


def bare_products(table: Table) -> float:
    """X W and X'H, once each."""
    rng = np.random.default_rng(0)
    n, p = table.X.shape
    W, H = rng.random((p, table.rank)), rng.random((n, table.rank))
    return typical_time(lambda: (table.X @ W, table.X.T @ H))


Solver = Callable[[Problem, State, bool, int, float, Callable[[], None]], Solution]
SOLVERS: dict[str, Solver] = {
    "bcd": lambda p, s, plus, most, tol, tick: solve_bcd(
        p, s, regions=NONNEGATIVE if plus else Regions(), radius=None, max_iter=most, tol=tol, tick=tick
    ),
    "bcd, 3 steps": lambda p, s, plus, most, tol, tick: solve_bcd(
        p,
        s,
        regions=NONNEGATIVE if plus else Regions(),
        radius=None,
        n_inner=3,
        max_iter=most,
        tol=tol,
        tick=tick,
    ),
    "lbfgs, no codes": lambda p, s, plus, most, tol, tick: solve_eliminated(
        p, s, positive=plus, max_iter=most, tol=tol, tick=tick
    ),
    "lbfgs": lambda p, s, plus, most, tol, tick: solve_jointly(
        p, s, positive=plus, max_iter=most, tol=tol, tick=tick
    ),
    "lpgd": lambda p, s, plus, most, tol, tick: solve_lpgd(p, s, max_iter=most, tol=tol, tick=tick),
}


def able(solver: str, model: str, positive: bool) -> bool:
    return not (solver == "lbfgs, no codes" and model == "feature") and not (solver == "lpgd" and positive)


def start_of(problem: Problem, rank: int, positive: bool) -> State:
    return (start_nmf if positive else start_svd)(problem, rank, np.random.default_rng(0))


def run(
    solver: str, problem: Problem, start: State, positive: bool, most: int, tol: float
) -> tuple[Array, Array]:
    """Objective after each iteration and the seconds until then, from the start on."""
    ticks = [time.process_time()]
    found = SOLVERS[solver](problem, start, positive, most, tol, lambda: ticks.append(time.process_time()))
    values = np.array(found.history[-(len(ticks) - 1) :])
    return np.r_[objective(problem, start), values], np.array(ticks) - ticks[0]


def nmf_sweep(table: Table) -> float:
    def fit(sweeps: int) -> float:
        start = time.process_time()
        NMF(table.rank, init="random", random_state=0, max_iter=sweeps, tol=0.0).fit(table.X)
        return time.process_time() - start

    fit(1)
    return typical([(fit(25) - fit(5)) / 20 for _ in range(5)])


def ssnmf_sweep(table: Table) -> float | None:
    """A multiplicative update of ssnmf on dense columns; None when it is not installed."""
    try:
        from ssnmf import SSNMF
    except ImportError:
        return None
    X = table.X.toarray() if sparse.issparse(table.X) else table.X
    Y = np.hstack([1.0 - table.Y.sum(axis=1, keepdims=True), table.Y])
    spent = []
    with contextlib.redirect_stdout(io.StringIO()):
        model = SSNMF(X.T.copy(), table.rank, Y=Y.T.copy(), lam=100.0, modelNum=3, tol=0.0)
        for _ in range(3):
            start = time.process_time()
            model.mult(numiters=2, saveerrs=False)
            spent.append((time.process_time() - start) / 2)
    return min(spent)


def verdict(good: bool) -> str:
    return "ok" if good else "MISSED"


def sweeps(tables: list[Table]) -> None:
    for table in tables:
        bare = bare_products(table)
        print(
            f"\n{table.name}, {table.rank} atoms: X W and X'H take {1e3 * bare:.2f} ms; an iteration in that unit"
        )
        for model in ("filter", "feature"):
            problem = table.problem(model)
            for positive in (False, True):
                start = start_of(problem, table.rank, positive)
                line = f"  {model:8}{'nonnegative' if positive else 'free':12}"
                for solver in SOLVERS:
                    if not able(solver, model, positive):
                        continue
                    most = 100 if bare < 1e-3 else 15
                    _, seconds = run(solver, problem, start, positive, most, 0.0)
                    ratio = typical(np.diff(seconds)) / bare
                    line += f"  {solver} {ratio:.1f}"
                    if solver == "bcd":
                        line += f" ({1e3 * ratio * bare:.2f} ms, goal {table.goal:g}: {verdict(ratio < table.goal)})"
                print(line, flush=True)
        nmf, peer = nmf_sweep(table), ssnmf_sweep(table)
        other = f"ssnmf {peer / bare:.1f}" if peer else "ssnmf is not installed (dependency group bench)"
        print(f"  scikit-learn's NMF {nmf / bare:.1f} ({1e3 * nmf:.2f} ms)   {other}", flush=True)


def optimum(tables: list[Table], most: int) -> None:
    print(
        f"\nSeconds until the objective is within {WITHIN:g} (and a tenth of it) of the best of all solvers"
    )
    for table in tables:
        for model in ("filter", "feature"):
            problem = table.problem(model)
            for positive in (False, True):
                began = time.process_time()
                start = start_of(problem, table.rank, positive)
                began = time.process_time() - began
                runs = {
                    solver: run(solver, problem, start, positive, most, 1e-9)
                    for solver in SOLVERS
                    if able(solver, model, positive)
                }
                best = min(values[-1] for values, _ in runs.values())
                kind = "nonnegative" if positive else "free"
                print(
                    f"{table.name}, {table.rank} atoms, {model}, {kind}: best {best:.6g}, start {began:.2f} s"
                )
                for solver, (values, seconds) in runs.items():
                    times = []
                    for gap in (WITHIN, WITHIN / 10):
                        there = np.flatnonzero(values <= best * (1 + gap))
                        times.append(f"{seconds[there[0]]:8.3f}" if len(there) else "   never")
                    print(
                        f"  {solver:16} {' '.join(times)}   last gap {values[-1] / best - 1:.0e} "
                        f"after {len(values) - 1} iterations, {seconds[-1]:.1f} s",
                        flush=True,
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer iterations")
    sections = ("sweeps", "optimum", "rank")
    parser.add_argument("--only", nargs="+", choices=sections, default=sections)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # fits are cut after a set number of iterations
    rng = np.random.default_rng(0)
    quick = arguments.quick
    tables = [
        images(400, 2, rng, goal=4.0),
        text(3000, 1000, 20, 72, rng) if quick else text(14304, 2480, 20, 72, rng, goal=2.5),
    ]
    with threadpool_limits(1):
        if "sweeps" in arguments.only:
            sweeps(tables)
        if "optimum" in arguments.only:
            optimum(tables[:1], 1000)
            optimum(tables[1:], 30 if quick else 100)
        if "rank" in arguments.only:
            optimum([images(1000 if quick else 5000, 20 if quick else 40, rng)], 30 if quick else 100)


if __name__ == "__main__":
    main()
