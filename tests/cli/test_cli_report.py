"""Pages of saved models, with rows and without."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from colspace import KernelPairRegressor, PairRegressor, SlicedInverse, save
from colspace.cli._group import colspace
from colspace.datasets import make_pairs
from colspace.io import info
from colspace.report import _partners
from colspace.report._atoms import _short
from users import jobs, links, omics, survey

COMMANDS = {
    "omics": "reduce genes.csv proteins.csv --id patient -y outcome -r 1 --rank-test --save omics.skops",
    "survey": "impute survey.csv --id respondent --rank 1 --out filled.csv --save survey.skops",
    "jobs": "atoms jobs.csv -y fraudulent -t description -c logo --id job -r 3 --out topics --save jobs.skops",
    "pairs": "pairs --left diseases.csv --right drugs.csv --links links.csv --bandwidth 1 --alpha 1 --shrinkage 0.1 --out p.csv "
    "--save pairs.skops",
}
NEW = {
    "omics": "genes.csv proteins.csv --id patient",
    "survey": "wave2.csv --id respondent",
    "jobs": "new_jobs.csv --id job",
    "pairs": "new_diseases.csv --id disease",
}
PARTS = {
    "omics": ["Quality on rows left out", "Rank test", "Loadings"],
    "survey": ["Quality on hidden cells", "Intervals"],
    "jobs": ["Quality", "Topics", "Covariates"],
    "pairs": ["Quality on what was left out", "Partners", "Why these partners"],
}
MORE = {
    "omics": ["Data at a glance", "Embedding"],
    "survey": ["Data at a glance", "Gaps and reliability"],
    "jobs": ["Data at a glance"],
    "pairs": ["Data at a glance: new_diseases.csv"],
}


def run(line, code=0):
    done = CliRunner().invoke(colspace, shlex.split(line))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", ["colspace", "fit-it"])
        for make in (omics, survey, jobs, links):
            make(folder)
        for line in COMMANDS.values():
            run(line)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_of_what_the_model_knows_and_one_of_new_rows(models, monkeypatch, name):
    monkeypatch.chdir(models)
    assert f"wrote report to {name}.html" in run(f"report {name}.skops").stdout
    page = (models / f"{name}.html").read_text()
    titles = page.count("<h2")
    for title in ["What was asked", *PARTS[name], "How to repeat it", "Next steps"]:
        assert f">{title}</h2>" in page
    assert "colspace fit-it" in page  # the line that fitted it
    run(f"report {name}.skops {NEW[name]} --out new.html")
    new = (models / "new.html").read_text()
    for title in ["What was asked", *PARTS[name], *MORE[name]]:
        assert f">{title}</h2>" in new
    assert new.count("<h2") > titles
    assert len(new) < 3_000_000


def test_what_is_said_of_rows_held_out_is_not_of_new_rows(models, monkeypatch):
    monkeypatch.chdir(models)
    wrong = pd.read_csv("new_jobs.csv")
    wrong["fraudulent"] = np.where(wrong["fraudulent"] == "yes", "no", "yes")
    wrong.to_csv("wrong.csv", index=False)
    told = info("jobs.skops")["about"]
    run("report jobs.skops wrong.csv --id job --out wrong.html")
    page = (models / "wrong.html").read_text()
    accuracy = told["scores"]["supervised dictionary"]["accuracy"]
    assert f"Accuracy on {told['held_out']} rows held out is {accuracy:.3f} (NMF" in page
    assert accuracy > 0.9
    assert "; on these 60 rows 0.0" in page
    assert f"topics that rebuild {told['fitted']} rows" in page


def test_rows_with_labels_that_the_fit_has_not_seen_are_not_scored(models, monkeypatch):
    monkeypatch.chdir(models)
    rows = pd.read_csv("new_jobs.csv")
    rows["fraudulent"] = rows["fraudulent"].replace(
        "yes", "yes and no"
    )  # as long as no class, but begins as one
    rows.to_csv("longer.csv", index=False)
    done = run("report jobs.skops longer.csv --id job --out longer.html")
    assert (
        "'fraudulent' has 1 label(s) that the fit has not seen, so these rows are not scored: 'yes and no'"
        in done.stderr
    )
    assert "these 60 rows" not in (models / "longer.html").read_text()


def test_names_of_topics_are_cut_between_words():
    assert _short("team, train, review, job", 24) == "team, train, review, job"
    assert _short("team, train, review, jobs", 24) == "team, train, review, …"
    assert _short("unpronounceable", 8) == "unprono…"


def test_what_does_not_fit_is_refused(models, monkeypatch):
    monkeypatch.chdir(models)
    line = run("report omics.skops genes.csv --id patient --out x.html", code=2).stderr
    assert "8 of the 20 columns of the fit are not in the table: 'protein_0'" in line
    assert "is the table itself" in run("report omics.skops genes.csv --out genes.csv", code=2).stderr
    assert "no.skops does not exist" in run("report no.skops", code=2).stderr
    assert not (models / "x.html").exists()


def test_a_model_saved_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    save(SlicedInverse(1).fit(X, X[:, 0]), "m.skops")
    run("report m.skops")
    assert ">Loadings</h2>" in (tmp_path / "m.html").read_text()
    np.savetxt("t.csv", X, delimiter=",", header="a,b,c,d", comments="")
    run("report m.skops t.csv --out t.html")
    assert ">Embedding</h2>" in (tmp_path / "t.html").read_text()


@pytest.fixture(scope="module")
def pairs():
    A, B, Y, _ = make_pairs(25, 15, 4, 2, rng=0)
    return A[:20], A[20:], B, Y[:20]


def test_what_known_entities_add_is_the_score(pairs, monkeypatch):
    """With all of them named, the parts and the level sum to the score."""
    A, new, B, Y = pairs
    model = KernelPairRegressor("new-left", bandwidth=1.0, alpha=0.5, shrinkage=0.1).fit(A, B, Y)
    monkeypatch.setattr(_partners, "_SPEAKERS", len(A))
    ranked = model.rank(new, k=3)
    best = ranked[ranked["rank"] == 1]
    rows, _ = _partners._speakers(model, list(zip(best["left"], best["right"], strict=True)), new, "left")
    level = float(np.ravel(model.level_)[0])
    for left, right, score in zip(best["left"], best["right"], best["score"], strict=True):
        parts = [row[3] for row in rows if (row[0], row[1]) == (str(left), str(right))]
        np.testing.assert_allclose(level + sum(parts), score)
    linked = {(int(row[2]), int(row[1])): row[4] for row in rows}
    dense = Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)
    assert all((said == "yes") == (dense[i, j] != 0) for (i, j), said in linked.items())


def test_links_that_carried_a_score(pairs):
    A, new, B, Y = pairs
    model = PairRegressor(2, bandwidth=0.5, shrinkage=0.1).fit(A, B, Y)
    rows, _ = _partners._carriers(model, [(1, 2)], new)
    found = model.explain(1, 2, A=new, k=3)
    assert [row[3] for row in rows] == found["contribution"].tolist()


def test_json_of_info_has_what_the_page_says(models, monkeypatch):
    monkeypatch.chdir(models)
    about = json.loads(run("info omics.skops --json -").stdout)["about"]
    assert about["joined_on"] == ["patient"]
    assert [each["name"] for each in about["tables"]] == ["genes", "proteins"]
    assert about["rank_test"]["p_values"]
    assert "fitted by: " in run("info survey.skops").stdout


def test_the_demo_ends_with_a_summary_a_report_and_what_to_try(tmp_path, monkeypatch):
    from colspace.experiments import demo

    row = {"what": "a", "measure": "R2", "colspace": "0.5", "best of the others": "0.2, PCA"}
    X, y = demo.breast_cancer()
    monkeypatch.setattr(demo, "SECTIONS", [lambda *_: row])
    monkeypatch.setattr(
        demo, "breast_cancer", lambda: (X[::4].reset_index(drop=True), y[::4].reset_index(drop=True))
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(colspace, ["demo"])
    assert done.exit_code == 0, done.output
    assert "In short" in done.output
    assert "best of the others" in done.output
    assert "Next: open demo/report.html; colspace look YOUR_TABLE" in done.output
    page = Path("demo/report.html").read_text()
    assert "tumours.csv: what tells diagnosis" in page
    assert "colspace reduce demo/tumours.csv" in page
