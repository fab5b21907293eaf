import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from colspace.cli._group import colspace
from colspace.io import read_table
from colspace.report._advice import _blocks, advise
from colspace.report._profile import column_of, profile
from colspace.report._skipped import skipped


def run(*arguments, code=0):
    result = CliRunner().invoke(colspace, ["look", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None, None], "empty"),
        ([3, 3, None], "constant"),
        ([True, False, None], "yes/no"),
        ([5, 9], "whole"),
        ([5, 9, np.inf, 5, 9], "infinite"),
        ([7, 8, 9, 10], "whole"),
        (["no", "yes", "no"], "yes/no"),
        ([0, 1, 1, 0], "yes/no"),
        (["S", "M", "L", "M", "S"], "levels"),
        ([1, 2, 3, 1, 2, 3], "levels"),
        ([1, 2, 4, 8, 16, 3], "whole"),
        ([0.5, 1.5, 2.5], "number"),
        ([0.5, 1.5, 0.5, 2.5, 2.5, 1.5], "number"),
        (["a1", "a2", "a3"], "id"),
        ([1, 2, 3, 4], "id"),
        ([5, 9, 2, 4], "whole"),
        (["the cat sat there", "a dog ran far away", "birds fly south in winter"], "id"),
        (["the cat sat there"] * 2 + ["a dog ran far away"], "yes/no"),
        ([f"the cat sat on mat {i // 2} of many" for i in range(60)], "text"),
        ([f"the cat sat on mat {i} of many" for i in range(60)], "text"),
        ([f"a mat {i} of many" for i in range(60)], "id"),
        ([f"town {i // 2}" for i in range(60)], "words"),
        ([f"a cat on {i // 2}" for i in range(60)], "text"),
        (pd.to_datetime(["2020-01-01", "2020-02-01"]), "date"),
        (["2020-01-01", "2020-02-01", None], "date"),
        (["1/31/2024", "2/1/2024", "2/3/24"], "date?"),
        (["01.02.2024", "02.02.2024", "02.02.2024"], "date?"),
        (["2024-01-31T10:00:00Z", "2024-02-01T10:00:00Z"], "date?"),
        (["$1,234.50", "$7", "($12)"], "number?"),
        (["12 %", "7.5%", "100%", "7.5%"], "number?"),
        (["1.234,5 €", "7,25 €", "0,1 €"], "number?"),
        (["1,234", "12", "7"], "number?"),
        (["123-45-6789", "987-65-4321"], "id"),
        (["4", "6", "rotary", "8", "4"], "mixed"),
        (["4", "6", "old", "new", "4"], "levels"),
    ],
)
def test_kinds_of_columns(values, kind):
    assert column_of("x", pd.Series(values)).kind == kind


def test_the_first_cell_is_short():
    assert column_of("x", pd.Series([1 / 3, 2.0])).example == "0.333333"
    assert column_of("x", pd.Series([3.0, None, 5.0])).example == "3"
    assert column_of("x", pd.Series([12345678, 5])).example == "12345678"


def test_whole_numbers_are_an_id_by_their_name():
    values = pd.Series([5, 9, 2, 4])
    for name in ("patient_id", "Order ID", "patientId", "PatientID", "rownames", "Unnamed: 0", "ZIP code"):
        assert column_of(name, values).kind == "id", name
    for name in ("paid", "valid", "grid", "casino"):
        assert column_of(name, values).kind == "whole", name
    assert column_of("width", values).kind == "whole"


