"""Columns of dates in odd company: other centuries, spellings, names and gaps; the page's Python, and marks of gaps."""

import datetime
import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace import JointReduction
from colspace.cli._group import colspace
from colspace.cli._levels import indicators_among, lacking, unlike
from colspace.cli._marks import is_mark

DAYS = "seen=days since 1970"


def run(*arguments, code=0):
    done = CliRunner().invoke(colspace, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def embedded(path):
    return pd.read_csv(path)[["jointreduction0", "jointreduction1"]].to_numpy()


@pytest.fixture
def dated(tmp_path, monkeypatch):
    """A table whose dates tell the response, and its dates as days."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    days = rng.integers(18000, 19000, 120)
    table = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    table["seen"] = days.astype("M8[D]").astype(str)
    table["y"] = days / 200 + table["a"] + 0.1 * rng.normal(size=120)
    return table, days


@pytest.fixture
def pages(monkeypatch):
    """What pages of reductions are made of."""
    told = {}
    monkeypatch.setattr("colspace.report._reduction.reduction_report", lambda *_, **k: told.update(k) or "")
    monkeypatch.setattr("colspace.report.write_report", lambda *_: None)
    return told


def by_the_page(told):
    names = {}
    exec(told["python"], names)  # noqa: S102
    return np.asarray(names["embedding"])


@pytest.mark.parametrize("kind", ["csv", "s", "us", "date32"])
def test_dates_of_other_centuries_are_days_as_well(dated, pages, kind):
    """Beyond 1677 and 2262, which nanoseconds do not reach."""
    table, days = dated
    days = (days - 18500) * 300  # from 1559 to 2380
    dates = days.astype("M8[D]").astype("M8[s]")
    made = {
        "csv": days.astype("M8[D]").astype(str),
        "s": dates,
        "us": dates.astype("M8[us]"),
        "date32": days.astype("M8[D]").astype(object),
    }[kind]
    name = "t.csv" if kind == "csv" else "t.parquet"
    table = table.assign(seen=made, y=days / 1e5 + table["a"])
    if pd.to_datetime(table["seen"], errors="coerce", format="ISO8601").isna().any():
        pytest.skip("this pandas makes nanoseconds of text and days")
    (table.to_csv if kind == "csv" else table.to_parquet)(name, index=False)
    run("reduce", name, "-y", "y", "--no-check", "-o", "e.csv", "--report", "p.html")
    X = table[list("abc")].assign(**{DAYS: days.astype(float)})
    model = JointReduction(2, random_state=0).fit(X, table["y"])
    assert_allclose(embedded("e.csv"), model.transform(X), rtol=1e-7, atol=1e-9)
    assert_allclose(by_the_page(pages), embedded("e.csv"), rtol=1e-7, atol=1e-9)


def test_dates_with_and_without_times_in_one_column(dated, pages):
    table, days = dated
    late = np.where(table.index % 2 > 0, " 06:00", "")
    table.assign(seen=table["seen"] + late).to_csv("t.csv", index=False)
    run("reduce", "t.csv", "-y", "y", "--no-check", "-o", "e.csv", "--report", "p.html", "--save", "m.skops")
    X = table[list("abc")].assign(**{DAYS: days + 0.25 * (late != "")})
    model = JointReduction(2, random_state=0).fit(X, table["y"])
    assert_allclose(embedded("e.csv"), model.transform(X), rtol=1e-7, atol=1e-9)
    assert_allclose(by_the_page(pages), embedded("e.csv"), rtol=1e-7, atol=1e-9)
    assert "level" not in pages["python"]
    run("report", "m.skops", "t.csv", "--out", "q.html")
    assert_allclose(by_the_page(pages), embedded("e.csv"), rtol=1e-7, atol=1e-9)
    assert "level" not in pages["python"]


def test_the_page_names_blocks_in_the_order_of_the_table(dated, pages):
    """Dates and words stand between numbers whose names are in no order."""
    table, _ = dated
    table["site"] = np.where(table["b"] > 0, "north", "south")
    table[["c", "seen", "b", "site", "a", "y"]].to_csv("t.csv", index=False)
    blocks = ("-b", "one=c:b", "-b", "two=site:a")
    run("reduce", "t.csv", "-y", "y", "-r", 1, *blocks, "--no-check", "-o", "e.csv", "--report", "p.html")
    found = pd.read_csv("e.csv")[["one__0", "two__0"]]
    assert_allclose(by_the_page(pages), found, rtol=1e-7, atol=1e-9)


def test_the_page_of_a_model_beside_words_and_of_columns_that_are_days_already(dated, pages):
    table, days = dated
    table["site"] = np.where(table["b"] > 0, "north", "south")
    table.to_csv("t.csv", index=False)
    run("reduce", "t.csv", "-y", "y", "--no-check", "-o", "e.csv", "--save", "m.skops")
    run("report", "m.skops", "t.csv", "--out", "q.html")
    assert_allclose(by_the_page(pages), embedded("e.csv"), rtol=1e-7, atol=1e-9)
    table.drop(columns="seen").assign(**{DAYS: days}).to_csv("t.csv", index=False)
    run("apply", "m.skops", "t.csv", "-o", "f.csv")
    assert_allclose(embedded("f.csv"), embedded("e.csv"), rtol=1e-7, atol=1e-9)
    run("report", "m.skops", "t.csv", "--out", "q.html")
    assert_allclose(by_the_page(pages), embedded("e.csv"), rtol=1e-7, atol=1e-9)


def test_two_tables_with_dates_of_one_name(dated, pages):
    """Each gets the name of its table, which no short Python does."""
    table, _ = dated
    table.insert(0, "who", [f"p{i}" for i in table.index])
    table[["who", "a", "b", "seen"]].to_csv("one.csv", index=False)
    table[["who", "c", "seen", "y"]].assign(seen=table["seen"][::-1].to_numpy()).to_csv(
        "two.csv", index=False
    )
    tables = ("one.csv", "two.csv", "--id", "who")
    done = run("reduce", *tables, "-y", "y", "--no-check", "-o", "e.csv", "--save", "m.skops")
    assert "columns of dates are days since 1970: 'one__seen', 'two__seen'" in " ".join(done.stderr.split())
    run("apply", "m.skops", *tables, "-o", "f.csv")
    both = [pd.read_csv(f).filter(regex="^(one|two)").to_numpy() for f in ("e.csv", "f.csv")]
    assert_allclose(*both, rtol=1e-9, atol=1e-12)
    run("report", "m.skops", *tables, "--out", "q.html")
    assert pages["python"] == ""
    run("report", "m.skops", "--out", "q.html")
    assert "rows = read_table('new.csv')" in pages["python"]


def test_new_rows_without_any_date(dated):
    """Timestamps that all are gaps are gaps, as empty columns of text are."""
    table, _ = dated
    holey = table.assign(seen=table["seen"].where(table.index % 6 > 0))
    holey.to_csv("t.csv", index=False)
    run("reduce", "t.csv", "-y", "y", "--no-check", "--save", "holey.skops")
    table.to_csv("t.csv", index=False)
    run("reduce", "t.csv", "-y", "y", "--no-check", "--save", "m.skops")
    table.assign(seen=None).to_csv("none.csv", index=False)
    run("apply", "holey.skops", "none.csv", "-o", "e.csv")
    assert np.isfinite(embedded("e.csv")).all()
    for none in (pd.NaT, pd.Series(pd.NaT, table.index).dt.tz_localize("UTC")):
        table.assign(seen=none).to_parquet("none.parquet")
        told = run("apply", "m.skops", "none.parquet", "-o", "f.csv", code=2).stderr
        assert f"missing values in X in 1 column(s): '{DAYS}' (120)" in told
        run("apply", "holey.skops", "none.parquet", "-o", "f.csv")
        assert_allclose(embedded("f.csv"), embedded("e.csv"), rtol=1e-9)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_large_tables_that_begin_with_gaps(dated, monkeypatch, name):
    """More of them than rows are looked at."""
    table, _ = dated
    table = table.assign(seen=table["seen"].where(table.index > 40))
    (table.to_csv if name == "t.csv" else table.to_parquet)(name, index=False)
    run("reduce", name, "-y", "y", "--no-check", "-o", "e.csv")
    monkeypatch.setattr("colspace.io._stream.LARGE", 1000)
    monkeypatch.setattr("colspace.cli._reduce_fit._FIRST", 5)
    assert (
        "41 gaps in 1 column are filled" in run("reduce", name, "-y", "y", "--no-check", "-o", "l.csv").stderr
    )
    assert_allclose(embedded("l.csv"), embedded("e.csv"), rtol=1e-9, atol=1e-12)


def test_dates_of_a_column_with_a_sign_in_its_name(dated):
    """They are not taken for a level of the column that its name begins with."""
    table, _ = dated
    for first in (table["a"], np.where(table["a"] > 0, "u", "v")):
        table.rename(columns={"seen": "a=b"}).assign(a=first).to_csv("t.csv", index=False)
        run("reduce", "t.csv", "-y", "y", "--no-check", "-o", "e.csv", "--save", "m.skops")
        assert run("apply", "m.skops", "t.csv", "-o", "f.csv").stderr == ""
        assert_allclose(embedded("f.csv"), embedded("e.csv"), rtol=1e-9)
    wanted = ["a=b=days since 1970", "town=Bonn=West"]
    assert indicators_among(wanted, ["a", "a=b", "town"]) == {
        wanted[0]: ("a=b", "days since 1970"),
        wanted[1]: ("town", "Bonn=West"),
    }
    assert lacking(wanted[0], []) == "'a=b' as dates"
    assert lacking(wanted[1], []) == "'town' or its indicators"
    assert unlike(["a=b", "a", "town"], wanted) == ["a"]


def test_a_column_that_is_called_as_the_days_would_be_stays(dated):
    table, days = dated
    table.assign(**{DAYS: -days}).to_csv("t.csv", index=False)
    told = run("reduce", "t.csv", "-y", "y", code=2).stderr
    assert "1 column(s) are not numbers: 'seen'" in told
    run("reduce", "t.csv", "-y", "y", "--no-check", "-o", "e.csv", "--drop", "seen", "--save", "m.skops")
    run("apply", "m.skops", "t.csv", "-o", "f.csv")
    assert_allclose(embedded("f.csv"), embedded("e.csv"), rtol=1e-9)


def test_the_cell_that_is_no_date_is_named(dated, monkeypatch):
    table, _ = dated
    table.assign(seen=table["seen"].where(table.index != 7, "never")).to_csv("t.csv", index=False)
    for large in (1 << 30, 1000):
        monkeypatch.setattr("colspace.io._stream.LARGE", large)
        told = run("reduce", "t.csv", "-y", "y", code=2).stderr
        assert "1 column(s) are not numbers: 'seen' (e.g. 'never')" in told
    run("reduce", "t.csv", "-y", "y", "--na", "never", "--no-check")
    table.assign(seen=table["seen"] + "T10:00Z").to_csv("t.csv", index=False)  # other spellings are text
    assert f"(e.g. '{table['seen'][0]}T10:00Z')" in run("reduce", "t.csv", "-y", "y", code=2).stderr


def test_look_takes_no_dates_that_are_none(dated):
    table, _ = dated
    table.assign(seen=table["seen"].where(table.index != 7, "2024-02-30")).to_csv("t.csv", index=False)
    told = json.loads(run("look", "t.csv", "--json", "-").stdout)
    assert told["advice"][0]["command"] == "colspace reduce t.csv --response y --drop seen"


def test_dates_that_stand_for_gaps(dated):
    table, _ = dated
    day = "1900-01-01"
    table["seen"] = table["seen"].where(table.index % 6 > 0, day)
    moments = pd.to_datetime(table["seen"])
    kinds = {
        "t.csv": table["seen"],
        "t.parquet": moments,
        "date32.parquet": moments.dt.date,
        "zone.parquet": moments.dt.tz_localize("Asia/Tokyo"),
    }
    for name, seen in kinds.items():
        new = table.assign(seen=seen)
        (new.to_csv if name == "t.csv" else new.to_parquet)(name, index=False)
        told = run("reduce", name, "-y", "y", "--no-check", "--na", day).stderr
        assert "20 gaps in 1 column are filled" in told
        assert "is in no cell" not in told
    assert is_mark(moments, f"{day} 00:00").sum() == 20
    assert not is_mark(moments, "1900").any()
    assert not is_mark(moments - moments.min(), day).any()
    assert not is_mark(pd.Series([datetime.date(1900, 1, 1)]), "-99").any()


def test_the_page_of_impute_reads_dates_with_and_without_times(dated, monkeypatch):
    pages = {}
    monkeypatch.setattr(
        "colspace.report._imputation.imputation_report", lambda *_, **k: pages.update(k) or ""
    )
    monkeypatch.setattr("colspace.report.write_report", lambda *_: None)
    table, _ = dated
    late = np.where(table.index % 2 > 0, " 06:00", "")
    table = table.assign(seen=(table["seen"] + late).where(table.index % 6 > 0))
    table.to_csv("t.csv", index=False)
    run("impute", "t.csv", "--no-check", "-o", "f.csv", "--report", "p.html", "--save", "m.skops")
    filled = pd.to_datetime(pd.read_csv("f.csv")["seen"], format="ISO8601")
    found = {}
    exec(pages["python"], found)  # noqa: S102
    assert (found["filled"]["seen"] == filled).all()
    run("report", "m.skops", "t.csv", "--out", "q.html")
    exec(pages["python"], found)  # noqa: S102
    assert "load('m.skops')" in pages["python"]
    assert (found["filled"]["seen"] == filled).all()


def test_dates_without_times_are_filled_and_written_as_such(dated):
    """As Parquet has them: in tables, intervals and draws, with a saved model and by the page's Python."""
    table, days = dated
    seen = pd.Series(days.astype("M8[D]")).dt.date.where(table.index % 10 > 0)
    table.assign(seen=seen).to_parquet("t.parquet")
    run("impute", "t.parquet", "-o", "f.parquet", "--intervals", "--save", "m.skops", "--report", "r.html")
    f = pd.read_parquet("f.parquet")
    kinds = dict(zip(pq.read_schema("f.parquet").names, pq.read_schema("f.parquet").types, strict=True))
    assert {str(kinds[name]) for name in ("seen", "seen__lower", "seen__upper")} == {"date32[day]"}
    holes = seen.isna()
    assert (f["seen"][~holes] == seen[~holes]).all()
    assert (f["seen__lower"][holes] < f["seen"][holes]).all()
    assert (f["seen"][holes] < f["seen__upper"][holes]).all()
    off = np.abs(np.array(f["seen"].tolist(), dtype="M8[D]").astype(int) - days)[holes]
    assert off.mean() < 0.8 * np.abs(days - np.median(days)).mean()
    table.assign(seen=seen.where(~holes, datetime.date(1900, 1, 1))).to_parquet("marked.parquet")
    for rows in (("t.parquet",), ("marked.parquet", "--na", "1900-01-01")):
        run("apply", "m.skops", *rows, "-o", "a.csv")
        assert pd.read_csv("a.csv")["seen"].tolist() == f["seen"].astype(str).tolist()
    run("impute", "t.parquet", "-o", "d.parquet", "--draws", 2, "--no-check")
    assert [str(pq.read_schema(f"d-{i}.parquet").field("seen").type) for i in (1, 2)] == ["date32[day]"] * 2
    page = Path("r.html").read_text()
    code = next(
        html.unescape(part) for part in re.findall(r"<code>(.*?)</code>", page, re.DOTALL) if "import" in part
    )
    names = {}
    exec(code, names)  # noqa: S102
    assert names["filled"]["seen"].dt.date.tolist() == f["seen"].tolist()
