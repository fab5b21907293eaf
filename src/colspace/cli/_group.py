"""The group of commands and how errors leave it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import click
import rich  # noqa: F401  (part of the cli extra: fail here, not in the middle of a command)

P = ParamSpec("P")
R = TypeVar("R")

_BAD_INPUT = (ValueError, TypeError, OSError, ImportError, MemoryError)


class _LazyGroup(click.Group):
    """Commands are imported when they are asked for."""

    commands_by_name = ("look", "reduce", "impute", "atoms", "pairs", "apply", "info", "reproduce")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands_by_name:
            return None
        from importlib import import_module

        command: click.Command = import_module(f"colspace.cli.{cmd_name}").command
        return command


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"colspace {version('colspace')}")
    ctx.exit()


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
def colspace() -> None:
    """Find the few directions in a wide table that matter, fill its gaps, learn atoms that predict, and rank partners."""


def one_line_errors(
    words: Callable[[str], str] = str, kind: type[click.ClickException] = click.ClickException
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Turn the library's errors about bad input into one line, put into ``words``, and the exit code of ``kind``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def shell(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except _BAD_INPUT as error:
                text = " ".join(str(error).split()) or type(error).__name__
                raise kind(words(text)) from error

        return shell

    return decorate
