r"""Errors of directions under moments="auto": the fit without each group of rows, at the ridges and weights of all.

In whitened coordinates a of all rows, :math:`a = (S + \lambda)^{-1/2} x`, the rows without a group have covariance
:math:`\Sigma` and metric :math:`M = \Sigma + \lambda\,\mathrm{diag}` (the columns' new variances in these coordinates), which is the
identity for all rows. With :math:`M = C C^\top` the stack is formed in coordinates :math:`C^{-1} a`, and its leading
eigenvectors U give the directions :math:`C^{-\top} U`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve, solve_triangular

from ..factor import eigh
from ..moments import centre
from ._auto_groups import GroupPart, GroupParts
from ._auto_kernel import KernelGradients, Products
from ._auto_linear import BlockSums, Ridges, block_agreements
from ._auto_rows import RowSample
from ._auto_tiles import RowDeal
from ._groups import GroupSums
from ._jackknife import LeftOut, leave_out
from ._ridge import Ridge

Array = NDArray[np.float64]

# rows of the sample per coordinate from which third moments of the columns are worth their noise, and the most work on them
_ROWS = 6
_WORK = 5e9
_SPLITS = 5  # of the groups into halves, where directions are badly known
# errors of the jackknife between which halves of the rows take over, and where no part speaks louder than chance
_SOME, _ALL = (0.5, 0.7), (0.0, 1e-9)
_FLAT = 1e-10  # variance under which a standardised column is constant
_STEPS = 5
_DENSE = 120  # coordinates up to which all eigenvectors are found


@dataclass(frozen=True)
class Metric:
    r"""How a block's ridge weighs directions without some rows: :math:`M = \Sigma + \lambda B`, in coordinates of all.

    With standardised columns :math:`z = E a` the columns' variances are :math:`d = \mathrm{diag}(E \Sigma E^\top)`, and
    :math:`B = E^{-1} \mathrm{diag}(d) E^{-\top}`. ``unit`` columns keep theirs, and so do those of wide blocks.
    """

    ridge: Ridge
    covariance: Array
    unit: bool

    @property
    def fixed(self) -> bool:
        """Whether the columns' variances are those of all rows."""
        return self.unit or len(self.covariance) > _DENSE

    @cached_property
    def axes(self) -> Array:
        """Standardised columns by axes (rows of constant columns are zero)."""
        return self.ridge.axes.map * self.deviation[:, None]

    @cached_property
    def deviation(self) -> Array:
        """Deviations of the columns, one where they have the right units already or are constant."""
        T = self.ridge.axes.map
        if self.unit:
            return np.ones(len(T))
        norms = np.linalg.norm(T, axis=1)  # the axes are orthonormal
        return np.where(norms > 0, 1.0 / np.where(norms > 0, norms, 1.0), 1.0)

    @cached_property
    def variances(self) -> Array:
        """Variances of the standardised columns; one for those that these rows do not see vary."""
        if self.fixed:
            return np.ones(len(self.axes))
        E = self.axes * self.ridge.root
        d = np.einsum("ij,ij->i", E @ self.covariance, E)
        return np.where(d > _FLAT, d, 1.0)

    @cached_property
    def unit_shape(self) -> Array:
        """B of the formula."""
        root = self.ridge.root
        B = np.diag(1.0 / root**2)
        if not self.fixed:
            V = self.axes / root
            B += (V.T * (self.variances - 1.0)) @ V
        return B

    @cached_property
    def matrix(self) -> Array:
        """M of the formula."""
        return self.covariance + self.ridge.ridge * self.unit_shape

    @cached_property
    def factor(self) -> Array:
        """Lower C with C C' = M."""
        return np.asarray(np.linalg.cholesky(self.matrix), dtype=np.float64)

    def whitened(self, N: Array) -> Array:
        """C^-1 N C^-T."""
        half = self.half(N)
        return self.half(half.T)

    @cached_property
    def inverse(self) -> Array | None:
        """C^-1 of a narrow block: many products with small matrices are quicker than as many solves."""
        return (
            np.asarray(np.linalg.inv(self.factor), dtype=np.float64) if len(self.factor) <= _DENSE else None
        )

    def half(self, N: Array) -> Array:
        """C^-1 N."""
        if self.inverse is not None:
            return np.asarray(self.inverse @ N)
        return solve_triangular(self.factor, N, lower=True, check_finite=False)

    def fill(self) -> Array:
        r"""The order of PCA, :math:`S (S + \lambda)` of standardised columns, whitened and in units of the largest.

        With :math:`Q = B^{-1}` it is :math:`C^{-1} \Sigma Q M C^{-\top} = C^\top Q C - \lambda`.
        """
        C = self.factor
        if self.fixed:
            half = self.ridge.root[:, None] * C
        else:
            half = (self.axes * self.ridge.root) @ C / np.sqrt(self.variances)[:, None]
        G = half.T @ half
        G[np.diag_indices_from(G)] -= self.ridge.ridge
        return G / self.ridge.axes.values.max()

    def back(self, U: Array) -> Array:
        """C^-T U."""
        if self.inverse is not None:
            return np.asarray(self.inverse.T @ U)
        return solve_triangular(self.factor, U, lower=True, trans=1, check_finite=False)

    def loadings(self, U: Array) -> Array:
        """Directions for the columns from those in coordinates C^-1 a."""
        return self.ridge.axes.map @ (self.back(U) / self.ridge.root[:, None])

    def vectors(self, L: Array) -> Array:
        """The converse of ``loadings``."""
        return self.factor.T @ (self.ridge.root[:, None] * (self.axes.T @ (self.deviation[:, None] * L)))

    def times(self, L: Array) -> Array:
        """(S + ridge) L of all rows, in units of the columns: the directions of all rows are orthonormal in it."""
        V = self.axes * self.deviation[:, None]
        return V @ (self.ridge.root[:, None] ** 2 * (V.T @ L))