@pytest.fixture
def survey(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(
        {
            "who": [f"r{i}" for i in range(n)],
            "g_1": rng.normal(size=n),
            "g_2": rng.normal(size=n),
            "d_1": rng.normal(size=n),
            "d_2": rng.normal(size=n),
            "flat": 1.0,
            "note": [f"it was a day number {i}" for i in range(n)],
            "outcome": rng.normal(size=n),
        }
    )
    frame["again"] = frame["g_1"]
    frame.loc[:99, "g_2"] = np.nan
    frame.loc[100:, "d_2"] = np.nan
    frame.to_csv("survey.csv", index=False)
    return frame


def test_gaps_copies_and_columns_that_never_meet(survey):
    found = profile("survey.csv", survey)
    assert (found.gap_cells, found.rows_with_gaps) == (200, 200)
    assert found.patterns == [(100, ["d_2"]), (100, ["g_2"])]
    assert found.unseen == [("g_2", "d_2")]
    assert found.same == [["g_1", "again"]]
    assert found.of("constant") == ["flat"]
    assert found.repeated_rows == 0


def test_commonest_patterns_first_and_the_share_of_all_cells():
    frame = pd.DataFrame(
        {"a": [None, None, None, 1.0], "b": [None, 2.5, 3.5, 4.5], "c": [1.0, 2.0, 3.5, 9.0]}
    )
    found = profile("t.csv", frame)
    assert found.patterns == [(2, ["a"]), (1, ["a", "b"])]
    assert advise([found], {"t.csv": frame})[0].why.startswith("33 % of the cells are gaps")
    labelled = frame.assign(y=[1.5, 2.5, None, 4.5], z=[1.0, 0.5, 3.0, 2.0])
    told = advise([profile("t.csv", labelled)], {"t.csv": labelled})[1]
    assert told.command[4] == "y"  # rows without it are embedded


def test_equal_sums_do_not_make_copies():
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5], "b": [2.5, 1.5, 0.5]})
    assert profile("t", frame).same == []


def test_the_page_names_what_matters(survey):
    text = " ".join(run("survey.csv").output.split())
    assert "survey.csv: 200 rows, 9 columns" in text
    assert "100 rows lack 'd_2'" in text
    assert "hardly ever observed together: g_2 and d_2" in text
    assert "the same cells: 'g_1', 'again'" in text
    assert "one value only: 'flat'" in text
    assert "colspace impute survey.csv --out filled.csv --id who --id note" in text


def test_commands_can_be_pasted(survey):
    survey[["who", "g_1", "g_2", "d_1", "d_2", "outcome"]].dropna(axis=1).assign(
        g_2=survey["g_1"] ** 2, d_2=survey["d_1"] ** 2
    ).to_csv("full table.csv", index=False)
    found = json.loads(run("full table.csv", "--json", "-").output)
    (advice,) = found["advice"]
    command = shlex.split(advice["command"])
    assert command[:5] == ["colspace", "reduce", "full table.csv", "--response", "outcome"]
    assert command[5:] == ["--id", "who", "--block", "g=g_*", "--block", "d=d_*"]
    done = CliRunner().invoke(colspace, [*command[1:], "--no-check"])
    assert done.exit_code == 0, done.output


def test_the_filling_command_can_be_pasted(survey):
    survey.to_csv("gaps.csv", index=False)
    commands = [a["command"] for a in json.loads(run("gaps.csv", "--json", "-").output)["advice"]]
    fill = next(shlex.split(c) for c in commands if " impute " in c)
    done = CliRunner().invoke(colspace, fill[1:])
    assert done.exit_code == 0, done.output
    assert not pd.read_csv("filled.csv")["g_2"].isna().any()


