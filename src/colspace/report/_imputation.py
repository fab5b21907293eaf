"""The report of a filled table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import _charts
from ._page import MOST_ROWS, Figure, Part, Report, Table, pictured
from ._shared import asked, call_of, glance, repeat, warned

_SHOWN = 30  # filled cells in the picture


def imputation_report(
    model: Any,
    X: Any = None,
    *,
    source: str,
    summary: dict[str, Any] | None = None,
    filled: Any = None,
    lower: Any = None,
    upper: Any = None,
    quality: dict[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    python: str = "",
) -> Report:
    """Gaps and how surely each column is filled, quality on hidden cells, filled cells with their intervals, and how to repeat it.

    Parameters
    ----------
    model : fitted CopulaImputer.
    X : the table with its gaps, a DataFrame of pandas; without it there is only what the model knows.
    summary : shape, rows (column, kind, gaps, share, reliability, width), level, rank, as ``colspace impute`` makes it.
    filled, lower, upper : X with its gaps filled, and the ends of the intervals.
    quality : `check_imputation` as plain numbers.
    facts : what else was asked.
    """
    names = [str(name) for name in (X if X is not None else getattr(model, "feature_names_in_", []))]
    kinds = [str(kind) for kind in model.kinds_]
    said = {
        "method": type(model).__name__,
        **dict(facts or {}),
        "kinds of columns": ", ".join(f"{kinds.count(k):,} {k}" for k in dict.fromkeys(kinds)),
        "factors": int(model.n_components_),
    }
    named = next((n for n, k in zip(names, kinds, strict=False) if k == "nominal"), None)
    parts = [asked(["The gaps of the table, filled by what its other cells tell."], said)]
    if X is not None:
        parts.append(glance(X, source))
    elif names:
        parts.append(Part("Columns", table=Table(["column", "kind"], list(zip(names, kinds, strict=True)))))
    if quality is not None:
        parts.append(_quality(quality))
    if summary is not None:
        parts.append(_reliability(summary))
    level = quality["level"] if quality is not None else summary["level"] if summary is not None else 0.95
    if X is not None or quality is not None:
        parts.append(_intervals(X, filled, lower, upper, level, quality))
    if (bent := _bent(model, names)) is not None:
        parts.append(bent)
    parts += [*warned(notes), repeat(command, python or _python(model)), _next(named)]
    factors = f"{int(model.n_components_)} factor{'' if model.n_components_ == 1 else 's'}"
    lead = f"{len(kinds):,} columns by {factors}."
    if summary is not None and X is not None:
        gaps = sum(row["gaps"] for row in summary["rows"])
        lead = f"{gaps:,} gaps of {X.shape[0]:,} rows and {X.shape[1]:,} columns, by {factors}."
    found = f" {quality['sentence']}" if quality else ""
    return Report(f"{source}: gaps filled", lead + found, parts)


def _quality(quality: dict[str, Any]) -> Part:
    rows = [row for row in quality["columns"] if row["ratio"] is not None]
    text = [
        quality["sentence"],
        "Cells that were there are hidden and filled in; 1 is what the column's median or commonest level would give, lower is better.",
    ]
    keys = "column", "kind", "cells", "error", "base", "ratio", "cover"
    titles = {"base": "error of the median", "cover": "inside the interval"}
    table = Table.of(quality["columns"], *keys, **titles)
    if not rows:
        return Part("Quality on hidden cells", text[:1], table=table if quality["columns"] else None)
    spec = _charts.bars(rows, label="column", value="ratio", title="error, 1 is that of the median")
    alt = "Error of each column on hidden cells, relative to its median"
    return pictured("Quality on hidden cells", text, spec, alt, table)


def _reliability(summary: dict[str, Any]) -> Part:
    rows = summary["rows"]
    known = [row for row in rows if not math.isnan(row["reliability"])]
    text = [
        "1 is certain, 0 no better than the column alone. Width: the median interval over the central range of the column."
    ]
    table = Table.of(rows, "column", "kind", "gaps", "share", "reliability", "width")
    if not known:
        return Part("Gaps and reliability", text, table=table)
    spec = _charts.bars(
        known, label="column", value="reliability", title="mean reliability of the filled cells", most=1.0
    )
    alt = "Mean reliability of the cells filled in each column"
    return pictured("Gaps and reliability", text, spec, alt, table)


def _intervals(
    X: Any, filled: Any, lower: Any, upper: Any, level: float, quality: dict[str, Any] | None
) -> Part:
    """How often intervals hold what was hidden, and those of the filled cells."""
    share = f"{100 * level:g} %"
    figures, text = [], []
    covers = [r for r in quality["columns"] if r["cover"] is not None] if quality is not None else []
    if covers:
        title = f"share inside their {share} interval"
        text.append(
            f"Of cells that were there and hidden, {share} should lie in their interval: the dashed line. Lines are two standard errors to each side."
        )
        spec = _charts.against(_with_chance(covers), label="column", value="cover", title=title, line=level)
        figures.append(Figure(spec, f"Share of hidden cells inside their {share} interval, by column"))
    rows, shown, total = _filled_cells(X, filled, lower, upper)
    if shown:
        name = shown[0]["column"]
        title = f"{name}, with its {share} interval"
        spec = _charts.ranges(shown, label="row", title=title)
        figures.append(
            Figure(spec, f"The first {len(shown)} cells filled in {name}, with their {share} intervals")
        )
    if rows:
        text.append(
            f"The table has the first {len(rows):,} of {total:,} filled cells with their {share} intervals."
        )
        table = Table(["row", "column", "filled", "lower", "upper"], rows)
    else:
        table = Table.of(covers, "column", "cover", cover="inside the interval")
    return Part("Intervals", text or ["There is no gap."], figures, table if rows or covers else None)


def _with_chance(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Two standard errors of each share, of which a cell counts as inside by half, so that no share is without."""
    found = []
    for row in rows:
        cells = max(1, int(row["cells"]))
        share = (cells * row["cover"] + 0.5) / (cells + 1)
        error = 2 * math.sqrt(share * (1 - share) / cells)
        found.append({**row, "low": max(0.0, row["cover"] - error), "high": min(1.0, row["cover"] + error)})
    return found


