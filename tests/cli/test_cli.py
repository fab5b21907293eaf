import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace import JointReduction, __version__
from colspace.cli._group import colspace
from colspace.datasets import make_bilinear
from colspace.experiments import jdr_fig3
from colspace.io import load

BLOCKS = {"genes": "g_*", "diet": "d_*"}


@pytest.fixture(scope="module")
def frame():
    X, y, _, _ = make_bilinear(800, 5, 2, rng=0)
    table = pd.DataFrame(X, columns=[f"g_{i}" for i in range(5)] + [f"d_{i}" for i in range(5)])
    table["y"], table["z"] = y, np.where(y > 0, "ill", "well")
    table.index = pd.Index([f"p{i}" for i in range(len(table))], name="patient")
    return table


@pytest.fixture
def files(tmp_path, frame):
    frame.to_parquet(tmp_path / "t.parquet")
    frame.reset_index(drop=True).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def run(*arguments, code=0, **kw):
    result = CliRunner().invoke(colspace, [str(a) for a in arguments], **kw)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def blocks():
    return [part for name, pattern in BLOCKS.items() for part in ("--block", f"{name}={pattern}")]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_reduce_equals_the_library(files, frame, name):
    X = frame.drop(columns=["y", "z"])
    model = JointReduction(2, blocks=BLOCKS, shrinkage="auto").fit(X, frame["y"])
    source = files / name
    table = (
        frame.drop(columns="z")
        if name.endswith("parquet")
        else frame.drop(columns="z").reset_index(drop=True)
    )
    (table.to_parquet if name.endswith("parquet") else lambda p: table.to_csv(p, index=False))(source)
    out = files / "e.parquet"
    result = run(
        "reduce", source, "--response", "y", *blocks(), "--out", out, "--model", files / "m.skops", "--json"
    )
    report = json.loads(result.stdout)
    assert report["rows"] == 800
    assert report["n_components"] == 2
    for block, entry in report["blocks"].items():
        assert entry["columns"] == 5
        assert_allclose(
            entry["singular_values"], model.singular_values_[block][: len(entry["singular_values"])]
        )
        for k, component in enumerate(entry["components"]):
            found = {f["feature"]: f["loading"] for f in component}
            names = [c for c in X if c.startswith(block[0] + "_")]
            assert_allclose([found[n] for n in names], model.loadings_[block][:, k], rtol=1e-9)
            sizes = [abs(f["standardised"]) for f in component]
            assert sizes == sorted(sizes, reverse=True)
    embedding = pd.read_parquet(out)
    assert embedding.columns.tolist() == ["genes__0", "genes__1", "diet__0", "diet__1", "y"]
    assert_allclose(embedding.iloc[:, :4], model.transform(X), rtol=1e-7, atol=1e-9)
    pd.testing.assert_series_equal(embedding["y"], table["y"])
    pd.testing.assert_index_equal(embedding.index, table.index)
    assert_allclose(load(files / "m.skops").transform(X), embedding.iloc[:, :4], rtol=1e-7, atol=1e-9)


def test_reduce_prints_a_table(files):
    out = files / "e.csv"
    arguments = ["-y", "y", "-y", "z2", *blocks(), "--drop-rest", "-r", "1", "--rank-test", "-o", out]
    table = pd.read_csv(files / "t.csv").assign(z2=lambda t: t["y"] ** 2)
    table.drop(columns="z").to_csv(files / "t2.csv", index=False)
    text = run("reduce", files / "t2.csv", *arguments).stdout
    for word in ("genes", "diet", "g_", "permutation test", "wrote embedding"):
        assert word in text
    assert pd.read_csv(out).columns.tolist() == ["genes__0", "diet__0", "y", "z2"]


def test_reduce_reads_and_writes_standard_streams(files):
    text = (files / "t.csv").read_text()
    result = run("reduce", "-", "-y", "y", *blocks(), "--drop-rest", "--out", "-", input=text)
    assert result.stdout.splitlines()[0] == "genes__0,genes__1,diet__0,diet__1,y"
    assert len(result.stdout.splitlines()) == 801


def test_reduce_labels_selection_and_moments(files, frame):
    options = ["--whiten", "diagonal", "--select", "3", "--moments", "linear,joint", "-r", "1", "--json"]
    result = run("reduce", files / "t.csv", "-y", "z", *blocks(), "--drop-rest", *options)
    model = JointReduction(
        1,
        blocks={**BLOCKS, "drop": "*"},
        whiten="diagonal",
        n_selected=3,
        moments=("linear", "joint"),
        shrinkage="auto",
    ).fit(frame.drop(columns="z"), frame["z"])
    report = json.loads(result.stdout)
    for block, entry in report["blocks"].items():
        assert entry["selected"] == 3
        assert {f["feature"] for f in entry["components"][0]} == {
            model.feature_names_in_[i] for i in model.selected_[block]
        }


