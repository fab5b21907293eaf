"""Sums of groups of rows for the errors of Stein's method under a Gaussian score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._overflow import overflow_error
from .._rows import is_dask
from .._threads import small_products, table_work
from ..moments import all_finite
from ._groups import GroupSums, choose_groups, reduce_groups, triple_bytes
from ._jackknife import LeftOut, leave_out
from ._stein_fit import Frame, SteinOptions, SteinSolution, settle, solve_stein
from ._stein_sums import (
    GaussianPlan,
    GaussianTables,
    Law,
    ScorePlan,
    SteinMoments,
    reduce_stein,
    stein_from_tables,
    stein_rows,
)

Array = NDArray[np.float64]


def stein_groups(plan: GaussianPlan | ScorePlan, n_groups: int | None, rows: int | None) -> tuple[int, str]:
    """How many groups of rows a pass keeps, and why none."""
    if isinstance(plan, ScorePlan):
        return choose_groups(None, 0, None) if n_groups is None else (0, _SCORE)
    bare = triple_bytes(plan.plan, len(plan.plan.shift_y))
    if plan.average is not None:
        one = replace(plan.plan, plain=())
        bare += triple_bytes(one, 1) - triple_bytes(one, len(plan.average))
    own = 0 if plan.own is None else 8 * plan.own.shape[1] * plan.own.shape[0] ** 2
    return choose_groups(n_groups, 2 * bare + own, rows)  # labelled rows and the rest


_SCORE = "errors come with score_model='gaussian' alone: other scores look at all rows at once"


@small_products(table_work)
def grouped_stein(
    plan: GaussianPlan | ScorePlan, X: Any, y: Any, weights: Any, labels: Any, k: int, note: str
) -> GroupSums:
    """The sums of a plan, and those of k groups of rows (zero: none, as the note says), in one pass."""
    if not k:
        return GroupSums(reduce_stein(plan, X, y, weights, labels), note=note)

    def pass_over(statistic: Any, chunk: int | None = None) -> Any:
        return reduce_stein(statistic, X, y, weights, labels, chunk)

    groups = reduce_groups(pass_over, plan, k, dask=is_dask(X), chunk=stein_rows(X.shape[1]))
    if not all_finite(groups):
        raise overflow_error(X, labels)
    return GroupSums(groups.total, groups.parts)


def stein_left_out(
    groups: GroupSums,
    m: SteinMoments,
    frame: Frame,
    solution: SteinSolution,
    options: SteinOptions,
    labels: bool,
    n_columns: int,
    law_of: Callable[[GaussianTables], tuple[Law, Array]],
    average: Array | None = None,
) -> LeftOut:
    """Directions without each group of rows; ``options`` and ``law_of`` hold the choices of all rows."""
    r = solution.directions.shape[1]

    def solve(rest: GaussianTables) -> list[Array]:
        law, scale = law_of(rest)
        found = stein_from_tables(rest, law, scale, average)
        now = settle(options, found, law.ridge, labels, n_columns)
        return [solve_stein(options, found, now, r, exact=True).directions / scale[:, None]]

    def metric(L: Array) -> Array:
        S = L * m.scale[:, None]
        return (S if frame.root is None else frame.root @ (frame.root @ S)) * m.scale[:, None]

    return leave_out(groups, solve, [solution.directions / m.scale[:, None]], [metric])
