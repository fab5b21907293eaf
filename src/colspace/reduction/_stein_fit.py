"""From the moments of Stein's method to directions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..factor import break_ties, eigh, fix_signs, matrix_rank, singular_values, spectral_norm
from ._stein_sums import SteinMoments

Array = NDArray[np.float64]


def inverse_root(covariance: Array) -> Array:
    """Symmetric inverse square root on the range of a covariance of columns in like units."""
    values, vectors = eigh(covariance)
    keep = values > 1e-10 * max(values[-1], np.finfo(float).tiny)
    return (vectors[:, keep] / np.sqrt(values[keep])) @ vectors[:, keep].T


def response_map(y_covariance: Array, *, whiten: bool) -> Array:
    """Responses are multiplied by this: D^-1 R^(-1/2) with their deviations D and correlations R, or by D^-1."""
    variance = np.diag(y_covariance)
    inverse = 1.0 / np.sqrt(np.where(variance > 0, variance, 1.0))
    if not whiten:
        return np.diag(inverse)
    return inverse[:, None] * inverse_root(y_covariance * inverse * inverse[:, None])


def supervised_matrix(
    m: SteinMoments, order: Any, combine: str, transform: Array | None, root: Array | None
) -> Array:
    """The labelled rows' moments side by side, rows of the matrix being features.

    ``root`` is the metric: C^(1/2) with C the covariance, so that noise is even, or None for I, the published one.
    ``transform`` acts on responses (None: as they are).
    """
    parts = []
    if order in (1, "both"):
        first = m.first if transform is None else m.first @ transform
        parts.append(first if root is None else root @ first)
    if order in (2, "both"):
        assert m.second is not None
        stack = m.second
        if not m.averaged and combine == "mean":  # one weighted sum
            c = np.ones(len(stack)) if transform is None else transform.sum(axis=1)
            stack = np.tensordot(c / len(stack if transform is None else transform.T), stack, 1)[None]
        elif not m.averaged and transform is not None:
            stack = np.einsum("jab,jk->kab", stack, transform)
        parts.extend(H if root is None else root @ H @ root for H in stack)
    return np.hstack(parts)


def own_matrix(m: SteinMoments, combine: str, root: Array | None) -> Array:
    """Second moments of all rows with their own columns: side by side, or their mean."""
    assert m.own is not None
    parts = m.own.mean(axis=0)[None] if combine == "mean" else m.own
    return np.hstack([H if root is None else root @ H @ root for H in parts])


def blend(
    labeled: Array | None, unlabeled: Array | None, weight: float | str, norm: float | None = None
) -> Array:
    """M_l M_l' + (w rho)^2 M_u M_u', rho the ratio of spectral norms ("paper": both as they are).

    ``norm`` is that of M_u where it is known.
    """
    if labeled is None:
        assert unlabeled is not None
        return unlabeled @ unlabeled.T
    gram = labeled @ labeled.T
    if unlabeled is None or weight == 0.0:
        return gram
    scale = 1.0
    if not isinstance(weight, str):
        scale = weight * spectral_norm(labeled) / (norm or spectral_norm(unlabeled))
    return gram + scale**2 * (unlabeled @ unlabeled.T)


def leading(gram: Array, r: int, tie: Array | None = None) -> tuple[Array, Array]:
    """The r leading eigenvectors of a Gram matrix and the roots of its r + 1 leading eigenvalues.

    ``tie`` orders directions of equal eigenvalues.
    """
    k = min(r + 1, len(gram))
    values, U = eigh(gram, k)
    if tie is not None and len(values) > r and values[1] - values[0] <= 1e-10 * values[-1]:
        values, U = eigh(gram)
    values, U = values[::-1], U[:, ::-1]
    if tie is not None:
        U = break_ties(values, U, r, tie)
    return fix_signs(U[:, :r]), np.sqrt(np.maximum(values[:k], 0.0))


def is_flat(values: Array) -> bool:
    """Whether a block's singular values all agree to 1e-6: it then prefers no direction."""
    return bool(values.max() - values.min() <= 1e-6 * values.max())


@dataclass(frozen=True)
class SteinOptions:
    """What is asked of the moments: see SteinReduction."""

    n_components: int | str
    order: int | str
    whiten: bool | str
    whiten_response: bool | str
    combine: str
    unlabeled_weight: float | str


@dataclass(frozen=True)
class Frame:
    """Choices that the moments settle: metric, map of the responses, weight of the unlabelled block."""

    supervised: bool
    weight: float | str
    transform: Array | None
    root: Array | None
    inverse: Array | None


def settle(options: SteinOptions, m: SteinMoments, ridge: float, labels: bool, n_columns: int) -> Frame:
    """Resolve every "auto" against the moments; ``ridge`` is that of the score."""
    supervised = m.n_labeled > 0 and len(m.y_covariance) > 0
    weight = _weight(options, m, labels) if supervised else 1.0
    transform = None
    if supervised:
        transform = response_transform(
            options, m.y_covariance, m.n_labeled, labels=labels, n_columns=n_columns
        )
    whiten = options.whiten if isinstance(options.whiten, bool) else supervised and weight == 0.0
    if not whiten:
        return Frame(supervised, weight, transform, None, None)
    metric = m.covariance + ridge * np.eye(len(m.mean)) if m.metric is None else m.metric
    inverse = inverse_root(metric)
    return Frame(supervised, weight, transform, metric @ inverse, inverse)


