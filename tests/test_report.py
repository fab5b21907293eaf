"""Reports: one file without network, a table behind every picture, nothing of the data that runs."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from colspace import JointReduction, SlicedInverse, SupervisedDictionaryClassifier
from colspace.cli._group import colspace
from colspace.datasets import make_pairs
from colspace.displays._dictionary import dictionary_of
from colspace.report import (
    Figure,
    Part,
    Report,
    Table,
    _imputation,
    _partners,
    _reduction,
    render,
    write_report,
)
from colspace.report._atoms import _few, atoms_report
from colspace.report._charts import _escape, intervals, scatter
from colspace.report._reduction import MOST_LOADINGS, MOST_POINTS, reduction_report
from colspace.report._shared import glance


class Page(HTMLParser):
    """Elements with their attributes, text outside scripts, and the scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.scripts, self.open = [], "", {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open = (tag, dict(attrs).get("id", "")) if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open is None:
            self.text += data
        elif self.open[0] == "script":
            self.scripts[self.open[1]] = data

    def of(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def specs(self):
        return json.loads(self.scripts["specs"])


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, 20)), columns=[f"col {i}" for i in range(20)])
    y = pd.Series(X["col 0"] - X["col 1"] + 0.1 * rng.normal(size=150), name="out.come")
    return JointReduction(2, random_state=0).fit(X, y), X, y


def test_the_page_has_every_part_and_a_table_behind_every_picture(fitted):
    model, X, y = fitted
    report = reduction_report(
        model, X, y, source="t.csv", command="colspace reduce t.csv", notes=["y is odd"]
    )
    titles = [part.title for part in report.parts]
    assert titles == [
        "What was asked",
        "Data at a glance",
        "Which parts spoke",
        "Loadings",
        "Embedding",
        "Warnings",
        "How to repeat it",
        "Next steps",
    ]
    assert all(part.table is not None for part in report.parts if part.figures)
    page = Page(render(report))
    assert [p for p in page.of("div") if p.get("class") == "picture"] == [
        p for p in page.of("div") if p.get("role") == "img" and p["aria-label"] and p["tabindex"] == "0"
    ]
    assert set(page.specs) == {p["id"] for p in page.of("div") if p.get("class") == "picture"}
    assert "colspace reduce t.csv" in page.text
    assert "y is odd" in page.text


def test_nothing_is_fetched_and_the_file_is_small(fitted, tmp_path):
    model, X, y = fitted
    path = tmp_path / "r.html"
    write_report(reduction_report(model, X, y, source="t.csv"), path)
    assert path.stat().st_size < 3_000_000
    page = Page(path.read_text())
    assert not [a for _, a in page.elements if set(a) & {"src", "srcset", "data"}]
    assert all(a["href"].startswith("#") for _, a in page.elements if "href" in a)
    assert not page.of("link")
    assert all("url" not in json.dumps(spec.get("data", {})) for spec in page.specs.values())


def test_numbers_of_the_pictures_are_those_of_the_model(fitted):
    model, X, y = fitted
    parts = {part.title: part for part in reduction_report(model, X, y, source="t.csv").parts}
    shown = parts["Loadings"].figures[0].spec["layer"][1]
    records = next(iter(v for k, v in _datasets(shown, parts["Loadings"].figures[0].spec)))
    assert len(records) == MOST_LOADINGS
    assert [f.alt for f in parts["Loadings"].figures] == [
        f"Largest loadings of direction {name[-1]}" for name in model.get_feature_names_out()
    ]
    loading = model.components_[0] * model.scale_
    error = model.components_error_[0] * model.scale_
    order = np.argsort(-np.abs(loading))[:MOST_LOADINGS]
    assert [r["feature"] for r in records] == [X.columns[i] for i in order]
    np.testing.assert_allclose([r["loading"] for r in records], loading[order])
    np.testing.assert_allclose([r["high"] for r in records], (loading + 2 * error)[order])
    assert [r["clear"] for r in records] == list((np.abs(loading) > 2 * error)[order])
    table = parts["Embedding"].table
    np.testing.assert_allclose(
        [row[:2] for row in table.rows],
        model.transform(X).to_numpy() if hasattr(model.transform(X), "to_numpy") else model.transform(X),
    )
    np.testing.assert_allclose([row[2] for row in table.rows], y)


def _datasets(layer, spec):
    data = layer.get("data", spec.get("data"))
    yield "values", data["values"]


