"""Parts that all reports have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._page import Part, Table
from ._profile import profile


def glance(frame: Any, source: str) -> Part:
    """Rows, columns, kinds, gaps and copies."""
    found = profile(source, frame)
    kinds: dict[str, int] = {}
    for column in found.columns:
        kinds[column.kind] = kinds.get(column.kind, 0) + 1
    cells = max(1, found.rows * len(found.columns))
    text = [
        f"{found.rows:,} rows and {len(found.columns):,} columns: "
        + ", ".join(f"{n:,} {kind}" for kind, n in kinds.items())
        + "."
    ]
    if found.gap_cells:
        text.append(
            f"{found.gap_cells:,} gaps ({100 * found.gap_cells / cells:.2g} % of the cells), in {found.rows_with_gaps:,} rows."
        )
    if found.unseen:
        a, b = found.unseen[0]
        text.append(
            f"{len(found.unseen):,} pair(s) of columns are hardly ever observed together, such as {a} and {b}: the table does not tell their correlation."
        )
    text += [f"The same cells: {', '.join(group[:5])}." for group in found.same[:3]]
    table = Table(
        ["column", "kind", "gaps", "distinct", "first"],
        [[c.name, c.kind, c.gaps, c.distinct, c.example] for c in found.columns],
    )
    return Part("Data at a glance", text, table=table)


def warned(notes: Sequence[str]) -> list[Part]:
    """What the fit warned of, if it did."""
    return [Part("Warnings", list(notes))] if notes else []


def repeat(command: str, python: str) -> Part:
    """How to get the same again."""
    code = [("On the command line", command)] if command else []
    return Part("How to repeat it", code=[*code, ("In Python", python)])
