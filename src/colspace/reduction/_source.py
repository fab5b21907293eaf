"""A table, its responses and its weights, ready for passes over the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_consistent_length

from .._blocks import Blocks
from .._overflow import overflow_error
from .._response import (
    ResponseEncoder,
    check_varies,
    holds_labels,
    is_gap,
    label_set,
    make_encoder,
    read_response,
    warn_heavy_tails,
)
from .._rows import CHUNK_BYTES, chunk_rows, is_dask, reduce_rows
from .._threads import one_thread
from .._validation import assert_finite, check_weights, chunk_weights, sample_rows
from ..factor import diagonal_whitener, ledoit_wolf_shrinkage
from ..moments import TableMoments, TripleMoments, TriplePlan, all_finite, fourth_norms, table_moments

Array = NDArray[np.float64]
Pairs = tuple[tuple[int, int], ...]

# sparse products keep 13 digits as long as no column mean exceeds this many deviations
_SPARSE_MEAN = 30.0
_SPARSE_DENSITY = 0.1
# bytes of the sums that threads may hold, and groups that these are of
_SUMS = 64 << 20
_GROUPS = 20


def weighted_rows(weights: Array | None, *arrays: Any) -> tuple[Any, ...]:
    """The arrays and the weights without the rows of weight zero."""
    if weights is None or (weights > 0).all():
        return (*arrays, weights)
    keep = weights > 0
    return (*(a[keep] for a in arrays), weights[keep])


@dataclass(frozen=True)
class Encoded:
    """A statistic of (X, encoded y, weights) as a statistic of (X, y, weights) for chunks nobody has checked."""

    statistic: Callable[..., Any]
    encoder: ResponseEncoder | None
    labels: Sequence[object] | None = None

    def __call__(self, X: Any, y: Any, weights: Any = None) -> Any:
        """Check, encode, add up."""
        rest: Sequence[Array] = ()
        if weights is not None:
            rest = (chunk_weights(weights),)
            if rest[0].any():
                X, y, *rest = weighted_rows(rest[0], X, y)
            else:  # no row is there
                X, y, rest = X[:0], y[:0], [rest[0][:0]]
        if self.encoder is not None:
            y = self.encoder(y) if len(y) else np.zeros((0, self.encoder.n_responses))
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.statistic(X, y, *rest)
        if not all_finite(found):  # what is not finite in X is not in its sums
            assert_finite(X)
            raise overflow_error(X, self.labels, y=y, sample_weight=weights)
        return found


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

    def __call__(self, *arrays: Any) -> Folds:
        """Statistics of the k parts of a chunk."""
        return Folds(tuple(self.statistic(*(a[i :: self.k] for a in arrays)) for i in range(self.k)))


@dataclass(frozen=True)
class Source:
    """X with its encoded responses; Dask collections keep the raw y and encode it in the tasks.

    ``unit``: the columns are in the units that shrinkage is to see (see ``row_span``), and stand for
    ``n_columns`` original ones per block.
    """

    X: Any
    y: Any
    encoder: ResponseEncoder
    weights: Any = None
    labels: Sequence[object] | None = None
    start: Any = None  # a sample of the rows of a Dask collection, so that it is loaded once
    unit: bool = False
    n_columns: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        response: Any,
        caller: str,
        *,
        tails: bool = True,
        weights: Any = None,
        labels: Sequence[object] | None = None,
        codes: int | None = 3,
    ) -> Source:
        """Encode and check the response and the weights against a validated X.

        ``tails``: warn when they are heavy; ``codes``: see make_encoder.
        """
        weights = check_weights(weights, X)
        y, response = read_response(y, response)
        if is_dask(X):
            if y is None:
                make_encoder(None, response, caller=caller)
            Xf, yf = sample_rows(X, y, weights=weights)
            assert_finite(Xf, "X")
            classes = all_classes(y, weights) if holds_labels(yf, response) else None
            encoder = make_encoder(yf, response, classes=classes, streaming=True, caller=caller, codes=codes)
            if tails:
                warn_heavy_tails(encoder(yf))
            return cls(X, y, encoder, weights, labels, (Xf, yf))
        if y is not None and weights is not None and not (weights > 0).all():
            check_consistent_length(X, y)
            X, y, weights = weighted_rows(weights, X, y)
        if y is not None:
            check_consistent_length(X, y)
        encoder = make_encoder(y, response, caller=caller, codes=codes, weights=weights)
        Y = encoder(y)
        response_units(Y, encoder)
        check_varies(np.ptp(Y, axis=0))
        if tails and not encoder.labels:
            warn_heavy_tails(Y)
        return cls(X, Y, encoder, weights, labels)

    @property
    def dask(self) -> bool:
        """Whether rows live in a Dask collection."""
        return is_dask(self.X)

    def reduce(self, statistic: Callable[..., Any], chunk: int | None = None) -> Any:
        """One pass: the sum of ``statistic(X, Y[, weights])`` over chunks of rows."""
        arrays = (self.X, self.y) if self.weights is None else (self.X, self.y, self.weights)
        if self.dask:
            return reduce_rows(Encoded(statistic, self.encoder, self.labels), *arrays, chunk=chunk)
        with np.errstate(over="ignore", invalid="ignore"):
            total = reduce_rows(statistic, *arrays, chunk=chunk, threads=self._threads())
        if not all_finite(total):
            raise overflow_error(self.X, self.labels, y=self.y, sample_weight=self.weights)
        return total

    def _threads(self) -> int:
        """Threads that products leave to the chunks of a dense table, as far as sums of products of groups of rows are small."""
        if sparse.issparse(self.X):
            return 1
        size = 8 * self.X.shape[1] ** 2 * (2 + self.encoder.n_responses) * _GROUPS
        return int(min(one_thread.spare, max(1, _SUMS // size)))

    def shift(self) -> Array:
        """Constants near the column means, from a sample of rows."""
        return column_shift(self.start[0] if self.dask else sample_rows(self.X)[0], self.labels)

    def response_units(self) -> tuple[Array, Array]:
        """Constants near the responses' means and spreads: of all rows of an array, of the sample for Dask."""
        return response_units(self.encoder(self.start[1]) if self.dask else self.y, self.encoder)

    def columns(self) -> TableMoments:
        """Means and variances of all columns and responses, in one pass."""
        shift_y, _ = self.response_units()
        return self.reduce(partial(table_moments, shift_x=self.shift(), shift_y=shift_y))

    def plan(self, blocks: Blocks, plain: Pairs, weighted: Pairs) -> tuple[TriplePlan, int | None]:
        """What to add up for these block pairs, and rows per chunk.

        The mean of y is known beforehand for arrays without weights; otherwise, and for labels (whose zero
        rows then cost nothing), cross products of the blocks are added to centre with.
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
        if self.dask or self.encoder.labels or self.weights is not None:
            plain = tuple(sorted(set(plain) | set(weighted)))
        shift_y, scale_y = self.response_units()
        plan = TriplePlan(
            slices=blocks.slices,
            order=order,
            shift_x=shift if order is None else shift[order],
            shift_y=shift_y,
            scale_y=scale_y,
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
        if self.dask or self.weights is not None:
            check_varies(total.y_variance)
        return total

    def fourth(self, mean: Array, scale: Array, columns: tuple[Any, ...]) -> Array:
        """Second pass of Ledoit-Wolf shrinkage."""
        return self.reduce(partial(fourth_norms, mean=mean, scale=scale, columns=columns))


def column_shift(rows: Any, labels: Sequence[object] | None = None) -> Array:
    """Medians of a sample of rows, which no single cell can move; means of a sparse one."""
    if not sparse.issparse(rows):
        step = max(1, len(rows) // 1024)
        with np.errstate(over="ignore", invalid="ignore"):
            shift = np.median(np.asarray(rows[::step], dtype=np.float64), axis=0)
        if not np.isfinite(shift).all():
            assert_finite(rows)
            raise overflow_error(rows, labels)
        return shift
    with np.errstate(over="ignore", invalid="ignore"):
        shift = np.asarray(rows.mean(axis=0, dtype=np.float64)).ravel()
    if not np.isfinite(shift).all():
        raise overflow_error(rows, labels)
    return shift


def response_units(Y: Array, encoder: ResponseEncoder) -> tuple[Array, Array]:
    """Constants near the means and spreads of responses; labels stay the zeros and ones they are."""
    if encoder.labels:
        return np.zeros(Y.shape[1]), np.ones(Y.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        shift = Y.mean(axis=0)
        spread = np.abs(Y - shift).max(axis=0)
    if not np.isfinite(spread).all():
        raise overflow_error(Y, what="y")
    return shift, np.where(spread > 0, np.ldexp(1.0, np.minimum(np.frexp(spread)[1], 1023)), 1.0)


def all_classes(y: Any, weights: Any = None, *, gaps: bool = False) -> list[Any]:
    """The class labels of the rows that count, over all partitions; ``gaps``: a row may have none."""
    arrays = (y,) if weights is None else (y, weights)
    return sorted(reduce_rows(partial(_labels_that_count, gaps=gaps), *arrays).labels)


def _labels_that_count(y: Any, weights: Any = None, *, gaps: bool) -> Any:
    values = np.asarray(y)
    if weights is not None:
        values = values[np.asarray(weights) > 0]
    if gaps:
        values = values.ravel()
        values = values[[not is_gap(v) for v in values.tolist()]]
    return label_set(values)


def ledoit_wolf_weights(
    source: Source, blocks: Blocks, mean: Array, covariances: Sequence[Array], count: float
) -> list[float]:
    """Ledoit-Wolf weight of each block's correlation matrix; ``mean`` is in block order."""
    if source.unit:
        scales = [np.ones(width) for width in blocks.widths]
    else:
        scales = [diagonal_whitener(np.diag(covariance)).scale for covariance in covariances]
    order = np.concatenate(blocks.columns)
    n_features = source.X.shape[1]
    centre, scale = np.zeros(n_features), np.ones(n_features)
    centre[order], scale[order] = mean, np.concatenate(scales)
    fourth = source.fourth(centre, scale, blocks.columns)
    widths = source.n_columns or blocks.widths
    return [
        ledoit_wolf_shrinkage(covariance / s / s[:, None], fourth[b], count, widths[b])
        for b, (covariance, s) in enumerate(zip(covariances, scales, strict=True))
    ]


