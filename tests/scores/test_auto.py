from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from score_laws import LAWS, MODELS, draw
from sklearn.base import clone

from colspace._random import generator
from colspace.scores import GaussianScore, StudentScore, choose_score
from colspace.scores._auto import held_out


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_right_law_is_chosen(law, seed):
    X = draw(law, 2000, 10, np.random.default_rng(seed), df=6, chi=1.0, psi=1.0)
    model, table = choose_score(X, rng=seed)
    assert type(model) is dict(zip(LAWS, MODELS, strict=True))[law]
    assert list(table) == LAWS
    again, same = choose_score(X, rng=seed)
    assert same == table
    np.testing.assert_array_equal(again.location_, model.location_)
    np.testing.assert_array_equal(model.location_, clone(model).fit(X).location_)


def test_choice_among_models_and_failures():
    X = np.random.default_rng(0).standard_normal((30, 25))
    exact = GaussianScore(ridge=0.0)
    model, table = choose_score(X, ("student", exact, GaussianScore(ridge=1.0)), rng=0)
    assert isinstance(model, GaussianScore)
    assert model.ridge == 1.0
    assert table[repr(exact)] == -np.inf
    assert np.isfinite(table["student"])  # with the smallest ridge
    with pytest.raises(ValueError, match=r"no candidate .*parts of the rows.*n_samples=24"):
        choose_score(X, (exact,), rng=0)
    with pytest.raises(ValueError, match="none of"):
        choose_score(X, ("laplace",))
    with pytest.raises(ValueError, match="list of names"):
        choose_score(X, "gaussian")
    with pytest.raises(ValueError, match="list of names"):
        choose_score(X, ())
    with pytest.raises(TypeError, match="neither a name"):
        choose_score(X, (3,))


def test_choice_keeps_column_names():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 2)), columns=["a", "b"])
    assert list(choose_score(X, rng=0)[0].feature_names_in_) == ["a", "b"]


def test_densities_are_those_of_rows_left_out():
    X = np.random.default_rng(0).standard_normal((53, 3))
    fold = generator(7).permutation(53) % 5
    values = [GaussianScore().fit(X[fold != k]).log_density(X[fold == k]) for k in range(5)]
    table = choose_score(X, ("gaussian",), rng=7)[1]
    assert table["gaussian"] == pytest.approx(np.concatenate(values).mean(), rel=1e-12)


def test_the_best_gaussian_is_kept():
    """A t with 40 degrees of freedom is ahead by less than two standard errors of either Gaussian."""
    X = draw("student", 300, 4, np.random.default_rng(2), df=40)
    ridged = GaussianScore(ridge=0.03)
    model, table = choose_score(X, (ridged, "gaussian", "student"), rng=0)
    assert table["student"] > table["gaussian"] > table[repr(ridged)]
    assert isinstance(model, GaussianScore)
    assert model.ridge == "auto"


def test_candidates_that_look_alike_all_count():
    X = np.random.default_rng(0).standard_normal((60, 40))
    right, wrong = np.eye(40), np.eye(40)
    wrong[20, 20] = 50.0
    wrong, right = (GaussianScore(covariance=C) for C in (wrong, right))
    assert repr(wrong) == repr(right)
    for order in ((wrong, right), (right, wrong)):
        model, table = choose_score(X, order, rng=0)
        assert len(table) == 2
        assert model.covariance_[20, 20] == 1.0


def test_a_singular_density_is_not_compared():
    X = np.random.default_rng(0).standard_normal((20, 30))
    singular = GaussianScore(pseudo_inverse=True)
    model, table = choose_score(X, (singular, GaussianScore(ridge=1.0)), rng=0)
    assert model.ridge == 1.0
    assert table[repr(singular)] == -np.inf
    with pytest.raises(ValueError, match=r"rank 15 of 30.*Remedy"):
        choose_score(X, (singular,), rng=0)


