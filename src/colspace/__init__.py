"""The few directions in a wide table that matter."""

from __future__ import annotations

TYPE_CHECKING = (
    False  # as type checkers know it; nothing is imported here, so that Ctrl-C finds the command line ready
)
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"

__all__ = [
    "BilinearPairRegressor",
    "ConstantColumnWarning",
    "CopulaImputer",
    "DeterminedResponseWarning",
    "HeavyTailWarning",
    "HoleyReduction",
    "ImputationCheck",
    "JointReduction",
    "KernelPairRegressor",
    "NumericLabelsWarning",
    "PairRegressor",
    "PrincipalHessian",
    "RankTest",
    "ReducedRank",
    "ReductionComparison",
    "SingularCovarianceWarning",
    "SlicedAverage",
    "SlicedInverse",
    "SteinReduction",
    "SteinReductionCV",
    "StructuredOLS",
    "SupervisedDictionaryClassifier",
    "SupervisedDictionaryClassifierCV",
    "SupervisedDictionaryRegressor",
    "SupervisedDictionaryRegressorCV",
    "check_imputation",
    "compare_reductions",
    "load",
    "reduce_rows",
    "save",
    "spectral_features",
    "stack_blocks",
    "tail_index",
]

if TYPE_CHECKING:
    from ._blocks import stack_blocks
    from ._response import DeterminedResponseWarning, HeavyTailWarning, NumericLabelsWarning, tail_index
    from ._rows import reduce_rows
    from ._validation import ConstantColumnWarning
    from .copula import CopulaImputer
    from .dictionary import (
        SupervisedDictionaryClassifier,
        SupervisedDictionaryClassifierCV,
        SupervisedDictionaryRegressor,
        SupervisedDictionaryRegressorCV,
    )
    from .factor import SingularCovarianceWarning
    from .io import load, save
    from .pairs import BilinearPairRegressor, KernelPairRegressor, PairRegressor, spectral_features
    from .quality import ImputationCheck, ReductionComparison, check_imputation, compare_reductions
    from .reduction import (
        HoleyReduction,
        JointReduction,
        PrincipalHessian,
        RankTest,
        ReducedRank,
        SlicedAverage,
        SlicedInverse,
        SteinReduction,
        SteinReductionCV,
        StructuredOLS,
    )

_HOMES = {
    "BilinearPairRegressor": "pairs",
    "ConstantColumnWarning": "_validation",
    "CopulaImputer": "copula",
    "HeavyTailWarning": "_response",
    "DeterminedResponseWarning": "_response",
    "NumericLabelsWarning": "_response",
    "SupervisedDictionaryClassifier": "dictionary",
    "SupervisedDictionaryClassifierCV": "dictionary",
    "SupervisedDictionaryRegressor": "dictionary",
    "SupervisedDictionaryRegressorCV": "dictionary",
    "KernelPairRegressor": "pairs",
    "PairRegressor": "pairs",
    "ReductionComparison": "quality",
    "SingularCovarianceWarning": "factor",
    "ImputationCheck": "quality",
    "check_imputation": "quality",
    "compare_reductions": "quality",
    "load": "io",
    "reduce_rows": "_rows",
    "save": "io",
    "spectral_features": "pairs",
    "stack_blocks": "_blocks",
    "tail_index": "_response",
}


_ROOMS = (
    "copula",
    "datasets",
    "dictionary",
    "displays",
    "experiments",
    "factor",
    "io",
    "metrics",
    "moments",
    "pairs",
    "quality",
    "reduction",
    "report",
    "scores",
)


def __getattr__(name: str) -> Any:
    """Load a public name or room when it is first asked for, so that the command line starts at once."""
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name not in __all__:
        msg = f"module 'colspace' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_HOMES.get(name, 'reduction')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
