"""The ridge of a Gaussian score: as given, by a rule, or of least leave-one-out error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._response import ResponseEncoder
from ..factor import ledoit_wolf_shrinkage
from ..moments import fourth_norms
from ..scores import GaussianScore
from ._loo import ErrorPlan, PairedErrors, error_plan, loo_chunk, row_unit
from ._ridge import principal_axes, triple_responses
from ._span import Span
from ._stein_fit import SteinOptions
from ._stein_sums import (
    GaussianPlan,
    GaussianTables,
    Law,
    column_scale,
    gaussian_law,
    gaussian_moments,
    labelled_law,
    labelled_moments,
    reduce_stein,
    ridge_unit,
    span_law,
    split_response,
)

Array = NDArray[np.float64]

_FEW = 4  # labelled rows below which leaving one out says nothing


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


def has_own_law(options: SteinOptions, score_model: Any, tables: GaussianTables) -> bool:
    """Whether labelled rows beside unlabelled ones are measured by their own covariance: the default, with a few rows at least."""
    asked = score_model == "ridge" and options.order == 1 and options.unlabeled_weight == "auto"
    return asked and tables.rest.count > 0 and tables.labeled.rows >= _FEW


@dataclass(frozen=True)
class LabelledErrors:
    """``plan(X, y, weights)``: leave-one-out errors of the rows that have labels."""

    errors: ErrorPlan
    encoder: ResponseEncoder
    width: int  # of encoded responses

    def __call__(self, X: Any, y: Any, weights: Array | None = None) -> PairedErrors:
        """Statistic of one chunk."""
        mask, Y = split_response(y, self.encoder, self.width)
        if not mask.all():
            X, weights = X[mask], None if weights is None else weights[mask]
        plan, w = self.errors, np.ones(len(Y)) if weights is None else weights
        E = plan.squares(plan.axes.coordinates(X), plan.responses(Y), 1.0 / plan.rows)
        return PairedErrors(E @ w, (E * w) @ E.T, float(w.sum()))


def learned_score(
    score_model: Any,
    tables: GaussianTables,
    plan: GaussianPlan,
    arrays: tuple[Any, Any, Any],
    names: Any,
    n_columns: int,
    standardize: bool,
    span: Span | None,
    *,
    own: bool = False,
) -> GaussianScore:
    """The Gaussian score asked for; "ridge" has the least leave-one-out error of the regression of y: one more pass.

    ``arrays``: X, y and weights, X None for a stream whose rows are gone and whose ridge is that of ``rule_score``. Without labels it is
    that of Ledoit and Wolf. Where some rows have labels and some have none it is that of ``rule_score``; if the former have a law of
    their ``own``, the heaviest within a standard error of the least, as the errors of few rows say little.
    """
    X, y, weights = arrays
    if score_model != "ridge" or X is None:
        return rule_score(score_model, tables, n_columns)
    mean, covariance, _ = gaussian_moments(tables)
    unit = span is not None or not standardize
    one = span.unit if span is not None else ridge_unit(covariance, standardize=standardize)
    columns = np.arange(len(mean))
    scale = np.ones(len(mean)) if unit else column_scale(covariance, standardize=True)
    if tables.labeled.count == 0:
        scale = scale * np.sqrt(one)
        fourth = reduce_stein(
            partial(fourth_norms, mean=mean, scale=scale, columns=(columns,)), X, y, weights, names
        )
        weight = ledoit_wolf_shrinkage(
            covariance / scale / scale[:, None], float(fourth[0]), tables.rest.count, n_columns
        )
        return GaussianScore(ridge=weight / (1.0 - weight) if weight < 1.0 else np.inf)
    if plan.encoder is None or (tables.rest.count > 0 and not own):
        return rule_score("gaussian", tables, n_columns)
    mean, labelled, _ = labelled_moments(tables)
    count = tables.labeled.count
    cross, responses = triple_responses(tables.labeled, labels=plan.encoder.labels)
    errors = error_plan(principal_axes(labelled, columns, mean, scale=scale), cross, count, None, responses)
    if weights is not None:
        errors = replace(errors, rows=count / row_unit(weights, y))
    chunk = loo_chunk(len(mean), cross.shape[1])
    statistic = LabelledErrors(errors, plan.encoder, len(plan.plan.shift_y))
    sums = reduce_stein(statistic, X, y, weights, names, chunk)
    if own:
        return GaussianScore(ridge=sums.heaviest(errors.ridges, errors.rows) / one)
    varying = n_columns if span is not None else max(1, int(np.count_nonzero(np.diag(covariance) > 0)))
    return GaussianScore(ridge=errors.least(sums, count, varying) / one)


def score_law(
    tables: GaussianTables,
    template: GaussianScore,
    span: Span | None,
    *,
    standardize: bool,
    whole: bool = True,
    own: bool = False,
) -> tuple[Law, Array]:
    """The Gaussian law of all rows (``whole``) or of a part of them, and what columns are divided by.

    ``own``: that of the labelled rows alone.
    """
    mean, covariance, rows = gaussian_moments(tables)
    scale = np.ones(len(mean)) if span is not None else column_scale(covariance, standardize=standardize)
    if own:
        one = span.unit if span is not None else ridge_unit(covariance, standardize=standardize)
        return labelled_law(tables, float(template.ridge) * one, scale, span=span is not None), scale
    if span is not None:
        return span_law(template, mean, covariance, span.unit, diagonal=whole), scale
    return gaussian_law(template, mean, covariance, rows, scale, standardize=standardize), scale
