"""Tables, responses and weights as they come: values, types and containers, drawn from a ``random.Random``.

The generator may be one of Python's (the fuzz) or one of hypothesis's, which shrinks what it drew.
"""

from __future__ import annotations

import datetime
import warnings
from random import Random
from typing import Any

import numpy as np
from scipy import sparse

FLOATS = ("f8", "f8", "f8", "f8", "f8", "f8", "f4", "f2", "g")
OTHERS = ("i1", "i4", "i8", "u1", "u8", "?", "O")
NO_NUMBERS = ("U", "M8[D]", "m8[s]", "c16", "V")


def maybe(random: Random, share: float) -> bool:
    """True with this probability; hypothesis shrinks to False."""
    return random.random() > 1.0 - share


def seeded(random: Random) -> np.random.Generator:
    return np.random.default_rng(random.randrange(2**32))


# ---------------------------------------------------------------------- values


def _ordinary(rng, n, p):
    return rng.standard_normal((n, p))


def _units(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.integers(-8, 9, p)


def _wild_units(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.integers(-140, 141, p)


def _huge(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.integers(150, 308, p)


def _huge_and_tiny(rng, n, p):
    return rng.choice([1e300, 1e-300, -1e300, 0.0, 1.0], (n, p))


def _tiny(rng, n, p):
    return rng.standard_normal((n, p)) * 1e-300


def _subnormal(rng, n, p):
    return rng.integers(-5, 6, (n, p)) * 5e-324


def _one_huge_cell(rng, n, p):
    X = rng.standard_normal((n, p))
    X[rng.integers(n), rng.integers(p)] = rng.choice([1e30, 1e154, 1e200, -1e300, 1.7e308])
    return X


def _constant_columns(rng, n, p):
    X = rng.standard_normal((n, p))
    X[:, rng.random(p) < 0.5] = rng.choice([0.0, 1.0, -3.7, 1e8, 0.1])
    return X


def _collinear(rng, n, p):
    return rng.standard_normal((n, max(1, p // 2))) @ rng.standard_normal((max(1, p // 2), p))


def _nearly_collinear(rng, n, p):
    return _collinear(rng, n, p) + 10.0 ** rng.integers(-16, -6) * rng.standard_normal((n, p))


def _repeated_rows(rng, n, p):
    return rng.standard_normal((max(1, n // 3), p))[rng.integers(max(1, n // 3), size=n)]


def _one_row_repeated(rng, n, p):
    return np.repeat(rng.standard_normal((1, p)), n, axis=0)


def _zeros(rng, n, p):
    return np.zeros((n, p))


def _mostly_zero(rng, n, p):
    return rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.2)


def _near_ties(rng, n, p):
    return 1.0 + rng.integers(-2, 3, (n, p)) * np.finfo(float).eps


def _far_from_zero(rng, n, p):
    return rng.standard_normal((n, p)) + 10.0 ** rng.integers(3, 17, p)


def _counts(rng, n, p):
    return rng.integers(0, rng.choice([2, 4, 10, 200]), (n, p)).astype(float)


def _heavy(rng, n, p):
    return rng.standard_cauchy((n, p)) ** 3


def _gaps(rng, n, p):
    X = rng.standard_normal((n, p))
    X[rng.random((n, p)) < rng.choice([0.05, 0.3, 0.8])] = np.nan
    return X


def _infinite(rng, n, p):
    X = rng.standard_normal((n, p))
    X[rng.integers(n), rng.integers(p)] = rng.choice([np.inf, -np.inf])
    return X


VALUES = {
    f.__name__[1:]: f
    for f in (
        _ordinary,
        _counts,
        _units,
        _constant_columns,
        _collinear,
        _nearly_collinear,
        _repeated_rows,
        _mostly_zero,
        _far_from_zero,
        _heavy,
        _near_ties,
        _wild_units,
        _one_huge_cell,
        _huge,
        _huge_and_tiny,
        _tiny,
        _subnormal,
        _one_row_repeated,
        _zeros,
        _gaps,
        _infinite,
    )
}


def draw_values(random: Random, n: int, p: int) -> tuple[str, np.ndarray]:
    """Numbers n x p of some kind, and the kind's name."""
    kind = "ordinary" if maybe(random, 0.45) else random.choice(list(VALUES))
    if not n or not p:
        return kind, np.zeros((n, p))
    with np.errstate(all="ignore"):
        return kind, np.asarray(VALUES[kind](seeded(random), n, p), dtype=float)


def draw_shape(random: Random) -> tuple[int, int]:
    """1..40 rows and 1..15 columns, at times one row, one column, none, or many more columns than rows."""
    n = random.randint(5, 40) if maybe(random, 0.85) else random.randint(1, 6)
    p = random.randint(1, 8) if maybe(random, 0.7) else random.randint(1, 15)
    if maybe(random, 0.07):
        n, p = random.randint(2, 10), random.randint(15, 60)
    if maybe(random, 0.01):
        n, p = random.choice([(0, p), (n, 0), (1, 1)])
    return n, p


def cast(random: Random, X: np.ndarray) -> tuple[str, np.ndarray]:
    """The numbers in some dtype; what it cannot hold wraps around or becomes infinite."""
    dtype = random.choice(FLOATS)
    if maybe(random, 0.12):
        dtype = random.choice(OTHERS)
    if maybe(random, 0.02):
        dtype = random.choice(NO_NUMBERS)
    with np.errstate(all="ignore"):
        if dtype == "U":
            return dtype, X.astype(str)
        if dtype in ("M8[D]", "m8[s]"):
            return dtype, np.nan_to_num(X).clip(-1e6, 1e6).astype("i8").astype(dtype)
        if dtype == "V":
            return dtype, np.zeros(X.shape, dtype=[("a", float)])
        if dtype[0] in "iu?":
            return dtype, np.nan_to_num(X).clip(-1e9, 1e9).astype(dtype)
        return dtype, X.astype(dtype)


# ---------------------------------------------------------------------- containers


def _readonly(X, random):
    X = X.copy()
    X.flags.writeable = False
    return X


def _view(X, random):
    wide = np.zeros((2 * X.shape[0], 2 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::2] = X
    return wide[::2, ::2]


def _backwards(X, random):
    return X[::-1, ::-1].copy()[::-1, ::-1]


def _swapped(X, random):
    return X.astype(X.dtype.newbyteorder(">")) if X.dtype.kind in "fiu" else X


def _masked(X, random):
    mask = seeded(random).random(X.shape) < random.choice([0.0, 0.1])
    return np.ma.MaskedArray(X, mask)


def _names(p):
    return [f"c{j}" for j in range(p)]


def _pandas(X, random):
    import pandas as pd

    return pd.DataFrame(_plain(X), columns=_names(X.shape[1]))


def _pandas_integers(X, random):
    import pandas as pd

    return pd.DataFrame(_plain(X), columns=list(range(X.shape[1])), index=[7] * len(X))


def _plain(X):
    """longdouble, float16 and records are not for every frame."""
    return X.astype("f8") if X.dtype.char in "ge" else X


def _nullable(X, random):
    frame = _pandas(X, random)
    return frame.convert_dtypes() if X.dtype.kind in "biuf" else frame


def _with_odd_column(X, random):
    """A frame one of whose columns holds no plain numbers."""
    import pandas as pd

    frame = _pandas(X, random)
    n = len(frame)
    odd = random.choice(
        [
            pd.Series(["a", "b"] * n)[:n],
            pd.Series(pd.Categorical(["a", "b"] * n))[:n],
            pd.Series(pd.Categorical([1, 2] * n))[:n],
            pd.Series([datetime.date(2024, 1, 1)] * n, dtype=object),
            pd.Series(pd.date_range("2024", periods=max(n, 1)))[:n],
            pd.Series([None] * n, dtype=object),
            pd.Series([1.5, None, 2] * n, dtype=object)[:n],
            pd.Series([True, False] * n)[:n],
            pd.Series([1, 2, None] * n, dtype="Int64")[:n],
            pd.Series([1j] * n),
        ]
    )
    frame[random.choice(["odd", "c0", 5])] = odd.to_numpy() if len(odd) == n else None
    return frame


def _polars(X, random):
    import polars as pl

    return pl.from_pandas(_pandas(X, random))


def _lazy(X, random):
    return _polars(X, random).lazy()


def _pyarrow(X, random):
    import pyarrow as pa

    return pa.Table.from_pandas(_pandas(X, random), preserve_index=False)


def _sparse_ready(X):
    return X if X.dtype.char in "dfbilqBILQ?" else X.astype(float)


def _csr(X, random):
    return sparse.csr_array(_sparse_ready(X))


def _csc(X, random):
    return sparse.csc_matrix(_sparse_ready(X))


def _coo_twice(X, random):
    """Every cell stored twice, unsorted: one half and one half."""
    cells = sparse.coo_array(_sparse_ready(X).astype(float))
    order = seeded(random).permutation(2 * cells.nnz)
    i, j = (np.tile(c, 2)[order] for c in cells.coords)
    return sparse.coo_array((np.tile(cells.data / 2, 2)[order], (i, j)), shape=X.shape)


def _csr_twice(X, random):
    """A CSR matrix with cells stored twice, one of them zero."""
    one = sparse.csr_array(_sparse_ready(X).astype(float))
    data = np.repeat(one.data, 2) * np.tile([1.0, 0.0], one.nnz)
    return sparse.csr_array((data, np.repeat(one.indices, 2), 2 * one.indptr), shape=X.shape)


def _dask_array(X, random):
    import dask.array as da

    n, p = max(1, X.shape[0]), max(1, X.shape[1])
    rows = random.randint(max(1, n // 3), n)
    return da.from_array(X, chunks=(rows, p if maybe(random, 0.8) else max(1, p // 2)))


def _dask_csr(X, random):
    dense = _dask_array(_sparse_ready(X), random)
    return dense.rechunk({1: -1}).map_blocks(sparse.csr_matrix, meta=sparse.csr_matrix((0, 0)))


def _dask_frame(X, random):
    import dask.dataframe as dd

    return dd.from_pandas(_pandas(X, random), npartitions=random.randint(1, 3))


PLAIN = {
    "ndarray": lambda X, random: X,
    "fortran": lambda X, random: np.asfortranarray(X),
    "read-only": _readonly,
    "view": _view,
    "backwards": _backwards,
    "big-endian": _swapped,
}
HELD = {
    "list": lambda X, random: X.tolist(),
    "matrix": lambda X, random: np.matrix(X) if X.dtype.kind in "fiu" else X,
    "pandas": _pandas,
    "pandas integers": _pandas_integers,
    "nullable": _nullable,
    "polars": _polars,
    "pyarrow": _pyarrow,
    "masked": _masked,
    "csr": _csr,
    "csc": _csc,
    "coo twice": _coo_twice,
    "csr twice": _csr_twice,
    "dask array": _dask_array,
    "dask csr": _dask_csr,
    "dask frame": _dask_frame,
}
ODD = {
    "odd column": _with_odd_column,
    "lazy": _lazy,
    "one dimension": lambda X, random: X.ravel(),
    "three dimensions": lambda X, random: X[:, :, None],
    "list of tables": lambda X, random: [X, X],
    "text": lambda X, random: "table.csv",
    "none": lambda X, random: None,
}


def contain(random: Random, X: np.ndarray) -> tuple[str, Any]:
    """The table in some container."""
    among = PLAIN if maybe(random, 0.55) else HELD
    if maybe(random, 0.03):
        among = ODD
    if X.dtype.kind in "VcmM" or not X.size:
        among = PLAIN
    name = random.choice(list(among))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that hold the table
        return name, among[name](X, random)


def draw_table(random: Random, shape: tuple[int, int]) -> tuple[str, Any, np.ndarray]:
    """A table of this shape in some dtype and container: what it is, the table, and its plain numbers."""
    kind, plain = draw_values(random, *shape)
    dtype, X = cast(random, plain)
    container, held = contain(random, X)
    return f"{shape[0]}x{shape[1]} {kind} {dtype} {container}", held, plain


# ---------------------------------------------------------------------- responses and weights


def _numbers(rng, n, plain):
    noise = rng.standard_normal(n)
    return np.nan_to_num(plain[:, 0], posinf=0, neginf=0) + noise if plain.shape[1] else noise


def _with_gaps(rng, n, plain):
    y = _numbers(rng, n, plain)
    y[rng.random(n) < 0.3] = np.nan
    return y


RESPONSES = {
    "numbers": _numbers,
    "two numbers": lambda rng, n, plain: rng.standard_normal((n, 2)),
    "column": lambda rng, n, plain: rng.standard_normal((n, 1)),
    "units": lambda rng, n, plain: rng.standard_normal((n, 3)) * [1e-9, 1.0, 1e9],
    "labels": lambda rng, n, plain: np.array(["a", "b", "c"])[rng.integers(3, size=n)],
    "two labels": lambda rng, n, plain: np.array(["no", "yes"], dtype=object)[rng.integers(2, size=n)],
    "booleans": lambda rng, n, plain: rng.random(n) < 0.5,
    "codes": lambda rng, n, plain: rng.integers(3, size=n),
    "zero one": lambda rng, n, plain: (np.arange(n) % 2).astype(float),
    "rare label": lambda rng, n, plain: np.where(np.arange(n) == 0, "rare", "common"),
    "all different": lambda rng, n, plain: np.array([f"id{i}" for i in range(n)]),
}
ODD_RESPONSES = {
    "none": lambda rng, n, plain: None,
    "constant": lambda rng, n, plain: np.full(n, rng.choice([0.0, 0.1, 1e10])),
    "nearly constant": lambda rng, n, plain: 1.0 + (np.arange(n) == 0) * 1e-16 * 2.3,
    "one label": lambda rng, n, plain: np.array(["a"] * n),
    "gaps": _with_gaps,
    "all gaps": lambda rng, n, plain: np.full(n, np.nan),
    "infinite": lambda rng, n, plain: np.where(np.arange(n) == 0, np.inf, 1.0),
    "huge": lambda rng, n, plain: rng.standard_normal(n) * 1e305,
    "tiny": lambda rng, n, plain: rng.standard_normal(n) * 1e-300,
    "subnormal": lambda rng, n, plain: rng.integers(-3, 4, n) * 5e-324,
    "one huge": lambda rng, n, plain: np.where(np.arange(n) == 0, 1e300, rng.standard_normal(n)),
    "too short": lambda rng, n, plain: rng.standard_normal(max(0, n - 1)),
    "labels with gaps": lambda rng, n, plain: np.array(["a", None, "b"] * n, dtype=object)[:n],
    "mixed": lambda rng, n, plain: np.array(["a", 1, 2.5] * n, dtype=object)[:n],
    "dates": lambda rng, n, plain: np.arange(n).astype("M8[D]"),
    "complex": lambda rng, n, plain: np.full(n, 1j),
    "three dimensions": lambda rng, n, plain: np.zeros((n, 2, 2)),
    "scalar": lambda rng, n, plain: 3.0,
    "text": lambda rng, n, plain: "y",
    "empty": lambda rng, n, plain: [],
    "no column": lambda rng, n, plain: np.zeros((n, 0)),
    "float16": lambda rng, n, plain: rng.standard_normal(n).astype("f2"),
    "longdouble": lambda rng, n, plain: rng.standard_normal(n).astype("g"),
    "decimals": lambda rng, n, plain: np.array([__import__("decimal").Decimal(i) for i in range(n)]),
}


def _held_response(random: Random, y: Any, X: Any) -> tuple[str, Any]:
    if not isinstance(y, np.ndarray) or y.ndim > 2 or not y.size:
        return "as is", y
    if type(X).__module__.startswith("dask"):
        return _beside_dask(random, y, X)
    how = random.choice(["as is", "as is", "list", "pandas", "polars", "categorical", "masked", "nullable"])
    import pandas as pd
    import polars as pl

    if how == "list":
        return how, y.tolist()
    if how == "masked":
        return how, np.ma.MaskedArray(y, np.arange(y.size).reshape(y.shape) == random.choice([-1, -1, 0]))
    if y.dtype.char in "egFDM":
        return "as is", y
    if y.ndim == 2:
        return how, pd.DataFrame(y, columns=[f"r{j}" for j in range(y.shape[1])]) if how == "pandas" else y
    series = pd.Series(y, name="answer")
    if how == "polars":
        return how, pl.Series("answer", y.tolist(), strict=False)
    if how == "categorical":
        return how, series.astype("category")
    if how == "nullable":
        return how, series.convert_dtypes()
    return ("pandas", series) if how == "pandas" else ("as is", y)


def _beside_dask(random: Random, y: Any, X: Any) -> tuple[str, Any]:
    """A response for a Dask table: in memory, or of the same chunks."""
    if hasattr(X, "chunks") and len(X.chunks[0]) and sum(X.chunks[0]) == len(y) and maybe(random, 0.7):
        import dask.array as da

        return "dask", da.from_array(y, chunks=(X.chunks[0], *y.shape[1:]))
    if hasattr(X, "to_dask_array") and y.ndim == 1 and len(y) == len(X) and y.dtype.kind in "fibUO":
        import dask.dataframe as dd
        import pandas as pd

        if maybe(random, 0.7):
            return "dask", dd.from_pandas(pd.Series(y, name="answer"), npartitions=X.npartitions)
    return "as is", y


def draw_response(random: Random, X: Any, plain: np.ndarray, likely: tuple[str, ...]) -> tuple[str, Any]:
    """A response of a likely kind, of any kind, or of a kind that should be refused."""
    among: Any = likely if maybe(random, 0.8) else list(RESPONSES)
    if maybe(random, 0.1):
        among = list(ODD_RESPONSES)
    kind = random.choice(list(among))
    make = RESPONSES.get(kind) or ODD_RESPONSES[kind]
    how, y = _held_response(random, make(seeded(random), len(plain), plain), X)
    return f"{kind} {how}", y


WEIGHTS = {
    "ones": lambda rng, n: np.ones(n),
    "counts": lambda rng, n: rng.integers(0, 4, n),
    "some": lambda rng, n: rng.random(n),
    "some zero": lambda rng, n: rng.random(n) * (rng.random(n) < 0.5),
    "list": lambda rng, n: [1.0] * n,
    "large": lambda rng, n: np.full(n, 1e100),
    "small": lambda rng, n: np.full(n, 1e-100),
    "spread": lambda rng, n: 10.0 ** rng.integers(-12, 3, n),
}
ODD_WEIGHTS = {
    "one row": lambda rng, n: (np.arange(n) == 0).astype(float),
    "two rows": lambda rng, n: (np.arange(n) < 2).astype(float),
    "none left": lambda rng, n: np.zeros(n),
    "negative": lambda rng, n: np.where(np.arange(n) == 0, -1.0, 1.0),
    "gaps": lambda rng, n: np.where(np.arange(n) == 0, np.nan, 1.0),
    "infinite": lambda rng, n: np.where(np.arange(n) == 0, np.inf, 1.0),
    "too short": lambda rng, n: np.ones(max(0, n - 1)),
    "text": lambda rng, n: np.array(["1"] * n),
    "column": lambda rng, n: np.ones((n, 1)),
    "scalar": lambda rng, n: 2.0,
    "largest": lambda rng, n: np.full(n, 1e308),
    "smallest": lambda rng, n: np.full(n, 5e-324),
}


def draw_weights(random: Random, n: int) -> tuple[str, Any]:
    if maybe(random, 0.7):
        return "none", None
    among = ODD_WEIGHTS if maybe(random, 0.2) else WEIGHTS
    kind = random.choice(list(among))
    return kind, among[kind](seeded(random), n)
