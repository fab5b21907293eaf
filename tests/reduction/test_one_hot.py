import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from colspace import CopulaImputer, HoleyReduction, JointReduction, load, save
from colspace.reduction._gaps_chunks import filled_by
from colspace.reduction._one_hot import one_hot_groups, summed_to_one

GAP = np.nan


def indicators(codes, levels):
    """Rows of zeros with a one; gaps where the code is below zero."""
    table = np.eye(levels)[codes]
    table[codes < 0] = GAP
    return table


def holey(n=300, seed=0):
    """Two columns of numbers around two of words, whose gaps are in the same rows but one."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    town, size = np.digitize(z[:, 0], [-0.8, 0.0, 0.8]), np.digitize(z[:, 1], [-0.5, 0.5])
    y = z[:, 0] + z[:, 1] * z[:, 2] + 0.3 * rng.standard_normal(n)
    gone = rng.random(n) < 0.2
    X = np.column_stack(
        [
            z[:, 2],
            indicators(np.where(gone, -1, town), 4),
            indicators(np.where(gone & (np.arange(n) > 5), -1, size), 3),
            z[:, 0] + rng.standard_normal(n),
        ]
    )
    return X, y


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_groups_are_runs_that_sum_to_one_where_they_are_known(shift):
    X, _ = holey()
    assert one_hot_groups(X) == [slice(1, 5), slice(5, 8)]
    assert one_hot_groups(pd.DataFrame(X)) == [slice(1, 5), slice(5, 8)]
    same = np.column_stack([X[:, 1:5], np.where(np.isnan(X[:, [1]]), GAP, X[:, 5:8])])
    assert one_hot_groups(same) == [slice(0, 4), slice(4, 7)]  # though all lack the same rows
    X[:, 3] += shift * 0.5
    assert one_hot_groups(X) == [slice(1, 5), slice(5, 8)][int(shift) :]


@pytest.mark.parametrize(
    "X",
    [
        np.eye(3)[[0, 1, 2, 0]],  # no gaps
        np.eye(3, dtype=int)[[0, 1, 2, 0]],
        np.array([[1, 0], [GAP, GAP], [1, 1]]),  # two ones
        np.array([[1, 0], [GAP, GAP], [0, 0]]),  # none
        np.array([[0.5, 0.5], [GAP, GAP], [1, 0]]),
        np.array([[1, 0], [GAP, 1], [0, 1]]),  # gaps elsewhere
        np.array([[1.0], [GAP], [1.0]]),  # alone
        np.full((3, 2), GAP),
    ],
    ids=str,
)
def test_other_columns_are_no_groups(X):
    assert one_hot_groups(X) == []


@pytest.mark.parametrize("make", [np.array, pd.DataFrame, pl.DataFrame], ids=["array", "pandas", "polars"])
def test_what_fills_gaps_keeps_its_proportions_and_sums_to_one(make):
    X = np.array([[9, 0, 1, 0], [GAP, GAP, GAP, GAP], [7, GAP, GAP, 0], [6, GAP, 1, GAP], [5, GAP, GAP, GAP]])
    filled = np.array([[9, 0, 1, 0], [8, 0.2, 0.4, 0.2], [7, 0.6, 0.2, 0], [6, 0.3, 1, 0.1], [5, 0, 0, -0.1]])
    wanted = [[9, 0, 1, 0], [8, 0.25, 0.5, 0.25], [7, 0.75, 0.25, 0], [6, 0, 1, 0], [5, 1 / 3, 1 / 3, 1 / 3]]
    names = (
        {}
        if make is np.array
        else ({"columns": list("abcd")} if make is pd.DataFrame else {"schema": list("abcd")})
    )
    found = summed_to_one(make(filled, **names), make(X, **names), [slice(1, 4)])
    assert isinstance(found, np.ndarray if make is np.array else make)
    assert_allclose(np.asarray(found), wanted, atol=1e-15)


def test_a_frame_keeps_its_rows_names():
    X, _ = holey()
    frame = pd.DataFrame(X, index=[f"r{i}" for i in range(len(X))]).add_prefix("c")
    found = summed_to_one(frame.fillna(0.3), frame, one_hot_groups(frame))
    assert found.index.equals(frame.index)
    assert_allclose(found.iloc[:, 1:5].sum(axis=1), 1.0)


def reduction():
    imputer = CopulaImputer(nonlinear=False, random_state=0)
    return HoleyReduction(imputer, JointReduction(2, random_state=0), n_refits=2, random_state=0)


def test_rows_with_gaps_are_no_direction_of_their_own(tmp_path):
    """Sums of indicators vary by how gaps are filled alone; scaled to their tiny variance they had loadings of tens."""
    X, y = holey()
    model = reduction().fit(X, y)
    assert model.one_hot_ == [slice(1, 5), slice(5, 8)]
    filled = filled_by(model.imputer_, X, model.one_hot_)
    for group in model.one_hot_:
        assert_allclose(filled[:, group].sum(axis=1), 1.0)
        size = model.components_[:, group] * model.scale_[group] ** 2
        assert_allclose(
            size.sum(axis=1), 0.0, atol=1e-9 * np.abs(size).max()
        )  # nothing along what never varies
    assert_allclose(model.transform(X), model.reducer_.transform(filled))
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    assert_allclose(again.transform(X), model.transform(X))
    chunks = iter([(X[:100], y[:100]), (X[100:], y[100:])])
    assert_allclose(reduction().fit(chunks).transform(X), model.transform(X), atol=1e-8)


def test_models_that_know_of_no_groups_still_embed():
    X, y = holey()
    model = reduction().fit(X, y)
    whole = model.transform(X)
    del model.one_hot_
    assert_allclose(model.transform(X), whole, atol=2.0)
