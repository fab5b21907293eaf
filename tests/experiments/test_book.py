import json
import os

import pytest
from click.testing import CliRunner

from colspace import experiments
from colspace.cli._group import colspace
from colspace.experiments import _book
from colspace.experiments._book import Outcome, run_all, write_book
from colspace.experiments._claims import PAPERS, VERDICTS, Claim, judge, numbers, parse_paper, read_paper
from colspace.experiments._core import Result


def claim(**given):
    return Claim(**{"id": "a", "place": "Table 1", "says": "error", "target": "t", "value": "e", **given})


@pytest.mark.parametrize(
    ("ours", "error", "given", "verdict"),
    [
        (0.514, 0.0, {}, "holds"),  # 2.8 %
        (0.516, 0.0, {}, "differs"),
        (0.484, 0.0, {}, "differs"),
        (0.529, 0.015, {}, "holds"),
        (0.529, 0.014, {}, "differs"),
        (0.529, 0.0, {"published_error": 0.015}, "holds"),
        (0.529, 0.0, {"published_sd": 0.03, "runs": 4}, "holds"),
        (0.529, 0.0, {"published_sd": 0.03, "runs": 5}, "differs"),
        (0.549, 0.01, {"tolerance": 0.05}, "holds"),
        (0.56, 0.05, {"tolerance": 0.05}, "differs"),
        (float("nan"), 0.0, {}, "differs"),
    ],
)
def test_a_number_holds_within_two_errors_or_three_percent(ours, error, given, verdict):
    found = judge(claim(published=0.5, error="s", **given), [{"e": ours, "s": error}])
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict", "note"),
    [
        ([0.1, 0.2], [0.3, 0.3], "holds", "lower in 2 of 2"),
        ([0.1, 0.31], [0.3, 0.3], "differs", "lower in 1 of 2"),
        ([0.1, 0.33], [0.3, 0.3], "fails", "lower in 1 of 2"),
    ],
)
def test_an_order_holds_in_every_pair(low, high, verdict, note):
    rows = [
        {"m": m, "x": x, "e": e, "s": 0.01}
        for m, values in (("ours", low), ("other", high))
        for x, e in enumerate(values)
    ]
    here = claim(rule="below", where={"m": "ours"}, against={"m": "other"}, by=("x",), error="s")
    found = judge(here, rows[::-1])
    assert (found.verdict, found.note) == (verdict, note)


@pytest.mark.parametrize(
    ("here", "there", "given", "verdict"),
    [
        ([0.102, 0.3], [0.1, 0.3], {}, "holds"),
        ([0.104, 0.3], [0.1, 0.3], {}, "differs"),
        ([0.104, 0.3], [0.1, 0.3], {"tolerance": 0.05}, "holds"),
        ([0.1, 0.28], [0.1, 0.3], {"tolerance": 0.05}, "differs"),
        ([0.104, 0.3], [0.1, 0.3], {"error": "s"}, "holds"),
        ([0.105, 0.3], [0.1, 0.3], {"error": "s"}, "differs"),  # two errors are .0042
    ],
)
def test_likeness_holds_in_every_pair(here, there, given, verdict):
    rows = [
        {"m": m, "x": x, "e": e, "s": 0.0015}
        for m, values in (("ours", here), ("other", there))
        for x, e in enumerate(values)
    ]
    asked = claim(rule="like", where={"m": "ours"}, against={"m": "other"}, by=("x",), **given)
    found = judge(asked, rows)
    assert found.verdict == verdict
    assert found.note == ("alike in 2 of 2" if verdict == "holds" else "alike in 1 of 2")


def test_points_of_one_curve_have_one_slope():
    rows = [{"x": x, "slope": -0.51, "s": 0.02} for x in (1, 2, 3)]
    asked = {"value": "slope", "error": "s"}
    assert judge(claim(published=-0.5, **asked), rows).ours == "-0.51 ± 0.02"
    assert judge(claim(published=-0.4, rule="at_most", **asked), rows).note == "inside in 1 of 1"
    with pytest.raises(ValueError, match="2 rows of t match"):
        judge(claim(published=-0.5, **asked), [*rows, {"x": 4, "slope": -0.7, "s": 0.02}])


def test_rows_that_need_what_is_absent():
    rows = [{"m": "ours", "e": 1.0}]
    asked = {"rule": "below", "where": {"m": "ours"}, "against": {"m": "network"}}
    with pytest.raises(ValueError, match="no row of t has"):
        judge(claim(**asked), rows)
    found = judge(claim(**asked, needs="torch"), rows)
    assert (found.verdict, found.note) == (VERDICTS[3], "torch")
    assert judge(claim(**asked, needs="torch"), [*rows, {"m": "network", "e": 2.0}]).verdict == "holds"


