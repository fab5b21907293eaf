import json
import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace import SteinReduction
from colspace.cli._group import colspace
from colspace.cli._words import in_options
from colspace.datasets import make_multiple_response
from colspace.io import load

COLUMNS = [f"x{i}" for i in range(6)]


@pytest.fixture(scope="module")
def frame():
    X, Y, _ = make_multiple_response(400, 6, 4, 2, links="linear", rng=0)
    table = pd.DataFrame(X, columns=COLUMNS)
    table["u"], table["v"] = Y[:, 0], Y[:, 1]
    table["kind"] = np.where(Y[:, 0] > 1, "high", np.where(Y[:, 1] > 0, "right", "left"))
    return table


def run(*arguments, code=0, check=False, **kw):
    quick = [] if check else ["--no-check"]
    result = CliRunner().invoke(colspace, ["reduce", *map(str, arguments), *quick], **kw)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def written(frame, path, drop):
    frame.drop(columns=drop).to_csv(path, index=False)
    return path


def test_stein_equals_the_library(tmp_path, frame):
    table = written(frame, tmp_path / "t.csv", ["kind"])
    out, file = tmp_path / "e.parquet", tmp_path / "m.skops"
    options = ["--method", "stein", "-y", "u", "-y", "v", "--json", "-", "-o", out, "--save", file]
    report = json.loads(run(table, *options).stdout)
    model = SteinReduction(2, random_state=0).fit(frame[COLUMNS], frame[["u", "v"]])
    assert report["rows"] == report["labelled_rows"] == 400
    assert report["score"] == "GaussianScore"
    assert report["unlabelled_weight"] == 0.0
    (entry,) = report["blocks"].values()
    assert_allclose(entry["singular_values"], model.singular_values_)
    for k, component in enumerate(entry["components"]):
        found = {f["feature"]: f["loading"] for f in component}
        assert_allclose([found[c] for c in COLUMNS], model.components_[k], rtol=1e-9)
    embedding = pd.read_parquet(out)
    assert embedding.columns.tolist() == ["steinreduction0", "steinreduction1", "u", "v"]
    assert_allclose(embedding.iloc[:, :2], model.transform(frame[COLUMNS]), rtol=1e-7, atol=1e-9)
    assert_allclose(load(file).components_, model.components_)


@pytest.mark.parametrize("order", ["1", "2", "both"])
def test_order_reaches_the_estimator(tmp_path, frame, order):
    table = written(frame, tmp_path / "t.csv", ["v", "kind"])
    options = ["--method", "stein", "--order", order, "-y", "u", "-r", "1", "--json", "-"]
    report = json.loads(run(table, *options).stdout)
    model = SteinReduction(1, order=order if order == "both" else int(order)).fit(frame[COLUMNS], frame["u"])
    (entry,) = report["blocks"].values()
    assert_allclose(entry["singular_values"], model.singular_values_)


def test_rows_with_a_missing_response_are_unlabelled(tmp_path, frame):
    partly = frame.drop(columns=["u", "v"])
    partly.loc[partly.index[100:], "kind"] = None
    table = written(partly, tmp_path / "t.csv", [])
    out = tmp_path / "e.csv"
    text = run(table, "--method", "stein", "-y", "kind", "-o", out).stdout
    assert "400 rows (100 labelled), response kind (labels, 3 classes)" in text
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no gap after component", UserWarning)  # the table is made up
        model = SteinReduction(2).fit(partly[COLUMNS], partly["kind"].to_numpy())
    embedding = pd.read_csv(out)
    assert_allclose(embedding.iloc[:, :2], model.transform(frame[COLUMNS]), rtol=1e-6, atol=1e-9)
    assert embedding["kind"].isna().sum() == 300
    report = json.loads(run(table, "--method", "stein", "-y", "kind", "--json", "-").stdout)
    assert report["labelled_rows"] == 100
    assert report["unlabelled_weight"] == model.unlabeled_weight_ == 0.0


