"""``colspace impute``: fill the gaps of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import click

from . import _options as options
from ._files import check_files, given_command
from ._filled import print_summary, some_rows, summary_of
from ._group import one_line_errors
from ._marks import marks_told
from ._options import NumberOr, option
from ._words import SKIPPED, phrased, warnings_on_stderr

_SHOWN = 5  # groups of columns that are skipped
_DROP = {
    "Drop them, or give": "Leave them out with --drop, carry them along with --id, or give",
    "drop it": "leave it out with --drop, or carry it along with --id",
    "Convert or drop the column": "Convert the column, or leave it out with --drop",
}

_PHRASES = (
    (r"kinds\['(.*?)'\]='(.*?)'", r"--kinds \1=\2"),
    (r"kinds=\{'(.*?)': \[levels in order\]\}", r"--kinds '\1=first,second,...'"),
    (r"kinds=\{'(.*?)': '(\w+)'\}", r"--kinds '\1=\2'"),
    ("'id' or dropping it to silence this", "--id or --drop to silence this"),
    ("levels in order as a list", "levels in order with commas"),
    (r"^kinds gives", "--kinds gives"),
    (r"The 'n_components' parameter of \w+", "--rank"),
    (r"n_components='?(\w+)'?", r"--rank \1"),
    (r"method='(\w+)'", r"--method \1"),
    (r" \(GridSearchCV compares numbers by score\)", ""),
    (r", n_features=(\d+); use at most", r" (\1); use at most"),
    (r"X has n_samples=1\b", "the table has one row"),
    (r"X has n_samples=", "the table has rows: "),
    (r"\blevel=", "--level "),
    ("a larger max_iter or tol", "a larger --max-iter"),
    ("(?:Drop them, or give|drop it|Convert or drop the column)", lambda m: _DROP[m[0]]),
)


_words = phrased(_PHRASES)


@click.command("impute")
@options.tables_argument
@options.out_option("the filled table", required=True)
@options.flag("--intervals", "Add COLUMN__lower and COLUMN__upper for columns with gaps.")
@option("--level", float, 0.95, "Probability of the intervals.")
@option("-r --rank", NumberOr(int, "auto"), "auto", "Number of latent factors.")
@options.named(
    "-k --kinds given",
    "COLUMN=KIND",
    "Kind of a column (continuous, ordinal, binary, nominal, count, lower, upper, two-sided, id), or its levels in order as "
    "in size=S,M,L; name or shell pattern; repeatable. The rest is found automatically.",
    multiple=True,
)
@options.na_option
@option("--method", ["ep", "paper"], "ep", "Expectation propagation, or the published EM.")
@options.id_option("Column that is neither used nor filled but kept as it is")
@options.drop_option
@options.flag("--clip", "Keep filled numbers inside the observed range.")
@options.named(
    "--draws",
    "N",
    "Write N tables of random draws, OUT-1 to OUT-N, for multiple imputation.",
    type=click.IntRange(1),
)
@option("--max-iter", click.IntRange(1), 200, "Iterations at most.")
@options.check_option(
    "How well cells that are there are filled when they are hidden; of more than 5,000 rows a sample"
)
@options.result_options("start, draws and hidden cells")
@options.encoding_option
@one_line_errors(_words)
def command(**given: Any) -> None:
    """Fill the gaps of TABLE by a low-rank Gaussian copula; numbers, counts, yes/no, levels, words and dates in one table.

    TABLE is a CSV, TSV, JSON lines, Parquet or Arrow file or pipe, a folder or 'pattern' of such files that are one table, or -
    for standard input. Several tables are joined on --id, and rows that one of them lacks have gaps there. Empty cells, NA, NaN,
    null, None and N/A are gaps, and what --na names. Ids and free text are kept as they are. Cells that are there are written as
    they are, also those that a spreadsheet would run as a formula.

    \b
    Example:
      colspace impute survey.csv --out filled.csv --id respondent \\
          --kinds income=low,middle,high --kinds 'q_*=ordinal' --na -99 --intervals
      colspace impute survey.csv --out draw.parquet --draws 20
    """
    asked = SimpleNamespace(**given)
    targets = targets_of(asked.out, asked.draws, asked.intervals)
    check_files(asked.tables, out=targets, model=asked.model, report=asked.report, as_json=asked.as_json)
    from ..copula._checks import check_share
    from ..io import save
    from ..quality import check_imputation
    from ..report._skipped import skipped
    from ._say import note, step, write_json

    check_share("level", asked.level)
    joined, cells, X, kinds = _read(asked)
    with_gaps = [name for name in X if X[name].isna().any()]
    if asked.intervals:
        cells.refuse_ends(with_gaps)
    if not with_gaps and not any((asked.model, asked.report, asked.as_json)):
        _write(cells, [X] * len(targets), targets)
        note(f"no gaps: wrote the table as it is to {', '.join(targets)}")
        return
    for group in skipped(X)[:_SHOWN]:
        note(f"{group}{SKIPPED}")
    imputer = _imputer(asked, kinds)
    with warnings_on_stderr("Warning", _words) as notes, step("fitting"):
        imputer.fit(X).set_params(verbose=False)
    used = [name for name, kind in zip(X, imputer.kinds_, strict=True) if kind != "id"]
    whole = imputer.transform(X)
    part = X if asked.intervals or asked.report is not None else some_rows(X, asked.seed)
    lower, upper = imputer.interval(part, asked.level)
    if asked.draws is None:
        shown = [name for name in with_gaps if name in used] if asked.intervals else []
        _write(cells, [whole[used]], targets, {name: (lower[name], upper[name]) for name in shown})
    else:
        with step("drawing", asked.draws) as advance:
            drawn = imputer.sample(X, asked.draws, random_state=asked.seed)
            _write(cells, (table[used] for table in drawn), targets, advance=advance)
    summary = summary_of(imputer, X, part, lower, upper, asked.level)
    if asked.check:
        with step("checking on hidden cells"):
            found = check_imputation(imputer, X, level=asked.level, random_state=asked.seed)
        summary["quality"] = found.plain()
    imputer.set_params(n_jobs=None)
    if asked.model is not None:
        save(
            imputer,
            asked.model,
            about=_about(summary, joined.about() | marks_told(asked.marks), asked.seed, notes),
        )
    if asked.report is not None:
        _write_page(imputer, X, joined, summary, (whole, lower, upper), notes, asked)
    write_json(summary, asked.as_json)
    print_summary(summary, targets, {"model": asked.model, "report": asked.report, "JSON": asked.as_json})


def _imputer(asked: SimpleNamespace, kinds: dict[str, Any]) -> Any:
    """The imputer that the options describe."""
    from ..copula import CopulaImputer

    return CopulaImputer(
        asked.rank,
        method=asked.method,
        kinds=kinds or "auto",
        clip=asked.clip,
        max_iter=asked.max_iter,
        random_state=asked.seed,
        n_jobs=-1,
        verbose=not asked.quiet,
    )


def _write(
    cells: Any,
    tables: Iterable[Any],
    targets: Sequence[str],
    bounds: Mapping[str, tuple[Any, Any]] = MappingProxyType({}),
    advance: Callable[[], None] | None = None,
) -> None:
    """Write each table to its target, cells that are there as they stood, with the ends of intervals of some columns."""
    from ..io import write_table
    from ._cells import as_written

    as_text = as_written(targets[0])
    for target, table in zip(targets, tables, strict=True):
        write_table(cells.filled(table, bounds, as_text=as_text), target)
        if advance is not None:
            advance()


def _read(asked: SimpleNamespace) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The tables, their cells as they are written, the columns to fill as values with gaps, and kinds that are given."""
    from .._blocks import parse_columns
    from ._cells import fit_levels, join_cells, parse_kinds, refuse_mixtures
    from ._say import step

    with warnings_on_stderr("Note"), step("reading"):
        joined, cells = join_cells(asked.tables, asked.ids, asked.encoding)
    names = list(cells.values)
    for name in asked.ids:
        parse_columns([name], len(names), names, what="--id")
    dropped = [
        names[j] for pattern in asked.drop for j in parse_columns(pattern, len(names), names, what="--drop")
    ]
    cells = cells.without(dropped)
    columns = [name for name in cells.values if name not in asked.ids]
    if not columns:
        msg = "no columns are left beside those of --id and --drop"
        raise ValueError(msg)
    kinds = parse_kinds(asked.given, columns)
    if asked.marks:
        with warnings_on_stderr("Note"):
            cells = cells.with_gaps(asked.marks, columns)
    cells = cells.as_numbers(columns, [name for name, kind in kinds.items() if not isinstance(kind, str)])
    kinds = fit_levels(kinds, cells)
    X = cells.values[columns].copy()  # in one piece
    refuse_mixtures(X, kinds)
    return joined, cells, X, kinds


