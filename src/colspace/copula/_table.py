"""Tables as people have them to floats with holes, and back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._containers import absent, check_unique, not_collected, unmasked, whole_frame
from .._rows import is_dask
from ._codecs import (
    ID,
    NOMINAL,
    NUMBERS,
    WORDS,
    Codec,
    check_logical,
    codec_of,
    column_index,
    first_seen,
    hollow,
    numbers_of,
    plain,
    refuse_infinity,
    shown,
    sort_of,
    unfit,
    values_for_gaps,
)
from ._dates import dates_like, dates_shown, days_of, days_of_gaps
from ._decode import as_dtype, level_values, objects, scatter
from ._kinds import forced_kinds

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
    X: Any,
    orders: Mapping[Any, Sequence[Any]] | None = None,
    *,
    kinds: Any = "auto",
    na_values: Any = None,
    min_rows: int = 1,
) -> tuple[Array | sparse.csr_array, Layout]:
    """A table as floats, and what is needed to read others like it.

    Parameters
    ----------
    X : DataFrame (pandas, polars, pyarrow), array-like, or sparse matrix (CSR, CSC, COO)
        Numbers, booleans, dates, text and categories. None, NaN, NA, NaT and absent cells of a sparse matrix are missing.
    orders : mapping of column to levels, optional
        Levels in order, for columns whose type does not tell it.
    kinds : "auto", a kind, or mapping of columns to kinds
        "id" leaves a column out, any other makes text something else than an id.
    na_values : scalar, sequence of scalars, or mapping of columns to those, optional
        Values that are missing.
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
    layout = learn_layout(X, orders, kinds=kinds, na_values=na_values)
    rows = _open(X).shape[0]
    if rows < min_rows:
        msg = f"X has n_samples={rows}, but at least {min_rows} rows are needed to learn from; give more rows"
        raise ValueError(msg)
    return encode_table(X, layout), layout


def learn_layout(
    X: Any,
    orders: Mapping[Any, Sequence[Any]] | None = None,
    *,
    kinds: Any = "auto",
    na_values: Any = None,
) -> Layout:
    """The layout of a table; of a Dask collection from its metadata alone."""
    lazy = is_dask(X)
    if lazy:
        X = X._meta if hasattr(X, "columns") else np.empty((0, X.shape[1]), X.dtype)
    source = _open(X)
    p = source.shape[1]
    if p == 0:
        msg = f"Found array with 0 feature(s) (shape={source.shape}) while a minimum of 1 is required: no columns"
        raise ValueError(msg)
    given = {column_index(key, source.names, p): levels for key, levels in (orders or {}).items()}
    labels = range(p) if source.names is None else source.names
    forced, gaps = forced_kinds(kinds, source.names, p), values_for_gaps(na_values, source.names, p)
    codecs = []
    for j, label in enumerate(labels):
        column = source.column(j)
        codecs.append(codec_of(column, label, given.get(j), forced.get(j), gaps.get(j, ())))
        if lazy and codecs[-1].values == NOMINAL and not codecs[-1].levels:
            raise unfit(column, "text", label)
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
    plain_numbers = {*NUMBERS} - ({"bool"} if kind != "b" else set())
    if kind in "fiub" and all(c.values in plain_numbers and not c.gaps for c in layout.codecs):
        values: Array = data.astype(np.float64, copy=False)
        for j in np.flatnonzero(np.isinf(values).any(axis=0))[:1]:
            refuse_infinity(layout.labels[j])
        return values
    return _columns(source, layout)


