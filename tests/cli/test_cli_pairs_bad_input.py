"""Bad similarities and links through ``colspace pairs``: one line, exit code 2, nothing written; little data is no crash."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from colspace.cli._group import colspace
from colspace.datasets import make_pairs

N, M = 12, 8


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Features, similarities and links of twelve diseases and eight genes, and of two new diseases."""
    monkeypatch.chdir(tmp_path)
    A, B, Y, _ = make_pairs(N + 2, M, 3, 2, rng=0)
    A = pd.DataFrame(A, index=pd.Index([f"d{i}" for i in range(N + 2)], name="disease")).add_prefix("x")
    B = pd.DataFrame(B, index=pd.Index([f"g{i}" for i in range(M)], name="gene")).add_prefix("f")
    i, j = Y[:N].tocoo().coords
    links = pd.DataFrame({"disease": A.index[i], "gene": B.index[j], "score": Y[:N].tocoo().data})
    S, T = A @ A.T + np.eye(N + 2), B @ B.T + np.eye(M)
    tables = {
        "left.csv": A[:N],
        "new.csv": A[N:],
        "right.csv": B,
        "s.csv": S.iloc[:N, :N],
        "t.csv": T,
        "n.csv": S.iloc[N:, :N],
    }
    for name, table in tables.items():
        table.to_csv(name)
    links.to_csv("links.csv", index=False)
    return tables | {"links.csv": links}


def run(line, *more):
    return CliRunner().invoke(colspace, [*line.split(), "--top", "3", "--out", "o.csv", *more])


def refused(line, folder):
    from pathlib import Path

    done = run(line)
    assert done.exit_code == 2, done.output
    said = [text for text in done.stderr.splitlines() if not text.startswith(("Note: ", "Warning: "))]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("Error: ")
    assert done.stdout == ""
    assert not Path("o.csv").exists()
    return said[0]


def put(table, row, column, value):
    table = table.copy()
    table.iloc[row, column] = value
    return table


SIMILARITY = {
    "not symmetric": (
        lambda S: put(S, 2, 5, S.iloc[2, 5] + 1),
        "{} is not symmetric: entities 'd2' and 'd5' have the similarities",
    ),
    "not positive": (
        lambda S: S - 50 * np.eye(len(S)),
        "{} is not positive semidefinite: its least eigenvalue is -4",
    ),
    "zero": (lambda S: 0 * S, "{} is zero: the mean of the diagonal is zero"),
    "narrow": (
        lambda S: S.iloc[:, :-1],
        "bad.csv has no column of similarities to 'd{last}' (1 missing in all)",
    ),
    "other names": (
        lambda S: S.rename(columns={"d3": "zz"}),
        "bad.csv has no column of similarities to 'd3' (1 missing in all)",
    ),
    "gap": (
        lambda S: put(S, 1, 1, np.nan),
        "similarities that are missing or infinite, of the entities 'd1'",
    ),
    "infinite": (
        lambda S: put(S, 1, 1, np.inf),
        "similarities that are missing or infinite, of the entities 'd1'",
    ),
    "words": (lambda S: put(S.astype(object), 1, 2, "high"), "columns that are not numbers: 'd2'"),
    "twice": (lambda S: pd.concat([S, S[:1]]), "1 id(s) stand twice in bad.csv, e.g. 'd0'"),
}


@pytest.mark.parametrize("case", SIMILARITY)
@pytest.mark.parametrize("side", ["left", "right"])
def test_similarities_that_are_none(folder, side, case):
    change, message = SIMILARITY[case]
    S = folder["s.csv" if side == "left" else "t.csv"]
    S = S.set_axis([f"d{i}" for i in range(len(S))]).set_axis([f"d{i}" for i in range(len(S))], axis=1)
    change(S).rename_axis("id").to_csv("bad.csv")
    links = folder["links.csv"]
    links.assign(gene=links["gene"].str.replace("g", "d")).to_csv("renamed.csv", index=False)
    other = "--right right.csv" if side == "left" else "--left left.csv"
    used = "links.csv" if side == "left" else "renamed.csv"
    said = refused(f"pairs --{side}-similarity bad.csv {other} --links {used}", folder)
    option = f"--{side}-similarity"
    assert message.format(option, last=len(S) - 1) in said
    if case in ("gap", "infinite"):
        assert f"{option} or --predict has 1" in said or f"{option} has 1" in said
    assert "sklearn" not in said


