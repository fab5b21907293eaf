"""From central moments to directions: whiten, lay the moments side by side, factor, select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._blocks import Blocks
from ..factor import (
    Whitener,
    diagonal_whitener,
    full_whitener,
    keep_cells,
    left_singular,
    select_rows,
    singular_values,
    sparse_proxy,
    svd,
)
from ..moments import CentredMoments

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Pairs = tuple[tuple[int, int], ...]

MOMENTS = ("linear", "joint", "hessian", "tensor")


def parse_moments(moments: str | tuple[str, ...], n_blocks: int) -> frozenset[str]:
    """The set of moments asked for; with one block "joint" and "hessian" are the same."""
    names = (moments,) if isinstance(moments, str) else tuple(moments)
    if names in (("all",), ("auto",)):
        names = ("linear", "joint", "hessian")
    unknown = [n for n in names if n not in MOMENTS]
    if unknown or not names:
        msg = f"moments={moments!r}: choose 'auto', 'all', one of {MOMENTS}, or a tuple of them"
        raise ValueError(msg)
    if "tensor" in names and (len(names) > 1 or n_blocks < 2):
        msg = "moments='tensor' stands alone and needs at least two blocks"
        raise ValueError(msg)
    wanted = set(names)
    if n_blocks == 1 and "joint" in wanted:
        wanted = (wanted - {"joint"}) | {"hessian"}
    return frozenset(wanted)


def block_pairs(wanted: frozenset[str], n_blocks: int) -> tuple[Pairs, Pairs]:
    """Pairs of blocks whose plain (covariance) and weighted products the moments need."""
    own = tuple((i, i) for i in range(n_blocks))
    weighted: list[tuple[int, int]] = []
    if "hessian" in wanted:
        weighted += own
    if "joint" in wanted:
        weighted += [(i, j) for i in range(n_blocks) for j in range(i + 1, n_blocks)]
    return own, tuple(sorted(weighted))


def make_whiteners(
    c: CentredMoments,
    blocks: Blocks,
    whiten: str | None,
    shrinkage: Sequence[float | None],
    labels: Sequence[object],
) -> list[Whitener]:
    """One whitener per block from its covariance; "unit" whitens blocks that have the right units already."""
    found = []
    for b, name in enumerate(blocks.names):
        covariance = c.covariance[b, b]
        if whiten == "unit":
            found.append(full_whitener(covariance, c.rows, shrinkage[b], unit=True, quiet=True))
        elif whiten == "full":
            columns = [labels[i] for i in blocks.columns[b]]
            what = f"block {name!r}" if len(blocks) > 1 else "X"
            remedies = "shrinkage='auto' (or a number in (0, 1]), whiten='diagonal', or fewer columns"
            found.append(
                full_whitener(covariance, c.rows, shrinkage[b], what=what, columns=columns, remedies=remedies)
            )
        elif whiten == "diagonal":
            found.append(diagonal_whitener(np.diag(covariance)))
        else:
            found.append(Whitener(np.ones(covariance.shape[0])))
    return found


@dataclass(frozen=True)
class Unfolded:
    """Moments of one block side by side: features in rows; who owns each column."""

    matrix: Array
    owner: Index
    feature: Index


def unfold_moments(
    c: CentredMoments, whiteners: Sequence[Whitener], wanted: frozenset[str]
) -> list[Unfolded]:
    """For each block b the matrix [E y b' | E y b c' for other blocks c | E y b b'], whitened.

    Several responses stand side by side. All whitened entries have the noise level 1/sqrt(m) of a
    standardised response, so the parts need no weights.
    """
    triple = {(i, j): whiteners[i].both_sides(t, whiteners[j]) for (i, j), t in c.triple.items()}
    n_blocks = len(c.slices)
    q = c.linear.shape[1]
    unfolded = []
    for b in range(n_blocks):
        n_b = c.slices[b].stop - c.slices[b].start
        parts: list[Array] = []
        owner: list[Index] = []
        feature: list[Index] = []
        if "linear" in wanted:
            parts.append(whiteners[b].apply(c.linear[c.slices[b]]))
            owner.append(np.full(q, -1))
            feature.append(np.zeros(q, dtype=np.intp))
        for other in range(n_blocks):
            if ("hessian" if other == b else "joint") not in wanted:
                continue
            t = triple[b, other] if b <= other else triple[other, b].transpose(0, 2, 1)
            n_other = t.shape[2]
            parts.append(t.transpose(1, 0, 2).reshape(n_b, q * n_other))
            owner.append(np.full(q * n_other, other))
            feature.append(np.tile(np.arange(n_other), q))
        unfolded.append(Unfolded(np.hstack(parts), np.concatenate(owner), np.concatenate(feature)))
    return unfolded


def select(
    unfolded: Sequence[Unfolded], counts: Sequence[int], *, paper: bool
) -> tuple[list[Array], list[Index]]:
    """Keep ``counts[b]`` features per block; ``paper``: Algorithm 3 on the one proxy X0."""
    if paper:
        X3, rows, columns = sparse_proxy(unfolded[0].matrix, counts[0], counts[1])
        return [X3, X3.T], [rows, columns]
    return select_rows(
        [u.matrix for u in unfolded], [u.owner for u in unfolded], [u.feature for u in unfolded], counts
    )


def keep(unfolded: Sequence[Unfolded], supports: Sequence[Index]) -> list[Array]:
    """The moments of these features of every block alone; the rest are zero."""
    return [
        keep_cells(u.matrix, u.owner, u.feature, supports, support)
        for u, support in zip(unfolded, supports, strict=True)
    ]


def noise_edge(rows: float, columns: float, count: float) -> float:
    """Largest singular value to expect without signal: (sqrt rows + sqrt columns)/sqrt m, 5 % added."""
    return 1.05 * float(np.sqrt(rows) + np.sqrt(columns)) / np.sqrt(count)


def threshold_rank(
    unfolded: Sequence[Unfolded],
    count: float,
    limit: int,
    widths: Sequence[int] | None = None,
    edge: float | None = None,
) -> int:
    """The papers' rule: count singular values above ``edge`` (None: above the noise), the most over blocks.

    ``widths``: of how many columns each block is, when the moments are given in coordinates of the rows' span.
    """
    if edge is not None:
        return min(max(int(np.sum(singular_values(u.matrix) > edge)) for u in unfolded), limit)
    inner = [len(u.matrix) for u in unfolded]
    stands_for = np.append(np.divide(widths or inner, inner), 1.0)  # the last: owner -1, the linear moment
    ranks = [
        int(np.sum(singular_values(u.matrix) > noise_edge(width, stands_for[u.owner].sum(), count)))
        for u, width in zip(unfolded, widths or inner, strict=True)
    ]
    return min(max(ranks), limit)


def threshold_counts(
    unfolded: Sequence[Unfolded], count: float, least: int, factor: float = 1.0, edge: float | None = None
) -> tuple[int, ...]:
    """The papers' rule for selection: rows with an entry above ``edge``, None: above the noise, sqrt(2 log(entries)/m)."""
    counts = []
    for u in unfolded:
        least_entry = edge or factor * np.sqrt(2.0 * np.log(max(u.matrix.size, 2)) / count)
        kept = int(np.sum(np.abs(u.matrix).max(axis=1) > least_entry))
        counts.append(min(max(kept, least), u.matrix.shape[0]))
    return tuple(counts)


def held_out_gain(trained: Sequence[Array], held_out: Sequence[Array], limit: int) -> Array:
    """Held-out squared error of rank 1..limit approximations, relative to the zero matrix.

    ||M_out - U_r S_r V_r'||^2 - ||M_out||^2 = sum_{k <= r} s_k^2 - 2 s_k u_k' M_out v_k.
    """
    total = np.zeros(limit)
    for M, out in zip(trained, held_out, strict=True):
        U, s, Vt = svd(M)
        k = min(limit, len(s))
        agreement = np.einsum("ik,ik->k", U[:, :k], out @ Vt[:k].T)
        gain = np.cumsum(s[:k] ** 2 - 2.0 * s[:k] * agreement)
        total += np.concatenate([gain, np.full(limit - k, gain[-1])])
    return total


def cross_validate_shape(
    folds: Sequence[tuple[list[Unfolded], list[Unfolded]]],
    candidates: Sequence[Callable[[list[Unfolded]], tuple[int, ...] | None]],
    limit: int,
    *,
    paper: bool,
) -> tuple[int, int, float]:
    """The (candidate, rank) whose approximation of held-out moments has the least squared error, and it.

    A candidate gives the selection counts from the training moments (None: no selection). The error is
    relative to predicting no moments at all.
    """
    errors = np.zeros((len(candidates), limit))
    for trained, held_out in folds:
        for i, counts_of in enumerate(candidates):
            counts = counts_of(trained)
            if counts is None:
                matrices = [u.matrix for u in trained]
            else:
                matrices, _ = select(trained, counts, paper=paper)
            errors[i] += held_out_gain(matrices, [u.matrix for u in held_out], limit)
    best = np.unravel_index(np.argmin(errors), errors.shape)
    return int(best[0]), int(best[1]) + 1, float(errors.min())


def factor_blocks(
    matrices: Sequence[Array],
    r: int,
    ties: Sequence[Array | None],
    starts: Sequence[Array] | None = None,
) -> tuple[list[Array], list[Array]]:
    """Leading left singular vectors and values of every block's matrix; ``ties`` order directions of equal values.

    ``starts``: near what is sought.
    """
    near: Sequence[Array | None] = starts or [None] * len(matrices)
    pairs = [left_singular(M, r, tie, start) for M, tie, start in zip(matrices, ties, near, strict=True)]
    return [U for U, _ in pairs], [s for _, s in pairs]
