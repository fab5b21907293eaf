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
from ._joint import JointData, make_additive, make_bilinear, make_even, make_rbf
from ._pairs import GeneDiseaseData, PairsData, load_gene_disease, make_pairs
from ._real import MnistData, PatchSeqData, load_mnist, load_patchseq
from ._stein import MultipleResponseData, make_multiple_response

__all__ = [
    "COPULA_SETTINGS",
    "CopulaData",
    "CopulaTruth",
    "GeneDiseaseData",
    "JointData",
    "MnistData",
    "MultipleResponseData",
    "PairsData",
    "PatchSeqData",
    "RatingsData",
    "load_gene_disease",
    "load_mnist",
    "load_patchseq",
    "load_ratings",
    "make_additive",
    "make_bilinear",
    "make_copula",
    "make_even",
    "make_multiple_response",
    "make_pairs",
    "make_ratings",
    "make_rbf",
]
