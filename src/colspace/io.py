"""Tables in and out, and fitted estimators in files without pickle."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

_PACKAGES = ("colspace", "numpy", "scipy", "sklearn")
_SUFFIXES = ".csv, .csv.gz, .tsv, .tsv.gz, .parquet"

_SEPARATORS = (",", ";", "\t", "|")

PathLike = str | Path


def require(module: str, extra: str, purpose: str) -> Any:
    """A module, or an ImportError that names the extra it comes with."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = (
            f"{purpose} needs {module.split('.')[0]}, which is not installed: pip install 'colspace[{extra}]'"
        )
        raise ImportError(msg) from error


# ---------------------------------------------------------------------- tables


def _kind(path: PathLike) -> str:
    """The format that a path names: "csv", "tsv" or "parquet"."""
    name = str(path)
    if name == "-":
        return "csv"
    stem = name.lower().removesuffix(".gz")
    for suffix, kind in ((".csv", "csv"), (".tsv", "tsv")):
        if stem.endswith(suffix):
            return kind
    if name.lower().endswith((".parquet", ".pq")):
        return "parquet"
    msg = f"{name}: unknown kind of table; the name must end in one of {_SUFFIXES}, or be - for CSV"
    raise ValueError(msg)


def read_table(path: PathLike, *, text: Collection[str] = (), gaps: bool = True) -> Any:
    """Read a table as a pandas DataFrame.

    Parameters
    ----------
    path : str or Path
        CSV (``.csv``, ``.csv.gz``), tab-separated (``.tsv``) or Parquet by suffix; ``"-"`` is CSV on
        standard input. A text header that has another separator only (``;``, tab, ``,`` or ``|``) is read
        with that one, and spaces around names are left out; warnings say so.
    text : collection of str
        Columns of a text file to keep as they are written, such as identifiers with leading zeros.
    gaps : bool
        Whether empty fields and words such as NA are gaps in these columns too, or text like any other.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colspace.io import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("a,b\\n1,2\\n3,4\\n")
    >>> read_table(path).shape
    (2, 2)
    """
    kind = _kind(path)
    pandas = require("pandas", "cli", "reading tables")
    if str(path) != "-" and not Path(path).is_file():
        what = "is a directory" if Path(path).is_dir() else "does not exist"
        msg = f"{path} {what}"
        raise FileNotFoundError(msg)
    frame = _read_parquet(pandas, path) if kind == "parquet" else _read_text(pandas, path, kind, text, gaps)
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        msg = f"{path} is empty: {frame.shape[0]} rows, {frame.shape[1]} columns"
        raise ValueError(msg)
    return frame


def _read_parquet(pandas: Any, path: PathLike) -> Any:
    pyarrow = require("pyarrow", "cli", "reading Parquet")
    try:
        return pandas.read_parquet(path)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowIOError) as error:
        msg = f"{path} is not a Parquet file: {_first_line(error)}"
        raise ValueError(msg) from error


def _read_text(pandas: Any, path: PathLike, kind: str, text: Collection[str], gaps: bool) -> Any:
    expected = "\t" if kind == "tsv" else ","
    try:
        source: Any = io.StringIO(sys.stdin.read()) if str(path) == "-" else path
        header = _header_line(source)
        separator = _separator(header, expected)
        fields = [
            name or f"Unnamed: {i}" for i, name in enumerate(_fields(header, separator))
        ]  # pandas' name
        kept = {name: str for name in fields if name.strip() in text}
        frame = _read_csv(pandas, source, sep=separator, dtype=kept)
        note = f"{path}: the header holds no {expected!r}, so columns are separated at {separator!r}"
        if separator not in (expected, ",") and _count_numbers(frame) < frame.shape[1]:
            comma = _read_csv(pandas, source, sep=separator, dtype=kept, decimal=",")
            if _count_numbers(comma) > _count_numbers(frame):
                frame, note = comma, f"{note} and ',' is the decimal mark"
        if kept and not gaps:
            words = {"usecols": list(kept), "dtype": str, "keep_default_na": False}
            frame[list(kept)] = _read_csv(pandas, source, sep=separator, **words)[list(kept)]
    except pandas.errors.EmptyDataError as error:
        msg = f"{path} is empty: 0 rows, 0 columns"
        raise ValueError(msg) from error
    except (pandas.errors.ParserError, UnicodeDecodeError, EOFError) as error:
        msg = f"{path} is not a {kind.upper()} table: {_first_line(error)}"
        raise ValueError(msg) from error
    if separator != expected:
        _note(note)
    bare = [str(name).strip() for name in frame.columns]
    padded = [name for name, short in zip(frame.columns, bare, strict=True) if name != short]
    if padded and len(set(bare)) == len(bare):
        frame.columns = bare
        shown = ", ".join(map(repr, padded[:3])) + (", ..." if len(padded) > 3 else "")
        _note(f"{path}: spaces around {len(padded)} column name(s) are left out: {shown}")
    return frame


def _header_line(source: Any) -> str:
    """The first line."""
    if isinstance(source, io.StringIO):
        return source.readline().removeprefix("\ufeff")
    opened: Any = gzip.open if str(source).lower().endswith(".gz") else open
    with opened(source, "rt", encoding="utf-8-sig", errors="replace") as file:
        return str(file.readline())


def _fields(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator), [])


def _separator(header: str, expected: str) -> str:
    """The expected separator, unless the header is one column with it and several with another."""
    best = max((expected, *_SEPARATORS), key=lambda separator: len(_fields(header, separator)))
    return expected if len(_fields(header, expected)) > 1 else best


def _read_csv(pandas: Any, source: Any, **options: Any) -> Any:
    if isinstance(source, io.StringIO):
        source.seek(0)
    return pandas.read_csv(source, **options)