def krylov_vectors(apply: Callable[[Array], Array], start: Array, steps: int = _STEPS) -> Array:
    """Leading eigenvectors, as many as the start has, of a symmetric operator: Rayleigh-Ritz on start, G start, ..."""
    Q = np.linalg.qr(start)[0]
    basis, images = Q, apply(Q)
    last = images
    for _ in range(steps):
        W = last - basis @ (basis.T @ last)
        W -= basis @ (basis.T @ W)
        if not np.linalg.norm(W) > 1e-12 * np.linalg.norm(last) or basis.shape[1] + W.shape[1] > len(W):
            break
        Q = np.linalg.qr(W)[0]
        last = apply(Q)
        basis, images = np.hstack([basis, Q]), np.hstack([images, last])
    T = basis.T @ images
    return basis @ eigh((T + T.T) / 2)[1][:, ::-1][:, : start.shape[1]]


@dataclass(frozen=True)
class AutoFit:
    """What is kept of the fit on all rows: ridges, weights of the parts, label directions, and the kernel regression."""

    ridges: Ridges
    unit: bool
    r: int
    alpha: float | None
    blocks: BlockSums | None
    kernel: KernelGradients | None
    v_kernel: float
    v_moments: float
    fill: Sequence[float]  # weight of the order of PCA in each block
    sampled: Array  # whitened coordinates of the sample's rows
    weights: Array
    seconds: Sequence[Array] | None  # second moments of all rows, where they have a part
    full: Sequence[Array]
    total: GroupPart

    @cached_property
    def slices(self) -> list[slice]:
        """Where each block's coordinates stand."""
        ends = np.cumsum([len(ridge.axes.values) for ridge in self.ridges.blocks])
        return [
            slice(int(e) - len(x.axes.values), int(e)) for e, x in zip(ends, self.ridges.blocks, strict=True)
        ]

    @cached_property
    def spoken(self) -> list[tuple[Array, Array]]:
        """Weights and directions of the responses for the linear part of every block."""
        found = [eigh(a) for a in block_agreements(self.ridges, self.blocks, self.r)]
        return [(np.maximum(rho, 0.0), U) for rho, U in found]

    def is_weak(self) -> bool:
        """Whether all parts together explain no more on rows left out than chance may, (P + sqrt(2P))/n and twice that."""
        p, n = len(self.total.cross), self.ridges.count
        linear = max(float(rho.sum()) for rho, _ in self.spoken)
        chance = 2.0 * (p + np.sqrt(2.0 * p)) / n
        return linear + self.v_kernel + self.v_moments < chance * self.ridges.n_responses

    @cached_property
    def whole(self) -> Rest:
        """The sums of all rows."""
        return self.rest(self.total)

    def rest(self, sums: GroupPart) -> Rest:
        """Central moments of some rows and what the ridges make of them."""
        n = sums.count
        c = centre(sums.moments, y_scale=np.ones(len(sums.moments.y)))
        S = c.covariance[0, 0]
        T = sums.cross / n - np.outer(c.mean, sums.response / n)
        metrics = [
            Metric(ridge, S[s, s], self.unit)
            for ridge, s in zip(self.ridges.blocks, self.slices, strict=True)
        ]
        noise = [sums.noise[b] / n**2 for b in sorted(sums.noise)]
        return Rest(n, S, T, c.triple.get((0, 0)), noise, metrics)

    def solve(self, sums: GroupPart) -> list[Array]:
        """Directions of every block from the sums of some groups."""
        rest = self.rest(sums)
        bends = self.seconds is not None and self.has_third
        shifted, shared = self.kernel is not None or bends, self.alpha is None and self.blocks is not None
        along = self.coefficients(rest) if shifted or shared else None
        shift = along - self.coefficients_of_all if shifted and along is not None else None
        both = self.v_kernel + self.v_moments
        w_kernel, w_moments = (2 * v**2 / both if both > 0 else 0.0 for v in (self.v_kernel, self.v_moments))
        gradients = self.gradients(rest, sums.sampled > 0, shift, w_kernel)
        triple = None if self.seconds is None else rest.triple
        if triple is not None and shift is not None and bends:
            triple = triple - self.bent(shift)
        found = []
        for b, metric in enumerate(rest.metrics):
            t, C = self.linear(rest, b, along if shared else None), metric.factor
            inside = None if gradients is None else gradients[b]
            if len(C) > _DENSE:
                U = krylov_vectors(
                    self.operator(rest, b, t, inside, triple, w_moments), metric.vectors(self.full[b])
                )
            else:
                G = t @ t.T
                if inside is not None:
                    G += C.T @ (inside @ C)
                if triple is not None:
                    G += w_moments * self.moments(rest, b, triple)
                G += self.fill[b] * metric.fill()
                U = eigh((G + G.T) / 2)[1][:, ::-1][:, : self.r]
            found.append(metric.loadings(U))
        return found

    def operator(
        self, rest: Rest, b: int, t: Array, inside: Products | Array | None, triple: Array | None, w: float
    ) -> Callable[[Array], Array]:
        """The stack of a wide block as a function of columns; what is negative in the second moments stays in them."""
        metric, s = rest.metrics[b], self.slices[b]
        C, root = metric.factor, metric.ridge.root[:, None]
        fill = self.fill[b] / metric.ridge.axes.values.max()
        scale = 0.0 if triple is None else w / self.traces[b]

        def apply(x: Array) -> Array:
            y = t @ (t.T @ x) + fill * (C.T @ (root**2 * (C @ x)) - metric.ridge.ridge * x)
            if inside is not None:
                y += C.T @ (inside @ (C @ x))
            if triple is not None:
                z = metric.back(x)
                total = -(rest.noise[b] @ z)
                for h in triple:
                    half = h[s].T @ z
                    for m, other in zip(rest.metrics, self.slices, strict=True):
                        total += h[s, other] @ m.back(m.half(half[other]))
                y += scale * metric.half(total)
            return y

        return apply

    @cached_property
    def traces(self) -> list[float]:
        r"""Traces of the positive parts of all rows' second moments, :math:`\langle G, G_+ / t\rangle = t\,|G_+ / t|^2`."""
        found = []
        assert self.seconds is not None
        assert self.whole.triple is not None
        for s, positive, noise in zip(self.slices, self.seconds, self.whole.noise, strict=True):
            inner = sum(float(np.sum(h[s] * (positive @ h[s]))) for h in self.whole.triple)
            inner -= float(np.sum(positive * noise))
            size = float(np.sum(positive**2))
            found.append(inner / size if size > 0 and inner > 0 else 1.0)
        return found

    def linear(self, rest: Rest, b: int, along: Array | None) -> Array:
        """The linear part, sum of rho t t' with t = C^-1 T u of length one, as columns sqrt(rho) t; C' b u with coefficients b of one ridge."""
        rho, U = self.spoken[b]
        metric = rest.metrics[b]
        t = (
            metric.half(self.toward(rest, b) @ U)
            if along is None
            else metric.factor.T @ along[self.slices[b]] @ U
        )
        norms = np.linalg.norm(t, axis=0)
        t = t / np.where(norms > 0, norms, 1.0)
        return t * np.sqrt(rho)

    def toward(self, rest: Rest, b: int) -> Array:
        """E[a y'] of a block, y with alpha times the mean prediction of the other blocks."""
        T = rest.cross[self.slices[b]]
        if not self.alpha or self.blocks is None:
            return T
        held_out = self.blocks.toward[b] / self.ridges.count
        now, before = (self.predictions(x, b) for x in (rest, self.whole))
        return T + self.alpha * (held_out + now - before)

    def predictions(self, rest: Rest, b: int) -> Array:
        """E[a f'] of a block with the mean f of the other blocks' predictions."""
        others = [c for c in range(len(self.slices)) if c != b]
        parts = [
            rest.covariance[self.slices[b], self.slices[c]]
            @ np.linalg.solve(rest.metrics[c].matrix, rest.cross[self.slices[c]])
            for c in others
        ]
        return reduce(add, parts) / len(others)

    @cached_property
    def coefficients_of_all(self) -> Array:
        """Coefficients of all rows."""
        return self.coefficients(self.whole)

    def coefficients(self, rest: Rest) -> Array:
        """Coefficients of the ridge on all blocks, in whitened coordinates."""
        M = rest.covariance.copy()
        for metric, s in zip(rest.metrics, self.slices, strict=True):
            M[s, s] += self.ridges.joint.ridge * metric.unit_shape
        return np.asarray(solve(M, rest.cross, assume_a="pos", check_finite=False), dtype=np.float64)

    @cached_property
    def scales(self) -> list[Array]:
        """Of the kernel's coordinates, in those of every block."""
        ridges = zip(self.ridges.blocks, self.ridges.widths, strict=True)
        return [ridge.root / np.sqrt(width) for ridge, width in ridges]

    @cached_property
    def sampled_centred(self) -> Array:
        """Whitened coordinates of the sample less their mean."""
        return self.sampled - self.weights / self.weights.sum() @ self.sampled

    @cached_property
    def sampled_solved(self) -> Array | None:
        """The kernel's inverse times them, which is quicker than times the shifts of all groups where they are few."""
        assert self.kernel is not None
        few = self.sampled.shape[1] <= _DENSE
        return self.kernel.inverse @ self.sampled_centred if few else None

    def gradients(
        self, rest: Rest, kept: NDArray[np.bool_], shift: Array | None, weight: float
    ) -> list[Products | Array] | None:
        """Products of the kernel's gradients per block (trace ``weight`` in all after whitening), before whitening.

        ``shift`` of the ridge's coefficients changes the residuals that the kernel regression sees.
        """
        if self.kernel is None or shift is None or not kept.any():
            return None
        solved = None if self.sampled_solved is None else self.sampled_solved @ -shift
        products = self.kernel.products(kept, self.sampled_centred @ -shift, self.slices, solved)
        if any(len(m.matrix) > _DENSE for m in rest.metrics):
            wide = [G.scaled(scale) for G, scale in zip(products, self.scales, strict=True)]
            trace = sum(float(G.diagonal.sum()) for G in wide)
            return [G.times(weight / trace) for G in wide] if trace > 0 else None
        found = [G.dense * scale * scale[:, None] for G, scale in zip(products, self.scales, strict=True)]
        trace = sum(float(np.sum(G * m.matrix)) for G, m in zip(found, rest.metrics, strict=True))
        return [G * (weight / trace) for G in found] if trace > 0 else None

    @property
    def has_third(self) -> bool:
        """Whether the sample's rows are enough for third moments of the columns, and these not too much work."""
        n, p = self.sampled.shape
        return n >= _ROWS * p and 20.0 * self.ridges.n_responses * n * p * p <= _WORK

    def bent(self, shift: Array) -> Array:
        """E[(a' shift) a a'], the second moments of what the ridge without some rows takes off the residual.

        Zero for symmetric columns. Third moments are those of the sample's rows.
        """
        A, w = self.sampled_centred, self.weights / self.weights.sum()
        return np.stack([A.T @ (A * (w * (A @ along))[:, None]) for along in shift.T])

    def moments(self, rest: Rest, b: int, triple: Array) -> Array:
        """The residual's second moments of a block, whitened (debiased, trace one)."""
        m, s = rest.metrics[b], self.slices[b]
        G = -m.whitened(rest.noise[b])
        for h in triple:
            for other, t in zip(rest.metrics, self.slices, strict=True):
                A = m.half(other.half(h[s, t].T).T)
                G = G + A @ A.T
        e, U = eigh((G + G.T) / 2)
        e = np.maximum(e, 0.0)
        return (U * (e / e.sum() if e.any() else e)) @ U.T


@dataclass(frozen=True)
class Rest:
    """Central moments of some rows, in whitened coordinates of all; ``noise`` is that of the triple's own products."""

    count: float
    covariance: Array
    cross: Array
    triple: Array | None
    noise: Sequence[Array]
    metrics: Sequence[Metric]


def auto_left_out(
    groups: GroupParts, deal: RowDeal, sample: RowSample, full: Sequence[Array], **kept: Any
) -> LeftOut:
    """Directions without each group of rows; ``kept`` are the fields of AutoFit but the total and the directions of all rows."""
    number = deal.of_keys(sample.keys)
    parts = {
        i: replace(part, sampled=(number == i).astype(np.float64)) for i, part in sorted(groups.parts.items())
    }
    total = reduce(add, parts.values())
    fit = AutoFit(total=total, full=full, **kept)
    metrics = [metric.times for metric in fit.whole.metrics]
    left = leave_out(
        GroupSums(total, parts),
        fit.solve,
        full,
        metrics,
        splits=_SPLITS,
        doubt=_ALL if fit.is_weak() else _SOME,
    )
    both = fit.v_kernel + fit.v_moments
    return replace(left, silent=tuple(not (rho.any() or both) for rho, _ in fit.spoken))
