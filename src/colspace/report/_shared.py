"""Parts that all reports have."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from pprint import pformat
from typing import Any

from . import _charts
from ._page import Figure, Part, Table
from ._profile import profile

MOST_GAPS = 30  # columns in the picture of gaps
#: Columns of a kind, in a sentence that counts them.
_KINDS = {"number": "of numbers", "whole": "of whole numbers", "levels": "of levels", "words": "of words"}
_KINDS |= {"text": "of text", "id": "of ids", "date": "of dates"}
_KINDS |= {"number?": "of numbers with signs", "date?": "of dates as text"}


def asked(text: Sequence[str], facts: Mapping[str, Any]) -> Part:
    """What the command or the call said, and what it was about."""
    rows = [[name, value if isinstance(value, int | float) else str(value)] for name, value in facts.items()]
    return Part("What was asked", list(text), table=Table(["what", "given or found"], rows), opened=True)


def glance(frame: Any, source: str, rows: int | None = None) -> Part:
    """Rows, columns, kinds, gaps and copies; ``rows`` are those of the table that the frame is a sample of."""
    found = profile(source, frame)
    kinds = Counter(_KINDS.get(column.kind, column.kind) for column in found.columns)
    cells = max(1, found.rows * len(found.columns))
    text = [
        f"{rows or found.rows:,} rows and {len(found.columns):,} columns: "
        + ", ".join(f"{n:,} {kind}" for kind, n in kinds.items())
        + "."
    ]
    if rows is not None and rows > found.rows:
        text.append(f"What follows is of {found.rows:,} rows, drawn at random.")
    figures = []
    if found.gap_cells:
        text.append(
            f"{found.gap_cells:,} gaps ({100 * found.gap_cells / cells:.2g} % of the cells), in {found.rows_with_gaps:,} rows."
        )
        text += [
            f"{count:,} rows lack {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''} together."
            for count, names in found.patterns[:3]
            if len(names) > 1
        ]
        holes = sorted((c for c in found.columns if c.gaps), key=lambda c: -c.gaps)[:MOST_GAPS]
        records = [{"column": c.name, "share of gaps": c.gaps / found.rows, "gaps": c.gaps} for c in holes]
        spec = _charts.bars(
            records, label="column", value="share of gaps", title="share of cells that are gaps"
        )
        all_of = sum(1 for c in found.columns if c.gaps) == len(records)
        alt = "each column that has any" if all_of else f"the {len(records)} columns with most"
        figures.append(Figure(spec, f"Share of gaps of {alt}"))
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
    return Part("Data at a glance", text, figures, table)


def warned(notes: Sequence[str]) -> list[Part]:
    """What the fit warned of, if it did."""
    return [Part("Warnings", list(notes))] if notes else []


def repeat(command: str, python: str) -> Part:
    """How to get the same again."""
    code = [("On the command line", folded(command))] if command else []
    return Part("How to repeat it", code=[*code, ("In Python", python)])


def folded(command: str, width: int = 76) -> str:
    """A long command with an option a line, as a shell takes it.

    Examples
    --------
    >>> from colspace.report._shared import folded
    >>> print(folded("colspace reduce a.csv --id patient -y outcome", width=20))
    colspace reduce a.csv \\
        --id patient \\
        -y outcome
    """
    if len(command) <= width:
        return command
    import shlex

    lines: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word.startswith("-") and word != "-" and not word[1:2].isdigit():
            lines.append([])
        lines[-1].append(word)
    return " \\\n    ".join(shlex.join(line) for line in lines)


def call_of(estimator: Any, **instead: str) -> str:
    """The constructor's call in full, with what differs from the defaults; ``instead`` gives code for some parameters.

    Examples
    --------
    >>> from colspace import JointReduction
    >>> from colspace.report._shared import call_of
    >>> call_of(JointReduction(3, random_state=0))
    'JointReduction(n_components=3, random_state=0)'
    >>> call_of(JointReduction(3, blocks={"a": ["x", "y"]}), blocks="blocks")
    'JointReduction(n_components=3, blocks=blocks)'
    """
    given = estimator.get_params(deep=False)
    known = inspect.signature(type(estimator)).parameters
    told = [name for name in known if name in given and repr(given[name]) != repr(known[name].default)]
    code = {name: instead.get(name) or _code(given[name]) for name in told}
    return f"{type(estimator).__name__}({', '.join(f'{name}={text}' for name, text in code.items())})"


def _code(value: Any) -> str:
    if hasattr(value, "get_params"):
        return call_of(value)
    return pformat(value, width=100, compact=True, sort_dicts=False)


def block_code(blocks: Any, names: Sequence[str]) -> str:
    """Blocks as code; columns that stand side by side in the table as a range of names.

    Examples
    --------
    >>> from colspace.report._shared import block_code
    >>> block_code({"a": ["p", "q", "r"], "b": ["s", "t", "v"]}, ["p", "q", "r", "s", "t", "u", "v"])
    "{'a': 'p:r', 'b': ['s', 't', 'v']}"
    """
    if not isinstance(blocks, Mapping):
        return _code(blocks)
    place = {name: i for i, name in enumerate(names)}
    return _code({str(name): _range(own, place) for name, own in blocks.items()})


def _range(own: Any, place: Mapping[str, int]) -> Any:
    """first:last, where that says the same as a list of names."""
    if not isinstance(own, list) or len(own) < 3 or not all(name in place for name in own):
        return own
    first, last = min(own, key=place.__getitem__), max(own, key=place.__getitem__)
    plain = ":" not in first + last and place[last] - place[first] + 1 == len(set(own))
    return f"{first}:{last}" if plain and f"{first}:{last}" not in place else own
