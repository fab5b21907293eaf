"""Large tables a chunk of rows at a time, read by pyarrow, and results written as they come."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arrow_text import GAPS
from ._extras import require
from ._files import PathLike, replacing, write_out
from ._source import Source
from ._tables import check_columns, check_table_target, json_lines, packing, plain_table
from ._text import Layout, first_line, layout_of, read_text, telling_cell, wrong_encoding
from ._text_blocks import TextReader

LARGE = 64 << 20  # bytes from which a table is read in chunks
_BLOCK = 1 << 21  # bytes of text that are parsed at once
_START = 1 << 18  # bytes of text that types are told from
_CELLS = 1 << 19  # of a chunk
_LOOK = 16 << 20  # bytes that tell what a table holds
_PACKED = 4  # how much smaller packed text is


@dataclass(frozen=True)
class Stream:
    """A table in one or more files of the same columns, read as often as wanted."""

    sources: Sequence[Source]
    names: tuple[str, ...]
    layout: Layout | None
    decimal: str
    truth: frozenset[str]
    marks: tuple[str, ...] = ()
    numeric: frozenset[str] = frozenset()  # columns of text whose first cells are numbers

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str], *, block: int = _BLOCK
    ) -> Iterator[Any]:
        """Record batches of pyarrow with these columns; ``types`` are those of text files: "number" or "text"."""
        pyarrow = require("pyarrow", "cli", "reading large tables")
        for source in self.sources:
            try:
                yield from self._of(source, columns, types, block)
            except (pyarrow.ArrowException, OSError, EOFError, UnicodeError) as error:
                if isinstance(error, UnicodeError) or "invalid UTF8" in str(error):
                    raise ValueError(wrong_encoding(source, _encoding(self), error)) from error
                msg = f"{source.path} is not a {source.kind.upper()} table: {first_line(error)}"
                raise ValueError(msg) from error

    def _of(
        self, source: Source, columns: Sequence[str], types: Mapping[str, str], block: int
    ) -> Iterator[Any]:
        import pyarrow as pa

        if source.is_text:
            yield from self._text(source, columns, types, block)
            return
        if source.kind == "parquet":
            from pyarrow import parquet

            with source.open() as file:
                opened = parquet.ParquetFile(file)
                check_columns(self.sources[0], self.names, source, _columns(opened.schema_arrow))
                rows = max(1, _CELLS // max(1, len(columns)))
                for batch in opened.iter_batches(batch_size=rows, columns=list(dict.fromkeys(columns))):
                    yield batch.select(list(columns))
            return
        plain = source.content is None
        with pa.memory_map(str(source.path)) if plain else source.open() as file:
            reader = _arrow_reader(file)
            check_columns(self.sources[0], self.names, source, _columns(reader.schema))
            for batch in reader:
                yield batch.select(list(columns))

    def _text(
        self, source: Source, columns: Sequence[str], types: Mapping[str, str], block: int
    ) -> Iterator[Any]:
        import pyarrow as pa

        layout = self.layout if source is self.sources[0] else layout_of(_pandas(), source, _encoding(self))
        assert layout is not None
        names = [name.strip() or name for name in layout.fields]
        check_columns(self.sources[0], self.names, source, names)
        kinds = {
            name: pa.string() if types[name] == "text" else pa.bool_() if name in self.truth else pa.float64()
            for name in columns
        }
        reader = TextReader(
            *(names, kinds, layout.separator, layout.encoding, self.decimal), gaps=(*GAPS, *self.marks)
        )
        with source.open() as file:
            yield from reader.batches(file, block)

    def start(self, columns: Sequence[str]) -> Iterator[Any]:
        """Rows of a text file as text, those of others as they are, until every column has had a cell."""
        without = list(columns)
        for rows in self.chunks(columns, dict.fromkeys(columns, "text"), max(1, _CELLS // len(self.names))):
            yield rows
            without = [name for name in without if not words(rows.column(name), self.marks).notna().any()]
            if not without:
                return

    def chunks(
        self, columns: Sequence[str], types: Mapping[str, str], wanted: int | None = None
    ) -> Iterator[Any]:
        """Tables of pyarrow of so many rows, or of about half a million cells; columns have other types in other files."""
        import pyarrow as pa

        held: list[Any] = []
        rows, wanted = 0, wanted or max(1, _CELLS // max(1, len(columns)))
        for batch in self.batches(columns, types, block=self.block):
            if held and batch.schema != held[0].schema:
                yield pa.Table.from_batches(held)
                held, rows = [], 0
            for first in range(0, batch.num_rows, wanted):
                held.append(batch.slice(first, wanted))
                rows += held[-1].num_rows
                if rows >= wanted:
                    yield pa.Table.from_batches(held)
                    held, rows = [], 0
        if rows:
            yield pa.Table.from_batches(held)

    @property
    def rows(self) -> int:
        """How many rows there are, of text by the length of the first."""
        count = 0.0
        for source in self.sources:
            if source.kind == "parquet":
                from pyarrow import parquet

                with source.open() as file:
                    count += parquet.ParquetFile(file).metadata.num_rows
            elif source.is_text:
                with source.open() as file:
                    start = file.readlines(_START)
                count += _size(source) * len(start) / max(1, sum(map(len, start)))
            else:
                count += _size(source) / (8 * len(self.names))
        return int(count)

    @property
    def block(self) -> int:
        """Bytes to parse at once: many rows of the first file."""
        first = self.sources[0]
        if not first.is_text:
            return _BLOCK
        with first.open() as file:
            longest = max(map(len, file.readlines(_START)), default=0)
        return min(1 << 30, max(_BLOCK, 32 * longest))


def open_stream(
    sources: Sequence[Source], marks: Sequence[str] = (), encoding: str | None = None
) -> Stream | None:
    """A table as a stream; None where it is small, or of a kind that pyarrow does not read in chunks as pandas does."""
    if not is_large(sources):
        return None
    first = sources[0]
    if first.is_text:
        pandas = _pandas()
        layout = layout_of(pandas, first, encoding)
        if any("\n" in name or "\r" in name for name in layout.fields):
            return None
        names = tuple(name.strip() or name for name in layout.fields)
        start = _first_rows(pandas, first, encoding)
        decimal = "." if start is None else _decimal(pandas, first, layout, encoding)
        stream = Stream(sources, names, layout, decimal, frozenset(), tuple(marks))
        if start is None:
            return stream
        truth, told = start.select_dtypes("bool"), start.select_dtypes("number").dropna(axis=1, how="all")
        return replace(stream, truth=frozenset(map(str, truth)), numeric=frozenset(map(str, told)))
    if first.kind == "jsonl":
        return None
    if first.kind == "parquet":
        from pyarrow import parquet

        with first.open() as file:
            schema = parquet.ParquetFile(file).schema_arrow
    else:
        with first.open() as file:
            schema = _arrow_reader(file).schema
    return Stream(sources, tuple(_columns(schema)), None, ".", frozenset(), tuple(marks))


def first_rows(sources: Sequence[Source], encoding: str | None = None, size: int = _LOOK) -> Any:
    """A frame of the first rows of a large table and about how many rows it has; None where the table is not large."""
    stream = open_stream(sources, encoding=encoding)
    if stream is None:
        return None
    if stream.layout is not None:
        frame = read_text(_pandas(), _start(sources[0], size), text=(), gaps=True, encoding=encoding)
    else:
        import pyarrow as pa

        held, count = [], 0
        for chunk in stream.chunks(stream.names, {}):
            held.append(chunk)
            count += 8 * chunk.num_rows * chunk.num_columns
            if count >= size:
                break
        frame = plain_table(pa.concat_tables(held), sources[0]).to_pandas()
    return frame, max(stream.rows, len(frame))


def is_large(sources: Sequence[Source]) -> bool:
    """Whether the tables take more than `LARGE` bytes, as text or in memory."""
    pyarrow = require("pyarrow", "cli", "reading tables")
    size = 0
    for source in sources:
        if source.kind == "parquet":
            from pyarrow import parquet

            with source.open() as file:
                try:
                    found = parquet.ParquetFile(file).metadata
                except (pyarrow.ArrowException, OSError):  # whoever reads it says so
                    return False
            size += 8 * found.num_rows * found.num_columns
        else:
            size += _size(source)
    return size >= LARGE


def _size(source: Source) -> int:
    """Bytes, of packed text about as many as it has."""
    held = len(source.content) if source.content is not None else Path(source.path).stat().st_size
    return held * (_PACKED if source.zipped else 1)


def _pandas() -> Any:
    return require("pandas", "cli", "reading tables")


def _encoding(stream: Stream) -> str | None:
    return None if stream.layout is None or stream.layout.encoding == "utf-8" else stream.layout.encoding


def _columns(schema: Any) -> list[str]:
    """Names of columns without those that are pandas' labels of rows."""
    told = schema.pandas_metadata or {}
    labels = {name for name in told.get("index_columns", []) if isinstance(name, str)}
    return [name for name in schema.names if name not in labels]


