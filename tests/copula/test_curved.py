"""Curved dependence: cells hidden exactly, nothing leaks, corrections that pay, and intervals, levels and draws under them."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.tree import ExtraTreeRegressor

from colspace import CopulaImputer
from colspace.copula import _curved
from colspace.copula._bend import bent, distinct_rows, sampled, spared_columns
from colspace.copula._curved import (
    Hidden,
    hidden,
    is_gain,
    latent_table,
    learn_curved,
    likeliest,
    without,
)
from colspace.copula._encode import known_rows
from colspace.copula._estep import unpack
from colspace.copula._forest import as_arrays, grow
from colspace.copula._passes import LocalRows
from colspace.copula._predict import Gaps
from colspace.copula._residual_law import residual_law
from colspace.copula._row_laws import latent_variance, row_laws


def gaussian(n=150, p=6, seed=0, levels=False):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + rng.standard_normal((n, p))
    if levels:
        Z[:, 1] = np.digitize(Z[:, 1], [-1.0, 0.5])
        Z[:, 2] = Z[:, 2] > 0
    return np.where(rng.random(Z.shape) < 0.2, np.nan, Z)


def parabola(n=300, seed=0):
    """x, its square with noise, and two columns beside; complete and with gaps."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    X = np.column_stack([x[:, 0], x[:, 0] ** 2 + 0.2 * rng.standard_normal(n), x[:, 0] + x[:, 1], x[:, 2]])
    gone = rng.random(X.shape) < 0.2
    gone[gone.all(axis=1)] = False
    return X, np.where(gone, np.nan, X)


@pytest.fixture(scope="module")
def bowl():
    X, holes = parabola()
    return X, holes, CopulaImputer(random_state=0).fit(holes)


def parts(X, model):
    known = known_rows(X, model.state.chain, model.columns, model.labels)
    return known, row_laws(known, model)


# ---------------------------------------------------------------------- one cell hidden


@pytest.mark.parametrize("levels", [False, True])
def test_a_cell_taken_out_equals_the_row_solved_without_it(levels):
    X = gaussian(levels=levels)
    model = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)._model
    assert model.factors.C.any()
    known, laws = parts(X, model)
    for j in (0, 2):
        cells = np.flatnonzero(known.rows.column == j)
        q = without(laws, model, cells)
        rows = known.rows.row[cells]
        hole = X[rows].copy()
        hole[:, j] = np.nan
        again = parts(hole, model)[1].posterior
        atol = 2e-3 if levels else 1e-10  # sites of other levels are swept a few times
        np.testing.assert_allclose(q.t, again.t, atol=atol)
        np.testing.assert_allclose(q.V, again.V, atol=atol)
        table, missing = latent_table(known, model)
        cell = hidden(laws, model, cells, table, missing, np.ones(len(X)))
        gone = np.isnan(hole)
        np.testing.assert_allclose(cell.base[gone], (again.t @ model.factors.W.T)[gone], atol=2 * atol)
        np.testing.assert_allclose(cell.base[~gone], table[rows][~gone])
        sd = np.sqrt(latent_variance(again, model.factors))[:, j]
        np.testing.assert_allclose(cell.sd, sd, atol=2 * atol)


def test_hidden_cells_do_not_depend_on_their_values():
    """Other values in column j, the same everything else: the same tables and means."""
    X = gaussian(levels=True)
    model = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)._model
    bases = []
    for shift in (0.0, 1.7):
        Y = X.copy()
        Y[:, 0] += shift
        known, laws = parts(Y, model)
        cells = np.flatnonzero(known.rows.column == 0)
        bases.append(hidden(laws, model, cells, *latent_table(known, model), np.ones(len(X))).base)
    np.testing.assert_allclose(bases[0], bases[1], atol=2e-3)