def test_similarities_are_sorted_by_name(folder):
    """Columns in another order are no error: they have names."""
    folder["s.csv"].iloc[:, ::-1].to_csv("turned.csv")
    answers = []
    for table in ("s.csv", "turned.csv"):
        done = run(
            f"pairs --left-similarity {table} --right right.csv --links links.csv --alpha 1 --bandwidth 1"
        )
        assert done.exit_code == 0, done.output
        answers.append(pd.read_csv("o.csv"))
    pd.testing.assert_frame_equal(*answers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda S: S.iloc[:, 1:], "bad.csv has no column of similarities to 'd0' (1 missing in all)"),
        (lambda S: S.rename(columns={"d3": "zz"}), "bad.csv has no column of similarities to 'd3'"),
        (
            lambda S: put(S, 1, 1, np.nan),
            "--left-similarity or --predict has 1 similarities that are missing or infinite, of the entities 'd13'",
        ),
    ],
)
def test_new_similarities_that_are_missing(folder, change, message, monkeypatch):
    monkeypatch.setattr("colspace.KernelPairRegressor.fit", None)  # said before the search
    change(folder["n.csv"]).to_csv("bad.csv")
    assert message in refused(
        "pairs --left-similarity s.csv --right right.csv --links links.csv --predict bad.csv", folder
    )


LINKS = {
    "unknown": (
        lambda L: pd.concat([L, L[:1].assign(disease="zz")]),
        "",
        "name 1 left id(s) that no table has: 'zz'. Add their features, or leave these links out with --drop-unknown",
    ),
    "none": (lambda L: L[:0], "", "bad.csv is empty: 0 rows"),
    "one": (lambda L: L[:1], "", "too few links to tune by. Give --bandwidth and --alpha as numbers"),
    "one, both new": (
        lambda L: L[:1],
        "--target new-both",
        "--bandwidth and --shrinkage (also --alpha) as numbers",
    ),
    "one, observed": (lambda L: L[:1], "--observed", "so nothing tells partners apart"),
    "two, observed": (lambda L: L[:2], "--observed", "too few links to tune by"),
    "equal, observed": (
        lambda L: L.assign(score=2.0),
        "--observed",
        "all observed pairs have the score 2, so",
    ),
    "zeros": (lambda L: L.assign(score=0.0), "", "all scores of --links are zero, so there is no link"),
    "negative": (lambda L: L.assign(score=-1.0), "", "no score of --links is above zero"),
    "negative, new": (
        lambda L: L.assign(score=-1.0),
        "--predict new.csv",
        "or --observed if absent pairs are",
    ),
    "infinite": (lambda L: L.assign(score=np.inf), "", "is inf; leave unknown links out"),
}


@pytest.mark.parametrize("case", LINKS)
def test_links_that_tell_nothing(folder, case):
    change, options, message = LINKS[case]
    change(folder["links.csv"]).to_csv("bad.csv", index=False)
    said = refused(f"pairs --left left.csv --right right.csv --links bad.csv {options}", folder)
    assert message in said
    assert " Y" not in said


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (lambda L: L[:1], "--predict new.csv"),
        (lambda L: L.assign(score=1.0), ""),
        (lambda L: L[L["gene"] == "g0"], "--target new-both --bandwidth 1 --alpha 1 --reduction none"),
        (lambda L: L.assign(score=-1.0), "--predict new.csv --bandwidth 1 --alpha 1 --reduction none"),
    ],
)
def test_little_to_learn_from_is_ranked(folder, rows, options):
    rows(folder["links.csv"]).to_csv("few.csv", index=False)
    done = run(f"pairs --left left.csv --right right.csv --links few.csv {options}")
    assert done.exit_code == 0, done.output
    if "-1" in str(rows(folder["links.csv"])["score"].iloc[0]):
        assert "the ranks are not judged" in " ".join(done.output.split())


@pytest.mark.parametrize("options", ["", "--predict new.csv"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_one_entity_of_a_side(folder, side, options):
    """Nearest neighbours have nobody to look at, and the rest stands."""
    folder[f"{side}.csv"][:1].to_csv(f"{side}.csv")
    done = run(f"pairs --left left.csv --right right.csv --links links.csv --drop-unknown {options}")
    assert done.exit_code == 0 or (done.exit_code == 2 and "Error: " in done.stderr), done.output
    assert "nearest neighbours" in done.output or done.exit_code == 2


@pytest.mark.parametrize("option", ["alpha", "bandwidth"])
def test_numbers_below_zero_are_told_by_their_option(folder, option):
    told = run("pairs --left left.csv --right right.csv --links links.csv", f"--{option}", "-1")
    assert told.exit_code == 2
    assert f"Error: --{option} -1.0,-1.0 must be 'auto', a positive number" in told.stderr
