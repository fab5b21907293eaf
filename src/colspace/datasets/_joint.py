"""Simulations of the joint-reduction papers: y depends on a and b through U'a and V'b."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Law = Literal["gaussian", "uniform", "poisson"]


@dataclass(frozen=True)
class JointData:
    """A simulated table with its truth: X (blocks side by side), y, blocks, loadings."""

    X: Array
    y: Array
    blocks: dict[str, slice]
    loadings: dict[str, Array]

    def __iter__(self) -> Any:
        """Unpack as ``X, y, blocks, loadings``."""
        return iter((self.X, self.y, self.blocks, self.loadings))


def _features(m: int, n: int, law: str, rng: np.random.Generator) -> Array:
    """Independent columns of mean zero and variance one."""
    if law == "gaussian":
        return rng.standard_normal((m, n))
    if law == "uniform":
        return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (m, n))
    if law == "poisson":
        return (rng.poisson(4.0, (m, n)).astype(np.float64) - 4.0) / 2.0
    msg = f"law={law!r} is unknown; choose 'gaussian', 'uniform' or 'poisson'"
    raise ValueError(msg)


def _loadings(n: int, r: int, sparsity: int | None, rng: np.random.Generator) -> Array:
    """Random orthonormal columns, on ``sparsity`` random rows when given."""
    rows = n if sparsity is None else sparsity
    if not r <= rows <= n:
        msg = f"need n_components <= n_active <= features, got {r}, {rows}, {n}"
        raise ValueError(msg)
    U = np.zeros((n, r))
    U[rng.permutation(n)[:rows]] = np.linalg.qr(rng.standard_normal((rows, r)))[0]
    return U


def _simulate(
    link: Callable[[Array, Array], Array],
    outcome: Callable[[Array, np.random.Generator], Array],
    n_samples: int,
    n_features: int | tuple[int, int],
    n_components: int,
    *,
    n_active: int | None = None,
    law: Law = "gaussian",
    correlation: float = 0.0,
    rng: Any = None,
) -> JointData:
    rng = np.random.default_rng(rng)
    n1, n2 = np.broadcast_to(n_features, 2).tolist()
    U = _loadings(n1, n_components, n_active, rng)
    V = _loadings(n2, n_components, n_active, rng)
    a = _features(n_samples, n1, law, rng)
    b = _features(n_samples, n2, law, rng)
    if correlation:
        if law != "gaussian" or not -1 < correlation < 1:
            msg = f"correlation={correlation} needs law='gaussian' and a value in (-1, 1)"
            raise ValueError(msg)
        shared = min(n1, n2)  # b_j is correlated with a_j
        b[:, :shared] = correlation * a[:, :shared] + np.sqrt(1 - correlation**2) * b[:, :shared]
    y = outcome(link(a @ U, b @ V), rng)
    blocks = {"a": slice(0, n1), "b": slice(n1, n1 + n2)}
    return JointData(np.hstack([a, b]), y, blocks, {"a": U, "b": V})


def _gaussian_noise(mu: Array, rng: np.random.Generator) -> Array:
    return mu + rng.standard_normal(mu.shape)


def _bernoulli(mu: Array, rng: np.random.Generator) -> Array:
    return (rng.random(mu.shape) < mu).astype(np.float64)


def make_bilinear(
    n_samples: int = 1000,
    n_features: int | tuple[int, int] = 50,
    n_components: int = 5,
    **options: Any,
) -> JointData:
    """y = a'U V'b + N(0, 1): odd in both blocks.

    Parameters
    ----------
    n_samples, n_features, n_components : rows, columns per block (one number or two), rank.
    n_active : int, optional
        Columns per block that carry the embedding; all by default.
    law : {"gaussian", "uniform", "poisson"}
        Law of the columns: standard Gaussian, uniform on [-sqrt 3, sqrt 3], standardised Poisson(4).
    correlation : float
        Correlation of a_j with b_j (Gaussian law only).
    rng : seed or Generator

    Examples
    --------
    >>> X, y, blocks, loadings = make_bilinear(200, 10, 2, rng=0)
    >>> X.shape, y.shape, loadings["a"].shape
    ((200, 20), (200,), (10, 2))
    """
    return _simulate(_product, _gaussian_noise, n_samples, n_features, n_components, **options)


def make_rbf(
    n_samples: int = 1000, n_features: int | tuple[int, int] = 50, n_components: int = 5, **options: Any
) -> JointData:
    """y ~ Bernoulli(exp(-||U'a - V'b||^2)); options as in `make_bilinear`."""
    return _simulate(_rbf, _bernoulli, n_samples, n_features, n_components, **options)


def make_even(
    n_samples: int = 1000, n_features: int | tuple[int, int] = 50, n_components: int = 5, **options: Any
) -> JointData:
    """y = sum_j (U'a)_j^2 (V'b)_j^2 + N(0, 1): even in both blocks; options as in `make_bilinear`."""
    return _simulate(_squares, _gaussian_noise, n_samples, n_features, n_components, **options)


def make_additive(
    n_samples: int = 1000, n_features: int | tuple[int, int] = 50, n_components: int = 1, **options: Any
) -> JointData:
    """y = sum_j (u_j - 1)^3/6 + 3 tanh(v_j) + N(0, 1): no interaction; options as in `make_bilinear`."""
    return _simulate(_additive, _gaussian_noise, n_samples, n_features, n_components, **options)


def _product(u: Array, v: Array) -> Array:
    return np.sum(u * v, axis=1)


def _rbf(u: Array, v: Array) -> Array:
    return np.exp(-np.sum((u - v) ** 2, axis=1))


def _squares(u: Array, v: Array) -> Array:
    return np.sum(u**2 * v**2, axis=1)


def _additive(u: Array, v: Array) -> Array:
    return np.sum((u - 1) ** 3 / 6 + 3 * np.tanh(v), axis=1)
