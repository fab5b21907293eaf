"""Tables of entities and links that ``colspace pairs`` reads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._levels import MOST_LEVELS, indicators_of, lacking, unlike, with_indicators


@dataclass(frozen=True)
class Given:
    """A table by the option it was given with, and how it is to be read: columns of ids, marks of gaps, encoding."""

    what: str
    path: str
    sources: Sequence[Any]
    ids: Sequence[str] = ()
    marks: Sequence[str] = ()
    encoding: str | None = None
    drop: Sequence[str] = ()

    def read(self, text: Sequence[str] = (), *, gaps: bool = True) -> Any:
        """The table; the labels of rows, which Parquet files keep, are its first column."""
        from ..io._tables import read_sources

        frame = read_sources(self.sources, text=text, gaps=gaps, encoding=self.encoding)
        index = frame.index
        bare = type(index).__name__ == "RangeIndex" and index.start == 0 and index.name is None
        frame = frame if bare else frame.reset_index()
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        return frame.drop(columns=[name for pattern in self.drop for name in _matched(pattern, frame)])


def _matched(pattern: str, frame: Any) -> list[str]:
    """Columns that a name, a range or a pattern means; none where the table has no such."""
    from .._blocks import parse_columns

    names = list(frame.columns)
    try:
        return [names[j] for j in parse_columns(pattern, len(names), names, what="--drop")]
    except ValueError:
        return []


def open_tables(
    paths: dict[str, str | None],
    ids: Sequence[str] = (),
    marks: Sequence[str] = (),
    encoding: str | None = None,
    drop: Sequence[str] = (),
) -> dict[str, Given]:
    """The tables that are given; one may be standard input. Columns of ``drop`` are left out of tables of features."""
    from ..io._source import open_sources
    from ..io._tables import check_encoding

    streams = [what for what, path in paths.items() if path == "-"]
    if len(streams) > 1:
        msg = f"{' and '.join(streams)} are both standard input, which can be read once; name a file"
        raise ValueError(msg)
    found = {
        what: Given(what, path, open_sources(path), ids if what != "--links" else (), marks, encoding)
        for what, path in paths.items()
        if path is not None
    }
    check_encoding([source for given in found.values() for source in given.sources], encoding)
    unknown = [name for name in ids if not any(name in g.read() for g in found.values() if g.ids)]
    if unknown:
        tables = ", ".join(g.path for g in found.values() if g.ids)
        msg = f"--id {unknown[0]} is a column of none of {tables}"
        raise ValueError(msg)
    features = {what: given for what, given in found.items() if what in ("--left", "--right", "--predict")}
    frames = [given.read() for given in features.values()] if drop else []
    for pattern in drop:
        if not any(_matched(pattern, frame) for frame in frames):
            tables = ", ".join(given.path for given in features.values())
            msg = f"--drop {pattern} is a column of none of {tables}"
            raise ValueError(msg)
    return found | {what: replace(given, drop=drop) for what, given in features.items()}


def _read_ids(given: Given, count: int) -> Any:
    """A table whose first columns are ids, kept as text."""
    path = given.path
    names = list(given.read().columns)
    if len(names) < count + (given.what != "--links"):
        needs = "two columns of ids" if given.what == "--links" else "a column of ids and columns of features"
        msg = f"{path} has {len(names)} column(s); {given.what} needs {needs}"
        raise ValueError(msg)
    chosen = [name for name in given.ids if name in names]
    if len(chosen) > 1:
        msg = f"{path} has several columns of --id: {', '.join(map(repr, chosen))}; name one"
        raise ValueError(msg)
    chosen = chosen or names[:count]
    frame = given.read(chosen, gaps=False)[[*chosen, *(name for name in names if name not in chosen)]]
    for name in chosen:
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


def entities(given: Given) -> Any:
    """Features with the ids as index."""
    path = given.path
    frame = _read_ids(given, 1)
    frame = frame.set_index(str(frame.columns[0]))
    twice = list(frame.index[frame.index.duplicated()].unique())
    if twice:
        shown = ", ".join(map(repr, twice[:5])) + (f" and {len(twice) - 5} more" if len(twice) > 5 else "")
        msg = f"{len(twice)} id(s) stand twice in {path}, e.g. {shown}; keep one row of each"
        raise ValueError(msg)
    if given.marks:
        from ._marks import with_gaps

        frame = with_gaps(frame, given.marks, list(frame.columns), warn=False)
    return frame


def features(given: Given, like: Any = None) -> tuple[Any, dict[str, list[str]]]:
    """Features as numbers, words as indicators of their levels, whose names are told by column; or those of ``like``."""
    frame = entities(given)
    if like is None:
        found, words = with_indicators(frame)
        return refuse_text(given.path, found), words
    found = indicators_of(frame, list(like.columns))
    missing = [c for c in like.columns if c not in found.columns]
    if missing:
        free = unlike(list(found), list(like.columns))
        shown = dict.fromkeys(lacking(name, free) for name in missing)
        msg = f"{given.path} lacks {len(missing)} column(s) of --left: {', '.join(shown)}"
        raise ValueError(msg)
    return refuse_text(given.path, found[list(like.columns)]), {}


def refuse_text(path: str, frame: Any) -> Any:
    """The features, if all of them are numbers."""
    from ._table import text_columns

    if odd := text_columns(frame):
        msg = (
            f"{path} has {len(odd)} column(s) that are neither numbers, dates nor words of 2 to {MOST_LEVELS} levels: {', '.join(odd.values())}. Leave "
            "them out with --drop, name the column of ids with --id, or give what stands for a gap with --na"
        )
        raise ValueError(msg)
    return frame


def links_of(given: Given) -> tuple[tuple[list[str], list[str]], Any]:
    """Ids of both sides and scores, or None."""
    import pandas as pd

    path = given.path
    frame = _read_ids(given, 2)
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


def similarities(given: Given, like: Any = None) -> Any:
    """Similarities with the ids as index, columns in the order of the rows, or of ``like`` (ids of those of fit)."""
    frame = entities(given)
    wanted = list(frame.index if like is None else like)
    columns = {str(name).strip(): name for name in frame.columns}
    lost = [name for name in wanted if name not in columns]
    if lost:
        msg = (
            f"{given.path} has no column of similarities to {lost[0]!r} ({len(lost)} missing in all); {given.what} has an id in "
            "the first column and then one column for each entity"
        )
        raise ValueError(msg)
    return frame[[columns[name] for name in wanted]].set_axis(wanted, axis=1)
