"""What every command does with files: nothing that is read is overwritten, what is written is whole, any table is read."""

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from colspace.cli._group import colspace
from colspace.datasets import make_pairs
from colspace.experiments import jdr_fig3
from colspace.io import _files, _source, load

ROWS = 60


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Tables for all commands."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(ROWS, 4))
    table = pd.DataFrame(X, columns=list("abcd")).round(3)
    table.insert(0, "id", [f"=SUM(A{i})" for i in range(ROWS)])
    table.assign(y=X[:, 0]).to_csv(tmp_path / "reduce.csv", index=False)
    table.assign(b=table["b"].where(table.index > 5)).to_csv(tmp_path / "impute.csv", index=False)
    table.assign(y=np.where(X[:, 0] > 0.7, "é", "n")).to_csv(tmp_path / "atoms.csv", index=False)
    A, B, Y, _ = make_pairs(20, 15, 4, 2, rng=0)
    A = pd.DataFrame(A, index=pd.Index([f"=é{i}" for i in range(20)], name="left")).add_prefix("f")
    B = pd.DataFrame(B, index=pd.Index([f"@{i}" for i in range(15)], name="right")).add_prefix("f")
    i, j = Y.tocoo().coords
    links = pd.DataFrame({"left": A.index[i], "right": B.index[j], "score": Y.tocoo().data})
    A.to_csv(tmp_path / "left.csv")
    A.to_csv(tmp_path / "new.csv")
    B.to_csv(tmp_path / "right.csv")
    links.to_csv(tmp_path / "links.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


REDUCE = ["reduce", "reduce.csv", "-y", "y", "--id", "id", "-r", "1", "--no-check"]
IMPUTE = ["impute", "impute.csv", "--id", "id", "--rank", "1"]
ATOMS = ["atoms", "atoms.csv", "-y", "y", "--drop", "id", "-r", "2", "--max-iter", "100"]
PAIRS = [
    "pairs",
    "--left",
    "left.csv",
    "--right",
    "right.csv",
    "--links",
    "links.csv",
    "--predict",
    "new.csv",
]
PAIRS += ["--bandwidth", "0.3", "--shrinkage", "0.1", "-r", "2"]

#: Command, option, what else is needed, tables that are read.
OUTPUTS = [
    (REDUCE, "--out", [], ["reduce.csv"]),
    (REDUCE, "--save", [], ["reduce.csv"]),
    (IMPUTE, "--out", [], ["impute.csv"]),
    (ATOMS, "--save", ["--out", "o"], ["atoms.csv"]),
    (PAIRS, "--out", [], ["left.csv", "right.csv", "links.csv", "new.csv"]),
    (PAIRS, "--save", ["--out", "p.csv"], ["left.csv", "right.csv", "links.csv", "new.csv"]),
]
NAMES = [f"{command[0]} {option}" for command, option, _, _ in OUTPUTS]


def run(*arguments, ok=True, **kw):
    result = CliRunner().invoke(colspace, list(map(str, arguments)), **kw)
    assert (result.exit_code == 0) == ok, result.output
    assert "Traceback" not in result.output
    return result


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def never(*_, **__):
    raise AssertionError


# ---------------------------------------------------------------------- inputs are not outputs


@pytest.mark.parametrize("way", ["path", "dots", "link", "inode"])
@pytest.mark.parametrize(("command", "option", "more", "tables"), OUTPUTS, ids=NAMES)
def test_an_input_is_refused_as_output_before_anything_is_read(
    files, monkeypatch, command, option, more, tables, way
):
    for number, table in enumerate(tables):
        target = {"path": table, "dots": f"../{files.name}/{table}"}.get(way, f"other{number}.csv")
        if way == "link":
            (files / target).symlink_to(table)
        elif way == "inode":
            (files / target).hardlink_to(table)
        before = contents(files)
        monkeypatch.setattr(_source, "Source", never)
        result = run(*command, *more, option, target, ok=False)
        assert "is the table itself" in result.stderr
        assert f"never overwritten; give {option} another name" in result.stderr
        assert contents(files) == before


@pytest.mark.parametrize("name", ["atoms.csv", "coefficients.csv", "atoms.png", "scores.json"])
@pytest.mark.parametrize("way", ["path", "link", "inode"])
def test_an_input_in_the_folder_of_outputs_is_refused(files, name, way):
    (files / "o").mkdir()
    target = files / "o" / name
    if way == "path":
        table = "o/atoms.csv"
        (files / "atoms.csv").rename(target)
        if name != "atoms.csv":
            target.rename(files / "o" / "table.csv")
            target.symlink_to("table.csv")
            table = "o/table.csv"
    else:
        table = "atoms.csv"
        link = target.symlink_to if way == "link" else target.hardlink_to
        link(files / table)
    before = contents(files)
    result = run("atoms", table, *ATOMS[2:], "--out", "o", ok=False)
    assert "never overwritten; give --out another name" in result.stderr
    assert contents(files) == before


def test_standard_input_is_an_input(files):
    before = contents(files)
    program = [sys.executable, "-c", "from colspace.cli import main; main()"]
    for command in (["reduce", "-", *REDUCE[2:], "--out"], ["impute", "-", *IMPUTE[2:], "--out"]):
        table = f"{command[0]}.csv"
        with (files / table).open("rb") as stdin:
            result = subprocess.run(
                [*program, *command, table], check=False, stdin=stdin, capture_output=True
            )
        assert result.returncode != 0
        assert b"is the table itself (standard input), which is never overwritten" in result.stderr
    assert contents(files) == before


def test_outputs_are_apart(files):
    before = contents(files)
    for command in (
        [*REDUCE, "--out", "x.csv", "--save", "./x.csv"],
        [*PAIRS, "--out", "x.csv", "--save", "x.csv"],
        [*ATOMS, "--out", "o", "--save", "o/coefficients.csv"],
    ):
        assert "give one of them another name" in run(*command, ok=False).stderr
    assert contents(files) == before


# ---------------------------------------------------------------------- folders before the fit


@pytest.mark.parametrize(("command", "option", "more", "tables"), OUTPUTS, ids=NAMES)
def test_folders_are_checked_before_anything_is_read(files, monkeypatch, command, option, more, tables):
    (files / "file").write_text("")
    (files / "locked").mkdir()
    (files / "taken.csv").mkdir()
    before = contents(files)
    monkeypatch.setattr(_source, "Source", never)
    allowed = os.access
    monkeypatch.setattr(
        _files.os,
        "access",
        lambda p, mode: not (Path(p).name == "locked" and mode & os.W_OK) and allowed(p, mode),
    )
    for target, message in (
        ("no/x.csv", "does not exist; make the directory first"),
        ("file/x.csv", "is not a directory"),
        ("locked/x.csv", "new files are not allowed in"),
        ("taken.csv", "it is a directory; name a file in it"),
    ):
        assert message in run(*command, *more, option, target, ok=False).stderr
    assert contents(files) == before


@pytest.mark.parametrize("command", [ATOMS, ["reproduce", "jdr-fig3", "--quick"]])
def test_folders_of_outputs_are_checked_before_anything_is_read(files, monkeypatch, command):
    (files / "file").write_text("")
    (files / "locked").mkdir()
    (files / "o" / "coefficients.csv").mkdir(parents=True)
    (files / "o" / "jdr-fig3.png").mkdir()
    before = contents(files)
    monkeypatch.setattr(_source, "Source", never)
    monkeypatch.setattr(jdr_fig3, "run", never)
    allowed = os.access
    monkeypatch.setattr(
        _files.os,
        "access",
        lambda p, mode: not (Path(p).name == "locked" and mode & os.W_OK) and allowed(p, mode),
    )
    for target, message in (
        ("file/a", "is not a directory"),
        ("locked", "new files are not allowed in"),
        ("locked/a/b", "new files are not allowed in"),
        ("o", "it is a directory; name a file in it"),
    ):
        assert message in run(*command, "--out", target, ok=False).stderr
    assert contents(files) == before
    assert not (files / "locked" / "a").exists()


def test_every_file_of_draws_is_checked(files):
    (files / "f-2.csv").mkdir()
    assert "f-2.csv cannot be written" in run(*IMPUTE, "--out", "f.csv", "--draws", "2", ok=False).stderr
    assert not (files / "f-1.csv").exists()


# ---------------------------------------------------------------------- interrupted


def interrupted(self, file, *_, **__):
    """A writer that comes half way."""
    file.write(b"half")
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("command", "targets"),
    [
        ([*REDUCE, "--out", "x.csv"], ["x.csv"]),
        ([*REDUCE, "--out", "x.parquet"], ["x.parquet"]),
        ([*REDUCE, "--save", "x.skops"], ["x.skops"]),
        ([*IMPUTE, "--out", "x.csv"], ["x.csv"]),
        ([*IMPUTE, "--out", "x.csv.gz", "--draws", "2"], ["x-1.csv.gz", "x-2.csv.gz"]),
        ([*PAIRS, "--out", "x.csv"], ["x.csv"]),
        ([*ATOMS, "--out", "o"], ["o/atoms.csv", "o/scores.json", "o/coefficients.png"]),
        (["reproduce", "jdr-fig3", "--quick", "--out", "o"], ["o/jdr-fig3.csv", "o/jdr-fig3.png"]),
    ],
)
def test_an_interrupted_command_leaves_what_was_there(files, monkeypatch, command, targets):
    """Written for the first time, and over something; by Ctrl-C in the middle of each kind of file."""
    monkeypatch.setattr(jdr_fig3, "ROWS", {True: (200, 400)})
    monkeypatch.setattr(jdr_fig3, "REPETITIONS", {True: 1})
    monkeypatch.setattr(jdr_fig3, "WIDTH", 6)
    (files / "o").mkdir()
    for target in targets:
        (files / target).write_text("what was there")
    before = contents(files)
    monkeypatch.setattr(pd.DataFrame, "to_csv", interrupted)
    monkeypatch.setattr(pd.DataFrame, "to_parquet", interrupted)
    monkeypatch.setattr(Figure, "savefig", interrupted)
    if command[0] in ("reproduce", "impute") or "--save" in command:
        monkeypatch.setattr(_files.os, "fsync", lambda _: signal.raise_signal(signal.SIGINT))
    done = run(*command, ok=False)
    assert (done.exit_code, "Error: interrupted" in done.stderr) == (2, True)
    assert contents(files) == before


