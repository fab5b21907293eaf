"""What columns hold, and the kind of marginal that suits each."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from numbers import Complex, Real
from typing import TYPE_CHECKING, Any, NoReturn

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._containers import absent
from .._validation import ConstantColumnWarning
from ..moments import CAPACITY
from ._marginals import KINDS, LIMITED, STEPPED, Distinct

if TYPE_CHECKING:
    from ._table import Layout

Array = NDArray[np.float64]
Hint = str | None

CONSTANT = "constant"
FEW_LEVELS = 20  # distinct numbers that are still taken for levels
LIMIT_SHARE = 0.1  # of cells at the smallest or largest value, from where on it is a limit
LIMIT_REPEATS = 2  # times the other values, on average, that a limit occurs
LARGEST = 1e302  # of a value
PER_LEVEL, PER_FRACTION, PER_COUNT = (
    2,
    5,
    3,
)  # cells per distinct value, on average, that levels and counts need

NUMBERS = ("float", "integer", "decimal", "bool")
_ARRAYS = {"f": "float", "i": "integer", "u": "integer", "b": "bool", "O": "object", "U": "text", "T": "text"}
_ARRAYS |= {"c": "complex", "M": "date", "m": "date"}
_OBJECTS: dict[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_),
    "integer": (int, np.integer),
    "decimal": (Decimal,),
    "float": (Real, Decimal, np.bool_),
    "complex": (Complex,),
    "date": (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64),
}


def choose_kinds(
    distinct: Sequence[Distinct | tuple[Array, Array]],
    hints: Sequence[Hint],
    given: Any,
    names: Sequence[Hashable],
) -> tuple[str, ...]:
    """The kind of each column: as given, else by the first row of this table that fits.

    =========== ==========================================================================
    binary      booleans, or two distinct values
    ordinal     ordered categories, or at most 20 distinct numbers, each twice on average
                (five times if they are not whole: repeated rows do not make levels of numbers)
    count       whole numbers from zero on, each three times on average
    two-sided   the smallest and the largest value are a tenth of the cells each
    lower       the smallest value is a tenth of the cells
    upper       the largest value is a tenth of the cells
    continuous  everything else
    =========== ==========================================================================

    A limit occurs at least twice as often as the values between do on average.

    A column with one distinct value is "constant" and named in a warning. Counts may be sums of weights. Of columns with more
    distinct values than are kept, numbers are never counts, and levels are refused.

    Parameters
    ----------
    distinct : sequence of (values, counts) or (values, counts, exact)
        Distinct values of each column in order, and how often each occurs.
    hints : sequence of "binary", "ordinal", "integer" or None
        What the types of the columns say.
    given : "auto", a kind, or mapping of column to a kind, to "auto" or to levels in order
        Columns that the mapping does not name are "auto".
    names : sequence
        Names of the columns (their positions where they have none).

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.copula._kinds import choose_kinds
    >>> columns = [(np.arange(30.0), np.ones(30)), (np.array([1.0, 2, 3]), np.array([5, 20, 5]))]
    >>> choose_kinds(columns, [None, None], "auto", ["a", "b"])
    ('continuous', 'ordinal')
    """
    columns = [Distinct(*column) for column in distinct]
    _check_observed(columns, names)
    wanted = _wanted(given, names)
    kinds = []
    for (values, counts, exact), hint, kind, name in zip(columns, hints, wanted, names, strict=True):
        if not exact and (kind in ("levels", *STEPPED) or hint == "ordinal"):
            msg = (
                f"column {name!r} has more than {CAPACITY:,} levels, and of a Dask collection no more are kept. Remedies: "
                "give it the kind 'continuous', or merge levels"
            )
            raise ValueError(msg)
        if len(values) == 1:
            kinds.append(CONSTANT)
        elif kind == "auto":
            kinds.append(_automatic(values, counts, hint, exact))
        elif kind == "levels":
            kinds.append("binary" if len(values) == 2 else "ordinal")
        else:
            _check_fit(values, counts, hint, kind, name)
            kinds.append(kind)
    return tuple(kinds)


def orders_of(given: Any) -> dict[Any, Any]:
    """The columns for which ``kinds`` gives levels in order."""
    if not isinstance(given, Mapping):
        return {}
    return {key: kind for key, kind in given.items() if isinstance(kind, list | tuple | np.ndarray)}


def check_seen(values: Any, seen: Sequence[Array], kinds: Sequence[str], layout: Layout) -> None:
    """Refuse values of ordinal and binary columns that are not among those ``seen`` in fit."""
    table = values.tocsc() if sparse.issparse(values) else values
    for j, kind in enumerate(kinds):
        if kind not in ("ordinal", "binary"):
            continue
        cells = table.data[table.indptr[j] : table.indptr[j + 1]] if sparse.issparse(table) else table[:, j]
        strange = cells[~np.isnan(cells) & ~np.isin(cells, seen[j])]
        if len(strange):
            levels = layout.codecs[j].levels
            known = [levels[int(x)] for x in seen[j]] if levels else seen[j].tolist()
            value = levels[int(strange[0])] if levels else float(strange[0])
            more = "" if levels else ", or give the column the kind 'count' or 'continuous'"
            msg = (
                f"column {layout.labels[j]!r} holds {value!r}, which fit did not see; it is {kind} with the levels "
                f"{shown(known, 10)}. Remedies: blank the value, fit on rows that hold it{more}"
            )
            raise ValueError(msg)


def _automatic(values: Array, counts: Array, hint: Hint, exact: bool) -> str:
    total, most = counts.sum(), len(values)
    if most == 2:
        return "binary"
    whole = bool(np.all(values == np.rint(values)))
    if hint == "ordinal" or (most <= FEW_LEVELS and total >= (PER_LEVEL if whole else PER_FRACTION) * most):
        return "ordinal"
    if exact and whole and values[0] >= 0 and total >= PER_COUNT * most:
        return "count"
    least = max(LIMIT_SHARE * total, LIMIT_REPEATS * float(counts[1:-1].mean()))
    lower, upper = (counts[end] >= least and counts[end] > 1 for end in (0, -1))
    return "two-sided" if lower and upper else "lower" if lower else "upper" if upper else "continuous"


def _check_observed(distinct: Sequence[Distinct], names: Sequence[Hashable]) -> None:
    empty = [name for name, (values, *_) in zip(names, distinct, strict=True) if not len(values)]
    if empty:
        msg = (
            f"{len(empty)} column(s) without an observed value: {shown(empty)}; nothing can be learned about them. "
            "Drop them, or give rows that hold values"
        )
        raise ValueError(msg)
    for name, (values, *_) in zip(names, distinct, strict=True):
        if max(-values[0], values[-1]) > LARGEST:
            msg = (
                f"column {name!r} holds {max(values[0], values[-1], key=abs):g}, and beyond {LARGEST:g} differences overflow; "
                "give it in another unit"
            )
            raise ValueError(msg)
    flat = [
        (name, column.counts[0])
        for name, column in zip(names, distinct, strict=True)
        if len(column.values) == 1
    ]
    single, same = [name for name, count in flat if count <= 1], [name for name, count in flat if count > 1]
    for columns, what in ((single, "with one observed value"), (same, "constant")):
        if columns:
            warnings.warn(
                f"{len(columns)} column(s) {what} are left out of the model and filled with their value: "
                f"{shown(columns)}. Drop them to silence this",
                ConstantColumnWarning,
                stacklevel=4,
            )


def _wanted(given: Any, names: Sequence[Hashable]) -> list[str]:
    if isinstance(given, str):
        return [_check_kind(given, None)] * len(names)
    if not isinstance(given, Mapping):
        msg = f"kinds={given!r} must be 'auto', one of {', '.join(KINDS)}, or a mapping of columns to those"
        raise TypeError(msg)
    out = ["auto"] * len(names)
    orders = orders_of(given)
    keys: dict[int, Any] = {}
    for key, kind in given.items():
        j = column_index(key, names, len(names))
        if j in keys:
            msg = f"kinds names one column twice, as {keys[j]!r} and as {key!r}; name it once"
            raise ValueError(msg)
        keys[j] = key
        out[j] = "levels" if key in orders else _check_kind(kind, key)
    return out


def _check_kind(kind: Any, key: Any) -> str:
    if isinstance(kind, str) and kind in ("auto", *KINDS):
        return kind
    close = get_close_matches(str(kind), KINDS, n=1)
    where = "kinds" if key is None else f"kinds[{key!r}]"
    hint = f" Did you mean {close[0]!r}?" if close else ""
    msg = f"{where}={kind!r} is not a kind; the kinds are auto, {', '.join(KINDS)}, or levels in order as a list.{hint}"
    raise ValueError(msg)


def _check_fit(values: Array, counts: Array, hint: Hint, kind: str, name: Hashable) -> None:
    """Whether a column can be of the kind given for it."""
    why, remedy = "", ""
    if hint == "ordinal" and kind not in ("ordinal", "binary"):
        why, remedy = "its values are categories, not numbers", "'ordinal'"
    elif hint == "binary" and kind not in STEPPED:
        why, remedy = "its values are booleans", "'binary'"
    elif kind == "binary" and len(values) > 2:
        why, remedy = f"it has {len(values)} distinct values ({shown(values.tolist(), 3)})", "'ordinal'"
    elif kind == "count" and (values[0] < 0 or np.any(values != np.rint(values))):
        odd = values[(values < 0) | (values != np.rint(values))][0]
        why, remedy = (
            f"it holds {float(odd)}, and counts are whole numbers from zero on",
            "'ordinal' or 'continuous'",
        )
    elif kind in LIMITED:
        ends = {"lower": [0], "upper": [-1], "two-sided": [0, -1]}[kind]
        once = [float(values[end]) for end in ends if counts[end] < 2]
        if once:
            why = f"its {'smallest' if once[0] == values[0] else 'largest'} value {once[0]} occurs once, and a limit repeats"
        elif len(values) - len(ends) < 2:
            why = f"it has {len(values)} distinct values, and beside the limits at least two are needed"
        remedy = "'continuous'" if once else "'ordinal'"
    if why:
        msg = f"column {name!r} cannot be {kind!r}: {why}. Give it the kind {remedy} or 'auto'"
        raise ValueError(msg)


# ---------------------------------------------------------------------- columns


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
    """How the values of a column become floats: ``levels`` as their position in the order, others as numbers."""

    values: str
    levels: tuple[Any, ...] = ()

    @property
    def hint(self) -> str | None:
        """What the type of the column says about its kind."""
        return {"bool": "binary", "levels": "ordinal", "integer": "integer"}.get(self.values)


def codec_of(column: Any, label: Hashable, order: Sequence[Any] | None) -> Codec:
    """The codec of a column, by its type or by the order given for its levels."""
    sort = sort_of(column, label)
    if order is not None:
        levels = tuple(map(plain, order))
        if len(levels) < 2 or len(set(levels)) < len(levels):
            msg = f"kinds gives column {label!r} the levels {list(levels)}; give at least two, each once, in order"
            raise ValueError(msg)
        if sort in (*NUMBERS, "text", "category", "unordered"):
            return Codec("levels", levels)
    if sort in NUMBERS:
        return Codec(sort)
    if sort == "category":
        levels = tuple(map(plain, column.cat.get_categories().to_list()))
        if levels == ("__UNKNOWN_CATEGORIES__",):
            msg = f"Dask does not know the categories of column {label!r} yet; call X.categorize() first"
            raise ValueError(msg)
        return Codec("levels", levels)
    raise unfit(column, sort, label)


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
    return next(
        (sort for each, sort in named.items() if kind == each), "date" if kind.is_temporal() else "other"
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
    if sort in ("text", "unordered"):
        what = "text" if sort == "text" else "categories"
        values = first_seen(column)
        found = f" ({shown(values, 3)})" if values else ""
        return ValueError(
            f"column {label!r} holds {what} without an order{found}. Remedies: make it an "
            f"ordered categorical (polars: Enum), give kinds={{{label!r}: [levels in order]}}, or drop it"
        )
    dtype = (
        column.dtype if isinstance(column, np.ndarray) else getattr(column.to_native(), "dtype", column.dtype)
    )
    what = "dates or durations" if sort == "date" else f"values of type {dtype}"
    return ValueError(
        f"column {label!r} holds {what}; only numbers, booleans and ordered levels can be imputed. Remedies: convert "
        "it to dense numbers (such as days since a start), or drop it"
    )