@dataclass(frozen=True)
class Rows:
    """Rows themselves as a statistic: pieces of X, y and weights in order."""

    X: tuple[Any, ...]
    y: tuple[Array, ...]
    weights: tuple[Array, ...]

    @classmethod
    def of(cls, X: Any, y: Array, weights: Array | None = None) -> Rows:
        """Of one chunk, in arrays of their own."""
        assert_finite(X)
        return cls((X.copy(),), (y.copy(),), () if weights is None else (weights.copy(),))

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.X + other.X, self.y + other.y, self.weights + other.weights)


def gathered(source: Source, widths: Sequence[int]) -> Source:
    """A Dask collection that has no more rows than a block has columns, in memory; others as they are.

    Its rows are fewer numbers than the sums of products of their columns, and their span is where wide blocks are solved.
    """
    most = max(widths)
    if not source.dask or source.start[0].shape[0] > most:
        return source
    rows = source.X.shape[0]
    known = source.weights is None and isinstance(rows, int | np.integer)
    if (rows if known else source.reduce(count_rows)) > most:
        return source
    found = source.reduce(Rows.of)
    X = sparse.vstack(found.X, format="csr") if sparse.issparse(found.X[0]) else np.concatenate(found.X)
    weights = np.concatenate(found.weights) if found.weights else None
    return replace(source, X=X, y=np.concatenate(found.y), weights=weights, start=None)


def count_rows(X: Any, y: Array, weights: Array | None = None) -> int:
    """Rows of a chunk."""
    return int(X.shape[0])
