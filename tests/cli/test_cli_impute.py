import datetime
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace import CopulaImputer, check_imputation, load
from colspace.cli._group import colspace
from colspace.cli.impute import _imputer, _words
from colspace.datasets import make_copula

LEVELS = ["low", "mid", "high"]
USUAL = ["--id", "who", "--drop", "town", "--kinds", "size=low,mid,high"]
MODELLED = ["a", "b", "c", "d", "big", "size", "yes"]


@pytest.fixture(scope="module")
def frame():
    """Numbers, whole numbers beyond floats, levels, truth values, an identifier and a column of text."""
    X, full, _ = make_copula(120, 6, 1, missing=0.2, rng=0)
    table = pd.DataFrame(X[:, :4], columns=list("abcd")).round(3)
    table["big"] = pd.Series(2**53 + np.rint(1e4 * full[:, 3]).astype(np.int64), dtype="Int64")
    table.loc[::10, "big"] = pd.NA
    size = np.array(LEVELS, dtype=object)[np.digitize(full[:, 4], [-0.5, 0.5])]
    table["size"] = pd.Series(size).where(~np.isnan(X[:, 4]))
    table["yes"] = pd.Series(full[:, 5] > 0).astype(object).where(~np.isnan(X[:, 5]))
    table.insert(0, "who", [f"{i:03d}" for i in range(len(table))])
    table["town"] = np.where(full[:, 0] > 0, "Rome", "Oslo")
    return table


@pytest.fixture
def files(tmp_path, frame, monkeypatch):
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, code=0, **kw):
    result = CliRunner().invoke(colspace, ["impute", *map(str, arguments)], **kw)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def model_of(frame, **kw):
    X = frame[MODELLED].assign(yes=frame["yes"].astype("boolean"))
    return CopulaImputer(kinds={"size": LEVELS}, random_state=0, **kw).fit(X), X


def cells(path):
    """Rows of text cells."""
    return [line.split(",") for line in path.read_text().splitlines()]


# ---------------------------------------------------------------------- what is written


def test_parquet_equals_the_library(files, frame):
    result = run("t.parquet", "--out", "f.parquet", *USUAL)
    model, X = model_of(frame)
    filled = pd.read_parquet("f.parquet")
    expected = model.transform(X)
    assert filled.columns.tolist() == ["who", *MODELLED]
    assert not filled.isna().any().any()
    pd.testing.assert_series_equal(filled["who"], frame["who"])
    for name in MODELLED:
        assert filled[name].tolist() == expected[name].tolist()
    assert filled["big"].dtype == "Int64"
    assert result.stderr == ""
    assert f"rank {model.n_components_}, {model.n_iter_} iterations" in result.output


def test_csv_keeps_observed_cells_as_written(files):
    lines = cells(files / "t.csv")
    lines[2][1], lines[3][1] = "1.10", "+0.250"
    lines[4][-2] = "TRUE"
    (files / "t2.csv").write_text("\n".join(map(",".join, lines)) + "\n")
    run("t2.csv", "--out", "f.csv", *USUAL)
    found = cells(files / "f.csv")
    assert found[0] == lines[0][:-1]
    filled = 0
    for before, after in zip(lines[1:], found[1:], strict=True):
        for old, new in zip(before[:-1], after, strict=True):
            assert new
            assert old in ("", new)
            filled += old == ""
    assert filled == sum(row.count("") for row in lines) > 100
    assert {row[-1] for row in found[1:]} <= {"TRUE", "True", "False"}
    assert all(row[5].isdigit() for row in found[1:])


def test_csv_to_parquet_has_types(files, frame):
    run("t.csv", "-o", "f.parquet", *USUAL)
    filled = pd.read_parquet("f.parquet")
    assert [filled[c].dtype.kind for c in ("a", "big", "yes")] == ["f", "i", "b"]
    observed = frame["big"].notna()
    assert filled["big"][observed].tolist() == frame["big"][observed].tolist()
    assert (filled["a"] == frame["a"])[frame["a"].notna()].all()
    model, X = model_of(frame)
    assert_allclose(filled[list("abcd")], model.transform(X)[list("abcd")], rtol=1e-6)
    assert filled["who"].tolist() == frame["who"].tolist()


