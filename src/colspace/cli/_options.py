"""Options that commands share: one name and one meaning each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]  # generic from click 8.4 on
else:
    ParamType = click.ParamType

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FORMATS = ".csv, .tsv, .jsonl, .parquet, .arrow, - for CSV on stdout"


class NumberOr(ParamType):
    """A number, or one of a few words."""

    def __init__(self, number: type[int | float], *words: str) -> None:
        self.number = number
        self.words = words
        self.name = "|".join(["N" if number is int else "X", *words])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.words or isinstance(value, self.number):
            return value
        try:
            return self.number(value)
        except ValueError:
            kind = "a whole number" if self.number is int else "a number"
            self.fail(f"{value!r} is neither {kind} nor one of {', '.join(self.words)}", param, ctx)


def distinct(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a value that is given twice."""
    twice = [name for name in dict.fromkeys(given) if given.count(name) > 1]
    if twice:
        msg = f"{twice[0]!r} is given twice; name each column once"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return given


def option(names: str, of: Any, default: Any, text: str) -> Decorator:
    """An option whose default its help shows: names with spaces between, a type or the words to choose among, a default, a help."""
    kind = click.Choice(of) if isinstance(of, list) else of
    return click.option(*names.split(), type=kind, default=default, show_default=True, help=text)


def named(names: str, metavar: str, text: str, **more: Any) -> Decorator:
    """An option that takes a name, as of a file or a column, and has no default."""
    return click.option(*names.split(), metavar=metavar, help=text, **more)


def many(names: str, metavar: str, text: str) -> Decorator:
    """An option that may be given several times, each time with another name."""
    return named(names, metavar, text, multiple=True, callback=distinct)


def flag(names: str, text: str) -> Decorator:
    """An option without a value."""
    return click.option(*names.split(), is_flag=True, help=text)


def folder_option(what: str, **more: Any) -> Decorator:
    """--out of a directory."""
    kind = click.Path(file_okay=False, path_type=Path)
    return click.option("-o", "--out", type=kind, help=f"Directory for {what}.", **more)


# ---------------------------------------------------------------------- tables in

tables_argument = click.argument("tables", nargs=-1, required=True, metavar="TABLE...")

encoding_option = named(
    "--encoding",
    "NAME",
    "Encoding of text tables, such as utf-16, latin-1 or cp1252.  [default: utf-8, with or without BOM]",
)
na_option = many("--na marks", "VALUE", "Value that stands for a gap, such as -99 or refused; repeatable.")
drop_option = named(
    "--drop",
    "COLUMNS",
    "Leave out columns: a name, a range as in a:f, or a pattern as in g_*; repeatable.",
    multiple=True,
)


def id_option(what: str) -> Decorator:
    """--id, with what is done with the columns."""
    return many("--id ids", "COLUMN", f"{what}; several tables are joined on it. Repeatable.")


# ---------------------------------------------------------------------- results out


def out_option(what: str, *, required: bool = False) -> Decorator:
    """--out of a table."""
    return named("-o --out", "FILE", f"Write {what} here ({FORMATS}).", required=required)


save_option = named("--save model", "FILE", "Write the fitted model here (.skops), for colspace apply.")
report_option = named(
    "--report", "FILE", "Write a page with pictures here: one HTML file that needs no network."
)


def _file(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is not None and given.startswith("-") and given != "-":
        msg = f"it needs a file, or - for stdout, before {given}"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return given


json_option = named(
    "--json as_json", "FILE|-", "Write the result as JSON here, - for stdout.", callback=_file
)
quiet_option = flag("-q --quiet", "Print warnings and errors only, and no progress.")


def seed_option(of: str) -> Decorator:
    """--seed, with what it is the seed of."""
    return option("--seed", click.IntRange(0, 2**32 - 1), 0, f"Seed of {of}.")


def check_option(what: str) -> Decorator:
    """--check/--no-check, with what is measured."""
    return click.option("--check/--no-check", default=True, help=f"{what}.  [default: on]")


def result_options(of: str) -> Decorator:
    """--save, --report, --json, --seed and --quiet: what a command that fits writes besides its table."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in (quiet_option, seed_option(of), json_option, report_option, save_option):
            function = each(function)
        return function

    return decorate
