"""Values that stand for gaps."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from datetime import date
from typing import Any


def marks_told(marks: Sequence[str]) -> dict[str, list[str]]:
    """What a saved model says of the values that stood for gaps.

    Examples
    --------
    >>> from colspace.cli._marks import marks_told
    >>> marks_told(("-99",)), marks_told(())
    ({'gap_marks': ['-99']}, {})
    """
    return {"gap_marks": list(marks)} if marks else {}


def with_gaps(frame: Any, marks: Sequence[str], columns: Sequence[str], *, warn: bool = True) -> Any:
    """Cells that are one of ``marks`` as gaps; text that is all numbers then becomes numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.cli._marks import with_gaps
    >>> with_gaps(pd.DataFrame({"a": ["1", "?", "3"]}), ["?"], ["a"])["a"].tolist()
    [1.0, nan, 3.0]
    """
    import pandas as pd

    values, changed = masked(frame, marks, columns, warn=warn)
    for name in changed:
        column = values[name]
        if pd.api.types.is_numeric_dtype(column) or not column.notna().any():
            continue
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.isna().sum() == column.isna().sum():
            values[name] = numbers
    return values


def masked(
    frame: Any, marks: Sequence[str], columns: Sequence[str], *, warn: bool = True
) -> tuple[Any, list[str]]:
    """The frame with gaps where a cell is a mark, and the columns that changed; ``warn`` of a mark that no cell is."""
    values, changed = frame.copy(), []
    for mark in marks:
        found = 0
        for name in columns:
            gone = is_mark(frame[name], mark)
            found += int(gone.sum())
            if gone.any():
                values[name] = values[name].mask(gone)
                changed.append(name)
        if warn and not found:
            warnings.warn(f"--na {mark} is in no cell of the table", stacklevel=3)
    return values, list(dict.fromkeys(changed))


def is_mark(column: Any, mark: str) -> Any:
    """Which cells are a mark, as they are written, as a number or as a date."""
    import pandas as pd

    from ..io._text import ISO_DATE

    number = pd.to_numeric(pd.Series([mark]), errors="coerce").iloc[0]
    if isinstance(column.dtype, pd.ArrowDtype):  # dates without times
        column = column.astype(object)
    dtype = column.dtype
    if dtype.kind == "M" and re.fullmatch(ISO_DATE, mark):
        return column.dt.tz_localize(None) == pd.to_datetime(mark, format="ISO8601", errors="coerce")
    if pd.api.types.is_bool_dtype(dtype) or dtype.kind in "Mm":
        return pd.Series(False, index=column.index)
    if pd.api.types.is_numeric_dtype(dtype):
        return (column == number).fillna(False).astype(bool)
    text = column.astype(object)
    same = text.map(lambda cell: isinstance(cell, str | date) and str(cell).strip() == mark).astype(bool)
    return same if pd.isna(number) else same | (pd.to_numeric(text, errors="coerce") == number).fillna(False)
