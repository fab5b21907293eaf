import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from colspace import (
    CopulaImputer,
    JointReduction,
    PairRegressor,
    SupervisedDictionaryClassifier,
    SupervisedDictionaryRegressor,
)
from colspace.cli._group import colspace
from colspace.datasets import make_pairs
from colspace.io import info, load, save


def run(*arguments, code=0):
    result = CliRunner().invoke(colspace, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 4)), columns=list("abcd"))
    frame["y"] = frame["a"] - frame["b"] + 0.1 * rng.normal(size=120)
    frame["who"] = [f"p{i}" for i in range(120)]
    frame[:100].to_csv("train.csv", index=False)
    frame[100:].to_csv("new.csv", index=False)
    return frame[100:]


def test_an_embedding_of_rows_kept_back(folder):
    run("reduce", "train.csv", "-y", "y", "--id", "who", "--save", "m.skops", "-r", 1)
    folder[["who", "d", "b", "a", "c", "y"]].to_csv("new.csv", index=False)  # any order, a column more
    text = run("apply", "m.skops", "new.csv", "--id", "who", "--out", "e.csv").output
    assert "JointReduction makes an embedding: 20 rows\nwrote embedding to e.csv" in text
    found = pd.read_csv("e.csv")
    assert list(found["who"]) == list(folder["who"])
    assert_allclose(found.iloc[:, 1:].to_numpy(), load("m.skops").transform(folder[list("abcd")]), rtol=1e-12)


def test_info_shows_the_fit_and_its_quality(folder):
    run("reduce", "train.csv", "-y", "y", "--id", "who", "--save", "m.skops", "-r", 1)
    text = " ".join(run("info", "m.skops").output.split())
    assert "m.skops: JointReduction, made by colspace reduce" in text
    assert "4 columns: a, b, c, d" in text
    assert "rows: 100" in text
    assert "on rows left out" in text
    found = json.loads(run("info", "m.skops", "--json", "-").output)
    assert found == info("m.skops")
    assert found["about"]["quality"]["scores"][0]["score"] > 0.9
    assert found["about"]["table"] == "train.csv"


def test_missing_columns_are_all_named(folder):
    run("reduce", "train.csv", "-y", "y", "--id", "who", "--no-check", "--save", "m.skops")
    folder.rename(columns={"a": "A1", "b": "bb"})[["A1", "bb", "c", "d"]].to_csv("new.csv", index=False)
    text = run("apply", "m.skops", "new.csv", "--out", "e.csv", code=2).output
    assert "2 of the 4 columns of the fit are not in the table: 'a', 'b' (is it 'bb'?)" in text
    assert "--id" not in run("apply", "m.skops", "new.csv", "--id", "c", "--out", "e.csv", code=2).output


def test_gaps_and_text_are_refused_as_in_the_fit(folder):
    run("reduce", "train.csv", "-y", "y", "--id", "who", "--no-check", "--save", "m.skops")
    folder.assign(a=np.where(np.arange(20) < 3, np.nan, 1.0)).to_csv("new.csv", index=False)
    assert (
        "missing values in X in 1 column(s): 'a' (3)"
        in run("apply", "m.skops", "new.csv", "--out", "e.csv", code=2).output
    )
    folder.assign(a="x").to_csv("new.csv", index=False)
    assert (
        "1 column(s) are not numbers: 'a' (e.g. 'x'). The model was fitted on numbers: give these, or what stands for a gap with --na"
        in run("apply", "m.skops", "new.csv", "--out", "e.csv", code=2).output
    )


