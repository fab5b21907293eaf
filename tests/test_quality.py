from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_wine, make_classification
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from colspace import JointReduction, NumericLabelsWarning, compare_reductions
from colspace.quality import (
    PlsDirections,
    ReductionComparison,
    ReductionScore,
    RidgeDirections,
    _compare,
    default_readers,
)
from colspace.quality._methods import readers_of_all, width_parameter
from colspace.quality._result import cross_chosen, is_above
from colspace.quality._table import read_table
from colspace.reduction import ReducedRank, _gradient

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 6)) * [1, 10, 0.1, 1, 1, 1] + 5
Y = (X[:, 0] - 5) + (X[:, 1] - 5) / 20 + 0.5 * RNG.standard_normal(120)
READER = {"ridge": make_pipeline(StandardScaler(), RidgeCV())}


def quick(X, y, **options):
    return compare_reductions(
        X, y, **{"reducers": {"PCA": PCA(), "PLS": PlsDirections()}, "n_components": 1, **options}
    )


def test_numbers_equal_those_of_scikit_learn():
    found = compare_reductions(X, Y, reducers={"PCA": PCA()}, readers=READER, n_components=(1, 3), cv=4)
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    for h in (1, 3):
        pipeline = make_pipeline(StandardScaler(), PCA(h), *(s for _, s in READER["ridge"].steps))
        guess = cross_val_predict(pipeline, X, Y, cv=folds)
        scores = [1 - np.mean((Y[t] - guess[t]) ** 2) / Y.var() for _, t in folds]
        row = found.row("PCA", h)
        assert_allclose(row.folds, scores)
        assert_allclose([row.score, row.error], [np.mean(scores), np.std(scores, ddof=1) / 2])
    guess = cross_val_predict(make_pipeline(StandardScaler(), READER["ridge"]), X, Y, cv=folds)
    every = [1 - np.mean((Y[t] - guess[t]) ** 2) / Y.var() for _, t in folds]
    row = found.row("all columns")
    assert_allclose(row.folds, every)
    best = found.row("PCA")
    gap = np.subtract(every, best.folds)
    assert_allclose([row.difference, row.difference_error], [gap.mean(), gap.std(ddof=1) / 2])
    nothing = [1 - np.mean((Y[t] - Y[s].mean()) ** 2) / Y.var() for s, t in folds]
    assert_allclose(found.row("no columns").folds, nothing)
    assert (found.n_samples, found.n_features, found.n_folds) == (120, 6, 4)


def test_classes_are_scored_by_accuracy():
    data = load_wine()
    y = data.target_names[data.target]
    reader = {"logistic": make_pipeline(StandardScaler(), LogisticRegression())}
    found = compare_reductions(data.data, y, reducers={"PCA": PCA()}, readers=reader, n_components=2, cv=3)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(data.data, y))
    guess = cross_val_predict(
        make_pipeline(StandardScaler(), PCA(2), reader["logistic"]), data.data, y, cv=folds
    )
    assert_allclose(found.row("PCA", 2).folds, [accuracy_score(y[t], guess[t]) for _, t in folds])
    assert found.metric == "accuracy"
    assert found.row("no columns").score == pytest.approx(0.4, abs=0.02)


def test_uneven_classes_are_told_by_probability_over_share():
    A, y = make_classification(400, 5, weights=[0.9], flip_y=0.1, random_state=0)
    y = np.where(y == 1, "rare", "often")
    reader = {"logistic": LogisticRegression()}
    found = compare_reductions(A, y, reducers={"PCA": PCA()}, readers=reader, n_components=2, cv=3)
    assert found.metric == "balanced accuracy"
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(A, y))
    p = cross_val_predict(
        make_pipeline(StandardScaler(), LogisticRegression()), A, y, cv=folds, method="predict_proba"
    )
    scores = []
    for s, t in folds:
        share = np.mean(y[s] == "rare")
        guess = np.where(p[t, 1] / share > p[t, 0] / (1 - share), "rare", "often")
        scores.append(balanced_accuracy_score(y[t], guess))
    assert_allclose(found.row("all columns").folds, scores)
    assert found.row("no columns").score == 0.5
    assert found.above_chance["all columns"]


