"""Generators of every simulation."""

from ._joint import JointData, make_additive, make_bilinear, make_even, make_rbf
from ._stein import MultipleResponseData, make_multiple_response

__all__ = [
    "JointData",
    "MultipleResponseData",
    "make_additive",
    "make_bilinear",
    "make_even",
    "make_multiple_response",
    "make_rbf",
]
