import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from colspace import PairRegressor
from colspace.cli._group import colspace
from colspace.datasets import make_pairs
from colspace.io import load

FIXED = ["--bandwidth", "0.3", "--shrinkage", "0.1", "--components", "3"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Forty known diseases, ten new ones, ids with leading zeros."""
    A, B, Y, _ = make_pairs(50, 30, 8, 2, rng=0)
    A = pd.DataFrame(
        A, index=pd.Index([f"{i:03d}" for i in range(50)], name="disease"), columns=list("abcdefgh")
    )
    B = pd.DataFrame(B, index=pd.Index([f"g{i}" for i in range(30)], name="gene")).add_prefix("f")
    i, j = Y[:40].tocoo().coords
    links = pd.DataFrame({"disease": A.index[i], "gene": B.index[j], "score": Y[:40].tocoo().data})
    A[:40].to_csv(tmp_path / "left.csv")
    A[40:][list("hgfedcba")].to_csv(tmp_path / "new.csv")  # another order of columns
    B.to_csv(tmp_path / "right.csv")
    links.to_csv(tmp_path / "links.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return A, B, Y, links


def run(*extra, code=0, predict=True, links="links.csv"):
    usual = ["pairs", "--left", "left.csv", "--right", "right.csv", "--links", links]
    new = ["--predict", "new.csv"] if predict else []
    result = CliRunner().invoke(colspace, [*usual, *new, *map(str, extra)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def test_writes_what_the_estimator_ranks(files):
    A, B, Y, _ = files
    result = run("--top", 4, "--out", "top.csv", "--model", "m.skops", *FIXED)
    found = pd.read_csv("top.csv", dtype={"disease": str})
    expected = PairRegressor(3, bandwidth=0.3, shrinkage=0.1).fit(A[:40], B, Y[:40]).rank(A[40:], k=4)
    assert list(found.columns) == ["disease", "rank", "gene", "score"]
    assert list(found["disease"]) == list(expected["left"])
    assert list(found["gene"]) == list(expected["right"])
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-8)
    assert "40 x 30 entities" in result.output
    assert "10 entities ranked" in result.output
    again = load("m.skops").rank(A[40:], k=4)
    np.testing.assert_array_equal(again["right"], expected["right"])


def test_defaults_and_stdout(files):
    result = run("--out", "-", "--top", 2, predict=False)
    assert len(result.stdout.splitlines()) == 1 + 40 * 2
    assert result.stdout.startswith("disease,rank,gene,score\n000,1,g")
    assert "8 directions" in result.stderr


def test_observed_links_and_no_scores(files):
    _, _, _, links = files
    links[["disease", "gene"]].to_csv("bare.csv", index=False)
    run("--out", "a.csv", *FIXED, links="bare.csv")
    assert "score 1" in run("--out", "b.csv", "--observed", *FIXED, links="bare.csv", code=1).output
    run("--out", "b.csv", "--observed", *FIXED)
    assert not pd.read_csv("a.csv").equals(pd.read_csv("b.csv"))


def test_more_partners_than_there_are(files):
    result = run("--out", "top.csv", "--top", 50, *FIXED)
    assert "--top 50 is more than the 30 right entities" in result.output
    assert len(pd.read_csv("top.csv")) == 10 * 30


def test_unknown_ids_are_counted_and_listed(files):
    _, _, _, links = files
    more = pd.DataFrame({"disease": ["zz", "000", "yy"], "gene": ["g1", "g99", "g2"], "score": 1.0})
    pd.concat([links, more]).to_csv("odd.csv", index=False)
    text = run("--out", "top.csv", *FIXED, links="odd.csv", code=1).output
    assert "3 of" in text
    assert "2 left id(s) that no table has: 'zz', 'yy'" in text
    assert "1 right id(s) that no table has: 'g99'" in text
    assert "--drop-unknown" in text
    run("--out", "top.csv", *FIXED)
    kept = run("--out", "dropped.csv", "--drop-unknown", *FIXED, links="odd.csv").output
    assert "these links are left out" in kept
    assert pd.read_csv("top.csv").equals(pd.read_csv("dropped.csv"))


def test_duplicate_links(files):
    _, _, _, links = files
    pd.concat([links, links[:2]]).to_csv("twice.csv", index=False)
    text = run("--out", "top.csv", *FIXED, links="twice.csv", code=1).output
    assert "2 link(s) stand twice" in text
    assert "--duplicates sum, max or mean" in text
    run("--out", "top.csv", *FIXED)
    run("--out", "joined.csv", "--duplicates", "max", *FIXED, links="twice.csv")
    assert pd.read_csv("top.csv").equals(pd.read_csv("joined.csv"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda A: A.drop(columns="c"), "has no column 'c', which --left has"),
        (
            lambda A: A.assign(**dict.fromkeys(A, A["a"].mask(A.index == "041"))),
            "have no features at all: '041'",
        ),
        (lambda A: A.assign(c=A["c"].mask(A.index == "041")), "colspace impute can fill them"),
    ],
)
def test_bad_new_entities(files, change, message):
    change(files[0][40:]).to_csv("new.csv")
    assert message in " ".join(run("--out", "top.csv", *FIXED, code=1).output.split())


def test_bad_options_and_tables(files):
    assert "neither a number" in run("--out", "top.csv", "--bandwidth", "wide", code=2).output
    assert "at most 8" in run("--out", "top.csv", "-r", 9, code=1).output
    assert "--shrinkage" in run("--out", "top.csv", "--reduction", "pca", "--shrinkage", "0.2", code=1).output
    assert "does not exist" in run("--out", "nowhere/top.csv", code=1).output
    assert "never overwritten" in run("--out", "links.csv", code=1).output
    pd.DataFrame({"disease": ["000"], "gene": ["g1"], "score": ["high"]}).to_csv("words.csv", index=False)
    assert "not numbers" in run("--out", "top.csv", links="words.csv", code=1).output
    pd.DataFrame({"disease": ["000"]}).to_csv("one.csv", index=False)
    assert "two columns of ids" in run("--out", "top.csv", links="one.csv", code=1).output
