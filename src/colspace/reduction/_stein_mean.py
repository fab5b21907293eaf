"""Second-order Stein whose responses are averaged: weights that are known before the pass, one matrix in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._response import ResponseEncoder
from .._rows import reduce_rows
from ..moments import Additive
from ._stein_fit import SteinOptions, response_transform
from ._stein_sums import GaussianPlan, ScorePlan, split_response

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ResponseSums(Additive):
    """Sums of the responses of labelled rows."""

    _shared: ClassVar[tuple[str, ...]] = ()

    count: float
    y: Array
    yy: Array


@dataclass(frozen=True)
class ResponsePlan:
    """``plan(y, weights)``: sums of a chunk's responses."""

    encoder: ResponseEncoder
    shift: Array
    scale: Array

    def __call__(self, y: Any, weights: Any = None) -> ResponseSums:
        """Statistic of one chunk."""
        w = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
        mask, Y = split_response(np.asarray(y)[w > 0], self.encoder, len(self.shift))
        V, w = (Y - self.shift) / self.scale, w[w > 0][mask]
        return ResponseSums(float(w.sum()), w @ V, V.T @ (V * w[:, None]))


def averaged(
    plan: GaussianPlan | ScorePlan, options: SteinOptions, y: Any, weights: Any, n_columns: int
) -> GaussianPlan | ScorePlan:
    r"""The plan with one matrix for the mean of the responses' second moments, from a pass over y alone.

    With responses multiplied by a map A the mean is :math:`E[T \sum_j c_j y_j]`, :math:`c = A 1/q`.
    """
    encoder = plan.encoder
    q = 0 if encoder is None else len(plan.plan.shift_y if isinstance(plan, GaussianPlan) else plan.shift_y)
    if encoder is None or options.order == 1 or options.combine != "mean" or q == 1:
        return plan
    gaussian = plan.plan if isinstance(plan, GaussianPlan) else None
    shift = plan.shift_y if isinstance(plan, ScorePlan) else plan.plan.shift_y
    scale = np.ones(q) if gaussian is None else np.broadcast_to(gaussian.scale_y, (q,))
    arrays = (y,) if weights is None else (y, weights)
    sums = reduce_rows(ResponsePlan(encoder, shift, scale), *arrays)
    mean = sums.y / sums.count
    with np.errstate(over="ignore"):
        covariance = (sums.yy / sums.count - np.outer(mean, mean)) * scale * scale[:, None]
    if not np.isfinite(covariance).all():
        return plan  # refused after the pass, by name
    A = response_transform(options, covariance, sums.count, labels=encoder.labels, n_columns=n_columns)
    return replace(plan, average=np.full(q, 1.0 / q) if A is None else A.mean(axis=1))
