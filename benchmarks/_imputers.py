"""Rivals of the copula imputer with one interface: a name, and fit_transform(X with NaN) -> the filled table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colspace.experiments._copula_sim import ppca, soft_impute

Array = NDArray[np.float64]


class Imputer(Protocol):
    @property
    def name(self) -> str: ...

    def fit_transform(self, X: Array) -> Array: ...


def load_gcimpute() -> Any:
    """gcimpute's low-rank class under NumPy 2, without its filter that turns all warnings into errors."""
    if not hasattr(np, "round_"):
        setattr(np, "round_", np.round)  # noqa: B010
    with warnings.catch_warnings():
        from gcimpute.low_rank_gaussian_copula import LowRankGaussianCopula
    return LowRankGaussianCopula


def standardised(X: Array, fill: Callable[[Array], Array]) -> Array:
    """Fill on columns of mean zero and variance one; observed cells come back as they were."""
    mean, sd = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    return np.where(np.isnan(X), mean + sd * fill((X - mean) / sd), X)


def rounded(filled: Array, X: Array) -> Array:
    """Columns of whole numbers filled with whole numbers of the observed range."""
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    whole = np.all(np.isnan(X) | (np.rint(X) == X), axis=0)
    return np.where(whole, np.clip(np.rint(filled), low, high), filled)


class GCImpute:
    """gcimpute, low rank, with its own defaults."""

    def __init__(self, rank: int) -> None:
        self.name, self.rank, self.model = "gcimpute", rank, None

    def fit_transform(self, X: Array) -> Array:
        self.model = load_gcimpute()(rank=self.rank)
        filled: Array = self.model.fit_transform(X, convergence_verbose=False)
        return filled

    def interval(self, level: float) -> tuple[Array, Array]:
        """Limits of the missing cells of the fitted table, NaN elsewhere."""
        assert self.model is not None
        limits = self.model.get_confidence_interval(alpha=level)
        return limits["lower"], limits["upper"]


class Iterative:
    """scikit-learn's IterativeImputer; at most ``nearest`` columns predict each other column."""

    def __init__(self, nearest: int | None = None) -> None:
        self.name, self.nearest = "IterativeImputer", nearest

    def fit_transform(self, X: Array) -> Array:
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        model = IterativeImputer(n_nearest_features=self.nearest, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ten rounds by default, converged or not
            filled: Array = model.fit_transform(X)
        return filled


class Nearest:
    """scikit-learn's KNNImputer on standardised columns."""

    name = "KNNImputer"

    def fit_transform(self, X: Array) -> Array:
        from sklearn.impute import KNNImputer

        return standardised(X, KNNImputer().fit_transform)


class ProbabilisticPCA:
    """Probabilistic PCA by EM on standardised columns."""

    def __init__(self, rank: int) -> None:
        self.name, self.rank = "PPCA", rank

    def fit_transform(self, X: Array) -> Array:
        return standardised(X, lambda Z: ppca(Z, self.rank))


class SoftImpute:
    """Soft-impute on standardised columns, lambda chosen on a tenth of the observed cells."""

    name = "soft-impute"

    def fit_transform(self, X: Array) -> Array:
        return standardised(X, soft_impute)


def rivals(rank: int) -> list[Imputer]:
    return [GCImpute(rank), Iterative(20), Nearest(), ProbabilisticPCA(rank), SoftImpute()]


def check() -> None:
    """Each rival on a case known by hand."""
    truth = np.outer(np.linspace(-1.0, 1.0, 61), np.tile([1.0, -1.0], 8))
    X = truth.copy()
    holes = np.array([(5, 1), (20, 2), (40, 3), (52, 0), (30, 5)])
    X[tuple(holes.T)] = np.nan
    known = ~np.isnan(X)
    for imputer in (Iterative(), Nearest(), ProbabilisticPCA(1), SoftImpute(), GCImpute(1)):
        filled = imputer.fit_transform(X)
        assert np.array_equal(filled[known], X[known]), imputer.name
        error = np.abs(filled - truth)[tuple(holes.T)] / np.abs(truth).max(axis=0)[holes[:, 1]]
        assert error.max() < 0.1, (imputer.name, error)
    # the mean of the five nearest rows, all at one distance
    Y = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [0.0, 5.0], [0.0, np.nan], [9.0, 9.0]])
    assert np.isclose(Nearest().fit_transform(Y)[5, 1], 3.0)
    Z = np.array([[1.0, 0.5], [4.0, np.nan]])
    assert np.array_equal(rounded(np.array([[7.0, 0.5], [2.6, 0.7]]), Z), [[4.0, 0.5], [3.0, 0.7]])


if __name__ == "__main__":
    check()
    print("every rival fills a table of rank one")
