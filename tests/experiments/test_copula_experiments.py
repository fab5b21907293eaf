import csv
import importlib
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from scipy.stats import norm, truncnorm

from colspace import CopulaImputer, experiments
from colspace.datasets import COPULA_SETTINGS, load_ratings, make_copula, make_ratings
from colspace.experiments import (
    _copula_sim,
    copula_bounds,
    copula_rank,
    copula_ratings,
    copula_reliability,
    copula_synthetic,
)
from colspace.experiments._book import Outcome, verdicts
from colspace.experiments._claims import read_paper
from colspace.experiments._copula_sim import (
    error_curve,
    imputation_error,
    latent_moments,
    observed_cells,
    oracle,
    ppca,
    soft_impute,
    soft_impute_path,
    to_levels,
)

NAMES = ("copula-synthetic", "copula-reliability", "copula-rank", "copula-ratings")
KEYS = {"copula-ratings": "mae"}
#: rows of the small versions: three settings, the continuous one with the mean besides; four curves; ranks and penalties
ROWS = {
    "copula-synthetic": 3 * 5 + 1,
    "copula-reliability": 2 * 4 * len(copula_reliability.SHARES),
    "copula-rank": 3 * (3 * 3 + 9 + 1 + 1 + 4),
    "copula-ratings": 4,
}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    few = {name: {**COPULA_SETTINGS[name], "n_components": 2} for name in list(COPULA_SETTINGS)[::2]}
    for module in (copula_synthetic, copula_reliability, copula_rank):
        size = {"n_samples": 120, "n_features": 16}
        monkeypatch.setattr(module, "SIZE", {True: size} if module is copula_rank else size)
        monkeypatch.setattr(module, "REPETITIONS", {True: 2})
        monkeypatch.setattr(module, "COPULA_SETTINGS", few)
    monkeypatch.setattr(copula_reliability, "LEVELS", (6,))
    monkeypatch.setattr(copula_rank, "RANKS", {True: range(1, 4), False: range(1, 4)})
    monkeypatch.setattr(copula_rank, "STEP", {True: 1})
    monkeypatch.setattr(copula_synthetic, "SWEEPS", {True: 20})
    monkeypatch.setattr(copula_ratings, "SIZE", {True: (120, 60)})
    monkeypatch.setattr(copula_ratings, "RANK", 2)
    monkeypatch.setattr(
        copula_ratings, "make_ratings", lambda *size, rng: make_ratings(*size, density=0.4, rng=rng)
    )


def written(folder, name):
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_experiment_is_registered_and_described():
    for name in NAMES:
        assert importlib.import_module(experiments.EXPERIMENTS[name]).run
        assert "Copula" in experiments.describe(name)


@pytest.mark.parametrize("name", NAMES)
def test_experiments_write_what_they_return(small, tmp_path, name):
    result = experiments.run(name, quick=True, out=tmp_path / "new", rng=1)
    key = KEYS.get(name, "error")
    values = [row[key] for row in result.rows]
    assert len(values) == ROWS[name]
    assert np.isfinite(values).all()
    assert min(values) >= 0
    assert result.path.read_bytes()[:4] == b"\x89PNG"
    assert_allclose([float(row[key]) for row in written(tmp_path / "new", name)], values)
    assert {frozenset(row) for row in result.summary} == {frozenset(result.summary[0])}
    assert np.isfinite([row[f"{key}_se" if name in KEYS else "se"] for row in result.rows]).all()
    assert "120 x" in result.size
    assert result.stand_in == (name == "copula-ratings")
    again = experiments.run(name, quick=True, rng=1)
    assert [row[key] for row in again.rows] == values
    assert again.path is None