def decode_table(filled: Any, X: Any, layout: Layout, encoded: Any = None) -> Any:
    """X with its missing cells taken from ``filled``, in its own container, types and levels; ``encoded``: X as floats, where it is at hand.

    Observed cells are those of X itself. Filled cells of integer types are rounded to the nearest whole number that
    the type holds. A sparse X comes back as a dense array. X is not changed; an array of floats ``filled`` may be what is given back.
    """
    source = _open(X)
    new = np.asarray(filled, dtype=np.float64)
    if source.container == "sparse":
        cells = _encode_sparse(source.data, layout).tocoo()  # without cells that stand for gaps
        kept = source.data.tocsr()[cells.row, cells.col] if cells.nnz else cells.data
        observed, cells = slice(None), sparse.coo_array((np.asarray(kept).ravel(), cells.coords), cells.shape)
        out = as_dtype(new, source.data.dtype)
        out[cells.row[observed], cells.col[observed]] = cells.data[observed]
        return out
    if source.container == "numpy":
        return _decode_array(new, source, layout, encoded)
    old = _float_frame(source, layout)
    if old is not None:
        np.copyto(new, old, where=~np.isnan(old))
        whole = nw.get_native_namespace(X).DataFrame(new, index=X.index, columns=X.columns, copy=False)
        whole.attrs.update(X.attrs)
        return whole
    missing = np.isnan(_columns(source, layout) if encoded is None else encoded) & ~np.isnan(new)
    missing[:, [codec.values == ID for codec in layout.codecs]] = False
    columns = []
    for j in np.flatnonzero(missing.any(axis=0)):
        where = np.flatnonzero(missing[:, j])
        columns.append(scatter(source.columns[j], where, new[where, j], layout.codecs[j]))
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


def levels_of(codec: Codec, seen: Array) -> tuple[Any, ...]:
    """Levels of a column as people know them, of their values in the table of floats."""
    if codec.levels:
        return tuple(codec.levels[int(x)] for x in seen)
    if codec.values == "date":
        return tuple(dates_shown(seen.tolist()))
    return tuple({"bool": bool, "integer": int}.get(codec.values, float)(x) for x in seen.tolist())


def level_table(table: Array, levels: tuple[Any, ...], X: Any) -> Any:
    """Rows x levels: a frame of the library of X, with its index, or the array itself."""
    source = _open(X)
    if source.container in ("numpy", "sparse"):
        return table
    if hasattr(X, "index"):
        return nw.get_native_namespace(X).DataFrame(table, index=X.index, columns=list(levels))
    names = list(map(str, levels))
    return nw.from_numpy(table, names, backend=nw.get_native_namespace(X)).to_native()


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
        if self.container == "numpy":
            return self.data[:, j]
        column = self.columns[j]
        if getattr(column.to_native(), "dtype", None) == object:
            return np.asarray(column.to_native(), dtype=object)
        return column

    @cached_property
    def columns(self) -> list[Any]:
        """Of a frame, all at once: to find one by its place takes as long as there are columns."""
        return list(self.data.iter_columns())


def _float_frame(source: _Source, layout: Layout) -> Array | None:
    """The values of a pandas frame all of whose columns are plain float64 without levels, at once; else None."""
    if source.container != "pandas" or any(
        c.levels or c.gaps or c.values in ("bool", ID) for c in layout.codecs
    ):
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
    for j, codec in enumerate(layout.codecs):
        if codec.gaps:
            keep &= ~((table.indices == j) & np.isin(data, _numbers(codec.gaps)))
    if keep.all():
        return sparse.csr_array((data, table.indices, table.indptr), shape=X.shape)
    before = np.concatenate([[0], np.cumsum(keep)])
    return sparse.csr_array((data[keep], table.indices[keep], before[table.indptr]), shape=X.shape)


# ---------------------------------------------------------------------- columns in


def _columns(source: _Source, layout: Layout) -> Array:
    pairs = enumerate(zip(layout.codecs, layout.labels, strict=True))
    return np.column_stack([_encode(source.column(j), *pair) for j, pair in pairs])


