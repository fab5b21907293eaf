"""Parts of a report and the page that holds them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from .. import __version__
from ..io import require
from ..io._files import PathLike, write_text

MOST_ROWS = 200  # of a table on the page
_TINY = 1e-14  # a difference of equal numbers, up to rounding


@dataclass(frozen=True)
class Table:
    """Columns and rows; numbers are shown to four digits."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]], *keys: str, **titles: str) -> Table:
        """Some fields of records; ``titles`` are those of fields that are called otherwise."""
        return cls([titles.get(key, key) for key in keys], [[r[key] for key in keys] for r in records])

    @property
    def cells(self) -> list[list[str]]:
        """The first rows as text."""
        return [[_cell(value) for value in row] for row in self.rows[:MOST_ROWS]]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        return [
            all(isinstance(row[j], int | float | type(None)) for row in self.rows)
            for j in range(len(self.columns))
        ]

    @property
    def left_out(self) -> int:
        """Rows that are not shown."""
        return max(0, len(self.rows) - MOST_ROWS)


@dataclass(frozen=True)
class Figure:
    """A Vega-Lite picture and its description for those who do not see it."""

    spec: Mapping[str, Any]
    alt: str


@dataclass(frozen=True)
class Part:
    """A heading with sentences, pictures, the table behind them, code."""

    title: str
    text: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    table: Table | None = None
    opened: bool = False
    code: Sequence[tuple[str, str]] = ()


def pictured(
    title: str, text: Sequence[str], spec: Mapping[str, Any], alt: str, table: Table, *, opened: bool = False
) -> Part:
    """A part with one picture and the table behind it."""
    return Part(title, text, [Figure(spec, alt)], table, opened)


@dataclass(frozen=True)
class Report:
    """A page: title, one sentence, parts."""

    title: str
    lead: str
    parts: Sequence[Part] = field(default_factory=list)


def render(report: Report) -> str:
    """The page as text.

    Examples
    --------
    >>> from colspace.report import Part, Report, render
    >>> page = render(Report("A table", "What it holds", [Part("Rows", ["Three <rows>."])]))
    >>> "Three &lt;rows&gt;." in page
    True
    """
    jinja = require("jinja2", "report", "reports")
    bundle = _bundle() if _drawn(report) else ""
    room = files(__package__)
    environment = jinja.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja.StrictUndefined
    )
    template = environment.from_string(room.joinpath("page.html.jinja").read_text(encoding="utf-8"))
    specs = {
        f"figure-{i}-{k}": {**figure.spec, "description": figure.alt}  # Vega reads it aloud
        for i, part in enumerate(report.parts)
        for k, figure in enumerate(part.figures)
    }
    return str(
        template.render(
            report=report,
            style=_safe(room.joinpath("page.css").read_text(encoding="utf-8")),
            script=_safe(room.joinpath("page.js").read_text(encoding="utf-8")),
            bundle=_safe(bundle),
            specs=_json(specs),
            version=__version__,
        )
    )


@cache
def _bundle() -> str:
    """Vega and its friends, about 0.9 MB; made once, as that takes a second."""
    return str(require("vl_convert", "report", "reports").javascript_bundle())


def write_report(report: Report, path: PathLike) -> None:
    """Write the page to a file, whole or not at all."""
    write_text(render(report), path)


def _drawn(report: Report) -> bool:
    return any(part.figures for part in report.parts)


def _safe(text: str) -> Any:
    """Text of a script or style element that cannot end it."""
    from markupsafe import Markup

    return Markup(re.sub(r"<(/(?:script|style)|!--)", r"<\\\1", text, flags=re.IGNORECASE))


def _json(value: Any) -> Any:
    """JSON that may stand in a script element."""
    from markupsafe import Markup

    return Markup(json.dumps(plain(value), allow_nan=False).replace("<", "\\u003c"))


def plain(value: Any) -> Any:
    """For JSON, which has no number for what does not exist and no types of numpy.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.report._page import plain
    >>> plain({"a": np.array([1.0, np.nan]), 2: np.int64(3)})
    {'a': [1.0, None], '2': 3}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return (
        f"{0.0 if abs(value) < _TINY else value:.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else str(value)
    )
