"""Choice of a law by held-out density."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_array

from .._containers import as_table
from .._random import generator
from .._validation import check_weights
from ._base import Array, refuse_dask
from ._elliptical import EllipticalScore
from ._gaussian import GaussianScore
from ._hyperbolic import HyperbolicScore
from ._student import StudentScore

LAWS: dict[str, type[EllipticalScore]] = {
    "gaussian": GaussianScore,
    "student": StudentScore,
    "hyperbolic": HyperbolicScore,
}

N_FOLDS = 5


def choose_score(
    X: Any,
    candidates: Sequence[Any] = ("gaussian", "student", "hyperbolic"),
    rng: Any = None,
    sample_weight: Any = None,
) -> tuple[EllipticalScore, dict[str, float]]:
    """The law with the largest density on rows it has not seen.

    Five folds: each candidate gives the density of every row from a fit without it. Every other law has the
    Gaussian as a limit, so the best Gaussian candidate is kept unless the best one beats it by more than two standard
    errors of the mean difference.

    Parameters
    ----------
    X : array (n, p)
    candidates : names ("gaussian", "student", "hyperbolic") or score models
    rng : int, RandomState, Generator or None, default=None
        Deals the rows into folds.
    sample_weight : array (n,) or None, default=None
        Weights of rows, in the fits and in the held-out means. Zero is a row absent, and a constant changes nothing; a
        weight of two stays in one fold, where two rows would be dealt apart.

    Returns
    -------
    model : the winner, fitted on all rows
    table : dict of str to float
        Mean held-out log density of each candidate; -inf for one that could not be fitted, or whose density is
        singular. A name that stands twice gets a number.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.scores import choose_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 4)) / np.sqrt(rng.chisquare(5, (2000, 1)) / 5)
    >>> model, table = choose_score(X, rng=0)
    >>> type(model).__name__, max(table, key=table.get)
    ('StudentScore', 'student')
    """
    models = _models(candidates)
    refuse_dask(X, "choose_score")
    # the models see X itself in the last fit, so that column names reach them
    rows = check_array(as_table(X).values, dtype=np.float64, ensure_min_samples=2 * N_FOLDS)
    weight = check_weights(sample_weight, rows)
    share = np.ones(len(rows)) if weight is None else weight / weight.max()
    rows, share = rows[share > 0], share[share > 0]
    if len(rows) < 2 * N_FOLDS:
        msg = f"{len(rows)} rows have a positive sample_weight, and {N_FOLDS} folds need {2 * N_FOLDS}"
        raise ValueError(msg)
    fold = generator(rng).permutation(len(rows)) % N_FOLDS
    values: dict[str, Array] = {}
    reason: ValueError | None = None
    for name, model in models.items():
        try:
            values[name] = _held_out(model, rows, share, fold)
        except ValueError as error:
            reason = error
    if not values:
        msg = f"no candidate of {list(models)} could be fitted on parts of the rows: {reason}"
        raise ValueError(msg) from reason
    table = {
        name: float(np.average(values[name], weights=share)) if name in values else -np.inf for name in models
    }
    best = max(table, key=lambda name: table[name])
    gaussian = [name for name in values if isinstance(models[name], GaussianScore)]
    if gaussian and best not in gaussian:
        simplest = max(gaussian, key=lambda name: table[name])
        gain = values[best] - values[simplest]
        mean = np.average(gain, weights=share)
        spread = np.sqrt(np.average((gain - mean) ** 2, weights=share))
        if mean <= 2 * spread * np.sqrt(np.sum(share**2)) / share.sum():
            best = simplest
    return models[best].fit(X, sample_weight=sample_weight), table


def _held_out(model: EllipticalScore, rows: Array, share: Array, fold: NDArray[np.intp]) -> Array:
    """Log density of every row from a fit on the other folds."""
    values = np.empty(len(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the winner's last fit says what matters
        for k in range(N_FOLDS):
            fitted = clone(model).fit(rows[fold != k], sample_weight=share[fold != k])
            varying = int(fitted._root.any(axis=0).sum())
            if len(fitted._root) < varying:
                msg = (
                    f"{model!r} has rank {len(fitted._root)} of {varying} columns, and a density on a part of "
                    "the space cannot be compared. Remedy: GaussianScore(ridge=...)"
                )
                raise ValueError(msg)
            values[fold == k] = fitted.log_density(rows[fold == k])
    return values


def _models(candidates: Sequence[Any]) -> dict[str, EllipticalScore]:
    if isinstance(candidates, str) or not len(candidates):
        msg = f"candidates={candidates!r} must be a list of names of {list(LAWS)} or of score models"
        raise ValueError(msg)
    models: dict[str, EllipticalScore] = {}
    for candidate in candidates:
        if isinstance(candidate, str):
            if candidate not in LAWS:
                msg = f"candidates has {candidate!r}, which is none of {list(LAWS)}"
                raise ValueError(msg)
            name, model = candidate, LAWS[candidate]()
        elif isinstance(candidate, EllipticalScore):
            name, model = repr(candidate), clone(candidate)
        else:
            msg = f"candidates has {candidate!r}, which is neither a name of {list(LAWS)} nor a score model with a density"
            raise TypeError(msg)
        same = sum(other == name or other.startswith(f"{name} #") for other in models)
        models[f"{name} #{same + 1}" if same else name] = model
    return models