def test_constants_of_a_paper_are_kept():
    assert parse_paper('paper = "9"\ntitle = "t"\n[settings]\nrank = 3').settings == {"rank": 3}


def test_an_order_needs_pairs():
    rows = [
        {"m": "ours", "x": 1, "e": 1.0},
        {"m": "ours", "x": 2, "e": 1.0},
        {"m": "other", "x": 3, "e": 2.0},
    ]
    here = {"rule": "below", "where": {"m": "ours"}, "against": {"m": "other"}}
    with pytest.raises(ValueError, match="not told apart"):
        judge(claim(**here), rows)
    with pytest.raises(ValueError, match="no row has a partner"):
        judge(claim(**here, by=("x",)), rows)


@pytest.mark.parametrize(
    ("rule", "values", "verdict"),
    [
        ("at_most", [0.5, 0.4], "holds"),
        ("at_most", [0.51, 0.4], "differs"),
        ("at_most", [0.53, 0.4], "fails"),
        ("at_least", [0.5, 0.6], "holds"),
        ("at_least", [0.49, 0.6], "differs"),
        ("at_least", [0.47, 0.6], "fails"),
    ],
)
def test_a_bound_is_judged_by_its_worst_row(rule, values, verdict):
    found = judge(claim(rule=rule, published=0.5, error="s"), [{"e": e, "s": 0.01} for e in values])
    assert found.verdict == verdict


def test_generated_data_answer_only_what_does_not_need_the_published():
    rows = [{"e": 0.5}]
    assert judge(claim(published=0.5), rows, stand_in=True).verdict == VERDICTS[3]
    assert judge(claim(published=0.5, own_data=True), rows, stand_in=True).verdict == "holds"
    assert judge(claim(published=0.5), None).verdict == VERDICTS[3]
    assert (
        judge(claim(target="", missing="the images are not public"), None).note == "the images are not public"
    )


def test_rows_are_found_by_what_they_hold():
    rows = [{"m": "a", "x": 0.1 + 0.2, "e": 1.0}, {"m": "b", "x": 0.3, "e": 2.0}]
    assert judge(claim(published=1.0, where={"m": "a", "x": 0.3}), rows).verdict == "holds"
    assert (
        judge(claim(published=2.0, rule="at_most", where={"m": ["a", "b"]}), rows).note == "inside in 2 of 2"
    )
    with pytest.raises(ValueError, match="no row of t has"):
        judge(claim(published=1.0, where={"m": "c"}), rows)
    with pytest.raises(ValueError, match="2 rows of t match"):
        judge(claim(published=1.0), rows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('rule = "equal"\ntarget = "t"\nvalue = "e"', "is none of"),
        ("published = 1.0", "either target or missing"),
        ('target = "t"\npublished = 1.0', "value names the column"),
        ('target = "t"\nvalue = "e"', "needs a published number"),
        ('target = "t"\nvalue = "e"\nrule = "below"', "needs against"),
        ('missing = "data"\nwhy = { odd = "x" }', "why explains a verdict"),
    ],
)
def test_an_entry_that_says_too_little_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        parse_paper(f'paper = "9"\ntitle = "t"\n[[claim]]\nid = "a"\nplace = "p"\nsays = "s"\n{given}\n')


def test_two_claims_of_one_name_are_refused():
    entry = '[[claim]]\nid = "a"\nplace = "p"\nsays = "s"\nmissing = "data"\n'
    with pytest.raises(ValueError, match="there twice"):
        parse_paper(f'paper = "9"\ntitle = "t"\n{entry}{entry}')


TABLE = """
paper = "9"
title = "t"
[[table]]
id = "t1"
place = "Table 1"
says = "error of {m} at {x}"
target = "t"
value = "e"
runs = 4
where = { kind = "k" }
keys = ["m", "x"]
cells = [["a", 1, 0.5], ["a", 2, 0.6, 0.02], ["b", 1, 7]]
lacks = { b = "not public" }
"""


