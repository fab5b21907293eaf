"""Tables and columns as people hold them, as arrays: the one door for containers.

Frames (pandas, polars, pyarrow), masked and sparse arrays, lists and anything with ``__array__`` become an ndarray or a
canonical CSR matrix with the numbers of the plain ndarray. What holds no numbers is refused by the name of its column.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._rows import is_dask
from ._arrays import (
    _asarray,
    _common_float,
    _complex,
    _dates,
    _not_numbers,
    _object_numbers,
    _odd_type,
    _plain_array,
    _plain_column,
    _refuse_mask,
    absent,
    unmasked,
)

__all__ = ["Column", "Table", "absent", "as_column", "as_table", "canonical", "check_unique", "not_collected"]
__all__ += ["series_numbers", "unmasked", "whole_frame"]

_SHOWN = 5  # columns in a message
_PLAIN = (nw.Float64, nw.Float32, nw.Int64, nw.Int32, nw.Int16, nw.Int8, nw.UInt8)
_WIDE = (nw.Int128, nw.UInt128)


class Table(NamedTuple):
    """Numbers (an ndarray, a canonical CSR matrix, or a Dask collection as it is) and the frame that they came in, if any."""

    values: Any
    frame: Any = None

    @property
    def names(self) -> list[str] | None:
        """Names of the columns as text, or None."""
        return None if self.frame is None else [str(c) for c in _column_names(self.frame)]


class Column(NamedTuple):
    """Values of a response or of weights, and whether their type says that they are categories."""

    values: Any
    categories: bool = False


def as_table(X: Any, name: str = "X") -> Table:
    """A table as numbers: floats, integers or booleans; NaN where a frame has gaps.

    Never changes or copies more of X than it must: arrays of float64, float32, integers and booleans, memmaps and frames of
    one such type stay what they are. float16, longdouble, decimals, and integers with gaps become float64.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace._containers import as_table
    >>> as_table([[1, 2], [3, 4]]).values
    array([[1, 2],
           [3, 4]])
    >>> as_table(np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 3.0))
    Traceback (most recent call last):
        ...
    ValueError: column 0 of X is masked (missing) in 1 row(s), first in row 1; ...
    """
    if is_dask(X):
        return Table(X)
    if isinstance(X, list | tuple) and X and all(getattr(x, "ndim", 0) == 2 for x in X):
        msg = (
            f"{name} is a list of {len(X)} tables, but must be one 2-D table. Use X, blocks = stack_blocks([A, B]) and "
            "pass blocks to the constructor"
        )
        raise TypeError(msg)
    if sparse.issparse(X):
        return Table(canonical(X, name))
    if isinstance(X, np.ma.MaskedArray):
        return Table(_plain_array(_refuse_mask(X, name), name))
    X = whole_frame(X, name)
    check_unique(X)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise not_collected(X, name)
    if isinstance(frame, nw.DataFrame):
        native = frame.to_native()
        return Table(_frame_values(native, frame, name), native)
    return Table(_plain_array(_asarray(X, name), name))


def as_column(y: Any, name: str = "y") -> Column:
    """A response (n, or n x q), groups or weights as an array; a Dask collection or None as it is.

    Numbers have NaN where they are missing. Text, categories, and booleans with gaps are an array of objects with
    None in the gaps. Dates are refused by name.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace._containers import as_column
    >>> as_column(pd.Series([1, None, 3], dtype="Int64"))
    Column(values=array([ 1., nan,  3.]), categories=False)
    """
    if y is None or is_dask(y):
        return Column(y, str(getattr(y, "dtype", "")) == "category")
    if sparse.issparse(y):
        msg = f"Sparse data was passed for {name}, which must be dense; give {name}.toarray()"
        raise TypeError(msg)
    if isinstance(y, np.ma.MaskedArray):
        return Column(_plain_column(unmasked(y), name))
    y = whole_frame(y, name)
    found = nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(found, nw.LazyFrame):
        raise not_collected(y, name)
    if isinstance(found, nw.Series):
        return _series_column(found, name)
    if not isinstance(found, nw.DataFrame):
        return Column(_plain_column(_asarray(y, name), name))
    labels = _column_names(y)
    parts = [
        _series_column(column, f"column {label!r} of {name}")
        for label, column in zip(labels, found.iter_columns(), strict=True)
    ]
    if not parts:
        return Column(np.empty(found.shape))
    kinds = [part.values.dtype for part in parts]
    mixed = any(k == object for k in kinds)
    out = np.empty(found.shape, dtype=object if mixed else np.result_type(*kinds))
    for j, part in enumerate(parts):
        out[:, j] = part.values
    return Column(out, any(part.categories for part in parts))


def canonical(X: Any, name: str = "X") -> Any:
    """A sparse table as CSR of numbers with sorted indices, each cell stored once; the user's matrix is not changed.

    The same cell stored twice is the sum of both, in scipy's convention; indices of 64 bits that fit 32 become such.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from colspace._containers import canonical
    >>> twice = sparse.csr_array((np.array([1, 2, 3], dtype="i1"), [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    >>> canonical(twice).data, twice.nnz
    (array([3., 3.]), 3)
    """
    if X.ndim != 2:
        msg = f"{name} must be 2-D (rows x columns), got a sparse array of {X.ndim} dimension(s)"
        raise ValueError(msg)
    kind = X.dtype.kind
    if kind == "c":
        raise _complex(name, X.dtype)
    if kind not in "biuf":
        msg = f"{name} is sparse of dtype {X.dtype}, but must hold numbers; convert it with {name}.astype(float)"
        raise ValueError(msg)
    if kind in "iu" and X.format != "csr":
        X = X.astype(
            np.float64
        )  # conversion sums cells that are stored twice, and small integers wrap around
    table = X.tocsr()
    if table is X:  # a shell of its own: flags and attributes of the user's matrix stay as they are
        table = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
    small = max(*X.shape, len(table.data)) < np.iinfo(np.int32).max
    if table.indices.dtype != np.int32 and small:
        table = type(table)(
            (table.data, table.indices.astype(np.int32), table.indptr.astype(np.int32)), shape=X.shape
        )
    repeated = not table.has_canonical_format
    if repeated and kind == "b":
        table = table.copy()
        table.sum_duplicates()  # True twice is True
    if kind == "b" or (table.dtype not in (np.float64, np.float32) and (repeated or kind == "f")):
        with np.errstate(over="ignore"):
            table = table.astype(np.float64)  # before any sum: small integers wrap around
    if not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    return table


def whole_frame(X: Any, name: str = "X") -> Any:
    """pyarrow's batches and arrays as tables and chunked arrays, which narwhals knows; anything else as it is."""
    kind = type(X)
    if kind.__module__.split(".")[0] != "pyarrow":
        return X
    pyarrow = sys.modules["pyarrow"]
    if isinstance(X, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([X])
    if isinstance(X, pyarrow.RecordBatchReader):
        msg = f"{name} is a RecordBatchReader, which can be read only once; give {name}.read_all()"
        raise TypeError(msg)
    return pyarrow.chunked_array([X]) if isinstance(X, pyarrow.Array) else X


def check_unique(X: Any) -> None:
    """Refuse a frame two of whose columns have the same name."""
    columns = [str(c) for c in _column_names(X)] if hasattr(X, "shape") else []
    if len(set(columns)) < len(columns):
        twice = ", ".join(repr(c) for c, count in Counter(columns).items() if count > 1)
        msg = f"column names that stand twice: {twice}; rename them, so that names tell columns apart"
        raise ValueError(msg)


def not_collected(X: Any, name: str = "X") -> TypeError:
    """The error for a lazy frame."""
    return TypeError(f"{name} is a {type(X).__name__}, whose rows are not there yet; give {name}.collect()")


# ---------------------------------------------------------------------- frames


def _column_names(X: Any) -> Sequence[Any]:
    names = getattr(X, "column_names", None)
    return list(names if names is not None else getattr(X, "columns", ()))


def _frame_values(X: Any, frame: nw.DataFrame[Any], name: str) -> Any:
    if not frame.shape[1]:
        return np.empty(frame.shape)
    if hasattr(X, "iloc"):
        kinds = set(X.dtypes)
        if all(isinstance(k, np.dtype) and k.kind in "biuf" for k in kinds):
            return _plain_array(X.to_numpy(dtype=np.result_type(*kinds)), name)
        if all(getattr(k, "fill_value", None) == 0 for k in kinds):  # sparse columns
            return canonical(X.sparse.to_coo(), name)
        if all(getattr(k, "kind", "O") in "biuf" and not hasattr(k, "fill_value") for k in kinds):  # nullable
            short = {getattr(k, "numpy_dtype", k) for k in kinds} == {np.dtype(np.float32)}
            return X.to_numpy(dtype=np.float32 if short else np.float64, na_value=np.nan)
    elif len(found := set(frame.schema.values())) == 1 and found <= set(_PLAIN):
        whole = frame.to_numpy()
        if whole.dtype.kind in "biuf":
            return whole
    labels = _column_names(X)
    bad: list[str] = []
    columns = []
    for label, column in zip(labels, frame.iter_columns(), strict=True):
        values, what = _numbers(column, label)
        if values is None:
            bad.append(f"{label!r} ({what})")
        else:
            columns.append(values)
    if bad:
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise _not_numbers(", ".join(bad[:_SHOWN]) + more)
    out = np.empty(frame.shape, dtype=np.result_type(*(c.dtype for c in columns)), order="F")
    for j, values in enumerate(columns):
        out[:, j] = values
    return _plain_array(out, name)


def _numbers(column: Any, label: Any) -> tuple[NDArray[Any] | None, str]:
    """The numbers of a column, or None and what it holds instead."""
    kind = column.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        return series_numbers(column), ""
    if kind not in (nw.Object, nw.Unknown):
        return None, str(kind)
    cells = np.asarray(column.to_native())
    if cells.dtype.kind in "biuf":
        return cells, ""
    if cells.dtype != object:
        return None, str(cells.dtype)
    odd = _odd_type(cells)
    return (_object_numbers(cells), "") if odd is None else (None, odd.__name__)


def series_numbers(column: Any) -> NDArray[Any]:
    """A column of numbers or booleans: as it is without gaps, else floats with NaN."""
    kind = column.dtype
    gaps = column.null_count() > 0
    if kind.is_decimal() or kind in _WIDE or (kind == nw.Boolean and gaps):
        column = column.cast(nw.Float64)  # other integers are not cast: Arrow refuses those beyond 2**53
    values = column.to_numpy()
    if values.dtype != object:
        return values
    if kind == nw.Boolean:
        return values.astype(bool)
    return _object_numbers(values)


def _series_column(column: Any, name: str) -> Column:
    kind = column.dtype
    if column.name and " of " not in name:
        name = f"{name} ({column.name!r})"
    if kind.is_numeric() or (kind == nw.Boolean and not column.null_count()):
        return Column(_common_float(series_numbers(column)))
    if kind.is_temporal():
        raise _dates(name, kind)
    if kind in (nw.Object, nw.Unknown):
        return Column(_plain_column(np.asarray(column.to_native()), name))
    categories = kind in (nw.Categorical, nw.Enum)
    if not categories and kind not in (nw.String, nw.Boolean):
        msg = f"{name} holds values of type {kind}; give numbers or class labels"
        raise ValueError(msg)
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_list()
    gaps = absent(values)
    values[gaps] = None
    if categories and not gaps.any() and _odd_type(values) is None:  # categories that are numbers
        values = np.array(column.to_list())
    return Column(values, categories)
