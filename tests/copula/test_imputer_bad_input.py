"""What CopulaImputer refuses, and what it warns of."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from colspace import ConstantColumnWarning, CopulaImputer
from colspace.copula import _imputer


def test_constant_columns_are_named_and_filled(mixed):
    X = mixed[1][:, :5].copy()
    X[:, 3] = np.where(np.isnan(X[:, 3]), np.nan, 7.0)
    with pytest.warns(ConstantColumnWarning, match="3"):
        model = CopulaImputer(2, random_state=0).fit(X)
    assert (model.transform(X)[:, 3] == 7.0).all()
    assert model.kinds_[3] == "constant"
    assert (model.loadings_[3] == 0).all()
    lower, upper = model.interval(X)
    assert (lower[:, 3] == upper[:, 3]).all()
    assert np.isnan(model.reliability(X)[:, 3]).all()
    assert (model.probability_within(X)[:, 3] == 1).all()


def test_rows_and_columns_without_values(mixed, fitted):
    X = mixed[1].copy()
    X[5] = np.nan
    model = CopulaImputer(2, random_state=0).fit(X)
    filled = model.transform(X)
    assert np.isfinite(filled[5]).all()
    assert abs(ndtr(model.latent(X)[5]) - 0.5).max() < 1e-9
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="without an observed value"):
        CopulaImputer().fit(X)
    with pytest.raises(NotFittedError):
        CopulaImputer().transform(X)
    assert fitted.transform(np.full((1, 12), np.nan)).shape == (1, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 12}, "must be less than"),
        ({"n_components": 0}, "n_components"),
        ({"kinds": "ordered"}, "ordinal"),
        ({"kinds": {3: "binary"}}, "binary"),
        ({"kinds": {99: "ordinal"}}, "99"),
        ({"method": "em"}, "method"),
        ({"noise": "row"}, "noise"),
    ],
)
def test_bad_parameters(mixed, options, message):
    with pytest.raises(ValueError, match=message):
        CopulaImputer(**options).fit(mixed[1])


def test_bad_values(mixed, fitted, frame):
    X = mixed[1]
    with pytest.raises(ValueError, match="infinit"):
        CopulaImputer().fit(np.where(np.arange(12) == 2, np.inf, X))
    new = X[:2].copy()
    new[0, 4] = 17.0
    with pytest.raises(ValueError, match="17"):
        fitted.transform(new)
    new = X[:2].copy()
    new[0, 10] = -3.0
    with pytest.raises(ValueError, match="limit"):
        fitted.transform(new)
    with pytest.raises(ValueError, match="'word' cannot be 'count': its values are words without an order"):
        CopulaImputer(kinds={"word": "count"}).fit(frame)
    twice = pd.DataFrame(X[:, :3], columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="twice"):
        CopulaImputer().fit(twice)
    with pytest.raises(ValueError, match="n_samples"):
        CopulaImputer().fit(X[:1])
    with pytest.raises(ValueError, match="level"):
        fitted.interval(X, 95)
    with pytest.raises(ValueError, match="d="):
        fitted.probability_within(X, -1)
    with pytest.raises(ValueError, match="measure"):
        fitted.reliability(X, measure="best")
    with pytest.raises(ValueError, match="n_samples"):
        fitted.sample(X, 0)


def test_it_says_when_it_has_not_converged(mixed):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        CopulaImputer(2, max_iter=1).fit(mixed[1])


def test_an_interrupted_fit_changes_nothing(mixed, fitted, monkeypatch):
    model = clone(fitted).fit(mixed[1])
    before = model.transform(mixed[1])

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_imputer, "fit_copula", stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(mixed[1][:, :10])
    np.testing.assert_array_equal(model.transform(mixed[1]), before)


def test_independent_columns_are_no_trouble():
    X = np.random.default_rng(0).standard_normal((50, 4))
    X[::3, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CopulaImputer(random_state=0).fit(X)
    assert np.abs(model.correlation_ - np.eye(4)).max() < 0.6
    assert np.isfinite(model.transform(X)).all()
