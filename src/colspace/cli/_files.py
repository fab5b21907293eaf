"""What all commands do with files before they read the first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click


def check_files(
    inputs: Iterable[str | None],
    *,
    report: str | None = None,
    as_json: str | None = None,
    out: Iterable[str | None] = (),
    model: str | Path | None = None,
    folder: Path | None = None,
    names: Iterable[str] = (),
) -> None:
    """Refuse inputs that are not there, and outputs that could not be written, or that are an input or another output.

    ``out`` are the tables of --out and ``model`` the file of --save; ``folder`` is the directory of --out, to be made if it is
    missing, and ``names`` are the files written in it.
    """
    from ..io import check_table_target
    from ..io._files import check_apart, check_directory, check_target
    from ..io._source import parts_of

    given, tables = ([path for path in paths if path is not None] for paths in (inputs, out))
    if as_json == "-" and "-" in tables:
        msg = "--json - and --out - both write to standard output; choose one"
        raise click.UsageError(msg)
    if report is not None:
        _check_report(report)
    if as_json is not None and as_json != "-":
        check_target(as_json)
    if folder is not None:
        check_directory(folder)
    inside = [("--out", folder / name) for name in names] if folder is not None else []
    outputs: list[tuple[str, str | Path | None]] = [("--out", path) for path in tables]
    outputs += [("--save", model), *inside, ("--report", report), ("--json", as_json)]
    check_apart([str(part) for path in given for part in parts_of(path)], outputs)
    _check_outside(given, outputs)
    for path in tables:
        check_table_target(path)
    if model is not None:
        from ..io import check_model_target

        inner = folder is not None and Path(model).absolute().parent == folder.absolute()
        made = folder is None or folder.exists()
        check_model_target(model if made or not inner else Path(model).name)  # the directory is made later
    for _, file in inside:
        if file.parent.exists():
            check_target(file)


def _check_outside(inputs: Iterable[str], outputs: Iterable[tuple[str, str | Path | None]]) -> None:
    """Refuse a table written into a folder that is read, of which it would be a part the next time."""
    folders = [Path(path).resolve() for path in inputs if path != "-" and Path(path).is_dir()]
    for option, path in outputs:
        if path is None or str(path) == "-":
            continue
        for folder in folders:
            if Path(path).resolve().is_relative_to(folder):
                msg = f"{path} lies in {folder.name}, a folder that is read; give {option} another place"
                raise ValueError(msg)


def _check_report(path: str) -> None:
    from ..io import require
    from ..io._files import check_target

    for module in ("jinja2", "altair", "vl_convert"):
        require(module, "report", "--report")
    check_target(path)


def given_command() -> str:
    """The command line as it can be pasted."""
    import shlex
    import sys

    return shlex.join(["colspace", *sys.argv[1:]])
