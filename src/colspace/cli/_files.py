"""What all commands do with files before they read the first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

encoding_option = click.option(
    "--encoding",
    metavar="NAME",
    help="Encoding of text tables, such as utf-16, latin-1 or cp1252.  [default: utf-8, with or without BOM]",
)


report_option = click.option(
    "--report", metavar="FILE", help="Write a page with pictures here: one HTML file that needs no network."
)


def check_files(
    inputs: Iterable[str | None],
    *,
    report: str | None = None,
    tables: Iterable[tuple[str, str | Path | None]] = (),
    models: Iterable[tuple[str, str | Path | None]] = (),
    folder: Path | None = None,
    names: Iterable[str] = (),
) -> None:
    """Refuse outputs that could not be written, or that are an input or another output.

    ``tables`` and ``models`` are pairs of an option and the path given with it; ``folder`` is the directory of --out, to be made
    if it is missing, and ``names`` are the files written in it.
    """
    from ..io import check_model_target, check_table_target
    from ..io._files import check_apart, check_directory, check_target

    tables, models = list(tables), list(models)
    if report is not None:
        _check_report(report)
    if folder is not None:
        check_directory(folder)
    inside = [("--out", folder / name) for name in names] if folder is not None else []
    check_apart(inputs, [*tables, *models, *inside, ("--report", report)])
    for _, path in tables:
        if path is not None:
            check_table_target(path)
    for _, path in models:
        if path is not None:
            new = (
                folder is not None
                and not folder.exists()
                and Path(path).absolute().parent == folder.absolute()
            )
            check_model_target(Path(path).name if new else path)  # the directory is made later
    for _, path in inside:
        if path.parent.exists():
            check_target(path)


def _check_report(path: str) -> None:
    from ..io import require
    from ..io._files import check_target

    for module in ("jinja2", "altair", "vl_convert"):
        require(module, "report", "--report")
    check_target(path)


def given_command() -> str:
    """The command line as it can be pasted."""
    import shlex
    import sys

    return shlex.join(["colspace", *sys.argv[1:]])
