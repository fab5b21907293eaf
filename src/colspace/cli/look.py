"""``colspace look``: what tables hold, and which command fits them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from ._files import check_files
from ._group import one_line_errors
from ._options import encoding_option, flag, json_option, na_option, tables_argument
from ._say import console, grid, note, write_json
from ._words import SKIPPED, in_options, warnings_on_stderr

if TYPE_CHECKING:
    from ..report._profile import Profile

_MOST = 40  # columns shown
_SHOWN = 5
_NOTHING = (
    "no command fits as it is: reduce takes a response and two columns of numbers, impute a table with gaps, atoms labels with a "
    "text or numbers, pairs two tables and their links"
)
#: Kinds of columns that should be known before a fit, in words, and what to do.
_ODD = (
    ("constant", "one value only", ""),
    ("empty", "no cell at all", ""),
    ("infinite", "infinite cells", "; give --na inf or --na -inf if they stand for gaps"),
    ("number?", "numbers with signs, which are taken as text", "; write them plainly, as in 1234.5"),
    ("date?", "dates that are taken as text", "; write them as in 2024-01-31"),
    ("mixed", "numbers and some text", "; name the text with --na if it stands for a gap"),
)


@click.command("look")
@tables_argument
@flag("--all everything", f"Show all columns, not the first {_MOST}.")
@na_option
@json_option
@encoding_option
@one_line_errors(in_options)
def command(tables: tuple[str, ...], everything: bool, as_json: str | None, **given: Any) -> None:
    """Show what each TABLE holds: kinds of columns, ids, gaps and their pattern, copies; and the commands that fit.

    \b
    Example:
      colspace look survey.csv
      colspace look genes.csv diseases.csv links.csv
    """
    from ..report._advice import advise
    from ..report._profile import profile

    twice = [path for path in dict.fromkeys(tables) if tables.count(path) > 1]
    if twice:
        msg = f"{twice[0]} is given twice; name each table once"
        raise click.UsageError(msg)
    check_files(tables, as_json=as_json)
    marks, encoding = given["marks"], given["encoding"]
    with warnings_on_stderr("Note"):
        frames = {path: _with_gaps(_read(path, encoding), marks) for path in tables}
    profiles = [profile(path, frame) for path, frame in frames.items()]
    options = [part for mark in marks for part in ("--na", mark)]
    advice = advise(profiles, frames, [*options, *(["--encoding", encoding] if encoding else [])])
    if as_json is not None:
        found = {
            "tables": [p.plain() for p in profiles],
            "advice": [{"why": a.why, "command": a.line} for a in advice],
        }
        write_json(found, as_json)
        return
    from rich.markup import escape

    screen = console()
    for each in profiles:
        _print(screen, each, len(each.columns) if everything else _MOST)
    for each_advice in advice:
        screen.print(escape(f"{each_advice.why}:"), soft_wrap=True)
        screen.print(f"  {escape(each_advice.line)}", soft_wrap=True)
    if not advice:
        screen.print(_NOTHING, soft_wrap=True)


def _read(path: str, encoding: str | None) -> Any:
    """The table, or the first rows of a large one."""
    from ..io import read_table
    from ..io._files import is_stream
    from ..io._source import open_sources
    from ..io._stream import first_rows

    found = None if path == "-" or is_stream(path) else first_rows(open_sources(path), encoding)
    if found is None:
        return read_table(path, encoding=encoding)
    frame, rows = found
    note(f"{path} is large: what follows is of its first {len(frame):,} rows, of about {rows:,}")
    return frame


def _with_gaps(frame: Any, marks: tuple[str, ...]) -> Any:
    from ._marks import with_gaps

    return with_gaps(frame, marks, list(frame.columns)) if marks else frame


def _print(screen: Any, table: Profile, most: int) -> None:
    from rich.markup import escape

    size = f"{table.rows:,} rows, {len(table.columns):,} columns, {_size(table.memory)} in memory"
    screen.print(escape(f"{table.path}: {size}"), style="italic", soft_wrap=True)
    rows = []
    for column in table.columns[:most]:
        gaps = f"{100 * column.gaps / table.rows:.1f} %" if column.gaps else ""
        rows.append((column.name, column.kind, gaps, f"{column.distinct:,}", column.example))
    screen.print(grid(("column", "kind", ">gaps", ">distinct", "first"), rows))
    if len(table.columns) > most:
        kinds = Counter(column.kind for column in table.columns)
        listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        more = f"and {len(table.columns) - most:,} more columns (--all shows them); of all: {listed}"
        screen.print(more, soft_wrap=True)
    for line in _remarks(table):
        screen.print(escape(line), soft_wrap=True)


def _size(count: int) -> str:
    """Bytes in a unit that people read.

    Examples
    --------
    >>> from colspace.cli.look import _size
    >>> _size(900), _size(45_000), _size(3_500_000)
    ('1 kB', '45 kB', '3.5 MB')
    """
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{max(1, round(count / 1e3))} kB"


def _remarks(table: Profile) -> list[str]:
    """What should be known before a fit."""
    lines = []
    if table.gap_cells:
        lines.append(
            f"{table.gap_cells:,} gaps, in {table.rows_with_gaps:,} of {table.rows:,} rows. Commonest patterns:"
        )
        lines += [
            f"  {count:,} row{'s' * (count > 1)} lack{'s' * (count == 1)} {_listed(names)}"
            for count, names in table.patterns
        ]
    lines += [f"{found}{SKIPPED}" for found in table.skipped[:_SHOWN]]
    if table.unseen:
        pairs = _listed([f"{a} and {b}" for a, b in table.unseen], quoted=False)
        lines.append(
            f"{len(table.unseen):,} pair(s) of columns are hardly ever observed together: {pairs}; the table does not tell their correlation"
        )
    lines += [f"the same cells: {_listed(group)}" for group in table.same[:_SHOWN]]
    for kind, word, remedy in _ODD:
        if names := table.of(kind):
            lines.append(f"{word}: {_listed(names)}{remedy}")
    for code in dict.fromkeys(code for _, code in table.codes):
        names = [name for name, own in table.codes if own == code]
        lines.append(f"{code} may stand for a gap in {_listed(names)}: if so, give --na {code}")
    if table.repeated_rows:
        lines.append(f"{table.repeated_rows:,} row(s) repeat an earlier one")
    return lines


def _listed(names: list[str], *, quoted: bool = True) -> str:
    text = ", ".join(repr(name) if quoted else name for name in names[:_SHOWN])
    return text + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
