"""Draws from any correlation matrix: steps against closed forms, coverage on small simulations."""

import numpy as np
import pytest
from scipy import optimize, stats

from colspace import CopulaImputer
from colspace.copula import UnseenPairsWarning, _gibbs, pool
from colspace.copula._gibbs import (
    Cells,
    Parameters,
    Table,
    draw_parameters,
    drawn_column,
    full_draws,
    inverse_wishart,
    lower_root,
    normal_between,
    schedule,
    sweep,
    unit_scale,
)
from colspace.copula._values import Column

RNG = np.random.default_rng
SIGMA = np.array([[1.0, 0.6, 0.3], [0.6, 1.5, -0.2], [0.3, -0.2, 0.8]])
NONE = np.zeros(0)


def cells_of(missing, levels, low, high):
    none = np.zeros(0, dtype=np.intp)
    p = 3
    return Cells(
        tuple(missing.get(j, none) for j in range(p)),
        tuple(levels.get(j, none) for j in range(p)),
        tuple(low.get(j, NONE) for j in range(p)),
        tuple(high.get(j, NONE) for j in range(p)),
    )


def test_sweeps_draw_gaps_from_the_conditional_normal():
    """Columns 1 and 2 missing beside z_0 = 0.7: mean mu_m + S_m0 (z_0 - mu_0) / S_00, covariance S_mm - S_m0 S_0m / S_00."""
    n, mu = 20_000, np.array([0.2, -1.0, 0.5])
    every = np.arange(n)
    Z = np.zeros((n, 3))
    Z[:, 0] = 0.7
    rng = RNG(0)
    for _ in range(15):
        sweep(Z, cells_of({1: every, 2: every}, {}, {}, {}), mu, np.linalg.inv(SIGMA), rng)
    mean = mu[1:] + SIGMA[1:, 0] * (0.7 - mu[0])
    cover = SIGMA[1:, 1:] - np.outer(SIGMA[1:, 0], SIGMA[0, 1:])
    assert (Z[:, 0] == 0.7).all()
    np.testing.assert_allclose(Z[:, 1:].mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(Z[:, 1:].T), cover, atol=0.04)


def test_sweeps_keep_levels_between_their_ends():
    n, mu = 20_000, np.array([0.1, 0.0, 0.0])
    every = np.arange(n)
    Z = np.zeros((n, 3))
    Z[:, 1:] = [0.5, -0.4]
    low, high = {0: np.full(n, 0.3)}, {0: np.full(n, np.inf)}
    sweep(Z, cells_of({}, {0: every}, low, high), mu, np.linalg.inv(SIGMA), RNG(1))
    weights = np.linalg.solve(SIGMA[1:, 1:], SIGMA[1:, 0])
    centre, sd = 0.1 + weights @ [0.5, -0.4], np.sqrt(1.0 - weights @ SIGMA[1:, 0])
    law = stats.truncnorm((0.3 - centre) / sd, np.inf, centre, sd)
    assert Z[:, 0].min() >= 0.3
    assert stats.kstest(Z[:, 0], law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 0.5), (6.0, np.inf), (-np.inf, -12.0), (-30.1, -30.0), (45.0, 46.0)]
)
def test_normal_between_in_every_tail(low, high):
    x = normal_between(np.full(4000, low), np.full(4000, high), RNG(2))
    assert ((x >= low) & (x <= high)).all()
    if high < 40:
        assert stats.kstest(x, stats.truncnorm(low, high).cdf).pvalue > 1e-3


def test_inverse_wishart_has_its_mean_and_is_inverted():
    rng, scale, df = RNG(3), 10 * SIGMA, 15.0
    found = [inverse_wishart(df, scale, rng) for _ in range(4000)]
    np.testing.assert_allclose(found[0][0] @ found[0][1], np.eye(3), atol=1e-10)
    mean = np.mean([sigma for sigma, _ in found], axis=0)
    np.testing.assert_allclose(mean, scale / (df - 3 - 1), atol=0.05)
    inverse = np.mean([q for _, q in found], axis=0)  # a Wishart's mean
    np.testing.assert_allclose(inverse, df * np.linalg.inv(scale), atol=0.06)
    # variance of a diagonal entry, 2 s^2 / ((df - p - 1)^2 (df - p - 3))
    assert np.var([sigma[0, 0] for sigma, _ in found]) == pytest.approx(2 * 100 / (11**2 * 9), rel=0.2)


