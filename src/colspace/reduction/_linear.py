"""Applying directions to rows, and what estimators of one table share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._blocks import Blocks
from .._overflow import overflow_error
from .._rows import chunk_rows, is_dask
from .._validation import assert_finite, check_table, feature_names, warn_constant
from ..factor import Whitener, full_whitener
from ._jackknife import LeftOut
from ._rebuild import UNKNOWN, rebuild, rebuild_map
from ._source import Source, ledoit_wolf_weights
from ._span import Span, check_span, row_span
from ._summary import LinearSummary

Array = NDArray[np.float64]


def linear_transform(X: Any, mean: NDArray[Any], components: NDArray[Any]) -> Any:
    """(X - mean) components' without a centred copy; lazy for Dask, never dense for CSR."""
    if is_dask(X):
        array = X.to_dask_array(lengths=None) if hasattr(X, "to_dask_array") else X
        array = array.rechunk({1: -1})
        return array.map_blocks(
            _transform_partition,
            mean,
            components,
            dtype=components.dtype,
            chunks=(array.chunks[0], (components.shape[0],)),
        )
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    if sparse.issparse(X):
        directions = components.T.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            out = np.asarray(X @ directions - mean @ directions).astype(dtype, copy=False)
        if not np.isfinite(out).all():
            raise overflow_error(X)
        return out
    out = np.empty((X.shape[0], components.shape[0]), dtype=dtype)
    step = chunk_rows(X)
    directions = components.T.astype(np.float64, copy=False)
    for i in range(0, X.shape[0], step):
        with np.errstate(over="ignore", invalid="ignore"):
            out[i : i + step] = (X[i : i + step] - mean) @ directions
        if not np.isfinite(out[i : i + step]).all():
            raise overflow_error(X[i : i + step])
    return out


def _transform_partition(X: Any, mean: NDArray[Any], components: NDArray[Any]) -> Any:
    assert_finite(X, "X")
    return linear_transform(X, mean, components).astype(components.dtype, copy=False)


