"""Search by cross-validation: its losses against fits made one by one, its rule, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold

from colspace import SupervisedDictionaryClassifier as Classifier
from colspace import SupervisedDictionaryClassifierCV as Search
from colspace import SupervisedDictionaryRegressor as Regressor
from colspace import SupervisedDictionaryRegressorCV as NumberSearch
from colspace.dictionary._search import Grid, choose, race
from colspace.io import load, save


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    rows = np.flatnonzero(np.isin(y, (3, 5, 8)))[:150]
    return X[rows] / 16, y[rows]


@pytest.mark.parametrize("options", [{}, {"model": "feature"}, {"positive": True, "covariates": [3, 12]}])
def test_losses_are_those_of_fits_one_by_one(digits, options):
    X, y = digits
    cv = StratifiedKFold(2, shuffle=True, random_state=0)
    weight = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    search = Search((3, 2), xi_factors=(1.0, 3.0), l2_factors=(10.0, 3.0), cv=cv, tol=1e-5 / 300, **options)
    search.fit(X, y, sample_weight=weight)
    sizes, xis, l2s = search.grid_
    assert sizes == (3, 2)
    for f, (train, held) in enumerate(cv.split(X, y)):
        fitted = np.argwhere(np.isfinite(search.scores_[..., f])).tolist()
        assert len(fitted) > 2
        assert [
            0,
            1,
            0,
        ] in fitted  # where the search begins; others begin there, and of nonnegative fits there are several
        for i, j, k in [[0, 1, 0]] if "positive" in options else fitted:
            one = Classifier(sizes[i], xi=xis[j], l2=l2s[k], tol=1e-5, max_iter=5000, **options)
            one.fit(X[train], y[train], sample_weight=weight[train])
            lost = log_loss(y[held], one.predict_proba(X[held]), sample_weight=weight[held])
            np.testing.assert_allclose(
                -search.scores_[i, j, k, f], lost, rtol=1e-3 if (i, j, k) == (0, 1, 0) else 0.05
            )


@pytest.mark.parametrize("options", [{}, {"model": "feature", "positive": True}, {"covariates": [3, 12]}])
def test_losses_of_numbers_are_those_of_fits_one_by_one(digits, options):
    X, y = digits
    y = np.column_stack([50.0 + 3.0 * y, 40.0 * X[:, 20]])
    cv = KFold(2, shuffle=True, random_state=0)
    weight = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    search = NumberSearch(
        (3, 2), xi_factors=(1.0, 3.0), l2_factors=(10.0, 3.0), cv=cv, tol=1e-5 / 300, **options
    )
    search.fit(X, y, sample_weight=weight)
    sizes, xis, l2s = search.grid_
    spread = y - np.average(y, axis=0, weights=weight)
    inner = np.delete(X, options.get("covariates", []), axis=1)
    auto = np.average(np.sum(spread**2, axis=1), weights=weight)
    np.testing.assert_allclose(xis[0], auto / np.average(np.sum(inner**2, axis=1), weights=weight))
    for f, (train, held) in enumerate(cv.split(X)):
        fitted = np.argwhere(np.isfinite(search.scores_[..., f])).tolist()
        assert len(fitted) > 2
        for i, j, k in fitted:
            one = Regressor(sizes[i], xi=xis[j], l2=l2s[k], tol=1e-5, max_iter=5000, **options)
            one.fit(X[train], y[train], sample_weight=weight[train])
            lost = np.average(np.sum((y[held] - one.predict(X[held])) ** 2, axis=1), weights=weight[held])
            np.testing.assert_allclose(
                -search.scores_[i, j, k, f], lost, rtol=5e-3 if (i, j, k) == (0, 1, 0) else 0.05
            )
    best = Regressor(search.n_components_, xi=search.xi_, l2=search.l2_, tol=1e-5 / 300, **options)
    np.testing.assert_allclose(search.predict(X), best.fit(X, y, sample_weight=weight).predict(X))


def test_the_number_of_atoms_behind_a_response_is_found():
    rng = np.random.default_rng(1)
    H, W = rng.exponential(size=(200, 4)), rng.exponential(size=(4, 20))
    X = H @ W + 0.05 * rng.standard_normal((200, 20))
    y = H @ [3.0, -1.0, 2.0, -2.0] + 0.05 * rng.standard_normal(200)
    search = NumberSearch((1, 2, 4, 8), model="feature", random_state=0).fit(X, y)
    assert search.n_components_ == 4
    many = NumberSearch((2,), xi_factors=(1.0,), l2_factors=(1.0,), cv=9).fit(X[:5], y[:5])
    assert many.scores_.shape == (1, 1, 1, 5)  # as many as rows


def test_the_choice_is_fitted_to_all_rows_and_is_a_dictionary_like_any_other(digits, tmp_path):
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"p{j}" for j in range(64)])
    search = Search((2, 3), xi_factors=(10.0, 1.0), l2_factors=(1.0,), cv=2, positive=True, random_state=0)
    search.fit(frame, y)
    one = Classifier(search.n_components_, xi=search.xi_, l2=search.l2_, positive=True, random_state=0)
    one.fit(frame, y)
    np.testing.assert_allclose(search.components_, one.components_)
    np.testing.assert_allclose(search.predict_proba(frame), one.predict_proba(frame))
    assert search.transform(frame).shape == (150, search.n_components_)
    assert search.get_feature_names_out().shape == (search.n_components_,)
    path = search.xi_path(frame, y, [0.1, 1.0])
    np.testing.assert_allclose(
        path.reconstruction_error, one.xi_path(frame, y, [0.1, 1.0]).reconstruction_error
    )
    save(search, tmp_path / "m.skops")
    np.testing.assert_array_equal(load(tmp_path / "m.skops").predict(frame), search.predict(frame))


def test_the_simplest_within_one_standard_error_is_chosen():
    grid = Grid((5, 2), (1.0, 10.0), (0.1, 1.0))
    losses = np.full((2, 2, 2, 4), 1.0)
    losses[0, 0, 0] = [0.50, 0.54, 0.46, 0.50]  # the least: 5 atoms, mean .5, standard error .0163
    losses[1, 0, 1] = [0.51, 0.51, 0.52, 0.52]  # .015 above: near
    losses[1, 1, 1] = 0.52  # .02 above
    assert choose(losses, grid, "best") == (0, 0, 0)
    assert choose(losses, grid, "one-standard-error") == (1, 0, 1)
    losses[1, 1, 0] = losses[1, 0, 1]  # as near with a larger xi
    assert choose(losses, grid, "one-standard-error") == (1, 1, 0)
    assert choose(losses, grid, "one-standard-error", null=19.0) == (1, 1, 0)
    assert choose(losses, grid, "one-standard-error", null=21.0) == (1, 1, 1)  # .02 is no more than .021
    losses[1, 1] = np.inf
    assert choose(losses, grid, "one-standard-error") == (1, 0, 1)
    losses[1, 0, 1, 3] = np.nan  # given up
    assert choose(losses, grid, "one-standard-error") == (0, 0, 0)
    assert choose(losses[..., :1], grid, "one-standard-error") == choose(losses[..., :1], grid, "best")


def fits_of(table):
    """Folds that read a table of losses, and what they were asked."""
    asked = []

    def fold(f):
        def fit(place):
            asked.append((place, f))
            return table[place][f]

        return fit

    return [fold(f) for f in range(table.shape[-1])], asked


BOWL = Grid((20, 2, 10, 5), (0.1, 1.0, 10.0), (10.0, 0.1, 1.0))


def bowl(rng, noise):
    """Losses that fall with atoms up to 10, least at xi 0.1 and l2 1; folds differ by a level of their own."""
    atoms, xi, l2 = np.meshgrid(
        *(np.log(axis) for axis in (BOWL.n_components, BOWL.xi, BOWL.l2)), indexing="ij"
    )
    level = 0.3 + 0.2 * np.abs(atoms - np.log(10.0)) + 0.1 * (xi - np.log(0.1)) + 0.05 * np.abs(l2)
    return (
        level[..., None] + np.array([0.0, 0.02, -0.02, 0.01]) + noise * rng.standard_normal((*level.shape, 4))
    )


@pytest.mark.parametrize("rule", ["best", "one-standard-error"])
def test_a_race_chooses_as_the_whole_grid_does(rule):
    rng = np.random.default_rng(0)
    for noise in (0.0, 0.002):
        table = bowl(rng, noise)
        fits, asked = fits_of(table)
        losses = race(fits, BOWL, rule, 1.0)
        assert len(asked) == len(set(asked)) < 0.6 * table.size
        tried = np.isfinite(losses)
        assert tried.sum() == len(asked)
        np.testing.assert_array_equal(losses[tried], table[tried])
        assert choose(losses, BOWL, rule, 1.0) == choose(table, BOWL, rule, 1.0)


def test_what_cannot_win_is_given_up():
    """A far setting after its first fold, a near one after as many as leave it behind."""
    grid = Grid((2,), (1.0,), (0.1, 1.0, 10.0))
    table = np.empty((1, 1, 3, 4))
    table[0, 0, 1] = [0.50, 0.54, 0.46, 0.50]  # the middle: mean .5, standard error .0163
    table[0, 0, 0] = [0.509, 0.0, 0.0, 0.0]  # .45 errors are to spare after the first fold
    table[0, 0, 2] = [0.505, 0.56, 0.0, 0.0]  # and .15 after the second
    losses = race(fits_of(table)[0], grid, "best")
    assert np.isfinite(losses).sum(axis=-1).tolist() == [[[1, 4, 2]]]
    assert choose(losses, grid, "best") == (0, 0, 1)
    table[0, 0, 2] = [0.52, 0.53, 0.49, 0.50]  # .01 behind in the end: near, and the larger l2
    losses = race(fits_of(table)[0], grid, "one-standard-error")
    assert np.isfinite(losses).sum(axis=-1).tolist() == [[[1, 4, 4]]]
    assert choose(losses, grid, "one-standard-error") == (0, 0, 2)


def test_a_race_leaves_settings_without_a_loss():
    """More atoms than dimensions where it begins."""
    grid = Grid((4, 5), (1.0,), (1.0,))
    table = np.stack([np.full((1, 1, 3), 0.4), np.full((1, 1, 3), np.inf)])
    losses = race(fits_of(table)[0], grid, "one-standard-error")
    assert choose(losses, grid, "one-standard-error") == (0, 0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": [100, 80]}, "n_components=80 is more than 150 sample.* use at most 64"),
        (
            {"n_components": [64], "cv": 2, "covariates": [0]},
            "n_components=64 is more than .* use at most 63",
        ),
        ({"n_components": [2, 2]}, "n_components=.* must be a list of distinct whole numbers above 0"),
        ({"n_components": True}, "'n_components' parameter"),
        ({"xi_factors": [0.0]}, "xi_factors=.* must be a list of distinct numbers above 0"),
        ({"l2_factors": ["a"]}, "l2_factors=.* must be a list"),
        ({"coding": "labels", "model": "feature"}, "'coding' parameter"),
        ({"rule": "median"}, "'rule' parameter"),
    ],
)
def test_wrong_settings(digits, options, message):
    with pytest.raises(ValueError, match=message):
        Search(**options).fit(*digits)


def test_more_atoms_than_dimensions_are_not_tried(digits):
    _, y = digits
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((len(y), 3)) @ rng.standard_normal((3, 20))
    search = Search((2, 3, 4), xi_factors=(1.0,), l2_factors=(1.0,), cv=2).fit(flat, y)
    assert np.isneginf(search.scores_[2, 0, 0, 0])
    assert not np.isfinite(search.scores_[2]).any()
    assert np.isfinite(search.scores_[search.n_components_ - 2]).all()
    assert np.isfinite(
        Search((4, 5), xi_factors=(1.0,), l2_factors=(1.0,), cv=2).fit(flat, y).scores_[0]
    ).all()


def test_folds(digits):
    X, y = digits
    with pytest.raises(ValueError, match="the smallest class has 1 row, which cannot be both"):
        Search().fit(X[:20], np.r_[np.zeros(19), 1.0])
    with pytest.raises(ValueError, match=r"n_components=\[60\]: all are more than the 50 that 64 column"):
        Search([60], cv=2).fit(X[:100], np.repeat([0, 1], 50))
    few = np.r_[np.flatnonzero(y == 3)[:3], np.flatnonzero(y == 5)]
    search = Search((2,), xi_factors=(1.0,), l2_factors=(1.0,)).fit(X[few], y[few])
    assert search.scores_.shape == (1, 1, 1, 3)  # as many as the smallest class has rows
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="draws folds of rows, which a Dask table has not at hand"):
        Search().fit(da.from_array(X), y)


def test_losses_whose_squares_leave_float64_are_compared():
    losses = np.array([[[[1e200, 3e200]]], [[[2.5e200, 2.9e200]]]])  # means 2.0, 2.7; standard error 1.0
    assert choose(losses, Grid((5, 2), (1.0,), (1.0,)), "one-standard-error") == (1, 0, 0)
    assert choose(losses / [1.0, 3.0], Grid((5, 2), (1.0,), (1.0,)), "one-standard-error") == (0, 0, 0)


def test_a_fold_without_weight(digits):
    X, y = digits
    weight = np.r_[np.zeros(75), np.ones(75)]
    cv = [(np.arange(75), np.arange(75, 150)), (np.arange(75, 150), np.arange(75))]
    search = Search((2,), xi_factors=(1.0,), l2_factors=(1.0,), positive=True, cv=cv, max_iter=20, tol=0.1)
    search.fit(X, y, sample_weight=weight)
    assert np.isfinite(search.scores_).all()


def test_xi_is_in_the_units_of_y():
    """The setting that is kept is one of the grid, whatever the numbers of y are worth."""
    rng = np.random.default_rng(0)
    H = rng.exponential(size=(60, 2))
    X = H @ rng.exponential(size=(2, 6)) + 0.1 * rng.uniform(size=(60, 6))
    y = H @ [2.0, -1.0]
    found = [
        NumberSearch([2], xi_factors=[1.0], l2_factors=[0.1, 1.0], cv=2, random_state=0).fit(X, u * y)
        for u in (1.0, 100.0)
    ]
    for search in found:
        assert search.xi_ == pytest.approx(search.grid_[1][0], rel=1e-9)
    assert found[1].xi_ == pytest.approx(1e4 * found[0].xi_, rel=1e-6)
    assert found[1].scores_.mean() == pytest.approx(1e4 * found[0].scores_.mean(), rel=1e-3)
