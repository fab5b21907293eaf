"""A table and its responses, ready for passes over the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import assert_all_finite, check_consistent_length

from .._blocks import Blocks
from .._response import (
    ResponseEncoder,
    check_varies,
    holds_labels,
    label_set,
    make_encoder,
    read_response,
    warn_heavy_tails,
)
from .._rows import CHUNK_BYTES, chunk_rows, is_dask, reduce_rows
from .._validation import checked_chunk, sample_rows
from ..factor import diagonal_whitener, ledoit_wolf_shrinkage
from ..moments import TableMoments, TripleMoments, TriplePlan, fourth_norms, table_moments

Array = NDArray[np.float64]
Pairs = tuple[tuple[int, int], ...]

# sparse products keep 13 digits as long as no column mean exceeds this many deviations
_SPARSE_MEAN = 30.0
_SPARSE_DENSITY = 0.1


@dataclass(frozen=True)
class Encoded:
    """A statistic of (X, encoded y) as a statistic of (X, y) for chunks nobody has checked."""

    statistic: Callable[..., Any]
    encoder: ResponseEncoder

    def __call__(self, X: Any, y: Any) -> Any:
        """Check, encode, add up."""
        return checked_chunk(self.statistic, X, self.encoder(y))


@dataclass(frozen=True)
class Folds:
    """The statistics of k interleaved parts of the rows."""

    parts: tuple[TripleMoments, ...]

    def __add__(self, other: Self) -> Self:
        return type(self)(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    @property
    def total(self) -> TripleMoments:
        """All parts together."""
        whole = self.parts[0]
        for part in self.parts[1:]:
            whole = whole + part
        return whole


@dataclass(frozen=True)
class Folded:
    """A statistic taken on every k-th row, for each of k offsets."""

    statistic: Callable[..., Any]
    k: int

    def __call__(self, X: Any, Y: Any) -> Folds:
        """Statistics of the k parts of a chunk."""
        return Folds(tuple(self.statistic(X[i :: self.k], Y[i :: self.k]) for i in range(self.k)))


@dataclass(frozen=True)
class Source:
    """X with its encoded responses; Dask collections keep the raw y and encode it in the tasks."""

    X: Any
    y: Any
    encoder: ResponseEncoder
    start: Any = None  # a sample of the rows of a Dask collection, so that it is loaded once

    @classmethod
    def of(
        cls, X: Any, y: Any, response: Any, caller: str, *, tails: bool = True, codes: int | None = 3
    ) -> Source:
        """Encode and check the response against a validated X.

        ``tails``: warn when they are heavy; ``codes``: see make_encoder.
        """
        y, response = read_response(y, response)
        if is_dask(X):
            if y is None:
                make_encoder(None, response, caller=caller)
            Xf, yf = sample_rows(X, y)
            assert_all_finite(Xf, input_name="X")
            classes = None
            if holds_labels(yf, response):
                classes = sorted(reduce_rows(label_set, y).labels) if is_dask(y) else np.unique(y)
            encoder = make_encoder(yf, response, classes=classes, streaming=True, caller=caller, codes=codes)
            if tails:
                warn_heavy_tails(encoder(yf))
            return cls(X, y, encoder, (Xf, yf))
        encoder = make_encoder(y, response, caller=caller, codes=codes)
        check_consistent_length(X, y)
        Y = encoder(y)
        check_varies(np.ptp(Y, axis=0))
        if tails and not encoder.labels:
            warn_heavy_tails(Y)
        return cls(X, Y, encoder)

    @property
    def dask(self) -> bool:
        """Whether rows live in a Dask collection."""
        return is_dask(self.X)

    def reduce(self, statistic: Callable[..., Any], chunk: int | None = None) -> Any:
        """One pass: the sum of ``statistic(X, Y)`` over chunks of rows."""
        if self.dask:
            return reduce_rows(Encoded(statistic, self.encoder), self.X, self.y, chunk=chunk)
        return reduce_rows(statistic, self.X, self.y, chunk=chunk)

    def shift(self) -> Array:
        """Constants near the column means, from a sample of rows."""
        rows = self.start[0] if self.dask else sample_rows(self.X)[0]
        return np.asarray(rows.mean(axis=0, dtype=np.float64)).ravel()

    def shift_y(self) -> Array:
        """Constants near the response means: exact for arrays, of the sample for Dask."""
        return (self.encoder(self.start[1]) if self.dask else self.y).mean(axis=0)

    def columns(self) -> TableMoments:
        """Means and variances of all columns and responses, in one pass."""
        return self.reduce(partial(table_moments, shift_x=self.shift(), shift_y=self.shift_y()))

    def plan(self, blocks: Blocks, plain: Pairs, weighted: Pairs) -> tuple[TriplePlan, int | None]:
        """What to add up for these block pairs, and rows per chunk.

        The mean of y is known beforehand for arrays; otherwise, and for labels (whose zero rows
        then cost nothing), cross products of the blocks are added to centre with.
        """
        order = blocks.order
        shift = self.shift()
        keep_sparse = False
        if sparse.issparse(self.X):
            moments = self.columns().x
            deviation = np.sqrt(moments.variance)
            density = self.X.nnz / max(1, self.X.shape[0] * self.X.shape[1])
            keep_sparse = bool(
                density < _SPARSE_DENSITY and (np.abs(moments.mean) <= _SPARSE_MEAN * deviation).all()
            )
            shift = np.zeros_like(shift) if keep_sparse else moments.mean
        if self.dask or self.encoder.labels:
            plain = tuple(sorted(set(plain) | set(weighted)))
        shift_y = np.zeros(self.encoder.n_responses) if self.encoder.labels else self.shift_y()
        plan = TriplePlan(
            slices=blocks.slices,
            order=order,
            shift_x=shift if order is None else shift[order],
            shift_y=shift_y,
            plain=plain,
            weighted=weighted,
            keep_sparse=keep_sparse,
        )
        rows = chunk_rows(self.X) if keep_sparse else max(256, CHUNK_BYTES // (8 * sum(blocks.widths)))
        return plan, rows

    def moments(self, blocks: Blocks, plain: Pairs, weighted: Pairs) -> TripleMoments:
        """The moments of these block pairs, in one pass."""
        plan, rows = self.plan(blocks, plain, weighted)
        total: TripleMoments = self.reduce(plan, chunk=rows)
        if self.dask:
            check_varies(total.y_variance)
        return total

    def fourth(self, mean: Array, scale: Array, columns: tuple[Any, ...]) -> Array:
        """Second pass of Ledoit-Wolf shrinkage."""
        return self.reduce(partial(fourth_norms, mean=mean, scale=scale, columns=columns))


def ledoit_wolf_weights(
    source: Source, blocks: Blocks, mean: Array, covariances: Sequence[Array], count: int
) -> list[float]:
    """Ledoit-Wolf weight of each block's correlation matrix; ``mean`` is in block order."""
    scales = [diagonal_whitener(np.diag(covariance)).scale for covariance in covariances]
    order = np.concatenate(blocks.columns)
    n_features = source.X.shape[1]
    centre, scale = np.zeros(n_features), np.ones(n_features)
    centre[order], scale[order] = mean, np.concatenate(scales)
    fourth = source.fourth(centre, scale, blocks.columns)
    return [
        ledoit_wolf_shrinkage(covariance / np.outer(s, s), fourth[b], count)
        for b, (covariance, s) in enumerate(zip(covariances, scales, strict=True))
    ]
