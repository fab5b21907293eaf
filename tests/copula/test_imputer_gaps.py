"""What CopulaImputer says about gaps."""

import numpy as np
import pytest
from copula_tables import low_rank

from colspace import CopulaImputer
from colspace.copula import pool
from colspace.copula._predict import row_log_likelihood


def test_rank_is_found():
    Z, gaps, _ = low_rank(400, 40, 3)
    assert CopulaImputer(random_state=0).fit(np.where(gaps, np.nan, Z)).n_components_ == 3


def test_loadings_are_those_of_the_model():
    Z, gaps, W = low_rank(2000, 15, 2, missing=0.2)
    model = CopulaImputer(2, random_state=0).fit(np.where(gaps, np.nan, Z**3))
    truth = W @ W.T
    off = ~np.eye(15, dtype=bool)
    assert np.abs(model.correlation_ - truth)[off].max() < 0.08
    np.testing.assert_allclose(np.diag(model.correlation_), 1.0, atol=1e-12)
    np.testing.assert_allclose(model.components_, model.loadings_.T)
    assert abs(model.noise_variance_.mean() - 0.2) < 0.02


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_intervals_cover(level):
    """Continuous, skewed columns; 2,400 gaps, four standard errors of a binomial share (rows are dependent: doubled)."""
    Z, gaps, _ = low_rank(400, 20, 2, seed=3)
    X = np.exp(Z)
    model = CopulaImputer(2, random_state=0).fit(np.where(gaps, np.nan, X))
    lower, upper = model.interval(np.where(gaps, np.nan, X), level)
    share = ((lower <= X) & (upper >= X))[gaps].mean()
    assert abs(share - level) < 8 * np.sqrt(level * (1 - level) / gaps.sum())


def test_level_probabilities_are_calibrated():
    Z, gaps, _ = low_rank(600, 20, 2, noise=0.4, seed=4)
    X = np.digitize(Z, [-0.7, 0.2, 1.0]).astype(float)
    holes = np.where(gaps, np.nan, X)
    model = CopulaImputer(2, random_state=0).fit(holes)
    filled, p = model.transform(holes), model.probability_within(holes, 0)
    right = filled == X
    for low, high in ((0.3, 0.5), (0.5, 0.7), (0.7, 0.9)):
        here = gaps & (p > low) & (p <= high)
        assert abs(right[here].mean() - p[here].mean()) < 8 * 0.5 / np.sqrt(here.sum())
    bound = model.probability_within(holes, 0, bound=True)
    assert (bound <= p + 1e-9).all()
    assert (p[~gaps] == 1).all()
    assert (model.probability_within(holes, 1)[gaps] >= p[gaps]).all()
    assert (model.probability_within(holes, 3) == 1).all()


def test_probability_within_a_distance():
    Z, gaps, _ = low_rank(400, 15, 2, seed=5)
    holes = np.where(gaps, np.nan, Z)
    model = CopulaImputer(2, random_state=0).fit(holes)
    p, near = model.probability_within(holes, 0.4), np.abs(model.transform(holes) - Z) <= 0.4
    assert abs(p[gaps].mean() - near[gaps].mean()) < 0.03
    assert (model.probability_within(holes, 0.4, bound=True) <= p + 1e-9).all()


def test_the_mean_beats_the_median_in_squared_error():
    Z, gaps, _ = low_rank(500, 20, 2, noise=0.4, seed=6)
    X = np.exp(Z)
    holes = np.where(gaps, np.nan, X)
    model = CopulaImputer(2, random_state=0).fit(holes)
    errors = [np.mean((table - X)[gaps] ** 2) for table in (model.mean(holes), model.transform(holes))]
    assert errors[0] < errors[1]
    X = np.digitize(Z, [-0.5, 0.5]).astype(float)
    holes = np.where(gaps, np.nan, X)
    model = CopulaImputer(2, random_state=0).fit(holes)
    mean = model.mean(holes)[gaps]
    assert mean.min() >= 0
    assert mean.max() <= 2
    assert abs(mean.mean() - X[gaps].mean()) < 0.05


@pytest.mark.parametrize("tails", ["student", "lognormal"])
def test_the_mean_is_no_worse_than_the_median_in_heavy_tails(tails):
    """Over six tables, columns in units of their variance; joint tails of 3 degrees of freedom, or exponentials."""
    errors = []
    for seed in range(6):
        Z, gaps, _ = low_rank(400, 8, 2, noise=0.3, seed=seed)
        radius = np.sqrt(np.random.default_rng(seed).chisquare(3, (400, 1)) / 3)
        X = Z / radius if tails == "student" else np.exp(1.2 * Z)
        holes = np.where(gaps, np.nan, X)
        model = CopulaImputer(2, nonlinear=False, random_state=0).fit(holes)
        off = [
            (table - X) / np.nanstd(holes, axis=0) for table in (model.mean(holes), model.transform(holes))
        ]
        errors.append([np.mean(each[gaps] ** 2) for each in off])
    mean, median = np.mean(errors, axis=0)
    assert mean < 1.01 * median


def test_reliable_cells_have_smaller_errors():
    Z, gaps, _ = low_rank(400, 20, 2, noise=0.3, seed=7)
    for X in (Z, np.digitize(Z, [-0.5, 0.5]).astype(float)):
        holes = np.where(gaps, np.nan, X)
        model = CopulaImputer(2, random_state=0).fit(holes)
        error = np.abs(model.transform(holes) - X)
        r = model.reliability(holes)
        assert np.isnan(r[~gaps]).all()
        best = gaps & (r >= np.nanquantile(r, 0.75))
        size = np.abs(X[best]).mean() / np.abs(X[gaps]).mean() if X is Z else 1.0
        assert error[best].mean() / size < 0.8 * error[gaps].mean()
        v = model.reliability(holes, measure="variance")
        assert np.nanmin(v) >= 0
        assert np.nanmax(v) <= 1