def test_the_best_reader_is_taken_on_average():
    found = compare_reductions(X, Y, reducers={"PCA": PCA()}, n_components=3)
    single = {
        name: compare_reductions(X, Y, reducers={"PCA": PCA()}, readers={name: reader}, n_components=3).row(
            "PCA"
        )
        for name, reader in default_readers(classes=False).items()
    }
    best = max(single, key=lambda name: single[name].score)
    assert found.row("PCA").reader == best
    assert_allclose(found.row("PCA").folds, single[best].folds)


@pytest.mark.parametrize("kind", ["numbers", "labels", "uneven"])
def test_permuted_responses_are_noise(kind):
    rng = np.random.default_rng(3)
    A = rng.standard_normal((60, 80))  # any leak of held-out rows into the fit would show
    y = {
        "numbers": A[:, 0] + A[:, 1],
        "labels": np.where(A[:, 0] > 0, "a", "b"),
        "uneven": np.where(A[:, 0] > 1, "a", "b"),
    }[kind]
    found = compare_reductions(A, rng.permutation(y), n_components=(1, 3))
    assert not any(found.above_chance.values())
    assert "No method predicts y better than" in found.sentence
    chance = found.row("no columns").score
    assert all(r.score < chance + 0.2 for r in found.rows)


def test_signal_is_seen_where_it_is_weak():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((300, 5))
    found = quick(A, 0.5 * A[:, 0] + rng.standard_normal(300))
    assert found.above_chance == {"PCA": False, "PLS": True, "all columns": True}
    assert found.sentence.startswith("PCA predicts y no better than its mean, but ")


@pytest.mark.parametrize(
    ("y", "called"),
    [
        (lambda v: v, "y"),
        (lambda v: pd.Series(v), "y"),
        (lambda v: pd.Series(v, name="blood pressure"), "blood pressure"),
        (lambda v: pl.Series("blood pressure", v), "blood pressure"),
        (lambda v: pd.DataFrame({"a": v, "b": v[::-1]}), "a and b"),
        (lambda v: pd.DataFrame({"a": v, "b": v[::-1], "c": -v}), "a, b and c"),
        (lambda v: pd.DataFrame(dict.fromkeys("abcd", v)), "y"),
        (lambda v: pd.DataFrame({1: v}), "y"),
    ],
    ids=["array", "no name", "pandas", "polars", "two", "three", "four", "a number"],
)
def test_the_sentence_calls_the_response_by_its_name(y, called):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3))
    seen = quick(A, y(A[:, 0] + 0.1 * rng.standard_normal(60)), readers=READER)
    assert seen.response == called
    assert f" reads {called} with R2 " in seen.sentence
    noise = rng.standard_normal(60)
    assert (
        f" predicts {called} "
        in replace(quick(A, y(noise), readers=READER), above_chance={"PCA": False}).sentence
    )


def test_readers_of_all_columns_are_named_where_one_is_left_out():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 40))
    for y, names in ((A[:, 0], "ridge and neighbours"), (A[:, 0] > 0, "logistic and neighbours")):
        (said,) = compare_reductions(A, y, reducers={"PCA": PCA()}, n_components=1, cv=3).notes
        assert said == f"all columns are read by {names} only: their squares and products are too many"


def rows_of(**methods):
    return tuple(
        ReductionScore(
            name.replace("_", " "), h, h or 9, float(np.mean(f)), 0.01, np.nan, np.nan, "ridge", 0.0, tuple(f)
        )
        for name, (h, f) in methods.items()
    )


def sentence(rows, above, metric="R2"):
    return ReductionComparison(rows, metric, 100, 9, 3, above).sentence


