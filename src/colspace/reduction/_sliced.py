"""Inverse regression on slices of the response: SIR and SAVE."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from .._blocks import Blocks, parse_blocks
from .._rows import CHUNK_BYTES, is_dask, reduce_rows
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._validation import check_table, table_dtype
from ..factor import Whitener, left_singular
from ..moments import SlicedMoments, sliced_moments
from ._linear import (
    LinearReductionMixin,
    check_block_widths,
    column_labels,
    table_shrinkage,
    table_whitener,
)
from ._source import Source

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class _SlicedReduction(LinearReductionMixin, BaseEstimator):
    """Slices, one pass, a kernel matrix, its leading eigenvectors."""

    _second: ClassVar[bool]
    _kernel: Callable[[SlicedMoments, Whitener], Array]

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "n_slices": [whole(2)],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "response": [StrOptions({"rank", "labels", "numbers"}), callable, None],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_slices: int = 10,
        shrinkage: float | str = 0.0,
        response: str | Callable[[Any], Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_slices = n_slices
        self.shrinkage = shrinkage
        self.response = response

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the directions.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix
        y : array (n,), array (n, q), or class labels
        """
        name = type(self).__name__
        refuse_dask(X, y, name)
        X = check_table(self, X, reset=True, min_rows=2)
        # numbers of at most n_slices values have a slice per value, as labels have
        source = Source.of(X, y, self.response, name, tails=False, codes=max(3, self.n_slices + 1))
        table = parse_blocks(None, self.n_features_in_)
        check_block_widths(self.n_components, table)
        slices, counts = slice_responses(source.y, self.n_slices, labels=source.encoder.labels)
        m = collect_slices(source, table, slices, sum(counts), second=self._second)
        _warn_thin_slices(m, counts)
        covariance = m.covariance
        self.shrinkage_ = table_shrinkage(source, table, m.mean, covariance, m.n_rows, self.shrinkage)
        whitener = table_whitener(covariance, m.n_rows, self.shrinkage_, column_labels(self))
        self.n_components_ = min(self.n_components, self._most(counts))
        directions, values = left_singular(self._kernel(m, whitener), self.n_components_)
        self.eigenvalues_ = values
        self.n_slices_ = counts[0] if len(counts) == 1 else np.array(counts)
        self.mean_ = m.mean
        self.components_ = whitener.loadings(directions).T.astype(table_dtype(X))
        return self

    def _most(self, counts: list[int]) -> int:
        """Directions that this many slices can carry."""
        return self.n_features_in_


class SlicedInverse(_SlicedReduction):
    r"""Sliced inverse regression (SIR): directions in which the columns' mean moves with y.

    With whitened columns z and slices h of y holding shares :math:`p_h` of the rows, the directions are the
    leading eigenvectors of

    .. math:: \sum_h p_h\, m_h m_h^\top, \qquad m_h = E[z \mid h].

    Monotone links are found well, even links not at all. H slices carry at most H - 1 directions; if
    fewer than ``n_components`` exist, a warning says so and only those are kept.

    Parameters
    ----------
    n_components : int, default=2
        Number of directions.
    n_slices : int, default=10
        Rows are ordered by y and cut into this many parts of nearly equal size. Rows with equal y stay
        in one slice, the one that holds the middle of them; a y with at most ``n_slices`` values has
        one slice per value, class labels have one per class. Several responses are sliced one by
        one and their matrices added.
    shrinkage : float in [0, 1] or "auto", default=0.0
        Weight of the identity in the correlation matrix; "auto" is Ledoit-Wolf.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y. "labels" takes numbers as class labels; strings, booleans and categories always are.
        Numbers that look like codes of classes get a warning, which "numbers" silences.

    Attributes
    ----------
    components_ : ndarray (n_components_, n_features)
    eigenvalues_ : ndarray (n_components_,)
        Between 0 and 1 for one response.
    mean_ : ndarray (n_features,)
    n_components_ : int
    n_slices_ : int, or ndarray of int with several responses
    shrinkage_ : float

    References
    ----------
    Li (1991), "Sliced inverse regression for dimension reduction", Journal of the American Statistical
    Association 86.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import SlicedInverse
    >>> from colspace.metrics import nsee
    >>> X = np.random.default_rng(0).standard_normal((2000, 6))
    >>> model = SlicedInverse(n_components=1).fit(X, np.exp(X[:, 0] + X[:, 1]))
    >>> truth = np.array([1, 1, 0, 0, 0, 0])
    >>> print(f"{nsee(truth, model.components_.T):.1f}")
    0.0
    """

    _second = False

    def _kernel(self, m: SlicedMoments, whitener: Whitener) -> Array:
        return inverse_kernel(m.weights, whitener.apply(m.slice_means.T))

    def _most(self, counts: list[int]) -> int:
        most = min(self.n_features_in_, sum(counts) - len(counts))
        if self.n_components > most:
            warnings.warn(
                f"n_components={self.n_components}, but {sum(counts)} slices carry at most {most} direction(s), "
                "which are kept. Remedies: lower n_components, raise n_slices, or use SlicedAverage or "
                "JointReduction (a response with few values has few slices)",
                UserWarning,
                stacklevel=4,
            )
        return min(self.n_components, most)


