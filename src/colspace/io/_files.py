"""Files that are written whole or not at all, and never over one that is read."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

PathLike = str | Path

_STREAMS = ("/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")


def is_stream(path: PathLike) -> bool:
    """Whether a path is there and neither a file nor a directory: a pipe, a terminal, /dev/null."""
    target = Path(path)
    if str(target.absolute()).startswith(_STREAMS):
        return target.exists()
    return target.exists() and not target.is_file() and not target.is_dir()


# ---------------------------------------------------------------------- before anything is read


def check_target(path: PathLike) -> None:
    """Refuse a path that `replacing` could not write."""
    if Path(path).is_dir():
        msg = f"{path} cannot be written: it is a directory; name a file in it"
        raise IsADirectoryError(msg)
    if is_stream(path):
        return
    real = _real(path)
    if not real.parent.is_dir():
        what = "is not a directory" if real.parent.exists() else "does not exist"
        msg = f"{path} cannot be written: {real.parent} {what}; make the directory first"
        raise FileNotFoundError(msg)
    if real.exists() and not os.access(real, os.W_OK):
        msg = f"{path} cannot be written: it is there and write-protected; name another file"
        raise PermissionError(msg)
    _check_writable(path, real.parent)


def check_directory(path: PathLike) -> None:
    """Refuse a directory in which no file could be written, also one that has yet to be made."""
    real = _real(path)
    there = next(folder for folder in (real, *real.parents) if folder.exists())
    if not there.is_dir():
        msg = f"{path} cannot be written to: {there} is not a directory; name another"
        raise NotADirectoryError(msg)
    _check_writable(path, there)


def _check_writable(path: PathLike, folder: Path) -> None:
    """Refuse a folder in which no file can be made; rights alone do not tell, as in /proc."""
    try:
        if os.access(folder, os.W_OK | os.X_OK):
            with TemporaryFile(dir=folder):
                return
    except OSError:
        pass
    msg = f"{path} cannot be written: new files are not allowed in {folder}; name another directory"
    raise PermissionError(msg)


def check_apart(inputs: Iterable[str | None], outputs: Iterable[tuple[str, PathLike | None]]) -> None:
    """Refuse an output that is an input or another output, be it by path, by link or by inode.

    ``outputs`` are pairs of an option and the path given with it; "-" is standard input or output, None is left out.
    """
    sources = [(path, _identity(path, sys.stdin)) for path in inputs if path is not None]
    taken: list[tuple[str, PathLike, set[Any]]] = []
    for option, target in outputs:
        if target is None:
            continue
        identity = _identity(target, sys.stdout)
        for path, source in sources:
            if identity & source:
                into, read = (_name(p, way) for p, way in ((target, "output"), (path, "input")))
                itself = "itself" if into == read else f"itself ({read})"
                msg = f"{into} is the table {itself}, which is never overwritten; give {option} another name"
                raise ValueError(msg)
        for other, name, found in taken:
            if identity & found:
                msg = f"{other} and {option} are both {name}; give one of them another name"
                raise ValueError(msg)
        taken.append((option, target, identity))


def _name(path: PathLike, way: str) -> str:
    return f"standard {way}" if str(path) == "-" else str(path)


def _identity(path: PathLike, stream: Any) -> set[Any]:
    """What tells a file from others: its path without links, device and inode; nothing for a stream."""
    if str(path) == "-":
        try:
            found = os.fstat(stream.fileno())
        except (OSError, ValueError, AttributeError):  # not a stream of the system
            return set()
        return {(found.st_dev, found.st_ino)} if stat.S_ISREG(found.st_mode) else set()
    if is_stream(path) and not Path(path).is_file():
        return set()
    known: set[Any] = {os.path.normcase(_real(path))}
    with suppress(OSError):
        found = Path(path).stat()
        known.add((found.st_dev, found.st_ino))
    return known


def _real(path: PathLike) -> Path:
    """The file or directory that a path leads to, links followed."""
    return Path(os.path.realpath(path))


# ---------------------------------------------------------------------- writing


@dataclass(frozen=True)
class _Pending:
    """Files that are written and wait for their names, and folders made for them, the innermost first."""

    files: list[tuple[Path, Path]] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)


_pending: ContextVar[_Pending | None] = ContextVar("colspace_pending", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Files written within take their places when the block ends well, all of them; after an error none does.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colspace.io._files import together, write_text
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> try:
    ...     with together():
    ...         write_text("whole", folder / "a.txt")
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     print(list(folder.iterdir()))
    []
    """
    if _pending.get() is not None:  # part of a larger whole
        yield
        return
    pending = _Pending()
    token = _pending.set(pending)
    try:
        yield
        while pending.files:
            beside, real = pending.files[0]
            beside.replace(real)
            pending.files.pop(0)
    except BaseException:
        for beside, _ in pending.files:
            beside.unlink(missing_ok=True)
        _remove(pending.folders)
        raise
    finally:
        _pending.reset(token)


def _remove(folders: Iterable[Path]) -> None:
    """Folders that are still empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


@contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """A binary file that takes the place of ``path`` when the block ends well; after an error nothing has changed.

    It lies beside the file that ``path`` leads to, under another name, and gets the permissions of the one it replaces. Pipes
    and the like are written to as they are.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colspace.io._files import replacing
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.txt"
    >>> _ = path.write_text("before")
    >>> try:
    ...     with replacing(path) as file:
    ...         _ = file.write(b"half of")
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     print(path.read_text(), len(list(path.parent.iterdir())))
    before 1
    """
    check_target(path)
    try:
        if is_stream(path):
            with Path(path).open("wb") as file:
                yield file
            return
        real = _real(path)
        beside = real.with_name(f".colspace-{secrets.token_hex(8)}.tmp")
        try:
            with beside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # a full disk may show only now
            _take_over(beside, real)
            if (pending := _pending.get()) is not None:
                pending.files.append((beside, real))
            else:
                beside.replace(real)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def _take_over(new: Path, old: Path) -> None:
    """Permissions and, where allowed, the owner of the file that is replaced."""
    if not old.exists():
        return
    shutil.copymode(old, new)
    before, after = old.stat(), new.stat()
    if hasattr(os, "chown") and (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid):
        with suppress(OSError):
            os.chown(new, before.st_uid, before.st_gid)


def write_out(text: str) -> None:
    """Write to standard output; where its reader has left, as ``head`` does, the rest goes nowhere."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        leave_out()


def leave_out() -> None:
    """Let standard output lead nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def write_text(text: str, path: PathLike) -> None:
    """Write text as UTF-8."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def write_picture(figure: Any, path: PathLike, dpi: int = 150) -> None:
    """Write a matplotlib figure; the format goes by the suffix."""
    with replacing(path) as file:
        figure.savefig(file, format=Path(path).suffix.removeprefix("."), dpi=dpi)


@contextmanager
def directory(path: Path) -> Iterator[None]:
    """A directory to write in, made if it is missing; if the block fails, what was made and is still empty goes."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    if (pending := _pending.get()) is not None:
        pending.folders[:0] = made
    try:
        yield
    except BaseException:
        _remove(made)
        raise
