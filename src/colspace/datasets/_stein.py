"""Simulations of the multiple-response paper: y_j = f_j(B'x) + noise under three laws of x."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import geninvgauss, ortho_group

Array = NDArray[np.float64]

#: The elementary link functions m_1..m_10.
LINKS: tuple[Callable[[Array], Array], ...] = (
    lambda z: np.sin(z - 1),
    lambda z: np.cosh(z - 1),
    lambda z: np.cos(z - 1),
    lambda z: np.tanh(z - 1),
    lambda z: np.arctan(z - 1),
    lambda z: (z - 1) ** 3,
    lambda z: (z - 1) ** 5,
    lambda z: 1 / (1 + np.exp(-z)),
    lambda z: np.sqrt((z - 1) ** 2 + 1),
    np.exp,
)


@dataclass(frozen=True)
class MultipleResponseData:
    """A simulated table with its truth: X, Y, the directions B, and the parameters of the law of x."""

    X: Array
    Y: Array
    directions: Array
    dispersion: Array

    def __iter__(self) -> Any:
        """Unpack as ``X, Y, directions``."""
        return iter((self.X, self.Y, self.directions))


def make_multiple_response(
    n_samples: int = 1000,
    n_features: int = 30,
    n_responses: int = 20,
    n_components: int = 3,
    *,
    law: Literal["gaussian", "hyperbolic", "student"] = "gaussian",
    links: Literal["linear", "cyclic", "random"] = "cyclic",
    df: float = 10.0,
    noise: float = 0.5,
    rng: Any = None,
) -> MultipleResponseData:
    """y_j = a_j' m_j(B'x) + noise N(0, 1), B orthonormal.

    Parameters
    ----------
    n_samples, n_features, n_responses, n_components : n, p, q (even), r.
    law : {"gaussian", "hyperbolic", "student"}
        Law of x with a random dispersion Q diag(|z| + 1) Q': N(0, Sigma); hyperbolic with chi = 2p + 1 and
        psi = p; t with ``df`` degrees of freedom and covariance Sigma.
    links : {"linear", "cyclic", "random"}
        Linear; ten elementary functions, and for the second half of the responses sums of neighbours
        ("cyclic") or of two drawn at random.
    noise : standard deviation of the noise.
    rng : seed or Generator.

    Examples
    --------
    >>> X, Y, B = make_multiple_response(100, 8, 4, 2, rng=0)
    >>> X.shape, Y.shape, B.shape
    ((100, 8), (100, 4), (8, 2))
    """
    rng = np.random.default_rng(rng)
    p, q, r = n_features, n_responses, n_components
    if q % 2 or q > 2 * len(LINKS):
        msg = f"n_responses={q} must be even and at most {2 * len(LINKS)}"
        raise ValueError(msg)
    B = np.linalg.svd(rng.standard_normal((p, max(q, r))), full_matrices=False)[0][:, :r]
    Q = ortho_group.rvs(p, random_state=rng) if p > 1 else np.eye(1)
    values = np.abs(rng.standard_normal(p)) + 1
    Z = rng.standard_normal((n_samples, p)) * np.sqrt(values) @ Q.T
    X = Z * np.sqrt(_mixing(law, n_samples, p, df, rng))[:, None]
    half = q // 2
    if links == "linear":
        A = 0.5 * rng.standard_normal((q, r))
        mean = X @ B @ A.T
    else:
        A = np.abs(rng.standard_normal((q, r))) + 3
        mean = _nonlinear(X @ B, A, _pairs(links, half, rng), half)
    Y = mean + noise * rng.standard_normal((n_samples, q))
    return MultipleResponseData(X, Y, B, (Q * values) @ Q.T)


def _mixing(law: str, n: int, p: int, df: float, rng: np.random.Generator) -> Array:
    """The variance of each row relative to the dispersion."""
    if law == "gaussian":
        return np.ones(n)
    if law == "student":  # covariance form: scale (df - 2)/df times the covariance
        return (df - 2) / rng.chisquare(df, n)
    if law == "hyperbolic":
        chi, psi = 2 * p + 1.0, float(p)
        # GIG(lambda, chi, psi) = sqrt(chi/psi) times scipy's law with b = sqrt(chi psi)
        w = geninvgauss.rvs((p + 1) / 2, np.sqrt(chi * psi), size=n, random_state=rng)
        return np.sqrt(chi / psi) * w
    msg = f"law={law!r} is unknown; choose 'gaussian', 'hyperbolic' or 'student'"
    raise ValueError(msg)


def _pairs(links: str, half: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    if links == "cyclic":
        return [((j + 1) % half, (j + 2) % half) for j in range(half)]
    if links == "random":
        picks = [rng.choice(half, 2, replace=False) for _ in range(half)]
        return [(int(i), int(j)) for i, j in picks]
    msg = f"links={links!r} is unknown; choose 'linear', 'cyclic' or 'random'"
    raise ValueError(msg)


def _nonlinear(U: Array, A: Array, pairs: list[tuple[int, int]], half: int) -> Array:
    values = [m(U) for m in LINKS[:half]]
    values += [values[i] + values[j] for i, j in pairs]
    return np.column_stack([v @ a for v, a in zip(values, A, strict=True)])
