"""Pairs of columns that are never observed together, and what the others say about them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ._estep import Array, Factors, Index, Posterior, Rows, doubled, pack
from ._fit import CopulaModel

FEWEST = 5  # rows with both columns, under which their correlation is not taken as seen
EXPECTED = 20.0  # rows with both that chance would give, from which so few are no chance
WIDEST = 100  # columns up to which predictions are changed for it
_SHOWN = 5
_RIDGE = 1e-4  # of a unit variance, so that copies stay apart
_TINY = 1e-12
_LONGEST = 0.999  # partial correlation that is drawn
_ROUNDS, _SETTLED = 100, 1e-8
_FAR = 9.0  # squared standard residual that counts at most
_SHARE = 1.0 / 3.0  # E[r^2] of a partial correlation r that is uniform on (-1, 1)

Pairs = NDArray[np.bool_]


class UnseenPairsWarning(UserWarning):
    """Some pairs of columns are hardly ever observed together: the table does not tell their correlation."""


def unseen_pairs(together: Array, rows: float) -> Pairs:
    """Pairs with fewer than ``FEWEST`` rows that have both, where n_j n_k / n (chance) would be ``EXPECTED`` or more."""
    cells = np.diag(together)
    found = (together < FEWEST) & (np.outer(cells, cells) >= EXPECTED * rows)
    np.fill_diagonal(found, False)
    return found


def warn_unseen(pairs: Sequence[tuple[Hashable, Hashable]], columns: int) -> None:
    """Name the pairs, and say whether predictions lean on them."""
    if pairs:
        shown = ", ".join(f"{a!r} and {b!r}" for a, b in pairs[:_SHOWN]) + (
            ", ..." if len(pairs) > _SHOWN else ""
        )
        warnings.warn(
            f"{len(pairs)} pair(s) of columns are observed together in fewer than {FEWEST} rows: {shown}. The table does not "
            "tell their correlation: "
            + (
                "predictions of one do not lean on the other (see unseen_pairs_). Remedy: rows with both"
                if columns <= WIDEST
                else f"beyond {WIDEST} columns predictions lean on what the factors say of it, and claim more than is known "
                "(see unseen_pairs_). Remedies: rows with both, or fewer columns"
            ),
            UnseenPairsWarning,
            stacklevel=3,
        )


def completed(R: Array, unseen: Pairs) -> Array:
    """R with its unseen entries such that those of its inverse are zero: unseen pairs are independent given the others.

    Column by column r_jT = r_jB R_BB^-1 R_BT, T being unseen beside j and B the other columns, until nothing moves; of all
    correlation matrices with the seen entries it has the largest determinant.
    """
    R = R.copy()
    columns = np.flatnonzero(unseen.any(axis=0))
    for _ in range(_ROUNDS):
        moved = 0.0
        for j in columns:
            T, B = _sides(unseen, j)
            new = R[T][:, B] @ np.linalg.solve(R[B][:, B], R[B, j]) if len(B) else np.zeros(len(T))
            moved = max(moved, float(np.abs(new - R[T, j]).max()))
            R[T, j] = R[j, T] = new
        if moved < _SETTLED:
            break
    return R


def independent(R: Array, unseen: Pairs) -> Array:
    """The same of a matrix that may be singular, or nearly."""
    return completed((1.0 - _RIDGE) * R + _RIDGE * np.eye(len(R)), unseen)


def contracted(R: Array, unseen: Pairs, rng: np.random.Generator) -> Array:
    """R with unseen entries drawn among those that the seen ones admit.

    From the completion with independence on, each column j in turn: given the others B, partial correlations with the
    whitened rest of T have a uniform direction and a length uniform on (0, 1), for one unseen column uniform on (-1, 1).
    """
    R = independent(R, unseen)
    for j in rng.permutation(np.flatnonzero(unseen.any(axis=0))):
        T, B = _sides(unseen, j)
        slope, root, left = _rest(R, j, T, B)
        direction = rng.standard_normal(len(T))
        direction *= _LONGEST * rng.random() / np.linalg.norm(direction)
        R[T, j] = R[j, T] = slope @ R[B, j] + np.sqrt(left) * (root @ direction)
    return R


def _sides(unseen: Pairs, j: Any) -> tuple[Index, Index]:
    """Columns unseen beside j, and the others without j."""
    rest = ~unseen[j]
    rest[j] = False
    return np.flatnonzero(unseen[j]), np.flatnonzero(rest)


def _rest(R: Array, j: Any, T: Index, B: Index) -> tuple[Array, Array, float]:
    """Slopes of T on B, a root of the covariance that B leaves of T, and the variance that it leaves of j."""
    inner = R[B][:, B]
    slope = np.linalg.solve(inner, R[B][:, T]).T if len(B) else np.zeros((len(T), 0))
    cover = R[T][:, T] - slope @ R[B][:, T]
    root = np.linalg.cholesky(0.5 * (cover + cover.T) + _TINY * np.eye(len(T)))
    left = float(R[j, j] - R[B, j] @ np.linalg.solve(inner, R[B, j])) if len(B) else float(R[j, j])
    return np.asarray(slope, dtype=np.float64), np.asarray(root, dtype=np.float64), max(left, 0.0)


def all_factors(R: Array) -> Factors:
    """A correlation matrix as as many factors as columns: W W' + c I, c a tenth of its smallest eigenvalue."""
    values, vectors = np.linalg.eigh(R)
    noise = 0.1 * max(float(values[0]), 1e-6)
    W = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1] - noise, 0.0))
    scale = np.sqrt((1.0 - noise) / np.maximum(np.einsum("pi,pi->p", W, W), 1e-12))
    p = len(R)
    return Factors(W * scale[:, None], np.zeros((p, p, p)), np.full(p, noise))


