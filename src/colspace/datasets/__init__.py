"""Generators of every simulation, and loaders of real data."""

from ._copula import (
    COPULA_SETTINGS,
    CopulaData,
    CopulaTruth,
    RatingsData,
    load_ratings,
    make_copula,
    make_ratings,
)
from ._dictionary import DictionaryData, SemisyntheticData, make_dictionary, make_semisynthetic
from ._joint import JointData, make_additive, make_bilinear, make_even, make_rbf
from ._real import MnistData, PatchSeqData, load_mnist, load_patchseq
from ._stein import MultipleResponseData, make_multiple_response

__all__ = [
    "COPULA_SETTINGS",
    "CopulaData",
    "CopulaTruth",
    "DictionaryData",
    "JointData",
    "MnistData",
    "MultipleResponseData",
    "PatchSeqData",
    "RatingsData",
    "SemisyntheticData",
    "load_mnist",
    "load_patchseq",
    "load_ratings",
    "make_additive",
    "make_bilinear",
    "make_copula",
    "make_dictionary",
    "make_even",
    "make_multiple_response",
    "make_ratings",
    "make_rbf",
    "make_semisynthetic",
]