@pytest.mark.parametrize("command", ["impute", "reduce"])
def test_what_stood_for_gaps_at_the_fit_does_so_later(folder, command):
    train = pd.read_csv("train.csv")
    train.loc[::9, "a"] = -99
    train.to_csv("train.csv", index=False)
    options = ["--out", "f.csv"] if command == "impute" else ["-y", "y", "-r", 1]
    run(
        command,
        "train.csv",
        "--id",
        "who",
        "--na",
        -99,
        "--na=?",
        *options,
        "--no-check",
        "--save",
        "m.skops",
    )
    assert info("m.skops")["about"]["gap_marks"] == ["-99", "?"]
    assert "gap marks: -99, ?" in run("info", "m.skops").output
    folder.loc[folder.index[:2], "a"] = -99
    folder.to_csv("new.csv", index=False)
    said = run("apply", "m.skops", "new.csv", "--id", "who", "--out", "e.csv").stderr
    assert said == "Note: cells that are -99, ? are gaps, as at the fit (--na)\n"
    run("apply", "m.skops", "new.csv", "--id", "who", "--out", "e2.csv", "--na", -99, "--na=?")
    assert pd.read_csv("e.csv").equals(pd.read_csv("e2.csv"))
    folder.assign(a=folder["a"].replace(-99, np.nan)).to_csv("blank.csv", index=False)
    run("apply", "m.skops", "blank.csv", "--id", "who", "--out", "e3.csv")
    assert_allclose(
        pd.read_csv("e3.csv").select_dtypes("number"),
        pd.read_csv("e.csv").select_dtypes("number"),
    )
    assert "are gaps, as at the fit" in run("report", "m.skops", "new.csv", "--id", "who").stderr
    assert not run("report", "m.skops").stderr


@pytest.mark.parametrize(
    ("value", "mark"), [("Mars", "Mars"), ("O'Hara town", "'O'\"'\"'Hara town'")], ids=["plain", "quoted"]
)
def test_a_word_that_the_fit_has_not_seen_can_be_a_gap(folder, value, mark):
    train = pd.read_csv("train.csv")
    train["town"] = np.resize(["Oslo", "Rome", "Bonn"], 100)
    train.mask(np.random.default_rng(0).random(train.shape) < 0.1).to_csv("train.csv", index=False)
    run("impute", "train.csv", "--drop", "who", "--out", "f.csv", "--no-check", "--save", "m.skops")
    folder["town"] = "Oslo"
    folder.loc[folder.index[0], "town"] = value
    folder.to_csv("new.csv", index=False)
    text = run("apply", "m.skops", "new.csv", "--out", "g.csv", code=2).output
    assert f"Remedies: take it for a gap (--na {mark}), or fit on rows that hold it" in text
    run("apply", "m.skops", "new.csv", "--out", "g.csv", "--na", value)
    assert pd.read_csv("g.csv")["town"].isin(["Oslo", "Rome", "Bonn"]).all()


def test_a_model_without_names_takes_columns_in_order(folder):
    train = pd.read_csv("train.csv")
    model = JointReduction(1).fit(train[list("abcd")].to_numpy(), train["y"])
    save(model, "m.skops")
    folder[["who", *"abcd"]].to_csv("new.csv", index=False)
    run("apply", "m.skops", "new.csv", "--id", "who", "--out", "e.csv")
    assert_allclose(
        pd.read_csv("e.csv").iloc[:, 1], model.transform(folder[list("abcd")].to_numpy())[:, 0], rtol=1e-12
    )
    text = run("apply", "m.skops", "new.csv", "--out", "e.csv", code=2).output
    assert "fitted on 4 columns without names and the table has 5" in text


def test_a_filled_table_with_intervals_and_draws(folder):
    train = pd.read_csv("train.csv")
    model = CopulaImputer(1, random_state=0).fit(
        train[list("abcdy")].mask(np.random.default_rng(0).random((100, 5)) < 0.1)
    )
    save(model, "m.skops")
    holes = folder.copy()
    holes.iloc[:5, 1] = np.nan
    holes.to_csv("new.csv", index=False)
    run("apply", "m.skops", "new.csv", "--id", "who", "--out", "f.csv", "--intervals")
    found, given = pd.read_csv("f.csv"), pd.read_csv("new.csv")[list("abcdy")]
    assert_allclose(found[list("abcdy")].to_numpy(), model.transform(given).to_numpy(), rtol=1e-12)
    lower, upper = model.interval(given, 0.95)
    assert_allclose(found["b__lower"], lower["b"], rtol=1e-12)
    assert_allclose(found["b__upper"], upper["b"], rtol=1e-12)
    assert list(found["who"]) == list(folder["who"])
    run("apply", "m.skops", "new.csv", "--out", "d.csv", "--draws", 2, "--seed", 3)
    for i, drawn in enumerate(model.sample(given, 2, random_state=3), 1):
        assert_allclose(pd.read_csv(f"d-{i}.csv")[list("abcdy")].to_numpy(), drawn.to_numpy(), rtol=1e-12)


