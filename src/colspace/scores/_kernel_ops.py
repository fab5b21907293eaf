r"""Kernels of the squared distance and fields built from them.

With :math:`\phi(r)`, :math:`r = \|x-y\|^2` and :math:`d = x - y`, the kernels are :math:`\phi I` (diagonal) and

.. math:: -\nabla\nabla^\top \phi = -2\phi' I - 4\phi'' d d^\top \quad\text{(curl-free)} .

Neither the np x np matrix nor the n x n x p differences are formed: all sums are products of n x n and n x p
matrices.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh, eigvalsh_tridiagonal
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

Array = NDArray[np.float64]

_CHUNK = 2_000_000  # entries of a (rows x centres) matrix
_DENSE = 1_000  # order up to which a curl-free kernel's matrix is decomposed as it is
_MARGIN = 1.01  # the eigenvalue found is a little too small
_LANCZOS = 32_000_000  # entries of a basis of eigenvectors


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


def median_distance(X: Array, rng: np.random.Generator, limit: int = 2000) -> float:
    """Median distance between different rows, on at most ``limit`` of them."""
    if len(X) > limit:
        X = X[rng.choice(len(X), limit, replace=False)]
    X = X - X.mean(axis=0)
    r = squared_distances(X, X)[np.triu_indices(len(X), 1)]
    floor = 1e-14 * float(np.einsum("ij,ij->i", X, X).max(initial=0.0))
    apart = r[r > floor]
    if not apart.size:
        msg = "all rows are equal: the median distance is 0, so no bandwidth can be chosen; give bandwidth= a number"
        raise ValueError(msg)
    return float(np.sqrt(np.median(apart)))


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

    :math:`\zeta(x) = \frac1n \sum_j \operatorname{div}_{c_j} K(c_j, x)` is the mean divergence of the kernel.

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
        alpha *= -self.zeta_coef / len(self.coef)
        if not self.curl_free:
            (d0,) = self.kernel.derivatives(r, 0)
            return alpha, d0
        d1, d2 = self.kernel.derivatives(r, 1, 2)
        alpha -= 4.0 * d2 * u
        return alpha, -2.0 * d1

    def _second(self, r: Array, u: Array) -> tuple[Array, Array]:
        """Weights beta and gamma of the gradient."""
        share = -2.0 * self.zeta_coef / len(self.coef)
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

    def divergence(self, X: Array) -> Array:
        """Trace of the gradient at rows."""
        out = np.empty(len(X))
        p = self.coef.shape[1]
        for rows, _, r, u in self._chunks(X):
            alpha, _ = self._first(r, u)
            beta, gamma = self._second(r, u)
            out[rows] = p * alpha.sum(axis=1) + (beta * r).sum(axis=1) + 2.0 * (gamma * u).sum(axis=1)
        return out

    def potential(self, X: Array) -> Array:
        """A function whose gradient is the field (curl-free kernels)."""
        out = np.empty(len(X))
        p = self.coef.shape[1]
        for rows, _, r, u in self._chunks(X):
            d1, d2 = self.kernel.derivatives(r, 1, 2)
            zeta = 2.0 * p * d1 + 4.0 * r * d2
            out[rows] = self.zeta_coef * zeta.mean(axis=1) - 2.0 * (d1 * u).sum(axis=1)
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


class System:
    r"""The empirical operator :math:`L = \frac1n \sum_i K(x_i, \cdot)` on a sample.

    A field on the sample is a block. Route "plain" keeps it as n x p. For tables with more columns than rows,
    "span" writes it as B X with an n x n block B of coefficients: two products n x n x n replace three
    n x n x p, but B is not unique where rows are dependent, which steps tolerate and Krylov methods do not;
    "rotated" takes coordinates in an orthonormal basis of the rows' span.
    """

    def __init__(self, X: Array, kernel: Radial, *, curl_free: bool, route: str = "plain") -> None:
        X = X - X.mean(axis=0)
        n, p = X.shape
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
        self.lambda_max = self._largest()
        self.scale = 1.0

    def normalize(self) -> None:
        """Divide the kernel by the largest eigenvalue of L, a hair more: steps diverge above 1."""
        if self.lambda_max <= 0:
            return
        self.scale = _MARGIN * self.lambda_max
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
        """A block as n x p."""
        return Z if self.back is None else Z @ self.back

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
        parts = [rng.standard_normal((n, width)), np.tile(rng.standard_normal(width), (n, 1))]
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


@dataclass(frozen=True)
class Solution:
    """A regularised inverse of L at zeta: zeta_coef * zeta + K coef / n, coef a block of the system."""

    zeta_coef: float
    coef: Array
    n_iter: int


def solve_path(
    system: System, method: str, strengths: Sequence[float], *, nu: float = 1.0, tol: float = 1e-10
) -> Iterator[Solution]:
    """The regularised inverse at zeta for regularisations in falling order.

    A path may end early where an iterative eigensolver would need too many eigenvectors.
    """
    if method in ("nu", "landweber"):
        yield from _iterate(system, [_steps(method, v) for v in strengths], nu if method == "nu" else None)
    elif method in ("spectral", "ssge"):
        yield from _cut_off(system, strengths, share=method == "ssge")
    elif system.curl_free:
        yield from _tikhonov_cg(system, strengths, tol)
    else:
        yield from _tikhonov(system, strengths)


def _steps(method: str, strength: float) -> int:
    """Steps that stand for a regularisation."""
    return max(1, int(np.ceil((strength ** (-0.5) if method == "nu" else 1 / strength) - 1e-9)))


def _iterate(system: System, stops: Sequence[int], nu: float | None) -> Iterator[Solution]:
    """Landweber steps, or the nu-method's accelerated ones."""
    a, a_last = 0.0, 0.0
    c = c_last = np.zeros_like(system.zeta)
    done = 0
    for stop in stops:
        for t in range(done + 1, stop + 1):
            u, w = (0.0, 1.0) if nu is None else _nu_weights(t, nu)
            step = a * system.zeta
            if t > 1:
                step += system.apply(c)
                step *= -w
                step += (1.0 + u) * c
                step -= u * c_last
            a, a_last = a + u * (a - a_last) + w, a
            c, c_last = step, c
        done = max(done, stop)
        yield Solution(a, c, stop)