def test_a_table_is_a_claim_a_cell():
    paper = parse_paper(TABLE)
    first, second, third = paper.claims
    assert (first.id, first.says, first.published, first.published_sd) == (
        "t1-a-1",
        "error of a at 1",
        0.5,
        0.0,
    )
    assert (second.where, second.published_sd, second.runs) == ({"kind": "k", "m": "a", "x": 2}, 0.02, 4)
    assert judge(second, [{"kind": "k", "m": "a", "x": 2, "e": 0.619}]).verdict == "holds"
    assert (third.target, third.missing, third.published) == ("", "not public", 7.0)
    assert numbers(paper, "t", "e", "kind", "m", "x") == {("k", "a", 1): 0.5, ("k", "a", 2): 0.6}
    assert numbers(paper, "t", "e", "m", "x") == numbers(paper, "t", "other", "kind", "m", "x") == {}


def test_a_table_of_several_columns():
    text = TABLE.replace('value = "e"', 'values = ["e", "f"]').replace("error of {m}", "{value} of {m}")
    start, end = text.index("cells"), text.index("lacks")
    paper = parse_paper(text[:start] + 'cells = [["a", 1, 0.5, 0.1, 0.7, nan]]\n' + text[end:])
    first, second = paper.claims
    assert (first.id, first.says, first.value, first.error) == ("t1-e-a-1", "e of a at 1", "e", "e_se")
    assert (second.id, second.published, second.published_sd) == ("t1-f-a-1", 0.7, 0.0)
    with pytest.raises(ValueError, match="for each value"):
        parse_paper(text)
    whys = 'why = { differs = "seeds" }\nwhys = { f = { differs = "unit" } }\n'
    paper = parse_paper(text[:start] + whys + 'cells = [["a", 1, 0.5, 0.1, 0.7, nan]]\n' + text[end:])
    assert [claim.why for claim in paper.claims] == [{"differs": "seeds"}, {"differs": "unit"}]


@pytest.mark.parametrize("cell", ['["a", 1]', '["a", 1, 0.5, 0.1, 3]'])
def test_a_cell_of_the_wrong_length_is_refused(cell):
    with pytest.raises(ValueError, match="must have 2 keys, then"):
        parse_paper(TABLE.replace('["a", 1, 0.5]', cell))


@pytest.mark.parametrize("number", PAPERS)
def test_the_papers_name_experiments_that_exist(number):
    paper = read_paper(number)
    assert paper.number == number
    assert {c.target for c in paper.claims if c.target} | set(paper.sizes) | set(paper.differences) <= set(
        experiments.EXPERIMENTS
    )


# ---------------------------------------------------------------------- the book


PAPER = """
paper = "9"
title = "On nothing"
[sizes]
a = "a thousand rows"
[differences]
a = "rows are drawn once"
[[claim]]
id = "one"
place = "Table 1"
says = "error of a"
target = "a"
value = "e"
published = 0.5
why = { holds = "as it should", differs = "never printed" }
[[claim]]
id = "two"
place = "Table 2"
says = "error of b"
target = "b"
value = "e"
published = 0.5
[[claim]]
id = "three"
place = "Table 3"
says = "seconds"
missing = "no implementation"
[[claim]]
id = "four"
place = "Table 4"
says = "error of a is at most .3"
rule = "at_most"
target = "a"
value = "e"
published = 0.3
why = { fails = "a is large" }
"""


@pytest.fixture
def two(monkeypatch):
    """Experiment a gives a row, b lacks its data; the runs are counted."""
    ran = []

    def run(name, **given):
        ran.append(name)
        if name == "b":
            msg = (
                f"{os.environ['COLSPACE_DATA']}/b.npz does not exist"
                if "COLSPACE_DATA" in os.environ
                else "set COLSPACE_DATA"
            )
            raise FileNotFoundError(msg)
        return Result(name, name, [{"e": 0.5}], [], ("a remark",), size="3 rows")

    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"a": "", "b": ""})
    monkeypatch.setattr(experiments, "run", run)
    return ran


def test_what_is_done_is_not_run_again(two, tmp_path):
    first = run_all(tmp_path, quick=True)
    assert [(o.name, o.rows, o.lacks) for o in first] == [
        ("a", [{"e": 0.5}], ""),
        ("b", None, "set COLSPACE_DATA"),
    ]
    assert run_all(tmp_path, quick=True) == first
    assert two == ["a", "b", "b"]  # what lacked its data is tried again
    run_all(tmp_path, quick=False)
    run_all(tmp_path, quick=False, rng=1)
    assert two.count("a") == 3
    (tmp_path / "a.json").write_text("{")
    run_all(tmp_path, quick=False, rng=1)
    assert two.count("a") == 4


