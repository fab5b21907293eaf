"""Input checks and their messages, on top of scikit-learn's."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, assert_all_finite, check_array, validate_data

from ._containers import as_column, as_table
from ._rows import as_array, dask_partitions, is_dask, named_partition

Array = NDArray[np.float64]


def check_table(estimator: Any, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
    """X as an ndarray, canonical CSR matrix or Dask collection of finite numbers; sets or checks names and width.

    Integers and float32 are left as they are: chunks are converted one at a time.
    """
    if is_dask(X):
        return _check_dask(estimator, X, reset=reset)
    table = as_table(X)
    with np.errstate(over="ignore", invalid="ignore"):  # sums of what is finite may not be
        values = check_array(
            table.values,
            accept_sparse="csr",
            ensure_all_finite=False,
            ensure_min_samples=min_rows,
            estimator=estimator,
            input_name="X",
        )
    check_finite(values, table.names, estimator)
    validate_data(
        estimator, values if table.frame is None else table.frame, reset=reset, skip_check_array=True
    )
    return values


def assert_finite(values: Any, name: str = "X", estimator_name: str | None = None) -> None:
    """scikit-learn's refusal of NaN and infinity, silent about sums of finite numbers that are not finite."""
    stored = values.data if sparse.issparse(values) else np.asarray(values)
    with np.errstate(over="ignore", invalid="ignore"):
        assert_all_finite(stored, estimator_name=estimator_name, input_name=name)


def check_finite(
    values: Any, names: Sequence[object] | None = None, estimator: Any = None, name: str = "X"
) -> None:
    """Refuse NaN and infinity, and say in which column and row they stand first."""
    stored = sparse.issparse(values)
    who = None if estimator is None else type(estimator).__name__
    try:
        assert_finite(values, name, who)
    except ValueError as reason:
        if stored:
            cells = values.tocoo()
            at = int(np.flatnonzero(~np.isfinite(cells.data))[0])
            i, j = int(cells.row[at]), int(cells.col[at])
        else:
            i, j = (int(k) for k in np.argwhere(~np.isfinite(values))[0])
        column = repr(names[j]) if names is not None else j
        gap = "contains NaN" in str(reason)
        remedy = " Remedies: colspace.CopulaImputer in front, HoleyReduction around a reduction, or leave such rows out."
        msg = f"{reason}\nIt stands first in column {column}, row {i}.{remedy if gap else ''}"
        raise ValueError(msg) from None