def advised(*arguments):
    found = json.loads(run(*arguments, "--json", "-").stdout)["advice"]
    return [shlex.split(each["command"])[1:] for each in found]


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """A table as people have them: an index, money, dates, codes with a word among them, an empty column, gaps."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        {
            "rownames": rng.permutation(1000)[:n],
            "Größe (cm)": rng.normal(170, 9, n).round(1),
            "price": [f"${v:,.2f}" for v in rng.lognormal(7, 1, n)],
            "bought": [f"{i % 12 + 1}/{i % 28 + 1}/2024" for i in range(n)],
            "cylinders": rng.choice(["4", "6", "8", "rotary"], n),
            "town": [f"town {i % 60}" for i in range(n)],
            "weight": rng.normal(size=n),
            "class": rng.choice(["a", "b", "c"], n),
            "void": np.nan,
        }
    )
    frame.loc[::9, "weight"] = np.nan
    return frame


def test_what_is_advised_runs_as_it_stands(odd):
    odd.to_csv("odd.csv", index=False, encoding="latin-1")
    fill, reduce = advised("odd.csv", "--encoding", "latin-1", "--na", "170.0")
    assert fill[:4] == ["impute", "odd.csv", "--out", "filled.csv"]
    assert fill[-4:] == ["--na", "170.0", "--encoding", "latin-1"]
    assert "cylinders=nominal" in fill
    assert {"price", "bought", "town"} < set(fill)
    assert reduce[:4] == ["reduce", "odd.csv", "--response", "class"]
    assert reduce[-4:] == fill[-4:]
    for command in (fill, reduce):
        done = CliRunner().invoke(colspace, [*command, "--no-check"])
        assert done.exit_code == 0, done.output
    text = " ".join(run("odd.csv", "--encoding", "latin-1").output.split())
    assert "numbers with signs, which are taken as text: 'price'; write them plainly" in text
    assert "dates that are taken as text: 'bought'; write them as in 2024-01-31" in text
    assert "numbers and some text: 'cylinders'; name the text with --na" in text
    assert (
        "the directions of the 2 columns that tell 'class', or what else --response names; gaps are filled"
        in text
    )


def test_a_table_without_gaps_is_reduced_as_it_is(odd):
    odd.drop(columns="void").dropna().assign(code=[0, 1] * 40).drop(columns="class").to_csv(
        "full.csv", index=False
    )
    (reduce,) = advised("full.csv")
    assert reduce[:4] == ["reduce", "full.csv", "--response", "code"]
    assert "--labels" in reduce
    assert CliRunner().invoke(colspace, [*reduce, "--no-check"]).exit_code == 0


@pytest.mark.parametrize(
    ("names", "kinds", "response"),
    [
        (["plan", "age", "size", "churn"], "wnnw", "churn"),
        (["plan", "age", "size", "left"], "wnnw", "left"),
        (["plan", "age", "size", "weight"], "wnnn", "plan"),
        (["age", "SalePrice", "size", "weight"], "nnnn", "SalePrice"),
        (["age", "is_fraud", "size", "plan"], "nwnw", "is_fraud"),
        (["price", "TARGET", "size", "plan"], "nnnw", "TARGET"),
        (["age", "priced", "size", "weight"], "nnnn", "weight"),
        (["x_center", "y_center", "y", "weight"], "nnnn", "y"),
        (["x_center", "y_center", "size", "quality"], "nnnn", "quality"),
        (["x_center", "y_center", "size", "weight"], "nnnn", "weight"),
        (["label_size", "Price", "size", "weight"], "nnnn", "Price"),
        (["age", "hourly_wage", "size", "plan"], "nnnw", "hourly_wage"),
        (["fraudulent", "size", "weight", "source"], "wnnw", "fraudulent"),
    ],
)
def test_which_column_looks_like_a_response(names, kinds, response, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    columns = [rng.choice(["a", "b"], 60) if k == "w" else rng.normal(size=60) for k in kinds]
    pd.DataFrame(dict(zip(names, columns, strict=True))).to_csv("t.csv", index=False)
    reduce = next(command for command in advised("t.csv") if command[0] == "reduce")
    assert reduce[3] == response


def test_columns_with_infinite_cells_are_left_out_of_what_is_proposed(odd):
    height, n = odd["Größe (cm)"].to_numpy(), len(odd)
    table = pd.DataFrame({"end": height[::-1] + 1, "weight": odd["weight"], "height": height})
    table.loc[:5, "end"] = np.inf
    table.assign(code=np.resize([0, 1], n)).to_csv("endless.csv", index=False)
    assert "infinite cells: 'end'; give --na inf or --na -inf" in run("endless.csv").output
    for command in advised("endless.csv"):
        assert command[command.index("--drop") + 1] == "end"
        done = CliRunner().invoke(colspace, command)
        assert done.exit_code == 0, done.output
    for command in advised("endless.csv", "--na", "inf"):
        assert "--drop" not in command
        assert CliRunner().invoke(colspace, command).exit_code == 0


def test_a_response_known_by_its_name_may_have_gaps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=["y", "a", "b", "c"])
    frame.loc[:5, "y"] = np.nan
    frame.to_csv("t.csv", index=False)
    reduce = next(command for command in advised("t.csv") if command[0] == "reduce")
    assert reduce[3] == "y"
    assert CliRunner().invoke(colspace, [*reduce, "--no-check"]).exit_code == 0
    frame.assign(y=frame["y"].where(frame.index % 3 == 0)).to_csv("t.csv", index=False)
    assert next(command for command in advised("t.csv") if command[0] == "reduce")[3] == "c"


def test_labels_of_topics_have_no_gaps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = rng.choice(["cat", "dog", "bird", "sat", "ran", "flew", "far", "home"], (60, 8))
    frame = pd.DataFrame({"label": rng.choice(["a", "b"], 60), "story": [" ".join(row) for row in words]})
    frame.to_csv("t.csv", index=False)
    assert [command[0] for command in advised("t.csv")] == ["atoms"]
    frame.loc[3, "label"] = None
    frame.to_csv("t.csv", index=False)
    assert "atoms" not in [command[0] for command in advised("t.csv")]


def test_topics_of_all_texts_beside_covariates(tmp_path, monkeypatch):
    """Covariates that the command takes: levels of words, gaps in them too, and numbers without gaps."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = rng.choice(["cat", "dog", "bird", "sat", "ran", "flew", "far", "home"], (2, 60, 9))
    frame = pd.DataFrame({"fraudulent": rng.choice([0, 1], 60), "town": rng.choice(["a", "b", "c"], 60)})
    frame["story"], frame["end"] = ([" ".join(row) for row in each] for each in words)
    frame["logo"], frame["gaps"], frame["a,b"] = rng.choice([0.0, 1.0], (3, 60))
    frame.loc[3, ["town", "gaps", "end"]] = None
    frame.to_csv("t.csv", index=False)
    command = next(command for command in advised("t.csv") if command[0] == "atoms")
    assert command[2:10] == [
        *("--label", "fraudulent", "--text", "story", "--text", "end"),
        *("--covariates", "town,logo"),
    ]
    done = CliRunner().invoke(colspace, [*command, "-r", "2"])
    assert done.exit_code == 0, done.output
    told = " ".join(run("t.csv").output.split())
    assert (
        "topics of 'story' and 'end' that tell 'fraudulent', or what else --label names, beside covariates"
        in told
    )


