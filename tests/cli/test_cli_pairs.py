import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from colspace import KernelPairRegressor, PairRegressor
from colspace.cli._group import colspace
from colspace.datasets import make_pairs
from colspace.io import load

FIXED = ["--method", "joint", "--no-check", "--bandwidth", "0.3", "--shrinkage", "0.1", "--components", "3"]


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
    result = run("--top", 4, "--out", "top.csv", "--save", "m.skops", *FIXED)
    found = pd.read_csv("top.csv", dtype={"disease": str})
    expected = PairRegressor(3, bandwidth=0.3, shrinkage=0.1).fit(A[:40], B, Y[:40]).rank(A[40:], k=4)
    assert list(found.columns) == ["disease", "rank", "gene", "score", "known"]
    assert list(found["disease"]) == list(expected["left"])
    assert list(found["gene"]) == list(expected["right"])
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-8)
    assert "40 x 30 entities" in result.output
    assert "10 entities ranked" in result.output
    again = load("m.skops").rank(A[40:], k=4)
    np.testing.assert_array_equal(again["right"], expected["right"])


def test_words_are_indicators(files):
    """On both sides, in new rows, in the saved model and on the page; with levels that the fit has not seen."""
    A, B, Y, _ = files
    town = np.resize(["Oslo", "Rome", "Lima"], 50)
    A, B = A.assign(town=town), B.assign(kind=np.resize(["oral", "skin"], 30))
    A[:40].to_csv("left.csv")
    A[40:].replace("Lima", "Bonn").to_csv("new.csv")
    B.to_csv("right.csv")
    result = run("--top", 4, "--out", "top.csv", "--save", "m.skops", "--report", "r.html", *FIXED)
    told = " ".join(result.stderr.split())
    assert "left.csv: columns of words are indicators of their levels: 'town' (3 levels)" in told
    assert "right.csv: columns of words are indicators of their levels: 'kind' (kind=skin)" in told
    assert "'town' has 1 level(s) that the fit has not seen" in told
    page = html.unescape(Path("r.html").read_text())
    assert "words are indicators of their levels" in page
    assert "read_table('left.csv'" not in page  # as they are, the tables are no features
    left = A.drop(columns="town").assign(
        **{f"town={level}": (town == level) * 1.0 for level in ("Lima", "Oslo", "Rome")}
    )
    left.loc[left.index[40:], "town=Lima"] = 0.0
    right = B.drop(columns="kind").assign(**{"kind=skin": (B["kind"] == "skin") * 1.0})
    model = PairRegressor(3, bandwidth=0.3, shrinkage=0.1).fit(left[:40], right, Y[:40])
    expected = model.rank(left[40:], k=4)
    found = pd.read_csv("top.csv", dtype={"disease": str})
    assert list(found["gene"]) == list(expected["right"])
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-8)
    applied = CliRunner().invoke(
        colspace, ["apply", "m.skops", "new.csv", "--top", "4", "--out", "again.csv"]
    )
    assert applied.exit_code == 0, applied.output
    pd.testing.assert_frame_equal(pd.read_csv("again.csv", dtype={"disease": str}), found)
    shown = CliRunner().invoke(colspace, ["report", "m.skops", "new.csv", "--out", "new.html"])
    assert shown.exit_code == 0, shown.output
    assert "model = load(" not in html.unescape(Path("new.html").read_text())
    A[40:].drop(columns="town").to_csv("new.csv")
    assert (
        "lacks 3 column(s) of --left: 'town' or its indicators"
        in run("--out", "top.csv", *FIXED, code=2).output
    )
    A[:40].assign(town=[f"street {i}" for i in range(40)]).to_csv("left.csv")
    message = "1 column(s) that are neither numbers, dates nor words of 2 to 20 levels: 'town'"
    assert message in " ".join(run("--out", "top.csv", *FIXED, code=2).output.split())


def test_words_of_both_sides_are_told_also_where_columns_have_one_name(files):
    A, B, _, _ = files
    A[:40].assign(kind=np.resize(["a", "b", "c"], 40)).to_csv("left.csv")
    B.assign(kind=np.resize(["oral", "skin"], 30)).to_csv("right.csv")
    told = " ".join(run("--out", "top.csv", *FIXED, predict=False).stderr.split())
    assert "left.csv: columns of words are indicators of their levels: 'kind' (3 levels)" in told
    assert "right.csv: columns of words are indicators of their levels: 'kind' (kind=skin)" in told


