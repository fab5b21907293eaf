"""Spectral estimators: whiten, take a moment, factor it."""

from ._gaps import HoleyReduction
from ._joint import JointReduction
from ._phd import PrincipalHessian
from ._rank import RankTest
from ._rrr import ReducedRank
from ._sliced import SlicedAverage, SlicedInverse
from ._sols import StructuredOLS
from ._stein import SteinReduction
from ._stein_cv import SteinReductionCV

__all__ = [
    "HoleyReduction",
    "JointReduction",
    "PrincipalHessian",
    "RankTest",
    "ReducedRank",
    "SlicedAverage",
    "SlicedInverse",
    "SteinReduction",
    "SteinReductionCV",
    "StructuredOLS",
]
