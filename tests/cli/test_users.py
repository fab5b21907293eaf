"""Five users, from their files to a report, and held-back rows by the command as by Python."""

import html
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import users
from colspace import load
from colspace.cli._group import colspace
from colspace.io import read_table


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def command(line):
        done = CliRunner().invoke(colspace, shlex.split(line))
        assert done.exit_code == 0, done.output
        return done

    return command


def page(name):
    text = Path(name).read_text()
    assert len(text) < 3_000_000
    return text


def repeated(name):
    """What the Python of a page makes, run as it stands."""
    code = re.search(r"In Python</p>\s*<pre[^>]*><code>(.*?)</code>", page(name), re.DOTALL)[1]
    made = {}
    exec(html.unescape(code), made)  # noqa: S102
    return made


def test_two_omics_tables(run, tmp_path):
    whole = users.omics(tmp_path).set_index("patient")
    advice = json.loads(run("look genes.csv proteins.csv --json -").stdout)["advice"][0]["command"]
    assert advice == "colspace reduce genes.csv proteins.csv --id patient --response outcome"
    told = run(f"{advice.removeprefix('colspace ')} -r 1 --out e.csv --save m.skops --report r.html").stdout
    assert "R2 on rows left out" in told
    assert "largest loadings" in told
    assert ">Loadings</h2>" in page("r.html")
    assert "20 columns: 20 of numbers." in page("r.html")
    e = read_table("e.csv").drop(columns=["patient", "outcome"])
    assert_allclose(repeated("r.html")["embedding"], e, rtol=1e-9, atol=1e-12)
    run("apply m.skops new_genes.csv new_proteins.csv --id patient --out new.csv")
    new = read_table("new.csv").set_index("patient")
    assert len(new) == 40
    model = load("m.skops")
    assert_allclose(
        new, model.transform(whole.loc[new.index, model.feature_names_in_]), rtol=1e-9, atol=1e-12
    )


def test_a_survey_with_gaps(run, tmp_path):
    whole = users.survey(tmp_path).set_index("respondent")
    advice = json.loads(run("look survey.csv --json -").stdout)["advice"][0]["command"]
    assert advice == "colspace impute survey.csv --out filled.csv --id respondent"
    told = run(f"{advice.removeprefix('colspace ')} --intervals --save m.skops --report r.html").stdout
    assert "gaps filled" in told
    assert "hidden cells" in told
    assert ">Intervals</h2>" in page("r.html")
    made = repeated("r.html")["filled"]
    assert_allclose(read_table("filled.csv")["income"], made["income"].astype(float), rtol=1e-9)
    run("apply m.skops wave2.csv --id respondent --intervals --out new.csv")
    run("apply m.skops wave2.csv --id respondent --draws 2 --seed 3 --out draw.csv")
    new = read_table("new.csv", text=["respondent"]).set_index("respondent")
    model = load("m.skops")
    rows = whole.loc[new.index, model.feature_names_in_]
    filled, (lower, upper) = model.transform(rows), model.interval(rows)
    gaps = rows["income"].isna()
    assert gaps.any()
    assert_allclose(new["income"], filled["income"].astype(float), rtol=1e-9)
    assert new["town"].tolist() == filled["town"].tolist()
    assert_allclose(new["income__lower"][gaps], lower["income"][gaps].astype(float), rtol=1e-9)
    assert_allclose(new["income__upper"][gaps], upper["income"][gaps].astype(float), rtol=1e-9)
    drawn = list(model.sample(rows, 2, random_state=3))
    assert_allclose(read_table("draw-2.csv")["income"], drawn[1]["income"].astype(float), rtol=1e-9)


def test_texts_of_jobs(run, tmp_path):
    whole = users.jobs(tmp_path).set_index("job", drop=False)
    advice = json.loads(run("look jobs.csv --json -").stdout)["advice"][0]["command"]
    assert advice == (
        "colspace atoms jobs.csv --label fraudulent --text description --covariates logo --out topics --id job"
    )
    told = run(f"{advice.removeprefix('colspace ')} -r 3 --save m.skops --report r.html").stdout
    assert "NMF + logistic regression" in told
    assert ">Topics</h2>" in page("r.html")
    assert_allclose(
        repeated("r.html")["chances"], read_table("topics/rows.csv")[["p_no", "p_yes"]], rtol=1e-9
    )
    run("apply m.skops new_jobs.csv --id job --out new.csv")
    new = read_table("new.csv").set_index("job")
    model = load("m.skops")
    rows = whole.loc[new.index]
    assert new["fraudulent"].tolist() == model.predict(rows).tolist()
    assert_allclose(new[["p_no", "p_yes"]], model.predict_proba(rows), rtol=1e-9)
    assert (new["fraudulent"] == rows["fraudulent"]).mean() > 0.9


def test_drugs_and_diseases(run, tmp_path):
    diseases = users.links(tmp_path)
    advice = json.loads(run("look diseases.csv drugs.csv links.csv --json -").stdout)["advice"][0]["command"]
    assert (
        advice == "colspace pairs --left diseases.csv --right drugs.csv --links links.csv --out partners.csv"
    )
    told = run(
        f"{advice.removeprefix('colspace ')} --predict new_diseases.csv --top 5 --save m.skops --report r.html"
    ).stdout
    assert "nearest neighbours" in told
    assert ">Why these partners</h2>" in page("r.html")
    made = repeated("r.html")["partners"]
    run("apply m.skops new_diseases.csv --top 5 --out new.csv")
    new, told = pd.read_csv("new.csv"), pd.read_csv("partners.csv")
    assert made["left"].tolist() == told["disease"].tolist()
    assert_allclose(made["score"], told["score"], rtol=1e-6)
    ranked = load("m.skops").rank(diseases.set_index("disease").iloc[40:], k=5)
    assert new["drug"].tolist() == ranked["right"].tolist() == told["drug"].tolist()
    assert new.columns.tolist() == told.columns.tolist()
    assert_allclose(new["score"], ranked["score"], rtol=1e-6)


