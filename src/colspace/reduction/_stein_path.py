"""Directions of a Gaussian score for many ridges and weights at the cost of one eigendecomposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..factor import SingularCovarianceError, eigh, fix_signs, left_singular, spectral_norm
from ._stein_fit import SteinOptions, is_flat, leading, settle, supervised_matrix
from ._stein_sums import SteinMoments

Array = NDArray[np.float64]

ZERO_RIDGE = (
    "a ridge of 0 needs a regular covariance, but some column is a combination of others, or rows are too few. "
    "Remedy: only ridges > 0"
)
_LANCZOS = 8  # columns per vector of the Krylov space from which iterations beat a full decomposition


class GaussianPath:
    r"""Moments in the eigenbasis U of the covariance, where every ridge a acts on each coordinate by itself.

    .. math:: P = U\,\mathrm{diag}\!\Big(\frac{1}{\lambda_j + a}\Big) U^\top, \qquad
        U^\top M_u U = \mathrm{diag}\!\Big(\frac{\lambda_j}{\lambda_j + a}\Big),

    so the matrix of the first order is diagonal plus rank q. ``moments`` are those of the unit precision, for
    scaled columns; ridges are relative to the unit matrix there.
    """

    def __init__(self, moments: SteinMoments, options: SteinOptions, labels: bool, n_columns: int) -> None:
        self.values, self.basis = eigh(moments.covariance)
        U = self.basis
        self._moments = replace(
            moments,
            first=U.T @ moments.first,
            second=None if moments.second is None else U.T @ moments.second @ U,
        )
        self._options = options
        self._transform = settle(options, moments, 0.0, labels, n_columns).transform

    def directions(self, ridge: float, weights: Sequence[float], r: int) -> list[Array]:
        """The r leading directions for each weight of the unlabelled block, in coordinates of ``basis``."""
        if ridge == 0 and self.values[0] <= 1e-10 * self.values[-1]:
            raise SingularCovarianceError(ZERO_RIDGE)
        precision = np.ones_like(self.values)  # the scale does not matter to directions
        if not np.isinf(ridge):
            precision = 1.0 / (np.maximum(self.values, 0.0) + ridge)
        block = np.maximum(self.values, 0.0) * precision
        m = self._moments
        scaled = replace(
            m,
            first=precision[:, None] * m.first,
            second=None if m.second is None else precision[:, None] * m.second * precision,
        )
        labeled = supervised_matrix(scaled, self._options.order, self._options.combine, self._transform, None)
        if is_flat(block):
            weights = [0.0] * len(weights)
        norm = spectral_norm(labeled)
        return [
            diagonal_plus(labeled, weight * norm * block / (block.max() or 1.0), r, self.values)
            for weight in weights
        ]


def diagonal_plus(L: Array, diagonal: Array, r: int, tie: Array) -> Array:
    """The r leading eigenvectors of L L' + diag(d)^2; ``tie`` orders coordinates where eigenvalues are equal."""
    p, k = L.shape
    if not diagonal.any():
        return left_singular(L, r, np.diag(tie))[0]
    if max(k, 2 * r + 1) * _LANCZOS < p:
        square = diagonal[:, None] ** 2

        def product(V: Array) -> Array:
            V = V.reshape(p, -1)
            return L @ (L.T @ V) + square * V

        operator = LinearOperator((p, p), matvec=product, matmat=product, dtype=np.float64)
        try:
            return fix_signs(eigsh(operator, r, v0=np.random.default_rng(0).standard_normal(p))[1][:, ::-1])
        except ArpackNoConvergence:  # no gap: the full decomposition settles it
            pass
    gram = L @ L.T
    gram[np.diag_indices(p)] += diagonal**2
    return leading(gram, r, np.diag(tie))[0]