def test_comparisons_are_paired_by_table():
    found = {
        "published EM": [(0.5, 1.0), (0.7, 3.0)],
        "oracle": [(0.25, 1.0), (0.5, 1.0)],
    }
    row = copula_synthetic.compared(found)[0]
    assert_allclose([row["error"], row["se"]], [0.6, 0.1])
    assert_allclose([row["over_oracle"], row["over_oracle_se"]], [0.225, 0.025])
    assert_allclose([row["excess"], row["seconds"]], [(3 + 0.96) / 2, 2.0])
    assert copula_synthetic.compared(found)[1]["over_published"] == pytest.approx(-0.225)


def test_what_a_curve_shows():
    line = {3: [0.9, 1.1], 5: [0.5, 0.5], 4: [0.6, 0.6], 6: [0.6, 0.4]}
    row = copula_rank.curve_row("binary", copula_rank.PPCA, line, [])
    assert_allclose([row["parameter"], row["error"]], [5, 0.5])
    assert_allclose([row["edge_low"], row["edge_low_se"], row["edge_high"]], [0.5, 0.1, 0.0], atol=1e-12)
    assert_allclose([row["rise"], row["rise_se"]], [0.0, 0.2], atol=1e-12)
    assert row["finer"] is None
    soft = copula_rank.curve_row("binary", copula_rank.SOFT, line, [0.45, 0.35])
    assert_allclose([soft["rise"], soft["finer"]], [1.0, 0.05], atol=1e-12)


def test_published_sizes():
    assert copula_synthetic.REPETITIONS[False] == 20
    assert copula_reliability.REPETITIONS[False] == copula_ratings.REPETITIONS[False] == 5
    assert not (copula_synthetic.SIZE)
    assert not (copula_reliability.SIZE)
    assert not (copula_rank.SIZE[False])
    assert copula_ratings.SIZE[False] == (6040, 2514)
    assert copula_rank.RANKS[True] == range(6, 15)
    assert copula_rank.RANKS[False] == range(3, 12)
    assert_allclose(np.diff(np.log(_copula_sim.ALPHAS)), np.log(0.01) / 8)
    assert set(copula_reliability.settings()) - set(COPULA_SETTINGS) == {
        "ordinal, high SNR, 8 levels",
        "ordinal, high SNR, 10 levels",
    }


def test_ratings_from_a_file(small, tmp_path, monkeypatch):
    data = make_ratings(120, 60, density=0.3, rng=0)
    row = np.repeat(np.arange(120), np.diff(data.X.indptr))
    lines = [f"{i}::{j}::{x:g}::0" for i, j, x in zip(row, data.X.indices, data.X.data, strict=True)]
    (tmp_path / "ratings.dat").write_text("\n".join(lines))
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    monkeypatch.setattr(
        copula_ratings, "load_ratings", lambda: load_ratings(tmp_path / "ratings.dat", fewest=1)
    )
    result = experiments.run("copula-ratings", quick=True)
    assert result.notes[0].startswith("MovieLens, 120 users x 60 items")


def test_generated_ratings_say_what_is_missing(small):
    notes = experiments.run("copula-ratings", quick=True).notes
    assert "generated (120 x 60" in notes[0]
    assert "ratings.dat" in notes[0]
    assert "cannot be compared" in notes[1]


def test_split_keeps_every_user_and_item():
    X = csr_array(np.diag(np.arange(1.0, 31.0)) + np.eye(30, k=1))
    kept, rows, columns, values = copula_ratings.split(X, 0)
    assert len(values) > 0
    assert kept.nnz + len(values) == X.nnz
    assert np.diff(kept.indptr).min() >= 1
    assert np.bincount(kept.indices, minlength=30).min() >= 1
    assert_allclose(X.toarray()[rows, columns], values)
    assert_allclose(kept.toarray()[rows, columns], 0.0)


def test_nearest_level():
    levels = np.array([1.0, 2.0, 5.0])
    assert_allclose(
        copula_ratings.nearest(levels, np.array([-3.0, 1.4, 1.6, 3.4, 3.6, 9.0])), [1, 1, 2, 2, 5, 5]
    )