def test_the_sentence_follows_the_numbers():
    nothing = {"all_columns": (None, [0.8, 0.8, 0.8]), "no_columns": (None, [0.0, 0.0, 0.0])}
    ours, pls = [0.7, 0.71, 0.72], [0.5, 0.52, 0.5]
    rows = rows_of(ours=(1, ours), PLS=(1, pls), **nothing)
    seen = {"ours": True, "PLS": True, "all columns": True}
    assert sentence(rows, seen) == (
        "With one direction ours reads y with R2 0.710 ± 0.010 on rows left out, PLS 0.507, all 9 columns 0.800; all "
        "columns ahead by 0.090 ± 0.006."
    )
    level = {"all_columns": (None, [0.5, 0.5, 0.5]), "no_columns": (None, [0.0, 0.0, 0.0])}
    luck = sentence(rows_of(ours=(1, ours), PLS=(1, [0.6, 0.75, 0.81]), **level), seen)
    assert luck.endswith("PLS 0.720, all 9 columns 0.500.")  # ahead, but within two errors of the difference
    hair = sentence(rows_of(ours=(1, ours), PLS=(1, [x + 1e-5 for x in ours]), **level), seen)
    assert "ahead" not in hair  # by 0.000
    more = [x + 0.1 for x in ours]
    grown = rows_of(ours=(1, ours)) + rows_of(ours=(2, more), **nothing)
    assert sentence(grown, seen).startswith("With 2 directions ours reads y with R2 0.810")
    assert "more directions may gain" in sentence(grown, seen)
    same = rows_of(ours=(1, ours)) + rows_of(ours=(2, [0.6, 0.72, 0.85]), **nothing)
    assert sentence(same, seen).startswith("With one direction")
    assert "more directions gain nothing" in sentence(same, seen)
    none = dict.fromkeys(seen, False)
    faint = rows_of(ours=(1, [0.1, 0.11, 0.12]), no_columns=(None, [0.0, 0.0, 0.0]))
    assert sentence(faint, none).startswith(
        "No method predicts y better than its mean on rows left out: take"
    )
    assert sentence(rows, none) == (
        "No method surely predicts y better than its mean on rows left out, though the best seems to (all columns, 0.800 ± "
        "0.010; no columns 0.000): few rows decide, so take the loadings with care; response='rank' lets all rows count alike."
    )
    assert "most frequent class" in sentence(rows, dict.fromkeys(seen, False), "accuracy")
    assert "better than chance" in sentence(rows, dict.fromkeys(seen, False), "balanced accuracy")
    other = sentence(rows, {**seen, "ours": False})
    assert other == "Ours predicts y no better than its mean, but all columns, 0.800 ± 0.010 does."


def test_choices_do_not_see_the_fold_they_are_judged_on():
    assert_array_equal(cross_chosen(np.array([[9.0, 1.0], [0.0, 1.0], [np.nan, 1.0]])), [1, 1, 1])
    gain = np.random.default_rng(0).standard_normal((2000, 40))
    assert 0.03 < np.mean([is_above(g, None, 0.05) for g in gain]) < 0.07
    w = np.array([2.0, 1.0, 1.0])
    assert is_above(np.array([1.0, 1.1, 0.9]), w, 0.05)
    assert not is_above(np.array([1.0, -1.0, -1.0]), w, 0.05)


def test_blocks_share_out_the_directions():
    frame = pd.DataFrame(X, columns=["a_0", "a_1", "a_2", "b_0", "b_1", "z"])
    blocks = {"a": "a_*", "b": "b_*", "drop": "z"}
    options = {"n_components": (1, 2), "cv": 3}
    reducers = {"ours": JointReduction(), "PCA": PCA()}
    found = compare_reductions(frame, Y, blocks=blocks, reducers=reducers, **options)
    assert [r.n_columns for r in found.rows] == [2, 4, 2, 4, 5, 0]
    assert found.n_features == 5
    own = compare_reductions(frame, Y, reducers={"ours": JointReduction(blocks=blocks)}, **options)
    assert_allclose(own.row("ours", 2).folds, found.row("ours", 2).folds)
    assert "per block" in found.sentence


def test_weights_count_rows():
    w = np.repeat([0.0, 1.0], 60)
    A = np.where(np.arange(120)[:, None] < 60, 1e200, X)
    half = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    plain = compare_reductions(X[60:], Y[60:], cv=half, n_components=1, readers=READER)
    half = [(np.r_[train + 60, 3], np.r_[test + 60, 5]) for train, test in half]
    before = Y.copy()
    weighted = compare_reductions(A, Y, cv=half, n_components=1, readers=READER, sample_weight=w)
    for name in ("joint reduction", "PCA", "PLS", "ridge", "no columns"):
        assert_allclose(weighted.row(name).folds, plain.row(name).folds, rtol=1e-6)
    assert weighted.n_samples == 60
    counted = quick(A, Y, cv=3, readers=READER, sample_weight=w)
    assert_allclose(
        counted.row("PLS").folds, quick(X[60:], Y[60:], cv=3, readers=READER).row("PLS").folds, rtol=1e-6
    )
    assert_array_equal(Y, before)
    assert weighted.notes == ("PCA, PLS: fitted without weights, which they do not take",)
    twice = compare_reductions(
        np.vstack([X[:30], X[:30], X[30:60]]),
        np.r_[Y[:30], Y[:30], Y[30:60]],
        n_components=1,
        readers={"ols": LinearRegression()},
        reducers={"ridge": RidgeDirections()},
        cv=[(np.r_[0:20, 30:50, 60:75], np.r_[20:30, 50:60, 75:90])],
    )
    once = compare_reductions(
        X[:60],
        Y[:60],
        n_components=1,
        readers={"ols": LinearRegression()},
        sample_weight=np.repeat([2.0, 1.0], 30),
        reducers={"ridge": RidgeDirections()},
        cv=[(np.r_[0:20, 30:45], np.r_[20:30, 45:60])],
    )
    assert_allclose(once.row("all columns").score, twice.row("all columns").score)