def test_pages_name_no_folder_of_this_machine(two, tmp_path, monkeypatch):
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path / "mine"))
    outcomes = run_all(tmp_path, quick=True)
    assert outcomes[1].lacks == "COLSPACE_DATA/b.npz does not exist"
    write_book(tmp_path, outcomes, quick=True, papers=[parse_paper(PAPER)])
    assert not any(str(tmp_path) in page.read_text() for page in tmp_path.glob("*.md"))


def test_pages_hold_verdicts_and_their_reasons(two, tmp_path):
    paper = parse_paper(PAPER)
    counts = write_book(tmp_path, run_all(tmp_path, quick=True), quick=True, papers=[paper])
    assert counts == {"holds": 1, "fails": 1, VERDICTS[3]: 2}
    page = (tmp_path / "paper-9.md").read_text()
    assert "| Table 1 | error of a | a | 0.5 | 0.5 | 0 % off | holds | as it should |" in page
    assert "never printed" not in page
    said = "Quick run: 3 rows, 0 s of CPU. The paper: a thousand rows. Other than in the paper: rows are drawn once."
    assert f"{said}\n\n![a](a.png)\n\n- a remark\n\n| place" in page
    assert "1 holds, 0 differs, 1 fails, 2 not reproducible here." in page
    assert page.endswith(
        "## Not computed here\n\n| place | claim | published | why |\n| --- | --- | --- | --- |\n"
        "| Table 3 | seconds |  | no implementation |\n"
    )
    assert "Not run: set COLSPACE_DATA" in page
    index = (tmp_path / "index.md").read_text()
    assert "| [9](paper-9.md) | On nothing | 1 | 0 | 1 | 2 |" in index
    assert "| 9 | Table 4 | error of a is at most .3 | ≤ 0.3 | 0.5 | fails | a is large |" in index
    assert "`colspace reproduce --all --quick`" in index


def test_a_quick_target_among_full_ones_is_named(tmp_path):
    outcomes = [Outcome("a", [{"e": 0.5}], "3 rows", quick=True), Outcome("b", [{"e": 0.5}], "9 rows")]
    write_book(tmp_path, outcomes, quick=False, papers=[parse_paper(PAPER)])
    index = (tmp_path / "index.md").read_text()
    assert "Of a quick run, with fewer repetitions on smaller grids: a." in index
    assert "| a | Quick run: 3 rows | 0 |\n| b | 9 rows | 0 |" in index


def test_generated_data_are_said_to_stand_in(tmp_path):
    paper = parse_paper(PAPER)
    outcomes = [Outcome("a", [{"e": 0.5}], stand_in=True), Outcome("b", [{"e": 0.5}])]
    write_book(tmp_path, outcomes, quick=False, papers=[paper])
    page = (tmp_path / "paper-9.md").read_text()
    assert "Other data stand in for the published." in page
    assert "| Table 1 | error of a | a | 0.5 |  | data | not reproducible here |  |" in page


def test_numbers_of_a_table_without_its_data_are_counted(tmp_path):
    """Three are printed, the others counted; the verdicts count them all."""
    cells = ", ".join(f'["a", {x}, 0.5]' for x in range(7))
    start, end = TABLE.index("cells"), TABLE.index("lacks")
    paper = parse_paper(TABLE[:start] + f"cells = [{cells}]\n" + TABLE[end:])
    counts = write_book(tmp_path, [Outcome("t", None, lacks="gone")], quick=False, papers=[paper])
    assert counts == {VERDICTS[3]: 7}
    page = (tmp_path / "paper-9.md").read_text()
    assert page.count("| Table 1 | error of a at") == 3
    assert "| Table 1 | 4 more numbers | t |  |  | data | not reproducible here |  |" in page


def test_the_command_writes_the_book(two, monkeypatch, tmp_path):
    monkeypatch.setattr(_book, "PAPERS", ("9",))
    monkeypatch.setattr(_book, "read_paper", lambda number: parse_paper(PAPER))
    out = tmp_path / "book"
    done = CliRunner().invoke(colspace, ["reproduce", "--all", "--quick", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "a: 0.0 s of CPU" in done.output
    assert "b: not run: set COLSPACE_DATA" in done.output
    assert "2 not reproducible here, 1 holds, 1 fails" in done.output
    assert json.loads((out / "a.json").read_text())["outcome"]["rows"] == [{"e": 0.5}]
    again = CliRunner().invoke(colspace, ["reproduce", "--all", "--quick", "--out", str(out)])
    assert "a: 0.0 s of CPU, from an earlier run" in again.output
    both = CliRunner().invoke(colspace, ["reproduce", "a", "--all", "--out", str(out)])
    assert both.exit_code == 2
    assert "leave one of them out" in both.output
