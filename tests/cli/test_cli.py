import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace import JointReduction, __version__, compare_reductions
from colspace.cli import _check
from colspace.cli._group import colspace
from colspace.cli._report import why_so_many
from colspace.cli._words import in_options
from colspace.datasets import make_bilinear
from colspace.experiments import jdr_fig3
from colspace.io import load
from colspace.quality import default_reducers

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


def run(*arguments, code=0, check=False, **kw):
    quick = ["--no-check"] if arguments[0] == "reduce" and not check else []
    result = CliRunner().invoke(colspace, [*map(str, arguments), *quick], **kw)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def blocks():
    return [part for name, pattern in BLOCKS.items() for part in ("--block", f"{name}={pattern}")]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_reduce_equals_the_library(files, frame, name):
    X = frame.drop(columns=["y", "z"])
    model = JointReduction(2, blocks=BLOCKS).fit(X, frame["y"])
    source = files / name
    table = (
        frame.drop(columns="z")
        if name.endswith("parquet")
        else frame.drop(columns="z").reset_index(drop=True)
    )
    (table.to_parquet if name.endswith("parquet") else lambda p: table.to_csv(p, index=False))(source)
    out = files / "e.parquet"
    result = run(
        "reduce",
        source,
        "--response",
        "y",
        *blocks(),
        "--out",
        out,
        "--save",
        files / "m.skops",
        "--json",
        "-",
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
    options = [
        "--whiten",
        "diagonal",
        "--select",
        "3",
        "--moments",
        "linear, joint",
        "-r",
        "1",
        "--json",
        "-",
    ]
    result = run("reduce", files / "t.csv", "-y", "z", *blocks(), "--drop-rest", *options)
    model = JointReduction(
        1,
        blocks={**BLOCKS, "drop": "*"},
        whiten="diagonal",
        n_selected=3,
        moments=("linear", "joint"),
    ).fit(frame.drop(columns="z"), frame["z"])
    report = json.loads(result.stdout)
    for block, entry in report["blocks"].items():
        assert entry["selected"] == 3
        assert {f["feature"] for f in entry["components"][0]} == {
            model.feature_names_in_[i] for i in model.selected_[block]
        }


def test_reduce_components_by_rule(files):
    for rule in ("auto", "moments", "threshold"):
        options = ["-r", rule, "--shrinkage", "0", "--json", "-"]
        result = run("reduce", files / "t.csv", "-y", "y", *blocks(), "--drop-rest", *options)
        assert json.loads(result.stdout)["n_components"] == 2


def test_reduce_says_why_so_many_components(files):
    arguments = ("reduce", files / "t.csv", "-y", "y", *blocks(), "--drop-rest", "-r", "auto")
    report = json.loads(run(*arguments, "--json", "-").stdout)
    assert {len(v) for v in report["component_scores"].values()} == {6}
    line = next(s for s in run(*arguments).stdout.splitlines() if "directions per block" in s)
    assert line.startswith("2 directions per block: R2 0.")
    assert line.endswith(("the best of 1 to 5", "within its error or 1 %"))
    table = pd.read_csv(files / "t.csv").drop(columns=["y", "z"])
    table.assign(y=np.random.default_rng(0).standard_normal(len(table))).to_csv(files / "n.csv", index=False)
    for method in ("joint", "stein"):
        noise = run("reduce", files / "n.csv", "-y", "y", "--method", method, "-r", "auto")
        assert "1 direction per block: no number predicts rows left out better than the mean" in noise.stdout
        assert "Warning: no direction improves the prediction" in noise.stderr


def test_why_so_many():
    scores = {"score": [0.0, 0.5, 0.505], "error": [0.1, 0.1, 0.2], "difference_error": [0.1, 0.01, 0.0]}
    report = {"n_components": 1, "component_scores": scores, "response_taken_as": "labels, 3 classes"}
    assert why_so_many(report) == (
        "1 direction per block: R2 0.500 ± 0.100 of the labels' indicators on rows left out, as good as 2, the best "
        "(R2 0.505 ± 0.200), within its error or 1 %"
    )
    scores["score"][2] = 0.4
    assert "the best of 1 to 2" in why_so_many({**report, "response_taken_as": "numeric"})
    few = {**report, "component_scores": {"score": [], "error": []}}
    assert why_so_many(few).endswith("too few rows to compare numbers on rows left out")


def test_reduce_warnings_are_lines_on_stderr(files):
    table = pd.read_csv(files / "t.csv").drop(columns="z").assign(g_9=1.0)
    table.to_csv(files / "c.csv", index=False)
    result = run("reduce", files / "c.csv", "-y", "y", *blocks(), "--json", "-")
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
        (["t.csv", "-y", "y", "-b", "genes=g_*", "--drop", "z"], "on purpose with --drop-rest"),
        (["named.csv", "-y", "y"], "1 column(s) are not numbers: 'patient' (e.g. 'p0')"),
        (["named.csv", "-y", "y"], "Leave them out: --drop patient; or carry them along with --id"),
        (["t.csv", "-y", "y", "--drop", "q"], "--drop: no column is called 'q'"),
        (["t.csv", "-y", "y", "--drop", "q*"], "--drop matches no column"),
        (["t.csv", "-y", "y", "--drop", "*"], "no columns are left"),
        (["t.csv", "-y", "y", "--id", "q"], "no column is called 'q'"),
        (["t.csv", "-y", "y", "--drop", "z", "-r", "11"], "--components 11 is more than the 10 columns"),
        (["t.csv", "-y", "y", "--drop", "z", "--select", "3"], "use --whiten diagonal (or none)"),
        (["t.csv", "-y", "y", "--drop", "z", "--moments", "odd"], "--moments odd: choose 'auto', 'all'"),
        (["t.csv", "-y", "y", "--drop", "z", "--moments", "odd, joint"], "--moments odd,joint: choose"),
        (["t.csv", "-y", "y", "--drop", "z", "--shrinkage", "2"], "Error: --shrinkage must be a float"),
        (["t.csv", "-y", "z", "--drop", "y", "--rank-response"], "--rank-response needs numbers"),
        (["few.csv", "-y", "y", "--shrinkage", "0"], "Remedies: --shrinkage auto"),
        (["none.csv", "-y", "y", "-o", "no/e.csv"], "make the directory first"),
        (["none.csv", "-y", "y", "-o", "e.xlsx"], "unknown kind of table"),
        (["none.csv", "-y", "y", "--save", "no/m.skops"], "no/m.skops cannot be written"),
    ],
)
def test_reduce_bad_input_is_one_line(files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    pd.read_csv("t.csv", nrows=8).drop(columns="z").to_csv("few.csv", index=False)
    pd.read_parquet("t.parquet").reset_index().to_csv("named.csv", index=False)
    result = run("reduce", *arguments, code=2)
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr


def test_reduce_rows_without_a_response_are_embedded_and_not_fitted(files):
    table = pd.read_csv(files / "t.csv").drop(columns="z")
    table.loc[[3, 7], "y"] = np.nan
    table.loc[7, "g_1"] = np.nan  # only there
    table.to_csv(files / "gap.csv", index=False)
    done = run("reduce", files / "gap.csv", "-y", "y", "-o", files / "e.csv", "--json", files / "f.json")
    assert "Note: 2 rows without a response: embedded, but no part of the fit" in done.stderr
    assert json.loads((files / "f.json").read_text())["rows"] == len(table) - 2
    found = pd.read_csv(files / "e.csv")
    assert found["y"].isna().sum() == 2
    labelled = table.dropna(subset=["y"])
    model = JointReduction(2, random_state=0).fit(labelled.drop(columns="y"), labelled["y"])
    whole = table.drop(index=7)
    expected = model.transform(whole.drop(columns="y"))
    np.testing.assert_allclose(found.drop(index=7).iloc[:, :2], expected, rtol=1e-9)
    table.assign(y=np.nan).to_csv(files / "gap.csv", index=False)
    result = run("reduce", files / "gap.csv", "-y", "y", code=2)
    assert "no row has a value in 'y', the response; name another column" in result.stderr


def test_reduce_infinite_cells_are_counted_in_one_line(files):
    table = pd.read_csv(files / "t.csv").drop(columns="z")
    table.loc[3:5, "g_1"] = np.inf
    table.loc[7, "d_0"] = -np.inf
    table.to_csv(files / "gap.csv", index=False)
    result = run("reduce", files / "gap.csv", "-y", "y", code=2)
    assert result.stderr.startswith(
        "Error: infinite values in X in 2 column(s): 'g_1' (3), 'd_0' (1); give --na inf"
    )
    assert len(result.stderr.strip().splitlines()) == 1
    run("reduce", files / "gap.csv", "-y", "y", "--drop", "g_1", "--drop", "d_[0-1]")


def test_reduce_drops_and_carries_columns(files):
    table = pd.read_csv(files / "t.csv").assign(code=lambda t: [f"{i:04d}" for i in t.index], note="x")
    table.to_csv(files / "t2.csv", index=False)
    arguments = ["-y", "y", "--id", "code", "--id", "z", "--drop", "no*", "--drop", "d_*", "-r", "1"]
    run("reduce", files / "t2.csv", *arguments, "-o", files / "e.csv", "--save", files / "m.skops")
    found = pd.read_csv(files / "e.csv", dtype={"code": str})
    assert found.columns.tolist() == ["code", "z", "jointreduction0", "y"]
    assert found["code"].tolist() == table["code"].tolist()
    model = load(files / "m.skops")
    assert model.feature_names_in_.tolist() == [f"g_{i}" for i in range(5)]
    assert model.random_state == 0


def test_reduce_keeps_rows_with_equal_index(files, frame):
    table = frame.drop(columns="z").set_axis(["p"] * len(frame), axis=0)
    table.to_parquet(files / "same.parquet")
    run("reduce", files / "same.parquet", "-y", "y", "-o", files / "e.parquet")
    assert len(pd.read_parquet(files / "e.parquet")) == len(frame)
    table.rename(columns={"y": "x__0"}).to_parquet(files / "clash.parquet")
    arguments = ["-y", "x__0", "-b", "x=*", "-o", files / "e.parquet"]
    assert "rename that of the table" in run("reduce", files / "clash.parquet", *arguments, code=2).stderr


def test_reduce_is_the_same_for_the_same_seed(files):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.standard_normal((60, 500)), columns=[f"c{i}" for i in range(500)])
    wide.assign(y=wide["c0"]).to_parquet(files / "wide.parquet")
    options = ["-y", "y", "-r", "1", "--whiten", "diagonal", "--solver", "randomized", "--json", "-"]
    first, again, other = (
        run("reduce", files / "wide.parquet", *options, "--seed", seed).stdout for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other


def test_reduce_solver_reaches_the_estimator(files):
    options = ["--drop", "z", "--solver", "randomized", "--seed", "3", "--save", files / "m.skops"]
    run("reduce", files / "t.csv", "-y", "y", *options)
    model = load(files / "m.skops")
    assert (model.solver_, model.random_state, model.response) == ("randomized", 3, None)


def test_reduce_heavy_tails_name_the_option(files):
    table = pd.read_csv(files / "t.csv").drop(columns="z")
    table["y"] = np.sinh(4 * table["y"])
    table.to_csv(files / "heavy.csv", index=False)
    result = run("reduce", files / "heavy.csv", "-y", "y")
    assert "Warning: the response is heavy-tailed" in result.stderr
    assert result.stderr.rstrip().endswith("Remedies: --rank-response")
    result = run("reduce", files / "heavy.csv", "-y", "y", "--rank-response")
    assert result.stderr == ""
    assert "response y (numeric, by rank)" in result.stdout


@pytest.mark.parametrize(
    ("response", "other", "kind"), [("y", "z", "numeric"), ("z", "y", "labels, 2 classes")]
)
def test_reduce_says_how_the_response_was_taken(files, response, other, kind):
    arguments = ["reduce", files / "t.csv", "-y", response, "--drop", other]
    assert f"response {response} ({kind})" in run(*arguments).stdout
    assert json.loads(run(*arguments, "--json", "-").stdout)["response_taken_as"] == kind


def test_reduce_numbers_as_classes(files):
    table = pd.read_csv(files / "t.csv").drop(columns="z")
    table["y"] = np.digitize(table["y"], table["y"].quantile([0.3, 0.6]))
    table.to_csv(files / "codes.csv", index=False)
    assert "labels, 3 classes" in run("reduce", files / "codes.csv", "-y", "y", "--labels").stdout
    assert "(numeric)" in run("reduce", files / "codes.csv", "-y", "y").stdout


def test_reduce_a_messy_file(files, frame):
    table = frame.reset_index().rename(columns={"patient": "patient id", "g_0": " g_0", "z": " z "})
    table.drop(columns="y").to_csv(files / "messy.csv", sep=";", decimal=",", index=False)
    arguments = ["-y", "z", "--id", "patient id", *blocks(), "-o", files / "e.csv"]
    result = run("reduce", files / "messy.csv", *arguments)
    assert "columns are separated at ';' and ',' is the decimal mark" in result.stderr
    assert "spaces around 2 column name(s) are left out" in result.stderr
    assert "Note: " in result.stderr
    model = JointReduction(2, blocks=BLOCKS).fit(frame.drop(columns=["y", "z"]), frame["z"].to_numpy())
    found = pd.read_csv(files / "e.csv", index_col="patient id")
    assert_allclose(
        found.drop(columns="z"), model.transform(frame.drop(columns=["y", "z"])), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize(
    ("library", "options"),
    [
        ("use solver='exact', or n_components='auto'", "use --solver exact, or --components auto"),
        ("shrinkage=0.5 and n_selected=3.", "--shrinkage 0.5 and --select 3."),
        (
            "whiten=None; use whiten='diagonal' instead of None",
            "--whiten none; use --whiten diagonal instead of none",
        ),
        ("moments=('linear',): no", "--moments linear: no"),
        (
            "lower n_components. See rank_test for a p-value",
            "lower --components. See --rank-test for a p-value",
        ),
        ("4 columns of X (n_features = 4); lower", "4 columns of X; lower"),
        ("no column is called 'n_components'", "no column is called 'n_components'"),
    ],
)
def test_messages_speak_of_options(library, options):
    assert in_options(library) == options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t.csv"], "Missing option '-y'"),
        (["t.csv", "-y", "y", "-b", "genes"], "NAME=COLUMNS"),
        (["t.csv", "-y", "y", "-b", "drop=g_*"], "--drop-rest"),
        (["t.csv", "-y", "y", "-r", "many"], "neither a whole number nor one of auto, moments, threshold"),
        (["t.csv", "-y", "y", "--whiten", "some"], "some"),
        (["t.csv", "-y", "y", "--json", "-", "-o", "-"], "choose one"),
        (["t.csv", "-y", "y", "--drop-rest"], "needs --block"),
        (["t.csv", "-y", "y", "-y", "y"], "'y' is given twice"),
        (["t.csv", "-y", "y", "--id", "z", "--id", "z"], "'z' is given twice"),
        (["t.csv", "-y", "y", "--id", "y"], "'y' is given as --response and as --id"),
        (["t.csv", "-y", "y", "--solver", "some"], "some"),
        (["t.csv", "-y", "y", "--seed", "-1"], "-1"),
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
    assert "no command is called 'expand'" in run("expand", code=2).stderr


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "colspace", "--version"], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"colspace {__version__}"


def test_without_the_extra_the_entry_point_says_so():
    code = "import sys; sys.modules['click'] = None; from colspace.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert result.returncode == 2
    assert (
        result.stderr.strip()
        == "colspace: the command line needs click and rich: pip install 'colspace[cli]'"
    )


def test_defaults_are_those_of_the_library(files):
    run("reduce", files / "t.csv", "-y", "y", "--drop", "z", "--save", files / "m.skops")
    found, own = load(files / "m.skops").get_params(), JointReduction().get_params()
    assert (found.pop("random_state"), own.pop("random_state")) == (0, None)  # the same in the default
    assert found == own
    run("reduce", files / "t.csv", "-y", "y", "--drop", "z", "--moments", "all", "--save", files / "m.skops")
    assert load(files / "m.skops").moments == "all"


def test_loadings_are_per_standard_deviation(files):
    table = pd.read_csv(files / "t.csv").drop(columns="z")
    table["g_0"] *= 1000
    table.to_csv(files / "units.csv", index=False)
    options = ["-y", "y", "--json", "-", "--save", files / "m.skops"]
    report = json.loads(run("reduce", files / "units.csv", *options).stdout)
    model = load(files / "m.skops")
    (entry,) = report["blocks"].values()
    for k, component in enumerate(entry["components"]):
        shown = {f["feature"]: f["standardised"] for f in component}
        expected = model.components_[k] * model.scale_
        assert_allclose([shown[n] for n in model.feature_names_in_], expected)
    assert report["parts"] == pytest.approx(model.parts_)
    assert entry["ridge"] == model.ridge_["x"]


def test_reduce_is_checked_on_rows_left_out(files, frame):
    frame = frame.iloc[:300]
    frame.to_csv(files / "t.csv", index=False)
    arguments = ["reduce", files / "t.csv", "-y", "y", *blocks(), "--drop-rest"]
    quality = json.loads(run(*arguments, "--json", "-", check=True).stdout)["quality"]
    reducers = {"joint reduction": JointReduction(), **dict(list(default_reducers().items())[1:])}
    found = compare_reductions(
        frame.drop(columns=["y", "z"]), frame["y"], blocks=BLOCKS, n_components=(1, 2), reducers=reducers
    )
    assert quality["sentence"] == found.sentence
    assert quality["sentence"].startswith("With 2 directions per block joint reduction reads y with R2")
    assert [row["method"] for row in quality["scores"]] == [row.method for row in found.rows]
    assert_allclose([row["score"] for row in quality["scores"]], [row.score for row in found.rows], rtol=1e-6)
    assert quality["scores"][0]["difference"] is None
    assert (quality["rows"], quality["sample_of"], quality["folds"]) == (300, None, 5)
    assert "quality" not in json.loads(run(*arguments, "--json", "-").stdout)


def test_the_check_finds_no_errors_of_directions(files, monkeypatch):
    """They take as long as the directions, and no score has a use for them."""
    fit, groups = JointReduction.fit, []
    monkeypatch.setattr(JointReduction, "fit", lambda m, *a: fit(groups.append(m.n_groups) or m, *a))
    pd.read_csv(files / "t.csv").iloc[:100].to_csv(files / "t.csv", index=False)
    run("reduce", files / "t.csv", "-y", "y", *blocks(), "--drop-rest", check=True)
    assert groups[0] == 20
    assert set(groups[1:]) == {None}
    assert default_reducers()["joint reduction"].n_groups is None


def test_the_check_takes_a_sample_and_sees_noise(files, monkeypatch):
    monkeypatch.setattr(_check, "MOST_ROWS", 60)
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(rng.standard_normal((90, 3)), columns=["a", "b", "c"])
    noise.assign(y=rng.choice(["ill", "well"], 90)).to_csv(files / "noise.csv", index=False)
    text = run("reduce", files / "noise.csv", "-y", "y", "-r", 1, check=True).stdout
    for words in ("a sample of 60 of 90 rows", "all columns", "no columns", "take the loadings as noise"):
        assert words in " ".join(text.split())


def test_the_check_says_why_there_is_none(files):
    pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [1.0, 0.0, 0.5], "y": [1.0, 2.5, 3.0]}).to_csv(
        files / "s.csv", index=False
    )
    text = run("reduce", files / "s.csv", "-y", "y", "-r", 1, check=True).stdout
    assert "no check on rows left out: " in text


def test_the_response_has_its_own_name_in_every_message(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((60, 3)), columns=list("abc"))
    table["pressure"] = table["a"] + 0.1 * rng.standard_normal(60)
    table["stage"] = np.where(table["a"] > 0, "late", "early")
    table.assign(copy=2 * table["pressure"]).to_csv(tmp_path / "copy.csv", index=False)
    table.assign(pressure=1.0).to_csv(tmp_path / "flat.csv", index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ["-y", "pressure", "--drop", "stage"]
    said = run("reduce", tmp_path / "t.csv", *options, check=True)
    assert "joint reduction reads pressure with R2" in said.stdout
    assert (
        "joint reduction reads stage with"
        in run("reduce", tmp_path / "t.csv", "-y", "stage", check=True).stdout
    )
    said = run("reduce", tmp_path / "copy.csv", *options)
    assert "column 'copy' determines the response. Directions" in said.stderr
    assert "if it is the response in other words" in said.stderr
    said = run("reduce", tmp_path / "flat.csv", *options, code=2)
    assert said.stderr.startswith("Error: the response is constant: no direction can matter for it")
