"""Large tables of text as batches of Arrow: blocks of whole lines, parsed by a few threads."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

from .._threads import in_threads

_MOST_THREADS = 4  # more would wait for whoever takes the batches
_AHEAD = 1 << 27  # bytes of text that may be parsed before they are asked for
_PLAIN = ("utf-8", "ascii", "iso8859-1", "cp1252")  # encodings in which the byte of a line's end is one


@dataclass(frozen=True)
class TextReader:
    """How Arrow is to read lines: names of all columns, types of those that are wanted, words that stand for gaps."""

    names: Sequence[str]
    types: Mapping[str, Any]
    separator: str
    encoding: str
    decimal: str
    gaps: Sequence[str]

    def batches(self, file: BinaryIO, size: int) -> Iterator[Any]:
        """Record batches of the rows under the header, from blocks of so many bytes.

        Lines without quotes are cut anywhere and parsed side by side; from the first quote on, which may hold a line
        break, one block after the other.
        """
        import pyarrow as pa

        start: int | None = 0
        if codecs.lookup(self.encoding).name in _PLAIN and b"\n" in file.read(size):
            file.seek(0)
            file.readline()
            start = None
            ahead = _AHEAD // size if _is_plain(file) else 0  # what is unpacked is held until it is taken
            pool = ThreadPoolExecutor(min(_MOST_THREADS, pa.cpu_count()))
            try:
                for block, found in in_threads(pool, self._parsed, blocks_of(file, size), ahead):
                    if found is None:
                        start = block.start
                        break
                    yield from found
            except pa.ArrowInvalid:
                for _ in self._one_by_one(file, 0, size):  # tells the line
                    pass
                raise
            finally:
                pool.shutdown(cancel_futures=True)
        if start is not None:
            yield from self._one_by_one(file, start, size)

    def _parsed(self, block: Block) -> Any:
        """Batches of the lines of a block; None where it holds a quote."""
        import pyarrow as pa
        from pyarrow import csv

        lines = block.read()
        if b'"' in lines:
            return None
        if lines.isspace() and not lines.strip(b"\r\n"):  # which copies
            return []
        read = csv.ReadOptions(block_size=len(lines), use_threads=False, **self._read)
        return csv.read_csv(pa.BufferReader(lines), read, self._parse(), self._convert).to_batches()

    def _one_by_one(self, file: BinaryIO, start: int, size: int) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import csv

        file.seek(start)
        read = csv.ReadOptions(block_size=size, use_threads=False, skip_rows=int(start == 0), **self._read)
        with pa.PythonFile(file, mode="r") as opened:
            yield from csv.open_csv(opened, read, self._parse(newlines_in_values=True), self._convert)

    @property
    def _read(self) -> dict[str, Any]:
        return {"encoding": self.encoding, "column_names": list(self.names)}

    def _parse(self, **options: Any) -> Any:
        from pyarrow import csv

        return csv.ParseOptions(delimiter=self.separator, **options)

    @property
    def _convert(self) -> Any:
        from pyarrow import csv

        return csv.ConvertOptions(
            column_types=dict(self.types),
            include_columns=list(self.types),
            null_values=list(self.gaps),
            decimal_point=self.decimal,
        )


@dataclass(frozen=True)
class Block:
    """Whole lines of a file, from one byte to another: those of its descriptor, or what was read of it."""

    start: int
    end: int
    held: bytes | int

    def read(self) -> bytes:
        """The lines."""
        if isinstance(self.held, bytes):
            return self.held
        found = os.pread(self.held, self.end - self.start, self.start)
        while len(found) < self.end - self.start:
            more = os.pread(self.held, self.end - self.start - len(found), self.start + len(found))
            if not more:
                msg = "the file has become shorter while it was read"
                raise OSError(msg)
            found += more
        return found


def blocks_of(file: BinaryIO, size: int) -> Iterator[Block]:
    """Blocks of at least so many bytes, from where the file stands; plain files are read by whoever takes the block."""
    plain = _is_plain(file)
    end = os.fstat(file.fileno()).st_size if plain else 0
    start = file.tell()
    while True:
        if plain:
            file.seek(min(start + size, end))
            file.readline()
            block = Block(start, file.tell(), file.fileno())
        else:
            lines = file.read(size) + file.readline()
            block = Block(start, start + len(lines), lines)
        if block.end == start:
            return
        yield block
        start = block.end


def _is_plain(file: BinaryIO) -> bool:
    """Whether the bytes of a file can be read by several threads."""
    return isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO) and hasattr(os, "pread")
