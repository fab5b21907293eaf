import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from colspace import CopulaImputer
from colspace.datasets import make_copula
from colspace.displays import ImputationDisplay, MarginalDisplay, MissingnessDisplay, ReliabilityDisplay
from colspace.metrics import coverage

SIZES = ["small", "middle", "large"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    """A model, the table with gaps, the same without."""
    X, full, _ = make_copula(200, 6, 1, missing=0.25, rng=0)
    complete = pd.DataFrame(full * [1, 10, 100, 1, 1, 1], columns=["a", "b", "c", "n", "size", "yes"])
    complete["n"] = np.digitize(full[:, 3], [-1, 0, 1])
    complete["size"] = pd.Categorical.from_codes(np.digitize(full[:, 4], [-0.5, 0.5]), SIZES, ordered=True)
    complete["yes"] = pd.Series(full[:, 5] > 0).astype("boolean")
    table = complete.astype({"n": "Int64"}).mask(np.isnan(X))
    return CopulaImputer(random_state=0).fit(table), table, complete


# ---------------------------------------------------------------------- imputed against held out


def test_imputation_of_one_column_is_the_estimator(fitted):
    model, X, complete = fitted
    display = ImputationDisplay.from_estimator(model, X, complete, columns="c", level=0.8)
    gaps = X["c"].isna()
    lower, upper = model.interval(X, 0.8)
    frame = display.frame()
    assert_allclose(frame["true"], complete["c"][gaps])
    assert_allclose(frame["imputed"], model.transform(X)["c"][gaps])
    assert_allclose(frame["lower"], lower["c"][gaps])
    share = coverage(lower["c"], upper["c"], complete["c"], gaps.to_numpy())
    assert_allclose(frame["inside"].mean(), share)
    assert display.ax_.get_title() == f"c\n{100 * share:.1f} % of {gaps.sum()} in their 80 % interval"
    assert display.ax_.figure is display.figure_


def test_imputation_of_all_cells_is_in_standard_deviations(fitted):
    model, X, complete = fitted
    display = ImputationDisplay.from_estimator(model, X, complete)
    frame = display.frame()
    assert "column" not in frame
    assert len(frame) == X.isna().sum().sum()
    gaps = np.flatnonzero(X["b"].isna())
    scaled = (complete["b"] - X["b"].median()) / X["b"].std(ddof=0)
    assert np.isin(scaled[gaps].round(9), frame["true"].round(9)).all()
    assert "standard deviations" in display.ax_.get_xlabel()


def test_imputation_panels_with_names_of_levels(fitted):
    model, X, complete = fitted
    display = ImputationDisplay.from_estimator(
        model, X, complete, columns=["a", "size", "n", "yes"], max_points=20
    )
    assert display.ax_.shape == (4,)
    assert [t.get_text() for t in display.ax_[1].get_xticklabels()] == SIZES
    assert set(display.frame()["column"]) == {"a", "size", "n", "yes"}
    points = sum(
        len(c.get_offsets())
        for c in display.ax_[0].collections
        if hasattr(c, "get_sizes") and c.get_label() in ("in the interval", "outside")
    )
    assert points == 20
    display.figure_.canvas.draw()


def test_imputation_from_predictions_and_on_given_axes():
    true = np.arange(6.0)
    _, ax = plt.subplots()
    display = ImputationDisplay.from_predictions(true, true + 0.5, true, true + 1, ax=ax, s=9)
    assert display.ax_ is ax
    assert ax.get_title() == "100.0 % of 6 in their 95 % interval"
    plain = ImputationDisplay.from_predictions(true, true + 0.5, column=list("aabbbb"))
    assert plain.ax_[1].get_title() == "b\n4 held-out cells"
    assert "lower" not in plain.frame()
    with pytest.raises(ValueError, match="one value for each cell"):
        ImputationDisplay.from_predictions(true, true[:3])
    with pytest.raises(ValueError, match="both ends of intervals"):
        ImputationDisplay.from_predictions(true, true, true)


def test_imputation_errors(fitted):
    model, X, complete = fitted
    with pytest.raises(ValueError, match="'q' is not a column"):
        ImputationDisplay.from_estimator(model, X, complete, columns="q")
    with pytest.raises(ValueError, match="no cell is missing in X and known in complete"):
        ImputationDisplay.from_estimator(model, X, X)
    with pytest.raises(ValueError, match="no cell of column 'a'"):
        ImputationDisplay.from_estimator(model, X.assign(a=complete["a"]), complete, columns="a")
    with pytest.raises(ValueError, match="give the same table without the gaps"):
        ImputationDisplay.from_estimator(model, X, complete.head(3))
    with pytest.raises(NotFittedError):
        ImputationDisplay.from_estimator(CopulaImputer(), X, complete)


# ---------------------------------------------------------------------- reliability


def test_reliability_curves_are_means_over_the_most_reliable(fitted):
    model, X, complete = fitted
    display = ReliabilityDisplay.from_estimator(model, X, complete)
    assert display.ax_.shape == (2,)
    frame = display.frame().set_index(["group", "percent"])
    gaps = X[["a", "b", "c"]].isna().to_numpy()
    off = (complete[["a", "b", "c"]] - model.transform(X)[["a", "b", "c"]]).abs() / X[["a", "b", "c"]].std(
        ddof=0
    )
    errors = off.to_numpy()[gaps]
    reliability = model.reliability(X, "variance")[["a", "b", "c"]].to_numpy()[gaps]
    assert_allclose(frame.loc[("numbers", 100), "error"], errors.mean())
    half = round(len(errors) / 2)
    assert_allclose(frame.loc[("numbers", 50), "error"], errors[np.argsort(-reliability)[:half]].mean())
    assert frame.loc[("numbers", 50), "cells"] == half
    level = complete["size"].cat.codes - model.transform(X)["size"].cat.codes
    assert frame.loc[("levels", 100), "error"] < 1
    assert np.abs(level[X["size"].isna()]).mean() < 1
    line = display.ax_[0].get_lines()[1]
    assert_allclose(line.get_ydata()[-1], errors.mean())


def test_counts_are_numbers_among_reliabilities(fitted):
    model, X, complete = fitted
    seen = np.random.default_rng(0).poisson(40 * np.exp(complete["a"] / 3))
    table = X.assign(visits=pd.Series(seen, dtype="Int64").mask(X["a"].isna()))
    model = CopulaImputer(random_state=0, kinds={"visits": "count"}).fit(table)
    frames = [
        ReliabilityDisplay.from_estimator(m, t, c).frame().set_index(["group", "percent"])["error"]
        for m, t, c in [(model, table, complete.assign(visits=seen)), fitted]
    ]
    assert frames[0]["levels", 100] < 1
    assert abs(frames[0]["levels", 100] - frames[1]["levels", 100]) < 0.1


def test_reliability_of_one_group_and_measures(fitted):
    X, full, _ = make_copula(150, 6, 1, missing=0.2, rng=1)
    model = CopulaImputer(random_state=0).fit(X)
    for measure in ("auto", "paper", "variance"):
        display = ReliabilityDisplay.from_estimator(model, X, full, measure=measure, color="k")
        assert display.ax_.get_lines()[1].get_color() == "k"
    assert set(display.frame()["group"]) == {"numbers"}
    with pytest.raises(ValueError, match="measure='odd'"):
        ReliabilityDisplay.from_estimator(model, X, full, measure="odd")


def test_reliability_from_predictions():
    error = np.arange(1.0, 101.0)
    display = ReliabilityDisplay.from_predictions(error, np.zeros(100), -error)
    assert_allclose(display.frame()["error"], (np.arange(1, 101) + 1) / 2)
    assert_array_equal(display.frame()["reliability"], -error)
    with pytest.raises(ValueError, match="one number for each cell"):
        ReliabilityDisplay.from_predictions(error, error, error[:3])


# ---------------------------------------------------------------------- missingness


@pytest.mark.parametrize("kind", ["array", "objects", "pandas", "polars", "csr", "coo"])
def test_missingness_of_every_container(kind):
    X = np.array([[0.0, np.nan, 2.0], [np.nan, np.nan, 3.0], [1.0, 2.0, 0.0], [1.0, np.nan, 1.0]])
    rows, columns = np.nonzero(~np.isnan(X))
    table = {
        "array": lambda: X,
        "objects": lambda: np.where(np.isnan(X), None, X.astype(object)),
        "pandas": lambda: pd.DataFrame(X, columns=list("012")).assign(**{"1": [None, None, "x", None]}),
        "polars": lambda: pl.DataFrame({str(j): X[:, j] for j in range(3)}),
        "csr": lambda: sparse.csr_array((X[rows, columns], (rows, columns)), X.shape),
        "coo": lambda: sparse.coo_matrix((X[rows, columns], (rows, columns)), X.shape),
    }[kind]()
    display = MissingnessDisplay.from_table(table, sort=True)
    frame = display.frame()
    assert frame["column"].tolist() == ["1", "0", "2"]
    assert frame["gaps"].tolist() == [3, 1, 0]
    assert_array_equal(display.shares, np.isnan(X)[:, [1, 0, 2]])
    assert display.ax_.get_title() == "4 rows, 3 columns: 4 gaps (33.3 %)"


def test_missingness_in_bins_of_rows():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((1003, 70)) < 0.3, np.nan, 1.0)
    display = MissingnessDisplay.from_table(X, max_rows=50)
    assert display.shares.shape == (50, 70)
    assert_array_equal(display.frame()["gaps"], np.isnan(X).sum(axis=0))
    first = int(display.rows[1])
    assert_allclose(display.shares[0], np.isnan(X[:first]).mean(axis=0))
    assert len(display.figure_.axes) == 2
    assert display.ax_.get_xlabel() == "column"
    display.figure_.canvas.draw()


