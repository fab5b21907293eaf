from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from colspace.copula._table import decode_table, encode_table, float_table, learn_layout, read_table

BIG = 2**60 + 1
LEVELS = ["low", "mid", "high"]


def pandas_frame():
    level = pd.CategoricalDtype(LEVELS, ordered=True)
    columns = {
        "float": np.array([-0.0, np.nan, 2.5]),
        "float32": np.array([0.1, np.nan, 2.5], dtype="float32"),
        "float16": np.array([0.1, np.nan, 2.5], dtype="float16"),
        "int": np.array([1, 2, BIG]),
        "Int64": pd.array([1, None, BIG], dtype="Int64"),
        "UInt8": pd.array([1, None, 200], dtype="UInt8"),
        "Float32": pd.array([0.1, None, 2.5], dtype="Float32"),
        "bool": np.array([True, False, True]),
        "boolean": pd.array([True, None, False], dtype="boolean"),
        "ordered": pd.Categorical(["low", None, "high"], dtype=level),
        "cut": pd.cut(np.array([1.0, np.nan, 3.0]), [0, 1.5, 2.5, 4]),
        "numbered": pd.Categorical([30, None, 10], categories=[30, 20, 10], ordered=True),
        "str": pd.array(["low", None, "high"], dtype="str"),
        "string": pd.array(["low", None, "high"], dtype="string"),
        "text": np.array(["low", None, "high"], dtype=object),
        "unordered": pd.Categorical(["low", None, "high"], categories=["high", "low", "mid"]),
        "objects": np.array([1, None, 2.5], dtype=object),
        "whole": np.array([1, pd.NA, 2], dtype=object),
        "truths": np.array([True, None, False], dtype=object),
        "decimal": np.array([Decimal("1.10"), None, Decimal(2)], dtype=object),
        "arrow int": pd.array([1, None, BIG], dtype="int64[pyarrow]"),
        "arrow decimal": pd.array([Decimal("1.1"), None, 2], dtype=pd.ArrowDtype(pa.decimal128(8, 2))),
    }
    return pd.DataFrame(columns, index=["a", "a", "b"])


def polars_frame():
    return pl.DataFrame(
        {
            "float": [1.5, None, float("nan")],
            "float32": pl.Series([0.1, None, 2.5], dtype=pl.Float32),
            "int": [1, None, BIG],
            "uint8": pl.Series([1, None, 200], dtype=pl.UInt8),
            "bool": [True, None, False],
            "enum": pl.Series(["low", None, "high"], dtype=pl.Enum(LEVELS)),
            "categorical": pl.Series(["low", None, "high"], dtype=pl.Categorical),
            "text": ["low", None, "high"],
            "decimal": pl.Series([Decimal("1.10"), None, Decimal(2)], dtype=pl.Decimal(8, 2)),
        }
    )


def test_pandas_round_trip_of_every_type():
    X = pandas_frame()
    before = X.copy(deep=True)
    orders = dict.fromkeys(["str", "string", "text", "unordered"], LEVELS)
    values, layout = read_table(X, orders)
    assert layout.container == "pandas"
    assert layout.names == layout.labels == tuple(X.columns)
    hints = dict(zip(layout.names, layout.hints, strict=True))
    assert {hints[c] for c in ("bool", "boolean", "truths")} == {"binary"}
    assert {hints[c] for c in ("ordered", "cut", "numbered", *orders)} == {"ordinal"}
    assert {hints[c] for c in ("int", "Int64", "UInt8", "whole", "arrow int")} == {"integer"}
    assert {hints[c] for c in ("float", "float32", "Float32", "objects", "decimal")} == {None}
    assert_array_equal(np.isnan(values), X.isna())
    at = {name: values[:, j] for j, name in enumerate(X.columns)}
    for name in ("ordered", "cut", "numbered", *orders):
        assert_array_equal(at[name], [0, np.nan, 2])
    assert_array_equal(at["Float32"], np.array([0.1, np.nan, 2.5], dtype="float32"))

    filled = np.where(np.isnan(values), 1.0, 99.0)
    filled[1, X.columns.get_loc("UInt8")] = 300.7
    filled[1, X.columns.get_loc("Int64")] = 6.6
    filled[1, X.columns.get_loc("decimal")] = 0.1
    filled[1, X.columns.get_loc("arrow decimal")] = 0.126
    out = decode_table(filled, X, layout)
    pd.testing.assert_frame_equal(X, before)
    pd.testing.assert_frame_equal(out.iloc[[0, 2]], X.iloc[[0, 2]])
    assert out.dtypes.equals(X.dtypes)
    assert not out.isna().any(axis=None)
    assert np.signbit(out["float"].iloc[0])
    expected = {
        "Int64": 7,
        "UInt8": 255,
        "boolean": True,
        "ordered": "mid",
        "cut": pd.Interval(1.5, 2.5),
        "numbered": 20,
        "objects": 1.0,
        "truths": True,
        "decimal": Decimal("0.1"),
        "arrow decimal": Decimal("0.13"),
    } | dict.fromkeys(orders, "mid")
    assert {name: out[name].iloc[1] for name in expected} == expected
    assert type(out["whole"].iloc[1]) is int
    assert type(out["truths"].iloc[1]) is bool


