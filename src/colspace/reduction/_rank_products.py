"""Moments of whitened rows in single precision, for the many permutations of a rank test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._rows import CHUNK_BYTES
from ._proxies import block_pairs

Array = NDArray[np.float64]
Single = NDArray[np.float32]

_MOST = 1e36  # of a sum in single precision

# bytes of moments that one pass over rows outside memory may add up
PASS_BYTES = 64 << 20


def second_moments(
    Z: Single, V: Array, slices: Sequence[slice], pairs: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Array]:
    """E[v_k z_i z_j'] (responses x n_i x n_j) for pairs of blocks, products in single precision and sums of chunks in double.

    Symmetric products of rows times sqrt|v| by sign take half the work of general ones, whence one for all pairs.
    """
    n, width = Z.shape
    whole = len(pairs) == len(slices) * (len(slices) + 1) // 2
    out = {(i, j): np.zeros((V.shape[1], _width(slices[i]), _width(slices[j]))) for i, j in pairs}
    step = max(256, CHUNK_BYTES // (4 * width))
    for start in range(0, n, step):
        part = Z[start : start + step]
        for k, v in enumerate(V[start : start + step].T.astype(np.float32)):
            gram = _weighted_gram(part, v) if whole else None
            for i, j in pairs:
                a, b = slices[i], slices[j]
                if gram is not None:
                    out[i, j][k] += gram[a, b]
                elif i == j:
                    out[i, j][k] += _weighted_gram(part[:, a], v)
                else:
                    out[i, j][k] += part[:, a].T @ (part[:, b] * v[:, None])
    return {pair: g / n for pair, g in out.items()}


def _width(s: slice) -> int:
    return int(s.stop - s.start)


def _weighted_gram(Z: Single, v: Single) -> Any:
    """Z' diag(v) Z; in double precision where single would overflow."""
    most = float(np.abs(v).max(initial=0.0)) * float(np.abs(Z).max(initial=0.0)) ** 2 * max(1, len(Z))
    if most > _MOST:
        return (Z.astype(np.float64) * v.astype(np.float64)[:, None]).T @ Z.astype(np.float64)
    total = np.zeros((Z.shape[1], Z.shape[1]), dtype=np.float32)
    for sign in (1.0, -1.0):
        rows = np.flatnonzero(sign * v > 0)
        if rows.size:
            scaled = Z[rows] * np.sqrt(np.abs(v[rows]))[:, None]
            total += np.float32(sign) * (scaled.T @ scaled)
    return total


def side_by_side(
    linear: Array | None,
    triple: dict[tuple[int, int], Array],
    slices: Sequence[slice],
    wanted: frozenset[str],
) -> list[Array]:
    """For each block b the matrix [E v b' | E v b c' | E v b b'] of the moments wanted, as ``unfold_moments`` has it."""
    found = []
    for b, s in enumerate(slices):
        parts = [linear[s]] if linear is not None and "linear" in wanted else []
        for other in range(len(slices)):
            pair = (min(b, other), max(b, other))
            if ("hessian" if other == b else "joint") not in wanted or pair not in triple:
                continue
            t = triple[pair] if b <= other else triple[pair].transpose(0, 2, 1)
            parts.append(t.transpose(1, 0, 2).reshape(_width(s), -1))
        found.append(np.hstack(parts))
    return found


def permuted_matrices(Z: Single, V: Array, slices: Sequence[slice], wanted: frozenset[str]) -> list[Array]:
    """The moments of whitened, centred rows, block by block."""
    pairs = block_pairs(wanted, len(slices))[1]
    linear = np.asarray(Z.T @ V.astype(np.float32), dtype=np.float64) / len(Z) if "linear" in wanted else None
    return side_by_side(linear, second_moments(Z, V, slices, pairs), slices, wanted)


def shuffled(Z: Any, order: NDArray[np.intp], slices: tuple[slice, ...], k: int) -> Any:
    """Z with the rows of its k leading coordinates of every block permuted."""
    if not k:
        return Z
    leading = np.concatenate([np.arange(s.start, s.start + k) for s in slices])
    out = Z.copy()
    out[:, leading] = Z[np.ix_(order, leading)]
    return out


@dataclass(frozen=True)
class RowsByPasses:
    """Whitened rows that stay where they are (Dask, CSR); permutations are within chunks of rows.

    Subclasses know what their statistic adds up: ``_matrices`` and ``n_responses``.
    """

    source: Any
    statistic: Any

    @property
    def n_responses(self) -> int:
        """Responses of a row."""
        raise NotImplementedError

    def _matrices(self, k: int, seeds: tuple[int | None, ...]) -> Iterator[list[Array]]:
        """Moments block by block, off k coordinates, once for each seed (None: as they are)."""
        raise NotImplementedError

    def observed(self) -> list[Array]:
        """Moments as they are, block by block."""
        return next(self._matrices(0, (None,)))

    def rotate(self, bases: Sequence[Array]) -> Self:
        """The rows in other orthonormal coordinates."""
        return replace(self, statistic=replace(self.statistic, bases=tuple(bases)))

    def permuted(self, k: int, rng: np.random.Generator, times: int) -> Iterator[list[Array]]:
        """Moments of permuted rows, as many permutations a pass as fit in memory."""
        size = 8 * self.n_responses * self.statistic.slices[-1].stop ** 2
        batch = max(1, PASS_BYTES // size)
        for start in range(0, times, batch):
            seeds = tuple(int(rng.integers(2**31)) for _ in range(min(batch, times - start)))
            for whole in self._matrices(k, seeds):
                yield [M[k:] for M in whole]

    def remaining(self, k: int) -> list[Array]:
        """Moments as they are, off the k leading coordinates."""
        return [M[k:] for M in self.observed()]
