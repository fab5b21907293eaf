"""The empirical operator of a kernel on a sample, and its largest eigenvalue."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from ..factor import eigh
from ._base import Array
from ._kernel_fields import Radial, divergence_weights, squared_distances

MARGIN = 1.01  # the eigenvalue found is a little too small


class System:
    r"""The empirical operator :math:`L = \sum_i \pi_i K(x_i, \cdot)` on a sample of shares :math:`\pi` (1/n each).

    A field on the sample is a block, its row i times :math:`(n \pi_i)^{1/2}`, so that L is symmetric. Route "plain" keeps it as n x p. For tables with more columns than rows,
    "span" writes it as B X with an n x n block B of coefficients: two products n x n x n replace three
    n x n x p, but B is not unique where rows are dependent, which steps tolerate and Krylov methods do not;
    "rotated" takes coordinates in an orthonormal basis of the rows' span.
    """

    def __init__(
        self,
        X: Array,
        kernel: Radial,
        *,
        curl_free: bool,
        route: str = "plain",
        share: Array | None = None,
    ) -> None:
        X = X - X.mean(axis=0)
        n, p = X.shape
        self.root = np.ones(n) if share is None else np.sqrt(n * share)
        self.curl_free, self.wide = curl_free, n <= p
        self.gram: Array | None = X @ X.T if route == "span" else None
        self.back: Array | None = X if route == "span" else None
        if route == "rotated":
            X, self.back = _rotated(X)
        self.X = X
        span = self.gram is not None
        r = squared_distances(X, X)
        np.fill_diagonal(r, 0.0)
        H = divergence_weights(kernel, r, p, curl_free=curl_free) / n
        if share is not None:
            H *= self.root[:, None] * self.root**2
        if span:
            self.zeta = H
            self.zeta[np.diag_indices(n)] -= H.sum(axis=1)
        else:
            self.zeta = H @ X - H.sum(axis=1)[:, None] * X
        del H
        self.D: Array | None = None
        if curl_free:
            self.K, self.D = kernel.derivatives(r, 1, 2)
            self.K *= -2.0 / n
            self.D *= -4.0 / n
        else:
            (self.K,) = kernel.derivatives(r, 0)
            self.K /= n
        del r
        if share is not None:
            for part in (self.K, self.D):
                if part is not None:
                    part *= self.root[:, None] * self.root
        self.lambda_max = self._largest()
        self.scale = 1.0

    def normalize(self) -> None:
        """Divide the kernel by the largest eigenvalue of L, a hair more: steps diverge above 1."""
        if self.lambda_max <= 0:
            return
        self.scale = MARGIN * self.lambda_max
        for part in (self.K, self.D, self.zeta):
            if part is not None:
                part /= self.scale

    def image(self, Z: Array) -> Array:
        """What inner products need: <Y, Z> = sum(image(Y) * Z)."""
        return Z if self.gram is None else Z @ self.gram

    def apply(self, Z: Array, image: Array | None = None) -> Array:
        """L at a block: the kernel matrix times Z over n."""
        out = self.K @ Z
        if self.D is None:
            return out
        if self.gram is not None:
            Ut = self.image(Z) if image is None else image
            Wt = Ut - np.diag(Ut)[:, None]
            Wt *= self.D
            out -= Wt.T
            out[np.diag_indices(len(Wt))] += Wt.sum(axis=0)
            return out
        W = self.X @ Z.T
        W -= np.einsum("ij,ij->i", self.X, Z)
        W *= self.D
        out -= W @ self.X
        out += W.sum(axis=1)[:, None] * self.X
        return out

    def expand(self, Z: Array) -> Array:
        """Coefficients of the kernel at the rows, n x p, from a block: n pi_j times the field's own row j."""
        return self.root[:, None] * (Z if self.back is None else Z @ self.back)

    def _largest(self) -> float:
        """Largest eigenvalue by Lanczos steps; the start is random but always the same.

        Chance alone overlaps little with the fields of large eigenvalues, which are translations and, for
        the iterations that matter, whatever zeta holds; so the start is given a share of both. With n <= p some
        direction is at right angles to the rows; along it the kernel is the scalar K.
        """
        n = len(self.X)
        rng = np.random.default_rng(0)
        value = 0.0
        if self.D is None or self.wide:
            value = largest_eigenvalue(lambda v, _: self.K @ v, lambda v: v, rng.random((n, 1)))
        if self.D is None:
            return value
        width = n if self.wide else self.X.shape[1]
        parts = [rng.standard_normal((n, width)), self.root[:, None] * rng.standard_normal(width)]
        if self.wide and self.gram is None:
            parts = [part @ self.X for part in parts]
        parts.append(self.zeta)
        start = np.zeros_like(self.zeta)
        for part in parts:
            size = np.sqrt(max((self.image(part) * part).sum(), 0.0))
            if size > 0:
                start += part / size
        return largest_eigenvalue(self.apply, self.image, start, floor=value)


def _rotated(X: Array) -> tuple[Array, Array]:
    """Rows in an orthonormal basis of their span, and that basis, r x p."""
    values, V = eigh(X @ X.T)
    keep = values > len(X) * np.finfo(float).eps * values[-1]
    roots, V = np.sqrt(values[keep]), V[:, keep]
    return V * roots, (V / roots).T @ X


def largest_eigenvalue(
    apply: Callable[[Array, Array], Array],
    image: Callable[[Array], Array],
    start: Array,
    *,
    floor: float = 0.0,
    tol: float = 1e-5,
    max_steps: int = 60,
) -> float:
    """Largest eigenvalue by the Lanczos recurrence, three blocks in memory; up to 0.5 % too small.

    ``apply`` takes a block and its image; <Y, Z> = sum(image(Y) * Z). ``floor`` is an eigenvalue known already;
    steps stop where they will hardly reach it.
    """
    w, w_image = start, image(start)
    size = float(np.sqrt(max((w_image * w).sum(), 0.0)))
    value = 0.0
    alphas: list[float] = []
    betas: list[float] = []
    v = last = np.zeros_like(start)
    while size > 1e-12 * value and len(alphas) < max_steps:
        last, v, v_image = v, w / size, w_image / size
        w = apply(v, v_image)
        alphas.append(float((v_image * w).sum()))
        before, value = value, float(eigvalsh_tridiagonal(alphas, betas)[-1])
        gain = value - before
        if len(alphas) > 5 and (gain <= tol * value or value + 10 * gain < floor):
            break
        w -= alphas[-1] * v
        if betas:
            w -= betas[-1] * last
        w_image = image(w)
        size = float(np.sqrt(max((w_image * w).sum(), 0.0)))
        betas.append(size)
    return max(floor, value)