@pytest.mark.parametrize("link", ["identity", "cube"])
def test_oracle_is_the_conditional_gaussian(link):
    X, _, truth = make_copula(20, 6, 2, link=link, noise=0.3, rng=0)
    z = truth.bounds(X)[0]
    Sigma = truth.loadings @ truth.loadings.T + 0.3 * np.eye(6)
    found = oracle(X, truth)
    for i, gaps in enumerate(np.isnan(X)):
        if gaps.any() and not gaps.all():
            mean = Sigma[np.ix_(gaps, ~gaps)] @ np.linalg.solve(Sigma[np.ix_(~gaps, ~gaps)], z[i, ~gaps])
            assert_allclose(found[i, gaps], truth.values(mean), atol=1e-10)


def test_gibbs_oracle_of_two_columns():
    """E[z2 | a < z1 <= b] = rho (phi(a) - phi(b)) / (Phi(b) - Phi(a))."""
    _, X, truth = make_copula(300, 2, 1, kind="ordinal", noise=0.4, missing=0.0, rng=3)
    lower, upper = truth.bounds(X)
    X[:, 1] = np.nan
    a, b = lower[:, 0], upper[:, 0]
    rho = truth.loadings[0, 0] * truth.loadings[1, 0]
    expected = rho * (norm.pdf(a) - norm.pdf(b)) / (norm.cdf(b) - norm.cdf(a))
    found = latent_moments(X, truth, rng=0, sweeps=4000)[0][:, 1]
    assert_allclose(found, expected, atol=0.12)
    for level in range(1, 6):  # rows of one level are draws of one chain's law
        here = X[:, 0] == level
        assert_allclose(found[here].mean(), expected[here][0], atol=0.02)
    assert_allclose(
        oracle(X, truth, rng=0, sweeps=4000)[:, 1], truth.values(np.column_stack([found, found]))[:, 1]
    )


def test_gibbs_variance_of_two_columns():
    """Var[z2 | z1 between cuts] = 1 - rho^2 + rho^2 Var[z1 | between cuts], by integration on a grid."""
    _, X, truth = make_copula(200, 2, 1, kind="ordinal", noise=0.4, missing=0.0, rng=3)
    lower, upper = truth.bounds(X)
    X[:, 1] = np.nan
    _, variance = latent_moments(X, truth, rng=0, sweeps=3000)
    rho = truth.loadings[0, 0] * truth.loadings[1, 0]
    for level in range(1, 6):
        here = X[:, 0] == level
        law = truncnorm(lower[here, 0][0], upper[here, 0][0])
        assert_allclose(variance[here, 1].mean(), 1 - rho**2 + rho**2 * law.var(), atol=0.02)


def test_exact_variance_is_the_schur_complement():
    X, _, truth = make_copula(20, 6, 2, noise=0.3, rng=0)
    Sigma = truth.loadings @ truth.loadings.T + 0.3 * np.eye(6)
    _, variance = latent_moments(X, truth)
    for i, gaps in enumerate(np.isnan(X)):
        if gaps.any() and not gaps.all():
            cov = Sigma[np.ix_(gaps, gaps)] - Sigma[np.ix_(gaps, ~gaps)] @ np.linalg.solve(
                Sigma[np.ix_(~gaps, ~gaps)], Sigma[np.ix_(~gaps, gaps)]
            )
            assert_allclose(variance[i, gaps], np.diag(cov), atol=1e-10)


def test_the_bound_on_a_level_by_hand():
    """Cuts at -1, 0, 2: a mean of .5 lies in the third level, .5 from the nearer cut; one level further the last has no end."""
    _, _, truth = make_copula(50, 1, 1, kind="ordinal", n_levels=4, rng=0)
    truth = replace(truth, cuts=np.array([[-1.0, 0.0, 2.0]]))
    mean, variance = np.array([[0.5], [2.5], [-1.25]]), np.full((3, 1), 0.04)
    for d, distance in ((0, (0.5, 0.5, 0.25)), (1, (1.5, 2.5, 1.25)), (2, (np.inf, 3.5, 3.25))):
        found = copula_bounds.level_bound(mean, variance, truth, d)
        assert_allclose(found[:, 0], 1 - 0.04 / np.square(distance))


