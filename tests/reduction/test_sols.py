"""Structured least squares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from classics_tables import assert_same_span, correlated_table
from scipy.linalg import sqrtm
from sklearn.linear_model import LinearRegression

from colspace import (
    ConstantColumnWarning,
    StructuredOLS,
    stack_blocks,
)
from colspace.metrics import nsee


@pytest.fixture(scope="module")
def data():
    return correlated_table()


BLOCKS = {"a": [4, 0], "b": [1, 2, 5], "drop": [3]}


def test_sols_is_least_squares_in_parts(data):
    X, Y = data
    model = StructuredOLS(blocks=BLOCKS, shrinkage=None).fit(X, Y[:, 0])
    coef = LinearRegression().fit(X[:, [4, 0, 1, 2, 5]], Y[:, 0]).coef_
    assert_same_span(model.loadings_["a"], coef[:2, None], atol=1e-10)
    assert_same_span(model.loadings_["b"], coef[2:, None], atol=1e-10)
    assert model.get_feature_names_out().tolist() == ["a__0", "b__0"]
    np.testing.assert_allclose(model.transform(X).std(axis=0), 1.0)
    assert not model.components_[:, 3].any()
    whole = StructuredOLS(shrinkage=None).fit(X, Y[:, 0])
    assert_same_span(whole.components_.T, LinearRegression().fit(X, Y[:, 0]).coef_[:, None], atol=1e-10)


def by_hand(X, directions, parts, r):
    """Leading directions of each block's parts in the metric of its covariance."""
    found = []
    for columns in parts:
        root = np.real(sqrtm(np.cov(X[:, columns].T, bias=True)))
        U = np.linalg.svd(root @ directions[columns])[0]
        found.append(np.linalg.solve(root, U[:, :r]))
    return found


@pytest.mark.parametrize("q", [1, 2])
def test_sols_slices_by_hand(q, data):
    X, Y = data
    Z = X - X.mean(axis=0)
    S = Z.T @ Z / 400
    cross = []
    for y in Y.T[:q]:
        y = (y - y.mean()) / y.std()
        cross.append(Z.T @ y / 400)
        place = np.ceil((np.argsort(np.argsort(y)) + 0.5) / 400 * 3)
        for part in (np.flatnonzero(place == h) for h in (1, 2, 3)):
            cross.append(Z[part].T @ (y[part] - y[part].mean()) / 400)
    directions = np.linalg.solve(S, np.column_stack(cross))
    model = StructuredOLS(2, blocks={"a": [4, 0, 3], "b": [1, 2, 5]}, n_slices=3, shrinkage=None).fit(
        X, Y[:, :q]
    )
    assert model.n_directions_ == 4 * q
    for L, expected in zip(
        model.loadings_.values(), by_hand(X, directions, ([4, 0, 3], [1, 2, 5]), 2), strict=True
    ):
        assert_same_span(L, expected, atol=1e-9)


def test_sols_groups_by_hand(data):
    X, Y = data
    groups = np.array(["u", "v", "w"])[np.digitize(X[:, 0], [1.5, 2.5])]
    X = X + 5.0 * (groups == "v")[:, None]
    R, y = X.copy(), Y[:, 0].copy()
    for g in "uvw":
        R[groups == g] -= X[groups == g].mean(axis=0)
        y[groups == g] -= Y[groups == g, 0].mean()
    cross = np.column_stack([R[groups == g].T @ y[groups == g] for g in "uvw"])
    directions = np.linalg.solve(R.T @ R, cross)
    blocks = {"a": [4, 0, 3], "b": [1, 2, 5]}
    model = StructuredOLS(2, blocks=blocks, shrinkage=None).fit(X, Y[:, 0], groups=groups)
    assert model.n_directions_ == 3
    for L, expected in zip(model.loadings_.values(), by_hand(R, directions, blocks.values(), 2), strict=True):
        assert_same_span(L, expected, atol=1e-9)
    np.testing.assert_allclose(
        StructuredOLS(2, blocks=blocks, shrinkage=None).fit_transform(X, Y[:, 0], groups=groups),
        model.transform(X),
    )


def test_sols_two_responses_are_two_directions(data):
    X, Y = data
    model = StructuredOLS(2, shrinkage=None).fit(X, Y)
    assert_same_span(model.components_.T, LinearRegression().fit(X, Y).coef_.T, atol=1e-10)


def test_sols_too_many_directions(data):
    X, Y = data
    with pytest.raises(ValueError, match=r"n_components=2 is more than the 1 least-squares.*raise n_slices"):
        StructuredOLS(2).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="more than the 2 columns of block 'a'"):
        StructuredOLS(3, blocks=BLOCKS, n_slices=5).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="more than the 1 least-squares"):  # y does not vary within slices
        StructuredOLS(2, n_slices=5, response="numbers").fit(X, np.round(Y[:, 0]))
    with pytest.raises(ValueError, match="class labels"):
        StructuredOLS(n_slices=2).fit(X, np.where(Y[:, 0] > 0, "a", "b"))
    with pytest.raises(ValueError, match="groups contains missing"):
        StructuredOLS().fit(X, Y[:, 0], groups=np.where(X[:, 0] > 0, 1.0, np.nan))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        StructuredOLS().fit(X, Y[:, 0], groups=np.ones(3))
    positive = Y[:, 0] > 0
    split = np.column_stack([X, positive])  # constant within groups
    with pytest.warns(ConstantColumnWarning), pytest.raises(ValueError, match=r"constant column.*\[6\]"):
        StructuredOLS(shrinkage=0.0).fit(split, Y[:, 0], groups=positive)
    with pytest.warns(ConstantColumnWarning, match="6"):
        model = StructuredOLS().fit(split, Y[:, 0], groups=positive)
    assert abs(model.components_[0, 6]) < 1e-12


def test_sols_prefix_and_stack(data):
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"{b}__{i}" for b in "ab" for i in range(3)])
    by_prefix = StructuredOLS(blocks="prefix").fit(frame, Y[:, 0])
    stacked, blocks = stack_blocks([X[:, :3], X[:, 3:]])
    np.testing.assert_allclose(
        by_prefix.transform(frame), StructuredOLS(blocks=blocks).fit_transform(stacked, Y[:, 0])
    )


def test_sols_recovery():
    """Groups with different signs of one direction: the whole sees nothing, groups do."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6))
    groups = rng.integers(2, size=4000)
    y = np.where(groups, 1, -1) * (X[:, 0] + X[:, 3]) + 0.5 * rng.standard_normal(4000)
    blocks = {"a": slice(0, 3), "b": slice(3, 6)}
    truth = {"a": np.eye(3)[:, 0], "b": np.eye(3)[:, 0]}
    assert nsee(truth, StructuredOLS(blocks=blocks).fit(X, y, groups=groups).loadings_) < 0.05
    # without groups the two slopes cancel and only noise is left
    assert np.max([s[0] for s in StructuredOLS(blocks=blocks).fit(X, y).singular_values_.values()]) < 0.1