def test_residuals_of_levels_are_means_over_their_interval():
    rng = np.random.default_rng(0)
    low, high = np.array([-np.inf, 0.3, 0.7]), np.array([0.3, np.inf, 0.7])
    base = np.array([[0.5], [-0.2], [0.1]])
    cell = Hidden(0, np.arange(3), np.zeros(3), low, high, base, np.array([0.8, 1.3, 1.0]), np.ones(3))
    found = cell.residual()
    for i in (0, 1):
        z = base[i, 0] + cell.sd[i] * rng.standard_normal(400_000)
        inside = z[(z > low[i]) & (z < high[i])]
        assert abs(found[i] - (inside.mean() - base[i, 0])) < 0.01
    assert found[2] == pytest.approx(0.6)


# ---------------------------------------------------------------------- forests


def test_forest_of_arrays_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((90, 4)), rng.standard_normal(90)
    trees = [ExtraTreeRegressor(min_samples_leaf=3, random_state=i).fit(X, y) for i in range(5)]
    new = rng.standard_normal((2000, 4))
    expected = np.mean([tree.predict(new) for tree in trees], axis=0)
    forest = as_arrays([tree.tree_ for tree in trees], [np.arange(4)] * 5)
    np.testing.assert_allclose(forest(new), expected, rtol=1e-12)
    np.testing.assert_array_equal(forest(new)[7:8], forest(new[7:8]))


def test_outside_the_bag_a_forest_knows_nothing_of_noise():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    forest, outside = grow(X, y, None, rng)
    assert abs(np.corrcoef(outside, y)[0, 1]) < 0.2
    assert np.corrcoef(forest(X), y)[0, 1] > 0.8
    assert grow(X, y, None, rng, lambda _: False) is None


@pytest.mark.parametrize("worth", [True, False])
def test_threads_grow_the_same_trees(worth):
    X = np.random.default_rng(1).standard_normal((200, 3))
    y, weight = np.column_stack([X[:, 0] ** 2, X[:, 1]]), 1.0 + (X[:, 2] > 0)
    found, draws = [], []
    for n_jobs in (1, 2, 5):
        rng = np.random.default_rng(0)
        found.append(grow(X, y, weight, rng, lambda _: worth, n_jobs=n_jobs))
        draws.append(rng.random())
    assert len(set(draws)) == 1
    for other in found[1:]:
        assert (other is None) == (found[0] is None) == (not worth)
        if worth:
            np.testing.assert_array_equal(other[1], found[0][1])
            for name in ("feature", "threshold", "left", "right", "value", "roots"):
                np.testing.assert_array_equal(getattr(other[0], name), getattr(found[0][0], name))


# ---------------------------------------------------------------------- what is learned


def test_a_gain_is_a_share_and_beyond_chance():
    rng = np.random.default_rng(0)
    old, w = 1.0 + rng.random(400), np.ones(400)
    assert is_gain(old, 0.9 * old, w, 0.03)
    assert not is_gain(old, 0.98 * old, w, 0.03)
    noisy = old - 0.1 + 3.0 * rng.standard_normal(400)
    assert not is_gain(old, noisy - noisy.mean() + old.mean() - 0.1, w, 0.03)  # 7 %, less than its error


def test_a_permuted_column_gains_nothing(bowl):
    """The square of x among rows that do not belong to it: nothing to learn, and nothing leaks."""
    X = bowl[1].copy()
    seen = np.flatnonzero(~np.isnan(X[:, 1]))
    X[seen, 1] = np.random.default_rng(1).permutation(X[seen, 1])
    for seed in range(3):
        model = CopulaImputer(nonlinear=True, random_state=seed).fit(X)
        assert model.nonlinear_gain_.max() == 0.0
        assert model._model.curved is None


def test_a_square_is_found(bowl):
    X, holes, model = bowl
    straight = CopulaImputer(nonlinear=False, random_state=0).fit(holes)
    np.testing.assert_array_equal(model.loadings_, straight.loadings_)
    assert model.nonlinear_gain_[1] > 0.3
    assert (straight.nonlinear_gain_ == 0).all()
    gone = np.isnan(holes)
    error = [np.abs(m.transform(holes) - X)[:, 1][gone[:, 1]].mean() for m in (straight, model)]
    assert error[1] < 0.75 * error[0]
    square = [((m.mean(holes) - X)[:, 1][gone[:, 1]] ** 2).mean() for m in (straight, model)]
    assert square[1] < 0.75 * square[0]
    np.testing.assert_array_equal(model.transform(holes)[~gone], X[~gone])
    same = [CopulaImputer(random_state=0).fit(holes).transform(holes), model.transform(holes)]
    np.testing.assert_array_equal(same[0], same[1])


