"""Nominal columns, ids, dates and values for gaps, through the imputer."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from colspace import CopulaImputer
from colspace._validation import ConstantColumnWarning
from colspace.copula import LeftOutWarning
from colspace.copula._choice import together
from colspace.copula._columns import columns_of, group_of
from colspace.copula._estep import Rows
from colspace.copula._forest import grow
from colspace.copula._marginals import Distinct
from colspace.copula._nominal import (
    POWER,
    Levels,
    best_slopes,
    brier,
    class_law,
    likeliest_power,
    log_odds,
    mixed,
    slopes_of,
)
from colspace.io import load, save

WORDS = np.array(["red", "green", "blue", "grey"], dtype=object)


def words_table(n=240, seed=0, missing=0.2):
    """Words that two numbers tell, a yes/no of text, days and unique names; with gaps, and complete."""
    rng = np.random.default_rng(seed)
    t = rng.standard_normal((n, 2))
    scores = np.column_stack([t[:, 0], t[:, 1], -t[:, 0], -t[:, 1]]) + 0.4 * rng.gumbel(size=(n, 4))
    full = pd.DataFrame(t + 0.4 * rng.standard_normal((n, 2)), columns=["a", "b"])
    full["word"] = WORDS[scores.argmax(axis=1)]
    full["answer"] = np.where(t[:, 0] + 0.3 * rng.standard_normal(n) > 0, "yes", "no")
    full["day"] = pd.Timestamp("2021-03-01") + pd.to_timedelta(np.rint(30 * t[:, 1]).astype(int), unit="D")
    X = full.mask(rng.random(full.shape) < missing)
    return X, full


@pytest.fixture(scope="module")
def tables():
    return words_table()


@pytest.fixture(scope="module")
def model(tables):
    return CopulaImputer(random_state=0).fit(tables[0])


# ---------------------------------------------------------------------- formulas


def one_on(P):
    """Law of independent indicators given that just one is on, by counting all of them."""
    k = len(P)
    every = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    chance = np.prod(np.where(every, P, 1 - P), axis=1)
    single = every.sum(axis=1) == 1
    return chance[single][every[single].argmax(axis=1).argsort()] / chance[single].sum()


def test_law_of_classes_is_that_of_one_indicator_on(tables, model):
    group = model._columns.groups[0]
    rng = np.random.default_rng(1)
    mean, sd = rng.standard_normal((5, 4)), rng.uniform(0.3, 1.2, (5, 4))
    law = np.exp(class_law(1.0, log_odds(group, model._point, mean, sd)))
    cuts = np.array([model._point.columns[j].z[0] for j in range(group.start, group.start + 4)])
    for i in range(5):
        # by quadrature of the latent law above the cut
        on = [
            quad(norm.pdf, c, max(c, m) + 12 * v, (m, v))[0]
            for m, v, c in zip(mean[i], sd[i], cuts, strict=True)
        ]
        assert_allclose(law[i], one_on(np.array(on)), rtol=1e-6)


def test_two_classes_have_one_latent_column():
    counts = np.array([1.0, 1.0, 9.0, 2.0])
    group = group_of(0, 0, Distinct(np.arange(4.0), counts))
    assert (group.classes, group.width) == (2, 1)
    assert_array_equal(group.kind, [1, 1, 0, 1])
    assert_allclose(group.share, [0.25, 0.25, 1.0, 0.5])
    assert_array_equal(group.indicators(np.array([0, np.nan, 2, 3])), [[1], [np.nan], [0], [1]])
    assert_array_equal(group.distinct()[0].counts, [9, 4])


def test_rare_levels_are_one_class_and_common_ones_fifty_at_most():
    counts = np.r_[np.full(60, 5.0), 1.0, 40.0]
    group = group_of(3, 2, Distinct(np.arange(62.0), counts))
    assert group.classes == 51
    assert group.kind[61] == 49  # the commonest has its own
    assert (group.kind[49:61] == 50).all()
    assert_allclose(np.bincount(group.kind, group.share), 1.0)
    law = np.full((1, 51), 1 / 51)
    assert_allclose((law[:, group.kind] * group.share).sum(), 1.0)


def test_power_is_the_likeliest():
    rng = np.random.default_rng(0)
    odds = 3 * rng.standard_normal((4000, 3))
    law = np.exp(class_law(0.6, odds))
    y = np.eye(3)[(np.cumsum(law, axis=1) < rng.random((4000, 1))).sum(axis=1)]
    group = group_of(0, 0, Distinct(np.arange(3.0), y.sum(axis=0)))
    found = likeliest_power(odds, y, np.ones(4000), group)
    assert abs(found - 0.6) < 0.04
    losses = [
        -np.log((mixed(group, class_law(p, odds), None, 0.0) * y).sum(axis=1)).sum()
        for p in (found - 0.1, found, found + 0.1)
    ]
    assert losses[1] == min(losses)


def test_slopes_are_the_likeliest():
    """Against scikit-learn's logistic regression, where the copula says nothing."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    Z = rng.standard_normal((500, 2))
    y = np.eye(3)[(Z @ rng.standard_normal((2, 3)) + rng.gumbel(size=(500, 3))).argmax(axis=1)]
    w = rng.uniform(0.5, 2.0, 500)
    found = slopes_of(np.zeros((500, 3)), Z, y, w, 3.0)
    law = np.exp(class_law(1.0, np.zeros((500, 3)), Z, found))
    peer = LogisticRegression(C=1 / 3.0, tol=1e-10).fit(Z, y.argmax(axis=1), w)
    assert_allclose(law, peer.predict_proba(Z), atol=5e-3)  # there the intercept is not penalised
    assert_allclose(found[1:], peer.coef_.T, atol=2e-2)
    told = rng.standard_normal((500, 3))  # a law that is right needs no slopes
    right = np.eye(3)[(told + rng.gumbel(size=(500, 3))).argmax(axis=1)]
    group = group_of(0, 0, Distinct(np.arange(3.0), right.sum(axis=0)))
    assert best_slopes(told, Z, right, np.ones(500), group, rng) is None
    assert best_slopes(np.zeros((500, 3)), Z, y, w, group, rng) is not None


