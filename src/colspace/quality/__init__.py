"""How good a fit is: a reduction on rows left out beside other ways, an imputation on hidden cells."""

from ._compare import compare_reductions, held_out_guesses
from ._imputation import ColumnCheck, ImputationCheck, check_imputation
from ._methods import PlsDirections, RidgeDirections, default_readers, default_reducers
from ._result import ReductionComparison, ReductionScore

__all__ = [
    "ColumnCheck",
    "ImputationCheck",
    "PlsDirections",
    "ReductionComparison",
    "ReductionScore",
    "RidgeDirections",
    "check_imputation",
    "compare_reductions",
    "default_readers",
    "default_reducers",
    "held_out_guesses",
]
