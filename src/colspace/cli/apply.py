"""``colspace apply``: a saved model on new rows."""

from __future__ import annotations

import click

from ._files import check_files
from ._group import one_line_errors
from ._options import (
    encoding_option,
    id_option,
    na_option,
    option,
    out_option,
    quiet_option,
    seed_option,
    tables_argument,
)
from ._words import in_options, warnings_on_stderr
from .impute import targets_of

#: Options that only some models have: parameter -> (option, kind of model).
_ONLY = {
    "intervals": ("--intervals", "imputer"),
    "level": ("--level", "imputer"),
    "draws": ("--draws", "imputer"),
    "top": ("--top", "pairs"),
}
_WHAT = {
    "imputer": "fills gaps",
    "pairs": "ranks partners",
    "classifier": "predicts labels",
    "regressor": "predicts numbers",
    "reducer": "makes an embedding",
}
_RESULT = {
    "imputer": "filled table",
    "pairs": "partners",
    "classifier": "labels",
    "regressor": "numbers",
    "reducer": "embedding",
}


@click.command("apply")
@click.argument("model")
@tables_argument
@out_option("the result", required=True)
@id_option(
    "Column that is not used but carried into --out; for pairs the column of ids, by default the first"
)
@na_option
@click.option(
    "--intervals", is_flag=True, help="Imputer: add COLUMN__lower and COLUMN__upper for columns with gaps."
)
@option("--level", float, 0.95, "Imputer: probability of the intervals.")
@click.option(
    "--draws",
    type=click.IntRange(1),
    metavar="N",
    help="Imputer: write N tables of random draws, OUT-1 to OUT-N.",
)
@option("--top", click.IntRange(1), 20, "Pairs: partners of each entity.")
@seed_option("the draws")
@quiet_option
@encoding_option
@one_line_errors(in_options)
def command(
    model: str,
    tables: tuple[str, ...],
    out: str,
    ids: tuple[str, ...],
    marks: tuple[str, ...],
    intervals: bool,
    level: float,
    draws: int | None,
    top: int,
    seed: int,
    quiet: bool,
    encoding: str | None,
) -> None:
    """Apply the saved MODEL to the rows of TABLE: embedding, filled table, labels with probabilities, or partners.

    TABLE is read as by the command that fitted the model, several tables joined on --id. It needs the columns of the fit, by name
    and in any order; further ones are left out unless --id names them. For pairs it holds new left entities.

    \b
    Example:
      colspace apply model.skops new_patients.csv --id patient --out embedding.csv
      colspace apply survey.skops wave2.csv --out filled.csv --intervals
    """
    targets = targets_of(out, draws, intervals)
    check_files([model, *tables], out=targets)
    from ..io import info, load, write_table
    from ._apply import Rows, embed, embed_large, fill, kind_of, partners, predict
    from ._say import console, print_written

    header = info(model)
    estimator = load(model)
    kind = kind_of(estimator)
    _check_options(kind, model)
    rows = Rows(header, tables, ids, marks, encoding)
    from rich.markup import escape

    def told(count: int) -> None:
        name = header["estimator"] or type(estimator).__name__
        screen = console(out)
        screen.print(escape(f"{name} {_WHAT[kind]}: {count:,} rows"), soft_wrap=True)
        print_written(screen, **{_RESULT[kind]: targets})

    with warnings_on_stderr("Note"):
        large = embed_large(estimator, rows, out) if kind == "reducer" else None
        if large is not None:
            return told(large)
        if kind == "imputer":
            results = fill(estimator, rows, targets, intervals=intervals, level=level, draws=draws, seed=seed)
        elif kind == "pairs":
            results = [partners(estimator, rows, top)]
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
            msg = f"{flag} is of a model that {_WHAT[of]}, and {model} {_WHAT[kind]}"
            raise click.UsageError(msg)
