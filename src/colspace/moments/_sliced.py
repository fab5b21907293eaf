"""Moments within slices of the response: SIR, SAVE and sub-population least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._additive import Additive, shared

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SlicedMoments(Additive):
    """Per slice: count, sum x, sum y, sum x y, and (``second``) sum x x' of shifted data."""

    shift: Array = shared()
    count: Array
    x: Array
    y: Array
    xy: Array
    xx: Array

    @property
    def mean(self) -> Array:
        """Slice means, slices x features, relative to the shift."""
        return self.x / np.maximum(self.count, 1)[:, None]


def sliced_moments(
    X: Any, y: Array, slices: NDArray[np.intp], *, n_slices: int, shift: Array, second: bool
) -> SlicedMoments:
    """Statistic of a chunk whose rows carry slice numbers 0..n_slices-1; y is centred by the caller."""
    Z = (X.toarray() if sparse.issparse(X) else np.asarray(X)) - shift
    m = Z.shape[0]
    member = sparse.csr_array((np.ones(m), (slices, np.arange(m))), shape=(n_slices, m))
    xx = np.zeros((n_slices if second else 0, Z.shape[1], Z.shape[1]))
    if second:
        for h in np.unique(slices):
            part = Z[slices == h]
            xx[h] = part.T @ part
    weighted = sparse.csr_array((y, (slices, np.arange(m))), shape=(n_slices, m))
    return SlicedMoments(
        shift=shift,
        count=np.bincount(slices, minlength=n_slices).astype(np.float64),
        x=member @ Z,
        y=member @ y,
        xy=weighted @ Z,
        xx=xx,
    )
