"""Any correlation that predicts: steps against closed forms, the choice by hidden cells on simulated tables."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm, truncnorm

from colspace import CopulaImputer
from colspace.copula import _choice, _covariance
from colspace.copula._choice import SHARES, Held, Mixture, best_mixture, mixed, weighted_quantile
from colspace.copula._covariance import (
    Cells,
    Normal,
    Unknown,
    correlation,
    fit_normal,
    one_pass,
    row_laws,
    sites_between,
)
from colspace.copula._encode import training_block
from colspace.copula._full import mixed_model
from colspace.copula._passes import LocalRows
from colspace.copula._predict import impute
from colspace.copula._rank import chosen, some_cells

RNG = np.random.default_rng


def random_cover(p, rng):
    A = rng.standard_normal((p, p + 2))
    return A @ A.T / p


def number_cells(Z, weight=None):
    """Cells of a table of numbers with NaN."""
    gone = np.isnan(Z)
    groups = []
    for u in np.unique(gone.sum(axis=1)):
        rows = np.flatnonzero(gone.sum(axis=1) == u)
        if u:
            columns = np.nonzero(gone[rows])[1].reshape(len(rows), u)
            zero, far = np.zeros(columns.shape), np.full(columns.shape, np.inf)
            groups.append(Unknown(rows, columns, zero, zero, -far, far))
    return Cells(np.nan_to_num(Z), tuple(groups), np.ones(len(Z)) if weight is None else weight, levels=False)


def holes(Z, rng, share=0.3):
    return np.where(rng.random(Z.shape) < share, np.nan, Z)


def test_gaps_have_the_conditional_law_of_a_normal_one():
    rng = RNG(0)
    law = Normal(rng.standard_normal(5), random_cover(5, rng))
    Z = holes(rng.multivariate_normal(*law, 40), rng)
    mean, variance = row_laws(number_cells(Z), law)
    for z, m, v in zip(Z, mean, variance, strict=True):
        U, O = np.flatnonzero(np.isnan(z)), np.flatnonzero(~np.isnan(z))
        slope = law.cover[np.ix_(U, O)] @ np.linalg.inv(law.cover[np.ix_(O, O)])
        np.testing.assert_allclose(m[U], law.mean[U] + slope @ (z[O] - law.mean[O]), atol=1e-9)
        left = law.cover[np.ix_(U, U)] - slope @ law.cover[np.ix_(O, U)]
        np.testing.assert_allclose(v[U], np.diag(left), atol=1e-9)
        np.testing.assert_array_equal(v[O], 0.0)


def test_a_level_beside_gaps_is_exact():
    """z_1 in (a, b): of z_0 a gap the mean is rho E[z_1], the variance 1 - rho^2 (1 - Var[z_1])."""
    rho, a, b = 0.7, -0.2, 1.1
    ends = np.array([[-np.inf, a]]), np.array([[np.inf, b]])
    tau, nu = sites_between(np.zeros((1, 2)), np.ones((1, 2)), *ends)
    assert tau[0, 0] == nu[0, 0] == 0.0
    group = Unknown(np.array([0]), np.array([[0, 1]]), tau, nu, *ends)
    cells = Cells(np.zeros((1, 2)), (group,), np.ones(1), levels=True)
    mean, variance = row_laws(cells, Normal(np.zeros(2), np.array([[1.0, rho], [rho, 1.0]])))
    m, v = truncnorm.stats(a, b)
    np.testing.assert_allclose(mean, [[rho * m, m]], atol=1e-6)
    np.testing.assert_allclose(variance, [[1 - rho**2 * (1 - v), v]], atol=1e-6)


def test_laws_move_with_their_mean():
    """Levels, gaps and numbers beside a mean: those beside none, moved by it."""
    rng = RNG(0)
    mu, cover = np.array([0.6, -0.4, 1.2, -0.8]), random_cover(4, rng)
    columns, known = np.array([[0, 1, 3], [1, 2, 3]]), np.array([[0, 0, 0.5, 0], [-0.3, 0, 0, 0]])
    low, high = (
        np.array([[-0.2, -np.inf, -np.inf], [0.1, -np.inf, 0.3]]),
        np.array([[0.9, 0.4, np.inf], [1, 2, 4.0]]),
    )
    found = []
    for shift in (0 * mu, mu):
        ends = low + shift[columns], high + shift[columns]
        sites = sites_between(np.zeros((2, 3)), np.ones((2, 3)), *ends)
        group = Unknown(np.arange(2), columns, *sites, *ends)
        z = np.where(known == 0, 0.0, known + shift)
        mean, variance = row_laws(Cells(z, (group,), np.ones(2), levels=True), Normal(shift, cover))
        found.append((np.take_along_axis(mean - shift, columns, 1), np.take_along_axis(variance, columns, 1)))
    np.testing.assert_allclose(found[1], found[0], atol=1e-3)


def test_complete_numbers_give_the_sample_moments_drawn_to_the_prior():
    rng = RNG(1)
    Z = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 3))
    prior, weight = random_cover(3, rng), rng.integers(1, 4, 60).astype(float)
    _, law = fit_normal(
        number_cells(Z, weight), Normal(np.zeros(3), np.eye(3)), prior, 7.0, np.zeros(3, dtype=bool)
    )
    again = Z.repeat(weight.astype(int), axis=0)
    n = len(again)
    np.testing.assert_allclose(law.mean, again.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        law.cover, (np.cov(again.T, bias=True) * n + 7.0 * prior) / (n + 7.0), atol=1e-12
    )
    _, held = fit_normal(number_cells(Z), law, prior, 7.0, np.array([True, False, False]))
    assert held.cover[0, 0] == pytest.approx(1.0)


def observed_likelihood(Z, law):
    return sum(
        multivariate_normal(law.mean[on], law.cover[np.ix_(on, on)]).logpdf(z[on])
        for z, on in zip(Z, ~np.isnan(Z), strict=True)
        if on.any()
    )


def test_em_with_gaps_ends_at_the_largest_likelihood():
    rng = RNG(2)
    Z = holes(rng.multivariate_normal(np.ones(3), random_cover(3, rng), 80), rng)
    cells, law, none = number_cells(Z), Normal(np.zeros(3), np.eye(3)), np.zeros(3, dtype=bool)
    for _ in range(4):  # each until a correlation moves by less than .002
        _, law = fit_normal(cells, law, np.eye(3), 0.0, none)
    best = observed_likelihood(Z, law)
    for size in (0.95, 1.05):
        assert observed_likelihood(Z, Normal(law.mean, size * law.cover)) < best
    for _ in range(8):
        turn = np.eye(3) + 0.05 * rng.standard_normal((3, 3))
        other = Normal(law.mean + 0.05 * rng.standard_normal(3), turn @ law.cover @ turn.T)
        assert observed_likelihood(Z, other) < best


def test_one_pass_sums_covariances_by_weight():
    rng = RNG(3)
    law = Normal(np.zeros(4), random_cover(4, rng))
    Z, w = holes(rng.standard_normal((30, 4)), rng), rng.integers(1, 4, 30)
    _, z, sums = one_pass(number_cells(Z, w.astype(float)), law)
    _, far, again = one_pass(number_cells(Z.repeat(w, axis=0)), law)
    np.testing.assert_allclose(sums, again, atol=1e-10)
    np.testing.assert_allclose(z.repeat(w, axis=0), far, atol=1e-12)
    total = np.zeros((4, 4))
    for row, times in zip(Z, w, strict=True):
        U = np.flatnonzero(np.isnan(row))
        Q = np.linalg.inv(law.cover)
        total[np.ix_(U, U)] += times * np.linalg.inv(Q[np.ix_(U, U)])
    np.testing.assert_allclose(sums, total, atol=1e-9)


def test_mixtures_go_from_the_factors_to_the_full_law():
    rng = RNG(4)
    R, full = correlation(Normal(np.zeros(3), random_cover(3, rng))), Normal(np.ones(3), random_cover(3, rng))
    none, half, whole = (mixed(R, full, share) for share in (0.0, 0.5, 1.0))
    np.testing.assert_allclose(none.cover, R, atol=1e-12)
    np.testing.assert_allclose(whole.cover, full.cover, atol=1e-12)
    np.testing.assert_allclose(correlation(half), 0.5 * (R + correlation(full)), atol=1e-12)
    np.testing.assert_allclose(half.mean, 0.5)
    assert SHARES == (0.0, 0.25, 0.5, 0.75, 1.0)


def test_a_law_with_means_and_deviations_predicts_in_its_own_units():
    """Beside a number the conditional normal law, beside a level that of a truncated one; written out in units of z."""
    rng = RNG(7)
    Z = rng.multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), 150)
    X = np.column_stack([Z[:, :2], np.digitize(Z[:, 2], [-0.5, 0.7])])
    model = CopulaImputer(1, nonlinear=False, correlation="factors", random_state=0).fit(X)._model
    mean, cover = np.array([0.2, -0.3, 0.25]), np.diag([0.9, 1.1, 1.3]) + 0.4
    point = mixed_model(model, Mixture(1.0, Normal(mean, cover), np.ones(3)))
    rows = np.array([[np.nan, X[0, 1], np.nan], [np.nan, np.nan, 0.0], [np.nan, np.nan, 1.0]])
    found = impute(rows, point, clip=False)
    z = model.columns[1].latent(rows[:1, 1])[0]
    sd, edges = np.sqrt(cover[2, 2]), (np.r_[-np.inf, model.columns[2].z, np.inf] - mean[2])
    level = truncnorm.mean(edges[:2] / sd, edges[1:3] / sd, scale=sd)
    told = np.r_[cover[0, 1] / cover[1, 1] * (z - mean[1]), cover[0, 2] / cover[2, 2] * level]
    np.testing.assert_allclose(found[:, 0], model.columns[0].values(mean[0] + told), atol=1e-3)


def test_widths_are_those_of_the_residuals():
    rng = RNG(5)
    n = 20_000
    row, column = np.arange(n), np.repeat([0, 1], n // 2)
    z = 1.3 * rng.standard_normal(n)
    low, high = z.copy(), z.copy()
    on = column == 1
    low[on], high[on] = np.where(z[on] > 0.5, 0.5, -np.inf), np.where(z[on] > 0.5, np.inf, 0.5)
    held = Held(row, row, column, np.ones(n), low, high)
    zero, one = np.zeros((n, 3)), np.ones((n, 3))
    np.testing.assert_allclose(held.widths(zero, one, 3), [1.3, 1.3, 1.0], atol=0.05)
    assert held.widths(zero, 4 * one, 3)[0] == 1.0  # never narrower
    few = Held(row[:100], row[:100], column[:100], np.ones(100), z[:100], z[:100])
    full, drawn = (
        np.quantile(np.abs(z[:100]), 0.95, method="inverted_cdf") / norm.ppf(0.975),
        few.widths(zero, one, 3),
    )
    assert drawn[0] == pytest.approx(full**0.5)
    at = held.likelihood(zero, one), held.likelihood(zero, 2.0 * one)
    exact = np.flatnonzero(~on)
    square = np.mean(z[exact] ** 2)
    above = np.where(z[on] > 0.5, norm.sf(0.5), norm.cdf(0.5))
    assert at[0] == pytest.approx(np.log(above).sum() - 0.5 * len(exact) * np.log(square))
    wide = np.where(z[on] > 0.5, norm.sf(0.5 / np.sqrt(2)), norm.cdf(0.5 / np.sqrt(2)))
    assert at[1] == pytest.approx(np.log(wide).sum() - 0.5 * len(exact) * np.log(square))


def test_widths_are_believed_by_the_cells_of_their_kind():
    """Numbers and levels apart, both by their weights: a width to the power m / (m + 100) of m cells."""
    rng = RNG(9)
    z, column = 1.5 * rng.standard_normal(360), np.repeat([0, 1], [60, 300])
    low, high, on = z.copy(), z.copy(), column == 1
    low[on], high[on] = np.where(z[on] > 0.5, 0.5, -np.inf), np.where(z[on] > 0.5, np.inf, 0.5)
    w = np.where(on, 0.5, 2.0)
    held = Held(np.arange(360), np.arange(360), column, w, low, high)
    found = held.widths(np.zeros((360, 2)), np.ones((360, 2)), 2)
    number = np.quantile(np.abs(z[:60]), 0.95, method="inverted_cdf") / norm.ppf(0.975)
    assert found[0] == pytest.approx(number ** (120 / 220))
    tried = np.exp(np.linspace(0.0, 0.6, 25))
    above = int((z[on] > 0.5).sum())
    told = [above * norm.logsf(0.5 / s) + (300 - above) * norm.logcdf(0.5 / s) for s in tried]
    assert found[1] == pytest.approx(tried[int(np.argmax(told))] ** (150 / 250))


def test_weighted_quantile_counts_rows():
    rng = RNG(6)
    x, w = rng.standard_normal(50), rng.integers(1, 5, 50)
    again = np.quantile(x.repeat(w), 0.9, method="inverted_cdf")
    assert weighted_quantile(x, w.astype(float), 0.9) == pytest.approx(again)


def dense_table(seed, n=400):
    """Seven columns in a ring, each correlated with both neighbours, which no few factors can be; a fifth of the cells hidden."""
    rng = RNG(seed)
    e = rng.standard_normal((n, 7))
    Z = e + 0.9 * np.roll(e, 1, axis=1)
    return Z, holes(Z, rng, 0.2)


def test_a_full_correlation_is_used_where_it_predicts_better():
    wrong, cover = [], []
    for seed in range(4):
        Z, X = dense_table(seed)
        gone = np.isnan(X)
        factors, auto = (
            CopulaImputer(correlation=kind, nonlinear=False, random_state=0).fit(X)
            for kind in ("factors", "auto")
        )
        assert auto._point.joint is not None
        wrong.append([np.abs(m.transform(X) - Z)[gone].mean() for m in (factors, auto)])
        lower, upper = auto.interval(X)
        cover.append(((lower <= Z) & (upper >= Z))[gone].mean())
        np.testing.assert_allclose(np.diag(auto.correlation_), 1.0, atol=1e-9)
    before, after = np.mean(wrong, axis=0)
    assert after < 0.93 * before
    assert 0.93 < np.mean(cover) < 0.975


def test_few_factors_stay_where_they_are_right():
    rng = RNG(8)
    W = rng.standard_normal((12, 2))
    Z = rng.standard_normal((300, 2)) @ W.T + 0.7 * rng.standard_normal((300, 12))
    X = holes(Z, rng, 0.2)
    gone = np.isnan(X)
    factors, auto = (
        CopulaImputer(correlation=kind, nonlinear=False, random_state=0).fit(X)
        for kind in ("factors", "auto")
    )
    wrong = [np.abs(m.transform(X) - Z)[gone].mean() for m in (factors, auto)]
    assert wrong[1] < 1.01 * wrong[0]
    given = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)
    assert given._point.factors is given._model.factors  # those that are asked for predict


def test_a_warm_start_keeps_the_mixture(monkeypatch):
    """It begins at the full correlation that was found: on the same rows a single step is left of it, and nothing is hidden again."""
    _, X = dense_table(7)
    model = CopulaImputer(nonlinear=False, random_state=0).fit(X)
    first, steps = model._point, []
    assert 0 < first.share <= 1
    plain = _choice.fit_normal
    monkeypatch.setattr(_choice, "fit_normal", lambda *a: steps.append((a[1], plain(*a))) or steps[-1][1])
    model.set_params(n_components=model.n_components_, warm_start=True).fit(X)
    ((start, (_, found)),) = steps
    assert model._point.share == first.share
    assert model._point.wider is first.wider
    assert np.abs(start.cover - correlation(found)).max() < 0.02
    assert np.abs(model._point.joint - first.joint).max() < 0.02


def test_a_warm_start_takes_the_factors_out_of_the_mixture(monkeypatch):
    _, X = dense_table(7)
    model = CopulaImputer(nonlinear=False, random_state=0).fit(X)
    factors, full = _choice.factor_correlation(model._model.factors), np.eye(X.shape[1]) + 0.1
    model._point = replace(model._point, share=0.25, joint=0.75 * factors + 0.25 * full)
    starts, plain = [], _choice.fit_normal
    monkeypatch.setattr(_choice, "fit_normal", lambda *a: starts.append(a[1].cover) or plain(*a))
    model.set_params(n_components=model.n_components_, warm_start=True).fit(X)
    assert_allclose(starts[0], full, atol=1e-12)


def test_rows_are_predicted_by_themselves_and_weights_count_rows():
    Z, X = dense_table(9, 150)
    X[:, 0] = np.digitize(X[:, 0], [-0.5, 0.6])
    X[np.isnan(Z) | (RNG(1).random(X.shape) < 0.1)] = np.nan
    model = CopulaImputer(nonlinear=False, random_state=0).fit(X)
    assert model._point.joint is not None
    some = RNG(2).permutation(150)[:40]
    np.testing.assert_allclose(model.transform(X)[some], model.transform(X[some]), rtol=1e-9)
    np.testing.assert_allclose(model.interval(X)[1][some], model.interval(X[some])[1], rtol=1e-9)
    w = RNG(3).integers(0, 3, 150)
    weighted = CopulaImputer(nonlinear=False, random_state=0).fit(X, sample_weight=w)
    again = CopulaImputer(nonlinear=False, random_state=0).fit(X.repeat(w, axis=0))
    np.testing.assert_allclose(weighted.correlation_, again.correlation_, atol=1e-7)
    np.testing.assert_allclose(weighted.interval(X)[0], again.interval(X)[0], rtol=1e-5)


def test_shares_are_averaged_by_what_few_cells_can_say(monkeypatch):
    """Weights are likelihoods to the power m / (m + 100) of m hidden cells; levels of a group are hidden with each other."""
    rng = RNG(5)
    Z, _ = dense_table(5, 60)
    Z[:, 4:] = Z[:, 4:] > 0
    X = holes(Z, rng, 0.1)
    X[np.isnan(X[:, 4:]).any(axis=1), 4:] = np.nan
    model = CopulaImputer(1, nonlinear=False, random_state=0).fit(X)._model
    told, kept, likelihood = [], [], Held.likelihood
    monkeypatch.setattr(
        Held, "likelihood", lambda self, *law: told.append(likelihood(self, *law)) or told[-1]
    )
    monkeypatch.setattr(
        _choice, "some_cells", lambda block, on: kept.append((block, on)) or some_cells(block, on)
    )
    monkeypatch.setattr(_choice, "LEAST", 0.0)
    found = best_mixture(LocalRows(X), model, 1e-3, groups=[slice(4, 7)])
    block, on = kept[0]
    m = int((~on).sum())
    weights = np.exp(m / (m + 100.0) * (np.array(told) - max(told)))
    assert 30 < m < 80
    assert 0.05 < weights.min() / weights.max() < 0.99
    assert found.share == pytest.approx(weights @ np.array(SHARES) / weights.sum(), rel=1e-9)
    hidden = np.zeros(X.shape, dtype=bool)
    hidden[block.rows.row[~on], block.rows.column[~on]] = True
    assert 2 < hidden[:, 4].sum() < 20
    np.testing.assert_array_equal(hidden[:, 4:], np.repeat(hidden[:, [4]], 3, axis=1))


def test_hidden_cells_are_not_seen_before_they_are_asked(monkeypatch):
    """Both laws are those of the other cells: hidden ones that trade places change neither; widths are those of the chosen share."""
    _, X = dense_table(11, 150)
    model = CopulaImputer(1, nonlinear=False, random_state=0).fit(X)._model
    gone = ~np.isnan(X) & (np.arange(X.size).reshape(X.shape) % 7 == 0)
    monkeypatch.setattr(_choice, "chosen", lambda block, *_: gone[block.rows.row, block.rows.column])
    asked = []
    monkeypatch.setattr(_choice, "mixed", lambda *law: asked.append(law) or mixed(*law))
    other = X.copy()
    for x, on in zip(other.T, gone.T, strict=True):
        x[on] = np.roll(x[on], 1)
    found = [best_mixture(LocalRows(table), model, 1e-3) for table in (X, other)]
    R = model.factors.W @ model.factors.W.T + np.diag(model.factors.noise)
    assert found[0] is not None
    assert asked[len(SHARES)][2] == found[0].share
    for first, full, _ in asked[1:]:
        np.testing.assert_allclose(first, asked[0][0], atol=1e-12)
        np.testing.assert_allclose(full.cover, asked[0][1].cover, atol=1e-12)
    assert np.abs(asked[0][0] - R).max() > 1e-3
    monkeypatch.setattr(_choice, "LEAST", found[0].share + 1e-6)
    assert best_mixture(LocalRows(X), model, 1e-3) is None  # too little: the factors as they are


def test_cells_are_hidden_in_some_rows_by_what_these_hold():
    _, X = dense_table(10)
    model = CopulaImputer(1, nonlinear=False, random_state=0).fit(X)._model
    block = training_block(X, model.state.chain)
    all_rows, some = chosen(block, 0.15), chosen(block, 0.15, 0.25)
    assert 0.12 < all_rows.mean() < 0.18
    assert not (some & ~all_rows).any()
    rows = block.rows.row
    touched = np.unique(rows[some])
    assert 0.15 < len(touched) / len(np.unique(rows[all_rows])) < 0.35
    np.testing.assert_array_equal(some[np.isin(rows, touched)], all_rows[np.isin(rows, touched)])


@pytest.mark.parametrize("p", [3, _covariance._BY_ROOTS, _covariance._BY_ROOTS + 13])
def test_inverses_times_their_matrices_are_the_identity(p):
    B = np.random.default_rng(0).standard_normal((4, p, 2 * p))
    A = B @ B.transpose(0, 2, 1)
    before = A.copy()
    found = _covariance.inverse(A)
    np.testing.assert_allclose(found @ A, np.tile(np.eye(p), (4, 1, 1)), atol=1e-9)
    np.testing.assert_array_equal(A, before)
    np.testing.assert_allclose(_covariance.inverse(A[0]), found[0], rtol=1e-12)
    if p > 3:  # by roots
        np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
        A[2] *= -1  # has no root
        np.testing.assert_allclose(_covariance.inverse(A)[[0, 2]], [found[0], -found[2]], rtol=1e-9)
