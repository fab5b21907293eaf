"""Additive statistics: frozen dataclasses that merge by ``+`` and central moments made from them."""

from ._additive import Additive, all_finite
from ._columns import (
    ColumnMoments,
    TableMoments,
    clear_flat,
    column_moments,
    fourth_norms,
    is_flat,
    table_moments,
)
from ._quantiles import (
    CAPACITY,
    ColumnQuantiles,
    QuantileSummary,
    column_quantiles,
    quantile_summary,
    weighted_unique,
)
from ._sliced import SlicedMoments, sliced_moments
from ._triple import CentredMoments, TripleMoments, TriplePlan, add_gram, centre, mirrored, weighted_gram

__all__ = [
    "CAPACITY",
    "Additive",
    "CentredMoments",
    "ColumnMoments",
    "ColumnQuantiles",
    "QuantileSummary",
    "SlicedMoments",
    "TableMoments",
    "TripleMoments",
    "TriplePlan",
    "add_gram",
    "all_finite",
    "centre",
    "clear_flat",
    "column_moments",
    "column_quantiles",
    "fourth_norms",
    "is_flat",
    "mirrored",
    "quantile_summary",
    "sliced_moments",
    "table_moments",
    "weighted_gram",
    "weighted_unique",
]
