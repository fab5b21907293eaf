"""What a pass of Stein's method adds up; in second order without labels the columns themselves are the responses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._response import ResponseEncoder
from .._rows import is_dask
from .._validation import sample_rows
from ..moments import ColumnMoments, TriplePlan, column_moments
from ._source import column_shift, response_units
from ._span import Span
from ._stein_fit import SteinOptions
from ._stein_sums import GaussianPlan, ScorePlan, known, labelled_rows, reduce_stein

Array = NDArray[np.float64]

MOST_BYTES = 2**30  # of one matrix for each column


def check_combine(order: Any, combine: str) -> None:
    """The first order has one matrix, and nothing to combine."""
    if order == 1 and combine == "mean":
        msg = "combine='mean' averages second-order matrices, but order=1 has none. Remedies: order=2 or 'both', or combine='stack'"
        raise ValueError(msg)


def check_options(model: Any, y: Any) -> None:
    """Refuse options of SteinReduction that the others, or a missing y, leave without effect."""
    check_combine(model.order, model.combine)
    if y is not None:
        return
    without = {
        "response": (model.response is not None, "transforms y", None),
        "whiten_response": (model.whiten_response is True, "whitens y", "auto"),
        "unlabeled_weight": (
            not isinstance(model.unlabeled_weight, str),
            "weighs rows without labels beside those with",
            "auto",
        ),
    }
    for name, (wrong, what, default) in without.items():
        if wrong:
            msg = f"{name}={getattr(model, name)!r} {what}, but y=None has no labels; give y, or {name}={default!r}"
            raise ValueError(msg)


def gaussian_plan(
    X: Any, y: Any, encoder: ResponseEncoder | None, weights: Any, names: Any, *, second_order: bool
) -> GaussianPlan:
    """The moments that a Gaussian score needs."""
    own = ((0, 0),)
    weighted = own if second_order and encoder is not None else ()
    start, labels = sample_rows(X, y, weights=weights)
    shift = column_shift(start, names)
    shift_y, scale_y = np.zeros(0), np.ones(0)
    if encoder is not None:
        labels = labels if is_dask(X) else y
        some = np.zeros((1, encoder.n_responses))  # units of classes are known
        if not encoder.labels:
            some = encoder(known(labels, labelled_rows(labels)))
        shift_y, scale_y = response_units(some, encoder)
    plan = TriplePlan((slice(0, X.shape[1]),), None, shift, shift_y, own, weighted, scale_y=scale_y)
    return GaussianPlan(plan, encoder)


def own_columns(
    plan: GaussianPlan | ScorePlan,
    options: SteinOptions,
    arrays: tuple[Any, Any, Any],
    names: Any,
    span: Span | None,
    *,
    standardize: bool,
    streaming: bool = False,
) -> GaussianPlan | ScorePlan:
    r"""The plan with second moments :math:`E[x_j T(x)]` of all rows where the directions need them.

    They do in the second order without labels, and with ``unlabeled_weight="paper"``. ``arrays``: X, y, weights. The mean
    over columns is the one response :math:`\sum_j x_j / p`, columns in their deviations if they are standardised: one more pass.
    """
    X, y, weights = arrays
    if options.order == 1 or (plan.encoder is not None and options.unlabeled_weight != "paper"):
        return plan
    p = X.shape[1]
    if options.combine == "mean" and span is not None:
        return replace(plan, own=span.mean_of_columns(0)[:, None])
    if options.combine == "mean" and not (streaming and standardize):
        scale = np.ones(p)
        if standardize:
            shift = plan.plan.shift_x if isinstance(plan, GaussianPlan) else plan.shift_x
            variance = reduce_stein(partial(_columns, shift=shift), X, y, weights, names).variance
            scale = np.sqrt(np.where(variance > 0, variance, 1.0))
        return replace(plan, own=(1.0 / (p * scale))[:, None])
    if 8 * p**3 > MOST_BYTES:
        msg = (
            f"order={options.order!r} without labels keeps a {p} x {p} matrix for each of the {p} columns, {8 * p**3 >> 20:,} MB, "
            f"more than the {MOST_BYTES >> 20:,} MB allowed. Remedies: combine='mean', one matrix as published, or fewer columns"
        )
        raise ValueError(msg)
    return replace(plan, own=np.eye(p))


def _columns(X: Any, _: Any, weights: Array | None = None, *, shift: Array) -> ColumnMoments:
    return column_moments(X, weights, shift=shift)