def response_transform(
    options: SteinOptions, y_covariance: Array, n_labeled: float, *, labels: bool, n_columns: int
) -> Array | None:
    """What responses are multiplied by; None: they stay as they are."""
    if options.whiten_response is False:
        return None
    enough = labels or n_labeled >= 10 * n_columns
    whiten = enough if isinstance(options.whiten_response, str) else True
    return response_map(y_covariance, whiten=whiten)


def settled(
    options: SteinOptions, m: SteinMoments, frame: Frame, labels: bool, n_columns: int
) -> SteinOptions:
    """The options with every "auto" as these moments have resolved it."""
    enough = labels or m.n_labeled >= 10 * n_columns
    response = enough or "auto" if options.whiten_response == "auto" else options.whiten_response
    return replace(
        options, whiten=frame.root is not None, whiten_response=response, unlabeled_weight=frame.weight
    )


def _weight(options: SteinOptions, m: SteinMoments, labels: bool) -> float | str:
    if options.unlabeled_weight != "auto":
        return options.unlabeled_weight
    if m.n_labeled == m.count or m.metric is not None:
        return 0.0
    few = m.n_labeled < 5 * len(m.y_covariance)
    beyond = not isinstance(options.n_components, str) and options.n_components > response_rank(m)
    return 1.0 if labels or few or beyond else 0.3


def response_rank(m: SteinMoments) -> int:
    """Number of linearly independent responses."""
    deviation = np.sqrt(np.where(np.diag(m.y_covariance) > 0, np.diag(m.y_covariance), 1.0))
    return matrix_rank(m.y_covariance / deviation / deviation[:, None])


@dataclass(frozen=True)
class SteinSolution:
    """Directions for scaled columns (p x r), singular values, the weight in force, and what the user should know."""

    directions: Array
    values: Array
    weight: float | str
    notes: tuple[str, ...]


def solve_stein(
    options: SteinOptions, m: SteinMoments, frame: Frame, r: int, *, exact: bool
) -> SteinSolution:
    """Directions from moments; ``exact``: the score is a Gaussian, whose unlabelled block is PCA's."""
    notes: list[str] = []
    labeled, unlabeled, weight, norm = None, None, frame.weight, None
    if frame.supervised:
        labeled = supervised_matrix(m, options.order, options.combine, frame.transform, frame.root)
    if weight != 0.0 and not (m.own is not None and options.order == 2):
        assert m.unlabeled is not None
        unlabeled = m.unlabeled
        singular = singular_values(unlabeled)
        norm, flat = float(singular[0]), is_flat(singular)
        if frame.supervised and flat and m.own is None:
            unlabeled, weight = None, 0.0
            notes.append(
                "the block of the unlabelled rows is flat, as it is for every exact score, so they add nothing. "
                "Remedy: a smoothed score, e.g. score_model=GaussianScore(ridge=1.0)"
            )
        elif not frame.supervised and m.own is None and (flat or exact):
            unlabeled = m.covariance
            notes.append(
                "without labels the scores prefer no direction by themselves; the directions are those of PCA"
            )
    if m.own is not None:
        own = own_matrix(m, options.combine, frame.root)
        if labeled is None:
            notes.append(
                "without labels the second moments of an exact score are zero; the directions are those in which the columns are skewed"
            )
        if labeled is not None and options.combine == "mean":  # one matrix each, which the paper adds
            labeled[:, -len(own) :] += own
        else:
            unlabeled = own if unlabeled is None else np.hstack([unlabeled, own])
    tie = m.covariance if frame.root is None else frame.root @ frame.root
    shown = r if m.metric is None or labeled is None else min(r, max(matrix_rank(labeled), 1))
    directions, values = leading(blend(labeled, unlabeled, weight, norm), shown, tie)
    rank = response_rank(m) if frame.supervised else 0
    if m.metric is None and frame.supervised and weight == 0.0 and options.order == 1 and r > rank:
        notes.append(
            f"n_components={r} is more than the {rank} direction(s) that the responses can show in first "
            "order; the rest follow the columns' own variance. Remedies: fewer, order='both', or unlabeled_weight > 0"
        )
    elif len(values) > r == shown and values[r] > 0.99 * values[r - 1] > 0:
        notes.append(
            f"no gap after component {r}: singular values {values[r - 1]:.3g} and {values[r]:.3g}, so the last "
            "directions are not determined by the data. Try another n_components, or 'auto'"
        )
    if frame.inverse is not None:
        directions = frame.inverse @ directions
    if shown < r:
        directions = np.hstack([directions, widest_beside(directions, m.covariance, r - shown, frame.root)])
        values = np.concatenate([values[:shown], np.zeros(r - shown)])
    return SteinSolution(directions, values[:r], weight, tuple(notes))


def widest_beside(directions: Array, covariance: Array, k: int, root: Array | None) -> Array:
    """The k directions of largest variance at right angles to others, of length one in the metric."""
    beside = np.linalg.qr(directions, mode="complete")[0][:, directions.shape[1] :]
    found = fix_signs(beside @ eigh(beside.T @ covariance @ beside, k)[1][:, ::-1])
    return found if root is None else found / np.linalg.norm(root @ found, axis=0)
