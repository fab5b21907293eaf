"""Spectral estimators: whiten, take a moment, factor it."""

from ._joint import JointReduction
from ._rank import RankTest

__all__ = ["JointReduction", "RankTest"]
