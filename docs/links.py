"""Follow every link between built pages, with its anchor, and every picture: `python docs/links.py docs/_build/html`.

Links to other sites are counted, not followed.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag points to and what it may be pointed at by."""
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


@cache
def read(path: Path) -> Page:
    """A parsed page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(path: Path, link: str) -> str:
    """Why a link leads nowhere; empty if it leads somewhere."""
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.exists():
        return "no such file"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
        return "no such anchor"
    return ""


def main(root: Path) -> int:
    """Print broken links; their number is the exit code, at most 1."""
    pages = sorted(path.resolve() for path in root.rglob("*.html") if "_static" not in path.parts)
    local, far, wrong = 0, 0, []
    for path in pages:
        for link in read(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                far += 1
                continue
            local += 1
            why = broken(path, link) if link != "#" else ""
            if why:
                wrong.append(f"{path.relative_to(root.resolve())}: {link}: {why}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(
        f"{len(pages)} pages, {local} links between them, {len(wrong)} broken; {far} to other sites not followed"
    )
    return int(bool(wrong) or not pages)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
