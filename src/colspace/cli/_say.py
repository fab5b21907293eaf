"""What commands print, and where: on standard output, or on standard error where that is taken by a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import click

from .._progress import Advance, track


def is_quiet() -> bool:
    """Whether --quiet was given to the command that runs."""
    ctx = click.get_current_context(silent=True)
    return bool(ctx is not None and ctx.params.get("quiet"))


def console(*targets: str | None) -> Any:
    """A console of rich; on standard error where one of the targets is standard output, silent with --quiet."""
    from rich.console import Console

    from ..io._files import leave_out

    class Screen(Console):
        """A console whose reader may leave, as ``head`` does, without ending the command."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            leave_out()

    return Screen(stderr="-" in targets, highlight=False, quiet=is_quiet())


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", caption: str = "") -> Any:
    """A table of rich; names that begin with > are those of columns of numbers. Cells are text that is shown as it is."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(title) or None,
        caption=escape(caption) or None,
        title_justify="left",
        caption_justify="left",
    )
    for name in columns:
        table.add_column(escape(name.lstrip(">")), justify="right" if name.startswith(">") else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def note(text: str) -> None:
    """A line on standard error, unless --quiet."""
    if not is_quiet():
        click.echo(f"Note: {text}", err=True)


def step(text: str, total: int | None = None) -> AbstractContextManager[Advance]:
    """A part of a command that may take long: a bar after two seconds, unless --quiet."""
    return track(total, text, show=not is_quiet())


def print_written(screen: Any, **files: str | Sequence[str] | None) -> None:
    """Which files were written; of many, the first and the last."""
    from rich.markup import escape

    for what, given in files.items():
        paths = [given] if isinstance(given, str) else list(given or ())
        if not paths or paths == ["-"]:
            continue
        listed = f"{paths[0]} ... {paths[-1]}" if len(paths) > 3 else ", ".join(paths)
        screen.print(f"wrote {what} to {escape(listed)}", soft_wrap=True)


@contextmanager
def sound_header(model: str) -> Iterator[None]:
    """What a header of a model file holds is used within; one that is not as colspace writes it is one error."""
    try:
        yield
    except (KeyError, IndexError, AttributeError, TypeError) as error:
        msg = f"{model} has a header that is not as colspace writes it ({type(error).__name__}: {error})"
        raise ValueError(msg) from error


def printable(text: str) -> str:
    """Text without what a terminal would obey.

    Examples
    --------
    >>> from colspace.cli._say import printable
    >>> printable("a\\x1b[31mb")
    'a?[31mb'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def write_json(found: Mapping[str, Any], path: str | None) -> None:
    """A result as JSON in a file or on standard output."""
    if path is None:
        return
    import json

    from ..io._files import write_out, write_text
    from ..report._page import plain

    text = json.dumps(plain(found), indent=2, allow_nan=False) + "\n"
    if path == "-":
        write_out(text)
    else:
        write_text(text, path)