@pytest.mark.parametrize("convert", [lambda X: X, lambda X: X.to_arrow()], ids=["polars", "pyarrow"])
def test_polars_and_arrow_round_trip(convert):
    X = convert(polars_frame())
    orders = dict.fromkeys(["categorical", "text"] + ["enum"] * isinstance(X, pa.Table), LEVELS)
    values, layout = read_table(X, orders)
    assert_array_equal(values[:, 5:8], [[0, 0, 0], [np.nan] * 3, [2, 2, 2]])
    assert_array_equal(np.isnan(values[0]), False)
    assert np.isnan(values[1]).all()
    filled = np.where(np.isnan(values), 1.0, 99.0)
    out = decode_table(filled, X, layout)
    assert type(out) is type(X)
    if isinstance(X, pa.Table):
        assert out.schema.names == X.schema.names
        out = pl.from_arrow(out)
    else:
        assert out.schema == X.schema
        assert X.equals(polars_frame())
    assert out.row(1) == (1.0, 1.0, 1, 1, True, "mid", "mid", "mid", Decimal(1))
    assert out.row(2)[2:8] == (BIG, 200, False, "high", "high", "high")
    assert out["float"].to_list() == [1.5, 1.0, 1.0]
    assert_array_equal(out["float32"].to_numpy(), np.array([0.1, 1, 2.5], dtype="float32"))


def test_float_table_keeps_container_index_and_names():
    X = pandas_frame()[["ordered", "Int64"]]
    _, layout = read_table(X)
    out = float_table([[0.5, np.nan], [1, 2], [3, 4]], X, layout)
    expected = pd.DataFrame([[0.5, np.nan], [1, 2], [3, 4.0]], index=X.index, columns=X.columns)
    pd.testing.assert_frame_equal(out, expected)
    Y = polars_frame().select("enum", "int")
    out = float_table([[0.5, np.nan], [1, 2], [3, 4]], Y, read_table(Y)[1])
    assert out.columns == ["enum", "int"]
    assert out.dtypes == [pl.Float64, pl.Float64]
    assert isinstance(float_table([[1.0]], sparse.csr_array([[1.0]]), layout), np.ndarray)


