"""Simulations of the low-rank Gaussian copula: mixed tables with holes, and ratings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri

from ._real import FOLDER

Array = NDArray[np.float64]
Index = NDArray[np.intp]

#: The six settings of the published simulations: name -> arguments of `make_copula`.
COPULA_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "continuous, low rank": {"kind": "continuous", "n_components": 10, "missing": 0.4},
    "continuous, high rank": {"kind": "continuous", "n_components": 10, "missing": 0.4, "link": "cube"},
    "ordinal, high SNR": {"kind": "ordinal", "n_components": 5, "missing": 0.6},
    "ordinal, low SNR": {"kind": "ordinal", "n_components": 5, "missing": 0.6, "noise": 0.5},
    "binary, high SNR": {"kind": "binary", "n_components": 5, "missing": 0.6},
    "binary, low SNR": {"kind": "binary", "n_components": 5, "missing": 0.6, "noise": 0.5},
}

# shares of one to five stars in MovieLens 1M
_STARS = (0.056, 0.107, 0.261, 0.349, 0.227)
_RATINGS = (
    "Public source: MovieLens 1M (GroupLens, grouplens.org/datasets/movielens/1m), which may not be "
    f"redistributed: put its ratings.dat there, or set the environment variable {FOLDER}=/path/to/folder"
)


@dataclass(frozen=True)
class CopulaTruth:
    """The law of a simulated table: x = g(z), z ~ N(0, W W' + s2 I).

    Attributes
    ----------
    loadings : W, n_features x n_components, rows of squared length 1 - noise.
    noise : s2.
    link : g of continuous columns.
    cuts : n_features x (levels - 1) increasing thresholds on z, or None for continuous columns.
    first : the lowest level.
    """

    loadings: Array
    noise: float
    link: Literal["identity", "cube"]
    cuts: Array | None
    first: int

    def values(self, z: Any) -> Array:
        """g(z), column by column."""
        z = np.asarray(z, dtype=np.float64)
        if self.cuts is not None:
            above: Array = np.count_nonzero(z[..., None] > self.cuts, axis=-1).astype(np.float64)
            return self.first + above
        return z**3 if self.link == "cube" else z.copy()

    def bounds(self, X: Any) -> tuple[Array, Array]:
        """What X says of z: lower and upper limits, equal for continuous cells, infinite for missing ones."""
        X = np.asarray(X, dtype=np.float64)
        missing = np.isnan(X)
        if self.cuts is None:
            z = np.cbrt(X) if self.link == "cube" else X
            return np.where(missing, -np.inf, z), np.where(missing, np.inf, z)
        ends = np.full((len(self.cuts), 1), np.inf)
        edges = np.hstack([-ends, self.cuts, ends])
        level = np.where(missing, 0, X - self.first).astype(np.intp)
        column = np.arange(len(self.cuts))
        lower, upper = edges[column, level], edges[column, level + 1]
        return np.where(missing, -np.inf, lower), np.where(missing, np.inf, upper)


@dataclass(frozen=True)
class CopulaData:
    """A table with holes (NaN), the complete table, and the law that made it."""

    X: Array
    complete: Array
    truth: CopulaTruth

    def __iter__(self) -> Any:
        """Unpack as ``X, complete, truth``."""
        return iter((self.X, self.complete, self.truth))


def make_copula(
    n_samples: int = 500,
    n_features: int = 200,
    n_components: int = 10,
    *,
    kind: Literal["continuous", "ordinal", "binary"] = "continuous",
    noise: float = 0.1,
    link: Literal["identity", "cube"] = "identity",
    n_levels: int = 5,
    missing: float = 0.4,
    rng: Any = None,
) -> CopulaData:
    """A low-rank Gaussian copula with cells missing at random: x = g(W t + e), ||w_j||^2 = 1 - s2.

    Parameters
    ----------
    n_samples, n_features, n_components : n, p, k.
    kind : {"continuous", "ordinal", "binary"}
        Ordinal columns have ``n_levels`` levels 1, 2, ..., binary ones 0 and 1; the cuts of a column are drawn
        among its own latent values between their 5 % and 95 % quantiles.
    noise : s2, the share of variance that is noise.
    link : {"identity", "cube"}
        g of continuous columns; ``z**3`` makes the table of full rank.
    missing : probability that a cell is missing.
    rng : seed or Generator.

    The published simulations are in ``COPULA_SETTINGS``.

    Examples
    --------
    >>> import numpy as np
    >>> X, complete, truth = make_copula(30, 8, 2, kind="ordinal", rng=0)
    >>> np.isnan(X).any(), np.unique(complete)
    (np.True_, array([1., 2., 3., 4., 5.]))
    >>> make_copula(**COPULA_SETTINGS["binary, low SNR"], rng=0).truth.noise
    0.5
    """
    rng = np.random.default_rng(rng)
    _check(kind, link, noise, missing, n_levels)
    n, p, k = n_samples, n_features, n_components
    W = rng.standard_normal((p, k))
    W *= np.sqrt(1.0 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    Z = rng.standard_normal((n, k)) @ W.T + np.sqrt(noise) * rng.standard_normal((n, p))
    cuts = None
    if kind != "continuous":
        cuts = np.array([_cuts(z, n_levels if kind == "ordinal" else 2, rng) for z in Z.T])
    truth = CopulaTruth(W, float(noise), link, cuts, 0 if kind == "binary" else 1)
    complete = truth.values(Z)
    return CopulaData(np.where(rng.random((n, p)) < missing, np.nan, complete), complete, truth)


def _check(kind: str, link: str, noise: float, missing: float, n_levels: int) -> None:
    if kind not in ("continuous", "ordinal", "binary"):
        msg = f"kind={kind!r} is unknown; choose 'continuous', 'ordinal' or 'binary'"
        raise ValueError(msg)
    if link not in ("identity", "cube"):
        msg = f"link={link!r} is unknown; choose 'identity' or 'cube'"
        raise ValueError(msg)
    if not 0 < noise < 1:
        msg = f"noise={noise} is a share of the variance: it must lie between 0 and 1"
        raise ValueError(msg)
    if not 0 <= missing < 1:
        msg = f"missing={missing} is a probability below 1"
        raise ValueError(msg)
    if n_levels < 2:
        msg = f"n_levels={n_levels} must be at least 2"
        raise ValueError(msg)


def _cuts(z: Array, levels: int, rng: np.random.Generator) -> Array:
    low, high = np.quantile(z, [0.05, 0.95])
    inner = z[(z > low) & (z < high)]
    if len(inner) < levels - 1:
        msg = f"{len(z)} rows are too few for {levels} levels; give more rows or fewer levels"
        raise ValueError(msg)
    return np.sort(rng.choice(inner, levels - 1, replace=False))


@dataclass(frozen=True)
class RatingsData:
    """Ratings (absent = not rated), and held-out cells with their values."""

    X: csr_array
    rows: Index
    columns: Index
    values: Array

    def __iter__(self) -> Any:
        """Unpack as ``X, rows, columns, values``."""
        return iter((self.X, self.rows, self.columns, self.values))


def make_ratings(
    n_users: int = 6040,
    n_items: int = 2514,
    n_components: int = 8,
    *,
    density: float = 0.064,
    held_out: float = 0.1,
    noise: float = 0.6,
    rng: Any = None,
) -> RatingsData:
    """One to five stars of the size, sparsity and skew of MovieLens 1M, from a low-rank copula.

    Users' activity and items' popularity follow Zipf's law with a flattened head; popular items are rated
    higher; stars have the shares of MovieLens 1M on average.

    Parameters
    ----------
    n_users, n_items : shape; every user and every item keeps at least one rating.
    n_components : k; the first factor is a user's generosity, the others weigh less and less.
    density : share of the cells of ``X`` that are rated.
    held_out : share of all ratings held out (in addition to ``X``).
    noise : s2 of the latent law.
    rng : seed or Generator.

    Examples
    --------
    >>> data = make_ratings(200, 80, density=0.1, rng=0)
    >>> data.X.shape, data.X.nnz, len(data.values)
    ((200, 80), 1600, 178)
    """
    rng = np.random.default_rng(rng)
    kept = round(density * n_users * n_items)
    total = kept + round(kept * held_out / (1.0 - held_out))
    if kept < n_users + n_items or total > n_users * n_items // 2:
        msg = (
            f"density={density} with held_out={held_out} asks for {kept} + {total - kept} ratings; "
            f"{n_users + n_items} are the fewest, and half of all cells the most"
        )
        raise ValueError(msg)
    popularity = 1.0 / (rng.permutation(n_items) + n_items / 60)
    cells = _rated(n_users, popularity, total, rng)
    row, column = np.divmod(cells, n_items)
    scale = 0.75 ** np.arange(n_components)
    W = rng.standard_normal((n_items, n_components)) * scale
    W[:, 0] = 1.0 + 0.3 * W[:, 0]
    W *= np.sqrt(1.0 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    T = rng.standard_normal((n_users, n_components))
    z = np.sqrt(noise) * rng.standard_normal(total)
    for i in range(n_components):
        z += T[row, i] * W[column, i]
    # some of the differences between items go with popularity
    liking = 0.4 * rng.standard_normal(n_items) + 0.3 * np.log(popularity / np.median(popularity))
    z += liking[column]
    cuts = z.mean() + z.std() * ndtri(np.cumsum(_STARS)[:-1])
    stars = 1.0 + np.searchsorted(cuts, z)
    order = np.argsort(cells[:kept])
    X = csr_array((stars[:kept][order], (row[:kept][order], column[:kept][order])), shape=(n_users, n_items))
    return RatingsData(X, row[kept:], column[kept:], stars[kept:])


def _rated(n_users: int, popularity: Array, total: int, rng: np.random.Generator) -> Index:
    """Distinct cells in random order, but the first of them hold every user and every item."""
    n_items = len(popularity)
    activity = 1.0 / (rng.permutation(n_users) + n_users / 100)
    by_user, by_item = np.cumsum(activity), np.cumsum(popularity)

    def draw(cumulative: Array, size: int) -> Index:
        return np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")

    first = [
        np.arange(n_users) * n_items + draw(by_item, n_users),
        draw(by_user, n_items) * n_items + np.arange(n_items),
    ]
    cells = np.unique(np.concatenate(first))
    fresh: Index = np.zeros(0, dtype=np.intp)
    while len(cells) + len(fresh) < total:
        size = 2 * (total - len(cells) - len(fresh)) + 100
        more = np.concatenate([fresh, draw(by_user, size) * n_items + draw(by_item, size)])
        place = np.sort(np.unique(more, return_index=True)[1])
        fresh = more[place]
        fresh = fresh[~np.isin(fresh, cells)]
    return np.concatenate([cells, rng.permutation(fresh[: total - len(cells)])])


def load_ratings(file: str | Path | None = None, *, fewest: int = 50) -> csr_array:
    """Ratings of a MovieLens release as users x items; items with fewer than ``fewest`` ratings are left out.

    Parameters
    ----------
    file : ``ratings.dat`` (user::item::rating::time) or ``ratings.csv`` (a header, then commas); None takes
        one of them in the folder that the environment variable COLSPACE_DATA names.
    fewest : ratings an item needs.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from colspace.datasets import load_ratings
    >>> file = Path(tempfile.mkdtemp()) / "ratings.dat"
    >>> _ = file.write_text("1::7::5::97\\n1::9::3::97\\n2::7::4::98\\n")
    >>> load_ratings(file, fewest=1).toarray()
    array([[5., 3.],
           [4., 0.]])
    """
    path = _ratings_file(file)
    text = path.read_text().replace("::", ",")
    skip = 0 if text[:1].isdigit() else 1
    table = np.loadtxt(StringIO(text), delimiter=",", skiprows=skip, usecols=(0, 1, 2), ndmin=2)
    _, item, counts = np.unique(table[:, 1], return_inverse=True, return_counts=True)
    table = table[counts[item] >= fewest]
    if not len(table):
        msg = f"{path}: no item has {fewest} ratings; give a smaller fewest="
        raise ValueError(msg)
    users, row = np.unique(table[:, 0], return_inverse=True)
    items, column = np.unique(table[:, 1], return_inverse=True)
    return csr_array((table[:, 2], (row, column)), shape=(len(users), len(items)))


def _ratings_file(file: str | Path | None) -> Path:
    if file is not None:
        places = [Path(file).expanduser()]
    else:
        folder = os.environ.get(FOLDER)
        if not folder:
            msg = f"no file of ratings is known: {FOLDER} is not set. {_RATINGS}"
            raise FileNotFoundError(msg)
        root = Path(folder).expanduser()
        places = [root / place for place in ("ratings.dat", "ml-1m/ratings.dat", "ratings.csv")]
    for path in places:
        if path.is_file():
            return path
    msg = f"{places[0]} does not exist. {_RATINGS}"
    raise FileNotFoundError(msg)
