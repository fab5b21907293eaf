"""Tables whose columns bend: simulated ones and real ones, complete."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def spiral(rng: np.random.Generator, n: int = 500) -> Array:
    """A spiral in the plane, its angle seen with noise, and two columns that go with the angle."""
    t = 1.5 * np.pi * (0.5 + 2 * rng.random(n))
    e = rng.standard_normal((n, 5))
    return np.column_stack([t * np.cos(t), t * np.sin(t), t, np.sqrt(t), 0.3 * t]) + 0.3 * e * np.array(
        [1, 1, 1, 0.3, 0.3]
    )


def square(rng: np.random.Generator, n: int = 500) -> Array:
    """Four normal columns and the squares of two, with noise."""
    x = rng.standard_normal((n, 4)) + 0.7 * rng.standard_normal((n, 1))
    return np.column_stack([x, x[:, :2] ** 2 + 0.2 * rng.standard_normal((n, 2))])


def products(rng: np.random.Generator, n: int = 500) -> Array:
    """Four normal columns and two products of pairs."""
    x = rng.standard_normal((n, 4))
    y = np.column_stack([x[:, 0] * x[:, 1], x[:, 2] * x[:, 3]])
    return np.column_stack([x, y + 0.2 * rng.standard_normal((n, 2))])


def clusters(rng: np.random.Generator, n: int = 500) -> Array:
    """Six columns in five groups."""
    centres = 3 * rng.standard_normal((5, 6))
    return centres[rng.integers(5, size=n)] + rng.standard_normal((n, 6))


def regimes(rng: np.random.Generator, n: int = 500) -> Array:
    """Two regimes with slopes of opposite signs; a column tells which."""
    s = rng.random(n) < 0.5
    x = rng.standard_normal((n, 3)) + rng.standard_normal((n, 1))
    sign = np.where(s, 1.0, -1.0)
    y = sign[:, None] * x[:, :2] + 0.5 * rng.standard_normal((n, 2))
    return np.column_stack([x, y, 2 * sign + 0.5 * rng.standard_normal(n)])


def nominal(rng: np.random.Generator, n: int = 500) -> Array:
    """Codes of six groups in no order, and numbers that go with the group."""
    code = rng.integers(6, size=n)
    centres = 1.5 * rng.standard_normal((6, 4))
    return np.column_stack([code.astype(float), centres[code] + rng.standard_normal((n, 4))])


def gaussian(rng: np.random.Generator, n: int = 500, p: int = 8) -> Array:
    """A normal law with three factors."""
    W = rng.standard_normal((p, 3))
    return rng.standard_normal((n, 3)) @ W.T + rng.standard_normal((n, p))


SIMULATED: dict[str, Callable[[np.random.Generator], Array]] = {
    "spiral": spiral,
    "square": square,
    "products": products,
    "clusters": clusters,
    "regimes": regimes,
    "nominal": nominal,
    "gaussian": gaussian,
}


def real_tables() -> dict[str, Array]:
    """Real tables of scikit-learn and, where it is installed, of statsmodels."""
    from sklearn import datasets

    found = {
        "iris": datasets.load_iris().data,
        "wine": datasets.load_wine().data,
        "diabetes": datasets.load_diabetes().data,
        "breast cancer": datasets.load_breast_cancer().data,
    }
    try:
        from statsmodels import datasets as more
    except ImportError:
        return found
    found["macrodata"] = more.macrodata.load_pandas().data.to_numpy(dtype=float)
    found["statecrime"] = more.statecrime.load_pandas().data.to_numpy(dtype=float)
    return found


def hide(X: Array, rng: np.random.Generator, share: float = 0.2) -> Array:
    """Cells missing completely at random; every row keeps one."""
    gone = rng.random(X.shape) < share
    full = gone.all(axis=1)
    gone[full, rng.integers(X.shape[1], size=int(full.sum()))] = False
    return np.where(gone, np.nan, X)


def smae(filled: Array, X: Array, holes: Array) -> float:
    """Mean over columns of the absolute error of the gaps over that of the column's median."""
    gone = np.isnan(holes)
    shares = []
    for j in np.flatnonzero(gone.any(axis=0)):
        rows = gone[:, j]
        base = np.abs(X[rows, j] - np.nanmedian(holes[:, j])).sum()
        if base > 0:
            shares.append(np.abs(X[rows, j] - filled[rows, j]).sum() / base)
    return float(np.mean(shares))
