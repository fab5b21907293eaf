"""Arrays of anything as arrays of numbers, and what to say of those that hold none."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from numbers import Complex, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def absent(cells: NDArray[Any]) -> NDArray[np.bool_]:
    """Which cells stand for a missing value: None, NaN, NA."""
    if cells.dtype != object:
        return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(cells.shape, dtype=bool)
    if "pandas" in sys.modules:  # NA, which is equal to nothing, is known to pandas alone
        return np.asarray(sys.modules["pandas"].isna(cells), dtype=bool)
    return np.not_equal(cells, cells).astype(bool) | np.equal(cells, np.array(None)).astype(bool)


def _asarray(X: Any, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(X)
        mixed = array.dtype.kind in "US" and isinstance(X, list | tuple)
        return np.asarray(X, dtype=object) if mixed else array  # numbers beside text stay numbers
    except (TypeError, ValueError) as reason:
        msg = f"{name} cannot be read as an array: {reason}"
        raise type(reason)(msg) from reason


def _plain_array(X: NDArray[Any], name: str) -> NDArray[Any]:
    """A 2-D array of float64, float32, integers or booleans."""
    if X.ndim != 2:
        msg = (
            f"Expected 2D array, got {X.ndim}D array instead: {name} must be rows x columns. Reshape your data with "
            f"{name}.reshape(-1, 1) if it is one column, {name}.reshape(1, -1) if it is one row"
        )
        raise ValueError(msg)
    kind = X.dtype.kind
    if kind in "biuf":
        return _common_float(X)
    if kind == "c":
        raise _complex(name, X.dtype)
    if kind != "O":
        what = {"m": "durations", "M": "dates", "V": "records"}.get(kind, "text")
        which = f"all {X.shape[1]} of {name} hold {what} ({X.dtype})"
        raise _not_numbers(which)
    for j in range(X.shape[1]):
        odd = _odd_type(X[:, j])
        if odd is None:
            continue
        where = f"column {j} of {name}"
        if issubclass(odd, Complex):
            raise _complex(where, odd.__name__)
        if issubclass(odd, (str, bytes, *_DATES)):
            which = f"{where} holds {odd.__name__}"
            raise _not_numbers(which)
        msg = (
            f"column {j} of {name} holds a {odd.__name__}; an argument must be a table of numbers (a string is none), "
            "or a number. Convert or drop the column"
        )
        raise TypeError(msg)
    return (
        np.column_stack([_object_numbers(X[:, j]) for j in range(X.shape[1])]) if X.size else X.astype(float)
    )


def _common_float(X: NDArray[Any]) -> NDArray[Any]:
    if X.dtype.kind != "f" or X.dtype in (np.float64, np.float32):
        return X
    with np.errstate(over="ignore"):  # what float64 cannot hold is infinite, and refused as such
        return X.astype(np.float64)


def _odd_type(cells: NDArray[Any]) -> type | None:
    """The first type among objects that is no number, or None."""
    types = dict.fromkeys(map(type, cells[~absent(cells)]))
    return next((t for t in types if not issubclass(t, Real | Decimal | np.bool_)), None)


def _object_numbers(cells: NDArray[Any]) -> NDArray[Any]:
    there = ~absent(cells)
    out = np.full(cells.shape, np.nan)
    out[there] = cells[there].astype(np.float64)
    return out


def _not_numbers(which: str) -> ValueError:
    return ValueError(
        f"columns that are not numbers: {which}. Remedies: encode them (sklearn.preprocessing.OneHotEncoder or "
        "OrdinalEncoder in a ColumnTransformer), convert them, or drop them"
    )


def _complex(name: str, dtype: Any) -> ValueError:
    return ValueError(
        f"Complex data not supported: {name} holds {dtype}; give its real and imaginary parts as columns"
    )


def _refuse_mask(X: Any, name: str) -> NDArray[Any]:
    mask = np.ma.getmaskarray(X)
    if not mask.any():
        return np.ma.getdata(X)
    if X.ndim != 2:
        return np.asarray(mask)  # refused for its shape
    counts = mask.sum(axis=0)
    j = int(np.argmax(counts > 0))
    more = f", as are {int((counts > 0).sum()) - 1} more column(s)" if (counts > 0).sum() > 1 else ""
    msg = (
        f"column {j} of {name} is masked (missing) in {int(counts[j])} row(s), first in row "
        f"{int(np.argmax(mask[:, j]))}{more}; masked cells are taken as NaN, which is refused here. Remedies: "
        f"colspace.CopulaImputer().fit_transform({name}), or drop those rows or columns"
    )
    raise ValueError(msg)


def unmasked(y: Any) -> NDArray[Any]:
    """Masked values as NaN, or None where the type has no NaN."""
    data, mask = np.ma.getdata(y), np.ma.getmaskarray(y)
    if not mask.any():
        return data
    numbers = data.dtype.kind in "iuf"
    out = data.astype(np.float64 if numbers else object)
    out[mask] = np.nan if numbers else None
    return out


def _plain_column(y: NDArray[Any], name: str) -> NDArray[Any]:
    if y.ndim not in (1, 2):
        msg = f"{name} has {y.ndim} dimensions; give one value per row, or a table of one row per row of X"
        raise ValueError(msg)
    kind = y.dtype.kind
    if kind == "O":
        there = y[~absent(y)]
        types = set(map(type, there.ravel()))
        dates = [t for t in types if issubclass(t, _DATES)]
        if dates:
            raise _dates(name, dates[0].__name__)
        odd = next((t for t in types if issubclass(t, Complex) and not issubclass(t, Real)), None)
        if odd is not None:
            raise _complex(name, odd.__name__)
        text = [t for t in types if issubclass(t, str)]
        if y.ndim == 1 and text and len(types) > len(text):
            other = next(t for t in types if t not in text)
            msg = f"{name} mixes text and values of type {other.__name__}; make all of them text, or all numbers"
            raise ValueError(msg)
        numbers = all(issubclass(t, Real | Decimal) and not issubclass(t, bool) for t in types)
        return _object_numbers(y) if numbers and len(there) else y
    if kind in "mM":
        raise _dates(name, y.dtype)
    if kind == "c":
        raise _complex(name, y.dtype)
    if kind == "V":
        msg = f"{name} holds records ({y.dtype}); give one of their fields, or a table of numbers"
        raise ValueError(msg)
    return _common_float(y)


def _dates(name: str, dtype: Any) -> ValueError:
    return ValueError(
        f"{name} holds dates ({dtype}); turn them into numbers first, e.g. days since the first one"
    )