def test_missingness_errors_and_axes(fitted):
    _, X, _ = fitted
    _, ax = plt.subplots()
    assert MissingnessDisplay.from_table(X, ax=ax, vmax=0.5).ax_ is ax
    assert ax.get_images()[0].get_clim() == (0.0, 0.5)
    with pytest.raises(ValueError, match="nothing to draw"):
        MissingnessDisplay.from_table(np.empty((0, 3)))
    with pytest.raises(ValueError, match="rows x columns"):
        MissingnessDisplay.from_table(np.zeros(3))
    with pytest.raises(ValueError, match="max_rows=0"):
        MissingnessDisplay.from_table(X, max_rows=0)


# ---------------------------------------------------------------------- marginals


@pytest.mark.parametrize("style", ["ecdf", "histogram"])
def test_marginals_before_and_after(fitted, style):
    model, X, _ = fitted
    display = MarginalDisplay.from_estimator(model, X, columns=["a", "size", "yes"], style=style)
    frame = display.frame()
    filled = model.transform(X)
    for name in ("a", "size", "yes"):
        part = frame[frame["column"] == name].groupby("cells")["value"].apply(list)
        assert part["observed"] == X[name].dropna().tolist()
        assert part["filled"] == filled[name][X[name].isna()].tolist()
    bars = display.ax_[1]
    assert [t.get_text() for t in bars.get_xticklabels()] == SIZES
    heights = [patch.get_height() for patch in bars.patches]
    assert_allclose(heights[:3], X["size"].value_counts(normalize=True)[SIZES])
    assert_allclose(heights[3:], filled["size"].value_counts(normalize=True)[SIZES])
    assert len(display.figure_.legends) == 1
    display.figure_.canvas.draw()