def test_an_error_leaves_no_folder_behind(files, monkeypatch):
    monkeypatch.setattr(pd.DataFrame, "to_csv", interrupted)
    before = contents(files)
    run(*ATOMS, "--out", "new/o", "--save", "m.skops", ok=False)
    assert contents(files) == before
    assert not (files / "new").exists()


def test_a_full_disk_is_one_line_that_names_the_file(files, monkeypatch):
    def full(_):
        raise OSError(28, os.strerror(28))

    (files / "x.csv").write_text("what was there")
    monkeypatch.setattr(_files.os, "fsync", full)
    before = contents(files)
    for command in (
        [*REDUCE, "--out", "x.csv"],
        [*IMPUTE, "--out", "x.csv"],
        [*PAIRS, "--out", "x.csv"],
    ):
        assert run(*command, ok=False).stderr.endswith("No space left on device: 'x.csv'\n")
    assert "No space left on device: 'o/atoms.csv'" in run(*ATOMS, "--out", "o", ok=False).stderr
    assert contents(files) == before


# ---------------------------------------------------------------------- any table

READERS = [
    ([*REDUCE[:-1], "--check"], "--out", "x.csv"),
    (IMPUTE, "--out", "x.csv"),
    (ATOMS, "--out", "o"),
]


@pytest.mark.parametrize(("command", "option", "out"), READERS, ids=["reduce", "impute", "atoms"])
def test_parquet_on_standard_input_and_pipes(files, command, option, out):
    table = pd.read_csv(command[1])
    result = files / ("o/atoms.csv" if out == "o" else out)
    run(*command, option, out)
    expected = pd.read_csv(result)
    content = io.BytesIO()
    table.to_parquet(content)
    run(command[0], "-", *command[2:], option, out, input=content.getvalue())
    pd.testing.assert_frame_equal(pd.read_csv(result), expected, check_exact=False, rtol=1e-6)
    for name, sent in (("pipe.csv", (files / command[1]).read_bytes()), ("pipe", content.getvalue())):
        os.mkfifo(files / name)
        writer = threading.Thread(daemon=True, target=(files / name).write_bytes, args=(sent,))
        writer.start()
        run(command[0], name, *command[2:], option, out)
        writer.join(10)
        pd.testing.assert_frame_equal(pd.read_csv(result), expected, check_exact=False, rtol=1e-6)


