"""Generators of every simulation."""

from ._copula import (
    COPULA_SETTINGS,
    CopulaData,
    CopulaTruth,
    RatingsData,
    load_ratings,
    make_copula,
    make_ratings,
)
from ._joint import JointData, make_additive, make_bilinear, make_even, make_rbf
from ._stein import MultipleResponseData, make_multiple_response

__all__ = [
    "COPULA_SETTINGS",
    "CopulaData",
    "CopulaTruth",
    "JointData",
    "MultipleResponseData",
    "RatingsData",
    "load_ratings",
    "make_additive",
    "make_bilinear",
    "make_copula",
    "make_even",
    "make_multiple_response",
    "make_ratings",
    "make_rbf",
]
