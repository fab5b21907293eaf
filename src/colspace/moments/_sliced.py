"""Moments within slices of the response: SIR, SAVE and sub-population least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._additive import Additive
from ._columns import clear_flat, is_flat

Array = NDArray[np.float64]

# a share of the weight that is rounding, where a part was taken away from all rows
_NO_WEIGHT = 1e-12


@dataclass(frozen=True)
class SlicedMoments(Additive):
    """Per slice: weight, sums of x, y, y^2, x y and (``second``) x x'; over all rows: sum x x'.

    x is shifted by ``shift``. Several responses have slices of their own, each row being in one per response.
    ``n_rows`` is the sum of the weights, ``rows`` the number of rows that have one.
    """

    _shared: ClassVar[tuple[str, ...]] = ("shift",)

    shift: Array
    count: Array
    x: Array
    y: Array
    yy: Array
    xy: Array
    xx: Array
    rows: int
    n_rows: float
    total: Array
    gram: Array

    @property
    def occupied(self) -> NDArray[np.bool_]:
        """Slices that hold rows."""
        return self.count > _NO_WEIGHT * self.n_rows

    @property
    def filled(self) -> SlicedMoments:
        """The same without slices that hold no rows."""
        kept = self.occupied
        if kept.all():
            return self
        names = ("count", "x", "y", "yy", "xy", *(("xx",) if len(self.xx) else ()))
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    @property
    def mean(self) -> Array:
        """Means of all rows."""
        return self.shift + self.total / self.n_rows

    @property
    def covariance(self) -> Array:
        """Covariance of all rows (1/m); exactly zero for constant columns."""
        with np.errstate(over="ignore", invalid="ignore"):  # refused by column
            raw, shift = self.gram / self.n_rows, self.total / self.n_rows
            covariance = raw - np.outer(shift, shift)
        return clear_flat(covariance, np.diag(raw))

    @property
    def weights(self) -> Array:
        """Share of the rows in each slice."""
        return self.count / self.n_rows

    @property
    def slice_means(self) -> Array:
        """Slice means relative to the overall means, slices x features."""
        return self.x / self.count[:, None] - self.total / self.n_rows

    @property
    def slice_covariances(self) -> Array:
        """Covariance within each slice (divisor: its number of rows), slices x features x features."""
        mean = self.x / self.count[:, None]
        return self.xx / self.count[:, None, None] - mean[:, :, None] * mean[:, None, :]

    @property
    def slice_cross(self) -> Array:
        """E[x (y - mean of y in the slice) 1(slice)], features x slices."""
        return ((self.xy - self.x * (self.y / self.count)[:, None]) / self.n_rows).T

    @property
    def slice_varies(self) -> NDArray[np.bool_]:
        """Slices whose response takes more than one value."""
        raw = self.yy / self.count
        return ~is_flat(raw - (self.y / self.count) ** 2, raw)


def sliced_moments(
    X: Any,
    slices: NDArray[np.intp],
    Y: Array | None = None,
    weights: Array | None = None,
    *,
    n_slices: int,
    shift: Array,
    second: bool,
    order: NDArray[np.intp] | None = None,
) -> SlicedMoments:
    """Statistic of a chunk whose rows carry slice numbers 0..n_slices-1, one column per response.

    Slice numbers of different responses differ; ``order`` picks columns of X. Y, one column per column
    of slice numbers, centred and scaled by the caller, is needed only for the sums of y, y^2 and x y.
    """
    X = X if order is None else X[:, order]
    Z = np.subtract(X.toarray() if sparse.issparse(X) else X, shift, dtype=np.float64)
    m, q = slices.shape
    w = np.ones(m) if weights is None else weights
    cells = (slices.ravel(), np.repeat(np.arange(m), q))
    each = np.repeat(w, q)
    member = sparse.csr_array((each, cells), shape=(n_slices, m))
    values = np.zeros(m * q) if Y is None else Y.ravel()
    weighted = sparse.csr_array((each * values, cells), shape=(n_slices, m))
    p = Z.shape[1]
    xx = np.zeros((n_slices if second else 0, p, p))
    rooted = Z if weights is None else Z * np.sqrt(w)[:, None]
    if second:
        for numbers in slices.T:
            for h in np.unique(numbers):
                part = rooted[numbers == h]
                xx[h] = part.T @ part
    return SlicedMoments(
        shift=shift,
        count=np.bincount(slices.ravel(), each, minlength=n_slices).astype(np.float64),
        x=member @ Z,
        y=weighted.sum(axis=1),
        yy=np.bincount(slices.ravel(), weights=each * values**2, minlength=n_slices).astype(np.float64),
        xy=weighted @ Z,
        xx=xx,
        rows=int(np.count_nonzero(w)),
        n_rows=m if weights is None else float(w.sum()),
        total=w @ Z,
        gram=xx[np.unique(slices[:, 0])].sum(axis=0) if second else rooted.T @ rooted,
    )
