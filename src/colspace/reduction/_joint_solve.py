"""Joint reduction of a table: how many directions, and which."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._random import generator
from .._validation import warn_constant
from ..factor import SingularCovarianceError
from ._auto import finished, fit_auto
from ._count import MOST, Embed, held_out_count, kept_components
from ._count_rows import fold_rows, rows_of
from ._joint_fit import Problem, Solution, fit_by_passes, fit_exact, problem_span
from ._joint_options import check_power
from ._source import Source

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class How:
    """How a table is solved: ``auto``, the recipe for any table, or published moments by a solver."""

    auto: bool
    solver: str
    n_power: int
    n_groups: int | None
    seed: int
    random_state: Any

    @classmethod
    def of(cls, model: Any, *, auto: bool) -> How:
        """Of an estimator's options."""
        state = model.random_state
        plain = state is None or isinstance(state, int | np.integer)
        seed = int((state or 0) if plain else generator(state).integers(2**31))
        return cls(auto, model.solver, model.n_power, model.n_groups, seed, state)


def solve_table(problem: Problem, source: Source, how: How, *, at_most: bool = False) -> Solution:
    """Directions of a table: in the span of its rows when it has fewer of them than a block has columns.

    ``at_most``: as many directions as the rows span, where these are fewer.
    """
    span = None
    problem.check_width(None if source.dask else source.X.shape[0])
    if not source.dask and (how.auto or problem.wants_span(source.X.shape[0], how.solver)):
        span = problem_span(problem, source, quiet=how.auto)
    order = np.concatenate(problem.blocks.columns)
    names = [problem.labels[i] for i in order]
    if span is not None:
        warn_constant(span.deviation[order], names)
        if at_most:
            problem = replace(problem, n_components=min(int(problem.n_components), *span.blocks.widths))
        problem, source = problem.in_span(span), span.source
    if how.auto:
        check_power(how.n_power, "moments='auto'", len(order))
        found = fit_auto(source, problem.blocks, int(problem.n_components), how.seed, how.n_groups)
        return finished(found, span, names)
    solver = problem.choose_solver(how.solver)
    check_power(how.n_power, solver, len(order))
    if solver == "exact":
        solution = fit_exact(problem, source, how.n_groups)
    else:
        solution = fit_by_passes(problem, source, solver, how.n_power, generator(how.random_state))
    return solution if span is None else solution.lifted(span)


def count_components(problem: Problem, source: Source, how: How) -> tuple[Problem, dict[str, Array] | None]:
    """The problem with its number of directions, and the held-out scores that "auto" chose it by."""
    if problem.n_components != "auto":
        return problem, None
    blocks = problem.blocks
    limit = min(MOST, *blocks.widths, *(problem.counts or ()))
    if problem.wanted == {"linear"} and not how.auto:
        limit = min(limit, source.encoder.n_responses)
    fixed = replace(problem, n_components=limit)
    quick = replace(how, n_groups=None, random_state=how.seed)
    rows, folds = fold_rows(source, np.concatenate(blocks.columns), how.seed)

    def fit_directions(train: Index) -> Embed:
        try:
            solution = solve_table(fixed, rows_of(rows, train), quick, at_most=True)
        except SingularCovarianceError as reason:
            msg = f"n_components='auto' fits on four fifths of the rows, and there: {reason}"
            raise SingularCovarianceError(msg) from reason
        return lambda chosen: embeddings(problem, solution, rows.X[chosen])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit on all rows gives them
        count = held_out_count(
            fit_directions, rows.y, rows.weights, folds, limit, labels=source.encoder.labels
        )
    found = kept_components(count, "See rank_test for a p-value")
    return replace(problem, n_components=found), count.as_dict()


def embeddings(problem: Problem, solution: Solution, X: Any) -> list[Array]:
    """Centred rows along the directions, block by block."""
    found = []
    for columns, place, L in zip(
        problem.blocks.columns, problem.blocks.slices, solution.loadings, strict=True
    ):
        part, mean = X[:, columns], solution.mean[place]
        centred = isinstance(part, np.ndarray)
        found.append((part - mean) @ L if centred else np.asarray(part @ L) - mean @ L)
    return found
