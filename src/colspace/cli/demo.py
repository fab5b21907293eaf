"""``colspace demo``: a tour on real data."""

from __future__ import annotations

from pathlib import Path

import click

from ._files import check_files
from ._group import one_line_errors
from ._options import folder_option


@click.command("demo")
@folder_option("the pictures and the report", default="demo", show_default=True)
@one_line_errors(whole=False)
def command(out: Path) -> None:
    """Run the methods beside PCA, PLS and others on data that ship with scikit-learn, and save pictures.

    Prints tables of quality on rows, cells and entities left out and a summary, and writes a report; about a minute and a half.
    """
    check_files([], folder=out)
    from ..io import require

    for module in ("pandas", "matplotlib"):
        require(module, "cli,plot", "the demo")
    from ..experiments.demo import main

    main(["--out", str(out)])
    _report(out)


def _report(out: Path) -> None:
    """The page of a reduction of the first table, by the command that is printed, and what to try next."""
    import shlex
    import sys

    from ..experiments.demo import BLOCKS, breast_cancer
    from ..io import write_table
    from ._say import note
    from .reduce import command as reduce

    X, y = breast_cancer()
    table, page = str(out / "tumours.csv"), str(out / "report.html")
    write_table(X.assign(diagnosis=y), table)
    line = [table, "--response", "diagnosis", "--report", page]
    line += [part for name, columns in BLOCKS.items() for part in ("--block", f"{name}={columns}")]
    typed, sys.argv = sys.argv, ["colspace", "reduce", *line]  # what the page says how to repeat it
    try:
        reduce.main([*line, "--quiet"], standalone_mode=False)
    except ImportError as error:
        note(f"no report: {error}")
        return
    finally:
        sys.argv = typed
    click.echo(f"wrote {page}, as does\n  {shlex.join(['colspace', 'reduce', *line])}")
    click.echo(
        f"Next: open {page}; colspace look YOUR_TABLE tells which command fits your own; colspace reproduce lists the papers."
    )
