"""Links between two kinds of entities: simulated, and genes with diseases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._real import _path, _read

Array = NDArray[np.float64]

_CHUNK = 2**22

_GENE_DISEASE = (
    "It is not downloaded for you, no table of this form is published. Public sources: disease similarity (MimMiner, "
    "nearest neighbours) in github.com/hauldhut/MHDR (Data/DiseaseSimNet_OMIM_15.txt); DisGeNET scores in "
    "github.com/dhimmel/disgenet; protein interactions in github.com/CecileBeust/Networks_building. Save with numpy.savez: "
    "disease_id, disease_name, dsim_i, dsim_j, dsim_w (similar diseases by position, each pair once), gene_symbol, ppi_i, "
    "ppi_j (interacting genes), assoc_d, assoc_g (disease and gene of each association), assoc_disgenet_score (NaN where "
    "unknown) and assoc_omim (booleans)"
)
_ARRAYS: tuple[str, ...] = (
    "disease_id",
    "disease_name",
    "dsim_i",
    "dsim_j",
    "dsim_w",
    "gene_symbol",
    "ppi_i",
    "ppi_j",
)
_ARRAYS += ("assoc_d", "assoc_g", "assoc_disgenet_score", "assoc_omim")


@dataclass(frozen=True)
class PairsData:
    """Features of both sides, sparse scores, and the directions behind them; unpacks as A, B, Y, truth."""

    A: Array
    B: Array
    Y: Any
    truth: dict[str, Array]

    def __iter__(self) -> Iterator[Any]:
        """Unpack as ``A, B, Y, truth``."""
        return iter((self.A, self.B, self.Y, self.truth))


def make_pairs(
    n_left: int = 500,
    n_right: int = 400,
    n_features: int = 20,
    n_components: int = 3,
    *,
    n_links: float = 8.0,
    width: float = 0.5,
    popularity: float = 0.5,
    rng: Any = None,
) -> PairsData:
    """Entities that are linked when a few combinations of their features agree.

    Features are standard normal with a slowly falling spectrum that has nothing to do with the links. Entity i has
    about ``n_links`` partners, drawn without replacement with probability proportional to
    w_j exp(-||U'a_i - V'b_j||^2 / (2 width^2)), w_j = exp(popularity N(0, 1)); the score is that exponential + 0.1.

    Parameters
    ----------
    n_left, n_right : numbers of entities.
    n_features : features of each side.
    n_components : columns of U and V.
    n_links : mean number of partners of a left entity; every one has at least one.
    width : how closely partners agree.
    popularity : spread of the right entities' popularity, which no feature tells.
    rng : seed or Generator.

    Examples
    --------
    >>> from colspace.datasets import make_pairs
    >>> A, B, Y, truth = make_pairs(50, 40, rng=0)
    >>> A.shape, B.shape, Y.shape, truth["left"].shape
    ((50, 20), (40, 20), (50, 40), (20, 3))
    """
    if n_components > n_features:
        msg = f"n_components={n_components} is more than n_features={n_features}"
        raise ValueError(msg)
    g = np.random.default_rng(rng)
    spectrum = 3.0 / np.sqrt(np.arange(1, n_features + 1))
    sides, truth = [], {}
    for name, n in (("left", n_left), ("right", n_right)):
        Q = np.linalg.qr(g.standard_normal((n_features, n_features)))[0]
        Z = g.standard_normal((n, n_features))
        # the last columns of Q have the least variance: principal components find them last
        truth[name] = Q[:, -n_components:]
        sides.append(((Z * spectrum) @ Q.T, Z[:, -n_components:]))
    (A, left), (B, right) = sides
    liking = popularity * g.standard_normal(n_right)
    counts = np.minimum(1 + g.poisson(max(n_links - 1, 0), n_left), n_right)
    step = max(1, _CHUNK // n_right)
    parts = [
        _partners(left[start : start + step], right, counts[start : start + step], liking, width, g)
        for start in range(0, n_left, step)
    ]
    return PairsData(A, B, sparse.csr_array(sparse.vstack(parts)), truth)


def _partners(u: Array, v: Array, counts: Any, liking: Array, width: float, g: np.random.Generator) -> Any:
    """Scores of the partners that some left entities draw, sparse."""
    distance = np.sum(u**2, axis=1)[:, None] - 2 * u @ v.T + np.sum(v**2, axis=1)
    exponent = -np.maximum(distance, 0) / (2 * width**2)
    # Gumbel noise turns the largest logarithms into a draw without replacement
    noisy = exponent + liking + g.gumbel(size=exponent.shape)
    order = np.argsort(-noisy, axis=1)
    i, place = np.nonzero(np.arange(len(v)) < counts[:, None])
    j = order[i, place]
    return sparse.csr_array((np.exp(exponent[i, j]) + 0.1, (i, j)), shape=exponent.shape)


@dataclass(frozen=True)
class GeneDiseaseData:
    """Diseases and genes: symmetric similarity graphs, and associations as sparse tables (diseases, genes)."""

    disease_id: NDArray[np.str_]
    disease_name: NDArray[np.str_]
    gene_symbol: NDArray[np.str_]
    disease_similarity: Any
    gene_network: Any
    scores: Any
    omim: Any


def load_gene_disease(folder: str | Path | None = None) -> GeneDiseaseData:
    """Gene-disease associations with similarities on both sides from ``gene_disease.npz``.

    Parameters
    ----------
    folder : where the file is; None takes the environment variable COLSPACE_DATA. The error that a missing file
        gives says what to download and how to make the file.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from colspace.datasets import load_gene_disease
    >>> folder = tempfile.mkdtemp()
    >>> np.savez(
    ...     folder + "/gene_disease.npz",
    ...     disease_id=["1", "2"], disease_name=["x", "y"], dsim_i=[0], dsim_j=[1], dsim_w=[0.5],
    ...     gene_symbol=["p", "q", "r"], ppi_i=[0, 1], ppi_j=[1, 2],
    ...     assoc_d=[0, 1], assoc_g=[2, 0], assoc_disgenet_score=[0.3, np.nan], assoc_omim=[False, True],
    ... )
    >>> data = load_gene_disease(folder)
    >>> data.scores.toarray(), data.disease_similarity[1, 0]
    (array([[0. , 0. , 0.3],
           [0. , 0. , 0. ]]), np.float64(0.5))
    """
    file = "gene_disease.npz"
    raw = _read(file, _path(file, folder), _ARRAYS, _GENE_DISEASE)
    n, m = len(raw["disease_id"]), len(raw["gene_symbol"])
    d, g = raw["assoc_d"].astype(np.intp), raw["assoc_g"].astype(np.intp)
    for name, places, limit in (("assoc_d", d, n), ("assoc_g", g, m)):
        if len(places) and not 0 <= places.min() <= places.max() < limit:
            msg = f"{file}: {name} runs from {places.min()} to {places.max()}, but there are {limit} rows to point at"
            raise ValueError(msg)
    score = raw["assoc_disgenet_score"].astype(np.float64)
    known, omim = ~np.isnan(score), raw["assoc_omim"].astype(bool)
    return GeneDiseaseData(
        raw["disease_id"],
        raw["disease_name"],
        raw["gene_symbol"],
        _graph(raw["dsim_i"], raw["dsim_j"], raw["dsim_w"], n),
        _graph(raw["ppi_i"], raw["ppi_j"], np.ones(len(raw["ppi_i"])), m),
        sparse.csr_array((score[known], (d[known], g[known])), shape=(n, m)),
        sparse.csr_array((np.ones(int(omim.sum())), (d[omim], g[omim])), shape=(n, m)),
    )


def _graph(i: Any, j: Any, weights: Any, n: int) -> Any:
    """Symmetric sparse matrix of undirected edges."""
    S = sparse.csr_array((weights.astype(np.float64), (i.astype(np.intp), j.astype(np.intp))), shape=(n, n))
    return S.maximum(S.T).tocsr()