def test_tables_with_whole_numbers_of_the_same_name_are_joined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("s", "t"):
        rows = pd.DataFrame(rng.standard_normal((30, 2)), columns=[f"{name}1", f"{name}2"])
        rows.insert(0, "patient", rng.permutation(40)[:30])
        rows.to_csv(f"{name}.csv", index=False)
    command = advised("s.csv", "t.csv")[0]
    assert command[:5] == ["reduce", "s.csv", "t.csv", "--id", "patient"]


def test_where_nothing_fits_it_says_what_would(odd):
    odd[["price", "bought"]].to_csv("few.csv", index=False)
    assert "no command fits as it is: reduce takes a response and" in run("few.csv").output


def test_features_of_pairs_that_are_words_or_gaps(odd):
    left = odd[["weight", "class"]].head(20)
    left.insert(0, "gene", [f"g{i}" for i in range(20)])
    right = pd.DataFrame(
        {"drug": [f"d{i}" for i in range(9)], "u": np.arange(9.0) ** 2, "v": np.sqrt(np.arange(9.0))}
    )
    links = pd.DataFrame({"gene": [f"g{i}" for i in range(20)], "drug": [f"d{i % 9}" for i in range(20)]})
    for name, frame in (("l", left), ("r", right), ("k", links)):
        frame.to_csv(f"{name}.csv", index=False)
    command = advised("l.csv", "r.csv", "k.csv")[0]
    assert command[-3:] == ["--out", "partners.csv", "--impute"]  # words are indicators
    left.assign(note=[f"free text number {i}" for i in range(20)]).to_csv("l.csv", index=False)
    command = advised("l.csv", "r.csv", "k.csv")[0]
    assert command[-3:] == ["--drop", "note", "--impute"]
    left = left.assign(
        weight=np.arange(20.0) ** 2, note=[None, *(f"free text number {i}" for i in range(19))]
    )
    left.drop(columns="class").to_csv("l.csv", index=False)  # gaps are in what is dropped
    command = advised("l.csv", "r.csv", "k.csv")[0]
    assert command[-2:] == ["--drop", "note"]
    done = CliRunner().invoke(colspace, [*command, "--no-check"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([31, 40, -99, 28, -99], "-99"),
        ([0.5, 1.5, -9, 2.5, -9, None], "-9"),
        ([1, 2, 5, 3, 999, 999, 4], "999"),
        ([0.4, -1.2, -999, 2.1, -999], "-999"),  # far below
        ([31, 40, -99, 28], ""),  # once
        ([31, -40, -99, 28, -99], ""),  # not the only negative number
        ([96, 97, 98, 99, 99], ""),  # near the others
        ([1, 2, 3, 4, 5, 9, 9], ""),
        ([31, 40, -98, 28, -98], ""),
        ([0, -9, -9, 0], ""),  # two values: yes or no
        (["a", "-99", "-99", "b"], ""),
        ([True, False, None], ""),
    ],
)
def test_numbers_that_may_stand_for_gaps(values, code):
    table = profile("t.csv", pd.DataFrame({"a": pd.Series(values), "b": 1.0}))
    assert table.codes == ([("a", code)] if code else [])


