"""Large tables are read a chunk at a time, and give what they give in memory."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace.cli import _chunks
from colspace.cli._group import colspace
from colspace.io import _stream, load, read_table, write_table
from colspace.io._source import open_sources
from colspace.reduction import _gaps as reduction_gaps
from colspace.reduction import _gaps_chunks

ROWS = 900


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(ROWS, 6)).round(3), columns=[f"x{i}" for i in range(6)])
    y = (X["x0"] + X["x1"] ** 2 + 0.3 * rng.normal(size=ROWS)).round(3)
    ids = [f"{i:04d}" for i in range(ROWS)]
    return X.assign(y=y, kind=np.where(y > 0, "high", "low"), grade=(y > 1).astype(int)).assign(id=ids)


@pytest.fixture
def tables(frame, tmp_path, monkeypatch):
    """Tables of all kinds, chunks of a hundred rows."""
    monkeypatch.chdir(tmp_path)
    for suffix in ("csv", "csv.gz", "tsv", "parquet", "arrow"):
        write_table(frame, tmp_path / f"t.{suffix}")
    (tmp_path / "parts").mkdir()
    for i in range(3):
        write_table(
            frame[300 * i : 300 * (i + 1)].reset_index(drop=True), tmp_path / "parts" / f"p-{i}.parquet"
        )
    return tmp_path


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(_stream, "LARGE", 0)
    monkeypatch.setattr(_stream, "_BLOCK", 4096)
    monkeypatch.setattr(_stream, "_CELLS", 800)


def run(*arguments, code=0):
    done = CliRunner().invoke(colspace, ["reduce", *map(str, arguments)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


OPTIONS = {
    "numbers": ["-y", "y", "--id", "id", "--drop", "kind", "--drop", "grade"],
    "words": ["-y", "kind", "--id", "id", "--drop", "y", "--drop", "grade"],
    "codes": ["-y", "grade", "--labels", "--id", "id", "--drop", "y", "--drop", "kind"],
    "two": ["-y", "y", "-y", "grade", "--id", "id", "--drop", "kind"],
}


@pytest.mark.parametrize(
    "table", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "t.arrow", "parts", "parts/p-*.parquet"]
)
def test_every_kind_gives_what_memory_gives(tables, monkeypatch, table):
    options = [*OPTIONS["numbers"], "--no-check", "-o", "out.csv"]
    run("t.csv", *options, "--json", "whole.json")
    whole = read_table("out.csv", text=["id"])
    seen = []
    chunks = _stream.Stream.chunks
    monkeypatch.setattr(_stream.Stream, "chunks", lambda *a: (seen.append(t) or t for t in chunks(*a)))
    monkeypatch.setattr(_stream, "LARGE", 0)
    monkeypatch.setattr(_stream, "_BLOCK", 4096)
    monkeypatch.setattr(_stream, "_CELLS", 800)
    run(table, *options, "--json", "chunks.json")
    assert max(len(chunk) for chunk in seen if chunk.num_columns > 1) < ROWS / 2
    found = read_table("out.csv", text=["id"])
    assert found["id"].tolist() == whole["id"].tolist()
    assert_allclose(found.drop(columns="id"), whole.drop(columns="id"), rtol=1e-7, atol=1e-9)
    first, second = (json.loads((tables / name).read_text()) for name in ("whole.json", "chunks.json"))
    assert first["rows"] == second["rows"] == ROWS
    assert_allclose(
        first["blocks"]["x"]["singular_values"], second["blocks"]["x"]["singular_values"], rtol=1e-8
    )


@pytest.mark.parametrize("moments", ["auto", "all"])
@pytest.mark.parametrize("response", OPTIONS)
def test_every_response_gives_what_memory_gives(tables, monkeypatch, moments, response):
    options = [*OPTIONS[response], "--moments", moments, "--no-check", "-r", "1"]
    run("t.csv", *options, "--json", "whole.json", "--save", "whole.skops")
    monkeypatch.setattr(_stream, "LARGE", 0)
    monkeypatch.setattr(_stream, "_CELLS", 800)
    run("t.csv", *options, "--json", "chunks.json", "--save", "chunks.skops")
    first, second = (json.loads((tables / name).read_text()) for name in ("whole.json", "chunks.json"))
    assert first["response_taken_as"] == second["response_taken_as"]
    a, b = load("whole.skops"), load("chunks.skops")
    assert_allclose(np.abs(a.components_), np.abs(b.components_), rtol=1e-6, atol=1e-9)
    assert a.feature_names_in_.tolist() == b.feature_names_in_.tolist()


@pytest.mark.parametrize("response", OPTIONS)
@pytest.mark.usefixtures("tables")
def test_rows_that_the_fit_keeps_are_embedded_without_ids(monkeypatch, response):
    options = [o for o in OPTIONS[response] if o not in ("--id", "id")] + ["--drop", "id", "--no-check"]
    run("t.csv", *options, "-o", "whole.csv")
    monkeypatch.setattr(_stream, "LARGE", 0)
    monkeypatch.setattr(_stream, "_CELLS", 800)
    monkeypatch.setattr(_chunks, "_PIECE", 250)
    run("t.csv", *options, "-o", "chunks.csv")
    found, whole = read_table("chunks.csv"), read_table("whole.csv")
    assert list(found) == list(whole)
    for name in whole:
        if whole[name].dtype.kind == "f":
            assert_allclose(found[name], whole[name], rtol=1e-7, atol=1e-9)
        else:
            assert found[name].tolist() == whole[name].tolist()


@pytest.mark.usefixtures("small_chunks")
def test_a_sample_is_checked_and_drawn(tables, monkeypatch):
    monkeypatch.setattr(_chunks, "MOST_ROWS", 150)
    found = json.loads(run("t.csv", *OPTIONS["numbers"], "--json", "-", "--report", "p.html").stdout)
    assert found["rows"] == ROWS
    assert (found["quality"]["rows"], found["quality"]["sample_of"]) == (150, ROWS)
    page = (tables / "p.html").read_text()
    assert "150 of 900 rows, drawn at random" in page
    assert f"of {ROWS} rows and 6 columns" in page


@pytest.mark.usefixtures("small_chunks")
def test_all_refused_columns_are_named(tables, frame):
    odd = frame.copy()
    for name in ("x1", "x4"):
        odd[name] = odd[name].astype(object)
        odd.loc[700, name] = "none today"
    odd.to_csv("odd.csv", index=False)
    line = run("odd.csv", *OPTIONS["numbers"], "-o", "o.csv", code=2).stderr
    assert (
        "2 column(s) are not numbers: 'x1' (e.g. 'none today'), 'x4' (e.g. 'none today'). Leave them out: --drop x1 --drop x4;"
        in line
    )
    assert line.count("\n") == 1
    write_table(frame.assign(kind=frame["id"]), "w.parquet")
    assert "'kind', 'id'" in run("w.parquet", "-y", "y", "-o", "o.csv", code=2).stderr
    wild = frame.copy()
    wild.loc[[5, 800], "x2"] = np.inf
    wild.loc[850, "x5"] = -np.inf
    wild.loc[3, "x1"] = np.nan
    wild.to_csv("wild.csv", index=False)
    line = run("wild.csv", *OPTIONS["numbers"], "-o", "o.csv", code=2).stderr
    assert "infinite values in X in 2 column(s): 'x2' (2), 'x5' (1); give --na inf or --na -inf" in line
    assert not (tables / "o.csv").exists()
    frame.assign(y=np.nan).to_csv("none.csv", index=False)
    line = run("none.csv", *OPTIONS["numbers"], "-o", "o.csv", code=2).stderr
    assert "no row has a value in 'y', the response; name another column as --response" in line


@pytest.fixture(params=["early", "late"])
def holey(request, tables, frame):
    """Gaps in the first rows, or in the last alone, and rows without a response; -99 stands for some of the gaps."""
    rng = np.random.default_rng(3)
    some = frame.copy()
    first = 0 if request.param == "early" else 700
    for name in ("x1", "x3"):
        rows = first + rng.choice(ROWS - first, 60, replace=False)
        some.loc[rows, name] = np.where(rng.random(60) < 0.3, -99.0, np.nan)
    some.loc[rng.choice(ROWS, 30, replace=False), ["y", "kind", "grade"]] = None
    for name in ("h.csv", "h.parquet"):
        write_table(some, tables / name)
    return some


@pytest.mark.usefixtures("holey")
@pytest.mark.parametrize(
    ("table", "moments", "response", "check"),
    [  # every pair of a table, moments and a response
        ("h.csv", "auto", "numbers", "--check"),
        ("h.parquet", "auto", "words", "--check"),
        ("h.csv", "all", "words", "--no-check"),
        ("h.parquet", "all", "numbers", "--no-check"),
    ],
)
def test_gaps_are_filled_as_in_memory(tables, monkeypatch, table, moments, response, check):
    options = [*OPTIONS[response], "--na", "-99", "--moments", moments, "-r", "1", check]
    whole = run(table, *options, "--json", "whole.json", "--save", "whole.skops", "-o", "whole.csv")
    monkeypatch.setattr(_stream, "LARGE", 0)
    monkeypatch.setattr(_stream, "_BLOCK", 4096)
    monkeypatch.setattr(_stream, "_CELLS", 800)
    chunks = run(table, *options, "--json", "chunks.json", "--save", "chunks.skops", "-o", "chunks.csv")
    for told in (
        "filled from the other columns, and count in the errors",
        "30 rows without a response: embedded",
    ):
        assert told in whole.stderr
        assert told in chunks.stderr
    first, second = (json.loads((tables / name).read_text()) for name in ("whole.json", "chunks.json"))
    assert first["rows"] == second["rows"] == ROWS - 30
    if check == "--check":
        assert first["quality"]["sentence"] == second["quality"]["sentence"]
    a, b = load("whole.skops"), load("chunks.skops")
    assert_allclose(np.abs(a.components_), np.abs(b.components_), rtol=1e-6, atol=1e-9)
    assert_allclose(a.components_error_, b.components_error_, rtol=1e-5, atol=1e-9)
    assert not hasattr(b.reducer_, "_stream")
    found, expected = (read_table(name, text=["id"]) for name in ("chunks.csv", "whole.csv"))
    assert found["id"].tolist() == expected["id"].tolist()
    assert len(found) == ROWS
    assert_allclose(np.abs(found.iloc[:, 1]), np.abs(expected.iloc[:, 1]), rtol=1e-6, atol=1e-9)
    assert found.iloc[:, 2].isna().sum() == 30


@pytest.mark.usefixtures("small_chunks")
def test_rows_without_a_response_are_embedded_where_nothing_else_is_missing(tables, frame):
    frame.assign(y=frame["y"].where(frame.index % 10 > 0)).to_csv("h.csv", index=False)
    done = run("h.csv", *OPTIONS["numbers"], "--no-check", "--save", "m.skops", "-o", "o.csv")
    assert "90 rows without a response: embedded, but no part of the fit" in done.stderr
    found, model = read_table("o.csv", text=["id"]), load("m.skops")
    assert found["id"].tolist() == frame["id"].tolist()
    assert_allclose(
        found.iloc[:, 1:3], model.transform(frame[[f"x{i}" for i in range(6)]]), rtol=1e-7, atol=1e-9
    )


@pytest.mark.usefixtures("small_chunks")
def test_large_tables_with_gaps_are_filled_by_what_a_sample_teaches(tables, holey, monkeypatch):
    monkeypatch.setattr(_gaps_chunks, "LEARNED", 300)
    monkeypatch.setattr(reduction_gaps, "LEARNED", 300)
    done = run("h.csv", *OPTIONS["numbers"], "--na", "-99", "--no-check", "--save", "m.skops", "-o", "o.csv")
    assert "filled from the other columns as 300 rows drawn at random teach, and count" in done.stderr
    done = CliRunner().invoke(colspace, ["apply", "m.skops", "h.parquet", "--id", "id", "--out", "e.csv"])
    assert done.exit_code == 0, done.output
    found, expected = (read_table(name, text=["id"]) for name in ("e.csv", "o.csv"))
    assert found["id"].tolist() == expected["id"].tolist()
    assert_allclose(found.iloc[:, 1:3], expected.iloc[:, 1:3], rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("small_chunks")
def test_parts_of_one_table_have_the_same_columns(tables, frame):
    write_table(frame.rename(columns={"x3": "z3"}), tables / "parts" / "p-3.parquet")
    line = run("parts", *OPTIONS["numbers"], code=2).stderr
    assert "p-3.parquet lacks 'x3' and has 'z3' besides, unlike parts/p-0.parquet" in line


@pytest.mark.usefixtures("small_chunks")
def test_separators_decimals_and_rows_that_do_not_fit(tables, frame):
    frame.to_csv("s.csv", sep=";", decimal=",", index=False)
    done = run("s.csv", *OPTIONS["numbers"], "--no-check", "--json", "-")
    assert "',' is the decimal mark" in done.stderr
    assert json.loads(done.stdout)["rows"] == ROWS
    text = (tables / "t.csv").read_text()
    (tables / "ragged.csv").write_text(text + "1,2\n")
    line = run("ragged.csv", *OPTIONS["numbers"], code=2).stderr
    assert "ragged.csv is not a CSV table: line 902 has 2 cells where" in line
    assert "are expected; give every line all of its cells" in line
    assert line.count("\n") == 1


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("row", [0, 890], ids=["early", "late"])
def test_other_encodings_are_told_with_the_line(tables, frame, row):
    """Wherever the first letter stands that is not UTF-8."""
    ids = frame["id"].where(frame.index != row, "é")
    (tables / "t.csv").write_bytes(frame.assign(id=ids).to_csv(index=False).encode("latin-1"))
    options = [*OPTIONS["numbers"], "--no-check", "-o", "o.csv"]
    told = " ".join(run("t.csv", *options, code=2).stderr.split())
    assert f"t.csv is not UTF-8 text: line {row + 2} holds the byte 0xe9" in told
    assert "give --encoding latin-1" in told
    run("t.csv", *options, "--encoding", "latin-1")
    assert read_table("o.csv", text=["id"])["id"][row] == "é"


@pytest.mark.usefixtures("small_chunks")
def test_rows_longer_than_a_block(tables):
    rng = np.random.default_rng(1)
    wide = pd.DataFrame(rng.normal(size=(40, 2000))).add_prefix("c")
    wide.assign(y=wide["c0"]).to_csv("wide.csv", index=False)
    assert json.loads(run("wide.csv", "-y", "y", "-r", "1", "--no-check", "--json", "-").stdout)["rows"] == 40


@pytest.mark.usefixtures("small_chunks")
def test_new_rows_are_embedded_in_chunks(tables, frame):
    run("t.csv", *OPTIONS["numbers"], "--no-check", "--save", "m.skops")

    def apply(*arguments, code=0):
        done = CliRunner().invoke(colspace, ["apply", "m.skops", *arguments, "--out", "e.csv"])
        assert done.exit_code == code, done.output
        return done

    assert f"{ROWS} rows" in apply("t.parquet", "--id", "id").stdout
    found = read_table("e.csv", text=["id"])
    assert found["id"].tolist() == frame["id"].tolist()
    assert_allclose(
        found.iloc[:, 1:], load("m.skops").transform(frame[[f"x{i}" for i in range(6)]]), rtol=1e-9
    )
    (tables / "e.csv").unlink()
    frame.assign(x2=frame["x2"].where(frame.index != 850), x3="a").to_csv("odd.csv", index=False)
    assert (
        "1 column(s) are not numbers: 'x3' (e.g. 'a'). The model was fitted"
        in apply("odd.csv", code=2).stderr
    )
    frame.assign(x2=frame["x2"].where(frame.index != 850)).to_csv("odd.csv", index=False)
    assert "missing values in X in 1 column(s): 'x2' (1)" in apply("odd.csv", code=2).stderr
    frame.drop(columns="x5").to_csv("odd.csv", index=False)
    assert "1 of the 6 columns of the fit are not in the table: 'x5'" in apply("odd.csv", code=2).stderr
    assert not (tables / "e.csv").exists()


def test_options_are_refused_before_rows_are_taken(tables, small_chunks, monkeypatch):
    monkeypatch.setattr(_chunks, "numbers", None)
    assert "--components must be" in run("t.csv", *OPTIONS["numbers"], "-r", 0, code=2).stderr


@pytest.mark.parametrize("table", ["t.csv", "t.parquet", "t.arrow"])
def test_look_takes_the_first_rows(tables, monkeypatch, small_chunks, table):
    monkeypatch.setattr(_stream.first_rows, "__defaults__", (None, 8000))
    done = CliRunner().invoke(colspace, ["look", table])
    assert done.exit_code == 0, done.output
    count = int(re.search(r"its first (\d+) rows, of about", done.stderr)[1])
    about = int(re.search(r"of about ([\d,]+)", done.stderr)[1].replace(",", ""))
    assert 50 < count < ROWS / 2
    assert 0.8 * ROWS < about < 1.3 * ROWS
    assert f"{count} rows, 10 columns" in done.stdout
    assert f"colspace reduce {table} --response y --id id" in done.stdout


@pytest.mark.parametrize("sizes", [[100], [50] * 30, [1] * 12, [9, 1, 1, 200, 3]], ids=str)
def test_the_sample_is_of_the_smallest_random_numbers(monkeypatch, sizes):
    """Whatever the chunks: those a plain sort of all numbers finds; at most twice as many rows are held."""
    monkeypatch.setattr(_chunks, "MOST_ROWS", 10)
    sample, drawn = _chunks._Sample(3), []
    for size in sizes:
        rows = np.arange(sample.rows, sample.rows + size)
        drawn.append(np.random.default_rng((3, sample.rows)).random(size))
        sample.add(1.0 * rows[:, None], pd.DataFrame({"y": -1.0 * rows}))
        assert len(sample.keys) == sum(len(part[1]) for part in sample.parts) <= 20
    assert (sample.bound < 1) == (sum(sizes) > 20)
    expected = np.sort(np.argsort(np.concatenate(drawn))[:10])
    places, X, y = sample.taken()
    assert places.tolist() == X[:, 0].tolist() == (-y["y"]).tolist() == expected.tolist()
    assert sample.rows == sum(sizes)


def test_words_after_gaps_are_words(tables, frame, small_chunks, monkeypatch):
    """A column that begins with gaps is no column of numbers yet."""
    monkeypatch.setattr(_stream._start, "__defaults__", (2000,))
    late = np.where(np.arange(ROWS) < 100, None, frame["kind"])
    write_table(frame[["x0", "x1", "y"]].assign(late=late), tables / "late.csv")
    done = run(tables / "late.csv", "-y", "y", "--no-check")
    assert "late=low" in done.output


def test_a_response_is_told_by_as_many_rows_as_a_chunk_has(tables, frame, small_chunks):
    stream = _stream.open_stream(open_sources(tables / "t.csv"))
    assert stream.numeric == {f"x{i}" for i in range(6)} | {"y", "grade", "id"}
    assert [80 <= rows.num_rows < 200 for rows in stream.start(["kind"])] == [True]


def test_lines_are_parsed_before_scikit_learn_is_imported(tables):
    code = """if True:
        import sys
        from colspace.cli import _reduce_fit
        from colspace.cli._group import colspace
        from colspace.io import _stream, _text_blocks
        _stream.LARGE, begin, parsed = 0, _reduce_fit.Task.begin, _text_blocks.TextReader._parsed
        seen = []
        def told(*given):
            seen.clear()
            data = begin(*given)
            print(len(data.begun), bool(seen), {"sklearn", "scipy.stats"} & set(sys.modules))
            return data
        _reduce_fit.Task.begin = told
        def seeing(reader, block):
            seen.extend(name for name in reader.types if name == "x0")
            return parsed(reader, block)
        _text_blocks.TextReader._parsed = seeing
        colspace(["reduce", "t.csv", "-y", "y", "--drop", "kind", "--id", "id", "--no-check"])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("1 True set()\n"), done
    assert done.returncode == 0


