"""The report of a filled table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _charts
from ._page import MOST_ROWS, Figure, Part, Report, Table
from ._shared import glance, repeat, warned


def imputation_report(
    model: Any,
    X: Any,
    *,
    source: str,
    summary: dict[str, Any],
    filled: Any,
    lower: Any,
    upper: Any,
    quality: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
    command: str = "",
) -> Report:
    """Gaps and how surely each column is filled, quality on hidden cells, filled cells with their intervals, and how to repeat it.

    Parameters
    ----------
    model : fitted CopulaImputer.
    X : the table with its gaps, a DataFrame of pandas.
    summary : shape, rows (column, kind, gaps, share, reliability, width), level, rank, as ``colspace impute`` makes it.
    filled, lower, upper : X with its gaps filled, and the ends of the intervals.
    quality : `check_imputation` as plain numbers.
    """
    parts = [glance(X, source)]
    if quality is not None:
        parts.append(_quality(quality))
    parts.append(_reliability(summary))
    parts.append(_cells(X, filled, lower, upper, summary["level"]))
    if (bent := _bent(model, X)) is not None:
        parts.append(bent)
    parts += [*warned(notes), repeat(command, _python(model)), _next()]
    gaps = sum(row["gaps"] for row in summary["rows"])
    lead = f"{gaps:,} gaps of {X.shape[0]:,} rows and {X.shape[1]:,} columns, by {summary['rank']} factors."
    found = f" {quality['sentence']}" if quality else ""
    return Report(f"{source}: gaps filled", lead + found, parts)


def _quality(quality: dict[str, Any]) -> Part:
    rows = [row for row in quality["columns"] if row["ratio"] is not None]
    text = [
        quality["sentence"],
        "Cells that were there are hidden and filled in; 1 is what the column's median or commonest level would give, lower is better.",
    ]
    table = Table(
        ["column", "kind", "cells", "error", "error of the median", "ratio", "inside the interval"],
        [
            [r["column"], r["kind"], r["cells"], r["error"], r["base"], r["ratio"], r["cover"]]
            for r in quality["columns"]
        ],
    )
    if not rows:
        return Part("Quality on hidden cells", text[:1], table=table if quality["columns"] else None)
    spec = _charts.bars(
        rows, label="column", value="ratio", title="error over that of the median or the commonest level"
    )
    return Part(
        "Quality on hidden cells",
        text,
        [Figure(spec, "Error of each column on hidden cells, relative to its median")],
        table,
    )


def _reliability(summary: dict[str, Any]) -> Part:
    rows = summary["rows"]
    known = [row for row in rows if not math.isnan(row["reliability"])]
    text = [
        "1 is certain, 0 no better than the column alone. Width: the median interval over the central range of the column."
    ]
    table = Table(
        ["column", "kind", "gaps", "share", "reliability", "width"],
        [[r["column"], r["kind"], r["gaps"], r["share"], r["reliability"], r["width"]] for r in rows],
    )
    if not known:
        return Part("Gaps and reliability", text, table=table)
    spec = _charts.bars(
        known, label="column", value="reliability", title="mean reliability of the filled cells"
    )
    return Part(
        "Gaps and reliability",
        text,
        [Figure(spec, "Mean reliability of the cells filled in each column")],
        table,
    )


def _cells(X: Any, filled: Any, lower: Any, upper: Any, level: float) -> Part:
    rows: list[list[Any]] = []
    total = 0
    for name in X:
        gaps = X[name].isna().to_numpy() & filled[name].notna().to_numpy()
        total += int(gaps.sum())
        where = gaps.nonzero()[0][: max(0, MOST_ROWS - len(rows))]
        rows += [
            [str(X.index[i]), str(name), *(_plain(t[name].iloc[i]) for t in (filled, lower, upper))]
            for i in where
        ]
    text = [f"The first {len(rows):,} of {total:,} cells with their {100 * level:g} % intervals."]
    return Part("Filled cells", text, table=Table(["row", "column", "filled", "lower", "upper"], rows))


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, int | float) else str(value)


def _bent(model: Any, X: Any) -> Part | None:
    gain = getattr(model, "nonlinear_gain_", None)
    if gain is None or not (gain > 0).any():
        return None
    rows = [{"column": str(n), "gain": float(g)} for n, g in zip(X, gain, strict=True) if g > 0]
    spec = _charts.bars(
        rows, label="column", value="gain", title="share of the error that the forests remove"
    )
    return Part(
        "What bends",
        [
            "Columns that depend on others in a curve, corrected by forests; the gain is on cells that they have not seen."
        ],
        [Figure(spec, "Gain of the correction in each column")],
        Table(["column", "gain"], [[r["column"], r["gain"]] for r in rows]),
    )


def _python(model: Any) -> str:
    return f"from colspace import CopulaImputer\n\nmodel = {model!r}\nfilled = model.fit_transform(X)\nlower, upper = model.interval(X)"


def _next() -> Part:
    return Part(
        "Next steps",
        [
            "For an analysis with standard errors use draws (--draws 20) and pool them; one filled table makes errors too small.",
            "A column with reliability near zero is hardly told by the others: its cells are the column's middle.",
            "colspace apply fills new rows with a saved model.",
        ],
    )
