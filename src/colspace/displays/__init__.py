"""Pictures of fitted estimators; each Display holds numbers first and draws on request."""

from ._embedding import EmbeddingDisplay
from ._imputation import ImputationDisplay
from ._loadings import LoadingsDisplay
from ._marginals import MarginalDisplay
from ._missingness import MissingnessDisplay
from ._reliability import ReliabilityDisplay
from ._singular_values import SingularValuesDisplay

__all__ = [
    "EmbeddingDisplay",
    "ImputationDisplay",
    "LoadingsDisplay",
    "MarginalDisplay",
    "MissingnessDisplay",
    "ReliabilityDisplay",
    "SingularValuesDisplay",
]