def test_labels_with_probabilities_of_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = {"good": ["sun", "warm", "kind"], "bad": ["rain", "cold", "mean"]}
    label = rng.choice(list(words), 120)
    text = [" ".join(rng.choice([*words[k], "day", "town"], 6)) for k in label]
    frame = pd.DataFrame({"label": label, "says": text, "old": rng.normal(size=120)})
    frame[:100].to_csv("train.csv", index=False)
    frame[100:].drop(columns="label").to_csv("new.csv", index=False)
    run(
        "atoms",
        "train.csv",
        "-y",
        "label",
        "-t",
        "says",
        "-c",
        "old",
        "-r",
        2,
        "--out",
        "topics",
        "--save",
        "m.skops",
    )
    assert info("m.skops")["about"]["texts"] == ["says"]
    run("apply", "m.skops", "new.csv", "--out", "p.csv")
    found = pd.read_csv("p.csv")
    assert (found["label"] == frame["label"].to_numpy()[100:]).mean() > 0.8
    model = load("m.skops")
    assert_allclose(found[["p_bad", "p_good"]], model.predict_proba(frame[100:]), rtol=1e-12)
    text = run("info", "m.skops").output
    assert "20 of 100 rows held out" in text
    assert any(line.startswith("│ NMF + logistic regression") for line in text.splitlines())


def test_numbers_are_predicted(folder):
    train = pd.read_csv("train.csv")
    model = SupervisedDictionaryRegressor(2, random_state=0).fit(train[list("abcd")], train["y"])
    save(model, "m.skops", about={"label": "y"})
    run("apply", "m.skops", "new.csv", "--id", "who", "--out", "p.csv")
    assert_allclose(pd.read_csv("p.csv")["y"], model.predict(folder[list("abcd")]), rtol=1e-12)