@pytest.mark.parametrize(
    "case", ["wide", "five rows", "rare classes", "constant", "several", "huge", "labels"]
)
def test_any_table_is_compared(case):
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((30, 4)), None
    if case == "wide":
        A = rng.standard_normal((20, 100))
    elif case == "five rows":
        A = A[:5]
    elif case == "rare classes":
        y = np.array(["a"] * 15 + ["b"] * 13 + ["c", "d"])
    elif case == "constant":
        A[:, 2] = 7.0
    elif case == "several":
        y = A[:, :2] + rng.standard_normal((30, 2))
    elif case == "huge":
        A = A * [1e200, 1e-200, 1.0, 1e12]
        y = 1e200 * A[:, 2]
    else:
        y = pd.Series(np.where(A[:, 0] > 0, "x", "y"), dtype="category")
    if y is None:
        y = A[:, 0] + 0.1 * rng.standard_normal(len(A))
    found = compare_reductions(pd.DataFrame(A), y, n_components=(1, 2))
    assert not [r.failed for r in found.rows if r.failed]
    assert np.isfinite([r.score for r in found.rows]).all()
    assert found.sentence in str(found)
    assert len(found.frame()) == len(found.rows)
    if case in ("huge", "constant"):
        assert all(found.above_chance[m] for m in ("joint reduction", "ridge"))


def test_what_cannot_be_fitted_is_a_row_that_says_so():
    labels = np.where(Y > 0, "a", "b")
    found = quick(X, labels, reducers={"PCA": PCA(), "PLS": PLSRegression(), "rank": ReducedRank()})
    assert found.row("PCA").score > 0.5
    (row,) = [r for r in found.rows if r.method == "PLS"]
    assert row.failed.startswith("ValueError: ")
    assert np.isnan(row.score)
    assert any(note.startswith("PLS failed: ValueError") for note in found.notes)
    assert "failed" in str(found)
    with pytest.raises(KeyError, match="no row of 'PLS'"):
        found.row("PLS")


def test_pipelines_and_reducers_without_a_width():
    assert width_parameter(make_pipeline(PCA(4), PlsDirections())) == "plsdirections__n_components"
    pipeline = make_pipeline(StandardScaler(), PCA())
    found = quick(X, Y, reducers={"piped": pipeline, "as it is": StandardScaler()}, n_components=(1, 2))
    assert [(r.method, r.n_components, r.n_columns) for r in found.rows[:3]] == [
        ("piped", 1, 1),
        ("piped", 2, 2),
        ("as it is", None, 6),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components=0 must be a whole number"),
        ({"n_components": (1, True)}, "must be a whole number"),
        ({"reducers": {}}, "at least one of each"),
        ({"reducers": {"all columns": PCA()}}, "cannot be called 'all columns'"),
        ({"cv": 1}, "two folds or more"),
        ({"cv": []}, "yields no folds"),
        ({"y": np.ones(120)}, "constant"),
        ({"y": Y[:50]}, "X has 120 rows and y 50"),
        ({"y": np.arange(120).astype(str)}, "no class has two rows"),
        ({"sample_weight": -np.ones(120)}, "at least 0"),
    ],
)
@pytest.mark.filterwarnings("ignore:y has 120 different labels")
def test_bad_input(options, message):
    y = options.pop("y", Y)
    with pytest.raises(ValueError, match=message):
        quick(X, y, **options)


def test_codes_of_classes_are_asked_about():
    codes = (Y > 0).astype(int)
    with pytest.warns(NumericLabelsWarning, match="response='labels'"):
        assert quick(X, codes).metric == "R2"
    found = quick(X, codes, response="labels")
    assert_allclose(found.row("PLS").folds, quick(X, codes.astype(str)).row("PLS").folds)
    assert quick(X, np.exp(Y), response="rank").metric == "R2"