def test_defaults_and_stdout(files):
    result = run("--out", "-", "--top", 2, predict=False)
    assert len(result.stdout.splitlines()) == 1 + 40 * 2
    assert result.stdout.startswith("disease,rank,gene,score,known\n000,1,g")
    assert "kernel ridge for entries" in result.stderr
    assert "alternating least squares" in result.stderr


def test_observed_links_and_no_scores(files):
    _, _, _, links = files
    links[["disease", "gene"]].to_csv("bare.csv", index=False)
    run("--out", "a.csv", *FIXED, links="bare.csv")
    assert "score 1" in run("--out", "b.csv", "--observed", *FIXED, links="bare.csv", code=2).output
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
    text = run("--out", "top.csv", *FIXED, links="odd.csv", code=2).output
    assert "3 of" in text
    assert "2 left id(s) that no table has: 'zz', 'yy'" in text
    assert "1 right id(s) that no table has: 'g99'" in text
    assert "--drop-unknown" in text
    run("--out", "top.csv", *FIXED)
    kept = run("--out", "dropped.csv", "--drop-unknown", *FIXED, links="odd.csv").output
    assert "these links are left out" in kept
    assert pd.read_csv("top.csv").equals(pd.read_csv("dropped.csv"))


def test_sides_that_are_exchanged(files):
    _, _, _, links = files
    links[["gene", "disease", "score"]].to_csv("turned.csv", index=False)
    text = run("--out", "top.csv", *FIXED, links="turned.csv", code=2).output
    assert "the left ends of the links are right entities" in text
    assert "exchange --left and --right" in text
    run("--out", "top.csv", "--drop-unknown", *FIXED, links="turned.csv", code=2)


def test_the_page_repeats_the_ranking_of_new_entities(files):
    found = run(
        "--top",
        4,
        "--out",
        "top.csv",
        "--report",
        "r.html",
        "--save",
        "m.skops",
        "--alpha",
        1,
        "--bandwidth",
        1,
    )
    page = Path("r.html").read_text()
    code = html.unescape(re.search(r"In Python.*?<pre[^>]*>(.*?)</pre>", page, re.DOTALL)[1])
    names: dict[str, object] = {}
    exec(re.sub("<[^>]*>", "", code), names)  # noqa: S102
    told = pd.read_csv("top.csv", dtype={"disease": str})
    assert list(names["partners"]["left"]) == list(told["disease"])
    assert list(names["partners"]["right"]) == list(told["gene"])
    recall = re.search(r"kernel ridge +│ +(\d\.\d+)", found.output)[1]
    assert f"recall at 4 is {recall}" in page
    assert "add to 0" not in page
    assert CliRunner().invoke(colspace, ["report", "m.skops", "--out", "again.html"]).exit_code == 0
    assert f"recall at 4 is {recall}" in Path("again.html").read_text()


def test_duplicate_links(files):
    _, _, _, links = files
    pd.concat([links, links[:2]]).to_csv("twice.csv", index=False)
    text = run("--out", "top.csv", *FIXED, links="twice.csv", code=2).output
    assert "2 link(s) stand twice" in text
    assert "--duplicates sum, max or mean" in text
    run("--out", "top.csv", *FIXED)
    run("--out", "joined.csv", "--duplicates", "max", *FIXED, links="twice.csv")
    assert pd.read_csv("top.csv").equals(pd.read_csv("joined.csv"))


def test_ids_are_text_as_written(files):
    _, B, _, links = files
    run("--out", "plain.csv", *FIXED)
    odd = dict(zip(B.index[:4], ["NA", "null", "Zoë, “4”", "007"], strict=True))
    B.rename(index=odd).to_csv("right.csv")
    links.assign(gene=links["gene"].replace(odd)).to_csv("odd.csv", index=False)
    run("--out", "top.csv", *FIXED, links="odd.csv")
    plain, found = (pd.read_csv(name, dtype=str, keep_default_na=False) for name in ("plain.csv", "top.csv"))
    assert list(found["gene"]) == list(plain["gene"].replace(odd))
    links.assign(gene=" " + links["gene"].replace(odd) + " ").to_csv("padded.csv", index=False)
    result = run("--out", "padded_top.csv", *FIXED, links="padded.csv")
    assert f"padded.csv: spaces around {len(links)} id(s) of 'gene' are left out" in result.output
    assert pd.read_csv("padded_top.csv").equals(pd.read_csv("top.csv"))
    links.assign(gene=links["gene"].where(links.index != 3, " ")).to_csv("gap.csv", index=False)
    assert "1 id(s) are missing in column 'gene'" in run("--out", "o.csv", links="gap.csv", code=2).output


