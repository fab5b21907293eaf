"""Additive statistics: frozen dataclasses that merge by ``+`` and central moments made from them."""

from ._additive import Additive, shared
from ._columns import ColumnMoments, column_moments, fourth_norms
from ._sliced import SlicedMoments, sliced_moments
from ._triple import CentredMoments, TripleMoments, TriplePlan, centre, weighted_gram

__all__ = [
    "Additive",
    "CentredMoments",
    "ColumnMoments",
    "SlicedMoments",
    "TripleMoments",
    "TriplePlan",
    "centre",
    "column_moments",
    "fourth_norms",
    "shared",
    "sliced_moments",
    "weighted_gram",
]
