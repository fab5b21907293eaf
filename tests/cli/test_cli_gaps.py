"""``colspace reduce`` on tables with gaps, and what is saved of it on new rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import colspace.cli._gaps as gaps_room
from colspace import CopulaImputer, HoleyReduction, JointReduction, load
from colspace.cli._group import colspace


def run(*arguments, code=0):
    result = CliRunner().invoke(colspace, [str(a) for a in arguments])
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Five numbers of two factors and a word, a tenth of them gone; y of two columns."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    t = rng.standard_normal((150, 2))
    X = pd.DataFrame(
        t @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((150, 5)), columns=list("abcde")
    )
    y = X["a"] - X["b"] + 0.1 * rng.standard_normal(150)
    X["town"] = np.where(t[:, 0] > 0, "Oslo", "Rome")
    X = X.mask(rng.random(X.shape) < 0.1)
    X.insert(0, "who", [f"p{i}" for i in range(150)])
    frame = X.assign(y=y)
    frame.iloc[:120].to_csv("train.csv", index=False)
    frame.iloc[120:].drop(columns="y").to_csv("new.csv", index=False)
    return frame


FIT = ("reduce", "train.csv", "-y", "y", "--id", "who", "--no-check", "-r", "1")


def columns_of(frame):
    """What the command makes of the columns."""
    found = frame[list("abcde")].copy()
    found["town=Rome"] = (frame["town"] == "Rome").astype(float).where(frame["town"].notna())
    return found


def test_a_constant_column_is_named_once(table):
    frame = pd.read_csv("train.csv").assign(flat=1.0)
    frame.to_csv("train.csv", index=False)
    said = run(*FIT).stderr
    assert said.count("'flat'") == 1
    assert "1 constant column(s) get loadings of zero: 'flat'. Leave them out with --drop" in said


def test_gaps_are_filled_with_a_note_and_new_rows_may_have_some(table):
    train = table.iloc[:120]
    done = run(*FIT, "--save", "m.skops", "--out", "e.csv")
    X = columns_of(train)
    count = int(X.isna().sum().sum())
    assert f"Note: {count} gaps in 6 columns are filled from the other columns" in done.stderr
    imputer = CopulaImputer(nonlinear="gaps", random_state=0)
    model = HoleyReduction(imputer, JointReduction(1, random_state=0), random_state=0)
    model.fit(X, train["y"])
    assert_allclose(pd.read_csv("e.csv").iloc[:, 1], model.transform(X)[:, 0], rtol=1e-9)
    run("apply", "m.skops", "new.csv", "--id", "who", "--out", "n.csv")
    expected = model.transform(columns_of(table.iloc[120:]))[:, 0]
    assert_allclose(pd.read_csv("n.csv").iloc[:, 1], expected, rtol=1e-9)
    saved = load("m.skops")
    assert_allclose(saved.components_error_, model.components_error_, rtol=1e-9)
    assert_allclose(saved.reducer_.components_error_, model.components_error_, rtol=1e-9)
    assert "gaps in 6 columns" in json.dumps(json.loads(run("info", "m.skops", "--json", "-").stdout))


def test_infinite_cells_of_new_rows_are_refused(table):
    run(*FIT, "--save", "m.skops")
    table.iloc[120:].assign(a=np.inf).to_csv("new.csv", index=False)
    told = run("apply", "m.skops", "new.csv", "--id", "who", "--out", "n.csv", code=2).stderr
    assert "infinite values in X in 1 column(s): 'a' (30)" in told
    assert "--drop" not in told  # which apply has not


def test_pages_of_the_fit_and_of_the_saved_model(table):
    run(*FIT, "--save", "m.skops", "--report", "p.html")
    text = Path("p.html").read_text()
    assert (
        "HoleyReduction(imputer=CopulaImputer(nonlinear=&#39;gaps&#39;, random_state=0), reducer=JointReduction(n_components=1, random_state=0)"
        in text
    )
    assert "are filled from the other columns" in text
    for more in ((), ("new.csv",)):
        run("report", "m.skops", *more, "--out", "q.html")


def test_the_python_of_the_page_repeats_the_fit(table):
    table.iloc[:120].assign(y=table["y"].where(table.index > 4)).to_csv("train.csv", index=False)
    run(*FIT, "--out", "e.csv")
    from colspace.cli._join import read_tables
    from colspace.cli._python import reduce_code
    from colspace.cli._table import Choice, split_table

    joined = read_tables(["train.csv"], ["who"], [], None)
    parts = split_table(joined.frame, Choice([*"abcde", "town"], ["y"], ["who"])).labelled()
    model, parts = gaps_room.fit_filled(JointReduction(1, random_state=0), parts, 0)
    found = {}
    exec(reduce_code(model, joined, ["who"], parts).replace("print(", "str("), found)  # noqa: S102
    assert_allclose(found["embedding"][:, 0], pd.read_csv("e.csv").dropna(subset=["y"]).iloc[:, 1], rtol=1e-9)


@pytest.mark.parametrize(
    "more", [("--method", "stein"), ("--rank-test",), ("--block", "one=a:c", "--drop-rest")]
)
def test_other_options_take_gaps(table, more):
    found = json.loads(run(*FIT, *more, "--json", "-").stdout)
    assert found["n_components"] == 1
    assert ("rank_test" in found) == ("--rank-test" in more)


def test_quality_is_told_on_the_filled_columns(table):
    found = json.loads(run(*FIT[:-3], "-r", "1", "--json", "-").stdout)
    best = {row["method"]: row["score"] for row in found["quality"]["scores"]}
    assert best["joint reduction"] > 0.6


def test_large_tables_of_new_rows_are_filled_too(table, monkeypatch):
    run(*FIT, "--drop", "town", "--save", "m.skops")
    run("apply", "m.skops", "train.csv", "--id", "who", "--out", "small.csv")
    monkeypatch.setattr("colspace.io._stream.LARGE", 1000)
    run("apply", "m.skops", "train.csv", "--id", "who", "--out", "large.csv")
    assert Path("small.csv").read_text() == Path("large.csv").read_text()


def test_truth_values_with_gaps(table):
    """pandas reads True, False and gaps as objects, and a column without gaps as truth values."""
    told = (table["a"].fillna(0) > 0).astype(object).mask(table["e"].isna())
    frame = table.drop(columns="town").assign(told=told)
    frame.iloc[:120].to_csv("train.csv", index=False)
    run(*FIT, "--save", "m.skops")
    model, new = load("m.skops"), frame.iloc[120:]
    assert "told" in model.feature_names_in_
    for name, rows in (
        ("some", new),
        ("none", new.fillna({"told": True})),
        ("only", new[new["told"].isna()]),
    ):
        rows.to_csv(f"{name}.csv", index=False)
        run("apply", "m.skops", f"{name}.csv", "--id", "who", "--out", "e.csv")
        X = pd.read_csv(f"{name}.csv")[[*"abcde", "told"]]
        assert_allclose(pd.read_csv("e.csv").iloc[:, 1:], model.transform(X), rtol=1e-9)
    run("report", "m.skops", "some.csv", "--id", "who", "--out", "r.html")


def test_levels_of_a_category_that_no_cell_has_are_no_columns(table):
    table["town"] = table["town"].astype(pd.CategoricalDtype(["Bonn", "Oslo", "Rome"]))
    table.iloc[:120].to_parquet("train.parquet")
    found = json.loads(run("reduce", "train.parquet", *FIT[2:], "--json", "-").stdout)
    names = [f["feature"] for b in found["blocks"].values() for f in b["components"][0]]
    assert "town=Rome" in names
    assert "town=Bonn" not in names


def test_levels_that_the_fit_has_not_seen_are_told(table):
    towns = np.array(["Oslo", "Rome", "Bonn"])[np.arange(150) % 3]
    frame = table[["who", *"abc", "y"]].fillna(0.0).assign(town=towns)
    frame.iloc[:120].to_csv("train.csv", index=False)
    frame.iloc[120:].replace({"town": {"Bonn": "Graz"}}).to_csv("new.csv", index=False)
    run(*FIT, "--save", "m.skops")
    done = run("apply", "m.skops", "new.csv", "--id", "who", "--out", "e.csv")
    assert (
        "'town' has 1 level(s) that the fit has not seen, of which all indicators are zero: Graz"
        in done.stderr
    )


def test_columns_without_a_cell_are_refused_before_anything_is_said_of_gaps(table):
    table.assign(**{"no cell": np.nan}).to_csv("train.csv", index=False)
    told = run(*FIT, code=2).stderr.splitlines()
    assert told == [
        "Error: 1 column(s) have no cell: 'no cell'. Leave them out: --drop 'no cell'; or carry them along with --id"
    ]


def test_one_gap_counts():
    assert gaps_room.gaps_told(1, 1, 50).endswith(
        "1 column is filled from the other columns, and counts in the errors of the directions"
    )