def test_mixture_keeps_every_level_possible():
    group = group_of(0, 0, Distinct(np.arange(3.0), np.array([6.0, 3.0, 3.0])))
    law = np.log(np.array([[0.5, 0.3, 0.2]]))
    told = np.array([[0.0, 0.0, 1.0]])
    assert_allclose(
        mixed(group, law, told, 0.75),
        0.999 * np.array([[0.125, 0.075, 0.8]]) + 1e-3 * np.array([[0.5, 0.25, 0.25]]),
    )
    assert_allclose(brier(told, np.array([[1.0, 0.0, 0.0]])), [2.0])


def test_explained_share_of_the_indicators_variance():
    group = group_of(0, 0, Distinct(np.arange(3.0), np.array([50.0, 30.0, 20.0])))
    own = np.array([0.5, 0.3, 0.2])
    law = np.array([own, [1.0, 0.0, 0.0], [0.7, 0.2, 0.1]])
    found = Levels(group, np.arange(3), law)
    variance = [sum(p * (1 - p) for p in row) for row in law]  # of indicators, one by one
    assert_allclose(found.explained, 1 - np.array(variance) / variance[0], atol=1e-12)
    assert_array_equal(found.value_if(0.7), [np.nan, 0.0, 0.0])
    assert_allclose(found.top, [0.5, 1.0, 0.7])


def test_forests_of_several_columns_are_means_of_their_trees():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.eye(3)[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]
    forest, outside = grow(X, y, None, np.random.default_rng(1))
    assert_allclose(forest(X).sum(axis=1), 1.0)
    assert_allclose(outside.sum(axis=1), 1.0)
    assert (forest(X).argmax(axis=1) == y.argmax(axis=1)).mean() > 0.95
    for c in range(3):  # a column of trees that are the same, in their splits and leaves
        alone = type(forest)(
            forest.feature, forest.threshold, forest.left, forest.right, forest.value[:, c], forest.roots
        )
        assert_allclose(alone(X), forest(X)[:, c])


# ---------------------------------------------------------------------- nominal columns


