"""Columns that are never there where another has a certain value, as questions that are skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FEW = 20  # values of the column that decides
_CHANCE = 1e-6  # that as many rows of one value would all lack a cell
_MOST = 500  # columns with gaps that are looked at
_ROWS = 2000  # rows, about, in which pairs of columns are looked for
_SHOWN = 5


@dataclass(frozen=True)
class Skipped:
    """Columns without a cell in the rows in which another has some values."""

    columns: list[str]
    by: str
    values: list[str]
    rows: int

    def __str__(self) -> str:
        names, values = (_listed(listed) for listed in (self.columns, self.values))
        one = len(self.columns) == 1
        return (
            f"{names} {'is' if one else 'are'} never there where {self.by!r} is {values} ({self.rows:,} rows)"
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


def skipped(frame: Any) -> list[Skipped]:
    """Columns that lack all cells of so many rows with some values of another that chance would not.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.report._skipped import skipped
    >>> table = pd.DataFrame({"car": ["yes", "no"] * 30, "km": [5.0, None] * 30})
    >>> print(*skipped(table))
    'km' is never there where 'car' is 'no' (30 rows)
    """
    few = frame.iloc[:: max(1, len(frame) // _ROWS)]
    told: dict[int, tuple[int, tuple[int, ...], int]] = {}
    for j, k in _candidates(few):
        never, rows = _never(frame.iloc[:, j], frame.iloc[:, k])
        total = int(rows[never].sum())
        if total > told.get(k, (0, (), 0))[2]:
            told[k] = j, tuple(np.flatnonzero(never).tolist()), total
    return _grouped(frame, told)


def _candidates(frame: Any) -> list[tuple[int, int]]:
    """Pairs of a column of few values and one that is skipped with some."""
    gaps = frame.isna().to_numpy()
    holes = np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0))[:_MOST]
    pairs = []
    for j in range(frame.shape[1] if len(holes) else 0):
        if 2 <= frame.iloc[:, j].nunique() <= _FEW:
            pairs += [(j, int(k)) for k in holes if k != j and _never(frame.iloc[:, j], gaps[:, k])[0].any()]
    return pairs


def _never(by: Any, lacking: Any) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Values with which all cells are gaps, none where chance may have done it, and the rows of each."""
    codes, values = _codes(by)
    gaps = lacking if isinstance(lacking, np.ndarray) else lacking.isna().to_numpy()
    seen = codes >= 0
    rows = np.bincount(codes[seen], minlength=len(values))
    there = np.bincount(codes[seen & ~gaps], minlength=len(values))
    never = there == 0
    share = 1.0 - there.sum() / max(rows.sum(), 1)
    chance = never.all() or not never.any() or rows[never].max() * np.log(share) >= np.log(_CHANCE)
    return never & (not chance), rows


def _codes(values: Any) -> tuple[NDArray[np.intp], Any]:
    """Places of the cells among the distinct values, -1 at gaps."""
    import pandas as pd

    codes, distinct = pd.factorize(values)
    return np.asarray(codes, dtype=np.intp), distinct


def _grouped(frame: Any, told: dict[int, tuple[int, tuple[int, ...], int]]) -> list[Skipped]:
    groups: dict[tuple[int, tuple[int, ...], int], list[str]] = {}
    for k in sorted(told):
        groups.setdefault(told[k], []).append(str(frame.columns[k]))
    found = []
    for (j, places, rows), names in groups.items():
        distinct = _codes(frame.iloc[:, j])[1]
        values = [_plain(distinct[i]) for i in places]
        found.append(Skipped(names, str(frame.columns[j]), values, rows))
    return found


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
