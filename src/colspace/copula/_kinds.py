"""What columns hold, and the kind of marginal that suits each."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._validation import ConstantColumnWarning
from ..moments import CAPACITY
from ._codecs import ID, NOMINAL, column_index, shown
from ._dates import dates_shown
from ._marginals import KINDS, LIMITED, STEPPED, Distinct

if TYPE_CHECKING:
    from ._table import Layout

Array = NDArray[np.float64]
Hint = str | None

CONSTANT = "constant"
GIVEN = (*KINDS, NOMINAL, ID)  # kinds that can be asked for
FEW_LEVELS = 20  # distinct numbers that are still taken for levels
LIMIT_SHARE = 0.1  # of cells at the smallest or largest value, from where on it is a limit
LIMIT_REPEATS = 2  # times the other values, on average, that a limit occurs
LARGEST = 1e302  # of a value
PER_LEVEL, PER_FRACTION, PER_COUNT = (
    2,
    5,
    3,
)  # cells per distinct value, on average, that levels and counts need


def choose_kinds(
    distinct: Sequence[Distinct | tuple[Array, Array]],
    hints: Sequence[Hint],
    given: Any,
    names: Sequence[Hashable],
) -> tuple[str, ...]:
    """The kind of each column: as given, else by the first row of this table that fits.

    =========== ==========================================================================
    id          text with fewer than two cells a distinct value, on average, and categories that
                are all different: names, ids and free text, which are left out of the model
    binary      booleans, or two distinct values
    nominal     other text, and categories without an order
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
    hints : sequence of "binary", "ordinal", "nominal", "id", "integer", "date" or None
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
    used = [j for j, hint in enumerate(hints) if hint != ID]
    if not used:
        msg = f"all {len(columns)} columns are ids or free text ({shown(names)}); give kinds to those that are not"
        raise ValueError(msg)
    _check_observed([columns[j] for j in used], [names[j] for j in used])
    wanted = _wanted(given, names)
    kinds = []
    for (values, counts, exact), hint, kind, name in zip(columns, hints, wanted, names, strict=True):
        if hint == ID:
            kinds.append(ID)
            continue
        if not exact and (kind in ("levels", NOMINAL, *STEPPED) or hint in ("ordinal", NOMINAL)):
            msg = (
                f"column {name!r} has more than {CAPACITY:,} levels, and of a Dask collection no more are kept. Remedies: "
                "give it the kind 'continuous', or merge levels"
            )
            raise ValueError(msg)
        if len(values) == 1:
            kinds.append(CONSTANT)
        elif kind == "auto":
            kinds.append(_automatic(values, counts, hint, exact))
        elif kind in ("levels", NOMINAL):
            kinds.append("binary" if len(values) == 2 else "ordinal" if kind == "levels" else NOMINAL)
        else:
            _check_fit(values, counts, hint, kind, name)
            kinds.append(kind)
    return tuple(kinds)


def orders_of(given: Any) -> dict[Any, Any]:
    """The columns for which ``kinds`` gives levels in order."""
    if not isinstance(given, Mapping):
        return {}
    return {key: kind for key, kind in given.items() if isinstance(kind, list | tuple | np.ndarray)}


def forced_kinds(given: Any, names: Sequence[Hashable] | None, p: int) -> dict[int, str]:
    """The kind of every column for which ``kinds`` names one."""
    if isinstance(given, str):
        return {} if given == "auto" else dict.fromkeys(range(p), given)
    pairs = given.items() if isinstance(given, Mapping) else ()
    return {
        column_index(key, names, p): kind for key, kind in pairs if isinstance(kind, str) and kind != "auto"
    }


def seen_values(distinct: Sequence[Distinct], kinds: Sequence[str]) -> tuple[Array, ...]:
    """The values that `as_seen` knows; none of numbers, which may have any."""
    return tuple(
        column.values if kind in ("ordinal", "binary", NOMINAL, CONSTANT) else column.values[:0].copy()
        for column, kind in zip(distinct, kinds, strict=True)
    )


class UnseenLevelWarning(UserWarning):
    """Levels in order that fit has not seen count as the nearest that it has."""