def test_whole_numbers_of_other_writers_of_parquet(files, frame):
    table = pa.table(
        {"n": pa.array(frame["big"].astype(object).where(frame["big"].notna(), None), pa.int64())}
    )
    pq.write_table(table.append_column("a", pa.array(frame["a"], from_pandas=True)), "t2.parquet")
    run("t2.parquet", "-o", "f.parquet")
    found = pq.read_table("f.parquet")
    assert found.schema.field("n").type == pa.int64()
    for old, new in zip(frame["big"].tolist(), found["n"].to_pylist(), strict=True):
        assert old is pd.NA or old == new


def test_standard_streams(files):
    result = run("-", "--out", "-", *USUAL, input=(files / "t.csv").read_text())
    run("t.csv", "--out", "f.csv", *USUAL)
    assert result.stdout == (files / "f.csv").read_text()
    assert "gaps filled" in result.stderr


def test_intervals(files, frame):
    run("t.csv", "--out", "f.csv", "--intervals", "--level", "0.8", *USUAL)
    filled = pd.read_csv("f.csv")
    model, X = model_of(frame)
    lower, upper = model.interval(X, 0.8)
    ends = [f"{name}__{end}" for name in MODELLED for end in ("lower", "upper")]
    assert filled.columns.tolist() == ["who", *MODELLED, *ends]
    assert_allclose(filled["b__lower"], lower["b"], rtol=1e-6)
    assert_allclose(filled["b__upper"], upper["b"], rtol=1e-6)
    assert filled["size__lower"].tolist() == lower["size"].tolist()
    there = frame["b"].notna()
    assert (filled["b__lower"] == filled["b"])[there].all()
    assert (filled["b__lower"] < filled["b__upper"])[~there].all()
    run(
        "f.csv",
        "--out",
        "g.csv",
        "--intervals",
        "--drop",
        "*__lower",
        "--drop",
        "*__upper",
        *USUAL[:2],
        "--id",
        "size",
    )


def test_draws_are_files_of_their_own(files, frame):
    text = run("t.csv", "--out", "d.csv.gz", "--draws", "2", "--seed", "3", *USUAL).output
    assert "wrote draws to d-1.csv.gz, d-2.csv.gz" in text
    assert not (files / "d.csv.gz").exists()
    first, second = (pd.read_csv(f"d-{i}.csv.gz") for i in (1, 2))
    gaps = frame["a"].isna()
    assert (first["a"] == second["a"])[~gaps].all()
    assert (first["a"] != second["a"])[gaps].all()
    run("t.csv", "--out", "e.csv", "--draws", "2", "--seed", "3", *USUAL)
    pd.testing.assert_frame_equal(pd.read_csv("e-2.csv"), second)
    run("t.csv", "--out", "e.csv", "--draws", "2", "--seed", "4", *USUAL, "--save", "m.skops")
    assert (pd.read_csv("e-2.csv")["a"] != second["a"])[gaps].all()
    _, X = model_of(frame)
    drawn = load("m.skops").sample(X, 2, random_state=4)
    assert_allclose(pd.read_csv("e-2.csv")["a"], drawn[1]["a"], rtol=1e-12)


def test_clip_rank_and_method_reach_the_estimator(files, frame):
    text = run("t.parquet", "-o", "f.parquet", "--clip", "--rank", "2", "--method", "paper", *USUAL).output
    model, X = model_of(frame, n_components=2, method="paper", clip=True)
    assert "rank 2, " in text
    assert pd.read_parquet("f.parquet")["a"].tolist() == model.transform(X)["a"].tolist()
    asked = SimpleNamespace(rank=3, method="ep", clip=True, max_iter=7, seed=5, quiet=True)
    found = _imputer(asked, {}).get_params()
    expected = {
        "n_components": 3,
        "method": "ep",
        "kinds": "auto",
        "clip": True,
        "max_iter": 7,
        "random_state": 5,
    }
    assert {name: found[name] for name in expected} == expected