@dataclass(frozen=True)
class Leaning:
    """A column, those unseen beside it, what turns t into their whitened rest, and the variance that the others leave of it."""

    column: int
    beside: Index
    turn: Array
    left: float


@dataclass(frozen=True)
class Bridge:
    """The model with unseen pairs independent given the others, in units of (z - mean) / scale, and what depends on that."""

    model: CopulaModel
    leanings: tuple[Leaning, ...]
    mean: Array
    scale: Array


def bridge_of(model: CopulaModel, unseen: Pairs, mean: Array, scale: Array) -> Bridge:
    """What predicts columns that have unseen partners."""
    f = model.factors
    R = f.W @ f.W.T + np.diag(f.noise)
    R = independent(R, unseen)
    factors = all_factors(R)
    leanings = []
    for j in np.flatnonzero(unseen.any(axis=0)):
        T, B = _sides(unseen, j)
        slope, _, left = _rest(R, j, T, B)
        away = factors.W[T] - slope @ factors.W[B]
        root = np.linalg.cholesky(away @ away.T + _TINY * np.eye(len(T)))
        turn = solve_triangular(root, away, lower=True)
        leanings.append(Leaning(int(j), T, turn, left))
    plain = replace(model, state=replace(model.state, factors=factors), bridge=None)
    return Bridge(plain, tuple(leanings), mean, scale)


def bridged(
    bridge: Bridge, q: Posterior, rows: Rows, mean: Array, sd: Array | None
) -> tuple[Array, Array | None]:
    r"""Laws of columns in rows that have a partner never seen beside them, integrated over its correlation.

    z_j = b'z_B + sqrt(v) (r'e + sqrt(1 - |r|^2) u): B the columns seen beside j, e the whitened rest of the others T, u
    normal. The table says nothing of r; with a uniform direction, and a length uniform on (0, 1),

    .. math:: E[z_j] = E_0[z_j], \quad Var[z_j] = Var_0[z_j] + \tfrac{v}{3} \Big(\frac{E|e|^2}{d} - 1\Big) ,

    where 0 stands for r = 0 and d for the number of columns T.
    """
    f = bridge.model.factors
    k = f.rank
    here = np.zeros((rows.n, rows.p), dtype=bool)
    here[rows.row, rows.column] = True
    mean = mean.copy()
    sd = None if sd is None else sd.copy()
    for lean in bridge.leanings:
        j = lean.column
        some = np.flatnonzero(here[:, lean.beside].any(axis=1) & ~here[:, j])
        if not len(some):
            continue
        mean[j, some] = bridge.mean[j] + bridge.scale[j] * (q.t[some] @ f.W[j])
        if sd is not None:
            V = doubled(q.V[some], k)
            plain = V @ pack(np.outer(f.W[j], f.W[j])) + f.noise[j]
            rest = q.t[some] @ lean.turn.T
            square = (rest * rest).sum(axis=1) + V @ pack(lean.turn.T @ lean.turn)
            square = np.minimum(square / len(lean.beside), _FAR)
            variance = np.maximum(plain + _SHARE * lean.left * (square - 1.0), f.noise[j])
            sd[j, some] = bridge.scale[j] * np.sqrt(variance)
    return mean, sd


def named(unseen: Pairs | None, labels: Sequence[Hashable]) -> list[tuple[Any, Any]]:
    """Pairs of labels."""
    if unseen is None:
        return []
    return [(labels[a], labels[b]) for a, b in zip(*np.nonzero(np.triu(unseen)), strict=True)]
