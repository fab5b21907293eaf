"""Models of a density that give its scores, for Stein's method."""

from ..factor import SingularCovarianceWarning
from ._auto import choose_score
from ._base import ScoreModel
from ._elliptical import EllipticalScore
from ._gaussian import GaussianScore, gaussian_from_moments
from ._hyperbolic import HyperbolicScore
from ._kernel import KernelScore
from ._neural import NeuralScore
from ._standard import singular_ridge
from ._student import StudentScore

__all__ = [
    "EllipticalScore",
    "GaussianScore",
    "HyperbolicScore",
    "KernelScore",
    "NeuralScore",
    "ScoreModel",
    "SingularCovarianceWarning",
    "StudentScore",
    "choose_score",
    "gaussian_from_moments",
    "singular_ridge",
]