def _nu_weights(t: int, nu: float) -> tuple[float, float]:
    below = (t + 2 * nu - 1) * (2 * t + 4 * nu - 1)
    u = (t - 1) * (2 * t - 3) * (2 * t + 2 * nu - 1) / (below * (2 * t + 2 * nu - 3)) if t > 1 else 0.0
    return u, 4 * (2 * t + 2 * nu - 1) * (t + nu - 1) / below


def _tikhonov(system: System, strengths: Sequence[float]) -> Iterator[Solution]:
    """(L + lambda)^-1 zeta by a factorisation of the n x n matrix."""
    for strength in strengths:
        A = system.K.copy()
        A[np.diag_indices(len(A))] += strength
        f = cho_solve(cho_factor(A, overwrite_a=True, check_finite=False), system.zeta, check_finite=False)
        yield Solution(1.0 / strength, f / -strength, 1)


def _tikhonov_cg(
    system: System, strengths: Sequence[float], tol: float, max_steps: int = 2000
) -> Iterator[Solution]:
    """(L + lambda)^-1 zeta by conjugate gradients, each started at the one before."""
    z = system.zeta
    goal = tol**2 * float((z * z).sum())
    x = np.zeros_like(z)
    for number, strength in enumerate(strengths):
        rest = z - system.apply(x) - strength * x if number else z.copy()
        size = float((rest * rest).sum())
        q, x, step = rest.copy(), x.copy(), 0
        while size > goal and step < max_steps:
            Aq = system.apply(q)
            Aq += strength * q
            length = size / float((q * Aq).sum())
            x += length * q
            rest -= length * Aq
            size, before = float((rest * rest).sum()), size
            q *= size / before
            q += rest
            step += 1
        if size > goal:
            left = float(np.sqrt(size / goal) * tol)
            warnings.warn(
                f"conjugate gradients stopped after {max_steps} steps with a relative residual of {left:.1e}, "
                f"goal {tol:.0e}; use a larger regularization= (now {strength:.1e})",
                ConvergenceWarning,
                stacklevel=2,
            )
        yield Solution(1.0 / strength, x / -strength, step)


def _cut_off(system: System, strengths: Sequence[float], *, share: bool) -> Iterator[Solution]:
    """The inverse on eigenvectors above a floor, or (``share``) on those that carry all but a share of the trace."""
    if system.curl_free:
        values, vectors, floor = _curl_free_eigenpairs(system, strengths[-1])
    else:
        values, vectors = eigh(system.K)
        values, vectors, floor = values[::-1], vectors[:, ::-1], 0.0
    flat = system.zeta.reshape(len(vectors), -1)
    inside = vectors.T @ flat
    sound = values > len(values) * np.finfo(float).eps * values[0]
    for number, strength in enumerate(strengths):
        if share:
            mass = np.cumsum(np.maximum(values, 0.0))
            keep = sound & (np.r_[0.0, mass[:-1]] < (1.0 - strength) * mass[-1])
        else:
            keep = sound & (values >= strength)
        if strength < floor and not share:
            if number:
                return
            msg = (
                f"more than {len(values)} eigenvalues of the curl-free kernel lie above regularization={strength:.3g} "
                f"(the last one found is {floor:.3g}), too many to compute. Remedies: a larger regularization, "
                "method='nu' or 'tikhonov', or curl_free=False"
            )
            raise ValueError(msg)
        if not keep.any():
            msg = f"regularization={strength:.3g} is above the largest eigenvalue {values[0]:.3g}; use a smaller one"
            raise ValueError(msg)
        V = vectors[:, keep] / values[keep] ** 2
        yield Solution(0.0, (V @ inside[keep]).reshape(system.zeta.shape), int(keep.sum()))


def _curl_free_eigenpairs(system: System, strength: float) -> tuple[Array, Array, float]:
    """Leading eigenpairs, largest first, and the value down to which they are complete."""
    shape = system.zeta.shape
    order = system.zeta.size

    def product(v: Array) -> Array:
        return system.apply(v.reshape(shape)).ravel()

    if order <= _DENSE:
        matrix = np.stack([product(e) for e in np.eye(order)], axis=1)
        values, vectors = eigh((matrix + matrix.T) / 2)
        return values[::-1], vectors[:, ::-1], 0.0
    limit = int(max(1, min(order // 3, _LANCZOS // order)))
    count = min(limit, shape[1] + 16)
    start = np.random.default_rng(0).standard_normal(order)
    operator = LinearOperator((order, order), matvec=product, dtype=np.float64)
    while True:
        values, vectors = eigsh(operator, count, which="LA", v0=start)
        if values[0] < strength or count == limit:
            break
        count = min(limit, 2 * count)
    return values[::-1], vectors[:, ::-1], float(values[0])