def test_numbers_as_labels_with_gaps(tmp_path, frame):
    partly = frame.drop(columns=["u", "v"]).assign(kind=frame["kind"].map({"high": 2, "right": 1, "left": 0}))
    partly["kind"] = partly["kind"].where(partly.index < 150)
    table = written(partly, tmp_path / "t.csv", [])
    for options, words in (
        ([], "numeric"),
        (["--labels"], "labels, 3 classes"),
        (["--rank-response"], "numeric, by rank"),
    ):
        report = json.loads(
            run(table, "--method", "stein", "-r", 1, "-y", "kind", "--json", "-", *options).stdout
        )
        assert report["response_taken_as"] == words
        assert report["labelled_rows"] == 150


def test_score_auto_says_which_law(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 3)) / np.sqrt(rng.chisquare(4, (1500, 1)) / 4)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=X[:, 0] + rng.standard_normal(1500))
    path = written(table, tmp_path / "t.csv", [])
    options = ["--method", "stein", "--score", "auto", "-y", "y", "-r", 1, "--json", "-"]
    assert json.loads(run(path, *options).stdout)["score"] == "StudentScore"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "stein", "--block", "g=x*"], "takes all columns as one block"),
        (["--method", "stein", "--moments", "linear"], "--moments is an option of --method joint"),
        (["--method", "stein", "--whiten", "full"], "--whiten is an option of --method joint"),
        (["--method", "stein", "--rank-test"], "--rank-test is an option of --method joint"),
        (["--method", "stein", "-r", "threshold"], "give a number, auto or moments"),
        (["--order", "2"], "--order is an option of --method stein, and the method is joint"),
        (["--score", "auto"], "--score is an option of --method stein"),
        (["--method", "stein", "--order", "3"], "'3' is not one of '1', '2', 'both'"),
    ],
)
def test_options_of_the_other_method_are_errors(tmp_path, frame, options, message):
    table = written(frame, tmp_path / "t.csv", ["v", "kind"])
    assert message in run(table, "-y", "u", *options, code=2).stderr


def test_bad_tables(tmp_path, frame):
    nothing = written(frame.assign(u=np.nan), tmp_path / "none.csv", ["v", "kind"])
    text = run(nothing, "--method", "stein", "-y", "u", code=2).stderr
    assert "all of y is missing" in text
    assert "name another --response" in " ".join(text.split())
    mixed = frame.copy()
    mixed.loc[3, "u"] = np.nan
    path = written(mixed, tmp_path / "mixed.csv", ["kind"])
    assert (
        "labelled wholly or not at all" in run(path, "--method", "stein", "-y", "u", "-y", "v", code=2).stderr
    )
    assert "1 row without a response: embedded, but" in run(path, "-y", "u", "--no-check").stderr
    endless = written(frame.assign(u=np.inf), tmp_path / "inf.csv", ["v", "kind"])
    assert "infinite values in the response" in run(endless, "--method", "stein", "-y", "u", code=2).stderr
    gaps = written(frame.assign(x0=np.nan), tmp_path / "gaps.csv", ["v", "kind"])
    told = run(gaps, "--method", "stein", "-y", "u", code=2).stderr
    assert "1 column(s) have no cell: 'x0'. Leave them out: --drop x0" in told


def test_more_directions_than_classes_show_is_said_in_options(tmp_path, frame):
    table = written(frame, tmp_path / "t.csv", ["u", "v"])
    text = run(table, "--method", "stein", "-y", "kind", "-r", 3).stderr
    assert "--components 3 is more than the 2 direction(s)" in text
    assert "--order both" in text
    assert "unlabeled_weight" not in text


def test_words_of_stein():
    assert in_options("e.g. score_model=GaussianScore(ridge=1.0)") == "e.g. --score gaussian"


def test_stein_is_checked_on_its_labelled_rows(tmp_path, frame):
    partly = frame.drop(columns=["v", "kind"])
    partly.loc[partly.index[100:], "u"] = None
    table = written(partly, tmp_path / "t.csv", [])
    quality = json.loads(run(table, "--method", "stein", "-y", "u", "--json", "-", check=True).stdout)[
        "quality"
    ]
    assert quality["rows"] == 100
    assert quality["scores"][0]["method"] == "Stein"
    assert all(row["failed"] is None for row in quality["scores"])
