"""Dates, and values that stand for gaps, through the imputer."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from colspace import CopulaImputer


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_are_numbers_of_days(tables, unit):
    X, full = tables
    table = X[["a", "b"]].assign(day=X["day"].astype(f"datetime64[{unit}]"))
    days = (table["day"] - pd.Timestamp(0)) / pd.Timedelta(days=1)
    fitted = CopulaImputer(random_state=0).fit(table)
    other = CopulaImputer(kinds={"day": fitted.kinds_[2]}, random_state=0).fit(table.assign(day=days))
    out, plain = fitted.transform(table), other.transform(table.assign(day=days))
    assert out["day"].dtype == table["day"].dtype
    assert_array_equal((out["day"] - pd.Timestamp(0)) / pd.Timedelta(days=1), np.rint(plain["day"]))
    assert_allclose(fitted.mean(table)["day"], other.mean(table.assign(day=days))["day"])
    lower, upper = fitted.interval(table)
    inside = (lower["day"] <= full["day"]) & (full["day"] <= upper["day"])
    assert inside.mean() > 0.9
    frame = pl.from_pandas(table)
    again = CopulaImputer(random_state=0).fit(frame).transform(frame)
    assert again.schema == frame.schema
    assert (again["day"].to_pandas() == out["day"]).all()


def test_dates_keep_the_unit_in_which_they_are_whole():
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 5000, 80)
    when = np.datetime64("2020-01-01T00", "h") + hours
    X = np.column_stack([when, when + rng.integers(0, 50, 80)]).astype("M8[ms]")
    X[::7, 1] = "NaT"
    out = CopulaImputer(random_state=0).fit(X).transform(X)
    assert out.dtype == X.dtype
    assert not np.isnat(out).any()
    assert (out.astype("M8[h]") == out).all()
    lasting = pd.DataFrame({"a": hours / 7.0, "t": pd.to_timedelta(hours, unit="h")})
    lasting.loc[::9, "t"] = pd.NaT
    filled = CopulaImputer(random_state=0).fit(lasting).transform(lasting)["t"]
    assert (np.abs(filled - pd.to_timedelta(hours, unit="h")) < pd.Timedelta(days=20)).all()
    zoned = lasting.assign(t=(pd.Timestamp("2020-06-01", tz="Europe/Rome") + lasting["t"]))
    back = CopulaImputer(random_state=0).fit(zoned).transform(zoned)["t"]
    assert back.dtype == zoned["t"].dtype
    assert (
        (back - pd.Timestamp("2020-06-01", tz="Europe/Rome") - filled).abs() <= pd.Timedelta(hours=1)
    ).all()


def test_far_dates_stay_inside_their_type():
    from colspace.copula._dates import dates_like

    column = np.array(["2020-01-01"], dtype="M8[ns]")
    assert dates_like(column, np.array([1e9]), 1)[0] > column[0]
    X = pd.DataFrame({"a": np.arange(9.0), "day": pd.date_range("2020", periods=9)})
    fitted = CopulaImputer().fit(X)
    with pytest.raises(ValueError, match="'day' held dates in fit"):
        fitted.transform(X.assign(day=1.5))


def test_values_that_stand_for_gaps(tables):
    X, _ = tables
    table = X[["a", "b", "word"]].round(2)
    plain = CopulaImputer(random_state=0).fit(table)
    expected = plain.transform(table)
    marked = table.fillna({"a": -99.0, "word": "?"})
    for given in ([-99, "?"], {"a": -99, "word": ["?", "refused"]}):
        fitted = CopulaImputer(random_state=0, na_values=given).fit(marked)
        pd.testing.assert_frame_equal(fitted.transform(marked), expected)
    frame = pl.from_pandas(marked)
    assert CopulaImputer(random_state=0, na_values=[-99, "?"]).fit(frame).transform(frame)[
        "word"
    ].to_list() == list(expected["word"])
    array = table[["a", "b"]].fillna(-99.0).to_numpy()
    first = (
        CopulaImputer(random_state=0)
        .fit(table[["a", "b"]].to_numpy())
        .transform(table[["a", "b"]].to_numpy())
    )
    assert_array_equal(CopulaImputer(random_state=0, na_values=-99).fit_transform(array), first)
    whole = np.array([[1, 2], [2, 1], [-9, 2], [1, 1], [2, 2], [2, -9]] * 5)
    filled = CopulaImputer(na_values=-9, random_state=0).fit_transform(whole)
    assert filled.dtype == whole.dtype
    assert set(np.unique(filled)) == {1, 2}
    text = np.array([["a", "x"], ["b", "y"], ["?", "y"], ["c", "x"]] * 8)
    assert "?" not in CopulaImputer(na_values="?", random_state=0).fit_transform(text)
    objects = np.array([[1, 2.5], ["?", 1.5], [3, 0.5]] * 9, dtype=object)
    assert CopulaImputer(na_values="?", random_state=0).fit(objects).kinds_ == ("binary", "ordinal")


def test_values_for_gaps_of_sparse_tables():
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4)) + rng.standard_normal((50, 1))
    gone = rng.random(X.shape) < 0.2
    cells = np.nonzero(~gone)
    one = sparse.coo_array((X[cells], cells), X.shape).tocsr()
    marked = sparse.csr_array(np.where(gone, -99.0, X))
    expected = CopulaImputer(random_state=0).fit_transform(one)
    assert_allclose(CopulaImputer(random_state=0, na_values=-99).fit_transform(marked), expected)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"q": -99}, "'q' is not a column of X"),
        ([[1]], r"na_values=\[\[1\]\] must be a number, a text"),
        ({"a": object()}, r"na_values\['a'\]=.* must be a number"),
    ],
)
def test_values_for_gaps_are_checked(tables, given, text):
    with pytest.raises(ValueError, match=text):
        CopulaImputer(na_values=given).fit(tables[0])
