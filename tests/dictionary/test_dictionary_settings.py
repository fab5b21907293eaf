"""Automatic settings, weights, thresholds and the path of xi, each against its formula."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from colspace import SupervisedDictionaryClassifier as Classifier
from colspace import SupervisedDictionaryRegressor as Regressor
from colspace.dictionary._thresholds import best_threshold


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    keep = np.isin(y, [3, 5, 8])
    return X[keep][:150] / 16.0, y[keep][:150]


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).integers(0, 4, 150).astype(float)


def test_automatic_terms_are_those_of_the_docstring(digits, weights):
    X, y = digits
    length = np.average(np.sum(X**2, axis=1), weights=weights)
    fit = Classifier(2, class_weight="balanced", random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose([fit.xi_, fit.l2_], [np.log(3) / length, 0.01 * length])
    even = {k: weights.sum() / (3 * weights[y == k].sum()) for k in (3, 5, 8)}
    same = Classifier(2, class_weight=even, random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(same.coef_, fit.coef_, rtol=1e-6)
    two = np.column_stack([5.0 * X[:, 20], y])
    fit = Regressor(2, model="feature").fit(X, two, sample_weight=weights)
    spread = two - np.average(two, axis=0, weights=weights)
    variance = np.average(np.sum(spread**2, axis=1), weights=weights)
    np.testing.assert_allclose([fit.xi_, fit.l2_], [variance / length, 0.01])
    fit = Regressor(2, fit_intercept=False).fit(X, two)
    assert np.all(fit.intercept_ == 0.0)
    level = np.mean(np.sum(two**2, axis=1))
    np.testing.assert_allclose(fit.xi_, level / np.mean(np.sum(X**2, axis=1)))


@pytest.mark.parametrize("E", [Classifier, Regressor])
def test_weights_count_as_repetitions(digits, weights, E):
    X, y = digits
    rows = np.repeat(np.arange(150), weights.astype(int))
    options = {"class_weight": "balanced", "threshold": "youden"} if E is Classifier else {}
    y = y == 3 if E is Classifier else y + X[:, 20]
    one = E(2, random_state=0, **options).fit(X, y, sample_weight=weights)
    many = E(2, random_state=0, **options).fit(X[rows], y[rows])
    for name in ("objective_", "xi_", "reconstruction_error_"):
        np.testing.assert_allclose(getattr(one, name), getattr(many, name), rtol=1e-6)
    np.testing.assert_allclose(one.predict(X), many.predict(X), atol=1e-4)
    H = one.transform(X[rows])
    left = np.sum((X[rows] - H @ one.components_) ** 2) / np.sum(X[rows] ** 2)
    np.testing.assert_allclose(one.reconstruction_error_, left, rtol=1e-6)
    if E is Classifier:
        np.testing.assert_allclose(one.threshold_, many.threshold_, rtol=1e-3)


def test_the_path_goes_down_from_the_largest_xi(digits, monkeypatch):
    X, y = digits
    seen = []
    plain = Classifier._fit

    def noted(self, X, y, sample_weight=None, start=None):
        seen.append((self.xi, start is None))
        return plain(self, X, y, sample_weight, start)

    monkeypatch.setattr(Classifier, "_fit", noted)
    path = Classifier(2).xi_path(X, y, [1.0, 10.0, 0.1])
    assert seen == [(10.0, True), (1.0, False), (0.1, False)]
    proba = path.models[1].predict_proba(X)[np.arange(150), np.searchsorted([3, 5, 8], y)]
    np.testing.assert_allclose(path.label_loss[1], -np.mean(np.log(proba)))
    np.testing.assert_allclose(path.score[1], path.models[1].score(X, y))
    automatic = Classifier(2).fit(X, y).xi_
    np.testing.assert_allclose(Classifier(2).xi_path(X, y).xi[[0, -1]], automatic * np.array([1e-3, 100.0]))
    two = np.column_stack([y, X[:, 20]])
    path = Regressor(2).xi_path(X, two, [1.0])
    loss = np.mean(np.sum((two - path.models[0].predict(X)) ** 2, axis=1))
    np.testing.assert_allclose(path.label_loss, [loss])


def test_a_threshold_that_no_row_deserves():
    truth = np.array([1, 1, 0, 0])
    p = np.array([0.1, 0.2, 0.3, 0.4])  # the wrong way round: all or none is best
    assert best_threshold("youden", truth, p) == 0.05


def test_one_weight_for_all_rows_is_no_weight(digits):
    X, y = digits
    y = y == 3
    for cv in (None, 3):
        model = Classifier(2, threshold="f1", threshold_cv=cv, random_state=0)
        assert model.fit(X, y, sample_weight=1.0).threshold_ == model.fit(X, y).threshold_


@pytest.mark.parametrize("kind", ["default", "pandas", "polars"])
def test_rebuilt_rows_are_an_array_whatever_the_codes_are(digits, kind):
    X, y = digits
    fit = Classifier(3, random_state=0).fit(X, y).set_output(transform=kind)
    rebuilt = fit.reconstruct(X[:4])
    assert isinstance(rebuilt, np.ndarray)
    np.testing.assert_allclose(rebuilt, np.asarray(fit.transform(X[:4])) @ fit.components_)