@given(
    cells=st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            st.one_of(st.none(), st.floats(width=32, allow_infinity=False)),
            st.one_of(st.none(), st.floats(allow_infinity=False)),
            st.one_of(st.none(), st.sampled_from(LEVELS)),
            st.one_of(st.none(), st.booleans()),
        ),
        min_size=1,
        max_size=8,
    ),
    fill=st.floats(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_observed_cells_are_bit_identical_and_X_stays(cells, fill):
    i, f, g, level, b = map(list, zip(*cells, strict=True))
    X = pd.DataFrame(
        {
            "i": pd.array(i, dtype="Int64"),
            "f": np.array(f, dtype="float32"),
            "g": np.array(g, dtype="float64"),
            "l": pd.Categorical(level, LEVELS, ordered=True),
            "b": pd.array(b, dtype="boolean"),
        }
    )
    Y = pl.DataFrame(
        [
            pl.Series("i", i, dtype=pl.Int64),
            pl.Series("f", f, dtype=pl.Float32),
            pl.Series("g", g, dtype=pl.Float64),
            pl.Series("l", level, dtype=pl.Enum(LEVELS)),
            pl.Series("b", b, dtype=pl.Boolean),
        ]
    )
    A = X[["f", "g"]].to_numpy()
    objects = np.array([[i[r], g[r]] for r in range(len(i))], dtype=object)
    for table, column in (
        (X, lambda T, j: T.iloc[:, j].tolist()),
        (Y, lambda T, j: T[:, j].to_list()),
        (A, lambda T, j: T[:, j].tolist()),
        (objects, lambda T, j: T[:, j].tolist()),
    ):
        copy = table.clone() if isinstance(table, pl.DataFrame) else table.copy()
        values, layout = read_table(table)
        out = decode_table(np.where(np.isnan(values), fill, -7.0), table, layout)
        assert type(out) is type(table)
        for j in range(table.shape[1]):
            for missing, a, b_, c in zip(
                np.isnan(values[:, j]), column(table, j), column(out, j), column(copy, j), strict=True
            ):
                assert repr(a) == repr(c)
                assert missing or repr(a) == repr(b_)
                assert not missing or repr(b_) not in ("nan", "None", "<NA>")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ">f8"])
def test_arrays_keep_their_dtype(dtype):
    X = np.array([[1.1, np.nan], [np.nan, 2.2]], dtype=dtype)
    X.setflags(write=False)
    values, layout = read_table(X)
    assert values.dtype == np.float64
    assert layout.names is None
    assert layout.labels == (0, 1)
    out = decode_table([[9, 3], [4, 9]], X, layout)
    assert out.dtype == X.dtype
    assert_array_equal(out, np.array([[1.1, 3], [4, 2.2]], dtype=dtype))


def test_arrays_without_gaps_come_back_as_they_are():
    for X in (np.array([[1, BIG]]), np.array([[True, False]]), np.array([["a", "b"]])):
        values, layout = read_table(X, {0: ["a", "b"], 1: ["a", "b"]} if X.dtype.kind == "U" else None)
        assert_array_equal(values, [[0, 1]] if X.dtype.kind == "U" else X.astype(float))
        out = decode_table(np.full((1, 2), 7.0), X, layout)
        assert out.dtype == X.dtype
        assert out is not X
        assert_array_equal(out, X)


def test_lists_and_levels_of_numbers():
    values, layout = read_table([[1, None], [9, 2.5]], {0: [9, 5, 1]})
    assert_array_equal(values, [[2, np.nan], [0, 2.5]])
    assert decode_table([[1, 7], [1, 7]], [[1, None], [9, 2.5]], layout).tolist() == [[1, 7.0], [9, 2.5]]
    X = np.array([[np.nan, 2.0]])
    assert_array_equal(decode_table([[1, 0]], X, layout), [[5.0, 2.0]])


def test_columns_may_change_type_between_fit_and_transform():
    fit = pd.DataFrame({"n": [1, 2], "b": [True, False], "c": pd.Categorical(["a", "b"], ordered=True)})
    _, layout = read_table(fit)
    new = pd.DataFrame({"n": [1.0, np.nan], "b": [np.nan, 1.0], "c": [None, "b"]})
    values = encode_table(new, layout)
    assert_array_equal(values, [[1, np.nan, np.nan], [np.nan, 1, 1]])
    out = decode_table(np.zeros((2, 3)), new, layout)
    assert out["c"].tolist() == ["a", "b"]
    assert out["b"].tolist() == [0.0, 1.0]
    values = encode_table(np.array([[1, True, "b"]], dtype=object), layout)
    assert_array_equal(values, [[1, 1, 1]])


