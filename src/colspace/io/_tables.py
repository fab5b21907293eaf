"""Tables in and out."""

from __future__ import annotations

import gzip
import json
import math
import warnings
from collections.abc import Collection, Sequence
from typing import Any, Literal

from ._arrow_text import write_words
from ._extras import require
from ._files import PathLike, check_target, replacing, write_out
from ._source import Source, kind_of, open_sources
from ._text import first_line, read_text, refuse_twice

_ROWS = 1 << 16  # written to standard output at once
_WHAT = {"parquet": "a Parquet", "arrow": "an Arrow", "jsonl": "a JSON lines"}


def read_table(
    path: PathLike, *, text: Collection[str] = (), gaps: bool = True, encoding: str | None = None
) -> Any:
    """Read a table as a pandas DataFrame.

    Parameters
    ----------
    path : str or Path
        CSV (``.csv``), tab-separated (``.tsv``) or JSON lines (``.jsonl``), each also packed (``.gz``), Parquet or Arrow
        (``.arrow``, file or stream) by suffix. A folder or a pattern (``data/*.parquet``) is one table in several files, which
        must have the same columns. Standard input (``"-"``) and pipes are any of these, told apart by their first bytes. A text
        header that has another separator only (``;``, tab, ``,`` or ``|``) is read with that one, and spaces around names are
        left out; warnings say so. Names that stand twice are refused.
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
    sources = open_sources(path)
    check_encoding(sources, encoding)
    return read_sources(sources, text=text, gaps=gaps, encoding=encoding)


def check_encoding(sources: Collection[Source], encoding: str | None) -> None:
    """Refuse an encoding where no table is text."""
    if encoding is not None and not any(source.is_text for source in sources):
        names = ", ".join(str(source.path) for source in sources)
        msg = f"encoding={encoding!r} is about text, and {names} has its own; leave it out"
        raise ValueError(msg)


def read_sources(
    sources: Sequence[Source], *, text: Collection[str] = (), gaps: bool = True, encoding: str | None = None
) -> Any:
    """The table that several sources make, one under the other."""
    if len(sources) == 1:
        return read_source(sources[0], text=text, gaps=gaps, encoding=encoding)
    pandas = require("pandas", "cli", "reading tables")
    frames: list[Any] = []
    for source in sources:
        frame = read_source(source, text=text, gaps=gaps, encoding=encoding)
        if frames:
            check_columns(sources[0], [str(c) for c in frames[0].columns], source, map(str, frame.columns))
        frames.append(frame)
    return pandas.concat(frames, ignore_index=True)


def check_columns(first: Source, wanted: Collection[str], source: Source, there: Any) -> None:
    """Refuse a part whose columns are not those of the first, all of them named."""
    found = list(there)
    lost, more = [c for c in wanted if c not in set(found)], [c for c in found if c not in set(wanted)]
    if lost or more:
        lacks = f"lacks {', '.join(map(repr, lost))}" if lost else ""
        has = f"has {', '.join(map(repr, more))} besides" if more else ""
        both = " and ".join(part for part in (lacks, has) if part)
        msg = f"{source.path} {both}, unlike {first.path}: parts of one table have the same columns"
        raise ValueError(msg)


def read_source(
    source: Source, *, text: Collection[str] = (), gaps: bool = True, encoding: str | None = None
) -> Any:
    """`read_table` of a source that is open already; ``encoding`` is for text."""
    pandas = require("pandas", "cli", "reading tables")
    if source.is_text:
        frame = read_text(pandas, source, text=text, gaps=gaps, encoding=encoding)
    else:
        frame = plain_table(read_arrow(source), source).to_pandas()
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        msg = f"{source.path} is empty: {frame.shape[0]} rows, {frame.shape[1]} columns"
        raise ValueError(msg)
    return frame


def read_arrow(source: Source) -> Any:
    """A Parquet, Arrow or JSON lines source as a pyarrow Table."""
    what = _WHAT[source.kind]
    pyarrow = require("pyarrow", "cli", f"reading {what} file")
    try:
        with source.open() as file:
            if source.kind == "jsonl":
                return _read_json(pyarrow, source, file)
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
    except (pyarrow.ArrowException, OSError, EOFError) as error:
        msg = f"{source.path} is not {what} file: {first_line(error)}"
        raise ValueError(msg) from error


def _read_json(pyarrow: Any, source: Source, file: Any) -> Any:
    """Records; a line must fit into a block, so blocks grow until it does."""
    from pyarrow import json as records

    if not file.read(64).strip():
        return pyarrow.table({})
    block = 1 << 20
    while True:
        file.seek(0)
        try:
            return records.read_json(file, records.ReadOptions(block_size=block))
        except pyarrow.ArrowInvalid as error:
            if "straddling" not in str(error) or block >= 1 << 30:
                raise
            block *= 16


def plain_table(table: Any, source: Source) -> Any:
    """Decimals, and columns without any cell and so without a type, as floats; lists and records, which are no cells, as their text."""
    import pyarrow as pa

    nested = []
    for i, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) or pa.types.is_null(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
        elif pa.types.is_nested(field.type):
            cells = [
                None if cell is None else json.dumps(cell, default=str)
                for cell in table.column(i).to_pylist()
            ]
            table = table.set_column(i, field.name, pa.array(cells, pa.string()))
            nested.append(field.name)
    if nested:
        warnings.warn(
            f"{source.path}: lists and records are taken as text: {', '.join(map(repr, nested))}",
            stacklevel=3,
        )
    return table


# ---------------------------------------------------------------------- out


def write_table(frame: Any, path: PathLike) -> None:
    """Write a pandas DataFrame; the format goes by the suffix as in `read_table`, ``"-"`` is CSV on stdout.

    A plain range index is left out of text and Arrow; any other index is written. The file takes the place of what was there
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
    if kind in ("arrow", "jsonl"):
        frame = frame if plain else frame.reset_index()
        with replacing(path) as file:
            if kind == "arrow":
                _write_arrow(frame, file)
            else:
                text = json_lines(frame).encode("utf-8")
                file.write(gzip.compress(text) if packing(path) else text)
        return
    separator = "\t" if kind == "tsv" else ","
    layout = {"sep": separator, "index": not plain}
    if str(path) == "-":
        for start in range(0, max(1, len(frame)), _ROWS):
            write_out(frame.iloc[start : start + _ROWS].to_csv(header=start == 0, **layout))
        return
    with replacing(path) as file:
        words = plain and packing(path) is None and write_words(pandas, frame, file, separator)
        if not words:
            frame.to_csv(file, compression=packing(path), **layout)


