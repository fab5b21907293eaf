"""Floats as cells of the columns that they came from."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from ._codecs import Codec, plain
from ._dates import dates_like

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def as_dtype(values: Array, dtype: Any) -> NDArray[Any]:
    """Floats cast to a number type: whole numbers to the nearest that it holds."""
    if dtype.kind not in "iu":
        return values > 0.5 if dtype.kind == "b" else values.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    top = float(high) if int(float(high)) <= high else np.nextafter(float(high), 0.0)
    return np.clip(np.rint(values), low, top).astype(dtype)


def level_values(codes: Array, levels: tuple[Any, ...], dtype: Any) -> NDArray[Any]:
    table = np.empty(len(levels), dtype=dtype)
    table[:] = levels
    return table[np.rint(codes).astype(np.intp)]


def objects(values: Array, codec: Codec) -> NDArray[np.object_]:
    """Floats as the Python objects of a column."""
    if codec.levels:
        return level_values(values, codec.levels, object)
    out = np.empty(len(values), dtype=object)
    if codec.values == "decimal":
        out[:] = list(map(Decimal, map(repr, values.tolist())))
    else:
        dtype = {"integer": "i8", "bool": "?"}.get(codec.values, "f8")
        out[:] = as_dtype(values, np.dtype(dtype)).tolist()
    return out


def scatter(column: Any, where: Index, values: Array, codec: Codec) -> Any:
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
    if codec.values == "date":
        return dates_like(column, values, codec.step)
    numeric = kind.is_numeric() or kind in (nw.Boolean, nw.Unknown)
    if getattr(column.to_native(), "dtype", None) == object or (codec.levels and not numeric):
        new = objects(values, codec).tolist()
        if kind not in (nw.Enum, nw.Categorical):
            return new
        own = {plain(category): category for category in column.cat.get_categories().to_list()}
        return [own.get(level, level) for level in new]
    if codec.levels:
        values = level_values(values, codec.levels, np.float64)
    if kind.is_decimal():
        step = Decimal(1).scaleb(-kind.scale)
        return [Decimal(value).quantize(step) for value in values.tolist()]
    if kind == nw.Unknown:
        return values.astype(column.to_native().dtype)
    return as_dtype(values, np.dtype("?" if kind == nw.Boolean else str(kind).lower()))