def test_widths_beyond_the_table_are_said():
    found = quick(X[:, :2], Y, n_components=(1, 2, 5))
    assert found.notes == ("5 directions are more than the table has room for; 2 instead",)
    assert (
        quick(X[:6], Y[:6], n_components=5, cv=2).notes[0].endswith("has room for; 4 instead")
    )  # rows less two
    assert {r.n_components for r in found.rows} == {1, 2, None}


def test_ridge_directions_are_those_of_ridge():
    model = RidgeDirections(1).fit(X - X.mean(axis=0), Y)
    ridge = RidgeCV(np.logspace(-3, 5, 17)).fit(X - X.mean(axis=0), Y / Y.std())
    cosine = (
        model.directions_[:, 0]
        @ ridge.coef_
        / np.linalg.norm(model.directions_)
        / np.linalg.norm(ridge.coef_)
    )
    assert abs(cosine) == pytest.approx(1.0)
    two = RidgeDirections(2).fit(X - X.mean(axis=0), Y).directions_
    assert abs(two[:, 0] @ two[:, 1]) < 1e-8 * np.linalg.norm(two[:, 0])


def test_one_ridge_direction_of_several_responses_is_that_of_most_fitted_variance():
    centred = X - X.mean(axis=0)
    told = centred[:, :3] @ np.array([[1.0, 0.2], [0.1, 0.3], [0.0, 4.0]]) + RNG.standard_normal((120, 2))
    Y2 = told / told.std(axis=0)
    fitted = RidgeCV(np.logspace(-3, 5, 17)).fit(centred, Y2).predict(centred)
    first = np.linalg.svd(fitted - fitted.mean(axis=0))[0][:, 0]
    embedding = RidgeDirections(1).fit(centred, told).transform(centred)[:, 0]
    assert abs(np.corrcoef(first, embedding)[0, 1]) == pytest.approx(1.0)


def test_ridge_directions_with_weights_are_those_of_rows_as_often():
    w = np.where(X[:, 3] > 5.5, 6, 1)
    told = X @ RNG.standard_normal((6, 2)) * [1.0, 40.0]  # without noise the ridge is the same
    for y, h in ((told, 1), (told[:, 0], 3)):
        once = RidgeDirections(h).fit(X, y, sample_weight=w).directions_
        often = RidgeDirections(h).fit(np.repeat(X, w, axis=0), np.repeat(y, w, axis=0)).directions_
        assert_allclose(once * np.sign(once[:1]), often * np.sign(often[:1]), rtol=1e-3, atol=1e-4)