class SlicedAverage(_SlicedReduction):
    r"""Sliced average variance estimation (SAVE): directions in which the columns' variance moves with y.

    With whitened columns z and slices h of y holding shares :math:`p_h` of the rows, the directions are the
    leading eigenvectors of

    .. math:: \sum_h p_h\, (I - V_h)^2, \qquad V_h = \operatorname{Cov}[z \mid h].

    Even links are found as well as monotone ones, at the price of more rows. With shrinkage the
    covariance of the whitened columns takes the place of I.

    Parameters
    ----------
    n_components : int, default=2
        Number of directions.
    n_slices : int, default=10
        Rows are ordered by y and cut into this many parts of nearly equal size. Rows with equal y stay
        in one slice, the one that holds the middle of them; a y with at most ``n_slices`` values has
        one slice per value, class labels have one per class. Several responses are sliced one by
        one and their matrices added.
    shrinkage : float in [0, 1] or "auto", default=0.0
        Weight of the identity in the correlation matrix; "auto" is Ledoit-Wolf.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y. "labels" takes numbers as class labels; strings, booleans and categories always are.
        Numbers that look like codes of classes get a warning, which "numbers" silences.

    Attributes
    ----------
    components_ : ndarray (n_components_, n_features)
    eigenvalues_ : ndarray (n_components_,)
    mean_ : ndarray (n_features,)
    n_components_ : int
    n_slices_ : int, or ndarray of int with several responses
    shrinkage_ : float

    References
    ----------
    Cook and Weisberg (1991), discussion of "Sliced inverse regression for dimension reduction", Journal
    of the American Statistical Association 86.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import SlicedAverage
    >>> from colspace.metrics import nsee
    >>> X = np.random.default_rng(0).standard_normal((8000, 6))
    >>> model = SlicedAverage(n_components=1).fit(X, (X[:, 0] + X[:, 1]) ** 2)
    >>> truth = np.array([1, 1, 0, 0, 0, 0])
    >>> print(f"{nsee(truth, model.components_.T):.1f}")
    0.0
    """

    _second = True

    def _kernel(self, m: SlicedMoments, whitener: Whitener) -> Array:
        overall = whitener.both_sides(m.covariance[None], whitener)[0]
        return average_kernel(m.weights, overall, whitener.both_sides(m.slice_covariances, whitener))


def inverse_kernel(weights: Array, means: Array) -> Array:
    """sum_h p_h m_h m_h' from whitened slice means (features x slices)."""
    return (means * weights) @ means.T


def average_kernel(weights: Array, overall: Array, covariances: Array) -> Array:
    """sum_h p_h (V - V_h)^2 from whitened covariances, V = I without shrinkage."""
    spread = overall - covariances
    return np.einsum("h,hij,hjk->ik", weights, spread, spread, optimize=True)


def slice_numbers(y: Array, n_slices: int) -> tuple[Index, int]:
    """Slice of each row, and how many there are: equal parts of the order of y, ties kept together.

    Examples
    --------
    >>> import numpy as np
    >>> slice_numbers(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), 2)
    (array([0, 0, 0, 1, 1]), 2)
    >>> slice_numbers(np.array([0.0, 0.0, 0.0, 7.0, 8.0, 9.0]), 3)
    (array([0, 0, 0, 1, 2, 2]), 3)
    """
    values, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(values) <= n_slices:
        return inverse.astype(np.intp), len(values)
    parts = np.repeat(np.arange(n_slices), [len(p) for p in np.array_split(np.empty(len(y)), n_slices)])
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    used, numbers = np.unique(parts[middle], return_inverse=True)
    return numbers[inverse].astype(np.intp), len(used)


def slice_responses(Y: Array, n_slices: int, *, labels: bool) -> tuple[Index, list[int]]:
    """Slice numbers (rows x responses), counted on from response to response, and slices per response."""
    if labels:
        numbers = Y[:, 0].astype(np.intp) if Y.shape[1] == 1 else np.argmax(Y, axis=1)
        return numbers[:, None], [max(2, Y.shape[1])]
    found = [slice_numbers(y, n_slices) for y in Y.T]
    counts = [count for _, count in found]
    starts = np.cumsum(counts) - counts
    return np.column_stack([numbers + s for (numbers, _), s in zip(found, starts, strict=True)]), counts


def collect_slices(
    source: Source,
    table: Blocks,
    slices: Index,
    n_slices: int,
    *,
    second: bool = False,
    responses: bool = False,
) -> SlicedMoments:
    """Moments within slices of the columns of a table in memory, in one pass over its rows.

    ``second``: with products of columns in each slice. ``responses``: with products of columns and y.
    """
    shift = source.columns().x.mean if sparse.issparse(source.X) else source.shift()
    statistic = partial(
        sliced_moments,
        n_slices=n_slices,
        shift=shift if table.order is None else shift[table.order],
        second=second,
        order=table.order,
    )
    rows = max(256, CHUNK_BYTES // (8 * sum(table.widths)))
    Y = (source.y - source.y.mean(axis=0),) if responses else ()
    return reduce_rows(statistic, source.X, slices, *Y, chunk=rows)


def refuse_dask(X: Any, y: Any, caller: str) -> None:
    """Slices need the order of all of y."""
    if is_dask(X) or is_dask(y):
        msg = (
            f"{caller} cuts the ordered response into slices, which needs all rows in memory, but got a Dask "
            "collection. Remedies: load it (X.compute(), y.compute()), or use JointReduction, which takes Dask"
        )
        raise TypeError(msg)


def _warn_thin_slices(m: SlicedMoments, counts: list[int]) -> None:
    if m.n_rows < 2 * max(counts):
        warnings.warn(
            f"{m.n_rows} rows in {max(counts)} slices: fewer than two rows per slice tell nothing about how the "
            "columns move with y. Remedies: fewer slices (n_slices), or more rows",
            UserWarning,
            stacklevel=4,
        )