def test_only_columns_with_gaps_are_corrected():
    """With "gaps": x is told by its square as well, but has none to fill; of a kind each, numbers, levels in order and words."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 400))
    told = np.where(a * b > 0, "m", "f")
    X = pd.DataFrame({"a": a, "b": b, "bowl": a**2 + 0.2 * rng.standard_normal(400)})
    X["step"], X["sex"] = (np.abs(b) * 3).round().clip(0, 4), told
    X["where"] = np.where(np.abs(a) < 0.6, "in", np.where(b > 0, "north", "south"))
    for name in ("bowl", "step", "sex", "where"):
        gain = {}
        for share in (0.2, 0.004):
            some = X.copy()
            some.loc[rng.permutation(400)[: int(share * 400)], name] = None
            model = CopulaImputer(1, nonlinear="gaps", random_state=0).fit(some)
            gain[share] = dict(zip(X, model.nonlinear_gain_, strict=True))
            if share < 0.01:
                plain = CopulaImputer(1, nonlinear=False, random_state=0).fit(some)
                pd.testing.assert_frame_equal(model.transform(some), plain.transform(some))
        assert gain[0.2].pop(name) > 0.1
        assert not any(gain[0.2].values())
        assert not any(gain[0.004].values())


def test_a_share_of_gaps_counts_rows_by_weight():
    X = np.array([[1.0, np.nan], [2.0, 1.0], [3.0, 2.0]])
    weight = np.array([0.5, 99.0, 0.6])  # .5 of 100.1
    assert spared_columns(LocalRows(X, weight), "gaps", 2).tolist() == [True, True]
    assert spared_columns(LocalRows(X, None), "gaps", 2).tolist() == [True, False]
    for how in ("auto", True, False):
        assert spared_columns(LocalRows(X, None), how, 2).tolist() == [not how] * 2


def test_rows_are_filled_by_themselves(bowl):
    _, holes, model = bowl
    np.testing.assert_array_equal(model.transform(holes)[40:60], model.transform(holes[40:60]))


def test_values_far_from_those_of_the_fit(bowl):
    _, _, model = bowl
    far = np.array(
        [[1e200, np.nan, 0.0, 1.0], [-1e200, np.nan, np.nan, 1e-300], [np.nan, 1e250, np.nan, np.nan]]
    )
    assert np.isfinite(model.transform(far)).all()
    lower, upper = model.interval(far)
    assert (lower <= upper).all()
    nothing = np.full((1, 4), np.nan)
    assert np.isfinite(model.transform(nothing)).all()
    assert model.transform(far[:0]).shape == (0, 4)


def test_intervals_cover_and_probabilities_go_with_them():
    inside, claimed, true = [], [], []
    for seed in range(2):
        X, holes = parabola(400, seed)
        model = CopulaImputer(random_state=0).fit(holes)
        assert model.nonlinear_gain_[1] > 0.2
        gone = np.isnan(holes)
        lower, upper = model.interval(holes)
        inside.append(((lower <= X) & (upper >= X))[gone])
        claimed.append(model.probability_within(holes, 0.5)[gone])
        true.append((np.abs(model.transform(holes) - X) <= 0.5)[gone])
        narrow = model.interval(holes, 0.5)
        assert (lower[gone] <= narrow[0][gone]).all()
        assert (narrow[1][gone] <= upper[gone]).all()
    cover = np.concatenate(inside)
    assert abs(cover.mean() - 0.95) < 0.03  # 3.5 standard errors of 640 cells
    assert abs(np.concatenate(claimed).mean() - np.concatenate(true).mean()) < 0.07


@pytest.mark.parametrize("cuts", [[0.0], [-0.3, 0.3]])
def test_levels_that_bend_are_corrected_and_calibrated(cuts):
    """Two levels by a forest of their own, three by one of the latent residuals."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 3))
    X = np.column_stack([x, np.digitize(x[:, 0] * x[:, 1], cuts) + 1.0])
    gone = rng.random(X.shape) < 0.2
    holes = np.where(gone, np.nan, X)
    model = CopulaImputer(random_state=0).fit(holes)
    assert model.nonlinear_gain_[3] > 0.25
    at = gone[:, 3]
    right = (model.transform(holes) == X)[at, 3]
    sure = model.reliability(holes)[at, 3]
    assert right.mean() > (0.7 if len(cuts) == 1 else 0.6)
    assert abs(sure.mean() - right.mean()) < 0.1
    np.testing.assert_allclose(sure, model.probability_within(holes, 0)[at, 3], atol=1e-12)