def as_seen(values: Any, seen: Sequence[Array], kinds: Sequence[str], layout: Layout) -> Any:
    """The table with levels as fit has ``seen`` them: of ordinal columns the nearest; in others, or farther off than they are apart, refused."""
    table = values.tocsc() if sparse.issparse(values) else values
    moved: dict[int, tuple[float, float]] = {}
    for j, kind in enumerate(kinds):
        if kind not in ("ordinal", "binary", NOMINAL):
            continue
        cells = table.data[table.indptr[j] : table.indptr[j + 1]] if sparse.issparse(table) else table[:, j]
        strange = cells[~np.isnan(cells) & ~np.isin(cells, seen[j])]
        if not len(strange):
            continue
        least, most = seen[j][0], seen[j][-1]
        odd = (
            strange[(strange < 2 * least - most) | (strange > 2 * most - least)]
            if kind == "ordinal"
            else strange
        )
        if len(odd):
            raise _strange(float(odd[0]), seen[j], kind, j, layout)
        if not moved:
            table = table.copy()
        known = table.data[table.indptr[j] : table.indptr[j + 1]] if sparse.issparse(table) else table[:, j]
        there = ~np.isnan(known)
        known[there] = nearest(known[there], seen[j])
        moved[j] = float(strange[0]), float(nearest(strange[:1], seen[j])[0])
    if not moved:
        return values
    j, pair = next(iter(moved.items()))
    value, taken = _as_known(pair, j, layout)
    more = f", and {len(moved) - 1} more column(s) likewise" if len(moved) > 1 else ""
    warnings.warn(
        f"column {layout.labels[j]!r} holds {value!r}, which fit did not see, and which counts as the nearest level that it saw, "
        f"{taken!r}{more}. Remedies: fit on rows that hold it, or give the column the kind 'count' or 'continuous'",
        UnseenLevelWarning,
        stacklevel=5,
    )
    return table.tocsr() if sparse.issparse(table) else table


def nearest(x: Array, levels: Array) -> Array:
    """The nearest of sorted levels, of two the lower."""
    return levels[np.searchsorted(0.5 * levels[1:] + 0.5 * levels[:-1], x)]


def _as_known(values: Sequence[float], j: int, layout: Layout) -> list[Any]:
    """Levels as people know them."""
    levels = layout.codecs[j].levels
    if levels:
        return [levels[int(x)] for x in values]
    return dates_shown(list(values)) if layout.codecs[j].values == "date" else list(values)


def _strange(value: float, seen: Array, kind: str, j: int, layout: Layout) -> ValueError:
    more = "" if layout.codecs[j].levels else ", or give the column the kind 'count' or 'continuous'"
    return ValueError(
        f"column {layout.labels[j]!r} holds {_as_known([value], j, layout)[0]!r}, which fit did not see; it is {kind} with the levels "
        f"{shown(_as_known(seen.tolist(), j, layout), 10)}. Remedies: blank the value, fit on rows that hold it{more}"
    )


def _automatic(values: Array, counts: Array, hint: Hint, exact: bool) -> str:
    total, most = counts.sum(), len(values)
    if most == 2:
        return "binary"
    if hint == NOMINAL:
        return NOMINAL
    whole = bool(np.all(values == np.rint(values)))
    if hint == "ordinal" or (most <= FEW_LEVELS and total >= (PER_LEVEL if whole else PER_FRACTION) * most):
        return "ordinal"
    if exact and whole and hint != "date" and values[0] >= 0 and total >= PER_COUNT * most:
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
        return [check_kind(given, None)] * len(names)
    if not isinstance(given, Mapping):
        msg = f"kinds={given!r} must be 'auto', one of {', '.join(GIVEN)}, or a mapping of columns to those"
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
        out[j] = "levels" if key in orders else check_kind(kind, key)
    return out


def check_kind(kind: Any, key: Any) -> str:
    """The kind, or "auto", if there is such; ``key`` is the column's name."""
    if isinstance(kind, str) and kind in ("auto", *GIVEN):
        return kind
    close = get_close_matches(str(kind), GIVEN, n=1)
    where = "kinds" if key is None else f"kinds[{key!r}]"
    hint = f" Did you mean {close[0]!r}?" if close else ""
    msg = f"{where}={kind!r} is not a kind; the kinds are auto, {', '.join(GIVEN)}, or levels in order as a list.{hint}"
    raise ValueError(msg)


def _check_fit(values: Array, counts: Array, hint: Hint, kind: str, name: Hashable) -> None:
    """Whether a column can be of the kind given for it."""
    why, remedy = "", ""
    if hint == "ordinal" and kind not in ("ordinal", "binary"):
        why, remedy = "its values are categories, not numbers", "'ordinal'"
    elif hint == NOMINAL and not (kind == "binary" and len(values) == 2):
        why, remedy = "its values are words without an order", "'nominal', levels in order as a list,"
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
