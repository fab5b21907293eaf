"""Wide tables: columns are divided by the deviation that the response leaves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression, RidgeCV

from colspace import JointReduction
from colspace.reduction._source import Source
from colspace.reduction._span import own_share


def shares(X, y, weights=None, response=None):
    source = Source.of(X, y, response, "example", weights=weights)
    dense = X.toarray() if sparse.issparse(X) else X
    w = np.ones(len(y)) if weights is None else weights
    mean = np.average(dense, axis=0, weights=w)
    return own_share(source, mean, np.sqrt(np.average((dense - mean) ** 2, axis=0, weights=w)))


def by_hand(X, Y):
    """1 - max(0, (R² - c)/(1 - c)), R² of least squares of each column on the responses."""
    design = np.column_stack([np.ones(len(X)), Y])
    rest = X - design @ np.linalg.lstsq(design, X, rcond=None)[0]
    r2 = 1.0 - rest.var(axis=0) / X.var(axis=0)
    chance = (np.linalg.matrix_rank(Y - Y.mean(axis=0)) + np.log(X.shape[1])) / len(X)
    return 1.0 - np.maximum(0.0, (r2 - chance) / (1.0 - chance))


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 90))
    groups = rng.integers(3, size=60)
    X[:, :5] += 1.5 * groups[:, None]
    X[:, 5:8] += 3.0 * (groups == 1)[:, None]
    return X * 10.0 ** rng.integers(-6, 6, 90), groups


def test_shares_are_those_of_least_squares(table):
    X, groups = table
    labels = np.array(list("abc"))[groups]
    indicators = np.eye(3)[groups]
    found = shares(X, labels)
    assert_allclose(found, by_hand(X, indicators), rtol=1e-9)
    assert found[:8].max() < 0.75
    assert (found[8:] > 0.9).all()
    assert (found[8:] == 1.0).mean() > 0.9
    numbers = np.column_stack([X[:, 0] + X[:, 5], X[:, 0] - X[:, 30]])
    assert_allclose(shares(X, numbers), np.maximum(by_hand(X, numbers), 0.02), rtol=1e-9)
    assert_allclose(shares(X, 1e200 * numbers), shares(X, numbers), rtol=1e-9)
    assert_allclose(shares(sparse.csr_array(X), labels), found, rtol=1e-9)


def test_a_weight_of_two_is_two_rows(table):
    X, groups = table
    twice = np.repeat(np.arange(60), 1 + (np.arange(60) % 2))
    weights = 1.0 + np.arange(60) % 2
    y = groups + 0.1 * np.sin(np.arange(60))
    assert_allclose(shares(X, y, weights), shares(X[twice], y[twice]), rtol=1e-9)


def test_chance_changes_no_column():
    """The largest of thousands of noises is no sign."""
    rng = np.random.default_rng(0)
    for n, p in ((30, 2000), (100, 3000)):
        found = shares(rng.standard_normal((n, p)), rng.standard_normal(n))
        assert (found == 1.0).mean() > 0.99
        assert found.min() > 0.8
    assert (shares(rng.standard_normal((5, 2000)), rng.standard_normal(5)) == 1.0).all()


def test_the_linear_direction_is_that_of_a_ridge_on_such_columns():
    """Closed form: D⁻¹ (D⁻¹ S D⁻¹ + λ)⁻¹ D⁻¹ c."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((50, 80)) * np.geomspace(0.1, 10, 80)
    y = X[:, 0] / X[:, 0].std() + X[:, 1] / X[:, 1].std() + 0.3 * rng.standard_normal(50)
    model = JointReduction(1, n_groups=None).fit(X, y)
    assert model.parts_["gradients"] == model.parts_["moments"] == 0.0
    Z = X - X.mean(axis=0)
    D = X.std(axis=0) * np.sqrt(by_hand(X, y[:, None]))
    S, c = Z.T @ Z / 50, Z.T @ (y - y.mean()) / 50
    (ridge,) = model.ridge_.values()
    loadings = np.ravel(model.components_)
    cosines = []
    for d in (D, X.std(axis=0)):
        expected = np.linalg.solve(S / d / d[:, None] + ridge * np.eye(80), c / d) / d
        pair = np.array([loadings, expected]) * X.std(axis=0)
        cosines.append(abs(pair[0] @ pair[1]) / np.prod(np.linalg.norm(pair, axis=1)))
    assert cosines[0] > 1 - 1e-5 > 1 - 1e-3 > cosines[1]


@pytest.mark.parametrize("labels", [True, False])
def test_few_columns_that_tell_are_found_among_many(labels):
    """Rows left out, against a ridge on columns of one variance."""
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((480, 500))
        if labels:
            y = rng.integers(3, size=480)
            X[:, :6] = 0.5 * X[:, :6] + np.eye(3)[y][:, [0, 1, 2, 0, 1, 2]]
            reader, plain = LogisticRegression(), RidgeCV(np.logspace(-2, 5, 15))
            names = np.array(list("abc"))[y]
            plain.fit(X[:80], np.eye(3)[y[:80]])
            told = np.mean(np.argmax(plain.predict(X[80:]), axis=1) == y[80:])
        else:
            names = X[:, :3].sum(axis=1) + 0.5 * rng.standard_normal(480)
            reader, plain = RidgeCV(), RidgeCV(np.logspace(-2, 5, 15))
            told = plain.fit(X[:80], names[:80]).score(X[80:], names[80:])
        model = JointReduction(2 if labels else 1, n_groups=None).fit(X[:80], names[:80])
        reader.fit(model.transform(X[:80]), names[:80])
        gains.append(reader.score(model.transform(X[80:]), names[80:]) - told)
    assert np.mean(gains) > 0.05
