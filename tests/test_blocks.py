import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from colspace import stack_blocks
from colspace._blocks import parse_blocks, parse_columns

NAMES = ["g_1", "g_2", "d_1", "d_2", "age"]


def columns(blocks, names=NAMES):
    parsed = parse_blocks(blocks, len(names), names)
    return {n: c.tolist() for n, c in zip(parsed.names, parsed.columns, strict=True)}


@pytest.mark.parametrize(
    "spec",
    [
        {"genes": ["g_1", "g_2"], "rest": ["d_1", "d_2", "age"]},
        {"genes": "g_*", "rest": ["d_?", "age"]},
        {"genes": [0, 1], "rest": [2, 3, -1]},
        {"genes": slice(0, 2), "rest": slice(2, None)},
        {"genes": slice("g_1", "g_2"), "rest": slice("d_1", None)},
        {"genes": np.array([True, True, False, False, False]), "rest": range(2, 5)},
    ],
)
def test_every_way_to_name_columns(spec):
    assert columns(spec) == {"genes": [0, 1], "rest": [2, 3, 4]}


def test_none_prefix_and_drop():
    assert columns(None) == {"x": [0, 1, 2, 3, 4]}
    assert columns("prefix", ["b__1", "a__x", "b__y__z"]) == {"b": [0, 2], "a": [1]}
    assert columns({"genes": "g_*", "drop": "*"}) == {"genes": [0, 1]}
    assert columns({"genes": "g_*", "drop": ["d_*", "age"]}) == {"genes": [0, 1]}


def test_layout():
    parsed = parse_blocks({"b": [3, 1], "a": [0, 2]}, 4)
    assert parsed.widths == (2, 2)
    assert parsed.slices == (slice(0, 2), slice(2, 4))
    assert parsed.order.tolist() == [3, 1, 0, 2]
    assert parse_blocks(None, 4).order is None
    assert parse_blocks({"a": [0, 1], "drop": [2]}, 3).order.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("suffix", ValueError, "unknown; give a mapping"),
        ([[0, 1], [2]], TypeError, "stack_blocks"),
        ({}, ValueError, "empty mapping"),
        ({"a": "x_*", "drop": "*"}, ValueError, "block 'a' matches no column"),
        ({"a": [], "drop": "*"}, ValueError, "block 'a' matches no column"),
        ({"a": ["nope"], "drop": "*"}, ValueError, "no column is called 'nope'"),
        ({"a": [7], "drop": "*"}, ValueError, "column 7 does not exist; X has 5 columns"),
        ({"a": [0, 0], "drop": "*"}, ValueError, "names a column twice"),
        ({"a": [1.5], "drop": "*"}, TypeError, "names, positions, a slice or a boolean mask"),
        ({"a": [True, False], "drop": "*"}, ValueError, "boolean mask needs 5 entries"),
        ({"a": [0, 1, 2], "b": [2, 3, 4]}, ValueError, "'a' and 'b' overlap in 'd_1'"),
        ({"a": [0, 1]}, ValueError, r"3 of 5 columns are in no block: 'd_1', 'd_2', 'age'.*'drop': '\*'"),
        ({"a": [0, 1], "drop": ["age"]}, ValueError, "2 of 5 columns are in no block"),
        ({"a": [0, 1], "drop": [1]}, ValueError, "'drop' overlaps a block in 'g_2'"),
    ],
)
def test_bad_blocks(spec, error, message):
    with pytest.raises(error, match=message):
        parse_blocks(spec, len(NAMES), NAMES)


def test_names_without_names():
    with pytest.raises(ValueError, match="X has none"):
        parse_blocks("prefix", 3)
    with pytest.raises(ValueError, match="without it: 'age'"):
        parse_blocks("prefix", 2, ["a__x", "age"])
    with pytest.raises(ValueError, match="no column names; pass a DataFrame"):
        parse_columns(["age"], 3, what="covariates")


def test_covariates_keep_their_order():
    assert parse_columns(["age", "g_1"], 5, NAMES, what="covariates").tolist() == [4, 0]
    assert parse_columns("age", 5, NAMES).tolist() == [4]
    assert parse_columns(3, 5, NAMES).tolist() == [3]


def test_stack_blocks_arrays_sparse_and_frames():
    A, B = np.ones((3, 2)), np.zeros((3, 1))
    X, blocks = stack_blocks({"left": A, "right": B})
    assert X.shape == (3, 3)
    assert blocks == {"left": slice(0, 2), "right": slice(2, 3)}
    S, _ = stack_blocks([sparse.csr_array(A), sparse.coo_array(B)])
    assert S.format == "csr"
    np.testing.assert_array_equal(S.toarray(), X)
    F, blocks = stack_blocks(
        [pd.DataFrame(A, columns=["u", "v"]), pd.DataFrame(B, columns=["u"])], ["p", "q"]
    )
    assert list(F.columns) == ["p__u", "p__v", "q__u"]
    assert columns("prefix", list(F.columns)) == {"p": [0, 1], "q": [2]}
    P, _ = stack_blocks({"p": pl.DataFrame({"u": [1.0]}), "q": pl.DataFrame({"u": [2.0]})})
    assert isinstance(P, pl.DataFrame)
    assert P.columns == ["p__u", "q__u"]


def test_stack_blocks_keeps_masks():
    A = np.ma.masked_equal(np.arange(4.0).reshape(2, 2), 3.0)
    X, _ = stack_blocks([A, np.eye(2)])
    np.testing.assert_array_equal(np.ma.getmaskarray(X), [[False] * 4, [False, True, False, False]])


def test_stack_blocks_errors():
    A = np.ones((3, 2))
    with pytest.raises(ValueError, match="at least one table"):
        stack_blocks([])
    with pytest.raises(ValueError, match=r"different numbers of rows: \[3, 2\]"):
        stack_blocks([A, A[:2]])
    with pytest.raises(ValueError, match="one distinct name per table"):
        stack_blocks([A, A], ["x", "x"])
    with pytest.raises(ValueError, match="'b' must be 2-D"):
        stack_blocks([A, A[:, 0]])
    with pytest.raises(ValueError, match="no block can be called that"):
        stack_blocks({"keep": A, "drop": A})
    with pytest.raises(ValueError, match="of one kind"):
        stack_blocks([pd.DataFrame(A), A])
    with pytest.raises(ValueError, match="share one index"):
        stack_blocks([pd.DataFrame(A), pd.DataFrame(A, index=[5, 6, 7])])


def test_the_end_of_a_range_that_is_not_there_is_named():
    names = ["alpha", "beta", "gamma"]
    with pytest.raises(ValueError, match=r"called 'gama', an end of 'alpha:gama'; is it 'gamma'\?"):
        parse_columns("alpha:gama", 3, names)
    with pytest.raises(ValueError, match="called 'alfa:gama'"):
        parse_columns("alfa:gama", 3, names)
