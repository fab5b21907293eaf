"""Tables as people have them to floats with holes, and back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._containers import absent, check_unique, not_collected, unmasked, whole_frame
from .._rows import is_dask
from ._kinds import (
    NUMBERS,
    Codec,
    check_logical,
    codec_of,
    column_index,
    first_seen,
    numbers_of,
    plain,
    refuse_infinity,
    shown,
    sort_of,
    unfit,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_FORMATS = ("csr", "csc", "coo")


@dataclass(frozen=True)
class Layout:
    """What fit learned about a table: its container, column names (None: an array) and codecs."""

    container: str
    names: tuple[Hashable, ...] | None
    codecs: tuple[Codec, ...]

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """Names of the columns, or their positions."""
        return tuple(range(len(self.codecs))) if self.names is None else self.names

    @property
    def hints(self) -> tuple[str | None, ...]:
        """The hint of each codec."""
        return tuple(codec.hint for codec in self.codecs)


def read_table(
    X: Any, orders: Mapping[Any, Sequence[Any]] | None = None, *, min_rows: int = 1
) -> tuple[Array | sparse.csr_array, Layout]:
    """A table as floats, and what is needed to read others like it.

    Parameters
    ----------
    X : DataFrame (pandas, polars, pyarrow), array-like, or sparse matrix (CSR, CSC, COO)
        Numbers, booleans and ordered categories. None, NaN, NA and absent cells of a sparse matrix are missing.
    orders : mapping of column to levels, optional
        Levels in order, for columns whose type does not tell it.
    min_rows : int
        Fewer rows are refused.

    Returns
    -------
    values : ndarray or csr_array of float64
        NaN where missing; for a sparse X the stored cells are the observed ones. May share memory with X.
    layout : Layout

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.copula._table import decode_table, read_table
    >>> size = pd.Categorical(["S", None, "L"], categories=["S", "M", "L"], ordered=True)
    >>> X = pd.DataFrame({"size": size, "n": pd.array([1, 2, None], dtype="Int64")})
    >>> values, layout = read_table(X)
    >>> values
    array([[ 0.,  1.],
           [nan,  2.],
           [ 2., nan]])
    >>> decode_table([[0, 1], [1, 2], [2, 3]], X, layout)
      size  n
    0    S  1
    1    M  2
    2    L  3
    """
    layout = learn_layout(X, orders)
    rows = _open(X).shape[0]
    if rows < min_rows:
        msg = f"X has n_samples={rows}, but at least {min_rows} rows are needed to learn from; give more rows"
        raise ValueError(msg)
    return encode_table(X, layout), layout


def learn_layout(X: Any, orders: Mapping[Any, Sequence[Any]] | None = None) -> Layout:
    """The layout of a table; of a Dask collection from its metadata alone."""
    if is_dask(X):
        X = X._meta if hasattr(X, "columns") else np.empty((0, X.shape[1]), X.dtype)
    source = _open(X)
    p = source.shape[1]
    if p == 0:
        msg = f"Found array with 0 feature(s) (shape={source.shape}) while a minimum of 1 is required: no columns"
        raise ValueError(msg)
    given = {column_index(key, source.names, p): levels for key, levels in (orders or {}).items()}
    labels = range(p) if source.names is None else source.names
    codecs = [codec_of(source.column(j), label, given.get(j)) for j, label in enumerate(labels)]
    return Layout(source.container, source.names, tuple(codecs))


def encode_table(X: Any, layout: Layout) -> Array | sparse.csr_array:
    """New rows as floats, NaN where missing; refuses types and levels that the layout does not have."""
    source = _open(X)
    p = len(layout.codecs)
    if source.shape[1] != p:
        msg = f"X has {source.shape[1]} features, but {p} were seen in fit; give the same columns"
        raise ValueError(msg)
    if source.container == "sparse":
        return _encode_sparse(source.data, layout)
    found = _float_frame(source, layout)
    data = source.data if found is None else found
    kind = data.dtype.kind if source.container == "numpy" or found is not None else "O"
    if kind in "fiub" and {c.values for c in layout.codecs} <= {*NUMBERS} - (
        {"bool"} if kind != "b" else set()
    ):
        values: Array = data.astype(np.float64, copy=False)
        for j in np.flatnonzero(np.isinf(values).any(axis=0))[:1]:
            refuse_infinity(layout.labels[j])
        return values
    pairs = enumerate(zip(layout.codecs, layout.labels, strict=True))
    return np.column_stack([_encode(source.column(j), *pair) for j, pair in pairs])


def decode_table(filled: Any, X: Any, layout: Layout) -> Any:
    """X with its missing cells taken from ``filled``, in its own container, types and levels.

    Observed cells are those of X itself. Filled cells of integer types are rounded to the nearest whole number that
    the type holds. A sparse X comes back as a dense array. X is not changed.
    """
    source = _open(X)
    new = np.asarray(filled, dtype=np.float64)
    if source.container == "sparse":
        cells = source.data.tocoo()
        observed = ~np.isnan(cells.data) if cells.data.dtype.kind == "f" else slice(None)
        out = _as_dtype(new, source.data.dtype)
        out[cells.row[observed], cells.col[observed]] = cells.data[observed]
        return out
    if source.container == "numpy":
        return _decode_array(new, source, layout)
    old = _float_frame(source, layout)
    if old is not None:
        whole = nw.get_native_namespace(X).DataFrame(
            np.where(np.isnan(old), new, old), index=X.index, columns=X.columns
        )
        whole.attrs.update(X.attrs)
        return whole
    columns = []
    for j, (codec, label) in enumerate(zip(layout.codecs, layout.labels, strict=True)):
        where = np.flatnonzero(np.isnan(_encode(source.column(j), codec, label)))
        if len(where):
            columns.append(_scatter(source.data[:, j], where, new[where, j], codec))
    return source.data.clone().with_columns(*columns).to_native()


def float_table(filled: Any, X: Any, layout: Layout) -> Any:
    """Floats in the container of X, with its index and column names; NaN stays."""
    source = _open(X)
    values = np.array(filled, dtype=np.float64)
    if source.container in ("numpy", "sparse"):
        return values
    if hasattr(X, "index"):
        return nw.get_native_namespace(X).DataFrame(values, index=X.index, columns=X.columns)
    return nw.from_numpy(values, source.data.columns, backend=nw.get_native_namespace(X)).to_native()


# ---------------------------------------------------------------------- containers


@dataclass(frozen=True)
class _Source:
    """A narwhals frame, an ndarray or a sparse matrix."""

    container: str
    names: tuple[Hashable, ...] | None
    data: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.shape

    def column(self, j: int) -> Any:
        """A narwhals series, or an array: of Python objects, of an ndarray, or (empty) of a sparse matrix."""
        if self.container == "sparse":
            return np.empty(0, self.data.dtype)
        column = self.data[:, j]
        if self.container != "numpy" and getattr(column.to_native(), "dtype", None) == object:
            return np.asarray(column.to_native(), dtype=object)
        return column


def _float_frame(source: _Source, layout: Layout) -> Array | None:
    """The values of a pandas frame all of whose columns are plain float64 without levels, at once; else None."""
    if source.container != "pandas" or any(c.levels or c.values == "bool" for c in layout.codecs):
        return None
    frame = source.data.to_native()
    if type(frame) is not nw.get_native_namespace(frame).DataFrame:
        return None
    float64 = np.dtype(np.float64)
    return frame.to_numpy() if all(dtype is float64 for dtype in frame.dtypes.array) else None


def _open(X: Any) -> _Source:
    if is_dask(X):
        msg = "X is a Dask collection; read it partition by partition, with the layout of the whole"
        raise TypeError(msg)
    if isinstance(X, np.ma.MaskedArray):
        X = unmasked(X)
    X = whole_frame(X)
    if isinstance(X, list | tuple) and X and all(getattr(x, "ndim", 0) == 2 for x in X):
        msg = f"X is a list of {len(X)} tables, but must be one 2-D table: join them side by side first"
        raise TypeError(msg)
    if sparse.issparse(X):
        if X.format not in _FORMATS or X.ndim != 2:
            msg = (
                f"X is a sparse {X.ndim}-D {X.format} matrix; cells that are absent are missing, and only {_FORMATS} "
                "matrices tell a stored zero from an absent cell. Make one of those from the observed cells"
            )
            raise TypeError(msg)
        return _Source("sparse", None, X)
    check_unique(X)
    columns = list(getattr(X, "column_names", getattr(X, "columns", ()))) if hasattr(X, "shape") else []
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise not_collected(X)
    if isinstance(frame, nw.DataFrame):
        return _Source(str(frame.implementation).lower(), tuple(columns), frame)
    array = np.asarray(X)
    if array.ndim != 2:
        msg = (
            f"Expected 2D array, got {array.ndim}D array instead: X must be rows x columns. Reshape your data with "
            "X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row"
        )
        raise ValueError(msg)
    return _Source("numpy", None, array)


def _encode_sparse(X: Any, layout: Layout) -> sparse.csr_array:
    levels = [label for codec, label in zip(layout.codecs, layout.labels, strict=True) if codec.levels]
    if levels:
        msg = f"column {levels[0]!r} has levels, but a sparse X holds numbers; give a DataFrame, or fit without levels"
        raise ValueError(msg)
    table = sparse.csr_array(X)
    table = sparse.csr_array((table.data, table.indices, table.indptr), shape=X.shape)
    if not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    if table.nnz < X.nnz:
        msg = (
            f"{X.nnz - table.nnz} cells of X are stored twice; a cell has one value. Remedies: keep one of each, "
            "or X.sum_duplicates() where their sum is meant"
        )
        raise ValueError(msg)
    data = table.data.astype(np.float64, copy=False)
    for j in table.indices[np.isinf(data)][:1]:
        refuse_infinity(layout.labels[j])
    for j in [j for j, codec in enumerate(layout.codecs) if codec.values == "bool"]:
        if table.dtype != bool:
            check_logical(data[table.indices == j], layout.labels[j])
    keep = ~np.isnan(data)
    if keep.all():
        return sparse.csr_array((data, table.indices, table.indptr), shape=X.shape)
    before = np.concatenate([[0], np.cumsum(keep)])
    return sparse.csr_array((data[keep], table.indices[keep], before[table.indptr]), shape=X.shape)


# ---------------------------------------------------------------------- columns in


def _encode(column: Any, codec: Codec, label: Hashable) -> Array:
    sort = sort_of(column, label)
    if sort not in (*NUMBERS, "category") and not (codec.levels and sort in ("text", "unordered")):
        raise unfit(column, sort, label)
    if codec.levels:
        return _codes(column, sort, codec.levels, label)
    if sort == "category" or (sort == "bool" != codec.values and not isinstance(column, np.ndarray)):
        held = "booleans" if codec.values == "bool" else "numbers"
        msg = f"column {label!r} held {held} in fit, but is of type {column.dtype} now; convert it to {held}"
        raise ValueError(msg)
    values = numbers_of(column)
    if np.isinf(values).any():
        refuse_infinity(label)
    if codec.values == "bool" != sort:
        check_logical(values, label)
    return values


def _codes(column: Any, sort: str, levels: tuple[Any, ...], label: Hashable) -> Array:
    """Positions in the order of the levels."""
    if sort in NUMBERS and column.dtype != object:
        if not all(isinstance(level, Real) for level in levels):
            msg = f"column {label!r} has the levels {shown(levels)}, but is of type {column.dtype} now; convert it"
            raise ValueError(msg)
        column = numbers_of(column).astype(object)
    position = {level: float(i) for i, level in enumerate(levels)}
    found = {value: position.get(plain(value), -1.0) for value in first_seen(column)}
    strange = [value for value, code in found.items() if code < 0]
    if strange:
        msg = (
            f"column {label!r} holds {strange[0]!r}, which is not one of its levels {' < '.join(map(repr, levels))}. "
            f"Remedies: correct or blank it, or fit with a level for it: kinds={{{label!r}: [levels in order]}}"
        )
        raise ValueError(msg)
    out = np.full(len(column), np.nan)
    if isinstance(column, np.ndarray):
        there = ~absent(column)
        out[there] = list(map(found.__getitem__, column[there]))
    elif found:
        codes = column.replace_strict(list(found), list(found.values()), return_dtype=nw.Float64)
        out[:] = codes.to_numpy()
    closed = sort == "category" or (sort == "unordered" and column.implementation.is_pandas())
    lacking = set(levels) - set(map(plain, column.cat.get_categories().to_list())) if closed else ()
    if lacking and np.isnan(out).any():
        msg = (
            f"the categories of column {label!r} lack {shown(sorted(lacking, key=str))}, with which its missing "
            "cells may be filled; give it the categories that it had in fit"
        )
        raise ValueError(msg)
    return out


# ---------------------------------------------------------------------- columns out


def _as_dtype(values: Array, dtype: Any) -> NDArray[Any]:
    """Floats cast to a number type: whole numbers to the nearest that it holds."""
    if dtype.kind not in "iu":
        return values > 0.5 if dtype.kind == "b" else values.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    top = float(high) if int(float(high)) <= high else np.nextafter(float(high), 0.0)
    return np.clip(np.rint(values), low, top).astype(dtype)


def _level_values(codes: Array, levels: tuple[Any, ...], dtype: Any) -> NDArray[Any]:
    table = np.empty(len(levels), dtype=dtype)
    table[:] = levels
    return table[np.rint(codes).astype(np.intp)]


def _objects(values: Array, codec: Codec) -> NDArray[np.object_]:
    """Floats as the Python objects of a column."""
    if codec.levels:
        return _level_values(values, codec.levels, object)
    out = np.empty(len(values), dtype=object)
    if codec.values == "decimal":
        out[:] = list(map(Decimal, map(repr, values.tolist())))
    else:
        dtype = {"integer": "i8", "bool": "?"}.get(codec.values, "f8")
        out[:] = _as_dtype(values, np.dtype(dtype)).tolist()
    return out


def _decode_array(new: Array, source: _Source, layout: Layout) -> NDArray[Any]:
    out = np.array(source.data)
    missing = absent(out) if out.dtype.kind in "fO" else np.zeros(out.shape, dtype=bool)
    if out.dtype.kind == "f" and not any(codec.levels for codec in layout.codecs):
        np.copyto(out, new, where=missing, casting="same_kind")
        return out
    for j in np.flatnonzero(missing.any(axis=0)):
        codec, where = layout.codecs[j], missing[:, j]
        if out.dtype == object:
            out[where, j] = _objects(new[where, j], codec)
        elif codec.levels:
            out[where, j] = _level_values(new[where, j], codec.levels, out.dtype)
        else:
            out[where, j] = new[where, j]
    return out


def _scatter(column: Any, where: Index, values: Array, codec: Codec) -> Any:
    """A series with some cells replaced, of the same type."""
    new = _cells(column, values, codec)
    if not column.implementation.is_pyarrow():
        return column.scatter(where, new)
    # Arrow replaces cells by those of the very same type, and none of dictionaries
    arrow, native = nw.get_native_namespace(column), column.to_native()
    kind = getattr(native.type, "value_type", native.type)
    cells = nw.from_native(arrow.chunked_array([arrow.array(new, kind)]), series_only=True)
    found = nw.from_native(native.cast(kind), series_only=True).scatter(where, cells).to_native()
    return nw.from_native(found.cast(native.type), series_only=True).alias(column.name)


def _cells(column: Any, values: Array, codec: Codec) -> Any:
    """Floats as cells of a series."""
    kind = column.dtype
    numeric = kind.is_numeric() or kind in (nw.Boolean, nw.Unknown)
    if getattr(column.to_native(), "dtype", None) == object or (codec.levels and not numeric):
        new = _objects(values, codec).tolist()
        if kind not in (nw.Enum, nw.Categorical):
            return new
        own = {plain(category): category for category in column.cat.get_categories().to_list()}
        return [own.get(level, level) for level in new]
    if codec.levels:
        values = _level_values(values, codec.levels, np.float64)
    if kind.is_decimal():
        step = Decimal(1).scaleb(-kind.scale)
        return [Decimal(value).quantize(step) for value in values.tolist()]
    if kind == nw.Unknown:
        return values.astype(column.to_native().dtype)
    return _as_dtype(values, np.dtype("?" if kind == nw.Boolean else str(kind).lower()))
