"""The report of a reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..displays._compute import colour_response, deviations
from ..reduction._loadings import block_errors, block_loadings, largest
from . import _charts
from ._page import Figure, Part, Report, Table, pictured
from ._shared import asked, block_code, call_of, glance, repeat, warned

MOST_LOADINGS = 15
MOST_POINTS = 2_000
_PARTS = {
    "linear": "straight part",
    "gradients": "kernel slopes",
    "moments": "second moments",
}


def reduction_report(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    source: str,
    rows: int | None = None,
    quality: dict[str, Any] | None = None,
    rank_test: dict[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    python: str = "",
    seed: int = 0,
) -> Report:
    """What was asked, quality on rows left out, parts, loadings with errors, the embedding, and how to repeat it.

    Parameters
    ----------
    estimator : fitted reducer with ``components_``.
    X, y : the rows that the picture of the embedding shows; without them there is none, and without y it has one colour.
    source : what the data are called.
    rows : of the table, where X is a sample of it.
    quality : table of `compare_reductions` as plain numbers, as ``colspace reduce`` makes it.
    facts : what else was asked.
    """
    names = _response_names(y)
    blocks = block_loadings(estimator)
    h = int(estimator.n_components_)
    count = rows if rows is not None or X is None else len(X)
    said: dict[str, Any] = {"method": type(estimator).__name__}
    if names:
        said["response"] = names
    said |= dict(facts or {})
    if len(blocks) > 1:
        said |= {f"block {name}": f"{len(features):,} columns" for name, (features, _) in blocks.items()}
    said["directions per block" if len(blocks) > 1 else "directions"] = h
    about = f" that tell {names}" if names else ""
    parts = [asked([f"The directions of the columns{about}."], said)]
    if X is not None:
        parts.append(glance(X, source, rows))
    if quality is not None:
        parts.append(_quality(quality))
    if getattr(estimator, "parts_", None):
        parts.append(_spoke(estimator.parts_))
    if rank_test is not None:
        parts.append(_rank(rank_test))
    if len(getattr(estimator, "component_scores_", {}).get("score", ())):
        parts.append(_counted(estimator))
    parts.append(_loadings(estimator))
    if X is not None:
        parts.append(_embedding(estimator, X, y, names, seed, count))
    parts += [*warned(notes), repeat(command, python or _python(estimator, supervised=bool(names))), _next()]
    each = f" in each of {len(blocks)} blocks" if len(blocks) > 1 else ""
    lead = f"{h} direction{'s' if h > 1 else ''}{each}"
    width = sum(len(features) for features, _ in blocks.values())
    of = f" of {count:,} rows and {width:,} columns" if count is not None else f" of {width:,} columns"
    found = f" {quality['sentence']}" if quality and "sentence" in quality else ""
    title = f"{source}: what tells {names}" if names else f"{source}: directions"
    return Report(title, f"{lead}{of}.{found}", parts)


def _response_names(y: Any) -> str:
    if y is None:
        return ""
    if hasattr(y, "columns"):
        return ", ".join(map(str, y.columns))
    return str(getattr(y, "name", None) or "y")


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
        f"{metric[0].upper()}{metric[1:]} of {quality['folds']} folds{sample}; the number behind a method is its directions per block.",
        *(f"{note[0].upper()}{note[1:]}." for note in quality["notes"]),
    ]
    titles = {"n_components": "directions", "n_columns": "columns", "score": metric}
    titles |= {"difference_error": "error of the difference"}
    keys = "method", "n_components", "n_columns", "score", "error", "difference", "difference_error"
    alt = f"{metric} of each method on rows left out, with two standard errors to each side"
    return pictured(title, text, spec, alt, Table.of(rows, *keys, **titles))


def _spoke(parts: dict[str, float]) -> Part:
    rows = [{"part": _PARTS.get(name, name), "share": float(value)} for name, value in parts.items()]
    spec = _charts.bars(rows, label="part", value="share", title="share of variance on rows left out")
    text = [
        "What each part of the fit explains of rows it has not seen; a part at zero was left out.",
        "The straight part is a ridge's; slopes of a kernel fit and second moments are of what that leaves.",
    ]
    alt = "Share of the variance on rows left out that each part explains"
    return pictured("Which parts spoke", text, spec, alt, Table.of(rows, "part", "share"))


def _rank(test: dict[str, Any]) -> Part:
    text = [f"A permutation test at level {test['alpha']:g} finds {test['n_components']} direction(s)."]
    rows = [[f"at most {k}", float(p)] for k, p in enumerate(test["p_values"])]
    return Part("Rank test", text, table=Table(["directions", "p-value"], rows), opened=True)


def _counted(estimator: Any) -> Part:
    """Scores of every number of directions on rows left out."""
    scores = estimator.component_scores_
    rows = [
        {"directions": str(h), "R2": float(r), "error": float(e)}
        for h, (r, e) in enumerate(zip(scores["score"], scores["error"], strict=True))
    ]
    spec = _charts.intervals(rows, label="directions", value="R2", error="error", title="R2 on rows left out")
    why = "the least number that reads rows left out as well as the best does, within its error."
    alt = "R2 of each number of directions on rows left out, with two standard errors to each side"
    table = Table.of(rows, "directions", "R2", "error")
    return pictured("How many directions", [f"{int(estimator.n_components_)}: {why}"], spec, alt, table)


def _loadings(estimator: Any) -> Part:
    deviation = deviations(estimator)
    scaled, errors = block_loadings(estimator, deviation), block_errors(estimator, deviation)
    rows: list[dict[str, Any]] = []
    for block, (names, L) in scaled.items():
        for k in range(L.shape[1]):
            panel = f"{block}, direction {k}" if len(scaled) > 1 else f"direction {k}"
            for i in largest(L[:, k], len(names)):
                error = None if errors is None else float(errors[block][i, k])
                value = float(L[i, k])
                clear = error is None or abs(value) > 2 * error
                row = {"feature": names[i], "panel": panel, "loading": value, "error": error}
                rows.append({**row, "clear": clear})
    figures = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        shown = [row for row in rows if row["panel"] == panel][:MOST_LOADINGS]
        figures.append(Figure(_charts.loadings(shown, f"loading, {panel}"), f"Largest loadings of {panel}"))
    text = [f"Times the standard deviation of the column, the {MOST_LOADINGS} largest of each direction."]
    if errors is not None:
        text.append("Lines are two standard errors to each side; those that reach zero are pale.")
    table = Table.of(rows, "panel", "feature", "loading", "error", panel="direction", feature="column")
    if not rows:
        return Part("Loadings", ["All loadings are zero."])
    return Part("Loadings", text, figures, table)


def _embedding(estimator: Any, X: Any, y: Any, names: str, seed: int, count: int | None) -> Part:
    kept = np.arange(len(X))
    if len(kept) > MOST_POINTS:
        kept = np.sort(np.random.default_rng(seed).choice(kept, MOST_POINTS, replace=False))
    rows = X.iloc[kept] if hasattr(X, "iloc") else X[kept]
    named = hasattr(estimator, "feature_names_in_")
    Z = np.asarray(estimator.transform(rows if named else np.asarray(rows)), dtype=np.float64)
    labels = [str(name) for name in estimator.get_feature_names_out()]
    records: list[dict[str, Any]] = [dict(zip(labels, map(float, row), strict=True)) for row in Z]
    colour, classes = "", False
    if y is not None:
        column = y.iloc[:, 0] if hasattr(y, "columns") else y
        column = column.iloc[kept] if hasattr(column, "iloc") else np.asarray(column)[kept]
        values, classes = colour_response(column, len(kept))
        colour = names.split(", ")[0] if hasattr(y, "columns") else names
        shade = [str(v) if classes else float(v) for v in np.asarray(values)]
        records = [{**r, colour: c} for r, c in zip(records, shade, strict=True)]
    across = len(labels) // max(1, len(block_loadings(estimator)))  # the first direction of the second block
    second = labels[across] if len(labels) > across else labels[1] if len(labels) > 1 else ""
    second = second or (colour if colour and not classes else labels[0])
    keys = "Hover for its values, or focus the picture and go from point to point with the arrow keys"
    text = [f"Every point is a row. {keys}; drag to choose points, click beside them to let go."]
    if count is not None and len(kept) < count:
        text.append(f"{len(kept):,} of {count:,} rows, drawn at random.")
    shown = [*labels[:6], colour] if colour else labels[:6]
    spec = _charts.scatter(records, x=labels[0], y=second, colour=colour, classes=classes, tooltip=shown)
    table = Table([*labels, colour] if colour else labels, [list(r.values()) for r in records])
    alt = f"Rows by {labels[0]} and {second}" + (f", coloured by {colour}" if colour else "")
    return pictured("Embedding", text, spec, alt, table)


def _python(estimator: Any, *, supervised: bool) -> str:
    name = type(estimator).__name__
    given = "X, y" if supervised else "X"
    blocks = block_code(getattr(estimator, "blocks", None), list(getattr(estimator, "feature_names_in_", ())))
    return (
        f"from colspace import {name}\n\n# X: columns of the table{', y: its response' if supervised else ''}\nmodel = {call_of(estimator, blocks=blocks)}\nmodel.fit({given})\n"
        "embedding = model.transform(X)\nmodel.summary()"
    )


def _next() -> Part:
    return Part(
        "Next steps",
        [
            "Read the quality first: where PCA or all columns read the response as well, the directions save columns but find nothing more.",
            "Use the embedding in place of the columns for a plot, a regression or neighbours; colspace apply puts a saved model to new rows.",
            "A loading within two errors of zero is no finding.",
        ],
    )
