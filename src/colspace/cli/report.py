"""``colspace report``: the page of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import _options as options
from ._files import check_files
from ._group import one_line_errors
from ._words import of_new_rows, warnings_on_stderr


@click.command("report")
@click.argument("model")
@click.argument("tables", nargs=-1, metavar="[TABLE...]")
@options.named("-o --out", "FILE", "Write the page here.  [default: the model's name with .html]")
@options.id_option("Column that is not used; for pairs the column of ids, by default the first")
@options.na_option
@options.quiet_option
@options.encoding_option
@one_line_errors(of_new_rows)
def command(model: str, tables: tuple[str, ...], out: str | None, **given: Any) -> None:
    """Write a page with pictures about the saved MODEL: one HTML file that needs no network.

    Without TABLE it shows what the model knows: what was asked, how good it was on rows, cells or entities left out, loadings or
    atoms, warnings, how to repeat it. With TABLE, read as by colspace apply, also those rows: their embedding, gaps with
    intervals, scores, or partners.

    \b
    Example:
      colspace report model.skops
      colspace report model.skops new_patients.csv --out page.html
    """
    out = str(Path(model).with_suffix(".html")) if out is None else out
    check_files([model, *tables], report=out)
    from ..io import info, load
    from ..report import write_report
    from ._apply import Rows
    from ._model_report import report_of
    from ._say import console, print_written, sound_header

    header = info(model)
    estimator = load(model)
    rows = Rows.of(header, tables, given["ids"], given["marks"], given["encoding"])
    with warnings_on_stderr("Note"), sound_header(model):
        rows.hush()
        page = report_of(estimator, rows, Path(model).name)
    write_report(page, out)
    print_written(console(), report=out)
