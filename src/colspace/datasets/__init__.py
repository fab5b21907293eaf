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
from ._pairs import GeneDiseaseData, PairsData, load_gene_disease, make_pairs
from ._real import (
    JobsData,
    MnistData,
    PatchSeqData,
    PneumoniaData,
    load_jobs,
    load_mnist,
    load_patchseq,
    load_pneumonia,
)
from ._stein import MultipleResponseData, make_multiple_response

__all__ = [
    "COPULA_SETTINGS",
    "CopulaData",
    "CopulaTruth",
    "DictionaryData",
    "GeneDiseaseData",
    "JobsData",
    "JointData",
    "MnistData",
    "MultipleResponseData",
    "PairsData",
    "PatchSeqData",
    "PneumoniaData",
    "RatingsData",
    "SemisyntheticData",
    "load_gene_disease",
    "load_jobs",
    "load_mnist",
    "load_patchseq",
    "load_pneumonia",
    "load_ratings",
    "make_additive",
    "make_bilinear",
    "make_copula",
    "make_dictionary",
    "make_even",
    "make_multiple_response",
    "make_pairs",
    "make_ratings",
    "make_rbf",
    "make_semisynthetic",
]