def test_pairs_from_pipes(files):
    run(*PAIRS, "--out", "x.csv")
    expected = (files / "x.csv").read_text()
    writers = []
    for name in ("left", "right", "links", "new"):
        content = (files / f"{name}.csv").read_bytes()
        (files / f"{name}.csv").unlink()
        os.mkfifo(files / f"{name}.csv")
        writers.append(
            threading.Thread(daemon=True, target=(files / f"{name}.csv").write_bytes, args=(content,))
        )
        writers[-1].start()
    run(*PAIRS, "--out", "y.csv")
    assert (files / "y.csv").read_text() == expected
    for writer in writers:
        writer.join(10)


@pytest.mark.parametrize(
    ("command", "option", "out", "table"),
    [(ATOMS, "--out", "o", "atoms.csv"), (PAIRS, "--out", "x.csv", "left.csv")],
)
def test_other_encodings(files, command, option, out, table):
    for name in ("atoms.csv", "left.csv", "right.csv", "links.csv", "new.csv"):
        (files / name).write_bytes((files / name).read_text().encode("latin-1"))
    result = run(*command, option, out, ok=False)
    assert f"{table} is not UTF-8 text: line" in result.stderr
    assert result.stderr.rstrip().endswith("It looks like Latin-1; give --encoding latin-1")
    run(*command, option, out, "--encoding", "latin-1")
    assert "é" in (files / ("o/coefficients.csv" if out == "o" else out)).read_text(encoding="utf-8")