def test_a_folder_of_parquet_files(run, tmp_path):
    whole = users.parquet(tmp_path).set_index("time")
    advice = json.loads(run("look measured --json -").stdout)["advice"][0]["command"]
    assert advice == "colspace reduce measured --response state --id time"
    told = run(f"{advice.removeprefix('colspace ')} --out e.parquet --save m.skops --report r.html").stdout
    assert "accuracy on rows left out" in told
    assert ">Embedding</h2>" in page("r.html")
    e = read_table("e.parquet").drop(columns=["time", "state"])
    assert_allclose(repeated("r.html")["embedding"], e, rtol=1e-9, atol=1e-12)
    assert len(read_table("e.parquet")) == 500
    run("apply m.skops later.parquet --id time --out new.csv")
    new = read_table("new.csv").set_index("time")
    model = load("m.skops")
    assert_allclose(
        new, model.transform(whole.loc[new.index, model.feature_names_in_]), rtol=1e-9, atol=1e-12
    )
    assert np.isfinite(new.to_numpy()).all()


def test_the_python_of_wide_tables(run, tmp_path):
    """Blocks of hundreds of columns, words and gaps: the page says all that it takes."""
    rng = np.random.default_rng(0)
    genes = pd.DataFrame(rng.normal(size=(60, 150)), columns=[f"gene {i}" for i in range(150)])
    other = pd.DataFrame(rng.normal(size=(60, 80)), columns=[f"m{i}" for i in range(80)])
    other["town"] = rng.choice(["Oslo", "Rome", "Bonn"], 60)
    other["outcome"] = genes["gene 0"] + other["m1"]
    other.loc[3, "m2"] = None
    for name, frame in (("genes", genes), ("other", other)):
        frame.insert(0, "who", [f"p{i}" for i in range(60)])
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    run("reduce genes.csv other.csv --id who -y outcome -r 1 --no-check --out e.csv --report r.html")
    assert "gene 0:gene 149" in page("r.html")
    e = read_table("e.csv").drop(columns=["who", "outcome"])
    assert_allclose(repeated("r.html")["embedding"], e, rtol=1e-6, atol=1e-9)


def test_the_python_of_dates_and_many_levels(run, tmp_path):
    """Dates are no free text, and no list of levels is cut."""
    rng = np.random.default_rng(0)
    level = ["strongly disagree", "disagree", "neither", "agree", "strongly agree"]
    mood = rng.normal(size=120)
    frame = pd.DataFrame(
        {
            f"question {i}": np.array(level)[np.digitize(mood + rng.normal(size=120), [-1, 0, 1, 2])]
            for i in range(35)
        }
    )
    frame["moved"] = (np.datetime64("2020-01-01") + (100 * mood).astype(int)).astype(str)
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    frame.to_csv(tmp_path / "s.csv", index=False)
    kinds = f"--kinds 'question*={','.join(level)}'"
    run(f"impute s.csv {kinds} --rank 1 --no-check --out f.csv --report r.html")
    made, filled = repeated("r.html")["filled"], pd.read_csv("f.csv")
    assert (made["moved"].dt.strftime("%Y-%m-%d") == filled["moved"]).all()
    assert (made["question 3"].astype(str) == filled["question 3"]).all()


def test_the_python_of_a_saved_model_on_new_rows(run, tmp_path):
    """Two tables, words, and dates that are text."""
    rng = np.random.default_rng(0)
    first = pd.DataFrame(
        {"who": [f"p{i}" for i in range(60)], "a": rng.normal(size=60), "b": rng.normal(size=60)}
    )
    second = pd.DataFrame(
        {"who": first["who"], "town": rng.choice(["Oslo", "Rome", "Bonn"], 60), "c": rng.normal(size=60)}
    )
    second["day"] = (np.datetime64("2020-01-01") + (100 * first["a"]).astype(int).to_numpy()).astype(str)
    first["y"] = first["a"] + second["c"]
    first.to_csv(tmp_path / "first.csv", index=False)
    second.to_csv(tmp_path / "second.csv", index=False)
    tables = "first.csv second.csv --id who"
    run(f"reduce {tables} -y y -r 1 --drop day --no-check --save m.skops --out e.csv")
    run(f"report m.skops {tables} --out r.html")
    assert_allclose(repeated("r.html")["embedding"], read_table("e.csv").iloc[:, 1:3], rtol=1e-9, atol=1e-12)
    second.mask(rng.random(second.shape) < 0.1).assign(who=second["who"]).to_csv(
        tmp_path / "second.csv", index=False
    )
    run("impute second.csv --id who --rank 1 --no-check --save i.skops --out f.csv")
    run("report i.skops second.csv --id who --out i.html")
    days = repeated("i.html")["filled"]["day"].dt.strftime("%Y-%m-%d")
    assert (days == pd.read_csv("f.csv")["day"]).all()