def test_columns_may_be_numbered():
    X = pd.DataFrame([[1.0, np.nan], [2.0, 3.0]], columns=[7, 3])
    _values, layout = read_table(X)
    assert layout.names == (7, 3)
    pd.testing.assert_frame_equal(decode_table(np.ones((2, 2)), X, layout), X.fillna(1.0))


# ---------------------------------------------------------------------- sparse


@pytest.fixture
def never_dense(monkeypatch):
    def refuse(*args, **kwargs):
        pytest.fail("densified")

    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.coo_matrix):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize(
    "kind", ["csr_array", "csr_matrix", "csc_array", "csc_matrix", "coo_array", "coo_matrix"]
)
def test_sparse_absent_is_missing_and_stored_zeros_are_observed(kind):
    cells = np.array([5.0, 0.0, np.nan, 3.0], dtype="float32"), ([0, 0, 1, 2], [1, 0, 1, 0])
    X = getattr(sparse, kind)(sparse.coo_array(cells, shape=(3, 2)))
    before = X.copy()
    values, layout = read_table(X)
    assert isinstance(values, sparse.csr_array)
    assert values.dtype == np.float64
    assert values.nnz == 3
    assert_array_equal(values.indices, [0, 1, 0])
    assert_array_equal(values.data, [0, 5, 3])
    assert_array_equal(values.indptr, [0, 2, 2, 3])
    out = decode_table(np.full((3, 2), 1.5), X, layout)
    assert out.dtype == np.float32
    assert_array_equal(out, [[0, 5], [1.5, 1.5], [3, 1.5]])
    assert X.format == before.format
    assert_array_equal(X.data, before.data)


def test_sparse_integers_stay_and_unsorted_rows_are_sorted():
    X = sparse.csr_array((np.array([4, 3]), [1, 0], [0, 2, 2]), shape=(2, 2))
    values, layout = read_table(X)
    assert layout.hints == ("integer", "integer")
    assert_array_equal(values.indices, [0, 1])
    assert_array_equal(X.indices, [1, 0])
    out = decode_table(np.full((2, 2), 1.6), X, layout)
    assert out.dtype == X.dtype
    assert_array_equal(out, [[3, 4], [2, 2]])


