"""Columns from an embedding: least squares of the columns on the scores, and nothing else."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression

from colspace import (
    HoleyReduction,
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
)

BLOCKS = {"a": [0, 3, 5], "b": [1, 2, 4]}


def table(n=300, p=6, rng=0):
    rng = np.random.default_rng(rng)
    X = rng.gamma(2.0, size=(n, p)) @ rng.normal(size=(p, p)) * 10.0 ** rng.integers(-2, 3, size=p)
    z = (X - X.mean(0)) / X.std(0)
    return X, z[:, 0] + z[:, 1] * z[:, 2] + 0.3 * rng.normal(size=n)


def least_squares(scores, X, weights=None):
    return LinearRegression().fit(scores, X, weights).predict(scores)


ONE_BLOCK = [
    JointReduction(2),
    JointReduction(2, moments="all"),
    JointReduction(1, moments="linear"),
    JointReduction(2, moments="all", solver="randomized", random_state=0),
    JointReduction(2, moments="all", whiten="diagonal", n_selected=3),
    SteinReduction(1),
    SteinReduction(2, order=2, standardize=False, score_model="gaussian"),
    SteinReductionCV(1),
    PrincipalHessian(2),
    SlicedInverse(2),
    SlicedAverage(2),
    StructuredOLS(1),
    ReducedRank(1),
    HoleyReduction(reducer=JointReduction(2), n_refits=2),
]


@pytest.mark.parametrize("model", ONE_BLOCK, ids=lambda m: repr(m).replace("\n", ""))
def test_is_least_squares_on_the_scores(model):
    X, y = table()
    scores = model.fit(X, y).transform(X)
    np.testing.assert_allclose(
        model.inverse_transform(scores), least_squares(scores, X), rtol=1e-6, atol=1e-8 * X.std()
    )


@pytest.mark.parametrize(
    "model",
    [
        JointReduction(2, blocks=BLOCKS),
        JointReduction(2, blocks=BLOCKS, moments="all"),
        JointReduction(2, blocks=BLOCKS, moments="tensor"),
        StructuredOLS(1, blocks=BLOCKS),
    ],
    ids=["auto", "all", "tensor", "sols"],
)
def test_each_block_from_its_own_directions(model):
    X, y = table()
    scores = model.fit(X, y).transform(X)
    r = scores.shape[1] // 2
    found = model.inverse_transform(scores)
    for b, columns in enumerate(BLOCKS.values()):
        expected = least_squares(scores[:, b * r : (b + 1) * r], X[:, columns])
        np.testing.assert_allclose(found[:, columns], expected, rtol=1e-6, atol=1e-8 * X.std())


@pytest.mark.parametrize(
    "model",
    [
        JointReduction(2),
        JointReduction(2, moments="all", shrinkage="auto"),
        SlicedInverse(2),
        SteinReduction(1),
        PrincipalHessian(2),
        StructuredOLS(1),
        ReducedRank(1, alpha=0.1),
    ],
    ids=lambda m: type(m).__name__ + str(getattr(m, "moments", "")),
)
@pytest.mark.parametrize("weighted", [False, True])
def test_wide_tables(model, weighted):
    X, y = table(25, 40)
    weights = np.arange(1.0, 26.0) if weighted else None
    scores = model.fit(X, y, sample_weight=weights).transform(X)
    expected = least_squares(scores, X, weights)
    np.testing.assert_allclose(model.inverse_transform(scores), expected, rtol=1e-5, atol=1e-6 * X.std())


def test_wide_blocks_along_leading_axes():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(40, 4))
    views = [factor @ rng.normal(size=(4, 120)) + rng.normal(size=(40, 120)) for _ in range(3)]
    y = (factor[:, 0] > 0).astype(int).astype(str)
    blocks = {str(b): slice(120 * b, 120 * b + 120) for b in range(3)}
    X = np.hstack(views)
    model = JointReduction(2, blocks=blocks).fit(X, y)
    assert min(model.n_axes_.values()) < 39
    scores = model.transform(X)
    found = model.inverse_transform(scores)
    for b in range(3):
        part = slice(120 * b, 120 * b + 120)
        expected = least_squares(scores[:, 2 * b : 2 * b + 2], X[:, part])
        np.testing.assert_allclose(found[:, part], expected, rtol=1e-5, atol=1e-6)


def test_as_many_directions_as_columns_give_the_columns():
    X, y = table()
    model = JointReduction(6).fit(X, y)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, rtol=1e-6, atol=1e-6 * X.std())


def test_sparse_chunks_and_stream():
    X, y = table()
    X[np.abs(X) < np.abs(X).mean(0)] = 0.0
    scores = JointReduction(2, moments="all").fit_transform(X, y)
    expected = least_squares(scores, X)
    csr = JointReduction(2, moments="all").fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(csr.inverse_transform(scores), expected, rtol=1e-6, atol=1e-8 * X.std())
    stream = JointReduction(2, moments="all")
    for i in range(0, 300, 100):
        stream.partial_fit(X[i : i + 100], y[i : i + 100])
    np.testing.assert_allclose(stream.inverse_transform(scores), expected, rtol=1e-6, atol=1e-8 * X.std())


def test_a_constant_column_and_scores_that_repeat():
    X, y = table()
    X[:, 3] = 7.0
    with pytest.warns(UserWarning, match="constant"):
        model = SlicedInverse(6).fit(X, y)
    found = model.inverse_transform(model.transform(X))
    np.testing.assert_allclose(found, X, rtol=1e-5, atol=1e-6 * X.std())


def test_what_cannot_be_rebuilt_says_so():
    X, y = table()
    model = JointReduction(2, moments="all", whiten="diagonal", solver="randomized", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="solver='exact'"):
        model.inverse_transform(model.transform(X))
    model = JointReduction(2).fit(X, y)
    with pytest.raises(
        ValueError, match=r"an embedding of 2 column\(s\) is rebuilt, but X has shape \(300, 6\)"
    ):
        model.inverse_transform(X)


def test_single_precision_and_frames():
    pd = pytest.importorskip("pandas")
    X, y = table()
    model = JointReduction(2).fit(X.astype(np.float32), y)
    assert model.inverse_transform(model.transform(X.astype(np.float32))).dtype == np.float32
    model = JointReduction(2).set_output(transform="pandas").fit(pd.DataFrame(X), y)
    scores = model.transform(pd.DataFrame(X))
    np.testing.assert_allclose(
        model.inverse_transform(scores), least_squares(scores.to_numpy(), X), rtol=1e-6, atol=1e-8 * X.std()
    )
