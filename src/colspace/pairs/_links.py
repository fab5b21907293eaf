"""Links between two kinds of entities: a sparse table of scores, what is observed of it, and how to make one."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._containers import as_table, canonical, unmasked

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_SHOWN = 5  # names in a message


def shown(names: Sequence[object]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(n.item() if isinstance(n, np.generic) else n) for n in names[:_SHOWN]) + more


@dataclass(frozen=True)
class Links:
    """Scores of pairs; ``mask`` has ones at observed pairs, None when all are (absent scores are zero then)."""

    Y: Any
    mask: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Left and right entities."""
        return tuple(self.Y.shape)

    @property
    def count(self) -> int:
        """Number of observed pairs."""
        return int(np.prod(self.Y.shape)) if self.mask is None else int(self.mask.nnz)

    @property
    def mean(self) -> float:
        """Mean score over observed pairs."""
        return float(self.Y.sum() / self.count)

    @property
    def deviation(self) -> float:
        """Standard deviation of the score over observed pairs."""
        mean = self.mean
        stored = float(np.sum((self.Y.data - mean) ** 2))
        return float(np.sqrt((stored + (self.count - self.Y.nnz) * mean**2) / self.count))

    def degrees(self, axis: int) -> Array | None:
        """Observed pairs of each left (axis 1) or right (axis 0) entity; None when all have all."""
        return None if self.mask is None else np.asarray(self.mask.sum(axis=axis)).ravel()

    def rows(self, index: Any) -> Links:
        """Links of some left entities."""
        return Links(self.Y[index], None if self.mask is None else self.mask[index])

    def positives(self) -> Any:
        """Pattern of scores above zero, CSR of booleans."""
        positive = (self.Y > 0).tocsr()
        positive.eliminate_zeros()
        return positive


def check_links(Y: Any, mask: Any, shape: tuple[int, int]) -> Links:
    """Y and mask as CSR of the given shape, with something to learn from; see PairRegressor.fit for their meaning."""
    links = read_links(Y, mask, shape)
    if links.mask is not None and not links.mask.nnz:
        msg = "no pair is observed: the mask is empty"
        raise ValueError(msg)
    if not np.any(links.Y.data):
        msg = "all scores in Y are zero, so there is no link to learn from; check the ids, or fit after adding links"
        raise ValueError(msg)
    if links.deviation <= 1e-12 * np.abs(links.Y.data).max():
        hint = "" if mask is None else "; without mask absent pairs count as zeros"
        msg = f"all observed pairs have the score {links.mean:g}, so nothing tells partners apart{hint}"
        raise ValueError(msg)
    return links


def read_links(Y: Any, mask: Any, shape: tuple[int, int]) -> Links:
    """Y and mask as CSR of the given shape."""
    observed = isinstance(mask, str)
    if observed and mask != "observed":
        msg = f"mask={mask!r} must be None, 'observed', or a table of booleans"
        raise ValueError(msg)
    pattern = known = None
    if sparse.issparse(Y):
        # the same pair twice is one score, the sum, in scipy's convention
        Y = sparse.csr_array(canonical(Y, "Y"), dtype=np.float64)
        if not np.isfinite(Y.data).all():
            msg = "Y contains NaN or infinity among its stored scores; leave unknown pairs out of the sparse table"
            raise ValueError(msg)
        if observed:
            pattern = Y.copy()
    else:
        masked = isinstance(Y, np.ma.MaskedArray)
        dense = as_table(unmasked(Y) if masked else Y, "Y").values
        dense = (dense.toarray() if sparse.issparse(dense) else dense).astype(np.float64, copy=False)
        known = ~np.isnan(dense)
        if np.isinf(dense).any() or (mask is None and not known.all()):
            msg = (
                f"Y contains infinity, or NaN ({int((~known).sum())} of {dense.size} pairs). NaN is a pair that was not "
                "observed: fit with mask='observed'"
            )
            raise ValueError(msg)
        Y = sparse.csr_array(np.where(known, dense, 0.0))
        if observed:
            pattern = sparse.csr_array(known.astype(np.float64))
    if Y.shape != shape:
        swapped = " (Y.T has it: give A and B in the other order)" if Y.shape[::-1] == shape else ""
        msg = f"Y has shape {Y.shape}, but A has {shape[0]} entities and B {shape[1]}{swapped}"
        raise ValueError(msg)
    if mask is not None and not observed:
        table = as_table(mask, "mask").values
        pattern = sparse.csr_array(table, dtype=np.float64, copy=True)
        if pattern.shape != shape:
            msg = f"mask has shape {pattern.shape}, but Y has {shape}"
            raise ValueError(msg)
        if np.isnan(pattern.data).any():
            msg = "mask contains NaN; it says True or False of every pair"
            raise ValueError(msg)
        pattern.eliminate_zeros()
        gaps = 0 if known is None else int(np.sum(~known[pattern.nonzero()]))
        if gaps:
            msg = f"Y is NaN at {gaps} pairs that mask calls observed; use mask & ~np.isnan(Y)"
            raise ValueError(msg)
    if pattern is not None:
        pattern.data[:] = 1.0
        Y = sparse.csr_array(Y.multiply(pattern)) if not observed else Y
    return Links(Y, pattern)