def test_partners_of_new_entities(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A, B, Y, *_ = make_pairs(30, 20, rng=0)
    model = PairRegressor(2, random_state=0).fit(A[:25], B, Y[:25])
    save(model, "m.skops")
    new = pd.DataFrame(A[25:], columns=[f"f{i}" for i in range(A.shape[1])])
    new.insert(0, "who", [f"n{i}" for i in range(5)])
    new.to_csv("new.csv", index=False)
    run("apply", "m.skops", "new.csv", "--top", 3, "--out", "p.csv")
    found = pd.read_csv("p.csv")
    assert len(found) == 15
    expected = model.rank(new.set_index("who"), k=3)
    assert list(found["left"]) == list(expected["left"])
    assert list(found["right"]) == list(expected["right"])


def test_options_of_another_kind_of_model_are_refused(folder):
    run("reduce", "train.csv", "-y", "y", "--id", "who", "--no-check", "--save", "m.skops")
    text = run("apply", "m.skops", "new.csv", "--out", "e.csv", "--draws", 2, code=2).output
    assert "--draws is of a model that fills gaps, and m.skops makes an embedding" in text


@pytest.mark.parametrize("command", ["apply", "info"])
def test_foreign_files_are_one_line(folder, command):
    rest = ["new.csv", "--out", "e.csv"] if command == "apply" else []
    assert (
        "new.csv is damaged or not a file written by"
        in run(
            command, "new.csv", *rest[:0], *(["train.csv", "--out", "e.csv"] if rest else []), code=2
        ).output
    )
    assert "no.skops does not exist" in run(command, "no.skops", *rest, code=2).output


def test_the_table_is_never_overwritten(folder):
    run("reduce", "train.csv", "-y", "y", "--id", "who", "--no-check", "--save", "m.skops")
    assert "never overwritten" in run("apply", "m.skops", "new.csv", "--out", "new.csv", code=2).output


def test_pipelines_that_encode_words_themselves(folder):
    """The steps before the estimator know their columns; a page is of an estimator alone, and says so."""
    frame = folder.assign(town=np.where(folder["a"] > 0, "Rome", "Oslo"))
    frame.to_csv("new.csv", index=False)
    X, told = frame[[*"abcd", "town"]], np.where(frame["y"] > 0, "yes", "no")
    encoder = ColumnTransformer([("n", StandardScaler(), list("abcd")), ("w", OneHotEncoder(), ["town"])])
    reducer = make_pipeline(encoder, JointReduction(1)).fit(X, frame["y"])
    atoms = SupervisedDictionaryClassifier(2, positive=False, random_state=0)
    classifier = make_pipeline(encoder, atoms).fit(X, told)
    save(reducer, "r.skops")
    save(classifier, "c.skops")
    run("apply", "r.skops", "new.csv", "--out", "e.csv")
    run("apply", "c.skops", "new.csv", "--out", "l.csv")
    assert_allclose(pd.read_csv("e.csv").to_numpy(), reducer.transform(X))
    found = pd.read_csv("l.csv")
    assert list(found["prediction"]) == list(classifier.predict(X))
    assert_allclose(found[["p_no", "p_yes"]], classifier.predict_proba(X))
    for name, last in (("r", "JointReduction"), ("c", "SupervisedDictionaryClassifier")):
        text = run("report", f"{name}.skops", "new.csv", code=2).output
        assert f"{name}.skops is a pipeline that ends in {last}; a page is of one estimator" in text
    save(LogisticRegression().fit(X[["a"]], told), "l.skops")
    assert "l.skops is a LogisticRegression; a page" in run("report", "l.skops", code=2).output


def test_several_responses_are_a_column_each(folder):
    Y = folder[["a", "y"]].to_numpy()
    model = SupervisedDictionaryRegressor(2, positive=False, random_state=0).fit(folder[list("abcd")], Y)
    save(model, "m.skops")
    run("apply", "m.skops", "new.csv", "--id", "who", "--out", "n.csv")
    found = pd.read_csv("n.csv")
    assert list(found) == ["who", "prediction0", "prediction1"]
    assert_allclose(found.iloc[:, 1:], model.predict(folder[list("abcd")]))


@pytest.mark.parametrize(("given", "needs"), [(["--level", 0.5], "--intervals"), (["--seed", 3], "--draws")])
def test_options_that_would_have_no_effect(folder, given, needs):
    save(CopulaImputer(1).fit(folder[list("abcd")]), "m.skops")
    text = run("apply", "m.skops", "new.csv", "--out", "f.csv", *given, code=2).output
    assert f"{given[0]} is about the {needs[2:]}, so it needs {needs}" in text


def test_intervals_are_those_of_the_command_that_fitted(folder):
    """Ids and free text have none, and no column of the table is written over."""
    frame = pd.read_csv("train.csv").mask(np.random.default_rng(0).random((100, 6)) < 0.1)
    frame.to_csv("train.csv", index=False)
    run(
        "impute",
        "train.csv",
        "--intervals",
        "--level",
        0.5,
        "--no-check",
        "--out",
        "f.csv",
        "--save",
        "m.skops",
    )
    run("apply", "m.skops", "train.csv", "--intervals", "--level", 0.5, "--out", "g.csv")
    assert Path("g.csv").read_text() == Path("f.csv").read_text()
    assert not [name for name in pd.read_csv("f.csv") if name.startswith("who__")]
    frame.assign(a__upper=1.0).to_csv("clash.csv", index=False)
    text = run(
        "apply", "m.skops", "clash.csv", "--id", "a__upper", "--intervals", "--out", "g.csv", code=2
    ).output
    assert "has a column 'a__upper' already, which --intervals would add" in text


def test_marks_of_gaps_and_texts_of_digits(folder):
    model = CopulaImputer(1, random_state=0).fit(pd.read_csv("train.csv")[list("abcd")])
    save(model, "m.skops")
    rows = folder[list("abcd")].copy()
    rows.iloc[::4, 0] = -99.0
    rows.to_csv("new.csv", index=False)
    run("apply", "m.skops", "new.csv", "--na", "-99", "--out", "f.csv")
    assert_allclose(pd.read_csv("f.csv"), model.transform(rows.replace(-99.0, np.nan)), rtol=1e-12)
    codes = pd.DataFrame({"code": ["007 a", "012 b"] * 20, "kind": ["spy", "cop"] * 20})
    codes.to_csv("codes.csv", index=False)
    atoms = ["--label", "kind", "--text", "code", "--test", 0, "-r", 1, "--stop-words", "none"]
    run("atoms", "codes.csv", *atoms, "--out", "topics", "--save", "t.skops")
    codes.assign(code=["007", "012"] * 20).to_csv("codes.csv", index=False)  # all are digits now
    run("apply", "t.skops", "codes.csv", "--out", "l.csv")
    assert pd.read_csv("l.csv")["kind"].tolist() == codes["kind"].tolist()
