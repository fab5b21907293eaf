"""Every bad input through every command: one line on standard error, exit code 2, nothing written."""

import gzip
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from colspace.cli import _group
from colspace.cli._group import colspace

ROWS = 40


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.exponential(size=(ROWS, 3)), columns=["alpha", "beta", "gamma"]).round(3)
    table.insert(0, "id", [f"p{i}" for i in range(ROWS)])
    table["outcome"] = np.where(table["alpha"] > 0.7, "ill", "well")
    table["text"] = np.where(table["outcome"] == "ill", "red fever cough", "green walk sun")
    table.to_csv("t.csv", index=False)
    table[["id", "alpha", "beta"]].iloc[:10].to_csv("drugs.csv", index=False)
    pd.DataFrame({"left": ["p1", "p2", "p3", "p1"], "right": ["p1", "p2", "p3", "p4"]}).to_csv(
        "links.csv", index=False
    )
    table.assign(name="n " + table["id"], note=table["id"] + ".").to_csv("names.csv", index=False)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("id,alpha,beta,gamma,outcome,text\n")
    (tmp_path / "half.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes())[:60])
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "not.parquet").write_text("id,alpha\n1,2\n")
    (tmp_path / "folder").mkdir()
    table.assign(outcome="ill").to_csv("one.csv", index=False)
    table.to_csv("bars.csv", index=False, sep="|")
    (tmp_path / "bars.csv").write_text((tmp_path / "bars.csv").read_text().replace("|", "¦"))
    return tmp_path


#: A command with a place for its table and for what it writes.
COMMANDS = {
    "reduce": "reduce {table} -y outcome --id id --drop text --no-check -r 1 --out {out}",
    "impute": "impute {table} --id id --id text --out {out}",
    "atoms": "atoms {table} -y outcome --id id --drop text -r 2 --out {out}",
    "topics": "atoms {table} -y outcome --text text --id id -r 2 --out {out}",
    "pairs": "pairs --left {table} --right drugs.csv --links links.csv --out {out}",
    "look": "look {table} --json {out}",
}


def contents(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else b"" for p in sorted(folder.rglob("*"))
    }


def refused(line, folder):
    """What the command says, having written nothing."""
    before = contents(folder)
    done = CliRunner().invoke(colspace, shlex.split(line))
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert done.stdout == ""
    said = [text for text in done.stderr.splitlines() if not text.startswith(("Note: ", "Warning: "))]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("Error: ")
    assert contents(folder) == before
    return said[0]


