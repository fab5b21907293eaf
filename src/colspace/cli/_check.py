"""How well a fitted reduction predicts on rows left out, for ``colspace reduce``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ._say import is_quiet

if TYPE_CHECKING:
    from ._table import Parts

MOST_ROWS = 5000
_NAMES = {"JointReduction": "joint reduction", "SteinReduction": "Stein"}


def quality_of(estimator: Any, parts: Parts, blocks: Any, seed: int) -> dict[str, Any]:
    """The comparison as plain numbers; where there can be none, the reason."""
    import numpy as np
    from sklearn.base import clone

    from ..quality import compare_reductions, default_reducers

    y = parts.responses
    kept = np.flatnonzero(y.notna().all(axis=1))  # others are unlabelled
    available = len(kept) if parts.rows is None else parts.rows
    if len(kept) > MOST_ROWS:
        kept = np.sort(np.random.default_rng(seed).choice(kept, MOST_ROWS, replace=False))
    model = clone(estimator).set_params(n_groups=None)  # errors of the directions, which no score needs
    if getattr(model, "moments", None) == "auto" and not hasattr(estimator, "parts_"):
        model.set_params(moments="all")  # what "auto" was, and would not be with a number of directions
    rivals = list(default_reducers().items())[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit has given them
        try:
            found = compare_reductions(
                parts.X.iloc[kept],
                parts.y.iloc[kept],
                reducers={_NAMES[type(model).__name__]: model, **dict(rivals)},
                n_components=sorted({1, int(estimator.n_components_)}),
                blocks=blocks or None,
                response=estimator.response,
                random_state=seed,
                progress=not is_quiet(),
            )
        except ValueError as reason:
            return {"left_out": " ".join(str(reason).split())}
    rows = [{k: v for k, v in asdict(row).items() if k not in ("folds", "seconds")} for row in found.rows]
    for row in rows:
        row.update({k: None for k, v in row.items() if isinstance(v, float) and math.isnan(v)})
    return {
        "metric": found.metric,
        "rows": found.n_samples,
        "sample_of": available if available > len(kept) else None,
        "folds": found.n_folds,
        "scores": rows,
        "above_chance": found.above_chance,
        "sentence": found.sentence.replace("response='rank'", "--rank-response"),
        "notes": list(found.notes),
    }


def scores_of(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Records of a method and its measures, by method.

    Examples
    --------
    >>> from colspace.cli._check import scores_of
    >>> scores_of([{"method": "popularity", "recall": 0.5}])
    {'popularity': {'recall': 0.5}}
    """
    return {str(row["method"]): {k: v for k, v in row.items() if k != "method"} for row in records}


def print_scores(
    screen: Any, scores: Mapping[str, Mapping[str, float | None]], title: str, caption: str | None = None
) -> None:
    """Measures of each method side by side; what does not exist is a dash."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(title),
        caption=caption,
        title_justify="left",
        caption_justify="left",
        min_width=len(title),
    )
    table.add_column("method")
    measures = list(dict.fromkeys(measure for values in scores.values() for measure in values))
    for measure in measures:
        table.add_column(escape(measure), justify="right")
    for method, values in scores.items():
        cells = [values.get(measure) for measure in measures]
        shown = ["-" if cell is None or math.isnan(cell) else f"{cell:.3f}" for cell in cells]
        table.add_row(escape(method), *shown)
    screen.print(table)


def print_quality(console: Any, quality: dict[str, Any]) -> None:
    """The comparison as a table, and what it says."""
    from rich.markup import escape
    from rich.table import Table

    if "left_out" in quality:
        console.print(escape(f"no check on rows left out: {quality['left_out']}"), soft_wrap=True)
        return
    sample = quality["sample_of"]
    of = f"a sample of {quality['rows']:,} of {sample:,} rows" if sample else f"{quality['rows']:,} rows"
    table = Table(
        title=f"{quality['metric']} on rows left out ({of}, {quality['folds']} folds)", title_justify="left"
    )
    table.add_column("method")
    for title in ("directions", "columns", quality["metric"], "± error", "difference"):
        table.add_column(title, justify="right")
    rows = quality["scores"]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        gap = row["difference"]
        score = "failed" if row["score"] is None else f"{row['score']:.3f}"
        table.add_row(
            escape(row["method"]),
            "" if row["n_components"] is None else str(row["n_components"]),
            str(row["n_columns"]),
            score,
            "" if row["error"] is None else f"{row['error']:.3f}",
            ""
            if gap is None or row["difference_error"] is None
            else f"{round(gap, 3) + 0.0:+.3f} ± {row['difference_error']:.3f}",
            end_section=following is not None and following["method"] != row["method"],
        )
    console.print(table)
    console.print(escape("\n".join([quality["sentence"], *quality["notes"]])), soft_wrap=True)