def test_words_are_imputed_with_probabilities(tables, model):
    X, full = tables
    assert model.kinds_ == ("continuous", "continuous", "nominal", "binary", "continuous")
    assert model.levels_ == {"word": ("blue", "green", "grey", "red"), "answer": ("no", "yes")}
    assert model.latent_names_ == ("a", "b", "word", "word", "word", "word", "answer", "day")
    assert model.loadings_.shape == (8, model.n_components_)
    filled, law = model.transform(X), model.probabilities(X)
    assert filled.dtypes.equals(X.dtypes)
    assert not filled.isna().any(axis=None)
    for name in ("word", "answer"):
        table, gone = law[name], X[name].isna()
        assert list(table.columns) == list(model.levels_[name])
        assert table.index.equals(X.index)
        assert_allclose(table.sum(axis=1), 1.0)
        assert (table.idxmax(axis=1) == filled[name]).all()
        assert (table.max(axis=1)[~gone] == 1).all()
        top = table.max(axis=1)[gone]
        assert_allclose(model.probability_within(X)[name][gone], top)
        assert_allclose(model.reliability(X)[name][gone], top)
        assert model.reliability(X)[name][~gone].isna().all()
        assert model.reliability(X, "variance")[name][gone].between(0, 1).all()
        right = (filled[name] == full[name])[gone]
        assert right.mean() > 0.05 + (X[name].mode()[0] == full[name])[gone].mean()
        assert abs(right.mean() - top.mean()) < 0.15
    lower, upper = model.interval(X, 0.6)
    sure = law["word"].max(axis=1) >= 0.6
    assert (lower["word"][sure] == filled["word"][sure]).all()
    assert lower["word"][~sure].isna().all()
    assert lower["word"].equals(upper["word"])
    gone = X["word"].isna()
    assert model.probability_within(X, 2, bound=True)["word"][gone].isna().all()
    mean = model.mean(X)
    assert mean["word"].isna().equals(gone)
    assert np.isfinite(model.score(X))
    assert model.latent(X).shape == (len(X), model.n_components_)


def test_words_predict_numbers(tables):
    X, full = tables
    errors = []
    for kinds in ("auto", {"word": "id"}):
        filled = CopulaImputer(kinds=kinds, random_state=0).fit(X).transform(X)
        gone = X["a"].isna() & X["answer"].isna()
        errors.append(np.abs(filled["a"] - full["a"])[gone].mean())
    assert errors[0] < 0.9 * errors[1]


def test_forests_pay_where_words_bend():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2))
    X = pd.DataFrame(x, columns=["a", "b"]).assign(word=WORDS[np.digitize(np.abs(x[:, 0]), [0.4, 1.0])])
    hidden = rng.random(300) < 0.2
    gaps = X.assign(word=X["word"].where(~hidden))
    plain = CopulaImputer(nonlinear=False, random_state=0).fit(gaps)
    bent = CopulaImputer(random_state=0).fit(gaps)
    assert plain.nonlinear_gain_[2] == 0
    assert bent.nonlinear_gain_[2] > 0.3
    right = [(m.transform(gaps)["word"] == X["word"])[hidden].mean() for m in (plain, bent)]
    assert right[1] > right[0] + 0.1
    assert right[1] > 0.85


def test_draws_of_words_have_their_probabilities(tables):
    X, _ = tables
    gone = X["word"].isna() & X[["a", "b", "answer", "day"]].notna().all(
        axis=1
    )  # else a draw depends on other draws
    model = CopulaImputer(2, random_state=0, nonlinear=False, correlation="factors").fit(X)
    draws = model.sample(X, 60, random_state=0)
    assert all(set(draw["word"]) == set(WORDS) for draw in draws[:5])
    assert (draws[0]["word"][~X["word"].isna()] == X["word"].dropna()).all()
    shares = sum(pd.get_dummies(draw["word"])[gone].astype(float) for draw in draws) / 60
    law = model.probabilities(X)["word"][gone][shares.columns]
    error = np.sqrt(law * (1 - law) / 60)
    assert (np.abs(shares - law) < 5 * error + 1e-9).all(axis=None)
    assert not draws[0]["word"].equals(draws[1]["word"])


