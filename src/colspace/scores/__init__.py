"""Models of a density that give its scores, for Stein's method."""

from ._base import ScoreModel

__all__ = ["ScoreModel"]
