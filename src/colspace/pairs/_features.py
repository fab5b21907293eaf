"""Tables of entity features: checks, names, and a container that scikit-learn can split by entity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from .._containers import as_table
from .._overflow import overflow_error
from .._rows import is_dask
from ._links import shown

Array = NDArray[np.float64]

SIDES = ("left", "right")
TABLE = {"left": "A", "right": "B"}
_LARGEST = 1e150  # distances beyond this have squares that float64 cannot hold


@dataclass(frozen=True)
class Features:
    """Features of the entities of one side: values, the entities' names (None: positions), columns (None: none)."""

    values: Array
    names: Any
    columns: list[str] | None

    def label(self, i: Any) -> Any:
        """Name of an entity, or its position."""
        return int(i) if self.names is None else self.names[i]

    def labels(self) -> Any:
        """Names of all entities, or their positions."""
        return np.arange(len(self.values)) if self.names is None else self.names


def check_features(X: Any, side: str) -> Features:
    """A table of features as float64, with names when it has some."""
    table = TABLE[side]
    if is_dask(X):
        msg = (
            f"{table} is a Dask collection ({type(X).__name__}), but features of entities are held in memory; give "
            f"{table}.compute()"
        )
        raise TypeError(msg)
    if sparse.issparse(X):
        msg = (
            f"{table} is sparse, but features are centred and must be dense. Remedies: {table}.toarray(), or a few "
            "components of it (sklearn.decomposition.TruncatedSVD, colspace.pairs.spectral_features)"
        )
        raise TypeError(msg)
    read = as_table(X, table)
    names, columns = index_of(X), read.names
    values = check_array(read.values, dtype=np.float64, ensure_all_finite=False, input_name=table)
    if names is not None:
        twice = names[names.duplicated()].unique()
        if len(twice):
            msg = f"{len(twice)} entities stand twice in {table}: {shown(list(twice))}; keep one row of each"
            raise ValueError(msg)
    missing = np.isnan(values)
    found = Features(values, names, columns)
    bare = np.flatnonzero(missing.all(axis=1))
    if bare.size:
        msg = (
            f"{bare.size} entities of {table} have no features at all: {shown([found.label(i) for i in bare])}. "
            f"Leave them out of {table} and Y, or give them features"
        )
        raise ValueError(msg)
    if missing.any():
        rows = np.flatnonzero(missing.any(axis=1))
        msg = (
            f"{table} contains NaN: {int(missing.sum())} values of {rows.size} entities, e.g. "
            f"{shown([found.label(i) for i in rows])}. colspace.CopulaImputer can fill them: "
            f"{table} = CopulaImputer().fit_transform({table})"
        )
        raise ValueError(msg)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values).any(axis=1))[0])
        msg = f"{table} contains infinity, first for entity {found.label(row)!r}; replace it by a number"
        raise ValueError(msg)
    return found


def index_of(X: Any) -> Any:
    """The row labels of a pandas DataFrame, unless they merely count."""
    index = getattr(X, "index", None)
    if index is None or not hasattr(X, "iloc"):
        return None
    return None if _counts(index) else index


