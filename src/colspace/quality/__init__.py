"""How good a fit is: a reduction on rows left out beside other ways, an imputation on hidden cells."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._compare import compare_reductions, held_out_guesses
    from ._imputation import ColumnCheck, ImputationCheck, check_imputation
    from ._methods import PlsDirections, RidgeDirections, default_readers, default_reducers
    from ._result import ReductionComparison, ReductionScore
    from ._ridge import LooRidge

__all__ = [
    "ColumnCheck",
    "ImputationCheck",
    "LooRidge",
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

_HOMES = {
    "ColumnCheck": "_imputation",
    "ImputationCheck": "_imputation",
    "LooRidge": "_ridge",
    "PlsDirections": "_methods",
    "ReductionComparison": "_result",
    "ReductionScore": "_result",
    "RidgeDirections": "_methods",
    "check_imputation": "_imputation",
    "compare_reductions": "_compare",
    "default_readers": "_methods",
    "default_reducers": "_methods",
    "held_out_guesses": "_compare",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for: the check of an imputation needs no reductions."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