def _check_dask(estimator: Any, X: Any, *, reset: bool) -> Any:
    names = [str(c) for c in X.columns] if hasattr(X, "columns") else None
    if names is not None:
        bad = [str(c) for c, kind in X.dtypes.items() if kind.kind not in "biuf"]
        if bad:
            msg = f"columns that are not numbers: {bad[:5]}. Remedies: encode, convert or drop them"
            raise ValueError(msg)
    elif X.dtype.kind not in "biufO":
        msg = f"columns that are not numbers: X is a Dask array of {X.dtype}. Remedies: encode, convert or drop them"
        raise ValueError(msg)
    if isinstance(getattr(X, "_meta", None), np.ma.MaskedArray):
        msg = "X is a Dask array of masked blocks, whose masks mean missing cells; fill them first: dask.array.ma.filled(X, value)"
        raise TypeError(msg)
    if names is None and X.dtype.kind == "O" and isinstance(X._meta, np.ndarray):
        X = X.map_blocks(_float_block, dtype=np.float64)
    if len(X.shape) != 2:
        msg = f"X must be 2-D (rows x columns), got {len(X.shape)} dimension(s)"
        raise ValueError(msg)
    n_features = int(X.shape[1])
    if reset:
        estimator.n_features_in_ = n_features
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return X
    if n_features != estimator.n_features_in_:
        msg = (
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
        raise ValueError(msg)
    seen = feature_names(estimator)
    if names is not None and seen is not None and list(names) != list(seen):
        wrong = next(i for i, (a, b) in enumerate(zip(names, seen, strict=True)) if a != b)
        msg = (
            "The feature names should match those that were passed during fit: column "
            f"{wrong} is {names[wrong]!r}, in fit it was {seen[wrong]!r}. Use X[list(model.feature_names_in_)]"
        )
        raise ValueError(msg)
    return X


def _float_block(block: Any) -> Array:
    """A block of objects as numbers."""
    values: Array = as_table(block).values.astype(np.float64)
    return values


def check_weights(sample_weight: Any, X: Any) -> Array | None:
    """Weights of the rows of X as float64, or None; refuses negative ones and weights that are all zero.

    A weight of two counts as the row twice, zero as a row that is not there. Beside a Dask table they may be an
    array in memory or a Dask array of the same rows.
    """
    if sample_weight is None:
        return None
    if is_dask(sample_weight):
        if is_dask(X):
            return sample_weight  # checked chunk by chunk
        sample_weight = sample_weight.compute()
    if not isinstance(sample_weight, Real):
        sample_weight = as_column(sample_weight, "sample_weight").values
        if sample_weight.dtype.kind not in "biuf":
            msg = f"sample_weight holds {sample_weight.ravel()[0]!r}; give one number per row"
            raise ValueError(msg)
    if is_dask(X):
        weight = np.asarray(sample_weight, dtype=np.float64)
        rows = X.shape[0] if isinstance(X.shape[0], int | float) else np.nan  # a frame does not know
        if weight.ndim != 1 or not (np.isnan(rows) or weight.shape[0] == rows):
            msg = f"sample_weight.shape == {weight.shape}, expected {(X.shape[0],)}; give one weight per row"
            raise ValueError(msg)
        assert_finite(weight, "sample_weight")
    else:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    return checked_weights(weight)


def chunk_weights(weights: Any) -> Array:
    """The weights of a chunk of rows that no one has seen before; some chunk of them may be all zero."""
    weight = np.asarray(weights, dtype=np.float64)
    assert_all_finite(weight, input_name="sample_weight")
    bad = np.flatnonzero(weight < 0)
    if bad.size:
        msg = f"sample_weight of row {bad[0]} is {weight[bad[0]]:g}; weights must be at least 0"
        raise ValueError(msg)
    largest = float(weight.max(initial=0.0))
    if largest and not 1e-150 < largest < 1e150:
        msg = f"sample_weight goes up to {largest:g}, and sums of such weights leave float64; divide them by {largest:g}"
        raise ValueError(msg)
    return weight


def checked_weights(weight: Array) -> Array:
    """The weights as they are; refuses negative ones and weights that are all zero."""
    chunk_weights(weight)
    if not weight.any():
        msg = "sample_weight is zero in every row, so no row is left; give some row a positive weight"
        raise ValueError(msg)
    return weight


def checked_chunk(statistic: Any, X: Any, *rest: Any) -> Any:
    """``statistic(X, *rest)`` after refusing NaN and infinity: for chunks that no one has seen before."""
    assert_finite(X)
    return statistic(X, *rest)


def sample_rows(X: Any, *rest: Any, weights: Any = None) -> list[Any]:
    """A sample of aligned rows in memory: spread over an array, or over a partition of a Dask collection.

    Rows of a Dask collection whose ``weights`` are zero are passed over.
    """
    if any(is_dask(a) for a in (X, *rest)):
        import dask

        arrays = (X, *rest) if weights is None else (X, *rest, weights)
        for i, part in enumerate(zip(*dask_partitions(*arrays), strict=True)):
            (local,) = dask.compute(dask.delayed(_some_rows, pure=False)(i, weights is not None, *part))
            if local[0].shape[0]:
                return local
        if weights is not None:
            msg = "sample_weight is zero in every row, so no row is left; give some row a positive weight"
            raise ValueError(msg)
        msg = "no rows: every partition is empty"
        raise ValueError(msg)
    step = max(1, X.shape[0] // 1024)
    return [a[::step] for a in (X, *rest)]


def _some_rows(number: int, weighted: bool, *parts: Any) -> list[Any]:
    """At most about 16,000 rows of a partition, taken where it lives; ``weighted``: the last part holds weights."""
    with named_partition(number):
        local = [as_array(p) for p in parts]
        if weighted:
            kept = chunk_weights(local.pop()) > 0
            local = [a[kept] for a in local]
        step = max(1, local[0].shape[0] // 16_384)
        return [a[::step] for a in local]


def feature_names(estimator: Any) -> Sequence[str] | None:
    """Column names seen in fit, or None."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(n) for n in names]


def table_dtype(X: Any) -> type[np.floating[Any]]:
    """What the directions of a table are stored as: float32 stays float32."""
    kinds = set(X.dtypes) if hasattr(X, "dtypes") else {getattr(X, "dtype", None)}
    return np.float32 if kinds == {np.dtype(np.float32)} else np.float64


class ConstantColumnWarning(UserWarning):
    """Some columns have no variation; their loadings are zero."""


def warn_constant(variance: Array, labels: Sequence[object]) -> None:
    """Name the columns without variation."""
    constant = np.flatnonzero(variance <= 0)
    if constant.size:
        shown = ", ".join(repr(labels[i]) for i in constant[:5]) + (", ..." if constant.size > 5 else "")
        warnings.warn(
            f"{constant.size} constant column(s) get loadings of zero: {shown}. Drop them to silence this",
            ConstantColumnWarning,
            stacklevel=3,
        )
