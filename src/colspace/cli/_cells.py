"""Tables with gaps: cells as a file has them, as values, and as they are written again."""

from __future__ import annotations

import csv
import io as streams
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..io._arrow_text import arrow_text
from ..io._source import Source, kind_of, open_sources
from ..io._tables import check_encoding, read_arrow, read_sources
from ..io._text import ISO_DATE, layout_of
from ..report._profile import NUMBER, odd_values
from ._join import Joined, join_tables
from ._marks import masked

_TRUTH = {word: word.lower() == "true" for word in ("True", "TRUE", "true", "False", "FALSE", "false")}
_ENDS = ("lower", "upper")
_WHOLE = r"\s*[+-]?\d+\s*"


def as_written(target: str) -> bool:
    """Whether a file holds cells as they are written, CSV or TSV, and not as values."""
    return kind_of(target) in ("csv", "tsv")


class _Every(frozenset[str]):
    """A set that holds every name."""

    def __contains__(self, name: object) -> bool:
        return True


@dataclass(frozen=True)
class Cells:
    """Values of a table, and for text files the cells as they are written; ``original`` is what had values that stand for gaps."""

    values: Any
    text: Any
    original: Any = None

    def without(self, columns: Sequence[str]) -> Cells:
        """The other columns."""
        kept = [name for name in self.values if name not in set(columns)]
        text, original = (None if part is None else part[kept] for part in (self.text, self.original))
        return Cells(self.values[kept], text, original)

    def with_gaps(self, marks: Sequence[str], columns: Sequence[str]) -> Cells:
        """Cells that are one of ``marks``, as text or as a number, as gaps; warns of a mark that no cell is."""
        values, _ = masked(self.values, marks, columns)
        return replace(self, values=values, original=self.values)

    def as_numbers(self, columns: Sequence[str], levels: Sequence[str]) -> Cells:
        """Text taken for numbers and truth values where all cells are; columns with ``levels`` for numbers only."""
        if self.text is None:
            return self
        typed = {
            name: _typed(self.values[name], truth=name not in levels)
            if name in columns
            else self.values[name]
            for name in self.values
        }
        return replace(self, values=type(self.values)(typed, index=self.values.index))

    def filled(
        self, table: Any, bounds: Mapping[str, tuple[Any, Any]] = MappingProxyType({}), *, as_text: bool
    ) -> Any:
        """All columns, those of ``table`` from there, and the ends of intervals of some; observed cells as they were written when ``as_text``."""
        out = (self.values if self.original is None else self.original).copy()
        for name in table:
            out[name] = self._column(name, table[name], as_text=as_text)
        if as_text and self.text is not None:
            for name in [name for name in out if name not in table]:
                out[name] = self.text[name]
        for name, ends in bounds.items():
            for end, bound in zip(_ENDS, ends, strict=True):
                out[f"{name}__{end}"] = self._column(name, bound, as_text=as_text)
        return out

    def refuse_ends(self, columns: Sequence[str]) -> None:
        """Refuse columns of the table that are called as the ends of intervals of ``columns`` will be."""
        for clash in [f"{name}__{end}" for name in columns for end in _ENDS]:
            if clash in self.values:
                msg = f"the table has a column {clash!r} already, which --intervals would add; rename it"
                raise ValueError(msg)

    def _column(self, name: str, new: Any, *, as_text: bool) -> Any:
        """One column with its gaps taken from ``new``."""
        if as_text and self.text is not None:
            return type(new)(_spelled(self.values[name], self.text[name], new), index=new.index)
        if self.text is not None and new.dtype in ("Int64", "boolean") and not new.isna().any():
            return new.astype(new.dtype.numpy_dtype)
        return new