def test_marginals_of_draws_and_of_the_columns_with_most_gaps(fitted):
    model, X, _ = fitted
    display = MarginalDisplay.from_estimator(model, X, draw=True, random_state=3)
    assert list(display.marginals) == X.columns.tolist()
    drawn = model.sample(X, 1, random_state=3)[0]
    assert_allclose(display.marginals["b"].filled, drawn["b"][X["b"].isna()])


def test_marginals_from_tables_of_any_imputer(fitted):
    _, X, complete = fitted
    display = MarginalDisplay.from_tables(X, complete.astype(X.dtypes.to_dict()), columns=["a", "n"])
    assert display.marginals["n"].stepped
    assert not display.marginals["a"].stepped
    with pytest.raises(ValueError, match="style='odd'"):
        MarginalDisplay.from_tables(X, X, style="odd")
    with pytest.raises(ValueError, match="the table has no gaps"):
        MarginalDisplay.from_tables(complete, complete)
    with pytest.raises(ValueError, match="give the same rows"):
        MarginalDisplay.from_tables(X, X.head(2))


def test_sparse_tables_are_drawn():
    X, full, _ = make_copula(150, 6, 1, missing=0.5, rng=2)
    table = sparse.csr_array(np.where(np.isnan(X), 0.0, X))
    model = CopulaImputer(random_state=0).fit(table)
    assert len(ImputationDisplay.from_estimator(model, table, full).frame()) == np.isnan(X).sum()
    assert len(MarginalDisplay.from_estimator(model, table, columns=[0, 1]).marginals) == 2


def test_frames_need_no_matplotlib(fitted, monkeypatch):
    display = ImputationDisplay(np.zeros(2), np.zeros(2))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert len(display.frame()) == 2
    with pytest.raises(ImportError, match=r"colspace\[plot\]"):
        display.plot()


def test_gaps_of_bins_of_unequal_size_are_counted():
    X = np.zeros((5, 2))
    X[[0, 1, 4], 0] = np.nan
    X[3, 1] = np.nan
    display = MissingnessDisplay.from_table(X, max_rows=2)
    assert sorted(display._sizes()) == [2, 3]
    assert display.frame()["gaps"].tolist() == [3, 1]
    np.testing.assert_allclose(display.frame()["share"], [0.6, 0.2])
