"""One grammar in all commands: tables joined on --id, folders and patterns, kinds of files, --na, --json, --quiet, ranges of columns."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace import CopulaImputer, JointReduction
from colspace.cli._group import colspace
from colspace.cli._join import join_tables
from colspace.cli._marks import with_gaps
from colspace.datasets import make_pairs
from colspace.io import load, read_table, write_table

ROWS = 120


@pytest.fixture(scope="module")
def omics():
    """Two tables about the same patients, in another order, and a third with the outcome."""
    rng = np.random.default_rng(0)
    ids = [f"0{i}" for i in range(ROWS)]
    genes = pd.DataFrame(rng.normal(size=(ROWS, 5)), columns=[f"g{i}" for i in range(5)])
    proteins = pd.DataFrame(rng.normal(size=(ROWS, 4)), columns=[f"p{i}" for i in range(4)])
    y = genes["g0"] * proteins["p1"] + 0.3 * rng.normal(size=ROWS)
    genes.insert(0, "patient", ids)
    proteins.insert(0, "patient", ids)
    clinic = pd.DataFrame({"patient": ids, "outcome": y})
    return genes, proteins.sample(frac=1, random_state=1), clinic.iloc[5:]


@pytest.fixture
def files(tmp_path, monkeypatch, omics):
    monkeypatch.chdir(tmp_path)
    for name, table in zip(("genes.csv", "proteins.csv", "clinic.csv"), omics, strict=True):
        table.to_csv(name, index=False)
    return tmp_path


def run(*arguments, code=0, **kw):
    done = CliRunner().invoke(colspace, list(map(str, arguments)), **kw)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    if code:
        assert (done.stderr.startswith("Error: "), done.stderr.count("\n")) == (True, 1), done.stderr
    return done


TABLES = ["genes.csv", "proteins.csv", "clinic.csv"]
JOINED = [*TABLES, "--id", "patient", "-y", "outcome", "-r", "1", "--no-check"]


# ---------------------------------------------------------------------- joined


def test_tables_are_joined_on_id_and_each_is_a_block(files, omics):
    done = run("reduce", *JOINED, "--out", "e.csv", "--save", "m.skops", "--json", "j.json")
    assert (
        "115 ids are in all 3 tables; others are left out: 5 of genes.csv, 5 of proteins.csv" in done.stderr
    )
    genes, proteins, clinic = (t.set_index("patient") for t in omics)
    X = genes.join(proteins).loc[clinic.index]
    blocks = {"genes": list(genes), "proteins": list(proteins)}
    model = JointReduction(1, blocks=blocks, random_state=0).fit(X, clinic["outcome"])
    found = read_table("e.csv", text=["patient"])
    assert found["patient"].tolist() == list(clinic.index)
    assert_allclose(found.iloc[:, 1:3], model.transform(X), rtol=1e-7, atol=1e-10)
    assert list(json.loads(Path("j.json").read_text())["blocks"]) == ["genes", "proteins"]
    # new rows come in two tables, or in one
    done = run("apply", "m.skops", "proteins.csv", "genes.csv", "--id", "patient", "--out", "new.csv")
    new = read_table("new.csv", text=["patient"]).set_index("patient")
    assert len(new) == ROWS
    assert_allclose(new.loc[X.index], model.transform(X), rtol=1e-7, atol=1e-10)
    genes.join(proteins).to_csv("one.csv")
    run("apply", "m.skops", "one.csv", "--id", "patient", "--out", "one_e.csv")
    assert_allclose(
        read_table("one_e.csv", text=["patient"]).set_index("patient").loc[X.index], new.loc[X.index]
    )
    line = run("apply", "m.skops", "genes.csv", "--id", "patient", "--out", "x.csv", code=2).stderr
    assert "4 of the 9 columns of the fit are not in the table: 'p0'" in line


def test_tables_with_fewer_columns_than_directions_are_a_block_with_another(files, omics):
    genes, proteins, clinic = (t.set_index("patient") for t in omics)
    clinic = clinic.assign(age=np.arange(20.0, 135.0) % 47)
    clinic.to_csv("clinic.csv")
    asked = [*JOINED[:-3], "--no-check", "-r"]
    done = run("reduce", *asked, "2", "--out", "e.csv", "--save", "m.skops")
    assert (
        "'clinic': fewer columns than --components 2, so blocks are 'genes', 'proteins+clinic'" in done.stderr
    )
    X = genes.join(proteins).join(clinic[["age"]]).loc[clinic.index]
    blocks = {"genes": list(genes), "proteins+clinic": [*proteins, "age"]}
    model = JointReduction(2, blocks=blocks, random_state=0).fit(X, clinic["outcome"])
    assert_allclose(read_table("e.csv").iloc[:, 1:5], model.transform(X), rtol=1e-7, atol=1e-10)
    assert load("m.skops").blocks == blocks
    assert "so blocks are 'genes', 'proteins+clinic'" in run("reduce", *asked, "5").stderr  # of five each
    assert "so all columns are one block" in run("reduce", *asked, "6").stderr
    assert "fewer columns" not in run("reduce", *asked, "1").stderr
    given = ["2", "--block", "clinic=age", "--block", "genes=g*", "--drop-rest"]
    for options, line in (
        (["11"], "11 is more than the 10 columns of X"),
        (given, "columns of block 'clinic'"),
    ):
        done = CliRunner().invoke(colspace, ["reduce", *asked, *options])
        assert done.exit_code == 2
        assert line in done.stderr


def test_columns_of_the_same_name_get_the_name_of_their_table(files, omics):
    genes, proteins, _ = omics
    proteins.rename(columns={"p1": "g1"}).to_csv("proteins.csv", index=False)
    done = run("reduce", *JOINED, "--save", "m.skops")
    assert "1 column(s) are in several tables and get the name of theirs" in done.stderr
    names = load("m.skops").feature_names_in_.tolist()
    assert [n for n in names if "__" in n] == ["genes__g1", "proteins__g1"]
    # new files may be called otherwise
    genes.to_csv("a.csv", index=False)
    proteins.rename(columns={"p1": "g1"}).to_csv("b.csv", index=False)
    run("apply", "m.skops", "a.csv", "b.csv", "clinic.csv", "--id", "patient", "--out", "x.csv")
    assert len(read_table("x.csv")) == 115


def test_given_blocks_go_across_tables(files):
    run("reduce", *JOINED, "-b", "first=g0:g2", "-b", "rest=p*", "--drop-rest", "--json", "j.json")
    found = json.loads(Path("j.json").read_text())["blocks"]
    assert {name: block["columns"] for name, block in found.items()} == {"first": 3, "rest": 4}


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (
            None,
            [*TABLES, "-y", "outcome"],
            "3 tables are joined on --id, which is not given; columns that all have: 'patient'",
        ),
        (
            None,
            [*TABLES, "-y", "outcome", "--id", "person"],
            "--id person is not in genes.csv, proteins.csv, clinic.csv",
        ),
        (
            lambda t: t.assign(patient="x" + t["patient"]),
            JOINED,
            "the tables share no id of 'patient': genes.csv has '00', '01'",
        ),
        (
            lambda t: pd.concat([t, t.iloc[[3]]]),
            JOINED,
            "1 id(s) stand twice in clinic.csv: '08'; keep one row of each",
        ),
        (
            lambda t: t.assign(patient=t["patient"].where(t.index > 6)),
            JOINED,
            "2 id(s) are missing in column 'patient' of clinic.csv",
        ),
        (
            None,
            ["genes.csv", "genes.csv", "--id", "patient", "-y", "g0"],
            "genes.csv is given twice; name each table once",
        ),
    ],
)
def test_tables_that_cannot_be_joined(files, omics, change, arguments, message):
    if change is not None:
        change(omics[2]).to_csv("clinic.csv", index=False)
    assert message in run("reduce", *arguments, "--out", "o.csv", code=2).stderr
    assert not (files / "o.csv").exists()


def test_ids_of_two_columns_and_of_other_types():
    left = pd.DataFrame({"site": [1, 1, 2], "nr": [1.0, 2.0, 1.0], "a": [1, 2, 3]})
    right = pd.DataFrame({"nr": ["1", "2"], "site": ["2", "1"], "b": [30, 20]})
    with pytest.warns(UserWarning, match="2 ids are in all 2 tables"):
        found = join_tables(["l.csv", "r.csv"], ["site", "nr"], {"l.csv": left, "r.csv": right}.get)
    assert found.frame.to_dict("list") == {"site": ["1", "2"], "nr": ["2", "1"], "a": [2, 3], "b": [20, 30]}


def test_marks_with_spaces_about_them_and_words_that_stay():
    frame = pd.DataFrame({"a": ["1", " ? ", "3"], "b": ["x", "?", "2"]})
    found = with_gaps(frame, ["?"], ["a", "b"])
    assert found["a"].tolist()[::2] == [1.0, 3.0]
    assert found["b"].tolist()[::2] == ["x", "2"]  # not all are numbers
    assert found.isna().sum().tolist() == [1, 1]


def test_all_rows_are_in_the_order_of_the_first_table():
    left = pd.DataFrame({"id": ["b ", "d", "a"], "x": [1.0, 2.0, 3.0]})  # spaces around ids do not count
    right = pd.DataFrame({"id": ["z", "a", "b", "c"], "w": [4.0, 5.0, 6.0, 7.0]})
    read = {"l.csv": left, "r.csv": right}.get
    with pytest.warns(
        UserWarning, match="2 ids are in all 2 tables; others stay, with gaps: 1 of l.csv, 2 of r.csv"
    ):
        found = join_tables(["l.csv", "r.csv"], ["id"], read, everything=True).frame
    assert found["id"].tolist() == ["b", "d", "a", "z", "c"]
    assert found["w"].fillna(0).tolist() == [6.0, 0.0, 5.0, 4.0, 7.0]


def test_joined_surveys_keep_all_rows_and_cells_as_they_are_written(files):
    rng = np.random.default_rng(2)
    z = rng.normal(size=(ROWS, 1))
    first = pd.DataFrame(z + 0.3 * rng.normal(size=(ROWS, 3)), columns=list("abc")).round(2)
    second = pd.DataFrame(z + 0.3 * rng.normal(size=(ROWS, 2)), columns=list("de")).round(2)
    first.insert(0, "who", [f"{i:03d}" for i in range(ROWS)])
    second.insert(0, "who", [f"{i:03d}" for i in range(ROWS)])
    first.iloc[:90].to_csv("first.csv", index=False)
    second.iloc[30:].to_csv("second.csv", index=False)
    options = ["--id", "who", "--rank", "1", "--no-check"]
    done = run("impute", "first.csv", "second.csv", *options, "--out", "f.csv", "--save", "m.skops")
    assert (
        "60 ids are in all 2 tables; others stay, with gaps: 30 of first.csv, 30 of second.csv" in done.stderr
    )
    found = read_table("f.csv", text=["who"])
    assert len(found) == ROWS
    assert not found.isna().any().any()
    whole = first.merge(second).set_index("who").loc[found["who"]]
    assert_allclose(found.loc[:89, list("abc")], whole.iloc[:90][list("abc")])
    run("apply", "m.skops", "first.csv", "second.csv", "--id", "who", "--out", "g.csv")
    assert Path("g.csv").read_text() == Path("f.csv").read_text()
    write_table(second.iloc[30:].reset_index(drop=True), "second.parquet")
    run("impute", "first.csv", "second.parquet", *options, "--out", "h.csv")
    assert_allclose(read_table("h.csv")[list("abcde")], found[list("abcde")])


# ---------------------------------------------------------------------- files of all kinds


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "jsonl.gz", "parquet", "arrow", "feather"])
def test_every_kind_is_read_and_written(files, omics, suffix):
    frame = omics[0].assign(y=omics[0]["g0"] ** 2)
    write_table(frame, f"t.{suffix}")
    run("reduce", f"t.{suffix}", "--id", "patient", "-y", "y", "--no-check", "--out", f"e.{suffix}")
    found = read_table(f"e.{suffix}", text=["patient"])
    assert found["patient"].tolist() == frame["patient"].tolist()
    assert_allclose(found["y"], frame["y"])


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_folders_and_patterns_are_one_table(files, omics, suffix):
    frame = omics[0].assign(y=omics[0]["g0"] ** 2)
    (files / "parts" / "deep").mkdir(parents=True)
    for i, (start, stop) in enumerate([(0, 40), (40, 70), (70, ROWS)]):
        folder = "parts/deep" if i == 2 else "parts"
        write_table(frame[start:stop].reset_index(drop=True), f"{folder}/part-{i + 9}.{suffix}")
    (files / "parts" / "_SUCCESS").write_text("")
    options = ["--id", "patient", "-y", "y", "--no-check"]
    run("reduce", "parts", *options, "--out", "e.csv")
    assert set(read_table("e.csv", text=["patient"])["patient"]) == set(frame["patient"])
    run("reduce", f"parts/**/part-*.{suffix}", *options, "--out", "e2.csv")
    assert len(read_table("e2.csv")) == ROWS
    holes = frame.copy()
    holes.loc[3, "g1"] = np.nan
    write_table(holes[:40].reset_index(drop=True), f"parts/part-9.{suffix}")
    done = run("impute", "parts", "--id", "patient", "--rank", "1", "--no-check", "--out", "f.csv")
    assert "1 gaps filled" in done.stdout
    assert "120 rows" in run("look", "parts").stdout


def test_folders_that_are_no_table(files):
    (files / "empty").mkdir()
    assert "empty is a folder without tables" in run("reduce", "empty", "-y", "y", code=2).stderr
    assert "none-*.csv matches no table" in run("reduce", "none-*.csv", "-y", "y", code=2).stderr
    (files / "mixed").mkdir()
    (files / "mixed" / "a.csv").write_text("a,b\n1,2\n")
    (files / "mixed" / "b.jsonl").write_text('{"a": 1, "b": 2}\n')
    assert "tables of several kinds (csv, jsonl)" in run("reduce", "mixed", "-y", "b", code=2).stderr
    (files / "mixed" / "b.jsonl").unlink()
    (files / "mixed" / "c.csv").write_text("a,c\n1,2\n")
    line = run("reduce", "mixed", "-y", "b", code=2).stderr
    assert "mixed/c.csv lacks 'b' and has 'c' besides, unlike mixed/a.csv" in line
    line = run("reduce", "mixed", "-y", "b", "--out", "mixed/e.csv", code=2).stderr
    assert "mixed/e.csv lies in mixed, a folder that is read" in line


def test_standard_input_of_records(files):
    text = "".join(json.dumps({"x": i % 7, "z": i * 0.5, "y": i % 7 + i % 3}) + "\n" for i in range(30))
    done = run("reduce", "-", "-y", "y", "-r", "1", "--no-check", "--out", "-", "--quiet", input=text)
    assert pd.read_csv(io.StringIO(done.stdout)).columns.tolist() == ["jointreduction0", "y"]
    assert done.stderr == ""


def test_records_with_lists_and_of_great_length(files):
    lines = [
        {"a": i, "tags": ["u", "v"], "text": "w" * 3_000_000 if i == 1 else "v", "y": i} for i in range(4)
    ]
    Path("r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(UserWarning, match="lists and records are taken as text: 'tags'"):
        found = read_table("r.jsonl")
    assert found["tags"].tolist()[1] == '["u", "v"]'
    assert len(found["text"][1]) == 3_000_000
    for text, message in (('{"a": 1}\n{"a": [}\n', "is not a JSON lines file"), ("", "is empty")):
        Path("bad.jsonl").write_text(text)
        with pytest.raises(ValueError, match=message):
            read_table("bad.jsonl")


# ---------------------------------------------------------------------- --na, --drop, --json, --quiet


def test_marks_are_gaps_in_every_command(files, omics):
    genes = omics[0].copy()
    genes["y"] = genes["g0"]
    genes.loc[4, "g1"] = -99
    genes["g2"] = genes["g2"].astype(object)
    genes.loc[7, "g2"] = "refused"
    genes.to_csv("t.csv", index=False)
    marks = ["--na", "-99", "--na", "refused"]
    line = run("reduce", "t.csv", "-y", "y", "--id", "patient", *marks, "--no-check").stderr
    assert "2 gaps in 2 columns are filled" in line
    assert "'g2' (e.g. 'refused')" in run("reduce", "t.csv", "-y", "y", "--id", "patient", code=2).stderr
    genes["y"] = np.where(genes["y"] > 0, "u", "v")
    genes.to_csv("a.csv", index=False)
    line = run("atoms", "a.csv", "-y", "y", "--id", "patient", *marks, "--out", "o", code=2).stderr
    assert "missing values in X in 2 column(s): 'g1' (1), 'g2' (1)" in line
    look = json.loads(run("look", "t.csv", *marks, "--json", "-").stdout)["tables"][0]
    assert {c["name"]: c["gaps"] for c in look["columns"]} == {
        "patient": 0, "g0": 0, "g1": 1, "g2": 1, "g3": 0, "g4": 0, "y": 0
    }  # fmt: skip
    full = genes.drop(columns="y").replace({-99: np.nan, "refused": np.nan}).infer_objects()
    full.to_csv("full.csv", index=False)
    run(
        "impute",
        "full.csv",
        "--id",
        "patient",
        "--rank",
        "1",
        "--no-check",
        "--out",
        "f.csv",
        "--save",
        "m.skops",
    )
    run("apply", "m.skops", "a.csv", "--id", "patient", *marks, "--out", "g.csv")
    assert_allclose(read_table("g.csv")[["g1", "g2"]], read_table("f.csv")[["g1", "g2"]])


def test_ranges_and_patterns_of_columns(files, omics):
    omics[0].assign(y=omics[0]["g0"]).to_csv("t.csv", index=False)
    run(
        "reduce",
        "t.csv",
        "-y",
        "y",
        "--drop",
        "patient:g1",
        "--drop",
        "g4",
        "--no-check",
        "--save",
        "m.skops",
    )
    assert load("m.skops").feature_names_in_.tolist() == ["g2", "g3"]
    line = run("reduce", "t.csv", "-y", "y", "--drop", "g9:g1", code=2).stderr
    assert "--drop: no column is called 'g9', an end of 'g9:g1'. Columns: 'patient', 'g0'" in line
    assert "no column is called 'Y'; is it 'y'?" in run("reduce", "t.csv", "-y", "Y", code=2).stderr


def test_json_goes_to_a_file_or_to_standard_output(files, omics):
    t = omics[0].assign(y=np.where(omics[0]["g0"] > 0, "u", "v"))
    t.iloc[:, 1:6] = t.iloc[:, 1:6].abs()
    t.to_csv("t.csv", index=False)
    done = run("atoms", "t.csv", "-y", "y", "--id", "patient", "-r", "2", "--out", "o", "--json", "-")
    assert json.loads(done.stdout)["held_out"] == 24
    assert "supervised dictionary" in done.stderr
    rows = read_table("o/rows.csv", text=["patient"])
    assert rows["patient"].tolist() == t["patient"].tolist()
    assert rows["held_out"].sum() == 24
    assert_allclose(rows["p_u"] + rows["p_v"], 1.0)
    holes = omics[0].mask(np.random.default_rng(0).random(omics[0].shape) < 0.1)
    holes["patient"] = omics[0]["patient"]
    holes.to_csv("h.csv", index=False)
    run(
        "impute",
        "h.csv",
        "--id",
        "patient",
        "--rank",
        "1",
        "--out",
        "f.csv",
        "--json",
        "i.json",
        "--no-check",
    )
    assert json.loads(Path("i.json").read_text())["rank"] == 1
    for command in (["reduce", "t.csv", "-y", "y", "--json"], ["look", "t.csv", "--json", "t.csv"]):
        run(*command, code=2)
    assert "before --no-check" in run("reduce", "t.csv", "-y", "y", "--json", "--no-check", code=2).stderr


def _pairs(folder):
    A, B, Y, *_ = make_pairs(30, 20, 4, 2, rng=0)
    A = pd.DataFrame(A).add_prefix("f").assign(disease=[f"a{i}" for i in range(30)])
    B = pd.DataFrame(B).add_prefix("f").assign(drug=[f"b{i}" for i in range(20)])
    dense = Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)
    i, j = np.nonzero(dense > np.quantile(dense, 0.8))
    A.to_csv(folder / "left.csv", index=False)
    B.to_csv(folder / "right.csv", index=False)
    pd.DataFrame({"a": [f"a{k}" for k in i], "b": [f"b{k}" for k in j]}).to_csv(
        folder / "links.csv", index=False
    )


def test_pairs_know_ids_marks_and_standard_input(files):
    _pairs(files)
    links = (files / "links.csv").read_text()
    options = ["--id", "disease", "--id", "drug", "--bandwidth", "1", "--alpha", "1", "--shrinkage", "0.1"]
    tables = ["pairs", "--left", "left.csv", "--right", "right.csv", "--links", "-", *options]
    run(*tables, "--out", "p.csv", "--json", "j.json", "--save", "m.skops", input=links)
    assert json.loads(Path("j.json").read_text())["entities"] == [30, 20]
    found = read_table("p.csv")
    assert list(found.columns[:3]) == ["disease", "rank", "drug"]
    run("apply", "m.skops", "left.csv", "--id", "disease", "--out", "q.csv")
    assert len(read_table("q.csv")) == 600
    line = run(*tables, "--predict", "-", "--out", "p.csv", input=links, code=2).stderr
    assert "--links and --predict are both standard input" in line
    assert (
        "--id ill is a column of none of"
        in run(*tables, "--id", "ill", "--out", "p.csv", input=links, code=2).stderr
    )
    A = pd.read_csv("left.csv")
    A.loc[2, "f1"] = -99
    A.to_csv("left.csv", index=False)
    line = run(*tables, "--na", "-99", "--out", "p.csv", input=links, code=2).stderr
    assert "--impute fills them" in line


def test_quiet_prints_warnings_and_errors_only(files, omics):
    _pairs(files)
    t = omics[0].assign(y=np.where(omics[0]["g0"] > 0, "u", "v"))
    t.iloc[:, 1:6] = t.iloc[:, 1:6].abs()
    t.to_csv("t.csv", index=False)
    holes = omics[0].assign(g1=omics[0]["g1"].where(omics[0].index > 3))
    holes.to_csv("h.csv", index=False)
    for command in (
        ["reduce", "t.csv", "-y", "y", "--id", "patient", "--no-check", "--save", "m.skops"],
        ["impute", "h.csv", "--id", "patient", "--rank", "1", "--out", "f.csv", "--no-check"],
        ["atoms", "t.csv", "-y", "y", "--id", "patient", "-r", "2", "--out", "o"],
        ["pairs", "--left", "left.csv", "--right", "right.csv", "--links", "links.csv", "--id", "drug", "--id", "disease", "--bandwidth", "1", "--alpha", "1", "--shrinkage", "0.1", "--out", "p.csv"],
        ["apply", "m.skops", "t.csv", "--out", "e.csv"],
    ):  # fmt: skip
        assert run(*command, "--quiet").output == "", command[0]


def test_nothing_is_written_unless_everything_can_be(files, omics, monkeypatch):
    """The report, made last, fails; the table and the model, made before, are not there."""
    omics[0].assign(y=omics[0]["g0"]).to_csv("t.csv", index=False)
    monkeypatch.setattr("colspace.report._page.render", lambda _: 1 / 0)
    (files / "e.csv").write_text("what was there")
    before = {p.name for p in files.iterdir()}
    options = ["--id", "patient", "--no-check", "--out", "e.csv", "--save", "m.skops", "--report", "r.html"]
    done = CliRunner().invoke(colspace, ["reduce", "t.csv", "-y", "y", *options])
    assert isinstance(done.exception, ZeroDivisionError)
    assert (files / "e.csv").read_text() == "what was there"
    assert {p.name for p in files.iterdir()} == before


def test_a_fitted_imputer_is_not_told_to_draw_bars(files, omics):
    holes = omics[0].assign(g1=omics[0]["g1"].where(omics[0].index > 3))
    holes.to_csv("h.csv", index=False)
    run(
        "impute",
        "h.csv",
        "--id",
        "patient",
        "--rank",
        "1",
        "--out",
        "f.csv",
        "--no-check",
        "--save",
        "m.skops",
    )
    assert load("m.skops").get_params() == CopulaImputer(1, random_state=0).get_params()
