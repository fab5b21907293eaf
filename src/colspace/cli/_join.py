"""Tables that commands read: one, or several joined on the columns of --id."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

_SHOWN = 3  # ids in a message


@dataclass(frozen=True)
class Table:
    """A table under its name, as it was read; ``renamed`` are columns that another table has as well."""

    name: str
    path: str
    frame: Any
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Names after the join."""
        return [self.renamed.get(name, name) for name in self.frame.columns]


@dataclass(frozen=True)
class Joined:
    """One table, and where its columns come from."""

    frame: Any
    tables: tuple[Table, ...]
    keys: tuple[str, ...]

    def blocks(self, used: Sequence[str]) -> dict[str, list[str]]:
        """The used columns of each table; nothing if all are of one."""
        kept = set(used)
        found = {t.name: [c for c in t.columns if c in kept] for t in self.tables}
        found = {name: columns for name, columns in found.items() if columns}
        return found if len(found) > 1 else {}

    def about(self) -> dict[str, Any]:
        """What a saved model says of its tables."""
        first = Path(self.tables[0].path).name
        if len(self.tables) == 1:
            return {"table": first}
        return {
            "table": ", ".join(Path(t.path).name for t in self.tables),
            "joined_on": list(self.keys),
            "tables": [{"name": t.name, "renamed": dict(t.renamed)} for t in self.tables],
        }

    @property
    def source(self) -> str:
        """Names of the files, for headings."""
        return ", ".join(Path(t.path).name for t in self.tables)


def wide_blocks(blocks: Mapping[str, list[str]], least: int) -> dict[str, list[str]]:
    """Blocks of at least so many columns: one with fewer is a part of the smallest other; nothing if all are one.

    Examples
    --------
    >>> from colspace.cli._join import wide_blocks
    >>> wide_blocks({"genes": ["a", "b", "c"], "clinic": ["age"], "diet": ["e", "f"]}, 2)
    {'genes': ['a', 'b', 'c'], 'diet+clinic': ['e', 'f', 'age']}
    """
    found = dict(blocks)
    while len(found) > 1:
        small, other = sorted(found, key=lambda name: len(found[name]))[:2]
        if len(found[small]) >= least:
            return found
        columns = found.pop(small)
        found[other] = found[other] + columns
        found = {f"{name}+{small}" if name == other else name: own for name, own in found.items()}
    return {}


def join_tables(
    paths: Sequence[str],
    ids: Sequence[str],
    read: Callable[[str], Any],
    *,
    everything: bool = False,
    told: Sequence[Mapping[str, Any]] = (),
) -> Joined:
    """Read the tables and join them on the --id columns that all of them have.

    Ids are compared as text. Rows are those whose id is in all tables, in the order of the first; with ``everything`` those of
    any table, whose cells are gaps where they are not. Columns that several tables have get the name of their table before
    theirs. ``told`` are the tables of an earlier join by their position, whose columns were renamed.
    """
    twice = [path for path in dict.fromkeys(paths) if paths.count(path) > 1]
    if twice:
        msg = f"{twice[0]} is given twice; name each table once"
        raise ValueError(msg)
    frames = []
    for path in paths:
        frame = read(path)
        frame.columns = [str(name) for name in frame.columns]
        frames.append(frame)
    tables = [Table(*each) for each in zip(table_names(paths), paths, frames, strict=True)]
    if len(tables) == 1:
        return Joined(frames[0], tuple(tables), ())
    keys = _keys(tables, ids)
    given = [each["renamed"] for each in told] if len(told) == len(paths) else None
    tables = _apart(tables, keys, given)
    indexed = [_indexed(table, keys) for table in tables]
    return Joined(_joined(tables, indexed, keys, everything=everything), tuple(tables), tuple(keys))


def read_tables(
    paths: Sequence[str],
    ids: Sequence[str],
    marks: Sequence[str] = (),
    encoding: str | None = None,
    *,
    texts: Sequence[str] = (),
    told: Sequence[Mapping[str, Any]] = (),
) -> Joined:
    """The tables of a command as one frame; cells that are one of ``marks`` are gaps, but for ids and texts."""
    from ..io import read_table
    from ._marks import with_gaps

    kept = [*ids, *texts]
    joined = join_tables(paths, ids, lambda path: read_table(path, text=kept, encoding=encoding), told=told)
    if not marks:
        return joined
    columns = [name for name in joined.frame.columns if name not in kept]
    return replace(joined, frame=with_gaps(joined.frame, marks, columns))


def table_names(paths: Sequence[str]) -> list[str]:
    """Short names of tables: those of their files, with their folders' where files are called alike.

    Examples
    --------
    >>> from colspace.cli._join import table_names
    >>> table_names(["a/genes.csv.gz", "clinic.csv"]), table_names(["a/x.csv", "b/x.csv"])
    (['genes', 'clinic'], ['a_x', 'b_x'])
    """
    stems = [Path(path).name.split(".")[0] or "table" for path in paths]
    if len(set(stems)) < len(stems):
        stems = [
            f"{Path(path).absolute().parent.name}_{stem}" for path, stem in zip(paths, stems, strict=True)
        ]
    if len(set(stems)) < len(stems):
        stems = [f"table{i}" for i in range(1, len(paths) + 1)]
    return [f"{stem}_" if stem == "drop" else stem for stem in stems]


