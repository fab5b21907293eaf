"""Fitted estimators in files that hold data only, no code.

A file is skops' zip archive with one member more, ``colspace.json``: the format's version, the versions that wrote it, the
columns, and what the writer said about the model. Files without it, from before, load as well.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from inspect import signature
from pathlib import Path
from types import FunctionType
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .. import __version__
from ._extras import require
from ._files import PathLike, check_target, replacing
from ._text import first_line

FORMAT = 1
_HEADER = "colspace.json"
_PACKAGES = ("colspace", "numpy", "scipy", "sklearn")
#: Functions that pipelines of `colspace atoms` hold, of one DataFrame each.
_FUNCTIONS = tuple(f"colspace.cli._atoms_table.{name}" for name in ("join_texts", "as_levels", "as_numbers"))
#: Rooms of scikit-learn whose classes are parts of estimators.
_INNER = (
    "sklearn.tree._",
    "sklearn.ensemble._hist_gradient_boosting.",
    "sklearn._loss.",
    "sklearn.metrics._dist_metrics",
    "sklearn.neighbors._",
    "sklearn.gaussian_process.kernels",
    "sklearn.calibration",
)
#: Packages of scikit-learn that hold no estimator, and import what they are called after.
_BRIDGES = tuple(f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch"))
_SPARSE = ("csr_array", "csr_matrix", "csc_array", "csc_matrix")
_ARRAY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_HEADERS = 76  # bytes of a zip file that every member takes beside its content


def save(estimator: Any, path: PathLike, *, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator or pipeline to a file that holds data only, no code (skops format).

    What `load` would refuse is refused here already: types outside colspace, numpy, scipy and
    scikit-learn, and functions without a name of their own such as lambdas.

    Parameters
    ----------
    estimator : fitted estimator or pipeline.
    path : the file; replaced when the new one is whole.
    about : what `info` gives back besides versions and columns: numbers, texts, lists and mappings of these.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colspace import JointReduction
    >>> from colspace.datasets import make_bilinear
    >>> from colspace.io import info, load, save
    >>> X, y, blocks, _ = make_bilinear(500, 5, 1, rng=0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> save(JointReduction(1, blocks=blocks).fit(X, y), path, about={"rows": 500})
    >>> load(path).transform(X).shape
    (500, 2)
    >>> info(path)["estimator"], info(path)["about"]
    ('JointReduction', {'rows': 500})
    """
    skops = check_model_target(path)
    data = _with_header(skops.dumps(_rewrite(estimator, _freeze)), _header(estimator, about))
    what = f"{type(estimator).__name__} cannot be saved"
    _check_trusted(skops.get_untrusted_types(data=data), what)
    try:
        _check_sizes(data)
    except ValueError as error:
        msg = f"{what}: {error}"
        raise ValueError(msg) from error
    with replacing(path) as file:
        file.write(data)


def check_model_target(path: PathLike) -> Any:
    """The module that `save` writes with; refuses a path that it could not write."""
    check_target(path)
    return _skops("saving estimators")


def _skops(purpose: str) -> Any:
    """skops, which has scikit-learn import all its packages to know its estimators; two of them would bring torch and Dask along."""
    left_out = [name for name in _BRIDGES if name not in sys.modules]
    sys.modules.update(dict.fromkeys(left_out))  # type: ignore[arg-type]  # None: cannot be imported for now
    try:
        return require("skops.io", "save", purpose)
    finally:
        for name in left_out:
            del sys.modules[name]


def _header(estimator: Any, about: Mapping[str, Any] | None) -> dict[str, Any]:
    first = estimator
    while hasattr(first, "steps"):
        first = first.steps[0][1]
    names = getattr(first, "feature_names_in_", None)
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    width = getattr(first, "n_features_in_", None)
    return {
        "format": FORMAT,
        "estimator": type(last).__name__,
        "columns": None if names is None else [str(name) for name in names],
        "n_features": None if width is None else int(width),
        "versions": {
            "colspace": __version__,
            **{
                name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn", "skops")
            },
        },
        "about": {} if about is None else dict(about),
    }