def test_the_published_method_needs_a_rank(files):
    text = run("t.csv", "-o", "f.csv", "--method", "paper", *USUAL, code=2).stderr
    assert "--rank auto cannot be had with --method paper" in text
    assert "Remedies: a number, or --method ep, which finds one" in text


def test_summary_says_what_was_filled(files, frame):
    text = run("t.csv", "-o", "f.csv", *USUAL, "-k", "c=continuous").output
    gaps = int(frame.isna().sum().sum())
    assert f"120 rows, 7 columns: {gaps} gaps filled ({100 * gaps / 840:.1f} %)" in text
    for name, kind in (("a", "continuous"), ("size", "ordinal"), ("yes", "binary")):
        (line,) = [part for part in text.splitlines() if part.startswith(f"│ {name} ")]
        parts = [part.strip() for part in line.strip("│").split("│")]
        assert parts[1:3] == [kind, str(int(frame[name].isna().sum()))]
        assert 0 < float(parts[4]) < 1
        assert (parts[5] == "-") == (kind != "continuous")
    assert "mean reliability 0." in text
    assert text.rstrip().endswith("wrote filled table to f.csv")


def test_numbers_of_the_summary(files, frame):
    run("t.csv", "-o", "f.csv", *USUAL, "--level", "0.6", "--save", "m.skops", "--json", "j.json")
    found = json.loads((files / "j.json").read_text())
    model, (_, X) = load("m.skops"), model_of(frame)
    sure = model.reliability(X, measure="variance")
    lower, upper = model.interval(X, 0.6)
    rows = {row["column"]: row for row in found["rows"]}
    for name, row in rows.items():
        gaps = X[name].isna()
        assert (row["gaps"], row["share"]) == (gaps.sum(), gaps.mean())
        assert_allclose(row["reliability"], sure[name][gaps].mean())
    gaps = X["a"].isna()
    low, high = X["a"].quantile([0.2, 0.8])
    assert_allclose(rows["a"]["width"], (upper["a"] - lower["a"])[gaps].median() / (high - low))
    mean = np.average([r["reliability"] for r in rows.values()], weights=[r["gaps"] for r in rows.values()])
    assert_allclose(found["reliability"], mean)
    checked = check_imputation(model, X, level=0.6, random_state=0).plain()
    assert found["quality"] == json.loads(json.dumps(checked))


def test_a_table_without_gaps_is_written_as_it_is(files, frame):
    whole = frame[["who", "town"]].assign(n=range(120))
    whole.to_csv("w.csv", index=False)
    text = run("w.csv", "-o", "f.csv", "--id", "who", "--id", "town", "--intervals").output
    assert "no gaps: wrote the table as it is to f.csv" in text
    assert (files / "f.csv").read_text() == (files / "w.csv").read_text()
    wrong = run("w.csv", "-o", "g.csv", "-k", "n=cuont", code=2).output
    assert "--kinds n=cuont is not a kind" in wrong
    assert not (files / "g.csv").exists()


def test_semicolons_and_decimal_commas(files, frame):
    frame.to_csv("eu.csv", index=False, sep=";", decimal=",")
    text = run("eu.csv", "-o", "f.csv", *USUAL).output
    assert "Note: eu.csv: the header holds no ',', so columns are separated at ';'" in text
    assert "Note: eu.csv: ',' is read as the decimal mark, and written as '.'" in text
    run("t.csv", "-o", "g.csv", *USUAL)
    assert (files / "f.csv").read_text() == (files / "g.csv").read_text()


def test_levels_that_are_numbers(files, frame):
    for name in ("t.csv", "t.parquet"):
        table = frame[["a", "b"]].assign(n=frame["size"].map({"low": 3, "mid": 1, "high": 2}).astype("Int64"))
        (table.to_parquet if name.endswith("parquet") else table.to_csv)(name, index=False)
        text = run(name, "-o", "f.csv", "-k", "n=3,1,2").output
        assert "ordinal" in text
        filled = pd.read_csv("f.csv")["n"]
        assert set(filled) == {1, 2, 3}
        expected = CopulaImputer(kinds={"n": [3, 1, 2]}, random_state=0).fit(table).transform(table)["n"]
        assert filled.tolist() == expected.tolist()