def test_likeliest_share_and_scale():
    """Cells N(m + f / 2, (.6 s)^2), seen as two levels or exactly: the share and the scale come back."""
    rng = np.random.default_rng(0)
    n = 6000
    f, sd = rng.standard_normal(n), 0.5 + rng.random(n)
    z = 0.3 + 0.5 * f + 0.6 * sd * rng.standard_normal(n)
    up = z > 0.2
    low, high = np.where(up, 0.2, -np.inf), np.where(up, np.inf, 0.2)
    exact = np.arange(n) < 1500
    low[exact], high[exact] = z[exact], z[exact]
    cell = Hidden(0, np.arange(n), z, low, high, np.full((n, 1), 0.3), sd, np.ones(n))
    np.testing.assert_allclose(likeliest(cell, f), [0.5, 0.6], atol=0.04)


def test_residual_law_in_place_of_the_normal():
    rng = np.random.default_rng(0)
    law, scale = residual_law(2.0 * rng.standard_normal(50_000), np.ones(50_000))
    assert scale == pytest.approx(2.0, rel=0.01)
    z = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(law.below(z), ndtr(z), atol=0.01)
    np.testing.assert_allclose(law.quantile(ndtr(z)), z, atol=0.03)
    assert np.mean(law.nodes**2) == pytest.approx(1.0, abs=0.05)
    gap = Gaps(0, np.arange(2), np.array([1.0, 0.0]), np.array([2.0, 1.0]))
    np.testing.assert_allclose(
        replace(gap, law=law).below(np.array([0.0, 1.0])), gap.below(np.array([0.0, 1.0])), atol=0.01
    )
    few = residual_law(np.array([3.0, -1.0, 0.5]), np.ones(3))[0]
    np.testing.assert_allclose(few.share, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(few.at, np.array([-1.0, 0.5, 3.0]) / np.sqrt(10.25 / 3))


def test_draws_follow_the_bend(bowl):
    X, holes, model = bowl
    gone = np.isnan(holes)
    only = gone[:, 1] & ~gone[:, 0]  # x is known, its square is not
    tables = model.sample(holes, 8, random_state=0)
    straight = CopulaImputer(nonlinear=False, random_state=0).fit(holes).sample(holes, 8, random_state=0)
    along = [
        np.mean([np.corrcoef(table[only, 0] ** 2, table[only, 1])[0, 1] for table in some])
        for some in (tables, straight)
    ]
    assert along[0] > 0.6
    assert along[1] < 0.3
    for table in tables:
        np.testing.assert_array_equal(table[~gone], X[~gone])
        assert np.isfinite(table).all()
    assert (tables[0][gone] != tables[1][gone]).all()
    spread = np.std([table[only, 1] for table in tables], axis=0).mean()
    lower, upper = model.interval(holes, 0.68)
    assert spread == pytest.approx(np.mean((upper - lower)[only, 1]) / 2, rel=0.5)


# ---------------------------------------------------------------------- where nothing is to be done


def test_a_gaussian_table_is_left_to_the_digit():
    X = gaussian(200, levels=True)
    one, other = (CopulaImputer(nonlinear=how, random_state=0).fit(X) for how in ("auto", False))
    assert one._model.curved is None
    for call in ("transform", "mean", "reliability"):
        np.testing.assert_array_equal(getattr(one, call)(X), getattr(other, call)(X))
    for a, b in zip(one.interval(X), other.interval(X), strict=True):
        np.testing.assert_array_equal(a, b)
    draws = [model.sample(X, 1, random_state=3)[0] for model in (one, other)]
    np.testing.assert_array_equal(*draws)
    np.testing.assert_array_equal(one.nonlinear_gain_, np.zeros(6))


@pytest.mark.parametrize("kind", ["csr", "dask", "paper"])
def test_where_there_is_no_correction(kind):
    holes = parabola(200)[1]
    row, column = np.nonzero(~np.isnan(holes))
    X = {
        "csr": sparse.csr_array((holes[row, column], (row, column)), shape=holes.shape),
        "dask": da.from_array(holes, chunks=(100, -1)),
        "paper": holes,
    }[kind]
    model = CopulaImputer(1, method="paper" if kind == "paper" else "ep", tol=0.1, random_state=0)
    for how in ("auto", "gaps"):
        assert not clone(model).set_params(nonlinear=how).fit(X).nonlinear_gain_.any()
    with pytest.raises(ValueError, match=r"nonlinear=True, but .*nonlinear='auto' or False"):
        model.set_params(nonlinear=True).fit(X)


def test_a_constant_column_has_no_gain():
    holes = parabola(200)[1]
    X = np.column_stack([holes[:, :2], np.full(200, 3.0), holes[:, 2:]])
    with pytest.warns(UserWarning, match="constant"):
        model = CopulaImputer(random_state=0).fit(X)
    assert model.nonlinear_gain_[1] > 0.2
    assert model.nonlinear_gain_[2] == 0
    assert (model.transform(X)[:, 2] == 3.0).all()


def test_rows_that_repeat_count_and_are_outside_the_bag_once():
    X = np.array([[1.0, np.nan], [2.0, 0.0], [1.0, np.nan], [2.0, -0.0], [3.0, 4.0]])
    rows, count = distinct_rows(X, None)
    found = {(a, np.nan_to_num(b, nan=9.0)): c for (a, b), c in zip(rows, count, strict=True)}
    assert found == {(1.0, 9.0): 2.0, (2.0, 0.0): 2.0, (3.0, 4.0): 1.0}
    assert distinct_rows(X[[0, 1, 4]], None)[1] is None
    weighted = distinct_rows(X[[0, 1, 4]], np.array([2.0, 2.0, 1.0]))
    np.testing.assert_array_equal(weighted[1], count)
    noise = gaussian(120)
    twice = np.concatenate([noise, noise, noise])
    assert CopulaImputer(nonlinear=True, random_state=0).fit(twice).nonlinear_gain_.max() == 0.0


def test_many_rows_are_sampled(monkeypatch):
    X = np.arange(50.0).reshape(25, 2)
    monkeypatch.setattr("colspace.copula._bend.LEARN", 10)
    some, weight = sampled(X, np.arange(25.0), np.random.default_rng(0))
    assert len(some) == 10
    np.testing.assert_array_equal(weight, some[:, 0] / 2)


def test_later_rounds_need_a_gain_of_their_own(bowl, monkeypatch):
    _, holes, model = bowl
    monkeypatch.setattr(_curved, "MORE", 0.9)
    once = learn_curved(holes, model._model, None, np.random.default_rng(0))
    assert len(once.rounds) == 1
    monkeypatch.setattr(_curved, "LEAST_GAIN", 0.99)
    assert learn_curved(holes, model._model, None, np.random.default_rng(0)) is None
    assert bent(LocalRows(holes), replace(model._model, curved=None), 0, screen=False)[0].curved is None


def test_unpacked_laws_stay_positive():
    X = gaussian(60)
    model = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)._model
    known, laws = parts(X, model)
    q = without(laws, model, np.flatnonzero(known.rows.column == 1))
    assert (np.linalg.eigvalsh(unpack(q.V, 2)) > 0).all()
