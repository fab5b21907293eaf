"""What a table holds, column by column, and which command fits it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 20  # distinct values of levels
_LONG = 4.0  # words per cell from which text is free text
_MOST_PAIRS = 2_000  # columns up to which pairs are looked at
_NAMES = ("y", "target", "label", "labels", "class", "outcome", "response")
_PREFIX = re.compile(r"^(.+?)[_.:-]")


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

    def of(self, *kinds: str) -> list[str]:
        """Names of the columns of some kinds."""
        return [column.name for column in self.columns if column.kind in kinds]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Advice:
    """A command that fits, and why."""

    why: str
    command: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The command as it can be pasted."""
        return shlex.join(self.command)


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
    )


def column_of(name: str, values: Any) -> Column:
    """The kind of a column by its cells.

    ======== ============================================================================
    empty    no cell is there
    constant one value
    yes/no   two values
    date     dates and times
    levels   at most 20 distinct whole numbers or categories, each twice on average
    words    other text whose cells recur
    text     cells of four words or more on average
    id       every cell another, of text or of whole numbers
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
    example = "" if seen.empty else str(seen.iloc[0])
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
        whole = bool((seen.astype(float) % 1 == 0).all())
        called_id = re.search(r"(^|_)(id|key|code|nr|no)$", name.lower()) is not None
        if unique and whole and (called_id or _is_counter(seen)):
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
    long = float(words.str.count(r"\S+").mean()) >= _LONG
    if unique:
        return "text" if long else "id"
    if distinct == 2:
        return "yes/no"
    if distinct <= FEW:
        return "levels"
    return "text" if long else "words"


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


# ---------------------------------------------------------------------- advice


def advise(profiles: Sequence[Profile], frames: Mapping[str, Any]) -> list[Advice]:
    """Commands that fit the tables, the first first."""
    found = [*_pairs_advice(profiles, frames), *_joined_advice(profiles, frames)]
    for table in profiles:
        found += _table_advice(table)
    return found


def _table_advice(table: Profile) -> list[Advice]:
    ids, text = table.of("id"), table.of("text")
    found = []
    if table.gap_cells:
        command = ["colspace", "impute", table.path, "--out", "filled.csv"]
        command += [part for name in [*ids, *text] for part in ("--id", name)]
        command += [part for name in table.of("empty") for part in ("--drop", name)]
        share = 100 * table.gap_cells / (table.rows * len(table.columns))
        found.append(
            Advice(f"{share:.2g} % of the cells are gaps: fill them, with intervals or draws", command)
        )
    response = _response(table)
    if response is not None:
        classes = response.kind in ("levels", "yes/no", "words")
        if text and classes:
            command = [
                "colspace",
                "atoms",
                table.path,
                "--label",
                response.name,
                "--text",
                text[0],
                "--out",
                "topics",
            ]
            found.append(Advice(f"topics of {text[0]!r} that tell {response.name!r}", command))
        features = [n for n in table.of("number", "whole", "levels", "yes/no") if n != response.name]
        numeric = [n for n in features if n not in _worded(table)]
        if len(numeric) > 1:
            command = ["colspace", "reduce", table.path, "--response", response.name]
            command += (
                ["--labels"] if response.kind == "levels" and response.name not in _worded(table) else []
            )
            command += [part for name in ids for part in ("--id", name)]
            left = [c.name for c in table.columns if c.name not in (*ids, *numeric, response.name)]
            command += [part for name in left for part in ("--drop", name)]
            command += [part for block in _blocks(numeric) for part in ("--block", block)]
            found.append(
                Advice(
                    f"the directions of the {len(numeric)} columns of numbers that tell {response.name!r}",
                    command,
                )
            )
    return found


def _worded(table: Profile) -> set[str]:
    """Columns of levels or yes/no that are words, not numbers."""
    return {c.name for c in table.columns if not re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", c.example.lower())}


def _response(table: Profile) -> Column | None:
    """The column that looks like a response: by its name, else the first of words that recur, else the last that could be one."""
    fit = [
        c for c in table.columns if c.kind in ("number", "whole", "levels", "yes/no", "words") and not c.gaps
    ]
    named = [c for c in fit if c.name.lower() in _NAMES]
    worded = [c for c in fit if c.kind in ("levels", "yes/no") and c.name in _worded(table)]
    return next(iter([*named, *worded]), fit[-1] if len(fit) > 1 else None)


def _blocks(names: Sequence[str]) -> list[str]:
    """NAME=COLUMNS of blocks, where all columns begin with one of a few words."""
    stems = [found[0] if (found := _PREFIX.match(name)) else None for name in names]
    counts = {stem: stems.count(stem) for stem in stems if stem is not None}
    if None in stems or not 2 <= len(counts) <= 8 or min(counts.values()) < 2:
        return []
    return [f"{stem[:-1]}={stem}*" for stem in counts]


def _pairs_advice(profiles: Sequence[Profile], frames: Mapping[str, Any]) -> list[Advice]:
    """Links between the ids of two other tables."""
    ids = {
        p.path: set(frames[p.path].iloc[:, 0].astype(str))
        for p in profiles
        if p.columns and p.columns[0].kind == "id"
    }
    found = []
    for links in profiles:
        if links.path in ids or not 2 <= len(links.columns) <= 3:
            continue
        ends = [set(frames[links.path].iloc[:, j].dropna().astype(str)) for j in (0, 1)]
        for left, right in ((a, b) for a in ids for b in ids if a != b):
            if ends[0] <= ids[left] and ends[1] <= ids[right]:
                command = [
                    "colspace",
                    "pairs",
                    "--left",
                    left,
                    "--right",
                    right,
                    "--links",
                    links.path,
                    "--out",
                    "partners.csv",
                ]
                found.append(
                    Advice(f"{links.path} links the entities of {left} and {right}: rank partners", command)
                )
    return found


def _joined_advice(profiles: Sequence[Profile], frames: Mapping[str, Any]) -> list[Advice]:
    """Several tables about the same entities, under an id of the same name."""
    tables = [p for p in profiles if p.columns and p.columns[0].kind == "id"]
    groups: dict[str, list[Profile]] = {}
    for table in tables:
        groups.setdefault(table.columns[0].name, []).append(table)
    found = []
    for key, group in groups.items():
        ids = [set(frames[p.path].iloc[:, 0].astype(str)) for p in group]
        shared = set.intersection(*ids)
        if len(group) < 2 or not shared:
            continue
        counts = ", ".join(f"{len(own):,}" for own in ids)
        names = ", ".join(p.path for p in group)
        why = f"{names} share {len(shared):,} ids of {key!r} (of {counts}): join them"
        responses = [(p, r) for p in group if (r := _response(p)) is not None]
        named = [(p, r) for p, r in responses if r.name.lower() in _NAMES]
        if any(p.gap_cells for p in group):
            command = ["colspace", "impute", *(p.path for p in group), "--id", key, "--out", "filled.csv"]
            found.append(Advice(f"{why}, and fill their gaps", command))
        elif responses:
            _, response = (named or responses[-1:])[0]
            command = [
                "colspace",
                "reduce",
                *(p.path for p in group),
                "--id",
                key,
                "--response",
                response.name,
            ]
            found.append(
                Advice(f"{why}; the directions of both that tell {response.name!r}, a block a table", command)
            )
    return found