def _filled_cells(
    X: Any, filled: Any, lower: Any, upper: Any
) -> tuple[list[list[Any]], list[dict[str, Any]], int]:
    """Filled cells for the table, those of the column of numbers that is told best for the picture, and how many there are."""
    if X is None or filled is None:
        return [], [], 0
    rows: list[list[Any]] = []
    total = 0
    best: tuple[float, str] = 0.0, ""
    for name in X:
        gaps = X[name].isna().to_numpy() & filled[name].notna().to_numpy()
        count = int(gaps.sum())
        total += count
        if count and filled[name].dtype.kind in "if":
            told = min(count, _SHOWN) * _narrow(X[name], lower[name][gaps], upper[name][gaps])
            best = max(best, (told, name))
        where = gaps.nonzero()[0][: max(0, MOST_ROWS - len(rows))]
        rows += [
            [str(X.index[i]), str(name), *(_plain(t[name].iloc[i]) for t in (filled, lower, upper))]
            for i in where
        ]
    shown = []
    if best[0]:
        name = best[1]
        gaps = X[name].isna().to_numpy() & filled[name].notna().to_numpy()
        for i in gaps.nonzero()[0][:_SHOWN]:
            ends = {
                w: float(t[name].iloc[i]) for w, t in (("filled", filled), ("lower", lower), ("upper", upper))
            }
            shown.append({"row": f"row {X.index[i]}", "column": str(name), **ends})
    return rows, shown, total


def _narrow(column: Any, lower: Any, upper: Any) -> float:
    """How much narrower than the column's central range intervals are at the median, of those that are no points; 0 without any."""
    width = (upper - lower)[upper > lower]
    spread = column.quantile(0.975) - column.quantile(0.025)
    return max(1e-9, 1.0 - float(width.median()) / float(spread)) if len(width) and spread > 0 else 0.0


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, int | float) else str(value)


def _bent(model: Any, names: Sequence[str]) -> Part | None:
    gain = getattr(model, "nonlinear_gain_", None)
    if gain is None or not (gain > 0).any() or not names:
        return None
    rows = [{"column": n, "gain": float(g)} for n, g in zip(names, gain, strict=True) if g > 0]
    spec = _charts.bars(rows, label="column", value="gain", title="error that the forests remove")
    text = "Columns that depend on others in a curve, corrected by forests; the gain is on cells that they have not seen."
    alt = "Gain of the correction in each column"
    return pictured("What bends", [text], spec, alt, Table.of(rows, "column", "gain"))


def _python(model: Any) -> str:
    return f"from colspace import CopulaImputer\n\n# X: columns of the table, gaps as NaN\nmodel = {call_of(model)}\nfilled = model.fit_transform(X)\nlower, upper = model.interval(X)"


def _next(nominal: str | None) -> Part:
    order = (
        "Nominal columns are words without order, and have no intervals. Where there is an order, give it: "
    )
    return Part(
        "Next steps",
        [
            *([] if nominal is None else [f"{order}--kinds '{nominal}=LOWEST,...,HIGHEST'."]),
            "For an analysis with standard errors use draws (--draws 20) and pool them; one filled table makes errors too small.",
            "A column with reliability near zero is hardly told by the others: its cells are the column's middle.",
            "colspace apply fills new rows with a saved model.",
        ],
    )