class LinearReductionMixin(LinearSummary, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """``transform``, names and tags of an estimator that learns ``mean_`` and ``components_``."""

    n_features_in_: int
    mean_: Array
    scale_: Array
    components_: NDArray[Any]
    rebuild_: NDArray[Any] | None

    def transform(self, X: Any) -> Any:
        """Embed rows: the directions applied to centred columns."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        return linear_transform(X, self.mean_, self.components_)

    def inverse_transform(self, X: Any) -> Any:
        """Columns from an embedding: the linear map of least squared error over the rows of the fit, each block from its own directions."""
        check_is_fitted(self)
        if self.rebuild_ is None:
            raise ValueError(UNKNOWN)
        return rebuild(X, self.mean_, self.rebuild_)

    def _store_directions(self, loadings: Array, dtype: Any, spread: Array) -> None:
        """Set ``components_`` from loadings (features x directions), signed by the largest per standard deviation, and ``rebuild_``."""
        signs = direction_signs(loadings, self.scale_)
        self.components_ = (loadings * signs).T.astype(dtype)
        self.rebuild_ = rebuild_map(loadings * signs, spread * signs).astype(dtype)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class BlockReductionMixin(LinearReductionMixin):
    """Directions kept block by block: ``loadings_``, ``components_``, and names ``block__k``."""

    blocks: Any

    def _store_blocks(
        self,
        blocks: Blocks,
        loadings: Sequence[Array],
        values: Sequence[Array],
        mean: Array,
        scale: Array,
        dtype: Any,
        spreads: Sequence[Array] | None,
    ) -> None:
        """Set the learned attributes from loadings in block order; ``spreads`` has the columns' covariances with the embedding."""
        names, r = blocks.names, loadings[0].shape[1]
        signs = [direction_signs(L, scale[s]) for L, s in zip(loadings, blocks.slices, strict=True)]
        loadings = [L * sign for L, sign in zip(loadings, signs, strict=True)]
        self.n_components_ = r
        self.loadings_ = {name: L.astype(dtype) for name, L in zip(names, loadings, strict=True)}
        self.singular_values_ = dict(zip(names, values, strict=True))
        self.blocks_ = dict(zip(names, blocks.columns, strict=True))
        self.mean_ = np.zeros(blocks.n_features)
        self.scale_ = np.zeros(blocks.n_features)
        order = np.concatenate(blocks.columns)
        self.mean_[order], self.scale_[order] = mean, scale
        self.components_ = np.zeros((len(blocks) * r, blocks.n_features), dtype=dtype)
        for b, (columns, L) in enumerate(zip(blocks.columns, loadings, strict=True)):
            self.components_[b * r : (b + 1) * r, columns] = L.T
        self.rebuild_ = None
        if spreads is not None:
            back = np.zeros_like(self.components_)
            for b, (columns, L, C) in enumerate(zip(blocks.columns, loadings, spreads, strict=True)):
                back[b * r : (b + 1) * r, columns] = rebuild_map(L, C * signs[b])
            self.rebuild_ = back

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the embedding's columns: ``block__0``, or the class name and a number without blocks."""
        check_is_fitted(self)
        if self.blocks is None:
            return super().get_feature_names_out(input_features)
        return np.asarray(
            [f"{b}__{k}" for b in self.blocks_ for k in range(self.n_components_)], dtype=object
        )


def direction_signs(loadings: Array, scale: Array) -> Array:
    """Signs that make the largest loading per standard deviation of each direction positive."""
    standard = loadings * scale[:, None]
    top = standard[np.argmax(np.abs(standard), axis=0), np.arange(loadings.shape[1])]
    return np.where(top < 0, -1.0, 1.0)


def check_block_widths(n_components: int, blocks: Blocks) -> None:
    """Refuse more directions than the narrowest block has columns."""
    narrow = int(np.argmin(blocks.widths))
    if n_components > blocks.widths[narrow]:
        where = f"block {blocks.names[narrow]!r}" if len(blocks) > 1 else "X"
        msg = (
            f"n_components={n_components} is more than the {blocks.widths[narrow]} columns of {where} "
            f"(n_features = {blocks.n_features}); lower n_components, or take more columns"
        )
        raise ValueError(msg)


def column_labels(estimator: Any) -> list[object]:
    """Column names seen in fit, or positions."""
    names = feature_names(estimator)
    return list(names) if names is not None else list(range(estimator.n_features_in_))


def table_shrinkage(
    source: Source, table: Blocks, mean: Array, covariance: Array, count: float, shrinkage: Any
) -> float | None:
    """The weight of the identity in the correlation matrix: as given, or Ledoit-Wolf for "auto" (None: the least)."""
    if shrinkage != "auto":
        return None if shrinkage is None else float(shrinkage)
    return ledoit_wolf_weights(source, table, mean, [covariance], count)[0] or None


def table_whitener(
    source: Source,
    covariance: Array,
    rows: int,
    shrinkage: float | None,
    labels: Sequence[object],
    **options: Any,
) -> Whitener:
    """Whitener of a whole table, or of its rows' span; warns of constant columns and of a singular covariance."""
    if source.unit:
        return full_whitener(covariance, rows, shrinkage, unit=True, quiet=True)
    warn_constant(np.diag(covariance), labels)
    return full_whitener(covariance, rows, shrinkage, columns=labels, **options)


@dataclass(frozen=True)
class Table:
    """One table as the estimators of one table see it: as it is, or in its rows' span when it is wide."""

    source: Source
    blocks: Blocks
    span: Span | None
    original: Blocks

    @classmethod
    def of(cls, source: Source, blocks: Blocks, shrinkage: Any, labels: Sequence[object]) -> Table:
        """The table, checked; ``shrinkage`` zero refuses a wide one."""
        span = row_span(source, blocks, shrinkage=shrinkage)
        if span is None:
            return cls(source, blocks, None, blocks)
        warn_constant(span.deviation[np.concatenate(blocks.columns)], labels)
        return cls(span.source, span.blocks, span, blocks)

    def check_components(self, n_components: int) -> None:
        """Refuse more directions than there are columns, or than the rows span."""
        check_block_widths(n_components, self.original)
        if self.span is not None:
            check_span(n_components, self.blocks.widths, self.source.X.shape[0])

    def mean(self, found: Array) -> Array:
        """Means of the columns, in block order."""
        return found if self.span is None else self.span.mean[np.concatenate(self.original.columns)]

    def scale(self, covariance: Array) -> Array:
        """Deviations of the columns, in block order."""
        if self.span is None:
            return np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return self.span.deviation[np.concatenate(self.original.columns)]

    def loadings(self, L: Array, b: int = 0) -> Array:
        """Directions for the original columns."""
        return L if self.span is None else self.span.loadings(b, L)

    def covariances(self, C: Array, b: int = 0) -> Array:
        """Covariances of the original columns with scores, from those of the columns that estimators see."""
        return C if self.span is None else self.span.covariances(b, C)

    def lifted(self, left: LeftOut) -> LeftOut:
        """Directions without groups of rows, for the original columns."""
        return left if self.span is None else left.lifted(self.span)
