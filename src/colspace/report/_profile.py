"""What a table holds, column by column, and which command fits it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..io._text import ISO_DATE
from ._skipped import Skipped, skipped

_NINES = (9.0, 99.0, 999.0, 9999.0, 99999.0)
FEW = 20  # distinct values of levels
_LONG = 4.0  # words per cell from which text is free text
_SENTENCE = 8.0  # likewise, where every cell is another: names of few words are ids
_MOST_PAIRS = 2_000  # columns up to which pairs are looked at
_ID = re.compile(r"(?i:(^|[\W_])(id|key|code|nr|no)$|^(row_?names?|index|unnamed: 0)$)|(?<=[a-z])I[dD]$")
_DATE = r"(\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{2}|\d{4}))([ T]\d{1,2}:\d{2}.*)?"
NUMBER = r"[-+(]?\s*[$€£¥]?\s*[-+]?(\d{1,3}([,.' \xa0]\d{3})+([.,]\d+)?|\d+([.,]\d+)?)\s*[%$€£¥]?\)?"


@dataclass(frozen=True)
class Column:
    """One column: its kind in plain words, gaps and distinct values."""

    name: str
    kind: str
    gaps: int
    distinct: int
    example: str


@dataclass(frozen=True)
class Profile:
    """A table at a glance."""

    path: str
    rows: int
    columns: list[Column]
    memory: int
    gap_cells: int
    rows_with_gaps: int
    patterns: list[tuple[int, list[str]]]
    unseen: list[tuple[str, str]]
    same: list[list[str]]
    repeated_rows: int
    codes: list[tuple[str, str]]
    skipped: list[Skipped]

    def of(self, *kinds: str) -> list[str]:
        """Names of the columns of some kinds."""
        return [column.name for column in self.columns if column.kind in kinds]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


# ---------------------------------------------------------------------- columns


def profile(path: str, frame: Any) -> Profile:
    """Look at a DataFrame."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    columns = [column_of(name, frame.iloc[:, j]) for j, name in enumerate(frame.columns)]
    gaps = frame.isna().to_numpy()
    return Profile(
        path,
        len(frame),
        columns,
        int(frame.memory_usage(deep=True).sum()),
        int(gaps.sum()),
        int(gaps.any(axis=1).sum()),
        _patterns(gaps, list(frame.columns)),
        _unseen(gaps, list(frame.columns)),
        _same(frame, columns),
        int(frame.duplicated().sum()),
        [(name, code) for j, name in enumerate(frame.columns) if (code := gap_code(frame.iloc[:, j]))],
        skipped(frame),
    )


def column_of(name: str, values: Any) -> Column:
    """The kind of a column by its cells.

    ======== ============================================================================
    empty    no cell is there
    constant one value
    yes/no   two values
    date     dates and times, also text as in 2024-01-31
    levels   at most 20 distinct whole numbers or categories, each twice on average
    words    other text whose cells recur
    mixed    text most of whose distinct cells are numbers
    number?  text that is numbers but for signs: $1,234.50, 12 %
    date?    text that is dates, but not as in 2024-01-31
    text     cells of four words or more on average, of eight where every cell is another
    id       every cell another, of text or of whole numbers
    infinite numbers some of which are not finite
    whole    whole numbers
    number   other numbers
    ======== ============================================================================

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.report._profile import column_of
    >>> column_of("size", pd.Series(["S", "M", "S", "L", None, "M", "L"])).kind
    'levels'
    >>> column_of("patient", pd.Series(["p1", "p2", "p3"])).kind
    'id'
    """
    seen = values.dropna()
    distinct = int(seen.nunique())
    first = None if seen.empty else seen.iloc[0]
    example = "" if first is None else f"{first:.6g}" if isinstance(first, float) else str(first)
    return Column(name, _kind(name, seen, distinct), int(values.isna().sum()), distinct, example[:40])


def _kind(name: str, seen: Any, distinct: int) -> str:
    from pandas.api import types

    if distinct < 2:
        return "constant" if distinct else "empty"
    if types.is_datetime64_any_dtype(seen) or types.is_timedelta64_dtype(seen):
        return "date"
    if all(isinstance(value, bool | np.bool_) for value in seen.unique()):
        return "yes/no"
    unique = distinct == len(seen)
    if types.is_numeric_dtype(seen):
        if np.isinf(seen.to_numpy(dtype=float)).any():
            return "infinite"
        whole = bool((seen.astype(float) % 1 == 0).all())
        if unique and whole and (_ID.search(name) or _is_counter(seen)):
            return "id"
        if distinct == 2 and len(seen) > 2:
            return "yes/no"
        return (
            "levels"
            if whole and distinct <= FEW and 2 * distinct <= len(seen)
            else "whole"
            if whole
            else "number"
        )
    words = seen.astype(str)
    if odd := _odd_kind(words):
        return odd
    length = float(words.str.count(r"\S+").mean())
    if unique:
        return "text" if length >= _SENTENCE else "id"
    if distinct == 2:
        return "yes/no"
    if distinct <= FEW:
        return "levels"
    return "text" if length >= _LONG else "words"


