"""Tables of entities and links that ``colspace pairs`` reads."""

from __future__ import annotations

import warnings
from typing import Any


def open_tables(paths: dict[str, str | None]) -> dict[str, Any]:
    """Sources of the tables that are given."""
    from ..io._source import open_source

    for what, path in paths.items():
        if path == "-":
            msg = f"{what} is read from a file or a pipe, not from standard input; name one"
            raise ValueError(msg)
    return {what: open_source(path) for what, path in paths.items() if path is not None}


def _read_ids(source: Any, what: str, count: int, encoding: str | None) -> Any:
    """A table whose first columns are ids, kept as text."""
    from ..io._tables import read_source

    path = source.path
    names = [str(c) for c in _flat(read_source(source, encoding=encoding)).columns]
    if len(names) < count + (what != "--links"):
        needs = "two columns of ids" if what == "--links" else "a column of ids and columns of features"
        msg = f"{path} has {len(names)} column(s); {what} needs {needs}"
        raise ValueError(msg)
    frame = _flat(read_source(source, text=names[:count], gaps=False, encoding=encoding))
    for name in names[:count]:
        ids = frame[name].astype(str).str.strip()
        gaps = int((frame[name].isna() | (ids == "")).sum())
        if gaps:
            msg = f"{gaps} id(s) are missing in column {name!r} of {path}; give every row one"
            raise ValueError(msg)
        padded = int((ids != frame[name].astype(str)).sum())
        if padded:
            warnings.warn(
                f"{path}: spaces around {padded} id(s) of {name!r} are left out", UserWarning, stacklevel=2
            )
        frame[name] = ids
    return frame


def _flat(frame: Any) -> Any:
    """Labels of rows, which Parquet files keep, as the first column."""
    index = frame.index
    plain = type(index).__name__ == "RangeIndex" and index.start == 0 and index.name is None
    return frame if plain else frame.reset_index()


def entities(source: Any, what: str, encoding: str | None, like: Any = None) -> Any:
    """Features with the ids as index; columns in the order of ``like``."""
    path = source.path
    frame = _read_ids(source, what, 1, encoding)
    frame = frame.set_index(str(frame.columns[0]))
    twice = list(frame.index[frame.index.duplicated()].unique())
    if twice:
        msg = f"{len(twice)} id(s) stand twice in {path}, e.g. {twice[0]!r}; keep one row of each"
        raise ValueError(msg)
    frame.columns = [str(c) for c in frame.columns]
    if like is None:
        return frame
    missing = [c for c in like.columns if c not in frame.columns]
    if missing:
        msg = f"{path} has no column {missing[0]!r}, which --left has ({len(missing)} missing in all)"
        raise ValueError(msg)
    return frame[list(like.columns)]


def links_of(source: Any, encoding: str | None) -> tuple[tuple[list[str], list[str]], Any]:
    """Ids of both sides and scores, or None."""
    import pandas as pd

    path = source.path
    frame = _read_ids(source, "--links", 2, encoding)
    if frame.shape[1] > 3:
        msg = f"{path} has {frame.shape[1]} columns; links have a left id, a right id and at most one score"
        raise ValueError(msg)
    scores = None
    if frame.shape[1] == 3:
        column = frame.iloc[:, 2]
        if not pd.api.types.is_numeric_dtype(column):
            msg = f"scores in column {frame.columns[2]!r} of {path} are not numbers, e.g. {str(column.iloc[0])!r}"
            raise ValueError(msg)
        scores = column.to_numpy(dtype=float)
    return (list(frame.iloc[:, 0]), list(frame.iloc[:, 1])), scores


def similarities(source: Any, what: str, encoding: str | None, like: Any = None) -> Any:
    """Similarities with the ids as index, columns in the order of the rows, or of ``like`` (ids of those of fit)."""
    frame = entities(source, what, encoding)
    wanted = list(frame.index if like is None else like)
    columns = {str(name).strip(): name for name in frame.columns}
    lost = [name for name in wanted if name not in columns]
    if lost:
        msg = (
            f"{source.path} has no column of similarities to {lost[0]!r} ({len(lost)} missing in all); {what} has an id in the "
            "first column and then one column for each entity"
        )
        raise ValueError(msg)
    return frame[[columns[name] for name in wanted]].set_axis(wanted, axis=1)
