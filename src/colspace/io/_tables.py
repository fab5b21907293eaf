"""Tables in and out."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

from ._arrow_text import write_words
from ._extras import require
from ._files import PathLike, check_target, replacing
from ._source import Source, kind_of, open_source
from ._text import first_line, read_text, refuse_twice


def read_table(
    path: PathLike, *, text: Collection[str] = (), gaps: bool = True, encoding: str | None = None
) -> Any:
    """Read a table as a pandas DataFrame.

    Parameters
    ----------
    path : str or Path
        CSV (``.csv``, ``.csv.gz``), tab-separated (``.tsv``), Parquet or Arrow (``.arrow``, file or stream) by suffix.
        Standard input (``"-"``) and pipes are any of these, told apart by their first bytes. A text header that has another
        separator only (``;``, tab, ``,`` or ``|``) is read with that one, and spaces around names are left out; warnings
        say so. Names that stand twice are refused.
    text : collection of str
        Columns of a text file to keep as they are written, such as identifiers with leading zeros.
    gaps : bool
        Whether empty fields and words such as NA are gaps in these columns too, or text like any other.
    encoding : str
        Encoding of a text file, by default UTF-8 with or without a byte order mark. What looks like UTF-16 or Latin-1 is
        named in the error.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colspace.io import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("a,b\\n1,2\\n3,4\\n")
    >>> read_table(path).shape
    (2, 2)
    """
    require("pandas", "cli", "reading tables")
    source = open_source(path)
    check_encoding([source], encoding)
    return read_source(source, text=text, gaps=gaps, encoding=encoding)


def check_encoding(sources: Collection[Source], encoding: str | None) -> None:
    """Refuse an encoding where no table is text."""
    if encoding is not None and not any(source.is_text for source in sources):
        names = ", ".join(str(source.path) for source in sources)
        msg = f"encoding={encoding!r} is about text, and {names} has its own; leave it out"
        raise ValueError(msg)


def read_source(
    source: Source, *, text: Collection[str] = (), gaps: bool = True, encoding: str | None = None
) -> Any:
    """`read_table` of a source that is open already; ``encoding`` is for text."""
    pandas = require("pandas", "cli", "reading tables")
    if source.is_text:
        frame = read_text(pandas, source, text=text, gaps=gaps, encoding=encoding)
    else:
        frame = read_arrow(source).to_pandas()
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        msg = f"{source.path} is empty: {frame.shape[0]} rows, {frame.shape[1]} columns"
        raise ValueError(msg)
    return frame


def read_arrow(source: Source) -> Any:
    """A Parquet or Arrow source as a pyarrow Table."""
    what = "a Parquet" if source.kind == "parquet" else "an Arrow"
    pyarrow = require("pyarrow", "cli", f"reading {what} file")
    try:
        with source.open() as file:
            if source.kind == "parquet":
                from pyarrow import parquet

                opened = parquet.ParquetFile(file)
                refuse_twice(source, opened.schema_arrow.names)
                return opened.read(use_pandas_metadata=True)
            start = file.read(6)
            file.seek(0)
            reader = (pyarrow.ipc.open_file if start == b"ARROW1" else pyarrow.ipc.open_stream)(file)
            refuse_twice(source, reader.schema.names)
            return reader.read_all()
    except (pyarrow.ArrowException, OSError) as error:
        msg = f"{source.path} is not {what} file: {first_line(error)}"
        raise ValueError(msg) from error


def write_table(frame: Any, path: PathLike) -> None:
    """Write a pandas DataFrame; the format goes by the suffix as in `read_table`, ``"-"`` is CSV on stdout.

    A plain range index is left out of text formats; any other index is written. The file takes the place of what was there
    when it is whole. Cells are written as they are, also those that a spreadsheet would run as a formula.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.io import write_table
    >>> write_table(pd.DataFrame({"a": [1, 2]}), "-")
    a
    1
    2
    """
    kind = check_table_target(path)
    pandas = require("pandas", "cli", "writing tables")
    if kind == "parquet":
        with replacing(path) as file:
            frame.to_parquet(file)
        return
    plain = isinstance(frame.index, pandas.RangeIndex) and frame.index.start == 0 and frame.index.step == 1
    layout = {"sep": "\t" if kind == "tsv" else ",", "index": not plain}
    if str(path) == "-":
        frame.to_csv(sys.stdout, **layout)
        return
    zipped = str(path).lower().endswith(".gz")
    with replacing(path) as file:
        if zipped or not plain or not write_words(pandas, frame, file, layout["sep"]):
            frame.to_csv(file, compression="gzip" if zipped else None, **layout)


def check_table_target(path: PathLike) -> str:
    """The format that `write_table` would write; refuses what it could not write."""
    kind = kind_of(path)
    if kind == "arrow":
        msg = f"{path}: unknown kind of table to write; the name must end in .csv, .csv.gz, .tsv, .tsv.gz or .parquet"
        raise ValueError(msg)
    if kind == "parquet":
        require("pyarrow", "cli", "writing Parquet")
    if str(path) != "-":
        check_target(path)
    return kind
