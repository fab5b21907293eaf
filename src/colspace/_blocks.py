"""Column groups: one 2-D table, named blocks of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DROP = "drop"


@dataclass(frozen=True)
class Blocks:
    """Named, disjoint groups of columns."""

    names: tuple[str, ...]
    columns: tuple[NDArray[np.intp], ...]
    n_features: int

    def __len__(self) -> int:
        return len(self.names)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each block."""
        return tuple(len(c) for c in self.columns)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where each block stands once the blocks are laid side by side."""
        ends = np.cumsum(self.widths)
        return tuple(slice(int(e) - w, int(e)) for e, w in zip(ends, self.widths, strict=True))

    @property
    def order(self) -> NDArray[np.intp] | None:
        """The columns in block order, or None when that is the whole table as it stands."""
        joined = np.concatenate(self.columns)
        return None if np.array_equal(joined, np.arange(self.n_features)) else joined


def parse_blocks(blocks: Any, n_features: int, feature_names: Sequence[str] | None = None) -> Blocks:
    """Resolve a ``blocks=`` argument against a table.

    ``None`` is one block of all columns; ``"prefix"`` groups columns by the text before ``__``;
    a mapping gives name -> columns (names, shell patterns such as ``"g_*"``, ranges of names such as ``"a:f"``, positions,
    slices or a boolean mask; integers are always positions). The key ``"drop"`` names columns to leave out (``"*"``: all that remain).

    Examples
    --------
    >>> from colspace._blocks import parse_blocks
    >>> parse_blocks({"genes": "g_*", "drugs": ["d_1"]}, 3, ["g_1", "d_1", "g_2"]).columns
    (array([0, 2]), array([1]))
    """
    if blocks is None:
        return Blocks(("x",), (np.arange(n_features),), n_features)
    if isinstance(blocks, str):
        if blocks != "prefix":
            msg = f"blocks={blocks!r} is unknown; give a mapping name -> columns, 'prefix' or None"
            raise ValueError(msg)
        return _prefix_blocks(n_features, feature_names)
    if not isinstance(blocks, Mapping):
        msg = (
            f"blocks must be a mapping name -> columns, 'prefix' or None, got {type(blocks).__name__}. "
            "For separate arrays: X, blocks = stack_blocks([A, B])"
        )
        raise TypeError(msg)
    found = {
        str(name): parse_columns(columns, n_features, feature_names, what=f"block {name!r}")
        for name, columns in blocks.items()
        if name != _DROP
    }
    if not found:
        msg = "blocks is an empty mapping; name at least one block, or use blocks=None"
        raise ValueError(msg)
    _check_cover(found, blocks.get(_DROP), n_features, feature_names)
    return Blocks(tuple(found), tuple(found.values()), n_features)


def _prefix_blocks(n_features: int, feature_names: Sequence[str] | None) -> Blocks:
    if feature_names is None:
        msg = (
            "blocks='prefix' reads column names such as 'genes__tp53', but X has none. Pass a DataFrame, "
            "call set_output(transform='pandas') on the step before, or give blocks as a mapping"
        )
        raise ValueError(msg)
    bare = [name for name in feature_names if "__" not in name]
    if bare:
        msg = f"blocks='prefix' needs '__' in every column name; without it: {_few(bare)}"
        raise ValueError(msg)
    prefixes = np.array([name.split("__", 1)[0] for name in feature_names])
    names = tuple(dict.fromkeys(prefixes.tolist()))
    return Blocks(names, tuple(np.flatnonzero(prefixes == name) for name in names), n_features)


def parse_columns(
    columns: Any, n_features: int, feature_names: Sequence[str] | None = None, what: str = "columns"
) -> NDArray[np.intp]:
    """Positions of the columns that a specification names; used for blocks and covariates.

    Examples
    --------
    >>> from colspace._blocks import parse_columns
    >>> parse_columns(["age", "bmi"], 3, ["bmi", "sex", "age"])
    array([2, 0])
    >>> parse_columns("bmi:sex", 3, ["bmi", "sex", "age"])
    array([0, 1])
    """
    if isinstance(columns, slice):
        picked = _positions(columns, n_features, feature_names)
    elif isinstance(columns, str):
        picked = _by_name([columns], feature_names, what)
    else:
        values = np.asarray(columns if np.ndim(columns) else [columns])
        if values.size == 0:
            picked = np.array([], dtype=np.intp)
        elif values.dtype == bool:
            if values.shape != (n_features,):
                msg = f"{what}: a boolean mask needs {n_features} entries, got shape {values.shape}"
                raise ValueError(msg)
            picked = np.flatnonzero(values)
        elif np.issubdtype(values.dtype, np.integer):
            bad = values[(values < -n_features) | (values >= n_features)]
            if bad.size:
                msg = f"{what}: column {bad[0]} does not exist; X has {n_features} columns"
                raise ValueError(msg)
            picked = np.where(values < 0, values + n_features, values).astype(np.intp)
        elif all(isinstance(v, str) for v in values.tolist()):
            picked = _by_name(values.tolist(), feature_names, what)
        else:
            msg = f"{what}: columns are names, positions, a slice or a boolean mask, got {columns!r}"
            raise TypeError(msg)
    if picked.size == 0:
        msg = f"{what} matches no column: {columns!r}. Columns: {_few(feature_names or range(n_features))}"
        raise ValueError(msg)
    if len(np.unique(picked)) < picked.size:
        msg = f"{what} names a column twice: {columns!r}"
        raise ValueError(msg)
    return picked


def _positions(columns: slice, n_features: int, names: Sequence[str] | None) -> NDArray[np.intp]:
    start, stop = columns.start, columns.stop
    if isinstance(start, str) or isinstance(stop, str):
        # a slice of names includes its end, as in pandas and ColumnTransformer
        start = None if start is None else int(_by_name([start], names, "slice")[0])
        stop = None if stop is None else int(_by_name([stop], names, "slice")[0]) + 1
    return np.arange(n_features)[slice(start, stop, columns.step)]


def _by_name(wanted: list[str], names: Sequence[str] | None, what: str) -> NDArray[np.intp]:
    if names is None:
        msg = (
            f"{what}: columns are given by name ({_few(wanted)}) but X has no column names; pass a DataFrame"
        )
        raise ValueError(msg)
    lookup = {name: i for i, name in enumerate(names)}
    picked: list[int] = []
    for name in wanted:
        if name in lookup:
            picked.append(lookup[name])
        elif (ends := _ends(name, lookup)) is not None:
            picked.extend(range(ends[0], ends[1] + 1))
        elif any(mark in name for mark in "*?["):
            picked.extend(i for i, known in enumerate(names) if fnmatchcase(known, name))
        else:
            msg = f"{what}: {_unknown(name, names)}"
            raise ValueError(msg)
    return np.array(picked, dtype=np.intp)


def _ends(text: str, lookup: Mapping[str, int]) -> tuple[int, int] | None:
    """First and last position of a range of names, the last included; an end that is left out is that of the table."""
    for i, letter in enumerate(text):
        first, last = text[:i], text[i + 1 :]
        known = (not first or first in lookup) and (not last or last in lookup)
        if letter == ":" and (first or last) and known:
            return lookup.get(first, 0), lookup.get(last, len(lookup) - 1)
    return None


def _unknown(name: str, names: Sequence[str]) -> str:
    """What to say of a name or a range that is not there; of a range with one end in the table, of the other end."""
    for i, letter in enumerate(name):
        ends = name[:i], name[i + 1 :]
        bad = [end for end in ends if end not in names]
        if letter == ":" and all(ends) and len(bad) == 1:
            said = not_a_column(bad[0], names)
            return said.replace(repr(bad[0]), f"{bad[0]!r}, an end of {name!r}", 1)
    return not_a_column(name, names)


def not_a_column(name: str, names: Sequence[str]) -> str:
    """What to say of a name that no column has: the nearest ones, else the first.

    Examples
    --------
    >>> from colspace._blocks import not_a_column
    >>> not_a_column("outcom", ["patient", "outcome"])
    "no column is called 'outcom'; is it 'outcome'?"
    """
    close = {known.casefold(): known for known in names}
    near = [close[found] for found in get_close_matches(name.casefold(), close, 3)]
    if near:
        return f"no column is called {name!r}; is it {' or '.join(map(repr, near))}?"
    return f"no column is called {name!r}. Columns: {_few(names, 8)}"


def _check_cover(
    found: dict[str, NDArray[np.intp]], drop: Any, n_features: int, names: Sequence[str] | None
) -> None:
    owner = np.full(n_features, -1)
    titles = list(found)
    label = list(names) if names is not None else list(range(n_features))
    for i, columns in enumerate(found.values()):
        taken = columns[owner[columns] >= 0]
        if taken.size:
            other = titles[owner[taken[0]]]
            shared = _few([label[c] for c in taken])
            msg = f"blocks {other!r} and {titles[i]!r} overlap in {shared}; a column belongs to one block"
            raise ValueError(msg)
        owner[columns] = i
    if drop is not None and not (isinstance(drop, str) and drop == "*"):
        dropped = parse_columns(drop, n_features, names, what="'drop'")
        if (owner[dropped] >= 0).any():
            both = [label[c] for c in dropped[owner[dropped] >= 0]]
            msg = f"'drop' overlaps a block in {_few(both)}; a column is either used or dropped"
            raise ValueError(msg)
        owner[dropped] = len(found)
    left = np.flatnonzero(owner < 0)
    if left.size and not (isinstance(drop, str) and drop == "*"):
        msg = (
            f"{left.size} of {n_features} columns are in no block: {_few([label[c] for c in left])}. "
            "Add them to a block, or leave them out on purpose with blocks={..., 'drop': '*'}"
        )
        raise ValueError(msg)


def _few(items: Any, limit: int = 5) -> str:
    items = list(items)
    shown = ", ".join(repr(i) if isinstance(i, str) else str(i) for i in items[:limit])
    return shown + (f", ... ({len(items)} in all)" if len(items) > limit else "")


def stack_blocks(tables: Any, names: Sequence[str] | None = None) -> tuple[Any, dict[str, slice]]:
    """Lay separate tables side by side: ``X, blocks = stack_blocks([A, B])``.

    Parameters
    ----------
    tables : sequence of 2-D tables, or mapping name -> table
        Arrays, sparse matrices or DataFrames (one kind throughout) with the same rows.
    names : sequence of str, optional
        Block names; by default the mapping's keys, or "a", "b", "c", ...

    Returns
    -------
    X : ndarray, CSR matrix or DataFrame
        DataFrame columns are renamed ``block__column``, so ``blocks="prefix"`` works as well.
    blocks : dict
        Name -> slice, ready for ``blocks=``.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import stack_blocks
    >>> X, blocks = stack_blocks([np.ones((4, 2)), np.zeros((4, 3))])
    >>> X.shape, blocks
    ((4, 5), {'a': slice(0, 2, None), 'b': slice(2, 5, None)})
    """
    if isinstance(tables, Mapping):
        names = list(tables) if names is None else names
        tables = list(tables.values())
    tables = list(tables)
    if not tables:
        msg = "stack_blocks needs at least one table"
        raise ValueError(msg)
    if names is None:
        names = [chr(ord("a") + i) if i < 26 else f"block{i}" for i in range(len(tables))]
    if _DROP in names:
        msg = "'drop' names the columns to leave out, so no block can be called that; choose another name"
        raise ValueError(msg)
    if len(names) != len(tables) or len(set(names)) < len(names):
        msg = f"need one distinct name per table: {len(tables)} tables, names {list(names)}"
        raise ValueError(msg)
    for name, table in zip(names, tables, strict=True):
        if len(getattr(table, "shape", ())) != 2:
            msg = (
                f"table {name!r} must be 2-D (rows x columns); reshape a single column with a.reshape(-1, 1)"
            )
            raise ValueError(msg)
    if len({t.shape[0] for t in tables}) > 1:
        msg = f"tables have different numbers of rows: {[t.shape[0] for t in tables]}; align them first"
        raise ValueError(msg)
    ends = np.cumsum([t.shape[1] for t in tables])
    blocks = {str(n): slice(int(e) - t.shape[1], int(e)) for n, t, e in zip(names, tables, ends, strict=True)}
    return _side_by_side(tables, list(names)), blocks


def _side_by_side(tables: list[Any], names: list[str]) -> Any:
    import narwhals.stable.v2 as nw  # where a command begins to read, nothing of it is needed
    from scipy import sparse

    frames = [nw.from_native(t, pass_through=True) for t in tables]
    if any(isinstance(f, nw.DataFrame) for f in frames):
        if len({type(t) for t in tables}) > 1:
            msg = (
                f"tables must be of one kind, got {sorted({type(t).__name__ for t in tables})}; convert them"
            )
            raise ValueError(msg)
        if hasattr(tables[0], "iloc") and not all(t.index.equals(tables[0].index) for t in tables):
            msg = "DataFrames must share one index; align them with .loc or .reset_index first"
            raise ValueError(msg)
        renamed = [f.rename({c: f"{n}__{c}" for c in f.columns}) for n, f in zip(names, frames, strict=True)]
        return nw.concat(renamed, how="horizontal").to_native()
    if any(sparse.issparse(t) for t in tables):
        return sparse.hstack(tables, format="csr")
    if any(isinstance(t, np.ma.MaskedArray) for t in tables):
        return np.ma.hstack(tables)  # numpy's own forgets the masks
    return np.hstack(tables)
