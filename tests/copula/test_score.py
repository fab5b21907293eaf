"""Scores of hidden cells: against conditional laws written out, and as a search uses them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.model_selection import GridSearchCV

from colspace import CopulaImputer
from colspace.copula._predict import Gaps
from colspace.copula._residual_law import residual_law
from colspace.copula._score import FOLDS, cell_folds, hidden_score, log_density

RNG = np.random.default_rng


def mixed_table(seed=0, n=160):
    rng = RNG(seed)
    Z = rng.standard_normal((n, 1)) + 0.7 * rng.standard_normal((n, 4))
    X = np.column_stack([Z[:, :2], np.digitize(Z[:, 2], [-0.5, 0.8]), np.maximum(Z[:, 3], -0.4)])
    return np.where(rng.random(X.shape) < 0.15, np.nan, X)


def test_each_cell_given_the_rest_of_its_row():
    """The mean over folds of densities from the intervals' own laws, cell by cell."""
    X = mixed_table()
    model = CopulaImputer(2, random_state=0).fit(X)
    assert model.kinds_ == ("continuous", "continuous", "ordinal", "lower")
    fold = cell_folds(X, model._model)
    assert set(np.unique(fold)) == {-1, *range(FOLDS)}
    np.testing.assert_array_equal(fold < 0, np.isnan(X))
    told = []
    for f in range(FOLDS):
        Y = np.where(fold == f, np.nan, X)
        sure = model.probability_within(Y, 0)
        filled = model.transform(Y)
        chance = 1.0 - np.sqrt(1.0 - model.reliability(Y, "variance"))  # sd of z is one less this
        for i, j in zip(*np.nonzero(fold == f), strict=True):
            column = model._model.columns[j]
            if j == 2 and filled[i, j] == X[i, j]:
                told.append((i, j, np.log(sure[i, j])))
            elif j < 2:
                sd, z = 1.0 - chance[i, j], column.latent(X[i : i + 1, j])
                m = column.latent(filled[i : i + 1, j], smooth=True)
                law = norm.logpdf(z, m, sd) + column.log_slope(X[i : i + 1, j])
                told.append((i, j, float(law[0])))
    whole = np.full(X.shape, np.nan)
    for i, j, value in told:
        whole[i, j] = value
    found = np.array(
        [one_cell(model._model, X, fold, i, j) for i, j in zip(*np.nonzero(~np.isnan(whole)), strict=True)]
    )
    np.testing.assert_allclose(found, whole[~np.isnan(whole)], atol=0.01)


def one_cell(model, X, fold, i, j):
    """What one cell adds to the score: that of its row without the other cells of its fold, less nothing else."""
    from colspace.copula._predict import gaps

    Y = np.where(fold == fold[i, j], np.nan, X)[[i]]
    (gap,) = [gap for gap in gaps(Y, model) if gap.column == j]
    return float(log_density(model.columns[j], gap, X[i : i + 1, j])[0])


def test_the_score_is_the_mean_of_its_cells():
    X = mixed_table(1, 40)
    model = CopulaImputer(1, random_state=0).fit(mixed_table())._model
    fold = cell_folds(X, model)
    at = list(zip(*np.nonzero(fold >= 0), strict=True))
    each = np.array([one_cell(model, X, fold, i, j) for i, j in at])
    assert hidden_score(X, model, None) == pytest.approx(each.mean(), rel=1e-9)
    w = RNG(0).integers(0, 3, 40).astype(float)
    cells = w[[i for i, _ in at]]
    assert hidden_score(X, model, w) == pytest.approx(cells @ each / cells.sum(), rel=1e-9)


@pytest.mark.parametrize("bent", [False, True])
def test_densities_and_masses_add_up_to_one(bent):
    model = CopulaImputer(1, random_state=0).fit(mixed_table())._model
    law = residual_law(RNG(1).random(4000) - 0.5, np.ones(4000))[0] if bent else None
    for j in (0, 3):
        column = model.columns[j]
        grid = np.linspace(column.x[0], column.x[-1], 20_001)
        gap = Gaps(j, np.arange(20_001), np.full(20_001, 0.1), np.full(20_001, 0.4), law)
        density = np.exp(log_density(column, gap, grid))
        step = grid[1] - grid[0]
        inside = float(density[1:-1].sum()) * step
        mass = float(density[0]) if j == 3 else 0.0  # at the limit
        assert inside + mass == pytest.approx(1.0, abs=0.02)
    column = model.columns[2]
    gap = Gaps(2, np.arange(3), np.full(3, 0.1), np.full(3, 0.4), law)
    assert np.exp(log_density(column, gap, column.levels)).sum() == pytest.approx(1.0)


def test_density_of_residuals_has_their_variance():
    """Residuals of -1 and 1, whose law is smoothed: a mean of zero and a variance of one by the trapezoidal rule."""
    law = residual_law(np.resize([-2.0, 2.0], 4000), np.ones(4000))[0]
    at = np.linspace(-4, 4, 4001)
    density = np.exp(law.log_density(at))
    moments = [np.trapezoid(density * at**k, at) for k in range(3)]
    np.testing.assert_allclose(moments, [1.0, 0.0, 1.0], atol=1e-6)
    assert np.exp(law.log_density(np.zeros(1)))[0] < 0.1  # nothing is between them


def test_residuals_count_by_their_weights():
    rng = RNG(2)
    residual, w = rng.standard_normal(300), rng.integers(1, 4, 300)
    weighted, scale = residual_law(residual, w.astype(float))
    again, other = residual_law(residual.repeat(w), np.ones(w.sum()))
    assert scale == pytest.approx(other)
    share = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(weighted.quantile(share), again.quantile(share), atol=0.03)


def test_a_search_finds_curves_as_well_as_factors():
    rng = RNG(0)
    x = rng.standard_normal((260, 3))
    bowl = np.column_stack([x, x[:, 0] ** 2 + 0.2 * rng.standard_normal(260)])
    X = np.where(rng.random(bowl.shape) < 0.1, np.nan, bowl)
    search = GridSearchCV(CopulaImputer(random_state=0), {"nonlinear": [False, True]}, cv=2).fit(X)
    assert search.best_params_ == {"nonlinear": True}


def test_levels_of_a_word_are_hidden_together():
    """Beside its other levels the last would be certain; alone, k equally likely ones have k log densities of an indicator each."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.choice(list("abcd"), 400) for name in ("x", "y")})
    score = CopulaImputer(nonlinear=False, random_state=0).fit(X).score(X)
    expected = 0.25 * np.log(0.25) + 0.75 * np.log(0.75)
    assert abs(score - expected) < 0.03
