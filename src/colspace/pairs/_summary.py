"""The summary of a fitted regressor of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._summary import Section, Summary, SummaryMixin, learned_facts, number

_FACTS = {
    "target": "tuned for",
    "reduction_": "reduction",
    "n_components_": "directions",
    "shrinkage_": "shrinkage",
    "n_iter_": "iterations",
    "objective_": "objective",
}
_SIDES = {
    "n_features_": "features",
    "metric_": "kernels",
    "bandwidth_": "bandwidth",
    "alpha_": "ridge",
    "profile_": "weight of links' profile",
    "own_": "weight of themselves alone",
    "positive_": "positive weights only",
    "weights_": "weights of kernels",
    "kernel_error_": "trace lost to landmarks",
}
_MOST_TRIED = 5


class PairsSummary(SummaryMixin):
    """Summary of a regressor of pairs."""

    def _summary(self) -> Summary:
        return pairs_summary(self)


def pairs_summary(model: Any) -> Summary:
    """Facts, what was learned for each side, and the settings that came first in tuning."""
    facts = learned_facts(model, _FACTS)
    if hasattr(model, "Y_"):
        left, right = model.Y_.shape
        facts = {"entities": f"{left} x {right}", "links": str(int(model.Y_.nnz)), **facts}
    rows = []
    for name, words in _SIDES.items():
        learned = getattr(model, name, None)
        if isinstance(learned, dict) and any(learned.get(side) is not None for side in ("left", "right")):
            rows.append((words, *(_text(learned.get(side)) for side in ("left", "right"))))
        elif name == "alpha_" and learned is not None:
            facts["ridge"] = number(learned)
    sections = [Section("Sides", ("", "left", "right"), tuple(rows))] if rows else []
    tried = getattr(model, "cv_results_", None)
    if tried:
        sections.append(_tried(tried))
    return Summary(type(model).__name__, facts, tuple(sections))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return ", ".join(value)
    return ", ".join(number(v) for v in np.ravel(value)) if np.ndim(value) else number(value)


def _tried(results: dict[str, Any]) -> Section:
    """The best settings with their scores."""
    scores = np.asarray(results["mean_score"], dtype=np.float64)
    names = [name for name in results if name != "mean_score" and np.ndim(results[name]) == 1]
    best = np.argsort(-scores, kind="stable")[:_MOST_TRIED]
    rows = tuple((number(scores[i]), *(str(_plain(results[name][i])) for name in names)) for i in best)
    title = f"Tuning: the best of {len(scores)} settings, on entities left out"
    return Section(title, ("score", *names), rows)


def _plain(value: Any) -> Any:
    return number(value) if isinstance(value, int | float | np.integer | np.floating) else value