TABLES = {
    "missing.csv": "missing.csv does not exist",
    "empty.csv": "empty.csv is empty: 0 rows, 0 columns",
    "header.csv": "header.csv is empty: 0 rows, 6 columns",
    "half.csv.gz": "half.csv.gz is not a CSV table",
    "binary.csv": "binary.csv is not a CSV table",
    "not.parquet": "not.parquet is not a Parquet file",
    "folder": "folder is a folder without tables",
    "t.xlsx": "t.xlsx: unknown kind of table",
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("command", COMMANDS)
def test_tables_that_cannot_be_read(folder, command, table):
    assert TABLES[table] in refused(COMMANDS[command].format(table=table, out="out.csv"), folder)


@pytest.mark.parametrize("command", COMMANDS)
def test_another_delimiter(folder, command):
    """One that is none of the usual: the table would have one column."""
    said = refused(COMMANDS[command].format(table="bars.csv", out="out.csv"), folder)
    assert "bars.csv has one column, 'id¦alpha¦beta¦gamma¦outcome¦text', whose cells seem" in said
    assert "divided at '¦'" in said


def test_a_command_that_is_not_there(folder):
    assert "no command is called 'redcue'; is it reduce?" in refused("redcue t.csv -y outcome", folder)
    assert "no command is called 'xyz'; choose from look, reduce," in refused("xyz", folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reduce t.csv -y outcom", "--response: no column is called 'outcom'; is it 'outcome'?"),
        ("reduce t.csv -y outcome --id Id", "--id: no column is called 'Id'; is it 'id'?"),
        ("reduce t.csv -y outcome --drop gama", "--drop: no column is called 'gama'; is it 'gamma'?"),
        (
            "reduce t.csv -y outcome -b a=alpha:bata",
            "block 'a': no column is called 'bata', an end of 'alpha:bata'; is it 'beta'?",
        ),
        ("reduce t.csv -y outcome -b a=alfa", "block 'a': no column is called 'alfa'; is it 'alpha'?"),
        ("impute t.csv --id Text --out o.csv", "--id: no column is called 'Text'; is it 'text'?"),
        ("impute t.csv --kinds bet=count --out o.csv", "--kinds: no column is called 'bet'; is it 'beta'?"),
        ("atoms t.csv -y outcomes --out o", "--label: no column is called 'outcomes'; is it 'outcome'?"),
        ("atoms t.csv -y outcome -t txt --out o", "--text: no column is called 'txt'; is it 'text'?"),
        (
            "atoms t.csv -y outcome -c betta --out o",
            "--covariates: no column is called 'betta'; is it 'beta'?",
        ),
        (
            "pairs --left t.csv --right drugs.csv --links links.csv --id nr --out o.csv",
            "--id nr is a column of none of",
        ),
    ],
)
def test_columns_that_are_not_there(folder, line, message):
    assert message in refused(line, folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "reduce one.csv -y outcome --id id --drop text --out o.csv",
            "--response has one class only ('ill')",
        ),
        (
            "atoms one.csv -y outcome --id id --drop text --out o",
            "--label outcome has one class, 'ill'; two or more are needed",
        ),
        (
            "reduce t.csv -y alpha --out o.csv",
            "1 column(s) are not numbers: 'id' (e.g. 'p0'). Leave",
        ),
        ("atoms t.csv -y outcome --out o", "2 column(s) are not numbers: 'id' (e.g. 'p0'), 'text' (e.g. "),
        (
            "pairs --left names.csv --right drugs.csv --links links.csv --out o.csv",
            "names.csv has 2 column(s) that are neither numbers, dates nor words of 2 to 20 levels: 'name' (e.g. 'n p0'), 'note' (e.g. ",
        ),
        (
            "pairs --left t.csv --right drugs.csv --links links.csv --drop sex --out o.csv",
            "--drop sex is a column of none of t.csv, drugs.csv",
        ),
    ],
)
def test_labels_and_features_that_do_not_fit(folder, line, message):
    assert message in refused(line, folder)


@pytest.mark.parametrize("option", ["--out", "--save", "--report", "--json"])
@pytest.mark.parametrize("command", ["reduce", "impute", "topics", "pairs"])
@pytest.mark.parametrize("where", ["nowhere/file", "folder", "t.csv"])
def test_outputs_that_cannot_be_written_are_refused_before_anything_is_read(
    folder, command, option, where, monkeypatch
):
    """A folder that is not there, a folder, the table itself; no fit begins."""
    if command == "topics" and option == "--out" and where != "t.csv":
        pytest.skip("a directory, which is made")
    monkeypatch.setattr("colspace.io._tables.read_source", lambda *_, **__: 1 / 0)
    ends = {
        "--out": "" if command == "topics" else ".csv",
        "--save": ".skops",
        "--report": ".html",
        "--json": ".json",
    }
    target = where + ends[option] if where == "nowhere/file" else where
    line = COMMANDS[command].format(table="t.csv", out=target if option == "--out" else "o.csv")
    line += "" if option == "--out" else f" {option} {target}"
    said = refused(line, folder)
    words = ("cannot be written", "never overwritten", "unknown kind of table", "Directory 't.csv' is a file")
    assert any(word in said for word in words)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission(folder):
    (folder / "folder").chmod(0o500)
    assert "new files are not allowed" in refused(
        COMMANDS["reduce"].format(table="t.csv", out="folder/o.csv"), folder
    )