def test_constant_columns_warn_in_words(files, frame):
    frame.assign(one=1.5).to_csv("c.csv", index=False)
    text = run("c.csv", "-o", "f.csv", *USUAL).output
    assert "Warning: 1 column(s) constant are left out of the model" in text
    assert "Leave them out with --drop to silence this" in text
    text = run("t.csv", "-o", "f.csv", *USUAL, "--max-iter", "1").output
    assert "Remedies: a larger --max-iter" in text


def worded(frame):
    """Words of three levels, days, and an identifier, with gaps and marks for gaps."""
    table = frame[["who", "a", "b", "c"]].assign(who="no " + frame["who"])
    full = table["a"].fillna(0)
    table["word"] = np.array(["red", "green", "blue"], dtype=object)[np.digitize(full, [-0.5, 0.5])]
    table["day"] = (pd.Timestamp("2020-02-01") + pd.to_timedelta(np.rint(40 * full), unit="D")).dt.strftime(
        "%Y-%m-%d"
    )
    table.loc[::7, "word"] = "refused"
    table.loc[1::6, "day"] = None
    table.loc[2::9, "b"] = -99
    table.loc[5, "who"] = None
    table.loc[6, "who"] = "refused"
    return table


@pytest.mark.parametrize("name", ["w.csv", "w.parquet"])
def test_words_dates_and_marks_for_gaps(files, frame, name):
    table = worded(frame)
    if name.endswith("csv"):
        table.to_csv(name, index=False)
    else:
        table.assign(day=pd.to_datetime(table["day"])).to_parquet(name)
    result = run(name, "-o", "f.csv", "--na", "-99", "--na", "refused", "--intervals")
    out = pd.read_csv("f.csv", dtype={"who": str})
    gone = table["word"] == "refused"
    assert set(out["word"]) == {"red", "green", "blue"}
    assert (out["word"][~gone] == table["word"][~gone]).all()
    assert (out["word__lower"][~gone] == table["word"][~gone]).all()
    assert not out["word__lower"].isin(["refused"]).any()
    there = table["day"].notna()
    days = pd.to_datetime(out["day"])
    assert days.notna().all()
    assert (days[there] == pd.to_datetime(table["day"][there])).all()
    assert days.between(pd.to_datetime(out["day__lower"]), pd.to_datetime(out["day__upper"])).all()
    if name.endswith("csv"):
        assert out["day"].str.len().eq(10).all()
    assert not (out["b"] == -99).any()
    assert out["who"].isna().sum() == 1  # kept as it is
    assert out["who"][6] == "refused"
    text = " ".join(result.output.split())
    for line in (
        "taken as nominal: word",
        "left out (ids, free text): who",
        "--id or --drop to silence this",
    ):
        assert line in text
    X = table.drop(columns="who").assign(day=pd.to_datetime(table["day"]))
    model = CopulaImputer(random_state=0, na_values=[-99, "refused"]).fit(X)
    assert (model.transform(X)["word"] == out["word"]).all()


@pytest.mark.parametrize("between", ["", " ", "T"])
def test_days_are_written_as_the_others_whatever_stands_for_a_gap(files, frame, between):
    day = pd.Timestamp("2020-02-01") + pd.to_timedelta(np.rint(40 * frame["a"].fillna(0)), unit="D")
    form = f"%Y-%m-%d{between}%H:%M:%S" if between else "%Y-%m-%d"
    table = frame[["a", "b"]].assign(day=day.dt.strftime(form))
    table.loc[::7, "day"] = "not available"  # longer than a day
    table.to_csv("d.csv", index=False)
    run("d.csv", "-o", "f.csv", "--na", "not available", "--no-check")
    out = pd.read_csv("f.csv")["day"]
    assert out.str.fullmatch(r"\d{4}-\d\d-\d\d" + (f"{between}00:00:00" if between else "")).all()


