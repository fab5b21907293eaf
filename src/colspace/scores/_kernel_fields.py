r"""Kernels of the squared distance and fields built from them.

With :math:`\phi(r)`, :math:`r = \|x-y\|^2` and :math:`d = x - y`, the kernels are :math:`\phi I` (diagonal) and

.. math:: -\nabla\nabla^\top \phi = -2\phi' I - 4\phi'' d d^\top \quad\text{(curl-free)} .

Neither the np x np matrix nor the n x n x p differences are formed: all sums are products of n x n and n x p
matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._base import Array

_CHUNK = 2_000_000  # entries of a (rows x centres) matrix


@dataclass(frozen=True)
class Radial:
    r"""A kernel as a function of the squared distance.

    "rbf" is :math:`\exp(-r/2\sigma^2)`, "imq" is :math:`(1 + r/\sigma^2)^{-1/2}`.
    """

    name: str
    width: float

    def derivatives(self, r: Array, *orders: int) -> list[Array]:
        """Derivatives in the squared distance, in the orders asked for (0 is the kernel itself)."""
        if self.name == "rbf":
            rate = -0.5 / self.width**2
            base = np.exp(rate * r)
            return [rate**k * base for k in orders]
        v = 1.0 / (1.0 + r / self.width**2)
        base = np.sqrt(v)
        # (-1)^k (1 3 5 ... (2k - 1)) / 2^k
        return [np.prod([-(i - 0.5) / self.width**2 for i in range(1, k + 1)]) * base * v**k for k in orders]


def squared_distances(A: Array, B: Array) -> Array:
    """Squared distances of rows, by one product; rows should be near the origin."""
    r = A @ B.T
    r *= -2.0
    r += np.einsum("ij,ij->i", A, A)[:, None]
    r += np.einsum("ij,ij->i", B, B)
    return np.maximum(r, 0.0, out=r)


def median_distance(
    X: Array, rng: np.random.Generator, limit: int = 2000, weight: Array | None = None
) -> float:
    """Median distance between different rows, on at most ``limit`` of them; a pair weighs the product of its rows."""
    if len(X) > limit:
        rows = rng.choice(len(X), limit, replace=False)
        X, weight = X[rows], None if weight is None else weight[rows]
    X = X - X.mean(axis=0)
    pairs = np.triu_indices(len(X), 1)
    r = squared_distances(X, X)[pairs]
    floor = 1e-14 * float(np.einsum("ij,ij->i", X, X).max(initial=0.0))
    apart = r[r > floor]
    if apart.size and weight is not None:
        return float(np.sqrt(_weighted_median(apart, (weight[pairs[0]] * weight[pairs[1]])[r > floor])))
    if not apart.size:
        msg = "all rows are equal: the median distance is 0, so no bandwidth can be chosen; give bandwidth= a number"
        raise ValueError(msg)
    return float(np.sqrt(np.median(apart)))


def _weighted_median(values: Array, weights: Array) -> float:
    """The median of values that each stand as often as their weight; the mean of the two in the middle where it ties."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    half = 0.5 * below[-1]
    slack = 1e-12 * below[-1]  # sums of weights that are equal but for rounding
    low, high = np.searchsorted(below, [half - slack, half + slack])
    return float(0.5 * (values[order[low]] + values[order[min(high, len(order) - 1)]]))


def divergence_weights(kernel: Radial, r: Array, n_features: int, *, curl_free: bool) -> Array:
    """h(r) in div_x K(x, y) = h(r) (x - y)."""
    if not curl_free:
        (d1,) = kernel.derivatives(r, 1)
        return 2.0 * d1
    d2, d3 = kernel.derivatives(r, 2, 3)
    return -(4.0 * (n_features + 2) * d2 + 8.0 * r * d3)


