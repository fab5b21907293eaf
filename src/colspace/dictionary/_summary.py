"""The summary of a fitted supervised dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._summary import PlotMixin, Section, Summary, learned_facts, number, numbers
from .._validation import feature_names

_FACTS = {
    "n_components_": "atoms chosen",
    "solver_": "solver",
    "reason_": "stopped because",
    "n_iter_": "iterations",
    "objective_": "objective",
    "xi_": "xi",
    "l2_": "l2",
    "threshold_": "threshold",
    "reconstruction_error_": "reconstruction error",
}
_MOST_ATOMS = 20
_WORDS = 6


class DictionarySummary(PlotMixin):
    """Summary and pictures of a supervised dictionary."""

    @property
    def _pictures(self) -> dict[str, str]:
        return {
            "coefficients": "CoefficientsDisplay",
            "atoms": "AtomsDisplay",
            "topics": "TopicsDisplay",
            "pareto": "ParetoDisplay",
        }

    def _summary(self) -> Summary:
        return dictionary_summary(self)


def dictionary_summary(estimator: Any) -> Summary:
    """Facts, and for each atom its leading columns and coefficients."""
    names = [str(n) for n in feature_names(estimator) or [f"x{i}" for i in range(estimator.n_features_in_)]]
    atoms = np.asarray(estimator.components_)
    own = [names[j] for j in estimator.dictionary_columns_]
    facts = {
        "model": str(estimator.model),
        "columns": str(len(own)),
        "atoms": str(len(atoms)),
        **learned_facts(estimator, _FACTS),
    }
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        facts["classes"] = ", ".join(map(str, classes[:8])) + (", ..." if len(classes) > 8 else "")
    coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    stability = getattr(estimator, "stability_", None)
    heads = ("atom", "leading columns", "coefficient", *(("stability",) if stability is not None else ()))
    rows = tuple(
        (
            str(k),
            ", ".join(own[j] for j in np.argsort(-np.abs(atoms[k]), kind="stable")[:_WORDS] if atoms[k, j]),
            numbers(coef[:, k], most=4),
            *((number(stability[k]),) if stability is not None else ()),
        )
        for k in range(min(len(atoms), _MOST_ATOMS))
    )
    sections = [Section("Atoms, by the energy of their codes", heads, rows)]
    covariates = estimator.covariate_columns_
    if len(covariates):
        added = np.asarray(estimator.covariate_coef_, dtype=np.float64).reshape(len(coef), -1)
        sections.append(
            Section(
                "Covariates",
                ("column", "coefficient"),
                tuple(
                    (names[j], numbers(added[:, i], most=4)) for i, j in enumerate(covariates[:_MOST_ATOMS])
                ),
            )
        )
    notes = []
    if len(atoms) > _MOST_ATOMS or len(covariates) > _MOST_ATOMS:
        notes.append(f"The first {_MOST_ATOMS} are shown; all are in components_, coef_ and covariate_coef_.")
    return Summary(type(estimator).__name__, facts, tuple(sections), tuple(notes))
