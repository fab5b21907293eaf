"""``colspace pairs``: the likeliest partners of entities."""

from __future__ import annotations

import re
import warnings
from typing import Any

import click

from ._files import check_files, encoding_option
from ._group import one_line_errors
from ._words import in_options, warnings_on_stderr
from .reduce import _NumberOr, _ParamType

_SHOWN = 3  # entities whose best partners are printed

_PHRASES = (
    ("unknown='drop'", "--drop-unknown"),
    ("duplicates='sum', 'max' or 'mean'", "--duplicates sum, max or mean"),
    (r"colspace\.CopulaImputer can fill them: .*", "colspace impute can fill them."),
    (r"bandwidth and shrinkage as numbers", "--bandwidth and --shrinkage as numbers"),
    (r"a smaller cv, or", "more links, or"),
    (r"\bbandwidth=", "--bandwidth "),
    (r"\breduction='(\w+)'", r"--reduction \1"),
    (r"; without mask absent", "; without --observed absent"),
    (r"\bentities of A\b", "entities of --left"),
    (r"\bentities of B\b", "entities of --right"),
    (r"\bof A and Y\b", "of --left and --links"),
    (r"\bof B and Y\b", "of --right and --links"),
    (r"\bA has (\d+) features and B\b", r"--left has \1 features and --right"),
    (r"^A (contains|has)\b", r"--left or --predict \1"),
    (r"(, |covariance of )A (has|is)\b", r"\1--left \2"),
    (r"(, |covariance of )B (has|is)\b", r"\1--right \2"),
    (r"Drop them to silence this", "Leave them out of the table to silence this"),
    (r"^B (contains|has)\b", r"--right \1"),
)


def _words(text: str) -> str:
    for pattern, option in _PHRASES:
        text = re.sub(pattern, option, text)
    return in_options(text)


class _Widths(_ParamType):
    """One bandwidth, two with a comma, or auto."""

    name = "X|X,X|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "auto" or isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if len(numbers) not in (1, 2):
            self.fail(f"{value!r} is neither a number, nor two with a comma, nor auto", param, ctx)
        return numbers * 2 if len(numbers) == 1 else numbers


@click.command("pairs")
@click.option(
    "--left", required=True, metavar="TABLE", help="Left entities: id in the first column, then features."
)
@click.option("--right", required=True, metavar="TABLE", help="Right entities, likewise.")
@click.option(
    "--links",
    required=True,
    metavar="TABLE",
    help="Known links: left id, right id, and a score if there is one.",
)
@click.option(
    "--predict",
    "new",
    metavar="TABLE",
    help="Left entities to find partners for, as --left; without it, those of --left.",
)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Partners of each entity.")
@click.option(
    "-o", "--out", required=True, help="Write them here (.csv, .tsv, .parquet, - for CSV on stdout)."
)
@click.option(
    "-r",
    "--components",
    type=click.IntRange(1),
    help="Directions per side.  [default: 10, or the number of features if smaller]",
)
@click.option(
    "--reduction",
    type=click.Choice(["joint", "pca", "phd", "cphd", "sols"]),
    default="joint",
    show_default=True,
    help="How coordinates are found.",
)
@click.option(
    "--bandwidth",
    type=_Widths(),
    default="auto",
    show_default=True,
    help="Kernel widths, left and right, relative to the median distance; auto cross-validates.",
)
@click.option(
    "--shrinkage",
    type=_NumberOr(float, "auto"),
    default="auto",
    show_default=True,
    help="Weight of the identity in the correlations of the features; auto cross-validates.",
)
@click.option("--observed", is_flag=True, help="Pairs that are not in --links are unknown instead of zero.")
@click.option("--drop-unknown", is_flag=True, help="Leave out links with ids that no table has.")
@click.option(
    "--duplicates",
    type=click.Choice(["raise", "sum", "max", "mean"]),
    default="raise",
    show_default=True,
    help="What to do with links that stand twice.",
)
@click.option("--model", metavar="FILE", help="Save the fitted model (.skops).")
@encoding_option
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the folds."
)
@one_line_errors(_words)
def command(
    left: str,
    right: str,
    links: str,
    new: str | None,
    top: int,
    out: str,
    components: int | None,
    reduction: str,
    bandwidth: Any,
    shrinkage: Any,
    observed: bool,
    drop_unknown: bool,
    duplicates: str,
    model: str | None,
    encoding: str | None,
    seed: int,
) -> None:
    """Rank the partners of entities by their features and the links of others.

    Tables are CSV, TSV, Parquet or Arrow files or pipes. Ids are text, and written as they are, also those that a
    spreadsheet would run as a formula. Absent links count as zero, so any list of links will do.

    \b
    Example:
      colspace pairs --left diseases.csv --right genes.csv --links links.csv \\
          --predict new_diseases.csv --top 20 --out top.csv
    """
    check_files([left, right, links, new], tables=[("--out", out)], models=[("--model", model)])
    from ..io import save, write_table
    from ..io._tables import check_encoding
    from ..pairs import PairRegressor, link_matrix
    from ..pairs._features import check_features

    sources = _open({"--left": left, "--right": right, "--links": links, "--predict": new})
    check_encoding(list(sources.values()), encoding)
    with warnings_on_stderr("Note"):
        A, B = (_entities(sources[what], what, encoding) for what in ("--left", "--right"))
        wanted = A if new is None else _entities(sources["--predict"], "--predict", encoding, A)
        ids, scores = _links(sources["--links"], encoding)
        Y = link_matrix(
            *ids,
            scores,
            left_ids=list(A.index),
            right_ids=list(B.index),
            unknown="drop" if drop_unknown else "raise",
            duplicates=duplicates,
        )
    check_features(wanted, "left")  # before a long search
    r = components if components is not None else min(10, A.shape[1], B.shape[1])
    estimator = PairRegressor(
        r,
        reduction=reduction,
        bandwidth=bandwidth,
        shrinkage=shrinkage,
        n_top=max(top, 10),
        random_state=seed,
    )
    with warnings_on_stderr("Warning", _words):
        estimator.fit(A, B, Y, "observed" if observed else None)
    if top > len(B):
        click.echo(
            f"Note: --top {top} is more than the {len(B)} right entities; all of them are ranked", err=True
        )
    ranked = estimator.rank(wanted, k=min(top, len(B)))
    names = {"left": A.index.name, "right": B.index.name} if A.index.name != B.index.name else {}
    if not any(name in ("rank", "score") or name.startswith("Unnamed: ") for name in names.values()):
        ranked = ranked.rename(columns=names)
    write_table(ranked, out)
    if model is not None:
        save(estimator, model)
    _print_report(estimator, Y, ranked, len(wanted), out, model)