def link_matrix(
    left: Any,
    right: Any,
    score: Any = None,
    *,
    left_ids: Sequence[Any],
    right_ids: Sequence[Any],
    unknown: str = "raise",
    duplicates: str = "raise",
) -> Any:
    """A sparse table of scores from a list of links by name.

    Parameters
    ----------
    left, right : sequences of ids, one per link.
    score : sequence of numbers, or None for ones.
    left_ids, right_ids : ids of the entities, in the order of their feature tables.
    unknown : "raise" refuses links with ids that no table has; "drop" leaves them out and warns.
    duplicates : "raise" refuses links that stand twice; "sum", "max" or "mean" joins them.

    Returns
    -------
    csr_array (left entities, right entities)

    Examples
    --------
    >>> from colspace.pairs import link_matrix
    >>> link_matrix(["x", "y"], ["p", "p"], [1.0, 0.5], left_ids=["x", "y"], right_ids=["p", "q"]).toarray()
    array([[1. , 0. ],
           [0.5, 0. ]])
    """
    if unknown not in ("raise", "drop"):
        msg = f"unknown={unknown!r} must be 'raise' or 'drop'"
        raise ValueError(msg)
    if duplicates not in ("raise", "sum", "max", "mean"):
        msg = f"duplicates={duplicates!r} must be 'raise', 'sum', 'max' or 'mean'"
        raise ValueError(msg)
    places = []
    for ids, side in ((left_ids, "left"), (right_ids, "right")):
        place = {name: i for i, name in enumerate(ids)}
        if len(place) < len(ids):
            twice = [name for name, count in Counter(ids).items() if count > 1]
            msg = f"{len(twice)} id(s) stand twice in the {side} table: {shown(twice)}; keep one row of each"
            raise ValueError(msg)
        places.append(place)
    lefts, rights = list(left), list(right)
    values = np.ones(len(lefts)) if score is None else np.asarray(score, dtype=np.float64)
    if not len(lefts) == len(rights) == len(values):
        msg = f"links have {len(lefts)} left ids, {len(rights)} right ids and {len(values)} scores; they must agree"
        raise ValueError(msg)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        msg = f"the score of link {bad} ({lefts[bad]!r}, {rights[bad]!r}) is {values[bad]}; leave unknown links out"
        raise ValueError(msg)
    i = np.array([places[0].get(name, -1) for name in lefts], dtype=np.intp)
    j = np.array([places[1].get(name, -1) for name in rights], dtype=np.intp)
    strange = (i < 0) | (j < 0)
    if strange.any():
        parts = []
        for found, names, side in ((i, lefts, "left"), (j, rights, "right")):
            absent = list(dict.fromkeys(n for n, place in zip(names, found, strict=True) if place < 0))
            if absent:
                parts.append(f"{len(absent)} {side} id(s) that no table has: {shown(absent)}")
        text = f"{int(strange.sum())} of {len(i)} links name {' and '.join(parts)}"
        if unknown == "raise":
            msg = f"{text}. Add their features, or leave these links out with unknown='drop'"
            raise ValueError(msg)
        warnings.warn(f"{text}; these links are left out", UserWarning, stacklevel=2)
        i, j, values = i[~strange], j[~strange], values[~strange]
    shape = (len(left_ids), len(right_ids))
    key, first, inverse, counts = np.unique(
        i * shape[1] + j, return_index=True, return_inverse=True, return_counts=True
    )
    if counts.size and counts.max() > 1:
        if duplicates == "raise":
            repeated = [(left_ids[i[f]], right_ids[j[f]]) for f in first[counts > 1]]
            msg = (
                f"{len(repeated)} link(s) stand twice or more: {shown(repeated)}. Keep one of each, or join them "
                "with duplicates='sum', 'max' or 'mean'"
            )
            raise ValueError(msg)
        if duplicates == "max":
            joined = np.full(len(key), -np.inf)
            np.maximum.at(joined, inverse, values)
        else:
            joined = np.bincount(inverse, weights=values)
            joined = joined / counts if duplicates == "mean" else joined
        i, j, values = i[first], j[first], joined
    return sparse.csr_array((values, (i, j)), shape=shape)
