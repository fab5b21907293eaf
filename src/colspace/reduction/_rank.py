"""How many directions: a sequential permutation test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._blocks import Blocks
from .._rows import reduce_rows
from ..factor import Whitener, singular_values, spectral_norm, svd
from ..moments import CentredMoments, TripleMoments, TriplePlan, centre
from ._joint_fit import Problem, problem_span, shrinkages, whiteners_of
from ._proxies import block_pairs, unfold_moments
from ._rank_auto import ridged_passes, ridged_rows
from ._rank_products import RowsByPasses, permuted_matrices, shuffled
from ._source import Folds, Source

Array = NDArray[np.float64]

# statistics of permutations this near, relatively, are equal but for rounding
_TIE = 1e-5


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


def zero_plan(slices: tuple[slice, ...], q: int, wanted: frozenset[str]) -> TriplePlan:
    """Moments of data that are centred and scaled as a whole."""
    _, weighted = block_pairs(wanted, len(slices))
    zero = np.zeros(slices[-1].stop)
    return TriplePlan(slices, None, zero, np.zeros(q), (), weighted)


def centred_matrices(m: TripleMoments, wanted: frozenset[str]) -> list[Array]:
    """The moments of whitened, centred rows, block by block."""
    c = CentredMoments(
        rows=m.rows,
        count=m.count,
        mean=m.shift_x,
        y_mean=m.shift_y,
        y_scale=np.ones_like(m.shift_y),
        linear=m.xy / m.count,
        covariance={},
        triple={pair: g / m.count for pair, g in m.xyx.items()},
        slices=m.slices,
    )
    identity = [Whitener(np.ones(s.stop - s.start)) for s in m.slices]
    return [u.matrix for u in unfold_moments(c, identity, wanted)]


class TurnedRows(Protocol):
    """Whitened rows in orthonormal coordinates of each block, the leading ones first."""

    def permuted(self, k: int, rng: np.random.Generator, times: int) -> Iterator[list[Array]]:
        """Moments off the k leading coordinates of each block, after y and these were permuted together against the rest."""

    def remaining(self, k: int) -> list[Array]:
        """Moments as they are, off the k > 0 leading coordinates."""


class WhitenedRows(Protocol):
    """Whitened, centred rows with standardised responses, whose rows can be permuted."""

    def observed(self) -> list[Array]:
        """Moments as they are, block by block."""

    def rotate(self, bases: Sequence[Array]) -> TurnedRows:
        """The rows in other orthonormal coordinates."""


@dataclass(frozen=True)
class RowsInMemory:
    """Whitened rows of a table in memory; permutations are of all rows."""

    Z: Array
    Y: Array
    slices: tuple[slice, ...]
    wanted: frozenset[str]

    def _matrices(self, Z: Array, Y: Array) -> list[Array]:
        return centred_matrices(
            reduce_rows(zero_plan(self.slices, Y.shape[1], self.wanted), Z, Y), self.wanted
        )

    def observed(self) -> list[Array]:
        """Moments as they are, block by block."""
        return self._matrices(self.Z, self.Y)

    def rotate(self, bases: Sequence[Array]) -> RowsInMemory:
        """The rows in other orthonormal coordinates."""
        Z = np.hstack([self.Z[:, s] @ U for s, U in zip(self.slices, bases, strict=True)])
        return RowsInMemory(Z, self.Y, self.slices, self.wanted)

    def permuted(self, k: int, rng: np.random.Generator, times: int) -> Iterator[list[Array]]:
        """Moments of permuted rows, in single precision."""
        Z = self.Z.astype(np.float32)
        for _ in range(times):
            order = rng.permutation(len(Z))
            Zs = shuffled(Z, order, self.slices, k)
            yield [M[k:] for M in permuted_matrices(Zs, self.Y[order], self.slices, self.wanted)]

    def remaining(self, k: int) -> list[Array]:
        """Moments as they are, off the k leading coordinates."""
        return [M[k:] for M in self.observed()]


@dataclass(frozen=True)
class Shuffled:
    """Statistic of a chunk: its moments under permutations of its own rows, one for each seed (None: as they are).

    Rows are exchangeable under the hypothesis, so permutations that keep chunks apart are as valid as others.
    """

    mean: Array
    order: Any
    whiteners: tuple[Whitener, ...]
    bases: tuple[Array, ...] | None
    y_mean: Array
    y_scale: Array
    slices: tuple[slice, ...]
    wanted: frozenset[str]
    k: int = 0
    seeds: tuple[int | None, ...] = (None,)

    def whitened(self, X: Any) -> Array:
        """The rows of a chunk, whitened and rotated."""
        X = X if self.order is None else X[:, self.order]
        Z = np.subtract(X.toarray() if sparse.issparse(X) else X, self.mean, dtype=np.float64)
        parts = [w.apply(Z[:, s].T).T for w, s in zip(self.whiteners, self.slices, strict=True)]
        if self.bases is not None:
            parts = [A @ U for A, U in zip(parts, self.bases, strict=True)]
        return np.hstack(parts)

    def __call__(self, X: Any, Y: Array) -> Folds:
        """Moments for every seed."""
        Z, V = self.whitened(X), (Y - self.y_mean) / self.y_scale
        plan = zero_plan(self.slices, V.shape[1], self.wanted)
        content = crc32(np.ascontiguousarray(Z[: min(len(Z), 8)]).tobytes())
        parts = []
        for seed in self.seeds:
            if seed is None:
                parts.append(plan(Z, V))
                continue
            order = np.random.default_rng([seed, content]).permutation(len(Z))
            parts.append(plan(shuffled(Z, order, self.slices, self.k), V[order]))
        return Folds(tuple(parts))


class PublishedPasses(RowsByPasses):
    """The published moments, by passes."""

    @property
    def n_responses(self) -> int:
        """Responses of a row."""
        return len(self.statistic.y_mean)

    def _matrices(self, k: int, seeds: tuple[int | None, ...]) -> Iterator[list[Array]]:
        for m in self.source.reduce(replace(self.statistic, k=k, seeds=seeds)).parts:
            yield centred_matrices(m, self.statistic.wanted)


def whitened_rows(
    source: Source,
    blocks: Blocks,
    whiteners: Sequence[Whitener],
    wanted: frozenset[str],
    moments: CentredMoments,
) -> WhitenedRows:
    """The rows of a source, whitened; in memory if they are a dense array."""
    statistic = Shuffled(
        mean=moments.mean,
        order=blocks.order,
        whiteners=tuple(whiteners),
        bases=None,
        y_mean=moments.y_mean,
        y_scale=moments.y_scale,
        slices=blocks.slices,
        wanted=wanted,
    )
    if source.dask or sparse.issparse(source.X):
        return PublishedPasses(source, statistic)
    Y = (source.y - moments.y_mean) / moments.y_scale
    return RowsInMemory(statistic.whitened(source.X), Y, blocks.slices, wanted)


def _spectrum(matrices: list[Array], length: int) -> Array:
    return np.sqrt(sum(singular_values(M)[:length] ** 2 for M in matrices))


def top(matrices: list[Array]) -> float:
    """Sum over blocks of squared top singular values."""
    return sum(spectral_norm(M) ** 2 for M in matrices)


def permutation_rank_test(
    rows: WhitenedRows,
    *,
    n_permutations: int,
    alpha: float,
    max_components: int,
    rng: np.random.Generator,
) -> RankTest:
    """Test rank <= k for k = 0, 1, ... on whitened rows and standardised responses.

    The statistic is the sum over blocks of squared top singular values of the moments off the k leading
    directions. Under the hypothesis the remaining coordinates are independent of y and of the leading ones,
    so their rows may be permuted against both: exact at k = 0; for k > 0 slightly conservative, since
    only the observed statistic has had its k leading directions fitted.
    """
    observed = rows.observed()
    length = min(max_components + 1, *(min(M.shape) for M in observed))
    spectrum = _spectrum(observed, length)
    turned = rows.rotate([svd(M, full_matrices=True)[0] for M in observed])
    p_values: list[float] = []
    statistics: list[float] = []
    null_statistics: list[Array] = []
    null_spectrum = np.zeros((n_permutations, length))
    for k in range(length):
        statistic = float(spectrum[0] ** 2 if k == 0 else top(turned.remaining(k)))
        null = np.zeros(n_permutations)
        for i, matrices in enumerate(turned.permuted(k, rng, n_permutations)):
            if k == 0:
                null_spectrum[i] = _spectrum(matrices, length)
                null[i] = null_spectrum[i, 0] ** 2
            else:
                null[i] = top(matrices)
        p = (1.0 + np.sum(null >= (1.0 - _TIE) * statistic)) / (1.0 + n_permutations)
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


def joint_rank_test(
    problem: Problem,
    source: Source,
    *,
    auto: bool,
    n_permutations: int,
    alpha: float,
    max_components: int | None,
    rng: np.random.Generator,
) -> RankTest:
    """The test for the moments of a joint reduction; ``auto``: the ridge's, and its residual's second moments."""
    if "tensor" in problem.wanted:
        msg = "rank_test works on matrices of moments; use moments='joint' (pairwise) instead of 'tensor'"
        raise ValueError(msg)
    if not auto:
        problem.check_width(None if source.dask else source.X.shape[0])
    span = problem_span(problem, source, quiet=auto)
    if span is not None:
        problem, source = problem.in_span(span), span.source
    blocks = problem.blocks
    limit = min(blocks.widths) if max_components is None else min(max_components, *blocks.widths)
    rows: WhitenedRows
    if auto:
        rows = (ridged_passes if source.dask or sparse.issparse(source.X) else ridged_rows)(source, blocks)
    else:
        own, _ = block_pairs(problem.wanted, len(blocks))
        c = centre(source.moments(blocks, own, ()))
        whiteners = whiteners_of(problem, c, shrinkages(problem, source, c))
        rows = whitened_rows(source, blocks, whiteners, problem.wanted, c)
    return permutation_rank_test(
        rows, n_permutations=n_permutations, alpha=alpha, max_components=limit, rng=rng
    )
