"""The pages say what is: names, tests, pictures, links, the house."""

import ast
import importlib
import re
import runpy
from pathlib import Path

import pytest
from test_architecture import FLOORS, PROJECT

DOCS = PROJECT / "docs"
ROOMS = [
    "colspace",
    *(
        f"colspace.{room}"
        for room in [
            "scores",
            "copula",
            "dictionary",
            "pairs",
            "quality",
            "metrics",
            "datasets",
            "displays",
            "io",
        ]
    ),
]
PAGES = sorted([*DOCS.glob("*.md"), PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"])
EXAMPLES = sorted((PROJECT / "examples").glob("*.py"))


def section(room):
    """What stands under a room's heading."""
    text = (DOCS / "api.md").read_text()
    return re.search(rf"^## {re.escape(room)}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)[1]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(room):
    listed = section(room)
    for name in importlib.import_module(room).__all__:
        assert re.search(rf"(^   |`){re.escape(name)}(`|$)", listed, flags=re.MULTILINE), (
            f"{room}.{name} is not in docs/api.md"
        )


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_has_no_other_names(room):
    module = importlib.import_module(room)
    for name in re.findall(r"^   (\w+)$", section(room), flags=re.MULTILINE):
        assert hasattr(module, name), f"docs/api.md has {room}.{name}, which does not exist"


def test_promises_name_tests_that_exist():
    tests = "\n".join(p.read_text() for p in (PROJECT / "tests").rglob("*.py"))
    named = re.findall(r"`(test_\w+)`", (DOCS / "promises.md").read_text())
    assert len(named) > 50
    for name in named:
        assert re.search(rf"^\s*def {name}\(", tests, flags=re.MULTILINE), f"docs/promises.md names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if path.startswith("gallery/"):  # made from the examples
            name = Path(path).stem
            assert name == "index" or (PROJECT / "examples" / f"{name}.py").exists(), target
            continue
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def anchors(page):
    """Of the headings, as they are made on pages."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_included_parts_are_there(page):
    text = page.read_text()
    for file, start, end in re.findall(
        r'```\{include\} (\S+)\n:start-after: "(.+)"\n:end-before: "(.+)"', text
    ):
        included = (page.parent / file).read_text()
        assert included.count(start) == included.count(end) == 1, start
        assert included.index(start) < included.index(end)


def test_broken_links_of_built_pages_are_found(tmp_path, capsys):
    check = runpy.run_path(str(DOCS / "links.py"))["main"]
    (tmp_path / "a.html").write_text(
        '<a id="top" href="b.html#here">b</a><a href="#top">a</a><a href="https://x.org">x</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html">a</a></p>')
    assert check(tmp_path) == 0
    assert "2 pages, 3 links between them, 0 broken; 1 to other sites" in capsys.readouterr().out
    (tmp_path / "c.html").write_text('<img src="gone.png"><a href="b.html#there">b</a>')
    runpy.run_path(str(DOCS / "links.py"))["main"](tmp_path)
    assert "c.html: gone.png: no such file" in (said := capsys.readouterr().out)
    assert "c.html: b.html#there: no such anchor" in said
    assert runpy.run_path(str(DOCS / "links.py"))["main"](tmp_path) == 1


def test_pictures_are_small_and_shown():
    text = "\n".join(page.read_text() for page in PAGES)
    pictures = sorted([*(DOCS / "images").glob("*.png"), *(DOCS / "images").glob("*.svg")])
    for picture in pictures:
        assert picture.stat().st_size < 150_000, picture.name
        assert f"images/{picture.name}" in text, f"no page shows {picture.name}"
    readme = (PROJECT / "README.md").read_text()
    assert len(re.findall(r"!\[.+\]\(docs/images/", readme)) >= 3
    assert "![" in "\n".join(readme.splitlines()[:15])  # the first screen shows a result


def test_examples_have_a_title_words_and_a_picture():
    assert len(EXAMPLES) >= 12
    for example in EXAMPLES:
        text = example.read_text()
        lines = ast.get_docstring(ast.parse(text)).splitlines()
        assert set(lines[1]) == {"="}, example.name
        assert len(lines[1]) == len(lines[0]), example.name
        assert len(" ".join(lines[2:]).split()) > 20, example.name
        assert "Display" in text or "plt.subplots" in text, example.name


def test_the_picture_of_the_house_has_every_room_on_its_floor():
    """`python docs/images/house.py` draws it again."""
    drawn = (DOCS / "images" / "house.svg").read_text()
    floors = re.findall(r'<g class="floor">(.*?)</g>', drawn, flags=re.DOTALL)
    assert [set(re.findall(r'<text class="room"[^>]*>(\w+)</text>', floor)) for floor in floors] == FLOORS[
        ::-1
    ]
    assert "docs/images/house.svg" in (PROJECT / "CONTRIBUTING.md").read_text()