def test_bounds_hold_and_the_misprint_does_not(monkeypatch, tmp_path):
    monkeypatch.setattr(copula_bounds, "SIZE", {True: {"n_samples": 80, "n_features": 40}})
    monkeypatch.setattr(copula_bounds, "SWEEPS", {True: 40})
    monkeypatch.setattr(copula_bounds, "ROWS", {True: 500})
    result = experiments.run("copula-bounds", quick=True, out=tmp_path)
    book = [Outcome("copula-bounds", result.rows, result.size)]
    judged = {claim.id: verdict.verdict for claim, verdict in verdicts(read_paper("003"), book)}
    assert judged["eq14"] == "fails"
    held = {name for name, verdict in judged.items() if verdict == "holds"}
    assert held >= {"theorem3", "theorem4", "lemma2", "lemma4", "corollary1", "corollary1-rate", "eq2", "eq3"}
    assert result.path.read_bytes()[:4] == b"\x89PNG"


def test_the_excess_of_corollary_1_is_that_of_drawn_errors():
    """The share over (9) and the quantile agree with errors drawn from the full covariance."""
    n, k = 100, copula_bounds.FACTORS
    share, excess = copula_bounds.corollary(n, 20_000, 5)
    rng = np.random.default_rng(5)
    W = rng.standard_normal((2 * n, k))
    W *= np.sqrt(0.9) / np.linalg.norm(W, axis=1, keepdims=True)
    M = 0.1 * np.eye(k) + W[:n].T @ W[:n]
    cov = np.eye(n) + W[n:] @ np.linalg.solve(M, W[n:].T)
    errors = np.mean((np.linalg.cholesky(cov) @ rng.standard_normal((n, 20_000))) ** 2, axis=0)
    assert share == 0.0
    assert abs(np.quantile(errors, 1 - 1 / n) - 1 - excess) < 0.04


def test_unclipped_bounds_order_like_the_clipped():
    X, _, _ = make_copula(60, 12, 2, kind="ordinal", rng=0)
    model = CopulaImputer(2, method="paper", kinds="ordinal", random_state=0).fit(X)
    found, gaps = copula_reliability.level_bounds(model, X), np.isnan(X)
    assert_allclose(np.maximum(found, 0)[gaps], model.probability_within(X, 0, bound=True)[gaps])
    assert found[gaps].min() < -1
    assert np.isnan(found[~gaps]).all()


def test_truncated_draws_stay_inside_and_have_the_right_mean():
    rng = np.random.default_rng(0)
    n = 100_000
    for low, high in ((1.0, 2.0), (-np.inf, -2.0), (3.0, np.inf), (-0.5, 0.25), (9.0, 9.001)):
        draws = _copula_sim._truncated_draws(np.zeros(n), 1.0, np.full(n, low), np.full(n, high), rng)
        assert draws.min() >= low
        assert draws.max() <= high
        grid = np.linspace(max(low, -12), min(high, 12), 20_001)
        density = np.exp(-0.5 * (grid**2 - np.min(grid**2)))
        assert_allclose(draws.mean(), np.sum(grid * density) / density.sum(), atol=0.01)


