"""``colspace reduce``: fit a reduction on a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import click

from .._streamable import takes_chunks
from ._files import check_files, given_command
from ._group import one_line_errors
from ._marks import marks_told
from ._options import (
    NumberOr,
    check_option,
    distinct,
    drop_option,
    encoding_option,
    id_option,
    na_option,
    option,
    out_option,
    result_options,
    tables_argument,
)
from ._reduce_fit import Task
from ._words import in_options


def _parse_blocks(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, list[str]]:
    blocks: dict[str, list[str]] = {}
    for text in given:
        name, equals, pattern = text.partition("=")
        if not (name and equals and pattern):
            msg = f"{text!r} is not of the form NAME=COLUMNS, e.g. genes=g_*"
            raise click.BadParameter(msg, ctx=ctx, param=param)
        if name == "drop":
            msg = "a block cannot be called 'drop'; use --drop-rest to leave out columns in no block"
            raise click.BadParameter(msg, ctx=ctx, param=param)
        blocks.setdefault(name, []).append(pattern)
    return blocks


def _parse_moments(ctx: click.Context, param: click.Parameter, given: str) -> str | tuple[str, ...]:
    names = tuple(name.strip() for name in given.split(","))
    return names[0] if len(names) == 1 else names


@click.command("reduce")
@tables_argument
@click.option(
    "-y",
    "--response",
    "responses",
    multiple=True,
    required=True,
    callback=distinct,
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
    metavar="NAME=COLUMNS",
    help="A block of columns: a name, a range as in diet=a:f, or a pattern as in genes=g_*; repeatable, also for one block. "
    "Without any, every table is a block.",
)
@click.option("--drop-rest", is_flag=True, help="Leave out columns that are in no block.")
@drop_option
@id_option("Column that is not reduced but carried into --out")
@na_option
@option(
    "-r --components",
    NumberOr(int, "auto", "moments", "threshold"),
    "2",
    "Directions per block: a number; auto, the least that reads the response on rows left out as well as the best; moments, the "
    "cross-validated rank of the moments; threshold, those above the noise level.",
)
@option(
    "--method",
    ["joint", "stein"],
    "joint",
    "Joint reduction of one or more blocks, or Stein's method: one block, one or several responses, and rows "
    "whose response is missing help as unlabelled ones.",
)
@option("--order", ["1", "2", "both"], "1", "Stein: first derivatives of the links, second, or both.")
@option(
    "--score",
    ["ridge", "gaussian", "auto"],
    "ridge",
    "Stein: law of the columns. Gaussian with the ridge of least leave-one-out error or as published; auto chooses among "
    "Gaussian, Student and hyperbolic.",
)
@click.option(
    "--moments",
    default="auto",
    show_default=True,
    callback=_parse_moments,
    help="auto (any table), or the published moments: all, linear, joint, hessian, tensor, or several as in linear,joint.",
)
@option(
    "--whiten",
    ["full", "diagonal", "none"],
    "full",
    "Cholesky of each block's covariance, scaling of each column, or centring only.",
)
@click.option(
    "--shrinkage",
    type=NumberOr(float, "auto"),
    help="Weight of the identity in the correlations of published moments, 0 to 1; auto is Ledoit-Wolf. Without it, as little as the "
    "numbers allow.",
)
@click.option(
    "--select",
    "selected",
    type=NumberOr(int, "auto", "threshold"),
    help="Columns to keep per block; needs --whiten diagonal or none.",
)
@option(
    "--solver",
    ["auto", "exact", "randomized", "countsketch"],
    "auto",
    "exact forms the moments, the others sketch them; auto is exact up to 4,000 columns.",
)
@click.option("--rank-test", is_flag=True, help="Permutation test of the number of directions.")
@check_option(
    "How well the response is read on rows left out, beside PCA, PLS, ridge and all columns; of more than 5,000 rows a sample"
)
@out_option("the ids, the embedding and the responses")
@result_options("samples, sketches, permutations and folds")
@encoding_option
@one_line_errors(in_options)
def command(**given: Any) -> None:
    """Find the directions of TABLE that matter for a response, block by block.

    TABLE is a CSV, TSV, JSON lines, Parquet or Arrow file or pipe, a folder or 'pattern' of such files that are one table, or -
    for standard input. Several tables are joined on --id, and each is a block. Cells of --id columns are written as they are,
    also those that a spreadsheet would run as a formula.

    \b
    Example:
      colspace reduce patients.csv --response outcome \\
          --block genes='g_*' --block diet=fat:sugar --out embedding.parquet
      colspace reduce genes.csv proteins.csv clinic.csv --id patient --response outcome --report page.html
      colspace reduce cells.csv --response type --method stein --components 5
    """
    asked = SimpleNamespace(**given)
    _check_method(asked.method, asked.blocks, asked.components)
    _check_uses(asked)
    check_files(asked.tables, out=[asked.out], model=asked.model, report=asked.report, as_json=asked.as_json)
    task = Task(
        *(asked.tables, asked.responses, asked.ids, asked.drop),
        *(asked.blocks, asked.drop_rest, asked.marks, asked.encoding),
    )
    chunks = asked.method == "joint" and not asked.rank_test and takes_chunks(_joint_options(asked))
    later = ("colspace.quality._compare", "rich.table") if asked.check else ()
    begun = (
        task.begin(asked.seed, later) if chunks else None
    )  # lines are parsed while scikit-learn is imported
    from ..io import save
    from ._report import about_of, print_report, report_of
    from ._say import write_json

    estimator = _estimator(asked)
    model, parts, joined, test, notes = task.fit(
        estimator, begun, asked.out, rank_test=asked.rank_test, seed=asked.seed
    )
    found = report_of(estimator, parts, test)
    if asked.check:
        from ._check import quality_of

        found["quality"] = quality_of(estimator, parts, getattr(estimator, "blocks", None), asked.seed)
    if asked.model is not None:
        about = about_of(found, joined.about() | marks_told(asked.marks), asked.seed, notes, given_command())
        save(model, asked.model, about=about)
    if asked.report is not None:
        _write_page(model, estimator, parts, joined, found, notes, asked)
    write_json(found, asked.as_json)
    print_report(found, out=asked.out, model=asked.model, page=asked.report, as_json=asked.as_json)


def _estimator(asked: SimpleNamespace) -> Any:
    """The reducer that the options describe."""
    if asked.method == "stein":
        from ..reduction import SteinReduction

        order = asked.order if asked.order == "both" else int(asked.order)
        return SteinReduction(**_shared_options(asked), order=order, score_model=asked.score)
    from ..reduction import JointReduction

    return JointReduction(**vars(_joint_options(asked)))


def _shared_options(asked: SimpleNamespace) -> dict[str, Any]:
    return {
        "n_components": asked.components,
        "response": "rank" if asked.rank_response else "labels" if asked.labels else None,
        "random_state": asked.seed,
    }


def _joint_options(asked: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(
        **_shared_options(asked),
        blocks=asked.blocks or None,
        moments=asked.moments,
        whiten=None if asked.whiten == "none" else asked.whiten,
        shrinkage=asked.shrinkage,
        solver=asked.solver,
        n_selected=asked.selected,
    )


def _write_page(
    model: Any,
    estimator: Any,
    parts: Any,
    joined: Any,
    found: dict[str, Any],
    notes: list[str],
    asked: SimpleNamespace,
) -> None:
    from ..report import write_report
    from ..report._reduction import reduction_report
    from ._python import reduce_code
    from ._report import facts_of

    page = reduction_report(
        estimator,
        parts.X,
        parts.y,
        source=joined.source,
        rows=parts.rows,
        facts=facts_of(found, joined.about(), estimator),
        quality=found.get("quality"),
        rank_test=found.get("rank_test"),
        notes=notes,
        command=given_command(),
        python="" if asked.marks else reduce_code(model, joined, asked.ids, parts),
        seed=asked.seed,
    )
    write_report(page, asked.report)


def _check_uses(asked: SimpleNamespace) -> None:
    """Refuse options that contradict each other."""
    if asked.drop_rest and not asked.blocks:
        msg = "--drop-rest leaves out columns that are in no block, so it needs --block; see also --drop"
        raise click.UsageError(msg)
    if asked.rank_response and asked.labels:
        msg = "--rank-response takes the response as numbers and --labels as classes; choose one"
        raise click.UsageError(msg)
    both = [name for name in asked.ids if name in asked.responses]
    if both:
        msg = f"{both[0]!r} is given as --response and as --id; choose one"
        raise click.UsageError(msg)


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