def test_many_rows_are_sampled_and_it_says_so(fitted):
    model, X, y = fitted
    many = pd.concat([X] * 20, ignore_index=True)
    parts = {p.title: p for p in reduction_report(model, many, pd.concat([y] * 20), source="t").parts}
    assert len(parts["Embedding"].table.rows) == MOST_POINTS
    assert "2,000 of 3,000 rows, drawn at random." in parts["Embedding"].text


def test_sampled_points_have_their_own_colour(fitted):
    model, X, _ = fitted
    many = X.iloc[np.arange(MOST_POINTS + 500) % len(X)].reset_index(drop=True)
    first = pd.Series(np.asarray(model.transform(many))[:, 0], name="first")
    part = next(p for p in reduction_report(model, many, first, source="t").parts if p.title == "Embedding")
    assert len(part.table.rows) == MOST_POINTS
    np.testing.assert_allclose([row[0] for row in part.table.rows], [row[-1] for row in part.table.rows])


def test_a_model_without_errors_or_parts(fitted):
    _, X, y = fitted
    model = SlicedInverse(1, n_groups=None).fit(X, y)
    parts = {p.title: p for p in reduction_report(model, X, y, source="t").parts}
    assert "Which parts spoke" not in parts
    assert len(parts["Loadings"].text) == 1
    assert parts["Embedding"].figures[0].spec["layer"][0]["encoding"]["y"]["field"] == "out\\.come"


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_names_and_values_of_the_data_do_not_run(fitted):
    model, X, y = fitted
    X = X.rename(columns={"col 0": EVIL})
    model = JointReduction(1, random_state=0).fit(X, y.rename(EVIL))
    page = Page(render(reduction_report(model, X, y.rename(EVIL), source=EVIL, notes=[EVIL], command=EVIL)))
    assert len(page.of("script")) == 3
    assert not page.of("img")
    assert EVIL in page.text
    figure = Figure({"title": EVIL, "x": "<!-- "}, EVIL)
    page = Page(
        render(
            Report(EVIL, EVIL, [Part(EVIL, [EVIL], [figure], Table([EVIL], [[EVIL]]), code=[(EVIL, EVIL)])])
        )
    )
    assert len(page.of("script")) == 3
    assert page.specs["figure-0-0"]["title"] == EVIL


def test_tables_are_cut_and_numbers_shortened():
    table = Table(["a", "b"], [[i, i / 3] for i in range(250)])
    assert (len(table.cells), table.left_out) == (200, 50)
    assert table.cells[1] == ["1", "0.3333"]
    assert table.numeric == [True, True]
    assert Table(["a"], [[None], [float("nan")], ["x"], [12345]]).cells == [[""], [""], ["x"], ["12,345"]]
    assert "50 more rows are not shown" in render(Report("t", "l", [Part("p", table=table)]))


def test_what_json_lacks_is_null():
    page = Page(
        render(Report("t", "l", [Part("p", figures=[Figure({"v": [np.float64("nan"), np.int64(3)]}, "a")])]))
    )
    assert page.specs == {"figure-0-0": {"v": [None, 3], "description": "a"}}


def test_a_page_without_pictures_needs_no_script():
    text = render(Report("t", "l", [Part("p", ["x"])]))
    assert "<script" not in text
    assert len(text) < 20_000


def test_fields_with_odd_names_are_one_field():
    assert _escape("a.b[c]:d") == r"a\.b\[c\]\:d"
    spec = scatter(
        [{"a.b": 1.0, "y:1": 2.0, "k": "u"}], x="a.b", y="y:1", colour="k", classes=True, tooltip=["a.b"]
    )
    for layer in spec["layer"]:
        assert layer["encoding"]["x"]["field"] == r"a\.b"
        assert layer["encoding"]["y"]["field"] == r"y\:1"
    ends = intervals(
        [{"m": "a", "v": 1.0, "e": 0.25}, {"m": "b", "v": None, "e": None}],
        label="m",
        value="v",
        error="e",
        title="t",
    )
    assert ends["layer"][0].get("data", ends.get("data"))["values"] == [
        {"m": "a", "v": 1.0, "e": 0.25, "low": 0.5, "high": 1.5}
    ]


