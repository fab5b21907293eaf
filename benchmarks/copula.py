"""Copula imputer: errors, coverage, rank, time and memory beside gcimpute and other imputers, on one thread.

python benchmarks/copula.py [--quick] [--seeds 20] [--only accuracy rivals ratings tables ranks]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _imputers import GCImpute, check, rivals, rounded
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from colspace import CopulaImputer
from colspace.datasets import COPULA_SETTINGS, RatingsData, make_copula, make_ratings
from colspace.experiments._copula_sim import error_curve, imputation_error, oracle, to_levels
from colspace.experiments._core import power_slope
from colspace.metrics import calibration_error, coverage, smae

Array = NDArray[np.float64]
FIRST_SEED = 1001
LEVELS = (0.8, 0.95, 0.99)
SHARES = (1.0, 0.5, 0.25, 0.1)
#: error on the most reliable 100, 50, 25 and 10 % that the authors report
AUTHORS = {
    "continuous, low rank": (0.347, 0.266, 0.221, 0.189),
    "continuous, high rank": (0.517, 0.486, 0.482, 0.482),
    "ordinal, high SNR": (0.357, 0.127, 0.029, 0.001),
    "ordinal, low SNR": (0.788, 0.582, 0.414, 0.243),
    "binary, high SNR": (0.103, 0.004, 0.0, 0.0),
    "binary, low SNR": (0.205, 0.075, 0.029, 0.010),
}
#: goals for the error of transform, the error of mean, and how many times faster than gcimpute
GOALS: dict[str, tuple[float, float | None, float]] = {
    "continuous, low rank": (0.342, 0.340, 2.5),
    "continuous, high rank": (0.470, 0.465, 2.5),
    "ordinal, high SNR": (0.354, None, 6.0),
    "ordinal, low SNR": (0.790, None, 6.0),
    "binary, high SNR": (0.1025, None, 6.0),
    "binary, low SNR": (0.2065, None, 6.0),
}
GOALS_OF_TABLES = {"gss2014.parquet": 0.885, "winequality_white.parquet": 0.725}


def cpu(f: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    value = f()
    return value, time.process_time() - start


def filled_by(model: CopulaImputer, X: Any) -> Array:
    return np.asarray(model.fit(X).transform(X))


def one_table(name: str, seed: int) -> dict[str, Any]:
    """Everything that is measured on one simulated table."""
    setting = COPULA_SETTINGS[name]
    rank = setting["n_components"]
    X, complete, truth = make_copula(**setting, rng=seed)
    mask = np.isnan(X)
    ours, fixed, paper = (
        CopulaImputer(random_state=0),
        CopulaImputer(rank, random_state=0),
        CopulaImputer(rank, method="paper", random_state=0),
    )
    peer = GCImpute(rank)
    found: dict[str, Any] = {}
    fills: dict[str, Array] = {}
    for label, f in {
        "ours": lambda: filled_by(ours, X),
        "ours, given rank": lambda: filled_by(fixed, X),
        "paper": lambda: filled_by(paper, X),
        "gcimpute": lambda: peer.fit_transform(X),
    }.items():
        fills[label], found[f"seconds {label}"] = cpu(f)
        found[f"error {label}"] = imputation_error(name, complete, fills[label], mask)
    found["rank"], found["iterations"] = ours.n_components_, ours.n_iter_
    found["cells"] = int(mask.sum())
    iteration = cpu(lambda: fixed.fit(X))[1] / fixed.n_iter_
    found["first question in iterations"] = cpu(lambda: fixed.transform(X))[1] / iteration
    found["interval in iterations"] = cpu(lambda: fixed.interval(X))[1] / iteration
    found["reliability in iterations"] = cpu(lambda: fixed.reliability(X))[1] / iteration
    reliability = ours.reliability(X)
    found["curve"] = error_curve(name, complete, fills["ours"], np.asarray(reliability), mask, SHARES)
    if name.startswith("continuous"):
        found["error oracle"] = imputation_error(name, complete, oracle(X, truth), mask)
        found["error mean"] = imputation_error(name, complete, np.asarray(ours.mean(X)), mask)
        for level in LEVELS:
            lower, upper = ours.interval(X, level=level)
            found[f"coverage {level}"] = coverage(lower, upper, complete, mask)
            found[f"coverage of gcimpute {level}"] = coverage(*peer.interval(level), complete, mask)
    else:
        probability = np.asarray(ours.probability_within(X, 0))[mask]
        found["probability"] = probability
        found["right"] = (fills["ours"] == complete)[mask]
    return found


def mean_of(runs: list[dict[str, Any]], key: str) -> float:
    return float(np.mean([run[key] for run in runs]))


def spread_of(runs: list[dict[str, Any]], key: str) -> float:
    values = [run[key] for run in runs]
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def verdict(good: bool) -> str:
    return "ok" if good else "MISS"


def accuracy(seeds: list[int]) -> None:
    runs = {}
    for name in COPULA_SETTINGS:
        runs[name] = [one_table(name, seed) for seed in seeds]
        print(f"  {name}: {len(seeds)} tables", file=sys.stderr, flush=True)
    print(f"\nError on missing cells (NRMSE / MAE), n=500, p=200, seeds {seeds[0]}-{seeds[-1]}")
    labels = ("ours", "mean", "ours, given rank", "paper", "gcimpute", "oracle")
    print(f"{'setting':22} " + " ".join(f"{label:>16}" for label in labels) + "   goal   paper/gcimpute")
    for name, found in runs.items():
        cells = [
            f"{mean_of(found, f'error {label}'):9.4f} ±{spread_of(found, f'error {label}'):.4f}"
            if f"error {label}" in found[0]
            else f"{'':>17}"
            for label in labels
        ]
        goal, goal_mean, _ = GOALS[name]
        good = mean_of(found, "error ours") <= goal
        if goal_mean is not None:
            good &= mean_of(found, "error mean") <= goal_mean
        ratio = mean_of(found, "error paper") / mean_of(found, "error gcimpute")
        text = f"{goal:g}" + ("" if goal_mean is None else f"/{goal_mean:g}")
        print(f"{name:22} " + " ".join(cells) + f"   {text:>11} {verdict(good)}   {ratio:.4f}")

    print("\nCoverage of intervals: ours ± standard error over tables, [99 % binomial band], gcimpute")
    for name, found in runs.items():
        if not name.startswith("continuous"):
            continue
        total = sum(run["cells"] for run in found)
        for level in LEVELS:
            value = mean_of(found, f"coverage {level}")
            band = 2.576 * np.sqrt(level * (1 - level) / total)
            print(
                f"{name:22} {level:.0%}: {value:.4f} ±{spread_of(found, f'coverage {level}'):.4f} "
                f"[{level - band:.4f}, {level + band:.4f}]  gcimpute {mean_of(found, f'coverage of gcimpute {level}'):.4f}"
            )

    print("\nCalibration of the probability that the filled level is right (goal: under .01)")
    for name, found in runs.items():
        if name.startswith("continuous"):
            continue
        p, right = (np.concatenate([run[key] for run in found]) for key in ("probability", "right"))
        error = calibration_error(p, right)
        print(
            f"{name:22} ECE {error:.4f} {verdict(error < 0.01)}   mean probability {p.mean():.4f}, right {right.mean():.4f}"
        )

    print("\nRank found by itself (goal: at least 95 % of all runs)")
    exact = 0
    for name, found in runs.items():
        ranks = [run["rank"] for run in found]
        good = sum(rank == COPULA_SETTINGS[name]["n_components"] for rank in ranks)
        exact += good
        others = sorted({rank for rank in ranks if rank != COPULA_SETTINGS[name]["n_components"]})
        print(f"{name:22} {good} of {len(ranks)}" + (f", else {others}" if others else ""))
    total = sum(map(len, runs.values()))
    print(f"{'all':22} {exact} of {total} {verdict(exact >= 0.95 * total)}")

    print("\nError on the most reliable 100 / 50 / 25 / 10 %, the authors' beside (goal: at most .01 more)")
    for name, found in runs.items():
        curve = np.mean([run["curve"] for run in found], axis=0)
        good = bool(np.all(curve[1:] <= np.array(AUTHORS[name][1:]) + 0.01))
        print(
            f"{name:22} "
            + " ".join(f"{value:.3f}" for value in curve)
            + "   authors "
            + " ".join(f"{value:.3f}" for value in AUTHORS[name])
            + f"  {verdict(good)}"
        )

    print("\nCPU seconds of fit and transform on one thread, ratio to gcimpute at the same rank")
    print(
        f"{'setting':22} {'gcimpute':>9} {'given rank':>11} {'ratio':>6} {'auto':>7} {'ratio':>6} {'goal':>5}  "
        f"{'paper':>6} {'ratio':>6}  iterations | in iterations: transform, then interval, reliability (goal of these: 1.5)"
    )
    for name, found in runs.items():
        peer, given, auto, paper = (
            float(np.median([run[f"seconds {label}"] for run in found]))
            for label in ("gcimpute", "ours, given rank", "ours", "paper")
        )
        goal_of_speed = GOALS[name][2]
        interval = mean_of(found, "interval in iterations")
        print(
            f"{name:22} {peer:9.2f} {given:11.2f} {peer / given:6.1f} {auto:7.2f} {peer / auto:6.1f} {goal_of_speed:5.1f} "
            f"{verdict(peer / given >= goal_of_speed):4} {paper:5.2f} {peer / paper:6.1f}  {mean_of(found, 'iterations'):10.1f}  "
            f"| {mean_of(found, 'first question in iterations'):8.2f} {interval:8.2f} {mean_of(found, 'reliability in iterations'):8.2f}"
        )
    sys.stdout.flush()


def beside_rivals(seeds: list[int]) -> None:
    print(
        f"\nError and CPU seconds beside other imputers, given the true rank, {len(seeds)} table(s) a setting"
    )
    for name, setting in COPULA_SETTINGS.items():
        errors: dict[str, list[float]] = {}
        seconds: dict[str, list[float]] = {}
        for seed in seeds:
            X, complete, _ = make_copula(**setting, rng=seed)
            mask = np.isnan(X)
            runs = {"ours": lambda X=X: filled_by(CopulaImputer(random_state=0), X)}
            runs |= {r.name: lambda X=X, r=r: r.fit_transform(X) for r in rivals(setting["n_components"])}
            for label, f in runs.items():
                filled, spent = cpu(f)
                filled = to_levels(name, filled, X)
                errors.setdefault(label, []).append(imputation_error(name, complete, filled, mask))
                seconds.setdefault(label, []).append(spent)
        print(
            f"{name:22} "
            + "  ".join(
                f"{label} {np.mean(errors[label]):.4f} ({np.mean(seconds[label]):.1f} s)" for label in errors
            ),
            flush=True,
        )


def held_out_errors(model: CopulaImputer, data: RatingsData, chunk: int = 1000) -> tuple[float, float]:
    """MAE of transform and RMSE of mean on the held-out ratings."""
    absolute = squared = 0.0
    for start in range(0, data.X.shape[0], chunk):
        here = (data.rows >= start) & (data.rows < start + chunk)
        rows, columns, true = data.rows[here] - start, data.columns[here], data.values[here]
        part = data.X[start : start + chunk]
        absolute += float(np.abs(np.asarray(model.transform(part))[rows, columns] - true).sum())
        squared += float(((np.asarray(model.mean(part))[rows, columns] - true) ** 2).sum())
    return absolute / len(data.values), float(np.sqrt(squared / len(data.values)))


def ratings_worker(which: str, size: tuple[int, int], rank: int) -> None:
    """Fit one imputer in a process of its own, so that its peak memory is its own; print JSON."""
    data = make_ratings(*size, rng=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found: dict[str, Any] = {"nnz": int(data.X.nnz)}
    if which == "gcimpute":
        X = np.full(data.X.shape, np.nan)
        rows = np.repeat(np.arange(size[0]), np.diff(data.X.indptr))
        X[rows, data.X.indices] = data.X.data
        peer = GCImpute(rank)
        filled, found["seconds"] = cpu(lambda: peer.fit_transform(X))
        assert peer.model is not None
        found["iterations"] = int(peer.model._iter)
        error = filled[data.rows, data.columns] - data.values
        found["mae"], found["rmse"] = float(np.abs(error).mean()), float(np.sqrt(np.mean(error**2)))
    else:
        n_components = "auto" if which == "auto" else rank
        method = "paper" if which == "paper" else "ep"
        model = CopulaImputer(n_components, method=method, random_state=0)
        if which == "fixed":  # as many iterations whatever the size
            model.set_params(tol=1e-12, max_iter=10)
        _, found["seconds"] = cpu(lambda: model.fit(data.X))
        found["iterations"], found["rank"] = int(model.n_iter_), int(model.n_components_)
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found["before"] = before
    if which in ("ours", "auto", "paper"):
        found["mae"], found["rmse"] = held_out_errors(model, data)
        part = data.X[:1000]
        share = part.nnz / data.X.nnz
        iteration = found["seconds"] / model.n_iter_
        for name, f in {
            "interval": lambda: model.interval(part, level=0.95),
            "reliability": lambda: model.reliability(part),
        }.items():
            found[name] = cpu(f)[1] / share / iteration
    print(json.dumps(found))


def in_worker(which: str, size: tuple[int, int], rank: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker", which, str(size[0]), str(size[1]), str(rank)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ))
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ratings(quick: bool) -> None:
    size, rank = ((1500, 800), 10) if quick else ((6040, 2514), 10)
    print(
        f"\nRatings {size[0]} x {size[1]}, 6.4 % observed, rank {rank} (goal: 10 times faster to fit, under 600 MB)"
    )
    print(
        f"{'':10} {'CPU s':>7} {'ratio':>6} {'iterations':>10} {'peak MB':>8} {'at start':>8} {'MAE':>7} {'RMSE':>7}  interval, reliability"
    )
    peer = in_worker("gcimpute", size, rank)
    for which in ("gcimpute", "ours", "auto", "paper"):
        found = peer if which == "gcimpute" else in_worker(which, size, rank)
        extra = (
            f"{found['interval']:.2f} {found['reliability']:.2f} iterations, rank {found['rank']}"
            if "interval" in found
            else ""
        )
        print(
            f"{which:10} {found['seconds']:7.1f} {peer['seconds'] / found['seconds']:6.1f} {found['iterations']:10d} "
            f"{found['peak']:8.0f} {found['before']:8.0f} {found['mae']:7.4f} {found['rmse']:7.4f}  {extra}",
            flush=True,
        )
    print("\nTime over observed cells, rank 10, users thinned")
    cells, each = [], []
    for scale in (0.25, 0.5, 0.75, 1.0):
        part = (int(size[0] * scale), size[1])
        found = in_worker("fixed", part, rank)
        cells.append(found["nnz"])
        each.append(found["seconds"] / found["iterations"])
        print(
            f"{found['nnz']:9d} cells: {found['seconds']:6.1f} s, {found['iterations']:3d} iterations, {each[-1]:.3f} s each",
            flush=True,
        )
    print(f"slope of the time of an iteration in cells: {power_slope(cells, each):+.2f} (linear: +1)")


def tables() -> None:
    folder = os.environ.get("COLSPACE_DATA")
    if not folder:
        print(
            "\nReal tables: COLSPACE_DATA is not set, so gss2014.parquet and winequality_white.parquet are left out"
        )
        return
    import pandas as pd

    print("\nReal tables, 20 % of the known cells masked, 3 masks: mean SMAE (CPU s), rank 5 unless said")
    for file, goal in GOALS_OF_TABLES.items():
        path = Path(folder).expanduser() / file
        if not path.is_file():
            print(f"{file}: {path} does not exist")
            continue
        frame = pd.read_parquet(path)
        table = frame.astype("Float64").to_numpy(dtype=float, na_value=np.nan)
        errors: dict[str, list[float]] = {}
        seconds: dict[str, list[float]] = {}
        ranks = []
        for seed in range(3):
            hidden = np.random.default_rng(seed).random(table.shape) < 0.2
            X = np.where(hidden, np.nan, table)
            ours = CopulaImputer(random_state=0)
            runs = {"ours, auto": lambda X=X, m=ours: filled_by(m, X)}
            runs["ours, rank 5"] = lambda X=X: filled_by(CopulaImputer(5, random_state=0), X)
            runs["paper, rank 5"] = lambda X=X: filled_by(CopulaImputer(5, method="paper", random_state=0), X)
            runs |= {f"{r.name}": lambda X=X, r=r: r.fit_transform(X) for r in rivals(5)}
            for label, f in runs.items():
                filled, spent = cpu(f)
                errors.setdefault(label, []).append(smae(table, rounded(filled, X), X))
                seconds.setdefault(label, []).append(spent)
            ranks.append(ours.n_components_)
        good = float(np.mean(errors["ours, auto"])) <= goal
        print(f"{file} {table.shape}, ranks {ranks}, goal {goal} {verdict(good)}")
        for label, values in errors.items():
            print(f"  {label:18} {np.mean(values):.4f} ({np.mean(seconds[label]):.1f} s)", flush=True)


def pictures() -> dict[str, Array]:
    """Tables whose strengths go on into the noise: digits, and views of mfeat where COLSPACE_DATA has them."""
    from sklearn.datasets import load_digits

    found = {"digits": load_digits().data}
    path = Path(os.environ.get("COLSPACE_DATA", "")) / "mfeat.npz"
    if path.is_file():
        stored = np.load(path)
        found |= {f"mfeat {view}": stored[view].astype(float) for view in ("fac", "fou", "kar", "pix", "zer")}
    return found


def ranks(quick: bool) -> None:
    print(
        "\n20,000 x 30 of four factors: rank found, CPU s and iterations of the fit, beside those at the given rank"
    )
    for seed in range(2 if quick else 6):
        X = make_copula(20_000, 30, 4, rng=seed).X
        ours, fixed = CopulaImputer(random_state=0), CopulaImputer(4, random_state=0)
        both = [cpu(lambda m=m, X=X: m.fit(X))[1] for m in (ours, fixed)]
        print(
            f"  {ours.rank_}: {both[0]:.2f} s, {ours.n_iter_} iterations; {both[1]:.2f} s, {fixed.n_iter_}",
            flush=True,
        )
    print("Pictures, 30 % of the cells hidden, nonlinear=False: mean SMAE by the number of factors (CPU s)")
    for name, table in pictures().items():
        X = np.where(np.random.default_rng(0).random(table.shape) < 0.3, np.nan, table)
        told = [np.mean(c[~np.isnan(c)] != np.nanmedian(c)) > 0.05 for c in X.T]  # columns that vary
        X, table = X[:, told], table[:, told]
        gone = np.isnan(X)
        parts = []
        for k in (
            "auto",
            *[k for k in ((16, 40) if quick else (16, 24, 32, 40, 50, 100)) if k < X.shape[1] - 1],
        ):
            model = CopulaImputer(k, nonlinear=False, random_state=0)
            filled, seconds = cpu(lambda m=model, X=X: filled_by(m, X))
            off = (np.abs(filled - table) * gone).sum(axis=0)
            scale = (np.abs(np.nanmedian(X, axis=0) - table) * gone).sum(axis=0)
            said = f"auto ({model.rank_}, {model.n_components_})" if k == "auto" else str(k)
            parts.append(f"{said} {np.mean(off[scale > 0] / scale[scale > 0]):.4f} ({seconds:.1f})")
        print(f"  {name} {X.shape}: {', '.join(parts)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three tables a setting, smaller ratings")
    parser.add_argument("--seeds", type=int, default=None, help="tables a setting (20)")
    sections = ("accuracy", "rivals", "ratings", "tables", "ranks")
    parser.add_argument("--only", nargs="+", choices=sections, default=sections)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if arguments.worker:
            which, n, p, rank = arguments.worker
            ratings_worker(which, (int(n), int(p)), int(rank))
            return
        check()
        count = arguments.seeds or (3 if arguments.quick else 20)
        seeds = list(range(FIRST_SEED, FIRST_SEED + count))
        if "accuracy" in arguments.only:
            accuracy(seeds)
        if "rivals" in arguments.only:
            beside_rivals(seeds[:1] if arguments.quick else seeds[:3])
        if "ratings" in arguments.only:
            ratings(arguments.quick)
        if "tables" in arguments.only:
            tables()
        if "ranks" in arguments.only:
            ranks(arguments.quick)


if __name__ == "__main__":
    main()
