"""The ridge of a Gaussian score: as given, by a rule, or of least leave-one-out error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._response import ResponseEncoder
from ..factor import ledoit_wolf_shrinkage
from ..moments import fourth_norms
from ..scores import GaussianScore
from ._loo import ErrorPlan, LooErrors, error_plan, loo_chunk
from ._ridge import principal_axes, triple_responses
from ._span import Span
from ._stein_sums import (
    GaussianPlan,
    GaussianTables,
    Law,
    column_scale,
    gaussian_law,
    gaussian_moments,
    reduce_stein,
    ridge_unit,
    span_law,
    split_response,
)

Array = NDArray[np.float64]


def rule_score(score_model: Any, tables: GaussianTables | None, n_columns: int) -> GaussianScore:
    r"""The Gaussian score asked for, or that of a rule from sums (None: of none).

    No ridge when all rows are labelled and at least twice the columns, else :math:`(1 + \sqrt{p/n})^2` variances.
    """
    if isinstance(score_model, GaussianScore):
        return score_model
    n = 1.0 if tables is None else tables.labeled.count + tables.rest.count
    if tables is not None and tables.rest.count == 0 and n >= 2 * n_columns:
        return GaussianScore(ridge="auto")
    return GaussianScore(ridge=(1 + np.sqrt(n_columns / n)) ** 2)


@dataclass(frozen=True)
class LabelledErrors:
    """``plan(X, y, weights)``: leave-one-out errors of rows that all have labels."""

    errors: ErrorPlan
    encoder: ResponseEncoder

    def __call__(self, X: Any, y: Any, weights: Array | None = None) -> LooErrors:
        """Statistic of one chunk."""
        return self.errors(X, split_response(y, self.encoder, self.errors.cross.shape[1])[1], weights)


def learned_score(
    score_model: Any,
    tables: GaussianTables,
    plan: GaussianPlan,
    arrays: tuple[Any, Any, Any],
    names: Any,
    n_columns: int,
    standardize: bool,
    span: Span | None,
) -> GaussianScore:
    """The Gaussian score asked for; "ridge" has the least leave-one-out error of the regression of y: one more pass.

    ``arrays``: X, y and weights, X None for a stream whose rows are gone and whose ridge is that of ``rule_score``. Without labels it is that of Ledoit and Wolf; where some rows have labels and some have none, that of ``rule_score``:
    a small ridge leaves nothing to say to the rows without.
    """
    X, y, weights = arrays
    if score_model != "ridge" or X is None:
        return rule_score(score_model, tables, n_columns)
    mean, covariance, _ = gaussian_moments(tables)
    unit = span is not None or not standardize
    one = span.unit if span is not None else ridge_unit(covariance, standardize=standardize)
    columns = np.arange(len(mean))
    if tables.labeled.count == 0:
        scale = np.full(len(mean), np.sqrt(one)) if unit else column_scale(covariance, standardize=True)
        fourth = reduce_stein(
            partial(fourth_norms, mean=mean, scale=scale, columns=(columns,)), X, y, weights, names
        )
        weight = ledoit_wolf_shrinkage(
            covariance / scale / scale[:, None], float(fourth[0]), tables.rest.count, n_columns
        )
        return GaussianScore(ridge=weight / (1.0 - weight) if weight < 1.0 else np.inf)
    if tables.rest.count > 0 or plan.encoder is None:
        return rule_score("gaussian", tables, n_columns)
    cross, responses = triple_responses(tables.labeled, labels=plan.encoder.labels)
    axes = principal_axes(covariance, columns, mean, unit=unit)
    errors = error_plan(axes, cross, tables.labeled.count, weights, responses)
    sums = reduce_stein(
        LabelledErrors(errors, plan.encoder), X, y, weights, names, loo_chunk(len(mean), cross.shape[1])
    )
    varying = n_columns if span is not None else max(1, int(np.count_nonzero(np.diag(covariance) > 0)))
    return GaussianScore(ridge=errors.least(sums, tables.labeled.count, varying) / one)


def score_law(
    tables: GaussianTables,
    template: GaussianScore,
    span: Span | None,
    *,
    standardize: bool,
    whole: bool = True,
) -> tuple[Law, Array]:
    """The Gaussian law of all rows (``whole``) or of a part of them, and what columns are divided by."""
    mean, covariance, rows = gaussian_moments(tables)
    if span is not None:
        return span_law(template, mean, covariance, span.unit, diagonal=whole), np.ones(len(mean))
    scale = column_scale(covariance, standardize=standardize)
    return gaussian_law(template, mean, covariance, rows, scale, standardize=standardize), scale
