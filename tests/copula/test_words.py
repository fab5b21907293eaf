"""Nominal columns and ids, through the imputer."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from copula_tables import WORDS, words_table
from numpy.testing import assert_allclose

from colspace import CopulaImputer
from colspace.copula import LeftOutWarning
from colspace.copula._nominal import POWER
from colspace.io import load, save


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