def test_atoms_and_covariates_with_their_coefficients():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.random((90, 7)), columns=list("abcdefg"))
    y = np.where(X["a"] + X["g"] > 1.2, "u", np.where(X["b"] > 0.5, "v", "w"))
    model = SupervisedDictionaryClassifier(2, covariates=["g"], random_state=0).fit(X, y)
    scores = {"ours": {"accuracy": 0.9, "F1": 0.8, "AUC": 0.95, "reconstruction error": 0.1}}
    report = atoms_report(
        model, X, X, source="t", label="y", names=list(X), words=False, scores=scores, held_out=0
    )
    parts = {part.title: part for part in report.parts}
    found = dictionary_of(model, X)
    rows = {(row[0], row[1]): row for row in parts["Atoms"].table.rows}
    assert set(rows) == {(k, t) for k in range(2) for t in "uvw"}
    for k in range(2):
        for t, target in enumerate("uvw"):
            assert rows[k, target][2] == found.coefficients[k, t]
        order = np.argsort(-np.abs(found.atoms[k]))
        assert rows[k, "u"][3].split(", ") == [found.names[j] for j in order if found.atoms[k, j] != 0]
    assert {row[1]: row[2] for row in parts["Covariates"].table.rows} == dict(
        zip("uvw", found.covariates[0], strict=True)
    )
    assert parts["Quality"].table.rows == [["ours", 0.9, 0.8, 0.95, 0.1]]
    assert parts["Quality"].text[0] == "Accuracy on the rows that were fitted is 0.900."
    assert "so they flatter" in parts["Quality"].text[1]


def test_the_commands_write_reports(tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    _, X, y = fitted
    X.assign(y=y).to_csv("t.csv", index=False)
    done = CliRunner().invoke(colspace, ["reduce", "t.csv", "-y", "y", "--report", "r.html", "-r", "1"])
    assert done.exit_code == 0, done.output
    assert "wrote report to r.html" in done.output
    page = Page((tmp_path / "r.html").read_text())
    assert "Quality on rows left out" in page.text
    assert page.specs["figure-2-0"]["layer"]
    labels = np.where(y > 0, "high", "low")
    X.abs().assign(label=labels).to_csv("a.csv", index=False)
    done = CliRunner().invoke(
        colspace,
        ["atoms", "a.csv", "-y", "label", "-r", "3", "--out", "out", "-c", "col 1", "--report", "a.html"],
    )
    assert done.exit_code == 0, done.output
    page = Page((tmp_path / "a.html").read_text())
    for title in ("Quality", "Atoms", "Covariates", "How to repeat it"):
        assert title in page.text
    for arguments in (["--report", "t.csv"], ["--report", "no/r.html"]):
        assert CliRunner().invoke(colspace, ["reduce", "t.csv", "-y", "y", *arguments]).exit_code == 2


def test_the_report_of_a_filled_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(120, 4)) + rng.normal(size=(120, 1)), columns=list("abcd"))
    frame["town"] = rng.choice(["Ulm", "Bonn", "Kiel"], 120)
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    frame.to_csv("t.csv", index=False)
    arguments = [
        "impute",
        "t.csv",
        "--out",
        "f.csv",
        "--report",
        "r.html",
        "--save",
        "m.skops",
        "--seed",
        "1",
    ]
    done = CliRunner().invoke(colspace, arguments)
    assert done.exit_code == 0, done.output
    assert "hidden cells" in done.output
    order = "--kinds 'town=LOWEST,...,HIGHEST'"
    assert f"nominal: words without order; where there is one, give it: {order}" in done.output
    page = Page((tmp_path / "r.html").read_text())
    for title in (
        "Data at a glance",
        "Quality on hidden cells",
        "Gaps and reliability",
        "Intervals",
        "How to repeat it",
        f"Where there is an order, give it: {order}.",
    ):
        assert title in page.text
    filled = pd.read_csv("f.csv")
    row, column = np.argwhere(frame[list("abcd")].isna().to_numpy())[0]
    assert f"{filled.iloc[row, column]:.4g}" in page.text
    shown = CliRunner().invoke(colspace, ["info", "m.skops"]).output
    assert "made by colspace impute" in shown
    assert "hidden cells" in shown
    done = CliRunner().invoke(colspace, ["apply", "m.skops", "t.csv", "--out", "again.csv"])
    assert done.exit_code == 0, done.output
    pd.testing.assert_frame_equal(pd.read_csv("again.csv"), filled)


def test_errors_of_shares_and_the_column_that_is_shown():
    rows = [{"cover": 0.9, "cells": 100}, {"cover": 1.0, "cells": 20}]
    (first, second) = _imputation._with_chance(rows)
    share = 90.5 / 101
    assert first["high"] - first["cover"] == pytest.approx(2 * np.sqrt(share * (1 - share) / 100))
    assert second["low"] < second["high"] == 1.0  # no share is without error
    X = pd.DataFrame({"wide": [0.0, 1.0, 2.0, None], "narrow": [0.0, 1.0, 2.0, None]})
    filled, lower, upper = X.fillna(1.0), X.fillna(0.9), X.fillna({"wide": 2.9, "narrow": 1.1})
    cells, shown, total = _imputation._filled_cells(X, filled, lower, upper)
    assert [r["column"] for r in shown] == ["narrow"]
    assert (total, cells[1]) == (2, ["3", "narrow", 1.0, 0.9, 1.1])


