"""Links between two kinds of entities: predictions, rankings, and what they need."""

from ._bilinear import BilinearPairRegressor
from ._features import PairTable
from ._kernel_ridge import KernelPairRegressor
from ._links import link_matrix
from ._regressor import PairRegressor
from ._search import HeldOutEntities, pair_scorer
from ._spectral import DisconnectedGraphWarning, spectral_features

__all__ = [
    "BilinearPairRegressor",
    "DisconnectedGraphWarning",
    "HeldOutEntities",
    "KernelPairRegressor",
    "PairRegressor",
    "PairTable",
    "link_matrix",
    "pair_scorer",
    "spectral_features",
]