@pytest.mark.parametrize("sort", ["polars", "categorical", "objects", "codes", "arrow"])
def test_every_container_of_words(tables, model, sort):
    X, _ = tables
    table = X[["a", "b", "word"]]
    expected = CopulaImputer(random_state=0, nonlinear=False).fit(table).transform(table)["word"]
    codes = {word: float(i) for i, word in enumerate(sorted(WORDS))}
    options = {}
    if sort == "polars":
        Y = pl.from_pandas(table).with_columns(pl.col("word").cast(pl.Categorical))
    elif sort == "arrow":
        Y = pl.from_pandas(table).to_arrow()
    elif sort == "categorical":
        Y = table.assign(word=table["word"].astype("category"))
    elif sort == "objects":
        Y = table.to_numpy(dtype=object)
    else:
        Y = table.assign(word=table["word"].map(codes))
        options = {"kinds": {"word": "nominal"}}
    fitted = CopulaImputer(random_state=0, nonlinear=False, **options).fit(Y)
    assert fitted.kinds_[2] == "nominal"
    out = fitted.transform(Y)
    assert type(out) is type(Y)
    found = (
        out[:, 2]
        if sort == "objects"
        else pd.Series(list(out["word"].to_pandas() if sort == "arrow" else out["word"]))
    )
    if sort == "categorical":
        assert out["word"].dtype == Y["word"].dtype
    if sort == "polars":
        assert out.schema == Y.schema
    if sort == "codes":
        expected = expected.map(codes)
    assert list(found) == list(expected)
    law = fitted.probabilities(Y)[2 if sort == "objects" else "word"]
    assert np.asarray(law).shape == (len(X), 4)


def test_weights_are_rows_of_words():
    X, _ = words_table(60)
    X = X[["a", "b", "word"]]
    twice = pd.concat([X, X.iloc[:20]], ignore_index=True)
    weight = np.r_[np.full(20, 2.0), np.ones(40)]
    one = CopulaImputer(2, random_state=0, nonlinear=False, correlation="factors").fit(
        X, sample_weight=weight
    )
    two = CopulaImputer(2, random_state=0, nonlinear=False, correlation="factors").fit(twice)
    assert_allclose(one.probabilities(X)["word"], two.probabilities(X)["word"], atol=2e-2)


def test_saved_and_loaded(tmp_path):
    X, _ = words_table(60)
    model = CopulaImputer(2, random_state=0, nonlinear=False).fit(X)
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    assert again.transform(X).equals(model.transform(X))
    assert again.probabilities(X)["word"].equals(model.probabilities(X)["word"])


def test_words_of_dask_need_their_categories(tables):
    frame = pytest.importorskip("dask.dataframe")
    X = tables[0][["a", "b", "word"]]
    D = frame.from_pandas(X, npartitions=3)
    with pytest.raises(ValueError, match=r"'word' holds text without an order.*X\.categorize"):
        CopulaImputer().fit(D)
    fitted = CopulaImputer(random_state=0, nonlinear=False).fit(D.categorize())
    local = CopulaImputer(random_state=0, nonlinear=False).fit(X.assign(word=X["word"].astype("category")))
    assert fitted.kinds_ == local.kinds_
    assert_allclose(fitted.loadings_ @ fitted.loadings_.T, local.loadings_ @ local.loadings_.T, atol=1e-6)
    assert fitted._words[0].power == POWER
    part = D.categorize().partitions[0].compute()
    assert not fitted.transform(part)["word"].isna().any()


def test_sparse_tables_have_no_words():
    from scipy import sparse

    X = sparse.csr_array(np.arange(1.0, 41).reshape(10, 4) % 5 + 1)
    with pytest.raises(ValueError, match="nominal columns of a sparse X are not supported"):
        CopulaImputer(kinds={0: "nominal"}).fit(X)


# ---------------------------------------------------------------------- ids


def test_ids_and_free_text_are_left_out_and_named(tables):
    X, _ = tables
    ids = pd.Series([f"case {i}" for i in range(len(X))]).mask(np.arange(len(X)) == 3)
    table = X[["a", "word"]].assign(
        name=ids, note=pd.Series([f"said {i // 2}, {i % 2}" for i in range(len(X))])
    )
    with pytest.warns(
        LeftOutWarning,
        match=r"2 column\(s\) of ids or free text .*'name', 'note'.*kinds=\{'name': 'nominal'\}",
    ):
        fitted = CopulaImputer(random_state=0).fit(table)
    assert fitted.kinds_ == ("continuous", "nominal", "id", "id")
    out = fitted.transform(table)
    pd.testing.assert_frame_equal(out[["name", "note"]], table[["name", "note"]])  # the gap stays
    plain = CopulaImputer(random_state=0).fit(table[["a", "word"]])
    pd.testing.assert_frame_equal(out[["a", "word"]], plain.transform(table[["a", "word"]]))
    assert fitted.reliability(table)["name"].isna().all()
    assert fitted.loadings_.shape == plain.loadings_.shape
    assert list(fitted.get_feature_names_out()) == list(table)
    asked = CopulaImputer(kinds={"name": "id", "note": "id"}, random_state=0).fit(table)  # no warning
    pd.testing.assert_frame_equal(asked.transform(table), out)
    lists = table[["a", "word"]].assign(any=[[i] for i in range(len(X))])
    assert (
        CopulaImputer(kinds={"any": "id"}).fit(lists).transform(lists)["any"].tolist()
        == lists["any"].tolist()
    )
    with pytest.raises(
        ValueError, match=r"all 2 columns are ids or free text \('name', 'note'\); give kinds"
    ):
        CopulaImputer(kinds="id").fit(table[["name", "note"]])