@pytest.mark.parametrize(("command", "option", "out"), READERS[:2], ids=["reduce", "impute"])
def test_utf16(files, command, option, out):
    run(*command, option, out)
    expected = (files / out).read_text()
    (files / command[1]).write_bytes((files / command[1]).read_text().encode("utf-16"))
    result = run(*command, option, out, ok=False)
    assert result.stderr == f"Error: {command[1]} is UTF-16 text, not UTF-8; give --encoding utf-16\n"
    run(*command, option, out, "--encoding", "utf-16")
    assert (files / out).read_text() == expected
    assert (
        "--encoding klingon is not an encoding"
        in run(*command, option, out, "--encoding", "klingon", ok=False).stderr
    )


def test_encoding_is_refused_where_nothing_is_text(files):
    for name in ("left", "right", "links", "new", "reduce"):
        pd.read_csv(files / f"{name}.csv").to_parquet(files / f"{name}.parquet")
    mixed = [name.replace("right.csv", "right.parquet") for name in PAIRS]
    run(*mixed, "--out", "x.csv", "--encoding", "utf-8")
    none = [name.replace(".csv", ".parquet") for name in PAIRS]
    assert (
        "--encoding utf-8 is about text" in run(*none, "-o", "x.csv", "--encoding", "utf-8", ok=False).stderr
    )
    arguments = ["reduce", "reduce.parquet", *REDUCE[2:], "--encoding", "utf-8"]
    assert "--encoding utf-8 is about text" in run(*arguments, ok=False).stderr


@pytest.mark.parametrize(("command", "option", "out"), READERS, ids=["reduce", "impute", "atoms"])
def test_headers_of_any_length_and_names_that_stand_twice(files, command, option, out):
    long = "b" * 200_000
    text = (files / command[1]).read_text()
    (files / command[1]).write_text(text.replace(",b,", f",{long},", 1))
    run(*command, option, out)
    (files / command[1]).write_text(text.replace(",b,", ",a,", 1))
    assert "column names that stand twice: 'a'" in run(*command, option, out, ok=False).stderr