def test_parquet_with_ids_as_labels(files):
    A, B, _, _ = files
    run("--out", "plain.csv", *FIXED)
    A[:40].to_parquet("left.parquet")
    B.to_parquet("right.parquet")
    files = ["--left", "left.parquet", "--right", "right.parquet", "--links", "links.csv"]
    result = CliRunner().invoke(
        colspace, ["pairs", *files, "--predict", "new.csv", "--out", "top.csv", *FIXED]
    )
    assert result.exit_code == 0, result.output
    assert pd.read_csv("top.csv").equals(pd.read_csv("plain.csv"))


def test_tables_without_names_of_ids(files):
    files[0][:40].rename_axis(None).to_csv("left.csv")
    run("--out", "top.csv", *FIXED)
    found = pd.read_csv("top.csv", dtype=str)
    assert list(found.columns) == ["left", "rank", "right", "score", "known"]
    assert found["left"][0] == "040"


def test_nothing_that_is_read_or_written_is_overwritten(files):
    for table in ("left.csv", "right.csv", "links.csv", "new.csv"):
        for option, other in (("--out", "--save"), ("--save", "--out")):
            kept = pd.read_csv(table)
            text = run(option, table, other, "free.csv", *FIXED, code=2).output
            assert f"give {option} another name" in " ".join(text.split())
            assert pd.read_csv(table).equals(kept)
    assert "--out and --save are both" in run("--out", "x.csv", "--save", "x.csv", code=2).output


def test_warnings_in_words_of_the_command(files):
    files[0][:40].assign(c=0.1).to_csv("left.csv")
    text = run("--out", "top.csv", *FIXED).output
    assert "constant column(s) get loadings of zero: 'c'. Leave them out of the table" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda A: pd.concat([A, A[:1]]), "1 id(s) stand twice in new.csv, e.g. '040'"),
        (lambda A: A.drop(columns="c"), "lacks 1 column(s) of --left: 'c'"),
        (
            lambda A: A.assign(**dict.fromkeys(A, A["a"].mask(A.index == "041"))),
            "have no features at all: '041'",
        ),
        (lambda A: A.assign(c=A["c"].mask(A.index == "041")), "--impute fills them"),
    ],
)
def test_bad_new_entities(files, change, message):
    change(files[0][40:]).to_csv("new.csv")
    assert message in " ".join(run("--out", "top.csv", *FIXED, code=2).output.split())


def test_bad_options_and_tables(files):
    assert "neither a number" in run("--out", "top.csv", "--bandwidth", "wide", code=2).output
    assert "at most 8" in run("--out", "top.csv", "-r", 9, code=2).output
    assert "--shrinkage" in run("--out", "top.csv", "--reduction", "pca", "--shrinkage", "0.2", code=2).output
    assert "does not exist" in run("--out", "nowhere/top.csv", code=2).output
    assert "never overwritten" in run("--out", "links.csv", code=2).output
    pd.DataFrame({"disease": ["000"], "gene": ["g1"], "score": ["high"]}).to_csv("words.csv", index=False)
    assert "not numbers" in run("--out", "top.csv", links="words.csv", code=2).output
    pd.DataFrame({"disease": ["000"]}).to_csv("one.csv", index=False)
    assert "two columns of ids" in run("--out", "top.csv", links="one.csv", code=2).output
    pd.read_csv("right.csv").iloc[:5].to_csv("right.csv", index=False)
    few = run("--out", "top.csv", "--bandwidth", 0.3, "--shrinkage", 0, "--drop-unknown", code=2)
    assert "--right has 8 columns" in few.output


RIDGE = ["--bandwidth", "0.7", "--alpha", "1,0.5", "--reduction", "none"]