def test_a_mark_that_no_cell_has(files):
    text = run("t.csv", "-o", "f.csv", *USUAL, "--na", "-99").output
    assert "Note: --na -99 is in no cell of the table" in text


@pytest.mark.parametrize("form", ["${:,.2f}", "{:.1f} %", "{:.2f} €"])
def test_numbers_with_signs_are_no_words(files, frame, form):
    """As words they would be levels by the hundred."""
    full = frame["a"].fillna(0).abs()
    frame.assign(price=[form.format(1000 * v) for v in full]).to_csv("s.csv", index=False)
    text = run("s.csv", "-o", "f.csv", *USUAL, code=2).stderr
    assert "1 column(s) hold numbers with signs: 'price' (" in text
    assert "Remedies: write them plainly, as in 1234.5, --kinds 'price=nominal' (all are words)" in text
    run("s.csv", "-o", "f.csv", *USUAL, "--id", "price", "--no-check")


def test_draws_of_words(files, frame):
    worded(frame).to_csv("w.csv", index=False)
    run("w.csv", "-o", "d.csv", "--draws", "2", "--na", "refused", "--id", "who")
    for name in ("d-1.csv", "d-2.csv"):
        assert set(pd.read_csv(name)["word"]) == {"red", "green", "blue"}


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "-o", "f.csv"], "none.csv does not exist"),
        (["t.xlsx", "-o", "f.csv"], "or be - for CSV; save the sheet as CSV"),
        (["t.sas", "-o", "f.csv"], "unknown kind of table"),
        (["t.csv", "-o", "f.xlsx"], "unknown kind of table"),
        (["t.csv", "-o", "no/f.csv"], "make the directory first"),
        (["t.csv", "-o", "t.csv"], "is the table itself, which is never overwritten"),
        (["t.csv", "-o", "../{}/t.csv"], "is the table itself (t.csv), which is never overwritten"),
        (["t-1.csv", "-o", "t.csv", "--draws", "2"], "t-1.csv is the table itself"),
        (["t.csv", "-o", "-", "--draws", "2"], "--out - is one stream"),
        (["t.csv", "-o", "f.csv", "--draws", "2", "--intervals"], "choose one"),
        (["t.csv", "-o", "f.csv", "--level", "2"], "--level 2.0 must lie between 0 and 1"),
        (
            ["odd.csv", "-o", "f.csv"],
            "1 column(s) hold numbers and some text: 'a' ('?'). Remedies: --na '?' where",
        ),
        (
            ["odd.csv", "-o", "f.csv"],
            "--kinds 'a=nominal' (all are words), --drop 'a' (leave it out), --id 'a'",
        ),
        (["t.csv", "-o", "f.csv", "--id", "q"], "--id: no column is called 'q'"),
        (["t.csv", "-o", "f.csv", "--drop", "q*"], "--drop matches no column"),
        (["t.csv", "-o", "f.csv", "--drop", "*"], "no columns are left"),
        (["t.csv", "-o", "f.csv", "-k", "size"], "--kinds size is not of the form COLUMN=KIND"),
        (["t.csv", "-o", "f.csv", "-k", "q=ordinal"], "--kinds: no column is called 'q'"),
        (["t.csv", "-o", "f.csv", "-k", "a=count", "-k", "?=count"], "given twice for column 'a'"),
        (["t.csv", "-o", "f.csv", *USUAL, "-k", "a=ordnal"], "--kinds a=ordnal is not a kind"),
        (["t.csv", "-o", "f.csv", *USUAL, "-k", "a=ordnal"], "Did you mean 'ordinal'?"),
        (["t.csv", "-o", "f.csv", *USUAL, "-k", "a=binary"], "column 'a' cannot be 'binary'"),
        (["t.csv", "-o", "f.csv", *USUAL, "-k", "a=low,high"], "column 'a' holds numbers, but --kinds gives"),
        (
            ["t.csv", "-o", "f.csv", *USUAL[:4], "-k", "size=low,high"],
            "'mid', which is not one of its levels",
        ),
        (["t.csv", "-o", "f.csv", *USUAL[:4], "-k", "size=None,low,mid,high"], "'None' is read as a gap"),
        (["t.csv", "-o", "f.csv", *USUAL, "--rank", "0"], "--rank must be an int in the range [1, inf)"),
        (
            ["t.csv", "-o", "f.csv", *USUAL, "--rank", "7"],
            "--rank 7 must be less than the columns that vary (7)",
        ),
        (["t.csv", "-o", "f.csv", *USUAL, "-k", "b=date"], "--kinds b=date is not a kind"),
        (
            ["t.csv", "-o", "f.csv", *USUAL[:4], "-k", "size=count"],
            "'size' cannot be 'count': its values are words",
        ),
        (["t.csv", "-o", "f.csv", "-k", "*=id"], "all 9 columns are ids or free text"),
        (
            ["inf.csv", "-o", "f.csv", *USUAL],
            "column 'a' contains infinity; values must be finite. Give --na inf",
        ),
        (["void.csv", "-o", "f.csv", *USUAL], "1 column(s) without an observed value: 'a'"),
        (["void.csv", "-o", "f.csv", *USUAL], "Leave them out with --drop"),
        (["twice.csv", "-o", "f.csv", *USUAL], "column names that stand twice: 'a'"),
        (["few.csv", "-o", "f.csv", "--id", "who", "--id", "town"], "the table has one row"),
        (["time.parquet", "-o", "f.csv"], "leave it out with --drop, or carry it along with --id"),
        (
            ["ends.csv", "-o", "f.csv", "--intervals", *USUAL],
            "'a__lower' already, which --intervals would add",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(files, frame, arguments, message):
    frame.to_csv("t-1.csv", index=False)
    frame.assign(a=frame["a"].astype(object).where(frame.index != 1, "?")).to_csv("odd.csv", index=False)
    frame.assign(a=frame["a"].where(frame.index != 1, np.inf)).to_csv("inf.csv", index=False)
    frame.assign(a=np.nan).to_csv("void.csv", index=False)
    frame.assign(a__lower=1.0).to_csv("ends.csv", index=False)
    frame[frame["a"].isna()].head(1)[["who", "a", "b", "town"]].to_csv("few.csv", index=False)
    frame[["a"]].assign(day=datetime.time(3)).to_parquet("time.parquet")
    (files / "twice.csv").write_text((files / "t.csv").read_text().replace(",b,", ",a,", 1))
    before = (files / "t.csv").read_bytes()
    result = run(*(a.format(files.name) for a in arguments), code=2)
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    assert not (files / "f.csv").exists()
    assert (files / "t.csv").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [["t.csv"], ["t.csv", "-o", "f.csv", "--rank", "some"], ["t.csv", "-o", "f.csv", "--draws", "0"]],
)
def test_wrong_use_exits_with_2(files, arguments):
    line = run(*arguments, code=2).stderr
    assert (line.startswith("Error: "), line.count("\n")) == (True, 1)


def test_messages_speak_of_options():
    assert _words("n_components=5 must be less") == "--rank 5 must be less"
    assert "max_iter" not in _words("Remedies: a larger max_iter or tol")


def test_help():
    text = run("--help").stdout
    for option in ("--intervals", "--kinds", "--draws", "--rank"):
        assert option in text


def test_levels_with_one_that_no_cell_has(files, frame):
    table = frame[["a", "b"]].assign(told=frame["yes"].map({True: "TRUE", False: "FALSE"}))
    table.to_csv("l.csv", index=False)
    run("l.csv", "-o", "f.csv", "--no-check", "-k", "told=FALSE,maybe,TRUE")
    out, there = pd.read_csv("f.csv", dtype=str)["told"], table["told"].notna()
    assert (out[there] == table["told"][there]).all()
    assert set(out) <= {"FALSE", "maybe", "TRUE"}