def test_the_test_of_rank_takes_all_rows(tables, small_chunks):
    run("t.csv", *OPTIONS["numbers"], "--no-check", "--rank-test", "--json", "r.json")
    assert json.loads((tables / "r.json").read_text())["rank_test"]["n_components"] >= 1


@pytest.mark.parametrize(
    "needs", [["--rank-response"], ["--shrinkage", "auto"], ["-r", "moments"], ["--solver", "randomized"]]
)
def test_where_the_fit_needs_all_rows_nothing_is_begun(tables, frame, monkeypatch, small_chunks, needs):
    """A line that is too short is one with gaps, as for smaller tables, and what there is to say is said once."""
    lines = frame.to_csv(sep=";", decimal=",", index=False).splitlines()
    (tables / "s.csv").write_text("\n".join([*lines[:9], "1;2", *lines[9:]]))
    options = [*OPTIONS["numbers"], "--no-check", "--moments", "all", *needs]
    found = run("s.csv", *options).output
    assert found.count("is the decimal mark") == 1
    monkeypatch.setattr(_stream, "LARGE", 1 << 40)
    assert found == run("s.csv", *options).output


def test_modules_are_imported_beside_and_none_is_missed():
    """One that cannot be imported is told where it is needed."""
    for name in ("colspace.cli._no_such", "json.tool"):
        sys.modules.pop(name, None)
        thread = _chunks.import_beside([name])
        thread.join()
        assert (name in sys.modules) == (name == "json.tool")
