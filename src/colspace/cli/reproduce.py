"""``colspace reproduce``: run a published experiment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ._files import check_files
from ._group import one_line_errors
from ._options import flag, folder_option, option

_FILE_WIDTH = 160  # of tables that go to a file or a pipe


@click.command("reproduce")
@click.argument("name", required=False)
@flag("--all everything", "Run all of them and write the book: a page a paper.")
@flag("--quick", "Fewer repetitions on smaller grids: about a minute.")
@folder_option("the figure and the numbers", default="results", show_default=True)
@option("--seed", click.IntRange(min=0), 0, "Seed of the simulation.")
@one_line_errors(whole=False)
def command(name: str | None, everything: bool, quick: bool, out: Path, seed: int) -> None:
    """Run the experiment NAME of a paper; without a name, list them.

    Prints a table and writes NAME.png and NAME.csv. With --all every experiment is run, what a run of the same version, size
    and seed has left in --out is kept, and index.md and paper-NNN.md hold each published number beside ours.
    """
    from rich.console import Console

    from ..experiments import EXPERIMENTS, describe, run

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    if everything:
        if name is not None:
            msg = f"--all runs every experiment, {name!r} names one; leave one of them out"
            raise click.UsageError(msg)
        _run_all(console, out, quick=quick, seed=seed)
        return
    if name is None:
        _print_rows(console, [{"name": known, "shows": describe(known)} for known in EXPERIMENTS])
        return
    if name not in EXPERIMENTS:
        msg = f"no experiment is called {name!r}; choose from {', '.join(EXPERIMENTS)}"
        raise click.BadParameter(msg, param_hint="NAME")
    check_files([], folder=out, names=(f"{name}.csv", f"{name}.png"))
    import matplotlib as mpl

    mpl.use("Agg")
    result = run(name, quick=quick, out=out, rng=seed, progress=True)
    console.print(f"[bold]{result.title}[/]")
    _print_rows(console, result.summary)
    for note in result.notes:
        console.print(note)
    console.print(f"wrote {result.path} and {out / name}.csv", soft_wrap=True)


def _run_all(console: Any, out: Path, *, quick: bool, seed: int) -> None:
    from ..experiments import EXPERIMENTS
    from ..experiments._book import Outcome, run_all, write_book
    from ..experiments._claims import PAPERS

    names = [f"{name}{ending}" for name in EXPERIMENTS for ending in (".csv", ".png", ".json")]
    check_files([], folder=out, names=(*names, "index.md", *(f"paper-{number}.md" for number in PAPERS)))
    import matplotlib as mpl

    mpl.use("Agg")

    def told(outcome: Outcome, now: bool) -> None:
        if outcome.rows is None:
            console.print(f"{outcome.name}: not run: {outcome.lacks}", soft_wrap=True)
        else:
            console.print(
                f"{outcome.name}: {outcome.cpu:.1f} s of CPU" + ("" if now else ", from an earlier run")
            )

    outcomes = run_all(out, quick=quick, rng=seed, progress=True, told=told)
    counts = write_book(out, outcomes, quick=quick)
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    console.print(f"wrote {out / 'index.md'}", soft_wrap=True)


def _print_rows(console: Any, rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    console.print(table)
