"""Pages of the documentation in a real browser, where `make docs` has built them."""

from pathlib import Path

import pytest

BUILT = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = ("index.html", "joint.html")

pytestmark = pytest.mark.skipif(not (BUILT / "index.html").exists(), reason="no pages: run make docs first")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("dark", "width"), [(False, 1200), (True, 1200), (False, 390), (True, 390)])
def test_it_is_shown_without_a_fault(visit, name, dark, width):
    """No word on the console, no request, every picture there, nothing wider than the window, ink that shows on the paper."""
    tab = visit(BUILT / name, dark=dark, width=width, drawn="article h1")
    page = tab.page
    assert (tab.said, tab.asked) == ([], [])
    sizes = page.eval_on_selector_all(
        "article img",
        "all => all.map((i) => { i.loading = 'eager'; return i.decode().then(() => i.naturalWidth); })",
    )
    assert sizes
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    brightness = (
        "(e) => getComputedStyle(e).%s.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 765"
    )
    paper = page.eval_on_selector("body", brightness % "backgroundColor")
    ink = page.eval_on_selector("article p", brightness % "color")
    assert (paper < 0.3) == dark
    assert abs(paper - ink) > 0.5


def test_every_page_is_reached_by_the_keyboard(visit):
    """The first stop of the tab key leads to the content."""
    page = visit(BUILT / "index.html", drawn="article h1").page
    page.keyboard.press("Tab")
    assert "skip" in page.evaluate("document.activeElement.textContent.toLowerCase()")
