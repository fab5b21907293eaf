"""Rows that are wild in all their columns at once: the factors' law with the tails of Student's t."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, ndtr, ndtri, stdtr, stdtrit

Array = NDArray[np.float64]

_FARTHEST = 20.0  # beyond which SciPy's quantiles of t are wrong or infinite for some degrees of freedom
_NODES = (np.arange(64) + 0.5) / 64
_ROOT = 0.5 * np.log(2 * np.pi)


def student_scores(z: Array, df: float) -> Array:
    r"""Where Student's t has the share that the normal law has below z: :math:`T_\nu^{-1}(\Phi(z))`."""
    low = stdtrit(df, ndtr(-np.minimum(np.abs(z), _FARTHEST)))
    return np.asarray(np.copysign(low, z))


def normal_scores(t: Array, df: float) -> Array:
    """The inverse of `student_scores`."""
    low = ndtri(np.maximum(stdtr(df, -np.abs(t)), ndtr(-_FARTHEST)))
    return np.asarray(np.copysign(low, t))


def log_density(t: Array, df: Any) -> Array:
    """Of Student's t with ``df`` degrees of freedom."""
    half = 0.5 * np.asarray(df)
    return np.asarray(-betaln(half, 0.5) - 0.5 * np.log(df) - (half + 0.5) * np.log1p(t**2 / df))


def log_steepness(t: Array, df: float) -> Array:
    """log dt/dz of `student_scores` at t."""
    z = normal_scores(t, df)
    return np.asarray(-0.5 * z**2 - _ROOT - log_density(t, df))


@dataclass(frozen=True)
class StudentLaw:
    """Student's t with degrees of freedom of each cell, in place of the normal law of its standardised z."""

    df: Array

    def some(self, on: Any) -> StudentLaw:
        """That of some of the cells."""
        return replace(self, df=self.df[on])

    def quantile(self, share: Array | float) -> Array:
        """Below which a share lies: shares x cells."""
        df, which = np.unique(
            self.df, return_inverse=True
        )  # few: cells of a table differ in what their rows show
        return np.asarray(stdtrit(df, np.asarray(share)[..., None])[..., which])

    def below(self, at: Array) -> Array:
        """Share below."""
        return np.asarray(stdtr(self.df, at))

    def log_density(self, at: Array) -> Array:
        """Log density."""
        return log_density(at, self.df)

    @property
    def nodes(self) -> Array:
        """Places of equal weight of every cell."""
        return self.quantile(_NODES)

    @property
    def variance(self) -> Array:
        """That of every cell, infinite up to two degrees of freedom."""
        return np.where(self.df > 2, self.df / np.maximum(self.df - 2.0, 1e-300), np.inf)