def test_a_number_that_may_stand_for_a_gap_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"age": [31, 40, -99, 28, -99], "children": [0, 2, -99, -99, 1], "x": range(5)})
    table.assign(gap=[1.5, None, 2.5, 3.5, 4.5]).to_csv("t.csv", index=False)
    text = run("t.csv").stdout
    assert "-99 may stand for a gap in 'age', 'children': if so, give --na -99\n" in text
    assert "  1 row lacks 'gap'\n" in text
    assert "may stand" not in run("t.csv", "--na", -99).stdout


def test_similarities_are_told_from_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = {"g": [f"g{i}" for i in range(20)], "d": [f"d{i}" for i in range(15)]}
    for side, own in names.items():
        features = rng.normal(size=(len(own), 4))
        like = pd.DataFrame(np.corrcoef(features), columns=own)
        like.insert(0, "id", own)
        like.to_csv(f"{side}.csv", index=False)
    links = pd.DataFrame({"g": rng.choice(names["g"], 60), "d": rng.choice(names["d"], 60)})
    links.drop_duplicates().to_csv("links.csv", index=False)
    line = next(x for x in run("g.csv", "d.csv", "links.csv").stdout.splitlines() if "colspace pairs" in x)
    assert "--left-similarity g.csv --right-similarity d.csv --links links.csv" in line
    done = CliRunner().invoke(colspace, [*shlex.split(line)[1:], "--no-check"])
    assert done.exit_code == 0, done.output


def test_three_tables_of_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    left = pd.DataFrame(rng.normal(size=(6, 3)), columns=list("abc"))
    left.insert(0, "gene", [f"g{i}" for i in range(6)])
    right = pd.DataFrame(rng.normal(size=(5, 2)), columns=list("uv"))
    right.insert(0, "disease", [f"d{i}" for i in range(5)])
    links = pd.DataFrame({"gene": ["g1", "g1", "g2"], "disease": ["d1", "d2", "d2"]})
    frames = {"l.csv": left, "r.csv": right, "k.csv": links}
    advice = advise([profile(path, frame) for path, frame in frames.items()], frames)
    assert advice[0].line == "colspace pairs --left l.csv --right r.csv --links k.csv --out partners.csv"


def pairs_advised(left, right, links):
    frames = {"l.csv": left, "r.csv": right, "links.csv": links}
    advice = advise([profile(*each) for each in frames.items()], frames)
    return [each.command[2:] for each in advice if "pairs" in each.command]


