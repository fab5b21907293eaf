"""Generators of every simulation, and loaders of real data."""

from ._joint import JointData, make_additive, make_bilinear, make_even, make_rbf
from ._real import MnistData, PatchSeqData, load_mnist, load_patchseq
from ._stein import MultipleResponseData, make_multiple_response

__all__ = [
    "JointData",
    "MnistData",
    "MultipleResponseData",
    "PatchSeqData",
    "load_mnist",
    "load_patchseq",
    "make_additive",
    "make_bilinear",
    "make_even",
    "make_multiple_response",
    "make_rbf",
]
