"""Where the bytes of a table are, and what they are."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ._files import PathLike, is_stream

_SUFFIXES = ".csv, .csv.gz, .tsv, .tsv.gz, .parquet"
_MAGIC = ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"))
_GZIP = b"\x1f\x8b"


def kind_of(path: PathLike) -> str:
    """The format that a name stands for: "csv", "tsv", "parquet" or "arrow"."""
    name = str(path).lower()
    if name == "-":
        return "csv"
    stem = name.removesuffix(".gz")
    for suffix, kind in ((".csv", "csv"), (".tsv", "tsv")):
        if stem.endswith(suffix):
            return kind
    for suffix, kind in ((".parquet", "parquet"), (".pq", "parquet"), (".arrow", "arrow")):
        if name.endswith(suffix):
            return kind
    msg = f"{path}: unknown kind of table; the name must end in one of {_SUFFIXES}, or be - for CSV"
    raise ValueError(msg)


@dataclass(frozen=True)
class Source:
    """A table before it is parsed: ``content`` holds the bytes of a stream, which can be read once; files stay files."""

    path: PathLike
    kind: str
    content: bytes | None
    zipped: bool

    @property
    def is_text(self) -> bool:
        """Whether it is lines of text, CSV or TSV."""
        return self.kind in ("csv", "tsv")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes from the beginning, unpacked; as often as wanted."""
        with io.BytesIO(self.content) if self.content is not None else Path(self.path).open("rb") as file:
            if not self.zipped:
                yield file
                return
            with gzip.open(file) as unpacked:
                yield unpacked  # type: ignore[misc]


def open_source(path: PathLike) -> Source:
    """The source that a path names, "-" for standard input; streams are read here and told apart by content."""
    stream = str(path) == "-" or is_stream(path)
    kind = None if stream else kind_of(path)
    if kind is not None and not Path(path).is_file():
        what = "is a directory" if Path(path).is_dir() else "does not exist"
        msg = f"{path} {what}"
        raise FileNotFoundError(msg)
    content = None
    if stream:
        content = _standard_input() if str(path) == "-" else Path(path).read_bytes()
        start = content[:8]
    else:
        with Path(path).open("rb") as file:
            start = file.read(8)
    found = next((name for magic, name in _MAGIC if start.startswith(magic)), None)
    if kind is None:
        kind = found or ("tsv" if str(path).lower().endswith(".tsv") else "csv")
    elif found and found != kind:
        msg = f"{path} holds {found.capitalize()} by its content; name it .{found}"
        raise ValueError(msg)
    return Source(path, kind, content, zipped=start.startswith(_GZIP) and kind in ("csv", "tsv"))


def _standard_input() -> bytes:
    stream: Any = sys.stdin
    if hasattr(stream, "buffer"):
        return bytes(stream.buffer.read())
    return str(stream.read()).encode("utf-8")