def _with_header(data: bytes, header: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(header, allow_nan=False)
    except (TypeError, ValueError) as error:
        msg = f"about={header['about']!r} cannot be written as JSON ({error}); give finite numbers, texts, lists and mappings of these"
        raise ValueError(msg) from error
    archive = io.BytesIO(data)
    with ZipFile(archive, "a", ZIP_STORED) as members:
        members.writestr(_HEADER, text)
    return archive.getvalue()


def info(path: PathLike) -> dict[str, Any]:
    """What a file written by `save` says of itself; the model is not loaded.

    ``estimator`` (name of the class, the last of a pipeline), ``columns`` (names at fit, or None), ``n_features``, ``versions``,
    ``format`` and ``about``. A file from before this had a header gives ``format`` 0 and nothing else known.
    """
    data = _read(path)
    return _sound(path, lambda: _checked_header(path, data))


def _checked_header(path: PathLike, data: bytes) -> dict[str, Any]:
    _check_sizes(data)
    with ZipFile(io.BytesIO(data)) as archive:
        if _HEADER not in archive.namelist():
            return _typed({})
        header = json.loads(archive.read(_HEADER))
    form = header.get("format") if isinstance(header, dict) else None
    if not isinstance(form, int) or isinstance(form, bool) or form < 1:
        msg = f"its header has the format {form!r}"
        raise ValueError(msg)
    if form > FORMAT:
        versions = header.get("versions")
        by = versions.get("colspace", "?") if isinstance(versions, dict) else "?"
        msg = f"{path} was written by colspace {by} in format {form}; this is {__version__}, which reads up to {FORMAT}: upgrade colspace"
        raise NewerFileError(msg)
    return _typed(header)


def _typed(header: Mapping[str, Any]) -> dict[str, Any]:
    """A header whose entries are of the types that `save` writes; what it lacks is None or empty."""
    empty: dict[str, Any] = {
        "format": 0,
        "estimator": None,
        "columns": None,
        "n_features": None,
        "versions": {},
        "about": {},
    }
    found = {name: header.get(name, nothing) for name, nothing in empty.items()}
    columns, versions = found["columns"], found["versions"]
    sound = {
        "estimator": found["estimator"] is None or isinstance(found["estimator"], str),
        "columns": columns is None
        or (isinstance(columns, list) and all(isinstance(c, str) for c in columns)),
        "n_features": found["n_features"] is None or type(found["n_features"]) is int,
        "versions": isinstance(versions, dict) and all(isinstance(v, str) for v in versions.values()),
        "about": isinstance(found["about"], dict),
    }
    for name, well in sound.items():
        if not well:
            msg = f"its header has {name} {str(found[name])[:40]!r}"
            raise ValueError(msg)
    return found


class NewerFileError(ValueError):
    """A file written by a later version of colspace."""


def _read(path: PathLike) -> bytes:
    if not Path(path).exists() or Path(path).is_dir():
        what = "is a directory" if Path(path).is_dir() else "does not exist"
        msg = f"{path} {what}"
        raise FileNotFoundError(msg)
    return Path(path).read_bytes()


def load(path: PathLike) -> Any:
    """Read an estimator written by `save`.

    Files that name any other type are refused with a TypeError, files that are damaged or were written otherwise with a
    ValueError; both name the file. One of a later version of colspace says so. Sizes are checked before anything is unpacked: the
    content is never larger than the file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colspace import CopulaImputer, load, save
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> save(CopulaImputer(1), path)
    >>> load(path)
    CopulaImputer(n_components=1)
    """
    skops = _skops("loading estimators")
    data = _read(path)
    _sound(path, lambda: _checked_header(path, data))
    types = _sound(path, lambda: skops.get_untrusted_types(data=data))
    _check_trusted(types, f"{path} was not loaded")
    return _sound(path, lambda: _rewrite(skops.loads(data, trusted=types), _thaw))


def _sound(path: PathLike, read: Callable[[], Any]) -> Any:
    """The outcome of ``read``; whatever zip, JSON, numpy, scipy and skops raise on a damaged file is one error."""
    try:
        return read()
    except (MemoryError, NewerFileError):
        raise
    except Exception as error:
        msg = f"{path} is damaged or not a file written by colspace.io.save: {first_line(error)}; save the model again"
        raise ValueError(msg) from error


def _check_sizes(data: bytes) -> None:
    """Refuse what would be larger in memory than it is in the file.

    `save` stores members as they are, so the sizes in the directory add up to less than the file. Arrays must have the size that
    their header says, and each is read for one object only.
    """
    with ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if len({member.filename for member in members}) < len(members):
            msg = "it holds a member twice"
            raise ValueError(msg)
        for member in members:
            if not re.fullmatch(r"[\w-]+\.[a-z]+", member.filename):
                msg = f"it holds a member {member.filename[:40]!r}, which no model has"
                raise ValueError(msg)
            if member.compress_type != ZIP_STORED or member.compress_size != member.file_size:
                msg = f"{member.filename} is compressed, {member.compress_size:,} bytes for {member.file_size:,}"
                raise ValueError(msg)
        if sum(member.file_size + _HEADERS for member in members) > len(data):
            msg = f"its {len(members)} members are larger than the file"
            raise ValueError(msg)
        for member in members:
            _check_member(archive, member)
        _check_references(json.loads(archive.read("schema.json")))


def _check_member(archive: ZipFile, member: ZipInfo) -> None:
    kind = member.filename.rpartition(".")[2]
    if kind == "npz":
        msg = f"{member.filename} is a sparse matrix of its own format; convert it with tocsr() before saving"
        raise ValueError(msg)
    if kind != "npy":
        return
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in _ARRAY_HEADERS:
            msg = f"{member.filename} is an array of version {version}, which is not known"
            raise ValueError(msg)
        shape, _, dtype = _ARRAY_HEADERS[version](file)
        claimed, there = dtype.itemsize, member.file_size - file.tell()
    for length in shape:
        claimed *= length
    if claimed != there:
        msg = f"{member.filename} claims {claimed:,} bytes of an array and has {there:,}"
        raise ValueError(msg)


def _check_references(schema: Any) -> None:
    """Every member is read for one object, as skops reads it again for each."""
    owners: dict[str, Any] = {}
    nodes = [schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            name, owner = node.get("file"), node.get("__id__")
            if (
                isinstance(name, str)
                and "__loader__" in node
                and (not owner or owners.setdefault(name, owner) != owner)
            ):
                msg = f"{name} stands for several objects"
                raise ValueError(msg)
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)


def _check_trusted(types: list[str], what: str) -> None:
    refused = sorted(name for name in types if not _is_ours(name))
    if refused:
        msg = (
            f"{what}: it holds types that are neither estimators nor data of colspace, numpy, scipy or scikit-learn: "
            f"{', '.join(refused)}"
        )
        raise TypeError(msg)


def _is_ours(name: str) -> bool:
    """Whether a dotted name is a class that only holds data, or one of our functions that pipelines of colspace hold.

    Being part of a trusted package is not enough: an object is made without its constructor and with any state, and classes
    that clean up after themselves would then remove whatever that state names.
    """
    module, _, attribute = name.rpartition(".")
    package = module.split(".")[0]
    if package not in _PACKAGES or any(part.startswith("__") for part in module.split(".")):
        return False
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        return False
    if isinstance(found, FunctionType):
        return name in _FUNCTIONS
    if not isinstance(found, type) or hasattr(found, "__del__"):
        return False
    home = found.__module__
    if home.split(".")[0] != package:
        return False
    if package == "colspace":
        named = issubclass(found, tuple) and hasattr(found, "_fields")
        return issubclass(found, BaseEstimator) or is_dataclass(found) or named
    if package == "sklearn":
        return issubclass(found, BaseEstimator) or home.startswith(_INNER)
    if package == "scipy":
        return issubclass(found, sparse.sparray | sparse.spmatrix)
    return issubclass(found, np.generic | np.dtype)


# skops writes JSON, whose mappings have text keys, while moments are keyed by pairs of blocks; and it compresses sparse
# matrices, whose size in memory would not be known before they are unpacked.


@dataclass(frozen=True)
class _PairKeys:
    """A mapping with keys that JSON does not have, as two lists."""

    keys: list[Any]
    values: list[Any]


@dataclass(frozen=True)
class _SparseParts:
    """A compressed sparse matrix or array as the arrays that it is made of."""

    kind: str
    shape: list[int]
    arrays: list[Any]


def _freeze(value: Any) -> Any:
    if type(value) is dict and any(isinstance(key, tuple) for key in value):
        return _PairKeys([list(key) for key in value], list(value.values()))
    if sparse.issparse(value) and type(value).__name__ in _SPARSE:
        parts = [value.data, value.indices, value.indptr]
        return _SparseParts(type(value).__name__, [int(n) for n in value.shape], parts)
    return value


def _thaw(value: Any) -> Any:
    if isinstance(value, _PairKeys):
        return {tuple(key): item for key, item in zip(value.keys, value.values, strict=True)}
    if isinstance(value, _SparseParts):
        if value.kind not in _SPARSE:
            msg = f"{value.kind!r} is not a kind of sparse matrix"
            raise ValueError(msg)
        matrix = getattr(sparse, value.kind)(tuple(value.arrays), shape=tuple(value.shape))
        matrix.check_format(full_check=True)  # indices that point outside would be read outside
        return matrix
    if isinstance(value, BaseEstimator) and type(value).__module__.split(".")[0] == "colspace":
        for name, parameter in signature(type(value)).parameters.items():
            if parameter.default is not parameter.empty:  # parameters that came after the model
                vars(value).setdefault(name, parameter.default)
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