@dataclass(frozen=True)
class Field:
    r"""A vector field :math:`g(x) = a\,\zeta(x) + \sum_j K(x, c_j) z_j`.

    :math:`\zeta(x) = \sum_j \pi_j \operatorname{div}_{c_j} K(c_j, x)` is the mean divergence of the kernel, the centres
    having ``share`` :math:`\pi`.

    Both kernels give the same shape, with d the difference of a row and a centre and u = d'z,

    .. math:: g = \sum_j \alpha d + f z, \qquad
       \nabla g = \sum_j \alpha I + \beta d d^\top + \gamma (d z^\top + z d^\top)

    (for the diagonal kernel the symmetric part of it).
    """

    kernel: Radial
    curl_free: bool
    centres: Array
    coef: Array
    zeta_coef: float
    share: Array

    @cached_property
    def _shift(self) -> Array:
        return self.centres.mean(axis=0)

    @cached_property
    def _centred(self) -> Array:
        return self.centres - self._shift

    def _chunks(self, X: Array) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Rows, centred rows, squared distances and u = d'z, a block of rows at a time."""
        own = np.einsum("ij,ij->i", self._centred, self.coef)
        step = max(1, _CHUNK // len(own))
        for start in range(0, len(X), step):
            rows = slice(start, min(start + step, len(X)))
            A = X[rows] - self._shift
            yield rows, A, squared_distances(A, self._centred), A @ self.coef.T - own

    def _first(self, r: Array, u: Array) -> tuple[Array, Array]:
        """Weights alpha and f of the field."""
        alpha = divergence_weights(self.kernel, r, self.coef.shape[1], curl_free=self.curl_free)
        alpha *= -self.zeta_coef * self.share
        if not self.curl_free:
            (d0,) = self.kernel.derivatives(r, 0)
            return alpha, d0
        d1, d2 = self.kernel.derivatives(r, 1, 2)
        alpha -= 4.0 * d2 * u
        return alpha, -2.0 * d1

    def _second(self, r: Array, u: Array) -> tuple[Array, Array]:
        """Weights beta and gamma of the gradient."""
        share = -2.0 * self.zeta_coef * self.share
        if not self.curl_free:
            d1, d2 = self.kernel.derivatives(r, 1, 2)
            return share * 2.0 * d2, d1
        d2, d3, d4 = self.kernel.derivatives(r, 2, 3, 4)
        slope = -(4.0 * (self.coef.shape[1] + 4) * d3 + 8.0 * r * d4)
        return share * slope - 8.0 * d3 * u, -4.0 * d2

    def __call__(self, X: Array) -> Array:
        """The field at rows, n x p."""
        out = np.empty((len(X), self.coef.shape[1]))
        for rows, A, r, u in self._chunks(X):
            out[rows] = self._sum(A, *self._first(r, u))
        return out

    def _sum(self, A: Array, alpha: Array, f: Array) -> Array:
        return alpha.sum(axis=1)[:, None] * A - alpha @ self._centred + f @ self.coef

    def divergence(self, X: Array, metric: Array | None = None) -> Array:
        """Trace of the gradient at rows; with a metric m the sum of m_j times its diagonal entry j."""
        out = np.empty(len(X))
        m = np.ones(self.coef.shape[1]) if metric is None else metric
        own = np.einsum("ij,ij->i", self._centred * m, self.coef)
        for rows, A, r, u in self._chunks(X):
            alpha, _ = self._first(r, u)
            beta, gamma = self._second(r, u)
            if metric is not None:
                r = squared_distances(A * np.sqrt(m), self._centred * np.sqrt(m))
                u = (A * m) @ self.coef.T - own
            out[rows] = m.sum() * alpha.sum(axis=1) + (beta * r).sum(axis=1) + 2.0 * (gamma * u).sum(axis=1)
        return out

    def potential(self, X: Array) -> Array:
        """A function whose gradient is the field (curl-free kernels)."""
        out = np.empty(len(X))
        p = self.coef.shape[1]
        for rows, _, r, u in self._chunks(X):
            d1, d2 = self.kernel.derivatives(r, 1, 2)
            zeta = 2.0 * p * d1 + 4.0 * r * d2
            out[rows] = self.zeta_coef * (zeta @ self.share) - 2.0 * (d1 * u).sum(axis=1)
        return out

    def second_moment(self, X: Array, weights: Array) -> Array:
        """Sum over rows of w (g g' + grad g), symmetric part, k x p x p for weights n x k."""
        p, k = self.coef.shape[1], weights.shape[1]
        out = np.zeros((k, p, p))
        C = self._centred
        for rows, A, r, u in self._chunks(X):
            alpha, f = self._first(r, u)
            G = self._sum(A, alpha, f)
            total = alpha.sum(axis=1)
            del f, alpha
            beta, gamma = self._second(r, u)
            for j in range(k):
                w = weights[rows, j]
                B = w[:, None] * beta
                # half of every symmetric term; its transpose is added at the end
                half = A.T @ (B.sum(axis=1)[:, None] * (0.5 * A) - B @ C)
                half += C.T @ (B.sum(axis=0)[:, None] * (0.5 * C))
                np.multiply(w[:, None], gamma, out=B)
                half += (A.T @ B - C.T * B.sum(axis=0)) @ self.coef
                half += G.T @ (0.5 * w[:, None] * G)
                half[np.diag_indices(p)] += 0.5 * (w @ total)
                out[j] += half
        return out + out.transpose(0, 2, 1)
