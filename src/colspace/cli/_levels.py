"""Columns of words as indicators of their levels, those of dates as days: their names say all that it takes to make them again."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from typing import Any

from ..io._text import ISO_DATE

#: Levels that a column of words may have; beyond, it is names or text.
MOST_LEVELS = 20
#: What stands for the level in the name of a column of dates.
DAYS = "days since 1970"


def levels_of(column: Any) -> list[str]:
    """Levels of a column of words: two to 20, in two rows each on average, none of them a number; else nothing.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.cli._levels import levels_of
    >>> levels_of(pd.Series(["no", "yes", "no", "no", None]))
    ['no', 'yes']
    >>> levels_of(pd.Series(["1.5", "none", "2.5", "2.5"])), levels_of(pd.Series(["p1", "p2", "p3"]))
    ([], [])
    """
    import pandas as pd

    column = pd.Series(column)
    if pd.api.types.is_numeric_dtype(column.dtype):
        return []
    counts = column.value_counts()
    levels = list(counts.index[counts > 0])  # a category may have none
    if not 2 <= len(levels) <= min(MOST_LEVELS, int(counts.sum()) // 2):
        return []
    if not all(isinstance(level, str) for level in levels):
        return []
    return sorted(levels) if pd.to_numeric(pd.Series(levels), errors="coerce").isna().all() else []


def days_of(column: Any) -> Any:
    """Dates and times, also text as in 2024-01-31, as days since 1970; None where other cells, or none, are there.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.cli._levels import days_of
    >>> days_of(pd.Series(["1970-01-02", None, "1970-01-03 12:00"])).tolist()
    [1.0, nan, 2.5]
    >>> days_of(pd.Series(["1970-01-02", "soon"])) is days_of(pd.Series([3.0])) is None
    True
    """
    import pandas as pd

    column = pd.Series(column)
    if pd.api.types.is_numeric_dtype(column.dtype) or (seen := column.dropna()).empty:
        return None
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        cells = seen.unique().tolist()
        if not all(isinstance(cell, str | date) and re.fullmatch(ISO_DATE, str(cell)) for cell in cells):
            return None
    dates = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=True)
    if dates.isna().sum() > column.isna().sum():
        return None  # as 2024-02-30
    return (dates - pd.Timestamp("1970-01-01", tz="UTC")).dt.total_seconds() / 86400  # also before 1677


def with_indicators(frame: Any) -> tuple[Any, dict[str, list[str]]]:
    """The table with ``name=level`` for every level of a column of words (of two, the second), and their names by column.

    A column of dates becomes ``name=days since 1970``.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.cli._levels import with_indicators
    >>> table, words = with_indicators(pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "us": ["no", "yes", "no", "yes"]}))
    >>> table["us=yes"].tolist(), words
    ([0.0, 1.0, 0.0, 1.0], {'us': ['us=yes']})
    """
    import pandas as pd

    parts: dict[str, Any] = {}
    words: dict[str, list[str]] = {}
    for name in frame.columns:
        levels = [DAYS] if days_of(frame[name]) is not None else levels_of(frame[name])
        made = {f"{name}={level}": level for level in (levels[1:] if len(levels) == 2 else levels)}
        if not made or any(new in frame.columns for new in made):
            parts[name] = frame[name]
            continue
        parts |= {new: _indicator(frame[name], level) for new, level in made.items()}
        words[name] = list(made)
    return (pd.DataFrame(parts, index=frame.index), words) if words else (frame, {})


def words_note(words: Mapping[str, Sequence[str]]) -> str:
    """What is done to columns of words and dates, empty where there are none.

    Examples
    --------
    >>> from colspace.cli._levels import words_note
    >>> words_note({"us": ["us=yes"], "town": ["town=A", "town=B", "town=C"]})
    "columns of words are indicators of their levels: 'us' (us=yes), 'town' (3 levels)"
    >>> words_note({"seen": ["seen=days since 1970"]})
    "columns of dates are days since 1970: 'seen'"
    """
    dates = dates_among(words)
    levels = [
        f"{name!r} ({own[0] if len(own) == 1 else f'{len(own)} levels'})"
        for name, own in words.items()
        if name not in dates
    ]
    notes = {
        "columns of words are indicators of their levels": levels,
        f"columns of dates are {DAYS}": list(map(repr, dates)),
    }
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in notes.items() if names)


def dates_among(words: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns of dates among those that ``with_indicators`` has made numbers of."""
    return [name for name, own in words.items() if list(own) == [f"{name}={DAYS}"]]


