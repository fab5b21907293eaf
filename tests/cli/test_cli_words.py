"""Columns of words in ``colspace reduce``: indicators of levels, in the fit, the page and new rows."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace import JointReduction
from colspace.cli._apply import match_columns
from colspace.cli._group import colspace
from colspace.io import load


def run(*arguments, code=0):
    done = CliRunner().invoke(colspace, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc"))
    table["town"] = rng.choice(["Rome", "Bonn=West", "Oslo"], 150)
    table["us"] = rng.choice(["yes", "no"], 150)
    table["y"] = (
        table["a"] + 2 * (table["town"] == "Oslo") - (table["us"] == "yes") + 0.1 * rng.normal(size=150)
    )
    table[:120].to_csv("train.csv", index=False)
    return table


def coded(table):
    """The indicators by hand."""
    names = {f"town={v}": (table["town"] == v) for v in ("Bonn=West", "Oslo", "Rome")}
    names["us=yes"] = table["us"] == "yes"
    return pd.concat([table[list("abc")], pd.DataFrame(names).astype(float)], axis=1)


def test_words_are_indicators_and_new_rows_are_coded_alike(frame):
    done = run("reduce", "train.csv", "-y", "y", "-r", 1, "--no-check", "--save", "m.skops", "-o", "e.csv")
    assert (
        "Note: columns of words are indicators of their levels: 'town' (3 levels), 'us' (us=yes)"
        in done.stderr
    )
    model = JointReduction(1, random_state=0).fit(coded(frame[:120]), frame["y"][:120])
    found = pd.read_csv("e.csv")["jointreduction0"]
    assert_allclose(found, model.transform(coded(frame[:120]))[:, 0], rtol=1e-8, atol=1e-10)
    assert list(load("m.skops").feature_names_in_) == list(coded(frame))
    frame[120:].drop(columns="y").to_csv("new.csv", index=False)
    run("apply", "m.skops", "new.csv", "-o", "f.csv")
    assert_allclose(
        pd.read_csv("f.csv").iloc[:, 0], model.transform(coded(frame[120:]))[:, 0], rtol=1e-8, atol=1e-10
    )
    frame[120:].assign(town="Bern").to_csv("new.csv", index=False)
    assert (
        "'town' has 1 level(s) that the fit has not seen"
        in run("apply", "m.skops", "new.csv", "-o", "f.csv").stderr
    )
    three = frame[120:].assign(us=["yes", "no", "maybe"] * 10)
    three.to_csv("new.csv", index=False)
    told = run("apply", "m.skops", "new.csv", "-o", "f.csv").stderr
    assert (
        "'us' has 2 levels beside 'yes', where the fit has seen one; all are taken as that one: no, maybe"
        in told
    )
    three.assign(us="maybe").to_csv("new.csv", index=False)  # may be what the fit has seen
    assert run("apply", "m.skops", "new.csv", "-o", "f.csv").stderr == ""
    frame[120:].drop(columns="town").to_csv("new.csv", index=False)
    assert "'town' or its indicators" in run("apply", "m.skops", "new.csv", "-o", "f.csv", code=2).stderr
    frame[120:].assign(town=None).to_csv("new.csv", index=False)
    assert "missing values in X" in run("apply", "m.skops", "new.csv", "-o", "f.csv", code=2).stderr


def test_blocks_take_words_by_the_name_of_their_column(frame):
    run(
        "reduce",
        "train.csv",
        "-y",
        "y",
        "-r",
        1,
        "--no-check",
        "--save",
        "m.skops",
        "-b",
        "n=a:c",
        "-b",
        "w=town:us",
    )
    blocks = load("m.skops").blocks
    assert blocks == {"n": ["a", "b", "c"], "w": list(coded(frame))[3:]}
    run("reduce", "train.csv", "-y", "y", "-r", 1, "--no-check", "--method", "stein")


def test_the_page_repeats_them(frame, monkeypatch):
    told = {}
    monkeypatch.setattr("colspace.report._reduction.reduction_report", lambda *_, **k: told.update(k) or "")
    monkeypatch.setattr("colspace.report.write_report", lambda *_: None)
    run("reduce", "train.csv", "-y", "y", "--no-check", "--report", "p.html", "-o", "e.csv", "--drop", "c")
    names = {}
    exec(told["python"], names)  # noqa: S102
    found = pd.read_csv("e.csv").iloc[:, :2].to_numpy()
    assert_allclose(np.abs(names["embedding"]), np.abs(found), rtol=1e-6, atol=1e-8)


def test_gaps_are_counted_by_column_and_a_word_among_numbers_is_none(frame):
    frame.assign(town=frame["town"].where(frame.index > 3)).to_csv("t.csv", index=False)
    assert "4 gaps in 1 column are filled" in run("reduce", "t.csv", "-y", "y", "--no-check").stderr
    frame.assign(a=frame["a"].astype(object).where(frame.index > 3, "none")).to_csv("t.csv", index=False)
    assert (
        "1 column(s) are not numbers: 'a' (e.g. 'none')" in run("reduce", "t.csv", "-y", "y", code=2).stderr
    )


def test_a_large_table_with_words_is_read_at_once(frame, monkeypatch):
    small = run("reduce", "train.csv", "-y", "y", "--no-check", "--json", "-").stdout
    monkeypatch.setattr("colspace.io._stream.LARGE", 1000)
    large = run("reduce", "train.csv", "-y", "y", "--no-check", "--json", "-", "--save", "m.skops").stdout
    assert json.loads(small)["rows"] == json.loads(large)["rows"] == 120
    assert run("apply", "m.skops", "train.csv", "-o", "f.csv").exit_code == 0


def test_columns_of_words_that_new_rows_lack_are_told_by_their_name():
    """Not by the indicators that the fit has made of them, nor by columns that the fit has as well."""
    wanted = ["age", "town=Oslo", "town=Rome", "x1"]
    with pytest.raises(
        ValueError, match=r"3 of the 4 columns of the fit .*: 'town' or its indicators, 'x1'$"
    ):
        match_columns(["age"], wanted, 4)
    with pytest.raises(ValueError, match=r"'town' or its indicators \(is it 'Town'\?\)"):
        match_columns(["age", "Town", "x1"], wanted, 4)
    with pytest.raises(ValueError, match=r"table: 'x1'$"):
        match_columns(["town", "town=Oslo", "town=Rome", "age", "x2"], [*wanted, "x2"], 5)


@pytest.fixture
def dated(tmp_path, monkeypatch):
    """Dates that tell the response, in every tenth row none."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    table["seen"] = np.datetime64("2021-03-01") + rng.integers(0, 900, 200)
    table["site"] = rng.choice(["north", "south"], 200)
    days = (table["seen"].to_numpy() - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    table["y"] = days / 200 + table["a"] + 0.1 * rng.normal(size=200)
    return table, table[list("abc")].assign(
        **{"seen=days since 1970": days}, **{"site=south": (table["site"] == "south").astype(float)}
    )


@pytest.mark.parametrize("kind", ["csv", "minutes", "timestamp", "date32", "zone"])
def test_dates_are_days_in_every_way_that_they_are_written(dated, kind):
    table, X = dated
    seen = table["seen"]
    name = "t.csv" if kind in ("csv", "minutes") else "t.parquet"
    made = {
        "csv": seen.dt.strftime("%Y-%m-%d"),
        "minutes": (seen + pd.Timedelta(hours=6)).dt.strftime("%Y-%m-%dT%H:%M"),
        "timestamp": seen,
        "date32": seen.dt.date,
        "zone": seen.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
    }[kind]
    X = X.assign(**{"seen=days since 1970": X["seen=days since 1970"] + 0.25 * (kind == "minutes")})
    table = table.assign(seen=made)
    save = table[:150].to_csv if name == "t.csv" else table[:150].to_parquet
    save(name, index=False)
    done = run("reduce", name, "-y", "y", "-r", 1, "--no-check", "--save", "m.skops", "-o", "e.csv")
    assert (
        "are indicators of their levels: 'site' (site=south); columns of dates are days since 1970: 'seen'"
        in " ".join(done.stderr.split())
    )
    model = JointReduction(1, random_state=0).fit(X[:150], table["y"][:150])
    assert list(load("m.skops").feature_names_in_) == list(X)
    assert_allclose(pd.read_csv("e.csv").iloc[:, 0], model.transform(X[:150])[:, 0], rtol=1e-8, atol=1e-10)
    save = table[150:].to_csv if name == "t.csv" else table[150:].to_parquet
    save(name, index=False)
    assert run("apply", "m.skops", name, "-o", "f.csv").stderr == ""
    assert_allclose(pd.read_csv("f.csv").iloc[:, 0], model.transform(X[150:])[:, 0], rtol=1e-8, atol=1e-10)


def test_dates_with_gaps_in_the_page_and_in_large_tables(dated, monkeypatch):
    table, _ = dated
    table = table.assign(seen=table["seen"].where(table.index % 10 > 0))
    table.to_csv("t.csv", index=False)
    told = {}
    monkeypatch.setattr("colspace.report._reduction.reduction_report", lambda *_, **k: told.update(k) or "")
    monkeypatch.setattr("colspace.report.write_report", lambda *_: None)
    command = ("reduce", "t.csv", "-y", "y", "--no-check", "-o")
    assert "20 gaps in 1 column are filled" in run(*command, "e.csv", "--report", "p.html").stderr
    names = {}
    exec(told["python"], names)  # noqa: S102
    found = pd.read_csv("e.csv").iloc[:, :2]
    assert_allclose(names["embedding"], found, rtol=1e-6, atol=1e-8)
    monkeypatch.setattr("colspace.io._stream.LARGE", 1000)
    run(*command, "l.csv")
    assert_allclose(pd.read_csv("l.csv").iloc[:, :2], found, rtol=1e-9, atol=1e-12)


def test_dates_that_are_none(dated):
    """In the fit such a column is text, as ever; in new rows the cell is told."""
    table, _ = dated
    table.to_csv("t.csv", index=False)
    run("reduce", "t.csv", "-y", "y", "--no-check", "--save", "m.skops", "-o", "e.csv")
    for cell in ("31.12.2024", "2024-02-30"):
        odd = table.assign(seen=table["seen"].astype(str).where(table.index != 7, cell))
        odd.to_csv("odd.csv", index=False)
        assert f"'seen' (e.g. {cell!r})" in run("reduce", "odd.csv", "-y", "y", code=2).stderr
        told = run("apply", "m.skops", "odd.csv", "-o", "f.csv", code=2).stderr
        assert f"'seen' held dates in the fit, and now {cell!r}; write all as in 2024-01-31" in told
    table.assign(seen=None).to_csv("odd.csv", index=False)
    assert "missing values in X" in run("apply", "m.skops", "odd.csv", "-o", "f.csv", code=2).stderr
    table.drop(columns="seen").to_csv("odd.csv", index=False)
    assert "'seen' as dates" in run("apply", "m.skops", "odd.csv", "-o", "f.csv", code=2).stderr


def test_look_proposes_dates_and_no_durations(dated):
    table, _ = dated
    table.assign(stay=pd.to_timedelta(table.index, unit="h")).to_parquet("t.parquet")
    advice = json.loads(run("look", "t.parquet", "--json", "-").stdout)["advice"][0]["command"]
    assert advice == "colspace reduce t.parquet --response y --drop stay"
    run(*advice.split()[1:], "--no-check")
