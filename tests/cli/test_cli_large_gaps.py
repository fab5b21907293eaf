"""Large tables with odd gaps give in chunks what they give in memory."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace.cli._group import colspace
from colspace.io import _stream, load, read_table, write_table
from colspace.reduction import _gaps, _gaps_chunks

ROWS = 600


@pytest.fixture
def frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(ROWS, 5)).round(3), columns=[f"x{i}" for i in range(5)])
    X += rng.normal(size=(ROWS, 1)).round(3)
    y = (X["x0"] + X["x1"] ** 2 + 0.3 * rng.normal(size=ROWS)).round(3)
    return X.assign(y=y, kind=np.where(y > 1, "high", "low"), id=[f"p{i}" for i in range(ROWS)])


def small(monkeypatch):
    monkeypatch.setattr(_stream, "LARGE", 0)
    monkeypatch.setattr(_stream, "_BLOCK", 4096)
    monkeypatch.setattr(_stream, "_CELLS", 700)


def run(table, name, response, *options, code=0):
    others = {"y": "kind", "kind": "y"}[response]
    written = ["--json", f"{name}.json", "--save", f"{name}.skops", "-o", f"{name}.csv"]
    asked = ["reduce", table, "-y", response, "--drop", others, "--id", "id", "--no-check", "-r", "1"]
    done = CliRunner().invoke(colspace, [*asked, *written, *options])
    assert done.exit_code == code, done.output
    return done


def both(monkeypatch, table, response="y", *options):
    """Notes of the run in memory, which are those of the run in chunks, whose results are compared."""
    notes = [run(table, "whole", response, *options).stderr]
    small(monkeypatch)
    notes.append(run(table, "chunks", response, *options).stderr)
    assert sorted(notes[0].splitlines()) == sorted(notes[1].splitlines())
    one, other = (load(f"{name}.skops") for name in ("whole", "chunks"))
    assert type(one) is type(other)
    assert_allclose(one.components_, other.components_, rtol=1e-6, atol=1e-9)
    for model in (one, other):  # what reports are made of knows of the gaps, too
        if hasattr(model, "reducer_"):
            assert np.array_equal(model.reducer_.components_error_, model.components_error_)
    one, other = (json.loads(Path(f"{name}.json").read_text()) for name in ("whole", "chunks"))
    assert one["rows"] == other["rows"]
    one, other = (read_table(f"{name}.csv", text=["id"]) for name in ("whole", "chunks"))
    assert list(one) == list(other)
    assert one["id"].tolist() == other["id"].tolist()
    assert_allclose(one.iloc[:, 1], other.iloc[:, 1], rtol=1e-6, atol=1e-9)
    assert one[response].isna().tolist() == other[response].isna().tolist()
    return notes[0]


@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
def test_gaps_in_rows_without_a_response_alone(frame, monkeypatch, table):
    frame.loc[[10, 500], "y"] = np.nan
    frame.loc[500, "x1"] = np.nan
    write_table(frame, table)
    told = both(monkeypatch, table)
    assert "1 gap in 1 column is filled" in told
    assert "2 rows without a response" in told


def test_infinite_cells_of_rows_without_a_response_are_refused(frame, monkeypatch, tmp_path):
    frame.loc[[10, 500], "y"] = np.nan
    frame.loc[500, "x1"] = np.inf
    frame.to_csv("t.csv", index=False)
    small(monkeypatch)
    asked = ["reduce", "t.csv", "-y", "y", "--drop", "kind", "--id", "id", "--no-check", "--save", "m.skops"]
    done = CliRunner().invoke(colspace, asked)
    assert done.exit_code == 2
    assert "infinite values in X in 1 column(s): 'x1' (1)" in done.stderr
    assert not (tmp_path / "m.skops").exists()


@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("response", ["y", "kind"])
def test_responses_that_begin_late(frame, monkeypatch, table, response):
    frame.loc[:400, response] = None
    write_table(frame, table)
    assert "401 rows without a response" in both(monkeypatch, table, response)


@pytest.mark.parametrize("response", ["y", "kind"])
def test_files_of_one_table_whose_columns_have_other_types(frame, monkeypatch, tmp_path, response):
    """Whole numbers with gaps are floats, and a column without a cell has no type at all."""
    frame["x4"] = (10 * frame["x4"]).round()
    frame.loc[250, "x4"] = np.nan
    frame["x3"] = frame["x3"].astype(object)
    (tmp_path / "parts").mkdir()
    for i in range(3):
        part = frame[200 * i : 200 * (i + 1)].reset_index(drop=True)
        part = part.astype({"x4": float if i == 1 else int, "x3": float})
        if i == 0:
            part[response] = None
        part.to_parquet(tmp_path / "parts" / f"p-{i}.parquet", index=False)
    small(monkeypatch)
    done = run("parts", "chunks", response)
    assert "1 gap in 1 column is filled" in done.stderr
    assert "200 rows without a response" in done.stderr
    found = read_table("chunks.csv", text=["id"])
    assert found["id"].tolist() == frame["id"].tolist()
    frame[response] = frame[response].where(frame.index >= 200)
    frame.astype({"x3": float}).to_csv("whole.csv", index=False)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    run("whole.csv", "memory", response)
    expected = read_table("memory.csv", text=["id"])
    assert_allclose(found.iloc[:, 1], expected.iloc[:, 1], rtol=1e-6, atol=1e-9)


def test_columns_of_words_that_begin_late_are_read_as_words(frame, monkeypatch):
    frame["town"] = np.where(frame["x2"] > 0, "Oslo", "Rome")
    frame.loc[:400, "town"] = None
    frame.to_csv("t.csv", index=False)
    notes = [run("t.csv", "whole", "y").stderr]
    small(monkeypatch)
    notes.append(run("t.csv", "chunks", "y").stderr)
    assert notes[0] == notes[1]
    assert "town" in notes[0]


@pytest.mark.parametrize("rows", [250, 350])
def test_a_sample_is_told_of_where_one_is_drawn(frame, monkeypatch, rows):
    """Rows without a response teach nothing."""
    monkeypatch.setattr(_gaps_chunks, "LEARNED", 300)
    monkeypatch.setattr(_gaps, "LEARNED", 300)
    frame.loc[rows:, "y"] = np.nan
    frame.loc[5, "x1"] = np.nan
    frame.to_csv("t.csv", index=False)
    assert ("as 300 rows drawn at random teach" in both(monkeypatch, "t.csv")) == (rows == 350)


def test_rows_that_lack_one_of_several_responses(frame, monkeypatch):
    frame.loc[::9, "y"] = np.nan
    frame.loc[5, "x4"] = np.nan
    frame.loc[7, "x1"] = np.nan
    frame.to_csv("t.csv", index=False)
    assert "68 rows without a response" in both(monkeypatch, "t.csv", "y", "-y", "x4")


def test_progress_counts_every_row_once(frame, monkeypatch, caplog):
    """Rows that were read before the first gap are read again."""
    caplog.set_level("INFO", "colspace")
    frame.loc[500, "x1"] = np.nan
    frame.to_csv("t.csv", index=False)
    small(monkeypatch)
    run("t.csv", "chunks", "y")
    told = [r.getMessage() for r in caplog.records if "reading and fitting" in r.getMessage()]
    assert int(told[-1].split(": ")[1].split(" of ")[0]) == ROWS


@pytest.mark.parametrize("gap", [False, True])
def test_infinite_responses_are_named_and_counted(frame, monkeypatch, tmp_path, gap):
    frame.loc[[10, 500], "y"] = [np.inf, -np.inf]
    if gap:
        frame.loc[300, "x1"] = np.nan
    frame.to_csv("t.csv", index=False)
    small(monkeypatch)
    told = run("t.csv", "chunks", "y", code=2).stderr
    assert told.endswith(
        "infinite values in the response in 1 column(s): 'y' (2); give --na inf or --na -inf if they stand for gaps, or drop those rows\n"
    )
    assert not list(tmp_path.glob("chunks.*"))