# ---------------------------------------------------------------------- bad input


def test_as_many_levels_as_rows(tables):
    table = tables[0][["a", "b"]].assign(name=[f"n{i}" for i in range(len(tables[0]))])
    table.loc[4, "name"] = None
    fitted = CopulaImputer(kinds={"name": "nominal"}, random_state=0).fit(table)
    assert fitted.kinds_[2] == "nominal"
    law = fitted.probabilities(table)["name"]
    assert_allclose(law.loc[4], 1 / (len(table) - 1))
    assert fitted.transform(table).loc[4, "name"] in set(table["name"].dropna())
    assert fitted.sample(table, 1, random_state=0)[0].loc[4, "name"] in set(table["name"].dropna())
    plain = CopulaImputer(random_state=0).fit(table[["a", "b"]])
    assert_array_equal(fitted.transform(table)["a"], plain.transform(table[["a", "b"]])["a"])


def test_a_level_that_fit_did_not_see(tables, model):
    X = tables[0].head(3).copy()
    X.loc[1, "word"] = "mauve"
    with pytest.raises(
        ValueError, match=r"'word' holds 'mauve', which fit did not see; .*'blue', 'green'.*Remedies: blank"
    ):
        model.transform(X)
    coded = pd.DataFrame({"a": np.arange(40.0), "code": np.tile([3.0, 1, 7, 4], 10)})
    fitted = CopulaImputer(kinds={"code": "nominal"}).fit(coded)
    with pytest.raises(ValueError, match=r"'code' holds 2\.0, which fit did not see; it is nominal"):
        fitted.transform(pd.DataFrame({"a": [1.0], "code": [2.0]}))


def test_a_column_with_one_observed_cell(tables):
    X = tables[0].assign(one=np.nan, text=None)
    X.loc[3, "one"], X.loc[5, "text"] = 2.5, "only"
    with pytest.warns(ConstantColumnWarning, match=r"2 column\(s\) with one observed value .*'one', 'text'"):
        fitted = CopulaImputer(random_state=0).fit(X)
    out = fitted.transform(X)
    assert (out["one"] == 2.5).all()
    assert (out["text"] == "only").all()