def test_sparse_errors():
    twice = sparse.coo_array((np.ones(3), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    for X in (
        twice,
        sparse.csr_array((np.ones(2), [1, 1], [0, 2, 2]), shape=(2, 2)),
        sparse.csc_array((np.ones(2), [1, 1], [0, 2, 2]), shape=(2, 2)),
    ):
        with pytest.raises(ValueError, match=r"1 cells of X are stored twice.*Remedies"):
            read_table(X)
    for form in ("bsr", "dia", "lil", "dok"):
        with pytest.raises(TypeError, match=f"sparse 2-D {form} matrix.*stored zero"):
            read_table(sparse.csr_array(np.eye(2)).asformat(form))
    with pytest.raises(ValueError, match="column 1 contains infinity"):
        read_table(sparse.csr_array([[1, np.inf]]))
    with pytest.raises(ValueError, match="column 0 has levels, but a sparse X"):
        read_table(sparse.csr_array(np.eye(2)), {0: ["a", "b"]})
    _, layout = read_table(pd.DataFrame({"a": [True, False]}))
    with pytest.raises(ValueError, match=r"'a' held booleans in fit, but holds 3\.0"):
        encode_table(sparse.csr_array([[3.0]]), layout)


@pytest.mark.parametrize("dtype", [float, int, "f2", object])
def test_masked_cells_are_missing(dtype):
    X = np.ma.masked_equal(np.array([[1, 2], [3, 4], [5, 6]], dtype=dtype), 4)
    values, layout = read_table(X)
    np.testing.assert_array_equal(values, [[1, 2], [3, np.nan], [5, 6]])
    out = decode_table([[0, 0], [0, 9], [0, 0]], X, layout)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out.astype(float), [[1, 2], [3, 9], [5, 6]])
    assert X.mask.sum() == 1


# ---------------------------------------------------------------------- bad input


def test_unfit_tables():
    with pytest.raises(ValueError, match="stand twice: 'a'; rename"):
        read_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(TypeError, match=r"LazyFrame.*X\.collect"):
        read_table(pl.DataFrame({"a": [1]}).lazy())
    with pytest.raises(TypeError, match="list of 2 tables"):
        read_table([np.eye(2), np.eye(2)])
    with pytest.raises(ValueError, match=r"Expected 2D array, got 1D.*Reshape your data"):
        read_table(np.arange(3))
    with pytest.raises(
        ValueError, match=r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"
    ):
        read_table(np.empty((3, 0)))
    with pytest.raises(ValueError, match=r"n_samples=1, but at least 2 rows"):
        read_table([[1.0, 2.0]], min_rows=2)
    for levels in (["a"], ["a", "b", "a"]):
        with pytest.raises(ValueError, match=r"kinds gives column 'x' the levels.*at least two, each once"):
            read_table(pd.DataFrame({"x": ["a", "b"]}), {"x": levels})
    with pytest.raises(ValueError, match=r"'colour' is not a column of X; did you mean 'color'"):
        read_table(pd.DataFrame({"color": ["a", "b"]}), {"colour": ["a", "b"]})
    with pytest.raises(ValueError, match="5 is not a column of X; X has 2 columns: 0, 1"):
        read_table(np.eye(2), {5: [0, 1]})


def test_new_rows_that_do_not_fit():
    fit = pd.DataFrame(
        {
            "n": [1.5, 2.5],
            "b": [True, False],
            "c": pd.Categorical(["a", "b"], categories=["a", "b"], ordered=True),
        }
    )
    _, layout = read_table(fit)
    with pytest.raises(ValueError, match="X has 2 features, but 3 were seen"):
        encode_table(fit[["n", "b"]], layout)
    for change, text in (
        (
            {"c": ["a", "z"]},
            r"'c' holds 'z', which is not one of its levels 'a' < 'b'\. Remedies.*kinds=\{'c'",
        ),
        ({"c": pd.Categorical(["a", "z"], ordered=True)}, "'c' holds 'z'"),
        ({"c": pd.Categorical(["a", None], ordered=True)}, "categories of column 'c' lack 'b'.*in fit"),
        ({"c": [np.nan, np.nan]}, "'c' has the levels 'a', 'b', but is of type Float64 now"),
        ({"b": [1.0, 2.0]}, r"'b' held booleans in fit, but holds 2\.0 now"),
        ({"b": fit["c"]}, "'b' held booleans in fit, but is of type Enum"),
        ({"n": [True, False]}, "'n' held numbers in fit, but is of type Boolean now"),
        ({"n": ["a", "b"]}, "'n' holds text"),
        ({"n": fit["c"]}, "'n' held numbers in fit"),
    ):
        with pytest.raises(ValueError, match=text):
            encode_table(fit.assign(**change), layout)
    _, layout = read_table(pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"]))}))
    with pytest.raises(ValueError, match="categories of column 'c' lack 'b'"):
        encode_table(pl.DataFrame({"c": pl.Series(["a", None], dtype=pl.Enum(["a"]))}), layout)


def test_layout_of_dask_collections_from_their_metadata():
    frame = pytest.importorskip("dask.dataframe")
    array = pytest.importorskip("dask.array")
    X = pd.DataFrame({"n": [1, 2], "c": pd.Categorical(["a", "b"], ordered=True), "s": ["x", "y"]})
    D = frame.from_pandas(X, npartitions=2)
    assert learn_layout(D, {"s": ["y", "x"]}) == read_table(X, {"s": ["y", "x"]})[1]
    assert learn_layout(array.ones((4, 2))) == read_table(np.ones((4, 2)))[1]
    with pytest.raises(TypeError, match="partition by partition"):
        read_table(D[["n"]])
    with pytest.raises(ValueError, match=r"column 's' holds text without an order\. Remedies"):
        learn_layout(D)
    with pytest.raises(ValueError, match=r"categories of column 'c' yet; call X\.categorize"):
        learn_layout(D.assign(c=D["c"].cat.as_unknown()).drop(columns="s"))
