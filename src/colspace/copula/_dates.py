"""Dates and durations as days, and back in the type that they came in."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DAY = 86_400_000_000  # microseconds
_STEPS = (DAY, DAY // 24, 60_000_000, 1_000_000, 1_000)  # day, hour, minute, second, millisecond


def days_of(column: Any) -> Array:
    """Days since 1970-01-01, or days of a duration; NaN where missing."""
    if isinstance(column, np.ndarray):
        gone = np.isnat(column)
        whole = column.astype("M8[us]" if column.dtype.kind == "M" else "m8[us]").astype(np.int64)
        return np.where(gone, np.nan, whole / DAY)
    lasts = column.dtype == nw.Duration
    counted = column.dt.total_microseconds() if lasts else column.dt.timestamp("us")
    return np.asarray(counted.cast(nw.Float64).to_numpy(), dtype=np.float64) / DAY


def step_of(days: Array) -> int:
    """The longest of day, hour, minute, second, millisecond and microsecond of which all dates are whole numbers."""
    counted = np.rint(days[~np.isnan(days)] * DAY).astype(np.int64)
    return next((step for step in _STEPS if len(counted) and not (counted % step).any()), 1)


def microseconds(days: Array, step: int) -> NDArray[np.int64]:
    """Days as microseconds, to the nearest whole ``step``."""
    return np.rint(days * (DAY / step)).astype(np.int64) * step


def dates_like(column: Any, days: Array, step: int) -> Any:
    """Days as cells of the type of a column, as far as it reaches: an array, a list, or a series of polars."""
    if isinstance(column, np.ndarray):
        kind = column.dtype.kind
        unit = np.datetime_data(column.dtype)[0]
        counted = microseconds(np.clip(days, *_reach(unit, kind == "m")), step)
        return counted.astype(f"{kind}8[us]").astype(column.dtype)
    dtype = column.dtype
    lasts = dtype == nw.Duration
    counted = microseconds(np.clip(days, *_reach(getattr(dtype, "time_unit", "us"), lasts)), step)
    cells = counted.astype("m8[us]" if lasts else "M8[us]")
    found = (cells.astype("M8[D]") if dtype == nw.Date else cells).tolist()
    zone = getattr(dtype, "time_zone", None)
    if zone is not None:
        found = [each.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo(zone)) for each in found]
    if column.implementation.is_polars():  # which takes a list for numbers of its own unit
        return nw.new_series(column.name, found, dtype, backend=nw.get_native_namespace(column))
    return found


def _reach(unit: str, lasts: bool) -> tuple[float, float]:
    """First and last day that a type of this unit holds: two centuries about 1970 in nanoseconds, years 1 to 9999 else."""
    if unit in ("ns", "ps", "fs", "as"):
        return -1e5, 1e5
    return (-1e8, 1e8) if lasts else (-719_000.0, 2_932_000.0)


def dates_shown(days: Sequence[Any]) -> list[str]:
    """Days as text."""
    return [str(each) for each in microseconds(np.asarray(days, dtype=np.float64), 1).astype("M8[us]")]


def days_of_gaps(gaps: tuple[Any, ...]) -> list[float]:
    """Those values for gaps that are dates or durations."""
    kinds = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)
    found = [
        np.array([gap], dtype="m8[us]" if _lasts(gap) else "M8[us]") for gap in gaps if isinstance(gap, kinds)
    ]
    return [float(days_of(each)[0]) for each in found]


def _lasts(gap: Any) -> bool:
    return isinstance(gap, datetime.timedelta | np.timedelta64)
