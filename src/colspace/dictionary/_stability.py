"""How much atoms depend on the rows that happened to be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from ._fit import Options, solve
from ._losses import Array
from ._objective import Problem, rows_of


def matched_cosines(first: Array, second: Array) -> Array:
    """|cosine| of each row of ``first`` with a row of ``second``, paired so that their sum is largest.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.dictionary._stability import matched_cosines
    >>> matched_cosines(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, -3.0], [0.6, 0.8]]))
    array([0.6, 1. ])
    """
    unit = [a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-300) for a in (first, second)]
    cosine = np.abs(unit[0] @ unit[1].T)
    rows, columns = linear_sum_assignment(-cosine)
    found = np.zeros(len(first))
    found[rows] = cosine[rows, columns]
    return found


def bootstrap_stability(
    problem: Problem,
    options: Options,
    W: Array,
    n_bootstraps: int,
    rng: np.random.Generator,
    tick: Callable[[], None] = lambda: None,
) -> Array:
    """Mean matched cosine of each atom, a column of W, with those of fits to rows drawn with replacement."""
    n = problem.X.shape[0]
    total = np.zeros(W.shape[1])
    for _ in range(n_bootstraps):
        times = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
        rows = np.flatnonzero(times)
        some = rows_of(problem, rows)
        some = replace(some, weight=some.weight * times[rows], label_weight=some.label_weight * times[rows])
        found, _ = solve(some, options, rng)
        total += matched_cosines(W.T, found.state.W.T)
        tick()
    return total / n_bootstraps
