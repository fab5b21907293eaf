"""Links between two kinds of entities: a sparse table of scores, what is observed of it, and how to make one."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._containers import as_table, canonical, unmasked

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_SHOWN = 5  # names in a message
_LARGEST = 1e150  # scores beyond this have squares that float64 cannot hold


def shown(names: Sequence[object]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(n.item() if isinstance(n, np.generic) else n) for n in names[:_SHOWN]) + more


@dataclass(frozen=True)
class Links:
    """Scores of pairs, and how often each pair counts.

    ``mask`` holds the weights of observed pairs (ones where none were given); None: every pair is observed, absent
    scores are zero, and a pair counts once, or 1 + ``extra`` times where ``extra`` stores something.
    """

    Y: Any
    mask: Any = None
    extra: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Left and right entities."""
        return tuple(self.Y.shape)

    @property
    def base(self) -> float:
        """How often a pair counts that ``counted`` says nothing of."""
        return 1.0 if self.mask is None else 0.0

    @property
    def counted(self) -> Any:
        """What is added to ``base``, CSR, or None: nothing is."""
        return self.extra if self.mask is None else self.mask

    @property
    def count(self) -> float:
        """Number of observed pairs, each as often as it counts."""
        added = 0.0 if self.counted is None else float(self.counted.sum())
        return self.base * float(np.prod(self.Y.shape)) + added

    @cached_property
    def scores(self) -> Any:
        """Scores times how often they count, CSR."""
        if self.counted is None:
            return self.Y
        product = sparse.csr_array(self.Y.multiply(self.counted))
        return product if self.base == 0 else sparse.csr_array(self.Y + product)

    def scores_at(self, rows: Any, columns: Any) -> Array:
        """Scores of some pairs."""
        return np.asarray(self.Y[rows, columns]).ravel() if len(rows) else np.zeros(0)

    def weights_at(self, rows: Any, columns: Any) -> Array:
        """How often some pairs count."""
        if self.counted is None:
            return np.ones(len(rows))
        return self.base + np.asarray(self.counted[rows, columns], dtype=np.float64).ravel()

    @property
    def mean(self) -> float:
        """Mean score over observed pairs."""
        return float(self.scores.sum() / self.count)

    @property
    def deviation(self) -> float:
        """Standard deviation of the score over observed pairs."""
        unit = float(np.abs(self.Y.data).max(initial=0.0)) or 1.0  # squares of small scores would underflow
        mean = self.mean / unit
        table = self.Y.tocoo()
        weight = self.weights_at(*table.coords)
        stored = float(np.sum(weight * (table.data / unit - mean) ** 2))
        rest = max(self.count - float(weight.sum()), 0.0)
        return unit * float(np.sqrt((stored + rest * mean**2) / self.count))

    def degrees(self, axis: int) -> Array | None:
        """Observed pairs of each left (axis 1) or right (axis 0) entity as often as they count; None: all have all."""
        if self.counted is None:
            return None
        return self.base * self.Y.shape[axis] + np.asarray(self.counted.sum(axis=axis)).ravel()

    def rows(self, index: Any) -> Links:
        """Links of some left entities."""
        parts = (None if part is None else part[index] for part in (self.mask, self.extra))
        return Links(self.Y[index], *parts)

    def positives(self) -> Any:
        """Pattern of scores above zero that count, CSR of booleans."""
        positive = (self.scores > 0).tocsr()
        positive.eliminate_zeros()
        return positive


def check_links(Y: Any, mask: Any, shape: tuple[int, int], sample_weight: Any = None) -> Links:
    """Y and mask as CSR of the given shape, with something to learn from; see PairRegressor.fit for their meaning."""
    links = read_links(Y, mask, shape, sample_weight)
    if links.mask is not None and not links.mask.nnz:
        msg = "no pair is observed: the mask is empty, or every observed pair has weight zero"
        raise ValueError(msg)
    size = np.abs(links.Y.data)
    if size.size and size.max() > _LARGEST:
        table = links.Y.tocoo()
        worst = int(np.argmax(np.abs(table.data)))
        i, j = (int(places[worst]) for places in table.coords)
        msg = (
            f"sums over Y overflow: the pair of left entity {i} and right entity {j} has the score {table.data[worst]:.6g}, "
            f"beyond {_LARGEST:g}. Remedy: rescale the scores, or look for a wrong one"
        )
        raise ValueError(msg)
    if not np.any(links.scores.data):
        msg = "all scores in Y are zero, so there is no link to learn from; check the ids, or fit after adding links"
        raise ValueError(msg)
    if links.deviation <= 1e-12 * np.abs(links.Y.data).max():
        hint = "" if mask is None else "; without mask absent pairs count as zeros"
        msg = f"all observed pairs have the score {links.mean:g}, so nothing tells partners apart{hint}; give pairs of other scores"
        raise ValueError(msg)
    return links