def test_ours_stands_out_among_the_methods():
    row = {
        "n_components": 1,
        "n_columns": 1,
        "score": 0.5,
        "error": 0.1,
        "difference": None,
        "difference_error": None,
    }
    quality = {"metric": "R2", "rows": 9, "sample_of": None, "folds": 3, "sentence": "", "notes": []}
    quality["scores"] = [{**row, "method": "ours"}, {**row, "method": "PCA"}]
    (figure,) = _reduction._quality(quality).figures
    assert [r["ours"] for r in figure.spec["data"]["values"]] == [True, False]


def test_the_picture_of_partners_has_the_best_of_each():
    ranked = pd.DataFrame(
        {"l": ["a", "a", "b", "b"], "rank": [1, 2, 1, 2], "r": list("xyzx"), "score": [4.0, 3.0, 2.0, 1.0]}
    )
    part = _partners._partners(ranked)
    assert [r["pair"] for r in part.figures[0].spec["data"]["values"]] == ["a, x", "b, z"]
    assert len(part.table.rows) == 4


def test_the_report_of_partners(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A, B, Y, *_ = make_pairs(30, 20, rng=0)
    for name, table, letter in (("l.csv", A, "a"), ("r.csv", B, "b")):
        frame = pd.DataFrame(table, columns=[f"f{i}" for i in range(table.shape[1])])
        frame.insert(0, f"id_{letter}", [f"{letter}{i}" for i in range(len(frame))])
        frame.to_csv(name, index=False)
    dense = Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)
    i, j = np.nonzero(dense > np.quantile(dense, 0.8))
    pd.DataFrame({"a": [f"a{k}" for k in i], "b": [f"b{k}" for k in j]}).to_csv("k.csv", index=False)
    tables = ["--left", "l.csv", "--right", "r.csv", "--links", "k.csv", "--out", "p.csv"]
    done = CliRunner().invoke(
        colspace, ["pairs", *tables, "--save", "m.skops", "--report", "r.html", "--top", "3"]
    )
    assert done.exit_code == 0, done.output
    assert "wrote report to r.html" in done.output
    page = Page((tmp_path / "r.html").read_text())
    for title in ("What was asked", "Quality on what was left out", "Partners", "How to repeat it"):
        assert title in page.text
    ranked = pd.read_csv("p.csv")
    assert str(ranked.iloc[0, 2]) in page.text
    why = re.findall(r'"why": "(\w+) for (\w+), (\w+)"', (tmp_path / "r.html").read_text())
    assert (ranked.iloc[0, 0], ranked.iloc[0, 2]) in {
        (a, b) for _, a, b in why
    }  # who speaks comes first: it is not cut
    shown = CliRunner().invoke(colspace, ["info", "m.skops"]).output
    assert "made by colspace pairs" in shown
    done = CliRunner().invoke(colspace, ["apply", "m.skops", "l.csv", "--top", "3", "--out", "again.csv"])
    assert done.exit_code == 0, done.output
    assert len(pd.read_csv("again.csv")) == 90


def test_many_covariates_are_counted():
    names = [f"c{i}" for i in range(10)]
    assert _few(names[:8]) == ", ".join(names[:8])
    assert _few(names) == f"{', '.join(names[:8])} and 2 more"
    assert _few([]) == "none"


def test_the_share_of_gaps_of_one_column():
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 3.5]})
    assert [figure.alt for figure in glance(frame, "t").figures] == [
        "Share of gaps of each column that has any"
    ]


def test_sentences_begin_with_a_capital_and_labels_of_parts_fit_a_phone(fitted):
    model, X, y = fitted
    scores = [dict.fromkeys(("n_components", "n_columns", "difference", "difference_error"))]
    scores[0] |= {"method": "ours", "score": 0.6, "error": 0.1}
    told = {"metric": "balanced accuracy", "rows": 90, "folds": 5, "sample_of": None, "scores": scores}
    told |= {"sentence": "It does.", "notes": ["all columns are read by two"]}
    page = reduction_report(model, X, y, source="t", quality=told)
    parts = {part.title: part for part in page.parts}
    text = parts["Quality on rows left out"].text
    assert "All columns are read by two." in text
    assert any(line.startswith("Balanced accuracy of 5 folds") for line in text)
    assert all(len(row[0]) < 20 for row in parts["Which parts spoke"].table.rows)
