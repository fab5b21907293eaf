"""Reduction of a table with gaps, with errors that know of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._containers import as_table
from .._random import generator
from .._rows import is_chunk_iterator, is_dask
from .._sklearn_compat import HasMethods, _fit_context, whole
from .._validation import ConstantColumnWarning
from ._gaps_chunks import (
    LEARNED,
    REFITTED,
    HoleyRows,
    chunk_reducer,
    drawn_rows,
    filled_by,
    filled_in_pieces,
)
from ._jackknife import basis, squared_sine, turn
from ._joint import JointReduction
from ._one_hot import one_hot_groups
from ._spool import kept_rows
from ._summary import LinearSummary

Array = NDArray[np.float64]


class HoleyReduction(LinearSummary, TransformerMixin, BaseEstimator):
    r"""Directions of a table with gaps: an imputer, then a reducer, and errors of both together.

    The directions are those of the table whose gaps hold their conditional means. Their variance has two parts: that of
    rows, gaps included, when the imputer is known (U, the reducer's jackknife on the filled table), and that of the imputer
    itself (V). For the latter the imputer is fitted without each of K groups of rows and fills the gaps of all,

    .. math:: T = U + V, \qquad V = \frac{K - 1}{K} \sum_k |\theta_{-k} - \bar\theta|^2,

    the directions :math:`\theta_{-k}` being turned and scaled to those of the filled table. What gaps cost is in U
    already: a variance between draws of the gaps would count it again. Forests of a CopulaImputer are grown once, for the
    filled table: the K fits are of the copula alone, with as many factors and as much of the full correlation. Of more than
    100,000 rows the imputer learns from so many, drawn at random; its K fits are of at most 30,000, and V is scaled to those of the first.

    Parameters
    ----------
    imputer : estimator with ``fit`` and ``transform``, or None
        None is `colspace.CopulaImputer` with ``nonlinear="gaps"``: forests, where they pay, for columns of which 1 % or more is
        missing in ``fit``. ``mean`` fills the gaps where the imputer has it, else ``transform``.
    reducer : estimator with ``components_`` and ``components_error_``, or None
        None is `colspace.JointReduction`.
    n_refits : int, default=5
        Groups of rows that the imputer is fitted without, for the errors.
    random_state : int, RandomState or None, default=None
        Of the groups.

    Attributes
    ----------
    imputer_, reducer_ : fitted estimators
    components_ : ndarray (directions, n_features)
    components_error_ : of the same shape, or None
        Standard errors; with Student's t of ``reducer_.n_groups_ - 1`` degrees of freedom they give intervals.
    loadings_, loadings_error_ : dict of str to ndarray
        Where the reducer has blocks.
    expected_error_ : float, dict of str to float, or None
        Expected NSEE of the space of each block.
    missing_share_ : float
        Share of the cells that are gaps.
    one_hot_ : list of slice
        Columns with gaps that are indicators of levels: in every other row one of them is 1. What fills their gaps is made to sum to one.
    errors_note_ : str
        Why there are no errors; empty when there are.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import HoleyReduction, JointReduction
    >>> from colspace.datasets import make_bilinear
    >>> from colspace.metrics import nsee
    >>> X, y, blocks, truth = make_bilinear(4000, 5, 1, rng=0)
    >>> X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    >>> model = HoleyReduction(reducer=JointReduction(1, blocks=blocks, moments="all"), random_state=0).fit(X, y)
    >>> model.transform(X).shape, nsee(truth, model.loadings_) < 0.2
    ((4000, 2), True)
    >>> all(0 < e < 0.2 for e in model.expected_error_.values())
    True
    """

    one_hot_: Sequence[slice] = ()  # of models that were saved before there were any

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "imputer": [HasMethods(["fit", "transform"]), None],
        "reducer": [HasMethods(["fit", "transform"]), None],
        "n_refits": [whole(2)],
        "random_state": ["random_state"],
    }

    def __init__(
        self, imputer: Any = None, reducer: Any = None, *, n_refits: int = 5, random_state: Any = None
    ) -> None:
        self.imputer = imputer
        self.reducer = reducer
        self.n_refits = n_refits
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fill the gaps and learn the directions.

        Parameters
        ----------
        X : array or DataFrame of numbers, NaN where missing, or an iterator of chunks (X, y) or (X, y, weights)
            The rows of chunks are kept on disk.
        y : what the reducer takes, without gaps; None with an iterator
        sample_weight : array (n,), optional
            Given to imputer and reducer.
        """
        if is_chunk_iterator(X):
            return self._fit_chunks(X, y, sample_weight)
        gaps = self._check(X, reset=True)
        X = X if hasattr(X, "columns") else np.asarray(as_table(X).values)
        weights = weights_of(sample_weight)
        learned = [X, y, sample_weight]
        if len(gaps) > LEARNED:
            rows = drawn_rows(len(gaps), LEARNED, self.random_state)
            learned = [None if a is None else _safe_indexing(a, rows) for a in learned]
        self._fit_imputer(learned[0], learned[2])
        self.reducer_ = JointReduction() if self.reducer is None else clone(self.reducer)
        self.reducer_.fit(filled_by(self.imputer_, X, self.one_hot_), y, **weights)
        self._finish(float(np.mean(gaps)), *learned)
        return self

    def _fit_imputer(self, X: Any, weights: Any) -> None:
        self.one_hot_ = one_hot_groups(X)
        self.imputer_ = _imputer() if self.imputer is None else clone(self.imputer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantColumnWarning)  # the reducer says so, too
            self.imputer_.fit(X, **weights_of(weights))

    def _finish(self, share: float, X: Any, y: Any, weights: Any) -> None:
        """What the parts have learned, and errors of both: X are the rows that the imputer has seen."""
        self.missing_share_ = share
        self._copy()
        if not self.errors_note_ and share:
            self._add_refits(X, y, weights)

    def _fit_chunks(self, chunks: Any, y: Any, sample_weight: Any) -> Self:
        if y is not None or sample_weight is not None:
            msg = "an iterator of chunks yields pairs (X, y), or triples with weights; call fit(chunks) alone"
            raise TypeError(msg)
        reducer = chunk_reducer(JointReduction() if self.reducer is None else clone(self.reducer))
        rows = HoleyRows.of(chunks, lambda X, first: self._check(X, reset=first, least=1))
        learned = rows.some(drawn_rows(len(rows.X), LEARNED, self.random_state))
        self._fit_imputer(learned[0], learned[2])
        filled = rows.filled(lambda table: filled_by(self.imputer_, table, self.one_hot_))
        self.reducer_ = reducer
        reducer._fit_table(*kept_rows(reducer, filled))
        self._finish(rows.gaps / rows.X.size, *learned)
        return self

    def _check(self, X: Any, *, reset: bool, least: int | None = None) -> NDArray[np.bool_]:
        """Where X has gaps; sets or checks its names and width."""
        if is_dask(X):
            msg = (
                "HoleyReduction fills tables in memory, but got a Dask collection; load it (X.compute()), or fit an iterator "
                "of chunks (X, y)"
            )
            raise TypeError(msg)
        table = as_table(X)
        with np.errstate(over="ignore", invalid="ignore"):  # sums of what is finite may not be
            values = check_array(
                table.values,
                ensure_all_finite="allow-nan",
                ensure_min_samples=least or (2 if reset else 1),
                estimator=self,
                input_name="X",
            )
        validate_data(
            self, values if table.frame is None else table.frame, reset=reset, skip_check_array=True
        )
        return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)

    def _copy(self) -> None:
        """Take over what the reducer has learned."""
        for name in ("loadings_", "loadings_error_", "blocks_"):
            self.__dict__.pop(name, None)
            if hasattr(self.reducer_, name):
                setattr(self, name, getattr(self.reducer_, name))
        self.components_ = self.reducer_.components_
        self.mean_, self.scale_ = self.reducer_.mean_, self.reducer_.scale_
        self.components_error_ = getattr(self.reducer_, "components_error_", None)
        self.expected_error_: Any = getattr(self.reducer_, "expected_error_", None)
        self.errors_note_ = getattr(self.reducer_, "errors_note_", "the reducer gives no errors")

    def _add_refits(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Add the imputer's own variance to the reducer's errors, by the rows X that it has seen."""
        model = clone(self.reducer_)
        if "n_groups" in model.get_params():
            model.set_params(n_groups=None)
        blocks = getattr(self, "blocks_", None) or {"": np.arange(self.n_features_in_)}
        mine = np.split(np.asarray(self.components_, dtype=np.float64), len(blocks))
        scale = np.where(self.scale_ > 0, self.scale_, 1.0)
        moved: dict[str, list[Array]] = {name: [] for name in blocks}
        outside: dict[str, list[Array]] = {name: [] for name in blocks}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said of the filled table already
            try:
                for table in self._refilled(X, sample_weight):
                    fitted = model.fit(table, y, **weights_of(sample_weight))
                    theirs = np.split(np.asarray(fitted.components_, dtype=np.float64), len(blocks))
                    for (name, columns), L, M in zip(blocks.items(), mine, theirs, strict=True):
                        L, M = L.T[columns], M.T[columns]
                        moved[name].append(fitted_to(M, L, scale[columns]))
                        V = basis(L)
                        B = turn(basis(M), V)
                        outside[name].append(B - V @ (V.T @ B))
            except (ValueError, ArithmeticError) as reason:
                self.components_error_ = self.expected_error_ = None
                if hasattr(self, "loadings_error_"):
                    self.loadings_error_ = None
                self.errors_note_ = f"without some group of the rows there is no fit: {reason}"
                return
        error = np.square(np.asarray(self.components_error_, dtype=np.float64))
        expected = (
            self.expected_error_ if isinstance(self.expected_error_, dict) else {"": self.expected_error_}
        )
        joined = {}
        r, fewer = mine[0].shape[0], min(1.0, REFITTED / X.shape[0])  # variances go with one over the rows
        for b, (name, columns) in enumerate(blocks.items()):
            error[b * r : (b + 1) * r, columns] += fewer * left_out_variance(moved[name]).T
            more = fewer * float(left_out_variance(outside[name]).sum()) / r
            joined[name] = widened(float(expected[name]), more, 1.0 - r / len(columns))
        self.components_error_ = np.sqrt(error).astype(self.components_.dtype)
        if hasattr(self, "loadings_error_"):
            self.loadings_error_ = {
                name: self.components_error_[b * r : (b + 1) * r, columns].T
                for b, (name, columns) in enumerate(blocks.items())
            }
        self.expected_error_ = joined if isinstance(self.expected_error_, dict) else joined[""]

    def _refilled(self, X: Any, sample_weight: Any) -> Iterator[Any]:
        """The table as imputers fill it that were fitted without a group of the rows, at most ``REFITTED`` in all."""
        n = X.shape[0]
        k = min(self.n_refits, n)
        order = generator(self.random_state).permutation(n)
        group = np.where(order < REFITTED, order % k, -1)
        for i in range(k):
            rows = np.flatnonzero((group != i) & (group >= 0))
            some = None if sample_weight is None else np.asarray(sample_weight)[rows]
            imputer = refitted(self.imputer_, _safe_indexing(X, rows), weights_of(some))
            yield filled_in_pieces(imputer, X, self.one_hot_)

    def transform(self, X: Any) -> Any:
        """Fill the gaps of rows and embed them."""
        check_is_fitted(self)
        self._check(X, reset=False)
        X = X if hasattr(X, "columns") else np.asarray(as_table(X).values)
        return self.reducer_.transform(filled_by(self.imputer_, X, self.one_hot_))

    def inverse_transform(self, X: Any) -> Any:
        """Columns from an embedding, as the reducer rebuilds them."""
        check_is_fitted(self)
        return self.reducer_.inverse_transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the embedding's columns, the reducer's."""
        check_is_fitted(self)
        return self.reducer_.get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _imputer() -> Any:
    from ..copula import CopulaImputer

    return CopulaImputer(nonlinear="gaps")


def refitted(imputer: Any, X: Any, weights: dict[str, Any]) -> Any:
    """A copy of a fitted imputer, fitted to other rows: of a CopulaImputer the copula alone, from where it is.

    It has as many factors, and tails only where some were found; where there are too few columns for that, it starts anew.
    """
    from ..copula import CopulaImputer

    if not isinstance(imputer, CopulaImputer):
        return clone(imputer).fit(X, **weights)
    alone = {"nonlinear": False, "tails": imputer.tails if np.isfinite(imputer.tails_) else "normal"}
    if imputer.n_components_:
        warm = {"n_components": imputer.n_components_, "warm_start": True}
        with suppress(ValueError):
            return copy(imputer).set_params(**alone, **warm).fit(X, **weights)
    return clone(imputer).set_params(**alone, warm_start=False).fit(X, **weights)


def weights_of(sample_weight: Any) -> dict[str, Any]:
    """Arguments for a fit with weights, none without."""
    return {} if sample_weight is None else {"sample_weight": sample_weight}


def left_out_variance(found: list[Array]) -> Array:
    """Variance by the jackknife, (K - 1)/K times the sum of squared deviations of what is found without each group."""
    return (len(found) - 1) * np.asarray(np.var(np.stack(found), axis=0))


def fitted_to(M: Array, L: Array, scale: Array) -> Array:
    """The directions M turned and scaled to L, columns in units of ``scale``: s M Q nearest to L."""
    S, T = M * scale[:, None], L * scale[:, None]
    turned = turn(S, T)
    size = float(np.sum(turned**2))
    return turned / scale[:, None] * (float(np.sum(turned * T)) / size if size > 0 else 1.0)


def widened(error: float, between: float, c: float) -> float:
    """An expected NSEE with more squared tangent added; c is the squared sine of a space drawn at random."""
    square = error**2
    if square >= c:
        return error
    return float(np.sqrt(squared_sine(square * c / (c - square) + between, c)))