def _keys(tables: Sequence[Table], ids: Sequence[str]) -> list[str]:
    shared = [c for c in tables[0].frame.columns if all(c in t.frame.columns for t in tables)]
    keys = [name for name in ids if name in shared]
    if keys:
        return keys
    known = (
        f"columns that all have: {', '.join(map(repr, shared))}"
        if shared
        else "they have no column in common"
    )
    if ids:
        lacking = [t.path for t in tables if not set(ids) & set(t.frame.columns)]
        what = (
            f"--id {ids[0]} is not in {', '.join(lacking)}"
            if lacking
            else f"--id {ids[0]} is not in all of them"
        )
        msg = f"{len(tables)} tables are joined on --id, and {what}; {known}"
    else:
        msg = (
            f"{len(tables)} tables are joined on --id, which is not given; {known}. One table in several files is given as its "
            "folder, or as a pattern in quotes"
        )
    raise ValueError(msg)


def _apart(
    tables: Sequence[Table], keys: Sequence[str], given: Sequence[Mapping[str, str]] | None
) -> list[Table]:
    """Columns that several tables have, each under the name of its table."""
    counts: dict[str, int] = {}
    for table in tables:
        for name in table.frame.columns:
            counts[name] = counts.get(name, 0) + 1
    both = {name for name, count in counts.items() if count > 1 and name not in keys}
    if given is None:
        new = [{n: f"{t.name}__{n}" for n in t.frame.columns if n in both} for t in tables]
    else:
        new = [{n: str(m) for n, m in each.items()} for each in given]
    if both and given is None:
        shown = ", ".join(f"{next(iter(each.values()))!r}" for each in new if each)
        warnings.warn(
            f"{len(both)} column(s) are in several tables and get the name of theirs, as in {shown}: "
            f"{', '.join(map(repr, sorted(both)))}",
            stacklevel=3,
        )
    return [Table(t.name, t.path, t.frame, each) for t, each in zip(tables, new, strict=True)]


def _indexed(table: Table, keys: Sequence[str]) -> Any:
    """The table's other columns by their id, as text."""
    import pandas as pd

    columns = []
    for key in keys:
        column = table.frame[key]
        gaps = int(column.isna().sum())
        if gaps:
            msg = f"{gaps} id(s) are missing in column {key!r} of {table.path}; give every row one"
            raise ValueError(msg)
        if column.dtype.kind == "f" and (column % 1 == 0).all():
            column = column.astype("int64")
        columns.append(column.astype(str).str.strip())
    index = pd.Index(columns[0]) if len(columns) == 1 else pd.MultiIndex.from_arrays(columns)
    twice = list(index[index.duplicated()].unique())
    if twice:
        msg = f"{len(twice)} id(s) stand twice in {table.path}: {_listed(twice)}; keep one row of each"
        raise ValueError(msg)
    rest = table.frame.drop(columns=list(keys)).rename(columns=dict(table.renamed))
    return rest.set_axis(index, axis=0)


def _joined(tables: Sequence[Table], indexed: Sequence[Any], keys: Sequence[str], *, everything: bool) -> Any:
    import pandas as pd

    common, union = indexed[0].index, indexed[0].index
    for other in indexed[1:]:
        common = common[common.isin(other.index)]
        union = union.append(other.index[~other.index.isin(union)])
    alone = [
        i
        for i, f in enumerate(indexed)
        if not any(f.index.isin(g.index).any() for k, g in enumerate(indexed) if k != i)
    ]
    if alone if everything else not len(common):
        each = "; ".join(
            f"{t.path} has {_listed(list(f.index))}" for t, f in zip(tables, indexed, strict=True)
        )
        msg = f"the tables share no id of {', '.join(map(repr, keys))}: {each}"
        raise ValueError(msg)
    lost = [
        (t.path, len(f) - len(common)) for t, f in zip(tables, indexed, strict=True) if len(f) > len(common)
    ]
    if lost:
        each = ", ".join(f"{count:,} of {path}" for path, count in lost)
        what = "stay, with gaps" if everything else "are left out"
        warnings.warn(
            f"{len(common):,} ids are in all {len(tables)} tables; others {what}: {each}", stacklevel=3
        )
    rows = union if everything else common
    whole = pd.concat([frame.reindex(rows) for frame in indexed], axis=1)
    ids = [rows] if len(keys) == 1 else [rows.get_level_values(i) for i in range(len(keys))]
    for i, (key, values) in enumerate(zip(keys, ids, strict=True)):
        whole.insert(i, key, values.to_numpy())
    return whole.reset_index(drop=True)


def _listed(ids: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, ids[:_SHOWN]))
    return shown + (f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else "")
