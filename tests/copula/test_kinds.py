import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV

from colspace import CopulaImputer
from colspace._validation import ConstantColumnWarning
from colspace.copula._encode import distinct_values
from colspace.copula._kinds import UnseenLevelWarning, as_seen, choose_kinds, orders_of
from colspace.copula._marginals import KINDS
from colspace.copula._table import read_table

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal(300)
COUNTS = RNG.poisson(40, 300).astype(float)


def kind_of(column, given="auto", hint=None):
    return choose_kinds(distinct_values(np.array(column, dtype=float)[:, None]), [hint], given, ["x"])[0]


@pytest.mark.parametrize(
    ("column", "hint", "kind"),
    [
        ([0, 1, 1], "binary", "binary"),
        ([1.5, 7.5, np.nan, 7.5], None, "binary"),
        ([0, 2, 2], "ordinal", "binary"),
        (np.arange(30), "ordinal", "ordinal"),
        ([1, 2, 3] * 2, None, "ordinal"),
        ([0.5, 1.5, -2.5] * 5, None, "ordinal"),
        ([0.5, 1.5, -2.5] * 4, None, "continuous"),
        (np.arange(20).repeat(2), None, "ordinal"),
        (np.arange(20), "integer", "continuous"),
        (NORMAL[:10], None, "continuous"),
        (NORMAL, None, "continuous"),
        (np.arange(21).repeat(3), "integer", "count"),
        (COUNTS, None, "count"),
        (np.arange(21).repeat(3) - 1, None, "continuous"),
        (np.arange(21).repeat(3) + 0.5, None, "continuous"),
        (np.maximum(NORMAL, 0), None, "lower"),
        (np.minimum(NORMAL, 0), None, "upper"),
        (np.clip(NORMAL, -1, 1), None, "two-sided"),
        (np.maximum(NORMAL, -2.5), None, "continuous"),
        (np.repeat(NORMAL[:9], [3, 1, 2, 1, 2, 1, 2, 1, 3]), None, "continuous"),  # rows that repeat
        (np.repeat(np.sort(NORMAL[:9]), [4, 1, 2, 1, 2, 1, 2, 1, 2]), None, "lower"),
    ],
)
def test_automatic_kinds(column, hint, kind):
    assert kind_of(column, hint=hint) == kind


def test_given_kinds():
    table = np.column_stack([NORMAL, np.maximum(NORMAL, 0), COUNTS, RNG.integers(0, 3, 300)])
    distinct, names = distinct_values(table), ["a", "b", "c", "d"]
    hints = [None] * 4
    assert choose_kinds(distinct, hints, "continuous", names) == ("continuous",) * 4
    found = choose_kinds(distinct, hints, {"c": "ordinal", 0: "auto", "d": "count", -3: "continuous"}, names)
    assert found == ("continuous", "continuous", "ordinal", "count")
    assert choose_kinds(distinct, hints, {1: "continuous"}, range(4))[1] == "continuous"
    assert choose_kinds(distinct, hints, {-1: "count"}, range(4))[3] == "count"
    for kind, column in (
        ("lower", 1),
        ("two-sided", np.clip(NORMAL, -1, 1)),
        ("upper", np.minimum(NORMAL, 0)),
    ):
        assert kind_of(table[:, 1] if kind == "lower" else column, kind) == kind


def test_levels_in_order():
    given = {"size": ["S", "M", "L"], "n": "count"}
    assert orders_of(given) == {"size": ["S", "M", "L"]}
    assert orders_of("auto") == {}
    X = pd.DataFrame({"size": ["S", "L", "M", None], "n": [1, 2, 3, 4]})
    values, layout = read_table(X, orders_of(given))
    assert choose_kinds(distinct_values(values), layout.hints, given, layout.labels) == ("ordinal", "count")
    values, layout = read_table(X[X["size"] != "M"], orders_of(given))
    assert choose_kinds(distinct_values(values), layout.hints, given, layout.labels) == ("binary", "count")


