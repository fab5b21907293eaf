"""Pictures of fitted estimators; each Display holds numbers first and draws on request."""

from ._embedding import EmbeddingDisplay
from ._loadings import LoadingsDisplay
from ._singular_values import SingularValuesDisplay

__all__ = ["EmbeddingDisplay", "LoadingsDisplay", "SingularValuesDisplay"]