def test_names_that_stand_twice_in_pairs(files):
    (files / "right.csv").write_text((files / "right.csv").read_text().replace(",f1,", ",f0,", 1))
    assert "right.csv: column names that stand twice: 'f0'" in run(*PAIRS, "-o", "x.csv", ok=False).stderr


# ---------------------------------------------------------------------- what is written


def test_formulas_are_left_as_they_are_and_the_help_says_so(files):
    for command, column in ((REDUCE, "id"), (IMPUTE, "id"), (PAIRS, "left")):
        run(*command, "--out", "x.csv")
        assert pd.read_csv("x.csv")[column].str.startswith("=").all()
    for command in ("reduce", "impute", "atoms", "pairs"):
        text = " ".join(run(command, "--help").stdout.split())
        assert "also those that a spreadsheet would run as a formula" in text
        assert "--encoding NAME" in text


@pytest.mark.parametrize("method", ["joint", "stein"])
def test_a_reduction_of_columns_without_gaps_refuses_them(files, method):
    run(*REDUCE, "--method", method, "--save", "m.skops")
    table = pd.read_csv("reduce.csv")
    table.loc[3, "b"] = np.nan
    table.to_csv("reduce.csv", index=False)
    done = run("apply", "m.skops", "reduce.csv", "--out", "e.csv", ok=False)
    assert "missing values in X in 1 column(s): 'b' (1)" in done.stderr
    with pytest.raises(ValueError, match="NaN"):
        load("m.skops").transform(table[list("abcd")])


def test_saved_pairs_refuse_gaps_as_their_fit_did(files):
    run(*PAIRS, "--out", "x.csv", "--save", "m.skops")
    new = pd.read_csv("new.csv", index_col="left")
    ranked = load("m.skops").rank(new, k=15)
    assert ranked["right"].tolist() == pd.read_csv("x.csv")["right"].tolist()
    new.iloc[2, 1] = np.nan
    new.to_csv("new.csv")
    assert "--impute fills them" in run(*PAIRS, "--out", "x.csv", ok=False).stderr
    told = run("apply", "m.skops", "new.csv", "--top", "5", "--out", "x.csv", ok=False).stderr
    assert (
        told
        == "Error: the table contains NaN: 1 values of 1 entities, e.g. '=é2'. colspace impute fills them.\n"
    )
    with pytest.raises(ValueError, match="CopulaImputer can fill them"):
        load("m.skops").rank(new, k=15)


def test_help_loads_no_library():
    code = (
        "import sys; from click.testing import CliRunner; from colspace.cli._group import colspace; "
        "assert not [CliRunner().invoke(colspace, [*c, '--help']).exit_code for c in ([], ['reduce'], ['pairs'])][0]; "
        "print(sorted({'numpy', 'scipy', 'sklearn', 'pandas', 'pyarrow', 'skops'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
@pytest.mark.parametrize("output", ["--out -", "--json - --out e.csv", "--out e.csv"])
def test_a_reader_that_leaves_early_changes_nothing(files, output):
    """As head does: no error, and all other files are written."""
    program = f"{sys.executable} -c 'from colspace.cli import main; main()'"
    line = f"{program} {' '.join(REDUCE)} {output} --save m.skops"
    shell = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line} | python3 -c 'import os; os.close(0)'"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert "Broken pipe" not in shell.stderr
    assert shell.returncode == 0, shell.stderr
    assert (files / "m.skops").exists()
    assert (files / "e.csv").exists() == ("e.csv" in output)


def test_a_process_ends_at_once_where_arrow_was_used(files):
    """What must happen at an end happens: output is flushed, functions of atexit run, the code is the command's."""
    code = (
        "import atexit, sys; atexit.register(lambda: print('last'));"
        "from colspace.cli import main; sys.argv = ['colspace', *sys.argv[1:]]; main()"
    )
    for command, expected in (
        (["look", "reduce.csv"], 0),
        (["reduce", "reduce.csv", "-y", "nothing"], 2),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *command], check=False, capture_output=True, text=True
        )
        assert done.returncode == expected, done.stderr
        assert done.stdout.endswith("last\n")