def test_rows_with_one_cell_each():
    X = np.full((60, 3), np.nan)
    rng = np.random.default_rng(0)
    X[np.arange(60), np.arange(60) % 3] = rng.standard_normal(60)
    table = pd.DataFrame(X, columns=list("abc"))
    table["word"] = pd.Series(WORDS[rng.integers(3, size=80)])
    table = pd.concat(
        [table.assign(word=None), pd.DataFrame({"word": WORDS[np.arange(30) % 3]})], ignore_index=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pairs that were never seen together
        fitted = CopulaImputer(random_state=0).fit(table)
    out = fitted.transform(table)
    assert not out.isna().any(axis=None)
    law = fitted.probabilities(table)["word"]
    assert_allclose(law.iloc[:60], 1 / 3, atol=0.15)  # nothing is known


def test_two_identical_columns(tables):
    X, _ = tables
    twice = X[["a", "word"]].assign(again=X["word"], b=X["a"])
    part = X["word"].notna()
    twice.loc[::5, "again"] = None
    out = CopulaImputer(random_state=0).fit(twice).transform(twice)
    assert (out["again"] == out["word"])[part].mean() > 0.97
    assert_allclose(out["b"], out["a"])


def test_a_table_without_gaps_comes_back_as_it_is(tables):
    _, full = tables
    fitted = CopulaImputer(random_state=0).fit(full)
    pd.testing.assert_frame_equal(fitted.transform(full), full)
    for table in (*fitted.interval(full), fitted.sample(full, 1)[0]):
        pd.testing.assert_frame_equal(table, full)
    assert (fitted.probability_within(full) == 1).all(axis=None)


# ---------------------------------------------------------------------- dates


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_are_numbers_of_days(tables, unit):
    X, full = tables
    table = X[["a", "b"]].assign(day=X["day"].astype(f"datetime64[{unit}]"))
    days = (table["day"] - pd.Timestamp(0)) / pd.Timedelta(days=1)
    fitted = CopulaImputer(random_state=0).fit(table)
    other = CopulaImputer(kinds={"day": fitted.kinds_[2]}, random_state=0).fit(table.assign(day=days))
    out, plain = fitted.transform(table), other.transform(table.assign(day=days))
    assert out["day"].dtype == table["day"].dtype
    assert_array_equal((out["day"] - pd.Timestamp(0)) / pd.Timedelta(days=1), np.rint(plain["day"]))
    assert_allclose(fitted.mean(table)["day"], other.mean(table.assign(day=days))["day"])
    lower, upper = fitted.interval(table)
    inside = (lower["day"] <= full["day"]) & (full["day"] <= upper["day"])
    assert inside.mean() > 0.9
    frame = pl.from_pandas(table)
    again = CopulaImputer(random_state=0).fit(frame).transform(frame)
    assert again.schema == frame.schema
    assert (again["day"].to_pandas() == out["day"]).all()


def test_dates_keep_the_unit_in_which_they_are_whole():
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 5000, 80)
    when = np.datetime64("2020-01-01T00", "h") + hours
    X = np.column_stack([when, when + rng.integers(0, 50, 80)]).astype("M8[ms]")
    X[::7, 1] = "NaT"
    out = CopulaImputer(random_state=0).fit(X).transform(X)
    assert out.dtype == X.dtype
    assert not np.isnat(out).any()
    assert (out.astype("M8[h]") == out).all()
    lasting = pd.DataFrame({"a": hours / 7.0, "t": pd.to_timedelta(hours, unit="h")})
    lasting.loc[::9, "t"] = pd.NaT
    filled = CopulaImputer(random_state=0).fit(lasting).transform(lasting)["t"]
    assert (np.abs(filled - pd.to_timedelta(hours, unit="h")) < pd.Timedelta(days=20)).all()
    zoned = lasting.assign(t=(pd.Timestamp("2020-06-01", tz="Europe/Rome") + lasting["t"]))
    back = CopulaImputer(random_state=0).fit(zoned).transform(zoned)["t"]
    assert back.dtype == zoned["t"].dtype
    assert (
        (back - pd.Timestamp("2020-06-01", tz="Europe/Rome") - filled).abs() <= pd.Timedelta(hours=1)
    ).all()


def test_far_dates_stay_inside_their_type():
    from colspace.copula._dates import dates_like

    column = np.array(["2020-01-01"], dtype="M8[ns]")
    assert dates_like(column, np.array([1e9]), 1)[0] > column[0]
    X = pd.DataFrame({"a": np.arange(9.0), "day": pd.date_range("2020", periods=9)})
    fitted = CopulaImputer().fit(X)
    with pytest.raises(ValueError, match="'day' held dates in fit"):
        fitted.transform(X.assign(day=1.5))


# ---------------------------------------------------------------------- values for gaps


def test_values_that_stand_for_gaps(tables):
    X, _ = tables
    table = X[["a", "b", "word"]].round(2)
    plain = CopulaImputer(random_state=0).fit(table)
    expected = plain.transform(table)
    marked = table.fillna({"a": -99.0, "word": "?"})
    for given in ([-99, "?"], {"a": -99, "word": ["?", "refused"]}):
        fitted = CopulaImputer(random_state=0, na_values=given).fit(marked)
        pd.testing.assert_frame_equal(fitted.transform(marked), expected)
    frame = pl.from_pandas(marked)
    assert CopulaImputer(random_state=0, na_values=[-99, "?"]).fit(frame).transform(frame)[
        "word"
    ].to_list() == list(expected["word"])
    array = table[["a", "b"]].fillna(-99.0).to_numpy()
    first = (
        CopulaImputer(random_state=0)
        .fit(table[["a", "b"]].to_numpy())
        .transform(table[["a", "b"]].to_numpy())
    )
    assert_array_equal(CopulaImputer(random_state=0, na_values=-99).fit_transform(array), first)
    whole = np.array([[1, 2], [2, 1], [-9, 2], [1, 1], [2, 2], [2, -9]] * 5)
    filled = CopulaImputer(na_values=-9, random_state=0).fit_transform(whole)
    assert filled.dtype == whole.dtype
    assert set(np.unique(filled)) == {1, 2}
    text = np.array([["a", "x"], ["b", "y"], ["?", "y"], ["c", "x"]] * 8)
    assert "?" not in CopulaImputer(na_values="?", random_state=0).fit_transform(text)
    objects = np.array([[1, 2.5], ["?", 1.5], [3, 0.5]] * 9, dtype=object)
    assert CopulaImputer(na_values="?", random_state=0).fit(objects).kinds_ == ("binary", "ordinal")