def _open(paths: dict[str, str | None]) -> dict[str, Any]:
    """Sources of the tables that are given."""
    from ..io._source import open_source

    for what, path in paths.items():
        if path == "-":
            msg = f"{what} is read from a file or a pipe, not from standard input; name one"
            raise ValueError(msg)
    return {what: open_source(path) for what, path in paths.items() if path is not None}


def _read_ids(source: Any, what: str, count: int, encoding: str | None) -> Any:
    """A table whose first columns are ids, kept as text."""
    from ..io._tables import read_source

    path = source.path
    names = [str(c) for c in _flat(read_source(source, encoding=encoding)).columns]
    if len(names) < count + (what != "--links"):
        needs = "two columns of ids" if what == "--links" else "a column of ids and columns of features"
        msg = f"{path} has {len(names)} column(s); {what} needs {needs}"
        raise ValueError(msg)
    frame = _flat(read_source(source, text=names[:count], gaps=False, encoding=encoding))
    for name in names[:count]:
        ids = frame[name].astype(str).str.strip()
        gaps = int((frame[name].isna() | (ids == "")).sum())
        if gaps:
            msg = f"{gaps} id(s) are missing in column {name!r} of {path}; give every row one"
            raise ValueError(msg)
        padded = int((ids != frame[name].astype(str)).sum())
        if padded:
            warnings.warn(
                f"{path}: spaces around {padded} id(s) of {name!r} are left out", UserWarning, stacklevel=2
            )
        frame[name] = ids
    return frame


def _flat(frame: Any) -> Any:
    """Labels of rows, which Parquet files keep, as the first column."""
    index = frame.index
    plain = type(index).__name__ == "RangeIndex" and index.start == 0 and index.name is None
    return frame if plain else frame.reset_index()


def _entities(source: Any, what: str, encoding: str | None, like: Any = None) -> Any:
    """Features with the ids as index; columns in the order of ``like``."""
    path = source.path
    frame = _read_ids(source, what, 1, encoding)
    frame = frame.set_index(str(frame.columns[0]))
    twice = list(frame.index[frame.index.duplicated()].unique())
    if twice:
        msg = f"{len(twice)} id(s) stand twice in {path}, e.g. {twice[0]!r}; keep one row of each"
        raise ValueError(msg)
    frame.columns = [str(c) for c in frame.columns]
    if like is None:
        return frame
    missing = [c for c in like.columns if c not in frame.columns]
    if missing:
        msg = f"{path} has no column {missing[0]!r}, which --left has ({len(missing)} missing in all)"
        raise ValueError(msg)
    return frame[list(like.columns)]


def _links(source: Any, encoding: str | None) -> tuple[tuple[list[str], list[str]], Any]:
    """Ids of both sides and scores, or None."""
    import pandas as pd

    path = source.path
    frame = _read_ids(source, "--links", 2, encoding)
    if frame.shape[1] > 3:
        msg = f"{path} has {frame.shape[1]} columns; links have a left id, a right id and at most one score"
        raise ValueError(msg)
    scores = None
    if frame.shape[1] == 3:
        column = frame.iloc[:, 2]
        if not pd.api.types.is_numeric_dtype(column):
            msg = f"scores in column {frame.columns[2]!r} of {path} are not numbers, e.g. {str(column.iloc[0])!r}"
            raise ValueError(msg)
        scores = column.to_numpy(dtype=float)
    return (list(frame.iloc[:, 0]), list(frame.iloc[:, 1])), scores


def _print_report(estimator: Any, Y: Any, ranked: Any, n: int, out: str, model: str | None) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(stderr=out == "-", highlight=False)
    left, right = estimator.bandwidth_["left"], estimator.bandwidth_["right"]
    console.print(
        f"{Y.shape[0]} x {Y.shape[1]} entities, {Y.nnz} links ({100 * Y.nnz / (Y.shape[0] * Y.shape[1]):.2f} % of pairs); "
        f"{estimator.reduction} reduction to {estimator.n_components} directions, shrinkage {estimator.shrinkage_:g}, "
        f"bandwidths {left:g} and {right:g} of the median distance"
    )
    table = Table(title=f"{n} entities ranked; the first of them", title_justify="left")
    first, _, second, _ = ranked.columns
    table.add_column(escape(str(first)))
    table.add_column(escape(f"best {second}, with score"))
    for name in list(dict.fromkeys(ranked[first]))[:_SHOWN]:
        best = ranked[ranked[first] == name].head(5)
        cells = [f"{p} {s:.3g}" for p, s in zip(best[second], best["score"], strict=True)]
        table.add_row(escape(str(name)), escape(", ".join(cells)))
    console.print(table)
    for what, path in (("partners", out if out != "-" else None), ("model", model)):
        if path is not None:
            console.print(f"wrote {what} to {escape(path)}", soft_wrap=True)