def _encode(column: Any, codec: Codec, label: Hashable) -> Array:
    if codec.values == ID:
        return np.full(len(column), np.nan)
    column = hollow(column, codec.gaps)
    sort = sort_of(column, label)
    unknown = (
        codec.values == NOMINAL and not codec.levels and sort in WORDS
    )  # words, of which fit has seen none
    if unknown and all(plain(value) in codec.gaps for value in first_seen(column)):
        return np.full(len(column), np.nan)
    if codec.values == "date" != sort and not (sort == "float" and np.isnan(numbers_of(column)).all()):
        msg = f"column {label!r} held dates in fit, but is of type {column.dtype} now; convert it to dates"
        raise ValueError(msg)
    if sort not in (*NUMBERS, "category", "date") and not (codec.levels and sort in WORDS):
        raise unfit(column, sort, label)
    if codec.levels and sort != "date":
        return _codes(column, sort, codec, label)
    if sort == "category" or (sort == "date" != codec.values):
        held = "booleans" if codec.values == "bool" else "levels" if codec.levels else "numbers"
        msg = f"column {label!r} held {held} in fit, but is of type {column.dtype} now; convert it to {held}"
        raise ValueError(msg)
    if sort == "bool" != codec.values and not isinstance(column, np.ndarray):
        msg = (
            f"column {label!r} held numbers in fit, but is of type {column.dtype} now; convert it to numbers"
        )
        raise ValueError(msg)
    if sort == "date":
        return _blanked(days_of(column), days_of_gaps(codec.gaps))
    values = _blanked(numbers_of(column), _numbers(codec.gaps))
    if np.isinf(values).any():
        refuse_infinity(label)
    if codec.values == "bool" != sort:
        check_logical(values, label)
    return values


def _numbers(gaps: tuple[Any, ...]) -> list[float]:
    """Those values for gaps that are numbers."""
    return [float(gap) for gap in gaps if isinstance(gap, Real)]


def _blanked(values: Array, gaps: list[float]) -> Array:
    """NaN in place of values that stand for gaps; the array itself where there are none."""
    return np.where(np.isin(values, gaps), np.nan, values) if gaps else values


def _codes(column: Any, sort: str, codec: Codec, label: Hashable) -> Array:
    """Positions in the order of the levels."""
    levels = codec.levels
    if sort in NUMBERS and column.dtype != object:
        if not all(isinstance(level, Real) for level in levels):
            msg = f"column {label!r} has the levels {shown(levels)}, but is of type {column.dtype} now; convert it"
            raise ValueError(msg)
        column = numbers_of(column).astype(object)
    position = {level: float(i) for i, level in enumerate(levels)}
    position |= dict.fromkeys(codec.gaps, np.nan)
    found = {value: position.get(plain(value), -1.0) for value in first_seen(column)}
    strange = [value for value, code in found.items() if code < 0]
    if strange and codec.values == NOMINAL:
        msg = (
            f"column {label!r} holds {strange[0]!r}, which fit did not see; it is nominal with the levels {shown(levels, 10)}. "
            "Remedies: blank the value, or fit on rows that hold it"
        )
        raise ValueError(msg)
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


def _decode_array(new: Array, source: _Source, layout: Layout, encoded: Any) -> NDArray[Any]:
    special = any(codec.levels or codec.values == ID for codec in layout.codecs)
    if source.data.dtype == np.float64 and not special and not any(codec.gaps for codec in layout.codecs):
        np.copyto(new, source.data, where=~np.isnan(source.data))
        return new
    out = np.array(source.data)
    missing = absent(out) if out.dtype.kind in "fO" else np.zeros(out.shape, dtype=bool)
    if out.dtype.kind in "Mm" or any(codec.gaps for codec in layout.codecs):
        missing = np.isnan(_columns(source, layout) if encoded is None else encoded)
    if out.dtype.kind == "f" and not special:
        np.copyto(out, new, where=missing, casting="same_kind")
        return out
    if special:
        missing &= ~np.isnan(new)
    for j in np.flatnonzero(missing.any(axis=0)):
        codec, where = layout.codecs[j], missing[:, j]
        if out.dtype == object:
            out[where, j] = objects(new[where, j], codec)
        elif out.dtype.kind in "Mm":
            out[where, j] = dates_like(out, new[where, j], codec.step)
        elif out.dtype.kind in "iu":
            out[where, j] = as_dtype(new[where, j], out.dtype)
        elif codec.levels:
            out[where, j] = level_values(new[where, j], codec.levels, out.dtype)
        else:
            out[where, j] = new[where, j]
    return out
