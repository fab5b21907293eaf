"""Generators of every simulation."""

from ._joint import JointData, make_additive, make_bilinear, make_even, make_rbf

__all__ = ["JointData", "make_additive", "make_bilinear", "make_even", "make_rbf"]
