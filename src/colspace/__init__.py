"""The few directions in a wide table that matter."""

from ._blocks import stack_blocks
from ._response import HeavyTailWarning, tail_index
from ._rows import reduce_rows
from ._validation import ConstantColumnWarning
from .reduction import (
    JointReduction,
    PrincipalHessian,
    RankTest,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    StructuredOLS,
)

__version__ = "0.1.0"

__all__ = [
    "ConstantColumnWarning",
    "HeavyTailWarning",
    "JointReduction",
    "PrincipalHessian",
    "RankTest",
    "ReducedRank",
    "SlicedAverage",
    "SlicedInverse",
    "StructuredOLS",
    "reduce_rows",
    "stack_blocks",
    "tail_index",
]
