"""Tables of text: encoding, separator, header, cells."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ._arrow_text import read_words
from ._source import Source

ISO_DATE = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?"
_SEPARATORS = (",", ";", "\t", "|")
_PLAIN = "_-.'()[]/%"  # signs of names and numbers
_ROWS = 20  # that another separator is looked for in
_PREFIX = 2**16  # letters that the separator is found on; below the csv module's limit of a field
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NAMES = {"latin-1": "Latin-1", "cp1252": "Windows-1252, a kind of Latin-1"}


@dataclass(frozen=True)
class Layout:
    """How a table of text is to be read; ``fields`` are the names in the header, as pandas calls them."""

    encoding: str
    separator: str
    expected: str
    fields: tuple[str, ...]


def layout_of(pandas: Any, source: Source, encoding: str | None) -> Layout:
    """Encoding, separator and header; refuses bytes that are not text and names that stand twice."""
    try:
        return _layout_of(pandas, source, encoding)
    except UnicodeError as error:
        raise ValueError(wrong_encoding(source, encoding, error)) from error


def _layout_of(pandas: Any, source: Source, encoding: str | None) -> Layout:
    _check_encoding(source, encoding)
    encoding = encoding or "utf-8"
    expected = "\t" if source.kind == "tsv" else ","
    with source.open() as file, io.TextIOWrapper(file, encoding, newline="") as letters:
        line = letters.readline().removeprefix("\ufeff")
        if '"' in line:  # a name may hold line breaks
            more, rows = letters.read(_PREFIX), []
        else:
            more, rows = "", list(islice(letters, _ROWS))
    if re.fullmatch(r"sep=.\s*", line, re.IGNORECASE):
        msg = f"{source.path} begins with the line {line.strip()!r}, which spreadsheets alone understand; delete that line"
        raise ValueError(msg)
    separator = _separator((line + more)[:_PREFIX], expected)
    if line.strip() and '"' not in line:
        names = line.rstrip("\r\n").split(separator)
    else:  # pandas, as the csv module has a limit to the length of a field
        options = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
        with source.open() as file:
            names = list(pandas.read_csv(file, sep=separator, encoding=encoding, **options).iloc[0])
    fields = [str(name) or f"Unnamed: {i}" for i, name in enumerate(names)]
    refuse_twice(source, [name.strip() for name in fields])
    if len(fields) == 1 and (mark := _other_separator([line, *rows])):
        msg = (
            f"{source.path} has one column, {fields[0][:40]!r}, whose cells seem to be divided at {mark!r}; columns are "
            "divided at a comma, a semicolon, a tab or |: write the table with one of those"
        )
        raise ValueError(msg)
    return Layout(encoding, separator, expected, tuple(fields))


def refuse_twice(source: Source, names: Collection[str]) -> None:
    """Refuse names that stand twice in a header."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        shown = ", ".join(map(repr, twice[:5])) + (f" and {len(twice) - 5} more" if len(twice) > 5 else "")
        msg = f"{source.path}: column names that stand twice: {shown}; rename them in the file"
        raise ValueError(msg)


def telling_cell(cells: Any) -> str:
    """The first of the cells that are no numbers, where some are dates the first that is none.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.io._text import telling_cell
    >>> telling_cell(pd.Series(["2024-01-31", "never"])), telling_cell(pd.Series(["2024-01-31", "2024-02-30"]))
    ('never', '2024-02-30')
    """
    import pandas as pd

    words = cells.astype(str)
    dates = words.where(words.str.fullmatch(ISO_DATE))
    others = words[pd.to_datetime(dates, errors="coerce", format="ISO8601").isna()]
    return str((others if len(others) else words).iloc[0])


def _separator(start: str, expected: str) -> str:
    """The expected separator, unless the header is one column with it and several with another."""

    def count(separator: str) -> int:
        return len(next(csv.reader(io.StringIO(start, newline=""), delimiter=separator), []))

    return expected if count(expected) > 1 else max((expected, *_SEPARATORS), key=count)