def indicators_among(wanted: Sequence[str], there: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Those of the wanted columns that are not there but indicate a level of one that is: its name and the level.

    Examples
    --------
    >>> from colspace.cli._levels import indicators_among
    >>> indicators_among(["a", "us=yes", "b=1"], ["a", "us"])
    {'us=yes': ('us', 'yes')}
    """
    kept, found = set(there), {}
    for name in wanted:
        places = [i for i, c in enumerate(name) if c == "=" and name[:i] in kept]
        if name not in kept and places:
            i = next((i for i in places if name[i + 1 :] == DAYS), places[0])
            found[name] = name[:i], name[i + 1 :]
    return found


def indicators_of(frame: Any, wanted: Sequence[str]) -> Any:
    """The table with those of the wanted columns that indicate levels of its columns of words."""
    import pandas as pd

    found = indicators_among(wanted, list(frame.columns))
    made = {
        name: _indicator(frame[column], level)
        for name, (column, level) in found.items()
        if frame[column].isna().all() or not pd.api.types.is_numeric_dtype(frame[column].dtype)
    }
    for column in dict.fromkeys(found[name][0] for name in made):
        known = {level for name, (own, level) in found.items() if own == column}
        if known == {DAYS}:
            continue
        new = [str(v) for v in frame[column].dropna().unique() if v not in known]
        if new and len(known) > 1:
            warnings.warn(
                f"{column!r} has {len(new)} level(s) that the fit has not seen, of which all indicators are zero: {', '.join(new[:5])}",
                stacklevel=2,
            )
        if len(new) > len(known) == 1:
            warnings.warn(
                f"{column!r} has {len(new)} levels beside {next(iter(known))!r}, where the fit has seen one; all are taken as that one: "
                f"{', '.join(new[:5])}",
                stacklevel=2,
            )
    return frame if not made else pd.concat([frame, pd.DataFrame(made, index=frame.index)], axis=1)


def lacking(name: str, free: Sequence[str]) -> str:
    """A column that a table lacks, with the nearest of its columns that are none of the fit; of an indicator the column of words or dates.

    Examples
    --------
    >>> from colspace.cli._levels import lacking
    >>> lacking("outcome", ["outcom"]), lacking("town=Oslo", []), lacking("seen=days since 1970", [])
    ("'outcome' (is it 'outcom'?)", "'town' or its indicators", "'seen' as dates")
    """
    own, is_indicator, level = _taken_apart(name)
    near = get_close_matches(own, free, 1)
    made = "as dates" if level == DAYS else "or its indicators"
    shown = f"{own!r} {made}" if is_indicator and own else repr(name)
    return shown + (f" (is it {near[0]!r}?)" if near else "")


def unlike(there: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Columns that are there and are none of those that are wanted, nor words behind them."""
    return sorted({*there} - {*wanted} - {_taken_apart(name)[0] for name in wanted})


def _taken_apart(name: str) -> tuple[str, str, str]:
    """The column of words or dates behind an indicator, the sign between and the level."""
    return name.rpartition("=") if name.endswith(f"={DAYS}") else name.partition("=")


def _indicator(column: Any, level: str) -> Any:
    import pandas as pd

    if level != DAYS:
        return (column == level).astype(float).where(column.notna())
    days = days_of(column)
    if days is None and column.notna().any():
        odd = next(cell for cell in column.dropna() if days_of([cell]) is None)
        msg = f"{column.name!r} held dates in the fit, and now {str(odd)!r}; write all as in 2024-01-31"
        raise ValueError(msg)
    return pd.Series(float("nan"), column.index) if days is None else days