def _odd_kind(words: Any) -> str | None:
    """Of text that is numbers or dates, all of it or most."""
    import pandas as pd

    if words.str.fullmatch(ISO_DATE).all():
        there = pd.to_datetime(words, errors="coerce", format="ISO8601").notna().all()  # unlike 2024-02-30
        return "date" if there else "date?"
    odd = odd_values(words)
    if not odd:
        return None
    for kind, form in (("date?", _DATE), ("number?", NUMBER)):
        if words.str.fullmatch(form).all():
            return kind
    return "mixed" if 2 * len(odd) < words.nunique() else None


def odd_values(words: Any) -> list[Any]:
    """Distinct cells of text that are not numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.report._profile import odd_values
    >>> odd_values(pd.Series(["4", "6", "rotary", None, "8", "rotary"]))
    ['rotary']
    """
    import pandas as pd

    seen = pd.Series(list(dict.fromkeys(words.dropna())), dtype=object)
    return list(seen[pd.to_numeric(seen, errors="coerce").isna()])


def gap_code(values: Any) -> str:
    """A number that most likely stands for a gap: nines alone, twice or more, the only negative one or far from all others; empty without one.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.report._profile import gap_code
    >>> gap_code(pd.Series([31, 40, -99, 28, -99])), gap_code(pd.Series([96, 97, 98, 99, 99]))
    ('-99', '')
    >>> gap_code(pd.Series([0.4, -1.2, -999, 2.1, -999]))
    '-999'
    """
    from pandas.api import types

    seen = values.dropna()
    if not types.is_numeric_dtype(seen) or types.is_bool_dtype(seen) or seen.nunique() < 3:
        return ""
    numbers = seen.to_numpy(dtype=float)
    low, high = numbers.min(), numbers.max()
    above, below = numbers[numbers > low], numbers[numbers < high]
    alone = above.min() >= 0 or above.min() - low > 2 * np.ptp(above)
    if -low in _NINES and len(numbers) - len(above) > 1 and alone:
        return f"{low:g}"
    far = high - below.max() > 2 * np.ptp(below)
    return f"{high:g}" if high in _NINES and len(numbers) - len(below) > 1 and far else ""


def _is_counter(seen: Any) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ..."""
    numbers = seen.to_numpy(dtype=float)
    return len(numbers) > 2 and numbers[0] in (0.0, 1.0) and bool((np.diff(numbers) == 1.0).all())


def _patterns(gaps: NDArray[np.bool_], names: Sequence[str], most: int = 5) -> list[tuple[int, list[str]]]:
    """The commonest sets of columns that lack their cells together: rows and columns."""
    holes = gaps[gaps.any(axis=1)]
    if not len(holes):
        return []
    packed = np.packbits(holes, axis=1)
    _, first, count = np.unique(packed, axis=0, return_index=True, return_counts=True)
    order = [int(i) for i in np.argsort(-count, kind="stable")[:most]]
    return [(int(count[i]), [names[int(j)] for j in np.flatnonzero(holes[first[i]])]) for i in order]


def _unseen(gaps: NDArray[np.bool_], names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of columns that are hardly ever observed together."""
    from ..copula._pairs import unseen_pairs

    columns = np.flatnonzero(gaps.any(axis=0))
    if not 2 <= len(columns) <= _MOST_PAIRS:
        return []
    there = (~gaps[:, columns]).astype(np.float32)
    found = np.argwhere(np.triu(unseen_pairs((there.T @ there).astype(np.float64), len(gaps))))
    return [(names[int(columns[i])], names[int(columns[j])]) for i, j in found]


def _same(frame: Any, columns: Sequence[Column]) -> list[list[str]]:
    """Groups of columns with the same cells."""
    from pandas.util import hash_pandas_object

    groups: dict[tuple[str, int, int], list[int]] = {}
    for j, column in enumerate(columns):
        if column.kind not in ("empty", "constant"):
            values = frame.iloc[:, j]
            key = int(hash_pandas_object(values, index=False).sum())
            groups.setdefault((str(values.dtype), column.distinct, key), []).append(j)
    found = []
    for group in groups.values():
        first = frame.iloc[:, group[0]]
        equal = [
            j for j in group if frame.iloc[:, j].reset_index(drop=True).equals(first.reset_index(drop=True))
        ]
        if len(equal) > 1:
            found.append([columns[j].name for j in equal])
    return found
