"""Choice of a law by held-out density."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array

from .._containers import as_table
from .._random import generator
from .._rows import is_dask
from .._validation import check_weights
from ..moments import Additive
from ._base import Array
from ._elliptical import EllipticalScore
from ._gaussian import GaussianScore
from ._hyperbolic import HyperbolicScore
from ._standard import kept_rows, pass_over
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
    X : array, DataFrame or Dask collection (n, p)
        Of a Dask collection the folds are drawn row by row where the rows are.
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
    if is_dask(X):
        found = _held_out_in_partitions(X, sample_weight, models, rng)
    else:
        found = _held_out_in_memory(X, sample_weight, models, rng)
    table = {name: found.mean(name) for name in models}
    best = max(table, key=lambda name: table[name])
    gaussian = [name for name in found.names if isinstance(models[name], GaussianScore)]
    if gaussian and best not in gaussian:
        simplest = max(gaussian, key=lambda name: table[name])
        if not found.leads(best, simplest):
            best = simplest
    # the model sees X itself, so that column names reach it
    return models[best].fit(X, sample_weight=sample_weight), table


@dataclass(frozen=True)
class HeldOut(Additive):
    """Weighted sums over held-out rows of log densities v: of v of the first law, of v minus it, and of products."""

    _shared: ClassVar[tuple[str, ...]] = ("names",)

    names: tuple[str, ...]
    weight: float
    square: float
    first: float
    over: Array
    products: Array

    def mean(self, name: str) -> float:
        """Mean held-out log density; -inf for a law that was not compared."""
        if name not in self.names:
            return -np.inf
        return float((self.first + self.over[self.names.index(name)]) / self.weight)

    def leads(self, one: str, other: str) -> bool:
        """Whether one law is ahead of another by more than two standard errors of the mean difference."""
        i, j = self.names.index(one), self.names.index(other)
        mean = (self.over[i] - self.over[j]) / self.weight
        P = self.products / self.weight
        variance = max(P[i, i] - 2 * P[i, j] + P[j, j] - mean**2, 0.0)
        return bool(mean > 2 * np.sqrt(variance * self.square) / self.weight)


def held_out(X: Any, w: Any = None, *, models: dict[str, EllipticalScore]) -> HeldOut:
    """Statistic of a chunk of rows that the models have not seen."""
    X, w = kept_rows(X, w)
    names = tuple(models)
    if not len(X):
        return HeldOut(names, 0.0, 0.0, 0.0, np.zeros(len(names)), np.zeros((len(names), len(names))))
    values = np.stack([model.log_density(X) for model in models.values()])
    over = values - values[0]
    return HeldOut(names, float(w.sum()), float(w @ w), float(values[0] @ w), over @ w, (over * w) @ over.T)


def _held_out_in_memory(X: Any, sample_weight: Any, models: dict[str, EllipticalScore], rng: Any) -> HeldOut:
    """Five folds of rows in memory."""
    rows = check_array(as_table(X).values, dtype=np.float64, ensure_min_samples=2 * N_FOLDS)
    weight = check_weights(sample_weight, rows)
    share = np.ones(len(rows)) if weight is None else weight / weight.max()
    rows, share = rows[share > 0], share[share > 0]
    if len(rows) < 2 * N_FOLDS:
        msg = f"{len(rows)} rows have a positive sample_weight, and {N_FOLDS} folds need {2 * N_FOLDS}"
        raise ValueError(msg)
    fold = generator(rng).permutation(len(rows)) % N_FOLDS
    fits = _fits(models, [(rows[fold != k], share[fold != k]) for k in range(N_FOLDS)])
    return _sum_of(
        held_out(rows[fold == k], share[fold == k], models=fitted) for k, fitted in enumerate(fits)
    )


def _held_out_in_partitions(
    X: Any, sample_weight: Any, models: dict[str, EllipticalScore], rng: Any
) -> HeldOut:
    """Five folds of the rows of a Dask collection, drawn where the rows are."""
    import dask.array as da

    X = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    seed = int(generator(rng).integers(2**31))
    fold = da.random.default_rng(seed).integers(N_FOLDS, size=X.shape[0], chunks=(X.chunks[0],))
    weight = da.ones(X.shape[0], chunks=(X.chunks[0],)) if sample_weight is None else sample_weight
    if hasattr(weight, "to_dask_array"):
        weight = weight.to_dask_array(lengths=True)
    if not is_dask(weight):
        weight = da.from_array(check_weights(weight, X), chunks=(X.chunks[0],))
    fits = _fits(models, [(X, weight * (fold != k)) for k in range(N_FOLDS)])
    return _sum_of(
        pass_over(partial(held_out, models=fitted), X, weight * (fold == k)) for k, fitted in enumerate(fits)
    )


def _sum_of(parts: Iterable[HeldOut]) -> HeldOut:
    return reduce(operator.add, parts)


def _fits(
    models: dict[str, EllipticalScore], parts: list[tuple[Any, Any]]
) -> list[dict[str, EllipticalScore]]:
    """For every training part the laws that could be fitted on all of them."""
    found: dict[str, list[EllipticalScore]] = {}
    reason: ValueError | None = None
    for name, model in models.items():
        try:
            found[name] = [_fitted(model, X, weight) for X, weight in parts]
        except ValueError as error:
            reason = error
    if not found:
        msg = f"no candidate of {list(models)} could be fitted on parts of the rows: {reason}"
        raise ValueError(msg) from reason
    return [{name: fits[k] for name, fits in found.items()} for k in range(len(parts))]


def _fitted(model: EllipticalScore, X: Any, weight: Any) -> EllipticalScore:
    """A copy fitted on a part of the rows, whose density can be compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the winner's last fit says what matters
        fitted = clone(model).fit(X, sample_weight=weight)
    varying = int(fitted._root.any(axis=0).sum())
    if len(fitted._root) < varying:
        msg = (
            f"{model!r} has rank {len(fitted._root)} of {varying} columns, and a density on a part of the space cannot "
            "be compared. Remedy: GaussianScore(ridge=...)"
        )
        raise ValueError(msg)
    return fitted


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
