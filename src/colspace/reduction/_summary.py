"""The summary of a fitted linear reduction."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._summary import PlotMixin, Section, Summary, learned_facts, numbers
from ._loadings import block_errors, block_loadings, largest

_MOST_LOADINGS = 8
_MOST_DIRECTIONS = 5
_FACTS = {
    "n_samples_seen_": "rows",
    "n_labeled_": "labelled rows",
    "n_components_": "directions",
    "n_slices_": "slices",
    "n_directions_": "regressions",
    "solver_": "solver",
    "ridge_": "ridge",
    "n_axes_": "axes",
    "shrinkage_": "shrinkage",
    "unlabeled_weight_": "weight of unlabelled rows",
    "missing_share_": "share of gaps",
    "parts_": "variance explained on rows left out",
    "expected_error_": "expected error of the space (NSEE)",
}


class LinearSummary(PlotMixin):
    """Summary and pictures of a linear reduction."""

    @property
    def _pictures(self) -> dict[str, str]:
        tested = {"singular values": "SingularValuesDisplay"} if hasattr(self, "rank_test") else {}
        return {"loadings": "LoadingsDisplay", "embedding": "EmbeddingDisplay", **tested}

    def _summary(self) -> Summary:
        return linear_summary(self)


def linear_summary(estimator: Any) -> Summary:
    """Facts, strengths of the directions and their largest loadings per standard deviation, with errors where they are known."""
    facts = {"columns": str(estimator.n_features_in_), **learned_facts(estimator, _FACTS)}
    blocks = getattr(estimator, "blocks_", None)
    if blocks is not None and len(blocks) > 1:
        facts["blocks"] = ", ".join(f"{name} ({len(columns)})" for name, columns in blocks.items())
    sections = [section for section in (_strengths(estimator),) if section is not None]
    scale = getattr(estimator, "scale_", None)
    scaled = "per standard deviation of the column" if scale is not None else "in the units of the columns"
    errors = block_errors(estimator, scale)
    for block, (names, L) in block_loadings(estimator, scale).items():
        for k in range(min(L.shape[1], _MOST_DIRECTIONS)):
            title = f"Direction {k}" + ("" if blocks is None or len(blocks) == 1 else f" of {block}")
            sections.append(
                _loadings(
                    f"{title}: largest loadings, {scaled}",
                    names,
                    L[:, k],
                    None if errors is None else errors[block][:, k],
                )
            )
    notes = [getattr(estimator, "errors_note_", "")]
    hidden = len(estimator.components_) // max(len(blocks or {"x": 0}), 1) - _MOST_DIRECTIONS
    if hidden > 0:
        notes.append(f"{hidden} further direction(s) are in components_.")
    return Summary(type(estimator).__name__, facts, tuple(sections), tuple(filter(None, notes)))


def _strengths(estimator: Any) -> Section | None:
    """Singular values or eigenvalues, a row a block."""
    for name, words in (("singular_values_", "singular values"), ("eigenvalues_", "eigenvalues")):
        values = getattr(estimator, name, None)
        if values is not None:
            found = values if isinstance(values, dict) else {"all columns": values}
            rows = tuple((str(block), numbers(np.ravel(v))) for block, v in found.items())
            return Section(f"Strength of directions ({words})", ("block", words), rows)
    return None


def _loadings(title: str, names: list[str], loading: Any, error: Any) -> Section:
    rows = []
    for i in largest(loading, _MOST_LOADINGS):
        row: tuple[str, ...] = (str(names[i]), f"{loading[i]:+.3f}")
        if error is not None:
            row = (*row, f"{error[i]:.3f}", f"{abs(loading[i]) / error[i]:.1f}" if error[i] > 0 else "")
        rows.append(row)
    columns = ("column", "loading") if error is None else ("column", "loading", "error", "times its error")
    return Section(title, columns, tuple(rows))
