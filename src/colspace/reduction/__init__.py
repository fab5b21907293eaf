"""Spectral estimators: whiten, take a moment, factor it."""

from ._joint import JointReduction
from ._phd import PrincipalHessian
from ._rank import RankTest
from ._rrr import ReducedRank
from ._sliced import SlicedAverage, SlicedInverse
from ._sols import StructuredOLS

__all__ = [
    "JointReduction",
    "PrincipalHessian",
    "RankTest",
    "ReducedRank",
    "SlicedAverage",
    "SlicedInverse",
    "StructuredOLS",
]
