"""``colspace apply``: a saved model on new rows."""

from __future__ import annotations

import click

from ._files import check_files, encoding_option
from ._group import one_line_errors
from ._words import in_options, warnings_on_stderr
from .impute import _targets
from .reduce import _distinct

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


@click.command("apply")
@click.argument("model")
@click.argument("table")
@click.option(
    "-o", "--out", required=True, help="Write the result here (.csv, .tsv, .parquet, - for CSV on stdout)."
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    callback=_distinct,
    metavar="COLUMN",
    help="Column that is not used but carried into --out; repeatable.",
)
@click.option(
    "--intervals", is_flag=True, help="Imputer: add COLUMN__lower and COLUMN__upper for columns with gaps."
)
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Imputer: probability of the intervals."
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    metavar="N",
    help="Imputer: write N tables of random draws, OUT-1 to OUT-N.",
)
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="Pairs: partners of each entity."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the draws."
)
@encoding_option
@one_line_errors(in_options)
def command(
    model: str,
    table: str,
    out: str,
    ids: tuple[str, ...],
    intervals: bool,
    level: float,
    draws: int | None,
    top: int,
    seed: int,
    encoding: str | None,
) -> None:
    """Apply the saved MODEL to the rows of TABLE: embedding, filled table, labels with probabilities, or partners.

    The table needs the columns of the fit, by name and in any order; further ones are left out unless --id names them. For pairs the
    first column holds the ids of new left entities.

    \b
    Example:
      colspace apply model.skops new_patients.csv --id patient --out embedding.csv
      colspace apply survey.skops wave2.csv --out filled.csv --intervals
    """
    targets = _targets(out, draws, intervals)
    check_files([model, table], tables=[("--out", target) for target in targets])
    from ..io import info, load, write_table
    from ._apply import embed, fill, kind_of, partners, predict

    header = info(model)
    estimator = load(model)
    kind = kind_of(estimator)
    _check_options(kind, model)
    with warnings_on_stderr("Note"):
        if kind == "imputer":
            tables = fill(
                estimator,
                table,
                ids,
                targets,
                intervals=intervals,
                level=level,
                draws=draws,
                seed=seed,
                encoding=encoding,
            )
        elif kind == "pairs":
            tables = [partners(estimator, header, table, top, encoding)]
        elif kind == "reducer":
            tables = [embed(estimator, header, table, ids, encoding)]
        else:
            tables = [predict(estimator, header, table, ids, encoding)]
    for target, result in zip(targets, tables, strict=True):
        write_table(result, target)
    if out != "-":
        click.echo(
            f"{header['estimator'] or type(estimator).__name__} {_WHAT[kind]}: {len(tables[0]):,} rows, wrote {', '.join(targets)}"
        )


def _check_options(kind: str, model: str) -> None:
    """Refuse options that the model would ignore."""
    from click.core import ParameterSource

    ctx = click.get_current_context()
    for name, (option, of) in _ONLY.items():
        if of != kind and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            msg = f"{option} is of a model that {_WHAT[of]}, and {model} {_WHAT[kind]}"
            raise click.UsageError(msg)