def test_ppca_equals_the_eigenvectors_on_complete_rows():
    """With one gap in many rows the fill is nearly that of the closed form from the covariance."""
    rng = np.random.default_rng(0)
    W, mu = rng.standard_normal((6, 2)), np.arange(6.0)
    complete = mu + rng.standard_normal((4000, 2)) @ W.T + 0.3 * rng.standard_normal((4000, 6))
    X = complete.copy()
    X[0, 0] = X[1, 3] = np.nan
    filled = ppca(X, 2, tol=1e-8, max_iter=2000)
    values, vectors = np.linalg.eigh(np.cov(complete.T))
    s2 = values[:4].mean()
    C = (vectors[:, 4:] * (values[4:] - s2)) @ vectors[:, 4:].T + s2 * np.eye(6)
    for i, j in ((0, 0), (1, 3)):
        o = np.arange(6) != j
        m = complete.mean(axis=0)
        expected = m[j] + C[j, o] @ np.linalg.solve(C[np.ix_(o, o)], complete[i, o] - m[o])
        assert abs(filled[i, j] - expected) < 0.01
    assert_allclose(filled[2:], X[2:])


def test_soft_impute_solves_its_problem():
    """Without gaps the solution is the shrunken SVD of the centred table."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 8)) + np.arange(20.0)[:, None]
    centred = X - X.mean(axis=0) - X.mean(axis=1, keepdims=True) + X.mean()
    U, s, Vt = np.linalg.svd(centred)
    for alpha, fill in zip(
        (1.0, 0.5, 0.1), soft_impute_path(observed_cells(X), (1.0, 0.5, 0.1), tol=1e-10), strict=True
    ):
        expected = (U[:, :8] * np.maximum(s - alpha * s[0], 0)) @ Vt
        assert_allclose(fill.table() - (X - centred), expected, atol=1e-6)
        assert_allclose(fill.at(np.array([3, 4]), np.array([0, 7])), fill.table()[[3, 4], [0, 7]], atol=1e-12)


def test_soft_impute_is_a_fixed_point_with_gaps():
    X, _, _ = make_copula(60, 20, 2, rng=4)
    (fill,) = soft_impute_path(observed_cells(X), (0.3,), tol=1e-9, max_iter=2000)
    effects = fill.rows[:, None] + fill.columns
    Z = fill.U @ fill.V.T
    target = np.where(np.isnan(X), 0.0, X - effects)
    start = np.linalg.norm(target, 2)
    U, s, Vt = np.linalg.svd(np.where(np.isnan(X), Z, target), full_matrices=False)
    assert_allclose((U * np.maximum(s - 0.3 * start, 0)) @ Vt, Z, atol=1e-6)


def test_soft_impute_keeps_what_is_observed_and_zeros():
    X, complete, _ = make_copula(80, 20, 2, kind="binary", missing=0.3, rng=5)
    assert observed_cells(X).nnz == np.sum(~np.isnan(X))
    filled = soft_impute(X)
    assert_allclose(filled[~np.isnan(X)], X[~np.isnan(X)])
    error = imputation_error("binary", complete, to_levels("binary", filled, X), np.isnan(X))
    assert error < 0.25


def test_error_curve_by_hand():
    complete, filled = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[1.0, 2.0, 4.0, 6.0]])
    reliability = np.array([[0.9, 0.8, 0.7, 0.1]])
    mask = np.ones((1, 4), dtype=bool)
    assert_allclose(
        error_curve("ordinal", complete, filled, reliability, mask, (1.0, 0.75, 0.5)), [0.75, 1 / 3, 0.0]
    )
    found = error_curve("continuous", complete, filled, reliability, mask, (1.0, 0.75))
    assert_allclose(found, [np.sqrt(5 / 30), np.sqrt(1 / 14)])


def test_levels_are_rounded_within_the_observed_range():
    X = np.array([[1.0, 0.0], [4.0, 1.0]])
    assert_allclose(to_levels("ordinal", np.array([[0.2, 0.6], [7.0, 0.4]]), X), [[1, 1], [4, 0]])
    assert_allclose(to_levels("continuous", np.array([[0.2, 0.6]]), X), [[0.2, 0.6]])


def test_rivals_of_the_benchmark(monkeypatch):
    pytest.importorskip("gcimpute")
    folder = Path(__file__).parents[2] / "benchmarks"
    spec = importlib.util.spec_from_file_location("_imputers", folder / "_imputers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.check()