def test_reduce_components_by_rule(files):
    for rule in ("auto", "threshold"):
        options = ["-r", rule, "--shrinkage", "0", "--json"]
        result = run("reduce", files / "t.csv", "-y", "y", *blocks(), "--drop-rest", *options)
        assert json.loads(result.stdout)["n_components"] == 2


def test_reduce_warnings_are_lines_on_stderr(files):
    table = pd.read_csv(files / "t.csv").drop(columns="z").assign(g_9=1.0)
    table.to_csv(files / "c.csv", index=False)
    result = run("reduce", files / "c.csv", "-y", "y", *blocks(), "--json")
    assert json.loads(result.stdout)["rows"] == 800
    assert "Warning: 1 constant column(s)" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "-y", "y"], "none.csv does not exist"),
        (["t.xlsx", "-y", "y"], "unknown kind of table"),
        (["t.csv", "-y", "nope"], "no column is called 'nope'. Columns: 'g_0'"),
        (["t.csv", "-y", "y", "-b", "genes=g_*"], "columns are in no block"),
        (["t.csv", "-y", "y", "-b", "x=q_*", "--drop-rest"], "matches no column"),
        (["t.csv", "-y", "y"], "columns that are not numbers: 'z'"),
        (["t.csv", "-y", "y", "-b", "x=g_*", "--drop-rest", "-r", "9"], "n_components=9"),
        (["t.csv", "-y", "y", "-b", "x=g_*", "--drop-rest", "--select", "3"], "use whiten='diagonal'"),
        (["t.csv", "-y", "y", "-b", "x=g_*", "--drop-rest", "--moments", "odd"], "odd"),
        (["t.csv", "-y", "y", "-b", "x=g_*", "--drop-rest", "--shrinkage", "2"], "shrinkage"),
        (["t.csv", "-y", "y", "-b", "x=g_*", "--drop-rest", "-o", "no/e.csv"], "make the directory first"),
    ],
)
def test_reduce_bad_input_is_one_line(files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    result = run("reduce", *arguments, code=1)
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr


def test_reduce_missing_response_values(files):
    table = pd.read_csv(files / "t.csv").drop(columns="z")
    table.loc[3, "y"] = np.nan
    table.to_csv(files / "gap.csv", index=False)
    result = run("reduce", files / "gap.csv", "-y", "y", code=1)
    assert "1 missing value(s) in the response 'y'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t.csv"], "Missing option '-y'"),
        (["t.csv", "-y", "y", "-b", "genes"], "NAME=PATTERN"),
        (["t.csv", "-y", "y", "-b", "drop=g_*"], "--drop-rest"),
        (["t.csv", "-y", "y", "-r", "many"], "neither a whole number nor one of auto, threshold"),
        (["t.csv", "-y", "y", "--whiten", "some"], "some"),
        (["t.csv", "-y", "y", "--json", "-o", "-"], "choose one"),
    ],
)
def test_reduce_wrong_use_exits_with_2(files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    result = run("reduce", *arguments, code=2)
    assert message in " ".join(result.stderr.split())


def test_reproduce_lists_and_runs(tmp_path, monkeypatch):
    assert "jdr-fig5" in run("reproduce").stdout
    monkeypatch.setattr(jdr_fig3, "ROWS", {True: (200, 400)})
    monkeypatch.setattr(jdr_fig3, "REPETITIONS", {True: 1})
    monkeypatch.setattr(jdr_fig3, "WIDTH", 6)
    text = run("reproduce", "jdr-fig3", "--quick", "--out", tmp_path, "--seed", "3").stdout
    assert "slope" in text
    assert f"{tmp_path / 'jdr-fig3.png'}" in text.replace("\n", "")
    assert (tmp_path / "jdr-fig3.png").is_file()
    assert (tmp_path / "jdr-fig3.csv").is_file()
    assert "choose from jdr-fig1" in run("reproduce", "fig9", code=2).stderr


@pytest.mark.parametrize("arguments", [[], ["reduce"], ["reproduce"]])
def test_help_of_every_command(arguments):
    text = run(*arguments, "--help").stdout
    assert text.startswith("Usage: colspace")
    for option in {"reduce": ["--rank-test", "--drop-rest"], "reproduce": ["--quick"]}.get(
        "".join(arguments), []
    ):
        assert option in text


def test_version_and_unknown_command():
    assert run("--version").stdout.strip() == f"colspace {__version__}"
    assert "No such command" in run("expand", code=2).stderr


def test_without_the_extra_the_entry_point_says_so():
    code = "import sys; sys.modules['click'] = None; from colspace.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert result.returncode == 1
    assert (
        result.stderr.strip()
        == "colspace: the command line needs click and rich: pip install 'colspace[cli]'"
    )