def test_draws_have_the_conditional_law():
    Z, gaps, _ = low_rank(60, 8, 2, noise=0.3, seed=8)
    holes = np.where(gaps, np.nan, Z)
    model = CopulaImputer(2, correlation="factors", random_state=0).fit(holes)
    draws = np.stack(model.sample(holes, 800, random_state=1))
    assert (draws[:, ~gaps] == holes[~gaps]).all()
    lower, upper = np.quantile(draws, [0.05, 0.95], axis=0)
    latent = model.probability_within(holes, 0.3)
    near = (np.abs(draws - model.transform(holes)) <= 0.3).mean(axis=0)
    assert np.abs(near - latent)[gaps].mean() < 0.03
    assert (upper > lower)[gaps].all()
    again = model.sample(holes, 3, random_state=1)
    assert np.array_equal(np.stack(model.sample(holes, 3, random_state=1)), np.stack(again))
    # rows are independent given the model
    where = np.argwhere(gaps)
    first, second = where[0], where[np.flatnonzero(where[:, 0] != where[0, 0])[0]]
    r = np.corrcoef(draws[:, first[0], first[1]], draws[:, second[0], second[1]])[0, 1]
    assert abs(r) < 4 / np.sqrt(800)


def test_pooled_intervals_cover():
    """Mean of a column with 40 % gaps that others tell little of, 8 draws, 60 data sets: 95 % intervals hold it, and are no wider than they need."""
    hits, estimates, errors, within = 0, [], [], []
    for seed in range(60):
        Z, gaps, _ = low_rank(120, 6, 1, noise=0.9, missing=0.4, seed=100 + seed)
        holes = np.where(gaps, np.nan, Z)
        tables = CopulaImputer(1, random_state=0).fit(holes).sample(holes, 8, random_state=seed)
        variances = [table[:, 0].var(ddof=1) / 120 for table in tables]
        found = pool([table[:, 0].mean() for table in tables], variances, complete_df=119)
        hits += found.lower <= 0.0 <= found.upper
        estimates.append(found.estimate)
        errors.append(found.standard_error)
        within.append(np.mean(variances))
    assert 54 <= hits <= 60
    spread = np.std(estimates)
    assert 0.87 < np.sqrt(np.mean(np.square(errors))) / spread < 1.2
    assert np.sqrt(np.mean(within)) / spread < 0.85  # what gaps cost is in the band


def test_score_prefers_the_right_rank():
    Z, gaps, _ = low_rank(600, 20, 3, seed=9)
    holes = np.where(gaps, np.nan, Z)
    scores = [CopulaImputer(k, random_state=0).fit(holes[:400]).score(holes[400:]) for k in (1, 3)]
    assert scores[1] > scores[0] + 0.05
    model = CopulaImputer(3, random_state=0).fit(holes[:400])
    rows = model.score_samples(holes[400:])
    np.testing.assert_array_equal(rows, row_log_likelihood(holes[400:], model._model))
    assert (
        rows.mean() > CopulaImputer(1, random_state=0).fit(holes[:400]).score_samples(holes[400:]).mean() + 1
    )


def test_latent_space_is_that_of_the_factors():
    rng = np.random.default_rng(0)
    t = rng.standard_normal(300)
    X = np.digitize(np.outer(t, np.ones(12)) + 0.6 * rng.standard_normal((300, 12)), [-0.5, 0.6]).astype(
        float
    )
    X[rng.random(X.shape) < 0.2] = np.nan
    model = CopulaImputer(1, random_state=0).fit(X)
    assert abs(np.corrcoef(model.latent(X)[:, 0], t)[0, 1]) > 0.93


def test_clip_keeps_imputations_inside():
    Z, gaps, _ = low_rank(60, 6, 1, noise=0.05, missing=0.5, seed=2)
    X = np.where(gaps, np.nan, Z**3)
    free = CopulaImputer(1, random_state=0).fit(X)
    bound = CopulaImputer(1, random_state=0, clip=True).fit(X)
    limits = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    upper = free.interval(X, 0.999)[1]
    assert (upper > limits[1]).any()
    assert (bound.interval(X, 0.999)[1] <= limits[1]).all()
    assert (bound.mean(X) >= limits[0]).all()


def test_new_values_of_continuous_and_count_columns_have_a_place(mixed, fitted):
    X = mixed[1][:3].copy()
    X[0, 0], X[1, 0], X[2, 8] = 50.0, -50.0, 1e6
    filled = fitted.transform(X)
    assert np.isfinite(filled).all()
    assert (filled[:2, 0] == [50.0, -50.0]).all()


def test_common_noise_and_warm_start(mixed):
    X = mixed[1]
    common = CopulaImputer(2, noise="common", random_state=0).fit(X)
    assert np.ptp(common.noise_variance_) < 1e-12
    model = CopulaImputer(2, random_state=0, warm_start=True).fit(X)
    first = model.n_iter_
    model.fit(X)
    assert model.n_iter_ < first


def test_paper_has_one_noise_and_values_of_the_column():
    Z, gaps, _ = low_rank(300, 10, 2)
    X = np.where(gaps, np.nan, np.exp(Z))
    model = CopulaImputer(2, method="paper", random_state=0).fit(X)
    filled = model.transform(X)
    assert np.ptp(model.noise_variance_) == 0
    assert (filled.max(axis=0) <= np.nanmax(X, axis=0)).all()
    error = [
        np.sqrt(np.mean((np.log(t) - Z)[gaps] ** 2)) for t in (filled, CopulaImputer(2).fit(X).transform(X))
    ]
    assert error[1] < error[0] < 0.7
