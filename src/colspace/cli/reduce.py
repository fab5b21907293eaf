"""``colspace reduce``: fit a reduction on a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._files import check_files, encoding_option, given_command, report_option
from ._group import one_line_errors
from ._words import in_options, warnings_on_stderr

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]  # generic from click 8.4 on
else:
    _ParamType = click.ParamType


class _NumberOr(_ParamType):
    """A number, or one of a few words."""

    def __init__(self, number: type[int | float], *words: str) -> None:
        self.number = number
        self.words = words
        self.name = "|".join(["N" if number is int else "X", *words])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.words or isinstance(value, self.number):
            return value
        try:
            return self.number(value)
        except ValueError:
            kind = "a whole number" if self.number is int else "a number"
            self.fail(f"{value!r} is neither {kind} nor one of {', '.join(self.words)}", param, ctx)


def _parse_blocks(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, list[str]]:
    blocks: dict[str, list[str]] = {}
    for text in given:
        name, equals, pattern = text.partition("=")
        if not (name and equals and pattern):
            msg = f"{text!r} is not of the form NAME=PATTERN, e.g. genes=g_*"
            raise click.BadParameter(msg, ctx=ctx, param=param)
        if name == "drop":
            msg = "a block cannot be called 'drop'; use --drop-rest to leave out columns in no block"
            raise click.BadParameter(msg, ctx=ctx, param=param)
        blocks.setdefault(name, []).append(pattern)
    return blocks


def _distinct(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    twice = [name for name in dict.fromkeys(given) if given.count(name) > 1]
    if twice:
        msg = f"{twice[0]!r} is given twice; name each column once"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return given


def _parse_moments(ctx: click.Context, param: click.Parameter, given: str) -> str | tuple[str, ...]:
    names = tuple(name.strip() for name in given.split(","))
    return names[0] if len(names) == 1 else names


@click.command("reduce")
@click.argument("table")
@click.option(
    "-y",
    "--response",
    "responses",
    multiple=True,
    required=True,
    callback=_distinct,
    metavar="COLUMN",
    help="Response column, numbers or class labels; repeatable.",
)
@click.option(
    "--rank-response", is_flag=True, help="Replace the response by its ranks: for heavy tails and outliers."
)
@click.option("--labels", is_flag=True, help="Take a response of numbers as class labels.")
@click.option(
    "-b",
    "--block",
    "blocks",
    multiple=True,
    callback=_parse_blocks,
    metavar="NAME=PATTERN",
    help="A block of columns by name or shell pattern, e.g. genes=g_*; repeatable, also for one block. "
    "Without any, all columns are one block.",
)
@click.option("--drop-rest", is_flag=True, help="Leave out columns that are in no block.")
@click.option(
    "--drop",
    multiple=True,
    metavar="PATTERN",
    help="Leave out columns by name or shell pattern; repeatable.",
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    callback=_distinct,
    metavar="COLUMN",
    help="Column that is not reduced but carried into --out, to join rows back; repeatable.",
)
@click.option(
    "-r",
    "--components",
    type=_NumberOr(int, "auto", "moments", "threshold"),
    default="2",
    show_default=True,
    help="Directions per block: a number; auto, the least that reads the response on rows left out as well as the best; moments, the "
    "cross-validated rank of the moments; threshold, those above the noise level.",
)
@click.option(
    "--method",
    type=click.Choice(["joint", "stein"]),
    default="joint",
    show_default=True,
    help="Joint reduction of one or more blocks, or Stein's method: one block, one or several responses, and rows "
    "whose response is missing help as unlabelled ones.",
)
@click.option(
    "--order",
    type=click.Choice(["1", "2", "both"]),
    default="1",
    show_default=True,
    help="Stein: first derivatives of the links, second, or both.",
)
@click.option(
    "--score",
    type=click.Choice(["ridge", "gaussian", "auto"]),
    default="ridge",
    show_default=True,
    help="Stein: law of the columns. Gaussian with the ridge of least leave-one-out error or as published; auto chooses among "
    "Gaussian, Student and hyperbolic.",
)
@click.option(
    "--moments",
    default="auto",
    show_default=True,
    callback=_parse_moments,
    help="auto (any table), or the published moments: all, linear, joint, hessian, tensor, or several as in linear,joint.",
)
@click.option(
    "--whiten",
    type=click.Choice(["full", "diagonal", "none"]),
    default="full",
    show_default=True,
    help="Cholesky of each block's covariance, scaling of each column, or centring only.",
)
@click.option(
    "--shrinkage",
    type=_NumberOr(float, "auto"),
    help="Weight of the identity in the correlations of published moments, 0 to 1; auto is Ledoit-Wolf. Without it, as little as the "
    "numbers allow.",
)
@click.option(
    "--select",
    "selected",
    type=_NumberOr(int, "auto", "threshold"),
    help="Columns to keep per block; needs --whiten diagonal or none.",
)
@click.option(
    "--solver",
    type=click.Choice(["auto", "exact", "randomized", "countsketch"]),
    default="auto",
    show_default=True,
    help="exact forms the moments, the others sketch them; auto is exact up to 4,000 columns.",
)
@click.option("--rank-test", is_flag=True, help="Permutation test of the number of directions.")
@click.option(
    "--check/--no-check",
    default=True,
    help="How well y is read on rows left out, beside PCA, PLS, ridge and all columns; of more than 5,000 rows a sample. [default: on]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of samples, sketches, permutations and folds.",
)
@click.option(
    "-o",
    "--out",
    help="Write the ids, the embedding and the responses here (.csv, .tsv, .parquet, - for stdout).",
)
@click.option("--save", "model", metavar="FILE", help="Write the fitted model here (.skops).")
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@encoding_option
@one_line_errors(in_options)
def command(
    table: str,
    responses: tuple[str, ...],
    rank_response: bool,
    labels: bool,
    blocks: dict[str, list[str]],
    drop_rest: bool,
    drop: tuple[str, ...],
    ids: tuple[str, ...],
    components: Any,
    method: str,
    order: str,
    score: str,
    moments: str | tuple[str, ...],
    whiten: str,
    shrinkage: Any,
    selected: Any,
    solver: str,
    rank_test: bool,
    check: bool,
    seed: int,
    out: str | None,
    model: str | None,
    report: str | None,
    as_json: bool,
    encoding: str | None,
) -> None:
    """Find the directions of TABLE that matter for a response, block by block.

    TABLE is a CSV, TSV, Parquet or Arrow file or pipe, or - for one of these on standard input. Cells of --id columns are
    written as they are, also those that a spreadsheet would run as a formula.

    \b
    Example:
      colspace reduce patients.csv --response outcome \\
          --block genes='g_*' --block diet='d_*' --out embedding.parquet
      colspace reduce cells.csv --response type --method stein --components 5
    """
    _check_method(method, blocks, components)
    if as_json and out == "-":
        msg = "--json and --out - both write to standard output; choose one"
        raise click.UsageError(msg)
    if drop_rest and not blocks:
        msg = "--drop-rest leaves out columns that are in no block, so it needs --block; see also --drop"
        raise click.UsageError(msg)
    if rank_response and labels:
        msg = "--rank-response takes the response as numbers and --labels as classes; choose one"
        raise click.UsageError(msg)
    both = [name for name in ids if name in responses]
    if both:
        msg = f"{both[0]!r} is given as --response and as --id; choose one"
        raise click.UsageError(msg)
    check_files([table], tables=[("--out", out)], models=[("--save", model)], report=report)
    from ..io import read_table, save, write_table
    from ..reduction import JointReduction, SteinReduction
    from ._report import about_of, print_report, report_of
    from ._table import split_table

    with warnings_on_stderr("Note"):
        frame = read_table(table, text=ids, encoding=encoding)
    parts = split_table(frame, responses, ids, drop, blocks, drop_rest, unlabelled=method == "stein")
    response = "rank" if rank_response else "labels" if labels else None
    estimator: Any
    if method == "stein":
        estimator = SteinReduction(
            components,
            order=order if order == "both" else int(order),
            score_model=score,
            response=response,
            random_state=seed,
        )
    else:
        estimator = JointReduction(
            components,
            blocks=blocks or None,
            moments=moments,
            whiten=None if whiten == "none" else whiten,
            shrinkage=shrinkage,
            solver=solver,
            n_selected=selected,
            response=response,
            random_state=seed,
        )
    with warnings_on_stderr("Warning") as notes:
        estimator.fit(parts.X, parts.y)
        test = estimator.rank_test(parts.X, parts.y, random_state=seed) if rank_test else None
    if out is not None:
        write_table(parts.with_embedding(estimator), out)
    if out == "-" and model is None and report is None:
        return
    found = report_of(estimator, parts, test)
    if check:
        from ._check import quality_of

        found["quality"] = quality_of(estimator, parts, blocks, seed)
    if model is not None:
        save(estimator, model, about=about_of(found, table, seed))
    if report is not None:
        from ..report import write_report
        from ..report._reduction import reduction_report

        page = reduction_report(
            estimator,
            parts.X,
            parts.y,
            source=Path(table).name,
            quality=found.get("quality"),
            rank_test=found.get("rank_test"),
            notes=notes,
            command=given_command(),
            seed=seed,
        )
        write_report(page, report)
    if out == "-":
        return
    if as_json:
        import json

        click.echo(json.dumps(found, indent=2))
    else:
        print_report(found, out, model, report)


#: Options that one method has and the other has not, by parameter name.
_ONLY = {
    "joint": {
        "drop_rest": "--drop-rest",
        "moments": "--moments",
        "whiten": "--whiten",
        "shrinkage": "--shrinkage",
        "selected": "--select",
        "solver": "--solver",
        "rank_test": "--rank-test",
    },
    "stein": {"order": "--order", "score": "--score"},
}


def _check_method(method: str, blocks: dict[str, list[str]], components: Any) -> None:
    """Refuse options that the method would ignore."""
    from click.core import ParameterSource

    ctx = click.get_current_context()
    other = "stein" if method == "joint" else "joint"
    given = [
        o for name, o in _ONLY[other].items() if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if method == "stein" and blocks:
        msg = "--method stein takes all columns as one block; leave out --block, or columns with --drop"
        raise click.UsageError(msg)
    if given:
        msg = f"{given[0]} is an option of --method {other}, and the method is {method}"
        raise click.UsageError(msg)
    if method == "stein" and components == "threshold":
        msg = "--components threshold is of --method joint; with stein give a number, auto or moments"
        raise click.UsageError(msg)
