"""A real browser for tests that need one: Chromium as the system has it, driven by playwright."""

import os
import shutil

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; tests skip where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    given = os.environ.get("COLSPACE_BROWSER")
    path = given or next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed, and COLSPACE_BROWSER names none")
    with playwright.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=path, args=FLAGS)
        except playwright.Error as error:
            pytest.skip(f"{path} does not start: {str(error).splitlines()[0]}")
        yield opened
        opened.close()


class Tab:
    """A page, what its console said, and what it asked of the network."""

    def __init__(self, page):
        self.page, self.said, self.asked = page, [], []
        page.on("console", lambda m: self.said.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else self.asked.append(r.url),
        )


@pytest.fixture
def visit(browser):
    """``visit(path, dark=False, width=1100)``: a page of a file, when its pictures are drawn, or what ``drawn`` selects is there."""
    contexts = []

    def opened(path, *, dark=False, width=1100, drawn="html[data-drawn=yes]"):
        context = browser.new_context(
            color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900}
        )
        contexts.append(context)
        tab = Tab(context.new_page())
        tab.page.goto(path.as_uri(), timeout=120_000)
        tab.page.wait_for_selector(drawn, timeout=120_000)
        return tab

    yield opened
    for context in contexts:
        context.close()
