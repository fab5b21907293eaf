"""What ``colspace impute`` says of a filled table."""

from __future__ import annotations

import math
from typing import Any

_ROWS, _GAPS = 20_000, 100  # of a larger table that the summary looks at; gaps of a column, at least

_MOST = 40  # columns in the summary


def some_rows(X: Any, seed: int) -> Any:
    """The rows that the summary looks at: of many a sample, with the first gaps of columns that have few in it."""
    import numpy as np

    if len(X) <= _ROWS:
        return X
    chosen = np.zeros(len(X), dtype=bool)
    chosen[np.random.default_rng(seed).choice(len(X), _ROWS, replace=False)] = True
    gone = X.isna().to_numpy()
    for column in gone.T[gone[chosen].sum(axis=0) < _GAPS]:
        chosen[np.flatnonzero(column)[:_GAPS]] = True
    return X[chosen]


def summary_of(model: Any, X: Any, part: Any, lower: Any, upper: Any, level: float) -> dict[str, Any]:
    """The numbers of the summary; reliability and width from ``part`` of the rows, which ``lower`` and ``upper`` are of."""
    import numpy as np

    from ..quality._imputation import floats

    reliability = model.reliability(part, measure="variance")
    rows = []
    for name, kind in zip(X, model.kinds_, strict=True):
        gaps = X[name].isna().to_numpy()
        if not gaps.any() or kind == "id":
            continue
        here, width = part[name].isna().to_numpy(), np.nan
        if kind not in ("ordinal", "binary", "nominal", "constant"):
            ends = np.quantile(floats(X[name][~gaps]), [0.5 - level / 2, 0.5 + level / 2])
            found = (floats(upper[name]) - floats(lower[name]))[here]
            width = float(np.median(found) / (ends[1] - ends[0])) if ends[1] > ends[0] else np.nan
        rows.append(
            {
                "column": name,
                "kind": kind,
                "gaps": int(gaps.sum()),
                "share": float(gaps.mean()),
                "reliability": np.nan if kind == "constant" else float(reliability[name][here].mean()),
                "width": width,
            }
        )
    known = [row for row in rows if row["kind"] != "constant"]
    total = sum(row["gaps"] for row in known)
    return {
        "shape": X.shape,
        "rows": rows,
        "kinds": {
            kind: [n for n, k in zip(X, model.kinds_, strict=True) if k == kind] for kind in model.kinds_
        },
        "reliability": sum(row["gaps"] * row["reliability"] for row in known) / total if total else np.nan,
        "level": level,
        "rank": model.n_components_,
        "iterations": model.n_iter_,
    }


def print_summary(summary: dict[str, Any], targets: list[str], others: dict[str, str | None]) -> None:
    from rich.markup import escape

    from ._say import console as console_of
    from ._say import grid, print_written

    def number(value: float) -> str:
        return f"{value:.2f}" if not math.isnan(value) else "-"

    console = console_of(targets[0], others["JSON"])
    rows, (n, p) = summary["rows"], summary["shape"]
    gaps, level = sum(row["gaps"] for row in rows), f"{100 * summary['level']:g} %"
    title = f"{n:,} rows, {p:,} columns: {gaps:,} gaps filled ({100 * gaps / (n * p):.1f} %)"
    caption = (
        f"reliability: 1 certain, 0 no better than the column alone; width: median {level} interval over the "
        f"central {level} of the column"
    )
    shown = []
    for row in rows[:_MOST]:
        numbers = f"{100 * row['share']:.1f} %", number(row["reliability"]), number(row["width"])
        shown.append((row["column"], row["kind"], str(row["gaps"]), *numbers))
    if rest := rows[_MOST:]:
        shown.append((f"and {len(rest)} more columns", "", str(sum(r["gaps"] for r in rest)), "", "", ""))
    columns = ("column", "kind", ">gaps", ">share", ">reliability", ">width")
    console.print(grid(columns, shown, title, caption))
    for kind, names in summary["kinds"].items():
        some = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
        word = "left out (ids, free text)" if kind == "id" else f"taken as {kind}"
        console.print(f"{word}: {escape(some)}", soft_wrap=True)
    if nominal := summary["kinds"].get("nominal"):
        order = f"nominal: words without order; where there is one, give it: --kinds '{nominal[0]}=LOWEST,...,HIGHEST'"
        console.print(escape(order), soft_wrap=True)
    console.print(
        f"rank {summary['rank']}, {summary['iterations']} iterations, mean reliability {number(summary['reliability'])}"
    )
    if "quality" in summary:
        console.print(escape(summary["quality"]["sentence"]), soft_wrap=True)
    print_written(console, **{"filled table" if len(targets) == 1 else "draws": targets}, **others)