def test_links_to_ids_that_few_tables_have():
    left, right = (
        pd.DataFrame({"id": [f"{s}{i}" for i in range(9)], "x": np.arange(9) ** 0.5}) for s in "lr"
    )
    links = pd.DataFrame({"l": ["l1", "l2", "l2", "l5"], "r": ["r3", "r3", "r4", "r5"]})
    plain = ["--left", "l.csv", "--right", "r.csv", "--links", "links.csv", "--out", "partners.csv"]
    assert pairs_advised(left, right, links) == [plain]
    assert pairs_advised(left, right, links.replace("r5", "elsewhere")) == [[*plain, "--drop-unknown"]]
    assert pairs_advised(left, right, links.replace(["r5", "r3"], "elsewhere")) == []


def test_links_between_entities_with_names_or_numbers():
    """Names of some words are ids; numbers are where the table of links calls them the same."""
    names = [f"syndrome of type {i} (rare)" for i in range(9)]
    codes = [1040 + i * i for i in range(9)]
    left = pd.DataFrame({"disease": names, "x": np.arange(9) ** 0.5})
    right = pd.DataFrame({"drug": codes, "u": np.arange(9) ** 0.5})
    links = pd.DataFrame({"disease": names[:4], "drug": codes[2:6]})
    assert [command[:4] for command in pairs_advised(left, right, links)] == [
        ["--left", "l.csv", "--right", "r.csv"]
    ]
    assert pairs_advised(left, right, links.rename(columns={"drug": "dose"})) == []
    assert pairs_advised(left, right.assign(drug=[1040, *codes[:8]]), links) == []  # no key


def test_links_that_are_advised_can_be_pasted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    left = pd.DataFrame({"who": [f"entity number {i} of all" for i in range(30)], "x": rng.normal(size=30)})
    right = pd.DataFrame({"what": 7 * np.arange(20) ** 2, "u": rng.normal(size=20)})
    links = pd.DataFrame({"who": rng.choice(left["who"], 80), "what": rng.choice(right["what"], 80)})
    links = links.drop_duplicates()
    links.iloc[0, 0] = "somebody else"
    for name, frame in (("l", left), ("r", right), ("k", links)):
        frame.to_csv(f"{name}.csv", index=False)
    command = advised("l.csv", "r.csv", "k.csv")[0]
    assert command[-1] == "--drop-unknown"
    done = CliRunner().invoke(colspace, [*command, "--no-check"])
    assert done.exit_code == 0, done.output
    assert "somebody else" not in read_table("partners.csv")["who"].tolist()