def _counts(index: Any) -> bool:
    """Whether row labels are 0, 1, 2, ... because nobody gave any."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def check_same_columns(found: Features, side: str, width: int, columns: list[str] | None) -> None:
    """Refuse features other than those of fit."""
    table = TABLE[side]
    if found.values.shape[1] != width:
        msg = f"{table} has {found.values.shape[1]} features, but {width} were given to fit"
        raise ValueError(msg)
    if columns is not None and found.columns is not None and found.columns != columns:
        wrong = next(i for i, (a, b) in enumerate(zip(found.columns, columns, strict=True)) if a != b)
        msg = (
            f"columns of {table} differ from those of fit: column {wrong} is {found.columns[wrong]!r}, in fit it was "
            f"{columns[wrong]!r}. Give them in the same order"
        )
        raise ValueError(msg)


def check_same_names(Y: Any, left: Features, right: Features, table: str = "Y") -> None:
    """Refuse a DataFrame of scores whose labels are not the entities in their order; labels that count name nothing."""
    if not hasattr(Y, "iloc") or not hasattr(Y, "columns"):
        return
    for labels, features, what in (
        (Y.index, left, f"rows of {table} and A"),
        (Y.columns, right, f"columns of {table} and B"),
    ):
        ours, theirs = list(features.labels()), list(labels)
        if ours == theirs or _counts(labels) or (features.names is None and features.columns is None):
            continue
        if set(ours) == set(theirs):
            msg = f"{what} name the same entities in another order; use {table}.loc[A.index, B.index]"
            raise ValueError(msg)
        if features.names is not None:
            known = set(ours)
            odd = [n for n in theirs if n not in known] or theirs
            msg = (
                f"{what} name different entities, e.g. {shown(odd)}; use "
                f"{table}.reindex(index=A.index, columns=B.index)"
            )
            raise ValueError(msg)


@dataclass(frozen=True, eq=False)
class PairTable:
    """Left features, right features and scores as one table whose rows are the left entities.

    scikit-learn's splitters and searches take it as X: they keep some left entities with their scores, and all
    right ones. Estimators of this module take it in ``fit`` and ``predict``.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.pairs import PairTable
    >>> table = PairTable(np.eye(4), np.eye(3), np.ones((4, 3)))
    >>> len(table), table[[0, 2]].Y.shape
    (4, (2, 3))
    """

    A: Any
    B: Any
    Y: Any
    mask: Any = None
    sample_weight: Any = None

    def __post_init__(self) -> None:
        for name in ("Y", "mask", "sample_weight"):
            if sparse.issparse(getattr(self, name)):
                object.__setattr__(self, name, sparse.csr_array(getattr(self, name)))
        if len(self) != self.Y.shape[0]:
            msg = f"A has {len(self)} entities, but Y has {self.Y.shape[0]} rows; they must agree"
            raise ValueError(msg)

    @property
    def shape(self) -> tuple[int, int]:
        """Left entities and left features."""
        return tuple(self.A.shape)

    def __len__(self) -> int:
        return int(self.A.shape[0])

    def __getitem__(self, rows: Any) -> PairTable:
        if isinstance(rows, tuple):  # scikit-learn asks for [rows, ...]
            rows = rows[0]
        whole = (self.Y, self.mask, self.sample_weight)
        parts = (p if p is None or isinstance(p, str) else _take(p, rows) for p in whole)
        return PairTable(_take(self.A, rows), self.B, *parts)


def _take(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def sides(A: Any, B: Any) -> tuple[Any, Any]:
    """A and B, those of a PairTable where A is one."""
    if not isinstance(A, PairTable):
        return A, B
    if B is not None:
        msg = "a PairTable holds B itself; give it alone"
        raise TypeError(msg)
    return A.A, A.B


def unpack(A: Any, B: Any, Y: Any, mask: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any, Any]:
    """A, B, Y, mask and weights from a PairTable, or as they are."""
    if isinstance(A, PairTable):
        if any(given is not None for given in (B, Y, mask, sample_weight)):
            msg = "a PairTable holds B, Y, mask and sample_weight itself; call fit(table) alone"
            raise TypeError(msg)
        return A.A, A.B, A.Y, A.mask, A.sample_weight
    if B is None or Y is None:
        msg = "fit needs the features of both sides and the scores: fit(A, B, Y), or fit(PairTable(A, B, Y))"
        raise TypeError(msg)
    return A, B, Y, mask, sample_weight


def embedded(embed: Callable[[Array], Array], found: Features) -> Array:
    """Coordinates of entities; refuses, by column, those so far off that they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = embed(found.values)
    if not np.isfinite(out).all():
        raise overflow_error(found.values, found.columns)
    return out


def refuse_overflow(found: Features, side: str) -> None:
    """Refuse features whose squares float64 cannot hold, by name."""
    with np.errstate(over="ignore"):
        reach = np.abs(found.values - found.values[0]).max(axis=0)
    if (reach > _LARGEST).any():
        j = int(np.argmax(reach))
        i = int(np.argmax(np.abs(found.values[:, j] - found.values[0, j])))
        i = i if abs(found.values[i, j]) >= abs(found.values[0, j]) else 0
        name = j if found.columns is None else found.columns[j]
        msg = (
            f"the covariance of {TABLE[side]} overflows: column {name!r} has the value {found.values[i, j]:.6g} (entity "
            f"{found.label(i)!r}), more than {_LARGEST:g} away from others. Remedy: rescale the column "
            "(sklearn.preprocessing.StandardScaler), or look for a wrong cell"
        )
        raise ValueError(msg)


def filled(X: Any, side: str) -> tuple[Any, Any]:
    """Features with gaps filled by a copula of the columns, and the imputer."""
    from ..copula import CopulaImputer

    refuse_bare(X, side)
    imputer = CopulaImputer(random_state=0).fit(X)
    return fill_with(imputer, X), imputer


def fill_with(imputer: Any, X: Any) -> Any:
    """Features with gaps filled; a DataFrame stays one."""
    done = imputer.transform(X)
    return type(X)(np.asarray(done), index=X.index, columns=X.columns) if hasattr(X, "iloc") else done


def refuse_bare(X: Any, side: str) -> None:
    """Refuse a table that is no table of numbers before it is filled."""
    if is_dask(X) or sparse.issparse(X):
        check_features(X, side)
