"""What columns hold, and how their values become floats."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from numbers import Complex, Real
from typing import Any, NoReturn

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from .._containers import absent
from ._dates import days_of, step_of

Array = NDArray[np.float64]

NOMINAL, ID = "nominal", "id"
PER_WORD = 2  # cells per distinct text, on average, under which it is an id or free text
NUMBERS = ("float", "integer", "decimal", "bool")
WORDS = ("text", "unordered")
_ARRAYS = {"f": "float", "i": "integer", "u": "integer", "b": "bool", "O": "object", "U": "text", "T": "text"}
_ARRAYS |= {"c": "complex", "M": "date", "m": "date"}
_OBJECTS: dict[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_),
    "integer": (int, np.integer),
    "decimal": (Decimal,),
    "float": (Real, Decimal, np.bool_),
    "complex": (Complex,),
    "time": (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64),
}


def values_for_gaps(given: Any, names: Sequence[Hashable] | None, p: int) -> dict[int, tuple[Any, ...]]:
    """For every column the values that ``na_values`` says are missing: a scalar, several, or those of named columns."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {column_index(key, names, p): _scalars(values, key) for key, values in given.items()}
    return dict.fromkeys(range(p), _scalars(given, None))


def _scalars(given: Any, key: Any) -> tuple[Any, ...]:
    several = isinstance(given, list | tuple | set | frozenset | np.ndarray)
    found = list(given) if several else [given]
    dates = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)
    for value in found:
        if not isinstance(value, (str, Real, Decimal, np.bool_, *dates)) and value is not None:
            where = "na_values" if key is None else f"na_values[{key!r}]"
            msg = (
                f"{where}={given!r} must be a number, a text, a date or a list of those, or a mapping of columns to those, e.g. "
                "na_values=-99 or na_values={'income': [-99, 'refused']}"
            )
            raise ValueError(msg)
    kept = [value if isinstance(value, dates) else plain(value) for value in found if value is not None]
    return tuple(
        value for value in kept if not (isinstance(value, float) and np.isnan(value))
    )  # missing anyway


