"""The default on tables that leave it little to go by."""

import warnings

import numpy as np
import pytest

from colspace import ConstantColumnWarning, DeterminedResponseWarning, JointReduction

N = 200


def table(seed=0, n=N, p=8):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 0] + 0.1 * rng.standard_normal(n), rng


def leading(model):
    return np.abs(model.components_[0])


@pytest.mark.parametrize(
    "kind", ["equal", "other units", "float32", "wide", "two responses", "Dask", "chunks"]
)
def test_a_column_that_is_y_is_named(kind):
    X, y, rng = table()
    column = {"other units": 1e6 - 3e5 * y}.get(kind, y)
    if kind == "wide":
        X = rng.standard_normal((N, 400))
    T, at = np.column_stack([X, column]), X.shape[1]
    Y = np.column_stack([rng.standard_normal(N), y]) if kind == "two responses" else y
    if kind == "float32":
        T, Y = T.astype(np.float32), T[:, -1].astype(np.float32)
    pair = (T, Y)
    if kind == "Dask":
        pair = (pytest.importorskip("dask.array").from_array(T, chunks=(50, -1)), Y)
    elif kind == "chunks":
        pair = (((T[i : i + 50], Y[i : i + 50]) for i in range(0, N, 50)),)
    with pytest.warns(DeterminedResponseWarning, match=f"column {at} determines y. .*drop it"):
        model = JointReduction(1).fit(*pair)
    if kind == "equal":
        assert leading(model).argmax() == at


def test_a_column_that_gives_the_label_is_named_and_one_that_halves_it():
    X, _, _ = table()
    code = np.arange(N) % 3
    T = np.column_stack([X[:, :2], code * 5.0, X[:, 2:4], code == 1])
    with pytest.warns(DeterminedResponseWarning) as caught:
        JointReduction(2).fit(T, np.array(list("abc"))[code])
    text = str(caught[0].message)
    assert "column 2 determines y" in text
    assert "column 5 has one value in every class of y" in text


def test_a_column_that_is_y_but_for_rounding_is_named():
    X, y, rng = table()
    with pytest.warns(DeterminedResponseWarning, match="column 8 determines y"):
        JointReduction(1).fit(np.column_stack([X, y + 1e-5 * y.std() * rng.standard_normal(N)]), y)


def test_a_column_that_nearly_is_y_is_not_named():
    X, y, rng = table()
    JointReduction(1).fit(np.column_stack([X, y + 1e-3 * rng.standard_normal(N)]), y)
    JointReduction(1).fit(X[:4], y[:4])  # so few rows that a column may well fit by chance
    JointReduction(1).fit(np.column_stack([X, y**3]), y)


@pytest.mark.parametrize("n", [2, 3, 5, 9])
@pytest.mark.parametrize("labels", [False, True])
def test_few_rows(n, labels):
    X, y, _ = table(n=n)
    response = np.array(list("abababaab"))[:n] if labels else y
    model = JointReduction(1).fit(X, response)
    assert np.isfinite(model.transform(X)).all()


def test_classes_of_one_row():
    X, _, _ = table()
    shifted = X + 3 * (np.arange(N)[:, None] < 100) * np.eye(8)[3]
    model = JointReduction(2).fit(shifted, np.array(["a"] * 100 + ["b"] * 99 + ["c"]))
    assert leading(model).argmax() == 3
    assert np.isfinite(JointReduction(2).fit(X[:10], np.array(list("abcdefghij"))).components_).all()


@pytest.mark.parametrize("distinct", [2, 3, 7])
def test_copies_of_few_rows(distinct):
    X, y, _ = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeterminedResponseWarning)
        model = JointReduction(1).fit(np.repeat(X[:distinct], 30, axis=0), np.repeat(y[:distinct], 30))
    assert np.corrcoef(model.transform(X[:distinct])[:, 0], y[:distinct])[0, 1] ** 2 > 0.5
    with pytest.warns(ConstantColumnWarning):
        same = JointReduction(1).fit(np.repeat(X[:1], 30, axis=0), y[:30])
    assert not same.components_.any()


def test_responses_of_rank_one_are_one_response():
    X, y, _ = table()
    one, three = JointReduction(1).fit(X, y), JointReduction(1).fit(X, np.outer(y, [1.0, 2.0, -3.0]))
    a, b = leading(one), leading(three)
    assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 1 - 1e-6


def test_blocks_of_one_column_and_more_blocks_than_rows():
    X, y, rng = table()
    names = {str(i): [i] for i in range(8)}
    model = JointReduction(1, blocks=names).fit(X, y)
    for found, column in zip(model.transform(X).T, X.T, strict=True):
        assert abs(np.corrcoef(found, column)[0, 1]) > 1 - 1e-9
    JointReduction(1, blocks=names).fit(X[:6], y[:6])
    many = {str(i): [2 * i, 2 * i + 1] for i in range(20)}
    wide = rng.standard_normal((10, 40))
    assert np.isfinite(
        JointReduction(1, blocks=many).fit(wide, wide[:, 0] + wide[:, 7]).transform(wide)
    ).all()


@pytest.mark.parametrize("ones", [1, 2])
def test_a_response_that_is_constant_in_most_folds_and_groups(ones):
    X, _, _ = table()
    y = np.zeros(N)
    y[:ones] = 1.5
    model = JointReduction(2).fit(X, y)
    assert np.isfinite(model.components_).all()


def test_blocks_that_are_the_same_and_a_block_without_variation():
    X, y, _ = table()
    halves = {"a": slice(0, 4), "b": slice(4, 8)}
    model = JointReduction(1, blocks=halves).fit(np.hstack([X[:, :4], X[:, :4]]), y)
    a, b = model.transform(np.hstack([X[:, :4], X[:, :4]])).T
    assert abs(np.corrcoef(a, b)[0, 1]) > 1 - 1e-9
    with pytest.warns(ConstantColumnWarning):
        flat = JointReduction(1, blocks=halves).fit(np.hstack([X[:, :4], np.ones((N, 4))]), y)
    assert not flat.loadings_["b"].any()