def _arrow_reader(file: Any) -> Any:
    """Batches of an Arrow file or stream."""
    import pyarrow as pa

    start = file.read(6)
    file.seek(0)
    if start != b"ARROW1":
        return pa.ipc.open_stream(file)
    opened = pa.ipc.open_file(file)
    batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
    return pa.RecordBatchReader.from_batches(opened.schema, batches)


def _start(source: Source, size: int = _START) -> Source:
    """The first rows of a text file as a source of their own."""
    with source.open() as file:
        text = file.read(size)
    whole = text[: text.rfind(b"\n") + 1] or text
    return replace(source, content=whole, zipped=False)


def _first_rows(pandas: Any, source: Source, encoding: str | None) -> Any:
    """A frame of the first rows, which tells of separators; None where they cannot be told apart."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* fewer cells than the header")  # which are refused
            return read_text(pandas, _start(source), text=(), gaps=True, encoding=encoding)
    except ValueError:
        return None


def _decimal(pandas: Any, source: Source, layout: Layout, encoding: str | None) -> str:
    """The decimal mark, as `read_text` finds it: a comma where that makes more numbers."""
    if layout.separator in (layout.expected, ","):
        return "."
    options = {"sep": layout.separator, "encoding": layout.encoding}
    counts = {}
    for mark in (".", ","):
        with _start(source).open() as file:
            frame = pandas.read_csv(file, decimal=mark, **options)
        counts[mark] = frame.select_dtypes("number").shape[1]
    return "," if counts[","] > counts["."] else "."


# ---------------------------------------------------------------------- numbers


def numbers(table: Any, columns: Sequence[str], marks: Sequence[str] = ()) -> NDArray[np.float64]:
    """Columns of a pyarrow table side by side, rows one after the other; gaps are NaN."""
    X = np.empty((table.num_rows, len(columns)))
    places, first = [table.schema.get_field_index(name) for name in columns], 0
    for batch in table.to_batches():
        cells = np.empty(
            (len(columns), batch.num_rows)
        )  # rows of it are quick to write, and it stays in the cache
        for row, place in zip(cells, places, strict=True):
            column = batch.column(place)
            row[:] = (
                column.to_numpy(zero_copy_only=False)
                if column.null_count == 0
                else column.to_pandas().to_numpy(float, na_value=np.nan)
            )
        X[first : first + batch.num_rows] = cells.T
        first += batch.num_rows
    for mark in marks:
        try:
            X[float(mark) == X] = np.nan
        except ValueError:
            continue
    return X


def words(column: Any, marks: Sequence[str] = ()) -> Any:
    """A column of pyarrow as pandas has it; text that stands for a gap is one."""
    found = column.to_pandas()
    return found if found.dtype.kind in "biufM" else found.mask(found.isin([*GAPS, *marks]))


def odd_cells(table: Any, columns: Sequence[str], stream: Stream) -> dict[str, str]:
    """Columns of text that hold other than numbers, each with an example."""
    import pandas as pd

    found = {}
    for name in columns:
        cells = words(table.column(name), stream.marks).dropna().astype(str)
        if stream.decimal != ".":
            cells = cells.str.replace(stream.decimal, ".", regex=False)
        odd = cells[pd.to_numeric(cells, errors="coerce").isna()]
        if len(odd):
            found[name] = telling_cell(odd)
    return found


def give_back() -> None:
    """Return to the system what reading has used: Arrow and the C library would keep it beside what comes next."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.pythonapi, "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