def test_tables_that_share_ids(tmp_path, monkeypatch):
    """A command that can be pasted; one that fills where there are gaps, none where ids differ."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ids = [f"p{i}" for i in range(40)]
    first = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    first.insert(0, "who", ids)
    second = pd.DataFrame(rng.normal(size=(40, 2)), columns=["d", "outcome"])
    second.insert(0, "who", ids[::-1])
    first.to_csv("a.csv", index=False)
    second.iloc[:30].to_csv("b.csv", index=False)
    advice = json.loads(run("a.csv", "b.csv", "--json", "-").stdout)["advice"][0]
    assert advice["why"].startswith("a.csv, b.csv share 30 ids of 'who' (of 40, 30): join them")
    assert "the directions of both that tell 'outcome', or what else --response names" in advice["why"]
    assert len(advised("a.csv", "b.csv")) == 1  # not each by itself as well
    assert advice["command"] == "colspace reduce a.csv b.csv --id who --response outcome"
    done = CliRunner().invoke(colspace, [*advice["command"].split()[1:], "--no-check", "-r", "1"])
    assert done.exit_code == 0, done.output
    second.assign(d=second["d"].where(second.index > 3)).to_csv("b.csv", index=False)
    advice = json.loads(run("a.csv", "b.csv", "--json", "-").stdout)["advice"][0]
    assert advice["command"] == "colspace impute a.csv b.csv --id who --out filled.csv"
    reduce = advised("a.csv", "b.csv")[1]
    assert reduce == ["reduce", "a.csv", "b.csv", "--id", "who", "--response", "outcome"]
    done = CliRunner().invoke(colspace, [*reduce, "--no-check", "-r", "1"])
    assert done.exit_code == 0, done.output
    second.assign(who=[f"q{i}" for i in range(40)]).to_csv("b.csv", index=False)
    assert "a.csv b.csv" not in json.dumps(json.loads(run("a.csv", "b.csv", "--json", "-").stdout)["advice"])


def test_three_tables_that_share_ids_and_classes_that_are_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in "abc":
        frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=[f"{name}1", f"{name}2"])
        frame.insert(0, "who", [f"p{i}" for i in range(40)])
        frame.assign(**({"outcome": rng.integers(0, 3, 40)} if name == "c" else {})).to_csv(
            f"{name}.csv", index=False
        )
    advice = json.loads(run("a.csv", "b.csv", "c.csv", "--json", "-").stdout)["advice"][0]
    assert "the directions of all 3 that tell 'outcome'" in advice["why"]
    assert advice["command"].endswith("--response outcome --labels")
    done = CliRunner().invoke(colspace, [*advice["command"].split()[1:], "--no-check", "-r", "1"])
    assert "3 classes" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], "none.csv does not exist"),
        (["survey.csv", "survey.csv"], "is given twice"),
        (
            ["sheet.csv"],
            "sheet.csv begins with the line 'sep=;', which spreadsheets alone understand; delete",
        ),
    ],
)
def test_bad_input_is_one_line(survey, arguments, message):
    Path("sheet.csv").write_text("sep=;\na;b\n1,5;2\n2,5;3\n")
    assert message in run(*arguments, code=2).output


def test_many_columns_are_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(np.random.default_rng(0).normal(size=(4, 50)), columns=[f"c{i}" for i in range(50)]).to_csv(
        "w.csv", index=False
    )
    text = " ".join(run("w.csv").output.split())
    assert "and 10 more columns (--all shows them); of all: 50 number" in text
    assert "c49" in run("w.csv", "--all").output


def test_blocks_are_of_two_columns_or_more():
    assert _blocks(["g_1", "g_2", "d_1", "d_2"]) == ["g=g_*", "d=d_*"]
    assert _blocks(["g_1", "g_2", "d_1"]) == []


@pytest.mark.parametrize(("levels", "kept"), [(50, False), (51, True)])
def test_many_different_words_are_kept_as_they_are(levels, kept):
    words = pd.Series([f"w{i % levels}" for i in range(200)]).mask(np.arange(200) == 7)
    frame = pd.DataFrame({"town": words, "a": np.arange(200) ** 0.5})
    command = advise([profile("t.csv", frame)], {"t.csv": frame})[0].command
    assert (command[1], "--id" in command) == ("impute", kept)


def test_questions_that_are_skipped_are_named_by_look_and_impute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    car = np.where(rng.random(120) < 0.5, "yes", "no")
    table = pd.DataFrame({"car": car, "age": rng.normal(50, 9, 120).round(1)})
    table["km"] = np.where(car == "yes", rng.normal(9, 1, 120).round(2), np.nan)
    table["owners"] = np.where(car == "yes", rng.integers(1, 4, 120), np.nan)
    table.loc[table.index[car == "yes"][:5], "km"] = np.nan  # not answered
    table.loc[::9, "age"] = np.nan
    table.to_csv("t.csv", index=False)
    told = f"'km', 'owners' are never there where 'car' is 'no' ({(car == 'no').sum()} rows): where there is nothing to ask"
    assert told in run("t.csv").stdout
    done = CliRunner().invoke(colspace, ["impute", "t.csv", "--out", "f.csv", "--no-check"])
    assert done.exit_code == 0
    assert told in done.stderr
    kept = ["impute", "t.csv", "--out", "g.csv", "--no-check", "--id", "km", "--id", "owners"]
    assert "never there" not in CliRunner().invoke(colspace, kept).stderr


def test_gaps_at_random_are_no_skipped_questions():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        cells = rng.integers(0, rng.integers(2, 20), (40, 10)).astype(float)
        holes = rng.random(cells.shape) < rng.choice([0.1, 0.5, 0.9])
        assert not skipped(pd.DataFrame(cells).mask(holes))