def weigh(links: Links, sample_weight: Any) -> Links:
    """Links that count as often as their weights say; the lower median of the positive weights is one.

    A sparse table says nothing of pairs that neither it nor Y stores: those count once, as the median does.
    """
    if sample_weight is None:
        return links
    stored = sparse.issparse(sample_weight)
    given = sparse.csr_array(sample_weight if stored else _dense_weights(sample_weight), dtype=np.float64)
    if given.shape != links.shape:
        msg = f"sample_weight has shape {given.shape}, but Y has {links.shape}; give one weight per pair"
        raise ValueError(msg)
    given = given.copy()
    given.sum_duplicates()
    if not np.isfinite(given.data).all() or (given.data < 0).any():
        bad = given.data[~(np.isfinite(given.data) & (given.data >= 0))][0]
        msg = f"sample_weight has the value {bad:g}; weights of pairs are finite and at least 0"
        raise ValueError(msg)
    if links.mask is not None:
        given = sparse.csr_array(given.multiply(links.mask))
    given.eliminate_zeros()
    if not given.nnz:
        msg = "sample_weight is zero for every observed pair, so no link is left; give some link a positive weight"
        raise ValueError(msg)
    given.data /= np.sort(given.data)[(given.nnz - 1) // 2]
    if links.mask is not None:
        return Links(sparse.csr_array(links.Y.multiply(given > 0)), given)
    if stored:
        ones = (_pattern(given) + _pattern(links.Y)).astype(np.float64)
    else:
        ones = sparse.csr_array(np.ones(links.shape))
    extra = sparse.csr_array(given - ones)
    extra.eliminate_zeros()
    return Links(links.Y, None, extra if extra.nnz else None)


def _pattern(M: Any) -> Any:
    """Where a CSR table stores something, zeros included."""
    return sparse.csr_array((np.ones(M.nnz, dtype=bool), M.indices, M.indptr), shape=M.shape)


def _dense_weights(sample_weight: Any) -> Array:
    """A table of weights as an array."""
    table = np.asarray(sample_weight, dtype=np.float64)
    if table.ndim != 2:
        msg = (
            f"sample_weight has {table.ndim} dimension(s); give a table of one weight per pair (left entities x right "
            "entities), or a sparse one of the weights of the stored links"
        )
        raise ValueError(msg)
    return table


def read_links(Y: Any, mask: Any, shape: tuple[int, int], sample_weight: Any = None) -> Links:
    """Y and mask as CSR of the given shape, with the weights of pairs."""
    return weigh(_read(Y, mask, shape), sample_weight)


def _read(Y: Any, mask: Any, shape: tuple[int, int]) -> Links:
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
    places = [_places(ids, side) for ids, side in ((left_ids, "left"), (right_ids, "right"))]
    lefts, rights = list(left), list(right)
    values = np.ones(len(lefts)) if score is None else np.asarray(score, dtype=np.float64)
    if not len(lefts) == len(rights) == len(values):
        msg = f"links have {len(lefts)} left ids, {len(rights)} right ids and {len(values)} scores; they must agree"
        raise ValueError(msg)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        msg = f"the score of link {bad} ({lefts[bad]!r}, {rights[bad]!r}) is {values[bad]}; leave unknown links out"
        raise ValueError(msg)
    i, j = (
        np.array([place.get(name, -1) for name in names], dtype=np.intp)
        for place, names in zip(places, (lefts, rights), strict=True)
    )
    known = (i >= 0) & (j >= 0)
    if not known.all():
        if all(n in places[1] for n in lefts) and all(n in places[0] for n in rights):
            msg = "the left ends of the links are right entities and the right ends left ones; exchange the two sides"
            raise ValueError(msg)
        text = f"{int((~known).sum())} of {len(i)} links name {_strangers((i, lefts), (j, rights))}"
        if unknown == "raise":
            msg = f"{text}. Add their features, or leave these links out with unknown='drop'"
            raise ValueError(msg)
        warnings.warn(f"{text}; these links are left out", UserWarning, stacklevel=2)
        i, j, values = i[known], j[known], values[known]
    return _joined(i, j, values, left_ids, right_ids, duplicates)


def _places(ids: Sequence[Any], side: str) -> dict[Any, int]:
    """Where each id stands, once."""
    place = {name: i for i, name in enumerate(ids)}
    if len(place) < len(ids):
        twice = [name for name, count in Counter(ids).items() if count > 1]
        msg = f"{len(twice)} id(s) stand twice in the {side} table: {shown(twice)}; keep one row of each"
        raise ValueError(msg)
    return place


def _strangers(*ends: tuple[NDArray[np.intp], list[Any]]) -> str:
    """Names of ends of links, left and right, that stand in no table (whose place is below zero)."""
    parts = []
    for (found, names), side in zip(ends, ("left", "right"), strict=True):
        absent = list(dict.fromkeys(n for n, place in zip(names, found, strict=True) if place < 0))
        if absent:
            parts.append(f"{len(absent)} {side} id(s) that no table has: {shown(absent)}")
    return " and ".join(parts)


def _joined(
    i: NDArray[np.intp],
    j: NDArray[np.intp],
    values: NDArray[np.float64],
    left_ids: Sequence[Any],
    right_ids: Sequence[Any],
    duplicates: str,
) -> Any:
    """The table of links by place; those that stand twice are joined, or refused."""
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
