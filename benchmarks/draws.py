"""Are pooled intervals of completed tables valid? Coverage of 95 % intervals over simulated tables.

    python benchmarks/draws.py [--quick] [--replications 200] [--settings normal exp ...]

y on correlated normal columns, a quarter of the cells gone completely at random (mcar) or by what is seen in one complete
column (mar), 200 and 1,000 rows: coefficients of the regression and means of all columns, 10 draws, pooled with Barnard and Rubin's
degrees of freedom. Settings: ``normal`` (4 covariates); ``exp``, one of them kept as its exponential (the regression takes its
logarithm back, the mean is that of the exponential); ``binary``, one cut in two; ``nominal``, one of three words, which enter as two
indicators (those of the first word is left out); ``factors``, 11 covariates of two factors.
Beside IterativeImputer(sample_posterior=True), the factors' own draws, and complete tables. First, two surveys
joined, a level never seen beside its predictor, claimed against true probability. One BLAS thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from threadpoolctl import threadpool_limits

from colspace import CopulaImputer
from colspace.copula import pool

Array = NDArray[np.float64]
DRAWS, SETTINGS = 10, ("normal", "exp", "binary", "nominal", "factors")
SLOPES = np.array([1.0, -0.5, 0.5, 0.3])
EFFECTS = np.array([0.0, 0.8, -0.6])  # of the words


def make_table(setting: str, n: int, rng: np.random.Generator) -> Array:
    """Covariates and y, the last column."""
    if setting == "factors":
        W = np.random.default_rng(5).standard_normal((12, 2)) * 0.6
        return rng.standard_normal((n, 2)) @ W.T + 0.7 * rng.standard_normal((n, 12))
    R = np.full((4, 4), 0.4) + 0.6 * np.eye(4)
    Z = rng.standard_normal((n, 4)) @ np.linalg.cholesky(R).T
    if setting == "binary":
        Z[:, 0] = Z[:, 0] > 0.3
    y = Z @ SLOPES + rng.standard_normal(n)
    if setting == "nominal":
        word = (np.outer(Z[:, 0], [1.0, 0.0, -1.0]) + rng.gumbel(size=(n, 3))).argmax(axis=1)
        y += EFFECTS[word] - SLOPES[0] * Z[:, 0]
        Z[:, 0] = word
    if setting == "exp":
        Z[:, 1] = np.exp(Z[:, 1])
    return np.column_stack([Z, y])


def hide(X: Array, law: str, rng: np.random.Generator) -> Array:
    """A quarter of the cells gone; "mar": the more, the higher column 3, which stays."""
    if law == "mcar":
        return np.where(rng.random(X.shape) < 0.25, np.nan, X)
    guide = (X[:, 3] - X[:, 3].mean()) / X[:, 3].std()
    gone = rng.random(X.shape) < (1 / (1 + np.exp(1.4 - 1.5 * guide)))[:, None]
    gone[:, 3] = False
    return np.where(gone, np.nan, X)


def analyse(X: Array, setting: str) -> tuple[Array, Array]:
    """Slopes, then means, and their squared standard errors."""
    n = len(X)
    if setting == "nominal":
        X = indicators(X)
    A = np.column_stack([np.ones(n), X[:, :-1]])
    if setting == "exp":
        A[:, 2] = np.log(np.maximum(X[:, 1], 1e-3))
    inverse = np.linalg.inv(A.T @ A)
    b = inverse @ (A.T @ X[:, -1])
    rest = X[:, -1] - A @ b
    variance = np.diag(inverse) * (rest @ rest) / (n - A.shape[1])
    return np.append(b[1:], X.mean(axis=0)), np.append(variance[1:], X.var(axis=0, ddof=1) / n)


def indicators(X: Array) -> Array:
    """Codes of three words in the first column as two indicators, NaN where they are."""
    both = np.where(np.isnan(X[:, :1]), np.nan, X[:, :1] == [1.0, 2.0])
    return np.column_stack([both, X[:, 1:]])


def copula(correlation: str) -> Callable[[Array, int, str], list[Array]]:
    """Draws of the copula."""

    def draw(X: Array, seed: int, setting: str) -> list[Array]:
        kinds: Any = {0: "nominal"} if setting == "nominal" else "auto"
        model = CopulaImputer(correlation=correlation, kinds=kinds, random_state=0).fit(X)
        return model.sample(X, DRAWS, random_state=seed)

    return draw


def chained(X: Array, seed: int, setting: str) -> list[Array]:
    """Draws of chained regressions; words as indicators, the largest of which is on."""
    words = setting == "nominal"
    out = []
    for i in range(DRAWS):
        model = IterativeImputer(sample_posterior=True, random_state=seed * DRAWS + i)
        table = model.fit_transform(indicators(X) if words else X)
        if words:
            scores = np.column_stack([1.0 - table[:, :2].sum(axis=1), table[:, :2]])
            table = np.column_stack([scores.argmax(axis=1), table[:, 2:]])
        out.append(table)
    return out


METHODS: dict[str, Callable[[Array, int, str], list[Array]]] = {
    "CopulaImputer": copula("auto"),
    "  factors": copula("factors"),
    "IterativeImputer": chained,
}


def coverage(setting: str, n: int, law: str, replications: int) -> None:
    """One line per method."""
    truth = analyse(make_table(setting, 2_000_000, np.random.default_rng(99)), setting)[0]
    slopes = len(truth) // 2
    hits: dict[str, list[Array]] = {"complete": [], **{name: [] for name in METHODS}}
    seconds = dict.fromkeys(hits, 0.0)
    for seed in range(replications):
        rng = np.random.default_rng([seed, n])
        X = make_table(setting, n, rng)
        holes = hide(X, law, rng)
        df = n - slopes - 1
        estimate, variance = analyse(X, setting)
        hits["complete"].append(np.abs(estimate - truth) < stats.t.ppf(0.975, df) * np.sqrt(variance))
        for name, method in METHODS.items():
            begin = time.process_time()
            tables = method(holes, seed, setting)
            seconds[name] += time.process_time() - begin
            found = pool(*zip(*(analyse(table, setting) for table in tables), strict=True), complete_df=df)
            hits[name].append((found.lower < truth) & (truth < found.upper))
    for name, all_hits in hits.items():
        share = np.mean(all_hits, axis=0)
        lack = (np.mean(hits["complete"], axis=0) - share)[:slopes].max()
        means = " ".join(f"{s:.3f}" for s in share[slopes:][:5])
        print(
            f"{setting:8} {n:5} {law:4} {name:17} slopes {share[:slopes].mean():.3f} worst {share[:slopes].min():.3f} "
            f"(most under complete {lack:+.3f})  means {means}  {seconds[name] / replications:.2f} s",
            flush=True,
        )


def surveys(seed: int, n: int = 1600) -> tuple[float, float, float]:
    """Claimed and true share of right levels, and that of always the commonest, of a level never seen beside its predictors.

    Each half of the rows is a survey: one or two columns in both, one to three in the first only, up to two and the level in the second
    only, of one to three factors; one or two columns are nearly determined by these.
    """
    rng = np.random.default_rng([seed, n])
    both, first, second = rng.integers(1, 3), rng.integers(1, 4), rng.integers(1, 4)
    k, p = rng.integers(1, 4), both + first + second
    W = rng.standard_normal((p, k))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    noise = rng.uniform(0.1, 0.6, p)
    noise[rng.integers(p - 1, size=2)] = 1e-3
    X = rng.standard_normal((n, k)) @ (W * np.sqrt(1 - noise)[:, None]).T + np.sqrt(
        noise
    ) * rng.standard_normal((n, p))
    y = np.digitize(X[:, -1], [[-0.3, 0.8], [1.0], [0.0], [-1.0, 0.0, 1.0]][rng.integers(4)]).astype(float)
    X[:, -1] = y
    half = n // 2
    X[half:, both : both + first] = np.nan
    X[:half, both + first :] = np.nan
    model = CopulaImputer(random_state=0).fit(X)
    claimed = model.probability_within(X, 0)[:half, -1].mean()
    right = (model.transform(X)[:half, -1] == y[:half]).mean()
    return float(claimed), float(right), float(np.bincount(y[:half].astype(int)).max() / half)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 replications, 200 rows")
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--rows", nargs="*", type=int, default=[200, 1000])
    parser.add_argument("--laws", nargs="*", default=["mcar", "mar"])
    parser.add_argument("--skip-surveys", action="store_true")
    parser.add_argument("--methods", nargs="*", help="only these")
    given: Any = parser.parse_args()
    for name in list(METHODS):
        if given.methods and name.strip() not in given.methods:
            del METHODS[name]
    replications = 10 if given.quick else given.replications
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not given.skip_surveys:
            found = np.array([surveys(seed) for seed in range(5 if given.quick else 40)])
            over = found[:, 0] - found[:, 1]
            claimed, right, common = found.mean(axis=0)
            print(
                f"{len(found)} pairs of surveys: claimed {claimed:.3f} true {right:.3f} commonest {common:.3f}; claimed less true "
                f"from {over.min():+.3f} to {over.max():+.3f}",
                flush=True,
            )
        for setting in given.settings:
            for n in [200] if given.quick else given.rows:
                for law in given.laws:
                    coverage(setting, n, law, replications)


if __name__ == "__main__":
    main()