def _other_separator(lines: Sequence[str]) -> str | None:
    """A sign that stands equally often in the header and in every row after it, and is none of the separators.

    Examples
    --------
    >>> from colspace.io._text import _other_separator
    >>> _other_separator(["a~b", "1~2", "3~4"]), _other_separator(["full name", "Ann Lee"])
    ('~', None)
    """
    if len(lines) < 2 or not lines[0].strip():
        return None
    for mark, count in Counter(lines[0].strip()).most_common():
        plain = mark.isalnum() or mark in _PLAIN or (mark == " " and count < 2)  # as in a full name
        if not plain and all(line.strip().count(mark) == count for line in lines[1:]):
            return mark
    return None


def read_text(pandas: Any, source: Source, *, text: Collection[str], gaps: bool, encoding: str | None) -> Any:
    """A pandas DataFrame; warnings tell of another separator and of spaces around names."""
    path = source.path
    damage = (pandas.errors.ParserError, csv.Error, EOFError, zlib.error, gzip.BadGzipFile)
    try:
        layout = layout_of(pandas, source, encoding)
        kept = {name: str for name in layout.fields if name.strip() in text}
        frame, words_only = None, len(kept) == len(layout.fields)
        if words_only and codecs.lookup(layout.encoding).name == "utf-8":
            frame = read_words(pandas, source, layout.fields, layout.separator)
        if frame is None:
            frame = _read_csv(pandas, source, layout, dtype=kept or None)
        note = f"{path}: the header holds no {layout.expected!r}, so columns are separated at {layout.separator!r}"
        other = layout.separator not in (layout.expected, ",") and not words_only
        if other and _count_numbers(frame) < frame.shape[1]:
            comma = _read_csv(pandas, source, layout, dtype=kept or None, decimal=",")
            if _count_numbers(comma) > _count_numbers(frame):
                frame, note = comma, f"{note} and ',' is the decimal mark"
        if kept and not gaps:
            words = {"usecols": list(kept), "dtype": str, "keep_default_na": False}
            frame[list(kept)] = _read_csv(pandas, source, layout, **words)[list(kept)]
        nothing = _none_among_words(pandas, source, layout, frame)
        short = _short_lines(source, layout, frame)
    except pandas.errors.EmptyDataError as error:
        msg = f"{path} is empty: 0 rows, 0 columns"
        raise ValueError(msg) from error
    except UnicodeError as error:
        raise ValueError(wrong_encoding(source, encoding, error)) from error
    except damage as error:
        msg = f"{path} is not a {source.kind.upper()} table: {first_line(error)}"
        raise ValueError(msg) from error
    if layout.separator != layout.expected:
        _note(note)
    if short:
        lines = f"{len(short):,} lines have" if len(short) > 1 else "1 line has"
        _note(
            f"{path}: {lines} fewer cells than the header, the first line {short[0]}; what they lack is taken for gaps"
        )
    if nothing:
        cells = ", ".join(f"{count} of {name!r}" for name, count in nothing.items())
        _note(
            f"{path}: cells that say None are taken for gaps ({cells}); where it is a level, write it otherwise, such as none"
        )
    bare = {name: name.strip() or name for name in map(str, frame.columns)}
    padded = [name for name, short in bare.items() if name != short]
    if padded:
        frame.columns = [bare[str(name)] for name in frame.columns]
        shown = ", ".join(map(repr, padded[:3])) + (", ..." if len(padded) > 3 else "")
        _note(f"{path}: spaces around {len(padded)} column name(s) are left out: {shown}")
    return frame


def _read_csv(pandas: Any, source: Source, layout: Layout, **options: Any) -> Any:
    with source.open() as file:
        return pandas.read_csv(file, sep=layout.separator, encoding=layout.encoding, **options)


def _short_lines(source: Source, layout: Layout, frame: Any) -> list[int]:
    """Numbers of the lines that end before the last column; they can be where that column has gaps."""
    width = frame.shape[1]
    if width < 2 or not frame.iloc[:, -1].isna().any():
        return []
    with source.open() as file, io.TextIOWrapper(file, layout.encoding, newline="") as lines:
        rows = csv.reader(lines, delimiter=layout.separator)
        try:
            return [rows.line_num for row in rows if 0 < len(row) < width]
        except csv.Error:  # a cell longer than the reader takes
            return []