def test_constant_columns_are_named():
    table = np.array([[1, 5, np.nan, 1], [2, 5, 3, np.nan], [3, 5, np.nan, 1.0]])
    with pytest.warns(ConstantColumnWarning) as caught:
        kinds = choose_kinds(distinct_values(table), [None] * 4, "continuous", list("abcd"))
    assert kinds == ("continuous", "constant", "constant", "constant")
    texts = [str(w.message) for w in caught]
    assert texts[0].startswith("1 column(s) with one observed value are left out of the model")
    assert "'c'" in texts[0]
    assert texts[1].startswith("2 column(s) constant")
    assert "filled with their value: 'b', 'd'. Drop them" in texts[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose_kinds(distinct_values(table[:, :1]), [None], "auto", ["a"])


def test_columns_without_values():
    table = np.full((3, 8), np.nan)
    table[:, 0] = 1, 2, 3
    with pytest.raises(
        ValueError, match=r"7 column\(s\) without an observed value: 1, 2, 3, 4, 5 and 2 more; .*Drop them"
    ):
        choose_kinds(distinct_values(table), [None] * 8, "auto", range(8))


@pytest.mark.parametrize(
    ("column", "hint", "kind", "text"),
    [
        (
            [1, 2, 3],
            None,
            "binary",
            r"cannot be 'binary': it has 3 distinct values \(1.0, 2.0, 3.0\)\. Give.*'ordinal'",
        ),
        (
            [0, 1, 2],
            "ordinal",
            "continuous",
            "cannot be 'continuous': its values are categories, not numbers",
        ),
        ([0, 1, 2], "ordinal", "count", "cannot be 'count': its values are categories"),
        ([0, 1], "binary", "continuous", "its values are booleans. Give it the kind 'binary'"),
        ([0, 1.5, 2], None, "count", "it holds 1.5, and counts are whole numbers from zero on"),
        ([-3, 1, 2], None, "count", "it holds -3.0, and counts"),
        (
            NORMAL[:5].round(1),
            None,
            "lower",
            "smallest value -0.5 occurs once, and a limit repeats.*'continuous'",
        ),
        (NORMAL[:5].round(1), None, "upper", "largest value .* occurs once"),
        ([0, 0, 1, 2, 3], None, "two-sided", "largest value 3.0 occurs once"),
        (
            [0, 0, 1, 1],
            None,
            "lower",
            "it has 2 distinct values, and beside the limits at least two.*'ordinal'",
        ),
        ([0, 0, 1, 2, 2], None, "two-sided", "it has 3 distinct values"),
    ],
)
def test_kinds_that_do_not_fit(column, hint, kind, text):
    for given in (kind, {"x": kind}):
        with pytest.raises(ValueError, match=f"column 'x' .*{text}"):
            kind_of(column, given, hint)


def test_unknown_kinds_and_columns():
    with pytest.raises(
        ValueError, match=r"kinds='ordered' is not a kind; .*two-sided, nominal, id, or levels"
    ) as error:
        kind_of([1, 2, 3], "ordered")
    assert all(kind in str(error.value) for kind in KINDS)
    with pytest.raises(ValueError, match=r"kinds\['x'\]='ordnal' is not a kind.*Did you mean 'ordinal'\?"):
        kind_of([1, 2, 3], {"x": "ordnal"})
    with pytest.raises(ValueError, match=r"kinds\['x'\]=3 is not a kind"):
        kind_of([1, 2, 3], {"x": 3})
    with pytest.raises(ValueError, match="'y' is not a column of X; X has 1 columns: 'x'"):
        kind_of([1, 2, 3], {"y": "ordinal"})
    with pytest.raises(ValueError, match="True is not a column"):
        kind_of([1, 2, 3], {True: "ordinal"})
    with pytest.raises(TypeError, match=r"kinds=5 must be 'auto', one of continuous.*or a mapping"):
        kind_of([1, 2, 3], 5)


def test_unseen_levels():
    X = pd.DataFrame({"n": [1.0, 2, 4], "c": pd.Categorical(["a", "c", "c"], list("abc"), ordered=True)})
    values, layout = read_table(X)
    seen, kinds = [x for x, *_ in distinct_values(values)], ("ordinal", "binary")
    assert as_seen(values, seen, kinds, layout) is values
    as_seen(np.array([[np.nan, 2], [7, np.nan]]), seen, ("count", "binary"), layout)
    new = np.array([[2.9, 0], [3, 2], [3.1, np.nan], [-1.9, 0], [7, 0], [np.nan, 2], [2, 2.0]])
    old = new.copy()
    with pytest.warns(
        UnseenLevelWarning, match=r"'n' holds 2\.9, .*nearest level that it saw, 2\.0\. .*'count'"
    ):
        found = as_seen(new, seen, kinds, layout)
    np.testing.assert_array_equal(found[:, 0], [2, 2, 4, 1, 4, np.nan, 2])
    np.testing.assert_array_equal(found[:, 1], new[:, 1])
    np.testing.assert_array_equal(new, old)
    for far in (-2.1, 7.1, -99.0):  # farther off than the levels are apart
        with pytest.raises(
            ValueError,
            match=rf"'n' holds {far}, which fit did not see; it is ordinal.*1\.0, 2\.0, 4\.0.*'count'",
        ):
            as_seen(np.array([[2.9, 0], [far, 0]]), seen, kinds, layout)
    with pytest.raises(
        ValueError, match=r"'c' holds 'b', which fit did not see; it is binary with the levels 'a', 'c'"
    ):
        as_seen(np.array([[2, 1.0]]), seen, kinds, layout)
    values, layout = read_table(sparse.csr_array([[1, 2], [3, 4.0]]))
    levels = np.array([1.0, 3]), np.array([2.0, 4])
    assert as_seen(values, levels, ("ordinal", "ordinal"), layout) is values
    with pytest.warns(UnseenLevelWarning, match=r"column 1 holds 2\.0, .*4\.0\. "):
        found = as_seen(values, [levels[0], np.array([4.0, 6])], ("ordinal", "ordinal"), layout)
    np.testing.assert_array_equal(found.toarray(), [[1, 4], [3, 4]])


@pytest.mark.filterwarnings("ignore::colspace.copula.UnseenLevelWarning")
def test_levels_that_fit_has_not_seen_stay_in_the_table():
    """They tell what the nearest level tells, so that folds of a search may lack some."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200)
    X = pd.DataFrame({"n": np.digitize(z, [-1, 0, 1]), "x": z + 0.3 * rng.standard_normal(200)})
    X["n"] = X["n"].replace(3, 4)
    model = CopulaImputer(1, random_state=0).fit(X)
    asked = pd.DataFrame({"n": [3, 7, 4], "x": [np.nan] * 3})
    for found in (model.transform(asked), *model.interval(asked), model.mean(asked), model.sample(asked)[0]):
        np.testing.assert_array_equal(found["n"], [3, 7, 4])
    filled = model.transform(asked)["x"]
    assert filled[0] < filled[1] == filled[2]
    rare = X.assign(n=np.r_[[-2, 6, 8], X["n"][3:]])  # each in one fold alone
    search = GridSearchCV(
        CopulaImputer(nonlinear=False), {"noise": ["column", "common"]}, cv=3, error_score="raise"
    )
    assert np.isfinite(search.fit(rare).best_score_)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (
            np.array([datetime.date(2020, 1, 1), None, None], dtype=object),
            "'x' holds dates or times as objects",
        ),
        ([1 + 2j, 2, 3], "Complex data not supported: column 'x'"),
        ([1.0, np.inf, 2.0], "'x' contains infinity"),
        (pd.arrays.SparseArray([1.0, np.nan, 2.0]), r"'x' holds values of type Sparse.*Remedies: convert it"),
    ],
)
def test_unfit_columns(column, text):
    with pytest.raises(ValueError, match=text):
        read_table(pd.DataFrame({"fine": [1, 2, 3], "x": column}))


def test_unfit_polars_columns():
    for column, text in (
        (pl.Series([datetime.time(3)]), "dates or times"),
        ([[1.0]], r"values of type List"),
        ([None], "values of type Null"),
    ):
        with pytest.raises(ValueError, match=f"'x' holds {text}"):
            read_table(pl.DataFrame({"x": column}))


def test_unfit_objects():
    with pytest.raises(
        TypeError, match=r"column 1 holds \{'a': 1\} of type dict.*argument must be .* string.* number"
    ):
        read_table(np.array([[1, {"a": 1}]], dtype=object))
    with pytest.raises(ValueError, match="Complex data not supported"):
        read_table(np.array([[1j]]))
    with pytest.raises(ValueError, match="column 1 contains infinity"):
        read_table([[1.0, -np.inf]])
