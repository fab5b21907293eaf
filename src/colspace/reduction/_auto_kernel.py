"""Gradients of the kernel regression without some of its rows."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A symmetric matrix: ``base``, if any, and a sum of A'B + B'A of factors with few rows."""

    pairs: tuple[tuple[Array, Array], ...]
    base: Array | None = None

    def __matmul__(self, x: Array) -> Array:
        """The matrix times columns."""
        total = reduce(add, [A.T @ (B @ x) + B.T @ (A @ x) for A, B in self.pairs])
        return total if self.base is None else total + self.base @ x

    @property
    def dense(self) -> Array:
        """The matrix."""
        total = reduce(add, [A.T @ B for A, B in self.pairs])
        return total + total.T if self.base is None else total + total.T + self.base

    @property
    def diagonal(self) -> Array:
        """Its diagonal."""
        found = 2 * reduce(add, [np.einsum("ij,ij->j", A, B) for A, B in self.pairs])
        return found if self.base is None else found + np.diag(self.base)

    def scaled(self, scale: Array) -> Products:
        """Rows and columns scaled."""
        base = None if self.base is None else self.base * scale * scale[:, None]
        return Products(tuple((A * scale, B * scale) for A, B in self.pairs), base)

    def times(self, c: float) -> Products:
        """c times the matrix."""
        return Products(
            tuple((c * A, B) for A, B in self.pairs), None if self.base is None else c * self.base
        )


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

    def of_all(self, s: slice) -> Array:
        """E[g g'] of all rows within a block."""
        known = self.fit.products
        if (s.start, s.stop) not in known:
            known[s.start, s.stop] = self.fit.gradient_products(self.weights, s)
        return known[s.start, s.stop]

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

    def products(
        self, kept: NDArray[np.bool_], shift: Array, blocks: Sequence[slice], solved: Array | None = None
    ) -> list[Products]:
        """E[g g'] over the rows kept within every block, summed over responses; ``solved``: see ``change``."""
        gone = np.flatnonzero(~kept)
        if len(gone) > _FEW * len(kept):
            return self._anew(np.flatnonzero(kept), shift, blocks)
        change, smooth = self.change(gone, shift, solved)
        weight, rest = self.weights.sum(), self.weights[kept].sum()
        smooth *= (self.weights / weight)[:, None]
        fit = self.fit
        moved = np.zeros_like(fit.rows)
        for j, (g, q) in enumerate(zip(fit.gradients, self.smoothed, strict=True)):
            moved += change[:, j, None] * q
            moved -= smooth[:, j, None] * g
        moved *= 2 * fit.gamma
        left = np.vstack([g[gone] for g in fit.gradients])
        half = np.tile(self.weights[gone] / (-2.0 * rest), len(fit.gradients))[:, None]
        return [
            Products(
                ((left[:, s], half * left[:, s]), (fit.rows[:, s], moved[:, s])),
                weight / rest * self.of_all(s),
            )
            for s in blocks
        ]

    def _anew(self, rows: NDArray[np.intp], shift: Array, blocks: Sequence[slice]) -> list[Products]:
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
        gradients = [few.gradient(a) for a in alpha.T]
        return [Products(tuple((g[:, s], share * g[:, s]) for g in gradients)) for s in blocks]
