"""Tables of words that are odd."""

import warnings

import numpy as np
import pandas as pd
import pytest
from copula_tables import WORDS
from numpy.testing import assert_allclose, assert_array_equal

from colspace import CopulaImputer
from colspace._validation import ConstantColumnWarning


def test_as_many_levels_as_rows(tables):
    table = tables[0][["a", "b"]].assign(name=[f"n{i}" for i in range(len(tables[0]))])
    table.loc[4, "name"] = None
    fitted = CopulaImputer(kinds={"name": "nominal"}, random_state=0).fit(table)
    assert fitted.kinds_[2] == "nominal"
    law = fitted.probabilities(table)["name"]
    assert_allclose(law.loc[4], 1 / (len(table) - 1))
    assert fitted.transform(table).loc[4, "name"] in set(table["name"].dropna())
    assert fitted.sample(table, 1, random_state=0)[0].loc[4, "name"] in set(table["name"].dropna())
    plain = CopulaImputer(random_state=0).fit(table[["a", "b"]])
    assert_array_equal(fitted.transform(table)["a"], plain.transform(table[["a", "b"]])["a"])


def test_a_level_that_fit_did_not_see(tables, model):
    X = tables[0].head(3).copy()
    X.loc[1, "word"] = "mauve"
    with pytest.raises(
        ValueError, match=r"'word' holds 'mauve', which fit did not see; .*'blue', 'green'.*Remedies: blank"
    ):
        model.transform(X)
    coded = pd.DataFrame({"a": np.arange(40.0), "code": np.tile([3.0, 1, 7, 4], 10)})
    fitted = CopulaImputer(kinds={"code": "nominal"}).fit(coded)
    with pytest.raises(ValueError, match=r"'code' holds 2\.0, which fit did not see; it is nominal"):
        fitted.transform(pd.DataFrame({"a": [1.0], "code": [2.0]}))


def test_a_column_with_one_observed_cell(tables):
    X = tables[0].assign(one=np.nan, text=None)
    X.loc[3, "one"], X.loc[5, "text"] = 2.5, "only"
    with pytest.warns(ConstantColumnWarning, match=r"2 column\(s\) with one observed value .*'one', 'text'"):
        fitted = CopulaImputer(random_state=0).fit(X)
    out = fitted.transform(X)
    assert (out["one"] == 2.5).all()
    assert (out["text"] == "only").all()


def test_rows_with_one_cell_each():
    X = np.full((60, 3), np.nan)
    rng = np.random.default_rng(0)
    X[np.arange(60), np.arange(60) % 3] = rng.standard_normal(60)
    table = pd.DataFrame(X, columns=list("abc"))
    table["word"] = pd.Series(WORDS[rng.integers(3, size=80)])
    table = pd.concat(
        [table.assign(word=None), pd.DataFrame({"word": WORDS[np.arange(30) % 3]})], ignore_index=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pairs that were never seen together
        fitted = CopulaImputer(random_state=0).fit(table)
    out = fitted.transform(table)
    assert not out.isna().any(axis=None)
    law = fitted.probabilities(table)["word"]
    assert_allclose(law.iloc[:60], 1 / 3, atol=0.15)  # nothing is known


def test_two_identical_columns(tables):
    X, _ = tables
    twice = X[["a", "word"]].assign(again=X["word"], b=X["a"])
    part = X["word"].notna()
    twice.loc[::5, "again"] = None
    out = CopulaImputer(random_state=0).fit(twice).transform(twice)
    assert (out["again"] == out["word"])[part].mean() > 0.97
    assert_allclose(out["b"], out["a"])


def test_a_table_without_gaps_comes_back_as_it_is(tables):
    _, full = tables
    fitted = CopulaImputer(random_state=0).fit(full)
    pd.testing.assert_frame_equal(fitted.transform(full), full)
    for table in (*fitted.interval(full), fitted.sample(full, 1)[0]):
        pd.testing.assert_frame_equal(table, full)
    assert (fitted.probability_within(full) == 1).all(axis=None)


@pytest.mark.parametrize(
    "nothing",
    [
        pd.Categorical([None] * 30, categories=["u", "v"]),
        pd.array([None] * 30, dtype="string"),
        ["refused"] * 30,
    ],
    ids=["categories", "text", "marks of gaps"],
)
def test_a_column_of_words_that_holds_none_is_named(nothing):
    X = pd.DataFrame({"a": np.arange(30.0), "empty": nothing})
    with pytest.raises(ValueError, match=r"1 column\(s\) without an observed value: 'empty'; .*Drop them"):
        CopulaImputer(na_values={"empty": "refused"}).fit(X)