def column_index(key: Any, names: Sequence[Hashable] | None, p: int) -> int:
    """Position of a column given by name, or by position where that is not a name."""
    if names is not None and key in names:
        return names.index(key)
    numbered = names is None or list(names) == list(range(p)) or all(isinstance(name, str) for name in names)
    if numbered and isinstance(key, int | np.integer) and not isinstance(key, bool) and -p <= key < p:
        return int(key) % p
    close = get_close_matches(str(key), [str(n) for n in names or ()], n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"X has {p} columns: {shown(names or range(p))}"
    msg = f"{key!r} is not a column of X; {hint}"
    raise ValueError(msg)


def shown(items: Iterable[Any], most: int = 5) -> str:
    """The first few of some items, for messages."""
    listed = list(items)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(map(repr, listed[:most])) + more


@dataclass(frozen=True)
class Codec:
    """How the values of a column become floats: ``levels`` as their position in the order, others as numbers.

    "nominal": levels without an order; "date": days since 1970 (or days, of durations), in whole ``step`` microseconds; "id": left
    out. ``gaps`` are values that stand for a missing one.
    """

    values: str
    levels: tuple[Any, ...] = ()
    gaps: tuple[Any, ...] = ()
    step: int = 1

    @property
    def hint(self) -> str | None:
        """What the type of the column says about its kind."""
        names = {"bool": "binary", "levels": "ordinal", "integer": "integer"}
        return names.get(self.values, self.values if self.values in (NOMINAL, ID, "date") else None)


def codec_of(
    column: Any,
    label: Hashable,
    order: Sequence[Any] | None,
    kind: str | None = None,
    gaps: tuple[Any, ...] = (),
) -> Codec:
    """The codec of a column, by its type, by the order given for its levels, or by the ``kind`` given for it."""
    if kind == ID:
        return Codec(ID)
    column = hollow(column, gaps)
    sort = sort_of(column, label)
    if order is not None:
        levels = tuple(map(plain, order))
        if len(levels) < 2 or len(set(levels)) < len(levels):
            msg = f"kinds gives column {label!r} the levels {list(levels)}; give at least two, each once, in order"
            raise ValueError(msg)
        if sort in (*NUMBERS, *WORDS, "category"):
            return Codec("levels", levels, gaps)
    if sort in NUMBERS:
        return Codec(sort, gaps=gaps)
    if sort == "date":
        return Codec("date", gaps=gaps, step=step_of(days_of(column)))
    if sort in ("category", *WORDS):
        levels = _levels_of(column, sort, label)
        if sort == "category":
            return Codec(NOMINAL if kind == NOMINAL else "levels", levels, gaps)
        levels = tuple(level for level in levels if level not in gaps)
        lonely = (
            kind is None and len(column) > 0 and len(levels) > 2 and _lonely(column, len(levels), sort, gaps)
        )
        return Codec(ID) if lonely else Codec(NOMINAL, levels, gaps)
    raise unfit(column, sort, label)


def _levels_of(column: Any, sort: str, label: Hashable) -> tuple[Any, ...]:
    """Levels in order: of categories with one all, in theirs; else those that occur, as categories have them or sorted."""
    listed = [] if isinstance(column, np.ndarray) or sort == "text" else column.cat.get_categories().to_list()
    categories = tuple(map(plain, listed))
    if categories == ("__UNKNOWN_CATEGORIES__",):
        msg = f"Dask does not know the categories of column {label!r} yet; call X.categorize() first"
        raise ValueError(msg)
    if sort == "category" or (
        sort == "unordered" and not len(column)
    ):  # of Dask the categories are all that is known
        return categories
    seen = set(map(plain, first_seen(column)))
    own = [level for level in categories if level in seen]
    return tuple(own if len(own) == len(seen) else sorted(seen, key=lambda level: (str(level), repr(level))))


def _lonely(column: Any, levels: int, sort: str, gaps: tuple[Any, ...]) -> bool:
    """Whether a column of words has so few cells for its levels that it tells rows apart, not groups of them."""
    if isinstance(column, np.ndarray):
        cells = int((~absent(column)).sum())
    else:
        marks = [value for value in first_seen(column) if plain(value) in gaps] if gaps else []
        cells = len(column) - int(column.null_count()) - sum(int((column == mark).sum()) for mark in marks)
    return cells <= levels if sort == "unordered" else cells < PER_WORD * levels


def hollow(column: Any, gaps: tuple[Any, ...]) -> Any:
    """A column of Python objects or of text with None in place of the values that stand for gaps; others as they are."""
    if not gaps or not isinstance(column, np.ndarray) or column.dtype.kind not in "OUT":
        return column
    out = column.astype(object)
    out[[not isinstance(cell, bool) and cell in gaps for cell in out.tolist()]] = None
    return out


def sort_of(column: Any, label: Hashable) -> str:
    """What a column holds: float, integer, decimal, bool, category, unordered, text, or something unfit."""
    if isinstance(column, np.ndarray):
        sort = _ARRAYS.get(column.dtype.kind, "other")
        return _sort_of_objects(column[~absent(column)], label) if sort == "object" else sort
    kind = column.dtype
    if kind.is_numeric():
        return "integer" if kind.is_integer() else "decimal" if kind.is_decimal() else "float"
    if kind == nw.Unknown:
        native = str(getattr(column.to_native(), "dtype", "null"))
        return "float" if native == "float16" else "complex" if native.startswith("complex") else "other"
    named = {nw.Boolean: "bool", nw.Enum: "category", nw.Categorical: "unordered", nw.String: "text"}
    dates = dict.fromkeys((nw.Date, nw.Datetime, nw.Duration), "date")
    return next(
        (sort for each, sort in (named | dates).items() if kind == each),
        "time" if kind.is_temporal() else "other",
    )


def first_seen(column: Any) -> list[Any]:
    """Distinct observed values in order of appearance."""
    if isinstance(column, np.ndarray):
        return list(dict.fromkeys(column[~absent(column)].tolist()))
    return list(column.drop_nulls().unique(maintain_order=True).to_list())


def numbers_of(column: Any) -> Array:
    """A column of numbers as floats, NaN where missing."""
    if not isinstance(column, np.ndarray):
        if not column.dtype.is_integer():  # Arrow refuses to cast integers beyond 2**53
            column = column.cast(nw.Float64)
        return column.to_numpy().astype(np.float64)
    if column.dtype != object:
        return column.astype(np.float64)
    out = np.full(len(column), np.nan)
    there = ~absent(column)
    out[there] = column[there].astype(np.float64)
    return out


def plain(value: Any) -> Any:
    """A level as a Python number or text, so that it can be compared and saved."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float) else str(value)


def check_logical(values: Array, label: Hashable) -> None:
    """Refuse what is neither 0 nor 1."""
    odd = values[~np.isnan(values) & (values != 0) & (values != 1)]
    if len(odd):
        msg = (
            f"column {label!r} held booleans in fit, but holds {float(odd[0])} now; give booleans, or 0 and 1"
        )
        raise ValueError(msg)


def refuse_infinity(label: Hashable) -> NoReturn:
    """Name the column that is not finite."""
    msg = f"column {label!r} contains infinity; values must be finite. Correct it, or make it NaN if it is missing"
    raise ValueError(msg)


def _sort_of_objects(cells: NDArray[np.object_], label: Hashable) -> str:
    types = set(map(type, cells))
    if not types:
        return "float"
    if any(issubclass(t, str) for t in types):
        return "text"
    for sort, kinds in _OBJECTS.items():
        if all(issubclass(t, kinds) for t in types):
            return sort
    odd = next(cell for cell in cells if not isinstance(cell, Real | Decimal | np.bool_))
    msg = (
        f"column {label!r} holds {odd!r} of type {type(odd).__name__}; an argument must be a string with a given order "
        "or a number. Convert or drop the column"
    )
    raise TypeError(msg)


def unfit(column: Any, sort: str, label: Hashable) -> Exception:
    """The error for a column that cannot be used."""
    if sort == "complex":
        return ValueError(f"Complex data not supported: column {label!r}; give its real and imaginary parts")
    if sort in WORDS:  # of a Dask collection, or where fit saw numbers
        what = "text" if sort == "text" else "categories"
        values = first_seen(column)
        found = f" ({shown(values, 3)})" if values else ""
        return ValueError(
            f"column {label!r} holds {what} without an order{found}. Remedies: where fit saw numbers, numbers; of a Dask "
            f"collection, X.categorize(), or kinds={{{label!r}: [levels in order]}}; or drop it"
        )
    dtype = (
        column.dtype if isinstance(column, np.ndarray) else getattr(column.to_native(), "dtype", column.dtype)
    )
    what = "dates or times as objects" if sort == "time" else f"values of type {dtype}"
    return ValueError(
        f"column {label!r} holds {what}; only numbers, booleans, words, and dates of type datetime64 (polars: Date, Datetime, "
        f"Duration) can be imputed. Remedies: convert it to one of those, kinds={{{label!r}: 'id'}} (leave it as it is), or drop it"
    )
