"""``colspace demo``: a tour on real data."""

from __future__ import annotations

from pathlib import Path

import click

from ._files import check_files
from ._group import one_line_errors


@click.command("demo")
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo",
    show_default=True,
    help="Directory for the pictures and the report.",
)
@one_line_errors(whole=False)
def command(out: Path) -> None:
    """Run the methods beside PCA, PLS and others on data that ship with scikit-learn, and save pictures.

    Prints tables of quality on rows, cells and entities left out; about a minute and a half.
    """
    check_files([], folder=out)
    from ..io import require

    for module in ("pandas", "matplotlib"):
        require(module, "cli,plot", "the demo")
    from ..experiments.demo import main

    main(["--out", str(out)])