def _none_among_words(pandas: Any, source: Source, layout: Layout, frame: Any) -> dict[str, int]:
    """Columns of words in which None stands for a gap, or for a level that is called so, and how often."""
    lacking = [
        name
        for name in frame.columns[frame.isna().any()]
        if not pandas.api.types.is_numeric_dtype(frame[name])
        and pandas.to_numeric(frame[name].dropna(), errors="coerce").isna().any()
    ]
    if not lacking:
        return {}
    with source.open() as file:
        if b"None" not in file.read():
            return {}
    plain = {"usecols": lacking, "dtype": str, "keep_default_na": False}
    said = (_read_csv(pandas, source, layout, **plain)[lacking] == "None").sum()
    return {str(name).strip(): int(count) for name, count in said.items() if count}


def _count_numbers(frame: Any) -> int:
    return int(frame.select_dtypes("number").shape[1])


def _note(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)


_RAGGED = re.compile(
    r"(?:.*Row #(?P<row>\d+): |.*?)Expected (?P<wanted>\d+) (?:fields|columns)(?: in line (?P<line>\d+), saw|, got) (?P<found>\d+).*"
)


_OPEN_QUOTE = re.compile(r"EOF inside string starting at row (\d+)")


def first_line(error: BaseException) -> str:
    """The first line of what an error says; of a row too long or too short where it is, and what to do.

    Examples
    --------
    >>> from colspace.io._text import first_line
    >>> first_line(ValueError("Error tokenizing data. C error: Expected 3 fields in line 4, saw 5"))
    'line 4 has 5 cells where 3 are expected; put cells that hold the separator in quotes'
    """
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if open_quote := _OPEN_QUOTE.search(text):
        return f"line {int(open_quote[1]) + 1} opens a quote that is not closed; close it, or write it twice within quotes"
    found = _RAGGED.fullmatch(text)
    if not found:
        return text
    line = found["line"] or found["row"]
    more = int(found["found"]) > int(found["wanted"])
    remedy = "put cells that hold the separator in quotes" if more else "give every line all of its cells"
    where = "a line" if line is None else f"line {line}"
    return f"{where} has {found['found']} cells where {found['wanted']} are expected; {remedy}"


# ---------------------------------------------------------------------- encodings


def _check_encoding(source: Source, encoding: str | None) -> None:
    """Refuse an encoding that does not exist, and without one bytes that cannot be UTF-8 text."""
    if encoding is not None:
        try:
            io.TextIOWrapper(io.BytesIO(), encoding)
        except LookupError as error:
            msg = f"encoding={encoding!r} is not an encoding of text; e.g. utf-8, utf-16, latin-1 or cp1252"
            raise ValueError(msg) from error
        return
    with source.open() as file:
        start = file.read(4096)
    guess = next((name for bom, name in _BOMS if start.startswith(bom)), None)
    if guess is None and b"\0" in start:
        even, odd = start[::2].count(0), start[1::2].count(0)
        few = len(start) // 8  # of western text every other byte is zero
        guess = "utf-16-le" if odd > 4 * even + few else "utf-16-be" if even > 4 * odd + few else None
        if guess is None:
            msg = f"{source.path} is not a {source.kind.upper()} table: it holds bytes that are zero; write it as plain text"
            raise ValueError(msg)
    if guess is not None:
        msg = f"{source.path} is {guess[:6].upper()} text, not UTF-8; give encoding={guess!r}"
        raise ValueError(msg)


def wrong_encoding(source: Source, encoding: str | None, error: Exception) -> str:
    """What is wrong, where, and what it looks like."""
    if encoding is not None:
        return f"{source.path} cannot be read with encoding={encoding!r}: {first_line(error)}; name another"
    with source.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as found:
                guess = "cp1252" if any(0x80 <= byte < 0xA0 for byte in line) else "latin-1"
                return (
                    f"{source.path} is not UTF-8 text: line {number} holds the byte 0x{line[found.start]:02x}. "
                    f"It looks like {_NAMES[guess]}; give encoding={guess!r}"
                )
    return f"{source.path} is not UTF-8 text: {first_line(error)}"
