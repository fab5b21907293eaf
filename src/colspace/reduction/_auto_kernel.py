"""Gradients of the kernel regression without some of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from ._gradient import KernelFit

Array = NDArray[np.float64]

# share of the sample's rows up to which what leaving them out does to gradients is taken to first order
_FEW = 0.3


@dataclass(frozen=True)
class Products:
    """A symmetric matrix as a sum of A'B + B'A of factors with few rows."""

    pairs: tuple[tuple[Array, Array], ...]

    def __matmul__(self, x: Array) -> Array:
        """The matrix times columns."""
        return reduce(add, [A.T @ (B @ x) + B.T @ (A @ x) for A, B in self.pairs])

    @property
    def dense(self) -> Array:
        """The matrix."""
        return self.dense_block(slice(None), np.ones(self.pairs[0][0].shape[1]))

    def dense_block(self, s: slice, scale: Array) -> Array:
        """``block`` as a matrix."""
        total = reduce(add, [A[:, s].T @ B[:, s] for A, B in self.pairs])
        return (total + total.T) * scale * scale[:, None]

    @property
    def diagonal(self) -> Array:
        """Its diagonal."""
        return 2 * reduce(add, [np.einsum("ij,ij->j", A, B) for A, B in self.pairs])

    def block(self, s: slice, scale: Array) -> Products:
        """A block on the diagonal, rows and columns scaled."""
        return Products(tuple((A[:, s] * scale, B[:, s] * scale) for A, B in self.pairs))

    def times(self, c: float) -> Products:
        """c times the matrix."""
        return Products(tuple((c * A, B) for A, B in self.pairs))


class KernelGradients:
    r"""Products of the gradients of a kernel regression without some of its rows.

    Without the rows g the coefficients are :math:`\alpha - P_{\cdot g} P_{gg}^{-1} \alpha_g` with
    :math:`P = (K + \lambda W^{-1})^{-1}`. A change :math:`\delta` of the coefficients changes the products by
    :math:`\sum_i s_i (\dot g_i g_i^\top + g_i \dot g_i^\top)` to first order, and with
    :math:`q = K\,\mathrm{diag}(s) g` one half is :math:`2\gamma X^\top (\delta \circ q - (s \circ K\delta) \circ g)`. With
    :math:`\delta = P e` it takes no product with the kernel: :math:`K \delta = e - \lambda W^{-1} \delta`.
    """

    def __init__(self, fit: KernelFit, weights: Array) -> None:
        self.fit, self.weights = fit, weights
        assert fit.inverse is not None
        self.inverse = fit.inverse
        share = weights / weights.sum()
        self.smoothed = [fit.kernel @ (share[:, None] * g) for g in fit.gradients]

    def change(
        self, gone: NDArray[np.intp], shift: Array, solved: Array | None = None
    ) -> tuple[Array, Array]:
        """How coefficients change when responses have ``shift`` added and rows ``gone`` leave, and K times that.

        ``solved``: P times the shift, if known.
        """
        change = self.inverse @ shift if solved is None else solved.copy()
        added = shift.copy()
        if len(gone):
            rows, alpha = self.inverse[gone], self.fit.coefficients[gone]
            z = np.linalg.solve(rows[:, gone], alpha + change[gone])
            change -= rows.T @ z
            change[gone] = -alpha
            added[gone] -= z
        return change, added - self.fit.ridge / self.weights[:, None] * change

    def products(self, kept: NDArray[np.bool_], shift: Array, solved: Array | None = None) -> Products:
        """E[g g'] over the rows kept, summed over responses; ``solved``: see ``change``."""
        gone = np.flatnonzero(~kept)
        if len(gone) > _FEW * len(kept):
            return self._anew(np.flatnonzero(kept), shift)
        change, smooth = self.change(gone, shift, solved)
        smooth *= (self.weights / self.weights.sum())[:, None]
        share = np.where(kept, self.weights, 0.0) / self.weights[kept].sum()
        fit = self.fit
        pairs = []
        half = share[:, None] / 2
        moved = np.zeros_like(fit.rows)
        for j, (g, q) in enumerate(zip(fit.gradients, self.smoothed, strict=True)):
            pairs.append((g, half * g))
            moved += change[:, j, None] * q
            moved -= smooth[:, j, None] * g
        moved *= 2 * fit.gamma
        return Products((*pairs, (fit.rows, moved)))

    def _anew(self, rows: NDArray[np.intp], shift: Array) -> Products:
        """The same from a regression on these rows."""
        fit, w = self.fit, self.weights[rows]
        K = fit.kernel[rows][:, rows]
        R = (
            fit.kernel[rows] @ fit.coefficients
            + fit.ridge * fit.coefficients[rows] / w[:, None]
            + shift[rows]
        )
        system = K.copy()
        system[np.diag_indices_from(system)] += fit.ridge / w
        alpha = cho_solve(cho_factor(system, lower=True, overwrite_a=True, check_finite=False), R)
        few = replace(fit, rows=fit.rows[rows], kernel=K)
        share = w[:, None] / w.sum() / 2
        return Products(tuple((g, share * g) for g in (few.gradient(a) for a in alpha.T)))
