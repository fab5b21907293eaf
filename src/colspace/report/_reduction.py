"""The report of a reduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..displays._compute import colour_response, deviations
from ..reduction._loadings import block_errors, block_loadings, largest
from . import _charts
from ._page import Figure, Part, Report, Table
from ._shared import glance, repeat, warned

MOST_LOADINGS = 15
MOST_POINTS = 2_000
_PARTS = {
    "linear": "the ridge's straight part",
    "gradients": "slopes of a kernel fit to what is left",
    "moments": "second moments of what is left",
}


def reduction_report(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    source: str,
    quality: dict[str, Any] | None = None,
    rank_test: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    seed: int = 0,
) -> Report:
    """What was asked, quality on rows left out, parts, loadings with errors, the embedding, and how to repeat it.

    Parameters
    ----------
    estimator : fitted reducer with ``components_``.
    X, y : the rows that the picture of the embedding shows.
    source : what the data are called.
    quality : table of `compare_reductions` as plain numbers, as ``colspace reduce`` makes it.
    """
    names = ", ".join(map(str, y.columns)) if hasattr(y, "columns") else str(getattr(y, "name", None) or "y")
    parts = [glance(X, source)]
    if quality is not None:
        parts.append(_quality(quality))
    if getattr(estimator, "parts_", None):
        parts.append(_spoke(estimator.parts_))
    if rank_test is not None:
        parts.append(_rank(rank_test))
    parts += [_loadings(estimator), _embedding(estimator, X, y, names, seed)]
    parts += [*warned(notes), repeat(command, _python(estimator)), _next()]
    h, blocks = int(estimator.n_components_), len(block_loadings(estimator))
    lead = f"{h} direction{'s' if h > 1 else ''}" + (f" in each of {blocks} blocks" if blocks > 1 else "")
    found = quality.get("sentence", "") if quality else ""
    return Report(
        f"{source}: what tells {names}",
        f"{lead} of {X.shape[0]:,} rows and {X.shape[1]:,} columns. {found}",
        parts,
    )


def _quality(quality: dict[str, Any]) -> Part:
    title = "Quality on rows left out"
    if "left_out" in quality:
        return Part(title, [f"Not measured: {quality['left_out']}"])
    metric = quality["metric"]
    rows = [
        {
            **row,
            "label": row["method"] + (f", {row['n_components']}" if row["n_components"] is not None else ""),
            "ours": row["method"] == quality["scores"][0]["method"],
        }
        for row in quality["scores"]
    ]
    spec = _charts.intervals(rows, label="label", value="score", error="error", title=metric, marked="ours")
    sample = (
        f" (a sample of {quality['rows']:,} of {quality['sample_of']:,} rows)" if quality["sample_of"] else ""
    )
    text = [
        quality["sentence"],
        f"{metric} of {quality['folds']} folds{sample}; the number behind a method is its directions per block.",
        *quality["notes"],
    ]
    table = Table(
        ["method", "directions", "columns", metric, "error", "difference", "error of the difference"],
        [
            [
                r["method"],
                r["n_components"],
                r["n_columns"],
                r["score"],
                r["error"],
                r["difference"],
                r["difference_error"],
            ]
            for r in rows
        ],
    )
    alt = f"{metric} of each method on rows left out, with two standard errors to each side"
    return Part(title, text, [Figure(spec, alt)], table)


def _spoke(parts: dict[str, float]) -> Part:
    rows = [{"part": _PARTS.get(name, name), "share": float(value)} for name, value in parts.items()]
    spec = _charts.bars(
        rows, label="part", value="share", title="share of the response's variance on rows left out"
    )
    text = ["What each part of the fit explains of rows it has not seen; a part at zero was left out."]
    return Part(
        "Which parts spoke",
        text,
        [Figure(spec, "Share of the variance on rows left out that each part explains")],
        Table(["part", "share"], [[r["part"], r["share"]] for r in rows]),
    )


def _rank(test: dict[str, Any]) -> Part:
    text = [f"A permutation test at level {test['alpha']:g} finds {test['n_components']} direction(s)."]
    rows = [[f"at most {k}", float(p)] for k, p in enumerate(test["p_values"])]
    return Part("Number of directions", text, table=Table(["directions", "p-value"], rows), opened=True)


def _loadings(estimator: Any) -> Part:
    deviation = deviations(estimator)
    scaled, errors = block_loadings(estimator, deviation), block_errors(estimator, deviation)
    rows: list[dict[str, Any]] = []
    for block, (names, L) in scaled.items():
        for k in range(L.shape[1]):
            panel = f"{block}, direction {k + 1}" if len(scaled) > 1 else f"direction {k + 1}"
            for i in largest(L[:, k], len(names)):
                error = None if errors is None else float(errors[block][i, k])
                value = float(L[i, k])
                clear = error is None or abs(value) > 2 * error
                rows.append(
                    {"feature": names[i], "panel": panel, "loading": value, "error": error, "clear": clear}
                )
    figures = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        shown = [row for row in rows if row["panel"] == panel][:MOST_LOADINGS]
        figures.append(Figure(_charts.loadings(shown, f"loading, {panel}"), f"Largest loadings of {panel}"))
    text = [f"Times the standard deviation of the column, the {MOST_LOADINGS} largest of each direction."]
    if errors is not None:
        text.append("Lines are two standard errors to each side; those that reach zero are pale.")
    table = Table(
        ["direction", "column", "loading", "error"],
        [[r["panel"], r["feature"], r["loading"], r["error"]] for r in rows],
    )
    if not rows:
        return Part("Loadings", ["All loadings are zero."])
    return Part("Loadings", text, figures, table)


def _embedding(estimator: Any, X: Any, y: Any, names: str, seed: int) -> Part:
    Z = np.asarray(estimator.transform(X), dtype=np.float64)
    labels = [str(name) for name in estimator.get_feature_names_out()]
    kept = np.arange(len(Z))
    if len(kept) > MOST_POINTS:
        kept = np.sort(np.random.default_rng(seed).choice(kept, MOST_POINTS, replace=False))
    column = y.iloc[:, 0] if hasattr(y, "columns") else y
    column = column.iloc[kept] if hasattr(column, "iloc") else np.asarray(column)[kept]
    values, classes = colour_response(column, len(kept))
    colour = names.split(", ")[0] if hasattr(y, "columns") else names
    shade = [str(v) if classes else float(v) for v in np.asarray(values)]
    records = [
        {**{label: float(z) for label, z in zip(labels, row, strict=True)}, colour: c}
        for row, c in zip(Z[kept], shade, strict=True)
    ]
    second = labels[1] if len(labels) > 1 else colour
    text = ["Every point is a row. Hover for its values; drag to choose points, click beside them to let go."]
    if len(kept) < len(Z):
        text.append(f"{len(kept):,} of {len(Z):,} rows, drawn at random.")
    if len(labels) == 1 and classes:
        second = labels[0]
    spec = _charts.scatter(
        records, x=labels[0], y=second, colour=colour, classes=classes, tooltip=[*labels[:6], colour]
    )
    table = Table([*labels, colour], [list(r.values()) for r in records])
    return Part(
        "Embedding", text, [Figure(spec, f"Rows by {labels[0]} and {second}, coloured by {colour}")], table
    )


def _python(estimator: Any) -> str:
    name = type(estimator).__name__
    return f"from colspace import {name}\n\nmodel = {estimator!r}\nmodel.fit(X, y)\nembedding = model.transform(X)"


def _next() -> Part:
    return Part(
        "Next steps",
        [
            "Read the quality first: where PCA or all columns read the response as well, the directions save columns but find nothing more.",
            "Use the embedding in place of the columns for a plot, a regression or neighbours; colspace apply puts a saved model to new rows.",
            "A loading within two errors of zero is no finding.",
        ],
    )