# ---------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize(
    "where",
    [
        "colspace.io._tables.read_source",
        "colspace.reduction.JointReduction.fit",
        "colspace.quality.compare_reductions",
        "colspace.report._page.render",
        "colspace.io._models.save",
        "colspace.cli._say.write_json",
    ],
)
def test_an_interrupt_at_any_time(folder, monkeypatch, where):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    outputs = "--out o.csv --save m.skops --report r.html --json j.json"
    line = f"reduce t.csv -y outcome --id id --drop text -r 1 {outputs}"
    assert refused(line, folder) == "Error: interrupted; nothing was written"


def test_an_interrupt_while_commands_are_loaded(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_group._LazyGroup, "get_command", interrupted)
    done = CliRunner().invoke(colspace, ["reduce", "t.csv"])
    assert (done.exit_code, done.stderr) == (2, "Error: interrupted\n")


def test_nothing_is_imported_before_interrupts_are_caught():
    room = Path(_group.__file__).parents[2]
    code = f"import sys; old = set(sys.modules); sys.path.insert(0, {str(room)!r}); import colspace.cli; print(*set(sys.modules) - old)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {"colspace", "colspace.cli", "__future__"}


def test_a_real_interrupt(folder):
    """A process that is reading a pipe nobody writes to."""
    code = "from colspace.cli import main; main()"
    line = [sys.executable, "-c", code, "impute", "-", "--out", "o.csv"]
    process = subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    stat = Path(f"/proc/{process.pid}/wchan")
    for _ in range(600):
        time.sleep(0.1)
        if not stat.exists() or "pipe" in stat.read_text():
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert said.strip().splitlines()[-1].startswith("Error: interrupted")
    assert "Traceback" not in said
    assert not (folder / "o.csv").exists()


@pytest.mark.parametrize("place", ["_LazyGroup.get_command", "_LazyGroup.main"])
def test_an_interrupt_within_an_import_leaves_by_the_exit_code(tmp_path, place):
    """As ``python -m``, which otherwise ends by the signal where compiled code was interrupted, though it was caught."""
    code = f"""
from colspace.cli import _group, main

def interrupted(*_, **__):
    exec("raise KeyboardInterrupt")

_group.{place} = interrupted
main()
"""
    (tmp_path / "interrupted_command.py").write_text(code)
    line = [sys.executable, "-m", "interrupted_command", "look", "t.csv"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "Error: interrupted\n")


# ---------------------------------------------------------------------- light installation


@pytest.mark.parametrize(
    ("module", "line", "extra"),
    [
        ("pandas", COMMANDS["reduce"], "cli"),
        ("pandas", COMMANDS["impute"], "cli"),
        ("pandas", COMMANDS["atoms"], "cli"),
        ("pandas", COMMANDS["pairs"], "cli"),
        ("pandas", COMMANDS["look"], "cli"),
        ("skops.io", COMMANDS["reduce"] + " --save m.skops", "save"),
        ("altair", COMMANDS["reduce"] + " --report r.html", "report"),
        ("jinja2", COMMANDS["impute"] + " --report r.html", "report"),
    ],
)
def test_what_is_not_installed_is_named(folder, monkeypatch, module, line, extra):
    monkeypatch.setitem(sys.modules, module, None)
    assert f"pip install 'colspace[{extra}]'" in refused(line.format(table="t.csv", out="o.csv"), folder)


def test_a_table_of_one_row(folder):
    (folder / "row.csv").write_text("alpha,beta,y\n1,2,3\n")
    said = refused("reduce row.csv -y y --out o.csv", folder)
    assert "Error: 1 row, but at least 2 are needed to learn from; give more rows" in said


def test_labels_that_are_all_different_are_warned_of_once(folder):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "colspace",
            *["reduce", "t.csv", "-y", "id", "--drop", "text", "--drop", "outcome", "--no-check"],
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("different labels") == 1
    assert ".py:" not in done.stderr


def test_a_quote_that_is_not_closed(folder):
    (folder / "quote.csv").write_text('a,b,y\n1,2,3\n4,"5,6\n7,8,9\n')
    assert "line 3 opens a quote that is not closed" in refused("reduce quote.csv -y y --out o.csv", folder)