def read_cells(path: str, encoding: str | None = None) -> Cells:
    """A table by its path, "-" for standard input, a folder or a pattern; cells of text files as text."""
    sources = open_sources(path)
    check_encoding(sources, encoding)
    if not all(source.is_text for source in sources):
        return Cells(_named(_as_stored(read_sources(sources), sources)), None)
    frame = read_sources(sources, text=_Every(), encoding=encoding)
    frame = _pointed(frame, sources[0], encoding)
    return Cells(_named(frame), frame)


def _pointed(frame: Any, source: Source, encoding: str | None) -> Any:
    """Decimal commas as points, where columns are not separated at commas."""
    import pandas as pd

    layout = layout_of(pd, source, encoding)
    if layout.separator in (layout.expected, ","):
        return frame
    pointed = frame.apply(_decimal_points)
    if not pointed.equals(frame):
        warnings.warn(f"{source.path}: ',' is read as the decimal mark, and written as '.'", stacklevel=3)
    return pointed


def join_cells(
    paths: Sequence[str], ids: Sequence[str], encoding: str | None, told: Sequence[Mapping[str, Any]] = ()
) -> tuple[Joined, Cells]:
    """One table, or several joined on the columns of --id; rows that a table lacks have gaps."""
    read = {path: read_cells(path, encoding) for path in paths}
    cells = list(read.values())
    if any(each.text is None for each in cells) and len(cells) > 1:
        read = {
            path: each.as_numbers([c for c in each.values if c not in ids], []) for path, each in read.items()
        }
    joined = join_tables(paths, ids, lambda path: read[path].values, everything=True, told=told)
    if len(cells) == 1:
        return joined, cells[0]
    as_text = all(each.text is not None for each in cells)
    return joined, Cells(joined.frame, joined.frame if as_text else None)


def _named(frame: Any) -> Any:
    frame.columns = [str(name) for name in frame.columns]
    return frame