# ---------------------------------------------------------------------- out


def write_chunks(frames: Iterable[Any], path: PathLike) -> int:
    """Write frames of pandas one under the other, as `write_table` would write them together; how many rows."""
    kind = check_table_target(path)
    if str(path) == "-":
        return sum(
            _written(write_out, _text_of(frame, kind, i == 0), frame) for i, frame in enumerate(frames)
        )
    with replacing(path) as file:
        if kind in ("parquet", "arrow"):
            return _write_arrow(frames, file, kind)
        with gzip.open(file, "wb") if packing(path) else nullcontext(file) as opened:
            return sum(
                _written(opened.write, _text_of(frame, kind, i == 0).encode(), frame)
                for i, frame in enumerate(frames)
            )


def _text_of(frame: Any, kind: str, first: bool) -> str:
    if kind == "jsonl":
        return json_lines(frame)
    return str(frame.to_csv(sep="\t" if kind == "tsv" else ",", index=False, header=first))


def _written(write: Callable[[Any], Any], text: str | bytes, frame: Any) -> int:
    write(text)
    return len(frame)


def _write_arrow(frames: Iterable[Any], file: Any, kind: str) -> int:
    """Batches with the types of the first."""
    import pyarrow as pa
    from pyarrow import parquet

    rows, schema = 0, None
    with ExitStack() as opened:
        for frame in frames:
            table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
            if schema is None:
                schema = table.schema
                new = parquet.ParquetWriter if kind == "parquet" else pa.ipc.new_file
                writer = opened.enter_context(new(file, schema))
            writer.write_table(table)
            rows += len(frame)
    return rows
