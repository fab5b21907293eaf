"""``colspace apply``: a saved model on new rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import click

from . import _options as options
from ._files import check_files
from ._group import one_line_errors
from ._words import of_new_rows, warnings_on_stderr
from .impute import targets_of

#: Options that only some models have: parameter -> (option, kind of model).
_ONLY = {
    "intervals": ("--intervals", "imputer"),
    "level": ("--level", "imputer"),
    "draws": ("--draws", "imputer"),
    "top": ("--top", "pairs"),
}
#: Options that another one leaves without effect.
_NEEDS = {"level": ("--level", "intervals"), "seed": ("--seed", "draws")}
#: What a model does, and what comes of it.
_WHAT = {
    "imputer": ("fills gaps", "filled table"),
    "pairs": ("ranks partners", "partners"),
    "classifier": ("predicts labels", "labels"),
    "regressor": ("predicts numbers", "numbers"),
    "reducer": ("makes an embedding", "embedding"),
}


@click.command("apply")
@click.argument("model")
@options.tables_argument
@options.out_option("the result", required=True)
@options.id_option(
    "Column that is not used but carried into --out; for pairs the column of ids, by default the first"
)
@options.na_option
@options.flag("--intervals", "Imputer: add COLUMN__lower and COLUMN__upper for columns with gaps.")
@options.option("--level", float, 0.95, "Imputer: probability of the intervals.")
@options.named(
    "--draws", "N", "Imputer: write N tables of random draws, OUT-1 to OUT-N.", type=click.IntRange(1)
)
@options.option("--top", click.IntRange(1), 20, "Pairs: partners of each entity.")
@options.seed_option("the draws")
@options.quiet_option
@options.encoding_option
@one_line_errors(of_new_rows)
def command(model: str, tables: tuple[str, ...], out: str, **given: Any) -> None:
    """Apply the saved MODEL to the rows of TABLE: embedding, filled table, labels with probabilities, or partners.

    TABLE is read as by the command that fitted the model, several tables joined on --id. It needs the columns of the fit, by name
    and in any order; further ones are left out unless --id names them. For pairs it holds new left entities.

    \b
    Example:
      colspace apply model.skops new_patients.csv --id patient --out embedding.csv
      colspace apply survey.skops wave2.csv --out filled.csv --intervals
    """
    asked = SimpleNamespace(**given)
    targets = targets_of(out, asked.draws, asked.intervals)
    check_files([model, *tables], out=targets)
    from ..io import info, load, write_table
    from ._apply import Rows, embed, embed_large, fill, kind_of, partners, predict
    from ._say import console, print_written

    header = info(model)
    estimator = load(model)
    kind = kind_of(estimator)
    _check_options(kind, model)
    rows = Rows.of(header, tables, asked.ids, asked.marks, asked.encoding)
    from rich.markup import escape

    def told(count: int) -> None:
        name = header["estimator"] or type(estimator).__name__
        screen = console(out)
        does, result = _WHAT[kind]
        screen.print(escape(f"{name} {does}: {count:,} rows"), soft_wrap=True)
        print_written(screen, **{result: targets})

    with warnings_on_stderr("Note"):
        rows.hush()
        large = embed_large(estimator, rows, out) if kind == "reducer" else None
        if large is not None:
            return told(large)
        if kind == "imputer":
            results = fill(estimator, rows, targets, asked)
        elif kind == "pairs":
            results = [partners(estimator, rows, asked.top)]
        elif kind == "reducer":
            results = [embed(estimator, rows)]
        else:
            results = [predict(estimator, rows)]
    for target, result in zip(targets, results, strict=True):
        write_table(result, target)
    return told(len(results[0]))


def _check_options(kind: str, model: str) -> None:
    """Refuse options that the model would ignore."""
    from click.core import ParameterSource

    ctx = click.get_current_context()
    for name, (flag, of) in _ONLY.items():
        if of != kind and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            msg = f"{flag} is of a model that {_WHAT[of][0]}, and {model} {_WHAT[kind][0]}"
            raise click.UsageError(msg)
    for name, (flag, of) in _NEEDS.items():
        if not ctx.params[of] and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            msg = f"{flag} is about the {of}, so it needs --{of}"
            raise click.UsageError(msg)
