"""Where the bytes of a table are, and what they are."""

from __future__ import annotations

import glob
import gzip
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ._files import PathLike, is_stream

_TEXT = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}  # these may be packed
_BINARY = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow"}
_SUFFIXES = ".csv, .tsv, .jsonl (these also with .gz), .parquet, .arrow"
_MAGIC = ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"))
_GZIP = b"\x1f\x8b"


def kind_of(path: PathLike) -> str:
    """The format that a name stands for: "csv", "tsv", "jsonl", "parquet" or "arrow"."""
    name = str(path).lower()
    if name == "-":
        return "csv"
    kind = _kind(name)
    if kind is None:
        sheet = name.endswith((".xlsx", ".xls", ".ods", ".numbers"))
        remedy = "; save the sheet as CSV" if sheet else ""
        msg = (
            f"{path}: unknown kind of table; the name must end in one of {_SUFFIXES}, or be - for CSV{remedy}"
        )
        raise ValueError(msg)
    return kind


def _kind(name: str) -> str | None:
    stem = name.removesuffix(".gz")
    found = next((kind for suffix, kind in _TEXT.items() if stem.endswith(suffix)), None)
    return found or next((kind for suffix, kind in _BINARY.items() if name.endswith(suffix)), None)


@dataclass(frozen=True)
class Source:
    """A table before it is parsed: ``content`` holds the bytes of a stream, which can be read once; files stay files."""

    path: PathLike
    kind: str
    content: bytes | None
    zipped: bool

    @property
    def is_text(self) -> bool:
        """Whether it is lines of text with a separator, CSV or TSV."""
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
    if not stream and not Path(path).is_file():
        if Path(path).suffix:
            kind_of(path)
        what = "is a directory" if Path(path).is_dir() else "does not exist"
        msg = f"{path} {what}"
        raise FileNotFoundError(msg)
    kind = None if stream else kind_of(path)
    content = None
    if stream:
        content = _standard_input() if str(path) == "-" else Path(path).read_bytes()
        start = content[:8]
    else:
        with Path(path).open("rb") as file:
            start = file.read(8)
    found = next((name for magic, name in _MAGIC if start.startswith(magic)), None)
    zipped = start.startswith(_GZIP) and found is None
    if kind is None:
        kind = found or _text_kind(path, content or b"", zipped=zipped)
    elif found and found != kind:
        msg = f"{path} holds {found.capitalize()} by its content; name it .{found}"
        raise ValueError(msg)
    return Source(path, kind, content, zipped=zipped and kind in _TEXT.values())


def _text_kind(path: PathLike, content: bytes, *, zipped: bool) -> str:
    """What a stream of text holds: records begin with a brace, and a name may tell of tabs."""
    if zipped:
        try:
            with gzip.open(io.BytesIO(content)) as unpacked:
                content = unpacked.read(64)
        except (OSError, EOFError):
            content = b""
    start = content[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    return "tsv" if str(path).lower().endswith(".tsv") else "csv"


def _standard_input() -> bytes:
    stream: Any = sys.stdin
    if hasattr(stream, "buffer"):
        return bytes(stream.buffer.read())
    return str(stream.read()).encode("utf-8")


# ---------------------------------------------------------------------- tables in several files


def parts_of(path: PathLike) -> list[PathLike]:
    """The files of a table: one, those of a folder, or those that a pattern such as ``data/part-*.csv`` matches, in order.

    A folder is searched to its bottom; names that begin with a dot or an underscore are left out, as are files that are no
    tables. Numbers in names count as such: part-2 comes before part-10.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colspace.io._source import parts_of
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("part-10.csv", "part-2.csv", "_SUCCESS", "notes.txt"):
    ...     _ = (folder / name).write_text("a,b\\n1,2\\n")
    >>> [pathlib.Path(part).name for part in parts_of(folder)]
    ['part-2.csv', 'part-10.csv']
    """
    if str(path) == "-" or Path(path).is_file() or is_stream(path):
        return [path]
    if Path(path).is_dir():
        found = [str(p) for p in Path(path).rglob("*") if not _hidden(p.relative_to(path)) and p.is_file()]
        where = f"{path} is a folder without tables"
    elif any(mark in str(path) for mark in "*?["):
        found = [name for name in glob.glob(str(path), recursive=True) if Path(name).is_file()]  # noqa: PTH207
        where = f"{path} matches no table"
    else:
        return [path]
    tables = [name for name in found if _kind(name.lower()) is not None]
    if not tables:
        msg = f"{where}; names end in one of {_SUFFIXES}"
        raise FileNotFoundError(msg)
    kinds = sorted({str(_kind(name.lower())) for name in tables})
    if len(kinds) > 1:
        msg = f"{path} holds tables of several kinds ({', '.join(kinds)}); name those of one, e.g. '{Path(path) / '*.csv'}'"
        raise ValueError(msg)
    tables.sort(key=_in_order)
    return [*tables]


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _in_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def open_sources(path: PathLike) -> list[Source]:
    """The sources of a table's files."""
    return [open_source(part) for part in parts_of(path)]