def packing(path: PathLike) -> Literal["gzip"] | None:
    """How a file is packed, by its name."""
    return "gzip" if str(path).lower().endswith(".gz") else None


def json_lines(frame: Any) -> str:
    """A record a line, with all digits of its numbers; what is missing or infinite is null, dates are in ISO form.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.io._tables import json_lines
    >>> json_lines(pd.DataFrame({"a": [1 / 3, None], "b": ["x", None]}))
    '{"a":0.3333333333333333,"b":"x"}\\n{"a":null,"b":null}\\n'
    """
    names = [json.dumps(str(name), ensure_ascii=False) for name in frame.columns]
    columns = [_json_cells(frame.iloc[:, j]) for j in range(frame.shape[1])]
    lines = ("{" + ",".join(map("{}:{}".format, names, row)) + "}\n" for row in zip(*columns, strict=True))
    return "".join(lines)


def _json_cells(column: Any) -> list[str]:
    if column.dtype.kind == "f":
        values = column.to_numpy(dtype=float, na_value=math.nan).tolist()
        return [repr(value) if math.isfinite(value) else "null" for value in values]
    values = json.loads(column.to_json(orient="values", date_format="iso", double_precision=15))
    return [json.dumps(value, ensure_ascii=False) for value in values]


def _write_arrow(frame: Any, file: Any) -> None:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def check_table_target(path: PathLike) -> str:
    """The format that `write_table` would write; refuses what it could not write."""
    kind = kind_of(path)
    if kind in ("parquet", "arrow"):
        require("pyarrow", "cli", f"writing {kind.capitalize()}")
    if str(path) != "-":
        check_target(path)
    return kind