def test_values_for_gaps_of_sparse_tables():
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4)) + rng.standard_normal((50, 1))
    gone = rng.random(X.shape) < 0.2
    cells = np.nonzero(~gone)
    one = sparse.coo_array((X[cells], cells), X.shape).tocsr()
    marked = sparse.csr_array(np.where(gone, -99.0, X))
    expected = CopulaImputer(random_state=0).fit_transform(one)
    assert_allclose(CopulaImputer(random_state=0, na_values=-99).fit_transform(marked), expected)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"q": -99}, "'q' is not a column of X"),
        ([[1]], r"na_values=\[\[1\]\] must be a number, a text"),
        ({"a": object()}, r"na_values\['a'\]=.* must be a number"),
    ],
)
def test_values_for_gaps_are_checked(tables, given, text):
    with pytest.raises(ValueError, match=text):
        CopulaImputer(na_values=given).fit(tables[0])


def test_columns_of_the_model_are_those_of_the_table_without_words():
    kinds = ("continuous", "constant", "binary")
    distinct = [Distinct(np.arange(3.0), np.ones(3))] * 3
    found = columns_of(kinds, distinct)
    assert not found.whole
    assert_array_equal(found.active, [True, False, True])
    assert columns_of(("binary", "count"), distinct[:2]).whole
    assert_allclose(log_ndtr(-1.0), np.log(ndtr(-1.0)))


def test_pictures_of_words(tables, model):
    pytest.importorskip("matplotlib").use("Agg")
    from colspace.displays import ImputationDisplay, MarginalDisplay, ReliabilityDisplay

    X, full = tables
    shown = MarginalDisplay.from_estimator(model, X)
    assert set(shown.frame().query("column == 'word'")["value"]) == set(WORDS)
    display = ImputationDisplay.from_estimator(model, X, full)
    cells = X.drop(columns="word").isna().to_numpy().sum()
    assert len(display.frame()) == cells
    with pytest.raises(ValueError, match="'word' is nominal, and words have no order"):
        ImputationDisplay.from_estimator(model, X, full, columns="word")
    ReliabilityDisplay.from_estimator(model, X, full)


def test_levels_of_a_word_are_hidden_together_when_a_correlation_is_chosen():
    rows = Rows(3, 5, np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3))
    gone = np.zeros(15, dtype=bool)
    gone[[1, 7, 10]] = True  # the group's first column of row 0, its second of row 1, another column of row 2
    found = together(rows, gone, [slice(1, 4)]).reshape(3, 5)
    np.testing.assert_array_equal(found, [[0, 1, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])


def test_numbers_beside_words_are_told_by_any_correlation():
    """Six factors' worth of numbers with few rows: the mixture is taken, and odds of words stay those of the factors."""
    rng = np.random.default_rng(4)
    C = rng.standard_normal((8, 8))
    Z = rng.standard_normal((300, 8)) @ C.T
    X = pd.DataFrame(Z, columns=[f"x{i}" for i in range(8)])
    X["w"] = np.array(list("abc"))[np.digitize(Z[:, 0] + rng.standard_normal(300), [-1.5, 1.5])]
    holes = X.mask(rng.random(X.shape) < 0.15)
    model = CopulaImputer(random_state=0, nonlinear=False).fit(holes)
    assert model._point.joint is not None
    assert model._odds is model._model
    plain = CopulaImputer(random_state=0, nonlinear=False, correlation="factors").fit(holes)
    numbers = [f"x{i}" for i in range(8)]
    gone = holes[numbers].isna().to_numpy()
    error = [np.abs(m.transform(holes)[numbers] - X[numbers]).to_numpy()[gone].mean() for m in (model, plain)]
    assert error[0] < error[1]
    np.testing.assert_allclose(model.probabilities(holes)["w"], plain.probabilities(holes)["w"], atol=1e-8)
