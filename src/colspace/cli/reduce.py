"""``colspace reduce``: fit a joint reduction on a table."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import click

from ._group import one_line_errors, stderr_console

_TOP = 5  # features shown per component


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


@click.command("reduce")
@click.argument("table")
@click.option(
    "-y", "--response", "responses", multiple=True, required=True, help="Response column; repeatable."
)
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
    "-r",
    "--components",
    type=_NumberOr(int, "auto", "threshold"),
    default="2",
    show_default=True,
    help="Directions per block: a number, cross-validated, or those above the noise level.",
)
@click.option("--moments", default="all", show_default=True, help="all, linear, joint, hessian, or a,b.")
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
    default="auto",
    show_default=True,
    help="Weight of the identity in the correlations, 0 to 1; auto is Ledoit-Wolf.",
)
@click.option(
    "--select",
    "selected",
    type=_NumberOr(int, "auto", "threshold"),
    help="Columns to keep per block; needs --whiten diagonal or none.",
)
@click.option("--rank-test", is_flag=True, help="Permutation test of the number of directions.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the permutations.")
@click.option(
    "-o", "--out", help="Write the embedding and the responses here (.csv, .tsv, .parquet, - for stdout)."
)
@click.option("--model", help="Write the fitted model here (.skops).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@one_line_errors
def command(
    table: str,
    responses: tuple[str, ...],
    blocks: dict[str, list[str]],
    drop_rest: bool,
    components: Any,
    moments: str,
    whiten: str,
    shrinkage: Any,
    selected: Any,
    rank_test: bool,
    seed: int,
    out: str | None,
    model: str | None,
    as_json: bool,
) -> None:
    """Find the directions of TABLE that matter for a response, block by block.

    TABLE is a CSV, TSV or Parquet file, or - for CSV on standard input.

    \b
    Example:
      colspace reduce patients.csv --response outcome \\
          --block genes='g_*' --block diet='d_*' --out embedding.parquet
    """
    if as_json and out == "-":
        msg = "--json and --out - both write to standard output; choose one"
        raise click.UsageError(msg)
    from ..io import read_table, save, write_table
    from ..reduction import JointReduction

    frame = read_table(table)
    X, y = _split(frame, responses)
    if blocks:
        X = X.iloc[:, _used_columns(blocks, list(X.columns), drop_rest)]
    estimator = JointReduction(
        components,
        blocks=blocks or None,
        moments=tuple(moments.split(",")) if "," in moments else moments,
        whiten=None if whiten == "none" else whiten,
        shrinkage=shrinkage,
        n_selected=selected,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y)
        test = estimator.rank_test(X, y, random_state=seed) if rank_test else None
    for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
        stderr_console().print(f"[yellow]Warning:[/] {text}", soft_wrap=True)
    if model is not None:
        save(estimator, model)
    if out is not None:
        write_table(_embedding(estimator, X, frame, responses), out)
    report = _report(estimator, X, responses, test)
    if as_json:
        import json

        click.echo(json.dumps(report, indent=2))
    elif out != "-":
        _print(report, out, model)


def _split(frame: Any, responses: tuple[str, ...]) -> tuple[Any, Any]:
    frame.columns = [str(c) for c in frame.columns]
    missing = [r for r in responses if r not in frame.columns]
    if missing:
        names = ", ".join(map(repr, frame.columns[:8])) + (", ..." if frame.shape[1] > 8 else "")
        msg = f"no column is called {missing[0]!r}. Columns: {names}"
        raise ValueError(msg)
    X = frame.drop(columns=list(responses))
    if X.shape[1] == 0:
        msg = "no columns are left beside the response"
        raise ValueError(msg)
    y = frame[responses[0]] if len(responses) == 1 else frame[list(responses)]
    gaps = int(y.isna().to_numpy().sum())
    if gaps:
        msg = f"{gaps} missing value(s) in the response {', '.join(map(repr, responses))}; drop those rows first"
        raise ValueError(msg)
    return X, y


def _used_columns(blocks: dict[str, list[str]], names: list[str], drop_rest: bool) -> list[int]:
    """Columns that are in a block, in their order; text columns may be among the rest."""
    from .._blocks import parse_blocks

    found = parse_blocks({**blocks, "drop": "*"} if drop_rest else blocks, len(names), names)
    return sorted(int(c) for columns in found.columns for c in columns)


def _embedding(estimator: Any, X: Any, frame: Any, responses: tuple[str, ...]) -> Any:
    import numpy as np
    import pandas as pd

    columns = list(estimator.get_feature_names_out())
    embedding = pd.DataFrame(np.asarray(estimator.transform(X)), index=frame.index, columns=columns)
    return embedding.join(frame[list(responses)])


def _report(estimator: Any, X: Any, responses: tuple[str, ...], test: Any) -> dict[str, Any]:
    """The result as plain numbers."""
    from ..displays._compute import block_loadings, largest

    raw, scaled = block_loadings(estimator), block_loadings(estimator, X)
    found: dict[str, Any] = {
        "rows": int(X.shape[0]),
        "responses": list(responses),
        "n_components": int(estimator.n_components_),
        "blocks": {},
    }
    for block, (names, L) in raw.items():
        standardised = scaled[block][1]
        found["blocks"][block] = {
            "columns": len(names),
            "selected": len(estimator.selected_[block]),
            "shrinkage": float(estimator.shrinkage_[block]),
            "singular_values": [float(v) for v in estimator.singular_values_[block]],
            "components": [
                [
                    {
                        "feature": names[i],
                        "loading": float(L[i, k]),
                        "standardised": float(standardised[i, k]),
                    }
                    for i in largest(standardised[:, k], len(names))
                ]
                for k in range(L.shape[1])
            ],
        }
    if test is not None:
        found["rank_test"] = {
            "n_components": int(test.n_components),
            "p_values": [float(p) for p in test.p_values],
            "alpha": float(test.alpha),
        }
    return found


def _print(report: dict[str, Any], out: str | None, model: str | None) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    rows, responses = report["rows"], ", ".join(report["responses"])
    table = Table(
        title=escape(f"{rows} rows, response {responses}"),
        caption="loadings are times the standard deviation of their column",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("block")
    table.add_column("columns", justify="right")
    table.add_column("component", justify="right")
    table.add_column("singular value", justify="right")
    table.add_column("largest loadings")
    for block, entry in report["blocks"].items():
        kept = f"{entry['selected']} of {entry['columns']}"
        width = kept if entry["selected"] < entry["columns"] else str(entry["columns"])
        for k, features in enumerate(entry["components"]):
            shown = ", ".join(f"{f['feature']} {f['standardised']:+.2f}" for f in features[:_TOP])
            first = (escape(block), width) if k == 0 else ("", "")
            last = k == len(entry["components"]) - 1
            table.add_row(
                *first, str(k), f"{entry['singular_values'][k]:.3f}", escape(shown), end_section=last
            )
    console.print(table)
    if "rank_test" in report:
        test = report["rank_test"]
        values = ", ".join(f"{p:.3f}" for p in test["p_values"])
        console.print(
            f"permutation test at level {test['alpha']:g}: {test['n_components']} direction(s); "
            f"p-values of at most 0, 1, ...: {values}"
        )
    for what, path in (("embedding", out), ("model", model)):
        if path is not None:
            console.print(f"wrote {what} to {escape(path)}", soft_wrap=True)
    sys.stdout.flush()
