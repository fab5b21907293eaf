import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from colspace import CopulaImputer, check_imputation
from colspace.datasets import make_copula
from colspace.quality._imputation import ColumnCheck, ImputationCheck, _column, floats, hide


@pytest.fixture(scope="module")
def table():
    X, _, _ = make_copula(400, 6, 2, rng=3)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["yes"] = pd.Series(np.where(frame["a"].fillna(0) > 0, "yes", "no")).mask(frame["b"].isna())
    return frame


def test_hidden_cells_were_there_and_no_row_is_emptied():
    rng = np.random.default_rng(0)
    there = rng.random((300, 4)) < 0.4
    there[:100] = False
    there[np.arange(100), rng.integers(4, size=100)] = True  # one cell each
    hidden = hide(there, 0.2, rng)
    assert not (hidden & ~there).any()
    assert not hidden[:100].any()
    assert (there & ~hidden)[there.any(axis=1)].any(axis=1).all()
    assert 0 < hidden.sum() < 0.2 * there.sum()


def test_columns_with_few_cells_keep_them():
    there = np.ones((100, 30), dtype=bool)
    there[19:, 1] = False
    assert_array_equal(hide(there, 0.1, np.random.default_rng(0)).sum(axis=0)[:3], [10, 0, 10])


def test_the_check_is_what_hiding_by_hand_gives(table):
    model = CopulaImputer(2, random_state=0)
    found = check_imputation(model, table, level=0.6, random_state=5)
    rng = np.random.default_rng(np.random.RandomState(5).randint(2**31 - 1))
    hidden = hide(table.notna().to_numpy(), 0.1, rng)
    holes = table.mask(hidden)
    fitted = clone(model).fit(holes)
    filled, (lower, upper) = fitted.transform(holes), fitted.interval(holes, 0.6)
    assert [row.column for row in found.rows] == list(table)
    for j, row in enumerate(found.rows):
        h = hidden[:, j]
        assert row.cells == h.sum()
        if row.column == "yes":
            assert row.kind == "binary"
            assert row.error == np.mean(filled["yes"][h] != table["yes"][h])
            assert row.base == np.mean(table["yes"][h] != holes["yes"].mode()[0])
            assert np.isnan(row.cover)
        else:
            x = table[row.column]
            assert_allclose(row.error, np.abs(filled[row.column] - x)[h].mean())
            assert_allclose(row.base, np.abs(holes[row.column].median() - x)[h].mean())
            assert_allclose(row.cover, ((x >= lower[row.column]) & (x <= upper[row.column]))[h].mean())
    assert sum(r.error for r in found.rows) < 0.8 * sum(r.base for r in found.rows)
    assert not hasattr(model, "kinds_")


def test_the_sentence_weighs_columns_by_their_cells():
    rows = [
        ColumnCheck("a", "continuous", 10, 1.0, 2.0, 0.9),
        ColumnCheck("b", "continuous", 30, 1.0, 1.0, 1.0),
        ColumnCheck("c", "nominal", 20, 0.25, 0.5, float("nan")),
    ]
    text = ImputationCheck(rows, 100, 0.95).sentence
    assert text == (
        "Of 60 hidden cells numbers are off by 88 % of what their column's median is off, 95 % intervals hold 98 %, "
        "75 % of levels are right (the commonest: 50 %)."
    )
    plain = ImputationCheck(rows, 100, 0.95).plain()
    assert plain["columns"][2]["cover"] is None
    assert plain["columns"][0]["ratio"] == 0.5
    assert "could be hidden" in ImputationCheck([], 3, 0.95).sentence
    alone = check_imputation(CopulaImputer(), np.random.default_rng(0).standard_normal((50, 1)))
    assert alone.sentence.endswith("columns need 20 observed cells, and rows another one.")


def test_rows_are_sampled_and_ids_left_out(table):
    frame = table.assign(who=[f"r{i}" for i in range(len(table))])
    found = check_imputation(CopulaImputer(1, random_state=0), frame, max_rows=150)
    assert found.n_samples == 150
    assert "who" not in [row.column for row in found.rows]


def test_arrays_are_taken(table):
    X = table[list("abc")].to_numpy()
    found = check_imputation(CopulaImputer(1, random_state=0), X)
    assert [row.column for row in found.rows] == ["0", "1", "2"]


def test_too_few_cells_and_odd_shares(table):
    assert check_imputation(CopulaImputer(1), table[:10]).rows == []
    with pytest.raises(ValueError, match=r"share=1\.5 must lie between 0 and 1"):
        check_imputation(CopulaImputer(1), table, share=1.5)


def test_words_are_judged_beside_the_commonest_of_those_that_were_left():
    true = pd.Series(["b", "a", "a", "b", "b", None])
    hidden = np.array([False, False, False, True, True, False])
    found = _column("x", "nominal", hidden, true, true.where(~hidden, "b"), None, None)
    assert (found.cells, found.error, found.base) == (2, 0.0, 1.0)


def test_dates_count_with_their_times():
    hours = pd.Series(pd.to_datetime(["2024-01-01 00:00", "2024-01-01 12:00"]))
    for column in (hours, hours.dt.tz_localize("UTC"), hours - hours[0]):
        assert np.diff(floats(column)) == 12 * 3600 * 1e6
