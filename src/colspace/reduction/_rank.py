"""How many directions: a sequential permutation test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd

from .._rows import reduce_rows
from ..factor import Whitener
from ..moments import TriplePlan, centre
from ._proxies import block_pairs, unfold_moments

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RankTest:
    """Outcome of the sequential permutation test.

    Attributes
    ----------
    n_components : int
        The first k whose hypothesis "rank at most k" is not rejected.
    p_values : ndarray
        p-value of "rank at most k" for k = 0, 1, ..., n_components (or the largest k tried).
    statistics : ndarray
        The observed statistic at each k.
    null_statistics : ndarray (number of k, permutations)
        The statistics of permuted data at each k.
    spectrum, null_spectrum : ndarray
        Observed singular values (root sum of squares over blocks), and those of data whose rows of y were
        permuted (permutations x values).
    """

    n_components: int
    p_values: Array
    statistics: Array
    null_statistics: Array
    spectrum: Array
    null_spectrum: Array
    alpha: float


def _matrices(Z: Array, Y: Array, slices: tuple[slice, ...], wanted: frozenset[str]) -> list[Array]:
    """The moments of whitened data, block by block."""
    _, weighted = block_pairs(wanted, len(slices))
    zero = np.zeros(Z.shape[1])
    plan = TriplePlan(slices, None, zero, np.zeros(Y.shape[1]), (), weighted)
    c = centre(reduce_rows(plan, Z, Y), y_scale=np.ones(Y.shape[1]))
    identity = [Whitener(np.ones(s.stop - s.start)) for s in slices]
    return [u.matrix for u in unfold_moments(c, identity, wanted)]


def _spectrum(matrices: list[Array], length: int) -> Array:
    return np.sqrt(sum(np.linalg.svd(M, compute_uv=False)[:length] ** 2 for M in matrices))


def permutation_rank_test(
    Z: Array,
    Y: Array,
    slices: tuple[slice, ...],
    wanted: frozenset[str],
    *,
    n_permutations: int,
    alpha: float,
    max_components: int,
    rng: np.random.Generator,
) -> RankTest:
    """Test rank <= k for k = 0, 1, ... on whitened rows Z and standardised responses Y.

    The statistic is the sum over blocks of squared top singular values of the moments off the k leading
    directions. Under the hypothesis the remaining coordinates are independent of y and of the leading ones,
    so their rows may be permuted against both: exact at k = 0; for k > 0 slightly conservative, since
    only the observed statistic has had its k leading directions fitted.
    """
    m = len(Z)
    observed = _matrices(Z, Y, slices, wanted)
    length = min(max_components + 1, *(min(M.shape) for M in observed))
    bases = [svd(M, full_matrices=True)[0] for M in observed]
    spectrum = _spectrum(observed, length)
    Z = np.hstack([Z[:, s] @ U for s, U in zip(slices, bases, strict=True)])
    p_values: list[float] = []
    statistics: list[float] = []
    null_statistics: list[Array] = []
    null_spectrum = np.zeros((n_permutations, length))
    for k in range(length):
        statistic = float(spectrum[k] ** 2)
        leading = np.concatenate([np.arange(s.start, s.start + k) for s in slices])
        null = np.zeros(n_permutations)
        for i in range(n_permutations):
            order = rng.permutation(m)
            shuffled = Z
            if k:
                shuffled = Z.copy()
                shuffled[:, leading] = Z[np.ix_(order, leading)]
            matrices = [M[k:] for M in _matrices(shuffled, Y[order], slices, wanted)]
            if k == 0:
                null_spectrum[i] = _spectrum(matrices, length)
                null[i] = null_spectrum[i, 0] ** 2
            else:
                null[i] = sum(np.linalg.norm(M, 2) ** 2 for M in matrices)
        p = (1.0 + np.sum(null >= statistic)) / (1.0 + n_permutations)
        p_values.append(float(p))
        statistics.append(statistic)
        null_statistics.append(null)
        if p > alpha:
            break
    rejected = sum(p <= alpha for p in p_values)
    return RankTest(
        n_components=min(rejected, max_components),
        p_values=np.array(p_values),
        statistics=np.array(statistics),
        null_statistics=np.array(null_statistics),
        spectrum=spectrum,
        null_spectrum=null_spectrum,
        alpha=alpha,
    )
