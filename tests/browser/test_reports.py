"""Reports in a real browser: nothing fails, pictures answer to mouse and keyboard, every width, theme and printer has all of it."""

import io
import json
import shlex

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from colspace.cli._group import colspace
from users import jobs, links, omics, survey

COMMANDS = {
    "reduction": "reduce genes.csv proteins.csv --id patient -y outcome -r 1 --no-check --report reduction.html",
    "gaps": "impute survey.csv --id respondent --rank 1 --out filled.csv --report gaps.html",
    "topics": "atoms jobs.csv -y fraudulent -t description -c logo --id job -r 3 --out topics --report topics.html",
    "partners": "pairs --left diseases.csv --right drugs.csv --links links.csv --predict new_diseases.csv --bandwidth 1 --alpha 1 "
    "--shrinkage 0.1 --out partners.csv --report partners.html",
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory, browser):
    """One report of each kind, by the commands."""
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for make in (omics, survey, jobs, links):
            make(folder)
        for command in COMMANDS.values():
            done = CliRunner().invoke(colspace, shlex.split(command))
            assert done.exit_code == 0, done.output
    return {name: folder / f"{name}.html" for name in COMMANDS}


def specs(page):
    return json.loads(page.locator("#specs").text_content())


#: Texts that are not all in their picture.
CUT = (
    "all => all.filter((t) => { const own = t.getBoundingClientRect(), all = t.closest('svg').getBoundingClientRect();"
    " return own.left < all.left - 1 || own.right > all.right + 1; }).map((t) => t.textContent)"
)
VIEWS = [(name, *view) for name in COMMANDS for view in ((False, 1100), (True, 390))] + [
    ("reduction", True, 1100),
    ("partners", False, 320),
]


@pytest.mark.parametrize(("name", "dark", "width"), VIEWS)
def test_it_is_drawn_without_a_fault(reports, visit, name, dark, width):
    """No word on the console, no request, no picture missing, nothing wider than the window, ink that shows on the paper."""
    tab = visit(reports[name], dark=dark, width=width)
    page = tab.page
    assert (tab.said, tab.asked) == ([], [])
    drawn = page.eval_on_selector_all(
        ".picture svg", "all => all.map((s) => s.getBoundingClientRect().width)"
    )
    assert len(drawn) == len(specs(page))
    assert all(0 < size <= width for size in drawn)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    hidden = "all => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.id)"
    assert page.eval_on_selector_all(".picture", hidden) == []
    assert page.eval_on_selector_all(".picture svg .role-axis-title text", CUT) == []
    brightness = (
        "(e) => getComputedStyle(e).%s.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 765"
    )
    paper = page.eval_on_selector("body", brightness % "backgroundColor")
    inks = [
        page.eval_on_selector("h1", brightness % "color"),
        page.eval_on_selector(".picture svg .role-axis-label text", brightness % "fill"),
    ]
    assert (paper < 0.2) == dark
    assert all(abs(paper - ink) > 0.6 for ink in inks)


@pytest.mark.parametrize("width", [390, 1100])
def test_every_class_is_in_the_legend(tmp_path, visit, monkeypatch, width):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    towns = [
        f"{town} upon the river" for town in ("Bonn", "Kiel", "Ulm", "Oslo", "Rome", "Bern", "Lyon", "Wien")
    ]
    place = rng.integers(len(towns), size=160)
    table = pd.DataFrame(rng.normal(size=(160, 3)) + place[:, None], columns=list("abc"))
    table.assign(town=np.array(towns)[place]).to_csv("t.csv", index=False)
    done = CliRunner().invoke(colspace, shlex.split("reduce t.csv -y town --no-check --report r.html"))
    assert done.exit_code == 0, done.output
    page = visit(tmp_path / "r.html", width=width).page
    assert page.locator(".role-legend-label text").count() == len(towns)
    assert page.eval_on_selector_all(".role-legend-label text", CUT) == []


def test_hovering_shows_the_values(reports, visit):
    page = visit(reports["reduction"]).page
    _points(page)[0].locator(".mark-symbol path").nth(3).hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for(timeout=30_000)
    _, rows, _ = _points(page)
    text = tip.inner_text()
    for name in ("genes__0", "proteins__0", "outcome"):
        assert name in text
        assert f"{abs(rows[3][name]):.4g}" in text


def _points(page):
    """The scatter's element, its rows, and where it says what it holds."""
    figure = page.locator("figure", has=page.locator(".said"))
    place = figure.locator(".picture")
    spec = specs(page)[place.get_attribute("id")]
    values = spec["data"]["values"] if "data" in spec else spec["layer"][0]["data"]["values"]
    return place, values, figure.locator(".said")


def test_dragging_chooses_points(reports, visit):
    page = visit(reports["reduction"]).page
    place, rows, said = _points(page)
    place.scroll_into_view_if_needed()
    box = place.locator("svg .background").first.bounding_box()
    plot = place.locator("svg path.background").first.bounding_box() or box
    before = place.locator(".mark-symbol path[fill='#9aa3af']").count()
    page.mouse.move(plot["x"] + 0.3 * plot["width"], plot["y"] + 0.2 * plot["height"])
    page.mouse.down()
    page.mouse.move(plot["x"] + 0.7 * plot["width"], plot["y"] + 0.8 * plot["height"], steps=5)
    page.mouse.up()
    page.wait_for_function("() => /chosen/.test(document.querySelector('.said').textContent)")
    chosen, total = (int(word) for word in said.inner_text().split()[:3:2])
    assert total == len(rows)
    assert 0 < chosen < total
    pale = place.locator(".mark-symbol path[fill='#9aa3af']").count()
    assert (before, pale) == (0, total - chosen)


def test_points_by_the_keyboard(reports, visit):
    page = visit(reports["reduction"]).page
    place, rows, said = _points(page)
    place.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    value = float(f"{rows[1]['genes__0']:.4g}")
    assert said.inner_text().startswith(f"Point 2 of {len(rows)}: genes__0 {value:g}, proteins__0 ")
    assert place.locator(".mark-symbol path[stroke='#D55E00']").count() == 1
    page.keyboard.press("Escape")
    assert said.inner_text() == ""


def test_everything_is_within_reach_of_the_keyboard(reports, visit):
    """The skip link first, then every link, picture, table and piece of code."""
    page = visit(reports["gaps"]).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    folded = page.query_selector("details:not([open]) > summary")
    folded.focus()
    page.keyboard.press("Enter")
    assert folded.evaluate("(e) => e.parentElement.open")
    tabbed = "all => all.every((e) => e.tabIndex === 0)"
    for what in (".picture", "pre", ".scroll"):
        assert page.eval_on_selector_all(what, tabbed)
    read = page.eval_on_selector_all(".picture", "all => all.map((e) => e.getAttribute('aria-label'))")
    assert read == page.locator("figcaption").all_inner_texts()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_printed_page_has_all_parts(reports, visit, name):
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")
    page = visit(reports[name]).page
    titles = page.locator("h2").all_inner_texts()
    behind = page.locator("details").count()
    printed = pypdf.PdfReader(io.BytesIO(page.pdf(format="A4")))
    text = " ".join("\n".join(sheet.extract_text() for sheet in printed.pages).split())
    assert titles[0] == "What was asked"
    for title in titles:
        assert title in text
    assert text.count("The numbers behind the picture") + text.count("Table") >= behind
    cells = page.locator("details:not([open]) tbody td").all_text_contents()
    assert cells
    assert sum(cell in text for cell in cells[:40]) >= 0.9 * len(cells[:40])  # folded tables are opened
    assert page.locator("details:not([open])").count() > 0  # and folded again