def test_kernel_ridge_is_the_default(files):
    A, B, Y, _ = files
    result = run("--top", 4, "--out", "top.csv", "--save", "m.skops", *RIDGE)
    assert "kernel ridge for new-left, no reduction" in " ".join(result.output.split())
    assert "nearest neighbours" in result.output
    found = pd.read_csv("top.csv", dtype={"disease": str})
    model = KernelPairRegressor(bandwidth=0.7, alpha=(1.0, 0.5), reduction=None).fit(A[:40], B, Y[:40])
    assert list(found["gene"]) == list(model.rank(A[40:], k=4)["right"])
    assert list(load("m.skops").rank(A[40:], k=4)["right"]) == list(found["gene"])
    quality = model.held_out_quality(4)
    assert f"{quality['recall'][0]:.3f}" in result.output
    run("--out", "known.csv", "--exclude-known", "--probability", "--no-check", *RIDGE, predict=False)
    known = pd.read_csv("known.csv", dtype={"disease": str})
    assert not known["known"].any()
    assert known["probability"].between(0, 1).all()


def test_similarities_in_the_place_of_features(files):
    A, B, Y, _ = files
    S, T = A @ A.T, B @ B.T
    S.iloc[:40, :40].to_csv("s.csv")
    T.to_csv("t.csv")
    S.iloc[40:, :40].iloc[:, ::-1].to_csv("n.csv")  # another order of columns
    usual = ["pairs", "--left-similarity", "s.csv", "--right-similarity", "t.csv", "--links", "links.csv"]
    options = ["--alpha", "1", "--out", "top.csv", "--top", "3"]
    result = CliRunner().invoke(colspace, [*usual, "--predict", "n.csv", *options])
    assert result.exit_code == 0, result.output
    model = KernelPairRegressor(metric="precomputed", alpha=1.0).fit(S.iloc[:40, :40], T, Y[:40])
    found = pd.read_csv("top.csv", dtype={"disease": str})
    assert list(found["gene"]) == list(model.rank(S.iloc[40:, :40], k=3)["right"])
    S.iloc[40:, 1:40].to_csv("n.csv")
    result = CliRunner().invoke(colspace, [*usual, "--predict", "n.csv", *options])
    assert "n.csv has no column of similarities to '000' (1 missing in all)" in " ".join(
        result.output.split()
    )
    result = CliRunner().invoke(colspace, [*usual, "--left", "left.csv", *options])
    assert "give the left entities by --left (features) or by --left-similarity" in " ".join(
        result.output.split()
    )


def test_options_of_the_other_method(files):
    for extra, message in (
        (("--reduction", "phd"), "--reduction phd goes with --method joint"),
        (("--method", "joint", "--target", "new-both"), "--target new-both goes with --method ridge"),
        (("--method", "joint", "--reduction", "none"), "--reduction none goes with --method ridge"),
        (("--method", "joint", "--alpha", "1,0.5"), "--alpha 1,0.5 is a ridge"),
        (("--reduction", "none", "--components", "3"), "belongs to a reduction, got --reduction none"),
        (("--method", "joint", "--alpha", "2"), "goes with --method ridge"),
    ):
        assert message in " ".join(run("--out", "top.csv", *extra, code=2).output.split())
    judged = run("--out", "top.csv", *[o for o in FIXED if o != "--no-check"], "--top", 5).output
    assert "joint reduction" in judged
    assert "popularity" in judged


def test_columns_that_are_left_out(files):
    A, B, Y, _ = files
    A[:40].assign(note="text", h2=1.0).to_csv("left.csv")
    A[40:].assign(note="text").to_csv("new.csv")
    run("--top", 4, "--out", "top.csv", "--drop", "note", "--drop", "h2", "--drop", "e:f", *FIXED)
    left = A.drop(columns=["e", "f"])
    model = PairRegressor(3, bandwidth=0.3, shrinkage=0.1)
    right = B.drop(columns=[name for name in ("e", "f") if name in B])
    expected = model.fit(left[:40], right, Y[:40]).rank(left[40:], k=4)
    np.testing.assert_allclose(pd.read_csv("top.csv")["score"], expected["score"], rtol=1e-8)


def test_info_has_the_quality(files):
    run("--top", 4, "--out", "top.csv", "--save", "m.skops", "--method", "joint", *FIXED[3:])
    text = CliRunner().invoke(colspace, ["info", "m.skops"]).output
    assert "Held out, free from the tuning" in text
    assert any(line.startswith("│ popularity") for line in text.splitlines())
