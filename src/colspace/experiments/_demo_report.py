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
        table.add_column(column, justify="left" if i == 0 else "right")
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        second = list(row)[1]
        last = following is None or following[second] != row[second]
        table.add_row(*(str(value) for value in row.values()), end_section=last)
    console.print(table)
