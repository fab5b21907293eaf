"""Structured ordinary least squares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .._blocks import Blocks, parse_blocks
from .._containers import as_column
from .._response import is_gap
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._validation import check_table, feature_names, table_dtype
from ..factor import Whitener, full_whitener, left_singular
from ..moments import SlicedMoments, centre, clear_flat
from ._linear import (
    BlockReductionMixin,
    check_block_widths,
    column_labels,
    table_shrinkage,
    table_whitener,
)
from ._sliced import collect_slices, refuse_dask, slice_responses
from ._source import Source

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class StructuredOLS(BlockReductionMixin, BaseEstimator):
    r"""Structured ordinary least squares (sOLS): least-squares directions and their parts in blocks of columns.

    The regression of y on the whole table, and the regressions within sub-populations h, give the directions

    .. math:: \Sigma^{-1} E[(x - \mu)\, y], \qquad \Sigma^{-1} E[(x - \mu)(y - \bar y_h)\, 1_h].

    Each block takes its parts of all of them, weighed by the block's covariance, and keeps their leading
    left singular vectors.

    Parameters
    ----------
    n_components : int, default=1
        Directions per block; at most the number of regressions.
    blocks : mapping, "prefix" or None, default=None
        Name -> columns (names, patterns, positions, slices, masks). "prefix" takes the text before ``__``
        in column names. None is one block. The key "drop" leaves columns out.
    n_slices : int, default=1
        Slices of y that serve as sub-populations beside the whole, cut as in SlicedInverse; 1 is none.
    shrinkage : float in [0, 1] or "auto", default=0.0
        Weight of the identity in the correlation matrix; "auto" is Ledoit-Wolf.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y. "labels" takes numbers as class labels; strings, booleans and categories always are.
        Numbers that look like codes of classes get a warning, which "numbers" silences.

    Attributes
    ----------
    loadings_ : dict of str to ndarray (columns of the block, n_components)
    components_ : ndarray (blocks * n_components, n_features)
    singular_values_ : dict of str to ndarray
    mean_ : ndarray (n_features,)
    blocks_ : dict of str to ndarray
        Columns of each block.
    n_components_ : int
    n_directions_ : int
        Number of regressions behind the directions.
    shrinkage_ : float

    References
    ----------
    Liu, Chiaromonte and Li (2017), "Structured ordinary least squares: a sufficient dimension reduction
    approach for regressions with partitioned predictors and heterogeneous units", Biometrics 73.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import StructuredOLS
    >>> from colspace.metrics import nsee
    >>> X = np.random.default_rng(0).standard_normal((2000, 5))
    >>> model = StructuredOLS(blocks={"a": [0, 1], "b": [2, 3, 4]})
    >>> model.fit(X, np.tanh(X[:, 0] + X[:, 2] - X[:, 4])).get_feature_names_out()
    array(['a__0', 'b__0'], dtype=object)
    >>> truth = {"a": np.array([1, 0]), "b": np.array([1, 0, -1])}
    >>> print(f"{nsee(truth, model.loadings_):.1f}")
    0.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "blocks": "no_validation",
        "n_slices": [whole(1)],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "response": [StrOptions({"rank", "labels", "numbers"}), callable, None],
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        blocks: Any = None,
        n_slices: int = 1,
        shrinkage: float | str = 0.0,
        response: str | Callable[[Any], Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.blocks = blocks
        self.n_slices = n_slices
        self.shrinkage = shrinkage
        self.response = response

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn the directions.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix; with ``n_slices=1`` also a Dask array or dataframe
        y : array (n,), array (n, q), or class labels
        groups : array (n,), optional
            One label per row: sub-populations with means of their own and a common covariance (pooled
            within groups) take the place of the slices. Their sum, the overall regression within
            groups, is no further direction.
        """
        name = type(self).__name__
        if groups is not None or self.n_slices > 1:
            refuse_dask(X, y, name)
        X = check_table(self, X, reset=True, min_rows=2)
        source = Source.of(X, y, self.response, name)
        blocks = parse_blocks(self.blocks, self.n_features_in_, feature_names(self))
        columns = np.concatenate(blocks.columns)
        table = Blocks(("x",), (columns,), self.n_features_in_)
        r = self._regressions(source, table, groups)
        self._check_components(blocks, r.cross.shape[1])
        self.shrinkage_ = table_shrinkage(source, table, r.mean, r.total, r.count, self.shrinkage)
        labels = column_labels(self)
        whitener = table_whitener(r.covariance, r.count, self.shrinkage_, [labels[i] for i in columns])
        coefficients = whitener.loadings(whitener.apply(r.cross))
        loadings, values = [], []
        for s in blocks.slices:
            w = full_whitener(r.covariance[s, s], r.count, self.shrinkage_)
            L, found = block_directions(w, coefficients[s], self.n_components)
            loadings.append(L)
            values.append(found)
        self.n_directions_ = r.cross.shape[1]
        self._store_blocks(blocks, loadings, values, r.mean, table_dtype(X))
        return self

    def _regressions(self, source: Source, table: Blocks, groups: Any) -> Regressions:
        if groups is not None:
            codes, n_groups = group_numbers(groups, source.X)
            q = source.y.shape[1]
            slices = codes[:, None] + n_groups * np.arange(q)
            m = collect_slices(source, table, slices, n_groups * q, responses=True)
            return group_regressions(m, n_groups, source.y, slices)
        if self.n_slices == 1:
            c = centre(source.moments(table, ((0, 0),), ()))
            covariance = c.covariance[0, 0]
            return Regressions(c.count, c.mean, covariance, covariance, c.linear)
        if source.encoder.labels:
            msg = (
                f"n_slices={self.n_slices}, but y holds class labels, which do not vary within a slice. Remedies: "
                "n_slices=1, or fit(X, y, groups=...) with other sub-populations"
            )
            raise ValueError(msg)
        slices, counts = slice_responses(source.y, self.n_slices, labels=False)
        m = collect_slices(source, table, slices, sum(counts), responses=True)
        return slice_regressions(m, source.y, slices, counts)

    def _check_components(self, blocks: Blocks, n_directions: int) -> None:
        check_block_widths(self.n_components, blocks)
        if self.n_components > n_directions:
            msg = (
                f"n_components={self.n_components} is more than the {n_directions} least-squares direction(s) that "
                "these responses and sub-populations give. Remedies: lower n_components, raise n_slices, give "
                "groups, or use JointReduction"
            )
            raise ValueError(msg)


@dataclass(frozen=True)
class Regressions:
    """What the least-squares directions are made of.

    ``covariance`` is the one to divide by (within groups, when there are any) and ``total`` that of all rows;
    ``cross`` holds covariances with the standardised responses, features x directions.
    """

    count: int
    mean: Array
    total: Array
    covariance: Array
    cross: Array


def slice_regressions(m: SlicedMoments, Y: Array, slices: Index, counts: list[int]) -> Regressions:
    """The overall regression of each response, and those within the slices in which it varies."""
    owner = np.repeat(np.arange(len(counts)), counts)
    scale = Y.std(axis=0)
    within = m.slice_cross / scale[owner]
    # between slices: sum_h p_h (mean x - mu)(mean y), y being centred
    between = m.slice_means.T * (m.y / m.n_rows) / scale[owner]
    overall = (within + between) @ (owner[:, None] == np.arange(len(counts)))
    cross = np.hstack([overall, within[:, varying(Y, slices, m.count)]])
    return Regressions(m.n_rows, m.mean, m.covariance, m.covariance, cross)


def group_regressions(m: SlicedMoments, n_groups: int, Y: Array, slices: Index) -> Regressions:
    """The regressions within groups in which the response varies, on the pooled covariance."""
    scale = np.repeat(Y.std(axis=0), n_groups)
    means = m.slice_means[:n_groups]
    pooled = m.covariance - (means.T * m.weights[:n_groups]) @ means
    clear_flat(pooled, np.diag(m.gram) / m.n_rows)
    cross = (m.slice_cross / scale)[:, varying(Y, slices, m.count)]
    return Regressions(m.n_rows, m.mean, m.covariance, pooled, cross)


def varying(Y: Array, slices: Index, count: Array) -> NDArray[np.bool_]:
    """Slices whose response takes more than one value."""
    low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
    np.minimum.at(low, slices, Y)
    np.maximum.at(high, slices, Y)
    return low < high


def group_numbers(groups: Any, X: Any) -> tuple[Index, int]:
    """Group of each row as a number, and how many there are."""
    values = column_or_1d(as_column(groups, "groups").values)
    check_consistent_length(X, values)
    if any(map(is_gap, set(values.tolist()))):
        msg = "groups contains missing labels (None or NaN); drop those rows first, or give them a label"
        raise ValueError(msg)
    labels, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.intp), len(labels)


def block_directions(whitener: Whitener, coefficients: Array, r: int) -> tuple[Array, Array]:
    """Loadings (features x r) and singular values of a block's parts of all directions."""
    assert whitener.cholesky is not None
    U, values = left_singular(whitener.cholesky.T @ (coefficients * whitener.scale[:, None]), r)
    return whitener.loadings(U), values
