"""What ``colspace reduce`` prints."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._table import Parts

_TOP = 5  # features shown per component


def _taken_as(estimator: Any, y: Any) -> str:
    """How the estimator read the response."""
    from .._response import make_encoder

    with warnings.catch_warnings():  # of the fit, and told there
        warnings.simplefilter("ignore")
        classes = make_encoder(y.dropna(), estimator.response, codes=None).classes
    if classes is not None:
        return f"labels, {len(classes)} classes"
    return "numeric, by rank" if estimator.response == "rank" else "numeric"


def report_of(estimator: Any, parts: Parts, test: Any) -> dict[str, Any]:
    """The result as plain numbers."""
    from ..reduction._loadings import block_loadings, largest

    raw, scaled = block_loadings(estimator), block_loadings(estimator, getattr(estimator, "scale_", None))
    found: dict[str, Any] = {"rows": parts.n_rows, "responses": list(parts.responses)}
    found |= {"response_taken_as": _taken_as(estimator, parts.y)}
    found |= {"n_components": int(estimator.n_components_), "blocks": {}}
    if hasattr(estimator, "component_scores_"):
        found["component_scores"] = {n: v.tolist() for n, v in estimator.component_scores_.items()}
    if hasattr(estimator, "score_model_"):
        found["labelled_rows"] = int(estimator.n_labeled_)
        found["score"] = type(estimator.score_model_).__name__
        found["unlabelled_weight"] = float(estimator.unlabeled_weight_)
    if hasattr(estimator, "parts_"):
        found["parts"] = dict(estimator.parts_)
    for block, (names, L) in raw.items():
        standardised = scaled[block][1]
        found["blocks"][block] = {
            "columns": len(names),
            **_of_block(estimator, block),
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


def about_of(
    report: dict[str, Any], tables: dict[str, Any], seed: int, notes: Sequence[str], command: str
) -> dict[str, Any]:
    """What a saved model says of the fit."""
    told = ("rows", "responses", "response_taken_as", "n_components", "rank_test", "quality")
    return {
        "command": "reduce",
        **tables,
        "seed": seed,
        **{key: report[key] for key in told if key in report},
        "warnings": list(notes),
        "line": command,
    }


def facts_of(report: dict[str, Any], about: dict[str, Any], estimator: Any) -> dict[str, Any]:
    """What was asked, for the page."""
    facts = {"tables" if "joined_on" in about else "table": about.get("table", "")}
    if "joined_on" in about:
        facts["joined on"] = ", ".join(about["joined_on"])
    facts["response taken as"] = report.get("response_taken_as", "")
    if isinstance(getattr(estimator, "moments", None), str | tuple):
        facts["moments"] = str(estimator.moments)
    return {name: value for name, value in facts.items() if value}


def _of_block(estimator: Any, block: str) -> dict[str, Any]:
    """What an estimator with blocks knows of each, and one without of its only one."""
    values = estimator.singular_values_
    if not isinstance(values, dict):
        return {"singular_values": [float(v) for v in values]}
    return {
        "selected": len(estimator.selected_[block]),
        "shrinkage": float(estimator.shrinkage_[block]),
        **({"ridge": float(estimator.ridge_[block])} if hasattr(estimator, "ridge_") else {}),
        "singular_values": [float(v) for v in values[block]],
    }


def why_so_many(report: dict[str, Any]) -> str:
    """What a counted number of directions rests on, in one line."""
    chosen, scores = report["n_components"], report["component_scores"]
    found = f"{chosen} direction{'s' if chosen > 1 else ''} per block"
    score, error = scores["score"], scores["error"]
    if not score:
        return f"{found}: too few rows to compare numbers on rows left out"
    best = max(range(len(score)), key=score.__getitem__)
    of = " of the labels' indicators" if report["response_taken_as"].startswith("labels") else ""

    def reads(h: int) -> str:
        return f"R2 {score[h]:.3f} ± {error[h]:.3f}"

    if score[best] - score[0] <= scores["difference_error"][0]:
        return f"{found}: no number predicts rows left out better than the mean does ({reads(chosen)}{of})"
    if best == chosen:
        return f"{found}: {reads(best)}{of} on rows left out, the best of 1 to {len(score) - 1}"
    return f"{found}: {reads(chosen)}{of} on rows left out, as good as {best}, the best ({reads(best)}), within its error or 1 %"


def _largest_loadings(features: Sequence[Mapping[str, Any]]) -> str:
    """The largest loadings in one line, with two digits of the first at least.

    Examples
    --------
    >>> from colspace.cli._report import _largest_loadings
    >>> _largest_loadings([{"feature": "a", "standardised": 0.0317}, {"feature": "b", "standardised": -0.01}])
    'a +0.032, b -0.010'
    """
    largest = max((abs(f["standardised"]) for f in features), default=0.0)
    digits = max(2, 1 - math.floor(math.log10(largest))) if largest > 0 else 2
    return ", ".join(f"{f['feature']} {f['standardised']:+.{min(digits, 9)}f}" for f in features[:_TOP])


def print_report(
    report: dict[str, Any], *, out: str | None, model: str | None, page: str | None, as_json: str | None
) -> None:
    """The result as tables, and the files that were written."""
    from rich.markup import escape
    from rich.table import Table

    from ._check import print_quality
    from ._say import console as console_of
    from ._say import print_written

    console = console_of(out, as_json)
    rows, responses = f"{report['rows']:,} rows", ", ".join(report["responses"])
    if "labelled_rows" in report:
        rows += f" ({report['labelled_rows']:,} labelled)"
    table = Table(
        title=escape(f"{rows}, response {responses} ({report['response_taken_as']})"),
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
        columns, selected = entry["columns"], entry.get("selected", entry["columns"])
        width = f"{selected} of {columns}" if selected < columns else str(columns)
        for k, features in enumerate(entry["components"]):
            shown = _largest_loadings(features)
            first = (escape(block), width) if k == 0 else ("", "")
            last = k == len(entry["components"]) - 1
            table.add_row(
                *first, str(k), f"{entry['singular_values'][k]:.3f}", escape(shown), end_section=last
            )
    console.print(table)
    if "component_scores" in report:
        console.print(escape(why_so_many(report)), soft_wrap=True)
    if "quality" in report:
        print_quality(console, report["quality"])
    if "rank_test" in report:
        test = report["rank_test"]
        values = ", ".join(f"{p:.3f}" for p in test["p_values"])
        console.print(
            f"permutation test at level {test['alpha']:g}: {test['n_components']} direction(s); "
            f"p-values of at most 0, 1, ...: {values}"
        )
    print_written(console, embedding=out, model=model, report=page, JSON=as_json)
