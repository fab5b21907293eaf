"""Cells as the rest of their rows tell them, and means that are no worse than medians."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from colspace import CopulaImputer
from colspace.copula import _left_out
from colspace.copula._lean import beside_median, lean_of
from colspace.copula._left_out import left_out, some_rows, with_lean
from colspace.copula._predict import gaps


def table(levels, n=60, p=5, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    if levels:
        Z[:, 1] = np.digitize(Z[:, 1], [-1.0, 0.5, 1.5])
        Z[:, 3] = Z[:, 3] > 0
    return np.where(rng.random((n, p)) < 0.15, np.nan, Z)


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("correlation", ["factors", "full"])
def test_cells_left_out_one_by_one(levels, correlation):
    """Against rows in which that one cell is missing; sites of other levels have seen it, so there nearly."""
    X = table(levels)
    model = CopulaImputer(2, correlation=correlation, nonlinear=False, random_state=0).fit(X)._point
    assert (model.joint is not None) == (correlation == "full")
    found = left_out(X, model)
    assert len(found.row) == np.isfinite(X).sum()
    off = []
    for i, j, mean, sd in zip(found.row, found.column, found.mean, found.sd, strict=True):
        row = X[[i]].copy()
        row[0, j] = np.nan
        gap = next(gap for gap in gaps(row, model) if gap.column == j)
        off.append([mean - gap.mean[0], sd - gap.sd[0]])
    off = np.abs(off)
    if not levels and correlation == "full":
        assert off.max() < 1e-8
    else:  # levels, or loadings that are uncertain: the cell in view narrows them a little
        assert np.median(off) < 0.02
        assert off.mean() < 0.05


def test_lean_is_the_regression_on_what_the_mean_adds():
    rng = np.random.default_rng(0)
    told = rng.exponential(size=20_000) * 0.3
    for share in (0.0, 0.4, 1.0):
        off = share * told + rng.standard_normal(20_000)
        assert abs(lean_of(off, told, np.ones(20_000)) - share) < 0.05
    assert lean_of(off, -told, np.ones(20_000)) == 0.0  # never beyond the median
    assert lean_of(3 * told, told, np.ones(20_000)) == 1.0  # nor beyond the mean
    assert lean_of(off, 0 * told, np.ones(20_000), 0.7) == 0.7  # nothing known: as before
    few = lean_of(-told[:3], told[:3], np.ones(3))
    assert 0.1 < few < 0.5  # three cells against the prior
    w = rng.integers(1, 4, 200)
    assert lean_of(off[:200], told[:200], w.astype(float), 0.5) == pytest.approx(
        lean_of(np.repeat(off[:200], w), np.repeat(told[:200], w), np.ones(w.sum()), 0.5)
    )


def test_means_lean_to_the_median_where_their_law_is_wrong():
    """Two groups of far values: the copula's law of a gap is one wide bell over both, and its mean far from either."""
    rng = np.random.default_rng(0)
    group = rng.random(300) < 0.4
    X = np.column_stack([group + 0.05 * rng.standard_normal(300) for _ in range(3)])
    X = np.column_stack([X, rng.standard_normal(300)])
    gone = rng.random(X.shape) < 0.2
    holes = np.where(gone, np.nan, X)
    model = CopulaImputer(nonlinear=False, random_state=0).fit(holes)
    lean = model._point.lean
    assert lean[:3].max() < 0.9
    assert lean[3] < 0.5  # its mean is its median, so that it has what the table has
    error = [np.mean((filled - X)[gone] ** 2) for filled in (model.mean(holes), model.transform(holes))]
    assert error[0] <= 1.005 * error[1]
    column = model._point.columns[0]
    gap = next(gap for gap in gaps(holes, model._point) if gap.column == 0)
    off, told = beside_median(column, gap.mean, gap.sd, X[gap.rows, 0])
    median = column.values(gap.mean)
    assert_allclose(off, X[gap.rows, 0] - median)
    assert_allclose(model.mean(holes)[gap.rows, 0], median + lean[0] * told)


@pytest.mark.parametrize("rows", [1000, 60])
def test_rows_of_weight_two_are_rows_twice(rows, monkeypatch):
    """In a table of which all rows are looked at, and in one of which some are."""
    monkeypatch.setattr(_left_out, "ROWS", rows)
    X = np.exp(table(False, 80))
    X[np.isnan(X).all(axis=1)] = 1.0
    model = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)._point
    w = np.random.default_rng(1).integers(1, 4, 80)
    found = with_lean(model, X, w.astype(float)).lean
    assert_allclose(found, with_lean(model, X.repeat(w, axis=0), None).lean, rtol=1e-9)
    assert np.abs(found - with_lean(model, X, None).lean).max() > 1e-3


def test_of_many_rows_some_are_looked_at(monkeypatch):
    monkeypatch.setattr(_left_out, "ROWS", 60)
    X = table(False, 400)
    model = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)._point
    rows, weight = some_rows(X, None, model)
    assert 40 < len(rows) < 85
    assert len(weight) == len(rows)
    assert (weight == 1).all()
