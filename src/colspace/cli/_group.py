"""The group of commands and how errors leave it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click
import rich  # noqa: F401  (part of the cli extra: fail here, not in the middle of a command)

P = ParamSpec("P")
R = TypeVar("R")

_BAD_INPUT = (ValueError, TypeError, OSError, ImportError, MemoryError)


class BadInput(click.ClickException):
    """What cannot be done, in one line."""

    exit_code = 2


class _LazyGroup(click.Group):
    """Commands are imported when they are asked for."""

    commands_by_name = (
        "look",
        "reduce",
        "impute",
        "atoms",
        "pairs",
        "apply",
        "info",
        "report",
        "demo",
        "reproduce",
    )

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands_by_name:
            return None
        from importlib import import_module

        command: click.Command = import_module(f"colspace.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.commands_by_name:
            from difflib import get_close_matches

            near = get_close_matches(name, self.commands_by_name, 1)
            what = f"is it {near[0]}?" if near else f"choose from {', '.join(self.commands_by_name)}"
            msg = f"no command is called {name!r}; {what}"
            raise click.UsageError(msg)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.ctx = None  # one line, without the usage
            raise
        except KeyboardInterrupt as error:
            msg = "interrupted"
            raise BadInput(msg) from error


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from .. import __version__

    click.echo(f"colspace {__version__}")
    ctx.exit()


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
def colspace() -> None:
    """Find the few directions in a wide table that matter, fill its gaps, learn atoms that predict, and rank partners."""


def one_line_errors(
    words: Callable[[str], str] = str, *, whole: bool = True
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Turn the library's errors about bad input into one line, put into ``words``, and exit code 2.

    ``whole``: files that the command writes take their places together when it ends well, and none of them otherwise.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def shell(*args: P.args, **kwargs: P.kwargs) -> R:
            from ..io._files import together

            try:
                with together() if whole else nullcontext():
                    return function(*args, **kwargs)
            except _BAD_INPUT as error:
                text = " ".join(str(error).split()) or type(error).__name__
                raise BadInput(words(text)) from error
            except KeyboardInterrupt as error:
                msg = f"interrupted{'; nothing was written' if whole else ''}"
                raise BadInput(msg) from error

        return shell

    return decorate
