"""How well a reduction keeps what matters for y, on rows left out, beside other ways."""

from ._compare import compare_reductions, held_out_guesses
from ._methods import PlsDirections, RidgeDirections, default_readers, default_reducers
from ._result import ReductionComparison, ReductionScore

__all__ = [
    "PlsDirections",
    "ReductionComparison",
    "ReductionScore",
    "RidgeDirections",
    "compare_reductions",
    "default_readers",
    "default_reducers",
    "held_out_guesses",
]
