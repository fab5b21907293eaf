"""Pictures of fitted estimators; each Display holds numbers first and draws on request."""

from ._atoms import AtomsDisplay
from ._coefficients import CoefficientsDisplay
from ._embedding import EmbeddingDisplay
from ._imputation import ImputationDisplay
from ._loadings import LoadingsDisplay
from ._marginals import MarginalDisplay
from ._missingness import MissingnessDisplay
from ._pareto import ParetoDisplay
from ._reliability import ReliabilityDisplay
from ._singular_values import SingularValuesDisplay
from ._topics import TopicsDisplay

__all__ = [
    "AtomsDisplay",
    "CoefficientsDisplay",
    "EmbeddingDisplay",
    "ImputationDisplay",
    "LoadingsDisplay",
    "MarginalDisplay",
    "MissingnessDisplay",
    "ParetoDisplay",
    "ReliabilityDisplay",
    "SingularValuesDisplay",
    "TopicsDisplay",
]
