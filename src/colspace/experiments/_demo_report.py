"""What the sections of the demo print and write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..displays._style import pyplot
from ..io._files import write_picture
from ._core import Row


def save_displays(displays: dict[str, Any], out: Path, console: Any) -> None:
    """Write each picture under its name."""
    for name, display in displays.items():
        path = out / f"{name}.png"
        write_picture(display.figure_, path)
        pyplot().close(display.figure_)
        console.print(f"wrote {path}", soft_wrap=True, highlight=False)


def print_table(console: Any, rows: Sequence[Row]) -> None:
    """Print rows of equal keys as a table; a line wherever the second column changes."""
    from rich.table import Table

    table = Table()
    for i, column in enumerate(rows[0]):
        longest = max(len(word) for row in rows for word in (*str(row[column]).split(), ""))  # is not cut
        table.add_column(column, justify="left" if i == 0 else "right", min_width=longest)
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        second = list(row)[1]
        last = following is None or following[second] != row[second]
        table.add_row(*(str(value) for value in row.values()), end_section=last)
    console.print(table)


def beside(what: str, rows: Sequence[Row], measure: str, *, least: bool = False) -> Row:
    """The first row of a table, ours, beside the best of the others that agree with it in the second column.

    Rows that are called like the first and a variant are ours as well. ``least``: less is better.

    Examples
    --------
    >>> from colspace.experiments._demo_report import beside
    >>> rows = [{"by": "ours", "of": 2, "R2": "0.5 ± 0.1"}, {"by": "PCA", "of": 2, "R2": "0.2 ± 0.1"}, {"by": "PLS", "of": 3, "R2": "0.9 ± 0.1"}]
    >>> beside("a table", rows, "R2")
    {'what': 'a table', 'measure': 'R2', 'colspace': '0.5 ± 0.1', 'best of the others': '0.2 ± 0.1, PCA'}
    """
    name, group = list(rows[0])[:2]
    ours = str(rows[0][name]).split(",")[0]
    others = [r for r in rows if r[group] == rows[0][group] and str(r[name]).split(",")[0] != ours]
    best = (min if least else max)(others, key=lambda row: float(str(row[measure]).split()[0]))
    found = {"what": what, "measure": measure, "colspace": rows[0][measure]}
    return {**found, "best of the others": f"{best[measure]}, {best[name]}"}
