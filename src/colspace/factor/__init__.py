"""Pure functions on small matrices: whiten, factor, sketch, select."""

from ._linalg import FactorizationError, eigh, matrix_rank, singular_values, spectral_norm, svd
from ._select import keep_cells, keep_largest_in_columns, select_rows, sparse_proxy
from ._sketch import count_sketch, factor_by_products, gaussian_sketch
from ._svd import break_ties, fix_signs, hosvd, left_singular, unfold
from ._whiten import (
    SingularCovarianceError,
    SingularCovarianceWarning,
    Whitener,
    diagonal_whitener,
    full_whitener,
    ledoit_wolf_shrinkage,
    ridge_whitener,
    shrink_correlation,
    smallest_ridge,
    warn_singular,
)

__all__ = [
    "FactorizationError",
    "SingularCovarianceError",
    "SingularCovarianceWarning",
    "Whitener",
    "break_ties",
    "count_sketch",
    "diagonal_whitener",
    "eigh",
    "factor_by_products",
    "fix_signs",
    "full_whitener",
    "gaussian_sketch",
    "hosvd",
    "keep_cells",
    "keep_largest_in_columns",
    "ledoit_wolf_shrinkage",
    "left_singular",
    "matrix_rank",
    "ridge_whitener",
    "select_rows",
    "shrink_correlation",
    "singular_values",
    "smallest_ridge",
    "sparse_proxy",
    "spectral_norm",
    "svd",
    "unfold",
    "warn_singular",
]