def test_weights_in_the_choice():
    X = np.random.default_rng(0).standard_normal((53, 3))
    w = np.random.default_rng(1).integers(0, 3, 53).astype(float)
    kept, share = X[w > 0], w[w > 0]
    fold = generator(7).permutation(len(kept)) % 5
    values = np.empty(len(kept))
    for k in range(5):
        fit = GaussianScore().fit(np.repeat(kept[fold != k], share[fold != k].astype(int), axis=0))
        values[fold == k] = fit.log_density(kept[fold == k])
    model, table = choose_score(X, ("gaussian",), rng=7, sample_weight=w)
    assert table["gaussian"] == pytest.approx(np.average(values, weights=share), rel=1e-12)
    np.testing.assert_allclose(model.location_, np.average(X, weights=w, axis=0))
    assert choose_score(X, ("gaussian",), rng=7, sample_weight=3 * w)[1] == pytest.approx(table, rel=1e-12)
    with pytest.raises(ValueError, match="9 rows have a positive sample_weight"):
        choose_score(X, sample_weight=np.arange(53) < 9)


def test_the_standard_error_counts_rows_by_their_weights():
    """Weights that leave a few rows make the same lead uncertain."""
    X = draw("student", 400, 4, np.random.default_rng(2), df=8)
    models = [
        choose_score(X, ("gaussian", "student"), rng=0, sample_weight=w)
        for w in (np.ones(400), np.where(np.arange(400) < 12, 1.0, 1e-6))
    ]
    assert not isinstance(models[0][0], GaussianScore)
    assert isinstance(models[1][0], GaussianScore)


@pytest.mark.filterwarnings("ignore:.*constant column")
def test_a_constant_column_does_not_hinder_the_choice():
    X = draw("student", 400, 3, np.random.default_rng(2), df=4)
    model, table = choose_score(np.column_stack([X, np.ones(400)]), rng=0)
    without, same = choose_score(X, rng=0)
    assert type(model) is type(without)
    assert table == pytest.approx(same, rel=1e-7)


def test_sums_of_held_out_densities_merge():
    """Means and standard errors from sums over chunks are those of all rows' differences."""
    X = draw("student", 300, 3, np.random.default_rng(0), df=4)
    w = np.random.default_rng(1).random(300)
    models = {"gaussian": GaussianScore().fit(X), "student": StudentScore().fit(X)}
    found = held_out(X[:77], w[:77], models=models) + held_out(X[77:], w[77:], models=models)
    values = {name: model.log_density(X) for name, model in models.items()}
    for name, value in values.items():
        assert found.mean(name) == pytest.approx(np.average(value, weights=w), rel=1e-12)
    assert found.mean("laplace") == -np.inf
    gain = values["student"] - values["gaussian"]
    mean = np.average(gain, weights=w)
    error = np.sqrt(np.average((gain - mean) ** 2, weights=w) * np.sum(w**2)) / w.sum()
    assert found.leads("student", "gaussian") == (mean > 2 * error)
    assert not found.leads("gaussian", "student")
    for factor, ahead in ((2 * error / mean * 1.001, True), (2 * error / mean * 0.999, False)):
        shifted = replace(found, over=found.over * factor, products=found.products + _shift(found, factor))
        assert shifted.leads("student", "gaussian") == ahead


def _shift(found, factor):
    """What a change of the mean difference by a factor adds to the products, the variance staying."""
    mean = found.over / found.weight
    return found.weight * (factor**2 - 1) * np.outer(mean, mean)


@pytest.mark.parametrize("kind", ["array", "frame", "weights"])
def test_partitions_are_folded_where_they_are(kind):
    array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    X = draw("student", 900, 3, np.random.default_rng(0), df=5)
    data, options = array.from_array(X, chunks=(200, 3)), {}
    if kind == "frame":
        data = frame.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=4)
    if kind == "weights":
        options = {"sample_weight": np.arange(900) % 2}
    model, table = choose_score(data, ("gaussian", "student"), rng=0, **options)
    assert type(model) is StudentScore
    assert choose_score(data, ("gaussian", "student"), rng=0, **options)[1] == pytest.approx(table, rel=1e-12)
    local = choose_score(X, ("gaussian", "student"), rng=0, **options)[1]
    assert table == pytest.approx(local, abs=0.1)  # other folds, the same law
    kept = X[1::2] if kind == "weights" else X
    np.testing.assert_allclose(model.location_, StudentScore().fit(kept).location_, rtol=1e-6)
    if kind == "frame":
        assert list(model.feature_names_in_) == list("abc")
    # densities are those of rows left out: in-sample ones are larger by about the number of parameters over n
    assert table["student"] < np.mean(StudentScore().fit(kept).log_density(kept)) - 2 / len(kept)