def _as_stored(frame: Any, sources: Sequence[Source]) -> Any:
    """Whole numbers with gaps as such, which pandas reads as floats, and dates without times, which it reads as objects."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow.types import is_date, is_integer

    if all(frame[name].dtype.kind not in "fO" for name in frame):
        return frame
    table = pa.concat_tables([read_arrow(source) for source in sources], promote_options="permissive")
    for field in table.schema:
        name = field.name
        kind = frame[name].dtype.kind if name in frame.columns else ""
        if is_integer(field.type) and kind == "f":
            dtype = pd.api.types.pandas_dtype(str(field.type).replace("int", "Int").replace("uI", "UI"))
            frame[name] = dtype.__from_arrow__(table[name])
        elif is_date(field.type) and kind == "O":
            frame[name] = frame[name].astype(pd.ArrowDtype(pa.date32()))
    return frame


def _is_text(column: Any) -> bool:
    return column.dtype == object or str(column.dtype) in ("str", "string")


def _decimal_points(column: Any) -> Any:
    """1,5 as 1.5 where that makes numbers of a column of text."""
    if not _is_text(column) or not column.dropna().str.contains(",").any():
        return column
    pointed = column.str.replace(",", ".", regex=False)
    return column if _is_text(_typed(pointed)) else pointed


def _typed(text: Any, *, truth: bool = True) -> Any:
    import pandas as pd

    if not _is_text(text):
        return text
    seen = text.dropna()
    if seen.empty:
        return text.astype(np.float64)
    if truth and _all(seen, lambda cells: cells.isin(list(_TRUTH))):
        return text.map(_TRUTH).astype("boolean")
    if _all(seen, lambda cells: cells.str.fullmatch(ISO_DATE)):
        dates = pd.to_datetime(text, errors="coerce", format="ISO8601")
        return text if dates.isna().sum() > text.isna().sum() else dates
    whole = _all(seen, lambda cells: cells.str.fullmatch(_WHOLE))
    if not whole and (found := _floats(text)) is not None:
        return pd.Series(found, index=text.index, name=text.name)
    if pd.to_numeric(seen, errors="coerce").isna().any():
        return text
    cells, there = seen.to_numpy(dtype=object), text.notna().to_numpy()
    if whole and all(-(2**63) <= int(cell) < 2**63 for cell in cells):
        numbers = np.zeros(len(text), dtype=np.int64)
        numbers[there] = cells.astype(np.int64)
        return pd.Series(pd.arrays.IntegerArray(numbers, ~there), index=text.index, name=text.name)
    floats = np.full(len(text), np.nan)
    floats[there] = cells.astype(np.float64)
    return pd.Series(floats, index=text.index, name=text.name)


def _all(cells: Any, fits: Callable[[Any], Any]) -> bool:
    """Whether all cells fit; the first few often tell."""
    return bool(fits(cells.iloc[:100]).all() and (len(cells) <= 100 or fits(cells).all()))


def _floats(text: Any) -> Any:
    """Cells as floats, rounded as Python does, gaps NaN; None where one is not spelled as Arrow has it, which the slow way decides."""
    import pyarrow as pa

    cells = arrow_text(text)
    try:
        numbers = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return np.array(numbers) if np.count_nonzero(np.isnan(numbers)) == cells.null_count else None


def _spelled(values: Any, text: Any, new: Any) -> Any:
    """Cells as text: observed ones as they are, others as the same value is written elsewhere in the column."""
    import pyarrow as pa
    from pyarrow import compute

    gaps = values.isna().to_numpy()
    words = _written(values, text, new[gaps])
    if getattr(text.dtype, "storage", "") == "pyarrow":
        return text.dtype.__from_arrow__(compute.replace_with_mask(arrow_text(text), pa.array(gaps), words))
    out = text.to_numpy(dtype=object).copy()
    out[gaps] = words.to_numpy(zero_copy_only=False)
    return out


def _written(old: Any, text: Any, new: Any) -> Any:
    """New cells as an Arrow array of text, null where they are gaps; numbers and levels as ``text`` first has them."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow import compute

    if new.dtype.kind == "M":
        between = next((cell[10] for cell in text[old.notna()] if len(cell) > 10), "")
        days = [day.isoformat(sep=between or " ") for day in new.dropna()]
        words = days if between else [day[:10] for day in days]
        at = np.cumsum(new.notna()) - 1
        return pa.array(words, pa.large_string()).take(pa.array(at, mask=new.isna()))
    place, values = None, new
    if new.dtype != np.float64:
        place, values = pd.factorize(new)
    words = shortest(values.to_numpy()) if place is None else pa.array(map(str, values), pa.large_string())
    same = old.isin(values) & old.notna()
    if same.any():
        first = ~old[same].duplicated()
        known = dict(zip(old[same][first], text[same][first], strict=True))
        again = np.asarray(values.isin(list(known)))
        spelled = pa.array([known[value] for value in values[again]], pa.large_string())
        words = compute.replace_with_mask(words, pa.array(again), spelled)
    return words if place is None else words.take(pa.array(place, mask=place < 0))


def shortest(values: Any) -> Any:
    """Floats as Python spells them, an Arrow array, null of NaN; Arrow does so alike for fractions that are neither large nor small.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.cli._cells import shortest
    >>> shortest(np.array([0.5, 3.0, 1e-7])).to_pylist()
    ['0.5', '3.0', '1e-07']
    """
    import pyarrow as pa
    from pyarrow import compute

    size = np.abs(values)
    other = (size < 1e-4) | (size >= 1e9) | (values == np.rint(values))
    words = pa.array(values, from_pandas=True).cast(pa.large_string())
    if not other.any():
        return words
    spelled = pa.array(list(map(str, values[other].tolist())), pa.large_string())
    return compute.replace_with_mask(words, pa.array(other), spelled)


# ---------------------------------------------------------------------- kinds