def _count_numbers(frame: Any) -> int:
    return int(frame.select_dtypes("number").shape[1])


def _note(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def write_table(frame: Any, path: PathLike) -> None:
    """Write a pandas DataFrame; the format goes by the suffix as in `read_table`, ``"-"`` is CSV on stdout.

    A plain range index is left out of text formats; any other index is written.

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
        frame.to_parquet(path)
        return
    plain = isinstance(frame.index, pandas.RangeIndex) and frame.index.start == 0 and frame.index.step == 1
    target = sys.stdout if str(path) == "-" else path
    frame.to_csv(target, sep="\t" if kind == "tsv" else ",", index=not plain)


def check_table_target(path: PathLike) -> str:
    """The format that `write_table` would write; refuses what it could not write."""
    kind = _kind(path)
    if kind == "parquet":
        require("pyarrow", "cli", "writing Parquet")
    if str(path) != "-":
        _check_target(path)
    return kind


def _check_target(path: PathLike) -> None:
    directory = Path(path).absolute().parent
    if not directory.is_dir():
        msg = f"{path} cannot be written: {directory} does not exist; make the directory first"
        raise FileNotFoundError(msg)
    if Path(path).is_dir():
        msg = f"{path} cannot be written: it is a directory; name a file in it"
        raise IsADirectoryError(msg)


# ---------------------------------------------------------------------- estimators


def save(estimator: Any, path: PathLike) -> None:
    """Write a fitted estimator or pipeline to a file that holds data only, no code (skops format).

    What `load` would refuse is refused here already: types outside colspace, numpy, scipy and
    scikit-learn, and functions without a name of their own such as lambdas.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colspace import JointReduction
    >>> from colspace.datasets import make_bilinear
    >>> from colspace.io import load, save
    >>> X, y, blocks, _ = make_bilinear(500, 5, 1, rng=0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> save(JointReduction(1, blocks=blocks).fit(X, y), path)
    >>> load(path).transform(X).shape
    (500, 2)
    """
    skops = check_model_target(path)
    data = skops.dumps(_rewrite(estimator, _freeze_keys))
    _check_trusted(skops.get_untrusted_types(data=data), f"{type(estimator).__name__} cannot be saved")
    Path(path).write_bytes(data)


def check_model_target(path: PathLike) -> Any:
    """The module that `save` writes with; refuses a path that it could not write."""
    _check_target(path)
    return require("skops.io", "save", "saving estimators")


def load(path: PathLike) -> Any:
    """Read an estimator written by `save`; files that name any other type are refused."""
    skops = require("skops.io", "save", "loading estimators")
    if not Path(path).is_file():
        msg = f"{path} does not exist"
        raise FileNotFoundError(msg)
    data = Path(path).read_bytes()
    try:
        types = skops.get_untrusted_types(data=data)
    except Exception as error:  # skops lets through whatever zip, JSON and its own nodes raise
        msg = f"{path} is not a file written by colspace.io.save: {_first_line(error)}"
        raise ValueError(msg) from error
    _check_trusted(types, f"{path} was not loaded")
    return _rewrite(skops.loads(data, trusted=types), _thaw_keys)


def _check_trusted(types: list[str], what: str) -> None:
    refused = sorted(name for name in types if not _is_ours(name))
    if refused:
        msg = (
            f"{what}: it holds types that are not part of colspace, numpy, scipy or scikit-learn: "
            f"{', '.join(refused)}"
        )
        raise TypeError(msg)


def _is_ours(name: str) -> bool:
    """Whether a dotted name is a class (or a function of colspace) defined in one of the trusted packages."""
    module, _, attribute = name.rpartition(".")
    package = module.split(".")[0]
    if package not in _PACKAGES or any(part.startswith("__") for part in module.split(".")):
        return False
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        return False
    home = str(getattr(found, "__module__", "")).split(".")[0]
    if isinstance(found, FunctionType):
        return home == package == "colspace"
    return isinstance(found, type) and home in _PACKAGES


# skops writes JSON, whose mappings have text keys; moments are keyed by pairs of blocks.


@dataclass(frozen=True)
class _PairKeys:
    """A mapping with keys that JSON does not have, as two lists."""

    keys: list[Any]
    values: list[Any]


def _freeze_keys(value: Any) -> Any:
    if type(value) is dict and any(isinstance(key, tuple) for key in value):
        return _PairKeys([list(key) for key in value], list(value.values()))
    return value


def _thaw_keys(value: Any) -> Any:
    if isinstance(value, _PairKeys):
        return {tuple(key): item for key, item in zip(value.keys, value.values, strict=True)}
    return value


def _rewrite(value: Any, change: Callable[[Any], Any]) -> Any:
    """``change`` applied throughout an estimator, on copies of whatever contains a change."""
    value = change(value)
    if type(value) in (list, tuple):
        items = [_rewrite(item, change) for item in value]
        return value if _same(items, value) else type(value)(items)
    if type(value) is dict:
        found = {key: _rewrite(item, change) for key, item in value.items()}
        return value if _same(found.values(), value.values()) else found
    ours = type(value).__module__.split(".")[0] == "colspace" or isinstance(value, BaseEstimator)
    if ours and not isinstance(value, type | FunctionType | np.ndarray) and hasattr(value, "__dict__"):
        state = {key: _rewrite(item, change) for key, item in vars(value).items()}
        if not _same(state.values(), vars(value).values()):
            copy = object.__new__(type(value))
            vars(copy).update(state)
            return copy
    return value


def _same(left: Any, right: Any) -> bool:
    return all(a is b for a, b in zip(left, right, strict=True))
