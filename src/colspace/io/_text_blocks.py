"""Large tables of text as batches of Arrow: blocks of whole lines, parsed by a few threads."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

from .._threads import in_threads

_MOST_THREADS = 4  # more would wait for whoever takes the batches
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
            blocks = PlainBlocks(file, size)
            try:
                with ThreadPoolExecutor(min(_MOST_THREADS, pa.cpu_count())) as pool:
                    for _, table in in_threads(pool, self._parsed, blocks):
                        yield from table.to_batches()
            except pa.ArrowInvalid:
                for _ in self._one_by_one(file, 0, size):  # tells the line
                    pass
                raise
            start = blocks.rest
        if start is not None:
            yield from self._one_by_one(file, start, size)

    def _parsed(self, lines: bytes) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        read = csv.ReadOptions(block_size=len(lines), use_threads=False, **self._read)
        return csv.read_csv(pa.BufferReader(lines), read, self._parse(), self._convert)

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


class PlainBlocks:
    """Whole lines of a file, about so many bytes at once, as long as they hold no quote; ``rest`` is where that ends."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size
        self.rest: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Blocks from where the file stands."""
        while lines := self.file.read(self.size):
            lines += self.file.readline()
            if b'"' in lines:
                self.rest = self.file.tell() - len(lines)
                return
            if not lines.isspace():
                yield lines