def test_parameters_are_drawn_about_those_of_the_rows():
    rng = RNG(4)
    Z = rng.standard_normal((400, 3)) @ np.linalg.cholesky(SIGMA).T + [1.0, 2.0, 3.0]
    found = [draw_parameters(Z, None, SIGMA, rng) for _ in range(2000)]
    mean = np.array([one.mean for one in found])
    np.testing.assert_allclose(mean.mean(axis=0), Z.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(np.cov(mean.T), np.cov(Z.T) / 400, atol=4e-4)
    expected = (399 * np.cov(Z.T) + 1.5 * SIGMA) / (400 + 1.5 - 1)
    np.testing.assert_allclose(np.mean([one.cover for one in found], axis=0), expected, atol=0.01)
    twice = draw_parameters(Z, np.full(400, 2.0), SIGMA, RNG(0))
    rows = draw_parameters(np.repeat(Z, 2, axis=0), None, SIGMA, RNG(0))
    np.testing.assert_allclose(twice.cover, rows.cover)


def test_few_rows_are_joined_by_those_of_the_prior():
    """E[Sigma] = (S + (p/2) R) / (n + p/2 - 1), which the degrees of freedom decide where rows are few."""
    rng = RNG(7)
    Z = rng.standard_normal((12, 3)) @ np.linalg.cholesky(SIGMA).T
    mean = np.mean([draw_parameters(Z, None, SIGMA, rng).cover for _ in range(6000)], axis=0)
    np.testing.assert_allclose(mean, (11 * np.cov(Z.T) + 1.5 * SIGMA) / (12 + 1.5 - 1), atol=0.03)


def test_parameters_of_weighted_rows_are_those_of_rows_that_repeat():
    Z, w = RNG(8).standard_normal((40, 3)), RNG(9).integers(1, 5, 40)
    weighted = draw_parameters(Z, w.astype(float), SIGMA, RNG(0))
    rows = draw_parameters(np.repeat(Z, w, axis=0), None, SIGMA, RNG(0))
    np.testing.assert_allclose(weighted.cover, rows.cover)
    np.testing.assert_allclose(weighted.mean, rows.mean)


def test_two_values_are_told_by_their_cut_alone():
    Z = RNG(5).standard_normal((50, 3))
    before = Z.copy()
    mean = np.array([0.5, 1.0, 2.0])
    new = unit_scale(Z, Parameters(mean, SIGMA, np.linalg.inv(SIGMA)), {1: 0.25})
    assert new.cover[1, 1] == pytest.approx(1.0)
    np.testing.assert_allclose(new.cover @ new.Q, np.eye(3), atol=1e-12)
    assert ((Z[:, 1] > 0.25) == (before[:, 1] > 0.25)).all()
    old = (0.25 - mean[1]) / np.sqrt(SIGMA[1, 1])
    assert 0.25 - new.mean[1] == pytest.approx(old)


def test_drawn_marginals_vary_as_a_bayesian_bootstrap():
    """Cells that nothing else predicts: z of a knot is Phi^-1 of its drawn share, of variance F (1 - F) / (m phi^2)."""
    m, rng = 300, RNG(6)
    x = np.sort(rng.standard_normal(m))
    column = Column("continuous", x.copy(), x, NONE, 0.0)
    z = np.array([drawn_column(column, x, None, np.zeros(m), 1.0, rng).z for _ in range(400)])
    at = [30, 150, 270]
    share = (np.array(at) + 0.5) / m
    np.testing.assert_allclose(z[:, at].mean(axis=0), stats.norm.ppf(share), atol=0.03)
    variance = share * (1 - share) / m / stats.norm.pdf(stats.norm.ppf(share)) ** 2
    np.testing.assert_allclose(z[:, at].var(axis=0), variance, rtol=0.3)
    assert (np.diff(z, axis=1) > 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_knots_are_where_the_laws_of_cells_have_the_share_of_their_values(weighted):
    """Against roots of sum w Phi((z - m) / s) = sum w [x < x_k] + half of those that are equal; ties among the cells."""
    rng, m, sd = RNG(10), 60, 0.4
    x = rng.integers(0, 12, m).astype(float)
    centre, weight = 0.3 * (x - 6) + 0.2 * rng.standard_normal(m), rng.uniform(0.5, 6.0, m)
    knots = np.unique(x)
    column = Column("continuous", np.linspace(-2, 2, len(knots)), knots, NONE, 0.0)
    found = drawn_column(column, x, weight if weighted else None, centre, sd, RNG(3)).z
    w = RNG(3).standard_gamma(weight) if weighted else RNG(3).standard_exponential(m)
    w /= w.sum()
    for value, z in zip(knots, found, strict=True):
        share = w[x < value].sum() + 0.5 * w[x == value].sum()
        root = optimize.brentq(lambda at: w @ stats.norm.cdf((at - centre) / sd) - share, -9, 9)  # noqa: B023
        assert z == pytest.approx(root, abs=0.01)


def test_marginals_are_drawn_given_the_rest_of_the_rows(monkeypatch):
    """The laws of a column's cells are the conditional ones of the drawn mean and covariance, their weights those of the rows."""
    X = simulated(3, 80)[:, 1:]
    weight = RNG(4).integers(1, 4, 80).astype(float)
    model = CopulaImputer(1, nonlinear=False, random_state=0).fit(X, sample_weight=weight)._model
    states, laws, chain = [], [], _gibbs.chain
    monkeypatch.setattr(_gibbs, "chain", lambda *a, **k: (states.append(s) or s for s in chain(*a, **k)))
    monkeypatch.setattr(_gibbs, "drawn_column", lambda *a: laws.append(a) or drawn_column(*a))
    full_draws(X, Table(X, weight), model, 1, RNG(5), clip=False)
    (state,) = states
    S, mean = state.found.cover, state.found.mean
    assert len(laws) == 4
    for j, (column, x, w, centre, sd, _) in enumerate(laws):
        on, rest = ~np.isnan(X[:, j]), np.arange(4) != j
        slope = np.linalg.solve(S[np.ix_(rest, rest)], S[rest, j])
        assert column is model.columns[j]
        np.testing.assert_array_equal(x, X[on, j])
        np.testing.assert_array_equal(w, weight[on])
        np.testing.assert_allclose(centre, mean[j] + (state.Z[on][:, rest] - mean[rest]) @ slope, atol=1e-8)
        assert sd == pytest.approx(np.sqrt(S[j, j] - S[j, rest] @ slope))


def test_tables_are_drawn_with_all_correlations_that_the_seen_ones_admit():
    """Columns 1 and 2 never beside each other: given column 0 their partial correlation is uniform on (-1, 1) from table to table."""
    rng = RNG(11)
    t = rng.standard_normal((500, 1))
    X = t * [1.0, 0.7, 0.7] + [0.0, 0.7, 0.7] * rng.standard_normal((500, 3))
    X[:250, 1] = X[250:, 2] = np.nan
    with pytest.warns(UnseenPairsWarning):
        model = CopulaImputer(random_state=0).fit(X)
    inverse = [np.linalg.inv(np.corrcoef(table.T)) for table in model.sample(X, 60, random_state=0)]
    partial = np.array([-Q[1, 2] / np.sqrt(Q[1, 1] * Q[2, 2]) for Q in inverse])
    assert abs(partial.mean()) < 0.25
    assert 0.45 < partial.std() < 0.7  # .577


def test_marginals_of_cells_that_hardly_weigh_are_finite():
    x = np.arange(5.0)
    column = Column("continuous", x - 2, x, NONE, 0.0)
    drawn = drawn_column(column, x, np.full(5, 1e-9), np.zeros(5), 1.0, RNG(0))
    assert np.isfinite(drawn.z).all()
    assert (np.diff(drawn.z) > 0).all()
    far = Column("continuous", np.linspace(-9, 9, 40), np.arange(40.0), NONE, 1e300)
    assert np.isfinite(far.curve).all()


def test_a_huge_cell_is_beyond_any_law():  # squares of what it is off by overflowed
    z = np.concatenate(
        [[-7.38, -7.36, -7.34, -7.15, -2.71], np.linspace(-2.44, -2.44 + 1e-5, 9), [0.2, 6.06]]
    )
    x = np.concatenate([[-1e300], np.linspace(-1.8, 1.7, 15)])
    np.testing.assert_array_equal(Column("continuous", z, x, NONE, 0.04).curve, x)


def test_more_gaps_more_sweeps():
    assert schedule(0.1) == (60, 10)
    assert schedule(0.5) == (200, 50) == schedule(0.9)


def regression(X):
    A = np.column_stack([np.ones(len(X)), X[:, :-1]])
    inverse = np.linalg.inv(A.T @ A)
    b = inverse @ A.T @ X[:, -1]
    rest = X[:, -1] - A @ b
    return b[1:], np.diag(inverse)[1:] * (rest @ rest) / (len(X) - A.shape[1])


def simulated(seed, n=150):
    rng = RNG(seed)
    Z = rng.standard_normal((n, 4)) @ np.linalg.cholesky(0.4 + 0.6 * np.eye(4)).T
    X = np.column_stack([Z, Z @ [1.0, -0.5, 0.5, 0.3] + rng.standard_normal(n)])
    return np.where(rng.random(X.shape) < 0.25, np.nan, X)


def test_pooled_slopes_cover():
    """25 tables x 4 slopes, 95 % intervals: .86 to 1, where the factors' draws give about .75."""
    hits = []
    for seed in range(25):
        X = simulated(seed)
        tables = CopulaImputer(random_state=0).fit(X).sample(X, 8, random_state=seed)
        found = pool(*zip(*map(regression, tables), strict=True), complete_df=145)
        hits.append((found.lower < [1.0, -0.5, 0.5, 0.3]) & (found.upper > [1.0, -0.5, 0.5, 0.3]))
    assert np.mean(hits) > 0.86


def test_new_rows_are_drawn_given_the_rows_of_fit():
    X = simulated(0, 300)
    X[:, 0] = np.where(np.isnan(X[:, 0]), np.nan, X[:, 0] > 0)
    model = CopulaImputer(random_state=0).fit(X)
    assert model.draws_ == "full"
    new = X[:40] + 0.0
    draws = np.stack(model.sample(new, 40, random_state=1))
    assert np.isfinite(draws).all()
    assert set(np.unique(draws[:, :, 0])) == {0.0, 1.0}
    same = np.stack(model.sample(X, 40, random_state=2))[:, :40]
    gaps = np.isnan(new)
    centre, other = draws.mean(axis=0)[gaps], same.mean(axis=0)[gaps]
    assert np.corrcoef(centre, other)[0, 1] > 0.9
    np.testing.assert_array_equal(
        model.sample(new, 1, random_state=3)[0], model.sample(new, 1, random_state=3)[0]
    )


@pytest.mark.parametrize("correlation", ["full", "factors"])
def test_clipped_draws_stay_inside_the_observed_range(correlation):
    X = simulated(5)
    for clip in (False, True):
        model = CopulaImputer(2, correlation=correlation, clip=clip, nonlinear=False, random_state=0).fit(X)
        drawn = np.stack(model.sample(X, 10, random_state=0))
        inside = (drawn >= np.nanmin(X, axis=0)) & (drawn <= np.nanmax(X, axis=0))
        assert inside.all() == clip


def test_the_fitted_table_is_a_copy():
    X = simulated(1)
    model = CopulaImputer(random_state=0).fit(X)
    Y = X.copy()
    before = model.sample(Y, 1, random_state=0)[0]
    X[:] = 0.0
    np.testing.assert_array_equal(model.sample(Y, 1, random_state=0)[0], before)


def test_predictions_by_a_full_correlation():
    X = simulated(2)
    auto, factors, full = (
        CopulaImputer(correlation=kind, random_state=0).fit(X) for kind in ("auto", "factors", "full")
    )
    np.testing.assert_array_equal(auto.loadings_, factors.loadings_)
    np.testing.assert_array_equal(auto.score_samples(X), factors.score_samples(X))
    between = (auto.correlation_ - factors.correlation_) / (
        full.correlation_ - factors.correlation_ + np.eye(5)
    )
    share = between[~np.eye(5, dtype=bool)]
    assert 0.1 < share[0] < 1.0
    np.testing.assert_allclose(share, share[0], atol=1e-6)  # a mixture of both
    assert (auto.draws_, factors.draws_, full.draws_) == ("full", "factors", "full")
    R = full.correlation_
    np.testing.assert_allclose(np.diag(R), 1.0, atol=1e-9)
    assert full.score(X) > factors.score(X)  # two factors cannot hold these correlations
    pairs = np.array(
        [
            [np.corrcoef(X[~np.isnan(X[:, [i, j]]).any(axis=1)][:, [i, j]].T)[0, 1] for i in range(5)]
            for j in range(5)
        ]
    )
    assert np.abs(R - pairs).max() < 0.2


def test_a_full_correlation_is_refused_where_it_cannot_be():
    X = RNG(0).standard_normal((8, 12))
    with pytest.raises(ValueError, match="12 columns that vary and 8 rows"):
        CopulaImputer(correlation="full").fit(X)
    with pytest.raises(ValueError, match="method must be 'ep'"):
        CopulaImputer(correlation="full", method="paper", n_components=2).fit(X[:, :4])
    assert CopulaImputer(random_state=0).fit(X).draws_ == "factors"


def test_root_of_a_matrix_that_rounding_left_singular():
    x = np.array([1.0, 2.0, -1.0])
    M = np.outer(x, x)
    L = lower_root(M)
    np.testing.assert_allclose(L @ L.T, M, atol=1e-7)
    np.testing.assert_array_equal(np.triu(L, 1), 0.0)
    np.testing.assert_array_equal(lower_root(np.diag([4.0, 9.0])), np.diag([2.0, 3.0]))
    with pytest.raises(ValueError, match="correlation='factors'"):
        lower_root(np.array([[1.0, 2.0], [2.0, 1.0]]))
