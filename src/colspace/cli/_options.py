"""Options that commands share: one name and one meaning each."""

from __future__ import annotations

from collections.abc import Callable
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


# ---------------------------------------------------------------------- tables in

tables_argument = click.argument("tables", nargs=-1, required=True, metavar="TABLE...")

encoding_option = click.option(
    "--encoding",
    metavar="NAME",
    help="Encoding of text tables, such as utf-16, latin-1 or cp1252.  [default: utf-8, with or without BOM]",
)

na_option = click.option(
    "--na",
    "marks",
    multiple=True,
    callback=distinct,
    metavar="VALUE",
    help="Value that stands for a gap, such as -99 or refused; repeatable.",
)

drop_option = click.option(
    "--drop",
    multiple=True,
    metavar="COLUMNS",
    help="Leave out columns: a name, a range as in a:f, or a pattern as in g_*; repeatable.",
)


def id_option(what: str) -> Decorator:
    """--id, with what is done with the columns."""
    return click.option(
        "--id",
        "ids",
        multiple=True,
        callback=distinct,
        metavar="COLUMN",
        help=f"{what}; several tables are joined on it. Repeatable.",
    )


# ---------------------------------------------------------------------- results out


def out_option(what: str, *, required: bool = False) -> Decorator:
    """--out of a table."""
    return click.option(
        "-o", "--out", metavar="FILE", required=required, help=f"Write {what} here ({FORMATS})."
    )


save_option = click.option(
    "--save", "model", metavar="FILE", help="Write the fitted model here (.skops), for colspace apply."
)
report_option = click.option(
    "--report", metavar="FILE", help="Write a page with pictures here: one HTML file that needs no network."
)


def _file(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is not None and given.startswith("-") and given != "-":
        msg = f"it needs a file, or - for stdout, before {given}"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return given


json_option = click.option(
    "--json", "as_json", metavar="FILE|-", callback=_file, help="Write the result as JSON here, - for stdout."
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Print warnings and errors only, and no progress."
)


def seed_option(of: str) -> Decorator:
    """--seed, with what it is the seed of."""
    return click.option(
        "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help=f"Seed of {of}."
    )


def check_option(what: str) -> Decorator:
    """--check/--no-check, with what is measured."""
    return click.option("--check/--no-check", default=True, help=f"{what}.  [default: on]")


def result_options(of: str) -> Decorator:
    """--save, --report, --json, --seed and --quiet: what a command that fits writes besides its table."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in (quiet_option, seed_option(of), json_option, report_option, save_option):
            function = option(function)
        return function

    return decorate