def parse_kinds(given: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Kind, or levels in order, of each column that ``COLUMN=KIND`` or ``COLUMN=first,second,...`` names.

    Examples
    --------
    >>> from colspace.cli._cells import parse_kinds
    >>> parse_kinds(["q*=ordinal", "size=S,M,L"], ["q1", "q2", "size"])
    {'q1': 'ordinal', 'q2': 'ordinal', 'size': ['S', 'M', 'L']}
    """
    from .._blocks import parse_columns
    from ..copula._kinds import check_kind

    kinds: dict[str, Any] = {}
    for text in given:
        ends = [i for i, letter in enumerate(text) if letter == "=" and text[:i] in names]
        end = ends[0] if ends else text.find("=")
        column, words = text[:end], next(csv.reader([text[end + 1 :]], skipinitialspace=True), [])
        if end < 1 or not all(words) or not words:
            msg = f"--kinds {text} is not of the form COLUMN=KIND or COLUMN=level,level,..., e.g. size=S,M,L"
            raise ValueError(msg)
        for j in parse_columns(column, len(names), list(names), what="--kinds"):
            if names[j] in kinds:
                msg = f"--kinds is given twice for column {names[j]!r}; give it once"
                raise ValueError(msg)
            kinds[names[j]] = words if len(words) > 1 else check_kind(words[0], names[j])
    return kinds


def fit_levels(kinds: dict[str, Any], cells: Cells) -> dict[str, Any]:
    """Levels as numbers where the column holds numbers; refuses levels that a text file cannot tell from gaps."""
    import pandas as pd

    out = dict(kinds)
    for name, levels in kinds.items():
        if isinstance(levels, str):
            continue
        column = cells.values[name]
        if pd.api.types.is_bool_dtype(column):
            out[name] = [_TRUTH.get(level, level) for level in levels]
        elif pd.api.types.is_numeric_dtype(column):
            numbers = pd.to_numeric(pd.Series(levels), errors="coerce")
            if numbers.isna().any():
                odd = levels[int(numbers.isna().argmax())]
                msg = f"column {name!r} holds numbers, but --kinds gives it the level {odd!r}; give numbers in order"
                raise ValueError(msg)
            out[name] = numbers.tolist()
        elif cells.text is not None:
            lost = [level for level in levels if _reads_as_gap(level)]
            if lost:
                msg = f"column {name!r}: {lost[0]!r} is read as a gap, not as a level; call it otherwise in the file"
                raise ValueError(msg)
    return out


def _reads_as_gap(word: str) -> bool:
    import pandas as pd

    table = streams.StringIO()
    csv.writer(table).writerows([["x"], [word]])
    table.seek(0)
    return bool(pd.read_csv(table, skip_blank_lines=False)["x"].isna().all())


def refuse_mixtures(X: Any, kinds: dict[str, Any]) -> None:
    """Name all columns of text most of whose values are numbers, or would be but for signs, with what can be done."""
    words = {name: X[name].dropna() for name in X if name not in kinds and _is_text(X[name])}
    odd = {name: found for name, seen in words.items() if (found := odd_values(seen))}
    signed = {name: odd[name] for name in odd if words[name].astype(str).str.fullmatch(NUMBER).all()}
    mixed = {name: odd[name] for name in odd if 2 * len(odd[name]) < words[name].nunique()}
    for bad, what, first in (
        (signed, "hold numbers with signs", "Remedies: write them plainly, as in 1234.5, "),
        (mixed, "hold numbers and some text", "Remedies: --na '{0}' where it means missing, "),
    ):
        if bad:
            listed = ", ".join(
                f"{name!r} ({', '.join(map(repr, found[:3]))}{', ...' * (len(found) > 3)})"
                for name, found in bad.items()
            )
            name, found = next(iter(bad.items()))
            msg = (
                f"{len(bad)} column(s) {what}: {listed}. {first.format(found[0])}--kinds '{name}=nominal' (all are words), "
                f"--drop '{name}' (leave it out), --id '{name}' (keep it as it is)"
            )
            raise ValueError(msg)