def _write_page(
    imputer: Any,
    X: Any,
    joined: Any,
    summary: dict[str, Any],
    filled: tuple[Any, Any, Any],
    notes: Sequence[str],
    asked: SimpleNamespace,
) -> None:
    from ..report import write_report
    from ..report._imputation import imputation_report
    from ._python import impute_code

    whole, lower, upper = filled
    page = imputation_report(
        imputer,
        X,
        source=joined.source,
        summary=summary,
        filled=whole,
        lower=lower,
        upper=upper,
        quality=summary.get("quality"),
        facts={"table": joined.source, "level of the intervals": asked.level, "seed": asked.seed},
        notes=notes,
        command=given_command(),
        python="" if asked.marks else impute_code(imputer, joined, asked.ids, X),
    )
    write_report(page, asked.report)


def _about(
    summary: dict[str, Any], tables: dict[str, Any], seed: int, notes: Sequence[str]
) -> dict[str, Any]:
    """What a saved model says of the fit."""
    gaps = sum(row["gaps"] for row in summary["rows"])
    told = {"command": "impute", **tables, "rows": summary["shape"][0], "gaps": gaps}
    told |= {"kinds": summary["kinds"], "factors": summary["rank"], "seed": seed}
    told |= {"warnings": list(notes), "line": given_command()}
    return told | ({"hidden_cells": summary["quality"]} if "quality" in summary else {})


def targets_of(out: str, draws: int | None, intervals: bool) -> list[str]:
    """The files to write."""
    targets = [out]
    if draws is not None:
        if out == "-":
            msg = "--draws writes several files, and --out - is one stream; name a file, e.g. --out draw.csv"
            raise ValueError(msg)
        if intervals:
            msg = "--intervals go with the filled table and --draws writes draws instead; choose one"
            raise ValueError(msg)
        path = Path(out)
        suffix = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
        stem = path.name.removesuffix(suffix)
        targets = [str(path.with_name(f"{stem}-{i}{suffix}")) for i in range(1, draws + 1)]
    return targets
