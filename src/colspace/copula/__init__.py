"""Low-rank Gaussian copulas for mixed tables with gaps."""

from ._bounds import error_bound
from ._columns import LeftOutWarning
from ._imputer import CopulaImputer
from ._kinds import UnseenLevelWarning
from ._pairs import UnseenPairsWarning
from ._pool import Pooled, pool

__all__ = [
    "CopulaImputer",
    "LeftOutWarning",
    "Pooled",
    "UnseenLevelWarning",
    "UnseenPairsWarning",
    "error_bound",
    "pool",
]