def test_a_response_far_off_does_not_lift_the_mean():
    """R2 of the mean is nothing, also where the fold of one response has an error many times the variance."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + rng.standard_normal(60)
    y[7] = 60.0
    found = compare_reductions(X, y, n_components=1)
    nothing = np.array(found.row("no columns").folds)
    assert nothing.min() < -3
    assert -0.1 < nothing.mean() < 0
    for row in found.rows:
        assert (np.array(row.folds) >= nothing - 1).all()


@pytest.mark.parametrize("metric", ["R2", "accuracy", "balanced accuracy"])
def test_a_weight_is_as_many_rows(metric):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((80, 3)) * [1.0, 30.0, 0.1]
    told = A[:, 0] + 0.5 * rng.standard_normal(80)
    y = told if metric == "R2" else np.where(told > 0.3, "b", "a")
    w = np.where(
        told > 0.3, 12.0 if metric == "balanced accuracy" else 3.0, 1.0
    )  # the rarer class weighs more
    reader = Ridge(5.0) if metric == "R2" else LogisticRegression(C=0.05)
    options = {"reducers": {"ridge": RidgeDirections()}, "readers": {"one": reader}, "n_components": 1}
    train, test = np.arange(0, 50), np.arange(50, 80)
    place = np.repeat(np.arange(80), w.astype(int))
    again = [(np.flatnonzero(place < 50), np.flatnonzero(place >= 50))]
    once = compare_reductions(A, y, sample_weight=w, cv=[(train, test)], **options)
    often = compare_reductions(A[place], y[place], cv=again, **options)
    assert once.metric == often.metric == metric
    for name in ("all columns", "no columns"):
        assert_allclose(once.row(name).folds, often.row(name).folds, rtol=1e-4)
    assert (
        once.row("all columns").score
        != compare_reductions(A, y, cv=[(train, test)], **options).row("all columns").score
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["R2", "several", "accuracy", "balanced accuracy"])
def test_gains_of_rows_add_up_to_that_of_the_score(kind, weighted):
    rng = np.random.default_rng(0)
    w = rng.integers(1, 4, 120).astype(float) if weighted else None
    y = {"R2": Y, "several": np.column_stack([Y, 30 * X[:, 3]])}.get(kind)
    if y is None:
        y = np.where(np.arange(120) % (2 if kind == "accuracy" else 8) == 0, "a", "b")
    table = read_table(X, y, None, None, w)
    guess, nothing = rng.permutation(table.y), np.broadcast_to(table.y[1], table.y.shape)
    assert table.metric == kind.replace("several", "R2")
    gain = table.score(table.y, guess, w) - table.score(table.y, nothing, w)
    assert_allclose(np.average(table.gains(table.y, guess, nothing), weights=w), gain)


class Wild(DummyRegressor):
    def predict(self, X):
        return np.full(len(X), 1e6)


def test_a_wild_reader_is_one_below_no_columns_and_not_taken():
    readers = {"wild": Wild(), "ridge": READER["ridge"]}
    found = compare_reductions(
        X, Y, reducers={"PCA": PCA(), "PLS": PlsDirections()}, readers=readers, n_components=(1, 3)
    )
    assert {r.reader for r in found.rows} == {"ridge", ""}
    for h in (1, 3):  # beside ours of the same width
        gap = np.subtract(found.row("PLS", h).folds, found.row("PCA", h).folds)
        assert_allclose(found.row("PLS", h).difference, gap.mean())
    alone = compare_reductions(X, Y, reducers={"PCA": PCA()}, readers={"wild": Wild()}, n_components=1)
    assert_allclose(alone.row("PCA").folds, np.subtract(alone.row("no columns").folds, 1.0))


def test_a_reader_is_chosen_without_the_rows_that_it_is_tested_on():
    scores = np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # each reader is good where it is not chosen
    gains = [np.outer(row, np.ones(30)) for row in scores]
    runs = [SimpleNamespace(table=scores, gains=gains)]
    assert is_above(np.concatenate([g[0] for g in gains]), None, 0.05)
    assert not _compare._is_above(runs, [None] * 3, 0.05)


def test_seconds_are_those_of_one_fit(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(_compare.time, "process_time", lambda: float(next(ticks)))
    with threadpool_limits(1, "blas"):  # threads have clocks of their own
        found = compare_reductions(X, Y, reducers={"PCA": PCA()}, readers=READER, n_components=1, cv=4)
    assert [r.seconds for r in found.rows] == [1.0, 0.0, 0.0]


def test_the_level_is_shared_among_the_methods(monkeypatch):
    levels = []
    monkeypatch.setattr(_compare, "is_above", lambda gain, weights, level: levels.append(level))
    quick(X, Y, readers=READER, cv=2)
    assert_allclose(levels, [0.05 / 3] * 3)


@pytest.mark.parametrize(
    ("columns", "rows", "classes", "kept"),
    [
        (30, 250, False, True),  # 495 terms
        (31, 10_000, False, False),  # 527, beyond 500
        (31, 264, True, True),
        (31, 263, True, False),  # beyond twice the rows
    ],
)
def test_all_columns_are_read_by_squares_where_those_are_few(columns, rows, classes, kept):
    found = readers_of_all(default_readers(classes=classes), columns, rows, classes=classes)
    assert ("quadratic" in found) is kept
    assert len(found) == 2 + kept


def test_numbers_of_directions_share_the_kernel_regression(monkeypatch):
    fits, fit = [], _gradient.fit_kernel
    monkeypatch.setattr(_gradient, "fit_kernel", lambda *a, **k: fits.append(k) or fit(*a, **k))
    counts = []
    for numbers in (1, (1, 2)):
        quick(X, Y, reducers={"joint reduction": JointReduction(n_groups=None)}, n_components=numbers)
        counts.append(len(fits))
        fits.clear()
    assert counts[0] == counts[1] > 0


def test_a_lead_that_hangs_on_few_rows_is_not_called_noise():
    """Heavy tails: no test finds a lead that is there."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((80, 4))
    y = np.exp(2.0 * A[:, 0] + 0.3 * rng.standard_normal(80))
    found = compare_reductions(A, y, n_components=1)
    assert not any(found.above_chance.values())
    assert found.row("joint reduction", 1).score > 0.3
    assert "few rows decide" in found.sentence
    assert any(compare_reductions(A, y, n_components=1, response="rank").above_chance.values())
