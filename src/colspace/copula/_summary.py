"""The summary of a fitted imputer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from .._summary import PlotMixin, Section, Summary, leading, learned_facts, number
from .._validation import feature_names

_FACTS = {
    "n_components_": "factors",
    "rank_": "factors told from noise",
    "draws_": "draws from",
    "n_iter_": "iterations",
}
_MOST = 30


class CopulaSummary(PlotMixin):
    """Summary and pictures of the imputer."""

    @property
    def _pictures(self) -> dict[str, str]:
        return {
            "marginals": "MarginalDisplay",
            "imputation": "ImputationDisplay",
            "reliability": "ReliabilityDisplay",
        }

    def _summary(self) -> Summary:
        return copula_summary(self)


def copula_summary(imputer: Any) -> Summary:
    """Facts, and for each column its kind, how much of it the others tell, and what forests gain."""
    names = [str(n) for n in feature_names(imputer) or [f"x{i}" for i in range(imputer.n_features_in_)]]
    kinds = Counter(imputer.kinds_)
    facts = {
        "columns": str(imputer.n_features_in_),
        "kinds": ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
        **learned_facts(imputer, _FACTS),
    }
    if np.isfinite(getattr(imputer, "tails_", np.inf)):
        facts["tails of rows"] = f"Student's t, {imputer.tails_:g} degrees of freedom"
    if imputer.draws_ == "full":
        facts["draws from"] = "any correlation matrix and its posterior"
    told, gain = _told(imputer, names), np.asarray(imputer.nonlinear_gain_)
    rows = tuple(
        (names[j], imputer.kinds_[j], told.get(names[j], ""), number(gain[j]) if gain[j] else "")
        for j in range(min(len(names), _MOST))
    )
    heads = ("column", "kind", "told by the others (R2)", "forests gain")
    notes = []
    if len(names) > _MOST:
        notes.append(f"{len(names) - _MOST} further columns: kinds_, correlation_, nonlinear_gain_.")
    if imputer.unseen_pairs_:
        pairs = [f"{a} with {b}" for a, b in imputer.unseen_pairs_]
        notes.append(
            f"Never or hardly observed together, so their correlation is not known: {leading(pairs)}."
        )
    return Summary(type(imputer).__name__, facts, (Section("Columns", heads, rows),), tuple(notes))


def _told(imputer: Any, names: list[str]) -> dict[str, str]:
    """1 - 1 / (R^-1)_jj of the latent correlation R: the share of a column's latent variance that all others explain."""
    latent = [str(name) for name in imputer.latent_names_]
    precision = np.linalg.pinv(np.asarray(imputer.correlation_, dtype=np.float64), hermitian=True)
    share = np.clip(1.0 - 1.0 / np.maximum(np.diag(precision), 1.0), 0.0, 1.0)
    single = {name for name, count in Counter(latent).items() if count == 1}
    return {name: f"{r:.2f}" for name, r in zip(latent, share, strict=True) if name in single & set(names)}
